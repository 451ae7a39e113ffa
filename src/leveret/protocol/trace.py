"""The firehose: a copy of every message published or delivered in a vhost, to the exchange amq.rabbitmq.trace.

The routing key is publish.<exchange> or deliver.<queue>; headers say who, where and what the properties were. Copies are
made on the work list, after whatever caused them; what goes through the trace exchange itself is not traced.
"""

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from leveret.broker.budget import OCTETS_A_UNIT, Budget
from leveret.broker.dispatch import push
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.rewrite import carbon_copies, make_origin, rewritten
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import Task
from leveret.errors import SyntaxFault
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties
from leveret.wire.values import Timestamp

if TYPE_CHECKING:
    from leveret.protocol.channel import Channel

EXCHANGE = "amq.rabbitmq.trace"


def trace_publish(channel: "Channel", message: Message, queues: list[Queue]) -> None:
    """Note that a client published a message, and where it went."""
    facts = _facts(channel)
    facts["routed_queues"] = [queue.name for queue in queues]
    _trace(channel, message, f"publish.{message.origin.exchange}", facts)


def trace_delivery(channel: "Channel", message: Message, queue_name: str, redelivered: bool) -> None:
    """Note that a client was given a message."""
    facts = {"redelivered": int(redelivered), **_facts(channel)}
    _trace(channel, message, f"deliver.{queue_name}", facts)


class Copy(Task):
    """Publishes one copy."""

    __slots__ = ("_facts", "_key", "_message", "_vhost")

    def __init__(self, vhost: VirtualHost, message: Message, key: str, facts: dict[str, Any]) -> None:
        self._vhost = vhost
        self._message = message
        self._key = key
        self._facts = facts

    def run(self, budget: Budget) -> bool:
        budget.left -= 1
        queues = self._vhost.route(self._vhost.exchanges[EXCHANGE], self._key, None)
        if queues:
            # It is decoded and written anew, with the names of all queues it went to.
            budget.left -= (self._message.header_size + 8 * len(self._facts.get("routed_queues", ()))) // OCTETS_A_UNIT
            copy = self._copy()
            for queue in queues:
                push(queue, copy, budget.now)
        return True

    def _copy(self) -> Message:
        message = self._message
        was = properties_of(message.content, message.header_size)
        properties = table_of(was)
        headers = {
            "exchange_name": message.origin.exchange,
            "routing_keys": [message.origin.routing_key, *carbon_copies(was.headers or {}, "CC")],
            "properties": properties,
            **self._facts,
        }
        origin = make_origin(EXCHANGE, self._key)
        try:
            return rewritten(message, Properties(headers=headers), origin)
        except SyntaxFault:
            # Headers nested as deep as can be are too deep one table further in.
            del properties["headers"]
            return rewritten(message, Properties(headers=headers), origin)


def _trace(channel: "Channel", message: Message, key: str, facts: dict[str, Any]) -> None:
    if message.origin.exchange != EXCHANGE:
        # A routing key has 255 octets at most.
        short = key.encode(errors="surrogateescape")[:255].decode(errors="ignore")
        channel.broker.work.add(Copy(channel.vhost, message, short, facts))


def _facts(channel: "Channel") -> dict[str, Any]:
    return {
        "node": channel.broker.settings.node_name,
        "vhost": channel.vhost.name,
        "connection": channel.session.connection_name,
        "channel": channel.number,
        "user": channel.session.user.name,
    }


def table_of(properties: Properties) -> dict[str, Any]:
    """The properties that are there, as a field table."""
    table = {field.name: getattr(properties, field.name) for field in fields(properties)}
    if properties.timestamp is not None:
        table["timestamp"] = Timestamp(properties.timestamp)
    return {name: value for name, value in table.items() if value is not None}
