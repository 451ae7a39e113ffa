"""The pager of a store: what queues have beyond their windows, read again from the journal or the spill.

How it is written and read is `page_transfer.py`'s. Reading is in the committer's thread: `have_read` brings it there, once
the committer has been given everything that is to be read.
"""

from collections.abc import Callable
from functools import partial

from leveret.broker.message import Entry, Message, is_stub, new_entry, stub_of
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import Page, Sizes
from leveret.broker.queue import Queue
from leveret.broker.storage import STORED, Settler, Storage
from leveret.broker.work import Work
from leveret.store.journal import Journal
from leveret.store.layout import HEAD_SIZE, PLACE_SIZE, PLACES_AT, SPILL_NUMBER
from leveret.store.ledger import ledger_of
from leveret.store.page_transfer import Fetching, Filling, Reading, Unplaced, evict, forget, page_out, page_out_all
from leveret.store.peek import Peek
from leveret.store.records import read_head, read_message, read_place

Readable = Reading | Filling | Fetching | Peek


class PagedStorage(Storage):
    """Messages of two logs that can be read again. `read_count` have been."""

    __slots__ = ("_fetch_count", "_readings", "failed", "journal", "read_count", "spill", "work")

    work: Work

    def __init__(self, journal: Journal, spill: Journal, sizes: Sizes) -> None:
        Storage.__init__(self, sizes, journal, spill)
        self.can_page = True
        self.journal = journal
        self.spill = spill
        self.failed: BaseException | None = None
        self.read_count = 0
        self._readings: list[Readable] = []
        self._fetch_count = 0

    # What whoever has the committer adds

    def can_read(self) -> bool:
        """Whether the committer is there, and has been given all batches that have ended."""
        raise NotImplementedError

    def have_read(self, reading: Readable, done: Callable[[BaseException | None], None]) -> None:
        """Have something read by the committer."""
        raise NotImplementedError

    def is_ended(self, error: BaseException | None) -> bool:
        """Whether nothing more can be done: the committer has failed, or the files are closed."""
        raise NotImplementedError

    def read_done(self) -> None:
        """Something has been read, and its files may go."""
        raise NotImplementedError

    # Going out and coming back

    def page_out(self, queue: Queue) -> None:
        try:
            page_out(self, queue)
        except Unplaced as error:
            self.fail(error)

    def page_out_all(self, queue: Queue) -> None:
        try:
            page_out_all(self, queue)
        except Unplaced as error:
            self.fail(error)

    def load(self, queue: Queue, page: Page) -> None:
        self._readings.append(Reading(self, queue, page))
        self._read_waiting()

    def _read_waiting(self) -> None:
        """Have read what the committer has been given before."""
        waiting, self._readings = self._readings, []
        for reading in waiting:
            if not self.can_read() or not reading.is_taken():
                self._readings.append(reading)
            else:
                self.have_read(reading, partial(self._read, reading))

    def _read(self, reading: Readable, error: BaseException | None) -> None:
        if self.is_ended(error):
            return
        if isinstance(reading, Fetching):
            self._fetch_count -= 1
        self.work.budget.begin()
        reading.finish(self)
        reading.end()
        self.read_done()

    def evict(self, queue: Queue, entries: list[Entry]) -> None:
        try:
            evict(self, queue, entries)
        except Unplaced as error:
            self.fail(error)

    def load_stubs(self, queue: Queue, entries: list[Entry]) -> None:
        self._readings.append(Filling(self, queue, entries))
        self._read_waiting()

    def fetch(self, entry: Entry) -> Message:
        if not is_stub(entry.message):
            return entry.message
        log = self._log_of(entry.location)
        segment, offset = log.place_of(entry.location)
        place = read_place(log.read(segment, offset, PLACE_SIZE), 0)
        start = offset - PLACES_AT - PLACE_SIZE * place.number
        length = read_head(log.read(segment, start, HEAD_SIZE), 0)[0]
        return read_message(log.read(segment, start, length), 0)

    def fetch_all(self, queue: Queue, stubs: list[Entry], done: Callable[[], None]) -> None:
        self._fetch_count += 1
        self._readings.append(Fetching(self, queue, stubs, done))
        self._read_waiting()

    def is_fetching(self) -> bool:
        return self._fetch_count > 0 and self.failed is None

    def peek(self, queue: Queue, page: Page, done: Callable[[list[Entry] | None], None]) -> None:
        self._readings.append(Peek(self, queue, page, done))
        self._read_waiting()

    def stub(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> Entry:
        entry = new_entry(stub_of(0 if location >> 32 >= SPILL_NUMBER else STORED, body_size), seq)
        entry.location = location
        entry.delivery_count = delivery_count
        entry.redelivered = redelivered
        return entry

    def lose(self, queue: Queue, location: int, body_size: int) -> None:
        # Nothing is written of it: perhaps another start can read it.
        self.damaged_count += 1
        self._log_of(location).release(location, body_size)
        if location >> 32 < SPILL_NUMBER and queue.ledger is not None:
            ledger_of(queue).live_count -= 1
            ledger_of(queue).live_bytes -= body_size

    def release_octets(self, page: OpenPage, first: int) -> None:
        self.spill.release_octets(page, first)

    def forget(self, page: Page, settler: Settler | None) -> None:
        forget(self.spill, page, settler)

    def forget_entry(self, entry: Entry, settler: Settler | None) -> None:
        if entry.location >> 32 >= SPILL_NUMBER:
            self.release(entry)
        elif settler is not None:
            settler.settle(entry)

    def _log_of(self, location: int) -> Journal:
        return self.spill if location >> 32 >= SPILL_NUMBER else self.journal
