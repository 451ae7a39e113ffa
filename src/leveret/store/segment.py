"""A segment: one file of a log, and which places in it are still live.

  segment := magic 8 octets | batch *
  batch   := magic u32 | check u32 | number u64 | synced u64 | length u32 | payload check u32 | payload

  (1) `check` is a CRC-32 of the rest of the batch's head, `payload check` one of the payload.
  (2) `synced` is the highest batch known to be on disk when this one was written: what is broken above it was never
      promised to anybody.
  (3) A place is dead once it is settled. The file goes when nothing in it is live.

Knows nothing of queues.
"""

from struct import Struct
from zlib import crc32

from leveret.store.disk import Disk, File

FILE_MAGIC = b"LVRTLOG1"
BATCH_MAGIC = 0x3142564C
_HEAD = Struct("<IIQQII")
BATCH_HEAD_SIZE = _HEAD.size
GRANULE = 4


class Segment:
    """One file.

    `size` counts what is handed to the committer too, `written` only what is in the file. `origins` are the places that
    were moved here, by offset, and the locations by which their entries know them. A `damaged` file is never removed, but
    kept `aside`, under another name, and open while something in it is live.
    """

    __slots__ = (
        "_dead",
        "aside",
        "damaged",
        "file",
        "live_count",
        "name",
        "number",
        "origins",
        "requeues",
        "size",
        "total_count",
        "written",
    )

    def __init__(self, number: int, name: str, file: File, size: int) -> None:
        self.number = number
        self.name = name
        self.file = file
        self.size = size
        self.written = size
        self.live_count = 0
        self.total_count = 0
        # Whether it has records of messages that were given back.
        self.requeues = False
        self.damaged = False
        self.aside = False
        self.origins: dict[int, int] = {}
        self._dead = bytearray()

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


def create_segment(disk: Disk, prefix: str, number: int) -> Segment:
    """Make a segment; whoever syncs it must sync the folder too."""
    name = f"{prefix}-{number:08d}.log"
    file = disk.create(name)
    file.write(FILE_MAGIC)
    return Segment(number, name, file, len(FILE_MAGIC))


def seal(batch: bytearray, number: int, synced: int) -> None:
    """Fill in the head of a batch, for which the first octets were left free."""
    payload = memoryview(batch)[BATCH_HEAD_SIZE:]
    fields = (BATCH_MAGIC, 0, number, synced, len(payload), crc32(payload))
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


def _read_head(file: File, offset: int) -> tuple[int, int, int, int] | None:
    """Number, synced mark, length and check of the payload; None if what is at `offset` is not a whole head."""
    head = file.read(offset, BATCH_HEAD_SIZE)
    if len(head) < BATCH_HEAD_SIZE:
        return None
    magic, check, number, synced, length, payload_check = _HEAD.unpack(head)
    if magic != BATCH_MAGIC or crc32(head[8:]) != check:
        return None
    return number, synced, length, payload_check


def read_batch(file: File, offset: int) -> Batch | None:
    """The batch at `offset`; None if what is there is not a whole one."""
    head = _read_head(file, offset)
    if head is None:
        return None
    number, synced, length, payload_check = head
    payload = file.read(offset + BATCH_HEAD_SIZE, length)
    if len(payload) < length or crc32(payload) != payload_check:
        return None
    return Batch(number, synced, offset + BATCH_HEAD_SIZE, payload)


def next_batch_offset(file: File, offset: int, end: int) -> int | None:
    """Where the next batch that is whole begins, after a place where none is."""
    mark = BATCH_MAGIC.to_bytes(4, "little")
    head = _read_head(file, offset)
    # A head that is whole says where its batch ends; what a payload contains is never taken for a batch then.
    at = offset + 8 if head is None else offset + BATCH_HEAD_SIZE + head[2]
    while at < end:
        piece = file.read(at, 1 << 20)
        found = piece.find(mark)
        while found >= 0:
            if read_batch(file, at + found) is not None:
                return at + found
            found = piece.find(mark, found + 1)
        at += max(1, len(piece) - 3) if len(piece) > 3 else end
    return None
