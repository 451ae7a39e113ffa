"""What tests of the cluster share: nats-servers of their own, and a proxy that puts faults between them and a client."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from leveret.cluster.engine import Engine, EngineFailed, Options, RouteTls
from leveret.cluster.nats import Address

NAMES = itertools.count(1)


def new_name() -> str:
    """A stream that nobody has had before."""
    return f"s{next(NAMES)}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Failures(list[EngineFailed]):
    """What engines have failed for."""


@contextlib.contextmanager
def one_engine(folder: Path) -> Iterator[Engine]:
    """A nats-server without others."""
    failures = Failures()
    engine = Engine(Options(folder, "n1", "tests"), failures.append)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
    assert failures == []


@contextlib.contextmanager
def engines(
    folder: Path, count: int = 3, tls: RouteTls | None = None, secrets: tuple[str, ...] = ("secret",)
) -> Iterator[list[Engine]]:
    """As many nats-servers, which know of each other."""
    ports = [free_port() for _ in range(count)]
    routes = tuple(f"127.0.0.1:{port}" for port in ports)
    failures = Failures()
    options = [
        Options(
            folder / f"n{at}", f"n{at}", "tests", secrets[at % len(secrets)], "127.0.0.1", port, routes, (f"n{at}",), tls
        )
        for at, port in enumerate(ports, 1)
    ]
    found = [Engine(one, failures.append) for one in options]
    with contextlib.ExitStack() as stack:
        for engine in found:
            engine.start()
            stack.callback(engine.stop)
        yield found
    assert failures == []


# Between a client and a server

PASS = "pass"
# It never arrives; it arrives, and its answer does not; the same, and the connection is cut.
LOSE = "lose"
LOSE_ANSWER = "lose the answer"
CUT = "cut"
# The connection is cut before it arrives.
CUT_BEFORE = "cut before"
# It is answered with 404 in place of the server.
NOT_FOUND = "not found"
# It is answered as if another message were the last one.
REFUSE = "refuse"
WRONG_SEQUENCE = b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 0"},"stream":"s","seq":0}'


class Proxy:
    """Passes on what is said to a server and what that answers, but for what `rule` says of a request by its subject."""

    def __init__(self, server: Address) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1], server.token)
        self.rule: Callable[[str], str] = lambda subject: PASS
        self.subjects: list[str] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._sockets: list[socket.socket] = [self._listener]
        self._threads[0].start()

    def once(self, part: str, what: str, times: int = 1) -> None:
        """Do this to the next requests in whose subject that is."""
        left = [times]

        def rule(subject: str) -> str:
            if part not in subject or left[0] == 0:
                return PASS
            left[0] -= 1
            return what

        self.rule = rule

    def close(self) -> None:
        # Whoever waits in accept or recv is woken by this only.
        for found in self._sockets:
            with contextlib.suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
            found.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection((self._server.host, self._server.port))
            passage = Passage(self, client, server)
            self._sockets += [client, server]
            self._threads += passage.start()


class Passage:
    """One connection through a proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        # What is done to answers, by the subjects they go to.
        self._answers: dict[bytes, str] = {}

    def start(self) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._guarded, args=(pump,), daemon=True) for pump in (self._requests, self._responses)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _guarded(self, pump: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, ValueError):
            pump()
        self._cut()

    def _cut(self) -> None:
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _requests(self) -> None:
        with self._client.makefile("rb") as read:
            while line := read.readline():
                verb, *rest = line.split()
                octets = read.read(int(rest[-1]) + 2) if verb in (b"PUB", b"HPUB") else b""
                if octets and not self._handle(rest[0].decode(), rest[1]):
                    continue
                self._server.sendall(line + octets)

    def _handle(self, subject: str, reply: bytes) -> bool:
        """Whether this request is passed on."""
        self._proxy.subjects.append(subject)
        what = self._proxy.rule(subject)
        if what == CUT_BEFORE:
            self._cut()
            raise OSError
        if what == NOT_FOUND:
            head = b"NATS/1.0 404 Message Not Found\r\n\r\n"
            self._client.sendall(b"HMSG %s 0 %d %d\r\n%s\r\n" % (reply, len(head), len(head), head))
        if what == REFUSE:
            self._client.sendall(b"MSG %s 0 %d\r\n%s\r\n" % (reply, len(WRONG_SEQUENCE), WRONG_SEQUENCE))
        if what in (LOSE_ANSWER, CUT):
            self._answers[reply] = what
        return what not in (LOSE, NOT_FOUND, REFUSE)

    def _responses(self) -> None:
        with self._server.makefile("rb") as read:
            while line := read.readline():
                verb, *rest = line.split()
                octets = read.read(int(rest[-1]) + 2) if verb in (b"MSG", b"HMSG") else b""
                what = self._answers.get(rest[0], PASS) if octets else PASS
                if what == CUT:
                    return
                if what == PASS:
                    self._client.sendall(line + octets)
