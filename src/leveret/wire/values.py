"""Field tables: AMQP's self-describing values, to and from bytes.

A value is natural Python that remembers its wire type, so that encoding what was decoded gives the same octets:

  t bool           b Byte            s Short            I SignedInt      l L int      f Float32      S str, LongString
  V None           B UnsignedByte    u UnsignedShort    i UnsignedInt    T Timestamp  d float        x bytes
  F dict           A list            D Decimal

(1) `check_table` alone decides what is well formed: every length is compared with what remains before anything is read,
    and nesting stops at TABLE_DEPTH_MAX. Decoding checks first and then builds without looking back.
(2) Whatever is malformed raises SyntaxFault. RabbitMQ drops the TCP connection without a word here.
(3) A long string that is not UTF-8 becomes LongString; a key that is not keeps its octets as surrogate escapes.
(4) Of equal keys the first counts, as RabbitMQ looks them up; the others are lost when the table is encoded again.
(5) `L` is written again as `l`, and any true `t` as 1, as RabbitMQ does.

Knows nothing of methods, frames or messages. Compiled when possible; the types are in `values.pxd`.
"""

import math
import struct
from decimal import Decimal
from typing import TypeAlias

from leveret.errors import SyntaxFault

TABLE_DEPTH_MAX = 32

Value: TypeAlias = "bool | int | float | Decimal | str | bytes | list[Value] | dict[str, Value] | None"
Table: TypeAlias = dict[str, Value]


class Byte(int):
    """A signed 8-bit integer."""

    __slots__ = ()


class UnsignedByte(int):
    """An unsigned 8-bit integer."""

    __slots__ = ()


class Short(int):
    """A signed 16-bit integer."""

    __slots__ = ()


class UnsignedShort(int):
    """An unsigned 16-bit integer."""

    __slots__ = ()


class SignedInt(int):
    """A signed 32-bit integer."""

    __slots__ = ()


class UnsignedInt(int):
    """An unsigned 32-bit integer."""

    __slots__ = ()


class Timestamp(int):
    """Seconds since 1970, unsigned, in 64 bits."""

    __slots__ = ()


class Float32(float):
    """A float of 32 bits."""

    __slots__ = ()


class LongString(bytes):
    """A long string whose octets are not UTF-8."""

    __slots__ = ()


# type -> RabbitMQ's name for it, its letter on the wire, and its layout where the size is fixed
_TYPES: dict[type, tuple[str, bytes, str]] = {
    bool: ("bool", b"t", ">?"),
    Byte: ("byte", b"b", ">b"),
    UnsignedByte: ("unsignedbyte", b"B", ">B"),
    Short: ("short", b"s", ">h"),
    UnsignedShort: ("unsignedshort", b"u", ">H"),
    SignedInt: ("signedint", b"I", ">i"),
    UnsignedInt: ("unsignedint", b"i", ">I"),
    int: ("long", b"l", ">q"),
    Timestamp: ("timestamp", b"T", ">Q"),
    Float32: ("float", b"f", ">f"),
    float: ("double", b"d", ">d"),
    Decimal: ("decimal", b"D", ""),
    str: ("longstr", b"S", ""),
    LongString: ("longstr", b"S", ""),
    bytes: ("binary", b"x", ""),
    list: ("array", b"A", ""),
    dict: ("table", b"F", ""),
    type(None): ("void", b"V", ""),
}
_PACKERS = {kind: (letter, struct.Struct(layout)) for kind, (_, letter, layout) in _TYPES.items() if layout}
_UNPACKERS = {letter[0]: (kind, packer) for kind, (letter, packer) in _PACKERS.items()}
_UNPACKERS[ord("L")] = _UNPACKERS[ord("l")]

_LENGTH = struct.Struct(">I")
_DECIMAL = struct.Struct(">BI")


# -- checking


def _shapes() -> bytes:
    """Return for each letter what `_check_value` needs: the octets it takes, plus 16 x a further step."""
    shapes = bytearray(b"\xff" * 256)
    for letters, shape in (
        (b"V", 0x00),
        (b"tbB", 0x01),
        (b"su", 0x02),
        (b"Ii", 0x04),
        (b"D", 0x05),
        (b"lLT", 0x08),
        (b"Sx", 0x14),  # a length, and as many octets
        (b"F", 0x24),  # a length, and a table
        (b"A", 0x34),  # a length, and an array
        (b"f", 0x44),  # must be a number
        (b"d", 0x58),  # must be a number
    ):
        for letter in letters:
            shapes[letter] = shape
    return bytes(shapes)


_SHAPES = _shapes()


def check_table(data: bytes, start: int, stop: int, depth: int) -> int:
    """Raise unless a well-formed table lies exactly between `start` and `stop`; `depth` is 0 outside of any other.

    Returns 1 if one of its names is CC or BCC, which are more routing keys of a message, else 0.
    """
    if start < 0 or start > stop or stop > len(data):
        raise SyntaxFault("table reaches past its end")
    if depth >= TABLE_DEPTH_MAX:
        raise SyntaxFault(f"tables and arrays nested deeper than {TABLE_DEPTH_MAX}")
    p = data
    at = start
    copied = 0
    while at < stop:
        size = p[at]
        value = _check_value(data, at + 1 + size, stop, depth)
        if (size == 2 or size == 3) and p[at + size] == 67 and p[at + size - 1] == 67 and (size == 2 or p[at + 1] == 66):  # noqa: PLR1714
            copied = 1
        at = value
    return copied


def check_array(data: bytes, start: int, stop: int, depth: int) -> int:
    """Raise unless a well-formed array lies exactly between `start` and `stop`."""
    if start < 0 or start > stop or stop > len(data):
        raise SyntaxFault("array reaches past its end")
    if depth >= TABLE_DEPTH_MAX:
        raise SyntaxFault(f"tables and arrays nested deeper than {TABLE_DEPTH_MAX}")
    at = start
    while at < stop:
        at = _check_value(data, at, stop, depth)
    return 0


def _check_value(data: bytes, at: int, stop: int, depth: int) -> int:
    """Return where the value that starts at `at` ends, or raise; `stop` must lie within `data`."""
    if at >= stop:
        raise SyntaxFault("table ends before a field's value")
    p = data
    shapes = _SHAPES
    shape = shapes[p[at]]
    if shape == 0xFF:
        raise SyntaxFault(f"unknown type {p[at]} of a field's value")
    at += 1
    end = at + (shape & 15)
    if end > stop:
        raise SyntaxFault("table ends within a field's value")
    step = shape >> 4
    if step == 0:
        return end
    if step >= 4:
        # RabbitMQ: Erlang has no infinities and no NaN, so such a field cannot be decoded.
        if (p[at] & 0x7F) == 0x7F and p[at + 1] >= (0x80 if step == 4 else 0xF0):
            raise SyntaxFault("float that is not a number")
        return end
    size = p[at]
    size = (size << 8) | p[at + 1]
    size = (size << 8) | p[at + 2]
    size = (size << 8) | p[at + 3]
    if size > stop - end:
        raise SyntaxFault("table ends within a field's value")
    if step == 2:
        check_table(data, end, end + size, depth + 1)
    elif step == 3:
        check_array(data, end, end + size, depth + 1)
    return end + size


# -- decoding


def decode_table(data: bytes, start: int, stop: int) -> Table:
    """Return the table whose fields lie between `start` and `stop`, its length left out."""
    check_table(data, start, stop, 0)
    return _build_table(data, start, stop)


def decode_array(data: bytes, start: int, stop: int) -> list[Value]:
    """Return the array whose values lie between `start` and `stop`, its length left out."""
    check_array(data, start, stop, 0)
    return _build_array(data, start, stop)


def _build_table(data: bytes, start: int, stop: int) -> Table:
    table: Table = {}
    at = start
    while at < stop:
        end = at + 1 + data[at]
        key = data[at + 1 : end].decode("utf-8", "surrogateescape")
        value, at = _build_value(data, end)
        table.setdefault(key, value)
    return table


def _build_array(data: bytes, start: int, stop: int) -> list[Value]:
    array: list[Value] = []
    at = start
    while at < stop:
        value, at = _build_value(data, at)
        array.append(value)
    return array


def _build_value(data: bytes, at: int) -> tuple[Value, int]:
    """Return the checked value at `at` and where it ends."""
    letter = data[at]
    at += 1
    fixed = _UNPACKERS.get(letter)
    if fixed is not None:
        kind, packer = fixed
        return kind(packer.unpack_from(data, at)[0]), at + packer.size
    if letter == 0x56:  # V
        return None, at
    if letter == 0x44:  # D
        scale, digits = _DECIMAL.unpack_from(data, at)
        return _decimal(scale, digits), at + _DECIMAL.size
    at += 4
    end = at + _LENGTH.unpack_from(data, at - 4)[0]
    if letter == 0x53:  # S
        return _long_string(data[at:end]), end
    if letter == 0x78:  # x
        return data[at:end], end
    if letter == 0x46:  # F
        return _build_table(data, at, end), end
    return _build_array(data, at, end), end


def _decimal(scale: int, digits: int) -> Decimal:
    # From a tuple, as arithmetic would round to the context's precision and lose trailing zeros.
    return Decimal((0, [int(digit) for digit in str(digits)], -scale))


def _long_string(octets: bytes) -> str | LongString:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return LongString(octets)


# -- encoding


def encode_table(table: Table) -> bytes:
    """Return the table's octets, its length first; ValueError for what does not fit the wire."""
    out = bytearray()
    for key, value in table.items():
        out += encode_short_string(key)
        out += encode_value(value)
    return _LENGTH.pack(len(out)) + out


def encode_array(array: list[Value]) -> bytes:
    """Return the array's octets, its length first; ValueError for what does not fit the wire."""
    out = bytearray()
    for value in array:
        out += encode_value(value)
    return _LENGTH.pack(len(out)) + out


def encode_value(value: Value) -> bytes:
    """Return the value's octets, its letter first."""
    fixed = _PACKERS.get(type(value))
    if fixed is not None:
        letter, packer = fixed
        return letter + _pack(packer, value)
    if value is None:
        return b"V"
    if isinstance(value, str):
        return b"S" + _sized(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return (b"S" if isinstance(value, LongString) else b"x") + _sized(value)
    if isinstance(value, dict):
        return b"F" + encode_table(value)
    if isinstance(value, list):
        return b"A" + encode_array(value)
    if isinstance(value, Decimal):
        return b"D" + _pack_decimal(value)
    raise TypeError(f"{type(value).__name__} is not a field value: {value!r}")


def encode_short_string(text: str) -> bytes:
    """Return the string's octets, its length first; ValueError for more than 255."""
    octets = text.encode("utf-8", "surrogateescape")
    if len(octets) > 255:
        raise ValueError(f"short string of {len(octets)} octets, 255 are possible")
    return bytes((len(octets),)) + octets


def _pack(packer: struct.Struct, value: Value) -> bytes:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number")
    try:
        return packer.pack(value)
    except (struct.error, OverflowError):
        raise ValueError(f"{value!r} does not fit the type {kind_of(value)}") from None


def _pack_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)) or "0")
    if sign or not isinstance(exponent, int) or not -255 <= exponent <= 0 or number > 0xFFFFFFFF:
        raise ValueError(f"{value} does not fit the type decimal")
    return _DECIMAL.pack(-exponent, number)


def _sized(octets: bytes) -> bytes:
    return _LENGTH.pack(len(octets)) + octets


# -- comparing


def kind_of(value: Value) -> str:
    """Return RabbitMQ's name for the value's type, as its error texts have it."""
    return _TYPES[type(value)][0]


def same_value(a: Value, b: Value) -> bool:
    """Say whether RabbitMQ takes the two for the same, as in redeclaring a queue or matching a header.

    Integers of every width compare by number, floats too, strings and binaries by their octets; within arrays and
    tables the types must be the same as well. A bool never equals an integer.
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int) and isinstance(b, int):
        return int(a) == int(b)
    if isinstance(a, float) and isinstance(b, float):
        return float(a) == float(b)
    if isinstance(a, (str, bytes)) and isinstance(b, (str, bytes)):
        return _octets(a) == _octets(b)
    return kind_of(a) == kind_of(b) and encode_value(a) == encode_value(b)


def _octets(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
