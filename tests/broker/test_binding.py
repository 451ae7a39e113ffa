"""Bindings, and when two of them are the same."""

from decimal import Decimal

import pytest

from leveret.broker.binding import Binding, frozen
from leveret.broker.exchange import DirectExchange, Exchange
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.wire.values import Byte, Float32, LongString, SignedInt, Table, Timestamp, Value

EXCHANGE = DirectExchange("x", "exchange 'x' in vhost '/'", "direct", {})
QUEUE = Queue("q", "queue 'q' in vhost '/'", Work(), {})


def key(source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: Table) -> object:
    return Binding(source, destination, routing_key, arguments).key


def test_same_binding_has_the_same_key() -> None:
    arguments: Table = {"a": [1, {"b": None}], "c": "text"}
    assert key(EXCHANGE, QUEUE, "k", arguments) == key(EXCHANGE, QUEUE, "k", dict(reversed(arguments.items())))
    assert hash(key(EXCHANGE, QUEUE, "k", arguments))


def test_each_part_makes_a_difference() -> None:
    other = DirectExchange("x", "exchange 'x' in vhost '/'", "direct", {})
    keys = {
        key(EXCHANGE, QUEUE, "k", {}),
        key(other, QUEUE, "k", {}),
        key(EXCHANGE, other, "k", {}),
        key(EXCHANGE, QUEUE, "", {}),
        key(EXCHANGE, QUEUE, "k", {"a": 1}),
    }
    assert len(keys) == 5


VALUES: list[Value] = [
    1,
    2,
    True,
    False,
    Byte(1),
    SignedInt(1),
    Timestamp(1),
    1.0,
    Float32(1.0),
    Decimal("1"),
    Decimal("1.0"),
    "1",
    b"1",
    LongString(b"\xff"),
    b"\xff",
    None,
    [],
    {},
    [1],
    [[1]],
    {"a": 1},
    {"a": [1]},
    [None],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_value_equals_only_itself(value: Value) -> None:
    assert [other for other in VALUES if frozen(other) == frozen(value)] == [value]
    assert sum(frozen(other) == frozen(value) for other in VALUES) == 1
    assert hash(frozen(value)) == hash(frozen(value))


def test_order_of_a_table_means_nothing_and_that_of_an_array_does() -> None:
    assert frozen({"a": 1, "b": 2}) == frozen({"b": 2, "a": 1})
    assert frozen([1, 2]) != frozen([2, 1])
