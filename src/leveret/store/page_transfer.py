"""Paging: what queues have beyond their windows, written where it can be read again, and read.

A persistent message of a durable queue is in the journal anyway. Others are written to the spill, a log of its own that
is never synced and never recovered: its files are removed at start. It has a thread of its own: whoever floods the broker
must not make those wait who are promised something. Read is in the committer's thread, after everything that was put
there before.

  (1) Every persistent message of a durable queue has its place in the journal before it is paged out, so before the
      position that its confirm waits for. One that has none is a fault of the broker's, and stops it: `check_placed`.
  (2) What is read is compared with what was written, block by block. A message that is damaged is said and left out, and
      its file is not removed; what stands around it is delivered.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.backlog import memory_of
from leveret.broker.message import Entry, Message, is_stub, new_entry, stub_of
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import Page, Pages
from leveret.broker.queue import Queue
from leveret.broker.storage import STORED, Settler
from leveret.octets import put_u64, u16_at, u32_at, u64_at
from leveret.store.checks import overlaps
from leveret.store.journal import Journal
from leveret.store.layout import NUMBER_MASK, OFFSET_MASK, PLACE_SIZE, PLACES_AT, SPILL_NUMBER
from leveret.store.records import check_room, describe_message, read_message
from leveret.store.segment import Segment

log = logging.getLogger("leveret.store")

if TYPE_CHECKING:
    from leveret.store.pager import PagedStorage

# What lies so near together is read in one go.
GAP_MAX = 16 << 10
READ_AHEAD = 4 << 10
# What is read is whole blocks: a page must be longer than a few of them to be much of what is not asked for.
SPARSE_FROM = 128 << 10


def page_out(store: "PagedStorage", queue: Queue) -> None:
    """Make a page of the oldest messages in a queue's back."""
    store.write_places()
    backlog = queue.backlog
    back = backlog.back
    assert back is not None
    body_bytes = 0
    for _ in range(backlog.sizes.page_count):
        entry = back.first()
        if entry is None or body_bytes >= backlog.sizes.page_bytes:
            break
        back.remove(entry)
        body_bytes += entry.message.body_size
        backlog.back_count -= 1
        _add_to(backlog.pages, entry, queue, store.spill)
    backlog.back_bytes -= body_bytes
    first = back.first()
    backlog.back_seq = queue.next_seq if first is None else first.seq


def page_out_all(store: "PagedStorage", queue: Queue) -> None:
    """Make pages of all that is ready and was never taken, but for one."""
    store.write_places()
    backlog = queue.backlog
    backlog.unfold()
    pages = Pages(backlog.sizes)
    for entry in backlog.front.cut_off():
        if is_stub(entry.message):
            backlog.stub_bytes -= entry.message.body_size
        _add_to(pages, entry, queue, store.spill)
    backlog.pages.put_before(pages)
    backlog.evict_front(queue)
    if not backlog.paged and pages.count:
        backlog.begin_paging(queue.next_seq)
    while backlog.back_count:
        page_out(store, queue)
    backlog.give_back_memory()


def _add_to(pages: Pages, entry: Entry, queue: Queue, spill: Journal) -> None:
    location = entry.location
    if location == 0:
        check_placed(queue, entry)
        location = spill.write(entry.message, entry)
        queue.backlog.pages.spilled_count += 1
    if queue.message_expiry is not None:
        queue.message_expiry.paged_out(entry)
    pages.add(entry.seq, location, entry.message.body_size, entry.delivery_count, entry.redelivered)


def check_placed(queue: Queue, entry: Entry) -> None:
    """A message without a place in the journal must be one that has none."""
    if queue.ledger is not None and (entry.message.flags | queue.keeps_all) & STORED:
        raise Unplaced(f"message {entry.seq} of {queue.title} was to be paged out before it was in the journal")


class Unplaced(OSError):
    """What was, or will be, confirmed is in no file."""


def evict(store: "PagedStorage", queue: Queue, entries: list[Entry]) -> None:
    """Leave stubs of these."""
    store.write_places()
    spill = store.spill
    for entry in entries:
        if entry.location == 0:
            check_placed(queue, entry)
            entry.location = spill.write(entry.message, entry)
            queue.backlog.pages.spilled_count += 1
        entry.message = stub_of(entry.message.flags, entry.message.body_size)


def forget(spill: Journal, page: Page, settler: Settler | None) -> None:
    """The messages of a page are gone; `settler` is told of those in the journal."""
    entry = new_entry(stub_of(0, 0), 0)
    for index in range(page.count):
        location = page.location(index)
        if location >> 32 >= SPILL_NUMBER:
            spill.release(location, page.body_size(index))
        elif location != 0 and settler is not None:
            entry.seq = page.seq(index)
            entry.location = location
            entry.message = stub_of(0, page.body_size(index))
            settler.settle(entry)


class StubReading:
    """Stubs whose content is being read. `read` runs in the committer's thread."""

    __slots__ = ("_reading", "_stubs", "queue")

    def __init__(self, store: "PagedStorage", queue: Queue, stubs: list[Entry]) -> None:
        self.queue = queue
        self._stubs = stubs
        page = Page(len(stubs))
        for entry in stubs:
            page.add(entry.seq, entry.location, entry.message.body_size, entry.delivery_count, entry.redelivered)
        self._reading = Reading(store, queue, page)

    def is_taken(self) -> bool:
        return self._reading.is_taken()

    def read(self) -> int:
        return self._reading.read()

    def end(self) -> None:
        self._reading.end()


class Filling(StubReading):
    """Stubs that are ready, and have come to the front of their queue."""

    __slots__ = ()

    def finish(self, store: "PagedStorage") -> None:
        """Give the stubs their messages; one that is damaged is lost."""
        messages = {entry.seq: entry.message for entry in self._reading.entries()}
        self._reading.tell_lost()
        filled = []
        for stub in self._stubs:
            if not stub.waiting:
                continue
            message = messages.get(stub.seq)
            if message is None:
                self.queue.lose(stub)
            else:
                stub.message = message
                filled.append(stub)
        store.spill.unspill(filled)
        store.read_count += len(filled)
        self.queue.backlog.pages.read_count += len(filled)
        self.queue.filled(self._stubs)


class Fetching(StubReading):
    """Stubs that have left their queue, or copies of some in it, whose content is needed once more."""

    __slots__ = ("_done",)

    def __init__(self, store: "PagedStorage", queue: Queue, stubs: list[Entry], done: Callable[[], None]) -> None:
        StubReading.__init__(self, store, queue, stubs)
        self._done = done

    def finish(self, store: "PagedStorage") -> None:
        """Give the stubs their messages; one that is damaged stays one."""
        found = {entry.seq: entry for entry in self._reading.entries()}
        self._reading.tell_lost()
        for stub in self._stubs:
            entry = found.get(stub.seq)
            if entry is not None:
                stub.message = entry.message
                stub.expires_at = entry.expires_at
        self._done()


class Run:
    """Neighbours of a page that are read in one go: from `first` on, in one segment from `start` to `end`.

    `last_at` is where the last one's place is in the segment. `strays` are the octets of those that begin or end outside
    of `data`, `bad` the parts of the file that are damaged, and `lost` those in them.
    """

    __slots__ = ("bad", "data", "end", "first", "last_at", "lost", "segment", "start", "strays")

    def __init__(self, segment: Segment, first: int, place_at: int) -> None:
        self.segment = segment
        self.first = first
        self.start = place_at - PLACES_AT
        self.end = 0
        self.last_at = place_at
        self.data = b""
        self.bad: list[tuple[int, int]] = []
        self.strays: dict[int, bytes] = {}
        self.lost: set[int] = set()


class Reading:
    """A page being read: for each message the octets of its record. `read` runs in the committer's thread.

    Until its `end` the segments are pinned: compaction must not close a file that is going to be read.
    """

    __slots__ = ("_page", "_places", "_runs", "_store", "queue")

    def __init__(self, store: "PagedStorage", queue: Queue, page: Page) -> None:
        self.queue = queue
        self._store = store
        self._page = page
        self._runs: list[Run] = []
        # Where each place is in its segment, 8 octets; 0 for what was removed from the page.
        self._places = bytearray(page.count * 8)
        self._plan()

    def _plan(self) -> None:
        page = self._page
        spill, journal = self._store.spill, self._store.journal
        places = self._places
        run = None
        for index in range(page.count):
            location = page.location(index)
            if location == 0:
                continue
            log = spill if location >> 32 >= SPILL_NUMBER else journal
            location = log.where(location)
            at = location & OFFSET_MASK
            if run is None or run.segment.number != location >> 32 or not run.last_at < at <= run.end + GAP_MAX:
                run = Run(log.segments[location >> 32], index, at)
                run.segment.pinned += 1
                self._runs.append(run)
            run.last_at = at
            run.end = at + page.body_size(index) + READ_AHEAD
            put_u64(places, index * 8, at)

    def end(self) -> None:
        """Nothing will be read any more."""
        for run in self._runs:
            run.segment.pinned -= 1

    def is_taken(self) -> bool:
        """Whether the committer, which reads, has been given all of it to write; what another wrote must be written."""
        is_taken = True
        for run in self._runs:
            segment = run.segment
            is_taken = is_taken and run.last_at < (segment.written if segment.number >= SPILL_NUMBER else segment.size)
        return is_taken

    def read(self) -> int:
        """Read all of it, neighbours in one go; how many octets that are."""
        index = 0
        size = 0
        for number, run in enumerate(self._runs):
            run.start, run.data, run.bad = run.segment.read(run.start, run.end)
            size += len(run.data)
            stop = self._runs[number + 1].first if number + 1 < len(self._runs) else self._page.count
            while index < stop:
                if self._place_at(index) != 0 and not self._look_at(run, index):
                    run.lost.add(index)
                index += 1
        return size

    def _place_at(self, index: int) -> int:
        p = self._places
        return u64_at(p, index * 8)

    def _look_at(self, run: Run, index: int) -> bool:
        """Read what is not in the run: one of many places of a message may be far from its beginning, and a head long.

        False if it is damaged.
        """
        data = run.data
        place_at = self._place_at(index) - run.start
        if place_at < 0 or place_at + PLACE_SIZE > len(data) or (run.bad and self._is_bad(run, place_at, PLACE_SIZE)):
            return False
        p = data
        if u64_at(p, place_at + 8) != self._page.seq(index):
            return False
        at = record_at(data, place_at)
        if at >= 0 and at + PLACES_AT <= len(data):
            length = u32_at(p, at)
            if at + length <= len(data):
                return not run.bad or not self._is_bad(run, at, length)
        return self._read_stray(run, index, run.start + at)

    def _read_stray(self, run: Run, index: int, start: int) -> bool:
        """Read a record that is not all in its run, by itself."""
        first, data, bad = run.segment.read(start, start + 4)
        if start < first or overlaps(bad, start, start + 4) or start - first + 4 > len(data):
            return False
        length = u32_at(data, start - first)
        first, data, bad = run.segment.read(start, start + length)
        if start < first or overlaps(bad, start, start + length) or start - first + length > len(data):
            return False
        run.strays[index] = data[start - first : start - first + length]
        return True

    def _is_bad(self, run: Run, at: int, size: int) -> bool:
        return overlaps(run.bad, run.start + at, run.start + at + size)

    def entries(self) -> list[Entry]:
        """The messages, as they were, but for those that are damaged."""
        page = self._page
        found = []
        index = 0
        for number, run in enumerate(self._runs):
            stop = self._runs[number + 1].first if number + 1 < len(self._runs) else page.count
            while index < stop:
                place_at = self._place_at(index)
                if place_at == 0 or (run.lost and index in run.lost):
                    index += 1
                    continue
                place_at -= run.start
                entry = new_entry(self._message(run, index, place_at), page.seq(index))
                p = run.data
                entry.expires_at = u64_at(p, place_at + 16)
                entry.delivery_count = page.delivery_count(index)
                entry.redelivered = page.redelivered(index)
                entry.location = page.location(index)
                found.append(entry)
                index += 1
        return found

    def _message(self, run: Run, index: int, place_at: int) -> Message:
        if run.strays and index in run.strays:
            return read_message(run.strays[index], 0)
        return read_message(run.data, record_at(run.data, place_at))

    def _octets(self) -> OpenPage | None:
        """The messages as they were read, if they are in one piece, whole, and were never anything but ready.

        They stay in storage until they are settled: who acknowledges may give them back.
        """
        if len(self._runs) != 1:
            return None
        run: Run = self._runs[0]
        if run.lost or run.strays:
            return None
        page = self._page
        data = run.data
        if len(data) > SPARSE_FROM and len(data) > 2 * memory_of(page.live_count, page.body_bytes):
            # Mostly other queues' messages, which would stay in memory as long as these do.
            return None
        p = data
        found = OpenPage(data, page.count)
        for index in range(page.count):
            place_at = self._place_at(index)
            if place_at == 0:
                continue
            place_at -= run.start
            at = record_at(data, place_at)
            # With a time to live, its own or the queue's, or a history, more than the octets is asked for.
            if u64_at(p, place_at + 16) != 0 or page.delivery_count(index) != 0 or page.redelivered(index):
                return None
            if not describe_message(data, at, page.seq(index), page.location(index), found):
                return None
        return found

    def tell_lost(self) -> tuple[int, int]:
        """Say which messages are damaged, and have their files kept; how many they are, and their bodies' octets."""
        count = size = 0
        for run in self._runs:
            for index in sorted(run.lost):
                run.segment.damaged = True
                count += 1
                size += self._page.body_size(index)
                what = f"message {self._page.seq(index)} of {self.queue.title}"
                log.error("%s: %s at %d is damaged and not delivered", run.segment.name, what, self._place_at(index))
        return count, size

    def lost_locations(self) -> list[tuple[int, int]]:
        """Where the damaged messages are, and the sizes of their bodies."""
        page = self._page
        return [(page.location(index), page.body_size(index)) for run in self._runs for index in run.lost]

    def finish(self, store: "PagedStorage") -> None:
        """Give the queue its messages."""
        if self.queue.backlog.loading is self._page and self.queue.takes_octets():
            octets = self._octets()
            if octets is not None:
                store.read_count += octets.count
                self.queue.backlog.pages.read_count += octets.count
                self.queue.opened(self._page, octets)
                return
        entries = self.entries()
        count, size = self.tell_lost()
        if self.queue.backlog.loading is self._page:
            # If not, it was purged meanwhile, and all of it has been given free.
            store.spill.unspill(entries)
            store.read_count += len(entries)
            self.queue.backlog.pages.read_count += len(entries)
            for location, body_size in self.lost_locations():
                store.lose(self.queue, location, body_size)
        self.queue.loaded(self._page, entries, count, size)


def record_at(data: bytes, place_at: int) -> int:
    """Where the record begins whose place is at `place_at`; negative if that is before what was read."""
    check_room(len(data), place_at, PLACE_SIZE)
    p = data
    return place_at - PLACES_AT - PLACE_SIZE * (u16_at(p, place_at + 6) & NUMBER_MASK)
