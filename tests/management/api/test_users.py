"""Users, their passwords and rights through the HTTP API."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pika.exceptions
import pytest
from tests.management.amqp import connected
from tests.management.support import Http, Running

from leveret.broker.password import hash_password


@pytest.fixture
def user(http: Http, request: pytest.FixtureRequest) -> Iterator[str]:
    """A user for the test, with management and the password `secret`."""
    name = f"{request.node.name[:60]}/ü"
    assert http.put(f"/api/users/{http.quoted(name)}", {"password": "secret", "tags": "management"}).status == 201
    yield name
    http.delete(f"/api/users/{http.quoted(name)}")


def test_user_is_made_shown_changed_and_deleted(broker: Running, http: Http) -> None:
    """SPEC §9.1: users; PUT answers 201 and then 204."""
    path = "/api/users/alice"
    assert http.put(path, {"password": "one", "tags": "management, monitoring"}).status == 201
    found = http.get(path)
    assert found.keys() == {"name", "password_hash", "hashing_algorithm", "tags", "limits"}
    assert (found["name"], found["tags"], found["limits"]) == ("alice", ["management", "monitoring"], {})
    assert found["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert found in http.get("/api/users")
    assert broker.http("alice", "one").get("/api/whoami")["name"] == "alice"
    assert http.put(path, {"password": "two", "tags": ["management"]}).status == 204
    assert broker.http("alice", "one").ask("GET", "/api/whoami").status == 401
    assert broker.http("alice", "two").get("/api/whoami") == {"name": "alice", "tags": ["management"]}
    assert http.delete(path).status == 204
    assert http.ask("GET", path).status == http.delete(path).status == 404
    assert broker.http("alice", "two").ask("GET", "/api/whoami").status == 401


@pytest.mark.parametrize(
    "hashing", ["rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512", "rabbit_password_hashing_md5"]
)
def test_user_with_a_hash_can_log_in(hashing: str, broker: Running, http: Http) -> None:
    """SPEC §9.1: users; SPEC §7.4 password hashes."""
    hashed = hash_password(b"secret", hashing=hashing)
    body = {"password_hash": hashed, "hashing_algorithm": hashing, "tags": ["management"]}
    assert http.put("/api/users/hashed", body).status in (201, 204)
    assert broker.http("hashed", "secret").get("/api/whoami")["name"] == "hashed"
    assert http.get("/api/users/hashed")["password_hash"] == hashed


def test_user_without_a_password_cannot_log_in(broker: Running, http: Http, user: str) -> None:
    """SPEC §9.1: users. RabbitMQ: what clears a password."""
    path = f"/api/users/{http.quoted(user)}"
    for body in ({"tags": "management"}, {"tags": "management", "password": ""}, {"tags": "", "password_hash": ""}):
        assert http.put(path, {"tags": "management", "password": "secret"}).status == 204
        assert broker.http(user, "secret").ask("GET", "/api/whoami").status == 200
        assert http.put(path, body).status == 204
        assert broker.http(user, "secret").ask("GET", "/api/whoami").status == 401
        assert broker.http(user, "").ask("GET", "/api/whoami").status == 401


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "x"}, "tags_not_present"),
        ({"password": "x", "password_hash": "", "tags": ""}, "both_password_and_password_hash_are_provided"),
        ({"tags": 5}, "tags must be a list or comma-separated text"),
        ({"password_hash": "?", "tags": ""}, "password_hash is not base64"),
        ({"password_hash": "", "hashing_algorithm": "x", "tags": ""}, "unknown password hashing"),
        ({"password": "x", "tags": "", "limits": {"x": 1}}, "Unrecognised terms"),
    ],
)
def test_bad_users_are_refused(body: dict[str, object], reason: str, http: Http) -> None:
    """SPEC §9.1: users, with RabbitMQ's reasons; nothing is made."""
    answer = http.put("/api/users/bad", body)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert answer.json["reason"].startswith(reason)
    assert http.ask("GET", "/api/users/bad").status == 404


def test_users_are_deleted_together(http: Http) -> None:
    """SPEC §9.1: bulk-delete"""
    for name in ("one", "two", "three"):
        http.put(f"/api/users/{name}", {"password": "x", "tags": ""})
    assert http.post("/api/users/bulk-delete", {"users": ["one", "two", "nobody"]}).status == 204
    assert {"one", "two", "three"} & {user["name"] for user in http.get("/api/users")} == {"three"}
    assert http.post("/api/users/bulk-delete", {"users": ["three"]}).status == 204
    assert http.post("/api/users/bulk-delete", {}).json["reason"] == "[{key_missing,users}]"
    assert http.post("/api/users/bulk-delete", {"users": "three"}).status == 400


def test_users_without_permissions(http: Http, vhost: str, user: str) -> None:
    """SPEC §9.1: users/without-permissions"""

    def found() -> list[str]:
        return [one["name"] for one in http.get("/api/users/without-permissions")]

    assert user in found()
    path = f"/api/permissions/{http.quoted(vhost)}/{http.quoted(user)}"
    http.put(path, {"configure": "", "write": "", "read": ""})
    assert user not in found()
    assert "guest" not in found()


def test_rights_are_granted_shown_and_revoked(http: Http, vhost: str, user: str) -> None:
    """SPEC §9.1: permissions"""
    path = f"/api/permissions/{http.quoted(vhost)}/{http.quoted(user)}"
    rights = {"configure": "^a", "write": ".*", "read": ""}
    view = {"user": user, "vhost": vhost, **rights}
    assert http.ask("GET", path).status == 404
    assert http.put(path, rights).status == 201
    assert http.put(path, rights).status == 204
    assert http.get(path) == view
    assert view in http.get("/api/permissions")
    assert http.get(f"/api/users/{http.quoted(user)}/permissions") == [view]
    assert view in http.get(f"/api/vhosts/{http.quoted(vhost)}/permissions")
    assert http.put(path, {"configure": ""}).json["reason"] == "[{key_missing,write},{key_missing,read}]"
    assert http.put(path, {**rights, "read": "("}).status == 400
    assert http.put(path, {**rights, "read": 5}).status == 400
    assert http.get(path) == view
    assert http.delete(path).status == 204
    assert http.ask("GET", path).status == http.delete(path).status == 404
    for missing in (f"/api/permissions/nowhere/{http.quoted(user)}", f"/api/permissions/{http.quoted(vhost)}/nobody"):
        assert http.put(missing, rights).json == {"error": "bad_request", "reason": "vhost_or_user_not_found"}
        assert http.ask("GET", missing).status == http.delete(missing).status == 404


def test_topic_rights_are_granted_shown_and_revoked(http: Http, vhost: str, user: str) -> None:
    """SPEC §9.1: topic-permissions"""
    path = f"/api/topic-permissions/{http.quoted(vhost)}/{http.quoted(user)}"
    assert http.ask("GET", path).status == 404
    assert http.put(path, {"exchange": "amq.topic", "write": "^{username}", "read": ".*"}).status == 201
    assert http.put(path, {"exchange": "other/x", "write": "", "read": ""}).status == 204
    first = {"user": user, "vhost": vhost, "exchange": "amq.topic", "write": "^{username}", "read": ".*"}
    assert [one["exchange"] for one in http.get(path)] == ["amq.topic", "other/x"]
    assert http.get(f"{path}/amq.topic") == [first]
    assert first in http.get("/api/topic-permissions")
    assert first in http.get(f"/api/users/{http.quoted(user)}/topic-permissions")
    assert first in http.get(f"/api/vhosts/{http.quoted(vhost)}/topic-permissions")
    assert http.put(path, {"exchange": "amq.topic", "write": "("}).status == 400
    assert http.delete(f"{path}/other%2Fx").status == 204
    assert http.ask("GET", f"{path}/other%2Fx").status == 404
    assert http.get(path) == [first]
    assert http.delete(path).status == 204
    assert http.delete(path).status == 404


def test_passwords_are_hashed(broker: Running, http: Http) -> None:
    """SPEC §9.1: auth/hash_password"""
    hashed = http.get("/api/auth/hash_password/s%2Fecret")["ok"]
    assert len(base64.b64decode(hashed)) == 36
    assert http.put("/api/users/hash", {"password_hash": hashed, "tags": "management"}).status == 201
    assert broker.http("hash", "s/ecret").ask("GET", "/api/whoami").status == 200
    http.delete("/api/users/hash")


def test_form_logs_in_and_sets_the_cookie(broker: Running, http: Http, user: str) -> None:
    """SPEC §9.4: the page's login"""
    nobody = broker.http(None)
    assert nobody.get("/api/auth") == {"oauth_enabled": False}
    form = urlencode({"username": user, "password": "secret"}).encode()
    answer = nobody.ask("POST", "/api/login", form, {"Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status, answer.json) == (200, "ok")
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert user not in unquote(cookie)
    assert nobody.ask("GET", "/api/whoami", headers={"Cookie": cookie}).json["name"] == user
    for name, password in ((user, "wrong"), ("nobody", "x"), ("", "")):
        form = urlencode({"username": name, "password": password}).encode()
        answer = nobody.ask("POST", "/api/login", form)
        assert (answer.status, "Set-Cookie" in answer.headers) == (401, False)


def test_login_attempts_of_a_node(broker: Running, http: Http) -> None:
    """SPEC §9.1: auth/attempts, by protocol; without a setting none by source."""
    node = http.get("/api/overview")["node"]
    path = f"/api/auth/attempts/{node}"
    assert http.delete(path).status == 204
    (http_attempts,) = http.get(path)
    assert http_attempts == attempts("http", 1, 0)
    with connected(broker):
        pass
    with pytest.raises(pika.exceptions.AMQPConnectionError), connected(broker, password="wrong"):
        pass
    assert broker.http("guest", "wrong").ask("GET", "/api/whoami").status == 401
    assert broker.http(None).ask("GET", "/api/whoami").status == 401
    found = {one["protocol"]: one for one in http.get(path)}
    assert found == {"http": attempts("http", 2, 1), "amqp091": attempts("amqp091", 1, 1)}
    assert http.get(f"{path}/source") == []
    assert http.delete(f"{path}/source").status == 204
    assert http.get(path) == [attempts("http", 1, 0)]
    assert http.ask("GET", "/api/auth/attempts/nowhere").status == 404


def attempts(protocol: str, succeeded: int, failed: int) -> dict[str, Any]:
    counts = {"auth_attempts_succeeded": succeeded, "auth_attempts_failed": failed}
    return {"protocol": protocol, "auth_attempts": succeeded + failed, **counts}


def test_login_attempts_by_source(tmp_path: Path) -> None:
    """SPEC §9.1, §9.3: by address and user, with `track_auth_attempt_source`."""
    with Running(tmp_path, environment={"LEVERET_TRACK_AUTH_ATTEMPT_SOURCE": "true"}) as broker:
        http = broker.http()
        with pytest.raises(pika.exceptions.AMQPConnectionError), connected(broker, user="eve", password="wrong"):
            pass
        node = http.get("/api/overview")["node"]
        found = http.get(f"/api/auth/attempts/{node}/source")
        eve, guest = ({"remote_address": "127.0.0.1", "username": name} for name in ("eve", "guest"))
        assert {**eve, **attempts("amqp091", 0, 1)} in found
        assert {**guest, **attempts("http", 2, 0)} in found
        page = broker.http().ask("GET", "/metrics/detailed?family=auth_attempt_detailed_metrics").body.decode()
        labels = 'remote_address="127.0.0.1",username="eve",protocol="amqp091"'
        assert f"rabbitmq_detailed_auth_attempts_detailed_failed_total{{{labels}}} 1\n" in page
        assert http.delete(f"/api/auth/attempts/{node}/source").status == 204
        assert [one["username"] for one in http.get(f"/api/auth/attempts/{node}/source")] == ["guest"]


def test_user_that_is_there_keeps_what_is_not_named(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: users. RabbitMQ: rights and other limits stay; rights in the body are for a new user only."""
    path = "/api/users/keeper"
    rights = {"configure": "^a", "write": "", "read": ".*"}
    topics = {"exchange": "amq.topic", "write": "^a", "read": ""}
    body: dict[str, Any] = {
        "password": "one",
        "tags": "management",
        "limits": {"max-channels": 5},
        "permissions": {vhost: rights},
    }
    assert http.put(path, body).status == 201
    granted = [{"user": "keeper", "vhost": vhost, **rights}]
    assert http.get(f"{path}/permissions") == granted
    assert http.put(f"/api/topic-permissions/{http.quoted(vhost)}/keeper", topics).status == 201
    other = {"configure": "", "write": "", "read": ""}
    for body, tags, limits in (
        ({"password": "two", "tags": ""}, [], {"max-channels": 5}),
        (
            {"password": "two", "tags": "a,b", "limits": {"max-connections": 7}},
            ["a", "b"],
            {"max-channels": 5, "max-connections": 7},
        ),
        # Without a password that is cleared, the tags are set, and nothing else is looked at.
        ({"tags": "a", "limits": {"max-connections": 9}}, ["a"], {"max-channels": 5, "max-connections": 7}),
        (
            {"password_hash": "", "tags": ["management"], "limits": {"max-channels": 1}},
            ["management"],
            {"max-channels": 1, "max-connections": 7},
        ),
        (
            {"password": "three", "tags": "management", "permissions": {vhost: other}},
            ["management"],
            {"max-channels": 1, "max-connections": 7},
        ),
    ):
        assert http.put(path, body).status == 204
        found = http.get(path)
        assert (found["tags"], found["limits"]) == (tags, limits)
        assert (found["password_hash"] == "") is ("password" not in body)
        assert http.get(f"{path}/permissions") == granted
        assert http.get(f"{path}/topic-permissions") == [{"user": "keeper", "vhost": vhost, **topics}]
    assert broker.http("keeper", "three").ask("GET", "/api/whoami").status == 200
    assert http.delete(path).status == 204
    assert http.put(path, {"password": "x", "tags": "", "permissions": {"nowhere": rights}}).status == 404
    assert http.put(path, {"password": "x", "tags": "", "permissions": {vhost: {"read": ""}}}).status == 400
    assert http.ask("GET", path).status == 404
