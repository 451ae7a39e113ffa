"""Direct reply-to: answers without a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.protocol.reply_to import NAME, PREFIX
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect


def ask(client: Client) -> str:
    """Publish a question to queue q and return the name its answer must go to."""
    client.say(client.message("q", b"?", properties=Properties(reply_to=NAME, message_id="m", expiration="60000")))
    queue = client.connection.session.vhost.queues["q"]
    entry = queue.take(True)
    assert entry is not None
    assert entry.message.ttl_ms == 60_000
    (name,) = client.broker.replies
    assert name.encode() in entry.message.content
    return name


@pytest.fixture
def asker(connect: Connect) -> Client:
    client = connect()
    assert client.say(QueueDeclare("q"), BasicConsume(NAME, "c", no_ack=True))[1:] == [BasicConsumeOk("c")]
    return client


def test_answer_reaches_who_asked_and_nobody_else(asker: Client, connect: Connect) -> None:
    name = ask(asker)
    assert name.startswith(PREFIX)
    other = connect()
    assert other.say(QueueDeclare(name, passive=True)) == [QueueDeclareOk(name, 0, 1)]
    assert other.publish(name, b"!") == []
    deliver, content = asker.heard()
    assert deliver == BasicDeliver("c", 1, False, "", name)
    assert content == b"!"


def test_name_is_gone_with_its_consumer(asker: Client, connect: Connect) -> None:
    name = ask(asker)
    assert asker.say(BasicCancel("c")) == [BasicCancelOk("c")]
    assert asker.broker.replies == {}
    other = connect()
    returned = other.say(other.message(name, b"!", mandatory=True))
    assert returned[0] == BasicReturn(312, "NO_ROUTE", "", name)
    (close,) = other.say(QueueDeclare(name))
    assert isinstance(close, ChannelClose)
    assert close.reply_code == 404


def test_name_is_gone_with_its_connection(asker: Client) -> None:
    ask(asker)
    asker.connection.lost(asker.now)
    assert asker.broker.replies == {}


@pytest.mark.parametrize("method", [QueueBind("{}", "amq.fanout"), BasicGet("{}")], ids=["bind", "get"])
def test_name_is_no_queue(asker: Client, connect: Connect, method: QueueBind | BasicGet) -> None:
    method.queue = ask(asker)
    (close,) = connect().say(method)
    assert isinstance(close, ChannelClose)
    assert close.reply_code == 404


def test_pseudo_queue_can_always_be_declared(asker: Client) -> None:
    assert asker.say(QueueDeclare(NAME)) == [QueueDeclareOk(NAME, 0, 1)]


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (BasicConsume(NAME, "d", no_ack=True), "reply consumer already set"),
        (BasicConsume(NAME, "d"), "reply consumer cannot acknowledge"),
    ],
)
def test_second_or_acknowledging_consumer_is_refused(asker: Client, method: Method, text: str) -> None:
    assert asker.say(method) == [ChannelClose(406, f"PRECONDITION_FAILED - {text}", 60, 20)]
    assert asker.say(ChannelCloseOk()) == []
    assert asker.broker.replies == {}


def test_asking_without_a_consumer_is_refused(client: Client) -> None:
    (close,) = client.say(client.message("q", properties=Properties(reply_to=NAME)))
    assert close == ChannelClose(406, "PRECONDITION_FAILED - fast reply consumer does not exist", 60, 40)


@pytest.mark.parametrize("reply_to", ["somewhere", NAME + "x", "x" + NAME])
def test_other_reply_to_is_left_as_it_is(asker: Client, reply_to: str) -> None:
    message = asker.message("q", properties=Properties(reply_to=reply_to))
    assert asker.say(message) == []
    entry = asker.connection.session.vhost.queues["q"].take(True)
    assert entry is not None
    assert reply_to.encode() in entry.message.content
    assert PREFIX.encode() not in entry.message.content


@pytest.mark.parametrize("tag", ["c", "d", ""])
def test_second_consumer_of_replies_is_refused(asker: Client, tag: str) -> None:
    """SPEC §6.5 direct reply-to: with 406 whatever its tag; that of the first is none of the channel's others."""
    close = ChannelClose(406, "PRECONDITION_FAILED - reply consumer already set", 60, 20)
    assert asker.say(BasicConsume(NAME, tag, no_ack=True)) == [close]


def test_tag_of_the_consumer_of_replies_may_be_had_by_another(asker: Client) -> None:
    """SPEC §6.5 direct reply-to: as on RabbitMQ; who is cancelled first is the one for replies."""
    assert asker.say(BasicConsume("q", "c", no_ack=True)) == [BasicConsumeOk("c")]
    assert asker.say(BasicCancel("c")) == [BasicCancelOk("c")]
    assert asker.broker.replies == {}
    assert asker.publish("q", b"1") == [BasicDeliver("c", 1, False, "", "q"), b"1"]
    assert asker.say(BasicCancel("c")) == [BasicCancelOk("c")]
    assert asker.publish("q", b"2") == []


def test_prefetch_of_the_channel_does_not_hold_back_answers(asker: Client, connect: Connect) -> None:
    """SPEC §6.5 direct reply-to: RabbitMQ looks at no limit there."""
    asker.say(BasicQos(0, 1, True), BasicConsume("q", "d"))
    asker.publish("q", b"1")
    asker.say(asker.message("r", b"?", properties=Properties(reply_to=NAME)))
    (name,) = asker.broker.replies
    connect().publish(name, b"!")
    assert asker.heard()[1:] == [b"!"]


def test_name_that_was_declared_is_the_last_one(asker: Client) -> None:
    """SPEC §6.5 direct reply-to: RabbitMQ takes it for the last declared queue of the channel."""
    asker.say(QueueDeclare(NAME))
    close = ChannelClose(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", 60, 20)
    assert asker.say(BasicConsume("", "e")) == [close]
