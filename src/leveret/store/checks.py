"""Checks of a file: what is read again must be what was written.

A block is 32 KiB of the file, wherever batches and records begin. A span is what of one batch's records is in a block, or
several small batches in a row; its check is a CRC-32, made when it is written, or when recovery has read it, and kept in
memory: 16 octets a span. Each octet is checked once: for every call the interpreter is let go, and a commit waits for it.

Written by one thread, asked by others: what is added is there at once, and `_tail`, which is still growing, changes at once.
"""

from array import array
from bisect import bisect_right
from itertools import pairwise
from zlib import crc32

BLOCK_BITS = 15
BLOCK = 1 << BLOCK_BITS
# Shorter batches share a span.
SMALL = 1 << 12

Octets = bytes | bytearray | memoryview
Span = tuple[int, int, int]
"""From where to where, and the check of that."""


class Checks:
    """The checks of one file of `size` octets: of its spans in order, and of the last one, which is still growing."""

    __slots__ = ("_checks", "_ends", "_starts", "_tail", "size")

    def __init__(self) -> None:
        self._starts = array("Q")
        self._ends = array("Q")
        self._checks = array("I")
        self._tail = (0, 0, 0)
        self.size = 0

    def add(self, data: Octets, known: list[int] | None = None, start: int = 0, end: int = 0) -> None:
        """These octets were written behind the others; `known` are the checks of `start` to `end`, block by block."""
        if known is None or len(data) < SMALL:
            self._extend(memoryview(data))
        else:
            self._close()
            at, last = self.size + start, self.size + end
            for check in known:
                stop = min(last, at + BLOCK - at % BLOCK)
                self._put(at, stop, check)
                at = stop
            behind = self.size + len(data)
            self._tail = (behind, behind, 0)
        self.size += len(data)

    def _extend(self, view: memoryview) -> None:
        first, last, check = self._tail
        at = 0
        while at < len(view):
            piece = view[at : at + BLOCK - last % BLOCK]
            check = crc32(piece, check)
            at += len(piece)
            last += len(piece)
            if last % BLOCK == 0:
                self._put(first, last, check)
                first, check = last, 0
        self._tail = (first, last, check)

    def _close(self) -> None:
        first, last, check = self._tail
        if first < last:
            self._put(first, last, check)

    def _put(self, start: int, end: int, check: int) -> None:
        self._ends.append(end)
        self._checks.append(check)
        # Last: who asks counts these.
        self._starts.append(start)

    def spans(self, start: int, end: int) -> list[Span]:
        """Those in which anything of `start` to `end` is."""
        tail = self._tail
        found = []
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._starts) and self._starts[index] < min(end, tail[0]):
            if self._ends[index] > start:
                found.append((self._starts[index], self._ends[index], self._checks[index]))
            index += 1
        if tail[0] < end and start < tail[1]:
            found.append(tail)
        return found


def blocks(start: int, end: int) -> list[tuple[int, int]]:
    """The parts of `start` to `end` that are in one block each."""
    cuts = [start, *range(start - start % BLOCK + BLOCK, end, BLOCK), end]
    return list(pairwise(cuts)) if end > start else []


def overlaps(bad: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether anything of `start` to `end` is in one of these parts."""
    return any(first < end and start < last for first, last in bad)


def parts_within(parts: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """What of these parts is in `start` to `end`."""
    return [(max(first, start), min(last, end)) for first, last in parts if first < end and start < last]
