"""A queue: its order, its counts, and who gets what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest

from leveret.broker.arguments import queue_settings_of
from leveret.broker.budget import Budget
from leveret.broker.dispatch import cancel, dispatch, push, resume, subscribe
from leveret.broker.message import Entry, Message
from leveret.broker.queue import Queue
from leveret.broker.work import Task, Work
from leveret.errors import AccessRefused
from leveret.wire.content import properties_of
from leveret.wire.values import Table, Value

if TYPE_CHECKING:
    from tests.broker.conftest import NewLetter, NewListener, NewMessage, NewQueue

Limited: TypeAlias = Callable[..., Queue]


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
    push(queue, message(), 0)
    queue.requeue([held])
    assert seqs(queue) == [1, 6]


def test_purging_a_long_queue_frees_it_in_pieces(queue_with: NewQueue, work: Work) -> None:
    queue = queue_with(50_000)
    assert queue.purge() == 50_000
    count = 1
    while not work.drain():
        work.budget.begin()
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
    subscribe(queue, listener)
    push(queue, message(5), 0)
    assert listener.seqs == [1]
    assert listener.delivered[0].consumer is listener
    assert counts(queue) == (0, 0, 1, 5)
    assert (listener.window.count, listener.window.size) == (1, 5)


def test_waiting_messages_go_to_a_new_consumer(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, listener = queue_with(3), new_listener()
    subscribe(queue, listener)
    assert listener.seqs == [1, 2, 3]
    assert (queue.consumer_count, counts(queue)) == (1, (0, 0, 3, 3))


def test_consumer_without_acknowledgement_keeps_nothing(
    queue_with: NewQueue, new_listener: NewListener, message: NewMessage
) -> None:
    queue, listener = queue_with(2), new_listener(no_ack=True)
    subscribe(queue, listener)
    push(queue, message(), 0)
    assert listener.seqs == [1, 2, 3]
    assert counts(queue) == (0, 0, 0, 0)
    assert listener.window.count == 0


def test_nothing_overtakes_what_waits(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    """A small message must not pass a large one that has no room."""
    queue, listener = queue_with(sizes=(5, 50)), new_listener(size=10)
    subscribe(queue, listener)
    push(queue, message(1), 0)
    assert listener.seqs == [1]
    queue.settle(listener.delivered[0])
    resume(queue, listener)
    assert listener.seqs == [1, 2]


def test_full_consumer_waits_until_it_is_resumed(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, listener = queue_with(3), new_listener(count=1)
    subscribe(queue, listener)
    queue.settle(listener.delivered[0])
    assert listener.seqs == [1]
    resume(queue, listener)
    assert listener.seqs == [1, 2]


def test_message_waits_if_everybody_is_full(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, listener = queue_with(), new_listener(count=1)
    subscribe(queue, listener)
    push(queue, message(), 0)
    push(queue, message(), 0)
    assert (listener.seqs, queue.ready_count) == ([1], 1)


def test_cancelled_consumer_gets_no_more(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, listener = queue_with(1), new_listener()
    subscribe(queue, listener)
    cancel(queue, listener)
    cancel(queue, listener)
    push(queue, message(), 0)
    assert (listener.seqs, counts(queue), queue.consumer_count) == ([1], (1, 1, 1, 1), 0)
    queue.settle(listener.delivered[0])
    resume(queue, listener)
    assert (listener.seqs, counts(queue)) == ([1], (1, 1, 0, 0))


def test_resuming_one_lets_others_go_on(queue_with: NewQueue, new_listener: NewListener, message: NewMessage) -> None:
    queue, gone, other = queue_with(), new_listener("a", count=1), new_listener("b")
    subscribe(queue, gone)
    push(queue, message(), 0)
    push(queue, message(), 0)
    cancel(queue, gone)
    subscribe(queue, other)
    queue.requeue([gone.delivered[0]])
    resume(queue, gone)
    assert other.seqs == [2, 1]


def test_exclusive_consumer_is_alone(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, one = queue_with(), new_listener(exclusive=True)
    queue.rotation.check_new(one, queue.title)
    subscribe(queue, one)
    for other in (new_listener(), new_listener(exclusive=True)):
        with pytest.raises(AccessRefused, match=r"^queue 'q' in vhost '/' in exclusive use$"):
            queue.rotation.check_new(other, queue.title)
    cancel(queue, one)
    subscribe(queue, new_listener())
    queue.rotation.check_new(new_listener(), queue.title)
    with pytest.raises(AccessRefused):
        queue.rotation.check_new(one, queue.title)


def test_deliveries_keep_to_the_budget(queue_with: NewQueue, new_listener: NewListener, work: Work) -> None:
    queue, listener = queue_with(5000), new_listener()
    subscribe(queue, listener)
    assert len(listener.delivered) <= 2000
    assert queue.dispatch_deferred
    dispatch(queue)
    count = 0
    while work:
        work.budget.begin()
        work.drain()
        count += 1
    assert 2 <= count <= 4
    assert listener.seqs == list(range(1, 5001))
    assert not queue.dispatch_deferred


def test_everything_costs(queue_with: NewQueue, message: NewMessage, work: Work) -> None:
    queue = queue_with()
    push(queue, message(), 0)
    assert work.budget.left == 1999
    queue.settle(take(queue))
    assert work.budget.left == 1998


class Said(Task):
    def __init__(self) -> None:
        self.count = 0

    def run(self, budget: Budget) -> bool:
        self.count += 1
        return True


def test_queue_says_when_its_last_consumer_leaves(queue_with: NewQueue, new_listener: NewListener, work: Work) -> None:
    queue, said = queue_with(), Said()
    queue.when_unused = said
    one, two = new_listener("a"), new_listener("b")
    subscribe(queue, one)
    subscribe(queue, two)
    cancel(queue, one)
    assert not work
    cancel(queue, two)
    assert work.drain()
    assert said.count == 1


def test_deleted_queue_tells_its_consumers(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue, one, full = queue_with(1), new_listener("a"), new_listener("b", count=1)
    subscribe(queue, full)
    subscribe(queue, one)
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
    subscribe(queue, listener)
    assert queue.dispatch_deferred
    push(queue, message(), 0)
    while work:
        work.budget.begin()
        work.drain()
    assert listener.seqs == list(range(1, 3002))


# Limits


@pytest.fixture
def limited(work: Work) -> Limited:
    """Make a queue with these arguments."""

    def made(**arguments: Value) -> Queue:
        table: Table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        queue = Queue("q", "queue 'q' in vhost '/'", work, table)
        queue.apply(queue_settings_of(table, {}, {}), 0)
        return queue

    return made


def test_queue_drops_from_its_front_what_is_too_many(limited: Limited, message: NewMessage) -> None:
    queue = limited(max_length=2)
    for size in (10, 20, 30):
        assert push(queue, message(size), 0)
    assert counts(queue) == (2, 50, 0, 0)
    assert seqs(queue) == [2, 3]


def test_queue_drops_from_its_front_what_is_too_large(limited: Limited, message: NewMessage) -> None:
    queue = limited(max_length_bytes=50)
    for size in (20, 30, 1):
        push(queue, message(size), 0)
    assert counts(queue) == (2, 31, 0, 0)
    push(queue, message(51), 0)
    assert counts(queue) == (0, 0, 0, 0)
    push(queue, message(50), 0)
    assert seqs(queue) == [5]


def test_either_limit_counts(limited: Limited, message: NewMessage) -> None:
    queue = limited(max_length=3, max_length_bytes=10)
    for size in (1, 1, 1, 1):
        push(queue, message(size), 0)
    assert queue.ready_count == 3
    push(queue, message(9), 0)
    assert seqs(queue) == [4, 5]


def test_length_0_is_for_whoever_waits(limited: Limited, message: NewMessage, new_listener: NewListener) -> None:
    queue, listener = limited(max_length=0), new_listener(count=1)
    push(queue, message(), 0)
    assert counts(queue) == (0, 0, 0, 0)
    subscribe(queue, listener)
    push(queue, message(), 0)
    push(queue, message(), 0)
    assert (listener.seqs, counts(queue)) == ([2], (0, 0, 1, 1))


def test_only_ready_messages_count(limited: Limited, message: NewMessage) -> None:
    queue = limited(max_length=1)
    push(queue, message(), 0)
    entry = take(queue)
    push(queue, message(), 0)
    assert counts(queue) == (1, 1, 1, 1)
    queue.requeue([entry])
    assert seqs(queue) == [2]


def test_new_limit_drops_what_is_there(queue_with: NewQueue) -> None:
    queue = queue_with(5)
    queue.apply(queue_settings_of({}, {"max-length": 2}, {}), 0)
    assert seqs(queue) == [4, 5]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_queue_refuses_what_is_too_much(limited: Limited, message: NewMessage, overflow: str) -> None:
    queue = limited(max_length=2, max_length_bytes=10, overflow=overflow)
    assert push(queue, message(5), 0)
    assert not push(queue, message(6), 0)
    assert push(queue, message(5), 0)
    assert not push(queue, message(0), 0)
    assert (counts(queue), queue.next_seq) == ((2, 10, 0, 0), 3)
    entry = take(queue)
    assert not push(queue, message(6), 0)
    assert push(queue, message(1), 0)
    queue.requeue([entry])
    assert counts(queue) == (3, 11, 0, 0)


def test_full_queue_refuses_even_if_somebody_waits(limited: Limited, message: NewMessage, new_listener: NewListener) -> None:
    queue, listener = limited(max_length=0, overflow="reject-publish"), new_listener()
    subscribe(queue, listener)
    assert not push(queue, message(), 0)
    assert listener.seqs == []


def test_refusing_costs(limited: Limited, message: NewMessage, work: Work) -> None:
    queue = limited(max_length=0, overflow="reject-publish")
    push(queue, message(), 0)
    assert work.budget.left == 1999


def test_expired_message_makes_room_and_no_other_is_dropped(limited: Limited, message: NewMessage, work: Work) -> None:
    queue = limited(max_length=2, message_ttl=10)
    push(queue, message(), 1000)
    push(queue, message(), 1005)
    work.budget.now = 1010
    push(queue, message(), 1010)
    assert seqs(queue) == [2, 3]


# Priorities


def prioritized(message: Message, priority: int) -> Message:
    message.flags = priority << 24
    return message


def test_higher_priority_goes_first(limited: Limited, message: NewMessage) -> None:
    queue = limited(max_priority=5)
    for priority in (0, 5, 2, 9, 2):
        push(queue, prioritized(message(), priority), 0)
    assert counts(queue) == (5, 5, 0, 0)
    assert seqs(queue) == [2, 4, 3, 5, 1]


def test_given_back_keeps_its_priority(limited: Limited, message: NewMessage) -> None:
    queue = limited(max_priority=5)
    for priority in (0, 5, 5):
        push(queue, prioritized(message(), priority), 0)
    first = take(queue)
    queue.requeue([first, take(queue)])
    assert seqs(queue) == [2, 3, 1]


def test_priorities_go_to_consumers_in_order(limited: Limited, message: NewMessage, new_listener: NewListener) -> None:
    queue, listener = limited(max_priority=5), new_listener()
    for priority in (0, 5, 2):
        push(queue, prioritized(message(), priority), 0)
    subscribe(queue, listener)
    assert listener.seqs == [2, 3, 1]


def test_length_limit_drops_the_highest_first(limited: Limited, message: NewMessage) -> None:
    """RabbitMQ drops from the front, whatever its priority."""
    queue = limited(max_priority=5, max_length=2)
    for priority in (5, 0, 1):
        push(queue, prioritized(message(), priority), 0)
    assert seqs(queue) == [3, 2]


def test_all_priorities_are_purged(limited: Limited, message: NewMessage, work: Work) -> None:
    queue = limited(max_priority=5)
    for priority in (5, 0, 1, 1):
        push(queue, prioritized(message(), priority), 0)
    assert queue.purge() == 4
    assert work.drain()
    push(queue, message(), 0)
    assert seqs(queue) == [5]


def test_priority_means_nothing_without_the_argument(queue_with: NewQueue, message: NewMessage) -> None:
    queue = queue_with(1)
    push(queue, prioritized(message(), 9), 0)
    assert seqs(queue) == [1, 2]


# A message too large for a consumer that has room for others


def test_consumer_goes_on_when_a_message_too_large_for_it_is_dropped(
    limited: Limited, message: NewMessage, new_listener: NewListener
) -> None:
    queue, listener = limited(max_length=1), new_listener(size=10)
    subscribe(queue, listener)
    for size in (7, 7, 1):
        push(queue, message(size), 0)
    assert (listener.seqs, queue.ready_count) == ([1, 3], 0)


@pytest.mark.parametrize("ttl_ms", [0, 5])
def test_consumer_goes_on_when_a_message_too_large_for_it_expires(
    limited: Limited, message: NewMessage, new_listener: NewListener, work: Work, ttl_ms: int
) -> None:
    queue, listener = limited(), new_listener(size=10)
    subscribe(queue, listener)
    push(queue, message(7), 0)
    short_lived = message(7)
    short_lived.ttl_ms = ttl_ms
    push(queue, short_lived, 0)
    push(queue, message(1), 0)
    work.budget.now = 5
    queue.expire(5)
    work.drain()
    assert (listener.seqs, queue.ready_count) == ([1, 3], 0)


@pytest.mark.parametrize("ttl_ms", [-1, 0])
def test_consumer_goes_on_when_another_message_goes_before_one_too_large_for_it(
    limited: Limited, message: NewMessage, new_listener: NewListener, ttl_ms: int
) -> None:
    queue, listener = limited(max_priority=5), new_listener(size=10)
    subscribe(queue, listener)
    for size, priority in ((7, 0), (7, 0), (1, 0)):
        push(queue, prioritized(message(size), priority), 0)
    small = prioritized(message(1), 1)
    small.ttl_ms = ttl_ms
    push(queue, small, 0)
    assert (listener.seqs, seqs(queue)) == ([1, 4], [2, 3])


def test_consumer_goes_on_when_a_new_limit_drops_a_message_too_large_for_it(
    limited: Limited, message: NewMessage, new_listener: NewListener, work: Work
) -> None:
    queue, listener = limited(), new_listener(size=10)
    subscribe(queue, listener)
    for size in (7, 7, 1):
        push(queue, message(size), 0)
    queue.apply(queue_settings_of({"x-max-length": 1}, {}, {}), 0)
    work.drain()
    assert (listener.seqs, queue.ready_count) == ([1, 3], 0)


# Single active consumer


def test_only_the_first_consumer_is_active(limited: Limited, message: NewMessage, new_listener: NewListener) -> None:
    queue = limited(single_active_consumer=True)
    one, two, three = new_listener("a", count=1), new_listener("b"), new_listener("c", priority=9)
    for listener in (one, two, three):
        subscribe(queue, listener)
    for _ in range(3):
        push(queue, message(), 0)
    assert (one.seqs, two.seqs, three.seqs, queue.ready_count) == ([1], [], [], 2)
    resume(queue, two)
    assert (two.seqs, queue.consumer_count) == ([], 3)
    cancel(queue, one)
    assert (two.seqs, three.seqs) == ([], [2, 3])


def test_successor_is_the_first_of_the_highest_priority(
    limited: Limited, message: NewMessage, new_listener: NewListener
) -> None:
    """SPEC §6.1 single active consumer: the one that is active stays so, whoever comes."""
    queue = limited(single_active_consumer=True)
    listeners = {tag: new_listener(tag, priority=priority) for tag, priority in [("a", 0), ("b", 1), ("c", 2), ("d", 2)]}
    for listener in listeners.values():
        subscribe(queue, listener)
    for tag in "acdb":
        assert queue.rotation.chosen is listeners[tag]
        push(queue, message(), 0)
        assert len(listeners[tag].seqs) == 1
        cancel(queue, listeners[tag])
    assert queue.rotation.chosen is None


def test_successor_in_a_quorum_queue_is_the_first(limited: Limited, new_listener: NewListener) -> None:
    """SPEC §6.1 single active consumer: RabbitMQ's quorum queues do not look at priorities there."""
    queue = limited(single_active_consumer=True, queue_type="quorum")
    one, low, high = new_listener("a"), new_listener("b", priority=-3), new_listener("c", priority=3)
    for listener in (one, low, high):
        subscribe(queue, listener)
    cancel(queue, one)
    assert queue.rotation.chosen is low


def test_next_in_line_may_leave(limited: Limited, message: NewMessage, new_listener: NewListener) -> None:
    queue = limited(single_active_consumer=True)
    one, two, three = new_listener("a"), new_listener("b"), new_listener("c")
    for listener in (one, two, three):
        subscribe(queue, listener)
    cancel(queue, two)
    push(queue, message(), 0)
    cancel(queue, one)
    push(queue, message(), 0)
    assert (one.seqs, two.seqs, three.seqs) == ([1], [], [2])


def test_exclusive_consumer_and_single_active_one_exclude_each_other(limited: Limited, new_listener: NewListener) -> None:
    queue = limited(single_active_consumer=True)
    queue.rotation.check_new(new_listener(), queue.title)
    with pytest.raises(AccessRefused, match=r"^queue 'q' in vhost '/' in exclusive use$"):
        queue.rotation.check_new(new_listener(exclusive=True), queue.title)


# Delivery limit


def test_message_given_back_too_often_is_dropped(limited: Limited, letter: NewLetter) -> None:
    queue = limited(delivery_limit=2)
    push(queue, letter(headers={"a": 1}), 0)
    push(queue, letter(), 0)
    for count in (1, 2):
        queue.requeue([take(queue)])
        assert queue.ready_count == 2
        first = queue.backlog.front.entries()[0]
        assert first.delivery_count == count
        told = properties_of(first.message.content, first.message.header_size)
        assert told.headers == {"a": 1, "x-delivery-count": count}
    queue.requeue([take(queue)])
    assert counts(queue) == (1, 1, 0, 0)
    assert seqs(queue) == [2]


def test_dropped_among_others_given_back(limited: Limited, message: NewMessage) -> None:
    queue = limited(delivery_limit=0)
    for _ in range(3):
        push(queue, message(), 0)
    queue.requeue([take(queue), take(queue)])
    assert seqs(queue) == [3]


def test_no_limit_is_no_limit(queue_with: NewQueue) -> None:
    queue = queue_with(1)
    for _ in range(100):
        queue.requeue([take(queue)])
    assert take(queue).delivery_count == 100


def test_queue_is_special_only_if_there_is_something_to_look_at(limited: Limited) -> None:
    assert not limited().needs_checks
    assert not limited(max_priority=5, delivery_limit=1, dead_letter_exchange="x", single_active_consumer=True).needs_checks
    for name in ("message_ttl", "max_length", "max_length_bytes"):
        assert limited(**{name: 0}).needs_checks
    assert limited(message_deduplication=True).needs_checks


# Floods


def test_very_full_queue_is_a_flood(queue_with: NewQueue, message: NewMessage, work: Work) -> None:
    queue = queue_with()
    push(queue, message(1 << 20), 0)
    assert work.budget.flooded is None
    push(queue, message(1), 0)
    assert work.budget.flooded is queue


def test_queue_hurries_if_one_of_its_consumers_does(queue_with: NewQueue, new_listener: NewListener) -> None:
    queue = queue_with()
    assert not queue.rotation.hurrying(0)
    listener = new_listener()
    subscribe(queue, listener)
    assert not queue.rotation.hurrying(0)
