"""What RabbitMQ's definitions may have that has no counterpart here, and what to do about it.

Asked only of what could not be made. Knows nothing of brokers.
"""

from typing import Any

from leveret.broker.arguments import queue_type
from leveret.broker.declaration import EXCHANGE_TYPES
from leveret.broker.parameter import LIMITS_COMPONENT, OPERATOR_COMPONENT
from leveret.broker.password import ARGON2ID, DIGESTS
from leveret.broker.patterns import BadPattern, Pattern
from leveret.broker.policy import OPERATOR_POLICY_KEYS, POLICY_KEYS
from leveret.broker.shovel import COMPONENT as SHOVEL_COMPONENT

Facts = dict[str, Any]

COMPONENTS = (LIMITS_COMPONENT, OPERATOR_COMPONENT, SHOVEL_COMPONENT)
QUEUE_TYPES = ("classic", "quorum")
PATTERNS = {
    "permissions": ("configure", "write", "read"),
    "topic_permissions": ("write", "read"),
    "policies": ("pattern",),
}
OR_LEAVE_OUT = ", or import it with --skip-unsupported (in HTTP ?skip_unsupported=true), which leaves that out"


class Lacking:
    """A thing, or a part of it, that there cannot be here: what to do, and what is left of it without that part."""

    __slots__ = ("advice", "left")

    def __init__(self, advice: str, left: Facts | None = None) -> None:
        self.advice = advice + OR_LEAVE_OUT
        self.left = left


def lacking(kind: str, facts: Facts) -> Lacking | None:
    """What of an entry has no counterpart; None if something else is wrong with it."""
    find = FINDERS.get(kind)
    return (None if find is None else find(facts)) or _bad_patterns(facts, PATTERNS.get(kind, ()))


def _of_queue(facts: Facts) -> Lacking | None:
    arguments = facts.get("arguments")
    kind = plain_type(facts.get("type")) or (queue_type(arguments) if isinstance(arguments, dict) else "classic")
    if isinstance(arguments, dict) and "x-queue-type" in arguments:
        kind = queue_type(arguments)
    return None if kind in QUEUE_TYPES else Lacking("make it a classic or a quorum queue in the file")


def _of_exchange(facts: Facts) -> Lacking | None:
    known = ", ".join(sorted(EXCHANGE_TYPES))
    return None if facts.get("type") in EXCHANGE_TYPES else Lacking(f"give it one of the types {known} in the file")


def _of_vhost(facts: Facts) -> Lacking | None:
    metadata = facts.get("metadata")
    tables = [facts, metadata] if isinstance(metadata, dict) else [facts]
    kinds = [plain_type(table["default_queue_type"]) for table in tables if "default_queue_type" in table]
    if all(kind in (*QUEUE_TYPES, None) for kind in kinds):
        return None
    left = {name: value for name, value in facts.items() if name != "default_queue_type"}
    if isinstance(metadata, dict):
        left["metadata"] = {name: value for name, value in metadata.items() if name != "default_queue_type"}
    return Lacking("give it the default_queue_type classic or quorum in the file", left)


def _of_user(facts: Facts) -> Lacking | None:
    hashing = facts.get("hashing_algorithm")
    if not hashing or hashing in DIGESTS or hashing == ARGON2ID:
        return None
    left = {name: value for name, value in facts.items() if name != "hashing_algorithm"} | {"password_hash": ""}
    return Lacking("give it a password in place of password_hash in the file", left)


def _of_parameter(facts: Facts) -> Lacking | None:
    component, value = facts.get("component"), facts.get("value")
    if component not in COMPONENTS:
        return Lacking("use a shovel instead")
    if component == OPERATOR_COMPONENT and isinstance(value, dict):
        left = _of_settings(value, OPERATOR_POLICY_KEYS)
        return left and Lacking(SETTINGS_ADVICE, None if left.left is None else {**facts, "value": left.left})
    protocols = (value.get("src-protocol"), value.get("dest-protocol")) if isinstance(value, dict) else ()
    return Lacking("let it use AMQP 0-9-1 in the file") if "amqp10" in protocols else None


SETTINGS_ADVICE = "take the settings that are not recognised out of the file"


def _of_policy(facts: Facts) -> Lacking | None:
    return _of_settings(facts, tuple(POLICY_KEYS))


def _of_settings(policy: Facts, known: tuple[str, ...]) -> Lacking | None:
    definition = policy.get("definition")
    if not isinstance(definition, dict) or all(name in known for name in definition):
        return None
    left = {name: value for name, value in definition.items() if name in known}
    return Lacking(SETTINGS_ADVICE, {**policy, "definition": left} if left else None)


def _bad_patterns(facts: Facts, names: tuple[str, ...]) -> Lacking | None:
    for name in names:
        try:
            Pattern(str(facts.get(name, "")))
        except BadPattern:
            return Lacking("write the pattern without look-around and back references")
    return None


def plain_type(kind: object) -> str | None:
    """A type of queue as users call it. RabbitMQ: some versions write the names of its modules."""
    if kind in (None, "", "undefined", "null"):
        return None
    return str(kind).removeprefix("rabbit_").removesuffix("_queue")


def objects(value: Any) -> Any:
    """RabbitMQ: rabbitmqctl writes an object as a list of pairs, wherever it is not the outermost one."""
    if isinstance(value, dict):
        return {name: objects(item) for name, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value):
            return {name: objects(item) for name, item in value}
        return [objects(item) for item in value]
    return value


FINDERS = {
    "vhosts": _of_vhost,
    "users": _of_user,
    "parameters": _of_parameter,
    "policies": _of_policy,
    "queues": _of_queue,
    "exchanges": _of_exchange,
}
