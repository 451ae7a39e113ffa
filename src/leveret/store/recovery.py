"""Recovery: from the files of a data folder to the queues as they were.

Two readings of the journal. The first checks every batch and gathers what is gone: settled runs, purges, committed
groups; the second makes entries of what was placed and is not gone. So the order of records does not matter, and
reading them twice gives the same.

  (1) A batch that is not whole and above every "synced" mark is a torn end: it was never promised to anybody, and is cut.
      After a clean end there is none.
  (2) A whole batch above every mark is written again, into a new file: that it can be read does not say that it is on
      disk. A sync that failed may have left it in the system's cache alone, where another sync finds nothing to do.
  (3) Any other damage is reported with its place, reading goes on behind it, and the file is kept aside when its time
      has come. Numbers of batches have no gaps, so one that is missing is reported too.
  (4) After an unclean end, or with damage, every message counts as redelivered, and does so for ever.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from time import monotonic

from leveret.broker.expiry import heap_item
from leveret.broker.message import Entry
from leveret.broker.pages import Pages
from leveret.broker.queue import Queue
from leveret.octets import u16_at, u32_at, u64_at
from leveret.store.batch import BatchRead
from leveret.store.disk import Disk
from leveret.store.found import Found, Gone
from leveret.store.journal import PREFIX, Journal
from leveret.store.layout import COMMIT, DELIVERED, KIND_MASK, MARK, MESSAGE, PURGE, REQUEUE, SETTLE
from leveret.store.ledger import ledger_of
from leveret.store.page_transfer import Reading
from leveret.store.records import body_size_at, check_room, group_at, place_offset, read_numbers, record_size
from leveret.store.segment import (
    HEADER_SIZE,
    Segment,
    batch_end,
    is_room,
    next_batch_offset,
    open_segment,
    read_batch,
    read_salt,
    salvage_batch,
    salvage_headless,
)
from leveret.store.store import Store

NAME = re.compile(PREFIX + r"-(\d+)\.log")

log = logging.getLogger("leveret.store")

PROGRESS_S = 2.0


class Progress:
    """Tells now and then how far a long recovery is: both readings of `total` octets."""

    def __init__(self, total: int) -> None:
        self._total = 2 * max(1, total)
        self._done = 0
        self._told_at = monotonic()

    def step(self, size: int) -> None:
        self._done += size
        if monotonic() - self._told_at >= PROGRESS_S:
            self._told_at = monotonic()
            share = min(100, 100 * self._done // self._total)
            log.info("recovering: %d %% of %d MB", share, self._total // 2_000_000)


class Recovery:
    """Reads one folder's journal into `journal`.

    `delivered_up_to` is the batch up to which messages count as delivered before; `last_batch` one that definitions know
    of: none before it may be missing. `mark` is the newest MARK: changes, last queue id, oldest batch.
    """

    def __init__(self, disk: Disk, journal: Journal, delivered_up_to: int = 0, last_batch: int = 0) -> None:
        self._disk = disk
        self._journal = journal
        self._delivered_up_to = delivered_up_to
        self._known_batch = last_batch
        self._gone: dict[int, Gone] = {}
        self._committed: set[int] = set()
        self._in_groups: list[tuple[int, int, int, int]] = []
        self._ends: list[tuple[Segment, int, int]] = []
        self._torn: list[tuple[Segment, int]] = []
        # Where room begins that was not needed any more.
        self._rooms: list[tuple[Segment, int]] = []
        # Whole batches, by number, that may not be on disk: segment and offset.
        self._tail: list[tuple[int, Segment, int]] = []
        self._gap_known = False
        # Batches whose head is damaged: by segment and offset, where they end and their number.
        self._headless: dict[tuple[int, int], tuple[int, int]] = {}
        self.first_batch = 0
        self.last_batch = 0
        self._synced = 0
        self.mark = (0, 0, 0)
        self.highest_group = 0
        self.highest_queue_id = 0
        self.message_count = 0
        self.damage: list[str] = []
        self._progress = Progress(0)

    # The first reading

    def read(self, clean: bool = False) -> None:
        """Check all segments, and gather what is gone; nothing is changed."""
        for number, name in self._names():
            self._journal.segments[number] = open_segment(self._disk, name, number)
        self._progress = Progress(sum(segment.size for segment in self._journal.segments.values()))
        for _, segment in sorted(self._journal.segments.items()):
            self._read_segment(segment)
            self._progress.step(segment.size)
        for segment, offset, lost in self._ends:
            if clean or lost <= self._synced:
                self._salvage(segment, offset, lost)
            else:
                self._torn.append((segment, offset))
        self._look_for_missing(clean)
        for group, queue, first, last in self._in_groups:
            if group in self._committed:
                self._gone_of(queue).settle(first, last)
        for gone in self._gone.values():
            gone.sort()

    def _look_for_missing(self, clean: bool) -> None:
        oldest = self.mark[2]
        if oldest and self.first_batch > oldest:
            self._miss(oldest, self.first_batch - 1)
        # Rows are on disk before their batch is.
        known = self._known_batch if clean else self._known_batch - 1
        if self.last_batch < known:
            self._miss(self.last_batch + 1, known)
        self.last_batch = max(self.last_batch, known)

    def _miss(self, first: int, last: int) -> None:
        which = f"batch {first} is" if first == last else f"batches {first} to {last} are"
        self._damaged(f"the journal's {which} missing: messages published in them are gone, settled ones may be back")

    def _damaged(self, text: str) -> None:
        log.error("%s", text)
        self.damage.append(text)

    # What it changes

    def begin(self, clean: bool) -> None:
        """Take off what was never promised, write again what may not be on disk, and begin a new segment."""
        for segment, offset in self._torn:
            log.warning("%s: cut %d octets of an unfinished write at %d", segment.name, segment.size - offset, offset)
            self._cut(segment, offset)
        for segment, offset in self._rooms:
            segment.file.truncate(offset)
        for segment in [found for found in self._journal.segments.values() if found.size <= HEADER_SIZE]:
            # Made, and never written to.
            self._cut(segment, 0)
        number = max(self._journal.segments, default=0) + 1
        self._journal.begin(number, self.last_batch + 1)
        if not clean:
            self._write_tail_again()
        self._disk.sync_folder()

    def _write_tail_again(self) -> None:
        tail = [found for found in self._tail if found[0] > self._synced]
        for number, segment, offset in tail:
            batch = read_batch(segment, offset)
            assert batch is not None
            self._journal.write_again(number, self._synced, batch.payload)
        for _, segment, offset in reversed(tail):
            self._cut(segment, offset)
            if segment.number in self._journal.segments:
                segment.file.sync()

    def _names(self) -> list[tuple[int, str]]:
        found = [(NAME.fullmatch(name), name) for name in self._disk.names()]
        return sorted((int(match[1]), name) for match, name in found if match is not None)

    def _read_segment(self, segment: Segment) -> None:
        before = self.last_batch
        for batch in self._batches(segment):
            self._count(segment, batch)
            self._gather(batch)
        if self.last_batch > before and read_salt(segment.file) is None:
            self._report(segment, 0, HEADER_SIZE)

    def _count(self, segment: Segment, batch: BatchRead) -> None:
        """Take note of a batch's number."""
        number = batch.number
        if self.last_batch and number > self.last_batch + 1 and not self._gap_known:
            self._miss(self.last_batch + 1, number - 1)
        self._gap_known = False
        self.first_batch = min(self.first_batch or number, number)
        segment.first_batch = segment.first_batch or number
        self.last_batch = max(self.last_batch, number)
        self._synced = max(self._synced, batch.synced)

    def _batches(self, segment: Segment) -> Iterator[BatchRead]:
        """The batches of a segment; damage is reported and stepped over."""
        offset = HEADER_SIZE
        while offset < segment.size:
            batch = read_batch(segment, offset)
            if batch is not None:
                self._tail = [found for found in self._tail if found[0] > batch.synced]
                self._tail.append((batch.number, segment, offset))
                yield batch
                offset = batch.following
                continue
            if is_room(segment, offset):
                self._rooms.append((segment, offset))
                segment.size = segment.written = offset
                break
            following = next_batch_offset(segment, offset)
            if following is None:
                # What it is shows when the marks of all segments are known.
                self._ends.append((segment, offset, self.last_batch + 1))
                self._gap_known = True
                break
            self._gap_known = True
            behind = read_batch(segment, following)
            assert behind is not None
            batch = self._left_of_batch(segment, offset, following, behind.number - 1)
            if batch is not None:
                following = batch.following
                yield batch
            self._report(segment, offset, following, batch)
            offset = following

    def _salvage(self, segment: Segment, offset: int, number: int) -> None:
        """Take what is left of the damaged batches at the end."""
        while offset < segment.size:
            following = batch_end(segment, offset) or segment.size
            batch = self._left_of_batch(segment, offset, following, number)
            self._report(segment, offset, following, batch)
            if batch is not None:
                self._count(segment, batch)
                self._gather(batch)
            self._gap_known = True
            offset, number = following, number + 1

    def _left_of_batch(self, segment: Segment, offset: int, following: int, number: int) -> BatchRead | None:
        """What is left of a batch; without a head it has this number, and ends where the next one begins."""
        batch = salvage_batch(segment, offset)
        if batch is None:
            batch = salvage_headless(segment, offset, following, number)
            if batch is not None:
                self._headless[segment.number, offset] = following, number
        return batch

    def _cut(self, segment: Segment, offset: int) -> None:
        """Take the end off; what is empty then goes."""
        segment.size = segment.written = offset
        if offset > HEADER_SIZE:
            segment.file.truncate(offset)
            segment.file.sync()
            return
        segment.file.close()
        self._disk.remove(segment.name)
        del self._journal.segments[segment.number]

    def _report(self, segment: Segment, start: int, end: int, batch: BatchRead | None = None) -> None:
        segment.damaged = True
        if batch is not None and batch.complete:
            self._damaged(f"{segment.name}: the head or the table of a batch at {start} is damaged; nothing is lost by that")
        else:
            self._damaged(f"{segment.name}: {end - start} octets at {start} are damaged; what they said is lost")

    def _gather(self, batch: BatchRead) -> None:
        for start, end in batch.spans:
            self._gather_span(batch.payload, start, end)

    def _gather_span(self, payload: bytes, at: int, end: int) -> None:
        p = payload
        while at < end:
            length, kind = record_size(payload, at), u16_at(p, at + 4) & KIND_MASK
            group, queue = group_at(p, at), u32_at(p, at + 12)
            if kind == MARK:
                self._note_mark(group << 32 | queue, *read_numbers(payload, at))
                at += length
                continue
            self.highest_group = max(self.highest_group, group)
            self.highest_queue_id = max(self.highest_queue_id, queue)
            if kind == MESSAGE:
                pass
            elif kind == COMMIT:
                self._committed.add(group)
            elif kind == SETTLE and group:
                # Counts only with its group, which may be complete later.
                first, last = read_numbers(payload, at)
                self._in_groups.append((group, queue, first, last))
            else:
                self._gather_numbers(kind, queue, *read_numbers(payload, at))
            at += length

    def _note_mark(self, oldest: int, changes: int, last_queue_id: int) -> None:
        self.mark = (max(self.mark[0], changes), max(self.mark[1], last_queue_id), max(self.mark[2], oldest))

    def _gather_numbers(self, kind: int, queue: int, first: int, last: int) -> None:
        gone = self._gone_of(queue)
        if kind == SETTLE:
            gone.settle(first, last)
        elif kind == PURGE:
            gone.purge(last)
        elif kind == REQUEUE:
            gone.requeue(first, last)

    def _gone_of(self, queue: int) -> Gone:
        gone = self._gone.get(queue)
        if gone is None:
            gone = self._gone[queue] = Gone()
        return gone

    # The second reading

    def restore(self, store: Store, found: dict[int, Found], clean: bool) -> None:
        """Put what is live into its queues."""
        for queue_id, queue in store.queues.items():
            self._fill(store, queue, found.pop(queue_id, Found()), clean)

    def find(self, queue_ids: Iterable[int]) -> dict[int, Found]:
        """What is live in these queues; in all others nothing is."""
        found = {queue_id: Found() for queue_id in queue_ids}
        for _, segment in sorted(self._journal.segments.items()):
            for batch in self._readable_batches(segment):
                for start, end in batch.spans:
                    self._place(segment, batch, start, end, found)
            if segment.live_count:
                segment.read_checks()
            self._progress.step(segment.size)
        return found

    def all_ids(self) -> list[int]:
        """The ids of all queues that are named anywhere."""
        self.find(())
        return sorted(self._gone)

    def _readable_batches(self, segment: Segment) -> Iterator[BatchRead]:
        # Damage was reported by the first reading.
        offset: int | None = HEADER_SIZE
        while offset is not None and offset < segment.size:
            batch = salvage_batch(segment, offset)
            if batch is None and (segment.number, offset) in self._headless:
                batch = salvage_headless(segment, offset, *self._headless[segment.number, offset])
            if batch is not None:
                yield batch
            if batch is not None:
                offset = batch.following
            else:
                offset = next_batch_offset(segment, offset) or batch_end(segment, offset)

    def _place(self, segment: Segment, batch: BatchRead, at: int, end: int, found: dict[int, Found]) -> None:
        payload = batch.payload
        delivered = batch.number <= self._delivered_up_to
        p = payload
        while at < end:
            length = record_size(payload, at)
            if u16_at(p, at + 4) & KIND_MASK == MESSAGE:
                self._place_message(segment, batch.offset, payload, at, found, delivered)
            at += length

    def _place_message(
        self, segment: Segment, start: int, payload: bytes, at: int, found: dict[int, Found], delivered: bool
    ) -> None:
        p = payload
        count = u16_at(p, at + 6)
        group = group_at(p, at)
        counts = group == 0 or group in self._committed
        body_size = body_size_at(payload, at)
        segment.place(count, body_size)
        segment.message_size += u32_at(p, at)
        check_room(len(payload), at, place_offset(0, count))
        for number in range(count):
            place_at = place_offset(at, number)
            queue = u32_at(p, place_at)
            seq = u64_at(p, place_at + 8)
            gone = self._gone_of(queue)
            self.highest_queue_id = max(self.highest_queue_id, queue)
            if counts and seq > gone.highest:
                gone.highest = seq
            places = found.get(queue)
            if places is None or not counts or gone.has(seq):
                segment.settle(start + place_at, body_size)
            else:
                location = segment.number << 32 | start + place_at
                before = delivered or u16_at(p, place_at + 6) & DELIVERED != 0
                places.add(seq, location, body_size, u16_at(p, place_at + 4), before)
                if u64_at(p, at + 32) != 0 and u64_at(p, place_at + 16) != 0:
                    places.times.append(heap_item(u64_at(p, place_at + 16), seq))

    def _fill(self, store: Store, queue: Queue, found: Found, clean: bool) -> None:
        queue_id = ledger_of(queue).queue_id
        gone = self._gone_of(queue_id)
        pages = Pages(queue.backlog.sizes)
        ledger_of(queue).counts = found.fill(pages, gone.counts, self._journal, clean)
        self.message_count += pages.count
        ledger_of(queue).live_count = pages.count
        ledger_of(queue).live_bytes = pages.body_bytes
        if queue.settings.pageable():
            queue.restore_pages(pages, gone.highest + 1, found.times)
        else:
            queue.restore(all_entries(store, queue, pages), gone.highest + 1)


def all_entries(store: Store, queue: Queue, pages: Pages) -> Iterator[Entry]:
    """Everything in these pages, one page after the other."""
    while pages:
        reading = Reading(store, queue, pages.take())
        reading.read()
        yield from reading.entries()
        reading.end()
