"""Holding back: with `deliver = "synced"` no consumer gets a stored message before it is on disk.

A queue with a barrier keeps its order: what stands behind a message that is held waits with it.
"""

from collections import deque
from typing import TYPE_CHECKING

from leveret.broker.queue import Queue

if TYPE_CHECKING:
    from leveret.store.store import Store


NEVER = 1 << 62


class Barrier:
    """Which messages of one queue are not on disk yet: a batch and the first seq in it, the oldest first.

    Those of a transaction are on disk when its commit is; until then their batch is `NEVER` and the transaction's number.
    """

    __slots__ = ("_marks", "_queue", "_store")

    def __init__(self, store: "Store", queue: Queue) -> None:
        self._store = store
        self._queue = queue
        self._marks: deque[tuple[int, int]] = deque()

    def note(self, seq: int) -> None:
        """This message is in the batch that gathers now."""
        group = self._store.journal.group
        batch = NEVER + group if group else self._store.journal.batch
        if not self._marks:
            self._store.barriers.append(self)
        if not self._marks or self._marks[-1][0] != batch:
            self._marks.append((batch, seq))

    def commit(self, group: int, batch: int) -> None:
        """This transaction is on disk with that batch."""
        if any(mark == NEVER + group for mark, _ in self._marks):
            self._marks = deque((batch if mark == NEVER + group else mark, seq) for mark, seq in self._marks)

    def blocks(self, seq: int) -> bool:
        return bool(self._marks) and seq >= self._marks[0][1]

    def release(self, synced: int) -> bool:
        """Let go what is on disk; True if nothing is held any more."""
        while self._marks and self._marks[0][0] <= synced:
            self._marks.popleft()
        self._queue.defer_dispatch()
        return not self._marks


def release_barriers(store: "Store") -> None:
    """Let go, in all queues, what is on disk now."""
    if store.barriers:
        store.work.budget.begin()
        waiting, store.barriers = store.barriers, []
        store.barriers += [barrier for barrier in waiting if not barrier.release(store.synced)]
