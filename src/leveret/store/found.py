"""What recovery finds of one queue: what has left it, and what is live.

The order in which it is found does not matter: the first reading of the journal makes a `Gone`, the second a `Found`.
"""

from bisect import bisect_right

from leveret.broker.pages import Pages
from leveret.octets import put_u32, put_u64, u32_at, u64_at
from leveret.store.journal import Journal

FOUND_SIZE = 24
NOTHING = bytes(FOUND_SIZE)
DELIVERED_BEFORE = 1 << 31


class Gone:
    """What has left one queue: runs of seqs, and everything up to `floor`."""

    __slots__ = ("_firsts", "_lasts", "counts", "floor", "highest", "runs")

    def __init__(self) -> None:
        self.floor = 0
        self.highest = 0
        self.runs: list[tuple[int, int]] = []
        self.counts: dict[int, int] = {}
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def settle(self, first: int, last: int) -> None:
        self.runs.append((first, last))
        self.highest = max(self.highest, last)

    def purge(self, last: int) -> None:
        self.floor = max(self.floor, last)
        self.highest = max(self.highest, last)

    def requeue(self, seq: int, count: int) -> None:
        self.counts[seq] = max(count, self.counts.get(seq, 0))
        self.highest = max(self.highest, seq)

    def sort(self) -> None:
        """Merge the runs; then `has` may be asked."""
        end = -1
        for first, last in sorted(self.runs):
            if end >= 0 and first <= end + 1:
                end = max(last, end)
                self._lasts[len(self._lasts) - 1] = end
            else:
                end = last
                self._firsts.append(first)
                self._lasts.append(end)
        self.runs = []

    def has(self, seq: int) -> bool:
        if seq <= self.floor:
            return True
        at = bisect_right(self._firsts, seq) - 1
        return at >= 0 and seq <= self._lasts[at]


class Found:
    """The live places of one queue, as they are found, each as 24 octets.

    found := seq u64 | location u64 | body size u32 | delivery count u31 | delivered before, 1 bit

    `times` are those of messages that have one of their own, as the queue's heap has them.
    """

    __slots__ = ("_last_seq", "_ordered", "_places", "count", "times")

    def __init__(self) -> None:
        self._places = bytearray()
        self._ordered = True
        self._last_seq = -1
        self.count = 0
        self.times: list[int] = []

    def add(self, seq: int, location: int, body_size: int, delivery_count: int, delivered: bool = False) -> None:
        if seq <= self._last_seq:
            self._ordered = False
        self._last_seq = seq
        at = len(self._places)
        self._places += NOTHING
        p = self._places
        put_u64(p, at, seq)
        put_u64(p, at + 8, location)
        put_u32(p, at + 16, body_size)
        put_u32(p, at + 20, delivery_count | DELIVERED_BEFORE if delivered else delivery_count)
        self.count += 1

    def seq(self, index: int) -> int:
        p = self._places
        return u64_at(p, index * FOUND_SIZE)

    def fill(self, pages: Pages, counts: dict[int, int], journal: Journal, clean: bool) -> dict[int, int]:
        """Page all of it in order, each seq once: what was moved may still be where it was.

        `counts` says how often messages were given back; returned is that of those that are here.
        """
        kept: dict[int, int] = {}
        # Stable, so of two with one seq the later one is behind.
        order = None if self._ordered else sorted(range(self.count), key=self.seq)
        p = self._places
        for number in range(self.count):
            index = number if order is None else order[number]
            at = index * FOUND_SIZE
            seq = u64_at(p, at)
            location = u64_at(p, at + 8)
            if order is not None and number + 1 < self.count and self.seq(order[number + 1]) == seq:
                journal.release(location, u32_at(p, at + 16))
                continue
            delivery_count = u32_at(p, at + 20)
            delivered = not clean or delivery_count & DELIVERED_BEFORE != 0
            delivery_count &= DELIVERED_BEFORE - 1
            if counts and seq in counts:
                delivery_count = max(delivery_count, counts[seq])
            if delivery_count != 0:
                kept[seq] = delivery_count
            pages.add(seq, location, u32_at(p, at + 16), delivery_count, delivered or delivery_count != 0)
        return kept
