"""The seam: a real folder, a stream, and the simulated folder, which must do the same."""

import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.simulated_disk import PowerCut, SimulatedDisk
from tests.store.stream_power import Streams

from leveret.cluster.stream_disk import StreamDisk
from leveret.store import disk as seam
from leveret.store.disk import Disk


@pytest.fixture(params=["real", "simulated", "stream"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk | SimulatedDisk]:
    if request.param == "simulated":
        yield SimulatedDisk()
        return
    if request.param == "stream":
        streams = Streams(request.getfixturevalue("nats").address, tmp_path)
        yield StreamDisk(streams.make(), tmp_path)
        streams.close()
        return
    disk = Disk(tmp_path / "data")
    assert disk.lock()
    (tmp_path / "data" / "lock").unlink()
    yield disk


def test_file_grows_at_its_end(disk: Disk | SimulatedDisk) -> None:
    """SPEC §8.1: octets never change once they are written."""
    file = disk.create("f")
    file.write(b"one")
    file.write(bytearray(b"two"))
    file.write(memoryview(b"three"))
    file.sync()
    assert file.size() == 11
    assert file.read(3, 3) == b"two"
    assert file.read(9, 100) == b"ee"
    assert file.read(100, 1) == b""
    file.truncate(4)
    file.write(b"!")
    assert file.read(0, 100) == b"onet!"
    file.close()
    assert disk.open("f").read(0, 100) == b"onet!"


def test_room_behind_the_end_is_written_to_and_given_back(tmp_path: Path) -> None:
    """SPEC §8.1: room is zeros behind what was written; what is written goes to the end of that, and the rest goes."""
    real = Disk(tmp_path / "data")
    assert real.lock()
    for disk in (real, SimulatedDisk(makes_room=True)):
        file = disk.create("f")
        file.write(b"one")
        file.reserve(3, 100)
        assert file.size() == 106
        file.write(b"two")
        # There is enough.
        file.reserve(100, 1000)
        assert file.size() == 106
        assert file.read(0, 200) == b"onetwo" + bytes(100)
        file.reserve(101, 0)
        assert file.size() == 106
        file.reserve(101, 9)
        assert file.size() == 116
        file.give_room_back()
        assert file.read(0, 200) == b"onetwo"
        file.write(b"!")
        file.reserve(1, 9)
        file.close()
        assert disk.open("f").read(0, 200) == b"onetwo!"


def test_file_without_room_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.1: where no room can be had, each write makes its own."""

    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    disk = Disk(tmp_path / "data")
    assert disk.lock()
    file = disk.create("f")
    file.reserve(3, 100)
    file.write(b"one")
    assert file.size() == 3
    file.close()


def test_files_are_made_once_and_removed(disk: Disk | SimulatedDisk) -> None:
    """SPEC §8.1: a file that is there is never taken for a new one."""
    for name in ("b", "a"):
        disk.create(name).close()
    assert disk.names() == ["a", "b"]
    with pytest.raises(FileExistsError):
        disk.create("a")
    disk.remove("b")
    disk.sync_folder()
    assert disk.names() == ["a"]
    with pytest.raises(FileNotFoundError):
        disk.remove("b")
    with pytest.raises(FileNotFoundError):
        disk.open("b")
    assert disk.free_bytes() > 0


def test_renamed_file_has_its_old_name_no_more(disk: Disk | SimulatedDisk) -> None:
    """SPEC §8.1: a damaged file is out of the way; whoever has it open reads on."""
    file = disk.create("a")
    file.write(b"one")
    disk.rename("a", "c")
    assert "a" not in disk.names()
    assert file.read(0, 10) == b"one"


@pytest.mark.parametrize("what", ["read", "write", "sync", "size", "truncate", "close"])
def test_file_that_was_closed_is_of_no_use(disk: Disk | SimulatedDisk, what: str) -> None:
    """SPEC §8.1: a closed descriptor may be another file's; to use one is a fault, and must show as one."""
    file = disk.create("f")
    file.write(b"one")
    file.close()
    arguments = {"read": (0, 1), "write": (b"x",), "truncate": (0,)}
    with pytest.raises(OSError, match="Bad file descriptor") as raised:
        getattr(file, what)(*arguments.get(what, ()))
    assert raised.value.errno == errno.EBADF
    assert disk.open("f").read(0, 10) == b"one"


def test_large_writes_are_whole(tmp_path: Path) -> None:
    """SPEC §8.1: what the system takes in pieces is written to its end."""
    disk = Disk(tmp_path)
    file = disk.create("f")
    file.write(bytes(5 << 20))
    assert file.size() == 5 << 20


def test_folder_is_made_and_locked_for_one(tmp_path: Path) -> None:
    """SPEC §8.1: two processes never write to one folder."""
    folder = tmp_path / "deep" / "data"
    first, second = Disk(folder), Disk(folder)
    assert first.lock()
    assert folder.is_dir()
    assert not second.lock()
    first.unlock()
    assert second.lock()
    second.unlock()
    assert Disk(tmp_path / "not there").names() == []


def test_every_folder_that_is_made_is_synced_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.1: a data folder of which only the last name was synced is not there after a power cut."""
    synced: list[Path] = []
    monkeypatch.setattr(seam, "sync_folder", synced.append)
    for _ in range(2):
        seam.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """SPEC §8.1: messages are nobody else's business."""
    disk = Disk(tmp_path)
    disk.create("f")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


# The simulated disk itself


def test_power_cut_leaves_what_was_synced_and_any_of_the_rest() -> None:
    """SPEC §8.1: the simulation is worth what it leaves: safe octets always, the others in any mixture."""
    disk = SimulatedDisk()
    file = disk.create("f")
    file.write(b"S" * 700)
    file.sync()
    disk.sync_folder()
    file.write(b"U" * 2000)
    disk.create("new")
    left = [disk.after(random.Random(seed)) for seed in range(200)]
    contents = {bytes(found.files["f"].now) for found in left}
    assert all(content[:700] == b"S" * 700 and set(content[700:]) <= set(b"U\0") for content in contents)
    assert b"S" * 700 in contents
    assert b"S" * 700 + b"U" * 2000 in contents
    assert any(b"U\0" in content for content in contents)
    assert any(b"\0U" in content for content in contents)
    assert {"new" in found.files for found in left} == {True, False}
    assert disk.worst().names() == ["f"]
    assert disk.best().names() == ["f", "new"]


def test_name_that_was_removed_may_be_back_until_the_folder_is_synced() -> None:
    """SPEC §8.1: a removal is safe like a creation, not before the folder is."""
    disk = SimulatedDisk()
    disk.create("f").sync()
    disk.sync_folder()
    disk.remove("f")
    assert {"f" in disk.after(random.Random(seed)).files for seed in range(20)} == {True, False}
    disk.sync_folder()
    assert {"f" in disk.after(random.Random(seed)).files for seed in range(20)} == {False}


def test_without_power_nothing_works() -> None:
    """SPEC §8.1: the power goes at a step, and stays away."""
    disk = SimulatedDisk()
    file = disk.create("f")
    disk.steps_left = 1
    file.write(b"1")
    with pytest.raises(PowerCut):
        file.sync()
    with pytest.raises(PowerCut):
        file.write(b"2")
    assert disk.cut


def test_what_a_failed_sync_gave_up_is_never_safe() -> None:
    """SPEC §8.7: as on Linux it can be read and the next sync succeeds, but a power cut shows that it is not there."""
    disk = SimulatedDisk()
    file = disk.create("f")
    disk.sync_folder()
    file.write(b"safe")
    file.sync()
    file.write(b"lost")
    disk.faults["sync"] = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    disk.faults.clear()
    file.write(b"more")
    file.sync()
    for found in (disk, disk.best()):
        assert found.open("f").read(0, 100) == b"safelostmore"
        found.open("f").sync()
        assert bytes(found.worst().files["f"].now) == b"safe\0\0\0\0more"
    file.truncate(4)
    file.write(b"anew")
    file.sync()
    assert bytes(disk.worst().files["f"].now) == b"safeanew"


def test_end_of_the_process_makes_nothing_safe() -> None:
    """SPEC §8.1: what it had not synced is in the system's cache, and a power cut later may still take it."""
    disk = SimulatedDisk()
    file = disk.create("f")
    disk.sync_folder()
    file.write(b"one")
    after = disk.best()
    assert after.open("f").read(0, 100) == b"one"
    assert bytes(after.worst().files["f"].now) == b""
    after.open("f").sync()
    assert bytes(after.worst().files["f"].now) == b"one"


def test_lock_that_is_removed_still_keeps_others_out(tmp_path: Path) -> None:
    """SPEC §8.1: two processes never write to one folder, whatever becomes of the file `lock`."""
    first, second = Disk(tmp_path), Disk(tmp_path)
    assert first.lock()
    (tmp_path / "lock").unlink()
    assert not second.lock()
    first.unlock()
    assert second.lock()
    second.unlock()


def test_file_that_somebody_cuts_goes_on_at_its_end(tmp_path: Path) -> None:
    """SPEC §8.1: what is written behind the cut is where it would have been."""
    file = Disk(tmp_path).create("f")
    file.write(b"one")
    (tmp_path / "f").write_bytes(b"")
    file.write(b"two")
    assert file.read(0, 100) == b"\0\0\0two"


def test_file_knows_that_it_was_removed(disk: Disk | SimulatedDisk) -> None:
    file = disk.create("f")
    assert not file.is_removed()
    disk.remove("f")
    assert file.is_removed()
