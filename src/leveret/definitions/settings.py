"""What the settings define: vhosts, users, rights, policies and parameters.

What is wrong is said with where it stands; nothing is applied by halves: `apply` is for a broker that is being built.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.definitions.definition import Definition
from leveret.definitions.parameter import ParameterDefinition
from leveret.definitions.permission import PermissionDefinition, TopicPermissionDefinition
from leveret.definitions.policy import OperatorPolicyDefinition, PolicyDefinition
from leveret.definitions.user import UserDefinition
from leveret.definitions.vhost import VhostDefinition
from leveret.errors import AMQPError


class Definitions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that can be defined, by kind."""

    vhosts: list[VhostDefinition] = []
    users: list[UserDefinition] = []
    permissions: list[PermissionDefinition] = []
    topic_permissions: list[TopicPermissionDefinition] = []
    policies: list[PolicyDefinition] = []
    operator_policies: list[OperatorPolicyDefinition] = []
    parameters: list[ParameterDefinition] = []
    global_parameters: dict[str, Any] = {}


class BadDefinition(Exception):
    """A definition the model refuses: where it stands, and which rule it breaks."""

    def __init__(self, place: str, rule: str) -> None:
        super().__init__(f"{place}: {rule}")
        self.place = place
        self.rule = rule


def apply(broker: Broker, definitions: Definitions) -> None:
    """Make what is defined, in the order in which one needs the other."""
    kinds: dict[str, Sequence[Definition]] = {
        "vhosts": definitions.vhosts,
        "users": definitions.users,
        "permissions": definitions.permissions,
        "topic_permissions": definitions.topic_permissions,
        "policies": definitions.policies,
        "operator_policies": definitions.operator_policies,
        "parameters": definitions.parameters,
    }
    for kind, things in kinds.items():
        for at, definition in enumerate(things):
            try:
                definition.make(broker)
            except AMQPError as error:
                raise BadDefinition(f"{kind}[{at}] ({definition.title})", str(error)) from None
    for name, value in definitions.global_parameters.items():
        broker.set_parameter(name, value)
