"""Ready entries in order: a chain, with what was given back before it, or one such chain for each priority.

(1) What was given back stands, in order of seq (but see `Returns`), before everything that was never taken: whatever was
    taken came from the front, so every seq in `_requeued` is below every seq in the chain.
(2) Not a list: a long one would have to be copied to grow, and the garbage collector would look through it.
(3) An entry removed from the middle stays as a tombstone (`waiting` is False, its message gone) until it comes to the front,
    or until there are more tombstones than entries.
"""

from bisect import insort
from typing import TYPE_CHECKING

from leveret.broker.message import Entry, is_stub

if TYPE_CHECKING:
    from leveret.broker.arguments import QueueSettings

TOMBSTONES_MAX = 1024


class Chain:
    """Entries of one priority."""

    __slots__ = ("_head", "_requeued", "_tail", "_tombstones")

    def __init__(self) -> None:
        self._head: Entry | None = None
        self._tail: Entry | None = None
        self._requeued: list[Entry] = []
        self._tombstones = 0

    def append(self, entry: Entry) -> None:
        entry.waiting = True
        if self._tail is None:
            self._head = entry
        else:
            self._tail.next = entry
        self._tail = entry

    def first(self) -> Entry | None:
        """The entry that goes next."""
        if self._tombstones != 0:
            self._skip_tombstones()
        if self._requeued:
            return self._requeued[len(self._requeued) - 1]
        return self._head

    def remove(self, entry: Entry) -> None:
        """Remove the entry that `first` has returned."""
        entry.waiting = False
        if self._requeued:
            self._requeued.pop()
            return
        self._head = entry.next
        entry.next = None
        if self._head is None:
            self._tail = None

    def forget(self, entry: Entry, left: int) -> None:
        """Remove an entry from anywhere; `left` entries stay."""
        entry.waiting = False
        self._tombstones += 1
        if self._tombstones > TOMBSTONES_MAX and self._tombstones > left:
            self._sweep()

    def put_back(self, entries: list[Entry]) -> None:
        """Put entries back that were taken, where they were."""
        for entry in entries:
            entry.waiting = True
        if len(entries) == 1:
            insort(self._requeued, entries[0], key=_backwards)
            return
        entries = sorted(entries, key=_backwards)
        requeued = self._requeued
        # Much comes back in pieces, oldest first; sorting everything for each would take longer with every piece.
        if not requeued or entries[len(entries) - 1].seq > requeued[0].seq:
            requeued[:0] = entries
        else:
            requeued.extend(entries)
            requeued.sort(key=_backwards)

    def entries(self) -> list[Entry]:
        """All entries in the order they would go."""
        found = [entry for entry in reversed(self._requeued) if entry.waiting]
        entry = self._head
        while entry is not None:
            if entry.waiting:
                found.append(entry)
            entry = entry.next
        return found

    def span(self, offset: int, count: int) -> list[Entry]:
        """Up to `count` entries in the order they would go, without the first `offset`."""
        found: list[Entry] = []
        for requeued in reversed(self._requeued):
            if requeued.waiting and offset > 0:
                offset -= 1
            elif requeued.waiting and len(found) < count:
                found.append(requeued)
        entry = self._head
        while entry is not None and len(found) < count:
            if entry.waiting and offset > 0:
                offset -= 1
            elif entry.waiting:
                found.append(entry)
            entry = entry.next
        return found

    def cut_off(self) -> list[Entry]:
        """Remove all that was never taken, but for one if nothing was given back; that is returned, in order."""
        found: list[Entry] = []
        entry = self._head
        self._head = None
        self._tail = None
        while entry is not None:
            following = entry.next
            entry.next = None
            if entry.waiting:
                entry.waiting = False
                found.append(entry)
            else:
                self._tombstones -= 1
            entry = following
        if found and self.first() is None:
            self.append(found.pop(0))
        return found

    def detach(self) -> list[Entry]:
        """Empty it; the heads of the chains that have to be taken apart."""
        heads = self._requeued
        if self._head is not None:
            heads.append(self._head)
        self._head = None
        self._tail = None
        self._requeued = []
        self._tombstones = 0
        return heads

    def stubs(self, limit: int, body_bytes: int) -> list[Entry]:
        """The stubs among the first entries, up to so many or so much in bodies; one at least, if the first is one."""
        found: list[Entry] = []
        for entry in self.span(0, limit):
            if is_stub(entry.message):
                found.append(entry)
                body_bytes -= entry.message.body_size
                if body_bytes <= 0:
                    break
        return found

    def join(self, other: "Chain") -> None:
        """Put all entries of another one behind; it is empty then."""
        if other._head is not None:
            if self._tail is None:
                self._head = other._head
            else:
                self._tail.next = other._head
            self._tail = other._tail
        self._tombstones += other._tombstones
        other._head = None
        other._tail = None
        other._tombstones = 0

    def _skip_tombstones(self) -> None:
        requeued = self._requeued
        while requeued and not requeued[len(requeued) - 1].waiting:
            requeued.pop()
            self._tombstones -= 1
        if requeued:
            return
        entry = self._head
        while entry is not None and not entry.waiting:
            self._head = entry.next
            entry.next = None
            entry = self._head
            self._tombstones -= 1
        if entry is None:
            self._tail = None

    def _sweep(self) -> None:
        waiting = self.entries()
        requeued = len([entry for entry in self._requeued if entry.waiting])
        unchain(self._head)
        self._head = None
        self.detach()
        self._requeued = waiting[:requeued]
        self._requeued.reverse()
        for entry in waiting[requeued:]:
            self.append(entry)

    def __del__(self) -> None:
        unchain(self._head)


class Returns(Chain):
    """Entries of a quorum queue: what is given back stands before the others, and behind what was given back before.

    RabbitMQ: such a queue keeps it in a queue of its own.
    """

    __slots__ = ()

    def put_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.waiting = True
        self._requeued[:0] = entries[::-1]


class Priorities(Chain):
    """Entries of several priorities, the highest first; a message's own counts up to `limit`."""

    __slots__ = ("_highest", "_levels", "_limit")

    def __init__(self, limit: int) -> None:
        Chain.__init__(self)
        self._limit = limit
        self._levels = [Chain() for _ in range(limit + 1)]
        self._highest = 0

    def append(self, entry: Entry) -> None:
        self._level(entry).append(entry)

    def first(self) -> Entry | None:
        while True:
            chain: Chain = self._levels[self._highest]
            entry = chain.first()
            if entry is not None or self._highest == 0:
                return entry
            self._highest -= 1

    def remove(self, entry: Entry) -> None:
        chain: Chain = self._levels[self._highest]
        chain.remove(entry)

    def forget(self, entry: Entry, left: int) -> None:
        self._level(entry).forget(entry, left)

    def put_back(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._level(entry).put_back([entry])

    def entries(self) -> list[Entry]:
        return [entry for chain in reversed(self._levels) for entry in chain.entries()]

    def span(self, offset: int, count: int) -> list[Entry]:
        found: list[Entry] = []
        for chain in reversed(self._levels):
            if len(found) < offset + count:
                found += chain.span(0, offset + count - len(found))
        return found[offset:]

    def detach(self) -> list[Entry]:
        self._highest = 0
        return [entry for chain in self._levels for entry in chain.detach()]

    def _level(self, entry: Entry) -> Chain:
        level = min(entry.message.flags >> 24, self._limit)
        self._highest = max(self._highest, level)
        return self._levels[level]


def chain_for(chain: Chain, settings: "QueueSettings") -> Chain:
    """This chain, or an empty one of the kind that such a queue has: it is asked for before there are messages."""
    if settings.max_priority:
        return chain if isinstance(chain, Priorities) else Priorities(settings.max_priority)
    if settings.quorum:
        return chain if isinstance(chain, Returns) else Returns()
    return chain


def unchain(entry: Entry | None) -> None:
    """Take a chain apart from its front: freed as a whole it would recurse as deep as it is long."""
    while entry is not None:
        following = entry.next
        entry.next = None
        entry = following


def _backwards(entry: Entry) -> int:
    # The next one to go stands last, where it is cheap to remove.
    return -entry.seq
