"""Measure how fast `leveret.work` hands messages to a handler, beside a plain pika loop that acknowledges each.

Empty messages, one thread, the same prefetch, the two in turns; from the first message to the last. Where the ratio of the
medians is below what is demanded, the line says so.

  work.py [--count 100000] [--rounds 3] [--prefetch 100] [--strict]
"""

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pika
from tests.bench.brokers import Broker, BrokerFailed, leveret, stop_on_sigterm
from tests.bench.client import connect, publish_frames

from leveret.work import Exchange, Message, Runtime, Subscription

DEMANDED = 0.85
QUEUE = "work.bench"
WRITE = 500


def fill(broker: Broker, count: int) -> None:
    with connect(broker.port) as client:
        client.declare_queue(QUEUE, durable=True)
        frames = publish_frames("", QUEUE, b"") * WRITE
        for _ in range(count // WRITE):
            client.sock.sendall(frames)
        while client.message_count(QUEUE) < count:
            time.sleep(0.01)


class Clock:
    """Counts messages, and knows when the first and the last came."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._left = count
        self._first = self._last = 0.0

    def tick(self) -> bool:
        """One message more; whether it was the last."""
        if self._left == self._count:
            self._first = time.perf_counter()
        self._left -= 1
        if self._left:
            return False
        self._last = time.perf_counter()
        return True

    @property
    def rate(self) -> float:
        return self._count / (self._last - self._first)


def pika_rate(broker: Broker, count: int, prefetch: int) -> float:
    """A second's messages of a loop that acknowledges each."""
    clock = Clock(count)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)

    def handle(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        channel.basic_ack(method.delivery_tag)
        if clock.tick():
            channel.stop_consuming()

    channel.basic_consume(QUEUE, handle)
    channel.start_consuming()
    connection.close()
    return clock.rate


def work_rate(broker: Broker, count: int, prefetch: int) -> float:
    """A second's messages of a subscription with one thread."""
    clock = Clock(count)

    async def run() -> None:
        loop = asyncio.get_running_loop()

        def handle(message: Message) -> None:
            if clock.tick():
                loop.call_soon_threadsafe(runtime.stop)

        one = Subscription(name="bench", queue=QUEUE, prefetch_count=prefetch, handler=handle)
        runtime = Runtime(f"amqp://127.0.0.1:{broker.port}", [Exchange("work.bench", subscriptions=[one])])
        await runtime.run()

    asyncio.run(run())
    return clock.rate


def left(broker: Broker) -> int:
    with connect(broker.port) as client:
        return client.message_count(QUEUE)


def measure(count: int, rounds: int, prefetch: int) -> float:
    """Print both rates, and return the ratio of their medians."""
    rates: dict[str, list[float]] = {"leveret work": [], "pika": []}
    with leveret() as broker:
        for _ in range(rounds):
            for name, rate in (("leveret work", work_rate), ("pika", pika_rate)):
                fill(broker, count)
                rates[name].append(rate(broker, count, prefetch))
                if left(broker):
                    raise BrokerFailed(f"{name} has left messages")
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratio = medians["leveret work"] / medians["pika"]
    for name, median in medians.items():
        print(f"{name:<15}{median:>10,.0f} messages/s, one thread, prefetch {prefetch}, {count:,} empty ones", flush=True)
    print(f"{'ratio':<15}{ratio:>10.2f} ≥ {DEMANDED}  {'reached' if ratio >= DEMANDED else 'MISSED'}", flush=True)
    return ratio


def main() -> int:
    description, _, _ = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefetch", type=int, default=100)
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if the ratio is missed")
    options = parser.parse_args()
    stop_on_sigterm()
    try:
        ratio = measure(options.count, options.rounds, options.prefetch)
    except BrokerFailed as error:
        print(error, file=sys.stderr)
        return 2
    return int(options.strict and ratio < DEMANDED)


if __name__ == "__main__":
    sys.exit(main())
