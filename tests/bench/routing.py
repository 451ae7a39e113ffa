"""Measure what many bindings cost a topic exchange.

A queue takes messages with 10,000 routing keys in turn through an exchange with 100,000 bindings, 30 % of them with
wildcards; each key matches one to three of them.  The same keys then go through an exchange whose only binding is `#`.
The bindings come from a seed, so each run and each broker has the same ones.

  (1) A key is area.service.verb.number; its number, and its area with its service, are its own.
  (2) A binding that matches names one of the two, so it matches that key alone.
  (3) The other bindings use the same words with a number that no key has.

  routing.py [--broker leveret|plain|rabbitmq] [--messages 100000] [--rounds 3]
"""

import argparse
import functools
import os
import random
import statistics
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.amqp_load import Load, Stream, jobs
from tests.bench.brokers import KINDS, BrokerFailed, stop_on_sigterm
from tests.bench.client import connect
from tests.bench.processes import LoadFailed, run_together

SEED = 91
KEY_COUNT = 10_000
BINDING_COUNT = 100_000
WILDCARD_COUNT = 30_000
DEMANDED = 0.25

VERBS = ("made", "paid", "sent", "void")
LITERAL = "{area}.{service}.{verb}.{number}"
WILDCARDS = (
    "{area}.{service}.*.{number}",
    "*.{service}.{verb}.{number}",
    "{area}.*.*.{number}",
    "{area}.#.{number}",
    "#.{number}",
)
# Matches by area and service alone, so it is of no use for bindings that shall match nothing.
WHOLE_SERVICE = "{area}.{service}.#"


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second through the exchange with many bindings and through the one with a single one."""

    many: float
    single: float

    @property
    def ratio(self) -> float:
        return self.many / self.single


class Matcher:
    """A topic trie: tells which patterns match a routing key."""

    def __init__(self, patterns: Iterable[str]) -> None:
        # Nodes are dictionaries of words; the empty word, which no key here has, holds the pattern that ends there.
        self._root: dict[str, Any] = {}
        for pattern in patterns:
            node = self._root
            for word in pattern.split("."):
                node = node.setdefault(word, {})
            node[""] = pattern

    def match(self, routing_key: str) -> set[str]:
        found: set[str] = set()
        self._walk(self._root, routing_key.split("."), found)
        return found

    def _walk(self, node: dict[str, Any], words: list[str], found: set[str]) -> None:
        if not words and "" in node:
            found.add(node[""])
        if "#" in node:
            for start in range(len(words) + 1):
                self._walk(node["#"], words[start:], found)
        if words:
            for word in (words[0], "*"):
                if word in node:
                    self._walk(node[word], words[1:], found)


@functools.cache
def binding_set() -> tuple[list[str], list[str]]:
    """Return the routing keys and the bindings, checked against what the head of this file says of them."""
    chance = random.Random(SEED)
    keys, matching = _keys_and_matching(chance)
    bindings = matching + _idle_bindings(chance, len(matching), sum(map(is_wildcard, matching)))
    chance.shuffle(bindings)
    _check(keys, bindings)
    return keys, bindings


def is_wildcard(binding: str) -> bool:
    return "*" in binding or "#" in binding


def _keys_and_matching(chance: random.Random) -> tuple[list[str], list[str]]:
    keys, matching = [], []
    for number in range(KEY_COUNT):
        words = _words(chance, number, place=number)
        keys.append(LITERAL.format_map(words))
        forms = chance.sample((LITERAL, WHOLE_SERVICE, *WILDCARDS), chance.randint(1, 3))
        matching += [form.format_map(words) for form in forms]
    chance.shuffle(keys)
    return keys, matching


def _idle_bindings(chance: random.Random, taken: int, wildcards_taken: int) -> list[str]:
    """Return bindings that match no key, as many as the whole still lacks, each with a number of its own."""
    missing, wildcards_missing = BINDING_COUNT - taken, WILDCARD_COUNT - wildcards_taken
    bindings = []
    for number in range(missing):
        words = _words(chance, KEY_COUNT + number, place=chance.randrange(KEY_COUNT))
        form = chance.choice(WILDCARDS) if number < wildcards_missing else LITERAL
        bindings.append(form.format_map(words))
    return bindings


def _words(chance: random.Random, number: int, place: int) -> dict[str, str]:
    return {
        "area": f"area{place % 100:02d}",
        "service": f"service{place // 100:02d}",
        "verb": chance.choice(VERBS),
        "number": f"{number:05d}",
    }


def _check(keys: list[str], bindings: list[str]) -> None:
    if len(set(keys)) != KEY_COUNT or len({len(key) for key in keys}) != 1:
        raise ValueError("the routing keys are not distinct and of one length")
    if len(set(bindings)) != BINDING_COUNT or sum(map(is_wildcard, bindings)) != WILDCARD_COUNT:
        raise ValueError("the bindings are not distinct, or not as many with wildcards as they should be")
    matcher = Matcher(bindings)
    for key in keys:
        found = matcher.match(key)
        if not 1 <= len(found) <= 3:
            raise ValueError(f"{key} matches {sorted(found)}")


def routing_ratio(port: int) -> float:
    """Return the rate with many bindings over that with one."""
    return routing_rates(port).ratio


def routing_rates(port: int, messages: int = 100_000, rounds: int = 3) -> Rates:
    """Run both in turn and return the medians."""
    keys, bindings = binding_set()
    load = Load(port=port, count=messages)
    name = f"routing-{os.getpid()}"
    with (
        _bound_stream(port, f"{name}-many", keys, bindings, messages) as many,
        _bound_stream(port, f"{name}-only", keys, ["#"], messages) as single,
    ):
        rates: dict[str, list[float]] = {many.queue: [], single.queue: []}
        for _ in range(rounds):
            for stream in (many, single):
                publishers, consumers = jobs(load, [stream])
                seconds, _ = run_together(publishers + consumers)
                rates[stream.queue].append(messages / seconds)
    return Rates(statistics.median(rates[many.queue]), statistics.median(rates[single.queue]))


@contextmanager
def _bound_stream(port: int, name: str, keys: list[str], bindings: list[str], count: int) -> Iterator[Stream]:
    """Declare a topic exchange and a queue with these bindings, and delete them at the end."""
    with connect(port) as admin:
        admin.declare_exchange(name, "topic")
        admin.declare_queue(name)
        admin.bind_all(name, name, bindings)
        yield Stream(name, name, keys, count)
        admin.delete_queue(name)
        admin.delete_exchange(name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what many bindings cost a topic exchange.")
    parser.add_argument("--broker", choices=KINDS, default="leveret")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    stop_on_sigterm()
    try:
        with KINDS[options.broker]() as broker:
            rates = routing_rates(broker.port, options.messages, options.rounds)
    except (BrokerFailed, LoadFailed) as error:
        sys.exit(str(error))
    print(f"{options.broker}: {rates.many:,.0f} msg/s with {BINDING_COUNT:,} bindings, {rates.single:,.0f} with one")
    print(f"ratio {rates.ratio:.2f} (demanded: ≥ {DEMANDED})")


if __name__ == "__main__":
    main()
