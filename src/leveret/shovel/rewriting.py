"""What a shovel says in the messages that pass it."""

from collections.abc import Callable
from typing import Any

from leveret.broker.shovel import ShovelDefinition
from leveret.client.incoming import Delivery
from leveret.wire.properties import encode_properties

FORWARD_HEADER = "x-shovelled"
TIMESTAMP_HEADER = "x-shovelled-timestamp"
# In a circle of shovels a message would grow for ever.
HOPS_MAX = 64


class Rewriting:
    """Properties and headers that a definition asks for; a message that needs none passes as it came."""

    def __init__(self, definition: ShovelDefinition, passed: dict[str, Any], now_ms: Callable[[], int]) -> None:
        wanted = definition.destination
        self._set = wanted.properties
        self._passed = passed if wanted.forward_headers else None
        self._now_ms = now_ms if wanted.timestamp_header else None

    def properties(self, delivery: Delivery) -> bytes:
        """A message's properties as they go on."""
        if not self._set and self._passed is None and self._now_ms is None:
            return delivery.properties
        properties = delivery.decoded()
        for name, value in self._set.items():
            setattr(properties, name, value)
        headers = dict(properties.headers or {})
        if self._passed is not None:
            before = headers.get(FORWARD_HEADER)
            headers[FORWARD_HEADER] = [self._passed, *(before if isinstance(before, list) else [])][:HOPS_MAX]
        if self._now_ms is not None:
            headers[TIMESTAMP_HEADER] = self._now_ms() // 1000
        if headers:
            properties.headers = headers
        return encode_properties(properties)


def passed_through(
    definition: ShovelDefinition, vhost: str, name: str, cluster: str, uris: tuple[str, str]
) -> dict[str, Any]:
    """The entry of a shovel in the header of those that a message has passed; RabbitMQ's keys, in its order."""
    source, destination = definition.source, definition.destination
    from_queue = source.queue is not None
    found = {
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
