"""SPEC §7.4 OAuth 2: tokens over AMQP and HTTP, and what becomes of connections when they end."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.auth.issuer import ID, ISSUER, Issuer
from tests.properties.dialogue import PROTOCOL_HEADER, method
from tests.server.support import PATIENCE, Client, Process

from leveret.wire import spec
from leveret.wire.values import Table


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("oauth2")
    (folder / "keys.json").write_text(issuer.jwks)
    settings = f'resource_server_id = "{ID}"\nissuer = "{ISSUER}"\njwks = "{folder / "keys.json"}"\n'
    (folder / "leveret.toml").write_text(f"login_failures = 0\n[oauth2]\n{settings}")
    with Process(folder, "--config", str(folder / "leveret.toml")) as process:
        yield process


def started(client: Client, token: str) -> None:
    about: Table = {"capabilities": {"authentication_failure_close": True}}
    client.socket.sendall(PROTOCOL_HEADER)
    client.expect(spec.ConnectionStart)
    client.send(method(0, spec.ConnectionStartOk(about, "PLAIN", f"\0\0{token}".encode(), "en_US")))


def connected(broker: Process, token: str) -> Client:
    client = broker.connect()
    started(client, token)
    client.expect(spec.ConnectionTune)
    client.send(method(0, spec.ConnectionTuneOk(2047, 131_072, 0)), method(0, spec.ConnectionOpen("/")))
    client.expect(spec.ConnectionOpenOk)
    client.send(method(1, spec.ChannelOpen()))
    client.expect(spec.ChannelOpenOk)
    return client


def test_token_in_place_of_the_password(broker: Process, issuer: Issuer) -> None:
    """SPEC §7.4 OAuth 2"""
    with connected(broker, issuer.token("configure:*/mine", "read:*/mine", "write:*/*")) as client:
        client.call(spec.QueueDeclare("mine"), spec.QueueDeclareOk)
        client.send(method(1, spec.QueueDeclare("other")))
        assert client.expect(spec.ChannelClose).reply_text == (
            "ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user 'shop'"
        )


def test_bad_tokens_are_refused(broker: Process, issuer: Issuer) -> None:
    for token in (issuer.token("read:*/*", seconds=-1), Issuer().token("read:*/*"), "ey.ey.ey"):
        with broker.connect() as client:
            started(client, token)
            assert client.expect(spec.ConnectionClose).reply_code == 403


def test_expired_token_ends_its_connection(broker: Process, issuer: Issuer) -> None:
    """SPEC §7.5 revoking: within a second, also if the client says nothing."""
    with connected(broker, issuer.token("read:*/*", seconds=1.5)) as client:
        close = client.expect(spec.ConnectionClose)
        assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - token of user 'shop' has expired")


def test_renewed_token_goes_on(broker: Process, issuer: Issuer) -> None:
    """With update-secret: with the newer token's scopes, and for as long as that is good."""
    with (
        connected(broker, issuer.token("read:*/*", "configure:*/*", seconds=1.5)) as client,
        connected(broker, issuer.token("read:*/*", seconds=1.5)) as other,
    ):
        newer = issuer.token("read:*/*", "configure:*/allowed")
        client.send(method(0, spec.ConnectionUpdateSecret(newer.encode(), "newer")))
        client.expect(spec.ConnectionUpdateSecretOk)
        # The other one's ends meanwhile.
        assert other.expect(spec.ConnectionClose).reply_code == 320
        client.call(spec.QueueDeclare("allowed"), spec.QueueDeclareOk)
        client.send(method(1, spec.QueueDeclare("not-any-more")))
        assert client.expect(spec.ChannelClose).reply_code == 403


@pytest.mark.parametrize("sub", ["other", None])
def test_token_that_cannot_renew_ends_the_connection(broker: Process, issuer: Issuer, sub: str | None) -> None:
    """One of another user, and one that is not good. RabbitMQ: this text."""
    with connected(broker, issuer.token("read:*/*")) as client:
        secret = issuer.token("read:*/*", sub=sub).encode()
        client.send(method(0, spec.ConnectionUpdateSecret(secret, "newer")))
        close = client.expect(spec.ConnectionClose)
        assert (close.reply_code, close.reply_text) == (
            530,
            "NOT_ALLOWED - New secret was refused by one of the backends",
        )


def asked(port: int, token: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_bearer_tokens_on_http(broker: Process, issuer: Issuer) -> None:
    port = broker.http_port
    assert asked(port, issuer.token("tag:administrator"), "/api/users") == 200
    assert asked(port, issuer.token("tag:management", "read:%2F/*"), "/api/queues/%2F") == 200
    assert asked(port, issuer.token("tag:management", "read:v/*"), "/api/queues/%2F") == 401
    assert asked(port, issuer.token("tag:management"), "/api/users") == 401
    assert asked(port, issuer.token("read:*/*"), "/api/whoami") == 401
    assert asked(port, issuer.token("tag:administrator", seconds=-1), "/api/users") == 401


def test_settings_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    (tmp_path / "leveret.toml").write_text('[oauth2]\nresource_server_id = "x"\n')
    broker = Process(tmp_path, "--config", str(tmp_path / "leveret.toml"))
    assert broker.popen.wait(PATIENCE) == 2
    broker.kill()
    assert "oauth2.jwks must be set" in broker.log
