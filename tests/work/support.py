"""Workers in a thread or a process, what a broker has in its queues, and a door that can be shut between the two."""

import asyncio
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pika
from tests.server.support import PATIENCE, eventually

from leveret.work import Exchange, Runtime, Subscription

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = itertools.count(1)


def fresh(word: str = "x") -> str:
    """A name that no other test has."""
    return f"{word}-{os.getpid()}-{next(NUMBERS)}"


class Place:
    """Where a broker is; one pika connection for each question, so that nothing is left behind."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"

    @contextmanager
    def channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, heartbeat=0))
        try:
            yield connection.channel()
        finally:
            with suppress(pika.exceptions.AMQPError):
                connection.close()

    def publish(self, exchange: str, key: str, *bodies: bytes, persistent: bool = False, **properties: Any) -> None:
        """Publish, and return when the broker has confirmed."""
        facts = pika.BasicProperties(delivery_mode=2 if persistent else 1, **properties)
        with self.channel() as channel:
            channel.confirm_delivery()
            for body in bodies:
                channel.basic_publish(exchange, key, body, facts, mandatory=True)

    def declare(self, queue: str, **arguments: Any) -> None:
        with self.channel() as channel:
            channel.queue_declare(queue, durable=True, arguments=arguments)

    def ready(self, queue: str) -> int:
        """How many messages wait in a queue."""
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.message_count)

    def consumers(self, queue: str) -> int:
        with self.channel() as channel:
            return int(channel.queue_declare(queue, passive=True).method.consumer_count)

    def take(self, queue: str) -> list[tuple[Any, Any, bytes]]:
        """Everything that waits in a queue: method, properties, body."""
        found = []
        with self.channel() as channel:
            while (one := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(one)
        return found

    def delete(self, queue: str) -> None:
        with self.channel() as channel:
            channel.queue_delete(queue)


class Working:
    """A Runtime on a loop in another thread, from when all its workers listen until the end of the block."""

    def __init__(self, url: str, *exchanges: Exchange, ready: bool = True, **options: Any) -> None:
        self.runtime = Runtime(url, exchanges, **options)
        self.told: bool | None = None
        self._ready = ready
        self._began = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.faults: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._began.wait(PATIENCE)
        if self._ready:
            try:
                eventually(lambda: self.runtime.listening == len(self.runtime.workers))
            except BaseException:
                self.stop()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda _, context: self.faults.append(context))
        self._began.set()
        self.told = await self.runtime.run()

    def stop(self) -> None:
        self.tell()
        self.join()

    def tell(self) -> None:
        """Say that it is to stop, and do not wait."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.runtime.stop)

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert self.faults == []


class Calls:
    """A handler that keeps what it was called with, and does as it is told."""

    def __init__(self, then: Callable[[Any], Any] = lambda message: None) -> None:
        self._then = then
        self.messages: list[Any] = []
        self.at: list[float] = []

    def __call__(self, message: Any) -> Any:
        self.at.append(time.monotonic())
        self.messages.append(message)
        return self._then(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait(self, count: int) -> None:
        eventually(lambda: len(self.messages) >= count)


def one(handler: Any, *, type: str = "Direct", name: str = "", **fields: Any) -> tuple[Exchange, str]:
    """An exchange with one subscription, and the name of its queue; the routing key is `k`."""
    name = name or fresh()
    key = {"routing_key": "k"} if type in ("Direct", "Topic") else {}
    subscription = Subscription(**{"handler": handler, "name": "s", **key, **fields})
    exchange = Exchange(name, type, subscriptions=[subscription])
    return exchange, exchange.queue_of(subscription)


class WorkProcess:
    """`leveret work` as it is run, in a folder of its own."""

    def __init__(self, folder: Path, *flags: str, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._log = folder / "work.log"
        command = [sys.executable, "-m", "leveret", "work", *flags]
        with self._log.open("ab") as log:
            self.popen = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()

    def says(self, text: str, times: int = 1) -> None:
        """Wait until its log has this."""
        eventually(lambda: self.log.count(text) >= times or self.popen.poll() is not None, 2 * PATIENCE)
        assert self.log.count(text) >= times, self.log

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(PATIENCE)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")


def leveret_work(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`leveret work` until its end."""
    command = [sys.executable, "-m", "leveret", "work", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def write(path: Path, exchange: Any) -> Path:
    path.write_text(json.dumps(exchange))
    return path


class Door:
    """A TCP port that leads to another one, until it is shut: then all that goes through it is cut, and nobody comes in."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._open = True
        self.count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                inner, _ = self._listener.accept()
                self.count += 1
                if not self._open:
                    inner.close()
                    continue
                outer = socket.create_connection(("127.0.0.1", self._target))
                self._pairs.append((inner, outer))
                for one, other in ((inner, outer), (outer, inner)):
                    threading.Thread(target=pump, args=(one, other), daemon=True).start()

    def shut(self) -> None:
        self._open = False
        self.cut()

    def cut(self) -> None:
        """Cut what goes through it now; others may come in."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for one in pair:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def open(self) -> None:
        self._open = True


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


async def at_once(delay_s: float) -> None:
    """Wait no time."""
    await asyncio.sleep(0.01)


async def for_ever(delay_s: float) -> None:
    await asyncio.Event().wait()


class Log(logging.Handler):
    """What the workers log while this goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f" | {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self.lines.append(text)

    def __enter__(self) -> Self:
        logging.getLogger("leveret.work").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("leveret.work").removeHandler(self)

    def says(self, text: str) -> bool:
        return any(text in line for line in self.lines)


def handlers(folder: Path, source: str, name: str = "handlers") -> None:
    """A module of handlers beside the files."""
    (folder / f"{name}.py").write_text(source)


def subscription(handler: Any, **fields: Any) -> dict[str, Any]:
    return {"Name": "s", "RoutingKey": "k", "Handler": handler, **fields}


def exchange_file(name: str, *subscriptions: dict[str, Any], kind: str = "Direct") -> dict[str, Any]:
    return {"Name": name, "Type": kind, "Subscriptions": list(subscriptions)}
