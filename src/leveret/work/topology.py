"""The exchange, queue and binding of a subscription, declared anew on every connection; and its consumer."""

import asyncio
from collections.abc import Sequence

from leveret.client.client import Client, connect
from leveret.client.fault import ClientFault
from leveret.uri import Uri
from leveret.wire.spec import (
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.work.subscription import Exchange, Subscription


async def declare(client: Client, exchange: Exchange, subscription: Subscription) -> str:
    """Declare and bind; the queue's name. Raises ClientFault if something else of that name is there."""
    # Predeclared exchanges can only be declared passively.
    passive = exchange.name.startswith("amq.")
    kind = exchange.type.lower()
    await client.call(ExchangeDeclare(exchange.name, kind, passive=passive, durable=exchange.durable), ExchangeDeclareOk)
    queue = exchange.queue_of(subscription)
    arguments = dict(subscription.queue_arguments)
    await client.call(QueueDeclare(queue, durable=exchange.durable, arguments=arguments), QueueDeclareOk)
    match = subscription.match_arguments if kind == "headers" else {}
    await client.bind_queue(queue, exchange.name, subscription.routing_key or "", match)
    return queue


class CannotDeclare(Exception):
    """The broker cannot be reached, or refuses a declaration; the text says which."""


async def declare_all(uri: Uri, exchanges: Sequence[Exchange]) -> None:
    """Declare everything, so that messages wait in their queues for the workers; or raise CannotDeclare."""
    client: Client | None = None
    try:
        client = await connect(uri, "leveret work --declare")
        async with asyncio.timeout(uri.timeout_s):
            for exchange in exchanges:
                for subscription in exchange.subscriptions:
                    await declare(client, exchange, subscription)
    except TimeoutError:
        raise CannotDeclare(f"no answer in {uri.timeout_s:g} s") from None
    except ClientFault as fault:
        raise CannotDeclare(str(fault)) from None
    finally:
        if client is not None:
            await client.close()


async def consume(client: Client, subscription: Subscription, queue: str, size_limited: bool) -> str:
    """Start consuming; the consumer's tag."""
    size = subscription.prefetch_size if size_limited else 0
    if size or subscription.prefetch_count:
        await client.call(BasicQos(size, subscription.prefetch_count), BasicQosOk)
    answer = await client.call(BasicConsume(queue, subscription.consumer_id or ""), BasicConsumeOk)
    return answer.consumer_tag
