"""Expiry: of messages, wherever they are in their queue, and of queues nobody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.arguments import queue_settings_of
from leveret.broker.broker import Broker
from leveret.broker.dispatch import cancel, push, subscribe
from leveret.broker.expiry import STALE_MAX
from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.broker.timers import NEVER
from leveret.broker.vhost import VirtualHost
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter, NewListener


def take(queue: Queue) -> Entry:
    entry = queue.take(False)
    assert entry is not None
    return entry


def ready(queue: Queue) -> list[int]:
    """The seqs of what is ready."""
    seqs = [entry.seq for entry in queue.backlog.front.entries()]
    assert len(seqs) == queue.ready_count
    return seqs


def declared(vhost: VirtualHost, arguments: Table | None = None) -> Queue:
    return vhost.declare_queue("q", arguments=arguments)


@pytest.fixture
def queue(vhost: VirtualHost) -> Queue:
    """A queue whose messages live for 100 ms."""
    return declared(vhost, {"x-message-ttl": 100})


# Messages


def test_queue_says_how_long_messages_live(queue: Queue, broker: Broker, letter: NewLetter, later: Later) -> None:
    push(queue, letter(), 1000)
    push(queue, letter(), 1050)
    assert broker.timers.next_at() == 1100
    later(1099)
    assert ready(queue) == [1, 2]
    later(1100)
    assert ready(queue) == [2]
    later(1150)
    assert (ready(queue), queue.ready_bytes, broker.timers.next_at()) == ([], 0, NEVER)


def test_message_says_how_long_it_lives(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    queue = declared(vhost)
    push(queue, letter(expiration="50"), 1000)
    push(queue, letter(), 1000)
    later(1049)
    assert ready(queue) == [1, 2]
    later(1050)
    assert ready(queue) == [2]
    later(10**9)
    assert ready(queue) == [2]


@pytest.mark.parametrize(("expiration", "gone_at"), [("30", 1030), ("100", 1100), ("5000", 1100)])
def test_the_shorter_of_both_counts(queue: Queue, letter: NewLetter, later: Later, expiration: str, gone_at: int) -> None:
    push(queue, letter(expiration=expiration), 1000)
    later(gone_at - 1)
    assert ready(queue) == [1]
    later(gone_at)
    assert ready(queue) == []


def test_messages_expire_wherever_they_are(vhost: VirtualHost, broker: Broker, letter: NewLetter, later: Later) -> None:
    queue = declared(vhost)
    for expiration in ("500", "100", "300", "200"):
        push(queue, letter(expiration=expiration), 0)
    push(queue, letter(), 0)
    later(100)
    assert ready(queue) == [1, 3, 4, 5]
    assert broker.timers.next_at() == 200
    later(300)
    assert ready(queue) == [1, 5]
    later(500)
    assert ready(queue) == [5]


def test_messages_behind_those_of_higher_priority_expire(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    queue = declared(vhost, {"x-message-ttl": 100, "x-max-priority": 5})
    push(queue, letter(priority=1), 1000)
    push(queue, letter(priority=5), 1050)
    later(1100)
    assert ready(queue) == [2]


def test_expired_message_is_never_taken(queue: Queue, broker: Broker, letter: NewLetter, new_listener: NewListener) -> None:
    """The timer may be late."""
    push(queue, letter(), 1000)
    push(queue, letter(), 1050)
    broker.work.budget.now = 1120
    assert take(queue).seq == 2
    broker.work.budget.now = 2000
    push(queue, letter(), 1050)
    assert queue.take(False) is None
    listener = new_listener()
    push(queue, letter(), 1050)
    subscribe(queue, listener)
    assert (listener.seqs, ready(queue)) == ([], [])


def test_ttl_0_is_for_whoever_waits(vhost: VirtualHost, letter: NewLetter, new_listener: NewListener) -> None:
    queue, listener = declared(vhost, {"x-message-ttl": 0}), new_listener(count=1)
    assert push(queue, letter(), 1000)
    assert ready(queue) == []
    subscribe(queue, listener)
    push(queue, letter(), 1000)
    push(queue, letter(), 1000)
    assert (listener.seqs, ready(queue)) == ([2], [])


def test_message_with_ttl_0_leaves_the_others(vhost: VirtualHost, letter: NewLetter) -> None:
    queue = declared(vhost)
    push(queue, letter(), 1000)
    push(queue, letter(expiration="0"), 1000)
    assert (ready(queue), queue.ready_bytes) == ([1], 1)


def test_unacknowledged_message_does_not_expire(queue: Queue, letter: NewLetter, later: Later) -> None:
    push(queue, letter(), 1000)
    entry = take(queue)
    later(5000)
    assert queue.unacked_count == 1
    queue.requeue([entry])
    later(5000)
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


@pytest.mark.parametrize("expiration", [None, "80"])
def test_message_given_back_keeps_its_time(queue: Queue, letter: NewLetter, later: Later, expiration: str | None) -> None:
    push(queue, letter(**({"expiration": expiration} if expiration else {})), 1000)
    push(queue, letter(), 1050)
    entry = take(queue)
    later(1060)
    queue.requeue([entry])
    later(1079)
    assert ready(queue) == [1, 2]
    later(1100)
    assert ready(queue) == [2]


def test_purged_messages_need_no_timer(queue: Queue, broker: Broker, letter: NewLetter, later: Later) -> None:
    push(queue, letter(), 1000)
    push(queue, letter(expiration="10"), 1000)
    assert queue.purge() == 2
    assert broker.timers.next_at() == NEVER
    push(queue, letter(), 2000)
    later(2099)
    assert ready(queue) == [3]
    later(2100)
    assert ready(queue) == []


def test_deleted_queue_expires_nothing(queue: Queue, vhost: VirtualHost, letter: NewLetter) -> None:
    push(queue, letter(), 1000)
    vhost.remove_queue(queue)
    queue.expire(5000)
    assert queue.ready_count == 0


def test_many_expire_in_pieces(queue: Queue, broker: Broker, letter: NewLetter) -> None:
    message = letter()
    for _ in range(5000):
        push(queue, message, 1000)
    broker.work.budget.begin()
    broker.work.budget.now = 1100
    broker.timers.run(1100, 10)
    assert queue.ready_count == 3000
    count = 0
    while broker.work:
        broker.work.budget.begin()
        broker.work.drain()
        count += 1
    assert (queue.ready_count, count) == (0, 2)


def test_messages_that_left_in_time_are_not_remembered(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    queue = declared(vhost)
    message = letter(expiration="1000")
    for _ in range(STALE_MAX + 10):
        push(queue, message, 0)
        queue.settle(take(queue))
    push(queue, message, 0)
    later(999)
    assert queue.ready_count == 1
    later(1000)
    assert queue.ready_count == 0


def test_new_limit_holds_for_messages_already_there(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    queue = declared(vhost)
    push(queue, letter(), 0)
    push(queue, letter(expiration="20"), 0)
    push(queue, letter(expiration="900"), 0)
    queue.apply(queue_settings_of({}, {"message-ttl": 50}, {}), 10)
    push(queue, letter(), 20)
    later(20)
    assert ready(queue) == [1, 3, 4]
    later(60)
    assert ready(queue) == [4]
    later(70)
    assert ready(queue) == []


# Queues


@pytest.fixture
def leased(vhost: VirtualHost) -> Queue:
    """A queue that goes when it was not used for 100 ms, declared at 0."""
    return declared(vhost, {"x-expires": 100})


def test_unused_queue_goes(leased: Queue, vhost: VirtualHost, broker: Broker, letter: NewLetter, later: Later) -> None:
    push(leased, letter(), 50)
    later(99)
    assert "q" in vhost.queues
    later(100)
    assert ("q" in vhost.queues, leased.deleted, broker.timers.next_at()) == (False, True, NEVER)


def test_get_and_declaration_renew_it(leased: Queue, vhost: VirtualHost, later: Later) -> None:
    later(60)
    leased.renew_expiry(60)
    later(159)
    assert not leased.deleted
    declared(vhost, {"x-expires": 100})
    later(258)
    assert not leased.deleted
    later(259)
    assert leased.deleted


def test_queue_with_consumers_stays(leased: Queue, broker: Broker, later: Later, new_listener: NewListener) -> None:
    listener = new_listener()
    subscribe(leased, listener)
    later(1000)
    assert (leased.deleted, broker.timers.next_at()) == (False, NEVER)
    later(1050)
    cancel(leased, listener)
    later(1149)
    assert not leased.deleted
    later(1150)
    assert leased.deleted


def test_consumer_that_comes_at_the_last_moment_keeps_it(
    leased: Queue, broker: Broker, later: Later, new_listener: NewListener
) -> None:
    broker.timers.run(100, 10)
    subscribe(leased, new_listener())
    later(100)
    assert not leased.deleted


def test_deleted_queue_leaves_no_timer(leased: Queue, vhost: VirtualHost, broker: Broker) -> None:
    expiry = leased.queue_expiry
    assert expiry is not None
    vhost.remove_queue(leased)
    assert broker.timers.next_at() == NEVER
    expiry.due(500)
    assert broker.timers.next_at() == NEVER


def test_lease_may_be_changed_and_ended(leased: Queue, later: Later) -> None:
    leased.apply(queue_settings_of({"x-expires": 100}, {"expires": 30}, {}), 10)
    later(39)
    assert not leased.deleted
    leased.apply(queue_settings_of({}, {}, {}), 39)
    later(1000)
    assert not leased.deleted
    leased.apply(queue_settings_of({}, {"expires": 30}, {}), 1000)
    later(1030)
    assert leased.deleted


def test_queue_without_an_owner_of_its_lease_stays(queue: Queue) -> None:
    queue.when_expired = None
    queue.expire_unused()
    assert not queue.deleted
