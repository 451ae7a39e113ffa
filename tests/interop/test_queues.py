"""What the arguments of a queue do (SPEC §4.2 to §4.4), with pika; dead letters have test_dead_letters.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, NackError
from tests.interop.support import Inbox, fill, get, get_all, is_missing, ready_count, run_until

Declared = Callable[..., str]


def publish(channel: Any, queue: str, body: str, **properties: Any) -> None:
    channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def bodies(channel: Any, queue: str) -> list[str]:
    return [body for body, _ in get_all(channel, queue)]


# Times to live


def test_messages_of_a_queue_expire(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-message-ttl."""
    short, long = declared(x_message_ttl=50), declared(x_message_ttl=60_000)
    for queue in (short, long):
        fill(channel, queue, "a", "b")
    run_until(channel, lambda: not ready_count(channel, short))
    assert bodies(channel, long) == ["a", "b"]


def test_time_to_live_0_is_for_who_waits(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-message-ttl: 0, and SPEC §4.4 never to a consumer."""
    queue = declared(x_message_ttl=0)
    fill(channel, queue, "nobody waits")
    inbox = Inbox(channel, queue, auto_ack=True)
    fill(channel, queue, "somebody waits")
    assert inbox.wait(1) == ["somebody waits"]


def test_message_may_have_a_time_of_its_own(channel: Any, declared: Declared) -> None:
    """SPEC §2.3 expiration: ms as a string; the shorter of the message's and the queue's counts."""
    queue = declared(x_message_ttl=60_000)
    publish(channel, queue, "a", expiration="50")
    publish(channel, queue, "b", expiration="120000")
    run_until(channel, lambda: ready_count(channel, queue) == 1)
    assert bodies(channel, queue) == ["b"]


def test_expired_message_is_not_delivered(channel: Any, declared: Declared) -> None:
    """SPEC §4.4 never to a consumer: neither to one that comes late nor to basic.get."""
    late, got = declared(), declared()
    for queue in (late, got):
        for body in "abc":
            publish(channel, queue, body, expiration="100")
        fill(channel, queue, "d")
    time.sleep(0.2)
    assert Inbox(channel, late, auto_ack=True).wait(1) == ["d"]
    assert bodies(channel, got) == ["d"]


def test_message_expires_behind_others_too(channel: Any, declared: Declared) -> None:
    """SPEC §4.4 in time: dead-lettered when it is due, not when it has come to the head."""
    dead = declared()
    queue = declared(dead)
    fill(channel, queue, "stays")
    publish(channel, queue, "goes", expiration="50")
    run_until(channel, lambda: ready_count(channel, dead))
    assert bodies(channel, dead) == ["goes"]
    assert bodies(channel, queue) == ["stays"]


def test_unused_queue_expires(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-expires: not while somebody consumes, and not sooner after a get."""
    unused, used, got = (declared(x_expires=500) for _ in range(3))
    Inbox(channel, used)
    for _ in range(4):
        time.sleep(0.25)
        get(channel, got)
    assert [is_missing(channel.connection, queue) for queue in (unused, used, got)] == [True, False, False]


# Lengths


def test_queue_keeps_the_newest(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-max-length, and SPEC §4.2 x-overflow drop-head, which is what happens without it."""
    for queue in (declared(x_max_length=2), declared(x_max_length=2, x_overflow="drop-head")):
        fill(channel, queue, "a", "b", "c")
        assert bodies(channel, queue) == ["b", "c"]


def test_queue_bounds_its_bytes(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-max-length-bytes: of the bodies."""
    queue = declared(x_max_length_bytes=10)
    fill(channel, queue, "aaaaa", "bbbbb", "c")
    assert bodies(channel, queue) == ["bbbbb", "c"]
    fill(channel, queue, "larger than ten")
    assert bodies(channel, queue) == []


def test_unacknowledged_messages_do_not_count(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-max-length: of what is ready."""
    queue = declared(x_max_length=1)
    fill(channel, queue, "a")
    channel.basic_get(queue)
    fill(channel, queue, "b")
    assert ready_count(channel, queue) == 1
    channel.basic_ack(1)
    assert bodies(channel, queue) == ["b"]


def test_full_queue_refuses(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-overflow reject-publish, and SPEC §5.4 nack under reject-publish."""
    dead = declared()
    queue = declared(dead, x_max_length=2, x_overflow="reject-publish")
    fill(channel, queue, "a", "b")
    with pytest.raises(NackError):
        fill(channel, queue, "c")
    assert bodies(channel, queue) == ["a", "b"]
    assert bodies(channel, dead) == []


def test_full_queue_refuses_and_dead_letters(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-overflow reject-publish-dlx."""
    dead = declared()
    queue = declared(dead, x_max_length=1, x_overflow="reject-publish-dlx")
    fill(channel, queue, "a")
    with pytest.raises(NackError):
        fill(channel, queue, "b")
    assert bodies(channel, queue) == ["a"]
    assert bodies(channel, dead) == ["b"]


def test_refusal_of_one_queue_refuses_the_message(channel: Any, declared: Declared) -> None:
    """SPEC §5.4 nack under reject-publish: by any of the queues; the others have it."""
    full, free = declared(x_max_length=0, x_overflow="reject-publish"), declared()
    for queue in (full, free):
        channel.queue_bind(queue, "amq.direct", full)
    with pytest.raises(NackError):
        channel.basic_publish("amq.direct", full, b"m")
    assert bodies(channel, free) == ["m"]


# Order


def test_messages_keep_their_order(channel: Any, declared: Declared) -> None:
    """SPEC §4.3 FIFO, and SPEC §4.3 requeued in their place."""
    queue = declared()
    fill(channel, queue, *"abcde")
    for _ in range(3):
        channel.basic_get(queue)
    channel.basic_reject(2, requeue=True)
    channel.basic_nack(0, multiple=True, requeue=True)
    assert get_all(channel, queue) == [("a", True), ("b", True), ("c", True), ("d", False), ("e", False)]


def test_highest_priority_goes_first(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-max-priority, SPEC §4.3 priorities and SPEC §2.3 priority: none is 0, more than the limit is the limit."""
    queue = declared(x_max_priority=5)
    for body, priority in (("none", None), ("0", 0), ("9", 9), ("1", 1), ("5", 5), ("255", 255), ("again 1", 1)):
        publish(channel, queue, body, priority=priority)
    assert bodies(channel, queue) == ["9", "5", "255", "1", "again 1", "none", "0"]


def test_priority_means_nothing_without_the_argument(channel: Any, queue: str) -> None:
    """SPEC §4.3 priorities: only when x-max-priority is set."""
    for priority in (1, 9, 5):
        publish(channel, queue, str(priority), priority=priority)
    assert bodies(channel, queue) == ["1", "9", "5"]


def test_priorities_keep_their_order_when_given_back(channel: Any, declared: Declared) -> None:
    """SPEC §4.3 requeued in their place, within their priority."""
    queue = declared(x_max_priority=9)
    for body in ("1a", "9a", "9b", "1b"):
        publish(channel, queue, body, priority=int(body[0]))
    for _ in range(3):
        channel.basic_get(queue)
    channel.basic_nack(0, multiple=True, requeue=True)
    assert bodies(channel, queue) == ["9a", "9b", "1a", "1b"]


# Consumers


def test_only_one_consumer_is_active(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-single-active-consumer and SPEC §6.1 single active consumer: the next one when it leaves."""
    queue = declared(x_single_active_consumer=True)
    first, second = (Inbox(channel, queue, auto_ack=True) for _ in range(2))
    fill(channel, queue, "a", "b")
    assert first.wait(2) == ["a", "b"]
    channel.basic_cancel(first.tag)
    fill(channel, queue, "c")
    assert second.wait(1) == ["c"]


# Types of queues, and what is only kept


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-mode": "lazy"},  # SPEC §4.2 x-queue-mode
        {"x-queue-version": 2},  # SPEC §4.2 x-queue-version
        {"x-queue-type": "classic"},  # SPEC §4.2 x-queue-type classic
        {"x-queue-type": "quorum"},  # SPEC §4.2 x-queue-type quorum
        {"x-queue-master-locator": "min-masters"},  # SPEC §4.2 x-queue-master-locator
        {"x-queue-type": "quorum", "x-queue-leader-locator": "client-local"},  # SPEC §4.2 x-queue-leader-locator
        {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1},  # SPEC §4.2 x-quorum-initial-group-size
        {"x-ha-policy": "all"},  # SPEC §4.2 x-ha-policy
        {"x-ha-policy": "nodes", "x-ha-nodes": ["here"]},  # SPEC §4.2 x-ha-nodes
        {"x-nobody-knows": -1, "and-neither": [{"this": None}]},  # SPEC §4.2 unknown arguments
    ],
    ids=str,
)
def test_queue_is_as_good_as_any(channel: Any, unique: Callable[[], str], arguments: dict[str, Any]) -> None:
    name = unique()
    for _ in range(2):
        channel.queue_declare(name, durable=True, arguments=arguments)
    fill(channel, name, "a", "b")
    inbox = Inbox(channel, name)
    assert inbox.wait(2) == ["a", "b"]
    channel.basic_ack(2, multiple=True)
    channel.basic_cancel(inbox.tag)
    assert channel.queue_delete(name).method.message_count == 0


def test_unknown_arguments_are_not_compared(channel: Any, unique: Callable[[], str]) -> None:
    """SPEC §4.2 unknown arguments: a second declaration may have others."""
    name = unique()
    channel.queue_declare(name, arguments={"x-nobody-knows": 1})
    channel.queue_declare(name, arguments={"x-nobody-knows": "2"})
    channel.queue_declare(name)


def test_queue_of_streams_is_refused(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-queue-type stream: 540 closes the connection."""
    with pytest.raises(ConnectionClosedByBroker) as caught:
        declared(x_queue_type="stream")
    assert (caught.value.reply_code, caught.value.reply_text) == (540, "NOT_IMPLEMENTED - stream queues")


def test_quorum_queue_counts_deliveries(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-queue-type quorum: x-delivery-count from the second delivery on."""
    queue = declared(x_queue_type="quorum")
    fill(channel, queue, "a")
    counts: list[Any] = []

    def on_message(_channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        counts.append((properties.headers or {}).get("x-delivery-count"))
        channel.basic_reject(method.delivery_tag, requeue=len(counts) < 3)

    channel.basic_consume(queue, on_message)
    run_until(channel, lambda: len(counts) == 3)
    assert counts == [None, 1, 2]


# Deduplication


def test_duplicate_is_dropped_and_confirmed(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-message-deduplication and SPEC §5.3 deduplication: as long as the first one is in the queue."""
    queue = declared(x_message_deduplication=True)

    def send(body: str, value: Any) -> None:
        publish(channel, queue, body, headers={"x-deduplication-header": value})

    for body, value in (("a", "1"), ("b", "1"), ("c", "2")):
        send(body, value)
    fill(channel, queue, "no header", "no header")
    assert bodies(channel, queue) == ["a", "c", "no header", "no header"]
    send("d", "1")
    method, _, _ = channel.basic_get(queue)
    send("e", "1")
    channel.basic_reject(method.delivery_tag, requeue=True)
    assert bodies(channel, queue) == ["d"]


def test_duplicates_are_known_for_longer(channel: Any, declared: Declared) -> None:
    """SPEC §5.3 x-cache-size and SPEC §5.3 x-cache-ttl: after the first one has left the queue."""
    for queue in (
        declared(x_message_deduplication=True, x_cache_size=1),
        declared(x_message_deduplication=True, x_cache_size=10, x_cache_ttl=60_000),
    ):
        for _ in range(2):
            publish(channel, queue, "a", headers={"x-deduplication-header": "1"})
            assert len(bodies(channel, queue)) <= 1
        publish(channel, queue, "b", headers={"x-deduplication-header": "1"})
        assert bodies(channel, queue) == []


# What cannot be


def test_argument_cannot_be_changed(channel: Any, declared: Declared) -> None:
    """SPEC §4.1 equivalence check: of arguments too, whatever the width of a number."""
    queue = declared(x_message_ttl=60_000)
    channel.queue_declare(queue, durable=True, arguments={"x-message-ttl": pika.compat.long(60_000)})
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'x-message-ttl'"):
        channel.queue_declare(queue, durable=True, arguments={"x-message-ttl": 50_000})
