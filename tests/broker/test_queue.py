"""A queue: its order, its counts, and who gets what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.broker.work import Task, Work
from leveret.errors import AccessRefused

if TYPE_CHECKING:
    from tests.broker.conftest import NewListener, NewMessage, NewQueue


def take(queue: Queue, no_ack: bool = False) -> Entry:
    entry = queue.take(no_ack)
    assert entry is not None
    return entry


def seqs(queue: Queue) -> list[int]:
    """What is ready, in order; it is gone then."""
    found = []
    while queue.ready_count:
        found.append(take(queue, no_ack=True).seq)
    return found


def counts(queue: Queue) -> tuple[int, int, int, int]:
    return queue.ready_count, queue.ready_bytes, queue.unacked_count, queue.unacked_bytes


def test_new_queue_is_empty(queue_with: NewQueue) -> None:
    queue = queue_with()
    assert counts(queue) == (0, 0, 0, 0)
    assert queue.take(False) is None
    assert queue.consumer_count == 0


def test_first_in_first_out(queue_with: NewQueue) -> None:
    queue = queue_with(3)
    assert counts(queue) == (3, 3, 0, 0)
    assert seqs(queue) == [1, 2, 3]
    assert counts(queue) == (0, 0, 0, 0)


def test_taken_message_is_unacknowledged_until_it_is_settled(queue_with: NewQueue) -> None:
    queue = queue_with(sizes=(10, 20))
    entry = take(queue)
    assert counts(queue) == (1, 20, 1, 10)
    assert entry.queue is queue
    queue.settle(entry)
    assert counts(queue) == (1, 20, 0, 0)


def test_message_taken_without_acknowledgement_is_gone(queue_with: NewQueue) -> None:
    queue = queue_with(sizes=(10, 20))
    take(queue, no_ack=True)
    assert counts(queue) == (1, 20, 0, 0)


def test_given_back_messages_stand_where_they_were(queue_with: NewQueue) -> None:
    queue = queue_with(6)
    entries = [take(queue) for _ in range(4)]
    queue.requeue([entries[3]])
    queue.requeue([entries[1]])
    queue.requeue([entries[2]])
    assert counts(queue) == (5, 5, 1, 1)
    assert seqs(queue) == [2, 3, 4, 5, 6]
    queue.requeue([entries[0]])
    assert take(queue).redelivered


def test_many_given_back_at_once_in_any_order(queue_with: NewQueue) -> None:
    queue = queue_with(6)
    entries = [take(queue) for _ in range(5)]
    queue.requeue([entries[2]])
    queue.requeue([entries[4], entries[0], entries[3]])
    assert seqs(queue) == [1, 3, 4, 5, 6]


def test_only_given_back_messages_are_marked(queue_with: NewQueue) -> None:
    queue = queue_with(2)
    queue.requeue([take(queue)])
    assert [take(queue).redelivered, take(queue).redelivered] == [True, False]


def test_given_back_nothing_changes_nothing(queue_with: NewQueue) -> None:
    queue = queue_with(1)
    queue.requeue([])
    assert seqs(queue) == [1]


def test_purging_drops_what_is_ready(queue_with: NewQueue, message: NewMessage, work: Work) -> None:
    queue = queue_with(5)
    held, back = take(queue), take(queue)
    queue.requeue([back])
    assert queue.purge() == 4
    assert counts(queue) == (0, 0, 1, 1)
    assert work.drain()
    queue.accept(message(), 0)
    queue.requeue([held])
    assert seqs(queue) == [1, 6]


def test_purging_a_long_queue_frees_it_in_pieces(queue_with: NewQueue, work: Work) -> None:
    queue = queue_with(50_000)
    assert queue.purge() == 50_000
    count = 1
    while not work.drain():
        work.begin()
        count += 1
    assert count > 2
    assert queue.purge() == 0


def test_long_queue_is_let_go_without_overflowing_the_stack(queue_with: NewQueue) -> None:
    queue = queue_with(200_000)
    del queue


def test_long_purged_queue_may_be_let_go_before_it_is_freed(queue_with: NewQueue) -> None:
    queue = queue_with(200_000)
    queue.purge()
    queue.work = Work()
    del queue


# Consumers


def test_message_goes_straight_to_a_consumer(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, listener = queue_with(), new_listener()
    queue.subscribe(listener)
    queue.accept(message(5), 0)
    assert listener.seqs == [1]
    assert listener.delivered[0].consumer is listener
    assert counts(queue) == (0, 0, 1, 5)
    assert (listener.window.count, listener.window.size) == (1, 5)


def test_waiting_messages_go_to_a_new_consumer(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, listener = queue_with(3), new_listener()
    queue.subscribe(listener)
    assert listener.seqs == [1, 2, 3]
    assert (queue.consumer_count, counts(queue)) == (1, (0, 0, 3, 3))


def test_consumer_without_acknowledgement_keeps_nothing(
    queue_with: NewQueue, new_listener: NewListener, message: NewMessage
) -> None:
    queue, listener = queue_with(2), new_listener(no_ack=True)
    queue.subscribe(listener)
    queue.accept(message(), 0)
    assert listener.seqs == [1, 2, 3]
    assert counts(queue) == (0, 0, 0, 0)
    assert listener.window.count == 0


def test_nothing_overtakes_what_waits(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    """A small message must not pass a large one that has no room."""
    queue, listener = queue_with(sizes=(5, 50)), new_listener(size=10)
    queue.subscribe(listener)
    queue.accept(message(1), 0)
    assert listener.seqs == [1]
    queue.settle(listener.delivered[0])
    queue.resume(listener)
    assert listener.seqs == [1, 2]


def test_full_consumer_waits_until_it_is_resumed(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, listener = queue_with(3), new_listener(count=1)
    queue.subscribe(listener)
    queue.settle(listener.delivered[0])
    assert listener.seqs == [1]
    queue.resume(listener)
    assert listener.seqs == [1, 2]


def test_message_waits_if_everybody_is_full(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, listener = queue_with(), new_listener(count=1)
    queue.subscribe(listener)
    queue.accept(message(), 0)
    queue.accept(message(), 0)
    assert (listener.seqs, queue.ready_count) == ([1], 1)


def test_cancelled_consumer_gets_no_more(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, listener = queue_with(1), new_listener()
    queue.subscribe(listener)
    queue.cancel(listener)
    queue.cancel(listener)
    queue.accept(message(), 0)
    assert (listener.seqs, counts(queue), queue.consumer_count) == ([1], (1, 1, 1, 1), 0)
    queue.settle(listener.delivered[0])
    queue.resume(listener)
    assert (listener.seqs, counts(queue)) == ([1], (1, 1, 0, 0))


def test_resuming_one_lets_others_go_on(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, gone, other = queue_with(), new_listener("a", count=1), new_listener("b")
    queue.subscribe(gone)
    queue.accept(message(), 0)
    queue.accept(message(), 0)
    queue.cancel(gone)
    queue.subscribe(other)
    queue.requeue([gone.delivered[0]])
    queue.resume(gone)
    assert other.seqs == [2, 1]


def test_exclusive_consumer_is_alone(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, one = queue_with(), new_listener(exclusive=True)
    queue.check_subscribable(one)
    queue.subscribe(one)
    for other in (new_listener(), new_listener(exclusive=True)):
        with pytest.raises(AccessRefused, match=r"^queue 'q' in vhost '/' in exclusive use$"):
            queue.check_subscribable(other)
    queue.cancel(one)
    queue.subscribe(new_listener())
    queue.check_subscribable(new_listener())
    with pytest.raises(AccessRefused):
        queue.check_subscribable(one)


def test_deliveries_keep_to_the_budget(queue_with: NewQueue, new_listener: NewListener, work: Work) -> None:
    queue, listener = queue_with(5000), new_listener()
    queue.subscribe(listener)
    assert len(listener.delivered) <= 2000
    assert queue.deferred
    queue.dispatch()
    count = 0
    while work:
        work.begin()
        work.drain()
        count += 1
    assert 2 <= count <= 4
    assert listener.seqs == list(range(1, 5001))
    assert not queue.deferred


def test_everything_costs(queue_with: NewQueue, message: NewMessage, work: Work) -> None:
    queue = queue_with()
    queue.accept(message(), 0)
    assert work.left == 1999
    queue.settle(take(queue))
    assert work.left == 1998


class Said(Task):
    def __init__(self) -> None:
        self.count = 0

    def run(self, work: Work) -> bool:
        self.count += 1
        return True


def test_queue_says_when_its_last_consumer_leaves(queue_with: NewQueue, new_listener: NewListener, work: Work) -> None:
    queue, said = queue_with(), Said()
    queue.unused = said
    one, two = new_listener("a"), new_listener("b")
    queue.subscribe(one)
    queue.subscribe(two)
    queue.cancel(one)
    assert not work
    queue.cancel(two)
    assert work.drain()
    assert said.count == 1


def test_deleted_queue_tells_its_consumers(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, one, full = queue_with(1), new_listener("a"), new_listener("b", count=1)
    queue.subscribe(full)
    queue.subscribe(one)
    assert queue.delete() == 0
    assert (one.told, full.told, queue.consumer_count, queue.deleted) == (["cancelled"], ["cancelled"], 0, True)


def test_deleted_queue_says_what_was_ready_and_takes_nothing_back(queue_with: NewQueue) -> None:
    queue = queue_with(3)
    entry = take(queue)
    assert queue.delete() == 2
    queue.requeue([entry])
    assert counts(queue) == (0, 0, 0, 0)


def test_new_message_does_not_overtake_those_a_spent_budget_left_waiting(
    queue_with: NewQueue, new_listener: NewListener, message: NewMessage, work: Work
) -> None:
    queue, listener = queue_with(3000), new_listener()
    queue.subscribe(listener)
    assert queue.deferred
    queue.accept(message(), 0)
    while work:
        work.begin()
        work.drain()
    assert listener.seqs == list(range(1, 3002))
