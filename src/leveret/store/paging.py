"""Paging: what queues have beyond their windows, written where it can be read again, and read.

A persistent message of a durable queue is in the journal anyway. Others are written to the spill, a log of its own that
is never synced and never recovered: its files are removed at start. Read is in the committer's thread, after everything
that was put there before, so what is asked for has been written.
"""

from typing import TYPE_CHECKING

from leveret.broker.message import Entry, Message, Origin, new_entry, new_message
from leveret.broker.pages import PAGE_BYTES, PAGE_SIZE, Record, restored
from leveret.broker.queue import Queue
from leveret.store.records import HEAD_SIZE, PLACE_SIZE, PLACES_AT, read_head, read_message, read_place
from leveret.store.segment import Segment

if TYPE_CHECKING:
    from leveret.store.store import Store

# What lies so near together is read in one go.
GAP_MAX = 16 << 10
READ_AHEAD = 4 << 10

STUBS_MAX = 4096
NOWHERE = Origin("", "", b"")
_STUBS: dict[tuple[int, int], Message] = {}


def page_out(store: "Store", queue: Queue) -> None:
    """Make a page of the oldest messages in a queue's back."""
    store.work.store()
    back = queue.back
    body_bytes = 0
    for _ in range(PAGE_SIZE):
        entry = back.first()
        if entry is None or body_bytes >= PAGE_BYTES:
            break
        back.remove(entry)
        body_bytes += entry.message.body_size
        queue.back_count -= 1
        location = entry.location or store.spill.keep(entry.message, entry)
        queue.pages.add(entry.seq, location, entry.message.body_size, entry.delivery_count, entry.redelivered)
    queue.back_bytes -= body_bytes
    first = back.first()
    queue.back_seq = queue.next_seq if first is None else first.seq


def strip(store: "Store", queue: Queue, entries: list[Entry]) -> None:
    """Leave stubs of what is still unacknowledged."""
    store.work.store()
    for entry in entries:
        if entry.queue is queue:
            entry.location = entry.location or store.spill.keep(entry.message, entry)
            entry.message = stub_of(entry.message)


def stub_of(message: Message) -> Message:
    """What is known of a message without its content; shared by all that are alike."""
    key = (message.flags, message.body_size)
    stub = _STUBS.get(key)
    if stub is None:
        if len(_STUBS) >= STUBS_MAX:
            _STUBS.clear()
        stub = _STUBS[key] = new_message(NOWHERE, b"", 0, message.body_size, 1, message.flags)
    return stub


def record_of(entry: Entry) -> Record:
    return Record(entry.seq, entry.location, entry.message.body_size, entry.delivery_count, entry.redelivered)


class Filling:
    """Stubs whose content is being read. `read` runs in the committer's thread."""

    __slots__ = ("_reading", "_stubs", "queue")

    def __init__(self, store: "Store", queue: Queue, stubs: list[Entry]) -> None:
        self.queue = queue
        self._stubs = stubs
        self._reading = Reading(store, queue, [record_of(entry) for entry in reversed(stubs)])

    @property
    def records(self) -> list[Record]:
        return self._reading.records

    def read(self) -> None:
        self._reading.read()

    def fill(self, store: "Store") -> None:
        """Give the stubs their messages."""
        for stub, entry in zip(reversed(self._stubs), self._reading.entries(), strict=True):
            if stub.waiting:
                stub.message = entry.message
                store.unspill(stub)
        self.queue.filled(self._stubs)


class Reading:
    """A page being read: for each message the octets of its record. `read` runs in the committer's thread."""

    __slots__ = ("_spans", "error", "found", "queue", "records")

    def __init__(self, store: "Store", queue: Queue, records: list[Record]) -> None:
        self.queue = queue
        self.records = records
        self.found: list[tuple[bytes, int, int]] = []
        self.error: BaseException | None = None
        self._spans = [store.place_of(record.location) for record in records]

    def read(self) -> None:
        """Read all of it, neighbours in one go."""
        at = 0
        spans = self._spans
        while at < len(spans):
            last = at
            while last + 1 < len(spans) and _near(spans[last], spans[last + 1], self.records[last].body_size):
                last += 1
            self._read_run(spans[at][0], at, last)
            at = last + 1

    def _read_run(self, segment: Segment, first: int, last: int) -> None:
        start = self._spans[first][1] - PLACES_AT
        end = self._spans[last][1] + self.records[last].body_size + READ_AHEAD
        data = segment.file.read(start, end - start)
        for at in range(first, last + 1):
            self.found.append(_record(segment, data, start, self._spans[at][1] - start))

    def entries(self) -> list[Entry]:
        """The messages, as they were."""
        found = []
        for record, (data, at, expires_at) in zip(self.records, self.found, strict=True):
            entry = restored(record, new_entry(read_message(data, at), record.seq))
            entry.expires_at = expires_at
            found.append(entry)
        return found


def _near(one: tuple[Segment, int], other: tuple[Segment, int], body_size: int) -> bool:
    return one[0] is other[0] and 0 < other[1] - one[1] < body_size + GAP_MAX


def _record(segment: Segment, data: bytes, start: int, place_at: int) -> tuple[bytes, int, int]:
    """The octets of a place's record, where it begins in them, and when the place expires."""
    place = read_place(data, place_at)
    at = place_at - PLACES_AT - PLACE_SIZE * place.number
    if at >= 0:
        length = read_head(data, at)[0]
        if at + length <= len(data):
            return data, at, place.expires_at
    else:
        # One of many places of a message: its record begins before what was read.
        length = read_head(segment.file.read(start + at, HEAD_SIZE), 0)[0]
    return segment.file.read(start + at, length), 0, place.expires_at
