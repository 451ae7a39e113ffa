"""Measure connections: opened one after another, or each with a short life.

Without --churn each is opened up to connection.open-ok when the one before is, and kept until all are.  With --churn each
opens a channel, declares an exclusive queue, publishes a message, gets it, and closes.

  connections.py --port 5672 [--count 2000] [--churn] [--pid PID]

Prints one JSON line.
"""

import argparse
import struct
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import raise_open_files
from tests.bench.client import BODY, EMPTY_TABLE, connect, connect_many, method, publish_frames, shortstr
from tests.bench.processes import LoadFailed, ProcessorTime, main, per_second

EXCLUSIVE = 4
SPARE_FILES = 50
CLOSE = method(10, 50, struct.pack(">HBHH", 200, 0, 0, 0), channel=0)


def open_all(port: int, count: int) -> None:
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connect_many(port, 1, channels=False)[0])


def churn(port: int, count: int) -> None:
    for number in range(count):
        live_shortly(port, number)


def live_shortly(port: int, number: int) -> None:
    """Connect, declare, publish, get, close; a method that is not answered as expected raises."""
    body = struct.pack(">Q", number)
    with connect(port) as client:
        declared = client.call(50, 10, b"\0\0" + shortstr("") + bytes([EXCLUSIVE]) + EMPTY_TABLE)
        name = declared[1 : 1 + declared[0]].decode()
        client.sock.sendall(publish_frames("", name, body))
        client.call(60, 70, b"\0\0" + shortstr(name) + b"\1")
        client.read_frame()
        kind, got = client.read_frame()
        if (kind, got) != (BODY, body):
            raise LoadFailed(f"got {got[:60]!r}")
        client.sock.sendall(CLOSE)
        client.expect(10, 51)


def run(options: argparse.Namespace) -> dict[str, object]:
    files = raise_open_files() - SPARE_FILES
    if options.count > files and not options.churn:
        raise LoadFailed(f"only {files:,} files may be open")
    used = ProcessorTime(options.pid)
    started = time.perf_counter()
    (churn if options.churn else open_all)(options.port, options.count)
    seconds = time.perf_counter() - started
    figures: dict[str, object] = {"count": options.count, "rate": per_second(options.count, seconds)}
    return figures | used.figures(options.count)


def parse() -> argparse.Namespace:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--churn", action="store_true")
    parser.add_argument("--pid", type=int, default=0, help="the broker's process: report its CPU time a connection")
    return parser.parse_args()


if __name__ == "__main__":
    main(partial(run, parse()))
