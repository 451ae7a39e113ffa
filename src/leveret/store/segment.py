"""A segment: one file of a log, and which places in it are still live.

  segment := magic 8 octets | salt u64 | check u32 | 0 u32 | batch *
  batch   := magic u32 | check u32 | salt u64 | number u64 | synced u64 | length u32 | table check u32 | payload
  payload := record * | table
  table   := (check u32 | first u32) for each block of the file in which records of this batch are

  (1) `check` is a CRC-32 of the salt, of the rest of the batch's head, or of what of the batch's records is in that block;
      `table check` one of the table. `first` is where in the payload the first record at or behind the block's beginning
      is: when one block is damaged, the records in the others are still there.
  (2) `synced` is the highest batch known to be on disk when this one was written: what is broken above it was never
      promised to anybody.
  (3) A place is dead once it is settled. The file goes when nothing in it is live.
  (4) `salt` is a random number of the segment's own. What looks like a batch and has another one is part of a message.

  (5) A damaged head or table costs nothing: a batch ends where the next one begins, and its records make its table.
  (6) In batches of format 2 there is no table, and `table check` is one of the whole payload.

Knows nothing of queues.
"""

import logging
import os
from array import array
from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from leveret.store.checks import BLOCK, Checks, blocks, overlaps, parts_within
from leveret.store.disk import Disk, File
from leveret.store.layout import HEAD_SIZE, SPILL_NUMBER
from leveret.store.records import first_records

log = logging.getLogger("leveret.store")

FILE_MAGIC = b"LVRTLOG2"
BATCH_MAGIC = 0x3342564C
BATCH_MAGIC_2 = 0x3242564C
_MAGIC_2 = BATCH_MAGIC_2.to_bytes(4, "little")
_MAGIC_CHECK = crc32(BATCH_MAGIC.to_bytes(4, "little"))
_HEADER = Struct("<8sQII")
_HEAD = Struct("<IIQQQII")
_HEAD_BEGIN = Struct("<II")
_HEAD_REST = Struct("<QQQII")
HEADER_SIZE = _HEADER.size
BATCH_HEAD_SIZE = _HEAD.size
_TABLE_ROW = Struct("<II")
GRANULE = 4
# What a place counts besides its body, in the share of a file that is live.
MESSAGE_COST = 64
CHECKED_PIECE = 1 << 20
# In place of a payload's check: nothing is said about it. One payload in four thousand million has this for its own.
UNCHECKED = 0


class Segment:
    """One file.

    `size` counts what is handed to the committer too, `written` only what is in the file. `origins` are the places that
    were moved here, by offset, and the locations by which their entries know them. A `damaged` file is never removed, but
    kept `aside`, under another name, and open while something in it is live. A new one has no `file` before `make`. While
    it is `pinned` somebody is going to read it, and it must not be closed.
    """

    __slots__ = (
        "_dead",
        "aside",
        "body_bytes",
        "checks",
        "damaged",
        "file",
        "first_batch",
        "live_body_bytes",
        "live_count",
        "made",
        "message_size",
        "name",
        "number",
        "origins",
        "pinned",
        "salt",
        "size",
        "total_count",
        "written",
    )

    def __init__(self, number: int, name: str, file: File | None, size: int, salt: int) -> None:
        self.number = number
        self.name = name
        self.file: File = file  # type: ignore[assignment]
        self.made = file is not None
        self.salt = salt
        self.size = size
        self.written = size
        self.live_count = 0
        self.total_count = 0
        # The bodies of all places, and of those that are live.
        self.body_bytes = 0
        self.live_body_bytes = 0
        # The octets of all messages in it: what else is said takes no space once it is copied.
        self.message_size = 0
        # The number of the first batch in it; 0 if there is none yet.
        self.first_batch = 0
        self.damaged = False
        self.aside = False
        self.origins: dict[int, int] = {}
        self.pinned = 0
        self.checks = Checks()
        self._dead = bytearray()

    def make(self, disk: Disk) -> None:
        """Make the file; on a busy disk that takes its time."""
        self.file = disk.create(self.name)
        self.write(header(self.salt))
        self.made = True

    def make_again(self, disk: Disk) -> None:
        """Write the file again that somebody has removed: it is open, so all of it can be read, and was promised."""
        log.error("%s was removed by another program; it is written again", self.name)
        file = disk.create(self.name)
        for at in range(0, self.checks.size, CHECKED_PIECE):
            file.write(self.file.read(at, min(CHECKED_PIECE, self.checks.size - at)))
        file.sync()
        disk.sync_folder()
        # The other one stays open: somebody may be reading it.
        self.file = file

    def write(self, data: bytes | bytearray, known: list[int] | None = None, end: int = 0) -> None:
        """Append octets; of a batch, the checks of its records up to `end` are known."""
        self.file.write(data)
        # Only now: whoever reads meanwhile must find in the file what the checks are about.
        self.checks.add(data, known, BATCH_HEAD_SIZE, end)

    def read(self, start: int, end: int) -> tuple[int, bytes, list[tuple[int, int]]]:
        """What was written from `start` to `end`, and around it: where that begins, octets, and which parts are damaged."""
        spans = self.checks.spans(start, end)
        if not spans:
            return start, b"", [(start, end)]
        first, last = spans[0][0], spans[len(spans) - 1][1]
        try:
            data = self.file.read(first, last - first)
        except OSError:
            data = self._read_by_blocks(first, last)
        view = memoryview(data)
        bad = [(at, to) for at, to, check in spans if not is_sound(view, at - first, to - first, check)]
        return first, data, self._lost_in(bad) if bad and self.number < SPILL_NUMBER else bad

    def _lost_in(self, bad: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """What of these parts is lost, by what the batches in them say: of a block with several, one may be damaged."""
        if not self.damaged:
            log.error("%s: %d octets at %d are damaged", self.name, bad[0][1] - bad[0][0], bad[0][0])
        self.damaged = True
        lost = []
        at = 0
        for batch in batches_left(self):
            for start, end in batch.spans:
                lost += parts_within(bad, at, batch.offset + start)
                at = batch.offset + end
        return lost + parts_within(bad, at, bad[len(bad) - 1][1])

    def read_checks(self) -> None:
        """Take what is in the file for what must be in it: recovery has looked at it."""
        self.checks = Checks()
        while piece := self.file.read(self.checks.size, CHECKED_PIECE):
            self.checks.add(piece)

    def _read_by_blocks(self, start: int, end: int) -> bytes:
        """What can be read of a file that cannot be read whole."""
        found = bytearray()
        for first, last in blocks(start, end):
            try:
                piece = self.file.read(first, last - first)
            except OSError:
                piece = b""
            found += piece + bytes(last - first - len(piece))
        return bytes(found)

    @property
    def live_size(self) -> int:
        """About how many octets are live: of one message in several queues, the share of those that still have it."""
        if self.total_count == 0:
            return 0
        live = self.live_body_bytes + self.live_count * MESSAGE_COST
        return self.message_size * live // (self.body_bytes + self.total_count * MESSAGE_COST)

    def place(self, count: int, body_size: int) -> None:
        """A message with so many octets takes so many places."""
        self.live_count += count
        self.total_count += count
        self.body_bytes += count * body_size
        self.live_body_bytes += count * body_size

    def settle(self, offset: int, body_size: int) -> None:
        """The place at `offset` is dead, as it may have been before: what a purge has said is gone is given free later."""
        at = offset >> GRANULE + 3
        dead = self._dead
        if at >= len(dead):
            dead.extend(bytes(at + 1024 - len(dead)))
        bit = 1 << (offset >> GRANULE & 7)
        if dead[at] & bit == 0:
            dead[at] |= bit
            self.live_count -= 1
            self.live_body_bytes -= body_size

    def is_dead(self, offset: int) -> bool:
        at = offset >> GRANULE + 3
        return at < len(self._dead) and self._dead[at] >> (offset >> GRANULE & 7) & 1 == 1


def is_sound(view: memoryview, start: int, end: int, check: int) -> bool:
    """Whether that part is what was written; of a file that was cut, the end is missing."""
    return end <= len(view) and crc32(view[start:end]) == check


def new_segment(prefix: str, number: int) -> Segment:
    """A segment whose file is made by whoever writes to it first, and then syncs the folder too."""
    return Segment(number, f"{prefix}-{number:08d}.log", None, HEADER_SIZE, int.from_bytes(os.urandom(8), "little"))


def open_segment(disk: Disk, name: str, number: int) -> Segment:
    """A segment as it is found; what is in it is not looked at."""
    file = disk.open(name)
    size = file.size()
    salt = read_salt(file)
    return Segment(number, name, file, size, find_salt(file, size) if salt is None else salt)


def header(salt: int) -> bytes:
    """The octets that begin a segment."""
    return _HEADER.pack(FILE_MAGIC, salt, crc32(salt.to_bytes(8, "little")), 0)


def read_salt(file: File) -> int | None:
    """The salt that the header says; None if that is not whole."""
    found = file.read(0, HEADER_SIZE)
    if len(found) < HEADER_SIZE:
        return None
    salt = int(_HEADER.unpack(found)[1])
    return salt if found == header(salt) else None


def find_salt(file: File, size: int) -> int:
    """The salt of a file whose header is damaged: the one that most octets of batches have; 0 if there are none."""
    octets = {0: 0}
    at = _next_batch_offset(file, HEADER_SIZE, size, None)
    while at is not None:
        head = _read_head(file, at, None)
        assert head is not None
        octets[head.salt] = octets.get(head.salt, 0) + head.length
        at = _next_batch_offset(file, at + BATCH_HEAD_SIZE + head.length, size, None)
    return max(octets, key=octets.__getitem__)


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


class BatchRead:
    """A batch that was read: where its records begin in the file, what it says, and where the next one is.

    `spans` are the parts of the records that are whole; of a batch that is not, some are missing, or none if only its head
    or its table is damaged.
    """

    __slots__ = ("following", "number", "offset", "payload", "spans", "synced", "whole")

    def __init__(self, head: "_Head", payload: bytes, spans: list[tuple[int, int]], whole: bool) -> None:
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


def read_batch(segment: Segment, offset: int, file: File | None = None) -> BatchRead | None:
    """The batch at `offset`; None if what is there is not a whole one of this segment's. `file` is read for its own."""
    batch = salvage_batch(segment, offset, file)
    return batch if batch is not None and batch.whole else None


def salvage_batch(segment: Segment, offset: int, file: File | None = None) -> BatchRead | None:
    """What is left of the batch at `offset`; None if that is nothing."""
    file = file or segment.file
    head = _read_head(file, offset, segment.salt)
    return None if head is None else _read_batch(file, head)


def salvage_headless(
    segment: Segment, offset: int, following: int, number: int, file: File | None = None
) -> BatchRead | None:
    """What is left of a batch whose head is damaged, and which ends at `following`; None if that is nothing."""
    head = _Head(offset, (BATCH_MAGIC, 0, segment.salt, number, 0, following - offset - BATCH_HEAD_SIZE, 0))
    if head.length <= _TABLE_ROW.size:
        return None
    payload, table = _read_payload(file or segment.file, head)
    if len(payload) + len(table) < head.length:
        return None
    own = table_of(payload, 0, len(payload), offset + BATCH_HEAD_SIZE).tobytes()
    batch = _read_blocks(head, payload, table, table == own)
    batch.whole = False
    return batch if batch.spans else None


def batches_left(segment: Segment, file: File | None = None) -> Iterator[BatchRead]:
    """What is left of all batches, in order; of those without a head the number is not known, and 0."""
    offset: int | None = HEADER_SIZE
    while offset is not None and offset < segment.written:
        batch = salvage_batch(segment, offset, file)
        if batch is None:
            following = next_batch_offset(segment, offset, file) or batch_end(segment, offset, file)
            batch = salvage_headless(segment, offset, following or segment.written, 0, file)
            offset = following
        else:
            offset = batch.following
        if batch is not None:
            yield batch


def next_batch_offset(segment: Segment, offset: int, file: File | None = None) -> int | None:
    """Where the next batch that is whole begins, after a place where none is."""
    file = file or segment.file
    head = _read_head(file, offset, segment.salt)
    # A head that is whole says where its batch ends.
    at = offset + 8 if head is None else offset + BATCH_HEAD_SIZE + head.length
    return _next_batch_offset(file, at, segment.written, segment.salt)


def batch_end(segment: Segment, offset: int, file: File | None = None) -> int | None:
    """Where the batch at `offset` ends, by its head; None if that is not whole."""
    head = _read_head(file or segment.file, offset, segment.salt)
    return None if head is None else min(segment.written, offset + BATCH_HEAD_SIZE + head.length)


class _Head:
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


def _read_head(file: File, offset: int, salt: int | None) -> _Head | None:
    """None if what is at `offset` is not a whole head of a batch; with `salt` None, of any segment's."""
    octets = file.read(offset, BATCH_HEAD_SIZE)
    if len(octets) < BATCH_HEAD_SIZE:
        return None
    head = _Head(offset, _HEAD.unpack(octets))
    if head.magic not in (BATCH_MAGIC, BATCH_MAGIC_2) or _head_check(octets) != int.from_bytes(octets[4:8], "little"):
        return None
    return head if salt in (None, head.salt) else None


def _read_batch(file: File, head: _Head) -> BatchRead | None:
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


def _read_payload(file: File, head: _Head) -> tuple[bytes, bytes]:
    """The records and the table of a batch."""
    start = head.offset + BATCH_HEAD_SIZE
    size = head.length - head.row_count * _TABLE_ROW.size
    return file.read(start, size), file.read(start + size, head.length - size)


def _read_blocks(head: _Head, payload: bytes, table: bytes, is_table_sound: bool) -> BatchRead:
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


def _next_batch_offset(file: File, at: int, end: int, salt: int | None) -> int | None:
    """Where the first whole batch at `at` or behind it begins."""
    marks = [magic.to_bytes(4, "little") for magic in (BATCH_MAGIC, BATCH_MAGIC_2)]
    while at < end:
        piece = file.read(at, 1 << 20)
        places = sorted(place for mark in marks for place in _places_of(mark, piece))
        for place in places:
            head = _read_head(file, at + place, salt)
            batch = None if head is None else _read_batch(file, head)
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
