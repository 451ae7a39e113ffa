"""What noisy neighbours cost a pair of clients: its rate and its latency beside them, and the broker's memory meanwhile.

The pair is a publisher and a consumer with a queue of their own. First it goes as fast as it can, alone; then at a quarter
of that, while

  - a consumer with a long backlog has subscribed and reads nothing,
  - a publisher without confirms sends as fast as it can into a queue that nobody consumes,
  - a thousand connections publish a message a second each.

Latency is counted from the moment at which a message was due to be sent. Each of the generators is a process of its own,
and the noise sends bytes made beforehand.

  fairness.py [--rounds 5] [--seconds 4] [--size 100] [--flood-size 10000] [--persistent] [--watermark-mib 200] [--slow 1000]

Prints one JSON line.
"""

import argparse
import json
import os
import signal
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.client import EMPTY_TABLE, FRAME_OVERHEAD, Client, connect, connect_many, method, publish_frames, shortstr
from tests.bench.processes import FORK
from tests.server.support import Most, Process

MIB = 1 << 20
TICK_NS = 2_000_000
BACKLOG_BYTES = 20 * MIB
SAMPLE_S = 0.01
TAG = "c"
STRIDE = 8
END = (1 << 63) - 1
START_S = 0.2
NOISE_NICENESS = 10
PATIENCE_S = 30.0
NO_PROPERTIES = (0, b"")
PERSISTENT = (0x1000, b"\x02")


@dataclass(frozen=True, slots=True)
class Setting:
    """The command line's options."""

    rounds: int = 5
    seconds: float = 4.0
    size: int = 100
    flood_size: int = 10_000
    persistent: bool = False
    watermark_mib: int = 200
    slow: int = 1000

    @property
    def properties(self) -> tuple[int, bytes]:
        return PERSISTENT if self.persistent else NO_PROPERTIES


@dataclass(frozen=True, slots=True)
class Round:
    """How the pair fared: messages a second, and how late they came, in milliseconds."""

    rate: float
    p50_ms: float
    p99_ms: float
    longest_ms: float


# The pair


def publish_at(port: int, setting: Setting, rate: float, said: Connection) -> None:
    """Publish at this rate, or as fast as the broker reads if it is 0; each message says when it was due, the last END."""
    message = publish_frames("", "pair", bytes(setting.size), *setting.properties)
    before, after = message[: -1 - setting.size], message[-1 - setting.size + 8 :]
    with connect(port) as client:
        said.send("ready")
        start = said.recv()
        end = start + int(setting.seconds * 1e9)
        tick = sent = 0
        due_at = start
        while due_at < end:
            wait = (due_at - time.perf_counter_ns()) / 1e9
            if wait > 0:
                time.sleep(wait)
            count = int(rate * tick * TICK_NS / 1e9) - sent if rate else 500
            client.sock.sendall((before + struct.pack(">Q", due_at) + after) * count)
            sent += count
            tick += 1
            due_at = start + tick * TICK_NS if rate else time.perf_counter_ns()
        client.sock.sendall(before + struct.pack(">Q", END) + after)
        client.settle()
        said.send(sent)


def consume(port: int, setting: Setting, said: Connection) -> None:
    """Take what is published until the end; tell how many, the rate and how late they came."""
    size = delivery_size(setting)
    body_at = size - 1 - setting.size
    with connect(port) as client:
        subscribe(client, "pair")
        said.send("ready")
        said.recv()
        buffer = bytearray(MIB)
        view = memoryview(buffer)
        late: list[int] = []
        got = kept = 0
        first = last = time.perf_counter_ns()
        ended = False
        while not ended:
            received = client.sock.recv_into(view[kept:])
            if not received:
                raise EOFError
            last = time.perf_counter_ns()
            if not got:
                first = last
            kept += received
            whole = kept // size
            late.extend([last - due_at(view, number * size + body_at) for number in range(0, whole, STRIDE)])
            ended = whole > 0 and due_at(view, whole * size - 1 - setting.size) == END
            got += whole
            rest = kept - whole * size
            buffer[:rest] = buffer[whole * size : kept]
            kept = rest
        late.sort()
        said.send((got - 1, got * 1e9 / max(1, last - first), late[len(late) // 2], late[len(late) * 99 // 100], late[-1]))


def due_at(view: memoryview, at: int) -> int:
    return int.from_bytes(view[at : at + 8], "big")


def delivery_size(setting: Setting) -> int:
    names = len(shortstr(TAG)) + len(shortstr("")) + len(shortstr("pair"))
    header = FRAME_OVERHEAD + 14 + len(setting.properties[1])
    return FRAME_OVERHEAD + 4 + names + 9 + header + FRAME_OVERHEAD + setting.size


def subscribe(client: Client, queue: str) -> None:
    client.sock.sendall(method(60, 20, b"\0\0" + shortstr(queue) + shortstr(TAG) + b"\2" + EMPTY_TABLE))
    client.expect(60, 21)


# The noise; each ends when it is told to


def flood(port: int, setting: Setting, said: Connection) -> None:
    """Publish as fast as the broker reads."""
    message = publish_frames("", "flood", bytes(setting.flood_size), *setting.properties)
    data = message * max(1, 65536 // len(message))
    with connect(port) as client:
        said.send("ready")
        while True:
            client.sock.sendall(data)


def stall(port: int, setting: Setting, said: Connection) -> None:
    """Subscribe to a long backlog, and read nothing."""
    message = publish_frames("", "stalled", bytes(setting.flood_size), *setting.properties)
    with connect(port) as client, connect(port) as consumer:
        for _ in range(BACKLOG_BYTES // len(message)):
            client.sock.sendall(message)
        client.settle()
        subscribe(consumer, "stalled")
        said.send("ready")
        said.recv()


def trickle(port: int, setting: Setting, said: Connection) -> None:
    """A message a second from each of many connections."""
    message = publish_frames("", "slow", bytes(setting.size), *setting.properties)
    clients = connect_many(port, setting.slow)
    said.send("ready")
    start = time.perf_counter()
    sent = 0
    while True:
        time.sleep(0.02)
        due = int((time.perf_counter() - start) * len(clients))
        while sent < due:
            clients[sent % len(clients)].sock.sendall(message)
            sent += 1


def act_nicely(act: Callable[..., None], niceness: int, *arguments: Any) -> None:
    os.nice(niceness)
    act(*arguments)


@contextmanager
def process(act: Callable[..., None], *arguments: Any, niceness: int = 0) -> Iterator[Connection]:
    """Run this beside us; what it says and is told goes through the connection. It is over after this.

    The noise is nicer than the rest: it stands for other machines, and must not take the broker's processors.
    """
    ours, theirs = FORK.Pipe()
    child = FORK.Process(target=act_nicely, args=(act, niceness, *arguments, theirs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(PATIENCE_S) or ours.recv() != "ready":
            raise RuntimeError(f"{act.__name__} is not ready")
        yield ours
    finally:
        child.kill()
        child.join()
        ours.close()


def pair(port: int, setting: Setting, rate: float) -> Round:
    """Let the pair go, at this rate or as fast as it can."""
    with process(consume, port, setting) as consumer, process(publish_at, port, setting, rate) as publisher:
        start = time.perf_counter_ns() + int(START_S * 1e9)
        consumer.send("go")
        publisher.send(start)
        sent = answer(publisher)
        got, found, *late = answer(consumer)
        if got != sent:
            raise RuntimeError(f"{got} of {sent} messages came")
        return Round(found, *(ns / 1e6 for ns in late))


def answer(said: Connection) -> Any:
    if not said.poll(PATIENCE_S):
        raise RuntimeError(f"no answer in {PATIENCE_S} s")
    return said.recv()


def idle_bytes(folder: Path) -> int:
    """What a broker has when nobody uses it."""
    folder.mkdir()
    with Process(folder) as broker, broker.login():
        return broker.resident


def run(folder: Path, setting: Setting) -> dict[str, Any]:
    """Measure in this folder; the medians, and the most memory as a part of the watermark."""
    watermark = idle_bytes(folder / "idle") + setting.watermark_mib * MIB
    (folder / "run").mkdir()
    environment = {"LEVERET_MEMORY_WATERMARK": str(watermark)}
    with Process(folder / "run", environment=environment) as broker:
        with connect(broker.port) as client:
            for name in ("pair", "flood", "stalled", "slow"):
                client.declare_queue(name, durable=setting.persistent)
        alone = [pair(broker.port, setting, 0).rate for _ in range(3)]
        rate = statistics.median(alone) / 4
        calm = pair(broker.port, setting, rate)
        with Most(lambda: broker.resident, SAMPLE_S) as memory, ExitStack() as noise:
            for act in (stall, trickle, flood):
                noise.enter_context(process(act, broker.port, setting, niceness=NOISE_NICENESS))
            rounds = [pair(broker.port, setting, rate) for _ in range(setting.rounds)]
            with connect(broker.port) as client:
                flooded = client.message_count("flood")
        return figures(rate, calm, rounds) | {
            "memory": round(memory.most / watermark, 3),
            "stopped": broker.log.count(": publishers are blocked"),
            "flooded": flooded,
        }


def figures(rate: float, calm: Round, rounds: Sequence[Round]) -> dict[str, Any]:
    return {
        "rate": round(rate),
        "kept": round(statistics.median(one.rate for one in rounds) / rate, 3),
        "p50_ms": round(statistics.median(one.p50_ms for one in rounds), 2),
        "p99_ms": round(statistics.median(one.p99_ms for one in rounds), 2),
        "longest_ms": round(max(one.longest_ms for one in rounds), 1),
        "p99_ms_of_each": [round(one.p99_ms, 1) for one in rounds],
        "p99_ms_without_noise": round(calm.p99_ms, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("rounds", 5), ("size", 100), ("flood-size", 10_000), ("watermark-mib", 200), ("slow", 1000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--persistent", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        print(json.dumps(run(Path(folder), Setting(**vars(options)))))


if __name__ == "__main__":
    main()
