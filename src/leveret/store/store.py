"""The store: the model's durable storage, made of the journal, the definitions and the committer.

One batch is being written at a time; what is said meanwhile gathers in the next. `on_synced` is called on the loop when
one is on disk, `on_failed` when one could not be: after that nothing is promised any more.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.storage import Storage
from leveret.store.cleaner import Clean, oldest_to_clean
from leveret.store.committer import Committer, Work
from leveret.store.definitions import Change, DefinitionsFile, packed, put, remove, remove_vhost
from leveret.store.journal import Batch, Journal, Ledger
from leveret.store.segment import Segment

log = logging.getLogger("leveret.store")


class Store(Storage):
    """Everything durable of one broker."""

    __slots__ = (
        "_changes",
        "_cleaning",
        "_committer",
        "_next_group",
        "_next_queue_id",
        "_on_failed",
        "_on_synced",
        "_removable",
        "_writing",
        "_writing_size",
        "failed",
        "journal",
        "known_ids",
        "open_groups",
        "queues",
        "work",
    )

    def __init__(self, journal: Journal, next_queue_id: int, next_group: int) -> None:
        Storage.__init__(self)
        self.journal = journal
        self.synced = journal.synced
        self.failed: BaseException | None = None
        # The ids of queues that recovery is about to make again.
        self.known_ids: dict[tuple[str, str, str], int] = {}
        self.queues: dict[int, Queue] = {}
        self.work: Any = None
        self._changes: list[Change] = []
        self._committer: Committer | None = None
        self._writing = False
        self._writing_size = 0
        self._cleaning = False
        self._removable: list[tuple[int, Segment]] = []
        self.open_groups: set[int] = set()
        self._next_queue_id = next_queue_id
        self._next_group = next_group
        self._on_synced: Callable[[], None] = nothing
        self._on_failed: Callable[[BaseException], None] = nothing_more

    def open(self, committer: Committer, on_synced: Callable[[], None], on_failed: Callable[[BaseException], None]) -> None:
        """Begin to write."""
        self._committer = committer
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
        queue_id = self.known_ids.pop((kind, vhost, queue.name), 0)
        if not queue_id:
            queue_id = self._next_queue_id
            self._next_queue_id += 1
            self.put(kind, vhost, queue.name, {**value, "id": queue_id})
        queue.ledger = Ledger(self.journal, queue_id)
        self.queues[queue_id] = queue

    def abandon(self, queue: Queue, vhost: str, kind: str) -> None:
        self.remove(kind, vhost, queue.name)
        self.queues.pop(queue.ledger.queue_id, None)

    def begin_group(self) -> int:
        self._next_group += 1
        self.open_groups.add(self._next_group)
        return self._next_group

    def enter(self, group: int) -> None:
        self.journal.group = group

    def commit(self, group: int) -> None:
        self.journal.commit(group)
        self.open_groups.discard(group)

    def forget_changes(self) -> None:
        """What was said is on disk already."""
        self._changes = []

    # The end of a turn

    def unsynced_size(self) -> int:
        return len(self.journal.out) + self._writing_size

    def flush(self) -> None:
        """Hand what has gathered to the committer, if that is idle."""
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
            self.failed = error
            self._on_failed(error)
            return
        self.journal.committed(batch)
        self.synced = batch.number
        self._remove_cleaned()
        self._clean()
        self._on_synced()

    # Compaction

    def _clean(self) -> None:
        if self._cleaning:
            return
        segment = oldest_to_clean(self.journal)
        if segment is not None:
            self._cleaning = True
            self.work.add(Clean(self, segment))

    def cleaned(self, segment: Segment) -> None:
        """Nothing live is left in a segment once what was said up to now is on disk."""
        self._removable.append((self.position(), segment))
        self._remove_cleaned()

    def _remove_cleaned(self) -> None:
        while self._removable and self._removable[0][0] <= self.synced:
            segment = self._removable.pop(0)[1]
            del self.journal.segments[segment.number]
            self._cleaning = False
            if self._committer is not None:
                self._committer.put(partial(self.journal.remove_file, segment))

    def count_of(self, queue_id: int, seq: int, count: int) -> int:
        """How often a live message was given back."""
        queue = self.queues.get(queue_id)
        return count if queue is None else queue.ledger.counts.get(seq, count)

    def repeat_requeue(self, queue_id: int, seq: int) -> None:
        """Say again how often a message was given back, if it is live."""
        queue = self.queues.get(queue_id)
        if queue is not None:
            queue.ledger.repeat(seq)


def nothing() -> None:
    """Nobody waits."""


def nothing_more(error: BaseException) -> None:
    """Nobody asks."""
