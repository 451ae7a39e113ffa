"""A ledger: what the journal keeps of one queue.

What a queue is done with gathers here as runs of seqs, and is written when the batch is taken: acknowledging in order costs
one record a batch, however many messages it was.
"""

from typing import TYPE_CHECKING

from leveret.broker.message import Entry
from leveret.broker.open_page import OpenPage
from leveret.broker.queue import Queue
from leveret.store.layout import PURGE, REQUEUE, SETTLE
from leveret.store.records import write_numbers

if TYPE_CHECKING:
    from leveret.store.journal import Journal


class Locations:
    """For what the journal has been told of already, by a purge: only the places are given free."""

    __slots__ = ("_journal",)

    def __init__(self, journal: "Journal") -> None:
        self._journal = journal

    def settle(self, entry: Entry) -> None:
        self._journal.release(entry.location, entry.message.body_size)
        entry.location = 0


class Ledger:
    """What the journal keeps of one queue: its id, and the settlements of this batch as runs of seqs.

    `floor` is the seq up to which a purge has said that everything is gone: nothing of that is written again. `moved_in`
    is the batch in which a message has gone elsewhere last. `live_count` messages with `live_bytes` of bodies are stored
    and not settled; `written_count` says how many were ever stored since the start.
    """

    __slots__ = (
        "_first",
        "_journal",
        "_last",
        "_runs",
        "counts",
        "floor",
        "live_bytes",
        "live_count",
        "locations",
        "moved_in",
        "queue_id",
        "written_count",
    )

    def __init__(self, journal: "Journal", queue_id: int) -> None:
        self._journal = journal
        self.queue_id = queue_id
        self.locations = Locations(journal)
        self._first = 0
        self._last = -1
        self._runs: list[tuple[int, int]] = []
        # How often those were given back that were; of live ones only.
        self.counts: dict[int, int] = {}
        self.floor = 0
        self.moved_in = 0
        self.live_count = 0
        self.live_bytes = 0
        self.written_count = 0

    def moved(self) -> None:
        """A message goes where dead letters go; that and its settlement are in one batch."""
        self.moved_in = self._journal.batch

    def settle(self, entry: Entry) -> None:
        """A stored message is gone from the queue."""
        location = entry.location
        entry.location = 0
        self._journal.release(location, entry.message.body_size)
        self._settle(entry.seq, entry.message.body_size)

    def settle_octets(self, page: OpenPage, first: int) -> None:
        """The messages of a page from `first` to where it is now are gone from the queue."""
        self._journal.release_octets(page, first)
        for index in range(first, page.at):
            self._settle(page.seq(index), page.body_size(index))

    def _settle(self, seq: int, body_size: int) -> None:
        self.live_count -= 1
        self.live_bytes -= body_size
        if self.counts:
            self.counts.pop(seq, None)
        if self._journal.group:
            write_numbers(self._journal.out, SETTLE, self._journal.group, self.queue_id, seq, seq)
        elif seq == self._last + 1:
            self._last = seq
        else:
            self._begin(seq)

    def requeue(self, entry: Entry) -> None:
        """A stored message was given back."""
        self.counts[entry.seq] = entry.delivery_count
        # In no group: that it was delivered is so whatever becomes of the transaction, and no message is lost by it.
        write_numbers(self._journal.out, REQUEUE, 0, self.queue_id, entry.seq, entry.delivery_count)

    def purge(self, last: int) -> None:
        """Everything up to this seq is gone."""
        self.floor = last
        self.live_count = 0
        self.live_bytes = 0
        self.counts = {seq: count for seq, count in self.counts.items() if seq > last}
        write_numbers(self._journal.out, PURGE, 0, self.queue_id, 0, last)

    def flush(self, out: bytearray) -> None:
        """Write the runs of this batch."""
        if self._last >= self._first:
            self._runs.append((self._first, self._last))
        for first, last in merged(self._runs):
            write_numbers(out, SETTLE, 0, self.queue_id, first, last)
        self._runs = []
        self._first = 0
        self._last = -1

    def _begin(self, seq: int) -> None:
        if self._last < self._first:
            self._journal.dirty.append(self)
        else:
            self._runs.append((self._first, self._last))
        self._first = self._last = seq


def ledger_of(queue: Queue) -> Ledger:
    """What the journal keeps of a durable queue."""
    ledger = queue.ledger
    assert isinstance(ledger, Ledger)
    return ledger


def merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same seqs in as few runs as there can be."""
    if len(runs) < 2:
        return runs
    runs.sort()
    found = []
    start, end = runs[0]
    for first, last in runs[1:]:
        if first == end + 1:
            end = last
        else:
            found.append((start, end))
            start, end = first, last
    found.append((start, end))
    return found
