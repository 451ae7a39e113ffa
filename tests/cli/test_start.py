"""A broker that cannot start says why, in one line: of its folder, of a file in it, of the disk."""

import os
import shutil
from pathlib import Path

import pytest
from tests.cli.test_main import leveret
from tests.cli.test_store import store
from tests.crash.test_faults import Filesystem
from tests.server.support import Process

from leveret.store.rows import FILE_NAME

SMALL = {"LEVERET_PORT": "0", "LEVERET_SEGMENT_SIZE": "65536", "LEVERET_DISK_FREE_LIMIT": "0"}


def refused(folder: Path) -> str:
    """The one line that is said of a folder."""
    done = leveret("--data-dir", str(folder), **SMALL)
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    start = f"leveret: cannot use the data folder {folder}: "
    assert lines[0].startswith(start)
    return lines[0].removeprefix(start)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's folder; the broker has stopped."""
    with Process(tmp_path):
        pass
    return tmp_path / "data"


def test_file_where_the_folder_should_be(tmp_path: Path) -> None:
    """SPEC §8.7: it is named, also where it is in the way of one above."""
    file = tmp_path / "file"
    file.write_text("")
    assert refused(file) == f"{file} is a file, not a folder"
    assert refused(file / "below" / "data") == f"{file} is a file, not a folder"


@pytest.mark.parametrize("kind", [FILE_NAME, "journal-", "spill-", "lock"])
def test_folder_where_a_file_should_be(data: Path, kind: str) -> None:
    """SPEC §8.7: for each file there is; and the commands that look into the folder say it too."""
    (name,) = [name for name in os.listdir(data) if name.startswith(kind)]
    (data / name).unlink()
    (data / name).mkdir()
    assert refused(data) == f"{data / name} is a folder, not a file"
    for command in ("check", "stat", "repair", "backup"):
        done = store(command, data, *([data.with_name("copy")] if command == "backup" else []))
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == (done.returncode != 0)


@pytest.mark.parametrize("size_kib", [4, 8, 16, 32, 48, 64])
def test_disk_that_is_full_from_the_beginning(tmp_path: Path, size_kib: int) -> None:
    """SPEC §8.7: at whichever step it is full."""
    with Filesystem(tmp_path / "filesystem", f"size={size_kib}k"):
        assert refused(tmp_path / "filesystem" / "data") == "no space left on device"


def test_disk_that_is_full_at_a_later_start(data: Path, tmp_path: Path) -> None:
    """SPEC §8.7: what is there stays, and when there is space again it starts."""
    with Filesystem(tmp_path / "filesystem", "size=4m") as small:
        folder = small.folder / "data"
        shutil.copytree(data, folder)
        filler = small.fill()
        assert refused(folder) == "no space left on device"
        filler.unlink()
        with Process(tmp_path, "--data-dir", str(folder)) as broker, broker.login():
            pass
