"""Exchanges, queues and bindings as a dialogue: each answer, each no-wait form, each error with its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.wire.spec import (
    AccessRequest,
    AccessRequestOk,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leveret.wire.values import SignedInt

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared "
    "on another connection or the exclusive property value does not match that of the original declaration."
)
DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
NO_QUEUE = "NOT_FOUND - no queue 'q' in vhost '/'"
NO_EXCHANGE = "NOT_FOUND - no exchange 'x' in vhost '/'"
NO_PREVIOUS = "NOT_FOUND - no previously declared queue"


def refused(client: Client, method: Method, code: int, text: str) -> None:
    """This method closes the channel with this code and text, and is itself blamed."""
    assert client.say(method) == [ChannelClose(code, text, method.INDEX >> 16, method.INDEX & 0xFFFF)]
    assert client.say(ChannelCloseOk(), ChannelOpen()) == [ChannelOpenOk()]


def queues(client: Client) -> list[str]:
    return list(client.connection.session.vhost.queues)


def exchanges(client: Client) -> list[str]:
    """The exchanges that clients made."""
    return [name for name in client.connection.session.vhost.exchanges if name and not name.startswith("amq.")]


def test_access_is_granted(client: Client) -> None:
    assert client.say(AccessRequest("/data")) == [AccessRequestOk(1)]


# Exchanges


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_exchange_is_declared_twice_and_deleted_twice(client: Client, kind: str) -> None:
    declare = ExchangeDeclare("x", kind, durable=True, auto_delete=True, internal=True, arguments={"kept": 1})
    assert client.say(declare, declare) == [ExchangeDeclareOk(), ExchangeDeclareOk()]
    exchange = client.connection.session.vhost.exchanges["x"]
    assert (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal) == (kind, True, True, True)
    assert exchange.arguments == {"kept": 1}
    assert client.say(ExchangeDelete("x"), ExchangeDelete("x")) == [ExchangeDeleteOk(), ExchangeDeleteOk()]
    assert exchanges(client) == []


def test_exchange_without_waiting(client: Client) -> None:
    assert client.say(ExchangeDeclare("x", "direct", no_wait=True), ExchangeDeclare("y", "direct", no_wait=True)) == []
    assert client.say(ExchangeBind("x", "y", no_wait=True), ExchangeUnbind("x", "y", no_wait=True)) == []
    assert client.say(ExchangeDeclare("x", passive=True, no_wait=True), ExchangeDelete("x", no_wait=True)) == []
    assert exchanges(client) == ["y"]


def test_line_ends_are_taken_out_of_names(client: Client) -> None:
    client.say(ExchangeDeclare("\r\nx\n", "direct"), ExchangeDeclare("y", "direct"))
    assert exchanges(client) == ["x", "y"]
    assert client.say(QueueDeclare("q\r\n")) == [QueueDeclareOk("q", 0, 0)]
    assert client.say(QueueDeclare("\nq", passive=True)) == [QueueDeclareOk("q", 0, 0)]
    assert client.say(QueueBind("q\n", "x\n"), QueueUnbind("q\r", "x\r")) == [QueueBindOk(), QueueUnbindOk()]
    assert client.say(ExchangeBind("x\n", "y\n"), ExchangeUnbind("x\r", "y\r")) == [ExchangeBindOk(), ExchangeUnbindOk()]
    assert client.say(ExchangeDeclare("x\n", passive=True)) == [ExchangeDeclareOk()]
    assert client.say(ExchangeDelete("x\r"), QueueDelete("q\r")) == [ExchangeDeleteOk(), QueueDeleteOk()]
    assert (exchanges(client), queues(client)) == (["y"], [])


def test_existing_amq_exchange_may_be_declared(client: Client) -> None:
    assert client.say(ExchangeDeclare("amq.direct", "direct", durable=True)) == [ExchangeDeclareOk()]
    assert client.say(ExchangeDeclare("amq.topic", passive=True)) == [ExchangeDeclareOk()]


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (ExchangeDeclare("", "direct"), 403, DEFAULT),
        (ExchangeDeclare("", passive=True), 403, DEFAULT),
        (ExchangeDeclare("\r\n", passive=True), 403, DEFAULT),
        (ExchangeDelete(""), 403, DEFAULT),
        (
            ExchangeDelete("amq.direct"),
            403,
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (ExchangeDelete("amq.x"), 403, "ACCESS_REFUSED - deletion of system exchange 'amq.x' in vhost '/' not allowed"),
        (ExchangeDeclare("x", passive=True), 404, NO_EXCHANGE),
        (ExchangeDeclare("amq.x", "direct"), 403, "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'"),
        (ExchangeDeclare("x", "nonsense"), 406, "PRECONDITION_FAILED - unknown exchange type 'nonsense'"),
        (ExchangeDeclare("", "nonsense"), 406, "PRECONDITION_FAILED - unknown exchange type 'nonsense'"),
        (
            ExchangeDeclare("x", "direct", arguments={"alternate-exchange": 5}),
            406,
            "PRECONDITION_FAILED - invalid type 'long' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
        ),
    ],
    ids=repr,
)
def test_exchange_is_refused(client: Client, method: Method, code: int, text: str) -> None:
    refused(client, method, code, text)


@pytest.mark.parametrize(
    ("again", "difference"),
    [
        (ExchangeDeclare("x", "topic"), "'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'"),
        (
            ExchangeDeclare("x", "direct", durable=True),
            "'durable' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            ExchangeDeclare("x", "direct", auto_delete=True),
            "'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            ExchangeDeclare("x", "direct", internal=True),
            "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            ExchangeDeclare("x", "direct", arguments={"alternate-exchange": "y"}),
            "'alternate-exchange' for exchange 'x' in vhost '/': "
            "received the value 'y' of type 'longstr' but current is none",
        ),
    ],
    ids=repr,
)
def test_exchange_that_differs_is_refused(client: Client, again: Method, difference: str) -> None:
    client.say(ExchangeDeclare("x", "direct"))
    refused(client, again, 406, f"PRECONDITION_FAILED - inequivalent arg {difference}")


def test_alternate_exchange_must_stay_the_same(client: Client) -> None:
    client.say(ExchangeDeclare("x", "direct", arguments={"alternate-exchange": "y"}))
    assert client.say(ExchangeDeclare("x", "direct", arguments={"alternate-exchange": "y", "more": 1})) == [
        ExchangeDeclareOk()
    ]
    start = "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': "
    other = ExchangeDeclare("x", "direct", arguments={"alternate-exchange": "z"})
    refused(client, other, 406, start + "received 'z' but current is 'y'")
    none = ExchangeDeclare("x", "direct")
    refused(client, none, 406, start + "received none but current is the value 'y' of type 'longstr'")


def test_exchange_in_use_is_not_deleted_if_it_must_be_unused(client: Client) -> None:
    client.say(ExchangeDeclare("x", "direct"), QueueDeclare("q"), QueueBind("q", "x"))
    refused(client, ExchangeDelete("x", if_unused=True), 406, "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use")
    client.say(QueueUnbind("q", "x"))
    assert client.say(ExchangeDelete("x", if_unused=True)) == [ExchangeDeleteOk()]


def test_exchanges_are_bound_and_unbound(client: Client) -> None:
    client.say(ExchangeDeclare("x", "direct"), QueueDeclare("q"), QueueBind("q", "amq.fanout"))
    assert client.say(ExchangeBind("amq.fanout", "x", "k")) == [ExchangeBindOk()]
    client.say(client.message("k", exchange="x"))
    assert client.say(ExchangeUnbind("amq.fanout", "x", "k")) == [ExchangeUnbindOk()]
    client.say(client.message("k", exchange="x"))
    assert client.say(QueuePurge("q")) == [QueuePurgeOk(1)]


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (ExchangeBind("", "amq.direct"), 403, DEFAULT),
        (ExchangeBind("amq.direct", ""), 403, DEFAULT),
        (ExchangeUnbind("", "amq.direct"), 403, DEFAULT),
        (ExchangeUnbind("amq.direct", ""), 403, DEFAULT),
        (ExchangeBind("amq.direct", "x"), 404, NO_EXCHANGE),
        (ExchangeBind("x", "amq.direct"), 404, NO_EXCHANGE),
        (ExchangeBind("y", "x"), 404, NO_EXCHANGE),
        (
            ExchangeBind("amq.direct", "amq.headers", arguments={"x-match": "some"}),
            406,
            'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
    ],
    ids=repr,
)
def test_binding_of_exchanges_is_refused(client: Client, method: Method, code: int, text: str) -> None:
    refused(client, method, code, text)


@pytest.mark.parametrize(
    "method", [ExchangeUnbind("x", "amq.direct"), ExchangeUnbind("amq.direct", "x"), ExchangeUnbind("x", "y")]
)
def test_unbinding_what_is_not_there_is_fine(client: Client, method: Method) -> None:
    assert client.say(method) == [ExchangeUnbindOk()]


# Queues


def test_queue_is_declared_twice(client: Client) -> None:
    declare = QueueDeclare("q", durable=True, arguments={"kept": 1})
    assert client.say(declare) == [QueueDeclareOk("q", 0, 0)]
    client.publish("q", b"1", b"2")
    client.say(BasicGet("q"))
    assert client.say(declare) == [QueueDeclareOk("q", 1, 0)]
    queue = client.connection.session.vhost.queues["q"]
    assert (queue.durable, queue.auto_delete, queue.owner, queue.arguments) == (True, False, None, {"kept": 1})


def test_declaring_says_how_many_consume(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "a"), BasicConsume("q", "b"))
    assert client.say(QueueDeclare("q", passive=True)) == [QueueDeclareOk("q", 0, 2)]


def test_queue_is_named_by_the_broker(client: Client) -> None:
    (one,), (two,) = client.say(QueueDeclare("")), client.say(QueueDeclare("\r\n"))
    assert isinstance(one, QueueDeclareOk)
    assert isinstance(two, QueueDeclareOk)
    assert one.queue != two.queue
    assert one.queue.startswith("amq.gen-")
    assert len(one.queue) == len("amq.gen-") + 22
    assert queues(client) == [one.queue, two.queue]


def test_queue_without_waiting(client: Client) -> None:
    client.say(ExchangeDeclare("x", "direct"))
    assert (
        client.say(
            QueueDeclare("q", no_wait=True),
            QueueDeclare("q", passive=True, no_wait=True),
            QueueBind("q", "x", no_wait=True),
            client.message("", b"", "x"),
            QueuePurge("q", no_wait=True),
        )
        == []
    )
    assert client.connection.session.vhost.queues["q"].ready_count == 0
    assert client.say(QueueDelete("q", no_wait=True)) == []
    assert queues(client) == []


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (QueueDeclare("amq.q"), 403, "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"),
        (QueueDeclare("q", passive=True), 404, NO_QUEUE),
        (QueueDeclare("amq.q", passive=True), 404, "NOT_FOUND - no queue 'amq.q' in vhost '/'"),
        (QueueDeclare("", passive=True), 404, "NOT_FOUND - no queue '' in vhost '/'"),
        (QueuePurge("q"), 404, NO_QUEUE),
        (QueuePurge("q\n"), 404, "NOT_FOUND - no queue 'q\n' in vhost '/'"),
        (QueueBind("q", "amq.direct"), 404, NO_QUEUE),
        (QueueBind("q", "x"), 404, NO_EXCHANGE),
        (QueueBind("q", ""), 403, DEFAULT),
        (QueueUnbind("q", ""), 403, DEFAULT),
        (QueueDelete(""), 404, NO_PREVIOUS),
        (QueuePurge(""), 404, NO_PREVIOUS),
        (QueueBind("", "amq.direct", "k"), 404, NO_PREVIOUS),
        (QueueBind("", "amq.direct"), 404, NO_PREVIOUS),
        (QueueUnbind("", "amq.direct", "k"), 404, NO_PREVIOUS),
    ],
    ids=repr,
)
def test_queue_is_refused(client: Client, method: Method, code: int, text: str) -> None:
    refused(client, method, code, text)


@pytest.mark.parametrize(
    ("again", "field", "received", "current"),
    [
        (QueueDeclare("q", durable=True), "durable", "true", "false"),
        (QueueDeclare("q", auto_delete=True), "auto_delete", "true", "false"),
        (QueueDeclare("q", durable=True, auto_delete=True), "durable", "true", "false"),
    ],
    ids=repr,
)
def test_queue_that_differs_is_refused(client: Client, again: Method, field: str, received: str, current: str) -> None:
    client.say(QueueDeclare("q"))
    text = f"inequivalent arg '{field}' for queue 'q' in vhost '/': received '{received}' but current is '{current}'"
    refused(client, again, 406, f"PRECONDITION_FAILED - {text}")


def test_unknown_arguments_may_differ(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"nonsense": SignedInt(1)}))
    assert client.say(QueueDeclare("q", arguments={"nonsense": "other"})) == [QueueDeclareOk("q", 0, 0)]


def test_exclusive_queue_is_never_durable(client: Client) -> None:
    client.say(QueueDeclare("q", exclusive=True, durable=True))
    assert not client.connection.session.vhost.queues["q"].durable
    assert client.say(QueueDeclare("q", exclusive=True)) == [QueueDeclareOk("q", 0, 0)]
    assert client.say(QueueDeclare("q", exclusive=True, durable=True)) == [QueueDeclareOk("q", 0, 0)]


def test_exclusive_queue_is_shared_by_the_channels_of_its_connection(client: Client) -> None:
    client.open(2)
    client.say(QueueDeclare("q", exclusive=True))
    assert client.say(QueuePurge("q"), channel=2) == [QueuePurgeOk(0)]


def test_exclusiveness_must_stay_the_same(client: Client) -> None:
    client.say(QueueDeclare("q", exclusive=True))
    refused(client, QueueDeclare("q"), 405, LOCKED)
    client.say(QueueDelete("q"), QueueDeclare("q"))
    refused(client, QueueDeclare("q", exclusive=True), 405, LOCKED)


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare("q"),
        QueueDeclare("q", exclusive=True),
        QueueDeclare("q", passive=True),
        QueuePurge("q"),
        QueueDelete("q"),
        QueueBind("q", "amq.direct", "other"),
        QueueUnbind("q", "amq.direct", "bound"),
        BasicGet("q"),
        BasicConsume("q"),
    ],
    ids=repr,
)
def test_exclusive_queue_is_locked_for_other_connections(client: Client, connect: Connect, method: Method) -> None:
    client.say(QueueDeclare("q", exclusive=True), QueueBind("q", "amq.direct", "bound"))
    refused(connect(), method, 405, LOCKED)


def test_others_may_publish_to_an_exclusive_queue(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("q", exclusive=True))
    connect().publish("q", b"x")
    assert client.say(BasicGet("q")) == [BasicGetOk(1, False, "", "q", 0), b"x"]


def test_unbinding_what_is_not_bound_needs_no_access(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("q", exclusive=True))
    assert connect().say(QueueUnbind("q", "amq.direct", "k")) == [QueueUnbindOk()]


def test_queue_is_deleted_with_its_messages(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2", b"3")
    client.say(BasicGet("q"))
    assert client.say(QueueDelete("q"), QueueDelete("q")) == [QueueDeleteOk(2), QueueDeleteOk(0)]


def test_queue_in_use_is_not_deleted_if_it_must_be_unused(client: Client) -> None:
    client.open(2)
    client.say(QueueDeclare("q"), BasicConsume("q", "c"), channel=2)
    refused(client, QueueDelete("q", if_unused=True), 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use")


def test_queue_with_messages_is_not_deleted_if_it_must_be_empty(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    refused(client, QueueDelete("q", if_empty=True), 406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty")
    client.say(QueuePurge("q"))
    assert client.say(QueueDelete("q", if_empty=True, if_unused=True)) == [QueueDeleteOk(0)]


def test_purging_drops_ready_messages_only(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2", b"3")
    client.say(BasicGet("q"))
    assert client.say(QueuePurge("q")) == [QueuePurgeOk(2)]
    assert client.connection.session.vhost.queues["q"].unacked_count == 1


def test_no_queue_means_the_last_one_declared(client: Client) -> None:
    client.say(QueueDeclare("first"), QueueDeclare("q"))
    client.publish("q", b"1")
    assert client.say(QueuePurge()) == [QueuePurgeOk(1)]
    client.say(QueueDeclare("first", passive=True))
    assert client.say(QueueBind("", "amq.direct", "k")) == [QueueBindOk()]
    client.say(client.message("k", b"", "amq.direct"))
    assert client.connection.session.vhost.queues["first"].ready_count == 1
    assert client.say(QueueUnbind("", "amq.direct", "k")) == [QueueUnbindOk()]
    assert client.say(QueueDelete()) == [QueueDeleteOk(1)]


def test_no_queue_and_no_key_mean_the_last_one_declared_for_both(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("", "amq.direct"), client.message("q", b"", "amq.direct"))
    assert client.connection.session.vhost.queues["q"].ready_count == 1
    client.say(QueueUnbind("", "amq.direct"), client.message("q", b"", "amq.direct"))
    assert client.connection.session.vhost.queues["q"].ready_count == 1


def test_named_queue_keeps_its_empty_key(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("q", "amq.direct"), client.message("q", b"", "amq.direct"))
    assert client.connection.session.vhost.queues["q"].ready_count == 0
    client.say(client.message("", b"", "amq.direct"))
    assert client.connection.session.vhost.queues["q"].ready_count == 1


def test_last_declared_queue_belongs_to_the_channel(client: Client) -> None:
    client.open(2)
    client.say(QueueDeclare("q"))
    assert client.say(QueuePurge(), channel=2) == [ChannelClose(404, NO_PREVIOUS, 50, 30)]


@pytest.mark.parametrize(
    "method", [QueueUnbind("q", "amq.direct"), QueueUnbind("nowhere", "amq.direct"), QueueUnbind("q", "nowhere")], ids=repr
)
def test_unbinding_a_queue_from_where_it_is_not_is_fine(client: Client, method: Method) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(method) == [QueueUnbindOk()]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("some", 'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (5, "Invalid x-match field type long (value 5); expected longstr"),
    ],
)
def test_bad_x_match_is_refused(client: Client, value: str | int, text: str) -> None:
    client.say(QueueDeclare("q"))
    refused(client, QueueBind("q", "amq.match", arguments={"x-match": value}), 406, f"PRECONDITION_FAILED - {text}")


def test_binding_twice_is_binding_once(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueBind("q", "amq.direct", "k"), QueueBind("q", "amq.direct", "k"))
    client.say(QueueUnbind("q", "amq.direct", "k"), client.message("k", b"", "amq.direct"))
    assert client.connection.session.vhost.queues["q"].ready_count == 0


def test_many_exclusive_queues_come_and_go(client: Client) -> None:
    for number in range(300):
        client.say(QueueDeclare(f"q{number}", exclusive=True, no_wait=True), QueueDelete(f"q{number}", no_wait=True))
    assert len(client.connection.session.exclusive_queues) < 100
    client.say(QueueDeclare("last", exclusive=True))
    client.connection.lost(client.now)
    assert queues(client) == []
