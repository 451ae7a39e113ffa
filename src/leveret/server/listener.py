"""A listener: the sockets of one address, and whoever is accepted from them.

(1) It accepts while its share of the file descriptors is not used up; the rest is for files, and for other listeners. Then
    clients wait in the system's backlog, and are accepted when there are descriptors again. While somebody waits, that
    is said once a second.
(2) Whoever was accepted is known to its protocol when `close` returns, to be closed too.

The loops' own servers do neither: where descriptors are used up, uvloop's tries again at once and tells of each try.
"""

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Callable, Coroutine
from errno import EAFNOSUPPORT, EMFILE
from pathlib import Path
from typing import Any

# RabbitMQ: `sockets_limit` of a node is this share of its descriptors, less two.
AMQP_SHARE = 0.9
# Whoever looks after a broker that has no descriptors left for clients must get through.
HTTP_SHARE = 0.95
CONTROL_SHARE = 0.97
BACKLOG = 1024
# How many are accepted before others have their turn.
BATCH = 64
WAIT_S = 1.0
UNLIMITED = 1 << 30

log = logging.getLogger("leveret.server")

Factory = Callable[[], asyncio.BaseProtocol]


class Listener:
    """Accepts from sockets that are bound, each client with a protocol of its own."""

    def __init__(self, sockets: list[socket.socket], factory: Factory, share: float) -> None:
        self._factory = factory
        self._share = share
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._waiting: dict[socket.socket, asyncio.TimerHandle] = {}
        self.sockets = sockets
        for listening in sockets:
            listening.setblocking(False)
            listening.listen(BACKLOG)
            self._loop.add_reader(listening, self._accept, listening)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the first."""
        host, port = self.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Accept nobody any more."""
        for timer in self._waiting.values():
            timer.cancel()
        for listening in self.sockets:
            self._loop.remove_reader(listening)
        if self._arriving:
            await asyncio.wait(self._arriving)
        for listening in self.sockets:
            listening.close()
        self.sockets = []

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BATCH):
            try:
                check_descriptors(listening.fileno(), self._share)
                client, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait(listening, error)
                return
            self._begin(self._arrive(client))

    def _wait(self, listening: socket.socket, error: OSError) -> None:
        """Let who comes wait: tried again at once, the same would happen again."""
        log.warning("not accepting connections on %s for now: %s", shown(listening), error.strerror)
        self._loop.remove_reader(listening)
        self._waiting[listening] = self._loop.call_later(WAIT_S, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        del self._waiting[listening]
        self._loop.add_reader(listening, self._accept, listening)

    def _begin(self, arriving: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(arriving)
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _arrive(self, client: socket.socket) -> None:
        client.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._factory, client)
        except OSError as error:
            client.close()
            log.debug("a client disconnected before it could be served: %s", error)
        except BaseException:
            client.close()
            raise


async def listen(host: str, port: int, factory: Factory, share: float) -> Listener:
    """Listen on all addresses that a host has; OSError if that cannot be."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sockets.append(socket.socket(family, kind, protocol))
            except OSError as error:
                # A machine may have an address of a family that it does not know.
                if error.errno != EAFNOSUPPORT:
                    raise
                continue
            bind(sockets[-1], address)
        if not sockets:
            raise OSError(EAFNOSUPPORT, os.strerror(EAFNOSUPPORT))
        return Listener(sockets, factory, share)
    except OSError as error:
        for listening in sockets:
            listening.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0).lower()}") from None


def listen_at(path: Path, factory: Factory, share: float) -> Listener:
    """Listen at a path, where only the owner may connect; a socket that is there goes."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(str(path))
        return Listener([listening], factory, share)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(mask)


def bind(listening: socket.socket, address: Any) -> None:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        # So that the same port can be had for IPv4.
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listening.bind(address)


def check_descriptors(descriptor: int, share: float) -> None:
    """OSError if so many descriptors are in use that there should be no more connections; any one is needed to see that."""
    # The system gives the lowest number that is free.
    lowest = os.dup(descriptor)
    os.close(lowest)
    most = connections_limit(share)
    if lowest >= most:
        raise OSError(EMFILE, f"file descriptor limit reached, {most} of {files_limit()} are in use")


def files_limit() -> int:
    """How many files and sockets the process may have open."""
    found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return UNLIMITED if found == resource.RLIM_INFINITY else found


def shown(listening: socket.socket) -> str:
    name = listening.getsockname()
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)


def connections_limit(share: float = AMQP_SHARE) -> int:
    """How many descriptors may be in use when a connection is accepted."""
    return int(files_limit() * share) - 2
