"""Relief: when memory runs low, queues leave what they have ready to storage, those first that nobody has used for longest.

The windows of single queues (`pages.py`) bound each of them, and this all of them together. Nothing is asked of the
system: memory that is given free is used again, and seldom given back.

  (1) Of each queue the first message stays, if only as a stub: when it goes, or expires, those behind it are brought back.
      So does what was given back: what others still have may come to stand between.
  (2) A queue that is being brought something is in use, and left alone; so is what would give little.
  (3) What waits for the disk is in memory too: while there is too much of that, nothing is added to it.
"""

from typing import TYPE_CHECKING

from leveret.broker.backlog import memory_of
from leveret.broker.budget import Budget
from leveret.broker.pages import Page
from leveret.broker.queue import Queue
from leveret.broker.work import Task

if TYPE_CHECKING:
    from leveret.broker.broker import Broker

WORTHWHILE_BYTES = 16 << 10
LOOK_PIECE = 200
# So many messages cost as much in the budget of a pass as a look at a queue, which costs one.
MESSAGES_A_COST = 4


class Relief(Task):
    """Has queues leave what is ready to storage, until all have no more than `goal` octets of it in memory.

    It is `paused` while `room` octets wait for the disk. `helped` says that it has found something to do.
    """

    __slots__ = ("_found", "_goal", "_held", "_room", "_storage", "_unseen", "done", "helped", "paused")

    def __init__(self, broker: "Broker", goal: int, room: int) -> None:
        self._storage = broker.storage
        self._goal = goal
        self._room = room
        self._unseen = [queue for vhost in broker.vhosts.values() for queue in (*vhost.queues.values(), *vhost.hidden)]
        self._found: list[tuple[int, int, Queue]] = []
        self._held = 0
        self.done = False
        self.helped = False
        self.paused = False

    def run(self, budget: Budget) -> bool:
        while budget.left > 0:
            if self._unseen:
                self._look(budget)
            elif not self._found or self._held <= self._goal:
                self.done = True
                return True
            elif self._storage.unsynced_size() >= self._room:
                self.paused = True
                return True
            else:
                self._relieve(self._found.pop()[2], budget)
        return False

    def _look(self, budget: Budget) -> None:
        for _ in range(min(LOOK_PIECE, len(self._unseen))):
            queue = self._unseen.pop()
            size = held_bytes(queue)
            self._held += size
            if size >= WORTHWHILE_BYTES:
                self._found.append((-queue.touched, len(self._found), queue))
        budget.left -= LOOK_PIECE
        if not self._unseen:
            # The longest unused one is last.
            self._found.sort()

    def _relieve(self, queue: Queue, budget: Budget) -> None:
        before = held_bytes(queue)
        budget.left -= 1 + (queue.backlog.count - queue.backlog.pages.count) // MESSAGES_A_COST
        if queue.deleted or queue.backlog.loading is not None:
            return
        if queue.settings.pageable():
            self._storage.page_out_all(queue)
        else:
            queue.backlog.evict(queue, queue.backlog.front.entries())
        freed = before - held_bytes(queue)
        self._held -= freed
        self.helped = self.helped or freed > 0


def held_bytes(queue: Queue) -> int:
    """About how much of what a queue has ready is in memory, and need not be."""
    backlog = queue.backlog
    size = backlog.body_bytes - backlog.pages.body_bytes - backlog.stub_bytes
    count = backlog.count - backlog.pages.count if queue.settings.pageable() else 0
    if isinstance(backlog.loading, Page):
        size -= backlog.loading.body_bytes
        count -= backlog.loading.live_count
    return memory_of(count, max(0, size))
