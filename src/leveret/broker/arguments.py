"""Queue arguments: which there are, which values they take, and what they say together with the policies.

Texts are RabbitMQ's. Arguments nobody knows are kept and ignored. Knows nothing of queues: it turns tables into a
`QueueSettings`, which the queue reads.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.errors import NotImplementedFault, PreconditionFailed
from leveret.wire.values import Table, Value, kind_of

if TYPE_CHECKING:
    from leveret.broker.message import Message

EXPIRY_MAX_MS = 315_360_000_000
PRIORITY_MAX = 255

INTEGERS = ("byte", "short", "signedint", "long", "unsignedbyte", "unsignedshort", "unsignedint")

Check = Callable[[Value, Table], str | None]


class QueueSettings:
    """What makes a queue more than a list: limits, times and where dropped messages go. None is no limit.

    `stay_of` says of each message how long it stays (ms; -1 for ever), in place of all times to live.
    """

    __slots__ = (
        "consumer_timeout_ms",
        "counts_deliveries",
        "dead_letter_exchange",
        "dead_letter_routing_key",
        "deduplicates",
        "delivery_limit",
        "expires_ms",
        "max_bytes",
        "max_length",
        "max_priority",
        "message_ttl_ms",
        "overflow",
        "quorum",
        "requeues_behind",
        "single_active_consumer",
        "stay_of",
    )

    def __init__(self) -> None:
        self.message_ttl_ms: int | None = None
        self.expires_ms: int | None = None
        self.max_length: int | None = None
        self.max_bytes: int | None = None
        self.overflow = "drop-head"
        self.dead_letter_exchange: str | None = None
        self.dead_letter_routing_key: str | None = None
        self.max_priority = 0
        self.single_active_consumer = False
        self.delivery_limit: int | None = None
        self.deduplicates = False
        # A message that was given back says how often (x-delivery-count).
        self.counts_deliveries = False
        self.stay_of: Callable[[Message], int] | None = None
        self.consumer_timeout_ms: int | None = None
        self.quorum = False
        # What a client gives back goes to the end.
        self.requeues_behind = False

    def ttl_ms_of(self, message: "Message") -> int:
        """How long a message may stay; -1 for as long as it likes."""
        if self.stay_of is not None:
            return self.stay_of(message)
        if self.message_ttl_ms is None:
            return message.ttl_ms
        return self.message_ttl_ms if message.ttl_ms < 0 else min(self.message_ttl_ms, message.ttl_ms)

    def pageable(self) -> bool:
        """Not with priorities, nor where messages are told apart or stay for times of their own: their entries stay."""
        return not (self.max_priority or self.deduplicates or self.stay_of is not None)


# Where RabbitMQ takes the smaller of argument, policy and operator policy.
SMALLEST = {
    "message_ttl_ms": ("x-message-ttl", "message-ttl"),
    "expires_ms": ("x-expires", "expires"),
    "max_length": ("x-max-length", "max-length"),
    "max_bytes": ("x-max-length-bytes", "max-length-bytes"),
    "delivery_limit": ("x-delivery-limit", "delivery-limit"),
}
# Where the argument goes before the policy.
FIRST = {
    "dead_letter_exchange": ("x-dead-letter-exchange", "dead-letter-exchange"),
    "dead_letter_routing_key": ("x-dead-letter-routing-key", "dead-letter-routing-key"),
}


def queue_settings_of(arguments: Table, policy: Table, operator_policy: Table) -> QueueSettings:
    """What a queue's arguments and policies say together."""
    settings = QueueSettings()
    for field, (argument, key) in SMALLEST.items():
        sources = ((arguments, argument), (policy, key), (operator_policy, key))
        given = [table[name] for table, name in sources if name in table]
        if given:
            smallest = min(int(value) for value in given)  # type: ignore[arg-type]
            # A policy may say any number, and times must stay within 64 bits.
            setattr(settings, field, min(smallest, EXPIRY_MAX_MS) if field.endswith("_ms") else smallest)
    for field, (argument, key) in FIRST.items():
        value = arguments.get(argument, policy.get(key, operator_policy.get(key)))
        if isinstance(value, str):
            setattr(settings, field, value)
    settings.overflow = _overflow(arguments, {**policy, **operator_policy})
    priority = arguments.get("x-max-priority", 0)
    settings.max_priority = priority if isinstance(priority, int) else 0
    settings.single_active_consumer = arguments.get("x-single-active-consumer") is True
    settings.deduplicates = arguments.get("x-message-deduplication") is True
    settings.consumer_timeout_ms = _consumer_timeout(arguments, policy)
    settings.quorum = queue_type(arguments) == "quorum"
    settings.counts_deliveries = settings.delivery_limit is not None or settings.quorum
    # RabbitMQ: without a limit a quorum queue writes a message anew that a client gives back, behind all others.
    settings.requeues_behind = settings.quorum and settings.delivery_limit is None
    return settings


def _consumer_timeout(arguments: Table, policy: Table) -> int | None:
    # RabbitMQ: nobody looks at the argument when the queue is declared.
    given = (arguments.get("x-consumer-timeout"), policy.get("consumer-timeout"))
    times = [int(value) for value in given if isinstance(value, int) and not isinstance(value, bool) and value >= 0]
    return min(times, default=None)


def _overflow(arguments: Table, policies: Table) -> str:
    by_argument, by_policy = arguments.get("x-overflow"), policies.get("overflow")
    # RabbitMQ: a classic queue's argument goes before its policies, a quorum queue's behind them.
    first, second = (by_policy, by_argument) if queue_type(arguments) == "quorum" else (by_argument, by_policy)
    return str(first or second or "drop-head")


def integer_of(value: Value) -> int | None:
    """A whole number of any width; None if it is something else."""
    return int(value) if isinstance(value, int) and kind_of(value) in INTEGERS else None


def _integer(value: Value, arguments: Table) -> str | None:
    return f'"expected integer, got {kind_of(value)}"' if integer_of(value) is None else None


def _not_negative(value: Value, arguments: Table) -> str | None:
    fault = _integer(value, arguments)
    if fault is None and (integer_of(value) or 0) < 0:
        return f"{{value_negative,{value!s}}}"
    return fault


def _ttl(value: Value, arguments: Table) -> str | None:
    fault = _not_negative(value, arguments)
    if fault is None and (integer_of(value) or 0) > EXPIRY_MAX_MS:
        return f"{{value_too_large,{value!s}}}"
    return fault


def _expires(value: Value, arguments: Table) -> str | None:
    if _integer(value, arguments) is None and value == 0:
        return "{value_zero,0}"
    return _ttl(value, arguments)


def _priority(value: Value, arguments: Table) -> str | None:
    fault = _not_negative(value, arguments)
    if fault is None and (integer_of(value) or 0) > PRIORITY_MAX:
        return f"{{max_value_exceeded,{value!s}}}"
    return fault


def _group_size(value: Value, arguments: Table) -> str | None:
    fault = _not_negative(value, arguments)
    return "{value_zero,0}" if fault is None and value == 0 else fault


def _version(value: Value, arguments: Table) -> str | None:
    fault = _not_negative(value, arguments)
    return f"\"unsupported queue version '{value!s}'\"" if fault is None and value not in (1, 2) else fault


def _boolean(value: Value, arguments: Table) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{kind_of(value)}}}"


def _string(value: Value, arguments: Table) -> str | None:
    return None if kind_of(value) == "longstr" else f"{{unacceptable_type,{kind_of(value)}}}"


def _one_of(names: tuple[str, ...], fault: str) -> Check:
    def check(value: Value, arguments: Table) -> str | None:
        return _string(value, arguments) or (None if value in names else fault.format(value))

    return check


def _dead_letter_key(value: Value, arguments: Table) -> str | None:
    if "x-dead-letter-exchange" not in arguments:
        return _string(value, arguments) or "routing_key_but_no_dlx_defined"
    return _string(value, arguments)


def _node_names(value: Value, arguments: Table) -> str | None:
    whole = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return None if whole else f"{{unacceptable_type,{kind_of(value)}}}"


CHECKS: dict[str, Check] = {
    "x-expires": _expires,
    "x-message-ttl": _ttl,
    "x-dead-letter-exchange": _string,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _one_of(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
    "x-queue-mode": _one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": _version,
    "x-single-active-consumer": _boolean,
    "x-queue-type": _one_of(("classic", "quorum", "stream"), "\"unsupported queue type '{}'\""),
    "x-quorum-initial-group-size": _group_size,
    "x-queue-leader-locator": _one_of(("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"),
    "x-queue-master-locator": _string,
    "x-delivery-limit": _not_negative,
    "x-message-deduplication": _boolean,
    "x-cache-size": _not_negative,
    "x-cache-ttl": _ttl,
    "x-ha-policy": _one_of(("all", "nodes"), "invalid_ha_policy"),
    "x-ha-nodes": _node_names,
}

ONLY_CLASSIC = ("x-max-priority", "x-queue-mode", "x-queue-version", "x-queue-master-locator")
ONLY_QUORUM = ("x-max-in-memory-length", "x-max-in-memory-bytes", "x-quorum-initial-group-size")


def queue_type(arguments: Table) -> str:
    return str(arguments.get("x-queue-type", "classic"))


def check_queue_arguments(arguments: Table, title: str) -> None:
    """Refuse values that cannot be, and arguments the queue's type does not have."""
    _check("x-queue-type", arguments, title)
    kind = queue_type(arguments)
    if kind == "stream":
        raise NotImplementedFault("stream queues")
    for name in CHECKS:
        _check(name, arguments, title)
    for name in ONLY_CLASSIC if kind == "quorum" else ONLY_QUORUM:
        if name in arguments:
            raise PreconditionFailed(f"invalid arg '{name}' for {title} of queue type rabbit_{kind}_queue")


CONSUMER_CHECKS: dict[str, Check] = {"x-priority": _integer, "x-cancel-on-ha-failover": _boolean}
NOT_FOR_CONSUMERS = {"classic": ("x-stream-offset",), "quorum": ("x-cancel-on-ha-failover", "x-stream-offset")}


def check_consumer_arguments(arguments: Table, queue_arguments: Table, title: str) -> None:
    """Refuse a consumer's arguments that cannot be, or that its queue's type does not have."""
    kind = queue_type(queue_arguments)
    refused = NOT_FOR_CONSUMERS[kind]
    for name, check in CONSUMER_CHECKS.items():
        fault = check(arguments[name], arguments) if name in arguments and name not in refused else None
        if fault is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {title}: {fault}")
    for name in refused:
        if name in arguments:
            raise PreconditionFailed(f"invalid arg '{name}' for {title} of queue type rabbit_{kind}_queue")


def check_quorum_properties(title: str, durable: bool, exclusive: bool, auto_delete: bool) -> None:
    """RabbitMQ: a quorum queue is durable and nobody's own."""
    for fault, name in ((exclusive, "exclusive-owner"), (auto_delete, "auto-delete"), (not durable, "non-durable")):
        if fault:
            raise PreconditionFailed(f"invalid property '{name}' for {title}")


def _check(name: str, arguments: Table, title: str) -> None:
    if name in arguments:
        fault = CHECKS[name](arguments[name], arguments)
        if fault is not None:
            raise PreconditionFailed(f"invalid arg '{name}' for {title}: {fault}")
