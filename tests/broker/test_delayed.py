"""The delayed message exchange: what waits, for how long, and where it goes then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.delayed import DELAY_MAX_MS, DelayedExchange, delay_in
from leveret.broker.dispatch import push
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.timers import NEVER
from leveret.broker.vhost import VirtualHost
from leveret.errors import PreconditionFailed
from leveret.wire.content import PERSISTENT, body_of, properties_of
from leveret.wire.properties import Properties
from leveret.wire.values import (
    Byte,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    Value,
    kind_of,
)

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter

TYPE = "x-delayed-message"

Publish = Callable[..., None]


def body(message: Message) -> str:
    return body_of(message.content, message.header_size, message.body_size, message.frame_size).decode()


def bodies(queue: Queue) -> list[str]:
    return [body(entry.message) for entry in queue.backlog.front.entries()]


def take(queue: Queue) -> Message:
    entry = queue.take(True)
    assert entry is not None
    return entry.message


def delayed(vhost: VirtualHost, kind: str = "direct", **arguments: Value) -> DelayedExchange:
    table: Table = {"x-delayed-type": kind, **{name.replace("_", "-"): value for name, value in arguments.items()}}
    exchange = vhost.declare_exchange("x", TYPE, arguments=table)
    assert isinstance(exchange, DelayedExchange)
    return exchange


def waiting_in(vhost: VirtualHost) -> Queue:
    """Where its delayed exchange keeps what waits."""
    (found,) = vhost.hidden
    return found


@pytest.fixture
def queue(vhost: VirtualHost) -> Queue:
    """A queue bound with the key k to a delayed exchange x of the type direct."""
    delayed(vhost)
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "k", {})
    return queue


@pytest.fixture
def publish(vhost: VirtualHost, letter: NewLetter) -> Publish:
    """Publish a message to the exchange x with this delay; None for no header."""

    def published(text: str, delay: Value = None, key: str = "k", **properties: Any) -> None:
        headers = {**properties.pop("headers", {}), **({} if delay is None else {"x-delay": delay})}
        message = letter(text.encode(), key, "x", headers=headers or None, **properties)
        vhost.publish(vhost.exchange("x"), message, vhost.work.budget.now)

    return published


# How long


@pytest.mark.parametrize(
    ("value", "delay_ms"),
    [
        (1, 1),
        (5000, 5000),
        (SignedInt(5), 5),
        (Byte(5), 5),
        (UnsignedInt(DELAY_MAX_MS), DELAY_MAX_MS),
        (DELAY_MAX_MS + 1, 0),
        ("5000", 5000),
        ("007", 7),
        (str(DELAY_MAX_MS), DELAY_MAX_MS),
        (str(DELAY_MAX_MS + 1), 0),
        ("9" * 5000, 0),
        (0, 0),
        (-5, 0),
        ("-5", 0),
        ("", 0),
        ("5.5", 0),
        ("٣", 0),
        ("soon", 0),
        (True, 0),
        (Timestamp(5), 0),
        (5.5, 0),
        (b"5", 0),
        (None, 0),
        ([5], 0),
        ({"a": 5}, 0),
    ],
)
def test_delay_is_a_whole_number_or_its_digits(value: Value, delay_ms: int) -> None:
    """SPEC §3.1 x-delay."""
    assert delay_in(Properties(headers={"x-delay": value})) == delay_ms


def test_no_header_is_no_delay() -> None:
    assert delay_in(None) == delay_in(Properties()) == delay_in(Properties(headers={})) == 0


def test_message_comes_when_it_is_due(vhost: VirtualHost, queue: Queue, publish: Publish, later: Later) -> None:
    """SPEC §3.1 x-delayed-message."""
    later(1000)
    publish("late", 500)
    publish("at once")
    publish("at once too", 0)
    publish("and this", -5)
    assert bodies(queue) == ["at once", "at once too", "and this"]
    later(1499)
    assert queue.ready_count == 3
    later(1500)
    assert bodies(queue)[3:] == ["late"]
    assert set(vhost.queues) == {"q"}


def test_messages_come_in_the_order_they_are_due(queue: Queue, publish: Publish, later: Later) -> None:
    """SPEC §3.1 x-delayed-message: not as they were published, even when the loop looks late; equal ones as they came."""
    for text, delay in (("c", 300), ("a", 100), ("d", 300), ("b", 200), ("e", 400)):
        publish(text, delay)
    later(300)
    assert bodies(queue) == ["a", "b", "c", "d"]
    later(400)
    assert bodies(queue) == ["a", "b", "c", "d", "e"]


# What comes out


def test_only_the_delay_has_changed(queue: Queue, publish: Publish, later: Later) -> None:
    """SPEC §3.1 x-delayed-message: x-delay is negative, the rest is as it was."""
    publish("a", "700", headers={"h": [1, {"t": True}]}, delivery_mode=2, priority=3, message_id="m", content_type="t")
    later(700)
    message = take(queue)
    properties = properties_of(message.content, message.header_size)
    assert properties == Properties(
        headers={"h": [1, {"t": True}], "x-delay": -700}, delivery_mode=2, priority=3, message_id="m", content_type="t"
    )
    assert (message.origin.exchange, message.origin.routing_key) == ("x", "k")
    assert message.flags & PERSISTENT


@pytest.mark.parametrize(
    ("value", "kind"),
    [(5, "signedint"), (UnsignedByte(200), "signedint"), ((1 << 31) - 1, "signedint"), (1 << 31, "long")],
)
def test_negative_delay_is_an_integer_it_fits(queue: Queue, publish: Publish, later: Later, value: int, kind: str) -> None:
    publish("a", value)
    later(int(value))
    message = take(queue)
    headers = properties_of(message.content, message.header_size).headers or {}
    assert (headers["x-delay"], kind_of(headers["x-delay"])) == (-value, kind)


def test_own_time_to_live_begins_when_it_comes_out(queue: Queue, publish: Publish, later: Later) -> None:
    """SPEC §3.1 x-delayed-message with an expiration shorter than the delay."""
    publish("a", 500, expiration="100")
    later(499)
    assert queue.ready_count == 0
    later(500)
    assert bodies(queue) == ["a"]
    later(599)
    assert bodies(queue) == ["a"]
    later(600)
    assert bodies(queue) == []


# Where it goes


def test_bindings_count_as_they_are_then(vhost: VirtualHost, queue: Queue, publish: Publish, later: Later) -> None:
    publish("a", 100)
    vhost.unbind("x", queue, "k", {}, None)
    other = vhost.declare_queue("other")
    vhost.bind("x", other, "k", {})
    later(100)
    assert (bodies(queue), bodies(other)) == ([], ["a"])


def test_carbon_copies_go_out_too(vhost: VirtualHost, queue: Queue, publish: Publish, later: Later) -> None:
    other = vhost.declare_queue("other")
    vhost.bind("x", other, "l", {})
    publish("a", 100, headers={"CC": ["l", "k"]})
    publish("b", headers={"CC": ["l"]})
    later(100)
    assert (bodies(queue), bodies(other)) == (["b", "a"], ["b", "a"])


def test_alternate_takes_what_leads_nowhere_then(vhost: VirtualHost, publish: Publish, later: Later) -> None:
    """SPEC §3.1 x-delayed-message and §3.3."""
    delayed(vhost, alternate_exchange="amq.fanout")
    rest = vhost.declare_queue("rest")
    vhost.bind("amq.fanout", rest, "", {})
    publish("a", 100)
    assert len(vhost.route(vhost.exchange("x"), "k", Properties(headers={"x-delay": 5}))) == 1, "so it is not returned"
    assert bodies(rest) == []
    later(100)
    assert bodies(rest) == ["a"]


def test_nobody_has_what_leads_nowhere(vhost: VirtualHost, publish: Publish, later: Later) -> None:
    delayed(vhost)
    publish("a", 100)
    later(100)
    assert waiting_in(vhost).ready_count == 0


@pytest.mark.parametrize(
    ("kind", "binding", "arguments", "key", "routed"),
    [
        ("topic", "a.#", {}, "a.b", True),
        ("topic", "a.#", {}, "b", False),
        ("fanout", "", {}, "any", True),
        ("headers", "", {"h": 1}, "", True),
        ("headers", "", {"h": 2}, "", False),
        ("x-consistent-hash", "5", {}, "any", True),
        ("x-random", "", {}, "any", True),
        ("x-recent-history", "", {}, "any", True),
    ],
)
def test_inner_type_chooses(
    vhost: VirtualHost, publish: Publish, later: Later, kind: str, binding: str, arguments: Table, key: str, routed: bool
) -> None:
    """SPEC §3.1 x-delayed-type."""
    delayed(vhost, kind)
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, binding, arguments)
    publish("now", None, key, headers={"h": 1})
    publish("then", 100, key, headers={"h": 1})
    assert bodies(queue) == ["now"] * routed
    later(100)
    assert bodies(queue) == ["now", "then"] * routed
    vhost.unbind("x", queue, binding, arguments, None)
    publish("after", None, key, headers={"h": 1})
    assert "after" not in bodies(queue)


def test_history_within_keeps_what_has_come_out(vhost: VirtualHost, publish: Publish, later: Later) -> None:
    delayed(vhost, "x-recent-history")
    publish("a", 100)
    for name, now, found in (("early", 99, []), ("late", 100, ["a"])):
        later(now)
        queue = vhost.declare_queue(name)
        vhost.bind("x", queue, "", {})
        vhost.work.drain()
        assert bodies(queue) == found


def test_deduplication_within_counts_once(vhost: VirtualHost, publish: Publish, later: Later) -> None:
    delayed(vhost, "x-message-deduplication", x_cache_size=5)
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "", {})
    for text in ("a", "b"):
        publish(text, 100, headers={"x-deduplication-header": "same"})
    later(100)
    assert bodies(queue) == ["a"]


def test_exchange_may_stand_anywhere_on_the_path(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §3.4: with a delayed exchange: others are not kept waiting, and a circle is no trap."""
    direct = vhost.declare_queue("direct")
    vhost.bind("amq.fanout", direct, "", {})
    vhost.bind("amq.fanout", vhost.exchange("x"), "", {})
    vhost.bind("x", vhost.exchange("amq.fanout"), "k", {})
    vhost.publish(vhost.exchange("amq.fanout"), letter(b"a", "k", "amq.fanout", headers={"x-delay": 100}), 0)
    assert (bodies(direct), bodies(queue)) == (["a"], [])
    later(100)
    assert (bodies(direct), bodies(queue)) == (["a", "a"], ["a"])
    later(10_000)
    assert (direct.ready_count, queue.ready_count) == (2, 1)


def test_dead_letters_wait_too_and_are_no_circle(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    """SPEC §4.5: rejected or expired, wait, try again."""
    delayed(vhost, "fanout")
    retried = vhost.declare_queue("x", arguments={"x-dead-letter-exchange": "x", "x-message-ttl": 10})
    vhost.bind("x", retried, "", {})
    push(retried, letter(b"a", headers={"x-delay": 100}), 0)
    later(10)
    assert retried.ready_count == 0
    later(109)
    assert retried.ready_count == 0
    later(110)
    assert bodies(retried) == ["a"], "the queue has the exchange's name, but the one it waited in has not"
    later(120)
    assert retried.ready_count == 0


# How many


def test_many_are_one_timer(vhost: VirtualHost, broker: Broker, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §3.1 x-delayed-message: 100,000 that wait cost nothing until they are due, and then come in pieces."""
    later(1000)
    exchange, message = vhost.exchange("x"), letter(b"a", "k", "x", headers={"x-delay": 60_000})
    (waiting,) = vhost.route(exchange, "k", Properties(headers={"x-delay": 60_000}))
    for _ in range(100_000):
        push(waiting, message, 1000)
    assert waiting.ready_count == 100_000
    assert broker.timers.next_at() == 61_000
    assert broker.timers.run(60_999, 1)
    assert not broker.work, "nothing to do before"
    broker.work.budget.now = 61_000
    broker.work.budget.begin()
    broker.timers.run(61_000, 1)
    broker.work.drain()
    assert 0 < queue.ready_count + len(waiting.dead) < 5000, "a pass is bounded"
    later(61_000)
    assert (queue.ready_count, waiting.ready_count, broker.timers.next_at()) == (100_000, 0, NEVER)


@pytest.mark.parametrize("auto_delete", [False, True])
def test_with_the_exchange_goes_what_waits(
    vhost: VirtualHost, broker: Broker, publish: Publish, later: Later, auto_delete: bool
) -> None:
    """SPEC §3.1 x-delayed-message, exchange.delete."""
    vhost.declare_exchange("x", TYPE, auto_delete=auto_delete, arguments={"x-delayed-type": "fanout"})
    waiting = waiting_in(vhost)
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "", {})
    for number in range(10):
        publish(str(number), 100 + number)
    later(101)
    assert queue.ready_count == 2
    if auto_delete:
        vhost.remove_queue(queue)
    else:
        vhost.delete_exchange("x")
    assert (waiting.ready_count, broker.timers.next_at()) == (0, NEVER)
    later(1000)
    assert queue.ready_count == (0 if auto_delete else 2)


def test_what_is_due_goes_with_the_exchange_too(vhost: VirtualHost, broker: Broker, queue: Queue, publish: Publish) -> None:
    publish("a", 100)
    broker.work.budget.now = 100
    broker.timers.run(100, 10)
    vhost.delete_exchange("x")
    broker.work.drain()
    assert (queue.ready_count, bool(broker.work)) == (0, False)


# Refusals


@pytest.mark.parametrize("kind", [None, "", "unknown", TYPE, 5, b"direct", ["direct"]])
def test_inner_type_must_be_there(vhost: VirtualHost, kind: Value) -> None:
    """SPEC §3.1 x-delayed-message."""
    arguments: Table = {} if kind is None else {"x-delayed-type": kind}
    with pytest.raises(PreconditionFailed) as caught:
        vhost.declare_exchange("x", TYPE, arguments=arguments)
    assert str(caught.value) == "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    assert "x" not in vhost.exchanges


def test_inner_type_checks_arguments_and_bindings(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="Unsupported property"):
        delayed(vhost, "x-consistent-hash", hash_property="user_id")
    delayed(vhost, "x-consistent-hash")
    with pytest.raises(PreconditionFailed, match="must be an integer"):
        vhost.bind("x", vhost.declare_queue("q"), "key", {})
