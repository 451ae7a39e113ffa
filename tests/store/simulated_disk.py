"""A disk that remembers what was promised: it has the methods of Disk and File, and shows what a power cut may leave.

(1) Octets are safe once their file is synced, a file's name once the folder is.
(2) Of what is not safe, a power cut leaves any sectors of 512 octets, zeros for the others, up to any length; and any of
    the names that were made, removed or changed.
(3) After `cut`, nothing works until the power is back: `after` gives the disk as it may be found then.
(4) What a failed sync was to make safe never is: as Linux does it, reads still show it and later syncs of the file
    succeed, but it is not on the disk. Only what is written anew, elsewhere or after a truncation, can be safe.
(5) A file that was closed can be neither read, written nor synced, as its descriptor may be another's by then.
(6) The end of the process alone makes nothing safe: `best` shows all of it, and a power cut later may still take it.
"""

import errno
import random
from dataclasses import dataclass, field

SECTOR = 512


class PowerCut(OSError):
    """There is no power any more."""


@dataclass
class Content:
    """The octets of one file: as they are, and as they are safe. `lost` are the parts that a failed sync has given up.

    `changed` is the part that was written since the last sync.
    """

    now: bytearray = field(default_factory=bytearray)
    safe: bytes = b""
    lost: list[tuple[int, int]] = field(default_factory=list)
    changed: tuple[int, int] | None = None

    def write(self, offset: int, data: bytes) -> None:
        self.now[offset : offset + len(data)] = data
        first, last = self.changed or (offset, offset)
        self.changed = min(first, offset), max(last, offset + len(data))

    def sync(self) -> None:
        """Make safe what can be."""
        self.changed = None
        safe = bytearray(self.now)
        for start, end in self.lost:
            safe[start:end] = bytes(end - start)
        self.safe = bytes(safe)

    def fail_sync(self) -> None:
        """Give up what is not safe yet."""
        if self.changed is not None:
            self.lost.append(self.changed)
        self.changed = None

    def truncate(self, size: int) -> None:
        del self.now[size:]
        self.lost = [(start, min(end, size)) for start, end in self.lost if start < size]
        if self.changed is not None:
            start, end = self.changed
            self.changed = (start, min(end, size)) if start < size else None

    def copy(self) -> "Content":
        return Content(bytearray(self.now), self.safe, list(self.lost), self.changed)

    def after(self, choice: random.Random) -> bytes:
        """What may be left of it."""
        if self.now == self.safe:
            return self.safe
        way = choice.randrange(5)
        if way == 0:
            return self.safe
        if way == 1:
            return bytes(self.now)
        return self._mixed(choice)

    def _mixed(self, choice: random.Random) -> bytes:
        length = choice.randint(min(len(self.safe), len(self.now)), max(len(self.safe), len(self.now)))
        left = bytearray(length)
        for at in range(0, length, SECTOR):
            source = self.now if choice.random() < 0.5 else self.safe
            piece = source[at : min(at + SECTOR, length)]
            left[at : at + len(piece)] = piece
        return bytes(left)


class SimulatedFile:
    """An open file of a simulated disk."""

    def __init__(self, disk: "SimulatedDisk", name: str, content: Content) -> None:
        self.name = name
        self._disk = disk
        self._content = content
        self._end = len(content.now)
        self._closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._check_open()
        cut = self._disk.step("write")
        self._content.write(self._end, bytes(data))
        self._end += len(data)
        if cut:
            # The power went while it was written.
            raise PowerCut

    def reserve(self, size: int, more: int) -> None:
        self._check_open()
        if self._disk.makes_room and self._end + size > len(self._content.now) and more > 0:
            room = self._end + size + more - len(self._content.now)
            self._content.write(len(self._content.now), bytes(room))

    def give_room_back(self) -> None:
        if len(self._content.now) > self._end:
            self.truncate(self._end)

    def read(self, offset: int, size: int) -> bytes:
        self._check_open()
        for start, end in self._disk.unreadable.get(self.name, []):
            if offset < end and start < offset + size:
                raise OSError(errno.EIO, "Input/output error")
        return bytes(self._content.now[offset : offset + size])

    def size(self) -> int:
        self._check_open()
        return len(self._content.now)

    def sync(self) -> None:
        self._check_open()
        try:
            cut = self._disk.step("sync")
        except PowerCut:
            raise
        except OSError:
            self._content.fail_sync()
            raise
        if cut:
            raise PowerCut
        self._content.sync()

    def truncate(self, size: int) -> None:
        self._check_open()
        if self._disk.step("truncate"):
            raise PowerCut
        self._content.truncate(size)
        self._end = size

    def is_removed(self) -> bool:
        return self._disk.files.get(self.name) is not self._content

    def close(self) -> None:
        self._check_open()
        if not self._disk.cut:
            self.give_room_back()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "Bad file descriptor", self.name)


class Power:
    """What a disk runs on. `faults` are errors to raise by the name of what is asked for: write, sync, create, remove…"""

    def __init__(self) -> None:
        self.faults: dict[str, OSError] = {}
        self.cut = False
        self.steps_left: int | None = None

    def step(self, what: str) -> bool:
        """Count one thing that is done; True if the power goes with it."""
        if self.cut:
            raise PowerCut
        if what in self.faults:
            raise self.faults[what]
        if self.steps_left is not None:
            self.steps_left -= 1
            self.cut = self.steps_left < 0
        return self.cut


class SimulatedDisk(Power):
    """One folder. `unreadable` are parts of files, from here to there.

    One that `makes_room` has it behind files where it is asked for.
    """

    def __init__(self, makes_room: bool = False) -> None:
        super().__init__()
        self.makes_room = makes_room
        self.files: dict[str, Content] = {}
        self._safe: dict[str, Content] = {}
        self.unreadable: dict[str, list[tuple[int, int]]] = {}

    # As Disk

    def lock(self) -> bool:
        return True

    def unlock(self) -> None:
        pass

    def names(self) -> list[str]:
        return sorted(self.files)

    def create(self, name: str) -> SimulatedFile:
        if name in self.files:
            raise FileExistsError(name)
        cut = self.step("create")
        self.files[name] = Content()
        if cut:
            raise PowerCut
        return self.open(name)

    def open(self, name: str) -> SimulatedFile:
        if name not in self.files:
            raise FileNotFoundError(name)
        return SimulatedFile(self, name, self.files[name])

    def remove(self, name: str) -> None:
        cut = self.step("remove")
        if name not in self.files:
            raise FileNotFoundError(name)
        del self.files[name]
        if cut:
            raise PowerCut

    def rename(self, name: str, new_name: str) -> None:
        cut = self.step("rename")
        self.files[new_name] = self.files.pop(name)
        if cut:
            raise PowerCut

    def sync_folder(self) -> None:
        if self.step("sync_folder"):
            raise PowerCut
        self._safe = dict(self.files)

    def free_bytes(self) -> int:
        return 1 << 40

    def damage(self, name: str, at: int) -> None:
        """Change an octet of a file."""
        self.files[name].now[at] ^= 1

    # The power cut

    def after(self, choice: random.Random) -> "SimulatedDisk":
        """The disk as it may be when the power is back."""
        found = SimulatedDisk(self.makes_room)
        for name in sorted(self.files.keys() | self._safe.keys()):
            versions = [folder.get(name) for folder in (self.files, self._safe)]
            content = choice.choice(versions)
            if content is not None:
                left = content.after(choice)
                found.files[name] = Content(bytearray(left), left)
        found._safe = dict(found.files)
        return found

    def worst(self) -> "SimulatedDisk":
        """Nothing that was not safe is left."""
        found = SimulatedDisk(self.makes_room)
        found.files = {name: Content(bytearray(content.safe), content.safe) for name, content in self._safe.items()}
        found._safe = dict(found.files)
        return found

    def best(self) -> "SimulatedDisk":
        """Everything is left, as after the end of the process alone; what was not safe still is not."""
        copies = {id(content): content.copy() for content in [*self.files.values(), *self._safe.values()]}
        found = SimulatedDisk(self.makes_room)
        found.files = {name: copies[id(content)] for name, content in self.files.items()}
        found._safe = {name: copies[id(content)] for name, content in self._safe.items()}
        return found
