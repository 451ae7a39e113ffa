"""The disk that forgets: what is synced stays, and what is not may go."""

from random import Random

from tests.crash.platter import SECTOR, Content, Folder, Platter


def test_synced_content_stays() -> None:
    file = Content()
    file.write(0, b"kept")
    file.sync()
    file.write(2, b"lost")
    assert file.live == b"kelost"
    assert file.after_cut(Random(0), 0.0).live == b"kept"
    assert file.after_cut(Random(0), 1.0).live == b"kelost"


def test_each_sector_survives_or_not() -> None:
    file = Content()
    file.write(0, b"a" * 4 * SECTOR)
    file.sync()
    file.write(0, b"b" * 4 * SECTOR)
    found = {bytes(file.after_cut(Random(seed), 0.5).live[::SECTOR]) for seed in range(200)}
    assert len(found) == 16
    assert file.after_cut(Random(7), 0.5).live == file.after_cut(Random(7), 0.5).live


def test_size_may_come_without_content() -> None:
    file = Content()
    file.write(0, b"x" * SECTOR)
    found = {bytes(file.after_cut(Random(seed), 0.5).live[:1]) for seed in range(50)}
    assert found == {b"", b"\0", b"x"}


def test_truncation_is_kept_only_if_synced() -> None:
    file = Content(b"all of it")
    file.truncate(3)
    assert file.after_cut(Random(0), 0.0).live == b"all of it"
    file.truncate(6)
    file.sync()
    assert file.after_cut(Random(0), 0.0).live == b"all\0\0\0"


def test_names_stay_when_their_folder_is_synced() -> None:
    disk = Platter()
    disk.add("/data", Folder())
    disk.add("/data/one", Content())
    disk.file("/data/one").write(0, b"1")
    disk.file("/data/one").sync()
    assert disk.after_cut(0, 0.0).root.live == {}
    disk.root.sync()
    assert disk.after_cut(0, 0.0).folder("/data").live == {}
    disk.folder("/data").sync()
    assert disk.after_cut(0, 0.0).file("/data/one").live == b"1"
    disk.remove("/data/one")
    assert disk.after_cut(0, 0.0).file("/data/one").live == b"1"
    assert disk.after_cut(0, 1.0).folder("/data").live == {}


def test_rename_is_one_step() -> None:
    disk = Platter()
    disk.add("/old", Content(b"old"))
    disk.add("/new", Content(b"new"))
    disk.root.sync()
    disk.rename("/old", "/new")
    found = set()
    for seed in range(50):
        left = disk.after_cut(seed, 0.5)
        found.add(tuple((name, bytes(left.file(name).live)) for name in sorted(left.root.live)))
    assert found == {(("new", b"new"), ("old", b"old")), (("new", b"old"),)}
