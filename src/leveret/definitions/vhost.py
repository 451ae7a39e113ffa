"""Virtual hosts."""

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.vhost import VirtualHost
from leveret.definitions.definition import Definition
from leveret.definitions.item import UNDEFINED, Facts, Item, tags_of
from leveret.definitions.unsupported import plain_type


class VhostDefinition(Definition, frozen=True):
    name: str
    description: str = ""
    tags: list[str] = msgspec.field(default_factory=list)
    default_queue_type: str | None = None
    limits: dict[str, int] = msgspec.field(default_factory=dict)
    tracing: bool = False

    @property
    def title(self) -> str:
        return self.name

    def make(self, broker: Broker) -> None:
        vhost = broker.add_vhost(self.name)
        vhost.describe(self.description, tuple(self.tags))
        vhost.set_default_queue_type(self.default_queue_type)
        vhost.set_limits(self.limits)
        vhost.set_tracing(self.tracing)


def facts(vhost: VirtualHost) -> Facts:
    metadata: Facts = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    return {"name": vhost.name, **metadata, "metadata": metadata}


def read(broker: Broker, item: Item) -> None:
    vhost = broker.add_vhost(item.name("name"))
    found: Facts = {**item.table("metadata")}
    found |= {key: item.get(key) for key in ("description", "tags", "default_queue_type") if key in item}
    if "description" in found or "tags" in found:
        vhost.describe(str(found.get("description") or ""), tags_of(found.get("tags") or []))
    kind = plain_type(found.get("default_queue_type"))
    if kind is not None:
        vhost.set_default_queue_type(kind)
    if item.get("limits") and item.get("limits") not in UNDEFINED:
        vhost.set_limits(item.get("limits"))
    if item.flag("tracing") != vhost.tracing and "tracing" in item:
        vhost.set_tracing(item.flag("tracing"))


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    made = broker.add_vhost(vhost)
    made.describe(row["description"], tuple(row["tags"]))
    made.default_queue_type = row["default_queue_type"]
    made.limits = row["limits"]
    made.tracing = row["tracing"]
