"""Measure how late messages come at a fixed rate: one process publishes, another consumes without acknowledgement.

Messages are due in groups, one group a millisecond (with less than 1,000 messages a second one by one), and each has in
its body when its group was due, not when it was sent: what waits while the broker does not read is late too.

  latency.py --port 5672 [--rate 20000] [--seconds 5] [--size 100] [--persistent] [--pid PID]

Prints one JSON line.
"""

import argparse
import struct
import sys
import time
from array import array
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.amqp_load import CONSUMER_TAG, Load, Stream, delivery_size, topology
from tests.bench.client import EMPTY_TABLE, BrokerClosed, connect, publish_frames, shortstr
from tests.bench.processes import Gate, Outcome, ProcessorTime, main, per_second, percentile, run_together

GROUP_SECONDS = 0.001
STAMP = struct.Struct(">d")
PARTS = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}


def publish_stamped(load: Load, stream: Stream, gate: Gate) -> Outcome:
    """Send each group when it is due."""
    group = max(1, round(load.publish_rate * GROUP_SECONDS))
    with connect(load.port, load.vhost) as client:
        one = publish_frames("", stream.queue, bytes(load.size), *load.properties())
        frames = bytearray(one * group)
        stamps = [len(one) * number + len(one) - load.size - 1 for number in range(group)]
        started = gate.pass_through()
        for first in range(0, stream.count, group):
            due = started + first / load.publish_rate
            ahead = due - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            for at in stamps:
                STAMP.pack_into(frames, at, due)
            client.sock.sendall(memoryview(frames)[: len(one) * min(group, stream.count - first)])
        client.settle()
        return Outcome(time.perf_counter() - started)


def consume_stamped(load: Load, stream: Stream, gate: Gate) -> Outcome:
    """Take all, and say of each how many seconds after its time it came."""
    late = array("d")
    with connect(load.port, load.vhost) as client:
        client.call(60, 20, b"\0\0" + shortstr(stream.queue) + shortstr(CONSUMER_TAG) + b"\2" + EMPTY_TABLE)
        size = delivery_size(load, stream, client.frame_max)
        body_at = size - load.size - 1
        started = gate.pass_through()
        buffer = client.buffer
        while len(late) < stream.count:
            data = client.sock.recv(1 << 18)
            now = time.perf_counter()
            if not data:
                raise BrokerClosed("the broker hung up")
            buffer += data
            whole = len(buffer) // size * size
            late.extend(now - STAMP.unpack_from(buffer, at)[0] for at in range(body_at, whole, size))
            del buffer[:whole]
        return Outcome(time.perf_counter() - started, late)


def run(load: Load) -> dict[str, object]:
    """Publish and consume at the rate, and return half, 99 and 99.9 of 100 messages were how late at most."""
    with topology(load) as (stream,):
        used = ProcessorTime(load.pid)
        seconds, outcomes = run_together(
            [
                ("publish", partial(publish_stamped, load, stream)),
                ("consume", partial(consume_stamped, load, stream)),
            ]
        )
        late = sorted(next(outcome.samples for outcome in outcomes if outcome.act == "consume"))
        figures: dict[str, object] = {"count": len(late), "rate": per_second(load.count, seconds)}
        figures |= {name: round(1000 * percentile(late, part), 3) for name, part in PARTS.items()}
        return figures | used.figures(load.count)


def parse() -> Load:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--rate", type=float, default=20_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--size", type=int, default=100, help="bytes of a body, at most 100,000, at least 8")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--pid", type=int, default=0, help="the broker's process: report its CPU time a message")
    options = parser.parse_args()
    if not STAMP.size <= options.size <= 100_000:
        parser.error("--size must be 8 to 100,000: a body in one frame that holds a time")
    count = int(options.rate * options.seconds)
    if options.rate <= 0 or count < 1:
        parser.error("--rate and --seconds must give a message")
    return Load(
        port=options.port,
        size=options.size,
        count=count,
        persistent=options.persistent,
        publish_rate=options.rate,
        pid=options.pid,
    )


if __name__ == "__main__":
    main(partial(run, parse()))
