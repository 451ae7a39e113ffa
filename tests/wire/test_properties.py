"""Message properties: a table used both ways, and what is refused."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.errors import SyntaxFault
from leveret.wire import properties as module
from leveret.wire.properties import FIELDS, Properties, decode_properties, encode_properties

PROPERTIES: list[tuple[str, Properties, bytes]] = [
    ("none", Properties(), b"\x00\x00"),
    ("content_type", Properties(content_type="text/plain"), b"\x80\x00\x0atext/plain"),
    ("content_encoding", Properties(content_encoding="gzip"), b"\x40\x00\x04gzip"),
    ("headers", Properties(headers={"a": None}), b"\x20\x00\x00\x00\x00\x03\x01aV"),
    ("headers, empty", Properties(headers={}), b"\x20\x00\x00\x00\x00\x00"),
    ("delivery_mode", Properties(delivery_mode=2), b"\x10\x00\x02"),
    ("priority", Properties(priority=255), b"\x08\x00\xff"),
    ("correlation_id", Properties(correlation_id="c"), b"\x04\x00\x01c"),
    ("reply_to", Properties(reply_to="r"), b"\x02\x00\x01r"),
    ("expiration", Properties(expiration="60000"), b"\x01\x00\x0560000"),
    ("message_id", Properties(message_id="m"), b"\x00\x80\x01m"),
    ("timestamp", Properties(timestamp=2**64 - 1), b"\x00\x40\xff\xff\xff\xff\xff\xff\xff\xff"),
    ("type", Properties(type="t"), b"\x00\x20\x01t"),
    ("user_id", Properties(user_id="guest"), b"\x00\x10\x05guest"),
    ("app_id", Properties(app_id="a"), b"\x00\x08\x01a"),
    ("cluster_id", Properties(cluster_id=""), b"\x00\x04\x00"),
    ("not UTF-8", Properties(message_id="\udcff\udc80"), b"\x00\x80\x02\xff\x80"),
    (
        "all",
        Properties("a", "b", {}, 1, 0, "c", "d", "e", "f", 5, "g", "h", "i", "j"),
        b"\xff\xfc\x01a\x01b\x00\x00\x00\x00\x01\x00\x01c\x01d\x01e\x01f\x00\x00\x00\x00\x00\x00\x00\x05\x01g\x01h\x01i\x01j",
    ),
]
NAMES = [name for name, _, _ in PROPERTIES]


@pytest.mark.parametrize(("name", "properties", "octets"), PROPERTIES, ids=NAMES)
def test_properties_have_their_octets_both_ways(name: str, properties: Properties, octets: bytes) -> None:
    assert encode_properties(properties) == octets
    assert decode_properties(octets, 0, len(octets)) == properties
    assert decode_properties(b"before" + octets + b"after", 6, 6 + len(octets)) == properties


@pytest.mark.parametrize(("name", "properties", "octets"), PROPERTIES, ids=NAMES)
def test_properties_cut_anywhere_or_too_long_are_a_syntax_error(name: str, properties: Properties, octets: bytes) -> None:
    for stop in range(len(octets)):
        with pytest.raises(SyntaxFault):
            decode_properties(octets, 0, stop)
    with pytest.raises(SyntaxFault, match="goes on after"):
        decode_properties(octets + b"\x00", 0, len(octets) + 1)


def test_malformed_headers_are_a_syntax_error() -> None:
    octets = b"\x20\x00\x00\x00\x00\x03\x01aZ"
    with pytest.raises(SyntaxFault, match="unknown type"):
        decode_properties(octets, 0, len(octets))


def test_lowest_two_flags_are_ignored() -> None:
    assert decode_properties(b"\x10\x03\x02", 0, 3) == Properties(delivery_mode=2)


def test_flags_are_named_after_their_properties() -> None:
    assert [name for _, name, _ in FIELDS] == [field.name for field in dataclasses.fields(Properties)]
    for place, (flag, name, _) in enumerate(FIELDS):
        assert flag == 0x8000 >> place == getattr(module, f"FLAG_{name.upper()}")


@pytest.mark.parametrize(
    "properties",
    [
        Properties(priority=256),
        Properties(delivery_mode=-1),
        Properties(timestamp=2**64),
        Properties(app_id="a" * 256),
        Properties(headers={"a": 2**63}),
    ],
    ids=repr,
)
def test_what_does_not_fit_the_wire_is_a_value_error(properties: Properties) -> None:
    with pytest.raises(ValueError):
        encode_properties(properties)


calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # machines are busy at times

VALUES: dict[str, st.SearchStrategy[object]] = {
    "shortstr": st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape")),
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1),
    "table": st.dictionaries(st.text(max_size=9), st.text() | st.integers(-(2**63), 2**63 - 1), max_size=3),
}
any_properties = st.builds(Properties, **{name: st.none() | VALUES[kind] for _, name, kind in FIELDS})


@calm
@given(any_properties)
def test_decoding_gives_what_was_encoded(properties: Properties) -> None:
    octets = encode_properties(properties)
    assert decode_properties(octets, 0, len(octets)) == properties


@calm
@given(st.binary(max_size=60))
def test_any_octets_are_decoded_or_a_syntax_error(octets: bytes) -> None:
    try:
        properties = decode_properties(octets, 0, len(octets))
    except SyntaxFault:
        return
    assert decode_properties(encoded := encode_properties(properties), 0, len(encoded)) == properties
