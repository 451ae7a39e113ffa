"""The journal: one log for the messages of all queues, gathered in batches.

What happens to stored messages in a turn is appended here; at its end the committer takes the batch, writes and syncs it
while the next one gathers. Whoever promised something until then asks `position` and waits for `synced` to reach it.

  (1) A message is written once, with all the places it took at that moment, and then never changed.
  (2) A place's location is its segment's number and its offset there: segment << 32 | offset. 0 is none.
  (3) Settlements are gathered as runs of seqs, and written when the batch is taken.
  (4) A batch is in one segment; when a segment is full the next batch begins a new one.

Knows nothing of threads: `take` gives a batch away, `committed` says that it is on disk.
"""

import logging
from collections.abc import Callable
from errno import EOVERFLOW
from typing import Any

from leveret.broker.message import Entry, Message
from leveret.broker.open_page import OpenPage
from leveret.broker.queue import Queue
from leveret.broker.storage import Damaged, Log
from leveret.store.batch import BATCH_HEAD_SIZE, seal, seal_unchecked, table_size
from leveret.store.checks import SMALL, overlaps
from leveret.store.disk import Disk
from leveret.store.layout import (
    COMMIT,
    DELIVERED,
    MARK,
    OFFSET_MASK,
    PLACE_SIZE,
    PLACES_AT,
    SPILL_NUMBER,
)
from leveret.store.ledger import Ledger
from leveret.store.records import Place, body_size_at, copy_message, write_message, write_numbers, write_place
from leveret.store.segment import HEADER_SIZE, ROOM_MAX, Segment, new_segment

log = logging.getLogger("leveret.store")

SEGMENT_SIZE = 64 << 20
PREFIX = "journal"
# With small batches, and with every so many others, it is looked whether their file is still there.
LOOK_EVERY = 16


class Journal(Log):
    """The log, and where in it what is live stands.

    `out` is the batch being gathered, number `batch`; `synced` is the last one known to be on disk. `mark` is what a MARK
    says: changes of the definitions, the last queue id, and the oldest batch. The spill has none. `written_count` messages
    have come since the start.
    """

    __slots__ = (
        "_disk",
        "_finished",
        "_marked",
        "_moved",
        "_prefix",
        "_writing",
        "batch",
        "current",
        "dirty",
        "group",
        "mark",
        "out",
        "segment_size",
        "segments",
        "spills",
        "synced",
        "worth_cleaning",
        "written_count",
    )

    def __init__(self, disk: Disk, segment_size: int = SEGMENT_SIZE, prefix: str = PREFIX) -> None:
        self._disk = disk
        self._prefix = prefix
        self.segment_size = segment_size
        self.segments: dict[int, Segment] = {}
        self.batch = 1
        self.synced = 0
        self.group = 0
        self.out = bytearray(BATCH_HEAD_SIZE)
        self.dirty: list[Ledger] = []
        self.current: Segment | None = None
        self.spills = prefix != PREFIX
        self.mark = self._marked = (0, 0, 0)
        # Set when the last live place of a segment has gone.
        self.worth_cleaning = False
        self.written_count = 0
        self._moved: dict[int, int] = {}
        # The segment before the current one, until the first batch of that is taken.
        self._finished: Segment | None = None
        # Batches that are being written, in order.
        self._writing: list[BatchToWrite] = []

    def begin(self, number: int, batch: int) -> None:
        """Start a new segment, after recovery has read the others."""
        self.batch = batch
        self.synced = batch - 1
        # A folder that cannot be written is found out now.
        self._start_segment(number).make(self._disk)

    def set_mark(self, mark: tuple[int, int, int]) -> None:
        """What marks say from now on; the first batch of the new segment does, so that alone needs none."""
        self.mark = self._marked = mark

    def write_again(self, number: int, synced: int, records: bytes) -> None:
        """Write a batch that recovery has found into the new segment, under its number, and have it on disk."""
        segment = self.current
        assert segment is not None
        out = bytearray(BATCH_HEAD_SIZE) + records
        end = len(out)
        out += bytes(table_size(end, segment.size))
        batch = BatchToWrite(number, synced, segment, out, end, self._disk)
        segment.first_batch = segment.first_batch or number
        batch.write()
        batch.sync()
        segment.size += len(out)
        segment.written = segment.size

    def _start_segment(self, number: int) -> Segment:
        if not self.spills and number >= SPILL_NUMBER:
            raise OSError(EOVERFLOW, "the numbers of the journal's files are used up")
        self._finished = self.current
        self.current = self.segments[number] = new_segment(self._prefix, number)
        return self.current

    def position(self) -> int:
        """The batch that must be on disk for everything said so far to be."""
        return (
            self.batch if self.dirty or len(self.out) > BATCH_HEAD_SIZE or self.mark is not self._marked else self.batch - 1
        )

    # What happens

    def append(self, message: Message, placed: list[Any]) -> None:
        """A message took places: queue, entry, queue, entry…"""
        segment = self.current
        assert segment is not None
        out = self.out
        at = len(out)
        count = len(placed) // 2
        segment.message_size += write_message(out, message, count, self.group)
        at += PLACES_AT
        for number in range(count):
            queue: Queue = placed[2 * number]
            entry: Entry = placed[2 * number + 1]
            ledger: Ledger = queue.ledger  # type: ignore[assignment]
            write_place(out, at, ledger.queue_id, entry.seq, entry.expires_at, entry.delivery_count, number)
            entry.location = segment.number << 32 | segment.size + at
            ledger.live_count += 1
            ledger.live_bytes += message.body_size
            ledger.written_count += 1
            at += PLACE_SIZE
        segment.place(count, message.body_size)
        self.written_count += 1

    def write(self, message: Message, entry: Entry) -> int:
        """Write a message that no queue has stored; its location."""
        segment = self.current
        assert segment is not None
        at = len(self.out)
        segment.message_size += write_message(self.out, message, 1, 0)
        write_place(self.out, at + PLACES_AT, 0, entry.seq, entry.expires_at, entry.delivery_count, 0)
        segment.place(1, message.body_size)
        self.written_count += 1
        return segment.number << 32 | segment.size + at + PLACES_AT

    def place_of(self, location: int) -> tuple[Segment, int]:
        """The segment and offset where a place is now."""
        location = self.where(location)
        return self.segments[location >> 32], location & OFFSET_MASK

    def where(self, location: int) -> int:
        """The location where a place is now."""
        if self._moved:
            return self._moved.get(location, location)
        return location

    def read(self, segment: Segment, offset: int, size: int) -> bytes:
        """Octets of a segment, also of what is not written yet; Damaged if they are not what was written."""
        if segment is self.current and offset >= segment.size:
            at = offset - segment.size
            return bytes(self.out[at : at + size])
        start = segment.written
        if offset >= start:
            for batch in self._writing:
                if batch.segment is segment:
                    if offset < start + len(batch.data):
                        return bytes(batch.data[offset - start : offset - start + size])
                    start += len(batch.data)
        first, data, bad = segment.read(offset, offset + size)
        if offset < first or overlaps(bad, offset, offset + size):
            raise Damaged(f"{segment.name}: {size} octets at {offset} are damaged")
        return data[offset - first : offset - first + size]

    def release(self, location: int, body_size: int) -> None:
        """The place at this location, of a message with so many octets, is dead."""
        if self._moved and location in self._moved:
            location = self._moved.pop(location)
            self.segments[location >> 32].origins.pop(location & OFFSET_MASK, None)
        segment = self.segments.get(location >> 32)
        # Of a queue that is gone nothing was moved, and the segment may be gone too.
        if segment is not None:
            segment.settle(location & OFFSET_MASK, body_size)
            if segment.live_count == 0:
                self.worth_cleaning = True

    def forget(self, entry: Entry) -> None:
        location = entry.location
        entry.location = 0
        self.release(location, entry.message.body_size)

    def release_octets(self, page: OpenPage, first: int) -> None:
        """The places of a page's messages from `first` to where it is now are dead."""
        segment = None
        for index in range(first, page.at):
            location = page.location(index)
            if self._moved:
                self.release(location, page.body_size(index))
                continue
            # A page is in one file.
            if segment is None:
                segment = self.segments[location >> 32]
            segment.settle(location & OFFSET_MASK, page.body_size(index))
        if segment is not None and segment.live_count == 0:
            self.worth_cleaning = True

    def unspill(self, entries: list[Entry]) -> None:
        """Messages are in memory again; what of them is in the spill, which this is, is written once more if it must go."""
        segment = None
        for entry in entries:
            location = entry.location
            if location >> 32 < SPILL_NUMBER:
                continue
            entry.location = 0
            if self._moved:
                self.release(location, entry.message.body_size)
                continue
            # Neighbours are in one file, mostly.
            if segment is None or segment.number != location >> 32:
                segment = self.segments[location >> 32]
            segment.settle(location & OFFSET_MASK, entry.message.body_size)
            if segment.live_count == 0:
                self.worth_cleaning = True

    def move(
        self,
        old: Segment,
        payload: bytes,
        at: int,
        count: int,
        live: "list[tuple[int, Place]]",
        moved: "Callable[[Place, int], bool] | None" = None,
    ) -> None:
        """Write the live places of a message again, with it.

        `moved` may take note of where a place is now; else its entry keeps the location it knows.
        """
        segment = self.current
        assert segment is not None
        place_at = len(self.out) + PLACES_AT
        body_size = body_size_at(payload, at)
        copy_message(self.out, payload, at, count, len(live))
        for number, (offset, place) in enumerate(live):
            marked = number | DELIVERED if place.delivered else number
            write_place(self.out, place_at, place.queue, place.seq, place.expires_at, place.delivery_count, marked)
            if moved is not None and moved(place, segment.number << 32 | segment.size + place_at):
                old.settle(offset, body_size)
                place_at += PLACE_SIZE
                continue
            origin = old.origins.pop(offset, old.number << 32 | offset)
            old.settle(offset, body_size)
            segment.origins[segment.size + place_at] = origin
            self._moved[origin] = segment.number << 32 | segment.size + place_at
            place_at += PLACE_SIZE
        segment.message_size += len(self.out) - place_at + len(live) * PLACE_SIZE + PLACES_AT
        segment.place(len(live), body_size)

    def commit(self, group: int) -> None:
        """The records of a transaction count from now on."""
        write_numbers(self.out, COMMIT, group, 0, 0, 0)

    # The committer's side

    def take(self) -> "BatchToWrite":
        """The batch gathered so far, to be written and synced."""
        out = self.out
        for ledger in self.dirty:
            ledger.flush(out)
        self.dirty = []
        segment = self.current
        assert segment is not None
        if segment.size == HEADER_SIZE:
            segment.first_batch = self.batch
        if not self.spills and (segment.size == HEADER_SIZE or self.mark is not self._marked):
            self._write_mark(out)
        end = len(out)
        if not self.spills:
            out += bytes(table_size(end, segment.size))
        finished, self._finished = self._finished, None
        segment_left = self.segment_size - segment.size - len(out)
        room = 0 if self.spills else min(ROOM_MAX - SMALL, segment_left)
        taken = BatchToWrite(self.batch, self.synced, segment, out, end, self._disk, finished, room)
        self._writing.append(taken)
        self.batch += 1
        self.out = bytearray(BATCH_HEAD_SIZE)
        segment.size += len(out)
        if segment.size >= self.segment_size:
            self._start_segment(segment.number + 1)
        return taken

    def _write_mark(self, out: bytearray) -> None:
        changes, last_queue_id, oldest = self._marked = self.mark
        write_numbers(out, MARK, oldest >> 32, oldest & OFFSET_MASK, changes, last_queue_id)

    def is_idle(self, spare: int) -> bool:
        """Whether nothing in it is live, or about to be written, and the last file is longer than `spare`."""
        current = self.current
        if current is None or current.size <= spare or self._writing or self.position() == self.batch:
            return False
        return all(segment.aside or segment.live_count == 0 for segment in self.segments.values())

    def sync(self) -> None:
        """Have all of it on disk."""
        for segment in self.segments.values():
            if segment.made and not segment.aside:
                segment.file.sync()
        self._disk.sync_folder()

    def begin_anew(self) -> None:
        """Go on in another segment, as of this one nothing is live."""
        assert self.current is not None
        self._start_segment(self.current.number + 1)

    def remove(self, segment: Segment) -> "Removal":
        """Forget a segment, unless something in it could not be copied; what the committer has to do then."""
        if segment.live_count:
            segment.aside = True
        else:
            del self.segments[segment.number]
        return Removal(self._disk, segment)

    def committed(self, batch: "BatchToWrite") -> None:
        """A batch is on disk."""
        self.synced = batch.number
        self._writing.remove(batch)
        batch.segment.written += len(batch.data)


class BatchToWrite:
    """What the committer writes: octets for the end of one segment, its records up to `end`."""

    __slots__ = ("_disk", "_finished", "_offset", "_room", "_synced", "data", "end", "number", "segment")

    def __init__(
        self,
        number: int,
        synced: int,
        segment: Segment,
        data: bytearray,
        end: int,
        disk: Disk,
        finished: Segment | None = None,
        room: int = 0,
    ) -> None:
        self.number = number
        self.segment = segment
        self.data = data
        self._synced = synced
        self._offset = segment.size
        self.end = end
        self._disk = disk
        # The segment before this one, of which nothing more will be written; and how much may be behind this batch.
        self._finished = finished
        self._room = room

    @property
    def begins_file(self) -> bool:
        """Whether its file has to be made for it."""
        return self._offset == HEADER_SIZE

    def write(self) -> None:
        """Write it; runs in the committer's thread."""
        segment = self.segment
        known = None
        if segment.number >= SPILL_NUMBER:
            seal_unchecked(self.data, segment.salt, self.number)
        else:
            known = seal(self.data, segment.salt, self.number, self._synced, self._offset, self.end)
            # With small batches that costs nothing, and many large ones follow on each other.
            is_due = self.number % LOOK_EVERY == 0 or len(self.data) < SMALL
            if is_due and segment.made and segment.file.is_removed():
                segment.make_again(self._disk)
        if not segment.made:
            segment.make(self._disk)
        if self._finished is not None and self._finished.made:
            self._finished.file.give_room_back()
        if len(self.data) < SMALL:
            # A file that grows with each batch has its length synced each time, which takes half as long again.
            segment.file.reserve(len(self.data), self._room)
        segment.write(self.data, known, self.end)

    def sync(self) -> None:
        """Have it on disk, and if it is the first in its file, that in the folder."""
        self.segment.file.sync()
        if self.begins_file:
            self._disk.sync_folder()


class Removal:
    """A segment that nobody needs any more, whose file goes. `copies` are those that have what was live in it."""

    __slots__ = ("_disk", "_segment", "copies")

    def __init__(self, disk: Disk, segment: Segment) -> None:
        self._disk = disk
        self._segment = segment
        self.copies: list[Segment] = []

    def sync_copies(self) -> None:
        """Have on disk what was copied out of it, where batches are not synced; runs in the committer's thread."""
        # What was never begun has no copies in it.
        for segment in [copy for copy in self.copies if copy.made]:
            segment.file.sync()
        if self.copies:
            self._disk.sync_folder()

    def write(self) -> None:
        """Remove it; runs in the committer's thread."""
        if not self._segment.aside:
            self._segment.file.close()
        try:
            if self._segment.damaged:
                self._disk.rename(self._segment.name, f"damaged-{self._segment.name}")
            else:
                self._disk.remove(self._segment.name)
        except FileNotFoundError:
            log.error("%s was removed by another program; nothing in it was needed any more", self._segment.name)

    def sync(self) -> None:
        self._disk.sync_folder()
