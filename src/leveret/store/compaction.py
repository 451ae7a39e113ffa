"""Compaction: the oldest segment's live messages are written again at the end, and its file goes.

Always the oldest, so that a settlement never outlives the message it is about, nor goes before it:

  (1) A segment of which nothing is live goes at once. Else it begins when the files are more than twice what is live, and
      two segments on top, or more in number than that would be; when space is short, as soon as it gives some. So there
      is room for what is written until the file goes: at no moment are there more than twice what is live, and four.
  (2) Copied are live places, each with how often its message was given back by now. Nothing else needs a copy: a
      settlement is of a message that is not there, and a message that was given back has its place behind that, as it
      was moved since, or is being moved now.
  (3) The file is removed when the copies are on disk; with `sync = "os"` too.
  (4) While a transaction is being committed nothing is copied or removed: its records do not count yet.
  (5) Batches are read and checked in the spiller's thread, one at a time; what is copied of them is in the loop. When
      there is half a segment more than in (1), nothing is written meanwhile: writing never runs ahead of reading.
  (6) What cannot be read is said and not copied: its file is kept aside, and the next segment has its turn.
"""

import logging
from typing import TYPE_CHECKING

from leveret.broker.budget import Budget
from leveret.broker.work import Task
from leveret.store.batch import BatchRead
from leveret.store.checks import overlaps
from leveret.store.disk import File
from leveret.store.journal import Journal
from leveret.store.layout import MESSAGE, PLACE_SIZE, PLACES_AT
from leveret.store.ledger import ledger_of
from leveret.store.records import Place, body_size_at, read_head, read_place
from leveret.store.segment import Segment, batches_left

if TYPE_CHECKING:
    from leveret.store.store import Store

SPARE_SEGMENTS = 2
# A spill in which nothing is live is begun anew from this size on.
SPILL_SPARE = 1 << 20
# So many files more than the live messages would fill twice are too many, however small.
SPARE_FILES = 6
# What asking for a batch, and copying a message, costs in the budget of a pass.
BATCH_COST = 20
COPY_COST = 2

log = logging.getLogger("leveret.store")


def is_late(journal: Journal) -> bool:
    """Whether the files have grown well beyond where compaction begins."""
    size = live = 0
    for segment in journal.segments.values():
        if not segment.aside:
            size += segment.size
            live += segment.live_size
    return size > 2 * live + SPARE_SEGMENTS * journal.segment_size + journal.segment_size // 2


def oldest_to_clean(journal: Journal, space_is_low: bool = False) -> Segment | None:
    """The segment to clean next, if that is worth while."""
    size = live = count = 0
    oldest = journal.current
    for segment in journal.segments.values():
        if segment.aside:
            continue
        count += 1
        size += segment.size
        live += segment.live_size
        if oldest is None or segment.number < oldest.number:
            oldest = segment
    if oldest is None or oldest is journal.current:
        return None
    if oldest.live_count == 0 or count > 2 * (live // journal.segment_size) + SPARE_FILES:
        return oldest
    enough = 2 * live + SPARE_SEGMENTS * journal.segment_size
    if space_is_low:
        enough = live + live // 8 + journal.segment_size // 2
    return oldest if size > enough else None


class Unreliable(File):
    """A file being read that may fail: what cannot be read is missing, and that is said once."""

    __slots__ = ("_failed", "_file")

    def __init__(self, file: File) -> None:
        self.name = file.name
        self._file = file
        self._failed = False

    def read(self, offset: int, size: int) -> bytes:
        try:
            return self._file.read(offset, size)
        except OSError as error:
            if not self._failed:
                log.error("%s: cannot be read at %d: %s", self.name, offset, error)
            self._failed = True
            return b""


class Clean(Task):
    """Copies what is live of one segment, some at a time, and has the file removed.

    Each batch is read and checked in the spiller's thread (`read`), where nobody waits for a confirm.
    """

    __slots__ = ("_at", "_batch", "_batches", "_ended", "_file", "_first", "_segment", "_span", "_store", "journal")

    def __init__(self, store: "Store", journal: Journal, segment: Segment) -> None:
        self._store = store
        self.journal = journal
        self._segment = segment
        self._file = Unreliable(segment.file)
        # The first segment that may have copies.
        self._first = 0
        self._batches = batches_left(segment, self._file)
        self._batch: BatchRead | None = None
        # Whether there is no other.
        self._ended = False
        # Which of its spans is being copied, and from where.
        self._span = 0
        self._at = 0

    def run(self, budget: Budget) -> bool:
        try:
            return self._go_on(budget)
        except Exception as error:
            # Compaction would never begin again, and that shows only when the disk is full.
            self._store.fail(error)
            return True

    def _go_on(self, budget: Budget) -> bool:
        segment = self._segment
        if self._store.open_groups:
            self._store.compaction.wait_for_groups(self)
            return True
        if not segment.live_count:
            self._store.compaction.cleaned(self.journal, segment, self._copies())
            return True
        assert self.journal.current is not None
        self._first = self._first or self.journal.current.number
        while budget.left > 0:
            if self._batch is not None:
                self._copy(budget)
            elif self._ended:
                self._finish()
                return True
            else:
                # It goes on when that is done.
                budget.left -= BATCH_COST
                self._store.read_batch(self)
                return True
        # It takes long, and those behind it on the list must not wait.
        self._store.work.add(self)
        return True

    def _finish(self) -> None:
        segment = self._segment
        if segment.live_count:
            segment.damaged = True
            log.error("%s: %d messages are damaged and could not be copied", segment.name, segment.live_count)
        self._store.compaction.cleaned(self.journal, segment, self._copies())

    def _copies(self) -> list[Segment]:
        if not self._first:
            return []
        return [segment for number, segment in self.journal.segments.items() if number >= self._first]

    def read(self) -> int:
        """Read the next batch, if there is one; runs in the spiller's thread. How many octets that are."""
        for batch in self._batches:
            if self._is_sound(batch):
                self._batch = batch
                self._span = 0
                self._at = batch.spans[0][0] if batch.spans else 0
                return len(batch.payload)
        self._ended = True
        return 0

    def _is_sound(self, batch: BatchRead) -> bool:
        """The spill's batches say nothing about what is in them; the checks of the file do."""
        if not self.journal.spills:
            return True
        start, end = batch.offset, batch.following
        return not overlaps(self._segment.read(start, end)[2], start, end)

    def _copy(self, budget: Budget) -> None:
        batch = self._batch
        assert batch is not None
        payload = batch.payload
        while self._span < len(batch.spans) and budget.left > 0:
            end = batch.spans[self._span][1]
            while self._at < end and budget.left > 0:
                length, kind, count, _, _ = read_head(payload, self._at)
                if kind == MESSAGE:
                    self._copy_message(batch, count, budget)
                self._at += length
            if self._at >= end:
                self._span += 1
                if self._span < len(batch.spans):
                    self._at = batch.spans[self._span][0]
        if self._span >= len(batch.spans):
            self._batch = None

    def _copy_message(self, batch: BatchRead, count: int, budget: Budget) -> None:
        live = []
        for number in range(count):
            place_at = self._at + PLACES_AT + number * PLACE_SIZE
            offset = batch.offset + place_at
            if self._segment.is_dead(offset):
                continue
            place = read_place(batch.payload, place_at)
            if self._is_gone(place):
                self._segment.settle(offset, body_size_at(batch.payload, self._at))
                continue
            place.delivery_count = self._delivery_count(place)
            place.delivered = place.delivered or batch.number <= self._store.delivered_up_to
            live.append((offset, place))
        if live:
            budget.left -= COPY_COST
            self.journal.move(self._segment, batch.payload, self._at, count, live, self._moved)

    def _is_gone(self, place: Place) -> bool:
        """Whether a purge has said so of all up to this one; each is given free later."""
        queue = self._store.queues.get(place.queue)
        return queue is not None and place.seq <= ledger_of(queue).floor

    def _delivery_count(self, place: Place) -> int:
        """How often a live message was given back by now."""
        queue = self._store.queues.get(place.queue)
        return place.delivery_count if queue is None else ledger_of(queue).counts.get(place.seq, place.delivery_count)

    def _moved(self, place: Place, location: int) -> bool:
        """A paged-out message is elsewhere now; False if it is in memory."""
        queue = self._store.queues.get(place.queue)
        return queue is not None and queue.backlog.pages.move(place.seq, location)


class Compaction:
    """Which of a store's logs is being cleaned, and which files go when their copies are on disk.

    With `space_is_low` files should go that could stay otherwise. `_waiting` go on when no transaction is being committed;
    `_removable` are positions, and the segments that may go when those are synced, with their copies.
    """

    __slots__ = ("_cleaning", "_removable", "_store", "_waiting", "space_is_low")

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._cleaning: set[Journal] = set()
        self._removable: list[tuple[int, Journal, Segment, list[Segment]]] = []
        self._waiting: list[Clean] = []
        self.space_is_low = False

    def look(self, log: Journal) -> None:
        """Begin with the oldest segment of a log, if that is worth while."""
        if log in self._cleaning or not self._store.is_open():
            return
        if log.spills and log.is_idle(SPILL_SPARE):
            log.begin_anew()
        segment = oldest_to_clean(log, self.space_is_low)
        if segment is not None:
            self._cleaning.add(log)
            self._store.work.add(Clean(self._store, log, segment))

    def wait_for_groups(self, clean: Clean) -> None:
        """Go on with this when no transaction is being committed."""
        self._waiting.append(clean)

    def groups_closed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for clean in waiting:
            self._store.work.add(clean)

    def cleaned(self, log: Journal, segment: Segment, copies: list[Segment]) -> None:
        """Nothing live is left in a segment once what was said up to now is written, to `copies`."""
        if not log.spills:
            # Said together with the copies: when they are on disk it may be missing.
            others = [other.first_batch for other in log.segments.values() if other is not segment and other.first_batch]
            log.mark = (*log.mark[:2], min(others, default=log.batch))
        self._removable.append((log.position(), log, segment, [] if log.spills else copies))
        self.remove_cleaned()

    def remove_cleaned(self) -> None:
        """Remove files whose copies are on disk, and that nobody is about to read."""
        waiting, self._removable = self._removable, []
        for position, log, segment, copies in waiting:
            if position > log.synced or segment.pinned:
                self._removable.append((position, log, segment, copies))
                continue
            self._cleaning.discard(log)
            removal = log.remove(segment)
            removal.copies = copies
            self._store.remove_file(removal, sync=not log.spills)
            self.look(log)
