"""Measure durable queues declared, then deleted, by one client that does not wait for the answers before it goes on.

  declares.py --port 5672 [--count 5000] [--window 1000] [--pid PID]

Prints one JSON line.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.client import EMPTY_TABLE, Client, connect, method, shortstr
from tests.bench.processes import ProcessorTime, main, per_second

DURABLE = b"\2"
WRITE = 50


def pipeline(client: Client, requests: list[bytes], answer: tuple[int, int], window: int) -> float:
    """Send all, at most so many ahead of their answers; return the seconds until the last answer."""
    started = time.perf_counter()
    sent = answered = 0
    while answered < len(requests):
        while sent < len(requests) and sent - answered <= max(0, window - WRITE):
            client.sock.sendall(b"".join(requests[sent : sent + WRITE]))
            sent = min(sent + WRITE, len(requests))
        client.expect(*answer)
        answered += 1
    return time.perf_counter() - started


def declares(names: list[str]) -> Iterator[bytes]:
    for name in names:
        yield method(50, 10, b"\0\0" + shortstr(name) + DURABLE + EMPTY_TABLE)


def deletes(names: list[str]) -> Iterator[bytes]:
    for name in names:
        yield method(50, 40, b"\0\0" + shortstr(name) + b"\0")


def run(options: argparse.Namespace) -> dict[str, object]:
    names = [f"declared-{os.getpid()}-{number:06d}" for number in range(options.count)]
    with connect(options.port) as client:
        used = ProcessorTime(options.pid)
        declaring = pipeline(client, list(declares(names)), (50, 11), options.window)
        deleting = pipeline(client, list(deletes(names)), (50, 41), options.window)
        figures: dict[str, object] = {
            "count": options.count,
            "rate": per_second(options.count, declaring),
            "delete_rate": per_second(options.count, deleting),
        }
        return figures | used.figures(options.count)


def parse() -> argparse.Namespace:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--window", type=int, default=1000, help="requests that may wait for their answers")
    parser.add_argument("--pid", type=int, default=0, help="the broker's process: report its CPU time a queue")
    return parser.parse_args()


if __name__ == "__main__":
    main(partial(run, parse()))
