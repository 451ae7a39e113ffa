"""Methods to and from the payload of a method frame.

`spec` says which fields a method has; here is how each kind of field lies on the wire:

  bit       consecutive bits share an octet, the first in its lowest place
  octet, short, long, longlong, timestamp    unsigned, big-endian, of 1, 2, 4, 8, 8 octets
  shortstr  length u8 and octets        longstr, table  length u32 and octets

(1) The fields must fill the payload to its last octet, else FrameError, with RabbitMQ's text.
(2) A short string must be UTF-8, else FrameError, save in the methods that carry content, where RabbitMQ does not look:
    there, any octets come through as surrogate escapes.
(3) A table that is malformed raises SyntaxFault, an unknown method CommandInvalid; RabbitMQ drops the TCP connection.

Does not know what methods mean. The hot ones (basic.publish, basic.deliver, …) have faster ways of their own elsewhere.
"""

from typing import Any

from leveret.errors import CommandInvalid, FrameError, MalformedString
from leveret.wire.spec import FRAME_END, FRAME_METHOD, METHODS, Method
from leveret.wire.values import decode_table, encode_short_string, encode_table

_WIDTHS = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
_RESERVED = {"bit": False, "short": 0, "shortstr": "", "longstr": b""}
_SHOWN_OCTETS = 256  # more than fit a reply text


def decode_method(index: int, data: bytes, start: int, stop: int) -> Method:
    """Return the method whose fields, after the index's four octets, lie between `start` and `stop`."""
    kind = METHODS.get(index)
    if kind is None:
        raise CommandInvalid("unimplemented method")
    spans = _spans(kind, data, start, stop)
    if spans is None:
        raise FrameError(f"cannot decode {_shown(data, start, stop)}")
    values: dict[str, Any] = {}
    for (name, field_kind), (first, last) in zip(kind.FIELDS, spans, strict=True):
        value = _field(kind, field_kind, data, first, last)
        if name:
            values[name] = value
    return kind(**values)


def encode_method(method: Method) -> bytes:
    """Return the method frame's payload: index and fields; ValueError for what does not fit."""
    out = bytearray()
    _write_payload(out, method)
    return bytes(out)


def write_method(out: bytearray, channel: int, method: Method) -> None:
    """Append the method's whole frame to `out`, or nothing if it cannot be encoded."""
    payload = encode_method(method)
    out.append(FRAME_METHOD)
    out += channel.to_bytes(2, "big")
    out += len(payload).to_bytes(4, "big")
    out += payload
    out.append(FRAME_END)


def _spans(kind: type[Method], data: bytes, start: int, stop: int) -> list[tuple[int, int]] | None:
    """Return where each field's content lies, or None if they do not end at `stop`.

    A bit's span is its octet and its place in it.
    """
    spans: list[tuple[int, int]] = []
    at = start
    bit = 8  # the place of the next bit; at 8 it needs another octet
    for _, field_kind in kind.FIELDS:
        if field_kind == "bit":
            if bit == 8:
                bit, at = 0, at + 1
            spans.append((at - 1, bit))
            bit += 1
            continue
        bit = 8
        first = at
        size = _WIDTHS.get(field_kind)
        if size is None:
            first += 1 if field_kind == "shortstr" else 4
            if first > stop:
                return None
            size = int.from_bytes(data[at:first], "big")
        at = first + size
        if at > stop:
            return None
        spans.append((first, at))
    return spans if at == stop else None


def _field(method: type[Method], kind: str, data: bytes, first: int, last: int) -> Any:
    if kind == "bit":
        return data[first] >> last & 1 == 1
    if kind == "shortstr":
        return _short_string(data[first:last], method.CONTENT)
    if kind == "table":
        return decode_table(data, first, last)
    if kind == "longstr":
        return data[first:last]
    return int.from_bytes(data[first:last], "big")


def _short_string(octets: bytes, any_octets: bool) -> str:
    if any_octets:
        return octets.decode("utf-8", "surrogateescape")
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise MalformedString("Malformed UTF-8 in shortstr") from None


def _shown(data: bytes, start: int, stop: int) -> str:
    """Return the octets as Erlang prints a binary."""
    return f"<<{','.join(map(str, data[start : min(stop, start + _SHOWN_OCTETS)]))}>>"


def _write_payload(out: bytearray, method: Method) -> None:
    out += method.INDEX.to_bytes(4, "big")
    bit = 8
    for name, kind in method.FIELDS:
        value = getattr(method, name) if name else _RESERVED[kind]
        if kind == "bit":
            if bit == 8:
                bit = 0
                out.append(0)
            out[-1] |= bool(value) << bit
            bit += 1
        else:
            bit = 8
            _write_field(out, kind, value)


def _write_field(out: bytearray, kind: str, value: Any) -> None:
    width = _WIDTHS.get(kind)
    if width is not None:
        if not 0 <= value < 1 << 8 * width:
            raise ValueError(f"{value} does not fit the type {kind}")
        out += value.to_bytes(width, "big")
    elif kind == "shortstr":
        out += encode_short_string(value)
    elif kind == "longstr":
        out += len(value).to_bytes(4, "big")
        out += value
    else:
        out += encode_table(value)
