"""Shovels over TLS, to a broker that demands a certificate."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.management.amqp import soon
from tests.server.tls_support import Trust
from tests.shovel.support import Shovelling, bodies, fill, folder, length, taken


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(tmp_path)


@pytest.fixture
def broker(tmp_path: Path, trust: Trust) -> Iterator[Shovelling]:
    environment = trust.environment(clients="required", ssl_cert_login_from="common_name")
    with Shovelling(folder(tmp_path, "broker"), environment=environment) as broker:
        yield broker


def test_messages_go_over_tls_with_a_certificate_for_a_login(broker: Shovelling, trust: Trust) -> None:
    """SPEC §9.8, §7.4 EXTERNAL"""
    assert broker.http().put("/api/users/client", {"password_hash": "", "tags": ""}).status == 201
    broker.http().put("/api/permissions/%2F/client", {"configure": ".*", "write": ".*", "read": ".*"})
    own = f"certfile={trust.client.certificate}&keyfile={trust.client.key}&auth_mechanism=external"
    uri = f"amqps://localhost:{broker.port_of('amqps')}?cacertfile={trust.ca}&{own}"
    fill(broker, "from", bodies(100))
    broker.set("secured", {"src-uri": "amqp://", "src-queue": "from", "dest-uri": uri, "dest-queue": "to"})
    soon(lambda: length(broker, "to") == 100)
    assert taken(broker, "to") == bodies(100)
    (found,) = [one for one in broker.http().get("/api/connections") if one["ssl"]]
    assert (found["user"], found["auth_mechanism"], found["peer_cert_subject"]) == ("client", "EXTERNAL", "CN=client")


def test_broker_that_is_not_trusted_gets_nothing(broker: Shovelling) -> None:
    """SPEC §9.8: it is verified without being asked for."""
    fill(broker, "from", bodies(1))
    uri = f"amqps://guest:guest@localhost:{broker.port_of('amqps')}"
    broker.set("strange", {"src-uri": "amqp://", "src-queue": "from", "dest-uri": uri, "dest-queue": "to"})
    soon(lambda: "the broker's certificate is not accepted: " in broker.log)
    assert length(broker, "from") == 1
