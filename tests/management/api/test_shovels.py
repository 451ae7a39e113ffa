"""Shovels in the HTTP API: their state, their set-up without passwords, and how they are refused."""

import re
from collections.abc import Iterator

import pytest
from tests.management.amqp import only, soon
from tests.management.support import Http, Running


@pytest.fixture
def value(http: Http, vhost: str, broker: Running) -> dict[str, object]:
    there = f"amqp://guest:guest@127.0.0.1:{broker.port}/{http.quoted(vhost)}"
    return {"src-uri": f"amqp:///{http.quoted(vhost)}", "src-queue": "a", "dest-uri": [there], "dest-queue": "b"}


@pytest.fixture
def watcher(http: Http, broker: Running) -> Iterator[Http]:
    """A user who may look at figures, and enter nothing."""
    http.put("/api/users/watcher", {"password": "secret", "tags": "monitoring"})
    yield broker.http("watcher", "secret")
    http.delete("/api/users/watcher")


def test_state_of_a_shovel(http: Http, vhost: str, broker: Running, value: dict[str, object]) -> None:
    """SPEC §9.8: RabbitMQ's fields, in the list of all and of one vhost."""
    name = http.quoted(vhost)
    assert http.get(f"/api/shovels/{name}") == []
    assert http.put(f"/api/parameters/shovel/{name}/s", {"value": value}).status == 201
    found = soon(lambda: [one for one in http.get(f"/api/shovels/{name}") if one["state"] == "running"])
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{1,2}:[0-9]{2}:[0-9]{2}", found[0].pop("timestamp"))
    assert found == [
        {
            "node": http.get("/api/overview")["node"],
            "name": "s",
            "vhost": vhost,
            "type": "dynamic",
            "state": "running",
            "src_uri": f"amqp:///{name}",
            "src_protocol": "amqp091",
            "dest_protocol": "amqp091",
            "dest_uri": f"amqp://127.0.0.1:{broker.port}/{name}",
            "src_queue": "a",
            "dest_queue": "b",
            "blocked_status": "running",
        }
    ]
    assert only(http.get("/api/shovels"), vhost=vhost)["name"] == "s"
    assert http.get(f"/api/shovels/{name}?columns=name,state") == [{"name": "s", "state": "running"}]
    assert http.ask("GET", "/api/shovels/nowhere").status == 404


def test_terminated_shovel_has_a_reason(http: Http, vhost: str, value: dict[str, object]) -> None:
    """SPEC §9.8: reason, without the URI's password."""
    name = http.quoted(vhost)
    bad = value | {"src-uri": "amqp://user:secret@127.0.0.1:1"}
    assert http.put(f"/api/parameters/shovel/{name}/s", {"value": bad}).status == 201
    found = soon(lambda: [one for one in http.get(f"/api/shovels/{name}") if one["state"] == "terminated"])
    assert found[0].keys() == {"node", "timestamp", "name", "vhost", "type", "state", "reason"}
    assert found[0]["reason"].startswith("amqp://127.0.0.1:1: cannot connect: ")
    assert "secret" not in str(found)


def test_one_shovel_is_shown_without_passwords(http: Http, vhost: str, broker: Running, value: dict[str, object]) -> None:
    """SPEC §9.8: RabbitMQ shows them here; who may set parameters sees them there."""
    name = http.quoted(vhost)
    path = f"/api/shovels/vhost/{name}/s"
    assert http.ask("GET", path).status == 404
    assert http.put(f"/api/parameters/shovel/{name}/s", {"value": value}).status == 201
    shown = value | {"dest-uri": [f"amqp://127.0.0.1:{broker.port}/{name}"]}
    assert http.get(path) == {"vhost": vhost, "component": "shovel", "name": "s", "value": shown}
    assert http.get(f"/api/parameters/shovel/{name}/s")["value"] == value


def test_monitoring_sees_only_vhosts_that_it_enters(http: Http, vhost: str, value: dict[str, object], watcher: Http) -> None:
    """SPEC §9.8: as RabbitMQ's lists; deleting and restarting take a policymaker."""
    name = http.quoted(vhost)
    assert http.put(f"/api/parameters/shovel/{name}/s", {"value": value}).status == 201
    assert watcher.get("/api/shovels") == watcher.get(f"/api/shovels/{name}") == []
    assert watcher.ask("GET", f"/api/shovels/vhost/{name}/s").status == 404
    rights = {"configure": "", "write": "", "read": ""}
    assert http.put(f"/api/permissions/{name}/watcher", rights).status == 201
    assert [one["name"] for one in watcher.get("/api/shovels")] == ["s"]
    assert watcher.get(f"/api/shovels/vhost/{name}/s")["name"] == "s"
    assert watcher.delete(f"/api/shovels/vhost/{name}/s").status == 401
    assert watcher.delete(f"/api/shovels/vhost/{name}/s/restart").status == 401
    assert http.get(f"/api/parameters/shovel/{name}") != []


def test_delete_and_restart(http: Http, vhost: str, value: dict[str, object]) -> None:
    """SPEC §9.8: deleting one that is not there is no fault, restarting it is."""
    name = http.quoted(vhost)
    path = f"/api/shovels/vhost/{name}/s"
    assert http.delete(path).status == 204
    assert http.delete(f"{path}/restart").status == 404
    assert http.delete("/api/shovels/vhost/nowhere/s").status == 404
    assert http.put(f"/api/parameters/shovel/{name}/s", {"value": value}).status == 201
    assert http.delete(f"{path}/restart").status == 204
    assert http.delete(path).status == 204
    assert http.get(f"/api/shovels/{name}") == http.get(f"/api/parameters/shovel/{name}") == []


def test_bad_parameter_is_told_as_rabbitmq_does(http: Http, vhost: str, value: dict[str, object]) -> None:
    """SPEC §9.8: 400, all faults at once."""
    path = f"/api/parameters/shovel/{http.quoted(vhost)}/s"
    answer = http.put(path, {"value": value | {"src-exchange": "x", "ack-mode": 5}})
    text = "Cannot specify 'src-exchange' and 'src-queue'\nack-mode should be binary, actually was 5"
    assert (answer.status, answer.json) == (
        400,
        {"error": "bad_request", "reason": f"Validation failed\n\n{text}\n"},
    )
    assert http.put(path, {"value": value | {"src-protocol": "amqp10"}}).status == 400
    assert http.ask("GET", path).status == 404


def test_federation_is_refused(http: Http, vhost: str) -> None:
    """SPEC §9.8: federation parameters are refused with 400."""
    for component in ("federation-upstream", "federation-upstream-set", "federation"):
        answer = http.put(f"/api/parameters/{component}/{http.quoted(vhost)}/f", {"value": {"uri": "amqp://"}})
        assert (answer.status, answer.json["reason"]) == (400, f"Validation failed\n\ncomponent {component} not found\n")


def test_policymaker_needs_the_vhosts_that_local_uris_name(http: Http, vhost: str, broker: Running) -> None:
    """SPEC §9.8: no shovel into a vhost that its maker may not enter."""
    name = http.quoted(vhost)
    http.put("/api/users/maker", {"password": "secret", "tags": "policymaker"})
    http.put(f"/api/permissions/{name}/maker", {"configure": "", "write": "", "read": ""})
    maker = broker.http("maker", "secret")
    path, own = f"/api/parameters/shovel/{name}/s", f"amqp:///{name}"
    for key in ("src-uri", "dest-uri"):
        value = {"src-uri": own, "dest-uri": own, "src-queue": "a", key: "amqp://"}
        answer = maker.put(path, {"value": value})
        assert answer.status == 400
        assert answer.json["reason"] == 'Validation failed\n\nuser "maker" may not connect to vhost "/"\n'
    assert maker.put(path, {"value": {"src-uri": own, "dest-uri": own, "src-queue": "a"}}).status == 201
    http.delete("/api/users/maker")


def test_plug_ins_are_named(http: Http) -> None:
    """SPEC §9.8: where tools look for them."""
    (node,) = http.get("/api/nodes")
    assert {"rabbitmq_shovel", "rabbitmq_shovel_management"} <= set(node["enabled_plugins"])
