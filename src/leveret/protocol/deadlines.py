"""The acknowledgement timeout: whether a client keeps a delivery longer than it may.

Costs a message nothing: now and then the next delivery tag is noted with the time, and whatever is outstanding below a
tag noted long enough ago is overdue. So it is found out late by up to the time between two looks.
"""

from leveret.protocol.unacked import Unacked

LOOK_MS = 60_000


def look_every_ms(timeout_ms: int) -> int:
    """How often to look."""
    return max(1, min(LOOK_MS, timeout_ms // 4))


class Deadlines:
    """The tags noted on one channel."""

    __slots__ = ("_late", "_noted")

    def __init__(self) -> None:
        self._noted: list[tuple[int, int]] = []
        self._late = 0

    def overdue(self, unacked: Unacked, now: int, timeout_ms: int) -> bool:
        """Whether something has been outstanding since before `timeout_ms` ago; notes how far it is now."""
        while self._noted and now - self._noted[0][0] >= timeout_ms:
            self._late = self._noted.pop(0)[1]
        if not unacked.count:
            self._noted.clear()
            return False
        if not self._noted or self._noted[-1][1] != unacked.next_tag:
            self._noted.append((now, unacked.next_tag))
        return unacked.first_tag() < self._late
