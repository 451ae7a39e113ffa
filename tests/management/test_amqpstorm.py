"""amqpstorm.management: every public method of it."""

import inspect
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from amqpstorm.management.api import ManagementApi
from amqpstorm.management.base import ManagementHandler
from amqpstorm.management.exception import ApiError
from tests.management.amqp import connected, soon
from tests.management.support import Running
from tests.management.surface import Recording, Surface

SURFACE = Surface()


@pytest.fixture
def api(broker: Running, request: pytest.FixtureRequest) -> Iterator[Any]:
    with SURFACE.recorded(request) as did:
        yield Recording(ManagementApi(f"http://127.0.0.1:{broker.http_port}", "guest", "guest"), did)


def public(owner: Any) -> list[str]:
    return [name for name, _ in inspect.getmembers(owner, inspect.isroutine) if not name.startswith("_")]


def test_every_method_is_tried() -> None:
    """SPEC §9.1: amqpstorm.management, as its classes are"""
    wanted = set(public(ManagementApi))
    with ManagementApi("http://127.0.0.1:1", "guest", "guest") as api:
        for name, part in inspect.getmembers(api):
            if isinstance(part, ManagementHandler) and not name.startswith("_"):
                wanted |= {f"{name}.{method}" for method in public(part)}
    assert len(wanted) > 40
    assert sorted(wanted - SURFACE.covered) == []


@SURFACE.covers("overview", "whoami", "cluster_name", "nodes", "node", "top", "aliveness_test", "healthchecks.get")
def test_broker_is_described(api: Any, vhost: str) -> None:
    """SPEC §9.1: amqpstorm.management, the broker as a whole"""
    assert api.overview()["rabbitmq_version"] == "3.13.7"
    assert api.whoami()["name"] == "guest"
    assert api.cluster_name()["name"]
    (node,) = api.nodes()
    assert api.node(node["name"])["name"] == node["name"]
    (top,) = api.top()
    assert (top["node"], top["row_count"]) == (node["name"], 20)
    assert {"pid", "name", "reductions", "memory"} <= top["processes"][0].keys()
    assert api.aliveness_test(vhost) == api.healthchecks.get() == api.healthchecks.get(node["name"]) == {"status": "ok"}
    with pytest.raises(ApiError) as refused:
        api.healthchecks.get("nowhere")
    assert refused.value.error_code == 404


@SURFACE.covers(*(f"queue.{name}" for name in ("declare", "get", "list", "delete", "purge", "bind", "bindings", "unbind")))
def test_queues(api: Any, vhost: str) -> None:
    """SPEC §9.1: amqpstorm.management, queues and their bindings"""
    assert api.queue.declare("q", vhost, durable=True, arguments={"x-max-length": 5}) is None
    api.queue.declare("other", vhost, auto_delete=True)
    queue = api.queue.declare("q", vhost, passive=True)
    assert (queue["durable"], queue["auto_delete"], queue["arguments"]) == (True, False, {"x-max-length": 5})
    assert api.queue.get("q", vhost)["name"] == "q"
    assert [one["name"] for one in api.queue.list(vhost, page_size=1)] == ["other", "q"]
    assert [one["name"] for one in api.queue.list(vhost, name="^q", use_regex=True)] == ["q"]
    assert [one["name"] for one in api.queue.list(vhost, page_size=None)] == ["other", "q"]
    assert {"other", "q"} <= {one["name"] for one in api.queue.list(show_all=True)}
    api.queue.bind("q", "amq.topic", "a.*", vhost)
    api.queue.bind("q", "amq.headers", "", vhost, {"x-match": "any", "a": 1})
    sources = {one["source"]: one["properties_key"] for one in api.queue.bindings("q", vhost)}
    assert sources.keys() == {"", "amq.topic", "amq.headers"}
    api.queue.unbind("q", "amq.topic", "a.*", vhost)
    api.queue.unbind("q", "amq.headers", virtual_host=vhost, properties_key=sources["amq.headers"])
    assert [one["source"] for one in api.queue.bindings("q", vhost)] == [""]
    api.basic.publish("x", "q", virtual_host=vhost)
    api.queue.purge("q", vhost)
    assert api.queue.get("q", vhost)["messages"] == 0
    api.queue.delete("q", vhost)
    with pytest.raises(ApiError) as refused:
        api.queue.get("q", vhost)
    assert refused.value.error_code == 404


@SURFACE.covers(*(f"exchange.{name}" for name in ("declare", "get", "list", "delete", "bind", "bindings", "unbind")))
def test_exchanges(api: Any, vhost: str) -> None:
    """SPEC §9.1: amqpstorm.management, exchanges and bindings between them"""
    api.exchange.declare("x", "topic", vhost, durable=True, internal=True, arguments={"alternate-exchange": "amq.fanout"})
    api.exchange.declare("y", virtual_host=vhost, auto_delete=True)
    exchange = api.exchange.declare("x", virtual_host=vhost, passive=True)
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("topic", True, True)
    assert api.exchange.get("y", vhost)["auto_delete"] is True
    assert {"x", "y", "amq.topic", ""} <= {one["name"] for one in api.exchange.list(vhost, page_size=2)}
    assert [one["name"] for one in api.exchange.list(vhost, name="^[xy]$", use_regex=True)] == ["x", "y"]
    assert "x" in [one["name"] for one in api.exchange.list(show_all=True)]
    api.exchange.bind("y", "x", "k", vhost, {"a": 1})
    api.exchange.bind("amq.fanout", "x", "k", vhost)
    (first, second) = sorted(api.exchange.bindings("x", vhost), key=lambda one: one["destination"])
    assert (first["destination"], first["properties_key"]) == ("amq.fanout", "k")
    assert (second["destination"], second["arguments"]) == ("y", {"a": 1})
    api.exchange.unbind("amq.fanout", "x", "k", vhost)
    api.exchange.unbind("y", "x", virtual_host=vhost, properties_key=second["properties_key"])
    assert api.exchange.bindings("x", vhost) == []
    api.exchange.delete("x", vhost)
    with pytest.raises(ApiError):
        api.exchange.get("x", vhost)


@SURFACE.covers("basic.publish", "basic.get")
def test_messages(api: Any, vhost: str) -> None:
    """SPEC §9.1: amqpstorm.management, publish and get"""
    api.queue.declare("q", vhost)
    properties = {"content_type": "text/plain", "headers": {"a": 1}}
    assert api.basic.publish("one", "q", virtual_host=vhost, properties=properties) == {"routed": True}
    api.basic.publish("dHdv", "q", "amq.default", vhost, payload_encoding="base64")
    assert api.basic.publish("x", "nowhere", virtual_host=vhost) == {"routed": False}
    (first,) = api.basic.get("q", vhost, requeue=True)
    assert (first.body, first.properties["headers"], first.content_type) == ("one", {"a": 1}, "text/plain")
    first, second = api.basic.get("q", vhost, to_dict=True, count=5, truncate=2, encoding="base64")
    assert (first["payload"], first["redelivered"], first["payload_bytes"]) == ("b24=", True, 3)
    assert (second["payload"], second["redelivered"], second["message_count"]) == ("dHc=", False, 0)
    assert api.basic.get("q", vhost) == []


@SURFACE.covers("connection.list", "connection.get", "connection.close", "channel.list", "channel.get")
def test_connections_and_channels(api: Any, broker: Running, vhost: str) -> None:
    """SPEC §9.1: amqpstorm.management, connections and channels"""
    with connected(broker, vhost) as connection:
        connection.channel()
        (found,) = (one for one in api.connection.list(page_size=1) if one["vhost"] == vhost)
        name = found["name"]
        assert api.connection.list(name=name) == api.connection.list(name=f"^{name}$", use_regex=True)
        assert api.connection.get(name)["channels"] == 1
        assert api.channel.list(name=f"{name} (1)", page_size=10)[0]["number"] == 1
        assert f"{name} (1)" in [one["name"] for one in api.channel.list()]
        assert api.channel.get(f"{name} (1)")["connection_details"]["name"] == name
        api.connection.close(name, "enough")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - enough"):
            soon(lambda: connection.process_data_events(0.1))
    with pytest.raises(ApiError):
        api.connection.get(name)


@SURFACE.covers(
    *(f"user.{name}" for name in ("create", "get", "list", "delete", "set_permission", "get_permission")),
    *(f"user.{name}" for name in ("get_permissions", "delete_permission")),
)
def test_users(api: Any, vhost: str) -> None:
    """SPEC §9.1: amqpstorm.management, users and their rights"""
    api.user.create("storm", "secret", tags="management,monitoring")
    api.user.create("calm", "secret", tags=["management"])
    assert api.user.get("storm")["tags"] == ["management", "monitoring"]
    assert {"storm", "calm"} <= {one["name"] for one in api.user.list()}
    api.user.set_permission("storm", vhost, "^c", "^w", "^r")
    granted = {"user": "storm", "vhost": vhost, "configure": "^c", "write": "^w", "read": "^r"}
    assert api.user.get_permission("storm", vhost) == granted
    assert api.user.get_permissions("storm") == [granted]
    api.user.delete_permission("storm", vhost)
    assert api.user.get_permissions("storm") == []
    api.user.delete("storm")
    api.user.create("storm", "secret")
    api.user.delete(["storm", "calm"])
    assert not {"storm", "calm"} & {one["name"] for one in api.user.list()}
    with pytest.raises(ApiError) as refused:
        api.user.get("storm")
    assert refused.value.error_code == 404


@SURFACE.covers(*(f"virtual_host.{name}" for name in ("create", "get", "list", "delete", "get_permissions")))
def test_virtual_hosts(api: Any) -> None:
    """SPEC §9.1: amqpstorm.management, vhosts"""
    api.virtual_host.create("storm/y")
    assert api.virtual_host.get("storm/y")["name"] == "storm/y"
    assert "storm/y" in [one["name"] for one in api.virtual_host.list()]
    assert [one["user"] for one in api.virtual_host.get_permissions("storm/y")] == ["guest"]
    api.virtual_host.delete("storm/y")
    with pytest.raises(ApiError):
        api.virtual_host.get("storm/y")
