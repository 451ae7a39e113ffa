"""Deduplication: which values of the header x-deduplication-header are in a queue, or were until recently.

`x-cache-size` and `x-cache-ttl` extend it to messages that have left: that many values, for so long. The exchange of that
name (`deduplication_exchange.py`) shares the cache.
"""

from collections import OrderedDict
from hashlib import blake2b

from leveret.broker.arguments import INTEGERS
from leveret.broker.message import Entry, Message
from leveret.broker.timers import NEVER
from leveret.wire.content import FLAG_HEADERS, properties_of
from leveret.wire.values import Table, Value, encode_value, kind_of

HEADER = "x-deduplication-header"
CACHE_SIZE_MAX = 1_000_000
KEY_SIZE_MAX = 64
# At each use so many expired keys are forgotten: more than can come with it, and few enough not to be felt.
FORGOTTEN_AT_ONCE = 8


class Cache:
    """Keys seen lately: at most `size` of them, each for `ttl_ms` (0 for as long as there is room).

    The oldest go first, and expired ones as soon as they are the oldest.
    """

    __slots__ = ("_expires_at", "_size", "_ttl_ms")

    def __init__(self, size: int, ttl_ms: int) -> None:
        self._size = min(size, CACHE_SIZE_MAX)
        self._ttl_ms = ttl_ms
        self._expires_at: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._expires_at)

    def has(self, key: bytes, now: int) -> bool:
        self._forget_expired(now)
        return self._expires_at.get(key, 0) > now

    def add(self, key: bytes, now: int, ttl_ms: int = 0) -> None:
        """Remember a key, for `ttl_ms` if that is said."""
        if not self._size:
            return
        ttl_ms = ttl_ms or self._ttl_ms
        self._expires_at[key] = now + ttl_ms if ttl_ms else NEVER
        self._expires_at.move_to_end(key)
        self._forget_expired(now)
        if len(self._expires_at) > self._size:
            self._expires_at.popitem(last=False)

    def _forget_expired(self, now: int) -> None:
        for _ in range(FORGOTTEN_AT_ONCE):
            if not self._expires_at or next(iter(self._expires_at.values())) > now:
                return
            self._expires_at.popitem(last=False)


class Deduplication:
    """The keys in hand, and those remembered after they have left."""

    __slots__ = ("_here", "_left")

    def __init__(self, arguments: Table) -> None:
        size, ttl = arguments.get("x-cache-size"), arguments.get("x-cache-ttl")
        ttl_ms = int(ttl) if isinstance(ttl, int) else 0
        limit = CACHE_SIZE_MAX if ttl_ms else 0
        self._left = Cache(int(size) if isinstance(size, int) else limit, ttl_ms)
        self._here: dict[bytes, int] = {}

    def seen(self, key: bytes | None, now: int) -> bool:
        """Whether a message with this key is here, or was recently."""
        return key is not None and (key in self._here or self._left.has(key, now))

    def add(self, key: bytes | None) -> None:
        """A message with this key has come."""
        if key is not None:
            self._here[key] = self._here.get(key, 0) + 1

    def remove(self, key: bytes | None, now: int) -> None:
        """A message with this key has left."""
        if key is not None and key in self._here:
            self.forget(key)
            self._left.add(key, now)

    def forget(self, key: bytes | None) -> None:
        """A message with this key has left, and nobody need remember."""
        if key is None:
            return
        count = self._here.pop(key, 0)
        if count > 1:
            self._here[key] = count - 1

    def purge(self, entries: list[Entry] | None) -> None:
        """These have left, or with None all, and nobody need remember."""
        if entries is None:
            self._here.clear()
            return
        for entry in entries:
            self.forget(key_of(entry.message))


def key_of(message: Message) -> bytes | None:
    """What a message is told apart by; None if it has no such header."""
    if not message.flags & FLAG_HEADERS:
        return None
    headers = properties_of(message.content, message.header_size).headers or {}
    return key_of_value(headers.get(HEADER))


def key_of_value(value: Value) -> bytes | None:
    """A header's value as a key, the same for a whole number of any width; None if it is of no use as one."""
    if not isinstance(value, str | int | bytes):
        return None
    key = encode_value(int(value) if kind_of(value) in INTEGERS else value)
    # A million long ones must not fill the memory.
    return key if len(key) <= KEY_SIZE_MAX else blake2b(key, digest_size=32).digest()
