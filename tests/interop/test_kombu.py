"""kombu, over py-amqp, against the broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from amqp.exceptions import AccessRefused, NotFound, PreconditionFailed
from amqp.spec import Basic

if TYPE_CHECKING:
    from tests.interop.conftest import Broker, Route, Settlement

# Imported so because kombu claims to be typed and is not.
kombu: Any = import_module("kombu")
Unique = Callable[[], str]


@pytest.fixture
def connect(broker: Broker, unique: Unique) -> Iterator[Callable[[], Any]]:
    # `unique` deletes after these connections, and with them their exclusive queues, are gone.
    connections = []

    def open_connection() -> Any:
        # Publishes return when the message is on its queue.
        options = {"confirm_publish": True, "read_timeout": 10, "write_timeout": 10}
        connections.append(kombu.Connection(broker.url, transport_options=options, connect_timeout=60))
        return connections[-1]

    yield open_connection
    for connection in connections:
        connection.release()


@pytest.fixture
def connection(connect: Callable[[], Any]) -> Any:
    return connect()


@pytest.fixture
def channel(connection: Any) -> Any:
    return connection.channel()


@pytest.fixture
def queue(channel: Any, unique: Unique) -> Any:
    return declared(channel, unique())


def declared(channel: Any, name: str, **arguments: Any) -> Any:
    queue = kombu.Queue(name, channel=channel, **{"durable": False, **arguments})
    queue.declare()
    return queue


def exchange(channel: Any, name: str, type: str = "direct", **arguments: Any) -> Any:
    entity = kombu.Exchange(name, type, channel=channel, **{"durable": False, **arguments})
    entity.declare()
    return entity


def publish(channel: Any, body: bytes | str, routing_key: str, exchange: str = "", **arguments: Any) -> None:
    kombu.Producer(channel).publish(body, routing_key, exchange=exchange, confirm_timeout=60, **arguments)


def fill(queue: Any, *bodies: str) -> None:
    for body in bodies:
        publish(queue.channel, body, queue.name)


def get_all(queue: Any) -> list[tuple[str, bool]]:
    """Take all messages and return their bodies and whether they were redelivered."""
    messages = iter(lambda: queue.get(no_ack=True), None)
    return [(message.payload, message.delivery_info["redelivered"]) for message in messages]


def ready_count(queue: Any) -> int:
    count: int = queue.queue_declare(passive=True).message_count
    return count


def is_missing(connection: Any, name: str) -> bool:
    try:
        with connection.channel() as channel:
            kombu.Queue(name, channel=channel).queue_declare(passive=True)
    except NotFound:
        return True
    return False


class Inbox(list[Any]):
    """Messages of one consumer."""

    def __init__(self, queue: Any, **arguments: Any) -> None:
        self.connection = queue.channel.connection.client
        self.consumer = kombu.Consumer(queue.channel, [queue], on_message=self.append, **arguments)
        self.consumer.consume()

    def wait(self, count: int) -> list[str]:
        """Wait for so many messages and return their bodies."""
        run_until(self.connection, lambda: len(self) >= count)
        return [message.payload for message in self]


def run_until(connection: Any, check: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not check():
        connection.drain_events(timeout=deadline - time.monotonic())


# Declaring


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}], ids=str)
def test_queue_is_declared_empty_and_may_be_declared_again(channel: Any, unique: Unique, flags: Any) -> None:
    name = unique()
    declared(channel, name, **flags)
    assert declared(channel, name, **flags).queue_declare(passive=True) == (name, 0, 0)


def test_broker_names_a_queue(channel: Any) -> None:
    assert declared(channel, "", exclusive=True).name.startswith("amq.gen-")


def test_passive_declare_counts_messages_and_consumers(queue: Any) -> None:
    fill(queue, "a", "b", "c")
    Inbox(queue, prefetch_count=2)
    assert queue.queue_declare(passive=True) == (queue.name, 1, 1)


def test_exclusive_queue_ends_with_its_connection(connect: Callable[[], Any], unique: Unique) -> None:
    name, owner = unique(), connect()
    declared(owner.channel(), name, exclusive=True)
    owner.release()
    assert is_missing(connect(), name)


def test_auto_delete_queue_ends_with_its_last_consumer(connection: Any, channel: Any, unique: Unique) -> None:
    queue = declared(channel, unique(), auto_delete=True)
    inbox = Inbox(queue)
    assert not is_missing(connection, queue.name)
    inbox.consumer.cancel()
    assert is_missing(connection, queue.name)


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"auto_delete": True}], ids=str)
@pytest.mark.parametrize("type", ["direct", "fanout", "topic", "headers"])
def test_exchange_may_be_declared_again_and_passively(channel: Any, unique: Unique, type: str, flags: Any) -> None:
    name = unique()
    exchange(channel, name, type, **flags)
    exchange(channel, name, type, **flags).declare(passive=True)


def test_exchange_routes_by_its_type(channel: Any, unique: Unique, queue: Any, route: Route) -> None:
    source = exchange(channel, unique(), route.type)
    queue.bind_to(source, route.key, route.arguments)
    publish(channel, "m", route.message_key, source.name, headers=route.headers)
    assert get_all(queue) == ([("m", False)] if route.routed else [])


def test_auto_delete_exchange_ends_with_its_last_binding(channel: Any, unique: Unique, queue: Any) -> None:
    source = exchange(channel, unique(), auto_delete=True)
    queue.bind_to(source, "a")
    queue.unbind_from(source, "a")
    with pytest.raises(NotFound, match="no exchange"):
        source.declare(passive=True)


def test_alternate_exchange_takes_what_was_not_routed(channel: Any, unique: Unique, queue: Any) -> None:
    alternate = exchange(channel, unique(), "fanout")
    main = exchange(channel, unique(), arguments={"alternate-exchange": alternate.name})
    queue.bind_to(alternate)
    publish(channel, "m", "nowhere", main.name, mandatory=True)
    info = queue.get().delivery_info
    assert (info["exchange"], info["routing_key"]) == (main.name, "nowhere")


def test_unbound_queue_gets_no_more(channel: Any, unique: Unique, queue: Any) -> None:
    source = exchange(channel, unique())
    queue.bind_to(source, "a")
    queue.bind_to(source, "b")
    queue.unbind_from(source, "a")
    for key in "a", "b":
        publish(channel, key, key, source.name)
    assert get_all(queue) == [("b", False)]


def test_message_passes_from_exchange_to_exchange_once(channel: Any, unique: Unique, queue: Any) -> None:
    source, target = exchange(channel, unique(), "topic"), exchange(channel, unique(), "fanout")
    target.bind_to(source, "a.#")
    target.bind_to(source, "#.b")
    queue.bind_to(target)
    publish(channel, "both", "a.b", source.name)
    target.unbind_from(source, "a.#")
    publish(channel, "neither", "a", source.name)
    assert get_all(queue) == [("both", False)]


# Publishing


def test_unroutable_mandatory_message_is_returned_before_its_confirm(channel: Any, unique: Unique) -> None:
    name = unique()
    events: list[Any] = []
    channel.events["basic_ack"].add(lambda *_: events.append("ack"))
    producer = kombu.Producer(channel, on_return=lambda *returned: events.append(returned))
    producer.publish("m", name, mandatory=True, confirm_timeout=60)
    (error, source, key, message), ack = events
    assert (error.reply_code, error.reply_text, source, key) == (312, "NO_ROUTE", "", name)
    assert message.body == "m"
    assert ack == "ack"


def test_properties_are_carried_through(channel: Any, queue: Any, properties: dict[str, Any]) -> None:
    publish(channel, b"", queue.name, **{**properties, "expiration": 60.0})
    properties["application_headers"] = properties.pop("headers")
    assert queue.get().properties == properties


def test_headers_of_all_kinds_are_carried_through(channel: Any, queue: Any, headers: dict[str, Any]) -> None:
    headers |= {"time": headers["time"].replace(tzinfo=None), "double": 0.1}
    publish(channel, b"", queue.name, headers=headers)
    assert queue.get().headers == headers


def test_body_of_any_size_is_carried_through(channel: Any, queue: Any, body: bytes) -> None:
    publish(channel, body, queue.name)
    assert (queue.get().body or b"") == body


# Consuming


def test_settled_messages_go_where_they_should(connection: Any, queue: Any, settlement: Settlement) -> None:
    fill(queue, "a", "b", "c", "d")
    consumed = queue.bind(connection.channel())
    inbox = Inbox(consumed, prefetch_count=3)
    assert inbox.wait(3) == ["a", "b", "c"]
    inbox.consumer.cancel()
    settle(consumed.channel, settlement)
    assert get_all(consumed) == settlement.ready
    consumed.channel.close()
    assert get_all(queue) == settlement.left


def settle(channel: Any, settlement: Settlement) -> None:
    act, tag, multiple, requeue, *_ = settlement
    match act:
        case "ack":
            channel.basic_ack(tag, multiple)
        case "nack":  # py-amqp has no function for it
            channel.send_method(Basic.Nack, "Lbb", (tag, multiple, requeue))
        case "reject":
            channel.basic_reject(tag, requeue)
        case "recover":
            channel.basic_recover(requeue)


def test_get_tells_how_many_messages_are_left(queue: Any) -> None:
    fill(queue, "a", "b", "c")
    assert [queue.get().delivery_info["message_count"] for _ in range(3)] == [2, 1, 0]
    assert queue.get() is None


def test_prefetch_count_bounds_each_consumer(queue: Any) -> None:
    first, second = Inbox(queue, prefetch_count=2), Inbox(queue)
    fill(queue, *"abcdef")
    assert ready_count(queue) == 2
    assert first.wait(2) + second.wait(2) == ["a", "c", "b", "d"]
    first[0].ack()
    assert first.wait(3) == ["a", "c", "e"]


def test_global_prefetch_count_bounds_the_channel(connection: Any, queue: Any) -> None:
    queue.channel.basic_qos(0, 3, True)
    first, second = Inbox(queue), Inbox(queue)
    fill(queue, *"abcdef")
    run_until(connection, lambda: len(first) + len(second) == 3)
    assert ready_count(queue) == 3
    queue.channel.basic_ack(2, multiple=True)
    run_until(connection, lambda: len(first) + len(second) == 5)


def test_consumers_take_turns(queue: Any) -> None:
    inboxes = [Inbox(queue, no_ack=True) for _ in range(3)]
    fill(queue, *"abcdef")
    assert [inbox.wait(2) for inbox in inboxes] == [["a", "d"], ["b", "e"], ["c", "f"]]


def test_cancelled_consumer_gets_no_more(queue: Any) -> None:
    inbox = Inbox(queue)
    inbox.consumer.cancel()
    fill(queue, "a")
    assert get_all(queue) == [("a", False)]
    assert inbox == []


def test_consumer_is_told_when_its_queue_is_deleted(connection: Any, channel: Any, queue: Any) -> None:
    cancelled: list[str] = []
    tag = channel.basic_consume(queue.name, consumer_tag="mine", on_cancel=cancelled.append)
    queue.bind(connection.channel()).delete()
    run_until(connection, lambda: cancelled)
    assert cancelled == ["mine"] == [getattr(tag, "consumer_tag", tag)]


def test_purge_drops_what_is_ready_and_counts_it(queue: Any) -> None:
    fill(queue, "a", "b", "c")
    taken = queue.get()
    assert queue.purge() == 2
    taken.requeue()
    assert get_all(queue) == [("a", True)]


def test_delete_counts_the_messages_it_drops(connection: Any, queue: Any) -> None:
    fill(queue, "a", "b")
    assert queue.delete(if_unused=True) == 2
    assert is_missing(connection, queue.name)


@pytest.mark.parametrize(("flag", "words"), [("if_unused", "in use"), ("if_empty", "not empty")])
def test_delete_with_a_condition_spares_the_queue(connection: Any, queue: Any, flag: str, words: str) -> None:
    fill(queue, "a", "b")
    Inbox(queue, prefetch_count=1)
    with pytest.raises(PreconditionFailed, match=words) as caught:
        queue.bind(connection.channel()).delete(**{flag: True})
    assert (caught.value.reply_code, caught.value.method_sig) == (406, (50, 40))
    assert ready_count(queue) == 1


# Connections and channels


def test_queue_and_messages_outlive_a_connection(connect: Callable[[], Any], connection: Any, queue: Any) -> None:
    fill(queue, "a", "b")
    queue.get()
    connection.release()
    assert get_all(queue.bind(connect().channel())) == [("a", True), ("b", False)]


def test_channels_of_a_connection_do_not_disturb_each_other(connection: Any, unique: Unique) -> None:
    queues = [declared(connection.channel(), unique()) for _ in range(10)]
    for queue in queues:
        fill(queue, "a", "b")
    inboxes = [Inbox(queue) for queue in queues]
    for inbox in inboxes:
        assert inbox.wait(2) == ["a", "b"]
        assert [message.delivery_tag for message in inbox] == [1, 2]


def test_channel_error_leaves_the_connection_open(connection: Any, channel: Any, unique: Unique) -> None:
    name = unique()
    with pytest.raises(NotFound, match=f"NOT_FOUND - no queue '{name}' in vhost '/'") as caught:
        kombu.Queue(name, channel=channel).queue_declare(passive=True)
    assert (caught.value.reply_code, caught.value.method_sig) == (404, (50, 10))
    assert declared(connection.channel(), name).name == name


def test_refused_login_is_explained(broker: Broker) -> None:
    with pytest.raises(AccessRefused, match="Login was refused using authentication mechanism PLAIN"):
        kombu.Connection(replace(broker, password="wrong").url, connect_timeout=60).connect()
