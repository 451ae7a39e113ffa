"""What a subscription needs to be there: the exchange, the queue and the binding. Declared with every connection."""

from leveret.client.client import Client
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


async def consume(client: Client, subscription: Subscription, queue: str, by_size: bool) -> str:
    """Have its messages delivered; the consumer's tag."""
    size = subscription.prefetch_size if by_size else 0
    if size or subscription.prefetch_count:
        await client.call(BasicQos(size, subscription.prefetch_count), BasicQosOk)
    answer = await client.call(BasicConsume(queue, subscription.consumer_id or ""), BasicConsumeOk)
    return answer.consumer_tag
