"""Segments: batches in a file, what is whole in it after damage, and what is live."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.simulated_disk import SimulatedDisk, SimulatedFile

from leveret.store.segment import (
    BATCH_HEAD_SIZE,
    FILE_MAGIC,
    Segment,
    create_segment,
    next_batch_offset,
    read_batch,
    seal,
)

START = len(FILE_MAGIC)


def batch(number: int, synced: int, payload: bytes) -> bytes:
    out = bytearray(BATCH_HEAD_SIZE) + payload
    seal(out, number, synced)
    return bytes(out)


def file_of(*pieces: bytes) -> SimulatedFile:
    file = SimulatedDisk().create("f")
    file.write(FILE_MAGIC + b"".join(pieces))
    return file


def whole(file: SimulatedFile) -> list[tuple[int, bytes]]:
    """Number and payload of all that is whole, as recovery walks."""
    found = []
    offset: int | None = START
    while offset is not None and offset < file.size():
        read = read_batch(file, offset)  # type: ignore[arg-type]
        if read is None:
            offset = next_batch_offset(file, offset, file.size())  # type: ignore[arg-type]
        else:
            found.append((read.number, read.payload))
            offset = read.offset + len(read.payload)
    return found


def test_batch_is_read_as_it_was_sealed() -> None:
    """SPEC §8.1: a batch says its number, what was synced before it, and its payload."""
    first, second = batch(5, 4, b"12345678"), batch(6, 5, bytes(800))
    file = file_of(first, second)
    read = read_batch(file, START)  # type: ignore[arg-type]
    assert read is not None
    assert (read.number, read.synced, read.offset, read.payload) == (5, 4, START + BATCH_HEAD_SIZE, b"12345678")
    read = read_batch(file, START + len(first))  # type: ignore[arg-type]
    assert read is not None
    assert (read.number, read.synced, len(read.payload)) == (6, 5, 800)


def test_batch_cut_anywhere_is_none() -> None:
    """SPEC §8.1: a torn write is seen, wherever it ends."""
    octets = batch(1, 0, bytes(range(64)))
    for size in range(len(octets)):
        assert read_batch(file_of(octets[:size]), START) is None  # type: ignore[arg-type]


def test_batch_with_any_bit_flipped_is_none() -> None:
    """SPEC §8.1: a flipped bit is seen, wherever it is."""
    octets = batch(1, 0, b"payload!")
    for bit in range(8 * len(octets)):
        broken = bytearray(octets)
        broken[bit // 8] ^= 1 << bit % 8
        assert read_batch(file_of(bytes(broken)), START) is None  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(
    payloads=st.lists(st.binary(max_size=60).map(lambda data: data + bytes(-len(data) % 8)), min_size=1, max_size=8),
    flips=st.lists(st.floats(0, 1, exclude_max=True), max_size=3),
    cut=st.floats(0, 1),
)
def test_what_is_undamaged_is_found_and_nothing_else(payloads: list[bytes], flips: list[float], cut: float) -> None:
    """SPEC §8.1: of a file with octets broken and its end torn off, exactly the whole batches are read."""
    pieces = [batch(number, number - 1, payload) for number, payload in enumerate(payloads, 1)]
    octets = bytearray(b"".join(pieces))
    end = len(octets) if not cut else int(cut * len(octets))
    hit = [int(flip * len(octets)) for flip in flips]
    for at in set(hit):
        octets[at] ^= 0xFF
    expected = []
    at = 0
    for number, (piece, payload) in enumerate(zip(pieces, payloads, strict=True), 1):
        if at + len(piece) <= end and not any(at <= place < at + len(piece) for place in hit):
            expected.append((number, payload))
        at += len(piece)
    assert whole(file_of(bytes(octets[:end]))) == expected


def test_batch_within_a_payload_is_not_taken_for_one() -> None:
    """SPEC §8.1: nothing is invented: a message may contain what looks like a batch, and its own be broken."""
    inner = batch(99, 98, b"invented")
    outer = bytearray(batch(1, 0, bytes(16) + inner + bytes(16)))
    outer[-1] ^= 1
    assert whole(file_of(bytes(outer), batch(2, 1, b"behind  "))) == [(2, b"behind  ")]


def test_next_batch_is_found_across_long_garbage() -> None:
    """SPEC §8.1: reading goes on behind damage of any length, marks of batches in it or not."""
    garbage = (b"LVB1" + bytes(12)) * (1 << 16) + bytes(1 << 20)
    file = file_of(garbage, batch(3, 2, b"here    "))
    assert next_batch_offset(file, START, file.size()) == START + len(garbage)  # type: ignore[arg-type]
    assert next_batch_offset(file_of(garbage), START, START + len(garbage)) is None  # type: ignore[arg-type]


def test_segment_begins_with_its_magic_under_its_number() -> None:
    """SPEC §8.9: a file says what it is."""
    disk = SimulatedDisk()
    segment = create_segment(disk, "journal", 12)  # type: ignore[arg-type]
    assert (segment.name, segment.number, segment.size, segment.written) == ("journal-00000012.log", 12, START, START)
    assert disk.open("journal-00000012.log").read(0, 99) == FILE_MAGIC


@pytest.mark.parametrize("offsets", [[56], [56, 80, 104], [1 << 20, 56], list(range(48, 48 + 24 * 500, 24))])
def test_place_is_dead_once_it_is_settled_and_no_other(offsets: list[int]) -> None:
    """SPEC §8.4: which places are live is known one by one."""
    segment = Segment(1, "s", SimulatedDisk().create("s"), START)  # type: ignore[arg-type]
    segment.live_count = segment.total_count = len(offsets) + 1
    for offset in offsets:
        assert not segment.is_dead(offset)
        segment.settle(offset)
        assert segment.is_dead(offset)
    assert segment.live_count == 1
    assert not segment.is_dead(max(offsets) + 24)


def test_live_size_is_a_share_of_the_file() -> None:
    """SPEC §8.4: what is live is guessed from how many places are."""
    segment = Segment(1, "s", SimulatedDisk().create("s"), 1000)  # type: ignore[arg-type]
    assert segment.live_size == 0
    segment.live_count, segment.total_count = 1, 4
    assert segment.live_size == 250
