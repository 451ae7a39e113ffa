"""The properties and headers that a shovel sets in the messages it moves."""

from collections.abc import Callable

from leveret.broker.shovel import ShovelDefinition
from leveret.client.incoming import Delivery
from leveret.wire.properties import encode_properties
from leveret.wire.values import Table

FORWARD_HEADER = "x-shovelled"
TIMESTAMP_HEADER = "x-shovelled-timestamp"
# Else a message in a circle of shovels would grow without limit.
HOPS_MAX = 64


class Rewrite:
    """What a definition asks to set; a message for which that is nothing is passed on unchanged.

    `hop` is this shovel's entry in the header that lists those a message has passed.
    """

    def __init__(self, definition: ShovelDefinition, hop: Table, now_ms: Callable[[], int]) -> None:
        wanted = definition.destination
        self._set = wanted.properties
        self._hop = hop if wanted.forward_headers else None
        self._now_ms = now_ms if wanted.timestamp_header else None

    def properties(self, delivery: Delivery) -> bytes:
        """The properties a message is published with."""
        if not self._set and self._hop is None and self._now_ms is None:
            return delivery.properties
        properties = delivery.decoded()
        for name, value in self._set.items():
            setattr(properties, name, value)
        headers = dict(properties.headers or {})
        if self._hop is not None:
            before = headers.get(FORWARD_HEADER)
            headers[FORWARD_HEADER] = [self._hop, *(before if isinstance(before, list) else [])][:HOPS_MAX]
        if self._now_ms is not None:
            headers[TIMESTAMP_HEADER] = self._now_ms() // 1000
        if headers:
            properties.headers = headers
        return encode_properties(properties)


def hop_of(definition: ShovelDefinition, vhost: str, name: str, cluster: str, uris: tuple[str, str]) -> Table:
    """A shovel's entry in FORWARD_HEADER; RabbitMQ's keys, in its order."""
    source, destination = definition.source, definition.destination
    from_queue = source.queue is not None
    found: Table = {
        "shovelled-by": cluster,
        "shovel-type": "dynamic",
        "shovel-name": name,
        "shovel-vhost": vhost,
        "src-uri": uris[0],
        "dest-uri": uris[1],
        "src-exchange": None if from_queue else source.exchange,
        "src-exchange-key": None if from_queue else source.routing_key,
        "src-queue": source.queue,
        "dest-exchange": destination.exchange,
        "dest-exchange-key": destination.routing_key,
        "dest-queue": destination.queue,
    }
    return {key: value for key, value in found.items() if value is not None}
