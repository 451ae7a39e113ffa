"""A light AMQP 0-9-1 load generator: raw sockets and frames encoded beforehand, so that the broker, not the generator,
is what a run measures.

One process publishes and another consumes, a pair for each queue.  All deliveries of a run have the same size, so the
consumer only counts bytes.  A run's time goes from the moment all processes are connected and let go until the last of
them has ended: publishers end when everything is confirmed (without --confirm: when a synchronous call behind the last
message is answered), consumers when the last delivery is in and its acknowledgement sent.

  amqp_load.py --port 5672 --size 100 --count 200000 [--persistent] [--confirm] [--ack 0|1|K] [--vhost /]
               [--queues N] [--drain] [--props] [--keys N [--idle-bindings M]] [--fanout] [--publish-only] [--pid PID]

Prints one JSON line.
"""

import argparse
import json
import multiprocessing
import os
import queue
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.client import (
    EMPTY_TABLE,
    FRAME_OVERHEAD,
    METHOD,
    SILENCE_SECONDS,
    BrokerClosed,
    Client,
    connect,
    method,
    publish_frames,
    shortstr,
    string_table,
)

CONSUMER_TAG = "c"
RUN_SECONDS = 600
BASIC_ACK, BASIC_NACK = struct.pack(">HH", 60, 80), struct.pack(">HH", 60, 120)
FORK = multiprocessing.get_context("fork")


class LoadFailed(Exception):
    """A publisher or consumer of the run did not reach its end."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent and how it is taken; the fields are the command line's options."""

    port: int = 5672
    vhost: str = "/"
    size: int = 100
    count: int = 200_000
    queues: int = 1
    persistent: bool = False
    confirm: bool = False
    window: int = 1000
    prefetch: int = 1000
    ack: int = 0
    drain: bool = False
    props: bool = False
    keys: int = 0
    idle_bindings: int = 0
    fanout: bool = False
    publish_only: bool = False
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
    """The messages of one queue: where they are published, the keys they take in turn (all of one length)."""

    queue: str
    exchange: str
    routing_keys: Sequence[str]
    count: int


@dataclass(frozen=True, slots=True)
class Gate:
    """Where the processes of a run meet: all say that they are ready, then all are let go."""

    ready: Semaphore
    go: Event

    def pass_through(self) -> float:
        """Wait for the start and return its time."""
        self.ready.release()
        if not self.go.wait(RUN_SECONDS):
            raise LoadFailed("the run never started")
        return time.perf_counter()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How long one process took, or what it died of."""

    act: str
    seconds: float
    error: str = ""


Act = Callable[[Load, Stream, Gate], float]
Job = tuple[Act, Stream]


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


def publish(load: Load, stream: Stream, gate: Gate) -> float:
    """Send the stream in writes of up to 64 KiB and return the seconds until the broker had it all."""
    with connect(load.port, load.vhost) as client:
        batches, per_batch, size = _encode_batches(load, stream)
        if load.confirm:
            client.call(85, 10, b"\0")
        confirms = Confirms(client)
        started = gate.pass_through()
        sent = turn = 0
        while sent < stream.count:
            number = min(per_batch, stream.count - sent)
            batch = batches[turn]
            turn = (turn + 1) % len(batches)
            client.sock.sendall(batch if number == per_batch else batch[: size * number])
            sent += number
            if load.confirm:
                while sent - confirms.through > load.window - per_batch and confirms.through < sent:
                    confirms.read()
        if load.confirm:
            while confirms.through < stream.count:
                confirms.read()
        else:
            client.settle()
        return time.perf_counter() - started


def _encode_batches(load: Load, stream: Stream) -> tuple[list[bytes], int, int]:
    """Return writes that hold every routing key in turn, how many messages each holds, and a message's size."""
    body = os.urandom(load.size)
    flags, properties = load.properties()
    keys = stream.routing_keys
    size = len(publish_frames(stream.exchange, keys[0], body, flags, properties))
    per_batch = max(1, min(65536 // size, 512, load.window))
    batch_count = -(-len(keys) // per_batch) if len(keys) > 1 else 1
    batches = []
    for first in range(0, batch_count * per_batch, per_batch):
        turn = (keys[number % len(keys)] for number in range(first, first + per_batch))
        batches.append(b"".join(publish_frames(stream.exchange, key, body, flags, properties) for key in turn))
    return batches, per_batch, size


def consume(load: Load, stream: Stream, gate: Gate) -> float:
    """Take the stream from its queue and return the seconds from basic.consume to the last delivery."""
    with connect(load.port, load.vhost) as client:
        if load.ack:
            client.prefetch(load.prefetch)
        size = _delivery_size(load, stream, client.frame_max)
        no_ack = b"\0" if load.ack else b"\2"
        names = shortstr(stream.queue) + shortstr(CONSUMER_TAG)
        subscribe = method(60, 20, b"\0\0" + names + no_ack + EMPTY_TABLE)
        started = gate.pass_through()
        client.sock.sendall(subscribe)
        client.expect(60, 21)
        got, wanted = len(client.buffer), size * stream.count
        buffer = bytearray(1 << 20)
        acked = _acknowledge(client, load, got // size, 0, stream.count)
        while got < wanted:
            received = client.sock.recv_into(buffer)
            if not received:
                raise BrokerClosed("the broker hung up")
            got += received
            acked = _acknowledge(client, load, got // size, acked, stream.count)
        if got > wanted:
            raise LoadFailed(f"{got} bytes of deliveries instead of {wanted}")
        return time.perf_counter() - started


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


def _delivery_size(load: Load, stream: Stream, frame_max: int) -> int:
    """Return the bytes of one delivery: its method, its header and its body's frames."""
    names = sum(1 + len(name) for name in (CONSUMER_TAG, stream.exchange, stream.routing_keys[0]))
    deliver = FRAME_OVERHEAD + 4 + names + 8 + 1
    header = FRAME_OVERHEAD + 4 + 8 + 2 + len(load.properties()[1])
    body_frames = -(-load.size // (frame_max - FRAME_OVERHEAD))
    return deliver + header + load.size + FRAME_OVERHEAD * body_frames


def run_together(load: Load, jobs: Sequence[Job]) -> tuple[float, list[Outcome]]:
    """Run each job in a process, all let go at once; return the seconds until all have ended, and their outcomes."""
    gate = Gate(FORK.Semaphore(0), FORK.Event())
    outcomes: Queue[Outcome] = FORK.Queue()
    processes = [FORK.Process(target=_work, args=(act, load, stream, gate, outcomes)) for act, stream in jobs]
    try:
        for process in processes:
            process.start()
        for _ in processes:
            if not gate.ready.acquire(timeout=RUN_SECONDS):
                raise LoadFailed("not all processes could connect")
        started = time.perf_counter()
        gate.go.set()
        ended = [_next_outcome(outcomes) for _ in processes]
        for process in processes:
            process.join()
        return time.perf_counter() - started, ended
    finally:
        for process in processes:
            if process.pid is not None and process.is_alive():
                process.terminate()
                process.join()


def _next_outcome(outcomes: "Queue[Outcome]") -> Outcome:
    try:
        outcome = outcomes.get(timeout=RUN_SECONDS)
    except queue.Empty:
        raise LoadFailed(f"no end after {RUN_SECONDS} s") from None
    if outcome.error:
        raise LoadFailed(f"{outcome.act}: {outcome.error}")
    return outcome


def _work(act: Act, load: Load, stream: Stream, gate: Gate, outcomes: "Queue[Outcome]") -> None:
    # Ctrl-C is the parent's to answer; it ends its children by SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        outcome = Outcome(act.__name__, act(load, stream, gate))
    except Exception as error:
        stuck = isinstance(error, BlockingIOError)
        reason = f"the broker did nothing for {SILENCE_SECONDS} s" if stuck else f"{type(error).__name__}: {error}"
        outcome = Outcome(act.__name__, 0.0, reason)
        gate.ready.release()
    outcomes.put(outcome)


@contextmanager
def topology(load: Load) -> Iterator[list[Stream]]:
    """Declare the run's queues, exchanges and bindings, and delete them at the end."""
    prefix = f"load-{os.getpid()}"
    each = load.count if load.fanout else load.count // load.queues
    streams = [_stream(load, prefix, f"{prefix}-{number:03d}", each) for number in range(load.queues)]
    exchanges = sorted({stream.exchange for stream in streams} - {""})
    with connect(load.port, load.vhost) as admin:
        try:
            _declare(admin, load, streams, exchanges)
            yield streams
        except BaseException:
            with suppress(OSError, BrokerClosed):  # the run's own failure is the one to tell
                _delete(admin, streams, exchanges)
            raise
        _delete(admin, streams, exchanges)


def _declare(admin: Client, load: Load, streams: list[Stream], exchanges: list[str]) -> None:
    for stream in streams:
        admin.declare_queue(stream.queue, durable=load.persistent)
    for exchange in exchanges:
        admin.declare_exchange(exchange, "topic" if load.keys else "fanout")
    for stream in streams:
        for pattern in _patterns(load):
            admin.bind(stream.queue, stream.exchange, pattern)


def _delete(admin: Client, streams: list[Stream], exchanges: list[str]) -> None:
    for stream in streams:
        admin.delete_queue(stream.queue)
    for exchange in exchanges:
        admin.delete_exchange(exchange)


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
    """Run one load and return its figures."""
    figures: dict[str, object] = {
        "size": load.size,
        "count": load.count,
        "persistent": load.persistent,
        "confirm": load.confirm,
        "ack": load.ack,
        "queues": load.queues,
    }
    with topology(load) as streams:
        publishers: list[Job] = [(publish, stream) for stream in (streams[:1] if load.fanout else streams)]
        consumers: list[Job] = [(consume, stream) for stream in streams]
        cpu_before = cpu_seconds(load.pid)
        if load.drain or load.publish_only:
            seconds, _ = run_together(load, publishers)
            figures["publish_rate"] = round(load.count / seconds)
            if not load.publish_only:
                seconds, _ = run_together(load, consumers)
                figures["consume_rate"] = round(load.count / seconds)
        else:
            seconds, outcomes = run_together(load, publishers + consumers)
            figures["rate"] = round(load.count / seconds)
            publishing = max(outcome.seconds for outcome in outcomes if outcome.act == "publish")
            figures["publish_rate"] = round(load.count / publishing)
        if load.pid:
            used = cpu_seconds(load.pid) - cpu_before
            figures["broker_cpu_us_per_msg"] = round(used / load.count * 1e6, 2)
    return figures


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far, all its threads together."""
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parse(arguments: Sequence[str] | None = None) -> Load:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--vhost", default="/")
    parser.add_argument("--size", type=int, default=100, help="bytes of a body")
    parser.add_argument("--count", type=int, default=200_000, help="messages published, over all queues")
    parser.add_argument("--queues", type=int, default=1)
    parser.add_argument("--persistent", action="store_true", help="persistent messages, durable queues")
    parser.add_argument("--confirm", action="store_true")
    parser.add_argument("--window", type=int, default=1000, help="with --confirm: messages that may wait for it")
    parser.add_argument("--prefetch", type=int, default=1000)
    parser.add_argument("--ack", type=int, default=0, help="0: auto-ack; 1: one ack a message; K: multiple ack each K")
    parser.add_argument("--drain", action="store_true", help="publish all first, then consume")
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
    parser.add_argument("--pid", type=int, default=0, help="the broker's process: report its CPU time a message")
    load = Load(**vars(parser.parse_args(arguments)))
    if load.queues < 1 or load.count < (1 if load.fanout else load.queues):
        parser.error("--count must give each of --queues a message")
    return load


def main() -> None:
    load = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(json.dumps(run(load)))
    except (LoadFailed, BrokerClosed, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
