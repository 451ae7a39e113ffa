"""Queues, but for those that belong to a connection."""

from leveret.broker.arguments import check_queue_arguments
from leveret.broker.broker import Broker
from leveret.broker.command import NOBODY, DeclareQueue, apply
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.definitions.from_json import json_value
from leveret.definitions.item import Facts, Item
from leveret.definitions.unsupported import plain_type
from leveret.errors import PreconditionFailed


def facts(vhost: VirtualHost, queue: Queue) -> Facts:
    arguments = json_value(queue.arguments)
    if vhost.default_queue_type is not None and "x-queue-type" not in arguments:
        # Made before the vhost had such a default, or not durable.
        arguments["x-queue-type"] = "classic"
    return {"name": queue.name, "durable": queue.durable, "auto_delete": queue.auto_delete, "arguments": arguments}


def read(broker: Broker, item: Item) -> None:
    """RabbitMQ: one that is there already stays as it is; one that the server has named can be imported."""
    vhost = item.vhost(broker)
    name = item.name("name")
    durable, auto_delete = item.flag("durable"), item.flag("auto_delete")
    if not name:
        raise PreconditionFailed("name must not be empty")
    if name in vhost.queues:
        return
    arguments = item.table("arguments")
    kind = plain_type(item.get("type"))
    if kind is not None and "x-queue-type" not in arguments and (kind != "classic" or vhost.default_queue_type):
        arguments = {**arguments, "x-queue-type": kind}
    if not name.startswith("amq."):
        vhost.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)
        return
    check_queue_arguments(arguments, vhost.queue_title(name))
    apply(broker, DeclareQueue(vhost.name, name, durable, auto_delete, False, arguments, by=NOBODY, at=broker.now))


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    flags, home, now = (True, row["auto_delete"], False), row.get("home", ""), broker.now
    _restore(broker, DeclareQueue(vhost, name, *flags, row["arguments"], home, by=NOBODY, at=row.get("at", now)), now)


def restore_transient(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    """One of a cluster's, which is there as long as its home."""
    flags = (False, row["auto_delete"], row["exclusive"])
    command = DeclareQueue(vhost, name, *flags, row["arguments"], row["home"], by=NOBODY, at=row["at"])
    _restore(broker, command, broker.now)


def _restore(broker: Broker, command: DeclareQueue, now: int) -> None:
    """Make a queue again that may be old: how long it was not used counts from now on."""
    apply(broker, command)
    broker.work.budget.now = now
    broker.vhosts[command.vhost].queues[command.name].renew_expiry(now)
