"""Rights, limits, policies and deletion as pika meets them, on a Leveret that was started with a settings file.

Always on a Leveret of its own, whatever --broker says: what is revoked here is revoked from inside.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.server.support import InProcess

from leveret.server.config import load

SETTINGS = """
port = 0
consumer_timeout = 1000

[[vhosts]]
name = "orders"

[[users]]
name = "shop"
password = "secret"
limits = { max-connections = 3 }

[[users]]
name = "owner"
password = "secret"

[[permissions]]
user = "owner"
vhost = "orders"
configure = ".*"
write = ".*"
read = ".*"

[[permissions]]
user = "shop"
vhost = "orders"
configure = "^shop\\\\."
write = "^(shop\\\\..*|amq\\\\.default|amq\\\\.topic)$"
read = "^(shop\\\\.|amq\\\\.topic)"

[[topic_permissions]]
user = "shop"
vhost = "orders"
exchange = "amq.topic"
write = "^{username}\\\\."
read = "^{username}\\\\."

[[policies]]
vhost = "orders"
name = "bounded"
pattern = "\\\\.bounded$"
definition = { max-length = 2 }
"""

Connect = Callable[..., Any]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[InProcess]:
    file = tmp_path / "leveret.toml"
    file.write_text(SETTINGS)
    with InProcess(load(str(file), {"storage": "memory"}, {})) as node:
        yield node


@pytest.fixture
def connect(node: InProcess) -> Iterator[Connect]:
    connections = []

    def open_connection(user: str = "shop", password: str = "secret", vhost: str = "orders") -> Any:
        credentials = pika.PlainCredentials(user, password)
        parameters = pika.ConnectionParameters("127.0.0.1", node.port, vhost, credentials, socket_timeout=60)
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1]

    yield open_connection
    for connection in connections:
        if connection.is_open:
            connection.close()


def wait_for(connection: Any, happened: Callable[[], object]) -> None:
    """Handle what comes until this has happened."""
    for _ in range(100):
        if happened():
            return
        connection.process_data_events(0.1)
    pytest.fail("it never happened")


def refused(act: Callable[[], object], text: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        act()
    assert (caught.value.reply_code, caught.value.reply_text) == (403, f"ACCESS_REFUSED - {text}")


def test_rights(connect: Connect) -> None:
    """SPEC §7.2 permissions and topic permissions"""
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("shop.q")
    channel.queue_bind("shop.q", "amq.topic", "shop.*")
    channel.basic_publish("amq.topic", "shop.1", b"1", mandatory=True)
    assert channel.basic_get("shop.q", auto_ack=True)[2] == b"1"
    where = "in vhost 'orders' refused for user 'shop'"
    for act, text in (
        (lambda c: c.queue_declare("q"), f"configure access to queue 'q' {where}"),
        (lambda c: c.basic_publish("amq.direct", "k", b""), f"write access to exchange 'amq.direct' {where}"),
        (
            lambda c: c.basic_publish("amq.topic", "other.1", b""),
            f"write access to topic 'other.1' in exchange 'amq.topic' {where}",
        ),
        (lambda c: c.queue_bind("shop.q", "amq.topic", "#"), f"read access to topic '#' in exchange 'amq.topic' {where}"),
        (lambda c: c.queue_bind("shop.q", "amq.direct", "k"), f"read access to exchange 'amq.direct' {where}"),
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        refused(lambda act=act, channel=channel: act(channel), text)  # type: ignore[misc]
    assert connection.is_open


def test_doors(connect: Connect) -> None:
    """SPEC §7.1 virtual hosts, §7.2 user limits, §7.3 no guest where others are defined"""
    with pytest.raises(ProbableAuthenticationError):
        connect("guest", "guest", "/")
    with pytest.raises(ProbableAccessDeniedError, match="access to vhost '/' refused for user 'shop'"):
        connect(vhost="/")
    for _ in range(3):
        connect()
    with pytest.raises(ProbableAccessDeniedError, match=r"user connection limit \(3\) is reached"):
        connect()


def test_policy(connect: Connect) -> None:
    """SPEC §7.6 policies"""
    channel = connect().channel()
    channel.confirm_delivery()
    channel.queue_declare("shop.bounded")
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "shop.bounded", body)
    assert channel.basic_get("shop.bounded", auto_ack=True)[2] == b"2"


def test_revoked_right_ends_the_consumer(node: InProcess, connect: Connect) -> None:
    """SPEC §7.5 revoking: the client hears basic.cancel, and goes on."""
    connection, owner = connect(), connect("owner")
    channel = connection.channel()
    channel.queue_declare("shop.q")
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("shop.q", lambda *_: None, consumer_tag="mine")
    kept: list[bytes] = []
    owner.channel().basic_consume("shop.q", lambda *args: kept.append(args[3]), auto_ack=True)
    node.call(lambda: node.node.broker.set_permissions("shop", "orders", ".*", ".*", ""))
    wait_for(connection, lambda: cancelled)
    assert cancelled[0].method.consumer_tag == "mine"
    channel.basic_publish("", "shop.q", b"for the other")
    wait_for(owner, lambda: kept)
    assert kept == [b"for the other"]
    refused(lambda: channel.basic_get("shop.q"), "read access to queue 'shop.q' in vhost 'orders' refused for user 'shop'")


def test_deleted_user_loses_its_connections(node: InProcess, connect: Connect) -> None:
    """SPEC §7.5 deleting a user: what it held goes to another, and it cannot come back."""
    one, two, owner = connect(), connect(), connect("owner")
    channel, other = one.channel(), owner.channel()
    channel.queue_declare("shop.q")
    channel.queue_declare("shop.mine", exclusive=True)
    channel.basic_publish("", "shop.q", b"1")
    wait_for(one, lambda: channel.basic_get("shop.q")[0])
    node.call(lambda: node.node.broker.delete_user("shop"))
    for connection in (one, two):
        with pytest.raises(ConnectionClosedByBroker) as caught:
            connection.process_data_events(10)
        assert (caught.value.reply_code, caught.value.reply_text) == (320, "CONNECTION_FORCED - user 'shop' is deleted")
    assert other.basic_get("shop.q")[2] == b"1"
    with pytest.raises(ChannelClosedByBroker, match=r"no queue 'shop\.mine'"):
        owner.channel().queue_declare("shop.mine", passive=True)
    with pytest.raises(ProbableAuthenticationError):
        connect()


def test_deleted_vhost_loses_its_connections(node: InProcess, connect: Connect) -> None:
    """SPEC §7.1 deleting a virtual host"""
    connection = connect()
    connection.channel().queue_declare("shop.q")
    node.call(lambda: node.node.broker.delete_vhost("orders"))
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.process_data_events(10)
    assert (caught.value.reply_code, caught.value.reply_text) == (320, "CONNECTION_FORCED - vhost 'orders' is deleted")
    with pytest.raises(ProbableAccessDeniedError, match="vhost orders not found"):
        connect()


def test_user_is_deleted_while_it_publishes(node: InProcess, connect: Connect) -> None:
    """SPEC §7.5 deleting a user: amid a flood"""
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("shop.bounded")

    def flood() -> None:
        while True:
            channel.basic_publish("", "shop.bounded", bytes(100))

    timer = threading.Timer(0.1, lambda: node.call(lambda: node.node.broker.delete_user("shop")))
    timer.start()
    with pytest.raises(ConnectionClosedByBroker, match="user 'shop' is deleted"):
        flood()
    timer.join()


def test_delivery_that_is_not_acknowledged_in_time(connect: Connect) -> None:
    """SPEC §6.5 acknowledgement timeout"""
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("shop.q")
    channel.basic_publish("", "shop.q", b"1")
    channel.basic_consume("shop.q", lambda *_: None)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.start_consuming()
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more",
    )
    assert connection.channel().basic_get("shop.q")[2] == b"1"
