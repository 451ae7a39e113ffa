"""Policies, and those of the operator, which files have as parameters."""

from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.policy import Policy
from leveret.definitions.definition import Definition
from leveret.definitions.item import Facts, Item


class PolicyDefinition(Definition, frozen=True):
    name: str
    pattern: str
    definition: dict[str, Any]
    vhost: str = "/"
    priority: int = 0
    apply_to: str = "all"

    @property
    def title(self) -> str:
        return self.name

    def make(self, broker: Broker) -> None:
        policies = broker.find_vhost(self.vhost).policies
        policies.set(self.name, self.pattern, self.definition, priority=self.priority, apply_to=self.apply_to)


class OperatorPolicyDefinition(PolicyDefinition, frozen=True):
    def make(self, broker: Broker) -> None:
        policies = broker.find_vhost(self.vhost).operator_policies
        policies.set(self.name, self.pattern, self.definition, priority=self.priority, apply_to=self.apply_to)


def facts(policy: Policy) -> Facts:
    return {
        "name": policy.name,
        "pattern": policy.pattern.text,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def read(broker: Broker, item: Item) -> None:
    item.vhost(broker).policies.set(
        item.name("name"),
        item.text("pattern"),
        item.need("definition"),
        priority=item.get("priority", 0),
        apply_to=item.get("apply-to", "all"),
    )


def restore(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    policies = broker.find_vhost(vhost).policies
    policies.set(name, row["pattern"], row["definition"], priority=row["priority"], apply_to=row["apply_to"])


def restore_operators(broker: Broker, vhost: str, name: str, row: Facts) -> None:
    policies = broker.find_vhost(vhost).operator_policies
    policies.set(name, row["pattern"], row["definition"], priority=row["priority"], apply_to=row["apply_to"])
