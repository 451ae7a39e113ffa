"""Segments: batches in a file, what is whole in it after damage, and what is live."""

import random
import struct
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.simulated_disk import SimulatedDisk

from leveret.store.batch import BATCH_HEAD_SIZE, BatchRead, seal, table_size
from leveret.store.checks import BLOCK
from leveret.store.segment import (
    HEADER_SIZE,
    Segment,
    header,
    new_segment,
    next_batch_offset,
    open_segment,
    read_batch,
    salvage_batch,
    salvage_headless,
)

SALT = 0x1122334455667788
OTHER_SALT = SALT + 1


def batch(number: int, synced: int, payload: bytes, salt: int = SALT) -> bytes:
    """A batch of less than a block, at any place that is in one block."""
    out = bytearray(BATCH_HEAD_SIZE) + payload
    end = len(out)
    out += bytes(table_size(end, HEADER_SIZE))
    seal(out, salt, number, synced, HEADER_SIZE, end)
    return bytes(out)


def segment_of(*pieces: bytes, begin: bytes = header(SALT)) -> Segment:
    disk = SimulatedDisk()
    disk.create("f").write(begin + b"".join(pieces))
    return open_segment(disk, "f", 1)  # type: ignore[arg-type]


def whole_batches(segment: Segment) -> list[BatchRead]:
    """All that is whole, as recovery walks."""
    found = []
    offset: int | None = HEADER_SIZE
    while offset is not None and offset < segment.size:
        read = read_batch(segment, offset)
        if read is None:
            offset = next_batch_offset(segment, offset)
        else:
            found.append(read)
            offset = read.following
    return found


def whole(segment: Segment) -> list[tuple[int, bytes]]:
    return [(read.number, read.payload) for read in whole_batches(segment)]


def test_batch_is_read_as_it_was_sealed() -> None:
    """SPEC §8.1: a batch says its number, what was synced before it, and its payload."""
    first, second = whole_batches(segment_of(batch(5, 4, b"12345678"), batch(6, 5, bytes(800))))
    start = HEADER_SIZE + BATCH_HEAD_SIZE
    assert (first.number, first.synced, first.offset, first.payload) == (5, 4, start, b"12345678")
    assert (second.number, second.synced, len(second.payload)) == (6, 5, 800)


def test_batch_cut_anywhere_is_none() -> None:
    """SPEC §8.1: a torn write is seen, wherever it ends."""
    octets = batch(1, 0, bytes(range(64)))
    for size in range(len(octets)):
        assert read_batch(segment_of(octets[:size]), HEADER_SIZE) is None


def test_batch_with_any_bit_flipped_is_none() -> None:
    """SPEC §8.1: a flipped bit is seen, wherever it is."""
    octets = batch(1, 0, b"payload!")
    for bit in range(8 * len(octets)):
        assert read_batch(segment_of(flipped(octets, bit)), HEADER_SIZE) is None


def flipped(octets: bytes, *bits: int) -> bytes:
    found = bytearray(octets)
    for bit in set(bits):
        found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


# A message may contain what looks like a batch: a copy of another segment's, at any offset.
octets = st.binary(max_size=60)
payloads = st.one_of(
    octets, st.tuples(octets, octets, octets).map(lambda o: o[0] + batch(99, 98, o[1], OTHER_SALT) + o[2])
).map(lambda data: data + bytes(-len(data) % 8))


@settings(max_examples=300, deadline=None)
@given(
    payloads=st.lists(payloads, min_size=1, max_size=8),
    flips=st.lists(st.floats(0, 1, exclude_max=True), max_size=4),
    cut=st.floats(0, 1),
)
def test_what_is_undamaged_is_found_and_nothing_else(payloads: list[bytes], flips: list[float], cut: float) -> None:
    """SPEC §8.1: of a file with bits flipped and its end torn off, exactly the whole batches are read."""
    pieces = [batch(number, number - 1, payload) for number, payload in enumerate(payloads, 1)]
    octets = b"".join(pieces)
    end = len(octets) if not cut else int(cut * len(octets))
    bits = {int(flip * 8 * len(octets)) for flip in flips}
    expected = []
    at = 0
    for number, (piece, payload) in enumerate(zip(pieces, payloads, strict=True), 1):
        if at + len(piece) <= end and not any(at <= bit // 8 < at + len(piece) for bit in bits):
            expected.append((number, payload))
        at += len(piece)
    assert whole(segment_of(flipped(octets, *bits)[:end])) == expected


@pytest.mark.parametrize("bit", [0, 70, 8 * BATCH_HEAD_SIZE, 8 * BATCH_HEAD_SIZE + 900])
def test_batch_within_a_payload_is_not_taken_for_one(bit: int) -> None:
    """SPEC §8.1: nothing is invented: a message may contain a batch of another segment, and its own be broken anywhere."""
    outer = batch(1, 0, bytes(16) + batch(99, 98, b"invented", OTHER_SALT) + bytes(64))
    assert whole(segment_of(flipped(outer, bit), batch(2, 1, b"behind  "))) == [(2, b"behind  ")]


@pytest.mark.parametrize("begin", [bytes(HEADER_SIZE), flipped(header(SALT), 0), flipped(header(SALT), 100)])
def test_salt_is_found_without_the_header(begin: bytes) -> None:
    """SPEC §8.1: with the header damaged, and the first batch, and one in its message, the others are read all the same."""
    outer = flipped(batch(1, 0, batch(99, 98, b"invented", OTHER_SALT)), 0)
    pieces = [outer, batch(2, 1, bytes(16)), batch(3, 2, bytes(24))]
    assert whole(segment_of(*pieces, begin=begin)) == [(2, bytes(16)), (3, bytes(24))]
    assert segment_of(bytes(100), begin=begin).salt == 0


def test_next_batch_is_found_across_long_garbage() -> None:
    """SPEC §8.1: reading goes on behind damage of any length, marks of batches in it or not."""
    garbage = (b"LVB2" + bytes(12)) * (1 << 16) + bytes(1 << 20)
    segment = segment_of(garbage, batch(3, 2, b"here    "))
    assert next_batch_offset(segment, HEADER_SIZE) == HEADER_SIZE + len(garbage)
    assert next_batch_offset(segment_of(garbage), HEADER_SIZE) is None


def test_segment_begins_with_its_magic_and_a_salt_of_its_own_under_its_number() -> None:
    """SPEC §8.9: a file says what it is."""
    disk = SimulatedDisk()
    segments = [new_segment("journal", number) for number in (12, 13)]
    for segment, name in zip(segments, ("journal-00000012.log", "journal-00000013.log"), strict=True):
        assert (segment.name, segment.size, segment.written) == (name, HEADER_SIZE, HEADER_SIZE)
        assert name not in disk.names()
        segment.make(disk)  # type: ignore[arg-type]
        assert disk.open(name).read(0, 99) == header(segment.salt)
        assert open_segment(disk, name, 1).salt == segment.salt  # type: ignore[arg-type]
    assert segments[0].salt != segments[1].salt


@pytest.mark.parametrize("offsets", [[56], [56, 80, 104], [1 << 20, 56], list(range(48, 48 + 24 * 500, 24))])
def test_place_is_dead_once_it_is_settled_and_no_other(offsets: list[int]) -> None:
    """SPEC §8.4: which places are live is known one by one."""
    segment = Segment(1, "s", SimulatedDisk().create("s"), HEADER_SIZE, SALT)  # type: ignore[arg-type]
    segment.place(len(offsets) + 1, 10)
    for offset in offsets:
        assert not segment.is_dead(offset)
        segment.settle(offset, 10)
        segment.settle(offset, 10)
        assert segment.is_dead(offset)
    assert segment.live_count == 1
    assert segment.live_body_bytes == 10
    assert not segment.is_dead(max(offsets) + 24)


def test_live_size_is_a_share_of_the_file() -> None:
    """SPEC §8.4: what is live is guessed from the bodies of live places, and how much of the file is messages."""
    segment = Segment(1, "s", SimulatedDisk().create("s"), 20_000, SALT)  # type: ignore[arg-type]
    assert segment.live_size == 0
    segment.message_size = 10_200
    segment.place(1, 10_000)
    segment.place(1, 72)
    assert segment.live_size == 10_200
    segment.settle(100, 10_000)
    assert segment.live_size == 136
    segment.settle(200, 72)
    assert segment.live_size == 0


def record(number: int, size: int) -> bytes:
    """A record of this length, which says its number."""
    return size.to_bytes(4, "little") + bytes(12) + number.to_bytes(8, "little") + bytes(size - 24)


def long_batch(choice: random.Random) -> tuple[bytes, bytes]:
    """A batch of several blocks at the beginning of a segment, and its records."""
    records = b"".join(record(number, choice.randrange(24, 4000, 8)) for number in range(100))
    out = bytearray(BATCH_HEAD_SIZE) + records
    end = len(out)
    out += bytes(table_size(end, HEADER_SIZE))
    seal(out, SALT, 1, 0, HEADER_SIZE, end)
    return bytes(out), records


@pytest.mark.parametrize("where", ["head", "table"])
def test_of_a_batch_with_its_head_or_table_damaged_all_records_are_left(where: str) -> None:
    """SPEC §8.1: what only says where records are can be found without it."""
    octets, records = long_batch(random.Random(1))
    behind = batch(2, 1, b"behind  ")
    places = range(BATCH_HEAD_SIZE) if where == "head" else range(BATCH_HEAD_SIZE + len(records), len(octets))
    for at in places:
        segment = segment_of(flipped(octets, 8 * at + 3), behind)
        assert read_batch(segment, HEADER_SIZE) is None
        following = next_batch_offset(segment, HEADER_SIZE)
        assert following == HEADER_SIZE + len(octets)
        found = salvage_batch(segment, HEADER_SIZE) or salvage_headless(segment, HEADER_SIZE, following, 1)
        assert found is not None
        assert (found.payload, found.complete, found.whole, found.following) == (records, True, False, following)


@pytest.mark.parametrize("seed", range(20))
def test_without_a_head_or_a_table_nothing_is_invented(seed: int) -> None:
    """SPEC §8.1: with a block damaged too, only what is before it is taken, and what is no batch is none."""
    choice = random.Random(seed)
    octets, records = long_batch(choice)
    at = choice.randrange(BATCH_HEAD_SIZE, BATCH_HEAD_SIZE + len(records))
    other = choice.choice([20, len(octets) - 1 - choice.randrange(8), len(octets) - 5])
    segment = segment_of(flipped(octets, 8 * at, 8 * other))
    found = salvage_batch(segment, HEADER_SIZE) or salvage_headless(segment, HEADER_SIZE, HEADER_SIZE + len(octets), 1)
    block = max(BATCH_HEAD_SIZE, at - (HEADER_SIZE + at) % BLOCK) - BATCH_HEAD_SIZE
    for start, end in [] if found is None else found.spans:
        assert (start, found is not None and found.complete) == (0, False)
        assert end <= block
    assert salvage_headless(segment_of(bytes(choice.randbytes(5000))), HEADER_SIZE, HEADER_SIZE + 5000, 1) is None
    assert salvage_headless(segment, HEADER_SIZE, HEADER_SIZE + BATCH_HEAD_SIZE, 1) is None


@pytest.mark.parametrize("seed", range(10))
def test_of_a_damaged_batch_the_records_in_other_blocks_are_left(seed: int) -> None:
    """SPEC §8.1: a damaged bit costs what is in its block, not all that was written with one sync."""
    choice = random.Random(seed)
    offset = HEADER_SIZE
    records = [record(number, choice.randrange(24, 4000, 8)) for number in range(100)]
    out = bytearray(BATCH_HEAD_SIZE) + b"".join(records)
    end = len(out)
    out += bytes(table_size(end, offset))
    seal(out, SALT, 1, 0, offset, end)
    at = choice.randrange(BATCH_HEAD_SIZE, end)
    segment = segment_of(flipped(bytes(out), 8 * at))
    assert read_batch(segment, HEADER_SIZE) is None
    found = salvage_batch(segment, HEADER_SIZE)
    assert found is not None
    assert found.following == HEADER_SIZE + len(out)
    block = (offset + at) // BLOCK
    expected = []
    place = offset + BATCH_HEAD_SIZE
    for octets in records:
        if not place // BLOCK <= block <= (place + len(octets) - 1) // BLOCK:
            expected.append(octets)
        place += len(octets)
    assert b"".join(found.payload[start:stop] for start, stop in found.spans) == b"".join(expected)


def test_batch_of_the_format_before_is_read() -> None:
    """SPEC §8.9: it has no table, and a check of the whole payload."""
    payload = record(1, 800)
    fields = (SALT, 5, 4, len(payload), crc32(payload))
    rest = struct.pack("<QQQII", *fields)
    old = struct.pack("<4sI", b"LVB2", crc32(rest)) + rest + payload
    first, second = whole_batches(segment_of(old, batch(6, 5, b"12345678")))
    assert (first.number, first.synced, first.payload) == (5, 4, payload)
    assert second.number == 6
    for bit in (70, 8 * BATCH_HEAD_SIZE + 900):
        assert whole(segment_of(flipped(old, bit), batch(6, 5, b"12345678"))) == [(6, b"12345678")]
