"""Where a message would go: as routing it would, binding by binding, and without anything being remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker import route_trial
from leveret.broker.route_trial import Trial
from leveret.broker.vhost import VirtualHost
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from tests.broker.conftest import Routes


def tried(vhost: VirtualHost, exchange: str, key: str = "", **headers: Any) -> Trial:
    trial = Trial(vhost, key, Properties(headers=dict(headers) or None))
    trial.run(vhost.exchange(exchange))
    return trial


def ends(trial: Trial) -> list[str]:
    return [queue.name for queue in trial.queues]


def bind(vhost: VirtualHost, source: str, name: str, key: str = "", **arguments: Any) -> None:
    target = vhost.queues.get(name) or vhost.exchanges.get(name) or vhost.declare_queue(name)
    vhost.bind(source, target, key, dict(arguments))


@pytest.mark.parametrize("key", ["order.created.eu", "order.paid", "payment.x", "", "order"])
def test_trial_leads_where_routing_does(vhost: VirtualHost, routes: Routes, key: str) -> None:
    """SPEC §9.4: where would this key go, by exchanges and alternates too"""
    vhost.declare_exchange("orders", "topic", arguments={"alternate-exchange": "lost"})
    vhost.declare_exchange("events", "topic")
    vhost.declare_exchange("lost", "fanout")
    bind(vhost, "lost", "unrouted")
    for name, pattern in (
        ("created", "order.created.#"),
        ("paid", "order.paid.#"),
        ("any", "order.*"),
        ("events", "order.#"),
    ):
        bind(vhost, "orders", name, pattern)
    bind(vhost, "events", "audit", "order.*.#")
    bind(vhost, "events", "created", "#")
    assert sorted(ends(tried(vhost, "orders", key))) == sorted(routes("orders", key))


def test_each_binding_is_told_hit_or_miss(vhost: VirtualHost) -> None:
    """SPEC §9.4: answered with each binding"""
    for form in ("all", "any"):
        wanted: dict[str, Any] = {"x-match": form, "a": 1, "b": "x"}
        bind(vhost, "amq.headers", form, "", **wanted)
    steps = tried(vhost, "amq.headers", a=1).steps
    assert [(step.destination.name, step.fits, step.depth) for step in steps] == [("all", False, 0), ("any", True, 0)]
    bind(vhost, "amq.direct", "q", "k")
    bind(vhost, "amq.direct", "q", "l")
    assert [step.fits for step in tried(vhost, "amq.direct", "k").steps] == [True, False]


def test_default_exchange_and_cycles(vhost: VirtualHost) -> None:
    bind(vhost, "amq.fanout", "q")
    assert ends(tried(vhost, "", "q")) == ["q"]
    assert ends(tried(vhost, "", "none")) == []
    bind(vhost, "amq.fanout", "amq.fanout")
    assert ends(tried(vhost, "amq.fanout")) == ["q"]


def test_duplicates_are_not_remembered(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §9.4: nothing is published, so nothing is a duplicate afterwards"""
    vhost.declare_exchange("dedup", "x-message-deduplication", arguments={"x-cache-size": 10})
    bind(vhost, "dedup", "q")
    for _ in range(2):
        assert ends(tried(vhost, "dedup", **{"x-deduplication-header": "one"})) == ["q"]
    assert routes("dedup", "", {"x-deduplication-header": "one"}) == ["q"]


def test_chance_is_said(vhost: VirtualHost) -> None:
    vhost.declare_exchange("random", "x-random")
    vhost.declare_exchange("hash", "x-consistent-hash")
    for name in ("a", "b"):
        bind(vhost, "random", name)
        bind(vhost, "hash", name, "1")
    assert (tried(vhost, "random").random, ends(tried(vhost, "random"))) == (True, ["a", "b"])
    hashed = tried(vhost, "hash", "k")
    assert (hashed.random, len(hashed.queues), len(hashed.steps)) == (False, 1, 2)


def test_delayed_exchange_leads_where_its_type_does(vhost: VirtualHost) -> None:
    vhost.declare_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    bind(vhost, "later", "q", "a.*")
    assert ends(tried(vhost, "later", "a.b", **{"x-delay": 5000})) == ["q"]
    assert ends(tried(vhost, "later", "b")) == []


def test_bindings_beyond_the_limit_are_not_looked_at(vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_trial, "STEPS_MAX", 2)
    for name in ("a", "b"):
        bind(vhost, "amq.fanout", name)
    assert tried(vhost, "amq.fanout").complete
    bind(vhost, "amq.fanout", "c")
    trial = tried(vhost, "amq.fanout")
    assert (trial.complete, ends(trial)) == (False, ["a", "b"])
