"""A binding's properties key, by which RabbitMQ's API names it: the routing key, and a hash of the arguments if there are.

The hash is Erlang's `phash2` of the arguments as RabbitMQ keeps them, a list of {Name, Type, Value} in order of names; so a
key that a tool has remembered from a RabbitMQ still names the same binding.
"""

import base64
import struct
from decimal import Decimal
from typing import TypeAlias
from urllib.parse import quote_plus, unquote_plus

from leveret.wire.values import Table, Value, kind_of

EMPTY = "~"
MASK = (1 << 32) - 1
GOLDEN = 0x9E3779B9
NIL = 2
NIL_ALONE = 3468870702


class Atom(str):
    """An Erlang atom."""

    __slots__ = ()


# What tables are made of, in Erlang.
Term: TypeAlias = "Atom | bytes | float | int | tuple[Term, ...] | list[Term]"


def properties_key(routing_key: str, arguments: Table) -> str:
    """The key of a binding."""
    if not arguments:
        return quoted(routing_key) or EMPTY
    return f"{quoted(routing_key)}~{arguments_hash(arguments)}"


def quoted(routing_key: str) -> str:
    return quote_plus(routing_key, safe="", errors="surrogateescape").replace("~", "%7E")


def unquoted(text: str) -> str:
    return unquote_plus(text, errors="surrogateescape")


def arguments_hash(arguments: Table) -> str:
    number = phash2(erlang_table(arguments))
    return base64.urlsafe_b64encode(number.to_bytes(4, "big")).rstrip(b"=").decode()


# Tables as Erlang terms


def erlang_table(table: Table) -> list[Term]:
    in_order = sorted(table.items(), key=lambda item: octets(item[0]))
    return [(octets(name), *_typed(value)) for name, value in in_order]


def _typed(value: Value) -> tuple[Term, ...]:
    kind = Atom(kind_of(value))
    if value is None:
        return kind, Atom("undefined")
    if isinstance(value, bool):
        return kind, Atom("true" if value else "false")
    if isinstance(value, int | float):
        return kind, value
    if isinstance(value, str | bytes):
        return kind, octets(value)
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        return kind, (-int(exponent), number)
    if isinstance(value, dict):
        return kind, erlang_table(value)
    return kind, [_typed(item) for item in value]


def octets(text: str | bytes) -> bytes:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)


# Erlang's phash2, after make_hash2 of its runtime


def phash2(term: Term) -> int:
    """What erlang:phash2(Term, 1 bsl 32) gives, for the terms that tables are made of."""
    return _hash(term, 0)


def _hash(term: Term, hash_: int) -> int:
    if isinstance(term, Atom):
        return _mixed(_atom(term), 0, 3, hash_) if hash_ else _atom(term)
    if isinstance(term, bytes):
        return _block(term, (13 * GOLDEN + hash_) & MASK)
    if isinstance(term, float):
        high, low = struct.unpack(">II", struct.pack(">d", term or 0.0))
        return _mixed(high, low, 12, hash_)
    if isinstance(term, int):
        return _integer(term, hash_)
    if isinstance(term, tuple):
        hash_ = _mixed(len(term), 0, 9, hash_)
        for item in term:
            hash_ = _hash(item, hash_)
        return hash_
    if not term and not hash_:
        return NIL_ALONE
    for item in term:
        hash_ = _hash(item, hash_)
    return _mixed(NIL, 0, 2, hash_)


def _integer(number: int, hash_: int) -> int:
    if -(1 << 27) <= number < 1 << 27:
        if number < 0:
            hash_ = _mixed(-number, 0, 1, hash_)
        return _mixed(number & MASK, 0, 1, hash_)
    size = abs(number)
    return _mixed(size & MASK, size >> 32, 10 if number < 0 else 11, hash_)


def _atom(name: str) -> int:
    value = 0
    for octet in name.encode():
        value = (value << 4) + octet
        high = value & 0xF0000000
        if high:
            value ^= high >> 24
            value ^= high
    return value & MASK


def _block(data: bytes, start: int) -> int:
    if not data:
        return start
    a = b = GOLDEN
    c = start
    at = 0
    while len(data) - at >= 12:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = _mix((a + x) & MASK, (b + y) & MASK, (c + z) & MASK)
        at += 12
    rest = data[at:]
    # The lowest octet of the third word is the length's.
    x, y, z = struct.unpack("<III", rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0"))
    return _mix((a + x) & MASK, (b + y) & MASK, (c + z + len(data)) & MASK)[2]


def _mixed(first: int, second: int, constant: int, hash_: int) -> int:
    constant = constant * GOLDEN & MASK
    return _mix((constant + first) & MASK, (constant + second) & MASK, hash_)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for right, left, last in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & MASK) ^ (c >> right)
        b = ((b - c - a) & MASK) ^ (a << left & MASK)
        c = ((c - a - b) & MASK) ^ (b >> last)
    return a, b, c
