"""Policies: settings for all queues and exchanges whose names match a pattern.

Of the policies that fit an object the one with the highest priority counts, and of the operator's policies likewise.
Texts are RabbitMQ's. Knows nothing of queues or exchanges: whoever has one asks for its kind and name.
"""

from collections.abc import Callable
from typing import Any, TypeGuard

from leveret.broker.patterns import BadPattern, Pattern
from leveret.errors import PreconditionFailed
from leveret.terms import term

APPLY_TO = {
    "all": ("exchange", "classic", "quorum"),
    "exchanges": ("exchange",),
    "queues": ("classic", "quorum"),
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": (),
}
# RabbitMQ: a policy with one of these is not for such queues at all. A delivery limit is for any queue here.
NOT_FOR: dict[str, tuple[str, ...]] = {
    "exchange": (),
    "classic": (
        "dead-letter-strategy",
        "initial-cluster-size",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "queue-leader-locator",
    ),
    "quorum": (
        "ha-mode",
        "ha-params",
        "ha-promote-on-failure",
        "ha-promote-on-shutdown",
        "ha-sync-mode",
        "initial-cluster-size",
        "queue-master-locator",
        "queue-mode",
    ),
}

Check = Callable[[object], bool]


def _count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: object) -> bool:
    return isinstance(value, str)


def _one_of(*values: object) -> Check:
    return lambda value: any(value == known and type(value) is type(known) for known in values)


def _anything(value: object) -> bool:
    return True


def _expiry(value: object) -> bool:
    return _count(value) and value >= 1


# Key: which values it takes, and what others are called.
POLICY_KEYS: dict[str, tuple[Check, str]] = {
    "alternate-exchange": (_text, "alternate exchange name"),
    "consumer-timeout": (_count, "consumer timeout"),
    "dead-letter-exchange": (_text, "dead letter exchange name"),
    "dead-letter-routing-key": (_text, "dead letter routing key"),
    "dead-letter-strategy": (_one_of("at-most-once", "at-least-once"), "dead letter strategy"),
    "delivery-limit": (_count, "delivery limit"),
    "expires": (_expiry, "queue expiry"),
    "initial-cluster-size": (_count, "cluster size"),
    "max-in-memory-bytes": (_count, "maximum memory in bytes"),
    "max-in-memory-length": (_count, "maximum memory in bytes"),
    "max-length": (_count, "maximum length"),
    "max-length-bytes": (_count, "maximum length in bytes"),
    "message-ttl": (_count, "message TTL"),
    "overflow": (_one_of("drop-head", "reject-publish", "reject-publish-dlx"), "overflow value"),
    "queue-leader-locator": (
        _one_of("client-local", "balanced", "random", "least-leaders"),
        "queue leader locator value",
    ),
    "queue-master-locator": (_text, "queue master locator"),
    "queue-mode": (_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": (_one_of(1, 2), "queue-version value"),
    # Kept: how many copies there are is a matter of the cluster.
    "ha-mode": (_one_of("all", "exactly", "nodes"), "ha-mode value"),
    "ha-params": (_anything, "ha-params value"),
    "ha-sync-mode": (_one_of("manual", "automatic"), "ha-sync-mode value"),
    "ha-sync-batch-size": (_count, "ha-sync-batch-size value"),
    "ha-promote-on-shutdown": (_one_of("when-synced", "always"), "ha-promote-on-shutdown value"),
    "ha-promote-on-failure": (_one_of("when-synced", "always"), "ha-promote-on-failure value"),
}
OPERATOR_POLICY_KEYS = (
    "delivery-limit",
    "expires",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "message-ttl",
    "overflow",
    "queue-version",
)


class Policy:
    """A pattern over names, and the settings of what it matches. Never changed: a new one takes its place."""

    __slots__ = ("apply_to", "definition", "name", "pattern", "priority")

    def __init__(
        self, name: str, pattern: str, definition: dict[str, Any], priority: int = 0, apply_to: str = "all"
    ) -> None:
        self.name = name
        self.definition = definition
        self.priority = priority
        self.apply_to = apply_to
        if not isinstance(pattern, str):
            raise PreconditionFailed(f"pattern should be a binary but was {term(pattern)}")
        try:
            self.pattern = Pattern(pattern)
        except BadPattern as error:
            raise PreconditionFailed(f"pattern should be regular expression but is invalid: {error}") from None
        if not isinstance(apply_to, str) or apply_to not in APPLY_TO:
            raise PreconditionFailed(
                f"apply-to '{apply_to}' unrecognised; should be one of: 'queues', 'classic_queues',  "
                "'quorum_queues', 'streams', 'exchanges', or 'all'"
            )
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise PreconditionFailed(f"priority should be a number, actually was {term(priority)}")

    def says_the_same(self, other: "Policy") -> bool:
        """Whether nothing changes if the other takes its place."""
        return (self.pattern.text, self.definition, self.priority, self.apply_to) == (
            other.pattern.text,
            other.definition,
            other.priority,
            other.apply_to,
        )

    def fits(self, kind: str, name: str) -> bool:
        """Whether it is for a classic or quorum queue, or an exchange, of this name."""
        if kind not in APPLY_TO[self.apply_to] or not self.pattern.matches(name):
            return False
        return not any(setting in self.definition for setting in NOT_FOR[kind])


class Policies:
    """Policies, in the order in which they count."""

    __slots__ = ("_by_priority", "_known", "by_name")

    def __init__(self, operator: bool = False) -> None:
        self.by_name: dict[str, Policy] = {}
        self._by_priority: list[Policy] = []
        self._known = OPERATOR_POLICY_KEYS if operator else tuple(POLICY_KEYS)

    def check(self, policy: Policy) -> None:
        """Refuse a policy whose settings these cannot have."""
        check_definition(policy.definition, self._known)

    def put(self, policy: Policy) -> None:
        """Add a policy, or put it in the place of the one with its name."""
        self.by_name[policy.name] = policy
        self._sort()

    def remove(self, name: str) -> None:
        del self.by_name[name]
        self._sort()

    def best(self, kind: str, name: str) -> Policy | None:
        """The policy that counts for an object."""
        for policy in self._by_priority:
            if policy.fits(kind, name):
                return policy
        return None

    def _sort(self) -> None:
        self._by_priority = sorted(self.by_name.values(), key=lambda policy: -policy.priority)


def check_definition(definition: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse settings that do not exist, and values they cannot have."""
    if not definition:
        raise PreconditionFailed("no policy provided")
    if not isinstance(definition, dict):
        raise PreconditionFailed(f"definition must be a dictionary: {term(definition)}")
    for setting, value in definition.items():
        if setting in known and not POLICY_KEYS[setting][0](value):
            raise PreconditionFailed(f"{term(value)} is not a valid {POLICY_KEYS[setting][1]}")
    unknown = {setting: value for setting, value in definition.items() if setting not in known}
    if unknown:
        raise PreconditionFailed(f"{term(unknown)} are not recognised policy settings")
