"""Policies, parameters and limits through the HTTP API."""

from typing import Any

import pytest
from tests.management.support import Http

MISSING = {"error": "Object Not Found", "reason": "Not Found"}


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_policy_is_set_shown_and_cleared(kind: str, http: Http, vhost: str) -> None:
    """SPEC §9.1: policies and operator-policies"""
    base = f"/api/{kind}/{http.quoted(vhost)}"
    path = f"{base}/a%2Fb"
    assert http.get(base) == []
    body = {"pattern": "^q", "definition": {"max-length": 5}, "priority": 3, "apply-to": "queues"}
    view = {"vhost": vhost, "name": "a/b", **body}
    assert http.put(path, body).status == 201
    assert http.put(path, body).status == 204
    assert http.get(path) == view
    assert http.get(base) == [view]
    assert view in http.get(f"/api/{kind}")
    # rabbitmqadmin writes numbers as text.
    assert http.put(f"{base}/z", {"pattern": "", "definition": {"expires": 9}, "priority": "-1"}).status == 201
    assert [one["name"] for one in http.get(base)] == ["z", "a/b"]
    assert http.get(f"{base}/z")["apply-to"] == "all"
    assert http.delete(path).status == 204
    assert (http.delete(path).status, http.ask("GET", path).json) == (404, MISSING)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,pattern},{key_missing,definition}]"),
        ({"pattern": ""}, "[{key_missing,definition}]"),
        ({"pattern": "", "definition": {}}, "Validation failed\n\nno policy provided\n"),
        (
            {"pattern": "", "definition": {"max-length": "x"}},
            'Validation failed\n\n<<"x">> is not a valid maximum length\n',
        ),
        (
            {"pattern": "", "definition": {"hare": 1}},
            'Validation failed\n\n[{<<"hare">>,1}] are not recognised policy settings\n',
        ),
        ({"pattern": 5, "definition": {"max-length": 1}}, "Validation failed\n\npattern should be a binary but was 5\n"),
        (
            {"pattern": "(", "definition": {"max-length": 1}},
            "Validation failed\n\npattern should be regular expression but is invalid: ",
        ),
        (
            {"pattern": "", "definition": {"max-length": 1}, "apply-to": "x"},
            "Validation failed\n\napply-to 'x' unrecognised; should be one of: ",
        ),
        (
            {"pattern": "", "definition": {"max-length": 1}, "apply-to": ["x"]},
            "Validation failed\n\napply-to '['x']' unrecognised; should be one of: ",
        ),
        (
            {"pattern": "", "definition": {"max-length": 1}, "priority": "high"},
            'Validation failed\n\npriority should be a number, actually was <<"high">>\n',
        ),
        ({"pattern": "", "definition": 5}, "Validation failed\n\ndefinition must be a dictionary: 5\n"),
    ],
)
def test_bad_policies_are_refused(body: dict[str, Any], reason: str, http: Http, vhost: str) -> None:
    """SPEC §9.1: policies, with RabbitMQ's texts"""
    for kind in ("policies", "operator-policies"):
        answer = http.put(f"/api/{kind}/{http.quoted(vhost)}/p", body)
        assert (answer.status, answer.json["error"]) == (400, "bad_request")
        assert answer.json["reason"].startswith(reason)
        assert http.get(f"/api/{kind}/{http.quoted(vhost)}") == []


def test_policies_of_a_vhost_that_is_not_there(http: Http) -> None:
    """SPEC §9.1: policies"""
    assert http.ask("GET", "/api/policies/nowhere").status == 404
    assert http.ask("GET", "/api/policies/nowhere/p").status == 404
    answer = http.put("/api/policies/nowhere/p", {"pattern": "", "definition": {"max-length": 1}})
    assert (answer.status, answer.json) == (404, {"error": "not_found", "reason": "vhost_not_found"})


def test_parameter_is_set_shown_and_cleared(http: Http, vhost: str) -> None:
    """SPEC §9.1: parameters; SPEC §9.8: shovels are parameters"""
    base = f"/api/parameters/shovel/{http.quoted(vhost)}"
    here = f"amqp:///{http.quoted(vhost)}"
    value = {"src-uri": here, "src-queue": "a", "dest-uri": here, "dest-queue": "b"}
    assert http.put(f"{base}/s", {"value": value}).status == 201
    assert http.put(f"{base}/s", {"value": value}).status == 204
    view = {"vhost": vhost, "component": "shovel", "name": "s", "value": value}
    assert http.get(f"{base}/s") == view
    assert http.get(base) == [view]
    assert view in http.get("/api/parameters")
    assert view in http.get("/api/parameters/shovel")
    assert http.put(f"{base}/s", {}).json["reason"] == "[{key_missing,value}]"
    assert http.put("/api/parameters/shovel/nowhere/s", {"value": value}).status == 404
    assert http.delete(f"{base}/s").status == 204
    assert http.delete(f"{base}/s").status == http.ask("GET", f"{base}/s").status == 404


def test_policies_are_no_parameters(http: Http, vhost: str) -> None:
    """SPEC §9.1: parameters"""
    answer = http.put(f"/api/parameters/policy/{http.quoted(vhost)}/p", {"value": {}})
    assert (answer.status, "policies may not be set using this method" in answer.json["reason"]) == (400, True)


def test_limits_and_operator_policies_are_parameters_too(http: Http, vhost: str) -> None:
    """SPEC §9.1: parameters"""
    name = http.quoted(vhost)
    assert http.put(f"/api/parameters/vhost-limits/{name}/limits", {"value": {"max-queues": 5}}).status == 201
    assert http.get(f"/api/vhost-limits/{name}") == [{"vhost": vhost, "value": {"max-queues": 5}}]
    value = {"pattern": "", "definition": {"max-length": 1}, "priority": 0, "apply-to": "queues"}
    assert http.put(f"/api/operator-policies/{name}/o", value).status == 201
    assert http.get(f"/api/parameters/operator_policy/{name}/o")["value"] == value
    assert http.delete(f"/api/parameters/operator_policy/{name}/o").status == 204
    assert http.get(f"/api/operator-policies/{name}") == []
    assert http.delete(f"/api/parameters/vhost-limits/{name}/limits").status == 204
    assert http.get(f"/api/vhost-limits/{name}") == []


@pytest.mark.parametrize("component", ["federation", "federation-upstream", "federation-upstream-set", "hare"])
def test_federation_is_refused(component: str, http: Http, vhost: str) -> None:
    """SPEC §9.8: federation parameters are refused with 400."""
    answer = http.put(f"/api/parameters/{component}/{http.quoted(vhost)}/f", {"value": {"uri": "amqp://"}})
    reason = f"Validation failed\n\ncomponent {component} not found\n"
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})
    assert http.get(f"/api/parameters/{component}/{http.quoted(vhost)}") == []


def test_global_parameter_is_set_shown_and_cleared(http: Http) -> None:
    """SPEC §9.1: global-parameters"""
    path = "/api/global-parameters/mqtt_default_vhosts"
    value = {"O=client": "/"}
    assert http.put(path, {"value": value}).status == 201
    assert http.put(path, {"value": value}).status == 204
    assert http.get(path) == {"name": "mqtt_default_vhosts", "value": value}
    assert http.get(path) in http.get("/api/global-parameters")
    assert http.put(path, {}).status == 400
    assert http.delete(path).status == 204
    assert http.delete(path).status == http.ask("GET", path).status == 404


def test_vhost_limits(http: Http, vhost: str) -> None:
    """SPEC §9.1: vhost-limits"""
    base = f"/api/vhost-limits/{http.quoted(vhost)}"
    assert http.get(base) == []
    assert http.put(f"{base}/max-queues", {"value": 1}).status == 204
    assert http.put(f"{base}/max-connections", {"value": "-1"}).status == 204
    view = {"vhost": vhost, "value": {"max-queues": 1, "max-connections": -1}}
    assert http.get(base) == [view]
    assert view in http.get("/api/vhost-limits")
    for name, value, text in (
        ("max-hares", 1, 'Validation failed\n\nUnrecognised terms [{<<"max-hares">>,1}] in limits\n'),
        ("max-queues", True, "Validation failed\n\nmax-queues should be a number, actually was true\n"),
        ("max-queues", "x", 'Validation failed\n\nmax-queues should be a number, actually was <<"x">>\n'),
    ):
        answer = http.put(f"{base}/{name}", {"value": value})
        assert (answer.status, answer.json["reason"]) == (400, text)
    assert http.put(f"{base}/max-queues", {}).status == 400
    assert http.delete(f"{base}/max-queues").status == 204
    assert http.get(base) == [{"vhost": vhost, "value": {"max-connections": -1}}]
    assert http.delete(f"{base}/max-connections").status == 204
    assert http.get(base) == []
    assert http.ask("GET", "/api/vhost-limits/nowhere").status == 404
    assert http.put("/api/vhost-limits/nowhere/max-queues", {"value": 1}).json["reason"] == "vhost_not_found"


def test_user_limits(http: Http) -> None:
    """SPEC §9.1: user-limits"""
    http.put("/api/users/bounded", {"password": "x", "tags": ""})
    base = "/api/user-limits/bounded"
    assert http.get(base) == []
    assert http.put(f"{base}/max-connections", {"value": 2}).status == 204
    assert http.put(f"{base}/max-channels", {"value": 3}).status == 204
    view = {"user": "bounded", "value": {"max-connections": 2, "max-channels": 3}}
    assert http.get(base) == [view]
    assert view in http.get("/api/user-limits")
    assert http.get("/api/users/bounded")["limits"] == view["value"]
    answer = http.put(f"{base}/max-hares", {"value": 1})
    assert answer.json["reason"] == 'Unrecognised terms [{<<"max-hares">>,1}] in user-limits'
    assert http.delete(f"{base}/max-channels").status == 204
    assert http.get(base) == [{"user": "bounded", "value": {"max-connections": 2}}]
    assert http.ask("GET", "/api/user-limits/nobody").status == 404
    assert http.put("/api/user-limits/nobody/max-channels", {"value": 1}).json["reason"] == "no_such_user"
    http.delete("/api/users/bounded")
