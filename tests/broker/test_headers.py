"""Matching by headers: the four forms, values without a value, and types."""

from __future__ import annotations

from decimal import Decimal

import pytest

from leveret.broker.binding import Binding
from leveret.broker.headers import Criteria, HeadersExchange
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.errors import PreconditionFailed
from leveret.wire.properties import Properties
from leveret.wire.values import Byte, Float32, LongString, SignedInt, Table, Timestamp, UnsignedShort, Value

AB: Table = {"a": 1, "b": 2}

TABLE: list[tuple[Table, Table | None, bool]] = [
    # all is the default
    (AB, {"a": 1, "b": 2}, True),
    (AB, {"a": 1, "b": 2, "c": 3}, True),
    (AB, {"a": 1}, False),
    (AB, {"a": 1, "b": 3}, False),
    (AB, {}, False),
    (AB, None, False),
    ({"x-match": "all", **AB}, {"a": 1, "b": 2}, True),
    ({"x-match": "all", **AB}, {"a": 1}, False),
    # any
    ({"x-match": "any", **AB}, {"a": 1}, True),
    ({"x-match": "any", **AB}, {"b": 2, "a": 5}, True),
    ({"x-match": "any", **AB}, {"a": 5, "c": 1}, False),
    ({"x-match": "any", **AB}, None, False),
    # no arguments: all fits everything, any nothing
    ({}, None, True),
    ({}, {"a": 1}, True),
    ({"x-match": "all"}, {"a": 1}, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"x-match": "all-with-x"}, {}, True),
    ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
    # names with x- count only in the forms with x
    ({"x-a": 1}, {}, True),
    ({"x-match": "all", "x-a": 1}, {"x-a": 2}, True),
    ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ({"x-match": "any", "x-a": 1, "a": 1}, {"x-a": 1}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "all-with-x", "x-a": 1}, {}, False),
    ({"x-match": "all-with-x", "x-a": 1, "a": 1}, {"x-a": 1, "a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1, "a": 1}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 2}, False),
    ({"x-match": "all-with-x", "x-matches": 1}, {}, False),
    ({"x-match": "any-with-x", "x-matches": 1}, {"x-matches": 1}, True),
    # a name that merely starts with x
    ({"xa": 1}, {}, False),
    ({"x": 1}, {}, False),
    # void asks for the name only
    ({"a": None}, {"a": 5}, True),
    ({"a": None}, {"a": None}, True),
    ({"a": None}, {"b": 5}, False),
    ({"x-match": "any", "a": None, "b": 1}, {"a": "x"}, True),
    ({"a": 1}, {"a": None}, False),
]


@pytest.mark.parametrize(("arguments", "headers", "fits"), TABLE)
def test_arguments_and_headers(arguments: Table, headers: Table | None, fits: bool) -> None:
    exchange, queue = HeadersExchange("x", "", "headers", {}), Queue("q", "", Work(), {})
    exchange.check_binding("", arguments)
    exchange.bind(Binding(exchange, queue, "ignored", arguments))
    assert exchange.match("any key", Properties(headers=headers)) == ([queue] if fits else [])


VALUES: list[tuple[Value, Value, bool]] = [
    (1, 1, True),
    (1, SignedInt(1), True),
    (Byte(-1), -1, True),
    (UnsignedShort(5), SignedInt(5), True),
    (1, 2, False),
    (1, True, False),
    (0, False, False),
    (True, True, True),
    (True, False, False),
    (1, 1.0, False),
    (1.5, Float32(1.5), True),
    (1, "1", False),
    ("a", "a", True),
    ("a", "A", False),
    ("a", b"a", True),
    (b"a", "a", True),
    ("ż", "ż".encode(), True),
    (LongString(b"\xff"), b"\xff", True),
    (Decimal("1"), 1, False),
    (Decimal("1"), Decimal("1"), True),
    (Decimal("1.0"), Decimal("1.00"), False),
    (Timestamp(5), Timestamp(5), True),
    ([1, 2], [1, 2], True),
    ([1, 2], [2, 1], False),
    ([1], [True], False),
    ([1], [SignedInt(1)], False),
    ({"a": 1}, {"a": 1}, True),
    ({"a": 1}, {"a": 2}, False),
    ({}, [], False),
    ("", "", True),
]


@pytest.mark.parametrize(("wanted", "given", "fits"), VALUES)
def test_values_are_compared_as_rabbitmq_does(wanted: Value, given: Value, fits: bool) -> None:
    assert Criteria({"a": wanted}).fit({"a": given}) is fits
    assert Criteria({"a": given}).fit({"a": wanted}) is fits


@pytest.mark.parametrize("form", ["all", "any", "all-with-x", "any-with-x"])
def test_forms_are_known(form: str) -> None:
    HeadersExchange("x", "", "headers", {}).check_binding("", {"x-match": form})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        ("ALL", 'Invalid x-match field value <<"ALL">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type long (value 1); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (b"all", 'Invalid x-match field type binary (value <<"all">>); expected longstr'),
    ],
)
def test_other_forms_are_refused(value: Value, text: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        HeadersExchange("x", "", "headers", {}).check_binding("", {"x-match": value})
    assert str(caught.value) == text


def test_bindings_come_and_go() -> None:
    exchange = HeadersExchange("x", "", "headers", {})
    assert exchange.varies
    one, two = Queue("1", "", Work(), {}), Queue("2", "", Work(), {})
    bindings = [Binding(exchange, one, "", {"a": 1}), Binding(exchange, two, "", {}), Binding(exchange, one, "", {"b": 1})]
    for binding in bindings:
        exchange.bind(binding)
    assert exchange.match("", Properties(headers={"a": 1})) == [one, two]
    exchange.unbind(bindings[0])
    assert exchange.match("", Properties(headers={"a": 1})) == [two]
    exchange.unbind(bindings[1])
    assert exchange.match("", Properties(headers={"a": 1})) == []
    assert exchange.match("", Properties(headers={"b": 1})) == [one]
