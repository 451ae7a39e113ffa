"""The random exchange: one destination for each message, each as often as it is bound."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from leveret.broker.vhost import VirtualHost

if TYPE_CHECKING:
    from tests.broker.conftest import Routes


@pytest.fixture
def three(vhost: VirtualHost) -> None:
    """The exchange x with queues a, b and c."""
    vhost.declare_exchange("x", "x-random")
    for name in "abc":
        vhost.bind("x", vhost.declare_queue(name), "key", {})


@pytest.mark.usefixtures("three")
def test_each_message_goes_to_one_of_them(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.1 x-random: whatever the routing key, all about as often."""
    assert vhost.exchange("x").varies
    counts = Counter(tuple(routes("x", "any")) for _ in range(3000))
    assert set(counts) == {("a",), ("b",), ("c",)}
    assert min(counts.values()) > 850  # 6 standard deviations below 1000


@pytest.mark.usefixtures("three")
def test_several_routing_keys_are_no_reason_for_several_queues(vhost: VirtualHost) -> None:
    assert len(vhost.router.route_all(vhost.exchange("x"), ["a", "b", "c", "d"], None)) == 1


@pytest.mark.usefixtures("three")
def test_destination_bound_twice_is_drawn_twice_as_often(vhost: VirtualHost, routes: Routes) -> None:
    vhost.bind("x", vhost.queues["a"], "other key", {})
    counts = Counter(routes("x")[0] for _ in range(4000))
    assert counts["a"] > 1750  # 8 standard deviations below 2000
    vhost.unbind("x", vhost.queues["a"], "other key", {}, None)
    vhost.unbind("x", vhost.queues["a"], "key", {}, None)
    assert {routes("x")[0] for _ in range(200)} == {"b", "c"}


def test_exchanges_are_destinations_too(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.1 x-random, to all queues of the exchange that was drawn."""
    vhost.declare_exchange("x", "x-random")
    vhost.declare_exchange("y", "fanout")
    vhost.bind("x", vhost.exchange("y"), "", {})
    vhost.bind("x", vhost.declare_queue("a"), "", {})
    for name in "bc":
        vhost.bind("y", vhost.declare_queue(name), "", {})
    assert {tuple(routes("x")) for _ in range(200)} == {("a",), ("b", "c")}


def test_without_bindings_it_leads_nowhere(vhost: VirtualHost, routes: Routes) -> None:
    vhost.declare_exchange("x", "x-random")
    assert routes("x") == []
