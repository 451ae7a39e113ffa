"""The recent history exchange: what was published lately goes to those who come later, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.dispatch import push
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.errors import PreconditionFailed
from leveret.wire.content import body_of
from leveret.wire.values import Byte, SignedInt, Table, UnsignedInt, Value

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter

TYPE = "x-recent-history"
NO_STORE = "x-recent-history-no-store"

Publish = Callable[..., None]


def bodies(queue: Queue) -> list[str]:
    messages = [entry.message for entry in queue.backlog.front.entries()]
    return [body_of(m.content, m.header_size, m.body_size, m.frame_size).decode() for m in messages]


def bound(vhost: VirtualHost, name: str, source: str = "x") -> Queue:
    """A new queue bound to the exchange, with whatever that brings."""
    queue = vhost.declare_queue(name)
    vhost.bind(source, queue, "", {})
    vhost.work.budget.begin()
    vhost.work.drain()
    return queue


@pytest.fixture
def publish(vhost: VirtualHost, letter: NewLetter) -> Publish:
    """Publish these bodies to the exchange x."""

    def published(*texts: str, exchange: str = "x", **properties: Any) -> None:
        for text in texts:
            vhost.publish(vhost.exchange(exchange), letter(text.encode(), exchange=exchange, **properties), vhost.now)

    return published


def test_new_binding_gets_the_history_oldest_first(vhost: VirtualHost, publish: Publish) -> None:
    """SPEC §3.1 x-recent-history: 20 messages without an argument."""
    vhost.declare_exchange("x", TYPE)
    early = bound(vhost, "early")
    texts = [str(number) for number in range(25)]
    publish(*texts)
    assert bodies(early) == texts
    late = bound(vhost, "late")
    assert bodies(late) == texts[-20:]
    publish("new")
    assert bodies(late) == [*texts[-20:], "new"]
    assert bodies(early) == [*texts, "new"], "and nothing twice"
    assert set(vhost.queues) == {"early", "late"}


def test_length_is_an_argument(vhost: VirtualHost, publish: Publish) -> None:
    """SPEC §3.1 x-recent-history, x-recent-history-length."""
    vhost.declare_exchange("x", TYPE, arguments={"x-recent-history-length": 2})
    publish("a", "b", "c")
    assert bodies(bound(vhost, "q")) == ["b", "c"]


@pytest.mark.parametrize(("value", "stored"), [(True, False), (False, True), (1, True), ("true", True)])
def test_message_may_ask_not_to_be_stored(vhost: VirtualHost, publish: Publish, value: Value, stored: bool) -> None:
    """SPEC §3.1 x-recent-history, x-recent-history-no-store."""
    vhost.declare_exchange("x", TYPE)
    early = bound(vhost, "early")
    publish("a", headers={NO_STORE: value})
    publish("b")
    assert bodies(early) == ["a", "b"]
    assert bodies(bound(vhost, "late")) == (["a", "b"] if stored else ["b"])


def test_history_is_no_destination(vhost: VirtualHost, publish: Publish) -> None:
    """SPEC §3.1 x-recent-history and §3.3: what only it has was not routed, and the alternate exchange has it."""
    vhost.declare_exchange("x", TYPE, arguments={"alternate-exchange": "amq.fanout"})
    assert vhost.route(vhost.exchange("x"), "", None) == []
    rest = bound(vhost, "rest", "amq.fanout")
    publish("a")
    assert bodies(rest) == ["a"]
    assert bodies(bound(vhost, "q")) == ["a"]
    publish("b")
    assert bodies(rest) == ["a"]


def test_exchange_routes_the_history_on(vhost: VirtualHost, letter: NewLetter) -> None:
    """SPEC §3.1 x-recent-history: a bound exchange gets it too, and chooses by key, CC and headers."""
    vhost.declare_exchange("x", TYPE)
    queue, other = vhost.declare_queue("q"), vhost.declare_queue("other")
    vhost.bind("amq.direct", queue, "a", {})
    vhost.bind("amq.direct", other, "c", {})
    for body, key, headers in ((b"1", "a", {}), (b"2", "b", {}), (b"3", "a", {"CC": ["c"]})):
        vhost.publish(vhost.exchange("x"), letter(body, key, "x", headers=headers), 0)
    vhost.bind("x", vhost.exchange("amq.direct"), "", {})
    vhost.work.drain()
    assert (bodies(queue), bodies(other)) == (["1", "3"], ["3"])


def test_history_of_a_history(vhost: VirtualHost, publish: Publish) -> None:
    """Bound to another of its kind it fills that one's history, and passes what comes on to both."""
    vhost.declare_exchange("x", TYPE)
    vhost.declare_exchange("y", TYPE)
    publish("a")
    vhost.bind("x", vhost.exchange("y"), "", {})
    vhost.work.drain()
    publish("b")
    assert bodies(bound(vhost, "q", "y")) == ["a", "b"]


def test_dead_letters_are_kept_too(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    vhost.declare_exchange("x", TYPE)
    mortal = vhost.declare_queue("m", arguments={"x-dead-letter-exchange": "x", "x-message-ttl": 10})
    push(mortal, letter(b"a"), 0)
    later(10)
    assert bodies(bound(vhost, "q")) == ["a"]


def test_times_to_live_begin_when_it_is_given_on(vhost: VirtualHost, publish: Publish, later: Later) -> None:
    vhost.declare_exchange("x", TYPE)
    publish("a", expiration="10")
    later(1000)
    queue = bound(vhost, "q")
    assert bodies(queue) == ["a"]
    later(1009)
    assert bodies(queue) == ["a"]
    later(1010)
    assert bodies(queue) == []


def test_long_history_is_given_in_pieces(vhost: VirtualHost, publish: Publish) -> None:
    """Within the budget of a pass, and not at all to a queue that has gone meanwhile."""
    vhost.declare_exchange("x", TYPE, arguments={"x-recent-history-length": 5000})
    publish(*(str(number) for number in range(5000)))
    vhost.work.budget.begin()
    queue, other = vhost.declare_queue("q"), vhost.declare_queue("other")
    vhost.bind("x", queue, "", {})
    vhost.bind("x", other, "", {})
    assert not vhost.work.drain()
    assert 0 < queue.ready_count <= 2000
    vhost.remove_queue(other)
    vhost.remove_queue(vhost.declare_queue("unrelated"))
    while vhost.work:
        vhost.work.budget.begin()
        vhost.work.drain()
    assert (queue.ready_count, other.ready_count) == (5000, 0)


def test_history_goes_with_the_exchange(vhost: VirtualHost, broker: Broker, publish: Publish) -> None:
    vhost.declare_exchange("x", TYPE)
    publish("a")
    vhost.delete_exchange("x")
    broker.work.drain()
    assert vhost.hidden == {}
    vhost.declare_exchange("x", TYPE)
    assert bodies(bound(vhost, "q")) == []


@pytest.mark.parametrize("length", [1, SignedInt(1), Byte(1)])
def test_length_is_positive(vhost: VirtualHost, length: Value) -> None:
    vhost.declare_exchange("x", TYPE, arguments={"x-recent-history-length": length})


@pytest.mark.parametrize(
    ("length", "printed"),
    [(0, "0"), (-5, "-5"), ("5", '<<"5">>'), (True, "true"), (UnsignedInt(5), "5"), (1.5, "1.5"), (None, "undefined")],
)
def test_other_lengths_are_refused(vhost: VirtualHost, length: Value, printed: str) -> None:
    arguments: Table = {"x-recent-history-length": length}
    with pytest.raises(PreconditionFailed) as caught:
        vhost.declare_exchange("x", TYPE, arguments=arguments)
    assert str(caught.value) == f"Invalid argument {printed}, 'x-recent-history-length' must be a positive integer"
    assert "x" not in vhost.exchanges
