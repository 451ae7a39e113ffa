"""A connection as a dialogue: frames and their faults, channel 0, closing, heartbeats, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.protocol.heartbeat import NEVER
from leveret.protocol.states import CLOSING, IGNORING_INPUT, RUNNING
from leveret.server.read_buffer import ReadBuffer
from leveret.wire.spec import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
    QueueDeclareOk,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect, Heard


def refused(client: Client, data: bytes) -> ConnectionClose:
    """Send this and return the connection.close it is answered with."""
    (close,) = client.say(data, channel=0)
    assert isinstance(close, ConnectionClose)
    return close


def messages(client: Client, queue: str, count: int) -> None:
    client.say(*(client.message(queue, b"%d" % number) for number in range(count)))


# Frames


def test_frames_may_come_byte_by_byte(client: Client) -> None:
    data = client.method(QueueDeclare("q")) + client.message("q", b"body") + client.method(BasicGet("q", no_ack=True))
    heard: list[Heard] = []
    for octet in data:
        client.feed(bytes([octet]))
        heard += client.heard()
    assert heard == [QueueDeclareOk("q", 0, 0), BasicGetOk(1, False, "", "q", 0), b"body"]


def test_frame_larger_than_the_negotiated_one_ends_the_connection(connect: Connect) -> None:
    client = connect(frame_max=4096)
    close = refused(client, client.frame(3, bytes(4097))[:8])
    assert close == ConnectionClose(501, "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4097,4088}", 0, 0)
    assert client.connection.state == IGNORING_INPUT
    client.connection.tick(client.connection.tick_at)
    assert client.connection.ended


def test_frame_eight_octets_too_large_passes(connect: Connect) -> None:
    client = connect(frame_max=4096)
    client.say(QueueDeclare("q"))
    assert client.say(client.message("q", bytes(4096), piece=4096)) == []
    assert client.connection.session.vhost.queues["q"].ready_count == 1


def test_bad_end_marker_ends_the_connection(client: Client) -> None:
    close = refused(client, client.method(ChannelOpen(), 2)[:-1] + b"\xcd")
    text = "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {invalid_frame_end_marker,205}"
    assert close == ConnectionClose(501, text, 0, 0)
    assert client.say(ConnectionCloseOk(), channel=0) == []
    assert client.connection.tick_at == 3000


def test_long_frame_is_shown_by_its_first_octets(client: Client) -> None:
    close = refused(client, client.frame(3, b"a" * 17)[:-1] + b"\x00")
    text = 'FRAME_ERROR - type 3, first 16 octets = <<"aaaaaaaaaaaaaaaa">>: {invalid_frame_end_marker,0}'
    assert close == ConnectionClose(501, text, 0, 0)


@pytest.mark.parametrize(
    ("kind", "payload", "code", "text"),
    [
        (8, b"", 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (8, b"x", 501, 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame'),
        (4, b"", 501, "FRAME_ERROR - type 4, all octets = <<>>: unknown_frame"),
        (1, b"\x00\x14\x00", 501, "FRAME_ERROR - type 1, all octets = <<0,20,0>>: unknown_frame"),
        (2, b"\x00" * 11, 501, "FRAME_ERROR - type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0>>: unknown_frame"),
        (2, b"\x00" * 12, 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
        (3, b"", 505, "UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
    ],
)
@pytest.mark.parametrize("channel", [1, 7], ids=["open", "unused"])
def test_odd_frames_on_a_channel(client: Client, channel: int, kind: int, payload: bytes, code: int, text: str) -> None:
    assert refused(client, client.frame(kind, payload, channel)) == ConnectionClose(code, text, 0, 0)
    assert client.connection.state == CLOSING


@pytest.mark.parametrize(
    ("kind", "payload", "code", "text"),
    [
        (8, b"x", 501, 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame'),
        (9, b"", 501, "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame"),
        (1, b"\x00\x0a", 501, "FRAME_ERROR - type 1, all octets = <<0,10>>: unknown_frame"),
        (2, b"\x00" * 11, 501, "FRAME_ERROR - type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0>>: unknown_frame"),
        (2, b"\x00" * 12, 505, "UNEXPECTED_FRAME - type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0,0>>"),
        (3, b"", 505, "UNEXPECTED_FRAME - type 3, all octets = <<>>"),
    ],
)
def test_odd_frames_on_channel_0(client: Client, kind: int, payload: bytes, code: int, text: str) -> None:
    assert refused(client, client.frame(kind, payload, 0)) == ConnectionClose(code, text, 0, 0)


def test_heartbeats_are_not_answered(client: Client) -> None:
    assert client.say(client.frame(8, b"", 0), channel=0) == []
    assert client.connection.state == RUNNING


def test_undecodable_method_is_a_frame_error(client: Client) -> None:
    close = refused(client, client.frame(1, b"\x00\x32\x00\x0a\x00"))
    assert close == ConnectionClose(501, "FRAME_ERROR - cannot decode <<0>>", 50, 10)


def test_name_that_is_not_utf_8_is_blamed_on_no_method(client: Client) -> None:
    close = refused(client, client.frame(1, b"\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x00"))
    assert close == ConnectionClose(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", 0, 0)


def test_unknown_method_is_invalid(client: Client) -> None:
    close = refused(client, client.frame(1, b"\x00\x3c\x00\x4d"))
    assert close == ConnectionClose(503, "COMMAND_INVALID - unimplemented method", 60, 77)


# Channel 0


@pytest.mark.parametrize(
    "method", [ConnectionStartOk(), ChannelOpen(), ConnectionBlocked(), BasicGet("q")], ids=lambda m: m.NAME
)
def test_methods_that_do_not_belong_on_channel_0(client: Client, method: ChannelOpen) -> None:
    close = refused(client, client.method(method, 0))
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    assert close == ConnectionClose(504, text, method.INDEX >> 16, method.INDEX & 0xFFFF)


def test_secret_may_be_updated(client: Client) -> None:
    """SPEC §1.2 connection.update-secret: a password needs no new one; everything goes on."""
    update = client.method(ConnectionUpdateSecret(b"new", "because"), 0)
    assert client.say(update, update, channel=0) == [ConnectionUpdateSecretOk(), ConnectionUpdateSecretOk()]
    assert client.say(QueueDeclare("q")) == [QueueDeclareOk("q", 0, 0)]
    assert client.broker.users["guest"].has_password(b"guest")


def test_secret_is_not_updated_while_the_connection_closes(client: Client) -> None:
    """SPEC §1.2 connection.update-secret"""
    refused(client, client.frame(8, b"", 1))
    assert client.say(ConnectionUpdateSecret(b"new", "because"), channel=0) == []


def test_secret_is_not_updated_before_the_connection_runs(stranger: Client) -> None:
    """SPEC §1.2 connection.update-secret"""
    stranger.greet()
    stranger.start_ok()
    stranger.say(ConnectionTuneOk(2047, 131072, 0), channel=0)
    text = "CHANNEL_ERROR - unexpected method in connection state opening"
    assert stranger.say(ConnectionUpdateSecret(b"new", ""), channel=0) == [ConnectionClose(504, text, 10, 70)]


# Channels


def test_channels_are_opened_up_to_the_negotiated_number(connect: Connect) -> None:
    client = connect(channel_max=2)
    client.open(7)
    close = refused(client, client.method(ChannelOpen(), 3))
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    assert close == ConnectionClose(530, text, 0, 0)


def test_closed_channel_makes_room_for_another(connect: Connect) -> None:
    client = connect(channel_max=1)
    assert client.say(ChannelClose(200, "enough")) == [ChannelCloseOk()]
    client.open(2)


def test_channel_must_be_opened_first(client: Client) -> None:
    close = refused(client, client.method(QueueDeclare("q"), 5))
    assert close == ConnectionClose(504, "CHANNEL_ERROR - expected 'channel.open'", 50, 10)


def test_channel_is_opened_once(client: Client) -> None:
    close = refused(client, client.method(ChannelOpen()))
    assert close == ConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


def test_channels_do_not_mix(client: Client) -> None:
    client.open(2)
    client.say(QueueDeclare("q"))
    client.feed(
        client.method(BasicPublish("", "q"), 1)
        + client.method(BasicPublish("", "q"), 2)
        + client.content(b"two", channel=2)
        + client.content(b"one", channel=1)
        + client.method(BasicGet("q", no_ack=True), 2)
        + client.method(BasicGet("q", no_ack=True), 1)
    )
    assert client.heard_on_channels() == [
        (2, BasicGetOk(1, False, "", "q", 1)),
        (2, b"two"),
        (1, BasicGetOk(1, False, "", "q", 0)),
        (1, b"one"),
    ]


# Closing


def test_channel_that_is_being_closed_cannot_be_opened(client: Client) -> None:
    """SPEC §1.9: all else is ignored there until the client answers, as on RabbitMQ."""
    assert [type(item) for item in client.say(BasicGet("missing"))] == [ChannelClose]
    assert client.say(BasicGet("missing"), QueueDeclare("q")) == []
    close = refused(client, client.method(ChannelOpen()))
    assert close == ConnectionClose(504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10)


@pytest.mark.parametrize(("heartbeat", "patience"), [(0, 30_000), (10, 10_000), (60, 30_000)])
def test_client_that_closes_is_read_until_it_ends_the_socket(connect: Connect, heartbeat: int, patience: int) -> None:
    """SPEC §1.9: it may still be writing; nothing of that is heard, but for another close. As long as RabbitMQ waits."""
    client = connect(heartbeat=heartbeat)
    client.say(QueueDeclare("q"))
    assert client.say(ConnectionClose(200, "bye"), channel=0) == [ConnectionCloseOk()]
    assert client.say(client.message("q", b"late"), QueueDeclare("late"), client.frame(8, b"", 0)) == []
    assert client.say(ConnectionClose(200, "bye"), channel=0) == [ConnectionCloseOk()]
    assert list(client.broker.vhosts["/"].queues) == ["q"]
    assert client.broker.vhosts["/"].queues["q"].ready_count == 0
    assert (client.connection.ended, client.connection.tick_at) == (False, patience)
    client.connection.tick(patience)
    assert client.connection.ended


def test_client_that_has_closed_does_not_keep_the_broker_from_stopping(client: Client) -> None:
    client.say(ConnectionClose(200, "bye"), channel=0)
    client.connection.shut("the broker stops", 0)
    assert (client.octets(), client.connection.ended) == (b"", True)


def test_closing_gives_messages_back_and_deletes_exclusive_queues(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("kept"), QueueDeclare("mine", exclusive=True), QueueDeclare("gone", auto_delete=True))
    client.say(client.message("kept", b"1"), client.message("mine", b"2"), BasicGet("kept"))
    client.say(BasicConsume("gone", "c"))
    client.say(ConnectionClose(200, "bye"), channel=0)
    other = connect()
    assert list(other.connection.session.vhost.queues) == ["kept"]
    assert other.say(BasicGet("kept")) == [BasicGetOk(1, True, "", "kept", 0), b"1"]


def test_only_closing_is_heard_while_the_broker_closes(client: Client) -> None:
    refused(client, client.frame(8, b"", 1))
    assert client.say(QueueDeclare("q")) == []
    assert client.say(client.message("q", b"x")) == []
    assert client.say(client.frame(8, b"", 0), client.frame(1, b"\x00", 0), client.frame(1, b"\x00\x00\x00\x00", 0)) == []
    assert client.say(ConnectionClose(200, "crossed"), channel=0) == [ConnectionCloseOk()]
    ended = [client.connection.ended]
    assert client.say(ConnectionCloseOk(), channel=0) == []
    ended.append(client.connection.ended)
    assert ended == [False, True]
    assert client.connection.session.vhost.queues == {}


def test_client_that_never_says_close_ok_is_ended(client: Client) -> None:
    client.now = 500
    refused(client, client.frame(8, b"", 1))
    assert client.connection.tick_at == 30_500
    client.connection.tick(30_500)
    assert (client.connection.ended, client.connection.tick_at) == (True, NEVER)


def test_broken_frame_while_closing_is_not_answered_again(client: Client) -> None:
    refused(client, client.frame(8, b"", 1))
    assert client.say(client.method(ChannelOpen())[:-1] + b"\x00", channel=0) == []
    assert client.connection.state == IGNORING_INPUT
    client.connection.tick(client.connection.tick_at)
    assert client.connection.ended


def test_hard_error_gives_messages_back(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("q"), client.message("q", b"1"), BasicGet("q"))
    refused(client, client.frame(8, b"", 1))
    assert connect().say(BasicGet("q")) == [BasicGetOk(1, True, "", "q", 0), b"1"]


def test_closing_gives_many_messages_back_in_pieces(client: Client, connect: Connect, broker: Broker) -> None:
    client.say(QueueDeclare("q"))
    messages(client, "q", 5000)
    client.say(BasicConsume("q", "c", no_wait=True))
    queue = client.connection.session.vhost.queues["q"]
    assert queue.unacked_count == 5000
    client.connection.receive(client.method(ConnectionClose(), 0), 0)
    assert client.connection.busy
    assert 0 < queue.unacked_count < 5000
    assert ConnectionCloseOk() not in client.heard(0)
    client.finish()
    assert client.heard(0) == [ConnectionCloseOk()]
    assert (queue.ready_count, queue.unacked_count) == (5000, 0)
    assert connect().say(BasicGet("q")) == [BasicGetOk(1, True, "", "q", 4999), b"0"]


@pytest.mark.parametrize("broken", [True, False], ids=["broken frame", "odd frame"])
def test_hard_error_gives_many_messages_back_in_pieces(client: Client, broken: bool) -> None:
    client.say(QueueDeclare("q"))
    messages(client, "q", 5000)
    client.say(BasicConsume("q", "c", no_wait=True))
    queue = client.connection.session.vhost.queues["q"]
    client.connection.receive(client.frame(8, b"", 1)[:-1] + (b"\x00" if broken else b"\xce"), 0)
    for _ in range(20):
        if client.connection.busy:
            client.connection.go_on(0)
        if client.broker.work:
            client.broker.work.budget.begin()
            client.broker.work.drain()
    assert not client.connection.busy
    assert (queue.ready_count, queue.unacked_count) == (5000, 0)


# Being shut, crashing, getting lost


def test_broker_shuts_a_connection(client: Client) -> None:
    client.connection.shut("because", 100)
    assert client.heard(0) == [ConnectionClose(320, "CONNECTION_FORCED - because", 0, 0)]
    assert (client.connection.state, client.connection.tick_at) == (CLOSING, 30_100)
    client.connection.shut("again", 200)
    assert client.heard(0) == []
    client.say(ConnectionCloseOk(), channel=0)
    assert client.connection.ended


def test_shutting_blames_no_method(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.connection.shut("because", 0)
    assert client.heard(0) == [ConnectionClose(320, "CONNECTION_FORCED - because", 0, 0)]


def test_shutting_before_the_connection_runs_just_ends_it(stranger: Client) -> None:
    stranger.greet()
    stranger.connection.shut("because", 0)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_shutting_amid_a_long_task_loses_nothing(client: Client) -> None:
    client.say(QueueDeclare("q"))
    messages(client, "q", 6000)
    client.say(BasicConsume("q", "c", no_wait=True))
    queue = client.connection.session.vhost.queues["q"]
    client.connection.receive(client.method(ChannelClose()), 0)
    assert client.connection.busy
    client.connection.shut("because", 0)
    client.finish()
    assert (queue.ready_count, queue.unacked_count) == (6000, 0)


def test_fault_of_our_own_closes_with_541(client: Client) -> None:
    client.say(QueueDeclare("q"), client.message("q", b"1"), BasicGet("q"))
    client.connection.crash(70)
    assert client.heard(0) == [ConnectionClose(541, "INTERNAL_ERROR", 0, 0)]
    assert (client.connection.state, client.connection.tick_at) == (IGNORING_INPUT, 3070)
    assert client.connection.session.vhost.queues["q"].ready_count == 1
    assert client.say(ConnectionCloseOk(), channel=0) == []


def test_fault_of_our_own_before_the_connection_runs_just_ends_it(stranger: Client) -> None:
    stranger.greet()
    stranger.connection.crash(0)
    assert (stranger.octets(), stranger.connection.ended) == (b"", True)


def test_lost_connection_gives_messages_back(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("q"), QueueDeclare("mine", exclusive=True), client.message("q", b"1"), BasicGet("q"))
    client.connection.lost(client.now)
    other = connect()
    assert list(other.connection.session.vhost.queues) == ["q"]
    assert other.say(BasicGet("q")) == [BasicGetOk(1, True, "", "q", 0), b"1"]
    assert (client.connection.ended, client.connection.tick_at) == (True, NEVER)


def test_lost_connection_delivers_to_others(client: Client, connect: Connect) -> None:
    other = connect()
    client.say(QueueDeclare("q"), client.message("q", b"1"), BasicGet("q"))
    other.say(BasicConsume("q", "c"))
    client.connection.lost(client.now)
    assert other.heard() == [BasicDeliver("c", 1, True, "", "q"), b"1"]


def test_lost_connection_gives_back_at_the_time_it_is_lost(client: Client, connect: Connect) -> None:
    """What has expired by then is delivered to nobody."""
    other = connect()
    client.say(QueueDeclare("q", arguments={"x-message-ttl": 50}), client.message("q", b"1"), BasicGet("q"))
    other.say(BasicConsume("q", "c"))
    client.connection.lost(50)
    assert other.heard() == []


def test_queue_expires_from_when_its_last_consumer_was_lost(client: Client, broker: Broker) -> None:
    client.say(QueueDeclare("q", arguments={"x-expires": 100}), BasicConsume("q", "c"))
    client.connection.lost(1000)
    queues = client.connection.session.vhost.queues
    for now in (1000, 1099, 1100):
        assert "q" in queues
        broker.timers.run(now, 10)
        client.finish()
    assert "q" not in queues


def test_connection_may_be_lost_before_it_runs(stranger: Client) -> None:
    stranger.greet()
    stranger.connection.lost(stranger.now)
    assert stranger.connection.ended


def test_connection_may_be_lost_amid_a_long_task(client: Client, broker: Broker) -> None:
    client.say(QueueDeclare("q"))
    messages(client, "q", 6000)
    client.say(BasicConsume("q", "c", no_wait=True))
    queue = client.connection.session.vhost.queues["q"]
    client.connection.receive(client.method(ChannelClose()), 0)
    assert client.connection.busy
    client.connection.lost(client.now)
    while broker.work:
        broker.work.budget.begin()
        broker.work.drain()
    assert (queue.ready_count, queue.unacked_count) == (6000, 0)


# Heartbeats


def test_heartbeat_is_sent_when_nothing_else_was(connect: Connect) -> None:
    client = connect(heartbeat=10)
    connection = client.connection
    assert connection.tick_at == 5000
    client.now = 5000
    connection.tick(5000)
    assert (client.heard(0), connection.tick_at) == (["heartbeat"], 10_000)


def test_heartbeat_is_not_sent_after_something_else(connect: Connect) -> None:
    client = connect(heartbeat=10)
    client.now = 4000
    client.say(QueueDeclare("q"))
    client.now = 5000
    client.connection.tick(5000)
    assert (client.heard(0), client.connection.tick_at) == ([], 10_000)


def test_silent_client_is_ended_after_two_intervals(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    client = connect(heartbeat=10)
    for client.now in (5000, 10_000, 15_000, 19_999):
        client.connection.tick(client.now)
        assert not client.connection.ended
    client.connection.tick(20_000)
    assert (client.connection.ended, client.connection.tick_at) == (True, NEVER)
    assert "missed heartbeats from client, timeout: 10s" in caplog.text


def test_whatever_the_client_sends_counts_as_a_heartbeat(connect: Connect) -> None:
    client = connect(heartbeat=10)
    client.now = 15_000
    client.feed(b"\x08")
    client.connection.tick(20_000)
    assert not client.connection.ended
    client.connection.tick(35_000)
    assert client.connection.ended


def test_without_heartbeats_and_ack_timeout_it_is_only_looked_for_queues_that_have_one(
    broker: Broker, connect: Connect
) -> None:
    broker.settings.consumer_timeout_ms = 0
    client = connect()
    assert client.connection.tick_at == 60_000
    client.connection.tick(10**9)
    assert (client.octets(), client.connection.ended, client.connection.tick_at) == (b"", False, 10**9 + 60_000)


# The pass and its budget


def test_burst_is_handled_in_pieces(client: Client) -> None:
    client.say(QueueDeclare("q"))
    queue = client.connection.session.vhost.queues["q"]
    client.connection.receive(b"".join(client.message("q", b"x") for _ in range(5000)), 0)
    assert client.connection.busy
    assert 1000 < queue.ready_count < 3000
    client.connection.go_on(0)
    assert client.connection.busy
    client.finish()
    assert queue.ready_count == 5000


def test_frames_wait_until_a_long_task_is_done(client: Client) -> None:
    client.say(QueueDeclare("q"))
    messages(client, "q", 3000)
    client.say(BasicConsume("q", "c", no_wait=True))
    client.connection.receive(client.method(BasicAck(0, multiple=True)) + client.method(QueueDeclare("q", passive=True)), 0)
    assert client.connection.busy
    assert client.heard() == []
    client.finish()
    assert client.heard() == [QueueDeclareOk("q", 0, 1)]


def test_client_that_does_not_read_gets_no_more_until_it_does(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.say(*(client.message("q", bytes(100_000)) for _ in range(20)))
    (ok, *delivered) = client.say(BasicConsume("q", "c", no_ack=True))
    assert ok == BasicConsumeOk("c")
    assert 10 <= len(delivered) / 2 < 20
    client.connection.drained(0)
    delivered += client.heard()
    assert len(delivered) / 2 == 20


def test_blocked_client_gets_nothing(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    client.connection.output.blocked = True
    assert client.publish("q", b"1") == []
    client.connection.output.blocked = False
    client.connection.drained(0)
    assert client.heard() == [BasicDeliver("c", 1, False, "", "q"), b"1"]


def test_confirms_of_all_channels_go_out_with_the_output(client: Client) -> None:
    client.open(2)
    for channel in (1, 2):
        client.say(ConfirmSelect(), channel=channel)
    client.feed(client.message("", channel=1) + client.message("", channel=2))
    assert sorted(client.heard_on_channels(), key=lambda pair: pair[0]) == [(1, BasicAck(1)), (2, BasicAck(1))]


def test_connection_knows_when_it_began(broker: Broker, stranger: Client) -> None:
    assert type(stranger)(broker, now=77).connection.connected_at == 77


def test_closed_channel_and_its_number_can_be_used_again_at_once(client: Client) -> None:
    assert client.say(ConfirmSelect(no_wait=True), client.message("nowhere"), ChannelClose(), ChannelOpen()) == [
        BasicAck(1),
        ChannelCloseOk(),
        ChannelOpenOk(),
    ]


def test_global_prefetch_is_taken_up_when_the_client_has_read(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=1, global_=True), BasicConsume("q", "c", no_wait=True))
    client.connection.output.blocked = True
    client.publish("q", b"1", b"2")
    client.connection.output.blocked = False
    client.connection.drained(0)
    assert client.heard() == [BasicDeliver("c", 1, False, "", "q"), b"1"]
    assert client.say(BasicGet("q")) != [BasicGetEmpty()]


# Reading from a buffer that is shared


@pytest.mark.parametrize("piece", [1, 7, 40, 10_000])
def test_bytes_may_be_read_out_of_a_buffer_that_others_use_too(stranger: Client, connect: Connect, piece: int) -> None:
    other = connect()
    other.say(QueueDeclare("q"))
    body = bytes(range(256)) * 40
    data = b"AMQP\x00\x00\x09\x01" + stranger.method(ConnectionStartOk({}, "PLAIN", b"\0guest\0guest"), 0)
    data += stranger.method(ConnectionTuneOk(2047, 131072, 0), 0) + stranger.method(ConnectionOpen("/"), 0)
    data += stranger.method(ChannelOpen()) + stranger.message("q", b"first") + stranger.message("q", body, piece=1000)
    buffer = bytearray(200_000)
    for at in range(0, len(data), piece):
        arrived = stranger.connection.reader.rest + data[at : at + piece]
        buffer[: len(arrived)] = arrived
        stranger.connection.receive_from(buffer, len(arrived), 0)
        buffer[: len(arrived)] = b"\xff" * len(arrived)
    assert stranger.connection.state == RUNNING
    assert other.say(BasicGet("q", no_ack=True))[1] == b"first"
    assert other.say(BasicGet("q", no_ack=True))[1] == body


def test_nothing_more_is_read_when_nothing_is_heard(client: Client) -> None:
    refused(client, client.frame(8, b"", 1)[:-1] + b"\x00")
    client.connection.receive_from(bytearray(client.method(ChannelOpen(), 2)), 13, 0)
    assert client.octets() == b""
    assert len(client.connection.reader.rest) == 0


def test_other_signs_of_life_count_as_heartbeats(connect: Connect) -> None:
    client = connect(heartbeat=10)
    client.connection.seen_alive(15_000)
    client.connection.tick(20_000)
    assert not client.connection.ended


def test_broken_octets_that_fill_the_buffer_leave_room_to_read_to(client: Client) -> None:
    """An empty buffer would be taken for a fault of ours, and the client reset before it has read why."""
    buffer = ReadBuffer(131_072)
    size = len(buffer.room(client.connection.reader.rest))
    buffer.room(b"")[:] = b"\xff" * size
    client.connection.receive_from(buffer.buffer, size, 0)
    assert len(buffer.room(client.connection.reader.rest)) == size
    client.finish()
    (close,) = client.heard(0)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 501
