"""A channel's transaction: messages and acknowledgements that wait for tx.commit.

RabbitMQ: a message is routed when it is published and delivered when it is committed; an acknowledgement is checked when
it is made, and takes effect when it is committed. On commit the messages go first, and their returns with them; if a
queue refuses one, the channel is closed. What the acknowledgements lead to comes after the answer, for RabbitMQ answers
then before its queues have heard of them; but if there are messages, it waits for their queues first, and what is delivered
meanwhile comes before the answer: always with persistent messages, mostly with transient ones, where its order is not fixed.
"""

from collections.abc import Callable

from leveret.broker.budget import Budget
from leveret.broker.dead_letter import DeadLetterTask
from leveret.broker.dispatch import push
from leveret.broker.message import Entry, Message
from leveret.broker.queue import Queue
from leveret.broker.storage import Storage
from leveret.broker.work import Task
from leveret.errors import PreconditionFailed, ResourceError
from leveret.protocol.settlement import REJECTED, nothing, settlement

BUFFERED_SIZE_MAX = 64 << 20
# What a message or an acknowledgement costs besides its bytes.
OVERHEAD = 200

Publish = tuple[Message, list[Queue], bool]


class Transaction:
    """What has been published and settled since the last commit or rollback."""

    __slots__ = ("_size", "publishes", "settlements")

    def __init__(self) -> None:
        self.publishes: list[Publish] = []
        self.settlements: list[tuple[int, list[Entry]]] = []
        self._size = 0

    def publish(self, message: Message, queues: list[Queue], mandatory: bool) -> None:
        self._count(len(message.content) + OVERHEAD)
        self.publishes.append((message, queues, mandatory))

    def settle(self, entries: list[Entry], how: int) -> None:
        # Kept first: the entries are nowhere else, and must go back if they are too many.
        self.settlements.append((how, entries))
        self._count(len(entries) * OVERHEAD)

    def entries(self) -> list[Entry]:
        """Everything settled here, which the queues still count as unacknowledged."""
        return [entry for _, entries in self.settlements for entry in entries]

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > BUFFERED_SIZE_MAX:
            raise ResourceError(f"transaction of more than {BUFFERED_SIZE_MAX} bytes")


class Reject(Task):
    """Rejects messages and publishes each dead letter at once: they belong to the transaction too."""

    __slots__ = ("_at", "_entries", "_later")

    def __init__(self, entries: list[Entry], later: list[Queue]) -> None:
        self._entries = entries
        self._later = later
        self._at = 0

    def run(self, budget: Budget) -> bool:
        while self._at < len(self._entries) and budget.left > 0:
            entry = self._entries[self._at]
            self._at += 1
            queue = entry.queue
            consumer = entry.consumer
            count = len(queue.dead)
            targets: list[Queue] = []
            queue.reject(entry)
            if len(queue.dead) > count and isinstance(queue.dead_letter_task, DeadLetterTask):
                # Not with the queue's others, which may have their turn between two pieces of this.
                queue.dead_letter_task.route(*queue.dead.pop(), budget, targets)
            if consumer is not None and not consumer.active and not consumer.channel_window.limited():
                queue.rotation.activate(consumer)
                self._later.append(queue)
            self._later += targets
        return self._at == len(self._entries)


class Commit(Task):
    """Carries out a transaction in pieces; `done` is called when all of it is. `later` are queues that must go on then.

    `fills_queues` says that it has messages which some queue takes, `_partial` that a queue has refused one.
    """

    __slots__ = (
        "_at",
        "_done",
        "_group",
        "_now",
        "_partial",
        "_returned",
        "_settlements",
        "_storage",
        "_transaction",
        "fills_queues",
        "later",
    )

    def __init__(
        self,
        transaction: Transaction,
        storage: Storage,
        now: int,
        returned: Callable[[Message], None],
        done: Callable[[], None],
    ) -> None:
        self._transaction = transaction
        self._storage = storage
        self._now = now
        self._returned = returned
        self._done = done
        self._partial = False
        self._group = 0
        self._at = 0
        self.fills_queues = False
        self.later: list[Queue] = []
        self._settlements: list[Task] = [
            Reject(entries, self.later) if how == REJECTED else settlement(how, entries, nothing, self.later)
            for how, entries in reversed(transaction.settlements)
        ]

    def run(self, budget: Budget) -> bool:
        # On disk all of it counts, or nothing: its records carry the number of this group, and recovery passes them by if
        # it finds no COMMIT of it (`store/records.py` (2), `Recovery`).
        storage = self._storage
        storage.write_places()
        self._group = self._group or storage.begin_group()
        storage.set_group(self._group)
        try:
            complete = self._go_on(budget)
            storage.write_places()
        except BaseException:
            storage.abort(self._group)
            self._let_queues_go_on()
            raise
        finally:
            storage.set_group(0)
        if not complete:
            return False
        storage.commit(self._group)
        if self._partial:
            self._let_queues_go_on()
            raise PreconditionFailed("partial tx completion")
        self._done()
        return True

    def _let_queues_go_on(self) -> None:
        """There will be no answer to wait for."""
        for queue in self.later:
            queue.defer_dispatch()

    def _go_on(self, budget: Budget) -> bool:
        publishes = self._transaction.publishes
        while self._at < len(publishes) and budget.left > 0:
            self._publish(*publishes[self._at])
            self._at += 1
        while self._settlements and budget.left > 0:
            if self._settlements[-1].run(budget):
                self._settlements.pop()
        return self._at == len(publishes) and not self._settlements

    def _publish(self, message: Message, queues: list[Queue], mandatory: bool) -> None:
        live = [queue for queue in queues if not queue.deleted]
        if mandatory and not live:
            self._returned(message)
        for queue in live:
            self.fills_queues = True
            if not push(queue, message, self._now):
                self._partial = True
