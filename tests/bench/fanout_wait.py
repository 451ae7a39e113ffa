"""Measure how long other clients wait while a broker routes a burst to many queues.

One client publishes a burst to a fanout exchange, as fast as its socket takes it.  Meanwhile another asks an empty
queue for a message every few milliseconds and times each answer, until the burst is routed.

  fanout_wait.py [--broker leveret|plain|rabbitmq] [--queues 1000] [--messages 10000]
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import KINDS, BrokerFailed, stop_on_sigterm
from tests.bench.client import EMPTY_TABLE, NO_WAIT_BIND, Client, bind_frame, connect, method, publish_frames, shortstr

Clock = Callable[[], float]

PAUSE_SECONDS = 0.002
BODY = b"x" * 100


def longest_wait_ms(port: int, queues: int, messages: int, clock: Clock = time.perf_counter) -> float:
    """Return the longest answer's time, in milliseconds, while `messages` go to `queues` queues each."""
    return max(waits_ms(port, queues, messages, clock))


def waits_ms(port: int, queues: int, messages: int, clock: Clock = time.perf_counter) -> list[float]:
    """Return the time of each answer, in milliseconds, from the burst's first byte until it is routed."""
    name = f"fanout-wait-{os.getpid()}"
    burst = publish_frames(name, "", BODY) * messages
    with connect(port) as publisher, connect(port) as other, _fanout(publisher, name, queues):
        other.declare_queue(f"{name}-empty")
        ask = method(60, 70, b"\0\0" + shortstr(f"{name}-empty") + b"\1")
        # A thread will do: it stays in two system calls, a long send and the wait for an answer.
        with ThreadPoolExecutor(1) as pool, _garbage_uncollected():
            _answer_ms(other, ask, clock)
            waits = _waits_until(pool.submit(_send, publisher, burst), other, ask, clock)
        # The other's calls stand behind nothing, the publisher's behind its burst: this counts it all.
        routed = publisher.message_count(f"{name}-{queues - 1:04d}")
        if routed != messages:
            raise ValueError(f"a queue got {routed} of {messages} messages")
        other.delete_queue(f"{name}-empty")
    return waits


def _send(publisher: Client, burst: bytes) -> None:
    publisher.sock.sendall(burst)
    publisher.settle()


def _waits_until(routed: "Future[None]", other: Client, ask: bytes, clock: Clock) -> list[float]:
    waits = [_answer_ms(other, ask, clock)]
    while not routed.done():
        time.sleep(PAUSE_SECONDS)
        waits.append(_answer_ms(other, ask, clock))
    routed.result()
    return waits


def _answer_ms(other: Client, ask: bytes, clock: Clock) -> float:
    started = clock()
    other.sock.sendall(ask)
    other.expect(60, 72)
    return (clock() - started) * 1000


@contextmanager
def _fanout(client: Client, name: str, queues: int) -> Iterator[None]:
    """Declare a fanout exchange with that many queues, and delete them at the end."""
    names = [f"{name}-{number:04d}" for number in range(queues)]
    client.declare_exchange(name, "fanout")
    # With no-wait, and one call behind them all: a round trip for each would take longer than the burst.
    for queue in names:
        client.sock.sendall(method(50, 10, b"\0\0" + shortstr(queue) + b"\x10" + EMPTY_TABLE))
        client.sock.sendall(bind_frame(queue, name, "", NO_WAIT_BIND))
    client.settle()
    yield
    client.sock.sendall(b"".join(method(50, 40, b"\0\0" + shortstr(queue) + b"\4") for queue in names))
    client.delete_exchange(name)


@contextmanager
def _garbage_uncollected() -> Iterator[None]:
    """Keep Python's collector still: in a process with a large heap its pauses would count as the broker's."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how long a client waits while others' burst is routed.")
    parser.add_argument("--broker", choices=KINDS, default="leveret")
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=10_000)
    options = parser.parse_args()
    stop_on_sigterm()
    try:
        with KINDS[options.broker]() as broker:
            started = time.perf_counter()
            waits = sorted(waits_ms(broker.port, options.queues, options.messages))
            seconds = time.perf_counter() - started
    except BrokerFailed as error:
        sys.exit(str(error))
    p99 = waits[min(len(waits) - 1, len(waits) * 99 // 100)]
    print(f"{options.broker}: {options.messages} messages to {options.queues} queues each, {seconds:.1f} s")
    print(f"longest wait {waits[-1]:.1f} ms (demanded: ≤ 50), p99 {p99:.1f} ms, median {statistics.median(waits):.1f} ms")
    print(f"of {len(waits)} answers")


if __name__ == "__main__":
    main()
