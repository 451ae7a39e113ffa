"""Deduplication: which values of the header x-deduplication-header are in a queue, or were until recently.

`x-cache-size` and `x-cache-ttl` extend it to messages that have left: that many values, for so long.
"""

from collections import OrderedDict

from leveret.broker.message import Message
from leveret.wire.content import FLAG_HEADERS, properties_of
from leveret.wire.values import Table, Value

HEADER = "x-deduplication-header"
CACHE_SIZE_MAX = 1_000_000


class Deduplication:
    """The values in hand, and those remembered after they have left."""

    __slots__ = ("_cache_size", "_cache_ttl_ms", "_here", "_left")

    def __init__(self, arguments: Table) -> None:
        size, ttl_ms = arguments.get("x-cache-size"), arguments.get("x-cache-ttl")
        self._cache_ttl_ms = int(ttl_ms) if isinstance(ttl_ms, int) else 0
        limit = int(size) if isinstance(size, int) else (CACHE_SIZE_MAX if self._cache_ttl_ms else 0)
        self._cache_size = min(limit, CACHE_SIZE_MAX)
        self._here: dict[object, int] = {}
        self._left: OrderedDict[object, int] = OrderedDict()

    def seen(self, key: object, now: int) -> bool:
        """Whether a message with this key is here, or was recently."""
        if key is None:
            return False
        if key in self._here:
            return True
        left_at = self._left.get(key)
        return left_at is not None and (not self._cache_ttl_ms or now - left_at < self._cache_ttl_ms)

    def add(self, key: object) -> None:
        """A message with this key has come."""
        if key is not None:
            self._here[key] = self._here.get(key, 0) + 1

    def remove(self, key: object, now: int) -> None:
        """A message with this key has left."""
        if key is None or key not in self._here:
            return
        self.forget(key)
        if self._cache_size:
            self._left[key] = now
            self._left.move_to_end(key)
            if len(self._left) > self._cache_size:
                self._left.popitem(last=False)

    def forget(self, key: object) -> None:
        """A message with this key has left, and nobody need remember."""
        count = self._here.pop(key, 0)
        if count > 1:
            self._here[key] = count - 1

    def clear(self) -> None:
        """All messages have left, and nobody need remember."""
        self._here.clear()


def key_of(message: Message) -> Value:
    """The value a message is told apart by; None if it has none."""
    if not message.flags & FLAG_HEADERS:
        return None
    headers = properties_of(message.content, message.header_size).headers or {}
    value = headers.get(HEADER)
    return value if isinstance(value, str | int | bytes) else None
