"""Which messages die, of what, and where they go (SPEC §4.5), with pika."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pika
import pytest
from tests.interop.support import PATIENCE, fill, ready_count

Declared = Callable[..., str]


@pytest.fixture
def dead(declared: Declared) -> str:
    """Where the dead letters go."""
    return declared()


def letter(channel: Any, queue: str) -> tuple[Any, Any, str]:
    """Wait for a dead letter: its method, headers and body."""
    deadline = time.monotonic() + PATIENCE
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is not None:
            assert properties.headers is not None
            return method, properties, body.decode()
        assert time.monotonic() < deadline, "no dead letter"
        time.sleep(0.01)


def story(properties: Any) -> list[tuple[str, str, int]]:
    return [(death["queue"], death["reason"], death["count"]) for death in properties.headers["x-death"]]


@pytest.mark.parametrize("act", ["reject", "nack", "nack multiple"])
def test_rejected_message_dies(channel: Any, declared: Declared, dead: str, act: str) -> None:
    """SPEC §4.5 rejected."""
    queue = declared(dead)
    fill(channel, queue, "a")
    channel.basic_get(queue)
    if act == "reject":
        channel.basic_reject(1, requeue=False)
    else:
        channel.basic_nack(1, multiple=act == "nack multiple", requeue=False)
    _, properties, body = letter(channel, dead)
    assert (body, story(properties)) == ("a", [(queue, "rejected", 1)])


def test_expired_message_dies(channel: Any, declared: Declared, dead: str) -> None:
    """SPEC §4.5 expired: by the queue's time, or its own, which it then has no more."""
    queue = declared(dead, x_message_ttl=50)
    fill(channel, queue, "a")
    _, properties, body = letter(channel, dead)
    assert (body, story(properties)) == ("a", [(queue, "expired", 1)])
    assert "original-expiration" not in properties.headers["x-death"][0]
    channel.basic_publish("", queue, b"b", pika.BasicProperties(expiration="20"))
    _, properties, body = letter(channel, dead)
    assert (body, story(properties), properties.expiration) == ("b", [(queue, "expired", 1)], None)
    assert properties.headers["x-death"][0]["original-expiration"] == "20"


def test_message_beyond_the_length_dies(channel: Any, declared: Declared, dead: str) -> None:
    """SPEC §4.5 maxlen."""
    queue = declared(dead, x_max_length=1)
    fill(channel, queue, "a", "b")
    _, properties, body = letter(channel, dead)
    assert (body, story(properties)) == ("a", [(queue, "maxlen", 1)])


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_message_given_back_too_often_dies(channel: Any, declared: Declared, dead: str, kind: str) -> None:
    """SPEC §4.5 delivery_limit and SPEC §4.2 x-delivery-limit: of any queue."""
    queue = declared(dead, x_queue_type=kind, x_delivery_limit=1)
    fill(channel, queue, "a")
    for tag in (1, 2):
        while channel.basic_get(queue)[0] is None:
            time.sleep(0.01)
        channel.basic_reject(tag, requeue=True)
    _, properties, body = letter(channel, dead)
    assert (body, story(properties)) == ("a", [(queue, "delivery_limit", 1)])
    assert ready_count(channel, queue) == 0


def test_dead_letter_tells_its_story(channel: Any, declared: Declared, unique: Callable[[], str]) -> None:
    """SPEC §4.2 x-dead-letter-exchange: with its own key and the rest of its properties as they were.

    SPEC §4.5 x-death, SPEC §4.5 x-first-death and SPEC §4.5 x-last-death.
    """
    exchange = unique()
    channel.exchange_declare(exchange, "fanout")
    dead = declared()
    channel.queue_bind(dead, exchange)
    first = declared(x_dead_letter_exchange=exchange)
    second = declared(dead, x_message_ttl=0)
    channel.queue_bind(first, "amq.direct", first)
    properties = pika.BasicProperties(content_type="text/plain", message_id="7", headers={"mine": 1})
    channel.basic_publish("amq.direct", first, b"a", properties)
    channel.basic_get(first)
    channel.basic_reject(1, requeue=False)
    method, properties, _ = letter(channel, dead)
    assert (method.exchange, method.routing_key) == (exchange, first)
    assert (properties.content_type, properties.message_id) == ("text/plain", "7")
    (death,) = properties.headers.pop("x-death")
    assert isinstance(death.pop("time"), datetime)
    assert death == {"count": 1, "exchange": "amq.direct", "queue": first, "reason": "rejected", "routing-keys": [first]}
    assert properties.headers["mine"] == 1
    assert facts(properties, "first") == ("amq.direct", first, "rejected")
    # A second death stands before the first.
    properties.headers["x-death"] = [death | {"time": datetime.fromtimestamp(5)}]
    channel.basic_publish("", second, b"a", properties)
    method, properties, _ = letter(channel, dead)
    assert story(properties) == [(second, "expired", 1), (first, "rejected", 1)]
    assert facts(properties, "first") == ("amq.direct", first, "rejected")


def facts(properties: Any, which: str) -> tuple[str, str, str]:
    exchange, queue, reason = (properties.headers[f"x-{which}-death-{fact}"] for fact in ("exchange", "queue", "reason"))
    return exchange, queue, reason


def test_last_death_is_told(channel: Any, declared: Declared, dead: str) -> None:
    """SPEC §4.5 x-last-death: of the newest one."""
    second = declared(dead, x_message_ttl=0)
    first = declared(second, x_message_ttl=0)
    fill(channel, first, "a")
    _, properties, _ = letter(channel, dead)
    assert story(properties) == [(second, "expired", 1), (first, "expired", 1)]
    assert facts(properties, "first") == ("", first, "expired")
    assert facts(properties, "last") == ("", second, "expired")


def test_dead_letter_may_have_another_key(channel: Any, declared: Declared) -> None:
    """SPEC §4.2 x-dead-letter-routing-key: in place of its own and its copies."""
    dead, copy = declared(), declared()
    queue = declared(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.basic_publish("", queue, b"a", pika.BasicProperties(headers={"CC": [copy]}))
    channel.basic_get(copy)
    channel.basic_get(queue)
    channel.basic_reject(2, requeue=False)
    method, properties, _ = letter(channel, dead)
    assert (method.exchange, method.routing_key) == ("", dead)
    assert properties.headers["x-death"][0]["routing-keys"] == [queue, copy]
    assert ready_count(channel, copy) == 0


def test_dead_letters_are_counted(channel: Any, declared: Declared) -> None:
    """SPEC §4.5 x-death: one entry for a queue and a reason, with a count; what was rejected may come back."""
    queue = declared(x_dead_letter_exchange="")
    fill(channel, queue, "a")
    for tag in (1, 2, 3):
        deadline = time.monotonic() + PATIENCE
        while True:
            method, properties, _ = channel.basic_get(queue)
            if method is not None:
                break
            assert time.monotonic() < deadline
        channel.basic_reject(tag, requeue=False)
    assert story(properties) == [(queue, "rejected", 2)]


def test_dead_letter_does_not_go_round_by_itself(channel: Any, declared: Declared, unique: Callable[[], str]) -> None:
    """SPEC §4.5 cycle detection: one that comes back to where it died, and nobody has rejected it."""
    there = unique()
    here = declared(there, x_message_ttl=20)
    channel.queue_declare(
        there, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": here, "x-message-ttl": 20}
    )
    fill(channel, here, "a")
    time.sleep(0.3)
    for _ in range(20):
        assert (ready_count(channel, here), ready_count(channel, there)) == (0, 0)
        time.sleep(0.005)


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_strategy_is_taken(channel: Any, declared: Declared, dead: str, strategy: str) -> None:
    """SPEC §4.2 x-dead-letter-strategy."""
    queue = declared(dead, x_queue_type="quorum", x_overflow="reject-publish", x_dead_letter_strategy=strategy)
    fill(channel, queue, "a")
    while channel.basic_get(queue)[0] is None:
        time.sleep(0.01)
    channel.basic_reject(1, requeue=False)
    _, properties, body = letter(channel, dead)
    assert (body, story(properties)) == ("a", [(queue, "rejected", 1)])
