"""When a queue's messages expire: a time for the queue, none for each message.

Messages that live as long as their queue allows expire in the order they came; the first one's time is enough. Those
with a time of their own are in a heap, as numbers: a message may be paged out, and its content must not stay for that.
Numbers of what has left the queue are taken out now and then.

  heap item := expires at (ms) << 64 | seq
"""

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from leveret.broker.chain import Priorities
from leveret.broker.message import Entry
from leveret.broker.timers import NEVER, Timer, Timers

if TYPE_CHECKING:
    from leveret.broker.queue import Queue

STALE_MAX = 64
SEQ_MASK = (1 << 64) - 1


def heap_item(expires_at: int, seq: int) -> int:
    return expires_at << 64 | seq


class MessageExpiry(Timer):
    """The timer of one queue's messages.

    `_entries` are those with a time of their own that are, or were, ready and in memory; `_cutoffs` the times that changes
    of the queue's own have left to what was there then.
    """

    __slots__ = ("_cutoffs", "_entries", "_heap", "_queue", "_timers")

    def __init__(self, queue: "Queue", timers: Timers) -> None:
        Timer.__init__(self)
        self._queue = queue
        self._timers = timers
        self._heap: list[int] = []
        self._entries: dict[int, Entry] = {}
        self._cutoffs: TtlCutoffs | None = None

    def watch(self, entries: list[Entry]) -> None:
        """These have become ready."""
        for entry in entries:
            if entry.expires_at:
                self._watch(entry)

    def _watch(self, entry: Entry) -> None:
        settings = self._queue.settings
        # Of several priorities, the first to go is not the first to expire.
        if entry.message.ttl_ms >= 0 or settings.max_priority > 0 or settings.stay_of is not None:
            self._entries[entry.seq] = entry
            heappush(self._heap, heap_item(entry.expires_at, entry.seq))
            self._forget_stale()
        self.not_after(entry.expires_at)

    def _forget_stale(self) -> None:
        queue = self._queue
        if len(self._entries) > STALE_MAX + 2 * (queue.backlog.count - queue.backlog.pages.count):
            self._entries = {seq: entry for seq, entry in self._entries.items() if entry.waiting}
        if len(self._heap) > STALE_MAX + 2 * queue.backlog.count:
            self._heap = [item for item in self._heap if self._is_ready(item & SEQ_MASK)]
            heapify(self._heap)

    def _is_ready(self, seq: int) -> bool:
        entry = self._entries.get(seq)
        return self._queue.backlog.pages.has(seq) if entry is None else entry.waiting

    def paged_out(self, entry: Entry) -> None:
        """A message with a time of its own is in memory no more."""
        self._entries.pop(entry.seq, None)

    def restore(self, times: list[int]) -> None:
        """Messages that are paged out expire at these times; each as the heap has it."""
        self._heap += times
        heapify(self._heap)
        if self._heap:
            self.not_after(self._heap[0] >> 64)

    def not_after(self, at: int) -> None:
        """Look at the queue at `at` at the latest."""
        if at < self.due_at:
            self._timers.set(self, at)

    def due(self, now: int) -> None:
        self._queue.expire(now)

    def drop_some(self, now: int) -> bool:
        """Have the queue drop what has expired, as far as the budget goes; True if nothing expired is left."""
        queue = self._queue
        front, work = queue.backlog.front, queue.work
        while work.budget.left > 0:
            if queue.has_cutoffs:
                self.cut_first()
            entry = front.first()
            # What stays for a time of its own goes in the order of these times, not as it came.
            if entry is None or not 0 < entry.expires_at <= now or queue.settings.stay_of is not None:
                seq = self._next_seq(now)
                if seq == 0:
                    self._set_next(front.first())
                    return True
                entry = self._entries.pop(seq, None)
                if entry is None:
                    queue.drop_paged(seq)
                    continue
            queue.drop(entry, "expired")
        return False

    def _next_seq(self, now: int) -> int:
        """The seq of a ready message with a time of its own that has expired, wherever it is; 0 if there is none."""
        heap = self._heap
        while heap:
            item = heap[0]
            ready = self._is_ready(item & SEQ_MASK)
            if ready and item >> 64 > now:
                return 0
            heappop(heap)
            if ready:
                return item & SEQ_MASK
        return 0

    def _set_next(self, first: Entry | None) -> None:
        """Set the timer for what is left; `first` is the queue's first entry."""
        at = self._heap[0] >> 64 if self._heap else NEVER
        if first is not None and first.expires_at:
            at = min(at, first.expires_at)
        self._timers.set(self, at)

    def stop(self) -> None:
        self._heap = []
        self._entries = {}
        self._timers.stop(self)

    # A shorter time for all

    def shorten(self, latest: int) -> None:
        """Let none of the messages here stay longer than until `latest`.

        They stand before all that come later, so it is enough to look when one comes to the front (`cut_first`) or comes
        back: a change must not cost by how many there are. With priorities the front is several places, and all are
        looked at.
        """
        queue = self._queue
        if isinstance(queue.backlog.front, Priorities):
            for entry in queue.backlog.front.entries():
                if not entry.expires_at or entry.expires_at > latest:
                    entry.expires_at = latest
                    self._watch(entry)
        if self._cutoffs is None:
            self._cutoffs = TtlCutoffs()
        self._cutoffs.add(queue.next_seq, latest)
        queue.has_cutoffs = True
        self.not_after(latest)

    def apply_cutoffs(self, entries: list[Entry]) -> None:
        """Give messages that come back the time that changes have left them."""
        if self._cutoffs is not None:
            for entry in entries:
                self._cutoffs.apply(entry)

    def cut_first(self) -> None:
        """Give the first message the time that changes have left it."""
        assert self._cutoffs is not None
        queue = self._queue
        entry = queue.backlog.front.first()
        # What is unacknowledged may come back before the first, and what is paged out comes next.
        if queue.unacked_count == 0 and (entry is not None or not queue.backlog.paged):
            self._cutoffs.forget(queue.next_seq if entry is None else entry.seq)
        if entry is not None:
            self._cutoffs.apply(entry)
        if not self._cutoffs:
            self._cutoffs = None
            queue.has_cutoffs = False


class TtlCutoffs:
    """Times that changes have left to messages: (seq, latest) is for those before seq; the first that fits counts."""

    __slots__ = ("_cutoffs",)

    def __init__(self) -> None:
        self._cutoffs: list[tuple[int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._cutoffs)

    def add(self, seq: int, latest: int) -> None:
        # A cut that is not earlier says nothing more about those it is for.
        self._cutoffs = [*(cut for cut in self._cutoffs if cut[1] < latest), (seq, latest)]

    def forget(self, seq: int) -> None:
        """Nothing before seq is left."""
        while self._cutoffs and self._cutoffs[0][0] <= seq:
            del self._cutoffs[0]

    def apply(self, entry: Entry) -> None:
        """Give a message the time that is left to it."""
        for seq, latest in self._cutoffs:
            if entry.seq < seq:
                if not entry.expires_at or entry.expires_at > latest:
                    entry.expires_at = latest
                break


class QueueExpiry(Timer):
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
        expires_ms = queue.settings.expires_ms
        # With consumers it rests until the last one leaves, which renews it.
        if queue.deleted or expires_ms is None or queue.consumer_count:
            return
        if now - self.used_at >= expires_ms:
            queue.expire_unused()
        else:
            self._timers.set(self, self.used_at + expires_ms)

    def stop(self) -> None:
        self._timers.stop(self)

    def _set(self, now: int) -> None:
        expires_ms = self._queue.settings.expires_ms
        # A timer that is set comes early and finds out; moving it at each use would cost more.
        if expires_ms is not None and self.due_at > now + expires_ms:
            self._timers.set(self, now + expires_ms)
