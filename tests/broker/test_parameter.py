"""Parameters of a vhost: what is kept, and what can also be set as one."""

import pytest

from leveret.broker.broker import Broker
from leveret.errors import NotFound, PreconditionFailed


def test_limits_are_also_a_parameter(broker: Broker) -> None:
    """SPEC §7.6 runtime parameters"""
    vhost = broker.vhosts["/"]
    vhost.parameters.set("vhost-limits", "limits", {"max-queues": 5})
    assert vhost.limits == {"max-queues": 5}
    assert vhost.parameters.all() == {("vhost-limits", "limits"): {"max-queues": 5}}
    vhost.parameters.clear("vhost-limits", "limits")
    assert (vhost.limits, vhost.parameters.all()) == ({}, {})
    with pytest.raises(NotFound):
        vhost.parameters.clear("vhost-limits", "limits")
    vhost.parameters.set("vhost-limits", "limits", [])
    assert vhost.limits == {}


def test_operator_policies_are_also_parameters(broker: Broker) -> None:
    """SPEC §7.6 runtime parameters, operator policies: RabbitMQ's definitions have them so."""
    vhost = broker.vhosts["/"]
    value = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    vhost.parameters.set("operator_policy", "o", value)
    assert vhost.operator_policies.by_name["o"].definition == {"max-length": 5}
    assert vhost.parameters.all() == {("operator_policy", "o"): value}
    vhost.parameters.clear("operator_policy", "o")
    assert (vhost.operator_policies.by_name, vhost.parameters.all()) == ({}, {})
    for bad, text in (
        (5, "policy should be an object, actually was 5"),
        ({"pattern": ""}, 'Key "definition" not found in policy'),
        ({"pattern": 5, "definition": {"max-length": 5}}, "pattern should be a binary but was 5"),
    ):
        with pytest.raises(PreconditionFailed) as caught:
            vhost.parameters.set("operator_policy", "o", bad)
        assert str(caught.value) == text


def test_parameters_of_known_components_are_kept(broker: Broker) -> None:
    """SPEC §7.6 runtime parameters"""
    vhost = broker.vhosts["/"]
    value = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://"}
    vhost.parameters.set("shovel", "s", value)
    assert vhost.parameters.values == {("shovel", "s"): value}
    with pytest.raises(PreconditionFailed, match=r"^component federation not found$"):
        vhost.parameters.set("federation", "f", {})
    vhost.parameters.clear("shovel", "s")
    with pytest.raises(NotFound, match=r"^parameter 's' of component 'shovel' not found$"):
        vhost.parameters.clear("shovel", "s")
