"""Limits of the whole broker, as the settings have them; 0 is without limit.

What is there already when one is lowered stays. Those of vhosts and users are in `tenant_limit.py`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from leveret.broker.patterns import PATTERN_MAX, BadPattern
from leveret.errors import NotAllowed, PreconditionFailed


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """How many there may be of each thing, all together or in one."""

    connections: int = 0
    connections_of_address: int = 0
    queues: int = 0
    exchanges: int = 0
    bindings_of_exchange: int = 0
    consumers_of_channel: int = 0
    pattern_length: int = PATTERN_MAX


class Holder(Protocol):
    """A virtual host, of which here only how much is in it matters."""

    @property
    def queues(self) -> Collection[object]: ...

    @property
    def exchanges(self) -> Collection[object]: ...


class Connections:
    """How many clients are logged in, in all and from each address."""

    __slots__ = ("by_address", "count")

    def __init__(self) -> None:
        self.count = 0
        self.by_address: dict[str, int] = {}

    def add(self, address: str) -> None:
        self.count += 1
        self.by_address[address] = self.by_address.get(address, 0) + 1

    def remove(self, address: str) -> None:
        self.count -= 1
        left = self.by_address[address] - 1
        if left:
            self.by_address[address] = left
        else:
            del self.by_address[address]

    def check(self, limits: NodeLimits, address: str) -> None:
        """Refuse one more from there if there may be no more."""
        if 0 < limits.connections <= self.count:
            raise NotAllowed(f"connection refused: node connection limit ({limits.connections}) is reached")
        if 0 < limits.connections_of_address <= self.by_address.get(address, 0):
            raise NotAllowed(
                f"connection refused: connection limit of address {address} ({limits.connections_of_address}) is reached"
            )


def check_queue_count(limits: NodeLimits, vhosts: Mapping[str, Holder], vhost_name: str, name: str) -> None:
    """Refuse one more queue if there may be no more. RabbitMQ: this text."""
    if limits.queues and sum(len(vhost.queues) for vhost in vhosts.values()) >= limits.queues:
        raise PreconditionFailed(
            f"cannot declare queue '{name}' in vhost '{vhost_name}': queue limit in cluster ({limits.queues}) is reached"
        )


def check_exchange_count(limits: NodeLimits, vhosts: Mapping[str, Holder], name: str) -> None:
    """Refuse one more exchange if there may be no more; those that every vhost has count. RabbitMQ: this text."""
    if limits.exchanges and sum(len(vhost.exchanges) for vhost in vhosts.values()) >= limits.exchanges:
        raise PreconditionFailed(f"cannot declare exchange '{name}': exchange limit of {limits.exchanges} is reached")


def check_binding_count(limits: NodeLimits, count: int, title: str) -> None:
    """Refuse one more binding of an exchange if it may have no more."""
    if 0 < limits.bindings_of_exchange <= count:
        raise PreconditionFailed(f"cannot bind to {title}: binding limit ({limits.bindings_of_exchange}) is reached")


def check_consumer_count(limits: NodeLimits, count: int) -> None:
    """Refuse one more consumer of a channel if it may have no more. RabbitMQ: this text."""
    if 0 < limits.consumers_of_channel <= count:
        raise NotAllowed(f"reached maximum ({limits.consumers_of_channel}) of consumers per channel")


def check_pattern_length(limits: NodeLimits, text: object) -> None:
    """BadPattern for one that is too long."""
    if isinstance(text, str) and len(text) > limits.pattern_length:
        raise BadPattern(f"a pattern of more than {limits.pattern_length} characters")


def check_policy_pattern(limits: NodeLimits, text: object) -> None:
    """The same, as a policy that is refused."""
    try:
        check_pattern_length(limits, text)
    except BadPattern as error:
        raise PreconditionFailed(f"pattern should be regular expression but is invalid: {error}") from None
