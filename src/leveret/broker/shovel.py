"""What a shovel's parameter says: from where to where messages go, and how. Checked here, run elsewhere.

Keys, defaults and texts are RabbitMQ's. All that is wrong is told at once, one fault a line, in RabbitMQ's order. Beyond
RabbitMQ's own checks, what could not be put on the wire later is refused too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

from leveret.broker.arguments import CHECKS, CONSUMER_CHECKS
from leveret.errors import AMQPError, PreconditionFailed
from leveret.terms import term
from leveret.uri import BadUri, Uri, parse_uri, redacted
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.values import decode_table, encode_table

COMPONENT = "shovel"
SHOVELS_MAX = 1000
PREFETCH_COUNT = 1000
PREFETCH_MAX = 0xFFFF
RECONNECT_DELAY_S = 5
NEVER, QUEUE_LENGTH = "never", "queue-length"
ON_CONFIRM, ON_PUBLISH, NO_ACK = "on-confirm", "on-publish", "no-ack"

Checks = dict[str, Callable[[str, object], str | None]]
Enters = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Source:
    """Where messages come from: a queue, or an exchange through a queue of the shovel's own."""

    uris: tuple[Uri, ...]
    queue: str | None
    exchange: str | None
    routing_key: str
    queue_arguments: dict[str, Any]
    consumer_arguments: dict[str, Any]
    prefetch_count: int
    delete_after: int | str


@dataclass(frozen=True, slots=True)
class Destination:
    """Where they go: a queue, an exchange, or the exchange of the same name; None leaves what a message had."""

    uris: tuple[Uri, ...]
    queue: str | None
    exchange: str | None
    routing_key: str | None
    queue_arguments: dict[str, Any]
    forward_headers: bool
    timestamp_header: bool
    properties: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShovelDefinition:
    """The whole parameter. A `reconnect_delay_s` of 0 is for one that does not try again."""

    source: Source
    destination: Destination
    ack_mode: str
    reconnect_delay_s: float


def check_shovel(name: str, value: object, enters: Enters | None = None) -> None:
    """Refuse a parameter that cannot be run; `enters` says what is wrong with a vhost of this broker, for who sets it."""
    faults = list(_faults(name, value, enters))
    if faults:
        raise PreconditionFailed("\n".join(faults))


def shovel_definition(value: dict[str, Any]) -> ShovelDefinition:
    """What a parameter says that was checked before."""
    get = value.get
    source = Source(
        uris=_uris(value["src-uri"]),
        queue=get("src-queue"),
        exchange=get("src-exchange"),
        routing_key=get("src-exchange-key", ""),
        queue_arguments=get("src-queue-args") or {},
        consumer_arguments=get("src-consumer-args") or {},
        prefetch_count=get("src-prefetch-count", get("prefetch-count", PREFETCH_COUNT)),
        delete_after=get("src-delete-after", get("delete-after", NEVER)),
    )
    destination = Destination(
        uris=_uris(value["dest-uri"]),
        queue=get("dest-queue"),
        exchange=get("dest-exchange"),
        routing_key=get("dest-exchange-key"),
        queue_arguments=get("dest-queue-args") or {},
        forward_headers=get("dest-add-forward-headers", get("add-forward-headers", False)),
        timestamp_header=get("dest-add-timestamp-header", get("add-timestamp-header", False)),
        properties=get("dest-publish-properties", get("publish-properties")) or {},
    )
    delay = get("reconnect-delay", RECONNECT_DELAY_S)
    return ShovelDefinition(source, destination, get("ack-mode", ON_CONFIRM), max(0, delay))


def _uris(value: str | list[str]) -> tuple[Uri, ...]:
    return tuple(parse_uri(text) for text in ([value] if isinstance(value, str) else value))


# The faults of the whole


def _faults(name: str, value: object, enters: Enters | None) -> list[str]:
    if not isinstance(value, dict):
        return [f"{name} not a list {term(value)}"]
    for key in ("src-protocol", "dest-protocol"):
        if value.get(key) == "amqp10":
            return [f"{key} amqp10 is not supported, only amqp091"]
    faults = []
    if "src-exchange" not in value and "src-queue" not in value:
        faults.append("Must specify 'src-exchange' or 'src-queue'")
    if "src-exchange" in value and "src-queue" in value:
        faults.append("Cannot specify 'src-exchange' and 'src-queue'")
    after = value.get("src-delete-after", value.get("delete-after"))
    if value.get("ack-mode") == NO_ACK and _is_integer(after):
        faults.append("Cannot specify 'no-ack' and numerical 'delete-after'")
    if "dest-exchange" in value and "dest-queue" in value:
        faults.append("Cannot specify 'dest-exchange' and 'dest-queue'")
    return faults + _checked(name, value, {**CHECKED, "src-uri": _uri(enters), "dest-uri": _uri(enters)}, MANDATORY)


def _checked(name: str, value: object, checks: Checks, mandatory: tuple[str, ...] = ()) -> list[str]:
    """The faults of an object's keys and values."""
    if value == []:
        value = {}  # RabbitMQ: as an empty object may be written
    if not isinstance(value, dict):
        return [f"{name} not a list {term(value)}"]
    faults = []
    for key, check in checks.items():
        fault = check(key, value[key]) if key in value else None
        if key not in value and key in mandatory:
            fault = f'Key "{key}" not found in {name}'
        if fault is not None:
            faults.append(fault)
    # RabbitMQ: what was looked at last is told first.
    faults.reverse()
    unknown = {key: found for key, found in value.items() if key not in checks}
    return ([f"Unrecognised terms {term(unknown)} in {name}"] if unknown else []) + faults


# The faults of one value; None if it has none


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(key: str, value: object) -> str | None:
    return None if isinstance(value, str) else f"{key} should be binary, actually was {term(value)}"


def _short(key: str, value: object) -> str | None:
    """A name or a routing key."""
    size = len(value.encode(errors="surrogateescape")) if isinstance(value, str) else 0
    return f"{key} should be less than 255 bytes, actually was {size}" if size > 255 else _text(key, value)


def _number(key: str, value: object) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return f"{key} should be a number, actually was {term(value)}"


def _prefetch(key: str, value: object) -> str | None:
    fault = _number(key, value)
    if fault is None and not (_is_integer(value) and 0 <= value <= PREFETCH_MAX):
        return f"{key} should be a whole number from 0 to {PREFETCH_MAX}, actually was {term(value)}"
    return fault


def _boolean(key: str, value: object) -> str | None:
    return None if isinstance(value, bool) else f"{key} should be boolean, actually was {term(value)}"


def _one_of(*values: str) -> Callable[[str, object], str | None]:
    def check(key: str, value: object) -> str | None:
        if not isinstance(value, str) or value in values:
            return _text(key, value)
        return f"{key} should be one of {term(list(values))}, actually was {term(value)}"

    return check


def _delete_after(key: str, value: object) -> str | None:
    if value in (NEVER, QUEUE_LENGTH) or (_is_integer(value) and value >= 0):
        return None
    return f'{key} should be a number greater than or equal to 0, "{NEVER}" or "{QUEUE_LENGTH}", actually was {term(value)}'


def _arguments(known: Checks) -> Callable[[str, object], str | None]:
    """A field table with these keys. RabbitMQ: what they mean is for the broker to say that gets them."""

    def check(key: str, value: object) -> str | None:
        faults = _checked(key, value, known)
        return "\n".join(faults) if faults else _encodable(key, value)

    return check


def _encodable(key: str, value: Any) -> str | None:
    try:
        octets = encode_table(value or {})
        # What is nested too deeply can be written, but not read.
        decode_table(octets, 4, len(octets))
    except (ValueError, RecursionError, AMQPError) as error:
        return f"{key} cannot be sent: {error}"
    return None


def _properties(key: str, value: Any) -> str | None:
    faults = _checked(key, value, PROPERTIES)
    if faults:
        return "\n".join(faults)
    try:
        encode_properties(Properties(**(value or {})))
    except (ValueError, AttributeError, TypeError) as error:
        return f"{key} cannot be sent: {error}"
    return None


def _uri(enters: Enters | None) -> Callable[[str, object], str | None]:
    """A URI, or several."""

    def check(key: str, value: object) -> str | None:
        if isinstance(value, str):
            return _uri_fault(value, enters)
        if not isinstance(value, list):
            return f"{key} should be list, actually was {term(value)}"
        if not value:
            return f"{key} should have at least one URI"
        for one in value:
            # RabbitMQ: what is no text is taken for a list of its own.
            fault = _uri_fault(one, enters) if isinstance(one, str) else f"{key} should be list, actually was {term(one)}"
            if fault is not None:
                return fault
        return None

    return check


def _uri_fault(text: str, enters: Enters | None) -> str | None:
    try:
        uri = parse_uri(text)
    except BadUri as error:
        shown = redacted(text)
        return f'"{shown}" not a valid URI: {{{error},"{shown}"}}'
    return enters(uri.vhost) if uri.local and enters is not None else None


def _anything(key: str, value: object) -> str | None:
    return None


MANDATORY = ("src-uri", "dest-uri")
STREAM_ARGUMENTS = ("x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes", "x-initial-cluster-size")
QUEUE_ARGUMENTS: Checks = dict.fromkeys((*CHECKS, *STREAM_ARGUMENTS), _anything)
CONSUMER_ARGUMENTS: Checks = dict.fromkeys((*CONSUMER_CHECKS, "x-stream-offset"), _anything)
PROPERTIES: Checks = {
    "content_type": _short,
    "content_encoding": _short,
    "delivery_mode": _number,
    "priority": _number,
    "correlation_id": _short,
    "reply_to": _short,
    "expiration": _short,
    "message_id": _short,
    "timestamp": _number,
    "type": _short,
    "user_id": _short,
    "app_id": _short,
    "cluster_id": _short,
}
# In RabbitMQ's order. The second name of two is from before 3.7.
CHECKED: Checks = {
    "reconnect-delay": _number,
    "ack-mode": _one_of(NO_ACK, ON_PUBLISH, ON_CONFIRM),
    "src-protocol": _one_of("amqp10", "amqp091"),
    "dest-protocol": _one_of("amqp10", "amqp091"),
    "src-uri": _anything,
    "src-exchange": _short,
    "src-exchange-key": _short,
    "src-queue": _short,
    "src-queue-args": _arguments(QUEUE_ARGUMENTS),
    "src-consumer-args": _arguments(CONSUMER_ARGUMENTS),
    "prefetch-count": _prefetch,
    "src-prefetch-count": _prefetch,
    "delete-after": _delete_after,
    "src-delete-after": _delete_after,
    "dest-uri": _anything,
    "dest-exchange": _short,
    "dest-exchange-key": _short,
    "dest-queue": _short,
    "dest-queue-args": _arguments(QUEUE_ARGUMENTS),
    "add-forward-headers": _boolean,
    "add-timestamp-header": _boolean,
    "dest-add-forward-headers": _boolean,
    "dest-add-timestamp-header": _boolean,
    "publish-properties": _properties,
    "dest-publish-properties": _properties,
}
