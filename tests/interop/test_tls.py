"""Clients over TLS, each with a certificate as its documentation shows; and a part of this suite once more, over TLS."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aio_pika
import pika
import pika.exceptions
import pytest
from amqpstorm.connection import Connection
from tests.server.tls_support import Trust

from leveret.testing import Broker

# Imported so because kombu claims to be typed and is not.
kombu: Any = import_module("kombu")
ROOT = Path(__file__).resolve().parents[2]
BODY = bytes(range(256)) * 80_000
# What of this suite is run once more: what the wire carries, and each way to publish.
AGAIN = ("test_pika.py", "test_aio_pika.py", "test_publishing.py", "test_wire.py")


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    return Trust(tmp_path_factory.mktemp("trust"))


@pytest.fixture(scope="module")
def secured(trust: Trust) -> Iterator[Broker]:
    """A broker that asks for certificates; the user `client` has no password."""
    rights = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    tls = {name: getattr(trust.settings(), name) for name in ("port", "certificate", "key", "ca")}
    with Broker(
        tls={**tls, "clients": "asked", "ssl_cert_login_from": "common_name"},
        users=[{"name": "guest", "password": "guest"}, {"name": "client", "password_hash": ""}],
        permissions=[{"user": user, **rights} for user in ("guest", "client")],
    ) as broker:
        yield broker


def port_of(broker: Broker) -> int:
    return broker.listeners["amqps"][1]


def test_pika(secured: Broker, trust: Trust) -> None:
    """SPEC §7.4 EXTERNAL: and 20 MB both ways"""
    parameters = pika.ConnectionParameters(
        "localhost",
        port_of(secured),
        credentials=pika.credentials.ExternalCredentials(),
        ssl_options=pika.SSLOptions(trust.context(trust.client), "localhost"),
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("pika")
        channel.basic_publish("", "pika", BODY, pika.BasicProperties(user_id="client"))
        assert channel.basic_get("pika", auto_ack=True)[2] == BODY


def test_pika_with_a_password(secured: Broker, trust: Trust) -> None:
    """SPEC §7.4 PLAIN: without a certificate; the user who has no password cannot come in so."""
    options = pika.SSLOptions(trust.context(), "localhost")
    with pika.BlockingConnection(
        pika.ConnectionParameters("localhost", port_of(secured), ssl_options=options)
    ) as connection:
        assert connection.is_open
    nobody = pika.PlainCredentials("client", "")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(
            pika.ConnectionParameters("localhost", port_of(secured), credentials=nobody, ssl_options=options)
        )


def test_pika_without_the_certificate(secured: Broker, trust: Trust) -> None:
    """SPEC §7.4 EXTERNAL: it is not offered then."""
    options = pika.SSLOptions(trust.context(), "localhost")
    external = pika.credentials.ExternalCredentials()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(
            pika.ConnectionParameters("localhost", port_of(secured), credentials=external, ssl_options=options)
        )


def test_aio_pika(secured: Broker, trust: Trust) -> None:
    """SPEC §7.4 EXTERNAL"""
    files = {"cafile": trust.ca, "certfile": trust.client.certificate, "keyfile": trust.client.key}
    query = "&".join(f"{name}={quote(str(file), safe='')}" for name, file in files.items())

    async def main() -> None:
        async with await aio_pika.connect(f"amqps://localhost:{port_of(secured)}/?auth=external&{query}") as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("aio-pika")
            await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
            assert (await queue.get(no_ack=True)).body == BODY

    asyncio.run(main())


def test_amqpstorm(secured: Broker, trust: Trust) -> None:
    """SPEC §7.4 PLAIN: it knows no other, and shows its certificate all the same."""
    options = {"context": trust.context(trust.client), "server_hostname": "localhost"}
    with (
        Connection("localhost", "guest", "guest", port_of(secured), ssl=True, ssl_options=options) as connection,
        connection.channel() as channel,
    ):
        channel.queue.declare("amqpstorm")
        channel.basic.publish(BODY, "amqpstorm")
        found: Any = channel.basic.get("amqpstorm", no_ack=True, auto_decode=False)
        assert found.body == BODY


def test_kombu(secured: Broker, trust: Trust) -> None:
    """SPEC §7.4 EXTERNAL"""
    files = {"ca_certs": str(trust.ca), "certfile": str(trust.client.certificate), "keyfile": str(trust.client.key)}
    ssl_options = {**files, "server_hostname": "localhost", "cert_reqs": 2}
    with kombu.Connection(
        f"amqps://localhost:{port_of(secured)}//", ssl=ssl_options, login_method="EXTERNAL", userid="", password=""
    ) as connection:
        queue = connection.SimpleQueue("kombu", no_ack=True, queue_opts={"durable": False}, exchange_opts={"durable": False})
        queue.put(BODY, serializer=None, content_type="application/octet-stream", content_encoding="binary")
        assert queue.get(timeout=30).body == BODY
        queue.close()


@pytest.mark.timeout(600)
def test_part_of_this_suite_over_tls(secured: Broker, trust: Trust) -> None:
    """SPEC §1: nothing is different."""
    url = f"amqps://guest:guest@localhost:{port_of(secured)}/%2F"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--timeout", "120", "-p", "no:cacheprovider"]
    files = [str(Path(__file__).parent / name) for name in AGAIN]
    done = subprocess.run(
        [*command, *files, "--broker", url],
        cwd=ROOT,
        # What a client trusts that is told nothing.
        env={**os.environ, "SSL_CERT_FILE": str(trust.ca)},
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
