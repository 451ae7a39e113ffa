"""amqpstorm against the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from amqpstorm.connection import Connection
from amqpstorm.exception import AMQPChannelError, AMQPMessageError

if TYPE_CHECKING:
    from tests.interop.conftest import Broker, Route, Settlement

Unique = Callable[[], str]
Eventually = Callable[[Callable[[], object]], None]


@pytest.fixture
def connect(broker: Broker, unique: Unique) -> Iterator[Callable[[], Any]]:
    # `unique` deletes after these connections, and with them their exclusive queues, are gone.
    connections = []

    def open_connection() -> Any:
        connections.append(
            Connection(broker.host, broker.username, broker.password, broker.port, virtual_host=broker.vhost, timeout=60)
        )
        return connections[-1]

    yield open_connection
    for connection in connections:
        connection.close()


@pytest.fixture
def connection(connect: Callable[[], Any]) -> Any:
    return connect()


@pytest.fixture
def channel(connection: Any) -> Any:
    """A channel whose publishes return when the message is on its queue."""
    channel = connection.channel()
    channel.confirm_deliveries()
    return channel


@pytest.fixture
def queue(channel: Any, unique: Unique) -> str:
    name: str = channel.queue.declare(unique())["queue"]
    return name


def fill(channel: Any, queue: str, *bodies: str) -> None:
    for body in bodies:
        assert channel.basic.publish(body, queue) is True


def get(channel: Any, queue: str) -> tuple[str, bool] | None:
    """Take a message and return its body and whether it was redelivered."""
    message = channel.basic.get(queue, no_ack=True)
    return message and (message.body, message.redelivered)


def get_all(channel: Any, queue: str) -> list[tuple[str, bool]]:
    return list(iter(lambda: get(channel, queue), None))


def ready_count(channel: Any, queue: str) -> int:
    count: int = channel.queue.declare(queue, passive=True)["message_count"]
    return count


def is_missing(connection: Any, queue: str) -> bool:
    try:
        with connection.channel() as channel:
            channel.queue.declare(queue, passive=True)
    except AMQPChannelError as error:
        return bool(error.error_code == 404)
    return False


class Inbox(list[Any]):
    """Messages of one consumer."""

    def __init__(self, channel: Any, queue: str, **arguments: Any) -> None:
        self.channel = channel
        self.tag = channel.basic.consume(self.append, queue, **arguments)

    def bodies(self) -> list[str]:
        """Return the bodies of what has arrived up to now."""
        self.channel.process_data_events()
        return [message.body for message in self]


# Declaring


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}], ids=str)
def test_queue_is_declared_empty_and_may_be_declared_again(channel: Any, unique: Unique, flags: Any) -> None:
    name = unique()
    for _ in range(2):
        assert channel.queue.declare(name, **flags) == {"queue": name, "message_count": 0, "consumer_count": 0}


def test_broker_names_queues_and_consumers(channel: Any) -> None:
    name = channel.queue.declare(exclusive=True)["queue"]
    assert name.startswith("amq.gen-")
    assert channel.basic.consume(queue=name).startswith("amq.ctag-")


def test_passive_declare_counts_messages_and_consumers(channel: Any, queue: str) -> None:
    fill(channel, queue, "a", "b", "c")
    channel.basic.qos(prefetch_count=2)
    Inbox(channel, queue)
    assert channel.queue.declare(queue, passive=True) == {"queue": queue, "message_count": 1, "consumer_count": 1}


def test_exclusive_queue_ends_with_its_connection(connect: Callable[[], Any], unique: Unique) -> None:
    name, owner, other = unique(), connect(), connect()
    owner.channel().queue.declare(name, exclusive=True)
    owner.close()
    assert is_missing(other, name)


def test_auto_delete_queue_ends_with_its_last_consumer(connection: Any, channel: Any, unique: Unique) -> None:
    name = unique()
    channel.queue.declare(name, auto_delete=True)
    inbox = Inbox(channel, name)
    assert not is_missing(connection, name)
    channel.basic.cancel(inbox.tag)
    assert is_missing(connection, name)


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"auto_delete": True}], ids=str)
@pytest.mark.parametrize("type", ["direct", "fanout", "topic", "headers"])
def test_exchange_may_be_declared_again_and_passively(channel: Any, unique: Unique, type: str, flags: Any) -> None:
    name = unique()
    channel.exchange.declare(name, type, **flags)
    channel.exchange.declare(name, type, **flags)
    channel.exchange.declare(name, passive=True)


def test_exchange_routes_by_its_type(channel: Any, unique: Unique, queue: str, route: Route) -> None:
    name = unique()
    channel.exchange.declare(name, route.type)
    channel.queue.bind(queue, name, route.key, route.arguments)
    channel.basic.publish("m", route.message_key, name, {"headers": route.headers})
    assert get_all(channel, queue) == ([("m", False)] if route.routed else [])


def test_auto_delete_exchange_ends_with_its_last_binding(channel: Any, unique: Unique, queue: str) -> None:
    name = unique()
    channel.exchange.declare(name, auto_delete=True)
    channel.queue.bind(queue, name, "a")
    channel.queue.unbind(queue, name, "a")
    with pytest.raises(AMQPChannelError, match="no exchange"):
        channel.exchange.declare(name, passive=True)


def test_alternate_exchange_takes_what_was_not_routed(channel: Any, unique: Unique, queue: str) -> None:
    main, alternate = unique(), unique()
    channel.exchange.declare(alternate, "fanout")
    channel.exchange.declare(main, "direct", arguments={"alternate-exchange": alternate})
    channel.queue.bind(queue, alternate)
    assert channel.basic.publish("m", "nowhere", main, mandatory=True)
    method = channel.basic.get(queue).method
    assert (method["exchange"], method["routing_key"]) == (main, "nowhere")


def test_unbound_queue_gets_no_more(channel: Any, unique: Unique, queue: str) -> None:
    name = unique()
    channel.exchange.declare(name)
    channel.queue.bind(queue, name, "a")
    channel.queue.bind(queue, name, "b")
    channel.queue.unbind(queue, name, "a")
    for key in "a", "b":
        channel.basic.publish(key, key, name)
    assert get_all(channel, queue) == [("b", False)]


def test_message_passes_from_exchange_to_exchange_once(channel: Any, unique: Unique, queue: str) -> None:
    source, target = unique(), unique()
    channel.exchange.declare(source, "topic")
    channel.exchange.declare(target, "fanout")
    channel.exchange.bind(target, source, "a.#")
    channel.exchange.bind(target, source, "#.b")
    channel.queue.bind(queue, target)
    channel.basic.publish("both", "a.b", source)
    channel.exchange.unbind(target, source, "a.#")
    channel.basic.publish("neither", "a", source)
    assert get_all(channel, queue) == [("both", False)]


# Publishing


def test_unroutable_mandatory_message_is_returned_before_its_confirm(channel: Any, unique: Unique) -> None:
    name = unique()
    with pytest.raises(AMQPMessageError) as caught:
        channel.basic.publish("m", name, mandatory=True)
    assert str(caught.value) == f"Message not delivered: NO_ROUTE (312) to queue '{name}' from exchange ''"
    assert caught.value.error_code == 312


def test_properties_are_carried_through(channel: Any, queue: str, properties: dict[str, Any]) -> None:
    properties["cluster_id"] = ""  # this client refuses to send any other
    properties["message_type"] = properties.pop("type")
    properties["timestamp"] = datetime.fromtimestamp(properties["timestamp"], UTC)
    channel.basic.publish(b"", queue, properties=properties)
    assert channel.basic.get(queue, auto_decode=False).properties == properties


def test_headers_of_all_kinds_are_carried_through(channel: Any, queue: str, headers: dict[str, Any]) -> None:
    headers |= {"bytes": bytearray(b"\x00\xff"), "float": 0.5}
    channel.basic.publish("", queue, properties={"headers": headers})
    assert channel.basic.get(queue, auto_decode=False).properties["headers"] == headers


def test_body_of_any_size_is_carried_through(channel: Any, queue: str, body: bytes) -> None:
    channel.basic.publish(body, queue)
    assert channel.basic.get(queue, auto_decode=False).body == body


# Consuming


def test_settled_messages_go_where_they_should(
    connection: Any, channel: Any, queue: str, settlement: Settlement, eventually: Eventually
) -> None:
    fill(channel, queue, "a", "b", "c", "d")
    consumer = connection.channel()
    consumer.basic.qos(prefetch_count=3)
    inbox = Inbox(consumer, queue)
    eventually(lambda: inbox.bodies() == ["a", "b", "c"])
    consumer.basic.cancel(inbox.tag)
    settle(consumer.basic, settlement)
    assert get_all(consumer, queue) == settlement.ready
    consumer.close()
    assert get_all(channel, queue) == settlement.left


def settle(basic: Any, settlement: Settlement) -> None:
    act, tag, multiple, requeue, *_ = settlement
    match act:
        case "ack":
            basic.ack(tag, multiple)
        case "nack":
            basic.nack(tag, multiple, requeue)
        case "reject":
            basic.reject(tag, requeue)
        case "recover":
            basic.recover(requeue)


def test_get_tells_how_many_messages_are_left(channel: Any, queue: str) -> None:
    fill(channel, queue, "a", "b", "c")
    assert [channel.basic.get(queue).method["message_count"] for _ in range(3)] == [2, 1, 0]
    assert channel.basic.get(queue) is None


def test_prefetch_count_bounds_each_consumer(channel: Any, queue: str, eventually: Eventually) -> None:
    channel.basic.qos(prefetch_count=2)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    fill(channel, queue, *"abcdef")
    assert ready_count(channel, queue) == 2
    eventually(lambda: (first.bodies(), second.bodies()) == (["a", "c"], ["b", "d"]))
    first[0].ack()
    eventually(lambda: first.bodies() == ["a", "c", "e"])


def test_global_prefetch_count_bounds_the_channel(channel: Any, queue: str, eventually: Eventually) -> None:
    channel.basic.qos(prefetch_count=3, global_=True)
    first, second = Inbox(channel, queue), Inbox(channel, queue)
    fill(channel, queue, *"abcdef")
    eventually(lambda: len(first.bodies() + second.bodies()) == 3)
    assert ready_count(channel, queue) == 3
    channel.basic.ack(2, multiple=True)
    eventually(lambda: len(first.bodies() + second.bodies()) == 5)


def test_consumers_take_turns(channel: Any, queue: str, eventually: Eventually) -> None:
    inboxes = [Inbox(channel, queue, no_ack=True) for _ in range(3)]
    fill(channel, queue, *"abcdef")
    eventually(lambda: [inbox.bodies() for inbox in inboxes] == [["a", "d"], ["b", "e"], ["c", "f"]])


def test_cancelled_consumer_gets_no_more(channel: Any, queue: str) -> None:
    inbox = Inbox(channel, queue)
    channel.basic.cancel(inbox.tag)
    fill(channel, queue, "a")
    assert get(channel, queue) == ("a", False)
    assert inbox.bodies() == []


def test_consumer_is_told_when_its_queue_is_deleted(
    connection: Any, channel: Any, queue: str, eventually: Eventually
) -> None:
    inbox = Inbox(channel, queue)
    assert channel.consumer_tags == [inbox.tag]
    connection.channel().queue.delete(queue)
    eventually(lambda: channel.consumer_tags == [])


def test_purge_drops_what_is_ready_and_counts_it(channel: Any, queue: str) -> None:
    fill(channel, queue, "a", "b", "c")
    taken = channel.basic.get(queue)
    assert channel.queue.purge(queue) == {"message_count": 2}
    taken.reject(requeue=True)
    assert get_all(channel, queue) == [("a", True)]


def test_delete_counts_the_messages_it_drops(connection: Any, channel: Any, queue: str) -> None:
    fill(channel, queue, "a", "b")
    assert channel.queue.delete(queue, if_unused=True) == {"message_count": 2}
    assert is_missing(connection, queue)


@pytest.mark.parametrize(("flag", "words"), [("if_unused", "in use"), ("if_empty", "not empty")])
def test_delete_with_a_condition_spares_the_queue(connection: Any, channel: Any, queue: str, flag: str, words: str) -> None:
    fill(channel, queue, "a", "b")
    channel.basic.qos(prefetch_count=1)
    Inbox(channel, queue)
    with pytest.raises(AMQPChannelError, match=f"{words}$") as caught:
        connection.channel().queue.delete(queue, **{flag: True})
    assert caught.value.error_code == 406
    assert ready_count(channel, queue) == 1


# Connections and channels


def test_queue_and_messages_outlive_a_connection(
    connect: Callable[[], Any], connection: Any, channel: Any, queue: str
) -> None:
    fill(channel, queue, "a", "b")
    channel.basic.get(queue)
    connection.close()
    assert get_all(connect().channel(), queue) == [("a", True), ("b", False)]


def test_connection_may_be_opened_again(connection: Any, queue: str) -> None:
    connection.close()
    connection.open()
    assert ready_count(connection.channel(), queue) == 0


def test_channels_of_a_connection_do_not_disturb_each_other(
    connection: Any, channel: Any, unique: Unique, eventually: Eventually
) -> None:
    inboxes = []
    for _ in range(10):
        name, other = unique(), connection.channel()
        other.queue.declare(name)
        fill(channel, name, "a", "b")
        inboxes.append(Inbox(other, name))
    for inbox in inboxes:
        eventually(lambda inbox=inbox: inbox.bodies() == ["a", "b"])  # type: ignore[misc]
        assert [message.delivery_tag for message in inbox] == [1, 2]


def test_channel_error_leaves_the_connection_open(connection: Any, unique: Unique) -> None:
    name = unique()
    with pytest.raises(AMQPChannelError, match=f"NOT_FOUND - no queue '{name}' in vhost '/'") as caught:
        connection.channel().queue.declare(name, passive=True)
    assert caught.value.error_code == 404
    assert connection.channel().queue.declare(name)["queue"] == name
