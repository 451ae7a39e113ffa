"""A segment: one file of a log, and which places in it are still live.

  segment := magic 8 octets | salt u64 | check u32 | 0 u32 | batch *
  batch   := magic u32 | check u32 | salt u64 | number u64 | synced u64 | length u32 | payload check u32 | payload

  (1) `check` is a CRC-32 of the salt, or of the rest of the batch's head, `payload check` one of the payload.
  (2) `synced` is the highest batch known to be on disk when this one was written: what is broken above it was never
      promised to anybody.
  (3) A place is dead once it is settled. The file goes when nothing in it is live.
  (4) `salt` is a random number of the segment's own. What looks like a batch and has another one is part of a message.

Knows nothing of queues.
"""

import os
from struct import Struct
from zlib import crc32

from leveret.store.disk import Disk, File

FILE_MAGIC = b"LVRTLOG2"
BATCH_MAGIC = 0x3242564C
_HEADER = Struct("<8sQII")
_HEAD = Struct("<IIQQQII")
HEADER_SIZE = _HEADER.size
BATCH_HEAD_SIZE = _HEAD.size
GRANULE = 4
# In place of a payload's check: nothing is said about it. One payload in four thousand million has this for its own.
UNCHECKED = 0


class Segment:
    """One file.

    `size` counts what is handed to the committer too, `written` only what is in the file. `origins` are the places that
    were moved here, by offset, and the locations by which their entries know them. A `damaged` file is never removed, but
    kept `aside`, under another name, and open while something in it is live. A new one has no `file` before `make`.
    """

    __slots__ = (
        "_dead",
        "aside",
        "damaged",
        "file",
        "live_count",
        "made",
        "name",
        "number",
        "origins",
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
        self.damaged = False
        self.aside = False
        self.origins: dict[int, int] = {}
        self._dead = bytearray()

    def make(self, disk: Disk) -> None:
        """Make the file; on a busy disk that takes its time."""
        self.file = disk.create(self.name)
        self.file.write(header(self.salt))
        self.made = True

    @property
    def live_size(self) -> int:
        """About how many octets are live."""
        return self.size * self.live_count // self.total_count if self.total_count else 0

    def settle(self, offset: int) -> None:
        """The place at `offset` is dead."""
        at = offset >> GRANULE + 3
        dead = self._dead
        if at >= len(dead):
            dead.extend(bytes(at + 1024 - len(dead)))
        dead[at] |= 1 << (offset >> GRANULE & 7)
        self.live_count -= 1

    def is_dead(self, offset: int) -> bool:
        at = offset >> GRANULE + 3
        return at < len(self._dead) and self._dead[at] >> (offset >> GRANULE & 7) & 1 == 1


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
        salt, _, _, length, _ = head
        octets[salt] = octets.get(salt, 0) + length
        at = _next_batch_offset(file, at + BATCH_HEAD_SIZE + length, size, None)
    return max(octets, key=octets.__getitem__)


def seal(batch: bytearray, salt: int, number: int, synced: int, checked: bool = True) -> None:
    """Fill in the head of a batch, for which the first octets were left free; what is never recovered is not checked."""
    payload = memoryview(batch)[BATCH_HEAD_SIZE:]
    fields = (BATCH_MAGIC, 0, salt, number, synced, len(payload), crc32(payload) if checked else UNCHECKED)
    payload.release()
    _HEAD.pack_into(batch, 0, *fields)
    _HEAD.pack_into(batch, 0, BATCH_MAGIC, crc32(memoryview(batch)[8:BATCH_HEAD_SIZE]), *fields[2:])


class Batch:
    """A batch that was read: where its payload begins in the file, and what it says."""

    __slots__ = ("number", "offset", "payload", "synced")

    def __init__(self, number: int, synced: int, offset: int, payload: bytes) -> None:
        self.number = number
        self.synced = synced
        self.offset = offset
        self.payload = payload


def read_batch(segment: Segment, offset: int, file: File | None = None) -> Batch | None:
    """The batch at `offset`; None if what is there is not a whole one of this segment's. `file` is read for its own."""
    return _read_batch(file or segment.file, offset, segment.salt)


def next_batch_offset(segment: Segment, offset: int, file: File | None = None) -> int | None:
    """Where the next batch that is whole begins, after a place where none is."""
    file = file or segment.file
    head = _read_head(file, offset, segment.salt)
    # A head that is whole says where its batch ends.
    at = offset + 8 if head is None else offset + BATCH_HEAD_SIZE + head[3]
    return _next_batch_offset(file, at, segment.written, segment.salt)


def _read_head(file: File, offset: int, salt: int | None) -> tuple[int, int, int, int, int] | None:
    """Salt, number, synced mark, length and check of the payload; None if what is at `offset` is not a whole head.

    With `salt` None, that of any segment.
    """
    head = file.read(offset, BATCH_HEAD_SIZE)
    if len(head) < BATCH_HEAD_SIZE:
        return None
    magic, check, found, number, synced, length, payload_check = _HEAD.unpack(head)
    if magic != BATCH_MAGIC or crc32(head[8:]) != check or salt not in (None, found):
        return None
    return found, number, synced, length, payload_check


def _read_batch(file: File, offset: int, salt: int | None) -> Batch | None:
    head = _read_head(file, offset, salt)
    if head is None:
        return None
    _, number, synced, length, payload_check = head
    payload = file.read(offset + BATCH_HEAD_SIZE, length)
    if len(payload) < length or (payload_check != UNCHECKED and crc32(payload) != payload_check):
        return None
    return Batch(number, synced, offset + BATCH_HEAD_SIZE, payload)


def _next_batch_offset(file: File, at: int, end: int, salt: int | None) -> int | None:
    """Where the first whole batch at `at` or behind it begins."""
    mark = BATCH_MAGIC.to_bytes(4, "little")
    while at < end:
        piece = file.read(at, 1 << 20)
        found = piece.find(mark)
        while found >= 0:
            if _read_batch(file, at + found, salt) is not None:
                return at + found
            found = piece.find(mark, found + 1)
        at += max(1, len(piece) - 3) if len(piece) > 3 else end
    return None
