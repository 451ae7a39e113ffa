"""Exchanges through the HTTP API."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.management.support import Http, Response, Running


def path_of(vhost: str, name: str = "") -> str:
    return f"/api/exchanges/{Http.quoted(vhost)}" + (f"/{Http.quoted(name)}" if name else "")


def publish(http: Http, vhost: str, exchange: str, **message: Any) -> Response:
    given = {"routing_key": "q", "properties": {}, "payload": "x", "payload_encoding": "string", **message}
    return http.post(path_of(vhost, exchange) + "/publish", given)


def test_exchange_is_declared_seen_and_deleted(http: Http, vhost: str) -> None:
    """SPEC §9.1: PUT answers 201, then 204; DELETE 204, then 404; what differs is refused."""
    path = path_of(vhost, "a/b")
    wanted = {"type": "topic", "durable": "true", "internal": False, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert http.put(path, wanted).status == 201
    assert http.put(path, wanted).status == 204
    found = http.get(path)
    assert {key: found[key] for key in ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")} == {
        "name": "a/b",
        "vhost": vhost,
        "type": "topic",
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {"alternate-exchange": "amq.fanout"},
    }
    assert http.put(path, {"type": "direct"}).json["reason"].startswith("PRECONDITION_FAILED - inequivalent arg 'type'")
    assert http.put(path_of(vhost, "z"), {"type": "no-such-type"}).status == 400
    assert http.put(path_of(vhost, "z"), {"type": 5}).status == 400
    assert http.put(path_of(vhost, "x" * 256)).status == 400
    assert http.put(path_of(vhost, "amq.mine")).status == 401
    assert http.delete(path_of(vhost, "amq.topic")).status == 401
    assert http.delete(path).status == 204
    assert http.delete(path).status == 404
    assert http.ask("GET", path).json == {"error": "Object Not Found", "reason": "Not Found"}


def test_exchanges_are_listed(http: Http, vhost: str) -> None:
    """SPEC §9.1: the default exchange has no name in the list, and amq.default in paths."""
    found = {one["name"]: one["type"] for one in http.get(path_of(vhost))}
    assert found == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
        "amq.topic": "topic",
    }
    assert http.get(path_of(vhost, "amq.default"))["name"] == ""
    assert {one["name"] for one in http.get("/api/exchanges") if one["vhost"] == vhost} == set(found)
    assert http.ask("GET", path_of("none")).status == 404


def test_delete_heeds_whether_it_is_used(http: Http, vhost: str) -> None:
    """SPEC §9.1: if-unused."""
    quoted = http.quoted(vhost)
    http.put(path_of(vhost, "x"), {"type": "fanout"})
    http.put(f"/api/queues/{quoted}/q")
    http.post(f"/api/bindings/{quoted}/e/x/q/q")
    assert http.delete(path_of(vhost, "x") + "?if-unused=true").json["reason"].endswith("in use")
    assert http.delete(path_of(vhost, "x")).status == 204


def test_message_is_published(http: Http, vhost: str) -> None:
    """SPEC §9.1: publish answers whether the message was routed; properties and base64 bodies arrive."""
    quoted = http.quoted(vhost)
    http.put(f"/api/queues/{quoted}/q", {"durable": True})
    assert publish(http, vhost, "amq.default", routing_key="nowhere").json == {"routed": False}
    properties = {
        "content_type": "text/plain",
        "headers": {"n": 5, "f": 1.5, "t": {"a": ["b", True, None]}},
        "delivery_mode": 2,
        "priority": 3,
        "timestamp": 1_700_000_000,
        "user_id": "guest",
        "no_such_property": 1,
    }
    body = base64.b64encode(b"\xff\x00").decode()
    answer = publish(http, vhost, "amq.default", properties=properties, payload=body, payload_encoding="base64")
    assert answer.json == {"routed": True}
    get = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    (message,) = http.post(f"/api/queues/{quoted}/q/get", get).json
    del properties["no_such_property"]
    assert message["properties"] == properties
    assert (message["payload"], message["payload_encoding"], message["payload_bytes"]) == (body, "base64", 2)
    stats = http.get(path_of(vhost, "amq.default"))["message_stats"]
    assert (stats["publish_in"], stats["publish_out"], stats["publish_in_details"]) == (2, 1, {"rate": 0.0})


def test_large_message_is_published(http: Http, vhost: str) -> None:
    """SPEC §9.1: a body of many frames."""
    quoted = http.quoted(vhost)
    http.put(f"/api/queues/{quoted}/q")
    assert publish(http, vhost, "amq.default", payload="é" * 500_000).json == {"routed": True}
    get = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    (message,) = http.post(f"/api/queues/{quoted}/q/get", get).json
    assert message["payload"] == "é" * 500_000


@pytest.mark.parametrize(
    ("message", "status", "reason"),
    [
        ({"properties": {"user_id": "other"}}, 400, "PRECONDITION_FAILED - user_id property set to 'other'"),
        ({"properties": {"expiration": "soon"}}, 400, "PRECONDITION_FAILED - invalid expiration 'soon'"),
        ({"properties": {"priority": "high"}}, 400, "{not_int,priority}"),
        ({"properties": {"type": 5}}, 400, "{not_string,type}"),
        ({"properties": {"priority": 256}}, 400, "properties: 256 does not fit"),
        ({"properties": {"headers": {"CC": "one"}}}, 400, "PRECONDITION_FAILED - invalid message"),
        ({"properties": {"headers": 5}}, 400, "headers must be an object"),
        ({"properties": 5}, 400, "properties must be an object"),
        ({"payload": 5}, 400, "payload_not_string"),
        ({"payload": "$", "payload_encoding": "base64"}, 400, "{not_base64,$}"),
        ({"payload_encoding": "rot13"}, 400, "{unsupported_encoding,rot13}"),
        ({"routing_key": "k" * 256}, 400, "routing_key should be less than 255 bytes"),
        ({"routing_key": 5}, 400, "routing_key must be text"),
    ],
)
def test_bad_message_is_refused(http: Http, vhost: str, message: dict[str, Any], status: int, reason: str) -> None:
    """SPEC §9.1: publishing through the API is checked as on a channel."""
    answer = publish(http, vhost, "amq.default", **message)
    assert (answer.status, answer.json["reason"][: len(reason)]) == (status, reason)


def test_publish_needs_its_keys_and_rights(limited: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: missing keys and internal exchanges are refused, rights asked, a full queue told."""
    assert (
        http.post(path_of(vhost, "amq.default") + "/publish", {})
        .json["reason"]
        .startswith("[{key_missing,routing_key},{key_missing,")
    )
    assert publish(http, vhost, "none").status == 404
    assert (
        publish(http, vhost, "amq.rabbitmq.trace").json["reason"].startswith("ACCESS_REFUSED - cannot publish to internal")
    )
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    http.put(f"/api/queues/{http.quoted(vhost)}/q", {"arguments": arguments})
    answer = publish(http, vhost, "amq.default")
    assert answer.json["reason"] == "rejected Unable to publish message. Check queue limits."
    refused = publish(limited.http("some", "some"), "/", "amq.fanout")
    assert (refused.status, refused.json["reason"][:30]) == (401, "ACCESS_REFUSED - write access ")


def test_exchange_tells_who_made_it(tmp_path: Path) -> None:
    """SPEC §9.1: user_who_performed_action, also after a restart."""
    name = "user_who_performed_action"
    with Running(tmp_path, "--management-port", "0") as broker:
        http = broker.http()
        http.put("/api/users/maker", {"password": "maker", "tags": "management"})
        http.put("/api/permissions/%2F/maker", {"configure": ".*", "write": ".*", "read": ".*"})
        assert broker.http("maker", "maker").put(path_of("/", "x"), {"durable": True}).status == 201
        assert http.get(path_of("/", "x"))[name] == "maker"
        assert {one[name] for one in http.get(path_of("/")) if one["name"] != "x"} == {"rmq-internal"}
    with Running(tmp_path, "--management-port", "0") as broker:
        assert broker.http().get(path_of("/", "x"))[name] == "maker"
