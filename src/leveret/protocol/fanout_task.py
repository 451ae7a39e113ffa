"""A message for very many queues, given to them in pieces that keep to the budget."""

from collections.abc import Callable

from leveret.broker.budget import Budget
from leveret.broker.dispatch import push
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.work import Task


class FanoutTask(Task):
    """Gives one message to each of these queues; the connection's next frame waits until all have it.

    `refused` is called for each queue that does not take it.
    """

    __slots__ = ("_at", "_message", "_now", "_queues", "_refused")

    def __init__(self, message: Message, queues: list[Queue], now: int, refused: Callable[[], None]) -> None:
        self._refused = refused
        self._message = message
        self._queues = queues
        self._now = now
        self._at = 0

    def run(self, budget: Budget) -> bool:
        while self._at < len(self._queues) and budget.left > 0:
            queue = self._queues[self._at]
            self._at += 1
            # It may have gone since the last piece.
            if not queue.deleted and not push(queue, self._message, self._now):
                self._refused()
        return self._at == len(self._queues)
