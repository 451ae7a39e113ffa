"""RabbitMQ's definitions file, out of a broker and into one."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.password import hash_password
from leveret.definitions.export import export, export_vhost
from leveret.definitions.file import BadFile, parse
from leveret.definitions.file_import import Choices, import_definitions, steps_of_import
from leveret.server.config import Config
from leveret.server.node import configured_broker

HASH = hash_password(b"secret", b"salt")

# As RabbitMQ 3.8, 3.10, 3.13 and 4.1 write it: what each has that others have not.
FILES: dict[str, dict[str, Any]] = {
    "3.8": {
        "rabbit_version": "3.8.34",
        "rabbitmq_version": "3.8.34",
        "users": [
            {
                "name": "shop",
                "password_hash": HASH,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": "administrator,management",
            }
        ],
        "vhosts": [{"name": "orders"}],
        "permissions": [{"user": "shop", "vhost": "orders", "configure": ".*", "write": ".*", "read": ".*"}],
        "global_parameters": [{"name": "cluster_name", "value": "rabbit@old"}],
    },
    "3.10": {
        "rabbit_version": "3.10.8",
        "product_name": "RabbitMQ",
        "users": [{"name": "shop", "password_hash": HASH, "tags": ["administrator"], "limits": {"max-channels": 5}}],
        "vhosts": [{"limits": [], "metadata": {"description": "all orders", "tags": ["a"]}, "name": "orders"}],
        "topic_permissions": [{"user": "shop", "vhost": "orders", "exchange": "amq.topic", "write": "^a", "read": ""}],
        "parameters": [
            {"vhost": "orders", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}},
            {
                "vhost": "orders",
                "component": "operator_policy",
                "name": "bounded",
                "value": {"apply-to": "queues", "definition": {"max-length": 9}, "pattern": ".*", "priority": 1},
            },
        ],
    },
    "3.13": {
        "rabbit_version": "3.13.7",
        "users": [{"name": "shop", "password_hash": HASH, "tags": ["administrator"], "limits": {}}],
        "vhosts": [
            {
                "name": "orders",
                "description": "all orders",
                "tags": ["a"],
                "default_queue_type": "quorum",
                "metadata": {"description": "all orders", "tags": ["a"], "default_queue_type": "quorum"},
            }
        ],
        "policies": [
            {
                "vhost": "orders",
                "name": "p",
                "pattern": "^q",
                "apply-to": "classic_queues",
                "definition": {"dead-letter-exchange": "dead"},
                "priority": 7,
            }
        ],
        "queues": [
            {"name": "plain", "vhost": "orders", "durable": True, "auto_delete": False, "arguments": {}},
            {
                "name": "q",
                "vhost": "orders",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "classic", "x-max-length": 10},
            },
            {"name": "amq.gen-x", "vhost": "orders", "durable": False, "auto_delete": True, "arguments": {}},
        ],
        "exchanges": [
            {
                "name": "x",
                "vhost": "orders",
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {"alternate-exchange": "dead"},
            },
            {"name": "dead", "vhost": "orders", "type": "fanout", "durable": True, "arguments": {}},
        ],
        "bindings": [
            {
                "source": "x",
                "vhost": "orders",
                "destination": "q",
                "destination_type": "queue",
                "routing_key": "a.#",
                "arguments": {"n": 5},
            },
            {
                "source": "x",
                "vhost": "orders",
                "destination": "dead",
                "destination_type": "exchange",
                "routing_key": "",
                "arguments": {},
            },
        ],
    },
    "4.1": {
        "rabbit_version": "4.1.0",
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": "rabbit@new",
        "explanation": "Definitions of cluster 'rabbit@new'",
        "users": [{"name": "shop", "password_hash": HASH, "tags": ["administrator"], "limits": {}}],
        "vhosts": [
            {
                "name": "orders",
                "description": "",
                "metadata": {
                    "description": "",
                    "tags": [],
                    "default_queue_type": "classic",
                    "protected_from_deletion": True,
                },
                "tags": [],
                "default_queue_type": "classic",
            }
        ],
        "queues": [
            {"name": "q", "vhost": "orders", "durable": True, "auto_delete": False, "type": "quorum", "arguments": {}}
        ],
    },
}


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1) if depth else 1}


@pytest.mark.parametrize("version", FILES)
def test_files_of_rabbitmq_are_imported(version: str) -> None:
    """SPEC §9.2: RabbitMQ's files of each version"""
    broker = default_broker()
    import_definitions(broker, parse(json.dumps(FILES[version]).encode()))
    assert broker.users["shop"].has_password(b"secret")
    assert "administrator" in broker.users["shop"].tags
    assert broker.users.keys() == {"guest", "shop"}
    vhost = broker.vhosts["orders"]
    if version == "3.8":
        assert broker.users["shop"].rights["orders"].granted
        assert broker.parameters == {"cluster_name": "rabbit@old"}
    if version == "3.10":
        assert broker.users["shop"].limits == {"max-channels": 5}
        assert broker.users["shop"].rights["orders"].topics == {"amq.topic": ("^a", "")}
        assert (vhost.description, vhost.tags, vhost.limits) == ("all orders", ("a",), {"max-queues": 9})
        assert vhost.operator_policies.by_name["bounded"].priority == 1
    if version == "3.13":
        assert vhost.default_queue_type == "quorum"
        assert vhost.queues["plain"].arguments == {"x-queue-type": "quorum"}
        assert vhost.queues["q"].settings.max_length == 10
        assert vhost.queues["q"].policy is vhost.policies.by_name["p"]
        assert (vhost.queues["amq.gen-x"].durable, vhost.queues["amq.gen-x"].auto_delete) == (False, True)
        assert vhost.exchanges["x"].alternate == "dead"
        assert len(vhost.exchanges["x"].bindings) == 2
    if version == "4.1":
        assert vhost.queues["q"].arguments == {"x-queue-type": "quorum"}


@pytest.mark.parametrize("version", FILES)
def test_what_is_exported_makes_the_same_again(version: str) -> None:
    """SPEC §9.2: export and import; twice changes nothing"""
    broker, again = Broker(), Broker()
    import_definitions(broker, FILES[version])
    found = export(broker)
    import_definitions(again, json.loads(json.dumps(found)))
    assert export(again) == found
    import_definitions(again, found)
    assert export(again) == found


def test_vhost_moves_under_another_name() -> None:
    """SPEC §9.2: export and import of one vhost"""
    broker = Broker()
    import_definitions(broker, FILES["3.13"])
    found = export_vhost(broker.vhosts["orders"])
    assert found.keys() == {"rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings"}
    assert not any("vhost" in item for kind, items in found.items() if kind != "rabbit_version" for item in items)
    broker.add_vhost("copy")
    import_definitions(broker, found, Choices("copy"))
    assert export_vhost(broker.vhosts["copy"]) == found


def test_what_is_there_stays_or_follows_the_file() -> None:
    """SPEC §9.2: import. RabbitMQ: queues and exchanges stay as they are."""
    broker = default_broker()
    vhost = broker.vhosts["/"]
    queue = vhost.declare_queue("q")
    vhost.declare_exchange("x", "direct")
    import_definitions(
        broker,
        {
            "users": [{"name": "guest", "password": "other", "tags": []}],
            "queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {"x-max-length": 1}}],
            "exchanges": [{"name": "x", "vhost": "/", "type": "fanout"}, {"name": "", "vhost": "/", "type": "direct"}],
            "bindings": [{"source": "", "vhost": "/", "destination": "q", "routing_key": "q"}],
            "global_parameters": {"cluster_name": "as in the settings"},
        },
    )
    assert (vhost.queues["q"], queue.durable, vhost.exchanges["x"].kind) == (queue, False, "direct")
    assert (broker.users["guest"].has_password(b"other"), broker.users["guest"].loopback_only) == (True, True)
    assert broker.parameters["cluster_name"] == "as in the settings"


@pytest.mark.parametrize(
    ("kind", "item", "fault"),
    [
        ("vhosts", {}, "vhosts[0]: name is missing"),
        ("vhosts", 5, "vhosts[0]: must be an object"),
        ("vhosts", {"name": "v", "default_queue_type": "stream"}, "vhosts[0] (v): unsupported queue type 'stream'"),
        ("users", {"name": "u"}, "users[0] (u): tags_not_present"),
        (
            "users",
            {"name": "u", "tags": "", "password_hash": "", "hashing_algorithm": "bcrypt"},
            "users[0] (u): unknown password hashing algorithm 'bcrypt'",
        ),
        ("permissions", {"user": "u", "vhost": "/"}, "permissions[0] (u in /): configure is missing"),
        (
            "permissions",
            {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""},
            "permissions[0] (u in /): user 'u' not found",
        ),
        ("topic_permissions", {"user": "u"}, "topic_permissions[0] (u): exchange is missing"),
        (
            "parameters",
            {"component": "federation-upstream", "vhost": "/", "name": "f", "value": {}},
            "parameters[0] (f in /): component federation-upstream not found",
        ),
        ("global_parameters", {"name": "n"}, "global_parameters[0] (n): value is missing"),
        (
            "policies",
            {"vhost": "/", "name": "p", "pattern": "", "definition": {"max-age": "1D"}},
            'policies[0] (p in /): [{<<"max-age">>,<<"1D">>}] are not recognised policy settings',
        ),
        ("policies", {"vhost": "/", "name": "p", "pattern": 5}, "policies[0] (p in /): pattern must be text"),
        (
            "queues",
            {"vhost": "/", "name": "s", "durable": True, "arguments": {"x-queue-type": "stream"}},
            "queues[0] (s in /): ",
        ),
        ("queues", {"vhost": "/", "name": "s", "durable": True, "type": "stream"}, "queues[0] (s in /): "),
        ("queues", {"vhost": "/", "name": ""}, "queues[0]: name must not be empty"),
        ("queues", {"vhost": "/", "name": "q", "durable": 1.5}, "queues[0] (q in /): durable must be true or false"),
        ("queues", {"vhost": "/", "name": "q", "arguments": 5}, "queues[0] (q in /): arguments must be an object"),
        (
            "queues",
            {"vhost": "/", "name": "é" * 128},
            f"queues[0] ({'é' * 128} in /): name should be less than 255 bytes, actually was 256",
        ),
        (
            "queues",
            {"vhost": "/", "name": "q", "durable": True, "arguments": {"n": 1 << 63}},
            "queues[0] (q in /): it has an integer of more than 64 bits",
        ),
        (
            "queues",
            {"vhost": "/", "name": "q", "durable": True, "arguments": nested(60)},
            "queues[0] (q in /): arguments cannot be written as a table: ",
        ),
        (
            "queues",
            {"vhost": "/", "name": "q", "durable": True, "arguments": {"k" * 256: 1}},
            "queues[0] (q in /): arguments cannot be written as a table: ",
        ),
        (
            "bindings",
            {"vhost": "/", "source": "amq.direct", "destination": "q", "routing_key": "k" * 256},
            "bindings[0] (amq.direct in /): ",
        ),
        ("queues", {"vhost": "no", "name": "q"}, "queues[0] (q in no): vhost 'no' not found"),
        (
            "exchanges",
            {"vhost": "/", "name": "x", "type": "x-jms-topic"},
            "exchanges[0] (x in /): unknown exchange type 'x-jms-topic'",
        ),
        (
            "bindings",
            {"vhost": "/", "source": "x", "destination": "y", "destination_type": "z"},
            "bindings[0] (x in /): destination_type must be queue or exchange",
        ),
    ],
)
def test_nothing_is_imported_by_halves(kind: str, item: Any, fault: str) -> None:
    """SPEC §9.2: what is wrong is told with its place, and nothing is made."""
    broker = default_broker()
    before = export(broker)
    found: dict[str, Any] = {
        "vhosts": [],
        "users": [],
        "queues": [],
        "global_parameters": [],
        kind: [item],
    }
    found["vhosts"] = [*found["vhosts"], {"name": "new"}]
    found["users"] = [*found["users"], {"name": "new", "tags": ""}]
    found["queues"] = [*found["queues"], {"vhost": "new", "name": "q"}]
    with pytest.raises(BadFile) as caught:
        import_definitions(broker, found)
    assert str(caught.value).startswith(fault)
    assert ";" not in str(caught.value)
    assert export(broker) == before


def test_everything_wrong_is_told() -> None:
    """SPEC §9.2: faults, the first of many"""
    queues = [{"vhost": "no", "name": f"q{number}"} for number in range(30)]
    with pytest.raises(BadFile) as caught:
        import_definitions(default_broker(), {"queues": queues, "users": 5})
    text = str(caught.value)
    assert text.startswith("users: must be a list; queues[0] (q0 in no): vhost 'no' not found; queues[1] (q1")
    assert text.endswith("; and 11 more")


def test_limits_hold_for_imports() -> None:
    """SPEC §9.2: a file with more queues than the vhost may have is refused, exclusive ones counted."""
    broker = default_broker()
    vhost = broker.vhosts["/"]
    vhost.declare_queue("exclusive", owner=object())
    vhost.set_limits({"max-queues": 2})
    with pytest.raises(BadFile, match=r"queue limit in vhost '/' \(2\) is reached"):
        import_definitions(broker, {"queues": [{"vhost": "/", "name": name} for name in "ab"]})
    assert vhost.queues.keys() == {"exclusive"}


def test_old_hashes_are_md5() -> None:
    """SPEC §9.2: RabbitMQ before 3.6 did not say how passwords are hashed."""
    broker = Broker()
    hashed = hash_password(b"secret", hashing="rabbit_password_hashing_md5")
    users = [{"name": "old", "password_hash": hashed, "administrator": "true"}]
    import_definitions(broker, {"rabbit_version": "3.5.7", "users": users})
    assert (broker.users["old"].has_password(b"secret"), broker.users["old"].tags) == (True, ("administrator",))


def test_what_others_make_impossible_meanwhile_is_told() -> None:
    """SPEC §9.2: an import that was fine when it was checked, and no longer when it was carried out; the rest is made."""
    broker = default_broker()
    found = {"queues": [{"name": name, "vhost": vhost} for name, vhost in (("a", "/"), ("b", "gone"), ("c", "/"))]}
    broker.add_vhost("gone")
    steps = steps_of_import(broker, found, Choices())
    while "a" not in broker.vhosts["/"].queues:
        next(steps)
    broker.delete_vhost("gone")
    with pytest.raises(BadFile, match=re.escape("queues[1] (b in gone): vhost 'gone' not found")):
        list(steps)
    assert set(broker.vhosts["/"].queues) == {"a", "c"}


# As `rabbitmqctl export_definitions` writes them, with lists of pairs where an object is not the outermost one.
WRITTEN_BY_CTL: dict[str, dict[str, Any]] = {
    "3.8": {
        "rabbit_version": "3.8.35",
        "users": [
            {
                "name": "shop",
                "password_hash": HASH,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "limits": [],
                "tags": ["administrator"],
            }
        ],
        "vhosts": [
            {"limits": [], "metadata": {"description": "Default virtual host", "tags": []}, "name": "/"},
            {"limits": [["max-queues", 9]], "metadata": [["description", "all orders"], ["tags", ["a"]]], "name": "orders"},
        ],
    },
    "3.10": {
        "rabbit_version": "3.10.8",
        "rabbitmq_version": "3.10.8",
        "users": [
            {
                "name": "shop",
                "password_hash": hash_password(b"secret", b"salt", "rabbit_password_hashing_sha512"),
                "hashing_algorithm": "rabbit_password_hashing_sha512",
                "limits": {"max-channels": 7, "max-connections": 3},
                "tags": ["administrator"],
            }
        ],
        "vhosts": [
            {
                "limits": [["max-connections", -1], ["max-queues", 9]],
                "metadata": {"description": "all orders", "tags": ["a"]},
                "name": "orders",
            }
        ],
        "parameters": [
            {
                "component": "operator_policy",
                "name": "bounded",
                "value": {"apply-to": "queues", "definition": [["max-length", 5]], "pattern": "^q", "priority": 2},
                "vhost": "orders",
            },
            {
                "component": "shovel",
                "name": "moving",
                "value": {
                    "src-uri": "amqp://",
                    "src-queue": "q",
                    "dest-uri": "amqp://",
                    "dest-queue": "other",
                    "dest-publish-properties": [["delivery_mode", 2]],
                },
                "vhost": "orders",
            },
        ],
        "global_parameters": [{"name": "gp", "value": [["a", [1, 2]]]}],
        "exchanges": [
            {"arguments": {}, "auto_delete": False, "durable": True, "name": "x", "type": "topic", "vhost": "orders"},
            {"arguments": {}, "auto_delete": False, "durable": True, "name": "amq.mine", "type": "topic", "vhost": "orders"},
        ],
        "queues": [
            {"arguments": {}, "auto_delete": False, "durable": True, "name": "q", "type": "classic", "vhost": "orders"}
        ],
        # Exclusive queues and internal exchanges are not exported, but their bindings are.
        "bindings": [
            {
                "arguments": {},
                "destination": name,
                "destination_type": kind,
                "routing_key": "k",
                "source": source,
                "vhost": "orders",
            }
            for source, kind, name in (
                ("x", "queue", "q"),
                ("x", "queue", "own"),
                ("x", "exchange", "y"),
                ("y", "queue", "q"),
            )
        ],
    },
    "3.13": {
        "rabbit_version": "3.13.7",
        "rabbitmq_version": "3.13.7",
        "product_name": "RabbitMQ",
        "product_version": "3.13.7",
        "users": [
            {
                "name": "shop",
                "password_hash": HASH,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "limits": {},
                "tags": ["administrator"],
            }
        ],
        "vhosts": [
            {
                "limits": [["max-queues", 9]],
                "metadata": {"description": "all orders", "tags": ["a"], "default_queue_type": "quorum"},
                "name": "orders",
                "tracing": True,
            }
        ],
        "global_parameters": [{"name": "gp", "value": [["a", [1, 2]]]}],
    },
    "4.1": {
        "rabbit_version": "4.1.0",
        "rabbitmq_version": "4.1.0",
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": "rabbit@new",
        "explanation": "Definitions of cluster 'rabbit@new'",
        "users": [
            {
                "name": "shop",
                "password_hash": HASH,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "limits": {},
                "tags": ["administrator"],
            }
        ],
        "vhosts": [
            {
                "limits": [["max-queues", 9]],
                "metadata": {
                    "description": "all orders",
                    "tags": ["a"],
                    "default_queue_type": "rabbit_quorum_queue",
                    "protected_from_deletion": False,
                },
                "name": "orders",
            }
        ],
        "queues": [
            {
                "arguments": {},
                "auto_delete": False,
                "durable": True,
                "name": "q",
                "type": "rabbit_quorum_queue",
                "vhost": "orders",
            }
        ],
    },
}


@pytest.mark.parametrize("version", WRITTEN_BY_CTL)
def test_files_of_rabbitmqctl_are_imported(version: str) -> None:
    """SPEC §9.2: RabbitMQ's files of each version, written by rabbitmqctl"""
    broker = default_broker()
    import_definitions(broker, parse(json.dumps(WRITTEN_BY_CTL[version]).encode()))
    vhost, user = broker.vhosts["orders"], broker.users["shop"]
    assert user.has_password(b"secret")
    assert (vhost.description, vhost.tags, vhost.limits["max-queues"]) == ("all orders", ("a",), 9)
    if version == "3.10":
        assert (user.limits, vhost.limits["max-connections"]) == ({"max-channels": 7, "max-connections": 3}, -1)
        assert vhost.operator_policies.by_name["bounded"].definition == {"max-length": 5}
        assert vhost.parameters.values["shovel", "moving"]["dest-publish-properties"] == {"delivery_mode": 2}
        assert broker.parameters == {"gp": {"a": [1, 2]}}
        assert [binding.destination.name for binding in vhost.exchanges["x"].bindings.values()] == ["q"]
        assert "amq.mine" not in vhost.exchanges
    if version == "3.13":
        # Not written by rabbitmqctl alone: there it may be a list.
        assert broker.parameters == {"gp": [["a", [1, 2]]]}
        assert (vhost.default_queue_type, vhost.tracing) == ("quorum", True)
    if version == "4.1":
        assert (vhost.default_queue_type, vhost.queues["q"].arguments) == ("quorum", {"x-queue-type": "quorum"})


def test_file_is_loaded_at_start(tmp_path: Path) -> None:
    """SPEC §9.2: load at start; with users in it guest is not made."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(FILES["3.13"]))
    broker = configured_broker(Config(storage="memory", load_definitions=str(file)))
    assert broker.users.keys() == {"shop"}
    assert broker.vhosts.keys() == {"/", "orders"}
    file.write_text('{"vhosts": [{"name": "v"}]}')
    broker = configured_broker(Config(storage="memory", load_definitions=str(file)))
    assert broker.users.keys() == {"guest"}
    assert broker.vhosts.keys() == {"/", "v"}
