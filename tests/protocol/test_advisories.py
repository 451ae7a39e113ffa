"""RabbitMQ's security advisories that concern a broker of AMQP 0-9-1, each tried on this one.

Each docstring says what went wrong there, and what the defence is here. Those that concern HTTP are in
tests/management/test_advisories.py, those of proxies in tests/server/test_proxy_protocol.py.
"""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

REPLY_TO = "amq.rabbitmq.reply-to"


def close_of(heard: list[object]) -> tuple[type, int]:
    """What kind of close was heard, and its code."""
    (close,) = [item for item in heard if isinstance(item, ChannelClose | ConnectionClose)]
    return type(close), close.reply_code


def test_cve_2026_67235_announced_body_that_is_too_large(client: Client, broker: Broker) -> None:
    """Bodies were gathered without a look at their size. Here a header that announces too much ends the channel."""
    broker.settings.max_message_size = 100
    header = b"\x00\x3c\x00\x00" + (101).to_bytes(8, "big") + b"\x00\x00"
    heard = client.say(BasicPublish("", "q"), client.frame(2, header))
    assert close_of(list(heard)) == (ChannelClose, 406)


def test_cve_2026_67235_more_body_than_was_announced(client: Client) -> None:
    """Nor was the sum of body frames compared with the header. Here one octet more ends the connection."""
    header = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + b"\x00\x00"
    client.feed(client.method(BasicPublish("", "q")) + client.frame(2, header) + client.frame(3, b"123456"))
    assert close_of([item for _, item in client.heard_on_channels()]) == (ConnectionClose, 501)


def test_cve_2026_67419_consecutive_wildcards(client: Client) -> None:
    """Several `#` made matching exponential. Here it is linear in the words: this would not end in years otherwise."""
    pattern = ".".join(["a", *["#", "x"] * 20, *["#"] * 20, "b"])
    key = ".".join(["a", *["x"] * 120, "c"])
    assert client.say(QueueDeclare("q"))
    assert client.say(QueueBind("q", "amq.topic", pattern)) == [QueueBindOk()]
    assert client.say(client.message(key, b"no", "amq.topic"), client.message(key[:-1] + "b", b"yes", "amq.topic")) == []
    (answer,) = client.say(QueueDeclare("q", passive=True))
    assert isinstance(answer, QueueDeclareOk)
    assert answer.message_count == 1


def test_cve_2026_57221_passive_declarations_tell_nothing(connect: Connect, broker: Broker) -> None:
    """Whoever had no right to a queue could ask how long it is. Here at least one of the three rights is needed."""
    connect().say(QueueDeclare("secret"))
    broker.set_permissions("other", "/", "^own", "^own", "^own")
    for question in (QueueDeclare("secret", passive=True), ExchangeDeclare("amq.topic", passive=True)):
        assert close_of(list(connect(user="other").say(question))) == (ChannelClose, 403)
    broker.set_permissions("other", "/", "", "", "^secret")
    assert isinstance(connect(user="other").say(QueueDeclare("secret", passive=True))[0], QueueDeclareOk)


@pytest.mark.parametrize(("host", "refused"), [("192.0.2.1", True), ("::ffff:192.0.2.1", True), ("127.0.0.1", False)])
def test_cve_2026_57216_loopback_users_by_their_own_address(stranger: Client, host: str, refused: bool) -> None:
    """The listener's address was looked at. Here it is the client's own end of the connection."""
    client = type(stranger)(stranger.broker, host)
    client.greet()
    (answer,) = client.start_ok()
    assert isinstance(answer, ConnectionClose if refused else ConnectionTune)


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_cve_2026_57217_topic_rights_for_all_routing_keys(connect: Connect, broker: Broker, header: str) -> None:
    """Only the first routing key was checked. Here each of CC and BCC is, too."""
    connect().say(QueueDeclare("q"), QueueBind("q", "amq.topic", "#"))
    broker.set_topic_permissions("other", "/", "amq.topic", "^allowed", "")
    client = connect(user="other")
    headers: Table = {header: ["refused"]}
    heard = client.say(client.message("allowed", b"", "amq.topic", properties=Properties(headers=headers)))
    assert close_of(list(heard)) == (ChannelClose, 403)
    (answer,) = connect().say(QueueDeclare("q", passive=True))
    assert isinstance(answer, QueueDeclareOk)
    assert answer.message_count == 0


def test_cve_2026_57215_reply_queues_cannot_be_bound(client: Client) -> None:
    """A binding to somebody's reply queue got its answers. Here it is no queue that could be bound."""
    assert isinstance(client.say(BasicConsume(REPLY_TO, no_ack=True))[0], BasicConsumeOk)
    assert close_of(list(client.say(QueueBind(REPLY_TO, "amq.fanout", "")))) == (ChannelClose, 404)


def test_cve_2026_67238_reply_addresses_cannot_be_guessed(connect: Connect) -> None:
    """A forged suffix reached others' consumers. Here the address has a random part, and another one leads nowhere."""
    asker, forger = connect(), connect()
    assert isinstance(asker.say(BasicConsume(REPLY_TO, no_ack=True))[0], BasicConsumeOk)
    asker.say(QueueDeclare("q"))
    asker.say(asker.message("q", b"question", properties=Properties(reply_to=REPLY_TO)))
    got, content = asker.say(BasicGet("q", no_ack=True))
    assert isinstance(got, BasicGetOk)
    assert isinstance(content, tuple)
    address = content[0].reply_to
    assert address is not None
    assert len(address) > len(REPLY_TO) + 20
    for forged in (address[:-1] + ("A" if address[-1] != "A" else "B"), REPLY_TO + ".", REPLY_TO):
        forger.say(forger.message(forged, b"forged"))
    assert asker.heard() == []
    forger = connect()
    forger.say(forger.message(address, b"answer"))
    assert len(asker.heard()) == 2


def test_cve_2026_57218_consumers_do_not_outlive_their_rights(connect: Connect, broker: Broker) -> None:
    """A consumer went on when its right to read was revoked. Here it is cancelled at once, before the next message."""
    connect().say(QueueDeclare("q"))
    client = connect(user="other")
    client.say(BasicConsume("q", "c", no_ack=True))
    broker.set_permissions("other", "/", ".*", ".*", "")
    publisher = connect()
    publisher.say(publisher.message("q", b"secret"))
    assert client.heard() == [BasicCancel("c", no_wait=True)]


@pytest.mark.parametrize("weight", ["-1", "0", "many", "1" * 200])
def test_cve_2026_67219_weights_of_consistent_hashes_are_bounded(client: Client, weight: str) -> None:
    """A binding's key is its weight, and a huge one filled the memory. Here what is none is refused."""
    assert client.say(ExchangeDeclare("x", "x-consistent-hash")) == [ExchangeDeclareOk()]
    client.say(QueueDeclare("q"))
    heard = client.say(QueueBind("q", "x", weight))
    assert close_of(list(heard))[1] in (406, 530, 540)


def test_cve_2026_67219_a_huge_weight_takes_no_more_room(client: Client) -> None:
    """However much it weighs, a binding is one number here, not as many places on a ring."""
    assert client.say(ExchangeDeclare("x", "x-consistent-hash")) == [ExchangeDeclareOk()]
    client.say(QueueDeclare("q"))
    tracemalloc.start()
    try:
        assert client.say(QueueBind("q", "x", "1000000000")) == [QueueBindOk()]
        assert client.say(client.message("k", b"x", "x")) == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_deep_tables_are_refused(client: Client) -> None:
    """In clients, nested tables recursed without end. Here nesting has a limit; before login too."""
    depth = 2000
    table = b""
    for _ in range(depth):
        table = b"\x01tF" + len(table).to_bytes(4, "big") + table
    payload = b"\x00\x32\x00\x0a\x00\x00\x01q\x00" + len(table).to_bytes(4, "big") + table
    client.feed(client.frame(1, payload))
    assert close_of([item for _, item in client.heard_on_channels()]) == (ConnectionClose, 502)


def test_frames_larger_than_agreed_end_the_connection(client: Client) -> None:
    """A length is compared with the limit before anything is allocated for it."""
    client.feed(b"\x03\x00\x01" + (1 << 31).to_bytes(4, "big"))
    assert close_of([item for _, item in client.heard_on_channels()]) == (ConnectionClose, 501)


def test_limits_hold_before_login(stranger: Client) -> None:
    """Other protocols had none before login. Here a frame has 4096 octets until tuning is done."""
    stranger.greet()
    stranger.feed(b"\x01\x00\x00" + (1 << 20).to_bytes(4, "big"))
    assert stranger.octets() == b""
    assert stranger.connection.tick_at <= 3000


def test_frame_max_below_the_specifications_is_refused(stranger: Client) -> None:
    """A tiny frame_max made endless frames of one message. Here less than 4096 is refused."""
    stranger.greet()
    stranger.start_ok()
    heard = stranger.say(ConnectionTuneOk(2047, 4095, 0), channel=0)
    assert heard == [] or close_of(list(heard)) == (ConnectionClose, 530)
    assert stranger.connection.session.on_shut is None


def test_confirms_of_a_refused_publish(connect: Connect, broker: Broker) -> None:
    """What was not allowed is never confirmed."""
    connect().say(QueueDeclare("q"))
    broker.set_permissions("other", "/", "", "", "")
    client = connect(user="other")
    assert client.say(ConfirmSelect()) == [ConfirmSelectOk()]
    assert close_of(list(client.say(client.message("q", b"x")))) == (ChannelClose, 403)
