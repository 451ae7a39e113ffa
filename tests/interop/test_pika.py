"""pika's BlockingConnection against the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError
from tests.interop.support import Inbox, fill, get, get_all, is_missing, ready_count, run_until

if TYPE_CHECKING:
    from tests.interop.conftest import Route, Settlement

Unique = Callable[[], str]


# Declaring


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}], ids=str)
def test_queue_is_declared_empty_and_may_be_declared_again(channel: Any, unique: Unique, flags: Any) -> None:
    """SPEC §4.1 durable, SPEC §4.1 equivalence check: the same again is fine."""
    name = unique()
    for _ in range(2):
        declared = channel.queue_declare(name, **flags).method
        assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 0)


def test_broker_names_a_queue_and_remembers_the_name(channel: Any) -> None:
    """SPEC §4.1 server-named."""
    name = channel.queue_declare("", exclusive=True).method.queue
    assert name.startswith("amq.gen-")
    fill(channel, name, "a")
    assert get(channel, "") == ("a", False)


def test_passive_declare_counts_messages_and_consumers(channel: Any, queue: str) -> None:
    """SPEC §4.1 passive declare."""
    fill(channel, queue, "a", "b", "c")
    channel.basic_qos(prefetch_count=2)
    Inbox(channel, queue)
    declared = channel.queue_declare(queue, passive=True).method
    assert (declared.message_count, declared.consumer_count) == (1, 1)


def test_exclusive_queue_ends_with_its_connection(connect: Callable[[], Any], unique: Unique) -> None:
    """SPEC §4.1 exclusive: to its connection."""
    name, owner, other = unique(), connect(), connect()
    owner.channel().queue_declare(name, exclusive=True)
    owner.close()
    assert is_missing(other, name)


def test_auto_delete_queue_ends_with_its_last_consumer(channel: Any, unique: Unique) -> None:
    """SPEC §4.1 auto-delete: after its last consumer."""
    name = unique()
    channel.queue_declare(name, auto_delete=True)
    first, second = Inbox(channel, name), Inbox(channel, name)
    channel.basic_cancel(first.tag)
    assert not is_missing(channel.connection, name)
    channel.basic_cancel(second.tag)
    assert is_missing(channel.connection, name)


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"auto_delete": True}, {"internal": True}], ids=str)
@pytest.mark.parametrize("type", ["direct", "fanout", "topic", "headers"])
def test_exchange_may_be_declared_again_and_passively(channel: Any, unique: Unique, type: str, flags: Any) -> None:
    """SPEC §3.3 durable."""
    name = unique()
    channel.exchange_declare(name, type, **flags)
    channel.exchange_declare(name, type, **flags)
    channel.exchange_declare(name, passive=True)


def test_exchange_routes_by_its_type(channel: Any, unique: Unique, queue: str, route: Route) -> None:
    name = unique()
    channel.exchange_declare(name, route.type)
    channel.queue_bind(queue, name, route.key, route.arguments)
    channel.basic_publish(name, route.message_key, b"m", pika.BasicProperties(headers=route.headers))
    assert get_all(channel, queue) == ([("m", False)] if route.routed else [])


@pytest.mark.parametrize(
    ("name", "type", "internal"),
    [
        ("amq.direct", "direct", False),  # SPEC §3.2 amq.direct
        ("amq.fanout", "fanout", False),  # SPEC §3.2 amq.fanout
        ("amq.topic", "topic", False),  # SPEC §3.2 amq.topic
        ("amq.headers", "headers", False),  # SPEC §3.2 amq.headers
        ("amq.match", "headers", False),  # SPEC §3.2 amq.match
        ("amq.rabbitmq.trace", "topic", True),  # SPEC §3.2 amq.rabbitmq.trace
    ],
)
def test_exchange_is_predeclared(channel: Any, name: str, type: str, internal: bool) -> None:
    channel.exchange_declare(name, passive=True)
    channel.exchange_declare(name, type, durable=True, internal=internal)


def test_default_exchange_leads_to_the_queue_of_that_name(channel: Any, queue: str) -> None:
    """SPEC §3.2 default exchange."""
    channel.basic_publish("", queue, b"m", mandatory=True)
    assert get(channel, queue) == ("m", False)


def test_exchanges_in_a_circle_route_once(channel: Any, unique: Unique, queue: str) -> None:
    """SPEC §3.4 cycles, SPEC §3.4 any depth."""
    names = [unique() for _ in range(20)]
    for name in names:
        channel.exchange_declare(name, "fanout")
    for name, following in zip(names, names[1:] + names[:1], strict=True):
        channel.exchange_bind(following, name)
    channel.queue_bind(queue, names[-1])
    channel.basic_publish(names[0], "", b"m", mandatory=True)
    assert get_all(channel, queue) == [("m", False)]


def test_auto_delete_exchange_ends_with_its_last_binding(channel: Any, unique: Unique, queue: str) -> None:
    """SPEC §3.3 auto-delete."""
    name = unique()
    channel.exchange_declare(name, auto_delete=True)
    channel.queue_bind(queue, name, "a")
    channel.queue_unbind(queue, name, "a")
    with pytest.raises(ChannelClosedByBroker, match="no exchange"):
        channel.exchange_declare(name, passive=True)


def test_alternate_exchange_takes_what_was_not_routed(channel: Any, unique: Unique, queue: str) -> None:
    """SPEC §3.3 alternate-exchange as an argument."""
    main, alternate = unique(), unique()
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(main, "direct", arguments={"alternate-exchange": alternate})
    channel.queue_bind(queue, alternate)
    channel.basic_publish(main, "nowhere", b"m", mandatory=True)
    method, _, _ = channel.basic_get(queue)
    assert (method.exchange, method.routing_key) == (main, "nowhere")


def test_unbound_queue_gets_no_more(channel: Any, unique: Unique, queue: str) -> None:
    name = unique()
    channel.exchange_declare(name)
    channel.queue_bind(queue, name, "a")
    channel.queue_bind(queue, name, "b")
    channel.queue_unbind(queue, name, "a")
    channel.queue_unbind(queue, name, "never bound")
    for key in "a", "b":
        channel.basic_publish(name, key, key.encode())
    assert get_all(channel, queue) == [("b", False)]


def test_message_passes_from_exchange_to_internal_exchange_once(channel: Any, unique: Unique, queue: str) -> None:
    """SPEC §3.4 exchange to exchange, SPEC §3.4 at most once and SPEC §3.3 internal."""
    source, target = unique(), unique()
    channel.exchange_declare(source, "topic")
    channel.exchange_declare(target, "fanout", internal=True)
    channel.exchange_bind(target, source, "a.#")
    channel.exchange_bind(target, source, "#.b")
    channel.queue_bind(queue, target)
    channel.basic_publish(source, "a.b", b"both")
    channel.exchange_unbind(target, source, "a.#")
    channel.basic_publish(source, "a", b"neither")
    assert get_all(channel, queue) == [("both", False)]


# Publishing


def test_publish_is_confirmed(channel: Any, queue: str) -> None:
    """SPEC §5.2 one ack for each message."""
    channel.basic_publish("", queue, b"m", pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert get(channel, queue) == ("m", False)


def test_unroutable_message_is_dropped_and_confirmed(channel: Any, unique: Unique) -> None:
    channel.basic_publish("", unique(), b"m")


def test_unroutable_mandatory_message_is_returned_before_its_confirm(
    channel: Any, unique: Unique, properties: dict[str, Any]
) -> None:
    """SPEC §5.1 mandatory."""
    name = unique()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", name, b"body", pika.BasicProperties(**properties), mandatory=True)
    (returned,) = caught.value.messages
    method = returned.method
    assert (method.reply_code, method.reply_text, method.exchange, method.routing_key) == (312, "NO_ROUTE", "", name)
    assert returned.body == b"body"
    assert vars(returned.properties) == properties


def test_properties_are_carried_through(channel: Any, queue: str, properties: dict[str, Any]) -> None:
    """SPEC §2.1: all fourteen, and none."""
    channel.basic_publish("", queue, b"", pika.BasicProperties(**properties))
    channel.basic_publish("", queue, b"")
    assert vars(channel.basic_get(queue)[1]) == properties
    assert set(vars(channel.basic_get(queue)[1]).values()) == {None}


def test_headers_of_all_kinds_are_carried_through(channel: Any, queue: str, headers: dict[str, Any]) -> None:
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers=headers))
    assert channel.basic_get(queue)[1].headers == headers


def test_body_of_any_size_is_carried_through(channel: Any, queue: str, body: bytes) -> None:
    channel.basic_publish("", queue, body)
    assert channel.basic_get(queue)[2] == body


# Consuming


def test_delivery_tells_where_the_message_came_from(channel: Any, queue: str) -> None:
    channel.queue_bind(queue, "amq.direct", queue)
    inbox = Inbox(channel, queue, consumer_tag="mine")
    channel.basic_publish("amq.direct", queue, b"m")
    inbox.wait(1)
    method = inbox[0][0]
    assert (method.consumer_tag, method.delivery_tag, method.redelivered) == ("mine", 1, False)
    assert (method.exchange, method.routing_key) == ("amq.direct", queue)


def test_settled_messages_go_where_they_should(channel: Any, queue: str, settlement: Settlement) -> None:
    """SPEC §6.3 ack, SPEC §6.3 nack, SPEC §6.3 reject, SPEC §6.3 multiple, SPEC §6.3 requeue, SPEC §6.3 tag 0, SPEC §6.4
    recover."""
    consumer = channel.connection.channel()
    fill(channel, queue, "a", "b", "c", "d")
    consumer.basic_qos(prefetch_count=3)
    inbox = Inbox(consumer, queue)
    assert inbox.wait(3) == ["a", "b", "c"]
    consumer.basic_cancel(inbox.tag)
    settle(consumer, settlement)
    assert get_all(consumer, queue) == settlement.ready
    consumer.close()
    assert get_all(channel, queue) == settlement.left


def settle(channel: Any, settlement: Settlement) -> None:
    act, tag, multiple, requeue, *_ = settlement
    match act:
        case "ack":
            channel.basic_ack(tag, multiple)
        case "nack":
            channel.basic_nack(tag, multiple, requeue)
        case "reject":
            channel.basic_reject(tag, requeue)
        case "recover":
            channel.basic_recover(requeue)


def test_get_tells_how_many_messages_are_left(channel: Any, queue: str) -> None:
    """SPEC §6.4 remaining count and SPEC §6.4 get-empty."""
    fill(channel, queue, "a", "b", "c")
    counts = [channel.basic_get(queue)[0].message_count for _ in range(3)]
    assert counts == [2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_prefetch_count_bounds_each_consumer(channel: Any, queue: str) -> None:
    """SPEC §6.2 prefetch-count for a consumer."""
    channel.basic_qos(prefetch_count=2)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    fill(channel, queue, *"abcdef")
    assert ready_count(channel, queue) == 2
    assert first.wait(2) + second.wait(2) == ["a", "c", "b", "d"]
    channel.basic_ack(first[0][0].delivery_tag)
    assert first.wait(3) == ["a", "c", "e"]


def test_global_prefetch_count_bounds_the_channel(channel: Any, queue: str) -> None:
    """SPEC §6.2 prefetch-count for a channel."""
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    fill(channel, queue, *"abcdef")
    run_until(channel, lambda: len(first) + len(second) == 3)
    assert ready_count(channel, queue) == 3
    channel.basic_ack(2, multiple=True)
    run_until(channel, lambda: len(first) + len(second) == 5)
    assert ready_count(channel, queue) == 1


def test_prefetch_count_does_not_bound_a_consumer_without_acks(channel: Any, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    fill(channel, queue, "a", "b", "c")
    assert Inbox(channel, queue, auto_ack=True).wait(3) == ["a", "b", "c"]


def test_prefetch_size_bounds_the_bytes_of_a_consumer(channel: Any, queue: str) -> None:
    """SPEC §6.2 prefetch-size for a consumer."""
    fill(channel, queue, "aaaaa", "bbbbb", "c", "d")
    channel.basic_qos(prefetch_size=10)
    inbox = Inbox(channel, queue)
    assert inbox.wait(2) == ["aaaaa", "bbbbb"]
    assert ready_count(channel, queue) == 2
    channel.basic_ack(1)
    assert inbox.wait(4) == ["aaaaa", "bbbbb", "c", "d"]


def test_prefetch_size_lets_one_larger_message_through(channel: Any, queue: str) -> None:
    """SPEC §6.2 larger than the window."""
    fill(channel, queue, "a" * 100, "b")
    channel.basic_qos(prefetch_size=10)
    inbox = Inbox(channel, queue)
    assert inbox.wait(1) == ["a" * 100]
    assert ready_count(channel, queue) == 1


def test_prefetch_size_bounds_the_bytes_of_a_channel(channel: Any, queue: str) -> None:
    """SPEC §6.2 prefetch-size for a channel: with global, all its consumers share it."""
    channel.basic_qos(prefetch_size=10, global_qos=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    fill(channel, queue, "aaaaa", "bbbbb", "c")
    assert first.wait(1) + second.wait(1) == ["aaaaa", "bbbbb"]
    assert ready_count(channel, queue) == 1
    channel.basic_ack(1)
    run_until(channel, lambda: len(first) + len(second) == 3)


def test_prefetch_size_does_not_bound_a_consumer_without_acks(channel: Any, queue: str) -> None:
    """SPEC §6.2 prefetch-size and no-ack."""
    channel.basic_qos(prefetch_size=1)
    fill(channel, queue, "aaa", "bbb", "ccc")
    assert Inbox(channel, queue, auto_ack=True).wait(3) == ["aaa", "bbb", "ccc"]


def test_consumers_take_turns(channel: Any, queue: str) -> None:
    """SPEC §6.1 round-robin."""
    inboxes = [Inbox(channel, queue, auto_ack=True) for _ in range(3)]
    fill(channel, queue, *"abcdefghi")
    assert [inbox.wait(3) for inbox in inboxes] == [["a", "d", "g"], ["b", "e", "h"], ["c", "f", "i"]]


def test_cancelled_consumer_gets_no_more(channel: Any, queue: str) -> None:
    """SPEC §6.1 cancel by the client."""
    inbox = Inbox(channel, queue)
    channel.basic_cancel(inbox.tag)
    fill(channel, queue, "a")
    assert get(channel, queue) == ("a", False)
    assert inbox == []


def test_consumer_is_told_when_its_queue_is_deleted(channel: Any, queue: str) -> None:
    """SPEC §6.1 cancel by the broker."""
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(channel, queue)
    channel.connection.channel().queue_delete(queue)
    run_until(channel, lambda: cancelled)
    assert cancelled == [inbox.tag]


def test_purge_drops_what_is_ready_and_counts_it(channel: Any, queue: str) -> None:
    """SPEC §4.1 purge."""
    fill(channel, queue, "a", "b", "c")
    channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_reject(1, requeue=True)
    assert get_all(channel, queue) == [("a", True)]


def test_delete_counts_the_messages_it_drops(channel: Any, queue: str) -> None:
    fill(channel, queue, "a", "b")
    assert channel.queue_delete(queue, if_unused=True).method.message_count == 2
    assert is_missing(channel.connection, queue)


def test_delete_if_empty_and_unused_deletes_such_a_queue(channel: Any, queue: str) -> None:
    channel.queue_delete(queue, if_unused=True, if_empty=True)
    assert is_missing(channel.connection, queue)


def test_delete_of_what_is_not_there_succeeds(channel: Any, unique: Unique) -> None:
    assert channel.queue_delete(unique()).method.message_count == 0
    channel.exchange_delete(unique())


@pytest.mark.parametrize("flag", ["if_unused", "if_empty"])
def test_delete_with_a_condition_spares_the_queue(channel: Any, queue: str, flag: str) -> None:
    """SPEC §4.1 if-unused and SPEC §4.1 if-empty."""
    fill(channel, queue, "a", "b")
    channel.basic_qos(prefetch_count=1)
    Inbox(channel, queue)
    other = channel.connection.channel()
    with pytest.raises(ChannelClosedByBroker, match=r"\(406, .*(in use|not empty)"):
        other.queue_delete(queue, **{flag: True})
    assert ready_count(channel, queue) == 1


def test_exchange_delete_if_unused_spares_a_bound_exchange(channel: Any, unique: Unique, queue: str) -> None:
    name = unique()
    channel.exchange_declare(name)
    channel.queue_bind(queue, name, "a")
    with pytest.raises(ChannelClosedByBroker, match="in use"):
        channel.connection.channel().exchange_delete(name, if_unused=True)
    channel.queue_unbind(queue, name, "a")
    channel.exchange_delete(name, if_unused=True)


# Connections and channels


def test_queue_and_messages_outlive_a_connection(connect: Callable[[], Any], channel: Any, queue: str) -> None:
    fill(channel, queue, "a", "b")
    channel.basic_get(queue)
    channel.connection.close()
    assert get_all(connect().channel(), queue) == [("a", True), ("b", False)]


def test_channels_of_a_connection_do_not_disturb_each_other(channel: Any, unique: Unique) -> None:
    channels = [channel.connection.channel() for _ in range(20)]
    names = [unique() for _ in channels]
    for each, name in zip(channels, names, strict=True):
        each.queue_declare(name)
        fill(channel, name, "a", "b")
    inboxes = [Inbox(each, name) for each, name in zip(channels, names, strict=True)]
    for inbox in inboxes:
        assert inbox.wait(2) == ["a", "b"]
        assert [method.delivery_tag for method, _ in inbox] == [1, 2]


def test_channel_number_is_free_again_after_close(channel: Any) -> None:
    connection = channel.connection
    for _ in range(3):
        again = connection.channel(7)
        again.basic_qos(prefetch_count=1)
        again.close()
