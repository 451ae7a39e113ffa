"""The consistent hash exchange: each key to one destination, always the same, each destination its share of the keys.

A binding's routing key is its weight. What is hashed is the message's routing key, or by `hash-header` a header of any
type, or by `hash-property` its message_id, correlation_id or timestamp; messages without that go to one destination
together.

Weighted rendezvous hashing: every destination draws lots for a key, by a hash of both, and the highest score wins.

  (1) A destination's score depends on nothing but the key, its kind and name, and its weight. So when another one comes
      or goes, a key moves only to the new one, or from the one that is gone; with more weight a destination only gains.
  (2) score = -weight / ln(u), u even in (0, 1): the chance to win is the weight's share of all weights.
  (3) Nothing is stored for a unit of weight: a great weight costs no memory (RabbitMQ: CVE-2026-67219).
  (4) Bound twice, a destination has the greater of the two weights.

Both builds must come to the same choice: octets in, unsigned 64-bit arithmetic, one double at the end.
"""

import re
from hashlib import blake2b
from math import log
from typing import Any

from leveret.broker.arguments import integer_of
from leveret.broker.binding import Binding, Key
from leveret.broker.exchange import Exchange
from leveret.errors import PreconditionFailed
from leveret.terms import term
from leveret.wire.properties import Properties
from leveret.wire.values import Table, Value, encode_value

WEIGHT_MAX = 1 << 31
PROPERTIES = ("correlation_id", "message_id", "timestamp")

MASK = 0xFFFFFFFFFFFFFFFF
FIRST_FACTOR = 0xBF58476D1CE4E5B9
SECOND_FACTOR = 0x94D049BB133111EB
STEPS = float(1 << 52)


class Share:
    """What one binding has to win keys with."""

    __slots__ = ("destination", "seed", "weight")

    def __init__(self, destination: Any, seed: int, weight: int) -> None:
        self.destination = destination
        self.seed = seed
        self.weight = weight


class ConsistentHashExchange(Exchange):
    """To the one destination whose score for the key is the highest."""

    __slots__ = ("_header", "_list", "_property", "_shares")

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        header, hashed = arguments.get("hash-header"), arguments.get("hash-property")
        self._header = header if isinstance(header, str) else None
        self._property = hashed if isinstance(hashed, str) else None
        self._shares: dict[Key, Share] = {}
        self._list: list[Share] | None = None
        self.varies = self._header is not None or self._property is not None

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        if self._list is None:
            self._list = list(self._shares.values())
        if not self._list:
            return []
        self.looks += len(self._list)
        key = hash_of(self._hashed(routing_key, properties))
        destination: Any = choose(key, self._list).destination
        if not destination.deleted:
            return [destination]
        # It loses its bindings some at a time; the others take over at once.
        live = [share for share in self._list if not share.destination.deleted]
        return [choose(key, live).destination] if live else []

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        # RabbitMQ: the first key decides, and CC adds nothing.
        return self.match(routing_keys[0], properties)

    @staticmethod
    def check_arguments(arguments: Table) -> None:
        given = [name for name in ("hash-header", "hash-property") if name in arguments]
        for name in given:
            if not isinstance(arguments[name], str):
                raise PreconditionFailed(f"Invalid argument, '{name}' must be a string")
        if len(given) == 2:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        hashed = arguments.get("hash-property")
        if isinstance(hashed, str) and hashed not in PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {hashed}")

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        if not re.fullmatch("[+-]?[0-9]+", routing_key):
            raise PreconditionFailed(f"The binding key must be an integer: {term(routing_key)}")
        if int(routing_key) < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if int(routing_key) > WEIGHT_MAX:
            raise PreconditionFailed(f"The binding key must not be greater than {WEIGHT_MAX}")

    def _hashed(self, routing_key: str, properties: Properties | None) -> Value:
        """What of a message is hashed; None if it has no such thing."""
        if not self.varies:
            return routing_key
        if properties is None:
            return None
        if self._header is not None:
            return (properties.headers or {}).get(self._header)
        value: Value = getattr(properties, self._property or "")
        return value

    def _add(self, binding: Binding) -> None:
        destination = binding.destination
        seed = hash_of(["queue" if destination.is_queue else "exchange", destination.name])
        self._shares[binding.key] = Share(destination, seed, int(binding.routing_key))
        self._list = None

    def _remove(self, binding: Binding) -> None:
        del self._shares[binding.key]
        self._list = None


def hash_of(value: Value) -> int:
    """64 bits of any value; of whole numbers the width on the wire does not count."""
    number = integer_of(value)
    if number is not None:
        value = number
    return int.from_bytes(blake2b(encode_value(value), digest_size=8).digest(), "big")


def choose(key: int, shares: list[Share]) -> Share:
    """The share that wins the key; of equal scores the first."""
    best = shares[0]
    highest = 0.0
    for share in shares:
        # The end of SplitMix64: it makes two numbers that differ little into two that have nothing in common.
        mixed = key ^ share.seed
        mixed = (mixed ^ (mixed >> 30)) * FIRST_FACTOR & MASK
        mixed = (mixed ^ (mixed >> 27)) * SECOND_FACTOR & MASK
        mixed = mixed ^ (mixed >> 31)
        # 52 bits and a half: neither 0 nor 1, and exact as a double.
        score = -share.weight / log(((mixed >> 12) + 0.5) / STEPS)
        if score > highest:
            highest = score
            best = share
    return best
