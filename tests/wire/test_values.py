"""Field tables: a table of values used both ways, what is refused, and random tables against a naive reader."""

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.errors import SyntaxFault
from leveret.wire.values import (
    TABLE_DEPTH_MAX,
    Byte,
    Float32,
    LongString,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    Value,
    check_array,
    check_table,
    decode_array,
    decode_table,
    encode_array,
    encode_short_string,
    encode_table,
    kind_of,
    same_value,
)

VALUES: list[tuple[str, Value, bytes]] = [
    ("bool", True, b"t\x01"),
    ("bool", False, b"t\x00"),
    ("byte", Byte(-128), b"b\x80"),
    ("unsignedbyte", UnsignedByte(255), b"B\xff"),
    ("short", Short(-2), b"s\xff\xfe"),
    ("unsignedshort", UnsignedShort(65534), b"u\xff\xfe"),
    ("signedint", SignedInt(-2), b"I\xff\xff\xff\xfe"),
    ("unsignedint", UnsignedInt(4294967294), b"i\xff\xff\xff\xfe"),
    ("long", -2, b"l\xff\xff\xff\xff\xff\xff\xff\xfe"),
    ("long", 2**63 - 1, b"l\x7f\xff\xff\xff\xff\xff\xff\xff"),
    ("timestamp", Timestamp(2**64 - 1), b"T\xff\xff\xff\xff\xff\xff\xff\xff"),
    ("float", Float32(-1.5), b"f\xbf\xc0\x00\x00"),
    ("double", 0.1, b"d\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
    ("double", 1.7976931348623157e308, b"d\x7f\xef\xff\xff\xff\xff\xff\xff"),
    ("decimal", Decimal("3.140"), b"D\x03\x00\x00\x0c\x44"),
    ("decimal", Decimal("0E-255"), b"D\xff\x00\x00\x00\x00"),
    ("longstr", "", b"S\x00\x00\x00\x00"),
    ("longstr", "zażółć", "S\0\0\0\x0azażółć".encode()),
    ("longstr", LongString(b"\xff\x00"), b"S\x00\x00\x00\x02\xff\x00"),
    ("binary", b"abc", b"x\x00\x00\x00\x03abc"),
    ("void", None, b"V"),
    ("array", [], b"A\x00\x00\x00\x00"),
    ("array", [Byte(1), [None]], b"A\x00\x00\x00\x08b\x01A\x00\x00\x00\x01V"),
    ("table", {}, b"F\x00\x00\x00\x00"),
    ("table", {"a": Byte(1), "": {"b": None}}, b"F\x00\x00\x00\x0d\x01ab\x01\x00F\x00\x00\x00\x03\x01bV"),
]

MALFORMED = {
    "key cut short": b"\x05ab",
    "no value after a key": b"\x01a",
    "key of nothing and no value": b"\x00",
    "unknown type": b"\x01aZ",
    "one value good, the next not": b"\x01aV\x01b\x00",
    **{f"{chr(letter)} without its octets": b"\x01a" + bytes([letter]) for letter in b"tbBsuIilLTfdDSxAF"},
    "long cut short": b"\x01al" + bytes(7),
    "decimal cut short": b"\x01aD" + bytes(4),
    "length cut short": b"\x01aS\x00\x00\x00",
    "string cut short": b"\x01aS\x00\x00\x00\x02a",
    "length of four gigabytes": b"\x01ax\xff\xff\xff\xff",
    "inner table cut short": b"\x01aF\x00\x00\x00\x03\x01b",
    "inner table ends within a key": b"\x01aF\x00\x00\x00\x01\x01bV",
    "inner array ends within a value": b"\x01aA\x00\x00\x00\x02s\x00\x00",
    "NaN": b"\x01ad\x7f\xf8\x00\x00\x00\x00\x00\x00",
    "minus infinity": b"\x01ad\xff\xf0\x00\x00\x00\x00\x00\x00",
    "NaN of 32 bits": b"\x01af\x7f\xc0\x00\x00",
    "infinity of 32 bits": b"\x01af\x7f\x80\x00\x00",
}

UNFIT: list[Value] = [
    2**63,
    Byte(128),
    UnsignedByte(-1),
    Short(2**15),
    UnsignedShort(2**16),
    SignedInt(-(2**31) - 1),
    UnsignedInt(2**32),
    Timestamp(-1),
    Float32(1e300),
    float("nan"),
    Float32("inf"),
    Decimal(-1),
    Decimal("1E+1"),
    Decimal("1E-256"),
    Decimal(2**32),
    Decimal("NaN"),
    Decimal("Infinity"),
    {"k" * 256: None},
]


@pytest.mark.parametrize(("kind", "value", "octets"), VALUES)
def test_value_has_its_octets_and_its_kind_both_ways(kind: str, value: Value, octets: bytes) -> None:
    size = struct.pack(">I", len(octets))
    assert encode_array([value]) == size + octets
    decoded = decode_array(octets, 0, len(octets))
    assert decoded == [value]
    assert type(decoded[0]) is type(value)
    assert kind_of(decoded[0]) == kind

    field = b"\x03key" + octets
    assert encode_table({"key": value}) == struct.pack(">I", len(field)) + field
    assert decode_table(b"before" + field + b"after", 6, 6 + len(field)) == {"key": value}


@pytest.mark.parametrize(("kind", "value", "octets"), VALUES)
def test_value_cut_anywhere_is_refused(kind: str, value: Value, octets: bytes) -> None:
    for stop in range(1, len(octets)):
        with pytest.raises(SyntaxFault):
            decode_array(octets, 0, stop)


@pytest.mark.parametrize("octets", MALFORMED.values(), ids=MALFORMED)
def test_malformed_table_is_a_syntax_error(octets: bytes) -> None:
    with pytest.raises(SyntaxFault):
        decode_table(octets, 0, len(octets))
    with pytest.raises(SyntaxFault):
        check_table(octets, 0, len(octets), 0)


def test_span_outside_of_the_data_is_refused() -> None:
    for check in (check_table, check_array):
        for start, stop in ((0, 3), (-1, 2), (2, 1)):
            with pytest.raises(SyntaxFault, match="past its end"):
                check(b"\x00V", start, stop, 0)


def test_longest_key_and_empty_key() -> None:
    table: Table = {"k" * 255: None, "": None}
    octets = encode_table(table)
    assert decode_table(octets, 4, len(octets)) == table


def test_key_that_is_not_utf8_keeps_its_octets() -> None:
    octets = b"\x00\x00\x00\x03\x01\xffV"
    table = decode_table(octets, 4, len(octets))
    assert table == {"\udcff": None}
    assert encode_table(table) == octets


def test_first_of_equal_keys_counts() -> None:
    octets = b"\x01ab\x01\x01bV\x01ab\x02"
    assert decode_table(octets, 0, len(octets)) == {"a": 1, "b": None}


@pytest.mark.parametrize(
    ("octets", "written"),
    [(b"L\xff\xff\xff\xff\xff\xff\xff\xff", b"l\xff\xff\xff\xff\xff\xff\xff\xff"), (b"t\x02", b"t\x01")],
)
def test_what_rabbitmq_writes_in_another_way(octets: bytes, written: bytes) -> None:
    assert encode_array(decode_array(octets, 0, len(octets)))[4:] == written


def nested(depth: int, letter: bytes) -> bytes:
    """Return the fields of a table with `depth` more tables or arrays within each other."""
    inner = b""
    for _ in range(depth - 1):
        key = b"\x00" if letter == b"F" else b""
        inner = key + letter + struct.pack(">I", len(inner)) + inner
    return b"\x00" + letter + struct.pack(">I", len(inner)) + inner


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_nesting_has_an_end(letter: bytes) -> None:
    """SPEC §2.2 depth cap."""
    deepest = nested(TABLE_DEPTH_MAX - 1, letter)
    assert check_table(deepest, 0, len(deepest), 0) == 0
    assert decode_table(deepest, 0, len(deepest)) != {}
    with pytest.raises(SyntaxFault, match="nested deeper than 32"):
        check_table(deepest, 0, len(deepest), 1)
    for depth in (TABLE_DEPTH_MAX, 10_000):
        too_deep = nested(depth, letter)
        with pytest.raises(SyntaxFault, match="nested deeper than 32"):
            decode_table(too_deep, 0, len(too_deep))


@pytest.mark.parametrize("value", UNFIT, ids=repr)
def test_what_does_not_fit_the_wire_is_a_value_error(value: Value) -> None:
    with pytest.raises(ValueError):
        encode_table({"key": value})


def test_what_is_no_field_value_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="set is not a field value"):
        encode_array([{1}])  # type: ignore[list-item]


def test_short_string_has_255_octets_at_most() -> None:
    assert encode_short_string("ż" * 127) == b"\xfe" + "ż".encode() * 127
    assert encode_short_string("\udcff") == b"\x01\xff"
    with pytest.raises(ValueError, match="256 octets"):
        encode_short_string("ż" * 128)


SAME: list[tuple[Value, Value]] = [
    (5, Byte(5)),
    (UnsignedInt(5), Timestamp(5)),
    (1.5, Float32(1.5)),
    ("a", b"a"),
    ("\udcff", LongString(b"\xff")),
    (True, True),
    (None, None),
    (Decimal("1.0"), Decimal("1.0")),
    ([1, {"a": None}], [1, {"a": None}]),
]
DIFFERENT: list[tuple[Value, Value]] = [
    (5, 6),
    (1, True),
    (False, 0),
    (1, 1.0),
    (1, "1"),
    ("a", "b"),
    (None, False),
    (None, ""),
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal(1), 1),
    ([1], [Byte(1)]),
    ([1], [True]),
    ({}, []),
    ({"a": 1}, {"a": 2}),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_same_to_rabbitmq(a: Value, b: Value) -> None:
    assert same_value(a, b)
    assert same_value(b, a)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_to_rabbitmq(a: Value, b: Value) -> None:
    assert not same_value(a, b)
    assert not same_value(b, a)


# -- random tables


calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines are busy at times


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(low, high)


def is_text(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


decimals = st.builds(
    lambda number, scale: Decimal((0, tuple(map(int, str(number))), -scale)), integers(32, False), st.integers(0, 255)
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    integers(8, True).map(Byte),
    integers(8, False).map(UnsignedByte),
    integers(16, True).map(Short),
    integers(16, False).map(UnsignedShort),
    integers(32, True).map(SignedInt),
    integers(32, False).map(UnsignedInt),
    integers(64, True),
    integers(64, False).map(Timestamp),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(Float32),
    decimals,
    st.text(max_size=20),
    st.binary(max_size=20),
    st.binary(min_size=1, max_size=20).filter(lambda octets: not is_text(octets)).map(LongString),
)
keys = st.binary(max_size=8).map(lambda octets: octets.decode("utf-8", "surrogateescape"))
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
tables = st.dictionaries(keys, values, max_size=5)


def described(value: Value) -> object:
    """Return the value with the types of everything in it, so that 1 and True and Byte(1) differ."""
    if isinstance(value, dict):
        return [(key, described(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return [described(inner) for inner in value]
    return type(value), repr(value)


@calm
@given(tables)
def test_decoding_gives_what_was_encoded(table: Table) -> None:
    octets = encode_table(table)
    assert int.from_bytes(octets[:4], "big") == len(octets) - 4
    assert described(decode_table(octets, 4, len(octets))) == described(table)
    assert check_table(octets, 4, len(octets), 0) == 0


SIZES = {
    **dict.fromkeys("tbB", 1),
    **dict.fromkeys("su", 2),
    **dict.fromkeys("Iif", 4),
    **dict.fromkeys("lLTd", 8),
    "D": 5,
    "V": 0,
}


class Cut(Exception):
    pass


def naive_take(octets: bytes, count: int) -> tuple[bytes, bytes]:
    if len(octets) < count:
        raise Cut
    return octets[:count], octets[count:]


def naive_table(octets: bytes, depth: int = 1, keyed: bool = True) -> None:
    """Read a table by taking slices off its front; Cut if it is malformed."""
    if depth > 32:
        raise Cut
    while octets:
        if keyed:
            size, octets = naive_take(octets, 1)
            _, octets = naive_take(octets, size[0])
        kind, octets = naive_take(octets, 1)
        letter = kind.decode("latin-1")
        if letter in SIZES:
            content, octets = naive_take(octets, SIZES[letter])
            if letter in "fd" and not math.isfinite(struct.unpack(">" + letter, content)[0]):
                raise Cut
        elif letter in "SxAF":
            size, octets = naive_take(octets, 4)
            content, octets = naive_take(octets, int.from_bytes(size, "big"))
            if letter in "AF":
                naive_table(content, depth + 1, letter == "F")
        else:
            raise Cut


def naive_accepts(octets: bytes) -> bool:
    try:
        naive_table(octets)
    except Cut:
        return False
    return True


@st.composite
def damaged_tables(draw: st.DrawFn) -> bytes:
    """A table's fields with a few octets changed, cut off, or put in."""
    octets = bytearray(encode_table(draw(tables))[4:])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(octets)))
        new = draw(st.binary(max_size=2) | st.sampled_from([b"F", b"A", b"S", b"\x7f\xf0"]))
        octets[at : at + draw(st.integers(0, 2))] = new
    return bytes(octets)


@calm
@given(damaged_tables() | st.binary(max_size=60))
def test_check_and_decode_and_a_naive_reader_accept_the_same(octets: bytes) -> None:
    accepted = naive_accepts(octets)
    for read in (lambda: check_table(octets, 0, len(octets), 0), lambda: decode_table(octets, 0, len(octets))):
        try:
            read()
        except SyntaxFault:
            assert not accepted
        else:
            assert accepted
