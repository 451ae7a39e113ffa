"""What a channel has delivered and not heard of: delivery tags and the entries behind them.

(1) Tags count all deliveries of a channel from 1, those without acknowledgement too.
(2) `_entries[i]` belongs to tag `_first + i`; None once it is settled. It has no gaps: when a tag was skipped, or most
    of it is settled but its first, what is left of it moves to `_old`, whose tags are all below `_first`.
So one message that is never acknowledged costs a place in a dictionary, not a list of everything after it.
(3) `_unseen` is the first tag that was pushed to a consumer while the octets in hand were already read (`_reads` says which
    they are): the client cannot mean it when it says «everything».
"""

from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry

SPARSE_FROM = 1024


class Unacked:
    """The unacknowledged deliveries of one channel, by tag."""

    __slots__ = ("_entries", "_first", "_head", "_old", "_reads", "_unseen", "count", "next_tag")

    def __init__(self) -> None:
        self.next_tag = 1
        self.count = 0
        self._first = 1
        self._head = 0
        self._entries: list[Entry | None] = []
        self._old: dict[int, Entry] = {}
        self._reads = 0
        self._unseen = 1

    def skip(self) -> int:
        """The tag of a delivery that needs no acknowledgement."""
        tag = self.next_tag
        self.next_tag = tag + 1
        return tag

    def push(self, entry: Entry, reads: int) -> int:
        """The tag of a delivery that nobody has asked for, made after so many reads from the client."""
        if reads != self._reads:
            self._reads = reads
            self._unseen = self.next_tag
        return self.record(entry)

    def record(self, entry: Entry) -> int:
        """The tag of a delivery that waits for its acknowledgement."""
        tag = self.next_tag
        self.next_tag = tag + 1
        entries = self._entries
        if self._first + len(entries) != tag or len(entries) > SPARSE_FROM:
            self._tidy(tag)
            entries = self._entries
        entries.append(entry)
        entry.tag = tag
        self.count += 1
        return tag

    def first_tag(self) -> int:
        """The oldest tag that is outstanding; 0 if none is."""
        for tag in self._old:
            return tag
        for at in range(self._head, len(self._entries)):
            if self._entries[at] is not None:
                self._head = at
                return self._first + at
        return 0

    def entry(self, tag: int) -> Entry:
        """The entry of a tag that is outstanding."""
        entry = self._old.get(tag) if tag < self._first else self._entries[tag - self._first]
        assert entry is not None
        return entry

    def take(self, tag: int) -> Entry | None:
        """Remove and return one entry; None if this tag is not outstanding."""
        at = tag - self._first
        if at < 0:
            return self._take_old(tag)
        entries = self._entries
        if at >= len(entries):
            return None
        entry = entries[at]
        if entry is None:
            return None
        entries[at] = None
        self.count -= 1
        if at == self._head:
            self._head = at + 1
        return entry

    def take_of(self, consumer: Consumer, tag: int) -> Entry | None:
        """Remove and return one entry of this consumer; None if this tag is not outstanding, another's, or an old one."""
        at = tag - self._first
        entries = self._entries
        if at < 0 or at >= len(entries):
            return None
        entry = entries[at]
        if entry is None or entry.consumer is not consumer:
            return None
        entries[at] = None
        self.count -= 1
        if at == self._head:
            self._head = at + 1
        return entry

    def take_up_to(self, tag: int, reads: int) -> list[Entry] | None:
        """Remove and return all entries up to this tag in order; None if the tag itself is not outstanding.

        0 is all that the client can know of, who has been read so often.
        """
        if tag == 0:
            return self._take_seen(reads)
        last = self.take(tag)
        if last is None:
            return None
        found = self._take_old_below(tag)
        entries = self._entries
        at = self._head
        end = tag - self._first
        while at < end:
            entry = entries[at]
            if entry is not None:
                found.append(entry)
                entries[at] = None
            at += 1
        if end >= self._head:
            self._head = end + 1
        self.count -= len(found)
        found.append(last)
        return found

    def take_all(self) -> list[Entry]:
        """Remove and return all entries in order of their tags."""
        found = list(self._old.values())
        for entry in self._entries:
            if entry is not None:
                found.append(entry)  # noqa: PERF401 - compiled, a loop is what a comprehension becomes
        self._old = {}
        self._restart(self.next_tag)
        self.count = 0
        return found

    def _take_seen(self, reads: int) -> list[Entry]:
        everything = self.take_all()
        if reads != self._reads:
            return everything
        seen = []
        unseen = []
        for entry in everything:
            if entry.tag >= self._unseen and entry.consumer is not None:
                unseen.append(entry)
            else:
                seen.append(entry)
        if unseen:
            self.restore(unseen)
        return seen

    def restore(self, entries: list[Entry]) -> None:
        """Put entries back that were taken, under the tags they had."""
        everything = entries + self.take_all()
        everything.sort(key=_tag)
        for entry in everything:
            self._old[entry.tag] = entry
        self.count = len(everything)

    def _take_old(self, tag: int) -> Entry | None:
        entry = self._old.pop(tag, None)
        if entry is not None:
            self.count -= 1
        return entry

    def _take_old_below(self, tag: int) -> list[Entry]:
        tags = []
        for old in self._old:
            if old > tag:
                break
            tags.append(old)
        return [self._old.pop(old) for old in tags]

    def _tidy(self, tag: int) -> None:
        entries = self._entries
        live = self.count - len(self._old)
        if live == 0:
            self._restart(tag)
        elif self._first + len(entries) != tag or len(entries) > SPARSE_FROM + 4 * live:
            self._set_aside()
            self._restart(tag)
        elif self._head * 2 >= len(entries):
            del entries[: self._head]
            self._first += self._head
            self._head = 0

    def _set_aside(self) -> None:
        tag = self._first
        for entry in self._entries:
            if entry is not None:
                self._old[tag] = entry
            tag += 1

    def _restart(self, tag: int) -> None:
        self._entries = []
        self._first = tag
        self._head = 0


def _tag(entry: Entry) -> int:
    return entry.tag
