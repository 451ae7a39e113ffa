"""A disk that knows what it would still have after a power cut: files and folders in memory, each twice.

  (1) `live` is what the system calls see, `safe` what the last sync of that file or folder has made durable.
  (2) A file's sync covers its content and size, and nothing of the folder that names it; a folder's sync covers its names.
  (3) `after_cut` keeps what is safe. Of the rest each sector and each change of a name survives or not, by chance; a
      rename as a whole. A file's size is one of those it had since its last sync; what was not written there is zero.

Knows nothing of FUSE.
"""

import errno
import os
from random import Random

SECTOR = 512


class Content:
    """A file: octets, and which of them a sync has made durable."""

    def __init__(self, data: bytes = b"") -> None:
        self.live = bytearray(data)
        self.safe = bytearray(data)
        self._dirty: set[int] = set()
        self._sizes: list[int] = []

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.live[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        if offset + len(data) > len(self.live):
            self.truncate(offset + len(data))
        self.live[offset : offset + len(data)] = data
        self._touch(offset, offset + len(data))

    def truncate(self, size: int) -> None:
        old = len(self.live)
        del self.live[size:]
        self.live.extend(bytes(size - len(self.live)))
        self._sizes.append(size)
        self._touch(min(old, size), max(old, size))

    def sync(self) -> None:
        size = len(self.live)
        resize(self.safe, size)
        for sector in self._dirty:
            copy_sector(self.live, self.safe, sector)
        self._dirty = set()
        self._sizes = []

    def after_cut(self, random: Random, share: float) -> "Content":
        """What is left; `share` is how likely it is for each unsynced sector to be there."""
        left = bytearray(self.safe)
        if self._sizes and random.random() < share:
            resize(left, random.choice(self._sizes))
        for sector in sorted(self._dirty):
            if random.random() < share:
                copy_sector(self.live, left, sector)
        return Content(bytes(left))

    def _touch(self, start: int, end: int) -> None:
        self._dirty.update(range(start // SECTOR, (end + SECTOR - 1) // SECTOR))


class Folder:
    """A folder: names, and those of them that a sync has made durable."""

    def __init__(self, entries: "dict[str, Content | Folder] | None" = None) -> None:
        self.live: dict[str, Content | Folder] = dict(entries or {})
        self.safe: dict[str, Content | Folder] = dict(entries or {})
        self._steps: list[dict[str, Content | Folder | None]] = []

    def change(self, step: "dict[str, Content | Folder | None]") -> None:
        """Set and remove names, as one step."""
        apply(self.live, step)
        self._steps.append(step)

    def sync(self) -> None:
        self.safe = dict(self.live)
        self._steps = []

    def after_cut(self, random: Random, share: float, done: "dict[int, Content | Folder]") -> "Folder":
        left = dict(self.safe)
        for step in self._steps:
            if random.random() < share:
                apply(left, step)
        return Folder({name: node_after_cut(node, random, share, done) for name, node in left.items()})


class Platter:
    """The whole disk, by absolute paths."""

    def __init__(self, root: Folder | None = None) -> None:
        self.root = root or Folder()

    def find(self, path: str) -> Content | Folder:
        node: Content | Folder = self.root
        for name in path.split("/"):
            if name:
                if not isinstance(node, Folder) or name not in node.live:
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                node = node.live[name]
        return node

    def folder(self, path: str) -> Folder:
        found = self.find(path)
        if not isinstance(found, Folder):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return found

    def file(self, path: str) -> Content:
        found = self.find(path)
        if not isinstance(found, Content):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return found

    def add(self, path: str, node: Content | Folder) -> None:
        parent, name = os.path.split(path)
        self.folder(parent).change({name: node})

    def remove(self, path: str) -> None:
        self.find(path)
        parent, name = os.path.split(path)
        self.folder(parent).change({name: None})

    def rename(self, old: str, new: str) -> None:
        node = self.find(old)
        (old_parent, old_name), (parent, name) = os.path.split(old), os.path.split(new)
        if old_parent != parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), new)
        self.folder(parent).change({old_name: None, name: node})

    def after_cut(self, seed: int, share: float) -> "Platter":
        """The disk as it is found after a power cut at this moment."""
        return Platter(self.root.after_cut(Random(seed), share, {}))


def node_after_cut(
    node: Content | Folder, random: Random, share: float, done: dict[int, Content | Folder]
) -> Content | Folder:
    # One file may have two names: the old one and the new one, when only half of a step could be seen.
    if id(node) not in done:
        done[id(node)] = node.after_cut(random, share) if isinstance(node, Content) else node.after_cut(random, share, done)
    return done[id(node)]


def apply(entries: dict[str, Content | Folder], step: dict[str, Content | Folder | None]) -> None:
    for name, node in step.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def resize(data: bytearray, size: int) -> None:
    del data[size:]
    data.extend(bytes(size - len(data)))


def copy_sector(source: bytearray, target: bytearray, sector: int) -> None:
    """Copy what of a sector both have room for."""
    start = sector * SECTOR
    end = min(start + SECTOR, len(source), len(target))
    if start < end:
        target[start:end] = source[start:end]
