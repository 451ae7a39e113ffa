"""Passwords, keys and URIs with both are shown to nobody who need not see them, and not logged."""

from pathlib import Path

from tests.management.support import Running
from tests.server.support import PATIENCE

WORD = "hidden-word"
URI = f"amqp://shop:{WORD}@127.0.0.1:1/%2F"
SHOVEL = {"src-uri": [URI], "src-queue": "a", "dest-uri": URI, "dest-queue": "b", "reconnect-delay": 0}


def test_uris_of_shovels_are_whole_for_administrators_only(tmp_path: Path) -> None:
    with Running(tmp_path, "--log-level", "debug") as broker:
        http = broker.http()
        assert http.put("/api/users/policymaker", {"password": "secret", "tags": "policymaker"}).status == 201
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        assert http.put("/api/permissions/%2F/policymaker", rights).status == 201
        assert http.put("/api/parameters/shovel/%2F/s", {"value": SHOVEL}).status == 201
        paths = ("/api/parameters", "/api/parameters/shovel", "/api/parameters/shovel/%2F", "/api/parameters/shovel/%2F/s")
        for path in paths:
            assert WORD in str(http.get(path)), path
            seen = str(broker.http("policymaker", "secret").get(path))
            assert WORD not in seen, path
            assert "amqp://127.0.0.1:1" in seen, path
        for path in ("/api/shovels", "/api/shovels/%2F"):
            assert WORD not in str(http.get(path)), path
        # A wrong URI is named without what may be its password.
        bad = {**SHOVEL, "src-uri": f"amqp://shop:{WORD}@host:port/"}
        answer = http.put("/api/parameters/shovel/%2F/bad", {"value": bad})
        assert answer.status == 400
        assert WORD not in str(answer.body)
        assert WORD not in broker.log


def test_passwords_and_keys_are_not_logged(tmp_path: Path) -> None:
    with Running(tmp_path, "--log-level", "debug") as broker:
        http = broker.http()
        http.put("/api/users/shop", {"password": WORD, "tags": "management"})
        key = http.post("/api/tokens", {"user": "shop"}).json["token"]
        assert broker.http("shop", WORD).get("/api/whoami")
        assert broker.http("shop", WORD + "x").ask("GET", "/api/whoami").status == 401
        assert broker.http(None).ask("GET", "/api/whoami", headers={"Authorization": f"Bearer {key}"}).status == 200
        assert broker.http(None).ask("GET", "/api/whoami", headers={"Authorization": f"Bearer {key}x"}).status == 401
        assert http.ask("PUT", "/api/users/shop", b'{"password": "' + WORD.encode()).status == 400
        assert WORD not in broker.log
        assert key not in broker.log


def test_shovels_are_sealed_at_rest(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a key that is long enough")
    sealing = {"LEVERET_SECRETS_KEY_FILE": str(tmp_path / "key")}
    with Running(tmp_path, environment=sealing) as broker:
        assert broker.http().put("/api/parameters/shovel/%2F/s", {"value": SHOVEL}).status == 201
    kept = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir() if file.is_file())
    assert WORD.encode() not in kept
    with Running(tmp_path, environment=sealing) as broker:
        assert broker.http().get("/api/parameters/shovel/%2F/s")["value"]["dest-uri"] == URI
    without = Running(tmp_path)
    assert without.popen.wait(PATIENCE) == 2
    without.kill()
    assert "is sealed: set secrets_key_file" in without.log
