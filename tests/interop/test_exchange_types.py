"""The exchange types of RabbitMQ's plugins, with pika."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError

Unique = Callable[[], str]
PATIENCE = 60.0


@pytest.fixture
def exchange(channel: Any, unique: Unique) -> Callable[..., str]:
    """Declare an exchange of this type."""

    def declared(kind: str, **arguments: Any) -> str:
        name = unique()
        table = {argument.replace("_", "-"): value for argument, value in arguments.items()}
        channel.exchange_declare(name, kind, durable=True, arguments=table)
        return name

    return declared


@pytest.fixture
def bound(channel: Any, unique: Unique) -> Callable[..., str]:
    """Declare a queue that is bound to the exchange."""

    def made(source: str, key: str = "") -> str:
        name = unique()
        channel.queue_declare(name)
        channel.queue_bind(name, source, key)
        return name

    return made


def publish(channel: Any, exchange: str, body: str, key: str = "", *, mandatory: bool = False, **properties: Any) -> None:
    channel.basic_publish(exchange, key, body.encode(), pika.BasicProperties(**properties), mandatory=mandatory)


def get_all(channel: Any, queue: str) -> list[tuple[str, Any]]:
    """Body and properties of what is ready."""
    found = iter(lambda: channel.basic_get(queue, auto_ack=True), (None, None, None))
    return [(body.decode(), properties) for _, properties, body in found]


def bodies(channel: Any, queue: str) -> list[str]:
    return [body for body, _ in get_all(channel, queue)]


def receive(channel: Any, queue: str, count: int) -> list[tuple[float, str, Any]]:
    """Consume so many messages: when each came, its body and properties."""
    received: list[tuple[float, str, Any]] = []
    for _, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=PATIENCE):
        assert body is not None, f"only {received}"
        received.append((time.monotonic(), body.decode(), properties))
        if len(received) == count:
            channel.cancel()
            return received
    raise AssertionError("the consumer was cancelled")


def test_consistent_hash_keeps_keys_together_and_spreads_them(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 x-consistent-hash."""
    name = exchange("x-consistent-hash")
    queues = [bound(name, weight) for weight in ("1", "3")]
    for _ in range(2):
        for number in range(200):
            publish(channel, name, str(number), f"key {number}")
    found = [Counter(bodies(channel, queue)) for queue in queues]
    assert set(found[0].values()) == set(found[1].values()) == {2}
    assert not found[0].keys() & found[1].keys()
    assert 20 < len(found[0]) < 80


def test_consistent_hash_by_a_header(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 hash-header."""
    name = exchange("x-consistent-hash", hash_header="customer")
    queues = [bound(name, "1") for _ in range(2)]
    for number in range(100):
        publish(channel, name, str(number % 50), f"key {number}", headers={"customer": number % 50})
    found = [Counter(bodies(channel, queue)) for queue in queues]
    assert set(found[0].values()) == set(found[1].values()) == {2}


def test_consistent_hash_by_a_property(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 hash-property."""
    name = exchange("x-consistent-hash", hash_property="message_id")
    queues = [bound(name, "1") for _ in range(2)]
    for number in range(100):
        publish(channel, name, str(number % 50), f"key {number}", message_id=f"id {number % 50}")
    found = [Counter(bodies(channel, queue)) for queue in queues]
    assert set(found[0].values()) == set(found[1].values()) == {2}


def test_consistent_hash_refuses_what_is_no_weight(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 x-consistent-hash."""
    name = exchange("x-consistent-hash")
    with pytest.raises(ChannelClosedByBroker) as caught:
        bound(name, "heavy")
    assert caught.value.reply_code == 406
    assert caught.value.reply_text == 'PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>'


def test_delayed_messages_come_when_they_are_due(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 x-delayed-message, SPEC §3.1 x-delayed-type and SPEC §3.1 x-delay."""
    name = exchange("x-delayed-message", x_delayed_type="topic")
    queue = bound(name, "a.#")
    start = time.monotonic()
    for body, headers in (("late", {"x-delay": 600}), ("soon", {"x-delay": 200}), ("now", {"other": 1}), ("none", None)):
        publish(channel, name, body, "a.b", mandatory=True, headers=headers)
    publish(channel, name, "elsewhere", "b", mandatory=True, headers={"x-delay": 1})
    received = receive(channel, queue, 4)
    assert [body for _, body, _ in received] == ["now", "none", "soon", "late"]
    for (at, _, properties), delay_ms in zip(received[2:], (200, 600), strict=True):
        assert delay_ms <= (at - start) * 1000 + 1
        assert properties.headers == {"x-delay": -delay_ms}


def test_random_exchange_uses_all_its_queues(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 x-random."""
    name = exchange("x-random")
    queues = [bound(name, "ignored") for _ in range(2)]
    for number in range(60):
        publish(channel, name, str(number), "same key", mandatory=True)
    found = [bodies(channel, queue) for queue in queues]
    assert sorted(map(int, found[0] + found[1])) == list(range(60))
    assert min(map(len, found)) > 5


def test_recent_history_is_given_to_those_who_come_later(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §3.1 x-recent-history."""
    name = exchange("x-recent-history", x_recent_history_length=3)
    with pytest.raises(UnroutableError):
        publish(channel, name, "a", mandatory=True)
    early = bound(name)
    publish(channel, name, "b", headers={"x-recent-history-no-store": True})
    for body in "cde":
        publish(channel, name, body)
    assert bodies(channel, early) == ["a", "b", "c", "d", "e"]
    assert bodies(channel, bound(name)) == ["c", "d", "e"]


def test_deduplication_exchange_lets_each_value_through_once(channel: Any, exchange: Any, bound: Any) -> None:
    """SPEC §5.3 x-message-deduplication exchange."""
    name = exchange("x-message-deduplication", x_cache_size=100, x_cache_ttl=60_000)
    queues = [bound(name) for _ in range(2)]
    for body, value in (("a", "1"), ("b", "1"), ("c", 1), ("d", True), ("e", 1)):
        publish(channel, name, body, headers={"x-deduplication-header": value})
    publish(channel, name, "f")
    assert [bodies(channel, queue) for queue in queues] == [["a", "c", "d", "f"]] * 2
