"""Health checks, the aliveness test and what the broker says it can do, through the HTTP API."""

from pathlib import Path
from typing import Any

import pytest
from tests.management.support import Http, Running

CHECKS = "/api/health/checks"


@pytest.mark.parametrize(
    ("check", "more"),
    [
        ("alarms", {}),
        ("local-alarms", {}),
        ("virtual-hosts", {}),
        ("certificate-expiration/1/weeks", {}),
        ("node-is-mirror-sync-critical", {"reason": "single node cluster"}),
        ("node-is-quorum-critical", {"reason": "single node cluster"}),
        ("protocol-listener/amqp", {"protocol": "amqp"}),
        ("protocol-listener/AMQP091", {"protocol": "amqp"}),
        ("protocol-listener/amqp,http", {"protocol": "amqp,http"}),
        ("protocol-listener/management", {"protocol": "http"}),
        ("is-in-service", {}),
        ("ready-to-serve-clients", {}),
        ("below-node-connection-limit", {}),
        ("metadata-store/initialized", {}),
        ("metadata-store/initialized/with-data", {}),
    ],
)
def test_broker_is_well(check: str, more: dict[str, Any], http: Http) -> None:
    """SPEC §9.1: health checks"""
    assert http.get(f"{CHECKS}/{check}") == {"status": "ok", **more}


def test_ports_and_protocols_that_are_not_listened_for(broker: Running, http: Http) -> None:
    """SPEC §9.1: health checks"""
    assert http.get(f"{CHECKS}/port-listener/{broker.port}") == {"status": "ok", "port": broker.port}
    answer = http.ask("GET", f"{CHECKS}/port-listener/1")
    failed = {"status": "failed", "reason": "No active listener"}
    found = answer.json
    ports = found.pop("ports")
    assert (answer.status, found) == (503, {**failed, "missing": 1})
    assert ports[:2] == [broker.port, broker.http_port]
    answer = http.ask("GET", f"{CHECKS}/protocol-listener/amqp,mqtt")
    protocols = ["amqp", "http", "http/prometheus"]
    assert (answer.status, answer.json) == (503, {**failed, "missing": "mqtt", "protocols": protocols})


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("port-listener/amqp", "Invalid port"),
        ("certificate-expiration/soon/days", "Invalid expiration value."),
        (
            "certificate-expiration/1/hares",
            "Time unit not recognised. Supported units: days, weeks, months, years.",
        ),
    ],
)
def test_checks_that_cannot_be_made(check: str, reason: str, http: Http) -> None:
    """SPEC §9.1: health checks"""
    answer = http.ask("GET", f"{CHECKS}/{check}")
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


def test_broker_low_on_memory_is_unwell(tmp_path: Path) -> None:
    """SPEC §9.1: health checks; SPEC §8.6"""
    with Running(tmp_path, "--management-port", "0", environment={"LEVERET_MEMORY_WATERMARK": "2000"}) as broker:
        http = broker.http()
        for check, where in (("alarms", "in the cluster"), ("local-alarms", "on the node")):
            answer = http.ask("GET", f"{CHECKS}/{check}")
            assert (answer.status, answer.json["status"]) == (503, "failed")
            assert answer.json["reason"] == f"There are alarms in effect {where}"
            assert [alarm["resource"] for alarm in answer.json["alarms"]] == ["memory"]
        answer = http.ask("GET", "/api/healthchecks/node")
        assert (answer.status, answer.json["reason"]) == (503, "resource alarm(s) in effect:[memory]")


def test_node_is_well(http: Http) -> None:
    """SPEC §9.1: healthchecks/node"""
    node = http.get("/api/overview")["node"]
    assert http.get("/api/healthchecks/node") == http.get(f"/api/healthchecks/node/{node}") == {"status": "ok"}
    assert http.ask("GET", "/api/healthchecks/node/nowhere").status == 404


def test_message_goes_through_the_aliveness_queue(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: aliveness-test, with the user's rights; the queue stays, and is empty."""
    path = f"/api/aliveness-test/{http.quoted(vhost)}"
    for _ in range(2):
        assert http.get(path) == {"status": "ok"}
    exported = http.get(f"/api/definitions/{http.quoted(vhost)}")
    assert [(queue["name"], queue["durable"]) for queue in exported["queues"]] == [("aliveness-test", False)]
    assert http.get(f"/api/vhosts/{http.quoted(vhost)}?columns=messages") == {"messages": 0}
    assert http.ask("GET", "/api/aliveness-test/nowhere").status == 404
    http.put("/api/users/lame", {"password": "x", "tags": "management"})
    http.put(f"/api/permissions/{http.quoted(vhost)}/lame", {"configure": ".*", "write": "", "read": ".*"})
    assert broker.http("lame", "x").ask("GET", path).status == 401
    http.delete("/api/users/lame")


def test_feature_flags(http: Http) -> None:
    """SPEC §9.1: feature-flags as rabbitmqadmin reads them, deprecated-features"""
    found = http.get("/api/feature-flags")
    keys = {"name", "desc", "doc_url", "state", "stability", "provided_by"}
    assert [set(flag) for flag in found] == [keys] * len(found)
    assert {flag["state"] for flag in found} == {"enabled"}
    assert http.put("/api/feature-flags/quorum_queue/enable").status == 204
    answer = http.put("/api/feature-flags/hare/enable")
    assert (answer.status, answer.json["reason"]) == (400, "unsupported")
    assert http.get("/api/deprecated-features") == http.get("/api/deprecated-features/used") == []


def test_what_is_for_clusters_is_accepted(http: Http) -> None:
    """SPEC §9.1: rebalance and reset"""
    node = http.get("/api/overview")["node"]
    assert http.post("/api/rebalance/queues").status == 204
    assert http.delete("/api/reset").status == http.delete(f"/api/reset/{node}").status == 204
    assert http.delete("/api/reset/nowhere").status == 404


def test_settings_in_use_are_shown_without_passwords(tmp_path: Path) -> None:
    """SPEC §9.1: config/effective"""
    file = tmp_path / "leveret.toml"
    file.write_text('heartbeat = 7\n[[users]]\nname = "u"\npassword = "hidden-word"\ntags = ["administrator"]\n')
    with Running(tmp_path, "--management-port", "0", "--config", str(file)) as broker:
        answer = broker.http("u", "hidden-word").ask("GET", "/api/config/effective")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert b"\nheartbeat = 7\n" in answer.body
    assert b"hidden-word" not in answer.body
