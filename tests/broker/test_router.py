"""Following bindings from exchange to exchange."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from leveret.broker.vhost import VirtualHost

if TYPE_CHECKING:
    from tests.broker.conftest import Routes


def bind(vhost: VirtualHost, source: str, *destinations: str, key: str = "", **arguments: str) -> None:
    """Bind queues (`q…`, made if need be) and exchanges to an exchange."""
    for name in destinations:
        target = vhost.declare_queue(name) if name.startswith("q") else vhost.exchange(name)
        vhost.bind(source, target, key, dict(arguments))


def exchanges(vhost: VirtualHost, *names: str, kind: str = "fanout") -> None:
    for name in names:
        vhost.declare_exchange(name, kind)


def test_unbound_exchange_leads_nowhere(vhost: VirtualHost, routes: Routes) -> None:
    assert routes("amq.fanout", "k") == []
    assert vhost.router.cacheable


def test_default_exchange_leads_to_the_queue_of_that_name(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.2 default exchange."""
    vhost.declare_queue("q")
    assert routes("", "q") == ["q"]
    assert routes("", "r") == []


def test_exchanges_lead_to_exchanges_to_any_depth(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.4 any depth."""
    names = [f"x{number}" for number in range(50)]
    exchanges(vhost, *names)
    for source, destination in itertools.pairwise(names):
        bind(vhost, source, destination)
    bind(vhost, names[-1], "q")
    assert routes("x0", "k") == ["q"]


def test_queue_is_reached_once_however_many_ways_lead_to_it(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.4 at most once."""
    exchanges(vhost, "a", "b", "c")
    bind(vhost, "a", "b", "c", "q1")
    bind(vhost, "b", "q1", "q2")
    bind(vhost, "c", "q2", "q1", "q3")
    assert routes("a") == ["q1", "q2", "q3"]


def test_cycles_end(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.4 cycles."""
    exchanges(vhost, "a", "b", "c")
    bind(vhost, "a", "a", "b")
    bind(vhost, "b", "c", "q")
    bind(vhost, "c", "a", "b")
    assert routes("a") == routes("b") == routes("c") == ["q"]


def test_each_exchange_applies_its_own_rule(vhost: VirtualHost, routes: Routes) -> None:
    exchanges(vhost, "all")
    exchanges(vhost, "topics", kind="topic")
    exchanges(vhost, "keys", kind="direct")
    bind(vhost, "all", "topics", "keys")
    bind(vhost, "topics", "q1", key="a.#")
    bind(vhost, "keys", "q2", key="a.b")
    assert routes("all", "a.b") == ["q1", "q2"]
    assert routes("all", "a.c") == ["q1"]
    assert routes("all", "b") == []


def test_headers_anywhere_on_the_way_make_the_route_unfit_to_remember(vhost: VirtualHost, routes: Routes) -> None:
    exchanges(vhost, "a")
    bind(vhost, "a", "amq.headers", "q1")
    bind(vhost, "amq.headers", "q2", kind="x")
    assert routes("a", "k", {"kind": "x"}) == ["q1", "q2"]
    assert not vhost.router.cacheable
    assert routes("a", "k", {"kind": "y"}) == ["q1"]
    assert routes("a", "k", None) == ["q1"]
    assert not vhost.router.cacheable
    assert routes("amq.fanout") == []
    assert vhost.router.cacheable


def test_alternate_takes_what_leads_nowhere(vhost: VirtualHost, routes: Routes) -> None:
    vhost.declare_exchange("x", "direct", arguments={"alternate-exchange": "spare"})
    bind(vhost, "x", "q1", key="known")
    assert routes("x", "unknown") == []
    exchanges(vhost, "spare")
    bind(vhost, "spare", "q2")
    assert routes("x", "unknown") == ["q2"]
    assert routes("x", "known") == ["q1"]


def test_default_exchange_leads_nowhere_as_an_alternate(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.3: what RabbitMQ does, where only publishing knows queues by their names"""
    vhost.declare_queue("q")
    vhost.declare_exchange("x", "direct", arguments={"alternate-exchange": ""})
    assert routes("x", "q") == []


def test_alternates_may_have_alternates_and_form_cycles(vhost: VirtualHost, routes: Routes) -> None:
    for name, alternate in (("a", "b"), ("b", "c"), ("c", "a")):
        vhost.declare_exchange(name, "direct", arguments={"alternate-exchange": alternate})
    assert routes("a", "k") == []
    bind(vhost, "c", "q", key="k")
    assert routes("a", "k") == ["q"]


def test_alternate_of_an_exchange_on_the_way_is_taken_too(vhost: VirtualHost, routes: Routes) -> None:
    vhost.declare_exchange("inner", "direct", arguments={"alternate-exchange": "amq.fanout"})
    exchanges(vhost, "outer")
    bind(vhost, "outer", "inner", "q1")
    bind(vhost, "amq.fanout", "q2")
    assert routes("outer", "k") == ["q1", "q2"]


def test_alternate_counts_bindings_not_queues(vhost: VirtualHost, routes: Routes) -> None:
    """An exchange that leads to another one has found a way, though it ends there."""
    vhost.declare_exchange("x", "fanout", arguments={"alternate-exchange": "amq.fanout"})
    exchanges(vhost, "dead end")
    bind(vhost, "x", "dead end")
    bind(vhost, "amq.fanout", "q")
    assert routes("x", "k") == []


def test_messages_are_handed_on_to_internal_exchanges(vhost: VirtualHost, routes: Routes) -> None:
    vhost.declare_exchange("inside", "fanout", internal=True)
    bind(vhost, "amq.direct", "inside", key="k")
    bind(vhost, "inside", "q")
    assert routes("amq.direct", "k") == ["q"]
