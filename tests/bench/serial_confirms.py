"""Measure publishers that wait for each confirm before they publish again, persistent messages into one durable queue.

With one publisher, in the same run and in turns with it, how long write and fdatasync of the same octets take on the same
file system: overwriting a file that has its blocks, and appending to one.  `of_disk` is the p50 of the confirms relative
to the former.  Many publishers are served by one process, and the disk is left out.

  serial_confirms.py --port 5672 [--count 2000] [--publishers 1] [--size 100] [--folder FOLDER] [--pid PID]

Prints one JSON line.
"""

import argparse
import os
import select
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.amqp_load import BASIC_ACK
from tests.bench.brokers import raise_open_files
from tests.bench.client import METHOD, Client, connect, connect_many, publish_frames
from tests.bench.processes import LoadFailed, ProcessorTime, main, per_second, percentile

PERSISTENT = (0x1000, b"\x02")
# So many confirms, then so many writes of each kind.
BLOCK = 50
NUMBER = struct.Struct(">Q")


@dataclass(slots=True)
class Publisher:
    """A client that has one message under way."""

    client: Client
    frames: bytearray
    size: int
    sent_at: float = 0.0
    waits: list[float] = field(default_factory=list)

    def publish(self, number: int) -> None:
        NUMBER.pack_into(self.frames, len(self.frames) - self.size - 1, number)
        self.sent_at = time.perf_counter()
        self.client.sock.sendall(self.frames)

    def confirmed(self) -> None:
        """Read the confirm of what is under way."""
        kind, payload = self.client.read_frame()
        self.waits.append(time.perf_counter() - self.sent_at)
        if kind != METHOD or payload[:4] != BASIC_ACK:
            raise LoadFailed(f"no confirm: {payload[:60]!r}")


class Disk:
    """A file in which each write is synced; `size` octets of it have their blocks beforehand."""

    def __init__(self, folder: Path, size: int) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        if size:
            os.write(self._file.fileno(), bytes(size))
            os.lseek(self._file.fileno(), 0, os.SEEK_SET)
            os.fsync(self._file.fileno())
        self.waits: list[float] = []

    def write(self, data: bytes) -> None:
        started = time.perf_counter()
        os.write(self._file.fileno(), data)
        os.fdatasync(self._file.fileno())
        self.waits.append(time.perf_counter() - started)

    def close(self) -> None:
        self._file.close()


@contextmanager
def publishers(port: int, count: int, size: int) -> Iterator[list[Publisher]]:
    """Open so many, with a durable queue for all of them that is deleted at the end."""
    name = f"serial-{os.getpid()}"
    frames = publish_frames("", name, bytes(size), *PERSISTENT)
    with connect(port) as admin, ExitStack() as stack:
        admin.declare_queue(name, durable=True)
        stack.callback(admin.delete_queue, name)
        clients = [stack.enter_context(client) for client in connect_many(port, count)]
        for client in clients:
            client.call(85, 10, b"\0")
        yield [Publisher(client, bytearray(frames), size) for client in clients]


def run(options: argparse.Namespace) -> dict[str, object]:
    raise_open_files()
    with publishers(options.port, options.publishers, options.size) as opened:
        if options.publishers == 1:
            return one_by_one(opened[0], options)
        return all_at_once(opened, options)


def one_by_one(publisher: Publisher, options: argparse.Namespace) -> dict[str, object]:
    """Publish in blocks, with the disk's turn behind each."""
    allocated = Disk(options.folder, options.size * options.count)
    appended = Disk(options.folder, 0)
    data = os.urandom(options.size)
    used = ProcessorTime(options.pid)
    for first in range(0, options.count, BLOCK):
        block = range(first, min(first + BLOCK, options.count))
        for number in block:
            publisher.publish(number)
            publisher.confirmed()
        for disk in (allocated, appended):
            for _ in block:
                disk.write(data)
    figures = _figures(publisher.waits, sum(publisher.waits))
    disk_p50 = statistics.median(allocated.waits)
    figures |= {
        "disk_p50_ms": round(1000 * disk_p50, 4),
        "disk_append_p50_ms": round(1000 * statistics.median(appended.waits), 4),
        "of_disk": round(statistics.median(publisher.waits) / disk_p50, 3),
    }
    allocated.close()
    appended.close()
    return figures | used.figures(options.count)


def all_at_once(opened: list[Publisher], options: argparse.Namespace) -> dict[str, object]:
    """Have each publish again as soon as its confirm is there, until all together have published so many."""
    by_descriptor = {publisher.client.sock.fileno(): publisher for publisher in opened}
    used = ProcessorTime(options.pid)
    with select.epoll() as poll:
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        started = time.perf_counter()
        for number, publisher in enumerate(opened):
            publisher.publish(number)
        sent, confirmed = len(opened), 0
        while confirmed < options.count:
            for descriptor, _ in poll.poll():
                publisher = by_descriptor[descriptor]
                publisher.confirmed()
                confirmed += 1
                if sent < options.count:
                    publisher.publish(sent)
                    sent += 1
        seconds = time.perf_counter() - started
    waits = [wait for publisher in opened for wait in publisher.waits]
    return _figures(waits, seconds) | used.figures(options.count)


def _figures(waits: list[float], seconds: float) -> dict[str, object]:
    ordered = sorted(waits)
    return {
        "count": len(waits),
        "rate": per_second(len(waits), seconds),
        "p50_ms": round(1000 * statistics.median(waits), 3),
        "p99_ms": round(1000 * percentile(ordered, 0.99), 3),
    }


def parse() -> argparse.Namespace:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--count", type=int, default=2000, help="messages, of all publishers together")
    parser.add_argument("--publishers", type=int, default=1)
    parser.add_argument("--size", type=int, default=100, help="bytes of a body, 8 to 100,000")
    parser.add_argument("--folder", type=Path, help="on the broker's file system; where temporary files go, if not given")
    parser.add_argument("--pid", type=int, default=0, help="the broker's process: report its CPU time a message")
    options = parser.parse_args()
    if not NUMBER.size <= options.size <= 100_000:
        parser.error("--size must be 8 to 100,000: a body in one frame that holds a number")
    if not 1 <= options.publishers <= options.count:
        parser.error("--count must give each of --publishers a message")
    return options


if __name__ == "__main__":
    main(partial(run, parse()))
