"""The store: the model's durable storage, made of the journal, the definitions and the committer.

One batch is being written at a time; what is said meanwhile gathers in the next. `on_synced` is called on the loop when
one is on disk, `on_failed` when one could not be: after that nothing is promised any more.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from leveret.broker.message import Entry, Message, Origin, is_stub, new_entry, new_message
from leveret.broker.pages import Page, Sizes
from leveret.broker.queue import Queue
from leveret.broker.storage import Storage
from leveret.store.cleaner import Clean, oldest_to_clean
from leveret.store.committer import Committer, Work
from leveret.store.definitions import Change, DefinitionsFile, packed, put, remove, remove_vhost, set_fact
from leveret.store.holding import Hold
from leveret.store.journal import Batch, Journal, Ledger
from leveret.store.layout import HEAD_SIZE, PLACE_SIZE, PLACES_AT, SPILL_NUMBER
from leveret.store.paging import Filling, Reading, page_out, strip
from leveret.store.peeking import Peek
from leveret.store.records import Place, read_head, read_message, read_place
from leveret.store.segment import Segment

log = logging.getLogger("leveret.store")

SPILL_PREFIX = "spill"
SPILL_PIECE = 1 << 20

# A fact: ids are never used again.
LAST_QUEUE_ID = "last_queue_id"

# Stands for a message whose content is not needed any more.
NO_MESSAGE = new_message(Origin("", "", b""), b"", 0, 0, 1, 0)


class Store(Storage):
    """Everything durable of one broker."""

    __slots__ = (
        "_changes",
        "_cleaning",
        "_committer",
        "_ids",
        "_next_group",
        "_next_queue_id",
        "_on_failed",
        "_on_synced",
        "_readings",
        "_removable",
        "_spiller",
        "_spilling_size",
        "_waiting",
        "_writing",
        "_writing_size",
        "failed",
        "holding",
        "holds",
        "journal",
        "known_ids",
        "open_groups",
        "queues",
        "spill",
        "work",
    )

    def __init__(
        self, journal: Journal, spill: Journal, next_queue_id: int, next_group: int, sizes: Sizes | None = None
    ) -> None:
        Storage.__init__(self, sizes)
        self.pages = True
        self.journal = journal
        self.spill = spill
        self.synced = journal.synced
        self.failed: BaseException | None = None
        # Whether messages wait for the disk before they are delivered, and those of which queues do.
        self.holds = False
        self.holding: list[Hold] = []
        # The ids of queues that recovery is about to make again.
        self.known_ids: dict[tuple[str, str, str], int] = {}
        self.queues: dict[int, Queue] = {}
        self._ids: dict[tuple[str, str, str], int] = {}
        self.work: Any = None
        self._changes: list[Change] = []
        self._committer: Committer | None = None
        self._spiller: Committer | None = None
        self._writing = False
        self._writing_size = 0
        self._spilling_size = 0
        self._readings: list[Reading | Filling | Peek] = []
        self._cleaning: set[Journal] = set()
        self._removable: list[tuple[int, Journal, Segment, list[Segment]]] = []
        self.open_groups: set[int] = set()
        self._waiting: list[Clean] = []
        self._next_queue_id = next_queue_id
        self._next_group = next_group
        self._on_synced: Callable[[], None] = nothing
        self._on_failed: Callable[[BaseException], None] = nothing_more

    def open(
        self,
        committer: Committer,
        spiller: Committer,
        on_synced: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Begin to write: `spiller` what is never recovered, `committer` all else. The latter reads and removes, too."""
        self._committer = committer
        self._spiller = spiller
        self._on_synced = on_synced
        self._on_failed = on_failed

    # What the model says

    def position(self) -> int:
        if self.work is not None:
            self.work.store()
        return self.journal.batch if self._changes else self.journal.position()

    def append(self, message: Message, placed: list[Any]) -> None:
        self.journal.append(message, placed)

    def put(self, kind: str, vhost: str, name: str, value: dict[str, Any]) -> None:
        if "arguments" in value:
            value = {**value, "arguments": packed(value["arguments"])}
        self._changes.append(put(kind, vhost, name, value))

    def remove(self, kind: str, vhost: str, name: str) -> None:
        self._changes.append(remove(kind, vhost, name))

    def remove_vhost(self, vhost: str) -> None:
        self._changes.append(remove_vhost(vhost))

    def adopt(self, queue: Queue, vhost: str, kind: str, value: dict[str, Any]) -> None:
        key = (kind, vhost, queue.name)
        queue_id = self.known_ids.pop(key, 0)
        if not queue_id:
            queue_id = self._next_queue_id
            self._next_queue_id += 1
            self.put(kind, vhost, queue.name, {**value, "id": queue_id})
            self._changes.append(set_fact(LAST_QUEUE_ID, str(queue_id)))
        self._ids[key] = queue_id
        queue.ledger = Ledger(self.journal, queue_id)
        if self.holds:
            queue.hold_back(Hold(self, queue))
        self.queues[queue_id] = queue

    def abandon(self, queue: Queue, vhost: str, kind: str) -> None:
        queue_id = queue.ledger.queue_id
        self.queues.pop(queue_id, None)
        # In a vhost made anew the name may be another queue's by now.
        if self._ids.get((kind, vhost, queue.name)) == queue_id:
            del self._ids[kind, vhost, queue.name]
            self.remove(kind, vhost, queue.name)

    def begin_group(self) -> int:
        self._next_group += 1
        self.open_groups.add(self._next_group)
        return self._next_group

    def enter(self, group: int) -> None:
        self.journal.group = group

    def commit(self, group: int) -> None:
        self.journal.commit(group)
        self.open_groups.discard(group)
        if not self.open_groups:
            waiting, self._waiting = self._waiting, []
            for clean in waiting:
                self.work.add(clean)

    def forget_changes(self) -> None:
        """What was said is on disk already."""
        self._changes = []

    # The end of a turn

    def unsynced_size(self) -> int:
        return len(self.journal.out) + len(self.spill.out) + self._writing_size + self._spilling_size

    def flush(self) -> None:
        """Hand what has gathered to the committer, if that is idle."""
        if self._committer is None or self.failed is not None:
            return
        self._flush_spill()
        self._flush_journal()
        self._read_waiting()

    def _flush_spill(self) -> None:
        # In small pieces: a buffer that grows is memory that nobody has touched, and making that takes its time.
        if self._spiller is None or self.spill.position() < self.spill.batch:
            return
        if not self._spilling_size or len(self.spill.out) >= SPILL_PIECE:
            batch = self.spill.take()
            self._spilling_size += len(batch.data)
            self._spiller.put(Work(batch, [], lambda error: self._spilt(batch, error), sync=False))

    def _spilt(self, batch: Batch, error: BaseException | None) -> None:
        self._spilling_size -= len(batch.data)
        if error is not None:
            self._fail(error)
            return
        self.spill.committed(batch)
        self._read_waiting()
        self._remove_cleaned()
        self._clean(self.spill)
        self._on_synced()

    def _flush_journal(self) -> None:
        if self._writing or self._committer is None or self.failed is not None or self.position() <= self.synced:
            return
        batch = self.journal.take()
        changes, self._changes = self._changes, []
        self._writing = True
        self._writing_size = len(batch.data)
        self._committer.put(Work(batch, changes, lambda error: self._written(batch, error)))

    def finish(self, definitions: DefinitionsFile) -> None:
        """Write and sync what is left, at the end and without the committer."""
        if self.position() <= self.synced:
            return
        batch = self.journal.take()
        if self._changes:
            definitions.change(self._changes)
        batch.write()
        batch.sync()
        self.journal.committed(batch)
        self.synced = batch.number

    def _written(self, batch: Batch, error: BaseException | None) -> None:
        self._writing = False
        self._writing_size = 0
        if error is not None:
            self._fail(error)
            return
        self.journal.committed(batch)
        self.synced = batch.number
        self._release_held()
        self._remove_cleaned()
        self._clean(self.journal)
        self._on_synced()

    def _release_held(self) -> None:
        if self.holding:
            self.work.begin()
            waiting, self.holding = self.holding, []
            self.holding += [hold for hold in waiting if not hold.release(self.synced)]

    def _fail(self, error: BaseException) -> None:
        # What was waiting fails with it.
        if self.failed is None:
            self.failed = error
            self._on_failed(error)

    # Paging

    def page_out(self, queue: Queue) -> None:
        page_out(self, queue)

    def load(self, queue: Queue, page: Page) -> None:
        self._readings.append(Reading(self, queue, page))
        self._read_waiting()

    def _read_waiting(self) -> None:
        """Have read what the committer has been given before."""
        waiting, self._readings = self._readings, []
        for reading in waiting:
            if self._committer is None or not reading.is_taken():
                self._readings.append(reading)
            else:
                self._committer.put(Work(reading, [], partial(self._read, reading), sync=False))

    def _read(self, reading: Reading | Filling | Peek, error: BaseException | None) -> None:
        if error is not None:
            self._fail(error)
            return
        self.work.begin()
        try:
            reading.finish(self)
        except OSError as damage:
            self._fail(damage)
        self._on_synced()

    def strip(self, queue: Queue, entries: list[Entry]) -> None:
        strip(self, queue, entries)

    def load_stubs(self, queue: Queue, entries: list[Entry]) -> None:
        self._readings.append(Filling(self, queue, entries))
        self._read_waiting()

    def fetch(self, entry: Entry) -> Message:
        if not is_stub(entry.message):
            return entry.message
        log = self._log(entry.location)
        segment, offset = log.place_of(entry.location)
        place = read_place(log.read(segment, offset, PLACE_SIZE), 0)
        start = offset - PLACES_AT - PLACE_SIZE * place.number
        length = read_head(log.read(segment, start, HEAD_SIZE), 0)[0]
        return read_message(log.read(segment, start, length), 0)

    def peek(self, queue: Queue, page: Page, done: Callable[[list[Entry] | None], None]) -> None:
        self._readings.append(Peek(self, queue, page, done))
        self._read_waiting()

    def release(self, entry: Entry) -> None:
        self._log(entry.location).release(entry.location)
        entry.location = 0

    def forget(self, page: Page, ledger: Any) -> None:
        for index in range(page.count):
            location = page.location(index)
            if location >> 32 >= SPILL_NUMBER:
                self.spill.release(location)
            elif ledger is not None:
                entry = new_entry(NO_MESSAGE, page.seq(index))
                entry.location = location
                ledger.settle(entry)

    def _log(self, location: int) -> Journal:
        return self.spill if location >> 32 >= SPILL_NUMBER else self.journal

    def moved(self, place: Place, location: int) -> bool:
        """A paged-out message is elsewhere now; False if it is in memory."""
        queue = self.queues.get(place.queue)
        return queue is not None and queue.pages.move(place.seq, location)

    # Compaction

    def _clean(self, log: Journal) -> None:
        if log in self._cleaning:
            return
        segment = oldest_to_clean(log)
        if segment is not None:
            self._cleaning.add(log)
            self.work.add(Clean(self, log, segment))

    def wait_for_groups(self, clean: Clean) -> None:
        """Go on with this when no transaction is being committed."""
        self._waiting.append(clean)

    def cleaned(self, log: Journal, segment: Segment, copies: list[Segment]) -> None:
        """Nothing live is left in a segment once what was said up to now is written, to `copies`."""
        self._removable.append((log.position(), log, segment, [] if log is self.spill else copies))
        self._remove_cleaned()

    def _remove_cleaned(self) -> None:
        waiting, self._removable = self._removable, []
        for position, log, segment, copies in waiting:
            if position > log.synced:
                self._removable.append((position, log, segment, copies))
                continue
            self._cleaning.discard(log)
            removal = log.remove(segment)
            removal.copies = copies
            if self._committer is not None:
                self._committer.put(Work(removal, [], self._removed))
            self._clean(log)

    def _removed(self, error: BaseException | None) -> None:
        if error is not None:
            # What stays would come back: what was said of it goes with the segments behind it.
            self._fail(error)

    def count_of(self, queue_id: int, seq: int, count: int) -> int:
        """How often a live message was given back."""
        queue = self.queues.get(queue_id)
        return count if queue is None else queue.ledger.counts.get(seq, count)


def nothing() -> None:
    """Nobody waits."""


def nothing_more(error: BaseException) -> None:
    """Nobody asks."""
