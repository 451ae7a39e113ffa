"""API keys over HTTP."""

from http.client import HTTPConnection
from pathlib import Path

import pytest
from tests.management.support import Http, Running
from tests.server.support import PATIENCE

from leveret.cli.ctl_tokens import seconds


def bearer(broker: Running, key: str) -> Http:
    http = broker.http(None)
    http.headers["Authorization"] = f"Bearer {key}"
    return http


def made(http: Http, **body: object) -> dict[str, str]:
    answer = http.post("/api/tokens", {"user": "guest", **body})
    assert answer.status == 201, answer.body
    found: dict[str, str] = answer.json
    return found


def test_key_is_its_user(broker: Running, http: Http) -> None:
    token = made(http)
    script = bearer(broker, token["token"])
    assert script.get("/api/whoami")["name"] == "guest"
    assert script.put("/api/vhosts/by-token").status == 201
    assert script.delete("/api/vhosts/by-token").status == 204
    assert http.delete(f"/api/tokens/{token['id']}").status == 204
    assert script.ask("GET", "/api/whoami").status == 401


def test_key_is_shown_once(http: Http) -> None:
    token = made(http)
    assert token["token"] not in str(http.get("/api/tokens"))
    assert token["id"] in [one["id"] for one in http.get("/api/tokens")]
    assert "leveret_" not in str(http.get("/api/definitions")["users"])


def test_scopes(broker: Running, http: Http) -> None:
    reader = bearer(broker, made(http, scopes=["read"])["token"])
    assert reader.get("/api/users")
    assert reader.put("/api/vhosts/by-reader").status == 401
    monitor = bearer(broker, made(http, scopes=["monitoring"])["token"])
    assert monitor.get("/api/nodes")
    assert monitor.ask("GET", "/api/users").status == 401


@pytest.mark.parametrize("key", ["", "leveret_", "guest", "é"])
def test_anything_else_is_no_key(broker: Running, key: str) -> None:
    assert bearer(broker, key).ask("GET", "/api/whoami").status == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"user": "nobody"}, 404),
        ({"user": "guest", "scopes": ["all"]}, 400),
        ({"user": "guest", "scopes": "read"}, 400),
        ({"user": "guest", "expires_in": 0}, 400),
        ({"user": "guest", "expires_in": -1}, 400),
        ({"user": "guest", "expires_in": "soon"}, 400),
        ({"user": ["guest"]}, 404),
    ],
)
def test_bad_ones_are_refused(http: Http, body: object, status: int) -> None:
    assert http.post("/api/tokens", body).status == status


def test_keys_survive_a_restart(tmp_path: Path) -> None:
    with Running(tmp_path) as broker:
        key = made(broker.http(), expires_in=3600, scopes=["management"])["token"]
    with Running(tmp_path) as broker:
        assert bearer(broker, key).get("/api/whoami")["tags"] == ["management"]


@pytest.mark.parametrize(("text", "found"), [("90d", 7_776_000), ("12h", 43_200), ("5m", 300), ("7", 7), ("7s", 7)])
def test_times_on_the_command_line(text: str, found: int) -> None:
    assert seconds(text) == found


def test_stream_ends_with_its_key(broker: Running, http: Http) -> None:
    """SPEC §7.5 revoking: also while nothing is sent, since the next counters are a minute away."""
    token = made(http)
    connection = HTTPConnection("127.0.0.1", broker.http_port, timeout=PATIENCE)
    connection.request("GET", "/api/stream?interval=60", headers={"Authorization": f"Bearer {token['token']}"})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.readline().startswith(b"id: ")
    assert http.delete(f"/api/tokens/{token['id']}").status == 204
    answer.read()
    connection.close()
