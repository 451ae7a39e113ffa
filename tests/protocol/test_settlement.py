"""Settling and giving back many messages: in pieces, in order, and with everybody resumed."""

from __future__ import annotations

from leveret.broker.budget import PASS_BUDGET, Budget
from leveret.broker.consumer import Consumer, Window
from leveret.broker.dispatch import cancel, push, subscribe
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.work import Task, Work
from leveret.protocol.settlement import Requeue, Settle, nothing

MESSAGE: Message = new_message(Origin("", "q", b""), b"", 14, 3, 3, False)


class Listener(Consumer):
    """A consumer whose deliveries are a list."""

    def __init__(self, tag: str = "c", count_limit: int = 0, shared: Window | None = None, priority: int = 0) -> None:
        Consumer.__init__(self, tag, False, False, Window(count_limit), shared, None, priority)
        self.delivered: list[Entry] = []

    def deliver(self, entry: Entry) -> None:
        self.delivered.append(entry)

    def cancelled(self) -> None:
        """Nobody is told."""


class Done:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def queue_with(count: int, work: Work) -> Queue:
    queue = Queue("q", "queue 'q' in vhost '/'", work, {})
    for _ in range(count):
        push(queue, MESSAGE, 0)
    work.budget.begin()
    return queue


def delivered(queue: Queue, listener: Listener) -> list[Entry]:
    """Have everything ready delivered."""
    subscribe(queue, listener)
    while queue.work:
        queue.work.budget.begin()
        queue.work.drain()
    queue.work.budget.begin()
    return listener.delivered


def passes(task: Task, work: Work) -> int:
    """Run a task as a connection would; how many passes it took."""
    count = 1
    work.budget.begin()
    while not task.run(work.budget):
        assert work.budget.left > PASS_BUDGET - 3000, "a piece is too large"
        work.budget.begin()
        count += 1
    return count


def test_ten_thousand_are_settled_in_pieces() -> None:
    work, done = Work(), Done()
    queue = queue_with(10_000, work)
    entries = list(delivered(queue, Listener()))
    assert queue.unacked_count == 10_000
    assert passes(Settle(entries, done), work) == 10
    assert (queue.ready_count, queue.unacked_count, queue.unacked_bytes, done.count) == (0, 0, 0, 1)


def test_ten_thousand_are_given_back_in_pieces_and_in_order() -> None:
    work, done = Work(), Done()
    queue = queue_with(10_000, work)
    listener = Listener()
    entries = list(delivered(queue, listener))
    cancel(queue, listener)
    assert passes(Requeue(entries, done), work) == 10
    assert (queue.ready_count, queue.unacked_count, queue.ready_bytes, done.count) == (10_000, 0, 30_000, 1)
    first = queue.take(True)
    assert first is not None
    assert (first.seq, first.redelivered) == (1, True)


def test_nothing_to_settle_is_done_at_once() -> None:
    done = Done()
    assert Settle([], done).run(Budget())
    assert Requeue([], done).run(Budget())
    assert done.count == 2


def test_settling_makes_room_for_waiting_consumers() -> None:
    work = Work()
    queue = queue_with(5, work)
    listener = Listener(count_limit=2)
    entries = list(delivered(queue, listener))
    assert len(entries) == 2
    assert Settle(entries, nothing).run(work.budget)
    assert [entry.seq for entry in listener.delivered] == [1, 2, 3, 4]


def test_settling_does_not_resume_consumers_that_share_a_window() -> None:
    """Their channel does, which gives each its turn."""
    work = Work()
    queue = queue_with(5, work)
    shared = Window(count_limit=1)
    listener = Listener(shared=shared)
    entries = list(delivered(queue, listener))
    assert len(entries) == 1
    Settle(entries, nothing).run(work.budget)
    assert len(listener.delivered) == 1
    assert shared.count == 0


def test_given_back_messages_go_to_who_can_take_them() -> None:
    work = Work()
    queue = queue_with(3, work)
    one, other = Listener("a"), Listener("b")
    entries = list(delivered(queue, one))
    subscribe(queue, other)
    cancel(queue, one)
    assert Requeue(entries, nothing).run(work.budget)
    assert [(entry.seq, entry.redelivered) for entry in other.delivered] == [(1, True), (2, True), (3, True)]


def test_given_back_messages_return_to_their_own_consumer() -> None:
    work = Work()
    queue = queue_with(3, work)
    listener = Listener(count_limit=2)
    entries = list(delivered(queue, listener))
    assert Requeue(entries, nothing).run(work.budget)
    assert [(entry.seq, entry.redelivered) for entry in listener.delivered[2:]] == [(1, True), (2, True)]
    assert (queue.ready_count, queue.unacked_count) == (1, 2)


def test_who_gave_back_and_shares_a_window_goes_on_last() -> None:
    """RabbitMQ: a channel's limit has room again when the queue has its message back and others have been asked."""
    work = Work()
    queue = queue_with(1, work)
    shared = Window(count_limit=1)
    limited, other = Listener("limited", shared=shared, priority=1), Listener("other")
    entries = list(delivered(queue, limited))
    subscribe(queue, other)
    push(queue, MESSAGE, 0)
    done = []
    assert Requeue(entries, lambda: done.append(len(other.delivered))).run(work.budget)
    assert [entry.seq for entry in other.delivered] == [2, 1]
    assert [entry.seq for entry in limited.delivered] == [1]
    # Only then is its channel asked for whom there is room.
    assert done == [2]


def test_who_gave_back_takes_turns_with_those_who_had_room() -> None:
    work = Work()
    queue = queue_with(0, work)
    patient, full = Listener("patient"), Listener("full", count_limit=1)
    subscribe(queue, patient)
    subscribe(queue, full)
    for _ in range(4):
        push(queue, MESSAGE, 0)
    entries = [*patient.delivered, *full.delivered]
    assert Requeue(entries, nothing).run(work.budget)
    assert [entry.seq for entry in full.delivered] == [2, 2]
    assert [entry.seq for entry in patient.delivered] == [1, 3, 4, 1, 3, 4]


def test_what_comes_back_goes_to_the_highest_priority_first() -> None:
    work = Work()
    queue = queue_with(2, work)
    first, other = Listener("first", count_limit=1), Listener("other", priority=-1)
    entries = list(delivered(queue, first))
    subscribe(queue, other)
    assert [entry.seq for entry in other.delivered] == [2]
    assert Requeue(entries, nothing).run(work.budget)
    assert [entry.seq for entry in first.delivered] == [1, 1]


def test_those_who_settle_together_take_turns() -> None:
    work = Work()
    queue = queue_with(0, work)
    one, other = Listener("one", count_limit=2), Listener("other", count_limit=2)
    subscribe(queue, one)
    subscribe(queue, other)
    for _ in range(8):
        push(queue, MESSAGE, 0)
    assert Settle([*one.delivered, *other.delivered], nothing).run(work.budget)
    assert [entry.seq for entry in one.delivered] == [1, 3, 5, 7]
    assert [entry.seq for entry in other.delivered] == [2, 4, 6, 8]


def test_several_queues_are_given_back_to_together() -> None:
    work = Work()
    queues = [queue_with(2, work), queue_with(2, work)]
    entries = [queue.take(False) for _ in range(2) for queue in queues]
    assert Requeue([entry for entry in entries if entry is not None], nothing).run(work.budget)
    assert [(queue.ready_count, queue.unacked_count) for queue in queues] == [(2, 0), (2, 0)]


def test_messages_of_a_deleted_queue_are_let_go() -> None:
    work = Work()
    queue = queue_with(2, work)
    entries = [queue.take(False), queue.take(False)]
    queue.delete()
    assert Requeue([entry for entry in entries if entry is not None], nothing).run(work.budget)
    assert (queue.ready_count, queue.unacked_count) == (0, 0)
