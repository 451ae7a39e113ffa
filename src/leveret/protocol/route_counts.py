"""What a route to many queues has counted, told to their counters in pieces that keep to the budget."""

from leveret.broker.budget import Budget
from leveret.broker.counters import Counters
from leveret.broker.queue import Queue
from leveret.broker.work import Task

# So many cost as much as one operation of a queue.
AT_ONCE = 4


class RouteCounts(Task):
    """Adds to what an exchange has in the breakdown of each of these queues. More may be added until it has begun."""

    __slots__ = ("_at", "_counters", "_queues", "count")

    def __init__(self, counters: Counters, queues: list[Queue], count: int) -> None:
        self._counters = counters
        self._queues = queues
        self._at = 0
        self.count = count

    def same(self, counters: Counters, queues: list[Queue]) -> bool:
        return counters is self._counters and queues == self._queues

    def run(self, budget: Budget) -> bool:
        queues, counters = self._queues, self._counters
        while self._at < len(queues) and budget.left > 0:
            end = self._at + AT_ONCE
            for queue in queues[self._at : end]:
                queue.counters.breakdown_for(counters).publish += self.count
            self._at = end
            budget.left -= 1
        return self._at >= len(queues)
