"""When a queue's messages expire: a time for the queue, none for each message.

Messages that live as long as their queue allows expire in the order they came; the first one's time is enough. Those
with a shorter life of their own are also in a heap, from which what has left the queue is taken out now and then.
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from leveret.broker.message import Entry
from leveret.broker.timers import NEVER, Timer, Timers

if TYPE_CHECKING:
    from leveret.broker.queue import Queue

STALE_MAX = 64


class Expiry(Timer):
    """The timer of one queue's messages."""

    __slots__ = ("_heap", "_queue", "_timers")

    def __init__(self, queue: "Queue", timers: Timers) -> None:
        Timer.__init__(self)
        self._queue = queue
        self._timers = timers
        self._heap: list[tuple[int, int, Entry]] = []

    def watch(self, entry: Entry, own: bool) -> None:
        """An entry that expires has become ready; `own` says that its message has a time to live of its own."""
        if own:
            heappush(self._heap, (entry.expires_at, entry.seq, entry))
            if len(self._heap) > STALE_MAX + 2 * self._queue.ready_count:
                self._heap = [item for item in self._heap if item[2].waiting]
                heapify(self._heap)
        if entry.expires_at < self.due_at:
            self._timers.set(self, entry.expires_at)

    def not_after(self, at: int) -> None:
        """Look at the queue at `at` at the latest."""
        if at < self.due_at:
            self._timers.set(self, at)

    def due(self, now: int) -> None:
        self._queue.expire(now)

    def next_in_heap(self, now: int) -> Entry | None:
        """A ready entry that has expired, wherever it is."""
        heap = self._heap
        while heap and (heap[0][0] <= now or not heap[0][2].waiting):
            entry = heappop(heap)[2]
            if entry.waiting:
                return entry
        return None

    def set_next(self, first: Entry | None) -> None:
        """Set the timer for what is left; `first` is the queue's first entry."""
        at = self._heap[0][0] if self._heap else NEVER
        if first is not None and first.expires_at:
            at = min(at, first.expires_at)
        self._timers.set(self, at)

    def stop(self) -> None:
        self._heap = []
        self._timers.stop(self)


class Cuts:
    """Times that changes have left to messages: (seq, latest) is for those before seq; the first that fits counts."""

    __slots__ = ("_cuts",)

    def __init__(self) -> None:
        self._cuts: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._cuts)

    def add(self, seq: int, latest: int) -> None:
        # A cut that is not earlier says nothing more about those it is for.
        self._cuts = [*(cut for cut in self._cuts if cut[1] < latest), (seq, latest)]

    def forget(self, seq: int) -> None:
        """Nothing before seq is left."""
        while self._cuts and self._cuts[0][0] <= seq:
            del self._cuts[0]

    def apply(self, entry: Entry) -> None:
        """Give a message the time that is left to it."""
        for seq, latest in self._cuts:
            if entry.seq < seq:
                if not entry.expires_at or entry.expires_at > latest:
                    entry.expires_at = latest
                break


class Lease(Timer):
    """Deletes a queue that nobody has used for a while (x-expires): no consumer, no get, no declaration."""

    __slots__ = ("_queue", "_timers", "used_at")

    def __init__(self, queue: "Queue", timers: Timers, now: int) -> None:
        Timer.__init__(self)
        self._queue = queue
        self._timers = timers
        self.used_at = now
        self.renew(now)

    def renew(self, now: int) -> None:
        """The queue is used at `now`."""
        self.used_at = now
        self._set(now)

    def due(self, now: int) -> None:
        queue = self._queue
        expires_ms = queue.traits.expires_ms
        # With consumers it rests until the last one leaves, which renews it.
        if queue.deleted or expires_ms is None or queue.consumer_count:
            return
        if now - self.used_at >= expires_ms:
            queue.remove()
        else:
            self._timers.set(self, self.used_at + expires_ms)

    def stop(self) -> None:
        self._timers.stop(self)

    def _set(self, now: int) -> None:
        expires_ms = self._queue.traits.expires_ms
        # A timer that is set comes early and finds out; moving it at each use would cost more.
        if expires_ms is not None and self.due_at > now + expires_ms:
            self._timers.set(self, now + expires_ms)
