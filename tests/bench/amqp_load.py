"""A light AMQP 0-9-1 load generator: raw sockets and frames encoded beforehand, so that the broker, not the generator,
is what a run measures.

One process publishes and another consumes, a pair for each queue; with --one-pair one pair for all of them.  Each body of
a run is another (tests/bench/batches.py), but all deliveries have the same size, so the consumer only counts bytes.  A
run's time goes from the moment all processes are connected and let go until the last of them has ended: publishers end
when everything is confirmed (without --confirm: when a synchronous call behind the last message is answered), consumers
when the last delivery is in and its acknowledgement sent.

  amqp_load.py --port 5672 --size 100 --count 200000 [--persistent] [--confirm] [--ack 0|1|K] [--vhost /]
               [--queues N [--one-pair]] [--drain [--rest SECONDS]] [--props] [--keys N [--idle-bindings M]] [--fanout]
               [--publish-only] [--tls] [--times N] [--slow [--seconds S] [--consume-rate R]] [--pid PID]

--drain   publishes all, then consumes it; with --rest the broker first has so many seconds without a client, and then until
          it does nothing any more: what it puts on disk for lack of readers is there.
--times   runs it so often; `rate` is the median, `slowest` the slowest run relative to it.
--slow    a consumer that is 10 % slower than its publisher, for --seconds: it takes --consume-rate messages a second, or, if
          that is not given, 10 % less than the median of three runs of --count without limits.  `kept` is the pair's rate
          relative to the consumer's own, `kept_lowest` that of the slowest second (of the slowest tenth, in less than ten).

Prints one JSON line.
"""

import argparse
import os
import statistics
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.batches import Batches
from tests.bench.client import (
    EMPTY_TABLE,
    FRAME_OVERHEAD,
    METHOD,
    BrokerClosed,
    Client,
    connect,
    method,
    shortstr,
    string_table,
)
from tests.bench.pace import Pace, Slices
from tests.bench.processes import (
    RUN_SECONDS,
    Gate,
    Job,
    LoadFailed,
    Outcome,
    ProcessorTime,
    cpu_seconds,
    main,
    per_second,
    run_together,
)

CONSUMER_TAG = "c"
NO_ACK, NO_WAIT = 2, 8
BASIC_ACK, BASIC_NACK = struct.pack(">HH", 60, 80), struct.pack(">HH", 60, 120)
FASTER = 1.1
FIND_RUNS = 3
# A broker that uses less of a processor than this has come to rest.
QUIET_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent and how it is taken; the fields are the command line's options."""

    port: int = 5672
    vhost: str = "/"
    size: int = 100
    count: int = 200_000
    queues: int = 1
    one_pair: bool = False
    persistent: bool = False
    confirm: bool = False
    window: int = 1000
    prefetch: int = 1000
    ack: int = 0
    drain: bool = False
    rest: float = 0
    props: bool = False
    keys: int = 0
    idle_bindings: int = 0
    fanout: bool = False
    publish_only: bool = False
    times: int = 1
    slow: bool = False
    seconds: float = 10
    publish_rate: float = 0
    consume_rate: float = 0
    tls: bool = False
    pid: int = 0

    def properties(self) -> tuple[int, bytes]:
        """Return property flags and their bytes: none, delivery-mode, or what an application typically sets."""
        flags, data = 0, b""
        if self.props:
            flags |= 0x8000 | 0x2000
            trace = ("trace", "4bf92f3577b34da6a3ce929d0e0e4736")
            data += shortstr("application/json")
            data += string_table([("tenant", "acme"), trace, ("kind", "order.created")])
        if self.persistent:
            flags |= 0x1000
            data += b"\x02"
        if self.props:
            flags |= 0x0080
            data += shortstr("0b6f2d0e-7a52-4d50-9a3e-5b1f4f3c9a77")
        return flags, data


@dataclass(frozen=True, slots=True)
class Stream:
    """The messages of one queue, or of several: where they are published, the keys they take in turn (all of one length)."""

    queue: str
    exchange: str
    routing_keys: Sequence[str]
    count: int
    others: Sequence[str] = ()

    @property
    def queues(self) -> list[str]:
        return [self.queue, *self.others]

    @property
    def consumer_tags(self) -> list[str]:
        """A tag for each queue, all of one length."""
        return [f"{CONSUMER_TAG}{number:04d}" for number in range(len(self.queues))] if self.others else [CONSUMER_TAG]


class Confirms:
    """Counts confirmed messages; `through` is the number up to which all are confirmed."""

    def __init__(self, client: Client) -> None:
        self.through = 0
        self._client = client
        self._above: set[int] = set()

    def read(self) -> None:
        """Wait for one confirm and count it."""
        kind, payload = self._client.read_frame()
        if kind != METHOD:
            return
        if payload[:4] != BASIC_ACK:
            refused = "a message was refused" if payload[:4] == BASIC_NACK else f"unexpected method {payload[:60]!r}"
            raise LoadFailed(refused)
        tag, multiple = struct.unpack_from(">QB", payload, 4)
        if multiple:
            self.through = max(self.through, tag)
        else:
            # A single one may run ahead of its elders: with persistent messages each queue confirms at its own pace.
            self._above.add(tag)
        while self.through + 1 in self._above:
            self._above.remove(self.through + 1)
            self.through += 1


def publish(load: Load, stream: Stream, gate: Gate) -> Outcome:
    """Send the stream in writes of up to 64 KiB; it takes until the broker has it all."""
    with connect(load.port, load.vhost, load.tls) as client:
        batches = Batches(stream.exchange, stream.routing_keys, load.size, load.properties(), load.window)
        per_batch = batches.per_batch
        if load.confirm:
            client.call(85, 10, b"\0")
        confirms = Confirms(client)
        started = gate.pass_through()
        pace = Pace(load.publish_rate, started)
        sent = 0
        while sent < stream.count:
            number = min(per_batch, stream.count - sent)
            client.sock.sendall(batches.next(number))
            sent += number
            pace.wait(sent)
            if load.confirm:
                while sent - confirms.through > load.window - per_batch and confirms.through < sent:
                    confirms.read()
        if load.confirm:
            while confirms.through < stream.count:
                confirms.read()
        else:
            client.settle()
        return Outcome(time.perf_counter() - started)


def consume(load: Load, stream: Stream, gate: Gate) -> Outcome:
    """Take the stream from its queues; it takes from basic.consume to the last delivery.

    A consumer with a rate reports how many deliveries it had in each slice of its time.
    """
    with connect(load.port, load.vhost, load.tls) as client:
        if load.ack:
            client.prefetch(load.prefetch)
        size = delivery_size(load, stream, client.frame_max)
        started = gate.pass_through()
        _subscribe(client, load, stream)
        pace = Pace(load.consume_rate, started)
        slices = Slices(min(1.0, load.seconds / 10), started)
        got, wanted = len(client.buffer), size * stream.count
        buffer = bytearray(1 << 20)
        acked = _acknowledge(client, load, got // size, 0, stream.count)
        while got < wanted:
            received = client.sock.recv_into(buffer)
            if not received:
                raise BrokerClosed("the broker hung up")
            got += received
            acked = _acknowledge(client, load, got // size, acked, stream.count)
            if load.consume_rate:
                pace.wait(got // size)
                slices.count(got // size, time.perf_counter())
        if got > wanted:
            raise LoadFailed(f"{got} bytes of deliveries instead of {wanted}")
        return Outcome(time.perf_counter() - started, slices.counts)


def _subscribe(client: Client, load: Load, stream: Stream) -> None:
    """Consume from one queue and wait for the answer; from several without one, which would lie between deliveries."""
    flags = (0 if load.ack else NO_ACK) | (NO_WAIT if stream.others else 0)
    for name, tag in zip(stream.queues, stream.consumer_tags, strict=True):
        names = shortstr(name) + shortstr(tag)
        client.sock.sendall(method(60, 20, b"\0\0" + names + bytes([flags]) + EMPTY_TABLE))
    if not stream.others:
        client.expect(60, 21)


def _acknowledge(client: Client, load: Load, done: int, acked: int, count: int) -> int:
    """Acknowledge what is due of the first `done` deliveries and return how many are acknowledged by now."""
    if load.ack == 0 or done == acked:
        return acked
    if load.ack == 1:
        acks = (method(60, 80, struct.pack(">QB", tag, 0)) for tag in range(acked + 1, done + 1))
        client.sock.sendall(b"".join(acks))
        return done
    if done - acked >= load.ack or done == count:
        client.sock.sendall(method(60, 80, struct.pack(">QB", done, 1)))
        return done
    return acked


def delivery_size(load: Load, stream: Stream, frame_max: int) -> int:
    """Return the bytes of one delivery: its method, its header and its body's frames."""
    names = sum(1 + len(name) for name in (stream.consumer_tags[0], stream.exchange, stream.routing_keys[0]))
    deliver = FRAME_OVERHEAD + 4 + names + 8 + 1
    header = FRAME_OVERHEAD + 4 + 8 + 2 + len(load.properties()[1])
    body_frames = -(-load.size // (frame_max - FRAME_OVERHEAD))
    return deliver + header + load.size + FRAME_OVERHEAD * body_frames


@contextmanager
def topology(load: Load) -> Iterator[list[Stream]]:
    """Declare the run's queues, exchanges and bindings, and delete them at the end."""
    prefix = f"load-{os.getpid()}"
    streams = _streams(load, prefix)
    exchanges = sorted({stream.exchange for stream in streams} - {""})
    with connect(load.port, load.vhost, load.tls) as admin:
        try:
            _declare(admin, load, streams, exchanges)
            yield streams
        except BaseException:
            with suppress(OSError, BrokerClosed):  # the run's own failure is the one to tell
                _delete(admin, streams, exchanges)
            raise
        _delete(admin, streams, exchanges)


def _declare(admin: Client, load: Load, streams: list[Stream], exchanges: list[str]) -> None:
    for name in _queue_names(streams):
        admin.declare_queue(name, durable=load.persistent)
    for exchange in exchanges:
        admin.declare_exchange(exchange, "topic" if load.keys else "fanout")
    for stream in streams:
        for pattern in _patterns(load):
            admin.bind(stream.queue, stream.exchange, pattern)


def _delete(admin: Client, streams: list[Stream], exchanges: list[str]) -> None:
    for name in _queue_names(streams):
        admin.delete_queue(name)
    for exchange in exchanges:
        admin.delete_exchange(exchange)


def _queue_names(streams: list[Stream]) -> list[str]:
    return [name for stream in streams for name in stream.queues]


def _streams(load: Load, prefix: str) -> list[Stream]:
    names = [f"{prefix}-{number:03d}" for number in range(load.queues)]
    if load.one_pair:
        # As many messages in each queue.
        return [Stream(names[0], "", names, load.count // load.queues * load.queues, names[1:])]
    each = load.count if load.fanout else load.count // load.queues
    return [_stream(load, prefix, name, each) for name in names]


def _stream(load: Load, prefix: str, queue_name: str, count: int) -> Stream:
    if load.keys:
        return Stream(queue_name, f"{queue_name}.x", [f"a{number:06d}.b.c" for number in range(load.keys)], count)
    if load.fanout:
        return Stream(queue_name, f"{prefix}.x", [""], count)
    return Stream(queue_name, "", [queue_name], count)


def _patterns(load: Load) -> Iterator[str]:
    """Yield the binding keys of one queue: one wildcard for each routing key, then those that match nothing."""
    if load.fanout and not load.keys:
        yield ""
    if load.keys:
        yield from (f"a{number:06d}.*.c" for number in range(load.keys))
        for number in range(load.idle_bindings):
            yield f"z{number:06d}.#" if number % 3 == 0 else f"z{number:06d}.b.c"


def run(load: Load) -> dict[str, object]:
    """Run one load, as often as it says, and return its figures."""
    figures: dict[str, object] = {
        "size": load.size,
        "count": load.count,
        "persistent": load.persistent,
        "confirm": load.confirm,
        "ack": load.ack,
        "queues": load.queues,
    }
    if load.slow:
        return figures | slow(load)
    runs = [once(load) for _ in range(load.times)]
    figures |= {key: statistics.median(figure[key] for figure in runs) for key in runs[0]}
    if load.times > 1:
        rates = [figure["rate"] for figure in runs]
        figures["slowest"] = round(min(rates) / statistics.median(rates), 3)
    return figures


def once(load: Load) -> dict[str, float]:
    """Run the load and return its rates and the broker's processor time."""
    figures: dict[str, float] = {}
    with topology(load) as streams:
        publishers, consumers = jobs(load, streams)
        used = ProcessorTime(load.pid)
        if load.drain or load.publish_only:
            seconds, _ = run_together(publishers)
            figures["publish_rate"] = per_second(load.count, seconds)
            if not load.publish_only:
                rest(load)
                seconds, _ = run_together(consumers)
                figures["consume_rate"] = per_second(load.count, seconds)
        else:
            seconds, outcomes = run_together(publishers + consumers)
            figures["rate"] = per_second(load.count, seconds)
            publishing = max(outcome.seconds for outcome in outcomes if outcome.act == "publish")
            figures["publish_rate"] = per_second(load.count, publishing)
        return figures | used.figures(load.count)


def jobs(load: Load, streams: list[Stream]) -> tuple[list[Job], list[Job]]:
    """Return who publishes and who consumes."""
    publishers: list[Job] = [
        ("publish", partial(publish, load, stream)) for stream in (streams[:1] if load.fanout else streams)
    ]
    consumers: list[Job] = [("consume", partial(consume, load, stream)) for stream in streams]
    return publishers, consumers


def rest(load: Load) -> None:
    """Leave the broker alone for a while, and then until it does nothing any more."""
    if not load.rest:
        return
    before = cpu_seconds(load.pid)
    time.sleep(load.rest)
    deadline = time.perf_counter() + RUN_SECONDS / 4
    while load.pid and time.perf_counter() < deadline:
        used = cpu_seconds(load.pid)
        if used - before <= QUIET_SHARE * load.rest:
            return
        before = used
        time.sleep(load.rest)


def slow(load: Load) -> dict[str, float]:
    """Run a consumer that is 10 % slower than its publisher; return what of the consumer's own rate the pair kept."""
    own = load.consume_rate or statistics.median(once(load)["rate"] for _ in range(FIND_RUNS)) / FASTER
    count = max(1, int(own * load.seconds))
    paced = replace(load, count=count, consume_rate=own, publish_rate=own * FASTER)
    with topology(paced) as streams:
        publishers, consumers = jobs(paced, streams)
        used = ProcessorTime(load.pid)
        seconds, outcomes = run_together(publishers + consumers)
        slices = next(outcome.samples for outcome in outcomes if outcome.act == "consume")
        slice_seconds = min(1.0, load.seconds / 10)
        kept = count / seconds / own
        return {
            "rate": per_second(count, seconds),
            "consumer_rate": round(own),
            "kept": round(kept, 3),
            "kept_lowest": round(min([number / slice_seconds / own for number in slices], default=kept), 3),
        } | used.figures(count)


def parse(arguments: Sequence[str] | None = None) -> Load:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--vhost", default="/")
    parser.add_argument("--size", type=int, default=100, help="bytes of a body")
    parser.add_argument("--count", type=int, default=200_000, help="messages published, over all queues")
    parser.add_argument("--queues", type=int, default=1)
    parser.add_argument("--one-pair", action="store_true", help="one process publishes to all queues, another consumes")
    parser.add_argument("--persistent", action="store_true", help="persistent messages, durable queues")
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--window", type=int, default=1000, help="with --confirm: messages that may wait for it")
    parser.add_argument("--prefetch", type=int, default=1000)
    parser.add_argument("--ack", type=int, default=0, help="0: auto-ack; 1: one ack a message; K: multiple ack each K")
    parser.add_argument("--drain", action="store_true", help="publish all first, then consume")
    parser.add_argument("--rest", type=float, default=0, help="with --drain: seconds the broker rests in between")
    parser.add_argument("--props", action="store_true", help="content-type, message-id and a table of three headers")
    parser.add_argument(
        "--keys",
        type=int,
        default=0,
        help="through a topic exchange with this many rotating keys, one wildcard binding each",
    )
    parser.add_argument(
        "--idle-bindings", type=int, default=0, help="with --keys: that many more bindings that match nothing"
    )
    parser.add_argument(
        "--fanout", action="store_true", help="one publisher to a fanout exchange, every queue gets every message"
    )
    parser.add_argument("--publish-only", action="store_true")
    parser.add_argument("--times", type=int, default=1, help="so many runs: their median, and the slowest relative to it")
    parser.add_argument("--slow", action="store_true", help="a consumer that is 10 %% slower than its publisher")
    parser.add_argument("--seconds", type=float, default=10, help="with --slow: how long")
    parser.add_argument("--publish-rate", type=float, default=0, help="messages a second at most")
    parser.add_argument("--consume-rate", type=float, default=0, help="messages a second at most")
    parser.add_argument("--tls", action="store_true", help="over TLS, whoever has signed the broker's certificate")
    parser.add_argument("--pid", type=int, default=0, help="the broker's process: report its CPU time a message")
    load = Load(**vars(parser.parse_args(arguments)))
    if load.queues < 1 or load.count < (1 if load.fanout else load.queues):
        parser.error("--count must give each of --queues a message")
    if load.one_pair and (load.keys or load.fanout):
        parser.error("--one-pair publishes to the default exchange")
    if load.times < 1 or (load.times > 1 and (load.drain or load.publish_only or load.slow)):
        parser.error("--times is for runs that publish and consume at once")
    if load.slow and (load.drain or load.publish_only or load.queues > 1 or load.seconds <= 0):
        parser.error("--slow is for one queue, and some seconds")
    return load


if __name__ == "__main__":
    main(partial(run, parse()))
