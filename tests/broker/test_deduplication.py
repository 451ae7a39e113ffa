"""Deduplication: what is in a queue once, and what is remembered after it has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.broker.deduplication import CACHE_SIZE_MAX, KEY_SIZE_MAX, Cache, Deduplication, key_of, key_of_value
from leveret.broker.dispatch import push, subscribe
from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.wire.values import Byte, SignedInt, Timestamp, UnsignedInt, Value

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter, NewListener

HEADER = "x-deduplication-header"


def take(queue: Queue, no_ack: bool = False) -> Entry:
    entry = queue.take(no_ack)
    assert entry is not None
    return entry


@pytest.fixture
def queue(vhost: VirtualHost) -> Queue:
    return vhost.declare_queue("q", arguments={"x-message-deduplication": True})


def test_key_is_a_header(letter: NewLetter) -> None:
    assert key_of(letter()) is None
    assert key_of(letter(headers={})) is None
    assert key_of(letter(headers={HEADER: "a"})) == b"S\x00\x00\x00\x01a"
    assert key_of(letter(headers={HEADER: 5})) == b"l" + bytes(7) + b"\x05"


def test_keys_of_other_types_are_other_keys() -> None:
    """SPEC §5.3 deduplication: 1, true, a time and a text are four; the width of a whole number does not count."""
    values: list[Value] = [1, True, Timestamp(1), "1", b"1", 2, False]
    assert len({key_of_value(value) for value in values}) == len(values)
    assert {key_of_value(value) for value in (Byte(1), SignedInt(1), UnsignedInt(1))} == {key_of_value(1)}


def test_long_keys_are_kept_short() -> None:
    keys = {key_of_value("a" * 10_000 + tail) for tail in "abc"}
    assert len(keys) == 3
    assert all(key is not None and len(key) <= KEY_SIZE_MAX for key in keys)


@pytest.mark.parametrize("value", [None, 1.5, ["a"], {"a": 1}])
def test_key_of_another_type_is_none(letter: NewLetter, value: Value) -> None:
    assert key_of(letter(headers={HEADER: value})) is None


def test_queue_takes_a_key_once(queue: Queue, letter: NewLetter) -> None:
    for key in ("a", "b", "a", "b", "c"):
        assert push(queue, letter(headers={HEADER: key}), 0)
    assert queue.ready_count == 3


def test_messages_without_a_key_are_all_taken(queue: Queue, letter: NewLetter) -> None:
    for _ in range(3):
        push(queue, letter(), 0)
    assert queue.ready_count == 3
    queue.settle(take(queue))


def test_other_queues_take_what_comes(vhost: VirtualHost, letter: NewLetter) -> None:
    queue = vhost.declare_queue("q", arguments={"x-message-deduplication": False})
    for _ in range(2):
        push(queue, letter(headers={HEADER: "a"}), 0)
    assert queue.ready_count == 2


def test_unacknowledged_message_is_still_there(queue: Queue, letter: NewLetter) -> None:
    message = letter(headers={HEADER: "a"})
    push(queue, message, 0)
    entry = take(queue)
    push(queue, message, 0)
    assert queue.ready_count == 0
    queue.requeue([entry])
    push(queue, message, 0)
    assert queue.ready_count == 1
    queue.settle(take(queue))
    push(queue, message, 0)
    assert queue.ready_count == 1


def test_message_that_left_may_come_again(queue: Queue, letter: NewLetter, new_listener: NewListener, later: Later) -> None:
    message = letter(headers={HEADER: "a"}, expiration="10")
    push(queue, message, 0)
    take(queue, no_ack=True)
    push(queue, message, 0)
    queue.reject(take(queue))
    push(queue, message, 0)
    later(10)
    assert queue.ready_count == 0
    listener = new_listener(no_ack=True)
    subscribe(queue, listener)
    push(queue, message, 20)
    push(queue, message, 20)
    assert len(listener.delivered) == 2


def test_purged_message_may_come_again(queue: Queue, letter: NewLetter) -> None:
    push(queue, letter(headers={HEADER: "a"}), 0)
    queue.purge()
    push(queue, letter(headers={HEADER: "a"}), 0)
    assert queue.ready_count == 1


def test_purging_leaves_what_is_unacknowledged(queue: Queue, letter: NewLetter) -> None:
    for key in ("a", "b"):
        push(queue, letter(headers={HEADER: key}), 0)
    take(queue)
    assert queue.purge() == 1
    push(queue, letter(headers={HEADER: "a"}), 0)
    assert queue.ready_count == 0
    push(queue, letter(headers={HEADER: "b"}), 0)
    assert queue.ready_count == 1


def test_refused_message_is_not_remembered(vhost: VirtualHost, letter: NewLetter) -> None:
    arguments: dict[str, Value] = {"x-message-deduplication": True, "x-max-length": 1, "x-overflow": "reject-publish"}
    queue = vhost.declare_queue("q", arguments=arguments)
    assert push(queue, letter(headers={HEADER: "a"}), 0)
    assert not push(queue, letter(headers={HEADER: "b"}), 0)
    assert push(queue, letter(headers={HEADER: "a"}), 0), "it is there, so all is well"
    queue.settle(take(queue))
    assert push(queue, letter(headers={HEADER: "b"}), 0)
    assert queue.ready_count == 1


def test_worn_out_message_may_come_again(vhost: VirtualHost, letter: NewLetter) -> None:
    queue = vhost.declare_queue("q", arguments={"x-message-deduplication": True, "x-delivery-limit": 0})
    push(queue, letter(headers={HEADER: "a"}), 0)
    queue.requeue([take(queue)])
    assert queue.ready_count == 0
    push(queue, letter(headers={HEADER: "a"}), 0)
    assert queue.ready_count == 1


# Remembering


def test_keys_are_counted() -> None:
    keys = Deduplication({})
    keys.add(b"a")
    keys.add(b"a")
    keys.remove(b"a", 0)
    assert keys.seen(b"a", 0)
    keys.remove(b"a", 0)
    keys.remove(b"a", 0)
    assert not keys.seen(b"a", 0)


def test_so_many_are_remembered() -> None:
    keys = Deduplication({"x-cache-size": 2})
    for key in (b"a", b"b", b"c"):
        keys.add(key)
        keys.remove(key, 0)
    assert [keys.seen(key, 10**12) for key in (b"a", b"b", b"c")] == [False, True, True]


@pytest.mark.parametrize("size", [{}, {"x-cache-size": 5}])
def test_they_are_remembered_for_so_long(size: dict[str, Value]) -> None:
    keys = Deduplication({"x-cache-ttl": 100, **size})
    keys.add(b"a")
    keys.remove(b"a", 1000)
    assert keys.seen(b"a", 1099)
    assert not keys.seen(b"a", 1100)


def test_no_key_is_never_seen() -> None:
    keys = Deduplication({"x-cache-size": 2})
    keys.add(None)
    keys.remove(None, 0)
    keys.forget(None)
    assert not keys.seen(None, 0)


def test_expired_keys_do_not_stay() -> None:
    """SPEC §5.3 deduplication: with a time and no size, as many are kept as came within that time."""
    cache = Cache(CACHE_SIZE_MAX, 100)
    longest = 0
    for now in range(5000):
        cache.add(str(now).encode(), now)
        longest = max(longest, len(cache))
    assert longest <= 101
    for _ in range(15):
        assert not cache.has(b"4999", 10_000)
    assert len(cache) == 0, "some at each use"


def test_many_expired_keys_go_a_few_at_a_time() -> None:
    cache = Cache(CACHE_SIZE_MAX, 100)
    for number in range(1000):
        cache.add(str(number).encode(), 0)
    cache.has(b"", 100)
    assert 900 < len(cache) < 1000


def test_key_that_is_seen_anew_is_the_newest() -> None:
    cache = Cache(2, 100)
    cache.add(b"a", 0)
    cache.add(b"b", 50, 10)
    cache.add(b"a", 60)
    cache.add(b"c", 60)
    assert [cache.has(key, 60) for key in (b"a", b"b", b"c")] == [True, False, True]
    cache.add(b"d", 60)
    assert [cache.has(key, 60) for key in (b"a", b"c", b"d")] == [False, True, True]


def test_cache_is_bounded() -> None:
    cache = Cache(0, 100)
    cache.add(b"a", 0)
    assert len(cache) == 0
    assert not cache.has(b"a", 0)


def test_queue_remembers(vhost: VirtualHost, broker: Broker, letter: NewLetter) -> None:
    queue = vhost.declare_queue("q", arguments={"x-message-deduplication": True, "x-cache-ttl": 100})
    message = letter(headers={HEADER: "a"})
    push(queue, message, 1000)
    broker.work.budget.now = 1000
    queue.settle(take(queue))
    push(queue, message, 1099)
    assert queue.ready_count == 0
    push(queue, message, 1100)
    assert queue.ready_count == 1
