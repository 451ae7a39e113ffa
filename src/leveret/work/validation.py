"""The rules for exchanges and subscriptions; each broken one is reported in one line, before anything connects.

Values come from files and from Python alike, and may be anything: that is why they are `object` here.
"""

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard
from urllib.parse import urlsplit

from leveret.wire.values import encode_table
from leveret.work.subscription import (
    ACKNOWLEDGE_POLICIES,
    BEFORE,
    ON_FAILURE,
    ON_FAILURE_DEAD_LETTER,
    RECEIPTS,
    REJECT_POLICIES,
    TYPES,
    WHEN_OVERLOADED,
    Exchange,
    Subscription,
    import_function,
    key_of,
    match_arguments,
)

NAME_MAX = 255
PREFETCH_COUNT_MAX = 0xFFFF
PREFETCH_SIZE_MAX = 0xFFFFFFFF
MS_MAX = 86_400_000
DELIVERY_LIMIT_MAX = 1_000_000

WORDS = {
    ("Direct", False): re.compile(r"([a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*)?"),
    ("Direct", True): re.compile(r"([a-zA-Z0-9]+(\.[a-zA-Z0-9]+)*)?"),
    ("Topic", False): re.compile(r"(([a-zA-Z0-9_-]+|\*|#)(\.([a-zA-Z0-9_-]+|\*|#))*)?"),
    ("Topic", True): re.compile(r"(([a-zA-Z0-9]+|\*|#)(\.([a-zA-Z0-9]+|\*|#))*)?"),
}
REJECT_RULE = f"must be one of {', '.join(REJECT_POLICIES)} or a module:function"
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")

# Fields, and the rules that they break.
Broken = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: file, subscription, field and rule."""

    file: str
    subscription: str
    field: str
    rule: str

    def __str__(self) -> str:
        line = ": ".join(part for part in (self.file, self.subscription, self.field, self.rule) if part)
        # Names, and the error of a module that cannot be imported, may contain anything.
        return "".join(letter if letter.isprintable() else "?" for letter in " ".join(line.split()))


class BadSubscriptions(Exception):
    """Some rules are broken; `problems` says which."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def check(exchanges: Sequence[Exchange], strict: bool = False, files: Sequence[str] = ()) -> None:
    """Raise BadSubscriptions if a rule is broken. `files` says where each exchange comes from."""
    problems = problems_of(exchanges, strict, files)
    if problems:
        raise BadSubscriptions(problems)


def problems_of(exchanges: Sequence[Exchange], strict: bool = False, files: Sequence[str] = ()) -> list[Problem]:
    """All problems, in order."""
    found: list[Problem] = []
    seen: dict[str, Exchange] = {}
    queues: dict[str, str] = {}
    for place, exchange in enumerate(exchanges):
        file = files[place] if files else ""
        rows = list(_exchange_problems(exchange)) or list(_differences(exchange, seen))
        title = f"exchange {exchange.name}" if exchange.name else ""
        found += [Problem(file, title, name, rule) for name, rule in rows]
        for number, subscription in enumerate(exchange.subscriptions if _is_list(exchange.subscriptions) else (), 1):
            title = label_of(subscription.title, number)
            rows = list(_subscription_problems(exchange, subscription, strict))
            if not any(name in ("Name", "ConsumerId", "Queue") for name, _ in rows):
                rows += _duplicates(exchange.queue_of(subscription), f"{file}: {title}" if file else title, queues)
            found += [Problem(file, title, name, rule) for name, rule in rows]
    return found


def label_of(title: object, number: int) -> str:
    """How problems name a subscription: by its name, or by its number in the list."""
    return f"subscription {title or number}"


def _duplicates(queue: str, who: str, queues: dict[str, str]) -> Broken:
    if queue in queues:
        yield "Queue", f"{queue} is already used by another subscription ({queues[queue]})"
    queues.setdefault(queue, who)


def _differences(exchange: Exchange, seen: dict[str, Exchange]) -> Broken:
    known = seen.setdefault(exchange.name, exchange)
    for field in ("type", "durable"):
        if getattr(known, field) != getattr(exchange, field):
            yield key_of(field), "differs from another definition of this exchange"


def _exchange_problems(exchange: Exchange) -> Broken:
    yield from _named("Name", exchange.name, required=True)
    if exchange.type not in TYPES:
        yield "Type", f"must be one of {', '.join(TYPES)}"
    durable: object = exchange.durable
    if not isinstance(durable, bool):
        yield "Durable", "must be true or false"
    for attribute in ("id", "caption", "description"):
        yield from _text(key_of(attribute), getattr(exchange, attribute))
    if not _is_list(exchange.subscriptions):
        yield "Subscriptions", "must be a list"


def _subscription_problems(exchange: Exchange, one: Subscription, strict: bool) -> Broken:
    for attribute in ("id", "name", "caption", "description"):
        yield from _text(key_of(attribute), getattr(one, attribute))
    if one.consumer_id is not None:
        yield from _named("ConsumerId", one.consumer_id)
    if not one.name and not one.consumer_id:
        yield "Name", "is required unless there is a ConsumerId"
    yield from _queue_problems(exchange, one)
    yield from _routing_problems(exchange, one, strict)
    yield from _number("PrefetchSize", one.prefetch_size, 0, PREFETCH_SIZE_MAX)
    yield from _number("PrefetchCount", one.prefetch_count, 0, PREFETCH_COUNT_MAX)
    cores = os.cpu_count() or 1
    yield from _number("WorkerThreadCount", one.worker_thread_count, 1, cores, f"1 to {cores}, the cores of this machine")
    yield from _number("MinListenTime", one.min_listen_time, 1, MS_MAX)
    yield from _number("HandlerTimeLimit", one.handler_time_limit, 1, MS_MAX)
    if one.acknowledge_policy not in ACKNOWLEDGE_POLICIES:
        yield "AcknowledgePolicy", f"must be one of {', '.join(ACKNOWLEDGE_POLICIES)}"
    yield from _reject_problems(one)
    yield from _number("DeliveryLimit", one.delivery_limit, 0, DELIVERY_LIMIT_MAX)
    if one.delivery_limit not in (0, None) and one.reject_policy != ON_FAILURE:
        yield "DeliveryLimit", f"needs RejectPolicy {ON_FAILURE}: with any other, failed messages are not requeued"
    if one.receipt not in RECEIPTS:
        yield "Receipt", f"must be one of {', '.join(RECEIPTS)}"
    yield from _handler_problems(one.handler)


def _queue_problems(exchange: Exchange, one: Subscription) -> Broken:
    queue: object = one.queue
    if isinstance(queue, Mapping):
        if not set(queue) <= {"Name", "Arguments"}:
            yield "Queue", "must be a name, or an object with Name and Arguments"
        arguments = queue.get("Arguments", {})
        if not _is_table(arguments):
            yield "Queue", "Arguments must be an object with values that AMQP can carry"
        queue = queue.get("Name")
    if queue is not None and not isinstance(queue, str):
        yield "Queue", "must be a name, or an object with Name and Arguments"
    elif queue or one.name or one.consumer_id:
        name = exchange.queue_of(one)
        yield from _named("Queue", name)
        if name.startswith("amq."):
            yield "Queue", f"must not begin with amq., which is reserved for the broker: {name}"


def _routing_problems(exchange: Exchange, one: Subscription, strict: bool) -> Broken:
    key: object = one.routing_key
    words = WORDS.get((exchange.type, strict))
    if key is not None and not isinstance(key, str):
        yield "RoutingKey", "must be text"
    elif words is not None and key is None:
        yield "RoutingKey", f"is required for a {exchange.type} exchange"
    elif words is not None and key is not None and not words.fullmatch(key):
        letters = "[a-zA-Z0-9]" if strict else "[a-zA-Z0-9_-]"
        more = ", * for one word, # for any number" if exchange.type == "Topic" else ""
        yield "RoutingKey", f"must be empty or words of {letters} with dots between them{more}"
    elif key is not None:
        yield from _named("RoutingKey", key)
    yield from _headers_problems(exchange, one.routing_headers)


def _headers_problems(exchange: Exchange, headers: object) -> Broken:
    if headers is None:
        if exchange.type == "Headers":
            yield "RoutingHeaders", "is required for a Headers exchange"
        return
    if not isinstance(headers, Mapping) or not isinstance(headers.get("Headers", {}), Mapping):
        yield "RoutingHeaders", "must be an object of headers to match"
        return
    flat = match_arguments(headers)
    if flat["x-match"] not in ("all", "any"):
        yield "RoutingHeaders", "x-match must be all or any"
    elif not _is_table(flat):
        yield "RoutingHeaders", "must have values that AMQP can carry"


def _reject_problems(one: Subscription) -> Broken:
    policy: object = one.reject_policy
    if policy in (ON_FAILURE, ON_FAILURE_DEAD_LETTER) and one.acknowledge_policy == BEFORE:
        yield "RejectPolicy", f"{policy} cannot be combined with {BEFORE}: messages are already acknowledged when they fail"
    elif isinstance(policy, Mapping):
        if set(policy) != {WHEN_OVERLOADED} or not _is_overload_limit(policy[WHEN_OVERLOADED]):
            yield "RejectPolicy", "must be an object WhenOverloaded with Load (per core) or InFlight, above 0"
    elif isinstance(policy, str):
        if policy not in REJECT_POLICIES:
            yield from _function_problems("RejectPolicy", policy, REJECT_RULE, _decides)
    elif not callable(policy):
        yield "RejectPolicy", REJECT_RULE
    else:
        yield from _decides("RejectPolicy", policy)


def _decides(field: str, function: object) -> Broken:
    if inspect.iscoroutinefunction(function) or _generates(function):
        yield field, "must be a plain function that returns true or false"


def _is_overload_limit(limits: object) -> bool:
    return (
        isinstance(limits, Mapping)
        and 0 < len(limits) <= 2
        and set(limits) <= {"Load", "InFlight"}
        and all(isinstance(value, int | float) and not isinstance(value, bool) and value > 0 for value in limits.values())
    )


def _handler_problems(handler: object) -> Broken:
    rule = "must be a module:function, a list with a command and its arguments, or an http or https URL"
    if isinstance(handler, str):
        if handler.startswith(("http://", "https://")):
            if not _is_url(handler):
                yield "Handler", rule
        else:
            yield from _function_problems("Handler", handler, rule, _handles)
    elif isinstance(handler, Sequence):
        if not handler or not all(isinstance(word, str) and "\0" not in word for word in handler) or not handler[0]:
            yield "Handler", rule
    elif handler is None:
        yield "Handler", "is required"
    elif not callable(handler):
        yield "Handler", rule
    else:
        yield from _handles("Handler", handler)


def _handles(field: str, function: object) -> Broken:
    if _generates(function):
        yield field, "is a generator function: calling it does nothing"


def _generates(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # urlsplit lets pass what no request could have in its first line.
        plain = text.isascii() and text.isprintable() and " " not in text
        return plain and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _function_problems(field: str, text: str, rule: str, check: Callable[[str, Callable[..., object]], Broken]) -> Broken:
    if not FUNCTION.fullmatch(text):
        yield field, rule
        return
    try:
        found: object = import_function(text)
    except (Exception, SystemExit) as error:  # importing runs whatever the module does
        yield field, f"{text} cannot be imported: {type(error).__name__}: {error}"
    else:
        if not callable(found):
            yield field, f"{text} is not a function"
        else:
            yield from check(field, found)


def _named(field: str, name: object, required: bool = False) -> Broken:
    if not isinstance(name, str) or (required and not name):
        yield field, "is required" if name is None or name == "" else "must be text"
    elif not _is_unicode(name):
        yield field, "must be text"
    elif len(name.encode()) > NAME_MAX:
        yield field, f"must have at most {NAME_MAX} bytes"


def _text(field: str, value: object) -> Broken:
    if value is not None and not (isinstance(value, str) and _is_unicode(value)):
        yield field, "must be text"


def _number(field: str, value: object, least: int, most: int, rule: str = "") -> Broken:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        yield field, f"must be {rule}" if rule else f"must be a whole number from {least} to {most}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which YAML can write
        return False
    return True


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return False
    try:
        encode_table(dict(value))
    except (ValueError, TypeError, RecursionError, UnicodeError):
        return False
    return True
