"""A broker in a thread or in a process, and a client that is nothing but a socket and a codec."""

import asyncio
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.properties.dialogue import PROTOCOL_HEADER, Frame, handshake, heartbeat, method, publish

from leveret.cli.serve import event_loop
from leveret.server.config import Config
from leveret.server.node import Node
from leveret.wire import spec
from leveret.wire.methods import decode_method
from leveret.wire.properties import decode_properties

PATIENCE = 60.0
MIB = 1 << 20

T = TypeVar("T", bound=spec.Method)
WITH_CONTENT = (spec.BasicDeliver, spec.BasicGetOk, spec.BasicReturn)


# Linux: with the complement of a process's id above it, the clock of all that its threads have done.
CPUCLOCK_SCHED = 2


class Process:
    """`leveret` as it is run, on a free port."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "leveret"),
    ) -> None:
        self.folder = folder
        self._log = folder / "log"
        command = [sys.executable, *program, "--port", "0", "--data-dir", str(folder / "data"), *flags]
        with self._log.open("wb") as log:
            self.popen = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **(environment or {})}, text=True
            )
        self.port = 0
        self.http_port = 0
        self.prometheus_port = 0
        self.listeners: dict[str, str] = {}

    def __enter__(self) -> Self:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        assert line.startswith("ready amqp"), f"{line!r}: {self.log}"
        self.listeners = dict(word.split("=", 1) for word in line.split()[1:])
        self.port = self.port_of("amqp")
        self.prometheus_port = self.port_of("prometheus")
        self.http_port = self.port_of("http")
        return self

    def port_of(self, listener: str) -> int:
        """The port of a listener, by its name in the line `ready`; 0 if it has none."""
        return int(self.listeners.get(listener, ":0").rpartition(":")[2])

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self.popen.poll() is None:
                self.popen.send_signal(signal.SIGTERM)
                self.popen.wait(PATIENCE)
        finally:
            self.kill()
        if kind is None:
            assert self.popen.returncode == 0
            assert "Traceback" not in self.log

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def resident(self) -> int:
        """Bytes of memory in use."""
        status = Path(f"/proc/{self.popen.pid}/status").read_text()
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def processor_time(self) -> float:
        """Seconds that the broker has been at work; what else the machine does has no part in it."""
        return time.clock_gettime(~self.popen.pid << 3 | CPUCLOCK_SCHED)

    def connect(self, receive_buffer: int = 0) -> "Client":
        return Client(self.port, receive_buffer, self.processor_time)

    def login(self, receive_buffer: int = 0, **options: Any) -> "Client":
        return self.connect(receive_buffer).login(**options)


class InProcess:
    """A Node on an event loop in another thread, so that what is inside can be looked at and broken."""

    def __init__(self, config: Config | None = None) -> None:
        self.node = Node(config or Config(port=0, storage="memory"))
        self.faults: list[dict[str, Any]] = []
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: event_loop()(self._serve()))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert self.faults == []

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self.faults.append(context))
        await self.node.start()
        self._ready.set()
        await self._stop.wait()
        await self.node.stop()

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function on the loop and return what it returns."""

        async def run() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    def processor_time(self) -> float:
        """Seconds that the loop's thread has been at work."""
        assert self._thread.ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident))

    @property
    def port(self) -> int:
        return self.node.listeners[0].port

    def connect(self, receive_buffer: int = 0) -> "Client":
        return Client(self.port, receive_buffer, self.processor_time)

    def login(self, receive_buffer: int = 0, **options: Any) -> "Client":
        return self.connect(receive_buffer).login(**options)


@dataclass(slots=True)
class Event:
    """What came on a channel: a method, and its content if it has one."""

    channel: int
    method: spec.Method
    message_id: str = ""
    body: bytes = b""


class Client:
    """Frames on a socket."""

    def __init__(self, port: int, receive_buffer: int = 0, clock: Callable[[], float] = time.process_time) -> None:
        self.clock = clock
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def login(self, heartbeat_s: int = 0, channel_max: int = 2047, **options: Any) -> Self:
        """Open the connection and channel 1."""
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect(spec.ConnectionStart)
        frames = handshake(tune=(channel_max, 131_072, heartbeat_s), **options)
        self.send(frames[0])
        self.expect(spec.ConnectionTune)
        self.send(*frames[1:])
        self.expect(spec.ConnectionOpenOk)
        return self.open(1)

    def open(self, channel: int) -> Self:
        self.send(method(channel, spec.ChannelOpen()))
        self.expect(spec.ChannelOpenOk)
        return self

    def send(self, *frames: Frame) -> None:
        self.socket.sendall(b"".join([frame.encode() for frame in frames]))

    def call(self, request: spec.Method, reply: type[T], channel: int = 1) -> T:
        self.send(method(channel, request))
        return self.expect(reply)

    def declare(self, name: str, **options: Any) -> int:
        """Declare a queue; how many messages are ready."""
        return self.call(spec.QueueDeclare(name, **options), spec.QueueDeclareOk).message_count

    def publish_many(self, queue: str, bodies: list[bytes], channel: int = 1) -> None:
        """Publish, and return when all of it has been taken."""
        frames = []
        for one in bodies:
            frames += publish(channel, queue, one)
        self.send(*frames)
        self.call(spec.QueueDeclare(queue, passive=True), spec.QueueDeclareOk, channel)

    def frame(self) -> tuple[int, int, bytes]:
        """The next frame: kind, channel, payload. EOFError when there are no more."""
        size = self._need(7)
        payload = self._need(7 + int.from_bytes(size[3:7], "big") + 1)
        self._at += len(payload)
        assert payload[-1] == 0xCE
        return payload[0], int.from_bytes(payload[1:3], "big"), payload[7:-1]

    def _need(self, size: int) -> bytes:
        while len(self._buffer) - self._at < size:
            try:
                data = self.socket.recv(MIB)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._buffer, self._at = self._buffer[self._at :] + data, 0
        return self._buffer[self._at : self._at + size]

    def read(self) -> spec.Method:
        """The next method; heartbeats are passed over."""
        kind, _, payload = self.frame()
        while kind == 8:
            kind, _, payload = self.frame()
        assert kind == 1
        return decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))

    def expect(self, kind: type[T]) -> T:
        found = self.read()
        assert isinstance(found, kind), found
        return found

    def event(self) -> "Event":
        """The next method, with its content if it has one; heartbeats are passed over."""
        kind, channel, payload = self.frame()
        while kind == 8:
            kind, channel, payload = self.frame()
        assert kind == 1, f"frame of kind {kind} for a method"
        found = Event(channel, decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload)))
        if isinstance(found.method, WITH_CONTENT):
            self._read_content(found)
        return found

    def _read_content(self, event: "Event") -> None:
        kind, channel, header = self.frame()
        assert (kind, channel) == (2, event.channel), f"{event} is followed by {kind} {channel} {header[:40]!r}"
        left = int.from_bytes(header[4:12], "big")
        event.message_id = decode_properties(header, 12, len(header)).message_id or ""
        pieces = []
        while left:
            pieces.append(self.frame()[2])
            left -= len(pieces[-1])
        event.body = b"".join(pieces)

    def delivery(self) -> bytes:
        """The body of the next message."""
        return self.event().body

    def skip_content(self) -> None:
        """Read the header and the one body frame behind a basic.get-ok."""
        self.frame()
        self.frame()

    def skip_deliveries(self, count: int) -> None:
        """Read as many deliveries, of one body frame each, without a look at them."""
        for _ in range(3 * count):
            self.frame()

    def at_end(self) -> bool:
        """Whether the broker hangs up, after what it has said."""
        try:
            while True:
                self.frame()
        except EOFError:
            return True

    def silent(self, seconds: float) -> bool:
        """Whether nothing comes in this time."""
        return not select.select([self.socket], [], [], seconds)[0]

    def ping(self) -> float:
        """Seconds that the broker is at work until a small question is answered."""
        start = self.clock()
        self.call(spec.BasicGet("ping"), spec.BasicGetEmpty)
        return self.clock() - start

    def longest_ping(self, seconds: float) -> float:
        """The longest of all pings in this time."""
        end = time.perf_counter() + seconds
        longest = 0.0
        while time.perf_counter() < end:
            longest = max(longest, self.ping())
        return longest

    def beat(self) -> None:
        self.send(heartbeat())


class Records(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record)


class Most:
    """The highest of what `read` says while this goes on."""

    def __init__(self, read: Callable[[], int], every_s: float = 0.02) -> None:
        self._read = read
        self._every_s = every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.samples = 0
        self.most = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            self.samples += 1
            self.most = max(self.most, self._read())


def eventually(check: Callable[[], object], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)
