"""Compaction: the oldest segment's live messages are written again at the end, and its file goes.

Always the oldest, so that a settlement never outlives the message it is about, nor goes before it:

  (1) It begins when the files are more than twice what is live, and three segments on top.
  (2) Copied are live places, each with how often its message was given back by now. Nothing else needs a copy: a
      settlement is of a message that is not there, and a message that was given back has its place behind that, as it
      was moved since, or is being moved now.
  (3) The file is removed when the copies are on disk.
  (4) While a transaction is being committed nothing is copied or removed: its records do not count yet.
"""

import logging
from typing import TYPE_CHECKING

from leveret.broker.work import Task, Work
from leveret.store.journal import Journal
from leveret.store.layout import MESSAGE, PLACE_SIZE, PLACES_AT
from leveret.store.records import read_head, read_place
from leveret.store.segment import HEADER_SIZE, Batch, Segment, next_batch_offset, read_batch

if TYPE_CHECKING:
    from leveret.store.store import Store

SPARE_SEGMENTS = 3
# What reading a batch, and copying a message, costs in the budget of a pass.
BATCH_COST = 20
COPY_COST = 2

log = logging.getLogger("leveret.store")


def oldest_to_clean(journal: Journal) -> Segment | None:
    """The segment to clean next, if that is worth while."""
    size = live = 0
    for segment in journal.segments.values():
        size += segment.size
        live += segment.live_size
    if size <= 2 * live + SPARE_SEGMENTS * journal.segment_size:
        return None
    oldest = journal.segments[min(journal.segments)]
    return None if oldest is journal.current else oldest


class Clean(Task):
    """Copies what is live of one segment, some at a time, and has the file removed."""

    __slots__ = ("_at", "_batch", "_journal", "_offset", "_segment", "_store")

    def __init__(self, store: "Store", journal: Journal, segment: Segment) -> None:
        self._store = store
        self._journal = journal
        self._segment = segment
        self._offset = HEADER_SIZE
        self._batch: Batch | None = None
        self._at = 0

    def run(self, work: Work) -> bool:
        segment = self._segment
        if self._store.open_groups:
            self._store.wait_for_groups(self)
            return True
        if not segment.live_count:
            self._store.cleaned(self._journal, segment)
            return True
        while work.left > 0:
            if self._batch is None and not self._read(work):
                self._finish()
                return True
            self._copy(work)
        # It takes long, and those behind it on the list must not wait.
        work.add(self)
        return True

    def _finish(self) -> None:
        segment = self._segment
        if segment.live_count:
            segment.damaged = True
            log.error("%s: %d messages are damaged and could not be copied", segment.name, segment.live_count)
        self._store.cleaned(self._journal, segment)

    def _read(self, work: Work) -> bool:
        """Read the next batch; False if there is none."""
        work.left -= BATCH_COST
        segment = self._segment
        offset: int | None = self._offset
        while offset is not None and offset < segment.written:
            self._batch = read_batch(segment, offset)
            if self._batch is not None:
                self._offset = self._batch.offset + len(self._batch.payload)
                self._at = 0
                return True
            offset = next_batch_offset(segment, offset)
        return False

    def _copy(self, work: Work) -> None:
        batch = self._batch
        assert batch is not None
        payload = batch.payload
        while self._at < len(payload) and work.left > 0:
            length, kind, count, _, _ = read_head(payload, self._at)
            if kind == MESSAGE:
                self._copy_message(batch, count, work)
            self._at += length
        if self._at >= len(payload):
            self._batch = None

    def _copy_message(self, batch: Batch, count: int, work: Work) -> None:
        live = []
        for number in range(count):
            place_at = self._at + PLACES_AT + number * PLACE_SIZE
            offset = batch.offset + place_at
            if not self._segment.is_dead(offset):
                place = read_place(batch.payload, place_at)
                place.delivery_count = self._store.count_of(place.queue, place.seq, place.delivery_count)
                live.append((offset, place))
        if live:
            work.left -= COPY_COST
            self._journal.move(self._segment, batch.payload, self._at, count, live, self._store.moved)
