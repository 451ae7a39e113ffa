"""Exchanges and subscriptions as values. In files the same fields are written PrefetchCount for `prefetch_count`.

Nothing is checked here: `validation.py` has the rules, for files and for values alike.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict

from leveret.wire.values import Table, Value

TYPES = ("Direct", "Topic", "Fanout", "Headers")

AFTER, BEFORE, ON_SUCCESS = "AlwaysAfterHandling", "AlwaysBeforeHandling", "OnlyOnSuccessHandling"
ACKNOWLEDGE_POLICIES = (AFTER, BEFORE, ON_SUCCESS)

NEVER, ON_FAILURE, ON_FAILURE_DEAD_LETTER, WHEN_OVERLOADED = "Never", "OnFailure", "OnFailureDeadLetter", "WhenOverloaded"
REJECT_POLICIES = (NEVER, ON_FAILURE, ON_FAILURE_DEAD_LETTER, WHEN_OVERLOADED)

RECEIPTS = ("Never", "OnSuccess", "Always")

MIN_LISTEN_MS = 120_000
TIME_LIMIT_MS = 60_000

# module:function or a URL; a command and its arguments; a function of the message.
Handler = str | Sequence[str] | Callable[..., object]
# One of REJECT_POLICIES or module:function; {"WhenOverloaded": {"Load": …, "InFlight": …}}; a function of the message.
RejectPolicy = str | Mapping[str, Mapping[str, float]] | Callable[..., object]


class QueueOptions(TypedDict, total=False):
    """A queue with arguments, under the names that files have for them."""

    Name: str
    Arguments: Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Subscription:
    """Which messages of an exchange to consume, what handles them, and how they are acknowledged."""

    handler: Handler
    id: str | None = None
    name: str | None = None
    caption: str | None = None
    description: str | None = None
    queue: str | QueueOptions | None = None
    consumer_id: str | None = None
    routing_key: str | None = None
    routing_headers: Mapping[str, Value] | None = None
    prefetch_size: int = 0
    prefetch_count: int = 0
    worker_thread_count: int = 1
    min_listen_time: int = MIN_LISTEN_MS
    acknowledge_policy: str = AFTER
    reject_policy: RejectPolicy = NEVER
    # How often a message that fails is requeued, with OnFailure; 0 is no limit.
    delivery_limit: int = 0
    receipt: str = "Never"
    # For a command or a URL, in ms.
    handler_time_limit: int = TIME_LIMIT_MS

    @property
    def title(self) -> str:
        return str(self.name or self.consumer_id or self.id or "")

    @property
    def queue_arguments(self) -> Table:
        return self.queue.get("Arguments", {}) if isinstance(self.queue, Mapping) else {}

    @property
    def match_arguments(self) -> Table:
        """What its binding to a headers exchange has as arguments."""
        return match_arguments(self.routing_headers) if self.routing_headers else {}


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange and the subscriptions to it."""

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
        name = queue.get("Name") if isinstance(queue, Mapping) else queue
        return name or f"{self.name}.{subscription.name or subscription.consumer_id}"


def match_arguments(headers: Mapping[str, Value]) -> Table:
    """RoutingHeaders, flat or under `Headers`, as the arguments of a binding."""
    inner = headers.get("Headers")
    if not isinstance(inner, Mapping):
        return {"x-match": "all", **headers}
    outer = {name: value for name, value in headers.items() if name != "Headers"}
    return {"x-match": "all", **outer, **inner}


def import_function(text: str) -> Callable[..., object]:
    """Import what `module:function` names."""
    module, _, name = text.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., object] = found
    return function


def key_of(attribute: str) -> str:
    """What a field is called in files."""
    return "".join(word.capitalize() for word in attribute.split("_"))


SUBSCRIPTION_FIELDS = {key_of(one.name): one.name for one in fields(Subscription)}
EXCHANGE_FIELDS = {key_of(one.name): one.name for one in fields(Exchange)}
