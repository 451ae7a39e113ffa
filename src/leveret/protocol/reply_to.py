"""Direct reply-to: answers that go straight to the channel that asked, through no queue of the vhost's.

A client consumes from the pseudo-queue `amq.rabbitmq.reply-to`; the reply-to of what it publishes then becomes a name
nobody can guess, and what is published to that name by the default exchange reaches this consumer. The name cannot be
bound, got from or declared anew, and is gone with the consumer.
"""

import secrets
from typing import TYPE_CHECKING

from leveret.broker.dispatch import unsubscribe
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.rewrite import rewritten
from leveret.errors import NotFound, PreconditionFailed
from leveret.wire.content import properties_of

if TYPE_CHECKING:
    from leveret.broker.broker import Broker
    from leveret.broker.vhost import VirtualHost
    from leveret.protocol.channel import Channel

NAME = "amq.rabbitmq.reply-to"
PREFIX = NAME + "."
ENCODED = bytes([len(NAME)]) + NAME.encode()


def check_reply_consumer(channel: "Channel", no_ack: bool) -> None:
    if not no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.consumers.for_replies is not None:
        raise PreconditionFailed("reply consumer already set")


def open_reply_to(channel: "Channel") -> Queue:
    """The hidden queue whose only consumer is this channel's."""
    name = PREFIX + secrets.token_urlsafe(24)
    queue = Queue(name, channel.vhost.queue_title(name), channel.broker.work, {})
    queue.hidden = True
    channel.broker.replies[name] = queue
    channel.broker.changed()
    return queue


def close_reply_to(channel: "Channel") -> None:
    """The consumer of replies leaves, if there is one, and its name is gone."""
    consumer = channel.consumers.for_replies
    if consumer is not None:
        channel.consumers.for_replies = None
        unsubscribe(consumer.queue, consumer)
        del channel.broker.replies[consumer.queue.name]
        # What it has not read is of no use, here and in storage.
        consumer.queue.delete()
        channel.broker.changed()


def check_reply_to(broker: "Broker", vhost: "VirtualHost", name: str) -> None:
    """RabbitMQ: declaring such a name only asks whether somebody still waits there."""
    if name != NAME and name not in broker.replies:
        raise NotFound(f"no {vhost.queue_title(name)}")


def with_reply_to(channel: "Channel", message: Message) -> Message:
    """The message with the real name in its reply-to, if it asks for that."""
    if ENCODED not in message.content[: 7 + message.header_size]:
        return message
    properties = properties_of(message.content, message.header_size)
    if properties.reply_to != NAME:
        return message
    if channel.consumers.for_replies is None:
        raise PreconditionFailed("fast reply consumer does not exist")
    properties.reply_to = channel.consumers.for_replies.queue.name
    return rewritten(message, properties, message.origin)
