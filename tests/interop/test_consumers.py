"""Who gets which message (SPEC §6.1 to §6.5), with pika."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker
from pika.spec import Basic
from tests.interop.support import Inbox, fill, get, get_all, is_missing, ready_count

if TYPE_CHECKING:
    from tests.interop.conftest import Broker

Declared = Callable[..., str]

REPLY_TO = "amq.rabbitmq.reply-to"


def test_consumer_has_the_tag_it_asked_for_or_one_of_its_own(broker: Broker, queue: str) -> None:
    """SPEC §6.1 tags."""
    with broker.login() as client:
        tags = [client.call(Basic.Consume(queue=queue, consumer_tag=tag)).consumer_tag for tag in ("mine", "", "")]
    assert tags[0] == "mine"
    assert all(tag.startswith("amq.ctag-") for tag in tags[1:])
    assert len(set(tags)) == 3


def test_consumer_without_acknowledgement_takes_for_good(channel: Any, queue: str) -> None:
    """SPEC §6.1 no-ack."""
    fill(channel, queue, "a", "b")
    other = channel.connection.channel()
    assert Inbox(other, queue, auto_ack=True).wait(2) == ["a", "b"]
    other.close()
    assert get_all(channel, queue) == []


def test_exclusive_consumer_is_alone(channel: Any, queue: str) -> None:
    """SPEC §6.1 exclusive: nobody else may consume until it leaves."""
    inbox = Inbox(channel, queue, exclusive=True)
    with pytest.raises(ChannelClosedByBroker, match="in exclusive use"):
        Inbox(channel.connection.channel(), queue)
    channel.basic_cancel(inbox.tag)
    Inbox(channel, queue)


def test_consumer_of_higher_priority_goes_first(channel: Any, queue: str) -> None:
    """SPEC §6.1 x-priority: as long as it has room."""
    low = Inbox(channel, queue, arguments={"x-priority": -1}, auto_ack=True)
    channel.basic_qos(prefetch_count=2)
    high = Inbox(channel, queue, arguments={"x-priority": 10})
    plain = Inbox(channel, queue)
    fill(channel, queue, *"abcde")
    assert (high.wait(2), plain.wait(2), low.wait(1)) == (["a", "b"], ["c", "d"], ["e"])


@pytest.mark.parametrize("value", [True, False])
def test_consumer_may_ask_to_be_cancelled_on_failover(channel: Any, queue: str, value: bool) -> None:
    """SPEC §6.1 x-cancel-on-ha-failover: taken; with one copy there is no failover."""
    inbox = Inbox(channel, queue, arguments={"x-cancel-on-ha-failover": value})
    fill(channel, queue, "a")
    assert inbox.wait(1) == ["a"]


def test_redelivered_is_told(channel: Any, queue: str) -> None:
    """SPEC §6.3 redelivered: after any delivery before, to whomever."""
    fill(channel, queue, "a", "b")
    other = channel.connection.channel()
    inbox = Inbox(other, queue)
    inbox.wait(2)
    assert [method.redelivered for method, _ in inbox] == [False, False]
    other.close()
    assert get_all(channel, queue) == [("a", True), ("b", True)]


# Direct reply-to


def test_answer_comes_straight_back(connect: Callable[[], Any], channel: Any, queue: str) -> None:
    """SPEC §6.5 direct reply-to: to a name that nobody can guess, gone with the consumer."""
    answers = Inbox(channel, REPLY_TO, auto_ack=True)
    channel.basic_publish("", queue, b"question", pika.BasicProperties(reply_to=REPLY_TO))
    worker = connect().channel()
    worker.confirm_delivery()
    method, properties, body = worker.basic_get(queue, auto_ack=True)
    assert body == b"question"
    assert properties.reply_to.startswith(REPLY_TO + ".")
    worker.queue_declare(properties.reply_to, passive=True)
    worker.basic_publish("", properties.reply_to, b"answer")
    assert answers.wait(1) == ["answer"]
    method = answers[0][0]
    assert (method.exchange, method.routing_key) == ("", properties.reply_to)
    channel.basic_cancel(answers.tag)
    assert is_missing(worker.connection, properties.reply_to)


def test_reply_to_of_others_is_left_alone(channel: Any, queue: str) -> None:
    """SPEC §6.5 direct reply-to: any other name is passed on."""
    Inbox(channel, REPLY_TO, auto_ack=True)
    channel.basic_publish("", queue, b"m", pika.BasicProperties(reply_to="somewhere"))
    assert channel.basic_get(queue)[1].reply_to == "somewhere"


def test_name_for_answers_cannot_be_used_otherwise(channel: Any, queue: str) -> None:
    """SPEC §6.5 direct reply-to: no get from it, no binding to it."""
    Inbox(channel, REPLY_TO, auto_ack=True)
    channel.basic_publish("", queue, b"m", pika.BasicProperties(reply_to=REPLY_TO))
    name = channel.basic_get(queue)[1].reply_to
    for act, *arguments in (("queue_bind", name, "amq.fanout"), ("basic_get", name), ("queue_purge", name)):
        with pytest.raises(ChannelClosedByBroker, match=r"\(404, "):
            getattr(channel.connection.channel(), act)(*arguments)


# Nobody's


def test_get_is_not_bounded_by_prefetch(channel: Any, queue: str) -> None:
    """SPEC §6.4 get: whatever the prefetch count."""
    channel.basic_qos(prefetch_count=1)
    fill(channel, queue, "a", "b")
    for _ in range(2):
        assert channel.basic_get(queue)[0] is not None
    assert get(channel, queue) is None
    assert ready_count(channel, queue) == 0
