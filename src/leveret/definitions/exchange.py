"""Exchanges, but for those that every vhost has."""

from leveret.broker.broker import Broker
from leveret.broker.command import NOBODY, DeclareExchange, apply
from leveret.broker.event_exchange import EXCHANGE as EVENT_EXCHANGE
from leveret.broker.exchange import Exchange
from leveret.broker.vhost import PREDECLARED
from leveret.definitions.from_json import json_value
from leveret.definitions.item import Facts, Item

SYSTEM_EXCHANGES = {"", EVENT_EXCHANGE, *(name for name, _, _ in PREDECLARED)}


def facts(exchange: Exchange) -> Facts:
    return {
        "name": exchange.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_value(exchange.arguments),
    }


def read(broker: Broker, item: Item) -> None:
    """RabbitMQ: one that is there already stays as it is, and those called `amq.…` are passed over."""
    vhost = item.vhost(broker)
    name = item.name("name")
    if name in vhost.exchanges or name.startswith("amq."):
        return
    vhost.declare_exchange(
        name,
        item.text("type"),
        durable=item.flag("durable"),
        auto_delete=item.flag("auto_delete"),
        internal=item.flag("internal"),
        arguments=item.table("arguments"),
    )


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    by, flags = row.get("made_by", NOBODY), (row.get("durable", True), row["auto_delete"], row["internal"])
    apply(broker, DeclareExchange(vhost, name, row["type"], *flags, row["arguments"], by=by, at=broker.now))
