"""How long an HTTP client may take: for the head of a request, for its body, to read the answer, and between requests.

  waiting    the head of the first request is complete in time from the beginning, that of each further one from its
             first octet; before that a client may be silent for a while
  reading    a body goes on coming, and is there in time
  answering  the client goes on reading what it was answered; how long we take for it does not matter

A client that takes longer is cut off. Stands between the socket and aiohttp, which has a limit for none of this in all
of its versions.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from leveret.protocol.handshake import is_tls
from leveret.server.transport import address

WAITING, READING, ANSWERING = 0, 1, 2
# For the whole of a body, however steadily it comes.
BODY_S = 300.0

HEAD_END = b"\r\n\r\n"
TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logging.getLogger("leveret.http")


class ClientLimits:
    """In seconds: for the head of a request, and for silence. In octets: how long a head may be."""

    def __init__(self, request_ms: int, idle_ms: int, head_max: int = 1 << 16, body_max: int = 20 << 20) -> None:
        self.head_max = head_max
        self.body_max = body_max
        self.request_s = request_ms / 1000
        self.idle_s = idle_ms / 1000


class TimedClient(asyncio.Protocol):
    """One client, whose requests are the inner protocol's to answer. It is among `all_of_them` while it is connected."""

    def __init__(self, inner: asyncio.Protocol, limits: ClientLimits, all_of_them: "set[TimedClient]") -> None:
        self._inner = inner
        self._all = all_of_them
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._doing = WAITING
        # When that began, when the head of a request began, and when the client was last heard, or seen to read.
        self._since = self._heard_at = self._loop.time()
        self._head_since: float | None = self._since
        self._unsent = 0
        # Of the head that comes: octets, the last of them, whether it is complete, and whether it is the first one.
        self._head_size = 0
        self._head_rest = b""
        self._head_seen = False
        self._first = True
        self._new = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._all.add(self)
        self._inner.connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if self._new and is_tls(data) and self._transport is not None:
            peer = address(self._transport.get_extra_info("peername"))
            log.warning("%s: a client with TLS has connected to a port without TLS (HTTP)", peer)
        self._new = False
        if self._doing == WAITING and self._head_since is None:
            self._head_since = self._heard_at
            self._look()
        if not self._head_seen and self._transport is not None and self._is_too_large(data):
            self._transport.write(TOO_LARGE)
            self._transport.close()
            return
        self._inner.data_received(data)

    def _is_too_large(self, data: bytes) -> bool:
        """Whether the head of a request goes on for too long."""
        if HEAD_END in self._head_rest + data:
            self._head_seen = True
            return False
        self._head_rest = (self._head_rest + data)[1 - len(HEAD_END) :]
        self._head_size += len(data)
        # Behind a refusal the rest of a body may still come.
        return self._head_size > self._limits.head_max + (0 if self._first else self._limits.body_max)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._all.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(exc)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A request is answered in this block."""
        self._begin(ANSWERING)
        try:
            yield
        finally:
            self._head_since = None
            self._head_size, self._head_rest, self._head_seen, self._first = 0, b"", False, False
            self._begin(WAITING)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Its body is read in this block."""
        self._begin(READING)
        try:
            yield
        finally:
            self._begin(ANSWERING)

    def end_unless_answering(self) -> None:
        """Cut it off if it has asked for nothing, or not wholly: the broker stops."""
        if self._doing != ANSWERING and self._transport is not None and not self._transport.get_write_buffer_size():
            self._transport.abort()

    def _begin(self, doing: int) -> None:
        self._doing = doing
        self._since = self._heard_at = self._loop.time()
        self._look()

    def _look(self) -> None:
        """Cut off a client whose time is over; look again when it may be."""
        transport = self._transport
        if transport is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        unsent = transport.get_write_buffer_size()
        if unsent != self._unsent or (self._doing == ANSWERING and not unsent):
            # It reads, or has nothing to read.
            self._heard_at = now
        self._unsent = unsent
        until = self._until(unsent)
        if until <= now:
            transport.abort()
        else:
            self._timer = self._loop.call_at(until, self._look)

    def _until(self, unsent: int) -> float:
        silent_until = self._heard_at + self._limits.idle_s
        if self._doing == READING:
            return min(silent_until, self._since + BODY_S)
        if self._doing == WAITING and self._head_since is not None and not unsent:
            return self._head_since + self._limits.request_s
        return silent_until


def client_of(transport: asyncio.BaseTransport | None) -> TimedClient | None:
    """Who is at the other end; None if it is gone."""
    return None if transport is None or transport.is_closing() else cast(TimedClient, transport.get_protocol())
