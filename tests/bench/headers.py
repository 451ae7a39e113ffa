"""Measure what many bindings cost a headers exchange.

A queue is bound 20,000 times, each time with another value of one header, and gets messages with all these values in turn;
each matches one binding. The same number of messages then goes through an exchange with a single binding, which all of
them match. What is measured is how long the broker takes to have them all in the queue.

  headers.py [--broker leveret|plain|rabbitmq] [--bindings 20000] [--messages 40000] [--rounds 3]
"""

import argparse
import statistics
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import KINDS, BrokerFailed, stop_on_sigterm
from tests.bench.client import NO_WAIT_BIND, BrokerClosed, Client, connect, longstr, method, publish_frames, shortstr
from tests.bench.routing import DEMANDED, Rates

FLAG_HEADERS = 0x2000
MANY, SINGLE = "headers-many", "headers-single"


def table(value: int) -> bytes:
    """A field table with one header, a number."""
    return longstr(shortstr("number") + b"l" + struct.pack(">q", value))


def bind_frame(exchange: str, value: int) -> bytes:
    names = shortstr(exchange) + shortstr(exchange) + shortstr("")
    return method(50, 20, b"\0\0" + names + bytes([NO_WAIT_BIND]) + table(value))


def header_rates(port: int, bindings: int = 20_000, messages: int = 40_000, rounds: int = 3) -> Rates:
    """Run both in turn and return the medians."""
    rates: dict[str, list[float]] = {MANY: [], SINGLE: []}
    with connect(port) as client:
        values = {MANY: [number % bindings for number in range(messages)], SINGLE: [0] * messages}
        data = {
            name: b"".join(publish_frames(name, "", b"x" * 16, FLAG_HEADERS, table(n)) for n in values[name])
            for name in values
        }
        for name, count in ((MANY, bindings), (SINGLE, 1)):
            client.declare_exchange(name, "headers")
            client.declare_queue(name)
            client.sock.sendall(b"".join(bind_frame(name, value) for value in range(count)))
            client.settle()
        for _ in range(rounds):
            for name, found in rates.items():
                found.append(messages / seconds_to_publish(client, name, data[name], messages))
        for name in rates:
            client.delete_queue(name)
            client.delete_exchange(name)
    return Rates(statistics.median(rates[MANY]), statistics.median(rates[SINGLE]))


def seconds_to_publish(client: Client, queue: str, data: bytes, messages: int) -> float:
    """How long it takes until the broker has all of them where they belong; it is empty again afterwards."""
    start = time.perf_counter()
    client.sock.sendall(data)
    client.settle()
    seconds = time.perf_counter() - start
    answer = client.call(50, 30, b"\0\0" + shortstr(queue) + b"\0")
    count = int.from_bytes(answer, "big")
    if count != messages:
        raise BrokerClosed(f"{count} of {messages} messages came to {queue}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what many bindings cost a headers exchange.")
    parser.add_argument("--broker", choices=KINDS, default="leveret")
    parser.add_argument("--bindings", type=int, default=20_000)
    parser.add_argument("--messages", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    stop_on_sigterm()
    try:
        with KINDS[options.broker]() as broker:
            rates = header_rates(broker.port, options.bindings, options.messages, options.rounds)
    except (BrokerFailed, BrokerClosed) as error:
        sys.exit(str(error))
    print(f"{options.broker}: {rates.many:,.0f} msg/s with {options.bindings:,} bindings, {rates.single:,.0f} with one")
    print(f"ratio {rates.ratio:.2f} (demanded: ≥ {DEMANDED})")


if __name__ == "__main__":
    main()
