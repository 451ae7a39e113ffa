"""Events as messages: each to the exchange amq.rabbitmq.event of the vhost `/`, as RabbitMQ's plugin publishes them.

The routing key is the event's name, `user.created`; the body is empty, the headers say what happened. Messages are made on
the work list, after whatever caused them. Nobody can publish to the exchange: it is internal.
"""

from collections.abc import Mapping

from leveret.broker.broker import Broker
from leveret.broker.budget import Budget
from leveret.broker.command import NOBODY, DeclareExchange
from leveret.broker.dispatch import push
from leveret.broker.message import Message, new_message
from leveret.broker.rewrite import make_origin
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import Task
from leveret.wire.content import check_properties, frame_content
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.values import Table, Value

EXCHANGE = "amq.rabbitmq.event"
VHOST = "/"
BASIC_CLASS = 60
FRAME_SIZE = 131_064


class PublishEvent(Task):
    """Publishes one."""

    __slots__ = ("_headers", "_kind", "_vhost")

    def __init__(self, vhost: VirtualHost, kind: str, headers: Table) -> None:
        self._vhost = vhost
        self._kind = kind
        self._headers = headers

    def run(self, budget: Budget) -> bool:
        budget.left -= 1
        exchange = self._vhost.exchanges.get(EXCHANGE)
        queues = [] if exchange is None else self._vhost.route(exchange, self._kind, None)
        if queues:
            message = event_message(self._kind, self._headers, budget.now)
            for queue in queues:
                push(queue, message, budget.now)
        return True


def event_message(kind: str, headers: Table, now: int) -> Message:
    """An event as a message."""
    headers = {**headers, "timestamp_in_ms": now}
    properties = Properties(headers=headers, timestamp=now // 1000)
    header = BASIC_CLASS.to_bytes(2, "big") + bytes(10) + encode_properties(properties)
    content = frame_content(header, b"", FRAME_SIZE)
    flags = check_properties(content, len(header))
    return new_message(make_origin(EXCHANGE, kind), content, len(header), 0, FRAME_SIZE, flags)


def declare_event_exchange(broker: Broker) -> None:
    """Make the exchange if it is not there yet; who only declares one cannot take this name."""
    vhost = broker.vhosts.get(VHOST) or broker.add_vhost(VHOST)
    if EXCHANGE not in vhost.exchanges:
        vhost.make_exchange(DeclareExchange(VHOST, EXCHANGE, "topic", True, False, True, {}, by=NOBODY, at=broker.now))


def event_table(facts: Mapping[str, object]) -> Table:
    """What is known of an event, as a table of headers; of what has no place in one, its text."""
    return {name: event_value(value) for name, value in facts.items()}


def event_value(value: object) -> Value:
    if isinstance(value, bool | int | str):
        return value
    return [str(one) for one in value] if isinstance(value, tuple | list) else str(value)
