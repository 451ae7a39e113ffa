"""A binding: from an exchange to a queue or another exchange, with a routing key and arguments."""

from typing import TYPE_CHECKING, TypeAlias

from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.exchange import Exchange
    from leveret.broker.queue import Queue

    Destination: TypeAlias = Exchange | Queue

Key = tuple[object, object, str, object]


class Binding:
    """Equal to another when source, destination, routing key and arguments are, the spec's rule for binding twice."""

    __slots__ = ("arguments", "destination", "key", "routing_key", "source")

    def __init__(self, source: "Exchange", destination: "Destination", routing_key: str, arguments: Table) -> None:
        self.source = source
        self.destination = destination
        self.routing_key = routing_key
        self.arguments = arguments
        self.key: Key = (source, destination, routing_key, frozen(arguments))


def frozen(value: object) -> object:
    """A field-table value as something that can be a dictionary's key. RabbitMQ: the type on the wire is part of it."""
    if isinstance(value, dict):
        return ("dict", tuple(sorted((name, frozen(item)) for name, item in value.items())))
    if isinstance(value, list):
        return ("list", tuple(frozen(item) for item in value))
    return (type(value).__name__, repr(value))


def inbound(destination: "Destination") -> dict[object, object]:
    """The bindings that lead to a queue or exchange."""
    return destination.bindings if destination.is_queue else destination.inbound  # type: ignore[union-attr, return-value]


def name_of(binding: Binding) -> str:
    """A binding's own name: source, kind and name of the destination, routing key and arguments."""
    arguments = repr(frozen(binding.arguments))
    # Written as Python writes it: names may contain anything.
    return repr(
        (binding.source.name, kind_of_destination(binding), binding.destination.name, binding.routing_key, arguments)
    )


def kind_of_destination(binding: Binding) -> str:
    return "queue" if binding.destination.is_queue else "exchange"
