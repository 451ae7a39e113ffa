"""Records, both ways."""

import pytest
from tests.store.support import body, letter

from leveret.broker.message import Message, new_message
from leveret.broker.rewrite import make_origin
from leveret.store.layout import COMMIT, COUNT_MAX, MESSAGE, NUMBERS_SIZE, PLACE_SIZE, PLACES_AT, PURGE, REQUEUE, SETTLE
from leveret.store.records import (
    ORIGINS_MAX,
    Place,
    blind_address,
    content_size,
    copy_message,
    origin_of,
    place_offset,
    read_head,
    read_message,
    read_numbers,
    read_place,
    write_message,
    write_numbers,
    write_place,
)
from leveret.wire.content import frame_content


def in_frames(size: int, frame_size: int) -> Message:
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x10\x00\x02"
    content = frame_content(header, bytes(size), frame_size)
    return new_message(make_origin("x", "k"), content, len(header), size, frame_size, 0x1000)


MESSAGES = {
    "empty body": letter(b""),
    "one octet": letter(b"a"),
    "seven octets": letter(b"seven  "),
    "all that can be said": letter(
        b"body",
        "k" * 255,
        "e" * 255,
        content_type="text/plain",
        headers={"a": [1, None], "x-delay": 5},
        priority=255,
        expiration="60000",
    ),
    "several frames": in_frames(1000, 300),
    "frames that end even": in_frames(900, 300),
    "names that are not UTF-8": letter(b"x", "\udcff\udcfe", "caf\udce9"),
    "names that contain a zero": letter(b"x", "a\0b", "\0"),
}
PLACES = [
    Place(1, 1),
    Place(0xFFFFFFFF, (1 << 63) - 1, (1 << 62), COUNT_MAX, COUNT_MAX),
    Place(7, 8, 9, 10, 11),
]


def same(one: Message, other: Message) -> bool:
    names = ("content", "header_size", "body_size", "frame_size", "flags", "ttl_ms")
    return all(getattr(one, name) == getattr(other, name) for name in names) and (
        (one.origin.exchange, one.origin.routing_key, one.origin.address)
        == (other.origin.exchange, other.origin.routing_key, other.origin.address)
    )


def fields(place: Place) -> tuple[int, ...]:
    return place.queue, place.seq, place.expires_at, place.delivery_count, place.number


def written(message: Message, places: list[Place], group: int = 0, before: int = 8) -> bytearray:
    out = bytearray(before)
    length = write_message(out, message, len(places), group)
    assert len(out) == before + length
    for number, place in enumerate(places):
        at = place_offset(before, number)
        write_place(out, at, place.queue, place.seq, place.expires_at, place.delivery_count, place.number)
    return out


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize("count", [0, 1, 3, 40])
def test_message_is_read_as_it_was_written(message: Message, count: int) -> None:
    """SPEC §8.1: a message comes back as it was, with its places."""
    places = [PLACES[number % len(PLACES)] for number in range(count)]
    out = written(message, places, group=77)
    length, kind, found, group, queue = read_head(bytes(out), 8)
    assert (kind, found, group, queue) == (MESSAGE, count, 77, 0)
    assert length % 8 == 0
    assert 8 + length == len(out)
    assert same(read_message(bytes(out), 8), message)
    assert [fields(read_place(bytes(out), place_offset(8, number))) for number in range(count)] == [
        fields(place) for place in places
    ]


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
@pytest.mark.parametrize(("count", "new_count"), [(1, 1), (3, 1), (40, 2), (2, 2)])
def test_copy_has_the_message_with_other_places_and_no_group(message: Message, count: int, new_count: int) -> None:
    """SPEC §8.4: compaction writes a message again with the places that are live."""
    data = bytes(written(message, [PLACES[0]] * count, group=5))
    out = bytearray(16)
    copy_message(out, data, 8, count, new_count)
    length, kind, found, group, _ = read_head(bytes(out), 16)
    assert (16 + length, kind, found, group) == (len(out), MESSAGE, new_count, 0)
    assert same(read_message(bytes(out), 16), message)


@pytest.mark.parametrize("kind", [SETTLE, PURGE, REQUEUE, COMMIT])
@pytest.mark.parametrize("numbers", [(0, 0), (1, 2), ((1 << 63) - 1, (1 << 63) - 1)])
def test_numbers_are_read_as_they_were_written(kind: int, numbers: tuple[int, int]) -> None:
    """SPEC §8.3: what is gone, or given back, is said in two numbers."""
    out = bytearray()
    write_numbers(out, kind, 0xFFFFFFFF, 0xFFFFFFFE, *numbers)
    assert len(out) == NUMBERS_SIZE
    assert NUMBERS_SIZE % 8 == 0
    assert read_head(bytes(out), 0) == (NUMBERS_SIZE, kind, 0, 0xFFFFFFFF, 0xFFFFFFFE)
    assert read_numbers(bytes(out), 0) == numbers


def test_delivery_count_beyond_what_fits_is_the_highest() -> None:
    """SPEC §8.3: a delivery count that is out of reach does not break the record."""
    out = bytearray(PLACE_SIZE)
    write_place(out, 0, 1, 2, 3, COUNT_MAX + 1, 0)
    assert read_place(bytes(out), 0).delivery_count == COUNT_MAX


def test_places_begin_at_multiples_of_eight_and_do_not_share_sixteen_octets() -> None:
    """SPEC §8.4: a place is marked dead by the sixteen octets it begins in."""
    offsets = [place_offset(offset, number) for offset in (40, 48, 56, 64) for number in range(50)]
    assert all(offset % 8 == 0 for offset in offsets)
    for offset in (40, 48):
        granules = [place_offset(offset, number) >> 4 for number in range(50)]
        assert len(set(granules)) == len(granules)
    assert place_offset(8, 2) == 8 + PLACES_AT + 2 * PLACE_SIZE


@pytest.mark.parametrize(
    ("header", "body_size", "frame_size", "size"),
    [(14, 0, 0, 22), (14, 1, 1, 31), (14, 10, 10, 40), (14, 11, 10, 49), (14, 20, 10, 58)],
)
def test_content_size_counts_the_frames(header: int, body_size: int, frame_size: int, size: int) -> None:
    """SPEC §8.1: how long a stored content is follows from its sizes."""
    assert content_size(header, body_size, frame_size) == size


def test_origins_are_shared_and_forgotten() -> None:
    """SPEC §8.5: neighbours share their origin, and what is remembered is bounded."""
    address = letter(b"", "key", "exchange").origin.address
    assert origin_of(address) is origin_of(bytes(bytearray(address)))
    for number in range(ORIGINS_MAX + 1):
        origin_of(letter(b"", str(number)).origin.address)
    assert (origin_of(address).exchange, origin_of(address).routing_key) == ("exchange", "key")


def test_body_is_whole_after_the_way_there_and_back() -> None:
    """SPEC §8.1: bodies of several frames come back whole."""
    message = in_frames(1000, 300)
    assert body(read_message(bytes(written(message, [])), 8)) == bytes(1000)


@pytest.mark.parametrize("cut", range(1, 9))
def test_address_that_is_cut_short_is_found_out(cut: int) -> None:
    address = blind_address(make_origin("x", "k", ("abcd",)))
    with pytest.raises(OSError, match="the data folder has changed"):
        origin_of(address[:-cut] if cut < 8 else address[:3])
