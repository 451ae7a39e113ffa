"""Nobody but its owner may read a data folder: messages are in it, and password hashes."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.properties.dialogue import publish
from tests.server.support import Process

from leveret.store.backup import backup
from leveret.store.disk import Disk
from leveret.store.modes import keep_from_others, write_private
from leveret.store.opened import WriteAheadLog
from leveret.store.repair import repair
from leveret.store.rows import FILE_NAME
from leveret.wire import spec
from leveret.wire.properties import Properties


@pytest.fixture(autouse=True)
def _careless() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def files_modes(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in folder.iterdir()}


def test_all_that_a_broker_makes_is_its_owners(tmp_path: Path) -> None:
    """SPEC §8.1: folder, journal, spill, definitions with SQLite's other files, socket; also what is made later."""
    data = tmp_path / "data"
    settings = {"LEVERET_SEGMENT_SIZE": "65536"}
    with Process(tmp_path, environment=settings) as broker, broker.login() as client:
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        client.declare("q", durable=True)
        for _ in range(4):
            client.send(*publish(1, "q", bytes(40_000), Properties(delivery_mode=2)))
            client.expect(spec.BasicAck)
        found = files_modes(data)
        assert mode_of(data) == 0o700
        assert {f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", "control.sock", "lock"} < set(found)
        assert len([name for name in found if name.startswith("journal-")]) > 1
        assert set(found.values()) == {0o600}
        backup(data, tmp_path / "running")
    backup(data, tmp_path / "stopped")
    for copy in (tmp_path / "running", tmp_path / "stopped"):
        assert mode_of(copy) == 0o700
        assert set(files_modes(copy).values()) == {0o600}


def test_what_is_repaired_is_its_owners(tmp_path: Path) -> None:
    """SPEC §8.1: files that are made anew, and those that are kept aside."""
    with Process(tmp_path) as broker, broker.login() as client:
        client.declare("q", durable=True)
    data = tmp_path / "data"
    (data / FILE_NAME).write_bytes(b"rubbish" * 1000)
    for path in data.iterdir():
        path.chmod(0o644)
    repair(data)
    found = files_modes(data)
    assert f"damaged-1-{FILE_NAME}" in found
    assert set(found.values()) == {0o600}


def test_folder_that_others_could_read_is_closed_to_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: those of earlier versions are as the umask was."""
    tmp_path.chmod(0o755)
    for name in (FILE_NAME, "journal-00000001.log", "lock"):
        (tmp_path / name).write_bytes(b"")
    disk = Disk(tmp_path)
    assert disk.lock()
    disk.unlock()
    assert mode_of(tmp_path) == 0o700
    assert set(files_modes(tmp_path).values()) == {0o600}
    assert [record.getMessage() for record in caplog.records] == [
        f"others could read the data folder {tmp_path} (mode 0755); now only its owner may"
    ]


def test_folder_that_has_more_in_it_is_left_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: with `--data-dir /tmp` the whole machine would suffer; our files are closed all the same."""
    tmp_path.chmod(0o777)
    for name in (FILE_NAME, "somebody's"):
        (tmp_path / name).write_bytes(b"")
    keep_from_others(tmp_path)
    assert mode_of(tmp_path) == 0o777
    assert files_modes(tmp_path) == {FILE_NAME: 0o600, "somebody's": 0o666}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "(mode 0777); it is left so" in caplog.text


def test_folder_of_somebody_else_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC §8.1: a volume may belong to another user, who lets our group in."""
    tmp_path.chmod(0o770)

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    keep_from_others(tmp_path)
    assert caplog.messages == [
        f"others may read {tmp_path} (mode 0770), and that cannot be changed: Operation not permitted"
    ]


def test_write_ahead_log_that_is_put_back_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / f"{FILE_NAME}-wal"
    path.write_bytes(b"log")
    kept = WriteAheadLog(tmp_path)
    path.unlink()
    kept.put_back()
    assert (path.read_bytes(), mode_of(path)) == (b"log", 0o600)


def test_definitions_that_are_exported_are_their_owners(tmp_path: Path) -> None:
    """SPEC §9.2: they have password hashes; a file that is there keeps its mode."""
    new, old = tmp_path / "new", tmp_path / "old"
    old.touch(0o644)
    for path in (new, old):
        write_private(str(path), "{}")
        assert path.read_text() == "{}\n"
    assert (mode_of(new), mode_of(old)) == (0o600, 0o644)
