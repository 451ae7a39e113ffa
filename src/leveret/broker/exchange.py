"""Exchanges: what they are, and how the simple types choose destinations.

An exchange answers one question, which of its destinations a routing key and properties lead to; following those
further is the router's work. The other types have modules of their own. Knows no message or client.
"""

from typing import TYPE_CHECKING, Any

from leveret.broker.binding import Binding, Key
from leveret.broker.command import NOBODY
from leveret.broker.counters import Counters
from leveret.errors import AccessRefused
from leveret.wire.properties import Properties
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.policy import Policy
    from leveret.broker.vhost import VirtualHost


class Exchange:
    """One exchange of one virtual host.

    `bindings` lead from it, `inbound` to it. `made_by` is the user who declared it. `varies` says that its choice depends
    on more than the routing key, so that the route must not be remembered. `reached_in`, `is_queue` and `looks` serve the
    router; to `looks` `match` and `match_all` add how much they have looked at besides what they found, where that may be
    much.
    """

    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "counters",
        "deleted",
        "durable",
        "inbound",
        "internal",
        "is_queue",
        "kind",
        "looks",
        "made_by",
        "name",
        "operator_policy",
        "policy",
        "reached_in",
        "title",
        "varies",
    )

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        self.name = name
        self.title = title
        self.kind = kind
        self.arguments = arguments
        self.durable = False
        self.auto_delete = False
        self.internal = False
        self.made_by = NOBODY
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        self.follow({})
        self.bindings: dict[Key, Binding] = {}
        self.inbound: dict[Key, Binding] = {}
        self.varies = False
        self.deleted = False
        self.is_queue = False
        self.reached_in = 0
        self.looks = 0
        self.counters = Counters()

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        """The destinations of a message, some perhaps twice; the caller must not change the list."""
        raise NotImplementedError

    def follow(self, definition: dict[str, Any]) -> None:
        """Take what a policy says; the exchange's own arguments go before it."""
        alternate = self.arguments.get("alternate-exchange", definition.get("alternate-exchange"))
        self.alternate = alternate if isinstance(alternate, str) else None

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        """The destinations of a message with several routing keys (CC, BCC)."""
        found: list[object] = []
        self.looks += len(routing_keys)
        for routing_key in routing_keys:
            found += self.match(routing_key, properties)
        return found

    def keeper(self, properties: Properties | None) -> object:
        """A queue that gets the message as well without being a destination; asked only where the choice varies."""
        return None

    @staticmethod
    def check_arguments(arguments: Table) -> None:
        """Refuse arguments an exchange of this type cannot be made with."""

    def open(self, vhost: "VirtualHost") -> None:
        """Take what it needs of its vhost; called once, before anything else."""

    def close(self) -> None:
        """Let go of what it holds; it is being deleted."""

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Refuse a binding this type of exchange cannot use."""

    def check_publishable(self) -> None:
        if self.internal:
            raise AccessRefused(f"cannot publish to internal {self.title}")

    def bind(self, binding: Binding) -> None:
        """Add a binding that is not there yet."""
        self.bindings[binding.key] = binding
        self._add(binding)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that is there."""
        del self.bindings[binding.key]
        self._remove(binding)

    def _add(self, binding: Binding) -> None:
        raise NotImplementedError

    def _remove(self, binding: Binding) -> None:
        raise NotImplementedError


class Destinations:
    """Destinations in the order they were added, each counted as often as it is bound."""

    __slots__ = ("_counts", "_list")

    def __init__(self) -> None:
        self._counts: dict[object, int] = {}
        self._list: list[object] | None = None

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, destination: object) -> None:
        self._counts[destination] = self._counts.get(destination, 0) + 1
        self._list = None

    def remove(self, destination: object) -> None:
        self._counts[destination] -= 1
        if not self._counts[destination]:
            del self._counts[destination]
        self._list = None

    def as_list(self) -> list[object]:
        # Made anew after a change, not at it: binding a thousand queues must not copy a thousand lists.
        if self._list is None:
            self._list = list(self._counts)
        return self._list


NOWHERE: list[object] = []


class DirectExchange(Exchange):
    """To the destinations bound with exactly this routing key."""

    __slots__ = ("_by_key",)

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        self._by_key: dict[str, Destinations] = {}

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        destinations = self._by_key.get(routing_key)
        return NOWHERE if destinations is None else destinations.as_list()

    def _add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, Destinations()).add(binding.destination)

    def _remove(self, binding: Binding) -> None:
        destinations = self._by_key[binding.routing_key]
        destinations.remove(binding.destination)
        if not destinations:
            del self._by_key[binding.routing_key]


class FanoutExchange(Exchange):
    """To every destination."""

    __slots__ = ("_destinations",)

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        self._destinations = Destinations()

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        return self._destinations.as_list()

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        return self.match(routing_keys[0], properties)

    def _add(self, binding: Binding) -> None:
        self._destinations.add(binding.destination)

    def _remove(self, binding: Binding) -> None:
        self._destinations.remove(binding.destination)


class DefaultExchange(Exchange):
    """To the queue whose name is the routing key."""

    __slots__ = ("_queues",)

    def __init__(self, title: str, queues: dict[str, object]) -> None:
        Exchange.__init__(self, "", title, "direct", {})
        self._queues = queues
        self.durable = True

    def follow(self, definition: dict[str, Any]) -> None:
        # RabbitMQ: whatever a policy says, what the default exchange cannot route goes nowhere.
        self.alternate = None

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        queue = self._queues.get(routing_key)
        return NOWHERE if queue is None else [queue]
