"""How fast one client may fill storage while others are active.

Writing as fast as the disk's cache takes it keeps a processor busy, and then the loop has to wait for its own: beside one
client that did so, one in a hundred messages of the others took 22 ms, and 5 ms with this limit. A client that is alone, or
has only its consumer beside it, is never slowed down.
"""

from collections.abc import Hashable

# Bytes a second, and the burst that is always allowed, in seconds of that rate.
BYTES_A_SECOND = 128e6
BURST_S = 0.002
# A third client counts as active for so long after it was last read.
ACTIVE_S = 0.02


class ActiveClients:
    """Whether more than two clients are active, and whether only one is."""

    def __init__(self) -> None:
        self._last: Hashable = None
        self._last_but_one: Hashable = None
        self._third_at = -ACTIVE_S
        # Who was read last, and since when nobody else was.
        self._reader: Hashable = None
        self._alone_since = 0.0

    def note(self, client: Hashable, now: float) -> None:
        """This client has sent something."""
        if client is not self._reader:
            self._reader = client
            self._alone_since = now
        if client is not self._last and client is not self._last_but_one:
            self._last_but_one = self._last
            self._last = client
            self._third_at = now

    def only_one(self, now: float) -> bool:
        return now - self._alone_since >= ACTIVE_S

    def more_than_two(self, now: float) -> bool:
        return now - self._third_at < ACTIVE_S


class RateLimit:
    """What one client gave storage, as the time at which the rate allows it."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    def ahead_s(self, size: int, now: float) -> float:
        """Count so many bytes more; by how many seconds the client is ahead of the rate."""
        self._until = max(self._until, now - BURST_S) + size / BYTES_A_SECOND
        return self._until - now
