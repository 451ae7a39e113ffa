"""The handshake as a dialogue: who is let in, who is told why not, and who hears nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret import __version__
from leveret.broker.broker import Broker
from leveret.errors import CommandInvalid, NotAllowed, SyntaxFault
from leveret.protocol.handshake import check_negotiated, credentials
from leveret.protocol.peer import Peer
from leveret.protocol.states import HANDSHAKE, IGNORING_INPUT, RUNNING
from leveret.wire.spec import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from leveret.wire.values import encode_table

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
REFUSAL = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."


def test_broker_says_what_it_is(stranger: Client) -> None:
    start = stranger.greet()
    assert (start.version_major, start.version_minor, start.locales) == (0, 9, b"en_US")
    assert sorted(start.mechanisms.split()) == [b"AMQPLAIN", b"PLAIN"]
    properties = start.server_properties
    assert (properties["product"], properties["version"], properties["leveret"]) == ("RabbitMQ", "3.13.7", __version__)
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    assert {"cluster_name", "copyright", "information", "platform"} <= set(properties)


def test_what_every_client_is_told_is_encoded_once(stranger: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §1: the table of what the broker can do has twenty values."""
    first = stranger.greet()
    monkeypatch.setattr("leveret.wire.methods.encode_table", None)
    assert type(stranger)(stranger.broker).greet() == first


def test_whole_handshake(stranger: Client) -> None:
    stranger.greet()
    assert stranger.connection.state == HANDSHAKE
    assert stranger.start_ok() == [ConnectionTune(2047, 131072, 60)]
    assert stranger.say(ConnectionTuneOk(10, 8192, 30), channel=0) == []
    assert stranger.say(ConnectionOpen("/"), channel=0) == [ConnectionOpenOk()]
    connection = stranger.connection
    assert connection.state == RUNNING
    assert (connection.channel_max, connection.heartbeat.interval_ms) == (10, 30_000)
    assert (connection.reader.frame_max, connection.output.frame_max) == (8192, 8192)
    assert (connection.session.user.name, connection.session.vhost.name) == ("guest", "/")
    assert connection.client_properties["product"] == "test"
    assert connection.session.capable("consumer_cancel_notify")
    assert not connection.session.capable("connection.blocked")


def test_handshake_may_come_byte_by_byte(stranger: Client) -> None:
    for octet in PROTOCOL_HEADER:
        assert stranger.octets() == b""
        stranger.feed(bytes([octet]))
    assert len(stranger.heard(0)) == 1


def test_handshake_may_come_in_one_read(stranger: Client) -> None:
    stranger.log_in()
    header = PROTOCOL_HEADER + stranger.method(ConnectionTuneOk(), 0)
    other = type(stranger)(stranger.broker)
    other.feed(header)
    assert len(other.heard(0)) == 1
    assert other.connection.state == IGNORING_INPUT


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09"], ids=["0-9-1", "0-9"])
def test_accepted_protocol_headers(stranger: Client, header: bytes) -> None:
    assert len(stranger.say(header, channel=0)) == 1
    assert not stranger.connection.ended


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"GET / HT", b"\x16\x03\x01\x02\x00\x01\x00\x01"]
)
def test_wrong_protocol_header_is_answered_with_the_right_one_and_the_end(stranger: Client, header: bytes) -> None:
    stranger.feed(header + b"and more")
    assert stranger.octets() == PROTOCOL_HEADER
    assert stranger.connection.ended
    stranger.feed(b"still more")
    assert stranger.octets() == b""


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "a client with TLS has connected to a port without TLS"),
        (b"AMQP\x00\x01\x00\x00", "bad protocol header b'AMQP\\x00\\x01\\x00\\x00'"),
    ],
)
def test_log_tells_wrong_protocol_headers_apart(
    stranger: Client, caplog: pytest.LogCaptureFixture, header: bytes, said: str
) -> None:
    stranger.feed(header)
    assert caplog.messages == [f"client: {said}"]


# Certificates


def with_certificate(broker: Broker, kind: type[Client], name: str | None = "shop", host: str = "192.0.2.1") -> Client:
    """A client that has come in by TLS, and has shown a certificate with this common name; without a name, none."""
    certificate = None if name is None else {"subject": ((("organizationName", "Hare"),), (("commonName", name),))}
    return kind(broker, peer=Peer("client", host, certificate=certificate, tls=True))


def test_external_is_offered_to_who_has_shown_a_certificate(stranger: Client) -> None:
    """SPEC §7.4 EXTERNAL"""
    start = with_certificate(stranger.broker, type(stranger)).greet()
    assert start.mechanisms.split() == [b"EXTERNAL", b"AMQPLAIN", b"PLAIN"]
    start = with_certificate(stranger.broker, type(stranger), name=None).greet()
    assert start.mechanisms.split() == [b"AMQPLAIN", b"PLAIN"]


@pytest.mark.parametrize(
    ("source", "user"), [("common_name", "shop"), ("distinguished_name", "CN=shop,O=Hare")], ids=["CN", "DN"]
)
def test_certificate_logs_its_user_in(stranger: Client, source: str, user: str) -> None:
    """SPEC §7.4 EXTERNAL: without a password, also where the user has one."""
    broker = stranger.broker
    broker.settings.certificate_login = (source, "dns", 0)
    broker.add_user(user, "secret")
    client = with_certificate(broker, type(stranger))
    client.greet()
    assert client.start_ok(b"", "EXTERNAL") == [ConnectionTune(2047, 131072, 60)]
    assert broker.churn.logins.protocols["amqp091"].succeeded == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nobody", "user 'nobody' - invalid credentials"),
        (None, "connection peer presented no TLS (x.509) certificate"),
        ("", "no name found"),
        ("guest", "user 'guest' can only connect via localhost"),
    ],
)
def test_certificate_of_nobody_is_refused(
    stranger: Client, caplog: pytest.LogCaptureFixture, name: str | None, reason: str
) -> None:
    """SPEC §7.4 EXTERNAL: the client hears as much as with a wrong password, the log has the reason."""
    stranger.broker.settings.certificate_login = ("common_name", "dns", 0)
    client = with_certificate(stranger.broker, type(stranger), name)
    client.greet()
    assert client.start_ok(b"", "EXTERNAL") == [ConnectionClose(403, REFUSAL.format("EXTERNAL"), 0, 0)]
    assert reason in caplog.text


def test_external_without_tls_is_no_mechanism(stranger: Client, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §7.4 EXTERNAL: RabbitMQ says nothing and ends it, as with one that it does not know."""
    stranger.greet()
    assert stranger.start_ok(b"", "EXTERNAL") == []
    assert "invalid authentication mechanism 'EXTERNAL'" in caplog.text


def test_amqplain_login(stranger: Client) -> None:
    stranger.greet()
    response = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    assert stranger.start_ok(response, "AMQPLAIN") == [ConnectionTune(2047, 131072, 60)]


def test_amqplain_password_may_be_octets(stranger: Client) -> None:
    stranger.greet()
    response = encode_table({"LOGIN": "guest", "PASSWORD": b"guest"})[4:]
    assert stranger.start_ok(response, "AMQPLAIN") == [ConnectionTune(2047, 131072, 60)]


@pytest.mark.parametrize("response", [b"\0guest\0wrong", b"\0nobody\0guest", b"\0guest\0", b"\0\0"])
def test_refused_login_is_answered_at_once_and_names_no_method(stranger: Client, response: bytes) -> None:
    """SPEC §1.5: the socket is held, so that guessing takes its time; nothing more is heard."""
    stranger.greet()
    stranger.now = 50
    assert stranger.start_ok(response) == [ConnectionClose(403, REFUSAL.format("PLAIN"), 0, 0)]
    assert (stranger.connection.ended, stranger.connection.tick_at) == (False, 3050)
    assert stranger.start_ok() == []
    stranger.connection.tick(3050)
    assert stranger.connection.ended


def test_refused_login_is_silent_for_clients_that_do_not_ask_for_an_answer(stranger: Client) -> None:
    stranger.greet()
    assert stranger.start_ok(b"\0guest\0wrong", capabilities=()) == []
    assert stranger.connection.tick_at == 3000
    stranger.connection.tick(3000)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_capabilities_that_are_no_table_are_none(stranger: Client) -> None:
    from leveret.wire.spec import ConnectionStartOk

    stranger.greet()
    assert stranger.say(ConnectionStartOk({"capabilities": 5}, "PLAIN", b"\0guest\0wrong"), channel=0) == []
    stranger.connection.tick(3000)
    assert stranger.octets() == b""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_guest_may_come_from_this_machine(broker: Broker, stranger: Client, host: str) -> None:
    local = type(stranger)(broker, host)
    local.greet()
    assert len(local.start_ok()) == 1


@pytest.mark.parametrize("host", ["192.0.2.1", "::2", ""])
def test_guest_may_not_come_from_elsewhere(broker: Broker, stranger: Client, host: str) -> None:
    """SPEC §7.3 loopback peers only."""
    far = type(stranger)(broker, host)
    far.greet()
    assert far.start_ok() == [ConnectionClose(403, REFUSAL.format("PLAIN"), 0, 0)]


def test_other_users_may_come_from_elsewhere(broker: Broker, stranger: Client) -> None:
    far = type(stranger)(broker, "192.0.2.1")
    far.greet()
    assert len(far.start_ok(b"\0other\0other")) == 1


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b"guest"),
        ("PLAIN", b"\0guest\0guest\0"),
        ("PLAIN", b"guest\0guest\0guest"),
        ("PLAIN", b"other\0guest\0guest"),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", encode_table({"LOGIN": "guest"})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": 5, "PASSWORD": "guest"})[4:]),
        ("AMQPLAIN", b"\x05LOGI"),
        ("EXTERNAL", b""),
        ("", b""),
    ],
)
def test_malformed_login_gets_no_answer(stranger: Client, mechanism: str, response: bytes) -> None:
    stranger.greet()
    assert stranger.start_ok(response, mechanism) == []
    assert not stranger.connection.ended
    assert stranger.connection.tick_at == 3000
    stranger.connection.tick(3000)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_credentials_are_read_or_refused() -> None:
    assert credentials("PLAIN", b"\0name\0word") == ("name", b"word")
    assert credentials("AMQPLAIN", encode_table({"LOGIN": "n", "PASSWORD": "ż"})[4:]) == ("n", "ż".encode())
    with pytest.raises(SyntaxFault, match="PLAIN response invalid"):
        credentials("PLAIN", b"x")
    with pytest.raises(SyntaxFault, match="AMQPLAIN auth info is missing LOGIN or PASSWORD field"):
        credentials("AMQPLAIN", b"")
    with pytest.raises(CommandInvalid, match="unknown authentication mechanism 'X'"):
        credentials("X", b"")


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("frame_max", 4095, "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"),
        ("frame_max", 131073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        ("frame_max", 0, "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        ("channel_max", 2048, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        ("channel_max", 0, "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
    ],
)
def test_bad_tuning_is_named_in_the_log(field: str, value: int, text: str) -> None:
    low, high = (4096, 131072) if field == "frame_max" else (1, 2047)
    with pytest.raises(NotAllowed) as caught:
        check_negotiated(field, value, low, high)
    assert str(caught.value) == text


def test_good_tuning_passes() -> None:
    for value in (4096, 5000, 131072):
        check_negotiated("frame_max", value, 4096, 131072)


@pytest.mark.parametrize(
    ("channel_max", "frame_max"), [(0, 131072), (2048, 131072), (2047, 4095), (2047, 131073), (2047, 0)]
)
def test_bad_tuning_gets_no_answer(stranger: Client, channel_max: int, frame_max: int) -> None:
    # RabbitMQ: the error already names connection.tune, which makes its reader take it for a fault of its own.
    stranger.greet()
    stranger.start_ok()
    assert stranger.say(ConnectionTuneOk(channel_max, frame_max, 0), channel=0) == []
    stranger.connection.tick(stranger.connection.tick_at)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_unknown_vhost_is_refused(stranger: Client) -> None:
    stranger.greet()
    stranger.start_ok()
    stranger.say(ConnectionTuneOk(2047, 131072, 0), channel=0)
    assert stranger.say(ConnectionOpen("nowhere"), channel=0) == [
        ConnectionClose(530, "NOT_ALLOWED - vhost nowhere not found", 10, 40)
    ]
    stranger.connection.tick(stranger.connection.tick_at)
    assert stranger.connection.ended


def test_vhosts_are_separate(connect: Connect) -> None:
    from leveret.wire.spec import QueueDeclare

    connect().say(QueueDeclare("q"))
    other = connect(vhost="second")
    assert other.connection.session.vhost.queues == {}


def test_method_out_of_turn_gets_no_answer_before_the_client_is_trusted(stranger: Client) -> None:
    stranger.greet()
    assert stranger.say(ConnectionOpen("/"), channel=0) == []
    stranger.connection.tick(3000)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_method_out_of_turn_is_answered_once_the_client_is_trusted(stranger: Client) -> None:
    stranger.greet()
    stranger.start_ok()
    stranger.say(ConnectionTuneOk(2047, 131072, 0), channel=0)
    assert stranger.say(ConnectionSecureOk(b"x"), channel=0) == [
        ConnectionClose(504, "CHANNEL_ERROR - unexpected method in connection state opening", 10, 21)
    ]


def test_frame_on_a_channel_before_the_connection_runs(stranger: Client) -> None:
    stranger.greet()
    stranger.start_ok()
    stranger.say(ConnectionTuneOk(2047, 131072, 0), channel=0)
    assert stranger.say(stranger.method(ChannelOpen(), 1), channel=0) == [
        ConnectionClose(505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", 0, 0)
    ]


def test_nothing_is_heard_after_a_failed_handshake(stranger: Client) -> None:
    stranger.greet()
    assert stranger.say(ConnectionOpen("/"), channel=0) == []
    assert stranger.start_ok() == []
    assert stranger.say(ConnectionCloseOk(), channel=0) == []


def test_frames_are_short_before_tune_ok(stranger: Client) -> None:
    stranger.greet()
    stranger.feed(stranger.frame(1, bytes(4097), 0)[:8])
    stranger.connection.tick(3000)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_handshake_must_be_finished_in_time(stranger: Client, caplog: pytest.LogCaptureFixture) -> None:
    stranger.greet()
    assert stranger.connection.tick_at == 10_000
    stranger.connection.tick(10_000)
    assert stranger.connection.ended
    assert "handshake not finished in time" in caplog.text


def test_finished_handshake_has_no_deadline(connect: Connect) -> None:
    client = connect()
    client.connection.tick(client.connection.tick_at)
    assert not client.connection.ended
