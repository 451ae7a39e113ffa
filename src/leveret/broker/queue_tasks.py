"""What a queue leaves for later: tasks on the work list that go on where a spent budget stopped."""

from typing import TYPE_CHECKING

from leveret.broker.budget import Budget
from leveret.broker.chain import unchain
from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry
from leveret.broker.pages import Page
from leveret.broker.storage import Settler, Storage
from leveret.broker.work import Task

if TYPE_CHECKING:
    from leveret.broker.queue import Queue

DISCARD_PIECE = 4096
# So many consumers are told at once in any case; and what one costs in the budget of a pass.
FAREWELL_PIECE = 20
FAREWELL_COST = 5
# So many messages of a page are given free for one in the budget of a pass.
FREED_FOR_ONE = 16


class Farewell(Task):
    """Tells the consumers of a queue that is gone, some at a time."""

    __slots__ = ("_at", "_consumers")

    def __init__(self, consumers: list[Consumer]) -> None:
        self._consumers = consumers
        self._at = 0

    def run(self, budget: Budget) -> bool:
        while self._at < len(self._consumers):
            for consumer in self._consumers[self._at : self._at + FAREWELL_PIECE]:
                consumer.cancelled()
            self._at += FAREWELL_PIECE
            budget.left -= FAREWELL_PIECE * FAREWELL_COST
            if budget.left <= 0:
                break
        return self._at >= len(self._consumers)


class Expire(Task):
    """Goes on dropping a queue's expired messages."""

    __slots__ = ("_queue",)

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue

    def run(self, budget: Budget) -> bool:
        return self._queue.expire_some(budget.now)


class Discard(Task):
    """Frees chains of entries a piece at a time: a million at once would stop the loop, or overflow the stack."""

    __slots__ = ("_heads", "_pages", "_settler", "_storage", "done")

    def __init__(self, storage: Storage, heads: list[Entry], pages: list[Page], settler: Settler | None) -> None:
        self.done = False
        self._storage = storage
        self._heads = heads
        self._settler = settler
        self._pages = pages

    def run(self, budget: Budget) -> bool:
        if self._pages:
            page = self._pages.pop()
            self._storage.forget(page, self._settler)
            budget.left -= page.count // FREED_FOR_ONE + 1
            return False
        for _ in range(DISCARD_PIECE):
            if not self._heads:
                self.done = True
                return True
            entry = self._heads.pop()
            if entry.next is not None:
                self._heads.append(entry.next)
                entry.next = None
            # What was dropped from the middle has left before.
            if entry.location != 0 and entry.waiting:
                self._storage.forget_entry(entry, self._settler)
        budget.left -= DISCARD_PIECE // 8
        return False

    def __del__(self) -> None:
        for head in self._heads:
            unchain(head)
