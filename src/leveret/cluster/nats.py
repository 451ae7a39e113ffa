"""A client of nats-server that waits for its answers: what a log on JetStream needs of NATS's protocol, and nothing else.

  the server   INFO json | MSG subject sid [reply] size | HMSG subject sid [reply] head-size size | PING | PONG | -ERR text
  the client   CONNECT json | SUB subject sid | PUB subject reply size | HPUB subject reply head-size size | PING | PONG
  a head       NATS/1.0 [status [text]] CRLF (name: value CRLF)* CRLF

  (1) One request at a time. Its answers come to a subject that is used once, so a late one is never taken for another's.
  (2) Whatever waits has a deadline.
  (3) A connection on which something has failed is closed; the next request makes another.
  (4) The class of an error says what is known of the outcome: Refused and Down, nothing has come of it; Unknown, it may have
      been done, or be done later, or not.

For one thread at a time but for `interrupt`, and never in the loop. Knows nothing of what is stored.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import msgspec

TIMEOUT_S = 5.0
# The server asks every two minutes who is still there. Whoever has not looked for so long looks first.
IDLE_S = 60.0
READ_SIZE = 1 << 18

HEAD = b"NATS/1.0\r\n"
LINE_END = b"\r\n"
NO_RESPONDERS, NOT_FOUND, END_OF_BATCH = 503, 404, 204
# JetStream's codes for a sequence that is not the last one.
WRONG_LAST_SEQUENCE = (10071, 10164)


class NatsError(OSError):
    """Something asked of nats-server has failed."""


class Refused(NatsError):
    """The log has gone on without us: it is not stored."""


class Unknown(NatsError):
    """No answer came in time, or the connection was lost: it may be stored, now or later, or not."""


class Down(NatsError):
    """Nobody was there to take it: it is not stored."""


class Fault(NatsError):
    """JetStream says that it cannot be done, and by which code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} (JetStream {code})")
        self.code = code


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens for clients, and what they must know."""

    host: str
    port: int
    token: str


@dataclass(slots=True)
class Received:
    """A message from the server. `status` is 0 for those that have none."""

    subject: str
    status: int
    headers: dict[str, str]
    payload: bytes


@dataclass(slots=True)
class Stored:
    """A message of a stream."""

    seq: int
    headers: dict[str, str]
    payload: bytes


class Problem(msgspec.Struct):
    """Why JetStream does not do something."""

    description: str = "an error"
    code: int = 0
    err_code: int = 0


class State(msgspec.Struct):
    """How far a stream reaches."""

    messages: int
    first_seq: int
    last_seq: int


class Replica(msgspec.Struct):
    """A server that has a copy, and is not its leader."""

    name: str


class Placed(msgspec.Struct):
    """Which servers have a stream."""

    leader: str = ""
    replicas: list[Replica] = []


class Answer(msgspec.Struct):
    """What of JetStream's answers is of use: to an append, about a stream, or that something is wrong."""

    seq: int = 0
    state: State | None = None
    cluster: Placed | None = None
    error: Problem | None = None


class Connection:
    """One socket. An OSError, TimeoutError too, says that it is of no use any more; only `receive` may be asked again."""

    def __init__(self, address: Address, inbox: str, deadline: float) -> None:
        self._buffer = bytearray()
        self.used_at = monotonic()
        self._socket = socket.create_connection((address.host, address.port), left_until(deadline))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._line(deadline)
            options = {
                "auth_token": address.token,
                "echo": False,
                "headers": True,
                "lang": "python",
                "no_responders": True,
                "pedantic": False,
                "protocol": 1,
                "verbose": False,
                "version": "0",
            }
            self.send(f"CONNECT {msgspec.json.encode(options).decode()}\r\nSUB {inbox} 0\r\n".encode(), deadline)
            self.ping(deadline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def interrupt(self) -> None:
        """Have whoever waits in another thread fail."""
        # It may have ended by itself.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def send(self, data: bytes, deadline: float) -> None:
        self._socket.settimeout(left_until(deadline))
        self._socket.sendall(data)

    def ping(self, deadline: float) -> None:
        """Return when the server has seen everything so far; what comes before that is dropped."""
        self.send(b"PING\r\n", deadline)
        while self._next(deadline) is not None:
            pass

    def receive(self, deadline: float) -> Received:
        """The next message."""
        while True:
            found = self._next(deadline)
            if found is not None:
                return found

    def _next(self, deadline: float) -> Received | None:
        """The next message, or None for a PONG."""
        while True:
            verb, *rest = self._line(deadline).split(b" ")
            if verb in (b"MSG", b"HMSG"):
                size = int(rest[len(rest) - 1])
                head_size = int(rest[len(rest) - 2]) if verb == b"HMSG" else 0
                return received(rest[0].decode(), self._octets(size, deadline), head_size)
            if verb == b"PING":
                self.send(b"PONG\r\n", deadline)
            elif verb == b"PONG":
                return None
            elif verb == b"-ERR":
                raise ConnectionError(b" ".join(rest).decode().strip("'"))

    def _line(self, deadline: float) -> bytes:
        start = 0
        while (end := self._buffer.find(LINE_END, start)) < 0:
            start = max(0, len(self._buffer) - 1)
            self._fill(deadline)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _octets(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size + 2:
            self._fill(deadline)
        found = bytes(self._buffer[:size])
        del self._buffer[: size + 2]
        return found

    def _fill(self, deadline: float) -> None:
        self._socket.settimeout(left_until(deadline))
        data = self._socket.recv(READ_SIZE)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._buffer += data
        self.used_at = monotonic()


class Client:
    """Requests to one server. `timeout_s` is how long one may take."""

    def __init__(self, address: Address, timeout_s: float = TIMEOUT_S) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._inbox = f"_INBOX.{os.urandom(12).hex()}"
        self._count = 0
        self._connection: Connection | None = None
        self._listening: list[str] = []

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """Have a request that waits in another thread fail."""
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def _connect(self, deadline: float) -> Connection:
        """A connection that works; Down if there is none."""
        connection = self._connection
        try:
            if connection is not None and monotonic() - connection.used_at > IDLE_S:
                connection.ping(deadline)
        except OSError:
            self.close()
        if self._connection is None:
            try:
                self._connection = Connection(self.address, f"{self._inbox}.*", deadline)
                for sid, subject in enumerate(self._listening, 1):
                    self._connection.send(f"SUB {subject} {sid}\r\n".encode(), deadline)
            except OSError as error:
                self.close()
                raise Down(f"nats-server at {self.address.host}:{self.address.port}: {error}") from error
        return self._connection

    def _answers(self, subject: str, payload: bytes | memoryview, headers: bytes = b"") -> Iterator[Received]:
        """Whatever comes as an answer, until nobody asks for more; Down if nobody listens there."""
        deadline = monotonic() + self.timeout_s
        connection = self._connect(deadline)
        self._count += 1
        reply = f"{self._inbox}.{self._count}"
        if headers:
            head = f"HPUB {subject} {reply} {len(headers)} {len(headers) + len(payload)}\r\n"
        else:
            head = f"PUB {subject} {reply} {len(payload)}\r\n"
        try:
            connection.send(b"".join((head.encode(), headers, payload, LINE_END)), deadline)
            while True:
                answer = connection.receive(deadline)
                if answer.subject != reply:
                    continue
                if answer.status == NO_RESPONDERS:
                    raise Down(f"nobody answers {subject}")
                yield answer
        except NatsError:
            raise
        except OSError as error:
            self.close()
            raise Unknown(f"{subject}: {error}") from error

    def ask(self, subject: str, payload: bytes | memoryview = b"", headers: bytes = b"") -> Received:
        """One answer to one request."""
        return next(self._answers(subject, payload, headers))

    def ask_jetstream(self, what: str, **request: object) -> Answer:
        """What JetStream's API answers to, as in STREAM.INFO.name; Fault if that is no."""
        return answer_of(self.ask(f"$JS.API.{what}", msgspec.json.encode(request) if request else b""))

    def append(self, subject: str, headers: dict[str, str], payload: bytes | memoryview, last_seq: int) -> int:
        """Store a message behind the one with this sequence, and return its own; Refused if that one is not the last."""
        head = head_of({**headers, "Nats-Expected-Last-Sequence": str(last_seq)})
        try:
            return answer_of(self.ask(subject, payload, head)).seq
        except Fault as fault:
            if fault.code in WRONG_LAST_SEQUENCE:
                raise Refused(str(fault)) from None
            raise

    def read_on(self, stream: str, seq: int, count: int, size: int) -> list[Stored]:
        """Up to `count` messages from `seq` on, of about `size` octets; none if whoever was asked has none.

        One of the replicas answers, maybe one that has not heard yet of what was stored.
        """
        request = msgspec.json.encode({"seq": seq, "batch": count, "max_bytes": size})
        found = []
        for answer in self._answers(f"$JS.API.DIRECT.GET.{stream}", request):
            if answer.status in (END_OF_BATCH, NOT_FOUND):
                break
            if answer.status:
                raise Fault(answer.status, f"reading {stream} at {seq}")
            found.append(Stored(int(answer.headers["Nats-Sequence"]), answer.headers, answer.payload))
        return found

    def listen(self, subject: str) -> None:
        """Hear what is sent to this subject from now on."""
        deadline = monotonic() + self.timeout_s
        connection = self._connect(deadline)
        self._listening.append(subject)
        try:
            connection.send(f"SUB {subject} {len(self._listening)}\r\n".encode(), deadline)
            connection.ping(deadline)
        except OSError as error:
            self.close()
            raise Unknown(f"{subject}: {error}") from error

    def hear(self, timeout_s: float) -> Received | None:
        """The next that was sent to what is listened to; None if there is none in time. Down after a lost connection."""
        deadline = monotonic() + timeout_s
        connection = self._connect(monotonic() + self.timeout_s)
        try:
            while True:
                found = connection.receive(deadline)
                if not found.subject.startswith(self._inbox):
                    return found
        except TimeoutError:
            return None
        except OSError as error:
            self.close()
            raise Down(f"nats-server: {error}") from error


def left_until(deadline: float) -> float:
    """How long there is to wait; TimeoutError if that is over."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def head_of(headers: dict[str, str]) -> bytes:
    return HEAD + "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode() + LINE_END


def received(subject: str, octets: bytes, head_size: int) -> Received:
    """A message of which the first octets are its head."""
    if head_size == 0:
        return Received(subject, 0, {}, octets)
    first, *lines = octets[:head_size].decode().split("\r\n")
    status = first[len("NATS/1.0") :].split()
    headers = dict(line.split(": ", 1) for line in lines if ": " in line)
    return Received(subject, int(status[0]) if status else 0, headers, octets[head_size:])


def answer_of(answer: Received) -> Answer:
    """What JetStream has answered; Fault if that is an error."""
    found = msgspec.json.decode(answer.payload, type=Answer)
    if found.error is not None:
        raise Fault(found.error.err_code or found.error.code, found.error.description)
    return found
