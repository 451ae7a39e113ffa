"""One entry of a definitions file, read with the checks that all kinds have in common."""

from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.vhost import VirtualHost
from leveret.definitions.from_json import check_values, checked_name, checked_table
from leveret.errors import PreconditionFailed
from leveret.wire.values import Table

Facts = dict[str, Any]

# RabbitMQ: how its versions have written that there is nothing.
UNDEFINED = (None, "", "undefined", "null")


class Item:
    """One entry of the file. What it lacks, or has of a wrong kind, is a fault.

    `version` is that of the RabbitMQ which wrote the file. With a `vhost` it is for that one, whichever it names itself.
    """

    __slots__ = ("_facts", "_vhost", "version")

    def __init__(self, facts: Any, vhost: str | None = None, version: str = "") -> None:
        if not isinstance(facts, dict):
            raise PreconditionFailed("must be an object")
        check_values(facts, "it")
        self._facts = facts
        self._vhost = vhost
        self.version = version

    def get(self, key: str, default: Any = None) -> Any:
        return self._facts.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._facts

    def need(self, key: str) -> Any:
        if key not in self._facts:
            raise PreconditionFailed(f"{key} is missing")
        return self._facts[key]

    def text(self, key: str) -> str:
        found = self.need(key)
        if not isinstance(found, str):
            raise PreconditionFailed(f"{key} must be text")
        return found

    def texts(self, *keys: str) -> list[str]:
        return [self.text(key) for key in keys]

    def name(self, key: str) -> str:
        """A text that clients can be told of."""
        return checked_name(self.text(key), key)

    def flag(self, key: str) -> bool:
        found = self.get(key, False)
        if found not in (True, False, "true", "false"):
            raise PreconditionFailed(f"{key} must be true or false")
        return found in (True, "true")

    def table(self, key: str) -> Table:
        # RabbitMQ: old versions wrote a table without entries as a list.
        found = {} if self.get(key) in UNDEFINED else self.get(key) or {}
        if not isinstance(found, dict):
            raise PreconditionFailed(f"{key} must be an object")
        return checked_table(found, key)

    def vhost(self, broker: Broker) -> VirtualHost:
        return broker.find_vhost(self.text("vhost") if self._vhost is None else self._vhost)


def tags_of(tags: Any) -> tuple[str, ...]:
    """Tags as a list, or as text with commas."""
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise PreconditionFailed("tags must be a list or comma-separated text")
    return tuple(tag.strip() for tag in tags if tag.strip())
