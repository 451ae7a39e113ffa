"""Matching by headers: the four forms, values without a value, and types."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest

from leveret.broker.binding import Binding
from leveret.broker.headers import FORMS, HeadersExchange
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


def fitting(bindings: list[Table], headers: Table | None) -> list[int]:
    """Which of bindings with these arguments lead a message with these headers to their queues."""
    exchange = HeadersExchange("x", "", "headers", {})
    for number, arguments in enumerate(bindings):
        exchange.bind(Binding(exchange, Queue(str(number), "", Work(), {}), "", arguments))
    return sorted(int(queue.name) for queue in exchange.match("", Properties(headers=headers)))  # type: ignore[attr-defined]


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
    (1, 1.0, True),
    (Byte(1), Float32(1.0), True),
    (2**53 + 1, float(2**53), False),
    (0.0, -0.0, True),
    (Timestamp(5), 5, True),
    (True, "true", False),
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
    ([1], [1.0], False),
    ({}, [], True),
    ([], "", False),
    ([], [[]], False),
    ("", "", True),
]


@pytest.mark.parametrize(("wanted", "given", "fits"), VALUES)
def test_values_are_compared_as_rabbitmq_does(wanted: Value, given: Value, fits: bool) -> None:
    """As they were matched by RabbitMQ 3.10.8: equal numbers whatever their types, and what is empty as the same."""
    for form in ("all", "any"):
        assert fitting([{"x-match": form, "a": wanted}], {"a": given}) == ([0] if fits else [])
        assert fitting([{"x-match": form, "a": given}], {"a": wanted}) == ([0] if fits else [])


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


# The index


def naive_fit(arguments: Table, headers: Table) -> bool:
    """What the arguments ask for, one by one; values here are of one class each."""
    form = str(arguments.get("x-match", "all"))
    wanted = {
        name: value
        for name, value in arguments.items()
        if name != "x-match" and (form.endswith("with-x") or not name.startswith("x-"))
    }
    fits = [name in headers and (value is None or headers[name] == value) for name, value in wanted.items()]
    return any(fits) if form.startswith("any") else all(fits)


def random_table(random: Random, void: bool) -> Table:
    values = [*range(4), "a", "b", *([None] if void else [])]
    return {random.choice(["a", "b", "c", "x-d", "x-e"]): random.choice(values) for _ in range(random.randint(0, 4))}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_found_is_what_fits(seed: int) -> None:
    """As bindings come and go, each message reaches exactly the queues whose arguments fit, each once for a binding."""
    random = Random(seed)
    exchange = HeadersExchange("x", "", "headers", {})
    queues = [Queue(str(number), "", Work(), {}) for number in range(5)]
    bound: list[Binding] = []
    for _ in range(300):
        if bound and random.random() < 0.4:
            exchange.unbind(bound.pop(random.randrange(len(bound))))
        else:
            arguments = {**random_table(random, void=True), "x-match": random.choice(FORMS)}
            binding = Binding(exchange, random.choice(queues), "", arguments)
            if binding.key not in exchange.bindings:
                exchange.bind(binding)
                bound.append(binding)
        headers = random_table(random, void=False)
        wanted = {binding.destination for binding in bound if naive_fit(binding.arguments, headers)}
        assert set(exchange.match("", Properties(headers=headers))) == wanted
    for binding in bound:
        exchange.unbind(binding)
    assert exchange.match("", Properties(headers={"a": 1})) == []
    assert exchange.match("", None) == []


@pytest.mark.parametrize("form", FORMS)
def test_matching_costs_by_what_can_match(form: str) -> None:
    """2,000 bindings with values of their own: a message looks at one of them, whatever they have in common besides."""
    exchange = HeadersExchange("x", "", "headers", {})
    queue = Queue("q", "", Work(), {})
    common: Table = {} if form.startswith("any") else {"kind": "order", "there": None}
    for number in range(2000):
        exchange.bind(Binding(exchange, queue, "", {"x-match": form, "number": number, **common}))
    for number in (7, -1):
        exchange.looks = 0
        found = exchange.match("", Properties(headers={"number": number, "kind": "order", "there": 1}))
        assert found == ([queue] if number == 7 else [])
        assert exchange.looks < 20


def test_bindings_that_ask_for_the_same_are_compared_once() -> None:
    exchange = HeadersExchange("x", "", "headers", {})
    for number in range(100):
        exchange.bind(Binding(exchange, Queue(str(number), "", Work(), {}), "", {"a": 1, "b": 1}))
    exchange.looks = 0
    assert len(exchange.match("", Properties(headers={"a": 1, "b": 1}))) == 100
    assert exchange.match("", Properties(headers={"a": 1, "b": 2})) == []
    assert exchange.looks < 20


def test_many_routing_keys_match_once() -> None:
    exchange, queue = HeadersExchange("x", "", "headers", {}), Queue("q", "", Work(), {})
    exchange.bind(Binding(exchange, queue, "", {"a": 1}))
    assert exchange.match_all(["one", "two"], Properties(headers={"a": 1})) == [queue]
