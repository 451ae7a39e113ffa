"""The deduplication exchange: each value of the header passes once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.broker.vhost import VirtualHost
from leveret.errors import PreconditionFailed
from leveret.wire.properties import Properties
from leveret.wire.values import SignedInt, Table, Timestamp, Value

if TYPE_CHECKING:
    from tests.broker.conftest import Routes

HEADER = "x-deduplication-header"
TYPE = "x-message-deduplication"


def declared(vhost: VirtualHost, **arguments: Value) -> None:
    """The exchange x with queues a and b."""
    table: Table = {f"x-cache-{name}": value for name, value in arguments.items()}
    vhost.declare_exchange("x", TYPE, arguments=table)
    for name in "ab":
        vhost.bind("x", vhost.declare_queue(name), name, {})


def test_each_value_passes_once(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §5.3 x-message-deduplication exchange: to all its queues, once."""
    declared(vhost, size=10)
    assert vhost.exchange("x").varies
    values: list[Value] = ["1", 1, True, Timestamp(1)]
    for value in values:
        assert routes("x", "any", {HEADER: value}) == ["a", "b"]
        assert routes("x", "any", {HEADER: value}) == []
    assert routes("x", "any", {HEADER: SignedInt(1)}) == []


@pytest.mark.parametrize("headers", [None, {}, {HEADER: None}, {HEADER: [1]}, {"other": 1}])
def test_messages_without_a_value_always_pass(vhost: VirtualHost, routes: Routes, headers: Table | None) -> None:
    declared(vhost, size=10)
    for _ in range(3):
        assert routes("x", "", headers) == ["a", "b"]
    assert len(vhost.route(vhost.exchange("x"), "", None)) == 2


def test_so_many_are_remembered(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §5.3 x-message-deduplication exchange, SPEC §5.3 x-cache-size."""
    declared(vhost, size=2)
    for value in "abc":
        assert routes("x", "", {HEADER: value})
    assert not routes("x", "", {HEADER: "b"})
    assert not routes("x", "", {HEADER: "c"})
    assert routes("x", "", {HEADER: "a"}), "the oldest was forgotten"


def test_they_are_remembered_for_so_long(vhost: VirtualHost, broker: Broker, routes: Routes) -> None:
    """SPEC §5.3 x-message-deduplication exchange, SPEC §5.3 x-cache-ttl as an argument and as a header."""
    declared(vhost, size=10, ttl=100)
    broker.work.budget.now = 1000
    assert routes("x", "", {HEADER: "a"})
    assert routes("x", "", {HEADER: "b", "x-cache-ttl": 50})
    assert routes("x", "", {HEADER: "c", "x-cache-ttl": 500})
    assert routes("x", "", {HEADER: "d", "x-cache-ttl": "whatever"})
    passing = {1049: "", 1050: "b", 1099: "", 1100: "ad", 1499: "ad", 1500: "c"}
    for now, passed in passing.items():
        broker.work.budget.now = now
        assert "".join(value for value in "acd" if routes("x", "", {HEADER: value})) == passed.replace("b", "")
        assert bool(routes("x", "", {HEADER: "b", "x-cache-ttl": 10**6})) is ("b" in passed)


def test_a_message_is_no_duplicate_of_itself(vhost: VirtualHost) -> None:
    declared(vhost, size=10)
    exchange, properties = vhost.exchange("x"), Properties(headers={HEADER: "a"})
    assert len(vhost.router.route_all(exchange, ["k", "l"], properties)) == 2
    assert vhost.router.route_all(exchange, ["k", "l"], properties) == []


def test_alternate_takes_the_duplicates(vhost: VirtualHost, routes: Routes) -> None:
    """A duplicate is a message that leads nowhere, and the alternate exchange has those."""
    vhost.declare_exchange("x", TYPE, arguments={"x-cache-size": 5, "alternate-exchange": "amq.fanout"})
    vhost.bind("x", vhost.declare_queue("a"), "", {})
    vhost.bind("amq.fanout", vhost.declare_queue("b"), "", {})
    assert [routes("x", "", {HEADER: 1}) for _ in range(2)] == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "x-cache-size"),
        ({"x-cache-ttl": 10}, "x-cache-size"),
        ({"x-cache-size": 0}, "x-cache-size"),
        ({"x-cache-size": -1}, "x-cache-size"),
        ({"x-cache-size": "10"}, "x-cache-size"),
        ({"x-cache-size": True}, "x-cache-size"),
        ({"x-cache-size": 10, "x-cache-ttl": 0}, "x-cache-ttl"),
        ({"x-cache-size": 10, "x-cache-ttl": None}, "x-cache-ttl"),
    ],
)
def test_other_arguments_are_refused(vhost: VirtualHost, arguments: Table, name: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        vhost.declare_exchange("x", TYPE, arguments=arguments)
    assert str(caught.value) == f"Invalid argument, '{name}' must be an integer greater than 0"
    assert "x" not in vhost.exchanges


def test_persistence_is_kept(vhost: VirtualHost) -> None:
    declared(vhost, size=10, persistence="disk")
    assert vhost.exchange("x").arguments["x-cache-persistence"] == "disk"
