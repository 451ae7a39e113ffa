"""A segment: one file of a log, and which places in it are still live.

  segment := magic 8 octets | salt u64 | check u32 | 0 u32 | batch *

  (1) A place is dead once it is settled. The file goes when nothing in it is live.
  (2) `salt` is a random number of the segment's own. What looks like a batch and has another one is part of a message.
  (3) Behind the last batch of a broker that was killed there may be up to 256 KiB of zeros: room for the next ones.

What a batch is, `batch.py` says. Knows nothing of queues.
"""

import logging
import os
from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from leveret.store.batch import (
    BATCH_HEAD_SIZE,
    BatchRead,
    find_batch,
    left_of_batch,
    left_of_headless,
    read_head,
)
from leveret.store.checks import Checks, blocks, parts_within
from leveret.store.disk import Disk, File
from leveret.store.layout import SPILL_NUMBER

log = logging.getLogger("leveret.store")

FILE_MAGIC = b"LVRTLOG2"
_HEADER = Struct("<8sQII")
HEADER_SIZE = _HEADER.size
GRANULE = 4
# What a place counts besides its body, in the share of a file that is live.
MESSAGE_COST = 64
CHECKED_PIECE = 1 << 20
# So much room is made behind the last batch of a file, at most.
ROOM_MAX = 256 << 10


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
        while piece := self.file.read(self.checks.size, min(CHECKED_PIECE, self.written - self.checks.size)):
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
    at = find_batch(file, HEADER_SIZE, size, None)
    while at is not None:
        head = read_head(file, at, None)
        assert head is not None
        octets[head.salt] = octets.get(head.salt, 0) + head.length
        at = find_batch(file, at + BATCH_HEAD_SIZE + head.length, size, None)
    return max(octets, key=octets.__getitem__)


def is_room(segment: Segment, offset: int) -> bool:
    """Whether nothing was written from `offset` on: behind the last batch there may be room for more."""
    size = segment.size - offset
    return size <= ROOM_MAX and not any(segment.file.read(offset, size))


def read_batch(segment: Segment, offset: int, file: File | None = None) -> BatchRead | None:
    """The batch at `offset`; None if what is there is not a whole one of this segment's. `file` is read for its own."""
    batch = salvage_batch(segment, offset, file)
    return batch if batch is not None and batch.whole else None


def salvage_batch(segment: Segment, offset: int, file: File | None = None) -> BatchRead | None:
    """What is left of the batch at `offset`; None if that is nothing."""
    file = file or segment.file
    head = read_head(file, offset, segment.salt)
    return None if head is None else left_of_batch(file, head)


def salvage_headless(
    segment: Segment, offset: int, following: int, number: int, file: File | None = None
) -> BatchRead | None:
    """What is left of a batch whose head is damaged, and which ends at `following`; None if that is nothing."""
    return left_of_headless(file or segment.file, offset, following, number, segment.salt)


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
    head = read_head(file, offset, segment.salt)
    # A head that is whole says where its batch ends.
    at = offset + 8 if head is None else offset + BATCH_HEAD_SIZE + head.length
    return find_batch(file, at, segment.written, segment.salt)


def batch_end(segment: Segment, offset: int, file: File | None = None) -> int | None:
    """Where the batch at `offset` ends, by its head; None if that is not whole."""
    head = read_head(file or segment.file, offset, segment.salt)
    return None if head is None else min(segment.written, offset + BATCH_HEAD_SIZE + head.length)
