"""Checks: spans of a file, added as it is written, and asked for by whoever reads it again."""

import random
from zlib import crc32

import pytest

from leveret.store.checks import BLOCK, SMALL, Checks, blocks, overlaps


def octets(choice: random.Random, size: int) -> bytes:
    return choice.randbytes(size)


def known(file: bytes, start: int, end: int) -> list[int]:
    return [crc32(file[first:last]) for first, last in blocks(start, end)]


@pytest.mark.parametrize("seed", range(20))
def test_every_octet_of_records_is_in_a_span_with_its_check(seed: int) -> None:
    """SPEC §8.5: whatever is read again can be compared with what was written."""
    choice = random.Random(seed)
    checks = Checks()
    file = b""
    records: list[tuple[int, int]] = []
    for _ in range(60):
        size = choice.choice([1, 100, SMALL - 1, SMALL, SMALL + 1, BLOCK - 1, BLOCK, 3 * BLOCK + 7])
        data = octets(choice, size)
        start, end = min(40, size), size - min(8, size // 2)
        file += data
        at = len(file) - size
        checks.add(data, known(file, at + start, at + end), start, end)
        records.append((at + start, at + end))
    assert checks.size == len(file)
    for start, end in records:
        spans = checks.spans(start, end)
        covered = start
        for first, last, check in spans:
            assert crc32(file[first:last]) == check
            assert last - first <= BLOCK
            if first <= covered:
                covered = max(covered, last)
        assert covered >= end


def test_what_was_never_written_is_in_no_span() -> None:
    """SPEC §8.5: a place behind the end of a file is not taken for one in it."""
    checks = Checks()
    assert checks.spans(0, 100) == []
    checks.add(b"12345678")
    assert checks.spans(8, 100) == []
    assert checks.spans(0, 1) == [(0, 8, crc32(b"12345678"))]


def test_parts_overlap_or_not() -> None:
    """SPEC §8.5."""
    assert overlaps([(10, 20)], 19, 30)
    assert overlaps([(10, 20)], 0, 11)
    assert not overlaps([(10, 20)], 20, 30)
    assert not overlaps([(10, 20)], 0, 10)
    assert blocks(5, 5) == []
    assert blocks(BLOCK - 1, BLOCK + 1) == [(BLOCK - 1, BLOCK), (BLOCK, BLOCK + 1)]
