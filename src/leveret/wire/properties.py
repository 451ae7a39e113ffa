"""The fourteen properties of a message, to and from the end of a content header.

  properties := flags u16 | value*        a value for each flag that is set, highest flag first

(1) A property is absent (None) exactly when its flag is not set.
(2) The values must fill the header to its last octet, else SyntaxFault. (RabbitMQ closes with 541 and no explanation.)
(3) The two lowest flags are ignored and not sent again, as in RabbitMQ; content of the basic class needs no more flags.
(4) Short strings may be any octets: those that are not UTF-8 come through as surrogate escapes.

For those who need to read or change properties; a message that only passes keeps its octets as they came.
"""

from dataclasses import dataclass
from typing import Any

from leveret.errors import SyntaxFault
from leveret.wire.values import Table, decode_table, encode_short_string, encode_table

FLAG_CONTENT_TYPE = 0x8000
FLAG_CONTENT_ENCODING = 0x4000
FLAG_HEADERS = 0x2000
FLAG_DELIVERY_MODE = 0x1000
FLAG_PRIORITY = 0x0800
FLAG_CORRELATION_ID = 0x0400
FLAG_REPLY_TO = 0x0200
FLAG_EXPIRATION = 0x0100
FLAG_MESSAGE_ID = 0x0080
FLAG_TIMESTAMP = 0x0040
FLAG_TYPE = 0x0020
FLAG_USER_ID = 0x0010
FLAG_APP_ID = 0x0008
FLAG_CLUSTER_ID = 0x0004

FIELDS = (
    (FLAG_CONTENT_TYPE, "content_type", "shortstr"),
    (FLAG_CONTENT_ENCODING, "content_encoding", "shortstr"),
    (FLAG_HEADERS, "headers", "table"),
    (FLAG_DELIVERY_MODE, "delivery_mode", "octet"),
    (FLAG_PRIORITY, "priority", "octet"),
    (FLAG_CORRELATION_ID, "correlation_id", "shortstr"),
    (FLAG_REPLY_TO, "reply_to", "shortstr"),
    (FLAG_EXPIRATION, "expiration", "shortstr"),
    (FLAG_MESSAGE_ID, "message_id", "shortstr"),
    (FLAG_TIMESTAMP, "timestamp", "timestamp"),
    (FLAG_TYPE, "type", "shortstr"),
    (FLAG_USER_ID, "user_id", "shortstr"),
    (FLAG_APP_ID, "app_id", "shortstr"),
    (FLAG_CLUSTER_ID, "cluster_id", "shortstr"),
)
_LENGTH_WIDTHS = {"shortstr": 1, "table": 4}
_WIDTHS = {"octet": 1, "timestamp": 8}


@dataclass(slots=True)
class Properties:
    """What a publisher said about a message; None where it said nothing."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def decode_properties(data: bytes, start: int, stop: int) -> Properties:
    """Return the properties between `start`, where the flags are, and `stop`."""
    at = start + 2
    if at > stop:
        raise SyntaxFault("content header ends before its property flags")
    flags = int.from_bytes(data[start:at], "big")
    properties = Properties()
    for flag, name, kind in FIELDS:
        if flags & flag:
            first, at = _span(kind, data, at, stop)
            setattr(properties, name, _value(kind, data, first, at))
    if at != stop:
        raise SyntaxFault("content header goes on after its properties")
    return properties


def encode_properties(properties: Properties) -> bytes:
    """Return the flags and the values; ValueError for what does not fit the wire."""
    flags = 0
    out = bytearray(2)
    for flag, name, kind in FIELDS:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            _write_value(out, kind, value)
    out[:2] = flags.to_bytes(2, "big")
    return bytes(out)


def _span(kind: str, data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Return where the value's content lies, its length left out."""
    size = _WIDTHS.get(kind)
    first = at
    if size is None:
        first += _LENGTH_WIDTHS[kind]
        size = int.from_bytes(data[at : min(first, stop)], "big")
    if first + size > stop:
        raise SyntaxFault("content header ends within a property")
    return first, first + size


def _value(kind: str, data: bytes, first: int, last: int) -> Any:
    if kind == "shortstr":
        return data[first:last].decode("utf-8", "surrogateescape")
    if kind == "table":
        return decode_table(data, first, last)
    return int.from_bytes(data[first:last], "big")


def _write_value(out: bytearray, kind: str, value: Any) -> None:
    if kind == "shortstr":
        out += encode_short_string(value)
    elif kind == "table":
        out += encode_table(value)
    else:
        width = _WIDTHS[kind]
        if not 0 <= value < 1 << 8 * width:
            raise ValueError(f"{value} does not fit the type {kind}")
        out += value.to_bytes(width, "big")
