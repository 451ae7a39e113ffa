"""How long a queue may be, and what happens to what is too much: x-max-length, x-max-length-bytes, x-overflow.

Only ready messages count. With `drop-head` the oldest go; else what comes is refused, and may be dead-lettered. How long
messages may stay is `expiry.py`'s.
"""

from typing import TYPE_CHECKING

from leveret.broker.arguments import QueueSettings
from leveret.broker.backlog import Backlog
from leveret.broker.budget import Budget
from leveret.broker.work import Task

if TYPE_CHECKING:
    from leveret.broker.queue import Queue


class Limits:
    """The lengths of one queue that has such limits."""

    __slots__ = ("_max_bytes", "_max_length", "_overflow", "_trimming")

    def __init__(self, settings: QueueSettings) -> None:
        self._max_length = settings.max_length
        self._max_bytes = settings.max_bytes
        self._overflow = settings.overflow
        self._trimming = False

    def refuses(self, backlog: Backlog, body_size: int) -> bool:
        """Whether a message is one too many, or its body too much, for a queue that refuses what is."""
        return self._overflow != "drop-head" and self._exceeded_with(backlog, 1, body_size)

    def _exceeded_with(self, backlog: Backlog, count: int, size: int) -> bool:
        """Whether so many more messages, with so much more in bodies, would be too much."""
        if self._max_length is not None and backlog.count + count > self._max_length:
            return True
        return self._max_bytes is not None and backlog.body_bytes + size > self._max_bytes

    def trim(self, queue: "Queue") -> None:
        """Drop from the front what is too much; after a change of the limit that may take more than one pass."""
        if not self.trim_some(queue) and not self._trimming:
            self._trimming = True
            queue.work.add(Trim(queue))

    def trim_some(self, queue: "Queue") -> bool:
        """Do that as far as the budget goes; True if nothing is too much."""
        if self._overflow == "drop-head":
            backlog = queue.backlog
            entry = backlog.front.first()
            count = 0
            while entry is not None and self._exceeded_with(backlog, 0, 0):
                # One message always goes for one that comes, so that the queue does not grow meanwhile.
                if queue.work.budget.left <= 0 and count != 0:
                    return False
                count += 1
                expired = entry.expires_at != 0 and entry.expires_at <= queue.work.budget.now
                queue.drop(entry, "expired" if expired else "maxlen")
                entry = backlog.front.first()
        self._trimming = False
        return True


class Trim(Task):
    """Goes on dropping what a new limit is too low for."""

    __slots__ = ("_queue",)

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue

    def run(self, budget: Budget) -> bool:
        limits = self._queue.limits
        if limits is not None and not limits.trim_some(self._queue):
            return False
        self._queue.defer_dispatch()
        return True


def limits_of(settings: QueueSettings) -> Limits | None:
    """None for a queue that may be as long as it gets."""
    return None if settings.max_length is None and settings.max_bytes is None else Limits(settings)
