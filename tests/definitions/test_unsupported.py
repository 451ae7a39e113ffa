"""What RabbitMQ's definitions have that cannot be here: it is named, with what to do, and can be left out."""

from typing import Any

import pytest

from leveret.broker.broker import default_broker
from leveret.definitions.file import BadFile
from leveret.definitions.file_import import Choices, import_definitions

SHOVEL = {"src-protocol": "amqp10", "src-uri": "amqp://", "src-address": "a", "dest-uri": "amqp://", "dest-queue": "q"}


def policy(**definition: Any) -> dict[str, Any]:
    return {"vhost": "/", "name": "p", "pattern": "^q", "definition": definition, "priority": 0, "apply-to": "all"}


@pytest.mark.parametrize(
    ("kind", "item", "advice"),
    [
        ("queues", {"vhost": "/", "name": "s", "durable": True, "type": "stream"}, "make it a classic or a quorum queue"),
        ("exchanges", {"vhost": "/", "name": "s", "type": "x-modulus-hash"}, "give it one of the types"),
        ("vhosts", {"name": "s", "metadata": {"default_queue_type": "stream"}}, "give it the default_queue_type"),
        ("users", {"name": "s", "tags": "", "password_hash": "aa", "hashing_algorithm": "own"}, "give it a password"),
        (
            "parameters",
            {"vhost": "/", "component": "federation-upstream", "name": "s", "value": {"uri": "amqp://"}},
            "use a shovel",
        ),
        ("parameters", {"vhost": "/", "component": "shovel", "name": "s", "value": SHOVEL}, "let it use AMQP 0-9-1"),
        (
            "parameters",
            {"vhost": "/", "component": "operator_policy", "name": "s", "value": policy(**{"target-group-size": 3})},
            "take the settings",
        ),
        ("policies", policy(**{"federation-upstream-set": "all"}), "take the settings"),
        ("policies", {**policy(expires=5), "pattern": "a(?=b)"}, "write the pattern without look-around"),
        (
            "permissions",
            {"user": "guest", "vhost": "/", "configure": "(a)\\1", "write": "", "read": ""},
            "write the pattern without look-around",
        ),
    ],
)
def test_what_has_no_counterpart_is_named_and_can_be_left_out(kind: str, item: dict[str, Any], advice: str) -> None:
    """SPEC §9.2: what to do is told with each; with skip_unsupported the rest is imported, and what binds it is not."""
    queue = {"vhost": "/", "name": "kept", "durable": True}
    binding = {"vhost": "/", "source": "amq.fanout", "destination": "s", "destination_type": "queue", "routing_key": ""}
    found = {"queues": [queue], "bindings": [binding], kind: [item, *([queue] if kind == "queues" else [])]}
    with pytest.raises(BadFile) as caught:
        import_definitions(default_broker(), found)
    assert advice in str(caught.value)
    assert "--skip-unsupported" in str(caught.value)
    broker = default_broker()
    choices = Choices(skip_unsupported=True)
    import_definitions(broker, found, choices)
    (line,) = choices.left_out
    assert line.startswith(f"{kind}[0]")
    vhost = broker.vhosts["/"]
    assert (list(vhost.queues), vhost.exchanges["amq.fanout"].bindings) == (["kept"], {})
    assert ("s" in broker.vhosts, "s" in broker.users) == (kind == "vhosts", kind == "users")


def test_of_a_policy_what_has_a_counterpart_is_kept() -> None:
    """SPEC §9.2: skip_unsupported leaves out as little as it can."""
    broker = default_broker()
    wanted = policy(**{"federation-upstream-set": "all", "max-length": 5})
    operator = {
        "vhost": "/",
        "component": "operator_policy",
        "name": "o",
        "value": policy(**{"ha-mode": "all", "expires": 9}),
    }
    import_definitions(broker, {"policies": [wanted], "parameters": [operator]}, Choices(skip_unsupported=True))
    vhost = broker.vhosts["/"]
    assert vhost.policies.by_name["p"].definition == {"max-length": 5}
    assert vhost.operator_policies.by_name["o"].definition == {"expires": 9}


def test_other_faults_are_not_left_out() -> None:
    """SPEC §9.2: skip_unsupported is for what RabbitMQ has, not for what is wrong."""
    wrong = {"queues": [{"vhost": "/", "name": "q", "arguments": {"x-max-length": -1}}]}
    with pytest.raises(BadFile, match="value_negative"):
        import_definitions(default_broker(), wrong, Choices(skip_unsupported=True))
