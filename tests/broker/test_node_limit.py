"""Limits of the whole broker: each tiny, and just at it."""

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.node_limit import Connections, NodeLimits, check_consumer_count
from leveret.errors import NotAllowed, PreconditionFailed


def limited(**limits: int) -> Broker:
    broker = default_broker()
    broker.settings.limits = NodeLimits(**limits)
    return broker


def test_connections_in_all() -> None:
    """RabbitMQ's text."""
    connections = Connections()
    limits = NodeLimits(connections=2)
    for address in ("a", "b"):
        connections.check(limits, address)
        connections.add(address)
    with pytest.raises(NotAllowed, match=r"^connection refused: node connection limit \(2\) is reached$"):
        connections.check(limits, "c")
    connections.remove("a")
    connections.check(limits, "c")


def test_connections_of_an_address() -> None:
    connections = Connections()
    limits = NodeLimits(connections_of_address=1)
    connections.add("a")
    with pytest.raises(NotAllowed, match=r"connection limit of address a \(1\) is reached"):
        connections.check(limits, "a")
    connections.check(limits, "b")
    connections.remove("a")
    assert (connections.count, connections.by_address) == (0, {})


def test_queues_in_all() -> None:
    broker = limited(queues=2)
    broker.add_vhost("v").declare_queue("one")
    vhost = broker.vhosts["/"]
    vhost.declare_queue("two")
    with pytest.raises(PreconditionFailed, match=r"queue limit in cluster \(2\) is reached"):
        vhost.declare_queue("three")
    assert vhost.declare_queue("two")
    vhost.remove_queue(vhost.queues["two"])
    vhost.declare_queue("three")


def test_exchanges_in_all() -> None:
    broker = default_broker()
    vhost = broker.vhosts["/"]
    broker.settings.limits = NodeLimits(exchanges=len(vhost.exchanges) + 1)
    vhost.declare_exchange("one", "direct")
    with pytest.raises(PreconditionFailed, match=r"^cannot declare exchange 'two': exchange limit of \d+ is reached$"):
        vhost.declare_exchange("two", "direct")
    assert vhost.declare_exchange("one", "direct")


def test_bindings_of_an_exchange() -> None:
    vhost = limited(bindings_of_exchange=2).vhosts["/"]
    queue = vhost.declare_queue("q")
    for key in ("a", "b", "b"):
        vhost.bind("amq.topic", queue, key, {})
    with pytest.raises(PreconditionFailed, match=r"binding limit \(2\) is reached"):
        vhost.bind("amq.topic", queue, "c", {})
    vhost.bind("amq.direct", queue, "c", {})


def test_consumers_of_a_channel() -> None:
    """RabbitMQ's text."""
    limits = NodeLimits(consumers_of_channel=1)
    check_consumer_count(limits, 0)
    with pytest.raises(NotAllowed, match=r"^reached maximum \(1\) of consumers per channel$"):
        check_consumer_count(limits, 1)


def test_patterns() -> None:
    broker = limited(pattern_length=3)
    broker.set_permissions("guest", "/", "abc", "", "")
    for patterns in (("abcd", "", ""), ("", "", "abcd")):
        with pytest.raises(PreconditionFailed, match="a pattern of more than 3 characters"):
            broker.set_permissions("guest", "/", *patterns)
    policies = broker.vhosts["/"].policies
    policies.set("p", "abc", {"max-length": 5})
    with pytest.raises(PreconditionFailed, match="a pattern of more than 3 characters"):
        policies.set("p", "abcd", {"max-length": 5})


def test_without_limits_nothing_is_refused() -> None:
    limits = NodeLimits()
    connections = Connections()
    for _ in range(100):
        connections.check(limits, "a")
        connections.add("a")
    check_consumer_count(limits, 100)
