"""Paging: what queues have beyond their windows, written where it can be read again, and read.

A persistent message of a durable queue is in the journal anyway. Others are written to the spill, a log of its own that
is never synced and never recovered: its files are removed at start. It has a thread of its own: whoever floods the broker
must not make those wait who are promised something. Read is in the committer's thread, after everything that was put
there before.
"""

from typing import TYPE_CHECKING

from leveret.broker.message import Entry, Message, Origin, new_entry, new_message
from leveret.broker.pages import Page
from leveret.broker.queue import Queue
from leveret.octets import u16_at, u32_at, u64_at
from leveret.store.journal import Journal
from leveret.store.layout import OFFSET_MASK, PLACE_SIZE, PLACES_AT, SPILL_NUMBER
from leveret.store.records import check_room, read_message
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
    spill = store.spill
    back = queue.back
    body_bytes = 0
    for _ in range(queue.sizes.page_count):
        entry = back.first()
        if entry is None or body_bytes >= queue.sizes.page_bytes:
            break
        back.remove(entry)
        body_bytes += entry.message.body_size
        queue.back_count -= 1
        location = entry.location
        if location == 0:
            location = spill.keep(entry.message, entry)
        queue.pages.add(entry.seq, location, entry.message.body_size, entry.delivery_count, entry.redelivered)
    queue.back_bytes -= body_bytes
    first = back.first()
    queue.back_seq = queue.next_seq if first is None else first.seq


def strip(store: "Store", queue: Queue, entries: list[Entry]) -> None:
    """Leave stubs of what is still unacknowledged."""
    store.work.store()
    spill = store.spill
    for entry in entries:
        if entry.queue is queue:
            if entry.location == 0:
                entry.location = spill.keep(entry.message, entry)
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


def unspill(spill: Journal, entry: Entry) -> None:
    """A message is in memory again; if it must go once more it is written once more."""
    if entry.location >> 32 >= SPILL_NUMBER:
        spill.release(entry.location)
        entry.location = 0


class Filling:
    """Stubs whose content is being read. `read` runs in the committer's thread."""

    __slots__ = ("_reading", "_stubs", "queue")

    def __init__(self, store: "Store", queue: Queue, stubs: list[Entry]) -> None:
        self.queue = queue
        self._stubs = stubs
        page = Page(len(stubs))
        for entry in reversed(stubs):
            page.add(entry.seq, entry.location, entry.message.body_size, entry.delivery_count, entry.redelivered)
        self._reading = Reading(store, queue, page)

    def is_taken(self) -> bool:
        return self._reading.is_taken()

    def read(self) -> None:
        self._reading.read()

    def finish(self, store: "Store") -> None:
        """Give the stubs their messages."""
        for stub, entry in zip(reversed(self._stubs), self._reading.entries(), strict=True):
            if stub.waiting:
                stub.message = entry.message
                unspill(store.spill, stub)
        self.queue.filled(self._stubs)


class Run:
    """Neighbours of a page that are read in one go: from `first` on, in one segment from `start` to `end`.

    `last_at` is where the last one's place is in the segment. `strays` are the octets of those that begin or end outside
    of `data`.
    """

    __slots__ = ("data", "end", "first", "last_at", "segment", "start", "strays")

    def __init__(self, segment: Segment, first: int, place_at: int) -> None:
        self.segment = segment
        self.first = first
        self.start = place_at - PLACES_AT
        self.end = 0
        self.last_at = place_at
        self.data = b""
        self.strays: dict[int, bytes] = {}


class Reading:
    """A page being read: for each message the octets of its record. `read` runs in the committer's thread."""

    __slots__ = ("_page", "_places", "_runs", "_store", "queue")

    def __init__(self, store: "Store", queue: Queue, page: Page) -> None:
        self.queue = queue
        self._store = store
        self._page = page
        self._runs: list[Run] = []
        # Where each place is in its segment.
        self._places: list[int] = []
        self._plan()

    def _plan(self) -> None:
        page = self._page
        spill, journal = self._store.spill, self._store.journal
        run = None
        for index in range(page.count):
            location = page.location(index)
            log = spill if location >> 32 >= SPILL_NUMBER else journal
            location = log.where(location)
            at = location & OFFSET_MASK
            if run is None or run.segment.number != location >> 32 or not run.last_at < at <= run.end + GAP_MAX:
                run = Run(log.segments[location >> 32], index, at)
                self._runs.append(run)
            run.last_at = at
            run.end = at + page.body_size(index) + READ_AHEAD
            self._places.append(at)

    def is_taken(self) -> bool:
        """Whether the committer, which reads, has been given all of it to write; what another wrote must be written."""
        is_taken = True
        for run in self._runs:
            segment = run.segment
            is_taken = is_taken and run.last_at < (segment.written if segment.number >= SPILL_NUMBER else segment.size)
        return is_taken

    def read(self) -> None:
        """Read all of it, neighbours in one go."""
        index = 0
        for number, run in enumerate(self._runs):
            run.data = run.segment.file.read(run.start, run.end - run.start)
            stop = self._runs[number + 1].first if number + 1 < len(self._runs) else self._page.count
            while index < stop:
                self._look_at(run, index)
                index += 1

    def _look_at(self, run: Run, index: int) -> None:
        """Read what is not in the run: one of many places of a message may be far from its beginning, and a head long."""
        data = run.data
        at = record_at(data, self._places[index] - run.start)
        if at >= 0:
            p = data
            length = u32_at(p, at)
            if at + length <= len(data):
                return
        else:
            head = run.segment.file.read(run.start + at, 4)
            check_room(len(head), 0, 4)
            length = u32_at(head, 0)
        run.strays[index] = run.segment.file.read(run.start + at, length)

    def entries(self) -> list[Entry]:
        """The messages, as they were."""
        page = self._page
        found = []
        index = 0
        for number, run in enumerate(self._runs):
            stop = self._runs[number + 1].first if number + 1 < len(self._runs) else page.count
            while index < stop:
                entry = new_entry(self._message(run, index), page.seq(index))
                p = run.data
                entry.expires_at = u64_at(p, self._places[index] - run.start + 16)
                entry.delivery_count = page.delivery_count(index)
                entry.redelivered = page.redelivered(index)
                entry.location = page.location(index)
                found.append(entry)
                index += 1
        return found

    def _message(self, run: Run, index: int) -> Message:
        if run.strays and index in run.strays:
            return read_message(run.strays[index], 0)
        return read_message(run.data, record_at(run.data, self._places[index] - run.start))

    def finish(self, store: "Store") -> None:
        """Give the queue its messages."""
        entries = self.entries()
        spill = store.spill
        for entry in entries:
            unspill(spill, entry)
        self.queue.loaded(self._page, entries)


def record_at(data: bytes, place_at: int) -> int:
    """Where the record begins whose place is at `place_at`; negative if that is before what was read."""
    check_room(len(data), place_at, PLACE_SIZE)
    p = data
    return place_at - PLACES_AT - PLACE_SIZE * u16_at(p, place_at + 6)
