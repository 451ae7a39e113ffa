"""Acknowledging and giving back many messages, in pieces that keep to the budget.

`done` is called when all of them are settled. Consumers that share a limited window are not resumed here but by their
channel, which gives each its turn. In a transaction the queues concerned are left in `later`, and go on when it is answered.
"""

from collections.abc import Callable

from leveret.broker.budget import Budget
from leveret.broker.consumer import Consumer
from leveret.broker.dispatch import dispatch
from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.broker.work import Task

PIECE = 1000

# What becomes of a message: done with, not wanted, or given back.
ACKED, REJECTED, REQUEUED = 0, 1, 2


class Settle(Task):
    """Forget these entries, or reject them; their consumers go on as room appears."""

    __slots__ = ("_at", "_done", "_entries", "_later", "_rejected")

    def __init__(
        self, entries: list[Entry], done: Callable[[], None], rejected: bool = False, later: list[Queue] | None = None
    ) -> None:
        self._entries = entries
        self._done = done
        self._rejected = rejected
        self._later = later
        self._at = 0

    def run(self, budget: Budget) -> bool:
        entries = self._entries
        end = min(len(entries), self._at + PIECE)
        waiting: list[Consumer] = []
        last: Consumer | None = None
        # Whose entries these are, and since when: they are counted together.
        counted: Consumer | None = None
        since = self._at
        for at in range(self._at, end):
            entry = entries[at]
            queue = entry.queue
            if self._rejected:
                queue.reject(entry)
            else:
                queue.settle(entry)
            consumer = entry.consumer
            if consumer is not counted:
                self._count(counted, at - since)
                counted = consumer
                since = at
            if (
                consumer is not None
                and consumer is not last
                and not consumer.active
                and not consumer.channel_window.limited()
            ):
                waiting.append(consumer)
                last = consumer
        self._count(counted, end - since)
        self._at = end
        # All of them before the first delivery: they take turns, and the one with the highest priority goes first.
        for consumer in waiting:
            queue = consumer.queue
            queue.rotation.activate(consumer)
        for consumer in waiting:
            _go_on(consumer.queue, self._later)
        if end < len(entries):
            return False
        self._done()
        return True

    def _count(self, consumer: Consumer | None, acks: int) -> None:
        if consumer is not None and not self._rejected:
            consumer.counters.ack += acks


class Requeue(Task):
    """Put these entries back into their queues, oldest first; only then those queues go on.

    Who consumes from them next must not get what came later before what is given back. `by_client` says that the client
    gave them back; if not, its channel or connection has ended.
    """

    __slots__ = ("_at", "_by_client", "_done", "_entries", "_later", "_queues", "_waiting")

    def __init__(
        self, entries: list[Entry], done: Callable[[], None], by_client: bool = False, later: list[Queue] | None = None
    ) -> None:
        self._entries = entries
        self._later = later
        self._done = done
        self._by_client = by_client
        self._at = 0
        self._queues: dict[Queue, None] = {}
        self._waiting: dict[Consumer, None] = {}

    def add(self, entries: list[Entry], queues: list[Queue]) -> None:
        """Give these back too, and have these queues go on."""
        self._entries += entries
        self._queues.update(dict.fromkeys(queues))

    def run(self, budget: Budget) -> bool:
        end = min(len(self._entries), self._at + PIECE)
        for queue, entries in _by_queue(self._entries[self._at : end]).items():
            self._queues[queue] = None
            takers = [entry.consumer for entry in entries if entry.consumer is not None]
            # RabbitMQ: those that share their channel's window go on last, when `done` has room for them.
            self._waiting.update(dict.fromkeys([consumer for consumer in takers if not consumer.channel_window.limited()]))
            queue.requeue(sorted(entries, key=_taker) if queue.settings.quorum else entries, self._by_client)
        self._at = end
        if end < len(self._entries):
            return False
        # Who has given something back has room for it before the others get it.
        for consumer in self._waiting:
            consumer.queue.rotation.activate(consumer)
        for queue in self._queues:
            _go_on(queue, self._later)
        self._done()
        return True


def settlement(how: int, entries: list[Entry], done: Callable[[], None], later: list[Queue] | None = None) -> Task:
    """The task that settles these entries so."""
    if how == REQUEUED:
        return Requeue(entries, done, True, later)
    return Settle(entries, done, how == REJECTED, later)


def _go_on(queue: Queue, later: list[Queue] | None) -> None:
    if later is None:
        dispatch(queue)
    else:
        later.append(queue)


def _by_queue(entries: list[Entry]) -> dict[Queue, list[Entry]]:
    grouped: dict[Queue, list[Entry]] = {}
    for entry in entries:
        grouped.setdefault(entry.queue, []).append(entry)
    return grouped


def _taker(entry: Entry) -> str:
    # RabbitMQ: to a quorum queue each consumer gives back its own, by their tags; before them what was taken by basic.get.
    return "" if entry.consumer is None else " " + entry.consumer.tag


def nothing() -> None:
    """Nobody waits for it."""
