"""A stream as a disk whose power can be cut: `StreamDisk` on a stream of a real nats-server, with the steps of Power.

(1) What was acknowledged is safe, so a power cut leaves all of it, and of the one thing that was being done nothing, all, or
    of a long write the first appends.
(2) What a power cut, or the end of the process, leaves is taken from a replay of the stream by another reader, which must
    find what the writer knew. It is written to a stream of its own when a broker starts on it; until then it may be changed,
    as by damage.
(3) The spill is on a disk beside it.
"""

import errno
import random
from collections.abc import Callable
from pathlib import Path

from tests.cluster.support import new_name
from tests.store.simulated_disk import Content, Power, PowerCut, SimulatedDisk

from leveret.cluster import stream_disk
from leveret.cluster.nats import Address, Client
from leveret.cluster.stream import Stream
from leveret.cluster.stream_disk import Piece, Run, StreamDisk
from leveret.store.disk import File
from leveret.store.store import SPILL_PREFIX

# In how long pieces what was found is written again.
PIECE = 50_000


class Streams:
    """The streams that one test has, on one server, in folders below one."""

    def __init__(self, address: Address, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self._streams: list[Stream] = []
        self._made: list[str] = []

    def open(self, name: str) -> Stream:
        stream = Stream(self.address, name)
        self._streams.append(stream)
        return stream

    def make(self) -> Stream:
        stream = self.open(new_name())
        stream.create(storage="memory")
        self._made.append(stream.name)
        return stream

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        client = Client(self.address)
        for name in self._made:
            client.ask_jetstream(f"STREAM.DELETE.{name}")
        client.close()


class PowerPiece(Piece):
    """A file that counts what is done with it."""

    __slots__ = ()

    _disk: "PowerStreamDisk"

    def write(self, data: bytes | bytearray | memoryview) -> None:
        octets = bytes(data)
        self._disk.step_or_cut("write", lambda files, choice: write_some(files, self.name, octets, choice))
        super().write(octets)

    def read(self, offset: int, size: int) -> bytes:
        for start, end in self._disk.unreadable.get(self.name, []):
            if offset < end and start < offset + size:
                raise OSError(errno.EIO, "Input/output error")
        found = bytearray(super().read(offset, size))
        for name, at in self._disk.damaged:
            if name == self.name and offset <= at < offset + len(found):
                found[at - offset] ^= 1
        return bytes(found)

    def sync(self) -> None:
        self._disk.step_or_cut("sync", None)
        super().sync()

    def truncate(self, size: int) -> None:
        self._disk.step_or_cut("truncate", lambda files, choice: files[self.name].truncate(size))
        super().truncate(size)


Files = dict[str, Content]
Undone = Callable[[Files, random.Random | None], object]


def write_some(files: Files, name: str, octets: bytes, choice: random.Random | None) -> None:
    """The first appends of a write, or all of them."""
    size = len(octets)
    if choice is not None:
        size = min(size, choice.randint(1, size // stream_disk.APPEND_MAX + 1) * stream_disk.APPEND_MAX)
    files.setdefault(name, Content()).now += octets[:size]


class PowerStreamDisk(StreamDisk, Power):
    """What SimulatedDisk is for files, on a stream."""

    def __init__(self, streams: Streams, files: Files | None = None) -> None:
        Power.__init__(self)
        self._streams = streams
        self._found: Files | None = {} if files is None else files
        self._undone: Undone | None = None
        self.unreadable: dict[str, list[tuple[int, int]]] = {}
        self.damaged: list[tuple[str, int]] = []
        self._local = SimulatedDisk()
        self._local.step = self.step  # type: ignore[method-assign]
        StreamDisk.__init__(self, None, streams.folder / new_name())  # type: ignore[arg-type]

    # Power

    def step_or_cut(self, what: str, undone: Undone | None) -> None:
        """Count one thing that is done; if the power goes with it, it may be that it was."""
        if self.step(what):
            self._undone = undone
            raise PowerCut

    def damage(self, name: str, at: int) -> None:
        """Have an octet of a file read as another one."""
        self.damaged.append((name, at))

    def _begin(self) -> None:
        """Write what was found to a stream."""
        if self._found is None:
            return
        found, self._found = self._found, None
        self.stream = self._streams.make()
        for name, content in sorted(found.items()):
            if not name.startswith("damaged-"):
                file = Piece(self, name, self._runs.setdefault(name, Run()))
                for at in range(0, len(content.now), PIECE):
                    file.write(content.now[at : at + PIECE])

    @property
    def files(self) -> Files:
        """What is there. Before anything is done with it, it may be changed."""
        if self._found is not None:
            return self._found
        aside = {path.name: path.read_bytes() for path in self.folder.glob("*")} if self.folder.exists() else {}
        found = {name: bytes_of(self, name) for name in self._runs} | aside
        return {name: Content(bytearray(octets), octets) for name, octets in found.items()}

    def _replayed(self) -> Files:
        """What somebody else finds in the stream, which must be what is known here."""
        if self._found is not None:
            return {name: content.copy() for name, content in self._found.items()}
        other = StreamDisk(self._streams.open(self.stream.name), self.folder)
        other.replay()
        found = {name: bytes_of(other, name) for name in other.names()}
        assert found == {name: bytes_of(self, name) for name, run in self._runs.items() if run.first_seq}
        assert other.stream.last_seq == self.stream.last_seq
        return {name: Content(bytearray(octets), octets) for name, octets in found.items()}

    def best(self) -> "PowerStreamDisk":
        """All that was begun is done."""
        return self._after(lambda files: self._undone is not None and self._undone(files, None))

    def worst(self) -> "PowerStreamDisk":
        """Nothing that was not acknowledged is."""
        return self._after(lambda files: None)

    def after(self, choice: random.Random) -> "PowerStreamDisk":
        """One of both, or something between."""
        if choice.random() < 0.3:
            return self.worst()
        return self._after(lambda files: self._undone is not None and self._undone(files, choice))

    def _after(self, change: Callable[[Files], object]) -> "PowerStreamDisk":
        files = self._replayed()
        change(files)
        return PowerStreamDisk(self._streams, files)

    # As Disk

    def names(self) -> list[str]:
        self._begin()
        return sorted([*super().names(), *self._local.names()])

    def create(self, name: str) -> File:
        self._begin()
        if name.startswith(SPILL_PREFIX):
            return self._local.create(name)  # type: ignore[return-value]
        self.step_or_cut("create", None)
        return super().create(name)

    def open(self, name: str) -> File:
        self._begin()
        if name.startswith(SPILL_PREFIX):
            return self._local.open(name)  # type: ignore[return-value]
        return PowerPiece(self, name, self._run(name))

    def remove(self, name: str) -> None:
        self._begin()
        if name.startswith(SPILL_PREFIX):
            self._local.remove(name)
            return
        self.step_or_cut("remove", lambda files, choice: files.pop(name, None))
        super().remove(name)

    def rename(self, name: str, new_name: str) -> None:
        self.step_or_cut("rename", lambda files, choice: files.pop(name, None))
        super().rename(name, new_name)

    def sync_folder(self) -> None:
        self._begin()
        self.step_or_cut("sync_folder", None)


def bytes_of(disk: StreamDisk, name: str) -> bytes:
    file = Piece(disk, name, disk._run(name))
    return file.read(0, file.size())
