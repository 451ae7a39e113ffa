"""Vhosts, users, rights and policies as an operator writes them, with the names of RabbitMQ's definitions file.

What is wrong is said with where it stands; nothing is applied by halves: `apply` is for a broker that is being built.
"""

from typing import Any

import msgspec

from leveret.broker.access import SHA256
from leveret.broker.broker import Broker
from leveret.errors import AMQPError

Limits = dict[str, int]


class Definition(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"apply_to": "apply-to"}):
    """A thing to make."""


class VhostDefinition(Definition, frozen=True):
    name: str
    description: str = ""
    tags: list[str] = []
    default_queue_type: str | None = None
    limits: Limits = {}
    tracing: bool = False


class UserDefinition(Definition, frozen=True):
    name: str
    password: str = ""
    password_hash: str = ""
    hashing_algorithm: str = SHA256
    tags: list[str] = []
    limits: Limits = {}
    loopback_only: bool = False


class PermissionDefinition(Definition, frozen=True):
    user: str
    vhost: str = "/"
    configure: str = ""
    write: str = ""
    read: str = ""


class TopicPermissionDefinition(Definition, frozen=True):
    user: str
    exchange: str
    vhost: str = "/"
    write: str = ""
    read: str = ""


class PolicyDefinition(Definition, frozen=True):
    name: str
    pattern: str
    definition: dict[str, Any]
    vhost: str = "/"
    priority: int = 0
    apply_to: str = "all"


class ParameterDefinition(Definition, frozen=True):
    component: str
    name: str
    value: Any
    vhost: str = "/"


class Definitions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that can be defined, by kind."""

    vhosts: list[VhostDefinition] = []
    users: list[UserDefinition] = []
    permissions: list[PermissionDefinition] = []
    topic_permissions: list[TopicPermissionDefinition] = []
    policies: list[PolicyDefinition] = []
    operator_policies: list[PolicyDefinition] = []
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
    for kind, make in (
        ("vhosts", _make_vhost),
        ("users", _make_user),
        ("permissions", _make_permission),
        ("topic_permissions", _make_topic_permission),
        ("policies", _make_policy),
        ("operator_policies", _make_operator_policy),
        ("parameters", _make_parameter),
    ):
        for at, definition in enumerate(getattr(definitions, kind)):
            try:
                make(broker, definition)
            except AMQPError as error:
                raise BadDefinition(f"{kind}[{at}] ({_name(definition)})", str(error)) from None
    for name, value in definitions.global_parameters.items():
        broker.set_parameter(name, value)


def _name(definition: Any) -> str:
    return str(getattr(definition, "name", None) or definition.user)


def _make_vhost(broker: Broker, d: VhostDefinition) -> None:
    vhost = broker.add_vhost(d.name)
    vhost.describe(d.description, tuple(d.tags))
    vhost.set_default_queue_type(d.default_queue_type)
    vhost.set_limits(d.limits)
    vhost.set_tracing(d.tracing)


def _make_user(broker: Broker, d: UserDefinition) -> None:
    if d.password:
        user = broker.add_user(d.name, d.password, tuple(d.tags), d.loopback_only)
    else:
        user = broker.add_hashed_user(d.name, d.password_hash, d.hashing_algorithm, tuple(d.tags), d.loopback_only)
    # Also of one that was there before, who keeps it otherwise; it is stored with the limits.
    user.loopback_only = d.loopback_only
    broker.set_user_limits(d.name, d.limits)


def _make_permission(broker: Broker, d: PermissionDefinition) -> None:
    broker.set_permissions(d.user, d.vhost, d.configure, d.write, d.read)


def _make_topic_permission(broker: Broker, d: TopicPermissionDefinition) -> None:
    broker.set_topic_permissions(d.user, d.vhost, d.exchange, d.write, d.read)


def _make_policy(broker: Broker, d: PolicyDefinition) -> None:
    vhost = broker.find_vhost(d.vhost)
    vhost.set_policy(d.name, d.pattern, d.definition, priority=d.priority, apply_to=d.apply_to)


def _make_operator_policy(broker: Broker, d: PolicyDefinition) -> None:
    vhost = broker.find_vhost(d.vhost)
    vhost.set_operator_policy(d.name, d.pattern, d.definition, priority=d.priority, apply_to=d.apply_to)


def _make_parameter(broker: Broker, d: ParameterDefinition) -> None:
    broker.find_vhost(d.vhost).set_parameter(d.component, d.name, d.value)
