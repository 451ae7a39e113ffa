"""Checks of a file by blocks: what is read again must be what was written.

A block is 32 KiB of the file, wherever batches and records begin. Its check is a CRC-32, made when it is written, or when
recovery has read it, and kept in memory: 4 octets for 32,768. Smaller ones cost each commit more,
as the interpreter is let go for each.

Written by one thread, asked by others: `tail` is changed last and at once, so whoever has read it finds the checks of all
blocks before it. It must be read once, before the file is: both may grow meanwhile.
"""

from array import array
from itertools import pairwise
from zlib import crc32

BLOCK = 1 << 15

Octets = bytes | bytearray | memoryview


class Checks:
    """The checks of one file: of its whole blocks, and of the last one as far as it goes."""

    __slots__ = ("_whole", "tail")

    def __init__(self) -> None:
        self._whole = array("I")
        # How long the file is, and the check of what is in its last block.
        self.tail = (0, 0)

    @property
    def size(self) -> int:
        return self.tail[0]

    def add(self, data: Octets, known: list[int] | None = None, start: int = 0, end: int = 0) -> None:
        """These octets were written behind the others.

        `known` are the checks of what of `start` to `end` is in each block, so that nothing is checked twice.
        """
        size, check = self.tail
        view = memoryview(data)
        first = (size + start) // BLOCK
        at = 0
        while at < len(view):
            stop = min(at + BLOCK - size % BLOCK, len(view))
            if known is not None and size % BLOCK == 0 and start <= at < end:
                check = known[size // BLOCK - first]
                if stop > end:
                    check = crc32(view[end:stop], check)
            else:
                check = crc32(view[at:stop], check)
            size += stop - at
            at = stop
            if size % BLOCK == 0:
                self._whole.append(check)
                check = 0
        self.tail = (size, check)

    def wrong(self, start: int, data: bytes, tail: tuple[int, int]) -> list[tuple[int, int]]:
        """The blocks that are not as they were written; `data` was read from `start`, where a block begins, up to `tail`."""
        size, check = tail
        view = memoryview(data)
        found = []
        for at in range(start, start + len(data), BLOCK):
            if at + BLOCK <= size:
                stop, expected = at + BLOCK, self._whole[at // BLOCK]
            else:
                stop, expected = size, check
            piece = view[at - start : stop - start]
            if len(piece) < stop - at or crc32(piece) != expected:
                found.append((at, at + BLOCK))
        return found


def blocks(start: int, end: int) -> list[tuple[int, int]]:
    """The parts of `start` to `end` that are in one block each."""
    cuts = [start, *range(start - start % BLOCK + BLOCK, end, BLOCK), end]
    return list(pairwise(cuts)) if end > start else []


def overlaps(bad: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether anything of `start` to `end` is in one of these parts."""
    return any(first < end and start < last for first, last in bad)
