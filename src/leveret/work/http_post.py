"""One POST of a body to a URL. Its time limit covers everything: lookup, connecting, TLS, sending, reading."""

import base64
import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

ANSWER_MAX = 1000
# How long a looked-up address is used.
LOOKUP_GOOD_S = 1.0

# As socket.getaddrinfo returns them.
SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, SocketAddress]

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class HttpPost:
    """A URL to POST to. `shown` is the URL without what may be secret in it: a password, a query."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._tls else 80)
        self._lookup = AddressLookup(self._host, self._port)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._login = login_of(parts)
        place = parts.netloc.rpartition("@")[2]
        self.shown = f"{parts.scheme}://{place}{parts.path}"

    def send(self, body: bytes, headers: Mapping[str, str], time_limit_s: float) -> tuple[int, str]:
        """The answer's status and the start of its body; raises OSError (TimeoutError is one) or HTTPException."""
        deadline = time.monotonic() + time_limit_s

        def left_s() -> float:
            found = deadline - time.monotonic()
            if found <= 0:
                raise TimeoutError
            return found

        connection = http.client.HTTPConnection(self._host, self._port)
        sock = connected(self._lookup.addresses(left_s()), left_s)
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self._host, do_handshake_on_connect=False)
                sock.settimeout(left_s())
                sock.do_handshake()
            connection.sock = TimedSocket(sock, left_s)
            connection.request("POST", self._target, body, {**self._login, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read(ANSWER_MAX).decode(errors="replace").strip()
        finally:
            connection.close()
            sock.close()


class AddressLookup:
    """The addresses of a host, looked up in a thread: the system may take minutes for that, and cannot be interrupted.

    Only one lookup is under way at a time; others wait for its result, which is used for LOOKUP_GOOD_S.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._lock = threading.Lock()
        self._found: Future[Sequence[Address]] | None = None
        self._known_at = -LOOKUP_GOOD_S

    def addresses(self, time_limit_s: float) -> Sequence[Address]:
        """The addresses; raises OSError (TimeoutError is one) if none are found in this time."""
        with self._lock:
            found = self._found
            if found is None or (found.done() and time.monotonic() >= self._known_at + LOOKUP_GOOD_S):
                found = self._found = Future()
                threading.Thread(target=self._look, args=(found,), name=f"looking up {self._host}", daemon=True).start()
        return found.result(time_limit_s)

    def _look(self, found: Future[Sequence[Address]]) -> None:
        try:
            result = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except BaseException as error:
            self._known_at = -LOOKUP_GOOD_S
            found.set_exception(error)
        else:
            self._known_at = time.monotonic()
            found.set_result(result)


def connected(addresses: Sequence[Address], left_s: Callable[[], float]) -> socket.socket:
    """Connect to the first address that answers in the time that is left; raises the last one's OSError if none does."""
    failure = OSError("no address")
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left_s())
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            failure = error
            left_s()
    raise failure


class TimedSocket:
    """What `http.client` needs of a socket; each step has only the time that is left of the whole."""

    def __init__(self, sock: socket.socket, left_s: Callable[[], float]) -> None:
        self._sock = sock
        self._left_s = left_s

    def sendall(self, octets: bytes) -> None:
        self._sock.settimeout(self._left_s())
        self._sock.sendall(octets)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(TimedReader(self._sock, self._left_s))

    def close(self) -> None:
        """`HttpPost.send` closes the socket."""


class TimedReader(io.RawIOBase):
    """Reads a socket in the time that is left."""

    def __init__(self, sock: socket.socket, left_s: Callable[[], float]) -> None:
        self._sock = sock
        self._left_s = left_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        self._sock.settimeout(self._left_s())
        return self._sock.recv_into(buffer)


def login_of(parts: SplitResult) -> dict[str, str]:
    """The Authorization header for the user and password of a URL."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
