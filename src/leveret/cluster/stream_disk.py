"""A stream as a disk: the files of a log are pieces of one stream.

  append  := Leveret-File: name | Leveret-At: offset | octets          what stands in the file from there on
  CUT     := Leveret-File: name | Leveret-Cut: size                    the file ends there
  REMOVED := Leveret-File: name | Leveret-Removed: 1                   there is no such file
  EPOCH   := without a file                                            another leader, as `stream.py` has it

  (1) A file is a run of sequences. Which octets are in which message is in memory, and found again by reading all of it.
  (2) An append is at most 1 MiB. What is longer is several; if the last of them are missing, that is a torn end.
  (3) What is written is on disk: `sync` has nothing to do.
  (4) The oldest file goes by a purge of all before the first message of the others. Another one that goes is said to be
      removed, and goes when those before it have. The last message always stays: it knows the epoch.
  (5) A file that is renamed has been found damaged. Its octets go to a file of that name on this node's own disk.

Knows nothing of what the files are for.
"""

import os
from array import array
from bisect import bisect_left, bisect_right
from errno import EBADF
from pathlib import Path

from leveret.cluster.nats import Stored
from leveret.cluster.stream import Stream
from leveret.store.disk import Disk, File, make_folder
from leveret.store.modes import FOLDER_MODE

APPEND_MAX = 1 << 20

FILE = "Leveret-File"
AT = "Leveret-At"
CUT = "Leveret-Cut"
REMOVED = "Leveret-Removed"


class Run:
    """The messages of one file: for each of them where in the file its octets begin.

    `first_seq` and `last_seq` are those that ever said anything of it, 0 if none has.
    """

    __slots__ = ("aside", "first_seq", "last_seq", "seqs", "size", "starts")

    def __init__(self) -> None:
        self.starts = array("Q")
        self.seqs = array("Q")
        self.size = 0
        self.first_seq = 0
        self.last_seq = 0
        # Where its octets are, once it was renamed.
        self.aside: File | None = None

    def note(self, seq: int, at: int, size: int) -> None:
        """So many octets at `at` are in this message."""
        self.cut(seq, at)
        self.seqs.append(seq)
        self.starts.append(at)
        # Last: who reads meanwhile asks for no more than there is.
        self.size = at + size

    def cut(self, seq: int, size: int) -> None:
        """By this message, what is behind `size` is no part of it any more."""
        self.first_seq = self.first_seq or seq
        self.last_seq = seq
        if size < self.size:
            self.size = size
            count = bisect_left(self.starts, size)
            del self.starts[count:], self.seqs[count:]

    def place(self, offset: int, end: int) -> tuple[int, int, int]:
        """The message that has this octet, where in the file it begins, and where what of it counts ends, at `end` at most.

        0 for the message if it was missing.
        """
        index = bisect_right(self.starts, offset) - 1
        following = self.starts[index + 1] if index + 1 < len(self.starts) else end
        if index < 0:
            return 0, offset, min(end, following)
        return self.seqs[index], self.starts[index], min(end, following)


class Piece(File):
    """One open file."""

    __slots__ = ("_closed", "_disk", "_run")

    def __init__(self, disk: "StreamDisk", name: str, run: Run) -> None:
        self.name = name
        self._disk = disk
        self._run = run
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._check_open()
        run = self._run
        with memoryview(data) as view:
            for at in range(0, len(view), APPEND_MAX):
                part = view[at : at + APPEND_MAX]
                seq = self._disk.stream.append({FILE: self.name, AT: str(run.size)}, part)
                run.note(seq, run.size, len(part))

    def reserve(self, size: int, more: int) -> None:
        """An append has no length to be synced besides."""

    def give_room_back(self) -> None:
        """There is none."""

    def read(self, offset: int, size: int) -> bytes:
        self._check_open()
        if self._run.aside is not None:
            return self._run.aside.read(offset, size)
        end = min(offset + size, self._run.size)
        found = []
        while offset < end:
            part = self._read_part(offset, end)
            found.append(part)
            offset += len(part)
        return found[0] if len(found) == 1 else b"".join(found)

    def _read_part(self, offset: int, end: int) -> bytes:
        """What of this is in one message. What was in a message that no replica has is zeros, so that its checks fail."""
        seq, start, stop = self._run.place(offset, end)
        part = self._disk.stream.read(seq)[offset - start : stop - start] if seq else b""
        return part or bytes(stop - offset)

    def size(self) -> int:
        self._check_open()
        return self._run.size

    def sync(self) -> None:
        """What was acknowledged is on disk."""
        self._check_open()

    def truncate(self, size: int) -> None:
        self._check_open()
        seq = self._disk.stream.append({FILE: self.name, CUT: str(size)}, b"")
        self._run.cut(seq, size)

    def is_removed(self) -> bool:
        return not self._disk.has(self.name, self._run)

    def close(self) -> None:
        self._check_open()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(EBADF, os.strerror(EBADF), self.name)


class StreamDisk(Disk):
    """The files of a stream. `folder` is where damaged ones are kept aside."""

    __slots__ = ("_runs", "stream")

    def __init__(self, stream: Stream, folder: Path) -> None:
        super().__init__(folder)
        self.stream = stream
        self._runs: dict[str, Run] = {}

    def replay(self) -> None:
        """Read on to the end of the stream, and know which files there are then."""
        for message in self.stream.read_on():
            self._apply(message)
        self.forget_purged()

    def forget_purged(self) -> bool:
        """Forget files that whoever led before has removed meanwhile; whether there were any."""
        first_seq = self.stream.first_seq
        kept = {name: run for name, run in self._runs.items() if run.last_seq >= first_seq}
        some = len(kept) < len(self._runs)
        self._runs = kept
        return some

    def _apply(self, message: Stored) -> None:
        name = message.headers.get(FILE)
        if name is None:
            return
        if REMOVED in message.headers:
            self._runs.pop(name, None)
            return
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = Run()
        if CUT in message.headers:
            run.cut(message.seq, int(message.headers[CUT]))
        else:
            run.note(message.seq, int(message.headers[AT]), len(message.payload))

    def has(self, name: str, run: Run) -> bool:
        """Whether this is the file of that name."""
        return self._runs.get(name) is run

    def lock(self) -> bool:
        """Others are kept out by the stream itself."""
        return True

    def names(self) -> list[str]:
        return sorted(self._runs)

    def create(self, name: str) -> File:
        if name in self._runs:
            raise FileExistsError(name)
        self._runs[name] = Run()
        return self.open(name)

    def open(self, name: str) -> File:
        return Piece(self, name, self._run(name))

    def _run(self, name: str) -> Run:
        run = self._runs.get(name)
        if run is None:
            raise FileNotFoundError(name)
        return run

    def remove(self, name: str) -> None:
        run = self._run(name)
        del self._runs[name]
        if run.first_seq == 0:
            return
        if run.last_seq >= self._first_seq():
            # A purge does not take it away yet.
            self.stream.append({FILE: name, REMOVED: "1"}, b"")
        self.stream.purge(self._first_seq())

    def _first_seq(self) -> int:
        """The first message that is still of use."""
        return min((run.first_seq for run in self._runs.values() if run.first_seq), default=self.stream.last_seq)

    def rename(self, name: str, new_name: str) -> None:
        run = self._run(name)
        run.aside = self._copy(self.open(name), new_name)
        self.remove(name)

    def _copy(self, file: File, name: str) -> File:
        """Write what of a file can be read to one on this node's own disk."""
        make_folder(self.folder.absolute(), FOLDER_MODE)
        disk = Disk(self.folder)
        copy = disk.create(name)
        for at in range(0, file.size(), APPEND_MAX):
            size = min(APPEND_MAX, file.size() - at)
            try:
                part = file.read(at, size)
            except OSError:
                part = bytes(size)
            copy.write(part)
        copy.sync()
        disk.sync_folder()
        return copy

    def sync_folder(self) -> None:
        """What was acknowledged is on disk."""

    def free_bytes(self) -> int:
        # What nats-server has is on the same disk; the folder may not be there yet.
        return Disk(nearest(self.folder)).free_bytes()


def nearest(folder: Path) -> Path:
    """A folder, or the first above it that is there."""
    while not folder.exists():
        folder = folder.parent
    return folder
