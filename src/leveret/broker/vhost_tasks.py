"""What a virtual host has done later, or in pieces: unused queues deleted, bindings removed, everything removed."""

from typing import TYPE_CHECKING

from leveret.broker.binding import Binding
from leveret.broker.budget import Budget
from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.work import Task

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost

# What removing a queue or a binding costs in the budget of a pass.
REMOVE_COST = 10
UNBIND_COST = 5
# So many are removed at once in any case: few are not worth a task.
UNBIND_PIECE = 50


class DeleteUnused(Task):
    """Deletes a queue without consumers: the last one has left an auto-delete queue, or x-expires has passed."""

    __slots__ = ("_queue", "_vhost")

    def __init__(self, vhost: "VirtualHost", queue: Queue) -> None:
        self._vhost = vhost
        self._queue = queue

    def run(self, budget: Budget) -> bool:
        if not self._queue.deleted and not self._queue.consumer_count and not self._vhost.broker.follows:
            self._vhost.discard_queue(self._queue)
        return True


class UnbindTask(Task):
    """Removes bindings, some at a time, with the auto-delete exchanges that lose their last one; then `exchange`, if given.

    Its rows go last: after a crash in between it is there, with fewer bindings, and nobody was told that it is gone.
    """

    __slots__ = ("_exchange", "_pending", "_vhost", "done")

    def __init__(self, vhost: "VirtualHost", pending: list[Binding], exchange: Exchange | None = None) -> None:
        self._vhost = vhost
        self._pending = pending
        self._exchange = exchange
        self.done = False

    def run(self, budget: Budget) -> bool:
        pending = self._pending
        while pending:
            count = min(UNBIND_PIECE, len(pending))
            for _ in range(count):
                # What an auto-delete exchange had inbound comes behind: those bound in a long chain go one after the other.
                self._vhost.remove_binding(pending.pop(), pending)
            budget.left -= count * UNBIND_COST
            if budget.left <= 0 and pending:
                return False
        if self._exchange is not None:
            self._vhost.forget_exchange(self._exchange)
        self.done = True
        return True


class Demolish(Task):
    """Removes the queues of a vhost that is gone, some at a time, and what its exchanges hold."""

    __slots__ = ("_vhost",)

    def __init__(self, vhost: "VirtualHost") -> None:
        self._vhost = vhost

    def run(self, budget: Budget) -> bool:
        queues = self._vhost.queues
        while queues and budget.left > 0:
            budget.left -= REMOVE_COST
            self._vhost.remove_queue(next(iter(queues.values())))
        if queues:
            return False
        for exchange in self._vhost.exchanges.values():
            exchange.close()
        return True
