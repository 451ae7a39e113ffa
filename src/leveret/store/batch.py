"""A batch: what is written and synced at once, as it stands in a file of a log.

  batch   := magic u32 | check u32 | salt u64 | number u64 | synced u64 | length u32 | table check u32 | payload
  payload := record * | table
  table   := (check u32 | first u32) for each block of the file in which records of this batch are

  (1) `check` is a CRC-32 of the salt, of the rest of the batch's head, or of what of the batch's records is in that block;
      `table check` one of the table. `first` is where in the payload the first record at or behind the block's beginning
      is: when one block is damaged, the records in the others are still there.
  (2) `synced` is the highest batch known to be on disk when this one was written: what is broken above it was never
      promised to anybody.
  (3) A damaged head or table costs nothing: a batch ends where the next one begins, and its records make its table.
  (4) In batches of format 2 there is no table, and `table check` is one of the whole payload.

Knows no segments: a file, an offset in it, and the salt of what stands there.
"""

from array import array
from struct import Struct
from zlib import crc32

from leveret.store.checks import BLOCK, blocks, overlaps
from leveret.store.disk import File
from leveret.store.layout import HEAD_SIZE
from leveret.store.records import first_records

BATCH_MAGIC = 0x3342564C
BATCH_MAGIC_2 = 0x3242564C
_MAGIC_2 = BATCH_MAGIC_2.to_bytes(4, "little")
_MAGIC_CHECK = crc32(BATCH_MAGIC.to_bytes(4, "little"))
_HEAD = Struct("<IIQQQII")
_HEAD_BEGIN = Struct("<II")
_HEAD_REST = Struct("<QQQII")
BATCH_HEAD_SIZE = _HEAD.size
_TABLE_ROW = Struct("<II")
# In place of a payload's check: nothing is said about it. One payload in four thousand million has this for its own.
UNCHECKED = 0


def table_size(size: int, offset: int) -> int:
    """How long the table of a batch is that stands at `offset` and is of this size, without the table."""
    if size == BATCH_HEAD_SIZE:
        return 0
    return ((offset + size - 1) // BLOCK - (offset + BATCH_HEAD_SIZE) // BLOCK + 1) * _TABLE_ROW.size


def seal(batch: bytearray, salt: int, number: int, synced: int, offset: int, end: int) -> list[int]:
    """Fill in the head and, from `end` on, the table of a batch that will stand at `offset`; both were left free.

    Returned are the checks of what of its records is in each block of the file.
    """
    table = table_of(batch, BATCH_HEAD_SIZE, end, offset)
    batch[end:] = octets = table.tobytes()
    _seal_head(batch, salt, number, synced, crc32(octets))
    return table[::2].tolist()


def table_of(data: bytes | bytearray, start: int, end: int, offset: int) -> "array[int]":
    """The table of the records from `start` to `end`, where `data` begins at `offset` of the file."""
    table = array("I")
    at = start
    with memoryview(data) as view:
        for first in first_records(data, start, end, offset):
            stop = min(end, at + BLOCK - (offset + at) % BLOCK)
            table.append(crc32(view[at:stop]))
            table.append(first)
            at = stop
    return table


def seal_unchecked(batch: bytearray, salt: int, number: int) -> None:
    """Fill in the head of a batch that is never recovered."""
    _seal_head(batch, salt, number, 0, UNCHECKED, BATCH_MAGIC_2)


def _seal_head(batch: bytearray, salt: int, number: int, synced: int, payload_check: int, magic: int = BATCH_MAGIC) -> None:
    rest = _HEAD_REST.pack(salt, number, synced, len(batch) - BATCH_HEAD_SIZE, payload_check)
    check = crc32(rest, 0 if magic == BATCH_MAGIC_2 else _MAGIC_CHECK)
    batch[:BATCH_HEAD_SIZE] = _HEAD_BEGIN.pack(magic, check) + rest


def _head_check(head: bytes | memoryview) -> int:
    """The check of a head: of all but itself; in format 2 without the magic."""
    magic = 0 if bytes(head[:4]) == _MAGIC_2 else crc32(head[:4])
    return crc32(head[8:BATCH_HEAD_SIZE], magic)


class Head:
    """The head of a batch."""

    __slots__ = ("check", "length", "magic", "number", "offset", "salt", "synced")

    def __init__(self, offset: int, fields: tuple[int, ...]) -> None:
        self.offset = offset
        self.magic, _, self.salt, self.number, self.synced, self.length, self.check = fields

    @property
    def row_count(self) -> int:
        """How many rows the table has: one for each block of what is before it."""
        if self.magic == BATCH_MAGIC_2:
            return 0
        start = self.offset + BATCH_HEAD_SIZE
        count = self.length // (BLOCK + _TABLE_ROW.size)
        while len(blocks(start, start + self.length - count * _TABLE_ROW.size)) > count:
            count += 1
        return count


class BatchRead:
    """A batch that was read: where its records begin in the file, what it says, and where the next one is.

    `spans` are the parts of the records that are whole; of a batch that is not, some are missing, or none if only its head
    or its table is damaged.
    """

    __slots__ = ("following", "number", "offset", "payload", "spans", "synced", "whole")

    def __init__(self, head: Head, payload: bytes, spans: list[tuple[int, int]], whole: bool) -> None:
        self.number = head.number
        self.synced = head.synced
        self.offset = head.offset + BATCH_HEAD_SIZE
        self.following = self.offset + head.length
        self.payload = payload
        self.spans = spans
        self.whole = whole

    @property
    def complete(self) -> bool:
        """Whether all it said is there."""
        return self.spans == [(0, len(self.payload))]


def read_head(file: File, offset: int, salt: int | None) -> Head | None:
    """None if what is at `offset` is not a whole head of a batch; with `salt` None, of any segment's."""
    octets = file.read(offset, BATCH_HEAD_SIZE)
    if len(octets) < BATCH_HEAD_SIZE:
        return None
    head = Head(offset, _HEAD.unpack(octets))
    if head.magic not in (BATCH_MAGIC, BATCH_MAGIC_2) or _head_check(octets) != int.from_bytes(octets[4:8], "little"):
        return None
    return head if salt in (None, head.salt) else None


def left_of_batch(file: File, head: Head) -> BatchRead | None:
    payload, table = _read_payload(file, head)
    size = head.length - head.row_count * _TABLE_ROW.size
    if head.magic == BATCH_MAGIC_2:
        whole = len(payload) == size and (head.check == UNCHECKED or crc32(payload) == head.check)
        return BatchRead(head, payload, [(0, size)], True) if whole else None
    if len(table) < head.length - size:
        return None
    if crc32(table) == head.check:
        return _read_blocks(head, payload, table, True)
    # If the records make the table that the head knows, only the one that was read is damaged.
    own = table_of(payload, 0, len(payload), head.offset + BATCH_HEAD_SIZE).tobytes()
    is_sound = len(own) == len(table) and crc32(own) == head.check
    batch = _read_blocks(head, payload, own if is_sound else table, is_sound)
    batch.whole = False
    return batch if batch.spans else None


def left_of_headless(file: File, offset: int, following: int, number: int, salt: int) -> BatchRead | None:
    """What is left of a batch whose head is damaged, and which ends at `following`; None if that is nothing."""
    head = Head(offset, (BATCH_MAGIC, 0, salt, number, 0, following - offset - BATCH_HEAD_SIZE, 0))
    if head.length <= _TABLE_ROW.size:
        return None
    payload, table = _read_payload(file, head)
    if len(payload) + len(table) < head.length:
        return None
    own = table_of(payload, 0, len(payload), offset + BATCH_HEAD_SIZE).tobytes()
    batch = _read_blocks(head, payload, table, table == own)
    batch.whole = False
    return batch if batch.spans else None


def _read_payload(file: File, head: Head) -> tuple[bytes, bytes]:
    """The records and the table of a batch."""
    start = head.offset + BATCH_HEAD_SIZE
    size = head.length - head.row_count * _TABLE_ROW.size
    return file.read(start, size), file.read(start + size, head.length - size)


def _read_blocks(head: Head, payload: bytes, table: bytes, is_table_sound: bool) -> BatchRead:
    """What of a batch is whole, block by block. Where records begin is known from a table that is sound alone."""
    start = head.offset + BATCH_HEAD_SIZE
    size = head.length - head.row_count * _TABLE_ROW.size
    rows = list(_TABLE_ROW.iter_unpack(table))
    parts = [(first - start, last - start) for first, last in blocks(start, start + size)]
    with memoryview(payload) as view:
        bad = [
            (first, last)
            for (first, last), (check, _) in zip(parts, rows, strict=True)
            if last > len(payload) or crc32(view[first:last]) != check
        ]
    if not bad and is_table_sound:
        return BatchRead(head, payload, [(0, size)], True)
    firsts = [first if is_table_sound else 0 for _, first in rows]
    return BatchRead(head, payload, _spans(payload, parts, firsts, bad), False)


def _spans(
    payload: bytes, parts: list[tuple[int, int]], firsts: list[int], bad: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The runs of whole records in those parts that are not damaged."""
    found = []
    end = 0
    for (first, _), record in zip(parts, firsts, strict=True):
        if record < end or overlaps(bad, first, first + 1):
            continue
        start = end = record
        while end + 4 <= len(payload) and not overlaps(bad, end, end + 4):
            size = int.from_bytes(payload[end : end + 4], "little")
            if size < HEAD_SIZE or end + size > len(payload) or overlaps(bad, end, end + size):
                break
            end += size
        if end > start:
            found.append((start, end))
    return found


def find_batch(file: File, at: int, end: int, salt: int | None) -> int | None:
    """Where the first whole batch at `at` or behind it begins."""
    marks = [magic.to_bytes(4, "little") for magic in (BATCH_MAGIC, BATCH_MAGIC_2)]
    while at < end:
        piece = file.read(at, 1 << 20)
        places = sorted(place for mark in marks for place in _places_of(mark, piece))
        for place in places:
            head = read_head(file, at + place, salt)
            batch = None if head is None else left_of_batch(file, head)
            if batch is not None and batch.whole:
                return at + place
        at += max(1, len(piece) - 3) if len(piece) > 3 else end
    return None


def _places_of(mark: bytes, piece: bytes) -> list[int]:
    found = []
    at = piece.find(mark)
    while at >= 0:
        found.append(at)
        at = piece.find(mark, at + 1)
    return found
