"""The seam: all file access of the store, and nothing else. A simulated disk with the same methods takes its place in tests.

Knows nothing of what is written. OSError goes to whoever asked.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from leveret.store.modes import FILE_MODE, FOLDER_MODE, keep_from_others


class File:
    """One open file, written at its end: the one we know of, also where somebody has cut the file.

    Behind its end it may have room, which reads as zeros: a sync of what is written there has no new length to write.
    """

    __slots__ = ("_end", "_fd", "_room_end", "name")

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self._fd = fd
        self._end = self._room_end = os.fstat(fd).st_size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append all of it."""
        view = memoryview(data)
        while view:
            size = os.pwrite(self._fd, view, self._end)
            self._end += size
            view = view[size:]

    def reserve(self, size: int, more: int) -> None:
        """Have room for so many octets; where there is not enough, for `more` behind them too."""
        if self._end + size <= self._room_end or more <= 0:
            return
        try:
            os.posix_fallocate(self._fd, self._end, size + more)
        except OSError:
            # It is only quicker with it: whatever is wrong, writing will say so.
            return
        self._room_end = self._end + size + more

    def give_room_back(self) -> None:
        """Nothing more is written: the file ends where it ends."""
        if self._room_end > self._end:
            os.ftruncate(self._fd, self._end)
            self._room_end = self._end

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` octets from `offset`."""
        return os.pread(self._fd, size, offset)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._end = self._room_end = size

    def is_removed(self) -> bool:
        """Whether no name leads to it any more."""
        return os.fstat(self._fd).st_nlink == 0

    def close(self) -> None:
        with suppress(OSError):
            self.give_room_back()
        os.close(self._fd)


class Disk:
    """One folder."""

    __slots__ = ("_locks", "folder")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks: list[int] = []

    def lock(self) -> bool:
        """Keep others out; False if another process is in."""
        make_folder(self.folder.absolute(), FOLDER_MODE)
        try:
            self._locks.append(lock_folder(self.folder, fcntl.LOCK_EX))
            self._locks.append(os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, FILE_MODE))
            fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.unlock()
            return False
        keep_from_others(self.folder)
        return True

    def unlock(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []

    def create(self, name: str) -> File:
        """Make a file that is not there yet."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        return File(name, os.open(self.folder / name, flags, FILE_MODE))

    def open(self, name: str) -> File:
        return File(name, os.open(self.folder / name, os.O_RDWR | os.O_CLOEXEC))

    def remove(self, name: str) -> None:
        os.unlink(self.folder / name)

    def rename(self, name: str, new_name: str) -> None:
        os.rename(self.folder / name, self.folder / new_name)

    def sync_folder(self) -> None:
        """Make creations and removals durable."""
        sync_folder(self.folder)

    def free_bytes(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize


def lock_folder(folder: Path, kind: int) -> int:
    """Lock the folder itself: the file `lock` may be removed. BlockingIOError if another process is in."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    except OSError:
        # Not every network file system can lock a folder; there the file alone has to do.
        pass
    return fd


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder of this mode, and those above it, so that they are there after a power cut too."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
