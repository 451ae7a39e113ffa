"""The store: the model's durable storage, made of the journal, the definitions and the committer.

One batch is being written at a time; what is said meanwhile gathers in the next. A small one for which a client waits that
is alone is written in the loop's own turn, where the disk is quick. `on_progress` is called on the loop when one
is on disk, or something was read, `on_failed` when that could not be done: after that nothing is promised any more.

  the loop                                   │  the committer's thread               │  on disk
  ───────────────────────────────────────────┼───────────────────────────────────────┼──────────────────────────
  a definition changes ── row ────┐  flush   │  1  rows, one transaction ────────────┼─►  definitions.sqlite
  a message takes a place ────────┼─► batch ─┼─►2  records, written, then synced ────┼─►  journal-*.log
  a message has left ── record ───┘          │  │                                    │
  confirms, answers  ◄── on_progress ◄───────┼──┘  the batch's position is `synced`  │
                                             │                                       │
  a queue needs its next page ── Reading ────┼─►  read and checked ◄─────────────────┼──  journal-*.log, spill-*.log
  Queue.loaded  ◄────────────────────────────┼──┘                                    │
  ───────────────────────────────────────────┼───────────────────────────────────────┼──────────────────────────
                                             │  the spiller's thread                 │
  transient messages beyond the window ──────┼─►  written, never synced ─────────────┼─►  spill-*.log
  the oldest segment, little of it live ─────┼─►  read and checked ◄─────────────────┼──  journal-*.log
  what is live: placed in the next batch ◄───┼──┘  the file goes when that is synced │

  (1) Rows are committed before the journal's part of their batch, so that a queue is defined before a record names it.
  (2) A deleted queue's row is removed once its dead letters are published, in a later batch than the last of them: what
      has become of its messages must be on disk before. If that is the batch that gathers, it is ended there.
  (3) Each batch with rows counts the changes, in both files; what is missing in one of them is found out at the next start.
"""

import logging
from collections.abc import Callable
from errno import EOVERFLOW
from functools import partial
from typing import Any

from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.storage import Traffic
from leveret.store.committer import Committer, Job
from leveret.store.compaction import Clean, Compaction, is_late
from leveret.store.journal import BatchToWrite, Journal, Removal
from leveret.store.layout import GROUP_MAX
from leveret.store.ledger import Ledger, ledger_of
from leveret.store.pager import PagedStorage, Readable
from leveret.store.rows import Change, DefinitionsFile, packed, put, remove, remove_vhost, set_fact
from leveret.store.segment import HEADER_SIZE
from leveret.store.sync_barrier import Barrier, release_barriers

log = logging.getLogger("leveret.store")

SPILL_PREFIX = "spill"
SPILL_PIECE = 1 << 20
# A journal in which nothing is live is begun anew from this size on, when nothing happens.
IDLE_SPARE = 1 << 20

# A batch may be written and synced in the loop's turn up to this size.
AT_ONCE_MAX = 16 << 10

# Facts. Ids are never used again; how often definitions have changed; a batch before which none may be missing; up to which
# batch messages count as delivered before.
LAST_QUEUE_ID = "last_queue_id"
CHANGES = "changes"
LAST_BATCH = "last_batch"
DELIVERED_UP_TO = "delivered_up_to"

Key = tuple[str, str, str]
"""Kind, vhost and name of a row."""


class Store(PagedStorage):
    """Everything durable of one broker."""

    __slots__ = (
        "_announced_segment",
        "_change_count",
        "_changes",
        "_cleaning_reads",
        "_committed_in",
        "_committer",
        "_ids",
        "_last_queue_id",
        "_next_group",
        "_on_failed",
        "_on_progress",
        "_removed_queues",
        "_spiller",
        "_spilling_size",
        "_taken",
        "_writing",
        "_writing_size",
        "barriers",
        "closed",
        "compaction",
        "delivered_up_to",
        "delivers_synced",
        "known_ids",
        "open_groups",
        "queues",
    )

    def __init__(self, journal: Journal, spill: Journal, last_queue_id: int, last_group: int, sizes: Sizes) -> None:
        PagedStorage.__init__(self, journal, spill, sizes)
        self.synced = journal.synced
        self.compaction = Compaction(self)
        # Whether messages wait for the disk before they are delivered, and what says so of each queue's.
        self.delivers_synced = False
        self.barriers: list[Barrier] = []
        # The ids of queues that recovery is about to make again.
        self.known_ids: dict[tuple[str, str, str], int] = {}
        self.queues: dict[int, Queue] = {}
        self._ids: dict[tuple[str, str, str], int] = {}
        self._changes: list[Change] = []
        # Deleted queues whose rows stay until their dead letters are published, and what those rows are called.
        self._removed_queues: list[tuple[Queue, Key]] = []
        # Batches that have ended and wait for the committer.
        self._taken: list[tuple[BatchToWrite, list[Change]]] = []
        # The batch with the last COMMIT.
        self._committed_in = 0
        self._change_count = journal.mark[0]
        self._announced_segment = 0
        # Messages in batches up to this one may have been delivered before.
        self.delivered_up_to = 0
        # The files are closed, and what the committers still say is of no use.
        self.closed = False
        self._committer: Committer | None = None
        self._spiller: Committer | None = None
        self._writing = False
        self._writing_size = 0
        self._spilling_size = 0
        # Whether a batch of the journal is being read for compaction.
        self._cleaning_reads = False
        self.open_groups: set[int] = set()
        self._last_queue_id = last_queue_id
        self._next_group = last_group
        self._on_progress: Callable[[], None] = nothing
        self._on_failed: Callable[[BaseException], None] = nothing_more

    def open(
        self,
        committer: Committer,
        spiller: Committer,
        on_progress: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        """Begin to write: `spiller` what is never recovered, `committer` all else. The latter reads and removes, too."""
        self._committer = committer
        self._spiller = spiller
        self._on_progress = on_progress
        self._on_failed = on_failed

    # What the model says

    def position(self) -> int:
        self.write_places()
        return self.journal.batch if self._changes else self.journal.position()

    def put(self, kind: str, vhost: str, name: str, value: dict[str, Any]) -> None:
        if "arguments" in value:
            value = {**value, "arguments": packed(value["arguments"])}
        self._changes.append(put(kind, vhost, name, value))

    def remove(self, kind: str, vhost: str, name: str) -> None:
        self._changes.append(remove(kind, vhost, name))

    def remove_vhost(self, vhost: str) -> None:
        # Dead letters stay in their vhost, so what is on its way goes too.
        self._changes.append(remove_vhost(vhost))

    def add_queue(self, queue: Queue, vhost: str, kind: str, value: dict[str, Any]) -> None:
        key = (kind, vhost, queue.name)
        queue_id = self.known_ids.pop(key, 0)
        if not queue_id:
            self._last_queue_id += 1
            queue_id = self._last_queue_id
            self.put(kind, vhost, queue.name, {**value, "id": queue_id})
        self._move_row_aside(key)
        self._ids[key] = queue_id
        queue.ledger = Ledger(self.journal, queue_id)
        if self.delivers_synced:
            queue.set_barrier(Barrier(self, queue))
        self.queues[queue_id] = queue

    def remove_queue(self, queue: Queue, vhost: str, kind: str) -> None:
        self.queues.pop(ledger_of(queue).queue_id, None)
        self._removed_queues.append((queue, (kind, vhost, queue.name)))
        self._remove_finished_rows()

    def has_removed(self, queue: Queue) -> bool:
        return all(removed is not queue for removed, _ in self._removed_queues)

    def _remove_finished_rows(self) -> None:
        """Remove the rows of deleted queues that have nothing left to do."""
        removed, self._removed_queues = self._removed_queues, []
        for queue, key in removed:
            # Its bindings' rows first: after a crash in between they must not be found by another queue of its name.
            if queue.dead or queue.bindings:
                self._removed_queues.append((queue, key))
            else:
                self._remove_row(queue, key)

    def _remove_row(self, queue: Queue, key: Key) -> None:
        ledger = ledger_of(queue)
        if self.journal.batch in (ledger.moved_in, self._committed_in):
            self._end_batch()
        if self._ids.get(key) == ledger.queue_id:
            del self._ids[key]
            self._changes.append(remove(*key))
        else:
            # In a vhost made anew, or declared again meanwhile, the name is another queue's.
            self._changes.append(remove(*leaving_key(key, ledger.queue_id)))

    def _move_row_aside(self, key: Key) -> None:
        """A queue is declared under the name of a deleted one whose row is still needed: that gets another name."""
        for queue, removed in self._removed_queues:
            if removed == key:
                value = {"auto_delete": queue.auto_delete, "arguments": queue.arguments, "id": ledger_of(queue).queue_id}
                self.put(*leaving_key(key, ledger_of(queue).queue_id), value)

    def _end_batch(self) -> None:
        """What is said from now on goes with the next batch."""
        self.write_places()
        self._taken.append(self._take())

    def begin_group(self) -> int:
        self._next_group += 1
        if self._next_group > GROUP_MAX:
            self.fail(OSError(EOVERFLOW, "the numbers of transactions are used up"))
        self.open_groups.add(self._next_group)
        return self._next_group

    def has_open_groups(self) -> bool:
        return bool(self.open_groups)

    def set_group(self, group: int) -> None:
        self.journal.group = group

    def commit(self, group: int) -> None:
        self.journal.commit(group)
        self._committed_in = self.journal.batch
        self._close_group(group)

    def abort(self, group: int) -> None:
        self._close_group(group)

    def _close_group(self, group: int) -> None:
        self.open_groups.discard(group)
        for barrier in self.barriers:
            barrier.commit(group, self.journal.batch)
        if not self.open_groups:
            self.compaction.groups_closed()

    def keep_fact(self, name: str, value: str) -> None:
        """Keep this with the rows that were said before it, or after them."""
        self._changes.append(set_fact(name, value))

    def forget_changes(self) -> None:
        """What was said is on disk already."""
        self._changes = []

    # The end of a turn

    def traffic(self) -> Traffic:
        total = Traffic()
        for committer in (self._committer, self._spiller):
            if committer is not None:
                total.add(committer.traffic)
        total.messages_read = self.read_count
        total.messages_written = self.journal.written_count + self.spill.written_count
        return total

    def unsynced_size(self) -> int:
        waiting = sum(len(batch.data) for batch, _ in self._taken) if self._taken else 0
        return len(self.journal.out) + len(self.spill.out) + self._writing_size + self._spilling_size + waiting

    def flush(self, at_once: bool = False) -> None:
        """Hand what has gathered to the committer, if that is idle; with `at_once` a small batch may be written here."""
        if self._committer is None or self.failed is not None:
            return
        try:
            if self._removed_queues:
                self._remove_finished_rows()
            self._flush_spill()
            self._flush_journal(at_once)
            self._read_waiting()
        except OSError as error:
            self.fail(error)
        for log in (self.journal, self.spill):
            if log.worth_cleaning:
                log.worth_cleaning = False
                self.compaction.look(log)

    def _flush_spill(self) -> None:
        # In small pieces: a buffer that grows is memory that nobody has touched, and making that takes its time.
        if self._spiller is None or self.spill.position() < self.spill.batch:
            return
        if not self._spilling_size or len(self.spill.out) >= SPILL_PIECE:
            batch = self.spill.take()
            self._spilling_size += len(batch.data)
            self._spiller.put(Job(batch, [], lambda error: self._spilt(batch, error), sync=False))

    def _spilt(self, batch: BatchToWrite, error: BaseException | None) -> None:
        self._spilling_size -= len(batch.data)
        if self.is_ended(error):
            return
        self.spill.committed(batch)
        self._read_waiting()
        self.compaction.remove_cleaned()
        self.compaction.look(self.spill)
        self._on_progress()

    def _flush_journal(self, at_once: bool) -> None:
        if self._writing or self._committer is None or self.failed is not None or self.position() <= self.synced:
            return
        if self._cleaning_reads and is_late(self.journal):
            # The thread that reads has little of the processor: more is written when that is done.
            return
        batch, changes = self._taken.pop(0) if self._taken else self._take()
        self._writing = True
        self._writing_size = len(batch.data)
        job = Job(batch, changes, lambda error: self._written(batch, error))
        is_small = not changes and not batch.begins_file and len(batch.data) <= AT_ONCE_MAX
        if at_once and is_small and self._committer.is_quick():
            self._committer.carry_out_now(job)
        else:
            self._committer.put(job)

    def _take(self) -> tuple[BatchToWrite, list[Change]]:
        """The batch gathered so far, and the rows that go with it."""
        journal = self.journal
        segment = journal.current
        assert segment is not None
        if segment.number != self._announced_segment and segment.size > HEADER_SIZE:
            self._announced_segment = segment.number
            self.segment_begun()
        changes, self._changes = self._changes, []
        if changes:
            self._change_count += 1
            journal.mark = (self._change_count, self._last_queue_id, journal.mark[2])
            changes.append(set_fact(CHANGES, str(self._change_count)))
            changes.append(set_fact(LAST_QUEUE_ID, str(self._last_queue_id)))
            changes.append(set_fact(LAST_BATCH, str(journal.batch)))
        return journal.take(), changes

    def segment_begun(self) -> None:
        """Its first batch is written, so its file exists. The definitions say so: if it is gone later, that is found out."""
        self._changes.append(set_fact(LAST_BATCH, str(self.journal.batch)))

    def finish(self, definitions: DefinitionsFile) -> None:
        """Write and sync what is left, at the end and without the committer."""
        self.finish_journal(definitions)
        definitions.change([set_fact(LAST_BATCH, str(self.synced))])

    def finish_journal(self, definitions: DefinitionsFile | None) -> None:
        """The same of the journal and the rows that go with it."""
        self._remove_finished_rows()
        while self.position() > self.synced:
            batch, changes = self._taken.pop(0) if self._taken else self._take()
            if changes:
                assert definitions is not None
                definitions.change(changes)
            batch.write()
            batch.sync()
            self.journal.committed(batch)
            self.synced = batch.number
        # With `sync = "os"` nothing else has been synced.
        self.journal.sync()

    def _written(self, batch: BatchToWrite, error: BaseException | None) -> None:
        self._writing = False
        self._writing_size = 0
        if self.is_ended(error):
            return
        self.journal.committed(batch)
        self.synced = batch.number
        release_barriers(self)
        self.compaction.remove_cleaned()
        self.compaction.look(self.journal)
        self._on_progress()

    def is_ended(self, error: BaseException | None) -> bool:
        """Whether nothing more can be done: the committer has failed, or the files are closed."""
        if error is not None:
            self.fail(error)
        return error is not None or self.closed

    def is_open(self) -> bool:
        """Whether there is somebody to write."""
        return self._committer is not None

    def fail(self, error: BaseException) -> None:
        # The first time only: what fails after it fails because of it.
        if self.failed is None:
            self.failed = error
            self._on_failed(error)

    # Jobs for the threads

    def can_read(self) -> bool:
        return self._committer is not None and not self._taken

    def have_read(self, reading: Readable, done: Callable[[BaseException | None], None]) -> None:
        assert self._committer is not None
        self._committer.put(Job(reading, [], done, sync=False))

    def read_done(self) -> None:
        self.compaction.remove_cleaned()
        self._on_progress()

    def read_batch(self, clean: Clean) -> None:
        """Have the next batch read for this beside the committer, and go on with it then."""
        assert self._spiller is not None
        if not clean.journal.spills:
            self._cleaning_reads = True
        self._spiller.put(Job(clean, [], partial(self._batch_read, clean), sync=False))

    def _batch_read(self, clean: Clean, error: BaseException | None) -> None:
        if not clean.journal.spills:
            self._cleaning_reads = False
        if not self.is_ended(error):
            self.work.add(clean)
            self._on_progress()

    def remove_file(self, removal: Removal, sync: bool) -> None:
        if self._committer is not None:
            self._committer.put(Job(removal, [], self._removed, sync=sync))

    def _removed(self, error: BaseException | None) -> None:
        if error is not None:
            # What stays would come back: what was said of it goes with the segments behind it.
            self.fail(error)

    def tidy(self, space_is_low: bool) -> None:
        """Look for files that could go; with `short`, also for those of which some is live."""
        self.compaction.space_is_low = space_is_low
        if self._committer is None or self.failed is not None:
            return
        if self.journal.is_idle(IDLE_SPARE) and not self._writing:
            self.journal.begin_anew()
        for log in (self.journal, self.spill):
            self.compaction.look(log)


def leaving_key(key: Key, queue_id: int) -> Key:
    """What the row of a removed queue is called while its name is another one's."""
    _, vhost, name = key
    return "leaving", vhost, f"{queue_id}:{name}"


def nothing() -> None:
    """Nobody waits."""


def nothing_more(error: BaseException) -> None:
    """Nobody asks."""
