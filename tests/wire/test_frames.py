"""Frames in bytes that arrive whole, in pieces, and broken."""

import pytest

from leveret.errors import FrameError
from leveret.wire.frames import HEARTBEAT, FrameReader

Found = tuple[int, int, bytes]

FRAMES: list[tuple[str, bytes, Found]] = [
    ("heartbeat", HEARTBEAT, (8, 0, b"")),
    ("method", b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x29\xce", (1, 1, b"\x00\x14\x00\x29")),
    ("body", b"\x03\x12\x34\x00\x00\x00\x03abc\xce", (3, 0x1234, b"abc")),
    ("end marker in the payload", b"\x03\x00\x01\x00\x00\x00\x02\xce\xce\xce", (3, 1, b"\xce\xce")),
    ("highest channel", b"\x02\xff\xff\x00\x00\x00\x00\xce", (2, 65535, b"")),
    ("long payload", b"\x03\x00\x01\x00\x00\x01\x2c" + bytes(300) + b"\xce", (3, 1, bytes(300))),
]
NAMES = [name for name, _, _ in FRAMES]


def current(reader: FrameReader) -> Found:
    return reader.kind, reader.channel, reader.payload()


def read(reader: FrameReader) -> list[Found]:
    """Every frame that is whole by now; the rest is kept for later."""
    found = []
    while reader.next():
        found.append(current(reader))
    reader.keep_rest()
    return found


@pytest.mark.parametrize(("name", "wire", "frame"), FRAMES, ids=NAMES)
def test_frame_is_found(name: str, wire: bytes, frame: Found) -> None:
    reader = FrameReader(4096)
    reader.feed(wire)
    assert read(reader) == [frame]


@pytest.mark.parametrize(("name", "wire", "frame"), FRAMES, ids=NAMES)
def test_frame_may_arrive_byte_by_byte(name: str, wire: bytes, frame: Found) -> None:
    reader, found = FrameReader(4096), list[Found]()
    for octet in wire:
        assert found == []
        reader.feed(bytes([octet]))
        found += read(reader)
    assert found == [frame]


@pytest.mark.parametrize("piece", range(1, 40))
def test_many_frames_may_arrive_in_pieces(piece: int) -> None:
    reader, found = FrameReader(4096), list[Found]()
    wire = b"".join(data for _, data, _ in FRAMES) * 3
    for at in range(0, len(wire), piece):
        reader.feed(wire[at : at + piece])
        found += read(reader)
    assert found == [frame for _, _, frame in FRAMES] * 3


def test_nothing_is_held_when_everything_is_read() -> None:
    reader = FrameReader(4096)
    reader.feed(HEARTBEAT * 3)
    read(reader)
    assert (reader.rest, len(reader.data), reader.size, reader.at) == (b"", 0, 0, 0)


def test_only_the_rest_is_held() -> None:
    reader = FrameReader(4096)
    reader.feed(HEARTBEAT * 3 + b"\x08\x00")
    read(reader)
    assert (reader.rest, len(reader.data), reader.size, reader.at) == (b"\x08\x00", 0, 0, 0)
    reader.feed(HEARTBEAT[2:])
    assert read(reader) == [(8, 0, b"")]


def test_frames_may_be_skipped() -> None:
    reader = FrameReader(4096)
    reader.feed(HEARTBEAT * 2 + FRAMES[2][1])
    assert reader.next()
    reader.at = 16
    assert read(reader) == [FRAMES[2][2]]


def test_bytes_that_were_not_read_yet_come_first() -> None:
    reader = FrameReader(4096)
    reader.feed(HEARTBEAT + FRAMES[1][1])
    assert reader.next()
    reader.keep_rest()
    reader.feed(FRAMES[2][1])
    assert read(reader) == [FRAMES[1][2], FRAMES[2][2]]


@pytest.mark.parametrize("piece", [1, 5, 9, 100])
def test_frames_may_be_read_out_of_a_buffer_that_others_use_too(piece: int) -> None:
    readers, buffer = (FrameReader(4096), FrameReader(4096)), bytearray(5000)
    wire = b"".join(data for _, data, _ in FRAMES)
    found: list[list[Found]] = [[], []]
    for at in range(0, len(wire), piece):
        for reader, mine in zip(readers, found, strict=True):
            arrived = reader.rest + wire[at : at + piece]
            buffer[: len(arrived)] = arrived
            reader.read_from(buffer, len(arrived))
            mine.extend(read(reader))
            buffer[:] = b"\xff" * len(buffer)
    assert found == [[frame for _, _, frame in FRAMES]] * 2


def test_frame_of_the_largest_size_and_eight_octets_more() -> None:
    reader = FrameReader(4096)
    for size in (4088, 4089, 4096):
        reader.feed(b"\x03\x00\x01" + size.to_bytes(4, "big") + bytes(size) + b"\xce")
        assert read(reader) == [(3, 1, bytes(size))]


@pytest.mark.parametrize("size", [4097, 131072, 2**31, 2**32 - 1])
def test_larger_frame_is_refused_by_its_head(size: int) -> None:
    reader = FrameReader(4096)
    head = b"\x03\x00\x01" + size.to_bytes(4, "big")
    reader.feed(head[:6])
    assert read(reader) == []
    reader.feed(head[6:])
    with pytest.raises(FrameError) as caught:
        reader.next()
    assert str(caught.value) == f"type 3, all octets = <<>>: {{frame_too_large,{size},4088}}"
    assert reader.broken


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", "all octets = <<>>"),
        (b"text", 'all octets = <<"text">>'),
        (b"\x00\x01", "all octets = <<0,1>>"),
        (b"a" * 16, 'all octets = <<"aaaaaaaaaaaaaaaa">>'),
        (b"a" * 17, 'first 16 octets = <<"aaaaaaaaaaaaaaaa">>'),
        (b"\x00" + b"a" * 20, "first 16 octets = <<0,97,97,97,97,97,97,97,97,97,97,97,97,97,97,97>>"),
    ],
)
def test_frame_without_its_end_is_refused_and_shown(payload: bytes, shown: str) -> None:
    reader = FrameReader(4096)
    reader.feed(b"\x05\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\x07")
    with pytest.raises(FrameError) as caught:
        reader.next()
    assert str(caught.value) == f"type 5, {shown}: {{invalid_frame_end_marker,7}}"
    assert reader.broken
    assert reader.describe() == f"type 5, {shown}"


def test_good_frames_before_a_broken_one_are_found() -> None:
    reader = FrameReader(4096)
    reader.feed(HEARTBEAT + b"\x08\x00\x00\x00\x00\x00\x00\x00")
    assert reader.next()
    assert not reader.broken
    with pytest.raises(FrameError):
        reader.next()
