"""How fast one client may fill storage while others are at work.

Writing as fast as the disk's cache takes it keeps a processor busy, and then the loop has to wait for its own: beside one
client that did so, one in a hundred messages of the others took 22 ms, and 5 ms with this. A client that is alone, or has
only its consumer beside it, is never held up.
"""

from collections.abc import Hashable

# Bytes a second; what may come at once, in seconds of that; and how long ago a third client may have been heard.
FASTEST = 128e6
AT_ONCE_S = 0.002
COMPANY_S = 0.02


class Company:
    """Whether more than two clients are at work."""

    def __init__(self) -> None:
        self._last: Hashable = None
        self._last_but_one: Hashable = None
        self._third_at = -COMPANY_S

    def heard(self, client: Hashable, now: float) -> None:
        """This client has sent something."""
        if client is not self._last and client is not self._last_but_one:
            self._last_but_one = self._last
            self._last = client
            self._third_at = now

    def present(self, now: float) -> bool:
        return now - self._third_at < COMPANY_S


class Pace:
    """What one client gave, as the time that should have taken."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = 0.0

    def ahead_s(self, size: int, now: float) -> float:
        """It gave so many bytes more: by how much it is too early."""
        self._until = max(self._until, now - AT_ONCE_S) + size / FASTEST
        return self._until - now
