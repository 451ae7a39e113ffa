"""Measure what many messages cost: memory while they are queued or unacknowledged, the wait for the disk, and how soon
the first one is delivered again after a SIGKILL, beside RabbitMQ.

Where a figure is demanded, the table says whether it was reached.

  depth.py [--count 1000000] [--no-rabbitmq] [--strict]
"""

import argparse
import os
import signal
import struct
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.amqp_load import Confirms
from tests.bench.brokers import Broker, BrokerFailed, free_ports, leveret, rabbitmq, stop_on_sigterm
from tests.bench.client import EMPTY_TABLE, Client, connect, method, publish_frames, shortstr
from tests.bench.idle import resident_bytes
from tests.bench.processes import LoadFailed
from tests.bench.workloads import run_load

QUEUE = "depth"
SIZE = 100
WINDOW = 5000
WRITE = 100
PERSISTENT = (0x1000, b"\x02")
MB = 1_000_000
SAMPLE_SECONDS = 0.05
# For the count given, and ten times that.
QUEUED_MB = {1: 150.0, 10: 400.0}
UNACKNOWLEDGED_MB = 250.0
RECOVERY_SECONDS = 5.0


class Growth:
    """The highest resident memory while a `with` block runs, above what it was at the beginning."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._before = self.peak = resident_bytes(pid)
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> "Growth":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, resident_bytes(self._pid))

    @property
    def megabytes(self) -> float:
        return (self.peak - self._before) / MB


def queued_growth(count: int, persistent: bool) -> float:
    """Publish so many and drain them; how many MB the broker grew at most."""
    with leveret() as broker:
        warm_up(broker)
        arguments = ["--size", str(SIZE), "--drain"] + (["--persistent", "--confirm", "--ack", "100"] if persistent else [])
        with Growth(broker.pid) as growth:
            run_load(broker, arguments, count)
        return growth.megabytes


def unacknowledged_growth(count: int) -> float:
    """Have so many delivered to one channel, none acknowledged; how many MB the broker grew at most."""
    with leveret() as broker:
        warm_up(broker)
        with Growth(broker.pid) as growth, connect(broker.port) as client, connect(broker.port) as consumer:
            publish_all(client, count)
            subscribe(consumer)
            wanted = count
            while wanted:
                kind, _ = consumer.read_frame()
                wanted -= kind == 3
        return growth.megabytes


def warm_up(broker: Broker) -> None:
    run_load(broker, ["--size", str(SIZE), "--drain"], 1000)


def subscribe(client: Client) -> None:
    client.call(60, 20, b"\0\0" + shortstr(QUEUE) + shortstr("c") + b"\0" + EMPTY_TABLE)


def publish_all(client: Client, count: int) -> list[float]:
    """Publish so many persistent messages with confirms; how long each write waited for the last of its confirms."""
    client.declare_queue(QUEUE, durable=True)
    client.call(85, 10, b"\0")
    confirms = Confirms(client)
    frames = publish_frames("", QUEUE, bytes(SIZE), *PERSISTENT) * WRITE
    sent = 0
    waiting: deque[tuple[int, float]] = deque()
    waits: list[float] = []
    while confirms.through < count:
        while sent < count and sent - confirms.through < WINDOW:
            client.sock.sendall(frames)
            sent += WRITE
            waiting.append((sent, time.perf_counter()))
        confirms.read()
        while waiting and waiting[0][0] <= confirms.through:
            waits.append(time.perf_counter() - waiting.popleft()[1])
    return waits


def commit_waits(count: int) -> tuple[float, float]:
    """Milliseconds that half, and 99 of 100, of the writes waited at most while the disk was kept busy."""
    with leveret() as broker, connect(broker.port) as client:
        waits = sorted(publish_all(client, count))
    return 1000 * waits[len(waits) // 2], 1000 * waits[len(waits) * 99 // 100]


Start = Callable[[], AbstractContextManager[Broker]]


@contextmanager
def kept(kind: str) -> Iterator[Start]:
    """A folder in which a broker can be started twice."""
    with tempfile.TemporaryDirectory(prefix=f"leveret-bench-{kind}-", ignore_cleanup_errors=True) as name:
        folder, ports = Path(name), free_ports(3)
        yield lambda: leveret(folder=folder) if kind == "leveret" else rabbitmq(folder=folder, ports=ports)


def recovery_seconds(kind: str, count: int) -> float:
    """Publish so many persistent messages, kill the broker, start it; seconds from there to the first delivery."""
    with kept(kind) as start:
        with start() as broker, connect(broker.port) as client:
            publish_all(client, count)
            os.kill(broker.pid, signal.SIGKILL)
        started = time.perf_counter()
        with start() as broker, connect(broker.port) as client:
            while True:
                # Until its queue is there, RabbitMQ lets clients in and refuses what they ask.
                client.sock.sendall(method(60, 70, b"\0\0" + shortstr(QUEUE) + b"\0"))
                _, payload = client.read_frame()
                if struct.unpack_from(">HH", payload) == (60, 71):
                    return time.perf_counter() - started
                raise LoadFailed(f"no message after the restart: {payload[:80]!r}")


class Table:
    """Prints figures as they come; `missed` counts those that are not what is demanded."""

    def __init__(self) -> None:
        self.missed = 0

    def row(self, what: str, figure: float, unit: str, limit: float | None = None) -> None:
        verdict = ""
        if limit is not None:
            verdict = f"≤ {limit:,.1f}  " + ("reached" if figure <= limit else "MISSED")
            self.missed += figure > limit
        print(f"{what:<55}{figure:>10,.1f} {unit:<4}{verdict}".rstrip(), flush=True)


def measure(count: int, with_rabbitmq: bool) -> int:
    table = Table()
    for times, limit in QUEUED_MB.items():
        for kind in ("transient", "persistent"):
            growth = queued_growth(times * count, kind == "persistent")
            table.row(f"{times * count:,} {kind} queued and drained", growth, "MB", limit)
    table.row(f"{count:,} unacknowledged", unacknowledged_growth(count), "MB", UNACKNOWLEDGED_MB)
    half, most = commit_waits(count)
    table.row(f"confirm of {WRITE} messages, {WINDOW:,} under way, p50", half, "ms")
    table.row("   the same, p99", most, "ms")
    limit = RECOVERY_SECONDS
    if with_rabbitmq:
        theirs = recovery_seconds("rabbitmq", count)
        table.row(f"RabbitMQ: {count:,} recovered after SIGKILL", theirs, "s")
        limit = min(limit, theirs)
    table.row(f"{count:,} recovered after SIGKILL, first delivery", recovery_seconds("leveret", count), "s", limit)
    return table.missed


def main() -> int:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--no-rabbitmq", action="store_true")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a demanded figure is missed")
    options = parser.parse_args()
    stop_on_sigterm()
    try:
        missed = measure(options.count, not options.no_rabbitmq)
    except BrokerFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
