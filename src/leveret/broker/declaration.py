"""Whether an exchange or a queue may be declared so, bound or deleted: the checks of what is there and of what is not.

They stand in RabbitMQ's order, rights among them; whoever declares for nobody has none to check. Texts are RabbitMQ's.
"""

from typing import TYPE_CHECKING

from leveret.broker.arguments import CHECKS, check_queue_arguments, check_quorum_properties, queue_type
from leveret.broker.delayed import DelayedExchange
from leveret.broker.equivalence import check_same, check_same_argument
from leveret.broker.exchange import Exchange
from leveret.broker.exchange_types import INNER_TYPES
from leveret.broker.name import check_name_argument, check_not_default, check_unreserved
from leveret.broker.node_limit import check_exchange_count, check_queue_count
from leveret.broker.queue import Queue
from leveret.broker.rights import Rights
from leveret.broker.tenant_limit import check_queue_limit
from leveret.errors import NotFound, NotImplementedFault, PreconditionFailed, ResourceLocked
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost

# Every type that can be declared, by its name.
EXCHANGE_TYPES: dict[str, type[Exchange]] = {**INNER_TYPES, "x-delayed-message": DelayedExchange}


def check_new_exchange(vhost: "VirtualHost", name: str, kind: str, arguments: Table, rights: Rights | None) -> None:
    check_unreserved("exchange", name)
    check_exchange_count(vhost.broker.settings.limits, vhost.broker.vhosts, name)
    check_name_argument(arguments, "alternate-exchange", vhost.exchange_title(name))
    if rights is not None and "alternate-exchange" in arguments:
        rights.check_exchange("read", name)
        rights.check_exchange("write", str(arguments["alternate-exchange"]))
    EXCHANGE_TYPES[kind].check_arguments(arguments)


def check_same_exchange(
    exchange: Exchange, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
) -> None:
    check_same("type", exchange.title, kind, exchange.kind)
    check_same("durable", exchange.title, durable, exchange.durable)
    check_same("auto_delete", exchange.title, auto_delete, exchange.auto_delete)
    check_same("internal", exchange.title, internal, exchange.internal)
    check_same_argument("alternate-exchange", exchange.title, arguments, exchange.arguments)


def with_default_type(
    arguments: Table, default_queue_type: str | None, durable: bool, auto_delete: bool, owner: object
) -> Table:
    """RabbitMQ: the vhost's type of queue is for those that could be of any type."""
    if default_queue_type is None or "x-queue-type" in arguments or not durable or auto_delete or owner is not None:
        return arguments
    return {**arguments, "x-queue-type": default_queue_type}


def check_dead_letters(vhost: "VirtualHost", name: str, arguments: Table, rights: Rights | None) -> None:
    check_name_argument(arguments, "x-dead-letter-exchange", vhost.queue_title(name))
    if rights is not None and "x-dead-letter-exchange" in arguments:
        rights.check_queue("read", name)
        rights.check_exchange("write", str(arguments["x-dead-letter-exchange"]))


def check_new_queue(
    vhost: "VirtualHost", name: str, durable: bool, auto_delete: bool, owner: object, arguments: Table
) -> None:
    title = vhost.queue_title(name)
    check_queue_arguments(arguments, title)
    check_queue_limit(vhost, name)
    check_queue_count(vhost.broker.settings.limits, vhost.broker.vhosts, vhost.name, name)
    if queue_type(arguments) == "quorum":
        check_quorum_properties(title, durable, owner is not None, auto_delete)


def check_same_queue(queue: Queue, durable: bool, auto_delete: bool, owner: object, arguments: Table) -> None:
    if queue.owner is not owner:
        raise locked(queue)
    check_same("durable", queue.title, durable, queue.durable)
    check_same("auto_delete", queue.title, auto_delete, queue.auto_delete)
    for key in CHECKS:
        check_same_argument(key, queue.title, arguments, queue.arguments)


def check_deletable(queue: Queue, if_unused: bool, if_empty: bool) -> None:
    if queue_type(queue.arguments) == "quorum":
        for flag, wanted in (("if-unused", if_unused), ("if-empty", if_empty)):
            if wanted:
                raise NotImplementedFault(
                    f"cannot delete {queue.title}. queue.delete operations with {flag} flag set are not supported "
                    "by quorum queues"
                )
    if if_empty and queue.ready_count:
        raise PreconditionFailed(f"{queue.title} not empty")
    if if_unused and queue.consumer_count:
        raise PreconditionFailed(f"{queue.title} in use")


def check_may_bind(
    vhost: "VirtualHost", rights: Rights, to_queue: bool, destination: str, source: str, routing_key: str
) -> None:
    """Write on the destination, read on the source, and read on the topic; RabbitMQ asks in this order."""
    if to_queue:
        rights.check_queue("write", destination)
    else:
        rights.check_exchange("write", destination)
        check_not_default(destination)
    check_not_default(source)
    rights.check_exchange("read", source)
    exchange = vhost.exchanges.get(source)
    if exchange is not None and exchange.kind == "topic":
        rights.check_topic("read", source, routing_key)


def check_home(queue: Queue) -> None:
    """Refuse to do something with the messages of a queue that has them on another node."""
    if queue.away:
        kind = "durable " if queue.durable else ""
        raise NotFound(f"home node '{queue.home}' of {kind}{queue.title} is down or inaccessible")


def check_access(queue: Queue, owner: object) -> None:
    """Refuse a queue that is exclusive to another connection."""
    if queue.owner is not None and queue.owner is not owner:
        raise locked(queue)


def locked(queue: Queue) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {queue.title}. It could be originally declared on another "
        "connection or the exclusive property value does not match that of the original declaration."
    )
