"""The deduplication exchange: a fanout that lets each value of the header x-deduplication-header through once.

How many values are remembered is `x-cache-size`, for how long `x-cache-ttl` (ms; for ever without), or a message's own
header x-cache-ttl. A message without the header always passes. One that does not goes nowhere: it is confirmed, and
returned if it was mandatory. `x-cache-persistence` is kept and changes nothing.
"""

from typing import TYPE_CHECKING

from leveret.broker.arguments import INTEGERS
from leveret.broker.deduplication import HEADER, Cache, key_of_value
from leveret.broker.exchange import FanoutExchange
from leveret.broker.work import Work
from leveret.errors import PreconditionFailed
from leveret.wire.properties import Properties
from leveret.wire.values import Table, Value, kind_of

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost


class DeduplicationExchange(FanoutExchange):
    """To every destination, what was not seen before."""

    __slots__ = ("_cache", "_work")

    _work: Work

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        FanoutExchange.__init__(self, name, title, kind, arguments)
        self.varies = True
        self._cache = Cache(positive(arguments.get("x-cache-size")), positive(arguments.get("x-cache-ttl")))

    @staticmethod
    def check_arguments(arguments: Table) -> None:
        for name in ("x-cache-size", "x-cache-ttl"):
            if (name in arguments or name == "x-cache-size") and not positive(arguments.get(name)):
                raise PreconditionFailed(f"Invalid argument, '{name}' must be an integer greater than 0")

    def open(self, vhost: "VirtualHost") -> None:
        self._work = vhost.work

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        headers = (properties and properties.headers) or {}
        key = key_of_value(headers.get(HEADER))
        if key is not None:
            now = self._work.budget.now
            if self._cache.has(key, now):
                return []
            self._cache.add(key, now, positive(headers.get("x-cache-ttl")))
        return FanoutExchange.match(self, routing_key, properties)

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        # Asked once for each key, it would find the message a duplicate of itself.
        return self.match(routing_keys[0], properties)


def positive(value: Value) -> int:
    """A whole number above 0, or 0 for whatever else it is."""
    return max(int(value), 0) if isinstance(value, int) and kind_of(value) in INTEGERS else 0
