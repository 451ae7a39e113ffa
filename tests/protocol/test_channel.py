"""A channel as a dialogue: publishing in every shape, confirms and returns, acknowledging, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker, add_guest
from leveret.broker.storage import Storage
from leveret.protocol.expiration import parse_expiration
from leveret.protocol.states import CHANNEL_CLOSING, CHANNEL_OPEN
from leveret.wire.content import PERSISTENT
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueueUnbind,
)
from leveret.wire.values import Table, Timestamp

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect, Heard

EVERYTHING = Properties("a", "b", {"h": 1}, 2, 5, "c", "d", "1000", "e", 9, "f", "guest", "g", "h")


def ready(client: Client, name: str = "q") -> int:
    return client.connection.session.vhost.queues[name].ready_count


def get(client: Client, name: str = "q") -> Heard:
    """The content of the queue's next message."""
    _, content = client.say(BasicGet(name, no_ack=True))
    return content


def soft(client: Client, *items: object, channel: int = 1) -> ChannelClose:
    """Send this and return the channel.close it is answered with; then finish closing and open the channel again."""
    (close,) = client.say(*items, channel=channel)  # type: ignore[arg-type]
    assert isinstance(close, ChannelClose)
    assert client.say(ChannelCloseOk(), ChannelOpen(), channel=channel) == [ChannelOpenOk()]
    return close


def hard(client: Client, *items: object) -> ConnectionClose:
    """Send this on channel 1 and return the connection.close it is answered with."""
    client.feed(b"".join(item if isinstance(item, bytes) else client.method(item) for item in items))  # type: ignore[arg-type]
    (close,) = client.heard(0)
    assert isinstance(close, ConnectionClose)
    return close


# Publishing


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 8177, 131063, 131064, 131065, 300_000])
@pytest.mark.parametrize("piece", [1000, 4088, 131064])
def test_body_of_any_size_comes_through(client: Client, size: int, piece: int) -> None:
    client.say(QueueDeclare("q"))
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert client.say(client.message("q", body, piece=piece)) == []
    assert get(client) == body


@pytest.mark.parametrize("size", [0, 1, 5000, 200_000])
@pytest.mark.parametrize("received", [4096, 10_000, 131072])
def test_body_is_sent_in_frames_the_client_can_take(connect: Connect, size: int, received: int) -> None:
    sender, receiver = connect(), connect(frame_max=received)
    sender.say(QueueDeclare("q"))
    sender.say(sender.message("q", bytes(size)))
    receiver.feed(receiver.method(BasicGet("q")))
    _, _, *bodies = receiver.frames()
    assert all(len(payload) <= received - 8 for _, _, payload in bodies)
    assert sum(len(payload) for _, _, payload in bodies) == size


def test_content_is_carried_as_it_came(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.say(client.message("q", b"body", properties=EVERYTHING))
    assert get(client) == (EVERYTHING, b"body")


def test_octets_of_the_header_are_carried_as_they_came(client: Client) -> None:
    """SPEC §2.1 byte for byte: a table with a key twice, a true bool that is 2 and an `L`, and flags that mean nothing."""
    client.say(QueueDeclare("q"))
    fields = b"\x01kt\x02\x01kL\x00\x00\x00\x00\x00\x00\x00\x01"
    header = b"\x00\x3c\x00\x00" + bytes(7) + b"\x01" + b"\x20\x03" + len(fields).to_bytes(4, "big") + fields
    client.say(BasicPublish("", "q"), client.frame(2, header), client.frame(3, b"x"))
    client.feed(client.method(BasicGet("q", no_ack=True)))
    assert client.frames()[1:] == [(2, 1, header), (3, 1, b"x")]


@pytest.mark.parametrize("cut", range(1, 60))
def test_message_may_be_cut_anywhere(client: Client, cut: int) -> None:
    client.say(QueueDeclare("q"))
    data = client.message("q", b"some body", properties=Properties(app_id="app"))
    assert len(data) > 60
    client.feed(data[:cut])
    assert ready(client) == 0
    client.feed(data[cut:])
    assert get(client) == (Properties(app_id="app"), b"some body")


def test_message_may_come_byte_by_byte(client: Client) -> None:
    client.say(QueueDeclare("q"))
    for octet in client.message("q", b"some body", piece=4):
        assert ready(client) == 0
        client.feed(bytes([octet]))
    assert get(client) == b"some body"


def test_empty_body_frames_are_let_pass(client: Client) -> None:
    client.say(QueueDeclare("q"))
    data = client.message("q", b"ab", piece=1)
    empty = client.frame(3, b"")
    at = len(data) - 2 * 9
    client.say(data[:at], empty, data[at : at + 9], empty, data[at + 9 :])
    assert get(client) == b"ab"


def test_messages_keep_their_order_however_they_come(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.say(*(client.message("q", b"%05d" % n, piece=2 + n % 7) for n in range(50)))
    assert [get(client) for _ in range(50)] == [b"%05d" % n for n in range(50)]


def test_routing_key_and_exchange_may_be_any_octets(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("q", "amq.fanout"))
    client.say(client.message("\udcff\udc80", b"x", "amq.fanout"))
    assert client.say(BasicGet("q")) == [BasicGetOk(1, False, "amq.fanout", "\udcff\udc80", 0), b"x"]


def test_message_goes_to_each_queue_once(client: Client) -> None:
    client.say(QueueDeclare("a"), QueueDeclare("b"))
    for key in ("k.*", "k.#", "#"):
        client.say(QueueBind("a", "amq.topic", key), QueueBind("b", "amq.topic", key))
    client.say(client.message("k.x", b"1", "amq.topic"))
    assert (ready(client, "a"), ready(client, "b")) == (1, 1)


def test_delivery_mode_2_is_persistent(client: Client) -> None:
    """SPEC §2.3 delivery-mode 2."""
    client.say(QueueDeclare("q"))
    for mode in (None, 1, 2, 3):
        client.say(client.message("q", properties=Properties(delivery_mode=mode)))
    queue = client.connection.session.vhost.queues["q"]
    entries = [queue.take(True) for _ in range(4)]
    assert [entry is not None and entry.message.flags & PERSISTENT != 0 for entry in entries] == [False, False, True, False]


# Routing by headers, and remembered routes


def test_headers_decide_message_by_message(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("q", "amq.headers", arguments={"x-match": "all", "kind": "a"}))
    tables: list[Table | None] = [{"kind": "a"}, {"kind": "b"}, None, {}, {"kind": "a", "more": 1}]
    for number, headers in enumerate(tables):
        client.say(client.message("", b"%d" % number, "amq.headers", properties=Properties(headers=headers)))
    assert get(client) == (Properties(headers={"kind": "a"}), b"0")
    assert get(client) == (Properties(headers={"kind": "a", "more": 1}), b"4")
    assert ready(client) == 0


def test_headers_decide_behind_another_exchange(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("q", "amq.headers", arguments={"kind": "a"}))
    client.say(ExchangeBind("amq.headers", "amq.direct", "k"))
    for kind in ("a", "b"):
        client.say(client.message("k", exchange="amq.direct", properties=Properties(headers={"kind": kind})))
    assert ready(client) == 1


def test_change_of_bindings_is_felt_by_the_next_message_of_a_burst(client: Client) -> None:
    one = client.message("k", b"1", "amq.direct")
    assert client.say(
        QueueDeclare("q", no_wait=True),
        one,
        QueueBind("q", "amq.direct", "k"),
        one,
        one,
        QueueUnbind("q", "amq.direct", "k"),
        one,
        QueueDelete("q"),
    )[-1] == QueueDeleteOk(2)


def test_new_queue_is_felt_by_the_next_message_of_a_burst(client: Client) -> None:
    one = client.message("q", b"1")
    client.say(one, QueueDeclare("q"), one, QueueDelete("q"), one, QueueDeclare("q"), one, one)
    assert ready(client) == 2


def test_change_on_another_connection_is_felt(client: Client, connect: Connect) -> None:
    other = connect()
    client.say(QueueDeclare("q"), client.message("q"))
    other.say(QueueDelete("q"), QueueDeclare("q"))
    client.say(client.message("q"))
    assert ready(client) == 1


def test_many_routes_are_used_in_turn(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("q", "amq.topic", "#"))
    keys = [f"key.{number}" for number in range(5000)]
    for _ in range(2):
        client.say(*(client.message(key, b"", "amq.topic") for key in keys))
    assert ready(client) == 10_000


# Errors of publishing


def test_unknown_exchange_closes_the_channel(client: Client) -> None:
    close = soft(client, client.message("k", b"x", "nowhere"))
    assert close == ChannelClose(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", 60, 40)


def test_deleted_exchange_is_unknown_at_once(client: Client) -> None:
    one = client.message("k", b"x", "x")
    client.say(ExchangeDeclare("x", "fanout"), one, ExchangeDelete("x", no_wait=True))
    assert soft(client, one).reply_text == "NOT_FOUND - no exchange 'x' in vhost '/'"


def test_internal_exchange_takes_no_messages(client: Client) -> None:
    client.say(ExchangeDeclare("x", "fanout", internal=True))
    close = soft(client, client.message("k", b"x", "x"))
    assert close == ChannelClose(403, "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'", 60, 40)


def test_immediate_is_not_implemented(client: Client) -> None:
    close = hard(client, BasicPublish("", "q", immediate=True), client.content(b"x"))
    assert close == ConnectionClose(540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


def test_user_id_must_be_the_login(client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(client.message("q", properties=Properties(user_id="guest"))) == []
    assert ready(client) == 1
    close = soft(client, client.message("q", properties=Properties(user_id="a")))
    text = "PRECONDITION_FAILED - user_id property set to 'a' but authenticated user was 'guest'"
    assert close == ChannelClose(406, text, 60, 40)


def test_impersonator_may_claim_any_user_id(broker: Broker, connect: Connect) -> None:
    """SPEC §7.2 impersonator."""
    broker.add_user("actor", "actor", ("impersonator",))
    broker.set_permissions("actor", "/", ".*", ".*", ".*")
    client = connect(user="actor")
    client.say(QueueDeclare("q"))
    assert client.say(client.message("q", properties=Properties(user_id="somebody"))) == []
    assert ready(client) == 1


EXPIRATIONS = {
    "": "no_integer",
    "x": "no_integer",
    " 5": "no_integer",
    "+": "no_integer",
    "--1": "no_integer",
    "12a": '{leftover_string,"a"}',
    "1_000": '{leftover_string,"_000"}',
    '5"x': '{leftover_string,"\\"x"}',
    "-1": "{value_negative,-1}",
    "315360000001": "{value_too_large,315360000001}",
}


@pytest.mark.parametrize(("expiration", "reason"), EXPIRATIONS.items())
def test_bad_expiration_is_refused(client: Client, expiration: str, reason: str) -> None:
    close = soft(client, client.message("q", properties=Properties(expiration=expiration)))
    assert close == ChannelClose(406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}", 60, 40)


@pytest.mark.parametrize("expiration", ["0", "00", "+5", "-0", "60000", "315360000000"])
def test_good_expiration_passes(expiration: str) -> None:
    parse_expiration(expiration)


def test_exchange_is_looked_up_before_properties_are_checked(client: Client) -> None:
    assert soft(client, client.message("q", exchange="x", properties=Properties(expiration="x"))).reply_code == 404


@pytest.mark.parametrize("piece", [11, 5], ids=["whole", "in pieces"])
def test_message_larger_than_the_limit_is_refused(broker: Broker, connect: Connect, piece: int) -> None:
    broker.settings.max_message_size = 10
    client = connect()
    client.say(QueueDeclare("q"), client.message("q", bytes(10), piece=piece))
    assert ready(client) == 1
    close = soft(client, client.message("q", bytes(11), piece=piece))
    text = "PRECONDITION_FAILED - message size 11 is larger than configured max size 10"
    assert close == ChannelClose(406, text, 60, 40)


def test_announced_size_allocates_nothing(client: Client) -> None:
    header = b"\x00\x3c\x00\x00" + b"\xff" * 8 + b"\x00\x00"
    close = soft(client, BasicPublish("", "q"), client.frame(2, header))
    text = f"PRECONDITION_FAILED - message size {2**64 - 1} is larger than configured max size {128 << 20}"
    assert close == ChannelClose(406, text, 60, 40)


def test_incomplete_messages_of_a_connection_are_bounded(connect: Connect, broker: Broker) -> None:
    client = connect()
    piece = bytes(131064)
    header = b"\x00\x3c\x00\x00" + (128 << 20).to_bytes(8, "big") + b"\x00\x00"
    for channel in (1, 2, 3):
        if channel > 1:
            client.open(channel)
        client.feed(client.method(BasicPublish("", "q"), channel) + client.frame(2, header, channel))
    frames = client.frame(3, piece, 1), client.frame(3, piece, 2), client.frame(3, piece, 3)
    count = (256 << 20) // len(piece)
    for number in range(count):
        client.feed(frames[number % 3])
    assert client.octets() == b""
    client.feed(frames[count % 3])
    (close,) = client.heard(0)
    assert close == ConnectionClose(506, "RESOURCE_ERROR - more than 268435456 bytes of incomplete messages", 60, 40)
    assert client.connection.session.incomplete_size == 0


def test_finished_messages_do_not_count_as_incomplete(client: Client) -> None:
    client.say(client.message("nowhere", bytes(100), piece=10), client.message("nowhere", bytes(100), piece=10)[:-18])
    assert client.connection.session.incomplete_size == 90
    client.say(ConnectionClose(), channel=0)
    assert client.connection.session.incomplete_size == 0


HEADER = b"\x00\x3c\x00\x00" + bytes(7) + b"\x02\x00\x00"
NO_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"


@pytest.mark.parametrize(
    ("frames", "code", "text"),
    [
        ([(1, b"\x00\x14\x00\x0a\x00")], 505, NO_HEADER),
        ([(3, b"ab")], 505, NO_HEADER),
        ([(2, b"\x00\x3c\x00\x01" + HEADER[4:])], 505, NO_HEADER),
        (
            [(2, b"\x00\x0a" + HEADER[2:])],
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead",
        ),
        ([(2, HEADER), (2, HEADER)], 505, NO_BODY),
        ([(2, HEADER), (1, b"\x00\x14\x00\x0a\x00")], 505, NO_BODY),
        ([(2, HEADER), (3, b"abc")], 501, "FRAME_ERROR - content body frame exceeds remaining content size"),
        ([(2, HEADER), (3, b"a"), (3, b"bc")], 501, "FRAME_ERROR - content body frame exceeds remaining content size"),
        ([(2, HEADER[:12])], 502, "SYNTAX_ERROR - properties are cut short"),
        ([(2, HEADER[:12] + b"\x80\x00"), (3, b"ab")], 502, "SYNTAX_ERROR - properties are cut short"),
        ([(2, HEADER + b"x"), (3, b"ab")], 502, "SYNTAX_ERROR - properties do not fill their frame"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "frame by frame"])
def test_content_that_does_not_follow(
    client: Client, frames: list[tuple[int, bytes]], code: int, text: str, at_once: bool
) -> None:
    pieces = [client.method(BasicPublish("", "q")), *(client.frame(kind, payload) for kind, payload in frames)]
    for piece in [b"".join(pieces)] if at_once else pieces:
        client.feed(piece)
    assert client.heard(0) == [ConnectionClose(code, text, 60, 40)]


def test_content_without_publish(client: Client) -> None:
    text = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    assert hard(client, client.content(b"x")) == ConnectionClose(505, text, 0, 0)


@pytest.mark.parametrize("fields", [b"", b"\x00\x00", b"\x00\x00\x05x", b"\x00\x00\x00\x00", b"\x00\x00\x00\x01q\x00\x00"])
def test_publish_that_cannot_be_decoded(client: Client, fields: bytes) -> None:
    close = hard(client, client.frame(1, b"\x00\x3c\x00\x28" + fields), client.content(b""))
    shown = ",".join(map(str, fields)) if fields != b"" else ""
    assert close == ConnectionClose(501, f"FRAME_ERROR - cannot decode <<{shown}>>", 60, 40)


def test_header_for_another_channel_begins_that_channel(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.feed(client.method(BasicPublish("", "q")) + client.content(b"x", channel=2))
    (close,) = client.heard(0)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 505


# Returns and confirms


def test_message_nobody_wants_is_dropped(client: Client) -> None:
    assert client.say(client.message("nowhere", b"x")) == []


def test_mandatory_message_nobody_wants_is_returned(client: Client) -> None:
    heard = client.say(client.message("nowhere", b"x", mandatory=True, properties=EVERYTHING))
    assert heard == [BasicReturn(312, "NO_ROUTE", "", "nowhere"), (EVERYTHING, b"x")]


def test_mandatory_message_is_not_returned_if_somebody_wants_it(client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(client.message("q", b"x", mandatory=True)) == []


def test_alternate_exchange_suppresses_the_return_if_it_routes(client: Client) -> None:
    client.say(ExchangeDeclare("x", "direct", arguments={"alternate-exchange": "amq.fanout"}))
    one = client.message("k", b"x", "x", mandatory=True)
    assert client.say(one) == [BasicReturn(312, "NO_ROUTE", "x", "k"), b"x"]
    client.say(QueueDeclare("q"), QueueBind("q", "amq.fanout"))
    assert client.say(one) == []
    assert client.say(BasicGet("q")) == [BasicGetOk(1, False, "x", "k", 0), b"x"]


def test_large_message_is_returned_whole(client: Client) -> None:
    body = bytes(300_000)
    assert client.say(client.message("nowhere", body, mandatory=True)) == [BasicReturn(312, "NO_ROUTE", "", "nowhere"), body]


def test_each_message_is_confirmed(client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(ConfirmSelect()) == [ConfirmSelectOk()]
    for number in (1, 2, 3):
        assert client.publish("q", b"x") == [BasicAck(number)]


def test_confirms_are_counted_from_confirm_select(client: Client) -> None:
    client.publish("q", b"x", b"y")
    client.say(ConfirmSelect())
    assert client.publish("q", b"z") == [BasicAck(1)]


def test_confirm_select_twice_changes_nothing(client: Client) -> None:
    client.say(ConfirmSelect())
    client.publish("q", b"x")
    assert client.say(ConfirmSelect()) == [ConfirmSelectOk()]
    assert client.publish("q", b"y") == [BasicAck(2)]


def test_confirms_of_a_burst_are_one(client: Client) -> None:
    """SPEC §5.2 multiple."""
    client.say(ConfirmSelect())
    assert client.publish("q", *[b"x"] * 100) == [BasicAck(100, multiple=True)]
    assert client.publish("q", b"x") == [BasicAck(101)]


class Log(Storage):
    """Says that it has to write something, and not that it has."""

    def position(self) -> int:
        return 1


@pytest.mark.parametrize(("keeps_all", "mode", "waits"), [(0, 1, False), (0, 2, True), (PERSISTENT, 1, True)])
def test_confirm_waits_for_the_storage_of_the_queues_that_store_the_message(
    client: Client, broker: Broker, keeps_all: int, mode: int, waits: bool
) -> None:
    """SPEC §11.2: of transient messages only where a queue keeps them too; others in the fanout do not matter."""
    for name in ("a", "b"):
        client.say(QueueDeclare(name, durable=True), QueueBind(name, "amq.fanout"))
    client.say(ConfirmSelect())
    queue = broker.vhosts["/"].queues["b"]
    queue.storage = Log()
    queue.keeps_all = keeps_all
    message = client.message("", b"x", "amq.fanout", properties=Properties(delivery_mode=mode))
    assert client.say(message) == ([] if waits else [BasicAck(1)])
    queue.storage.synced = 1
    client.connection.output.wake()
    assert client.heard() == ([BasicAck(1)] if waits else [])


def test_message_is_returned_before_it_is_confirmed(client: Client) -> None:
    client.say(ConfirmSelect())
    back = client.message("nowhere", b"x", mandatory=True)
    assert client.say(client.message("nowhere"), back, client.message("nowhere")) == [
        BasicReturn(312, "NO_ROUTE", "", "nowhere"),
        b"x",
        BasicAck(3, multiple=True),
    ]


def test_refused_message_is_not_confirmed(client: Client) -> None:
    client.say(ConfirmSelect())
    bad = client.message("k", exchange="nowhere")
    heard = client.say(client.message("q"), bad, client.message("q"))
    assert heard == [
        BasicAck(1),
        ChannelClose(404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'", 60, 40),
    ]
    assert client.say(ChannelCloseOk()) == []


def test_confirms_are_told_before_the_channel_closes(client: Client) -> None:
    client.say(ConfirmSelect())
    assert client.say(client.message("q"), client.message("q"), ChannelClose()) == [
        BasicAck(2, multiple=True),
        ChannelCloseOk(),
    ]
    assert client.heard() == []


class SlowStorage(Storage):
    """Storage that has written nothing until it says so: each time it is asked, a batch more must be."""

    said = 0

    def position(self) -> int:
        self.said += 1
        return self.said


@pytest.mark.parametrize("closed_by", ["client", "broker"])
def test_confirms_of_a_closed_channel_are_not_told_to_the_next_one_of_its_number(stranger: Client, closed_by: str) -> None:
    """SPEC §8.2: the first message of the new channel is not on disk when the old channel's is."""
    storage = SlowStorage()
    broker = Broker(storage=storage)
    broker.add_vhost("/")
    add_guest(broker)
    client = type(stranger)(broker).log_in().open(1)
    client.say(QueueDeclare("q"))
    client.say(ConfirmSelect())
    persistent = Properties(delivery_mode=2)
    for _ in range(3):
        assert client.say(client.message("q", b"old", properties=persistent)) == []
    if closed_by == "client":
        assert client.say(ChannelClose()) == [ChannelCloseOk()]
    else:
        assert isinstance(client.say(client.message("q", exchange="nowhere"))[-1], ChannelClose)
        assert client.say(ChannelCloseOk()) == []
    client.open(1)
    client.say(ConfirmSelect())
    written = storage.said
    assert client.say(client.message("q", b"new", properties=persistent)) == []
    storage.synced = written
    client.woken = True
    assert client.heard() == []
    storage.synced = storage.said
    client.woken = True
    assert client.heard() == [BasicAck(1)]


# Acknowledging


def deliver(client: Client, count: int) -> None:
    """Have `count` messages delivered and unacknowledged, with tags from 1."""
    client.say(QueueDeclare("q"), BasicConsume("q", "c", no_wait=True))
    client.publish("q", *(b"%d" % number for number in range(1, count + 1)))


def counts(client: Client) -> tuple[int, int]:
    queue = client.connection.session.vhost.queues["q"]
    return queue.ready_count, queue.unacked_count


@pytest.mark.parametrize(
    ("ack", "left"),
    [
        (BasicAck(1), 4),
        (BasicAck(5), 4),
        (BasicAck(3, multiple=True), 2),
        (BasicAck(5, multiple=True), 0),
        (BasicAck(0, multiple=True), 0),
        (BasicReject(2), 4),
        (BasicNack(2), 4),
        (BasicNack(2, multiple=True), 3),
        (BasicNack(0, multiple=True), 0),
    ],
    ids=repr,
)
def test_settling_forgets_messages(client: Client, ack: BasicAck, left: int) -> None:
    deliver(client, 5)
    assert client.say(ack) == []
    assert counts(client) == (0, left)
    assert client.connection.session.channels[1].unacked.count == left


@pytest.mark.parametrize(
    ("nack", "again"),
    [
        (BasicReject(2, requeue=True), [b"2"]),
        (BasicNack(2, requeue=True), [b"2"]),
        (BasicNack(2, multiple=True, requeue=True), [b"1", b"2"]),
        (BasicNack(0, multiple=True, requeue=True), [b"1", b"2", b"3", b"4", b"5"]),
    ],
    ids=repr,
)
def test_rejecting_with_requeue_gives_messages_back(client: Client, nack: BasicNack, again: list[bytes]) -> None:
    deliver(client, 5)
    heard = client.say(nack)
    assert heard[0::2] == [BasicDeliver("c", 6 + n, True, "", "q") for n in range(len(again))]
    assert heard[1::2] == again
    assert counts(client) == (0, 5)


@pytest.mark.parametrize(
    "ack",
    [
        BasicAck(0),
        BasicAck(6),
        BasicAck(6, multiple=True),
        BasicAck(2**32 + 1),
        BasicAck(2**63),
        BasicAck(2**64 - 1),
        BasicAck(2**64 - 1, multiple=True),
        BasicNack(6),
        BasicNack(0),
        BasicNack(6, multiple=True, requeue=True),
        BasicNack(2**63),
        BasicNack(2**64 - 1, multiple=True),
        BasicReject(6),
        BasicReject(0, requeue=True),
        BasicReject(2**64 - 1),
    ],
    ids=repr,
)
def test_unknown_delivery_tag_closes_the_channel(client: Client, ack: BasicAck) -> None:
    deliver(client, 5)
    text = f"PRECONDITION_FAILED - unknown delivery tag {ack.delivery_tag}"
    assert soft(client, ack) == ChannelClose(406, text, 60, ack.INDEX & 0xFFFF)
    assert counts(client) == (5, 0)


def test_tag_is_unknown_once_it_is_settled(client: Client) -> None:
    deliver(client, 5)
    assert client.say(BasicAck(3, multiple=True)) == []
    assert soft(client, BasicAck(3)).reply_text == "PRECONDITION_FAILED - unknown delivery tag 3"


def test_tag_of_a_delivery_without_acknowledgement_is_unknown(client: Client) -> None:
    client.say(QueueDeclare("q"), client.message("q", b"1"), BasicGet("q", no_ack=True))
    assert soft(client, BasicAck(1)).reply_text == "PRECONDITION_FAILED - unknown delivery tag 1"


def test_tags_belong_to_a_channel(client: Client) -> None:
    deliver(client, 1)
    client.open(2)
    assert soft(client, BasicAck(1), channel=2).reply_code == 406


@pytest.mark.parametrize("index", [80, 120, 90])
def test_acknowledgement_that_cannot_be_decoded(client: Client, index: int) -> None:
    close = hard(client, client.frame(1, b"\x00\x3c\x00" + bytes([index]) + b"\x01"))
    assert close == ConnectionClose(501, "FRAME_ERROR - cannot decode <<1>>", 60, index)


def test_acknowledging_everything_when_there_is_nothing(client: Client) -> None:
    assert client.say(BasicAck(0, multiple=True)) == []
    assert client.say(BasicNack(0, multiple=True, requeue=True)) == []


def test_burst_of_acknowledgements_makes_room_for_more(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=2), BasicConsume("q", "c", no_wait=True))
    assert client.publish("q", *(b"%d" % n for n in range(5)))[1::2] == [b"0", b"1"]
    assert client.say(BasicAck(1), BasicAck(2))[1::2] == [b"2", b"3"]
    assert client.say(BasicAck(4, multiple=True))[1::2] == [b"4"]


# Closing


def test_client_closes_a_channel(client: Client) -> None:
    deliver(client, 3)
    assert client.say(ChannelClose(200, "enough")) == [ChannelCloseOk()]
    assert counts(client) == (3, 0)
    queue = client.connection.session.vhost.queues["q"]
    assert queue.consumer_count == 0
    client.open(1)
    assert client.say(BasicGet("q")) == [BasicGetOk(1, True, "", "q", 2), b"1"]


def test_soft_error_closes_only_its_channel(client: Client) -> None:
    client.open(2)
    assert client.say(QueuePurge("nowhere")) == [ChannelClose(404, "NOT_FOUND - no queue 'nowhere' in vhost '/'", 50, 30)]
    assert client.connection.session.channels[1].state == CHANNEL_CLOSING
    assert client.connection.session.channels[2].state == CHANNEL_OPEN
    client.say(QueueDeclare("q"), channel=2)


def test_soft_error_gives_messages_back_and_stops_consuming(client: Client) -> None:
    deliver(client, 3)
    soft(client, QueuePurge("nowhere"))
    assert counts(client) == (3, 0)
    assert client.connection.session.vhost.queues["q"].consumer_count == 0


def test_closing_channel_hears_nothing_but_close(client: Client) -> None:
    client.say(QueuePurge("nowhere"))
    assert client.say(QueueDeclare("q"), client.message("q", b"x"), client.content(b"x")) == []
    assert client.connection.session.vhost.queues == {}
    assert client.say(ChannelClose()) == [ChannelCloseOk()]
    assert client.say(ChannelCloseOk()) == []
    assert client.connection.session.channels == {}


def test_error_amid_a_burst_drops_the_rest_of_it(client: Client) -> None:
    client.say(QueueDeclare("q"))
    heard = client.say(client.message("q"), client.message("q", exchange="nowhere"), client.message("q"), QueueDelete("q"))
    assert len(heard) == 1
    assert ready(client) == 1


def test_text_of_an_error_is_cut(client: Client) -> None:
    name = "q" * 255
    close = soft(client, QueuePurge(name))
    assert close.reply_text == f"NOT_FOUND - no queue '{name}"[:252] + "..."


def test_unknown_method_on_a_closing_channel_still_ends_the_connection(client: Client) -> None:
    client.say(QueuePurge("nowhere"))
    assert hard(client, client.frame(1, b"\x00\x3c\x00\x4d")).reply_code == 503


def test_method_of_the_broker_is_not_for_clients(client: Client) -> None:
    close = hard(client, BasicConsumeOk("c"))
    assert close == ConnectionClose(503, "COMMAND_INVALID - unimplemented method", 60, 21)


def test_auto_delete_queue_is_gone_before_the_next_method(client: Client) -> None:
    heard = client.say(
        QueueDeclare("q", auto_delete=True, no_wait=True),
        BasicConsume("q", "c", no_wait=True),
        BasicCancel("c", no_wait=True),
        QueueDeclare("q", passive=True),
    )
    assert heard == [ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)]


def test_exchange_name_is_not_stripped_when_publishing(client: Client) -> None:
    assert soft(client, client.message("k", exchange="amq.fanout\n")).reply_code == 404
    assert client.say(QueueDeclare("q"), QueueBind("q", "amq.\nfanout"))[-1] == QueueBindOk()


def test_empty_message_may_come_frame_by_frame(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.feed(client.method(BasicPublish("", "q")))
    client.feed(client.content(b"", Properties(type="t")))
    assert get(client) == (Properties(type="t"), b"")


# Queues that refuse


FULL: Table = {"x-max-length": 2, "x-overflow": "reject-publish"}


def test_message_that_a_queue_refuses_is_not_acknowledged(client: Client) -> None:
    client.say(QueueDeclare("q", arguments=FULL), ConfirmSelect())
    assert client.publish("q", b"1") == [BasicAck(1)]
    assert client.publish("q", b"2") == [BasicAck(2)]
    assert client.publish("q", b"3") == [BasicNack(3)]
    assert (get(client), get(client)) == (b"1", b"2")
    assert client.publish("q", b"4") == [BasicAck(4)]


def test_refused_messages_of_a_burst_are_told_in_order(client: Client) -> None:
    client.say(QueueDeclare("q", arguments=FULL), QueueDeclare("free"), ConfirmSelect())
    burst = [client.message(name, b"x") for name in ("q", "q", "q", "free", "free", "q")]
    assert client.say(*burst) == [
        BasicAck(2, multiple=True),
        BasicNack(3),
        BasicAck(5, multiple=True),
        BasicNack(6),
    ]


def test_message_that_one_of_several_queues_refuses_is_not_acknowledged(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-max-length": 0, "x-overflow": "reject-publish"}), QueueDeclare("free"))
    client.say(QueueBind("q", "amq.fanout"), QueueBind("free", "amq.fanout"), ConfirmSelect())
    assert client.say(client.message("", b"x", "amq.fanout")) == [BasicNack(1)]
    assert (ready(client), ready(client, "free")) == (0, 1)


def test_message_is_refused_in_silence_without_confirms(client: Client) -> None:
    client.say(QueueDeclare("q", arguments=FULL))
    assert client.publish("q", b"1", b"2", b"3") == []
    assert ready(client) == 2


def test_message_dropped_for_another_is_acknowledged(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-max-length": 1}), ConfirmSelect())
    assert client.publish("q", b"1", b"2") == [BasicAck(2, multiple=True)]
    assert get(client) == b"2"


def test_duplicate_is_acknowledged_and_dropped(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-message-deduplication": True}), ConfirmSelect())
    one = client.message("q", b"1", properties=Properties(headers={"x-deduplication-header": "a"}))
    assert client.say(one, one) == [BasicAck(2, multiple=True)]
    assert ready(client) == 1


# Copies


def copied(**headers: list[object] | str) -> Properties:
    return Properties(content_type="text/plain", headers=dict(headers))  # type: ignore[arg-type]


def test_copies_go_to_more_queues(client: Client) -> None:
    client.say(*(QueueDeclare(name) for name in ("q", "cc", "bcc", "none")))
    client.say(client.message("q", b"x", properties=copied(CC=["cc"], BCC=["bcc"])))
    for name in ("q", "cc", "bcc"):
        assert client.say(BasicGet(name, no_ack=True))[1] == (copied(CC=["cc"]), b"x")
    assert ready(client, "none") == 0


def test_each_queue_gets_a_copied_message_once(client: Client) -> None:
    client.say(QueueDeclare("q"), client.message("q", b"x", properties=copied(CC=["q", "q"], BCC=["q"])))
    assert ready(client) == 1


def test_copies_are_routed_by_their_exchange(client: Client) -> None:
    client.say(QueueDeclare("one"), QueueDeclare("two"))
    client.say(QueueBind("one", "amq.topic", "a.*"), QueueBind("two", "amq.topic", "b.#"))
    client.say(client.message("nowhere", b"x", "amq.topic", properties=copied(CC=["a.1", "b.1"])))
    heard = client.say(BasicGet("two", no_ack=True))
    assert heard == [BasicGetOk(1, False, "amq.topic", "nowhere", 0), (copied(CC=["a.1", "b.1"]), b"x")]
    assert ready(client, "one") == 1


def test_copy_is_as_good_as_the_original_for_a_mandatory_message(client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(client.message("nowhere", b"x", mandatory=True, properties=copied(CC=["q"]))) == []
    (returned, _) = client.say(client.message("nowhere", b"x", mandatory=True, properties=copied(CC=["nowhere"])))
    assert returned == BasicReturn(312, "NO_ROUTE", "", "nowhere")


def test_copies_do_not_change_the_route_of_others(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueDeclare("cc"))
    plain = client.message("q", b"x")
    client.say(plain, client.message("q", b"x", properties=copied(CC=["cc"])), plain)
    assert (ready(client), ready(client, "cc")) == (3, 1)


def test_blind_copy_keeps_its_time_to_live(client: Client, broker: Broker) -> None:
    client.now = 1000
    properties = Properties(headers={"BCC": ["bcc"]}, expiration="50", priority=3)
    client.say(QueueDeclare("q"), QueueDeclare("bcc"), client.message("q", b"x", properties=properties))
    assert client.say(BasicGet("q", no_ack=True))[1] == (Properties(headers={}, expiration="50", priority=3), b"x")
    assert broker.timers.next_at() == 1050
    client.now = 1050
    assert client.say(BasicGet("bcc")) == [BasicGetEmpty()]


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_copies_must_be_in_an_array(client: Client, name: str) -> None:
    close = soft(client, client.message("q", properties=copied(**{name: "q"})))
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",longstr}}'
    assert close == ChannelClose(406, text, 60, 40)


def test_large_message_loses_its_blind_copies(client: Client) -> None:
    body = bytes(range(256)) * 2000
    client.say(QueueDeclare("q"), client.message("q", body, properties=copied(BCC=["x"])))
    assert get(client) == (copied(), body)


# Dead letters


@pytest.mark.parametrize("method", [BasicReject(1), BasicNack(1), BasicNack(0, multiple=True)], ids=repr)
def test_rejected_message_is_dead_lettered(client: Client, method: Method) -> None:
    client.now = 7000
    client.say(QueueDeclare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}))
    client.say(QueueDeclare("dead"))
    client.publish("q", b"x")
    client.say(BasicGet("q"), method)
    got, content = client.say(BasicGet("dead"))
    assert got == BasicGetOk(2, False, "", "dead", 0)
    assert isinstance(content, tuple)
    (properties, body) = content
    assert body == b"x"
    assert properties.headers is not None
    assert properties.headers["x-death"] == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": "q",
            "time": Timestamp(7),
            "exchange": "",
            "routing-keys": ["q"],
        }
    ]


def test_message_given_back_is_not_dead(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}))
    client.say(QueueDeclare("dead"))
    client.publish("q", b"x")
    client.say(BasicGet("q"), BasicReject(1, requeue=True))
    assert (ready(client), ready(client, "dead")) == (1, 0)


def test_priority_of_a_message_orders_its_queue(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-max-priority": 9}))
    for priority in (1, 9, 5, 255):
        client.say(client.message("q", b"%d" % priority, properties=Properties(priority=priority)))
    bodies = [client.say(BasicGet("q", no_ack=True))[1] for _ in range(4)]
    assert [content[1] for content in bodies if isinstance(content, tuple)] == [b"9", b"255", b"5", b"1"]
