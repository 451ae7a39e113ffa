"""Exchanges of the simple types, each asked alone."""

from __future__ import annotations

import pytest

from leveret.broker.binding import Binding
from leveret.broker.exchange import DefaultExchange, Destinations, DirectExchange, Exchange, FanoutExchange
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.errors import AccessRefused
from leveret.wire.properties import Properties


def new_queue(name: str) -> Queue:
    return Queue(name, f"queue '{name}' in vhost '/'", Work(), {})


def test_new_exchange_is_plain() -> None:
    exchange = FanoutExchange("x", "exchange 'x' in vhost '/'", "fanout", {"kept": 1})
    assert (exchange.name, exchange.title, exchange.kind) == ("x", "exchange 'x' in vhost '/'", "fanout")
    assert (exchange.durable, exchange.auto_delete, exchange.internal, exchange.deleted) == (False, False, False, False)
    assert (exchange.alternate, exchange.arguments, exchange.varies) == (None, {"kept": 1}, False)
    exchange.check_binding("", {"x-match": "anything"})


def test_alternate_is_an_argument() -> None:
    assert FanoutExchange("x", "", "fanout", {"alternate-exchange": "y"}).alternate == "y"
    assert FanoutExchange("x", "", "fanout", {"alternate-exchange": 5}).alternate is None


def test_internal_exchange_takes_no_messages() -> None:
    exchange = FanoutExchange("x", "exchange 'x' in vhost '/'", "fanout", {})
    exchange.check_publishable()
    exchange.internal = True
    with pytest.raises(AccessRefused, match=r"^cannot publish to internal exchange 'x' in vhost '/'$"):
        exchange.check_publishable()


def test_exchange_must_have_a_type() -> None:
    exchange = Exchange("x", "", "none", {})
    with pytest.raises(NotImplementedError):
        exchange.match("", None)
    binding = Binding(exchange, new_queue("q"), "", {})
    with pytest.raises(NotImplementedError):
        exchange.bind(binding)
    with pytest.raises(NotImplementedError):
        exchange.unbind(binding)


def test_direct_exchange_goes_by_the_whole_key() -> None:
    exchange = DirectExchange("x", "", "direct", {})
    one, two = new_queue("1"), new_queue("2")
    bindings = [Binding(exchange, one, "a", {}), Binding(exchange, two, "a", {}), Binding(exchange, one, "a.b", {})]
    for binding in bindings:
        exchange.bind(binding)
    assert exchange.match("a", None) == [one, two]
    assert exchange.match("a.b", Properties()) == [one]
    assert exchange.match("", None) == exchange.match("A", None) == exchange.match("#", None) == []
    exchange.unbind(bindings[0])
    assert exchange.match("a", None) == [two]
    exchange.unbind(bindings[1])
    assert exchange.match("a", None) == []
    assert list(exchange.bindings.values()) == [bindings[2]]


def test_fanout_exchange_ignores_the_key() -> None:
    exchange = FanoutExchange("x", "", "fanout", {})
    one, two = new_queue("1"), new_queue("2")
    bindings = [Binding(exchange, one, "a", {}), Binding(exchange, two, "", {}), Binding(exchange, one, "b", {})]
    for binding in bindings:
        exchange.bind(binding)
    assert exchange.match("anything", None) == [one, two]
    exchange.unbind(bindings[0])
    assert exchange.match("", None) == [one, two]
    exchange.unbind(bindings[2])
    assert exchange.match("a", None) == [two]


def test_default_exchange_goes_to_the_queue_of_that_name() -> None:
    queue = new_queue("q")
    queues: dict[str, object] = {"q": queue}
    exchange = DefaultExchange("exchange '' in vhost '/'", queues)
    assert (exchange.name, exchange.kind, exchange.durable) == ("", "direct", True)
    assert exchange.match("q", None) == [queue]
    assert exchange.match("r", None) == []
    queues.clear()
    assert exchange.match("q", None) == []


def test_destinations_are_counted() -> None:
    destinations = Destinations()
    assert not destinations
    for name in ("a", "b", "a"):
        destinations.add(name)
    assert destinations.as_list() == ["a", "b"]
    assert destinations.as_list() is destinations.as_list()
    destinations.remove("a")
    assert destinations.as_list() == ["a", "b"]
    destinations.remove("a")
    assert destinations.as_list() == ["b"]
    destinations.remove("b")
    assert not destinations
