"""What is due when: one heap for the whole broker, so that time costs by what is due and not by what exists.

Knows no clock. Whoever owns one asks `next_at`, and calls `run` when that time has come.
"""

from heapq import heapify, heappop, heappush
from itertools import count

NEVER = 1 << 62
STALE_MAX = 64


class Timer:
    """Something that wants to be called at a time; `due_at` is NEVER while it does not."""

    __slots__ = ("due_at",)

    def __init__(self) -> None:
        self.due_at = NEVER

    def due(self, now: int) -> None:
        """It is time; may set itself again."""
        raise NotImplementedError


class Timers:
    """All timers that are set.

    One that was moved or stopped leaves its old place in the heap, to be found and ignored; when most places are such,
    they are swept out.
    """

    __slots__ = ("_heap", "_order", "_stale")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._stale = 0

    def set(self, timer: Timer, at: int) -> None:
        """Have `timer` called at `at` (ms), instead of when it was set to before."""
        if at == timer.due_at:
            return
        self.stop(timer)
        timer.due_at = at
        if at != NEVER:
            heappush(self._heap, (at, next(self._order), timer))

    def stop(self, timer: Timer) -> None:
        """Do not call `timer` any more."""
        if timer.due_at == NEVER:
            return
        timer.due_at = NEVER
        self._stale += 1
        if self._stale > STALE_MAX and self._stale * 2 > len(self._heap):
            self._heap = [place for place in self._heap if place[2].due_at == place[0]]
            heapify(self._heap)
            self._stale = 0

    def next_at(self) -> int:
        """When there is something due next."""
        heap = self._heap
        while heap and heap[0][2].due_at != heap[0][0]:
            heappop(heap)
            self._stale -= 1
        return heap[0][0] if heap else NEVER

    def run(self, now: int, limit: int) -> bool:
        """Call what is due at `now`, at most `limit` of them; True if nothing due is left."""
        for _ in range(limit):
            at = self.next_at()
            if at > now:
                return True
            timer = heappop(self._heap)[2]
            timer.due_at = NEVER
            timer.due(now)
        return self.next_at() > now
