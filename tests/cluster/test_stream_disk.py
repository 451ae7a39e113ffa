"""A stream as a disk: where files are in it, what is cut, removed and kept aside, and what another reader finds."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cluster.support import new_name

from leveret.cluster import stream_disk
from leveret.cluster.engine import Engine
from leveret.cluster.nats import Client
from leveret.cluster.stream import Deposed, Stream
from leveret.cluster.stream_disk import APPEND_MAX, StreamDisk

Again = Callable[[], StreamDisk]


@pytest.fixture
def again(engine: Engine, tmp_path: Path) -> Iterator[Again]:
    """Makes another disk on the same stream, which has read all of it."""
    name = new_name()
    streams: list[Stream] = []

    def open_again() -> StreamDisk:
        stream = Stream(engine.address, name, lag_s=0.3)
        streams.append(stream)
        if len(streams) == 1:
            stream.create()
        disk = StreamDisk(stream, tmp_path / "aside" / str(len(streams)))
        disk.replay()
        return disk

    yield open_again
    for stream in streams:
        stream.close()


@pytest.fixture
def disk(again: Again) -> StreamDisk:
    disk = again()
    assert disk.stream.begin_epoch("n1")
    return disk


def contents(disk: StreamDisk) -> dict[str, bytes]:
    return {name: disk.open(name).read(0, 1 << 30) for name in disk.names()}


def sequences(client: Client, disk: StreamDisk) -> tuple[int, int]:
    """The first and the last that there are."""
    state = client.ask_jetstream(f"STREAM.INFO.{disk.stream.name}").state
    assert state is not None
    return state.first_seq, state.last_seq


def test_another_reader_finds_the_files_as_they_were_written(disk: StreamDisk, again: Again) -> None:
    """SPEC §11.2: files, their sizes and their octets; by parts, over the bounds of what was appended."""
    first, second = disk.create("a"), disk.create("b")
    for number in range(50):
        first.write(b"%03d," % number)
    second.write(b"other")
    for found in (disk, again()):
        file = found.open("a")
        assert file.size() == 200
        assert file.read(3, 5) == b",001,"
        assert file.read(190, 100) == b"7,048,049,"
        assert file.read(200, 1) == b""
        assert contents(found) == {"a": b"".join(b"%03d," % number for number in range(50)), "b": b"other"}


@pytest.mark.parametrize("size", [0, 1, APPEND_MAX - 1, APPEND_MAX, APPEND_MAX + 1, 3 * APPEND_MAX + 17])
def test_long_writes_are_appends_of_a_mebibyte(disk: StreamDisk, again: Again, size: int) -> None:
    """SPEC §11.2: what is too long for one is several, of which none is longer."""
    octets = bytes(range(251)) * (size // 251 + 1)
    before = disk.stream.last_seq
    disk.create("a").write(memoryview(octets)[:size])
    assert disk.stream.last_seq - before == (size + APPEND_MAX - 1) // APPEND_MAX
    assert contents(again()) == ({"a": octets[:size]} if size else {})


def test_torn_write_leaves_its_first_appends(disk: StreamDisk, again: Again, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §11.3: a leader that ends between two appends of a batch leaves a torn end, as a file would have."""
    monkeypatch.setattr(stream_disk, "APPEND_MAX", 100)
    file = disk.create("a")
    file.write(b"x" * 100)
    other = again()
    append = disk.stream.append

    def append_once(headers: dict[str, str], octets: bytes | memoryview) -> int:
        seq = append(headers, octets)
        other.replay()
        assert other.stream.begin_epoch("n2")
        return seq

    monkeypatch.setattr(disk.stream, "append", append_once)
    with pytest.raises(Deposed):
        file.write(b"y" * 250)
    assert contents(again()) == {"a": b"x" * 100 + b"y" * 100}


def test_what_is_cut_is_gone_for_others_too(disk: StreamDisk, again: Again) -> None:
    """SPEC §11.2: in the middle of what was appended at once, at its bounds, and all of it."""
    file = disk.create("a")
    for _ in range(3):
        file.write(b"0123456789")
    expected = b"0123456789" * 3
    for size, then in ((25, b"ab"), (20, b"cd"), (10, b""), (3, b"ef"), (0, b"gh")):
        file.truncate(size)
        file.write(then)
        expected = expected[:size] + then
        assert contents(again()) == contents(disk) == {"a": expected}


def test_oldest_file_goes_by_a_purge(disk: StreamDisk, again: Again, client: Client) -> None:
    """SPEC §11.2: what is consumed is gone from all nodes: nothing before the first message of the other files stays."""
    files = [disk.create(name) for name in "abc"]
    for file in files:
        for _ in range(3):
            file.write(b"x")
    disk.remove("a")
    assert sequences(client, disk) == (5, 10)
    assert contents(again()) == {"b": b"xxx", "c": b"xxx"}
    disk.remove("b")
    assert sequences(client, disk) == (8, 10)
    assert contents(again()) == {"c": b"xxx"}


def test_file_that_is_not_the_oldest_goes_with_those_before_it(disk: StreamDisk, again: Again, client: Client) -> None:
    """SPEC §11.2: it is said to be gone at once."""
    for name in "abc":
        disk.create(name).write(name.encode())
    disk.remove("b")
    assert contents(again()) == {"a": b"a", "c": b"c"}
    assert sequences(client, disk)[0] == 2
    disk.remove("a")
    assert sequences(client, disk)[0] == 4
    assert contents(again()) == {"c": b"c"}


def test_last_file_goes_and_the_epoch_is_still_known(disk: StreamDisk, again: Again, client: Client) -> None:
    """SPEC §11.3: a stream is never empty once it has had a leader."""
    disk.create("a").write(b"a")
    disk.remove("a")
    assert sequences(client, disk) == (3, 3)
    found = again()
    assert (contents(found), found.stream.epoch) == ({}, 1)
    with pytest.raises(FileNotFoundError):
        disk.remove("a")


def test_file_that_was_never_written_is_nobody_elses(disk: StreamDisk, again: Again, client: Client) -> None:
    """SPEC §8.1: as one that was never synced."""
    disk.create("a")
    assert disk.names() == ["a"]
    assert again().names() == []
    disk.remove("a")
    assert sequences(client, disk) == (1, 1)


def test_file_that_was_cut_to_nothing_can_be_removed(disk: StreamDisk, again: Again) -> None:
    """SPEC §11.2: also where another one found it so."""
    file = disk.create("a")
    file.write(b"x")
    file.truncate(0)
    other = again()
    assert contents(other) == {"a": b""}
    assert other.stream.begin_epoch("n2")
    other.remove("a")
    assert contents(again()) == {}


def test_same_name_may_be_made_again(disk: StreamDisk, again: Again) -> None:
    """SPEC §8.1: and has nothing of the one before."""
    old = disk.create("a")
    old.write(b"old")
    disk.remove("a")
    assert old.is_removed()
    new = disk.create("a")
    new.write(b"n")
    assert not new.is_removed()
    assert contents(again()) == {"a": b"n"}


def test_renamed_file_is_on_the_nodes_own_disk_and_can_be_read_on(disk: StreamDisk, again: Again) -> None:
    """SPEC §8.1: a damaged file is kept for whoever wants to look at it, on the node that found it."""
    file = disk.create("a")
    file.write(b"damaged")
    disk.create("b").write(b"b")
    disk.rename("a", "damaged-a")
    assert (disk.folder / "damaged-a").read_bytes() == b"damaged"
    assert (disk.folder / "damaged-a").stat().st_mode & 0o777 == 0o600
    assert disk.folder.stat().st_mode & 0o777 == 0o700
    assert file.read(2, 3) == b"mag"
    assert disk.names() == again().names() == ["b"]
    disk.create("a")
    with pytest.raises(FileExistsError):
        disk.rename("a", "damaged-a")


def test_hole_in_a_file_is_zeros_and_the_rest_is_there(engine: Engine, client: Client, tmp_path: Path) -> None:
    """SPEC §11.3: what was in a message that no replica has is found damaged, as on a disk that has lost it."""
    stream = Stream(engine.address, new_name(), lag_s=0.1)
    client.ask_jetstream(
        f"STREAM.CREATE.{stream.name}", name=stream.name, subjects=[stream.subject], storage="memory", allow_direct=True
    )
    disk = StreamDisk(stream, tmp_path)
    for name, octets in ("f", b"aa"), ("f", b"bb"), ("f", b"cc"), ("g", b"dd"), ("g", b"ee"):
        (disk.open(name) if name in disk.names() else disk.create(name)).write(octets)
    for seq in (2, 4):
        client.ask_jetstream(f"STREAM.MSG.DELETE.{stream.name}", seq=seq, no_erase=True)
    stream.close()
    stream = Stream(engine.address, stream.name, lag_s=0.1)
    disk = StreamDisk(stream, tmp_path)
    disk.replay()
    file = disk.open("f")
    assert file.size() == 6
    assert file.read(0, 100) == b"aa\0\0cc"
    assert [file.read(at, 2) for at in range(5)] == [b"aa", b"a\0", b"\0\0", b"\0c", b"cc"]
    assert contents(disk)["g"] == b"\0\0ee"
    disk.rename("f", "damaged-f")
    assert (tmp_path / "damaged-f").read_bytes() == b"aa\0\0cc"
    stream.close()


def test_sequences_are_in_order_where_files_are(disk: StreamDisk) -> None:
    """SPEC §11.2: a file is a run of sequences."""
    file = disk.create("a")
    for _ in range(20):
        file.write(b"x")
    seqs = list(disk._runs["a"].seqs)
    assert all(later == earlier + 1 for earlier, later in pairwise(seqs))


def test_free_space_is_that_of_the_nodes_disk(disk: StreamDisk) -> None:
    """SPEC §8.7: though nothing was kept aside yet."""
    assert disk.free_bytes() > 0
    assert disk.lock()
    disk.unlock()
