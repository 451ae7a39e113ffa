"""Limits that an operator sets: connections and queues of a vhost, connections and channels of a user.

What is there already when a limit is set stays.
"""

from typing import TYPE_CHECKING

from leveret.errors import NotAllowed, PreconditionFailed
from leveret.terms import term

if TYPE_CHECKING:
    from leveret.broker.access import User
    from leveret.broker.vhost import VirtualHost

VHOST_LIMITS = ("max-connections", "max-queues")
USER_LIMITS = ("max-connections", "max-channels")


def check_limits(limits: object, known: tuple[str, ...], title: str) -> None:
    """Refuse limits that do not exist, or are no integers; less than 0 is no limit."""
    if not isinstance(limits, dict):
        raise PreconditionFailed(f"{title} not a list {term(limits)}")
    unknown = {name: value for name, value in limits.items() if name not in known}
    if unknown:
        raise PreconditionFailed(f"Unrecognised terms {term(unknown)} in {title}")
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise PreconditionFailed(f"{name} should be a number, actually was {term(value)}")


def reached(limit: int | None, count: int) -> bool:
    """Whether one more would be over a limit."""
    return limit is not None and 0 <= limit <= count


def check_queue_limit(vhost: "VirtualHost", name: str) -> None:
    """Refuse one more queue in a vhost that may have no more."""
    limit = vhost.limits.get("max-queues")
    if reached(limit, len(vhost.queues)):
        raise PreconditionFailed(f"cannot declare queue '{name}': queue limit in vhost '{vhost.name}' ({limit}) is reached")


def check_channel_limit(user: "User") -> None:
    """Refuse one more channel of a user who may have no more."""
    limit = user.limits.get("max-channels")
    if limit is not None and reached(limit, user.channel_count()):
        raise NotAllowed(
            f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of ({limit})"
        )


def check_connection_limits(vhost: "VirtualHost", user: "User", refused: str) -> None:
    """Refuse one more connection of a user to a vhost if one of them may have no more; `refused` begins the text."""
    limit = vhost.limits.get("max-connections")
    if reached(limit, len(vhost.clients)):
        raise NotAllowed(f"{refused}: connection limit ({limit}) is reached")
    limit = user.limits.get("max-connections")
    if reached(limit, len(user.clients)):
        raise NotAllowed(f"connection refused for user '{user.name}': user connection limit ({limit}) is reached")
