"""aio-pika against the broker."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed, PublishError
from aiormq import spec

if TYPE_CHECKING:
    from tests.interop.conftest import Broker, Route, Settlement

Unique = Callable[[], str]


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(20):
                await test(**fixtures)

        asyncio.run(bounded())

    return run


@asynccontextmanager
async def connected(broker: Broker) -> AsyncIterator[AbstractConnection]:
    async with await aio_pika.connect(broker.url, timeout=60) as connection:
        yield connection


@asynccontextmanager
async def opened(broker: Broker) -> AsyncIterator[AbstractChannel]:
    """Open a channel whose publishes return when the message is on its queue."""
    async with connected(broker) as connection, connection.channel(on_return_raises=True) as channel:
        yield channel


@asynccontextmanager
async def with_queue(broker: Broker, unique: Unique) -> AsyncIterator[tuple[AbstractChannel, AbstractQueue]]:
    async with opened(broker) as channel:
        yield channel, await channel.declare_queue(unique())


async def fill(channel: AbstractChannel, queue: AbstractQueue, *bodies: str) -> None:
    for body in bodies:
        await channel.default_exchange.publish(Message(body.encode()), queue.name)


async def get_all(queue: AbstractQueue) -> list[tuple[str, bool | None]]:
    """Take all messages and return their bodies and whether they were redelivered."""
    taken = []
    while message := await queue.get(no_ack=True, fail=False):
        taken.append((message.body.decode(), message.redelivered))
    return taken


async def ready_count(channel: AbstractChannel, queue: AbstractQueue) -> int | None:
    again = await channel.declare_queue(queue.name, passive=True)
    return again.declaration_result.message_count


async def is_missing(connection: AbstractConnection, name: str) -> bool:
    try:
        async with connection.channel() as channel:
            await channel.declare_queue(name, passive=True)
    except ChannelNotFoundEntity:
        return True
    return False


async def until(check: Callable[[], object]) -> None:
    """Wait for what arrives; `in_loop` bounds the time."""
    while not check():
        await asyncio.sleep(0.005)


class Inbox(list[AbstractIncomingMessage]):
    """Messages of one consumer."""

    tag: str

    @classmethod
    async def of(cls, queue: AbstractQueue, **arguments: Any) -> Inbox:
        inbox = cls()
        inbox.tag = await queue.consume(inbox._on_message, **arguments)
        return inbox

    async def _on_message(self, message: AbstractIncomingMessage) -> None:
        self.append(message)

    async def wait(self, count: int) -> list[str]:
        """Wait for so many messages and return their bodies."""
        await until(lambda: len(self) >= count)
        return [message.body.decode() for message in self]


# Declaring


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"exclusive": True}, {"auto_delete": True}], ids=str)
@in_loop
async def test_queue_is_declared_empty_and_may_be_declared_again(broker: Broker, unique: Unique, flags: Any) -> None:
    name = unique()
    async with opened(broker) as channel:
        for _ in range(2):
            declared = (await channel.declare_queue(name, **flags)).declaration_result
            assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 0)


@in_loop
async def test_broker_names_a_queue(broker: Broker) -> None:
    async with opened(broker) as channel:
        queue = await channel.declare_queue(exclusive=True)
        assert queue.name.startswith("amq.gen-")


@in_loop
async def test_passive_declare_counts_messages_and_consumers(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await fill(channel, queue, "a", "b", "c")
        await channel.set_qos(prefetch_count=2)
        await Inbox.of(queue)
        declared = (await channel.declare_queue(queue.name, passive=True)).declaration_result
        assert (declared.message_count, declared.consumer_count) == (1, 1)


@in_loop
async def test_exclusive_queue_ends_with_its_connection(broker: Broker, unique: Unique) -> None:
    name = unique()
    async with opened(broker) as channel:
        await channel.declare_queue(name, exclusive=True)
    async with connected(broker) as connection:
        assert await is_missing(connection, name)


@in_loop
async def test_auto_delete_queue_ends_with_its_last_consumer(broker: Broker, unique: Unique) -> None:
    async with connected(broker) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(unique(), auto_delete=True)
        inbox = await Inbox.of(queue)
        assert not await is_missing(connection, queue.name)
        await queue.cancel(inbox.tag)
        assert await is_missing(connection, queue.name)


@pytest.mark.parametrize("flags", [{}, {"durable": True}, {"auto_delete": True}, {"internal": True}], ids=str)
@pytest.mark.parametrize("type", ["direct", "fanout", "topic", "headers"])
@in_loop
async def test_exchange_may_be_declared_again_and_passively(broker: Broker, unique: Unique, type: str, flags: Any) -> None:
    name = unique()
    async with opened(broker) as channel:
        await channel.declare_exchange(name, type, **flags)
        await channel.declare_exchange(name, type, **flags)
        await channel.declare_exchange(name, passive=True)


@in_loop
async def test_exchange_routes_by_its_type(broker: Broker, unique: Unique, route: Route) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        exchange = await channel.declare_exchange(unique(), route.type)
        await queue.bind(exchange, route.key, arguments=route.arguments)
        await exchange.publish(Message(b"m", headers=route.headers), route.message_key, mandatory=False)
        assert await get_all(queue) == ([("m", False)] if route.routed else [])


@in_loop
async def test_auto_delete_exchange_ends_with_its_last_binding(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        exchange = await channel.declare_exchange(unique(), auto_delete=True)
        await queue.bind(exchange, "a")
        await queue.unbind(exchange, "a")
        with pytest.raises(ChannelNotFoundEntity, match="no exchange"):
            await channel.declare_exchange(exchange.name, passive=True)


@in_loop
async def test_alternate_exchange_takes_what_was_not_routed(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        alternate = await channel.declare_exchange(unique(), "fanout")
        main = await channel.declare_exchange(unique(), arguments={"alternate-exchange": alternate.name})
        await queue.bind(alternate)
        await main.publish(Message(b"m"), "nowhere", mandatory=True)
        message = await queue.get()
        assert (message.exchange, message.routing_key) == (main.name, "nowhere")


@in_loop
async def test_unbound_queue_gets_no_more(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        exchange = await channel.declare_exchange(unique())
        await queue.bind(exchange, "a")
        await queue.bind(exchange, "b")
        await queue.unbind(exchange, "a")
        for key in "a", "b":
            await exchange.publish(Message(key.encode()), key, mandatory=False)
        assert await get_all(queue) == [("b", False)]


@in_loop
async def test_message_passes_from_exchange_to_internal_exchange_once(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        source = await channel.declare_exchange(unique(), "topic")
        target = await channel.declare_exchange(unique(), "fanout", internal=True)
        await target.bind(source, "a.#")
        await target.bind(source, "#.b")
        await queue.bind(target)
        await source.publish(Message(b"both"), "a.b")
        await target.unbind(source, "a.#")
        await source.publish(Message(b"neither"), "a", mandatory=False)
        assert await get_all(queue) == [("both", False)]


# Publishing


@in_loop
async def test_unroutable_mandatory_message_is_returned_before_its_confirm(broker: Broker, unique: Unique) -> None:
    name = unique()
    async with opened(broker) as channel:
        with pytest.raises(PublishError) as caught:
            await channel.default_exchange.publish(Message(b"m"), name, mandatory=True)
    assert caught.value.message is not None
    delivery = caught.value.message.delivery
    assert isinstance(delivery, spec.Basic.Return)
    assert (delivery.reply_code, delivery.reply_text) == (312, "NO_ROUTE")
    assert (delivery.exchange, delivery.routing_key) == ("", name)
    assert caught.value.message.body == b"m"


@in_loop
async def test_many_publishes_at_once_are_all_confirmed(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        bodies = [str(number) for number in range(500)]
        await asyncio.gather(*(fill(channel, queue, body) for body in bodies))
        assert sorted(await get_all(queue)) == sorted((body, False) for body in bodies)


@in_loop
async def test_properties_are_carried_through(broker: Broker, unique: Unique, properties: dict[str, Any]) -> None:
    del properties["cluster_id"]  # which this client does not send
    properties |= {"expiration": 60.0, "timestamp": datetime.fromtimestamp(properties["timestamp"], UTC)}
    async with with_queue(broker, unique) as (channel, queue):
        await channel.default_exchange.publish(Message(b"", **properties), queue.name)
        message = await queue.get()
    assert {name: getattr(message, name) for name in properties} == properties


@in_loop
async def test_headers_of_all_kinds_are_carried_through(broker: Broker, unique: Unique, headers: dict[str, Any]) -> None:
    headers |= {"bytes": bytearray(b"\x00\xff"), "float": 0.5}
    async with with_queue(broker, unique) as (channel, queue):
        await channel.default_exchange.publish(Message(b"", headers=headers), queue.name)
        assert (await queue.get()).headers == headers


@in_loop
async def test_body_of_any_size_is_carried_through(broker: Broker, unique: Unique, body: bytes) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await channel.default_exchange.publish(Message(body), queue.name)
        assert (await queue.get()).body == body


# Consuming


@in_loop
async def test_settled_messages_go_where_they_should(broker: Broker, unique: Unique, settlement: Settlement) -> None:
    async with connected(broker) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(unique())
        await fill(channel, queue, "a", "b", "c", "d")
        async with connection.channel() as consumer:
            await consumer.set_qos(prefetch_count=3)
            consumed = await consumer.get_queue(queue.name)
            inbox = await Inbox.of(consumed)
            assert await inbox.wait(3) == ["a", "b", "c"]
            await consumed.cancel(inbox.tag)
            await settle(consumer, settlement)
            assert await get_all(consumed) == settlement.ready
        assert await get_all(queue) == settlement.left


async def settle(channel: AbstractChannel, settlement: Settlement) -> None:
    act, tag, multiple, requeue, *_ = settlement
    underlay = await channel.get_underlay_channel()
    match act:
        case "ack":
            await underlay.basic_ack(tag, multiple)
        case "nack":
            await underlay.basic_nack(tag, multiple, requeue)
        case "reject":
            await underlay.basic_reject(tag, requeue=requeue)
        case "recover":
            await underlay.basic_recover(requeue=requeue)


@in_loop
async def test_get_tells_how_many_messages_are_left(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await fill(channel, queue, "a", "b", "c")
        assert [(await queue.get()).message_count for _ in range(3)] == [2, 1, 0]
        assert await queue.get(fail=False) is None


@in_loop
async def test_prefetch_count_bounds_each_consumer(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await channel.set_qos(prefetch_count=2)
        first, second = await Inbox.of(queue), await Inbox.of(queue)
        await fill(channel, queue, *"abcdef")
        assert await ready_count(channel, queue) == 2
        assert await first.wait(2) + await second.wait(2) == ["a", "c", "b", "d"]
        await first[0].ack()
        assert await first.wait(3) == ["a", "c", "e"]


@in_loop
async def test_global_prefetch_count_bounds_the_channel(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await channel.set_qos(prefetch_count=3, global_=True)
        first, second = await Inbox.of(queue), await Inbox.of(queue)
        await fill(channel, queue, *"abcdef")
        await until(lambda: len(first) + len(second) == 3)
        assert await ready_count(channel, queue) == 3
        await (await channel.get_underlay_channel()).basic_ack(2, multiple=True)
        await until(lambda: len(first) + len(second) == 5)


@in_loop
async def test_consumers_take_turns(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        inboxes = [await Inbox.of(queue, no_ack=True) for _ in range(3)]
        await fill(channel, queue, *"abcdef")
        assert [await inbox.wait(2) for inbox in inboxes] == [["a", "d"], ["b", "e"], ["c", "f"]]


@in_loop
async def test_cancelled_consumer_gets_no_more(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        inbox = await Inbox.of(queue)
        await queue.cancel(inbox.tag)
        await fill(channel, queue, "a")
        assert await get_all(queue) == [("a", False)]
        assert inbox == []


@in_loop
async def test_consumer_is_told_when_its_queue_is_deleted(broker: Broker, unique: Unique) -> None:
    cancelled: list[str | None] = []
    async with with_queue(broker, unique) as (channel, queue):
        underlay = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(lambda frame: cancelled.append(frame.consumer_tag))
        inbox = await Inbox.of(queue)
        await queue.delete(if_unused=False, if_empty=False)
        await until(lambda: cancelled)
    assert cancelled == [inbox.tag]


@in_loop
async def test_purge_drops_what_is_ready_and_counts_it(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await fill(channel, queue, "a", "b", "c")
        taken = await queue.get()
        assert (await queue.purge()).message_count == 2
        await taken.reject(requeue=True)
        assert await get_all(queue) == [("a", True)]


@in_loop
async def test_delete_counts_the_messages_it_drops(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await fill(channel, queue, "a", "b")
        assert (await queue.delete(if_unused=True, if_empty=False)).message_count == 2


@pytest.mark.parametrize(("flag", "words"), [("if_unused", "in use"), ("if_empty", "not empty")])
@in_loop
async def test_delete_with_a_condition_spares_the_queue(broker: Broker, unique: Unique, flag: str, words: str) -> None:
    async with connected(broker) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(unique())
        await fill(channel, queue, "a", "b")
        await channel.set_qos(prefetch_count=1)
        await Inbox.of(queue)
        other = await (await connection.channel()).get_queue(queue.name)
        with pytest.raises(ChannelPreconditionFailed, match=words):
            await other.delete(**{"if_unused": False, "if_empty": False, flag: True})
        assert await ready_count(channel, queue) == 1


# Connections and channels


@in_loop
async def test_queue_and_messages_outlive_a_connection(broker: Broker, unique: Unique) -> None:
    async with with_queue(broker, unique) as (channel, queue):
        await fill(channel, queue, "a", "b")
        await queue.get()
    async with opened(broker) as channel:
        assert await get_all(await channel.get_queue(queue.name)) == [("a", True), ("b", False)]


@in_loop
async def test_robust_connection_serves_as_well(broker: Broker, unique: Unique) -> None:
    async with await aio_pika.connect_robust(broker.url, timeout=60) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(unique(), auto_delete=True)
        await fill(channel, queue, "a")
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    assert message.body == b"a"
                break


@in_loop
async def test_channels_of_a_connection_do_not_disturb_each_other(broker: Broker, unique: Unique) -> None:
    async def exchange_messages(connection: AbstractConnection) -> None:
        async with connection.channel() as channel:
            queue = await channel.declare_queue(unique())
            inbox = await Inbox.of(queue)
            await fill(channel, queue, "a", "b")
            assert await inbox.wait(2) == ["a", "b"]
            assert [message.delivery_tag for message in inbox] == [1, 2]

    async with connected(broker) as connection:
        await asyncio.gather(*(exchange_messages(connection) for _ in range(20)))


@in_loop
async def test_channel_error_leaves_the_connection_open(broker: Broker, unique: Unique) -> None:
    name = unique()
    async with connected(broker) as connection:
        channel = await connection.channel()
        with pytest.raises(ChannelNotFoundEntity, match=f"NOT_FOUND - no queue '{name}' in vhost '/'"):
            await channel.declare_queue(name, passive=True)
        queue = await (await connection.channel()).declare_queue(name)
        assert queue.name == name
