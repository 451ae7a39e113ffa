"""Bindings, but for those from the default exchange, which nobody makes."""

import logging
from ast import literal_eval

from leveret.broker.binding import Binding, kind_of_destination, name_of
from leveret.broker.broker import Broker
from leveret.definitions.from_json import json_value
from leveret.definitions.item import Facts, Item
from leveret.errors import PreconditionFailed

log = logging.getLogger("leveret.definitions")


def order(binding: Binding) -> tuple[str, str]:
    """By what bindings are sorted in a file."""
    return binding.source.name, name_of(binding)


def facts(binding: Binding) -> Facts:
    return {
        "source": binding.source.name,
        "destination": binding.destination.name,
        "destination_type": kind_of_destination(binding),
        "routing_key": binding.routing_key,
        "arguments": json_value(binding.arguments),
    }


def read(broker: Broker, item: Item) -> None:
    """RabbitMQ: those of what is not there are passed over; exclusive queues are not exported, but their bindings are."""
    vhost = item.vhost(broker)
    source, name = item.name("source"), item.name("destination")
    if not source:
        # Every queue has this one.
        return
    kind = item.get("destination_type", "queue")
    if kind not in ("queue", "exchange"):
        raise PreconditionFailed("destination_type must be queue or exchange")
    key, arguments = item.name("routing_key"), item.table("arguments")
    destination = vhost.exchanges.get(name) if kind == "exchange" else vhost.queues.get(name)
    if destination is None or source not in vhost.exchanges:
        log.info(
            "a binding from '%s' to %s '%s' in vhost '%s' is passed over: one is not there", source, kind, name, vhost.name
        )
        return
    vhost.bind(source, destination, key, arguments)


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    """Those of what is not there are passed over: a row of theirs may have been lost."""
    within = broker.find_vhost(vhost)
    source, kind, destination, routing_key, _ = literal_eval(name)
    found = within.queues.get(destination) if kind == "queue" else within.exchanges.get(destination)
    if found is not None and source in within.exchanges:
        within.bind(source, found, routing_key, row["arguments"])
