"""pyrabbit2: every public method of its client."""

import inspect
from collections.abc import Iterator
from typing import Any

import pika
import pyrabbit2
import pytest
from pyrabbit2.http import HTTPError
from tests.management.amqp import connected, soon
from tests.management.support import Http, Running
from tests.management.surface import Recording, Surface

from leveret.broker.password import hash_password

SURFACE = Surface()


@pytest.fixture
def client(broker: Running, request: pytest.FixtureRequest) -> Iterator[Any]:
    with SURFACE.recorded(request) as did:
        yield Recording(pyrabbit2.Client(f"127.0.0.1:{broker.http_port}", "guest", "guest"), did)


def test_every_method_is_tried() -> None:
    """SPEC §9.1: pyrabbit2, as its client is"""
    found = inspect.getmembers(pyrabbit2.Client, inspect.isroutine)
    wanted = {name for name, _ in found if not name.startswith("_")}
    assert len(wanted) > 50
    assert sorted(wanted - SURFACE.covered) == []


@SURFACE.covers(
    *("get_overview", "get_whoami", "get_nodes", "get_cluster_name", "get_extensions", "get_definitions", "is_alive"),
    *("create_vhost", "get_vhost", "get_all_vhosts", "get_vhost_names", "delete_vhost"),
)
def test_broker_and_vhosts(client: Any) -> None:
    """SPEC §9.1: pyrabbit2, the broker as a whole and its vhosts"""
    assert client.get_overview()["product_name"] == "RabbitMQ"
    assert client.get_whoami() == {"name": "guest", "tags": ["administrator"]}
    (node,) = client.get_nodes()
    assert node["running"] is True
    assert client.get_cluster_name()["name"]
    assert {"javascript": "dispatcher.js"} in client.get_extensions()
    assert client.create_vhost("rab/bit") == 201
    assert client.create_vhost("rab/bit") == 204
    assert client.get_vhost("rab/bit")["name"] == "rab/bit"
    assert "rab/bit" in client.get_vhost_names()
    assert "rab/bit" in [one["name"] for one in client.get_all_vhosts()]
    assert "rab/bit" in [one["name"] for one in client.get_definitions()["vhosts"]]
    assert client.is_alive(Http.quoted("rab/bit")) is True
    assert client.delete_vhost("rab/bit") == 204
    assert "rab/bit" not in client.get_vhost_names()
    with pytest.raises(pyrabbit2.api.APIError):
        client.is_alive(Http.quoted("rab/bit"))


@SURFACE.covers(
    *("create_user", "get_users", "delete_user", "get_permissions", "get_permission", "set_vhost_permissions"),
    *("get_vhost_permissions", "get_user_permissions", "delete_permission"),
)
def test_users_and_rights(client: Any, broker: Running, vhost: str) -> None:
    """SPEC §9.1: pyrabbit2, users and rights"""
    assert client.create_user("rab", "secret", tags="management") == 201
    assert client.create_user("bit", password_hash=hash_password(b"hashed"), tags="monitoring") == 201
    assert broker.http("bit", "hashed").get("/api/whoami")["tags"] == ["monitoring"]
    assert {"rab", "bit"} <= {one["name"] for one in client.get_users()}
    assert client.set_vhost_permissions(vhost, "rab", "^c", "^r", "^w") == 201
    granted = {"user": "rab", "vhost": vhost, "configure": "^c", "write": "^w", "read": "^r"}
    assert client.get_permission(vhost, "rab") == granted
    assert granted in client.get_permissions()
    assert granted in client.get_vhost_permissions(vhost)
    assert client.get_user_permissions("rab") == [granted]
    assert client.delete_permission(vhost, "rab") == 204
    assert client.delete_user("rab") == client.delete_user("bit") == 204
    with pytest.raises(HTTPError) as refused:
        client.delete_user("rab")
    assert (refused.value.status, refused.value.detail) == (404, "Not Found")


@SURFACE.covers(
    *("create_policy", "get_policy", "get_all_policies", "delete_policy"),
    *("create_shovel", "get_shovel", "get_all_shovels", "delete_shovel"),
)
def test_policies_and_shovels(client: Any, vhost: str) -> None:
    """SPEC §9.1: pyrabbit2, policies and the parameters of shovels"""
    facts = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
    assert client.create_policy(vhost, "p", **facts) == 201
    assert client.get_policy(vhost, "p") == {"vhost": vhost, "name": "p", **facts}
    assert client.get_policy(vhost, "p") in client.get_all_policies()
    assert client.delete_policy(vhost, "p") == 204
    shovel = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b", "reconnect-delay": 1}
    assert client.create_shovel(vhost, "s", **shovel) == 201
    found = client.get_shovel(vhost, "s")
    assert (found["name"], found["vhost"], found["component"], found["value"]["src-queue"]) == ("s", vhost, "shovel", "a")
    assert [one["name"] for one in client.get_all_shovels() if one["vhost"] == vhost] == ["s"]
    assert client.delete_shovel(vhost, "s") == 204
    assert [one for one in client.get_all_shovels() if one["vhost"] == vhost] == []


@SURFACE.covers(
    *("create_queue", "get_queue", "get_queues", "get_queue_depth", "get_queue_depths", "delete_queue"),
    *("publish", "get_messages", "purge_queue", "purge_queues"),
)
def test_queues_and_messages(client: Any, vhost: str, capsys: pytest.CaptureFixture[str]) -> None:
    """SPEC §9.1: pyrabbit2, queues and what is in them"""
    assert client.create_queue(vhost, "a/b", durable=True, arguments={"x-max-length": 5}) == 201
    assert client.create_queue(vhost, "c") == 201
    assert client.get_queue(vhost, "a/b")["arguments"] == {"x-max-length": 5}
    assert [one["name"] for one in client.get_queues(vhost)] == ["a/b", "c"]
    assert [one["name"] for one in client.get_queues(vhost, "^a", regex=True)] == ["a/b"]
    assert [one["name"] for one in client.get_queues(vhost, "C")] == ["c"]
    assert {"a/b", "c"} <= {one["name"] for one in client.get_queues()}
    assert client.publish(vhost, "amq.default", "a/b", "one", properties={"delivery_mode": 2}) is True
    assert client.publish(vhost, "amq.default", "a/b", "dHdv", "base64") is True
    assert client.publish(vhost, "amq.fanout", "", "x") is False
    assert client.get_queue_depth(vhost, "a/b") == 2
    client.get_queue_depths(vhost)
    assert "'name': 'a/b'" in capsys.readouterr().out
    # It quotes the vhost twice if it is asked for some queues, so only for a name that needs no quotes this works.
    client.create_vhost("plain")
    client.create_queue("plain", "d")
    client.get_queue_depths("plain", ["d"])
    assert capsys.readouterr().out == "\td: 0\n"
    client.delete_vhost("plain")
    (first,) = client.get_messages(vhost, "a/b", requeue=True, truncate=2)
    assert (first["payload"], first["payload_bytes"], first["properties"]) == ("on", 3, {"delivery_mode": 2})
    assert [one["payload"] for one in client.get_messages(vhost, "a/b", 5)] == ["one", "two"]
    client.publish(vhost, "amq.default", "a/b", "one")
    assert client.purge_queue(vhost, "a/b") == 204
    assert client.get_queue_depth(vhost, "a/b") == 0
    client.publish(vhost, "amq.default", "a/b", "one")
    assert client.purge_queues([("a/b", vhost), ("c", vhost)]) is True
    assert client.get_queue_depth(vhost, "a/b") == 0
    assert client.delete_queue(vhost, "a/b") == 204
    with pytest.raises(HTTPError):
        client.get_queue(vhost, "a/b")


@SURFACE.covers(
    *("create_exchange", "get_exchange", "get_exchanges", "delete_exchange"),
    *("create_binding", "get_bindings", "get_queue_bindings", "delete_binding"),
    *("get_bindings_from_exchange", "get_bindings_to_exchange", "get_bindings_between_exch_and_queue"),
)
def test_exchanges_and_bindings(client: Any, vhost: str) -> None:
    """SPEC §9.1: pyrabbit2, exchanges and bindings"""
    assert client.create_exchange(vhost, "x/y", "topic", internal=True) is True
    exchange = client.get_exchange(vhost, "x/y")
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("topic", True, True)
    assert "x/y" in [one["name"] for one in client.get_exchanges(vhost)]
    assert "x/y" in [one["name"] for one in client.get_exchanges()]
    client.create_queue(vhost, "q")
    assert client.create_binding(vhost, "x/y", "q", "a.*") == 201
    assert client.create_binding(vhost, "x/y", "q", "k", {"a": 1}) == 201
    found = [one for one in client.get_queue_bindings(vhost, "q") if one["source"]]
    assert sorted(one["properties_key"].partition("~")[0] for one in found) == ["a.%2A", "k"]
    assert all(one in client.get_bindings() for one in found)
    for one in found:
        assert client.delete_binding(vhost, "x/y", "q", one["properties_key"]) == 204
    assert [one["source"] for one in client.get_queue_bindings(vhost, "q")] == [""]
    # These three are only promises of its authors.
    assert client.get_bindings_from_exchange(vhost, "x/y") is client.get_bindings_to_exchange(vhost, "x/y") is None
    assert client.get_bindings_between_exch_and_queue(vhost, "x/y", "q") is None
    assert client.delete_exchange(vhost, "x/y") is True
    with pytest.raises(HTTPError):
        client.get_exchange(vhost, "x/y")


@SURFACE.covers("get_connections", "get_connection", "delete_connection", "get_channels", "get_channel")
def test_connections_and_channels(client: Any, broker: Running, vhost: str) -> None:
    """SPEC §9.1: pyrabbit2, connections and channels"""
    with connected(broker, vhost) as connection:
        connection.channel()
        (name,) = (one["name"] for one in client.get_connections() if one["vhost"] == vhost)
        assert client.get_connection(name)["user"] == "guest"
        assert f"{name} (1)" in [one["name"] for one in client.get_channels()]
        assert client.get_channel(f"{name} (1)")["vhost"] == vhost
        assert client.delete_connection(name) is True
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            soon(lambda: connection.process_data_events(0.1))
    with pytest.raises(HTTPError):
        client.get_connection(name)
