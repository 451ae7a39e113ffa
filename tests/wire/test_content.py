"""Contents: framed, read again, and their properties checked without being decoded."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.errors import SyntaxFault
from leveret.wire.content import (
    COPIED,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_USER_ID,
    HEADER_MIN_SIZE,
    PERSISTENT,
    PRIORITY_SHIFT,
    body_of,
    check_properties,
    content_size,
    frame_content,
    frame_head,
    properties_of,
)
from leveret.wire.properties import FIELDS, Properties, decode_properties, encode_properties

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

EVERYTHING = Properties("a", "b", {"h": 1}, 2, 5, "c", "d", "1000", "e", 9, "f", "guest", "g", "h")


def header(properties: bytes, size: int = 0) -> bytes:
    return b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties


def check(properties: bytes) -> int:
    payload = header(properties)
    return check_properties(frame_content(payload, b"", 1), len(payload))


def test_content_is_framed() -> None:
    payload = header(b"\x00\x00", 5)
    assert frame_content(payload, b"abcde", 2) == (
        b"\x02\x00\x00\x00\x00\x00\x0e" + payload + b"\xce"
        b"\x03\x00\x00\x00\x00\x00\x02ab\xce"
        b"\x03\x00\x00\x00\x00\x00\x02cd\xce"
        b"\x03\x00\x00\x00\x00\x00\x01e\xce"
    )  # fmt: skip
    assert frame_head(1, 258, 65536) == b"\x01\x01\x02\x00\x01\x00\x00"
    assert len(payload) == HEADER_MIN_SIZE


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25])
@pytest.mark.parametrize("frame_size", [1, 10, 100])
def test_body_comes_out_of_its_frames(size: int, frame_size: int) -> None:
    body = bytes(range(size))
    payload = header(b"\x00\x00", size)
    content = frame_content(payload, bytearray(body), frame_size)
    assert body_of(content, len(payload), size, frame_size) == body


def test_properties_come_out_of_their_frame() -> None:
    payload = header(encode_properties(EVERYTHING), 1)
    assert properties_of(frame_content(payload, b"x", 1), len(payload)) == EVERYTHING


def test_flags_are_found() -> None:
    assert check(encode_properties(Properties())) == 0
    assert check(encode_properties(Properties(headers={}))) == FLAG_HEADERS
    assert check(encode_properties(Properties(expiration="1"))) == FLAG_EXPIRATION
    assert check(encode_properties(Properties(user_id="u"))) == FLAG_USER_ID
    assert check(b"\x00\x03") == 3
    assert check(encode_properties(EVERYTHING)) == 0xFFFC | PERSISTENT | 5 << PRIORITY_SHIFT


@pytest.mark.parametrize(("mode", "persistent"), [(0, False), (1, False), (2, True), (3, False), (255, False)])
def test_delivery_mode_2_is_persistent(mode: int, persistent: bool) -> None:
    assert bool(check(encode_properties(Properties(delivery_mode=mode))) & PERSISTENT) is persistent


def test_properties_cut_anywhere_are_refused() -> None:
    whole = encode_properties(EVERYTHING)
    for size in range(2, len(whole)):
        with pytest.raises(SyntaxFault):
            check(whole[:size])
    with pytest.raises(SyntaxFault, match="properties do not fill their frame"):
        check(whole + b"\x00")


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (b"\x80\x00", "properties are cut short"),
        (b"\x20\x00", "properties are cut short"),
        (b"\x20\x00\x00\x00\x00", "properties are cut short"),
        (b"\x20\x00\x00\x00\x00\x01", "properties are cut short"),
        (b"\x20\x00\xff\xff\xff\xff", "properties are cut short"),
        (b"\x00\x40\x00", "properties do not fill their frame"),
        (b"\x80\x00\xff", "properties do not fill their frame"),
        (b"\x20\x00\x00\x00\x00\x03\x01aZ", "unknown type 90 of a field's value"),
    ],
)
def test_refused_with_its_text(octets: bytes, text: str) -> None:
    with pytest.raises(SyntaxFault, match=text):
        check(octets)


VALUES: dict[str, st.SearchStrategy[object]] = {
    "shortstr": st.binary(max_size=20).map(lambda octets: octets.decode("utf-8", "surrogateescape")),
    "octet": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1),
    "table": st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.integers(-(2**63), 2**63 - 1), max_size=3),
}
any_properties = st.builds(Properties, **{name: st.none() | VALUES[kind] for _, name, kind in FIELDS})


@calm
@given(any_properties)
def test_what_can_be_encoded_passes(properties: Properties) -> None:
    octets = encode_properties(properties)
    added = (properties.priority or 0) << PRIORITY_SHIFT
    if properties.delivery_mode == 2:
        added |= PERSISTENT
    if {"CC", "BCC"} & set(properties.headers or {}):
        added |= COPIED
    assert check(octets) == int.from_bytes(octets[:2], "big") | added


@calm
@given(st.binary(min_size=2, max_size=60) | any_properties.map(encode_properties), st.data())
def test_what_passes_can_be_decoded_and_nothing_else(octets: bytes, data: st.DataObject) -> None:
    damaged = bytearray(octets)
    at = data.draw(st.integers(2, len(damaged)))
    damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    try:
        decode_properties(bytes(damaged), 0, len(damaged))
    except SyntaxFault:
        with pytest.raises(SyntaxFault):
            check(bytes(damaged))
    else:
        check(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 21])
def test_size_of_a_content_follows_from_its_parts(size: int) -> None:
    head = header(b"\x00\x00", size)
    assert content_size(len(head), size, 10) == len(frame_content(head, bytes(size), 10))
