"""Logins over sockets: those that take their time, and those that fail too often."""

import base64
import http.client
from pathlib import Path

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER, method
from tests.server.support import PATIENCE, Client, InProcess, Process

from leveret.server.config import Config
from leveret.wire import spec
from leveret.wire.values import Table

SETTINGS = """
password_hashing = "argon2id"
password_length_min = 4
users = [
    {name = "shop", password = "secret", tags = ["administrator"]},
    {name = "other", password = "secret", tags = ["administrator"]},
]
permissions = [{user = "shop", configure = ".*", write = ".*", read = ".*"}]
"""


def start_ok(client: Client, name: str, password: str) -> None:
    client.socket.sendall(PROTOCOL_HEADER)
    client.expect(spec.ConnectionStart)
    about: Table = {"capabilities": {"authentication_failure_close": True}}
    client.send(method(0, spec.ConnectionStartOk(about, "PLAIN", f"\0{name}\0{password}".encode(), "en_US")))


def asked(
    port: int, name: str, password: str, verb: str = "GET", path: str = "/api/whoami", body: str | None = None
) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    encoded = base64.b64encode(f"{name}:{password}".encode()).decode()
    connection.request(verb, path, body, {"Authorization": f"Basic {encoded}"})
    answer = connection.getresponse()
    headers = dict(answer.getheaders())
    answer.read()
    connection.close()
    return answer.status, headers


# The broker with a guard that forgets nothing while a test runs.
UNFORGETTING = """
import leveret.broker.login_guard as guard
guard.FORGOTTEN_AFTER_MS = 1_000_000
from leveret.cli.main import main
main()
"""


def configured(folder: Path, failures: int = 100) -> Process:
    (folder / "leveret.toml").write_text(f"login_failures = {failures}\n{SETTINGS}")
    return Process(folder, "--config", str(folder / "leveret.toml"), program=("-c", UNFORGETTING))


def test_argon2id_over_amqp_and_http(tmp_path: Path) -> None:
    """SPEC §7.4 argon2id: a login that is decided later goes on where it waited, and one that is refused is answered."""
    with configured(tmp_path) as broker:
        with broker.connect() as client:
            start_ok(client, "shop", "secret")
            client.expect(spec.ConnectionTune)
        with broker.connect() as client:
            start_ok(client, "shop", "wrong")
            assert client.expect(spec.ConnectionClose).reply_code == 403
        assert asked(broker.http_port, "shop", "secret")[0] == 200
        assert asked(broker.http_port, "shop", "wrong")[0] == 401
        put = '{"password": "longer", "tags": "administrator"}'
        assert asked(broker.http_port, "shop", "secret", "PUT", "/api/users/new", put)[0] == 201
        assert asked(broker.http_port, "new", "longer")[0] == 200
        short = '{"password": "abc", "tags": ""}'
        assert asked(broker.http_port, "shop", "secret", "PUT", "/api/users/new", short)[0] == 400


def test_login_whose_client_leaves_meanwhile(tmp_path: Path) -> None:
    """It is decided for nobody, and nothing is logged but that."""
    with configured(tmp_path) as broker:
        with broker.connect() as client:
            start_ok(client, "shop", "secret")
        with broker.connect() as client:
            start_ok(client, "shop", "secret")
            client.expect(spec.ConnectionTune)


def test_guessing_is_slowed_over_amqp_and_http_alike(tmp_path: Path) -> None:
    """SPEC §1.5: failures over AMQP count for HTTP, and the other way round; who was good before is let in."""
    with configured(tmp_path, failures=2) as broker:
        assert asked(broker.http_port, "shop", "secret")[0] == 200
        with broker.connect() as client:
            start_ok(client, "nobody", "guess")
            assert client.expect(spec.ConnectionClose).reply_code == 403
        assert asked(broker.http_port, "nobody", "guess")[0] == 401
        status, headers = asked(broker.http_port, "other", "secret")
        assert (status, 0 < int(headers["Retry-After"]) <= 1001) == (429, True)
        assert asked(broker.http_port, "shop", "secret")[0] == 200


def test_right_password_is_not_looked_at_after_too_many_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §1.5, over AMQP, with the least limit."""
    monkeypatch.setattr("leveret.broker.login_guard.FORGOTTEN_AFTER_MS", 1_000_000)
    config = Config(port=0, storage="memory", login_failures=1)
    with InProcess(config) as node:
        for password in ("wrong", "guest"):
            with node.connect() as client:
                start_ok(client, "guest", password)
                assert client.expect(spec.ConnectionClose).reply_code == 403
        assert node.call(lambda: node.node.broker.guard.refused) == 1


def test_without_a_limit_nothing_is_slowed() -> None:
    with InProcess(Config(port=0, storage="memory", login_failures=0)) as node:
        for _ in range(30):
            with node.connect() as client:
                start_ok(client, "guest", "wrong")
                assert client.expect(spec.ConnectionClose).reply_code == 403
        with node.connect() as client:
            start_ok(client, "guest", "guest")
            client.expect(spec.ConnectionTune)


def test_argon2id_without_its_package_is_said(tmp_path: Path) -> None:
    program = "import sys; sys.modules['argon2'] = None; from leveret.cli.main import main; main()"
    broker = Process(tmp_path, environment={"LEVERET_PASSWORD_HASHING": "argon2id"}, program=("-c", program))
    assert broker.popen.wait(PATIENCE) == 2
    broker.kill()
    assert "argon2id needs the package argon2-cffi: pip install 'leveret[argon2]'" in broker.log
