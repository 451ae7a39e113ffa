"""What a route to many queues has counted, told to their tallies in pieces that keep to the budget."""

from leveret.broker.queue import Queue
from leveret.broker.tally import Tally
from leveret.broker.work import Task, Work

# So many cost as much as one operation of a queue.
AT_ONCE = 4


class Tell(Task):
    """Adds to the part that an exchange's tally has in each of these queues'. More may be added until it has begun."""

    __slots__ = ("_at", "_queues", "_tally", "count")

    def __init__(self, tally: Tally, queues: list[Queue], count: int) -> None:
        self._tally = tally
        self._queues = queues
        self._at = 0
        self.count = count

    def same(self, tally: Tally, queues: list[Queue]) -> bool:
        return tally is self._tally and queues == self._queues

    def run(self, work: Work) -> bool:
        queues, tally = self._queues, self._tally
        while self._at < len(queues) and work.left > 0:
            end = self._at + AT_ONCE
            for queue in queues[self._at : end]:
                queue.tally.part(tally).publish += self.count
            self._at = end
            work.left -= 1
        return self._at >= len(queues)
