"""What a subscription needs to be there: the exchange, the queue and the binding. Declared with every connection."""

import asyncio
from collections.abc import Sequence

from leveret.client.client import Client, connect
from leveret.client.faults import ClientFault
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
from leveret.work.checking import flat_headers
from leveret.work.metadata import Exchange, Subscription


async def declare(client: Client, exchange: Exchange, subscription: Subscription) -> str:
    """Make what is missing; the queue's name. A ClientFault says what is there and different."""
    # Those of the broker itself may not be declared.
    passive = exchange.name.startswith("amq.")
    kind = exchange.type.lower()
    await client.call(ExchangeDeclare(exchange.name, kind, passive=passive, durable=exchange.durable), ExchangeDeclareOk)
    queue = exchange.queue_of(subscription)
    arguments = dict(subscription.queue_arguments)
    await client.call(QueueDeclare(queue, durable=exchange.durable, arguments=arguments), QueueDeclareOk)
    headers = flat_headers(subscription.routing_headers) if subscription.routing_headers and kind == "headers" else {}
    await client.bind_queue(queue, exchange.name, subscription.routing_key or "", headers)
    return queue


class CannotDeclare(Exception):
    """There is no broker, or something else of that name; the text says which."""


async def declare_all(uri: Uri, exchanges: Sequence[Exchange]) -> None:
    """Make what is missing for all of them, so that their messages wait for whoever will handle them; or CannotDeclare."""
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


async def consume(client: Client, subscription: Subscription, queue: str, by_size: bool) -> str:
    """Have its messages delivered; the consumer's tag."""
    size = subscription.prefetch_size if by_size else 0
    if size or subscription.prefetch_count:
        await client.call(BasicQos(size, subscription.prefetch_count), BasicQosOk)
    answer = await client.call(BasicConsume(queue, subscription.consumer_id or ""), BasicConsumeOk)
    return answer.consumer_tag
