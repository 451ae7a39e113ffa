"""Exchanges and subscriptions as values. Files name the same fields as the seed does: `prefetch_count` is PrefetchCount.

Nothing is checked here: `checking.py` has the rules, for files and for values alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

TYPES = ("Direct", "Topic", "Fanout", "Headers")

AFTER, BEFORE, ON_SUCCESS = "AlwaysAfterHandling", "AlwaysBeforeHandling", "OnlyOnSuccessHandling"
ACKNOWLEDGE_POLICIES = (AFTER, BEFORE, ON_SUCCESS)

NEVER, ON_FAILURE, ON_FAILURE_DEAD_LETTER, WHEN_OVERLOADED = "Never", "OnFailure", "OnFailureDeadLetter", "WhenOverloaded"
REJECT_POLICIES = (NEVER, ON_FAILURE, ON_FAILURE_DEAD_LETTER, WHEN_OVERLOADED)

RECEIPTS = ("Never", "OnSuccess", "Always")

MIN_LISTEN_MS = 120_000
TIME_LIMIT_MS = 60_000

Handler = str | Sequence[str] | Callable[..., Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subscription:
    """Which messages of an exchange are wanted, what handles them, and how they are acknowledged."""

    handler: Handler
    id: str | None = None
    name: str | None = None
    caption: str | None = None
    description: str | None = None
    # A name, or {"Name": …, "Arguments": {…}}.
    queue: str | Mapping[str, Any] | None = None
    consumer_id: str | None = None
    routing_key: str | None = None
    routing_headers: Mapping[str, Any] | None = None
    prefetch_size: int = 0
    prefetch_count: int = 0
    worker_thread_count: int = 1
    min_listen_time: int = MIN_LISTEN_MS
    acknowledge_policy: str = AFTER
    # One of REJECT_POLICIES, {"WhenOverloaded": {"Load": …, "InFlight": …}}, module:function or a function.
    reject_policy: str | Mapping[str, Any] | Callable[..., Any] = NEVER
    # How often a message that fails is given back, with OnFailure; 0 is for ever.
    delivery_limit: int = 0
    receipt: str = "Never"
    # Of a command or a URL, in ms.
    handler_time_limit: int = TIME_LIMIT_MS

    @property
    def title(self) -> str:
        return str(self.name or self.consumer_id or self.id or "")

    @property
    def queue_arguments(self) -> Mapping[str, Any]:
        return self.queue.get("Arguments", {}) if isinstance(self.queue, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange, and who gets its messages."""

    name: str
    type: str = "Fanout"
    durable: bool = True
    subscriptions: Sequence[Subscription] = field(default=())
    id: str | None = None
    caption: str | None = None
    description: str | None = None

    def queue_of(self, subscription: Subscription) -> str:
        """The name of a subscription's queue."""
        queue = subscription.queue
        named = queue.get("Name") if isinstance(queue, Mapping) else queue
        return named or f"{self.name}.{subscription.name or subscription.consumer_id}"


def file_name(attribute: str) -> str:
    """What a field is called in files."""
    return "".join(word.capitalize() for word in attribute.split("_"))


SUBSCRIPTION_FIELDS = {file_name(one.name): one.name for one in fields(Subscription)}
EXCHANGE_FIELDS = {file_name(one.name): one.name for one in fields(Exchange)}
