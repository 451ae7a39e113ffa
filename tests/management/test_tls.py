"""The HTTP API and the metrics over TLS, and what they tell of listeners and connections that have it."""

import asyncio
import json
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.certificates import Pair
from tests.management.support import Running
from tests.server.support import PATIENCE, eventually
from tests.server.test_tls import external
from tests.server.tls_support import TlsClient, Trust

from leveret.cli.api import Api, Unreachable
from leveret.management.api.features import toml_lines
from leveret.management.tls_view import cipher_parts
from leveret.server.config import load

WHO = "whoami"
NAMES = ("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash")
PEER = ("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity")


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture(scope="module")
def secured(trust: Trust, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with all listeners twice, that asks for certificates."""
    environment = trust.environment(clients="asked", ssl_cert_login_from="common_name")
    with Running(tmp_path_factory.mktemp("secured"), environment=environment) as running:
        yield running


# Over TLS


def test_api_and_metrics_with_aiohttp(secured: Running, trust: Trust) -> None:
    """SPEC §9.1, §9.3"""

    async def main() -> tuple[Any, str, str]:
        connector = aiohttp.TCPConnector(ssl=trust.context())
        login = secured.http().headers
        async with aiohttp.ClientSession(connector=connector) as session:
            https, metrics = (f"https://localhost:{secured.port_of(name)}" for name in ("https", "https/prometheus"))
            async with session.get(f"{https}/api/{WHO}", headers=login) as answer:
                who = await answer.json()
            async with session.get(f"{https}/") as answer:
                page = await answer.text()
            async with session.get(f"{metrics}/metrics") as answer:
                return who, page, await answer.text()

    who, page, metrics = asyncio.run(main())
    assert who == {"name": "guest", "tags": ["administrator"]}
    assert page
    assert "rabbitmq_build_info" in metrics


@pytest.mark.parametrize("version", ["--tlsv1.3", "--tlsv1.2"])
def test_api_with_curl(secured: Running, trust: Trust, version: str) -> None:
    """SPEC §9.1"""
    assert shutil.which("curl"), "curl is missing"
    url = f"https://localhost:{secured.port_of('https')}/api/{WHO}"
    command = ["curl", "--silent", "--show-error", "--fail", version, "--user", "guest:guest", url]
    done = subprocess.run(
        [*command, "--cacert", str(trust.ca)], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert json.loads(done.stdout)["name"] == "guest"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (60, "")


def test_large_bodies_both_ways(secured: Running, trust: Trust) -> None:
    """SPEC §9.1: more than one read and one write take."""
    api = api_of(secured, trust)
    api.put("/api/queues/%2F/large", {"auto_delete": False, "durable": False})
    payload = "x" * 4_000_000
    message = {"properties": {}, "routing_key": "large", "payload": payload, "payload_encoding": "string"}
    assert api.ask("POST", "/api/exchanges/%2F/amq.default/publish", message) == {"routed": True}
    (found,) = api.ask("POST", "/api/queues/%2F/large/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    assert found["payload"] == payload


@pytest.mark.parametrize("listener", ["http", "prometheus"])
def test_client_with_tls_on_a_plain_port(secured: Running, trust: Trust, listener: str) -> None:
    with pytest.raises(ssl.SSLError):
        TlsClient(secured.port_of(listener), trust.context())
    eventually(lambda: "a client with TLS has connected to a port without TLS (HTTP)" in secured.log)


@pytest.mark.parametrize("listener", ["https", "https/prometheus"])
def test_plain_client_on_a_port_for_tls(secured: Running, listener: str) -> None:
    with pytest.raises(Unreachable):
        Api("", f"http://localhost:{secured.port_of(listener)}").get(f"/api/{WHO}")
    eventually(lambda: "a client without TLS (HTTP) has connected to a port for TLS" in secured.log)


# leveretctl's way to it


def api_of(broker: Running, trust: Trust, query: str = "") -> Api:
    return Api("", f"https://guest:guest@localhost:{broker.port_of('https')}?{query or f'cacertfile={trust.ca}'}")


def test_options_are_in_the_url(secured: Running, trust: Trust) -> None:
    """SPEC §9.5: what an amqps URI has is understood."""
    own = f"certfile={trust.client.certificate}&keyfile={trust.client.key}"
    for query in (f"cacertfile={trust.ca}", f"cacertfile={trust.ca}&{own}", "verify=verify_none"):
        assert api_of(secured, trust, query).get(f"/api/{WHO}")["name"] == "guest"
    url = f"https://guest:guest@127.0.0.1:{secured.port_of('https')}?cacertfile={trust.ca}&server_name_indication=localhost"
    assert Api("", url).get(f"/api/{WHO}")["name"] == "guest"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("verify=verify_peer", "the broker's certificate is not accepted: self-signed certificate in certificate chain"),
        ("cacertfile={ca}&server_name_indication=elsewhere", "the broker's certificate is not accepted: Hostname mismatch"),
        ("cacertfile=/no/such/file", "No such file or directory"),
    ],
)
def test_certificate_is_verified_unless_the_url_says_otherwise(
    secured: Running, trust: Trust, query: str, said: str
) -> None:
    """SPEC §9.5"""
    with pytest.raises(Unreachable) as refused:
        api_of(secured, trust, query.format(ca=trust.ca)).get(f"/api/{WHO}")
    assert str(refused.value).startswith(f"cannot connect to a broker at https://localhost:{secured.port_of('https')}: ")
    assert said in str(refused.value)


# What is told of it


def test_listeners_have_rabbitmqs_names(secured: Running) -> None:
    """SPEC §9.1"""
    overview = secured.http().get("/api/overview")
    protocols = [one["protocol"] for one in overview["listeners"]]
    assert protocols == ["amqp", "amqp/ssl", "http", "http/prometheus", "https", "https/prometheus"]
    assert [one["protocol"] for one in overview["contexts"]] == ["http", "http", "https", "https"]
    for name in ("amqp/ssl", "https"):
        answer = secured.http().ask("GET", f"/api/health/checks/protocol-listener/{name.replace('/', '%2F')}")
        assert answer.status == 200
    mechanisms = [one["name"] for one in secured.http().get("/api/nodes")[0]["auth_mechanisms"]]
    assert mechanisms == ["PLAIN", "AMQPLAIN", "EXTERNAL"]


def only_connection(broker: Running) -> Any:
    (one,) = broker.http().get("/api/connections")
    return one


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (ssl.TLSVersion.TLSv1_2, ["tlsv1.2", "ecdhe_ecdsa", "aes_256_gcm", "aead"]),
        (ssl.TLSVersion.TLSv1_3, ["tlsv1.3", "any", "aes_256_gcm", "aead"]),
    ],
)
def test_connection_tells_what_tls_it_has(secured: Running, trust: Trust, version: ssl.TLSVersion, told: list[str]) -> None:
    """SPEC §9.1: without a certificate nothing is told of one."""
    with TlsClient(secured.port_of("amqps"), trust.context(version=version)) as client:
        client.login()
        found = only_connection(secured)
        assert found["ssl"] is True
        assert [found[name] for name in NAMES] == told
        assert [found[name] for name in PEER] == [None, None, None]
        one = secured.http().get(f"/api/connections/{secured.http().quoted(found['name'])}")
        assert [one[name] for name in (*NAMES, *PEER)] == [*told, "", "", ""]
    eventually(lambda: not secured.http().get("/api/connections"))


def test_connection_tells_its_certificate(secured: Running, trust: Trust) -> None:
    """SPEC §9.1: and who has logged in with it."""
    http = secured.http()
    subject = "/C=DE/O=Hare, Ltd./CN=shop+emailAddress=shop@hare.example"
    own: Pair = trust.authority.issue("shop", subject=subject)
    assert http.put("/api/users/shop", {"password_hash": "", "tags": ""}).status == 201
    http.put("/api/permissions/%2F/shop", {"configure": ".*", "write": ".*", "read": ".*"})
    with TlsClient(secured.port_of("amqps"), trust.context(own)) as client:
        external(client)
        found = only_connection(secured)
        assert (found["user"], found["auth_mechanism"]) == ("shop", "EXTERNAL")
        parts = found["peer_cert_subject"]
        assert re.fullmatch(
            r"(CN=shop\+EMAILADDRESS=shop@hare\.example|EMAILADDRESS=.*\+CN=shop),O=Hare\\, Ltd\.,C=DE", parts
        )
        assert found["peer_cert_issuer"] == "CN=authority"
        time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
        assert re.fullmatch(f"{time} - {time}", found["peer_cert_validity"])
    eventually(lambda: not http.get("/api/connections"))


@pytest.mark.parametrize(
    ("name", "key_exchange", "cipher"),
    [
        ("TLS_AES_128_GCM_SHA256", "any", "aes_128_gcm"),
        ("TLS_CHACHA20_POLY1305_SHA256", "any", "chacha20_poly1305"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ecdhe_rsa", "aes_128_gcm"),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", "ecdhe_ecdsa", "chacha20_poly1305"),
    ],
)
def test_parts_of_a_cipher(name: str, key_exchange: str, cipher: str) -> None:
    assert cipher_parts(name) == (key_exchange, cipher)


def test_effective_settings_are_toml(secured: Running, trust: Trust, tmp_path: Path) -> None:
    """SPEC §9.5: leveretctl environment; a broker would start with what it shows."""
    shown = secured.http().ask("GET", "/api/config/effective").body.decode()
    file = tmp_path / "shown.toml"
    file.write_text(shown)
    found = load(str(file), {}, {})
    wanted = trust.settings(clients="asked", ssl_cert_login_from="common_name")
    assert (found.tls, found.port) == (wanted, 0)
    names = {"*.a.example": {"certificate": "/c", "key": ""}}
    assert list(toml_lines("tls", {"names": names})) == [
        'tls.names."*.a.example".certificate = "/c"',
        'tls.names."*.a.example".key = ""',
    ]


def test_answers_over_tls_say_so_for_later(secured: Running, trust: Trust) -> None:
    """SPEC §9.1: HSTS, over TLS only, and to whoever does not call the broker localhost."""
    context = ssl.create_default_context(cafile=str(trust.ca))
    for host, said in (("mq.example", "max-age=31536000"), ("localhost", None)):
        connection = HTTPSConnection("localhost", secured.port_of("https"), context=context, timeout=PATIENCE)
        connection.request("GET", "/api/whoami", headers={"Host": host})
        assert connection.getresponse().getheader("Strict-Transport-Security") == said
        connection.close()
    assert (
        "Strict-Transport-Security" not in secured.http().ask("GET", "/api/whoami", headers={"Host": "mq.example"}).headers
    )


# What is checked


def test_certificates_that_expire_fail_their_check(secured: Running, trust: Trust) -> None:
    """SPEC §9.1: each listener that has one; and leveretctl says so."""
    http = secured.http()
    assert http.get("/api/health/checks/certificate-expiration/1/weeks") == {"status": "ok"}
    answer = http.ask("GET", "/api/health/checks/certificate-expiration/4/months")
    assert (answer.status, answer.json["reason"]) == (503, "Certificates expiring")
    assert [one["protocol"] for one in answer.json["expired"]] == ["amqp/ssl", "https", "https/prometheus"]
    one = answer.json["expired"][0]
    assert (one["certfile"], one["cacertfile"]) == (str(trust.server.certificate), str(trust.ca))
    for name in ("certfile_expires_on", "cacertfile_expires_on"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", *one[name])
    for within, status in (("1", 0), ("20", 69)):
        command = [sys.executable, "-m", "leveret.cli.ctl", "--data-dir", str(secured.folder / "data")]
        command += ["check_certificate_expiration", "--unit", "weeks", "--within", within]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == status, done
        assert ("Certificates are expiring" in done.stdout + done.stderr) is (status != 0)


@pytest.mark.parametrize("within", ["1" * 10, "+-1", "1" * 5000, "x"])
def test_time_that_is_none(secured: Running, within: str) -> None:
    answer = secured.http().ask("GET", f"/api/health/checks/certificate-expiration/{within}/days")
    assert answer.status == 400
