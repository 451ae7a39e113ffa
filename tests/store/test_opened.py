"""Opening a data folder: fresh, again, in use, unusable, newer, and closed when the disk fails."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.support import NOW, Rig, letter

from leveret.broker.settings import Settings
from leveret.store.disk import File
from leveret.store.opened import InUse, Opened, Unusable, open_folder
from leveret.store.rows import FILE_NAME, FORMAT, DefinitionsFile, UnknownFormat, set_fact


def opened(folder: Path) -> Opened:
    return open_folder(folder, Settings(), NOW)


def leveret(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leveret", "--port", "0", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, env=dict(os.environ))


def test_folder_is_fresh_once(tmp_path: Path) -> None:
    """SPEC §8.1: what is made on first start is made once."""
    first = opened(tmp_path)
    assert first.fresh
    first.broker.add_vhost("/")
    first.close()
    second = opened(tmp_path)
    assert not second.fresh
    assert list(second.broker.vhosts) == ["/"]
    second.close()


def test_leaving_keeps_a_clean_end_clean(tmp_path: Path) -> None:
    """SPEC §8.3: a start that fails for another reason does not make the last end unclean."""
    first = opened(tmp_path)
    first.broker.add_vhost("/")
    first.close()
    opened(tmp_path).leave()
    definitions = DefinitionsFile(tmp_path)
    assert definitions.fact("clean") == "yes"
    definitions.close()
    # While it runs it counts as unclean.
    running = opened(tmp_path)
    definitions = DefinitionsFile(tmp_path)
    assert definitions.fact("clean") == "no"
    definitions.close()
    running.close()


def test_folder_in_use_is_refused(tmp_path: Path) -> None:
    """SPEC §8.1: a second process says who is in the way, and ends with 1."""
    first = opened(tmp_path)
    with pytest.raises(InUse, match="is in use by another process"):
        opened(tmp_path)
    done = leveret("--data-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"leveret: {tmp_path} is in use by another process\n"
    first.close()


def test_newer_format_is_refused(tmp_path: Path) -> None:
    """SPEC §8.9: a newer format is refused with a clear message, and the folder can be used again."""
    opened(tmp_path).close()
    definitions = DefinitionsFile(tmp_path)
    definitions.change([set_fact("format", str(FORMAT + 1))])
    definitions.close()
    with pytest.raises(UnknownFormat):
        opened(tmp_path)
    done = leveret("--data-dir", str(tmp_path))
    assert done.returncode == 1
    text = f"{tmp_path / FILE_NAME} has format {FORMAT + 1}; this version knows {FORMAT - 1} and {FORMAT}"
    assert done.stderr == f"leveret: {text}\n"


def test_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """SPEC §8.7: it is said what is wrong with the folder, not with the port."""
    folder = tmp_path / "data"
    folder.write_text("not a folder")
    with pytest.raises(Unusable, match="cannot use the data folder"):
        opened(folder)
    done = leveret("--data-dir", str(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"leveret: cannot use the data folder {folder}: ")
    assert "Traceback" not in done.stderr


def test_end_that_cannot_be_written_is_not_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.7: when the last batch cannot be synced the broker says so, and the end counts as unclean."""
    first = opened(tmp_path)
    first.broker.add_vhost("/")
    fault = OSError(5, "Input/output error")

    def fail(file: File) -> None:
        raise fault

    monkeypatch.setattr(File, "sync", fail)
    first.close()
    assert first.store.failed is fault
    monkeypatch.undo()
    definitions = DefinitionsFile(tmp_path)
    assert definitions.fact("clean") == "no"
    definitions.close()


def test_failure_that_the_loop_has_not_heard_of_counts_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.7: a batch that failed while the loop ended is not written over, and the end counts as unclean."""
    first = opened(tmp_path)
    fault = OSError(5, "Input/output error")

    def fail(file: File) -> None:
        raise fault

    # What the thread says does not reach the loop any more.
    first.start(lambda *_: None, lambda: None, lambda _: None, True)
    monkeypatch.setattr(File, "sync", fail)
    first.broker.add_vhost("/")
    first.store.flush()
    first.close()
    assert first.store.failed is fault


def test_definitions_are_closed_with_the_folder(tmp_path: Path) -> None:
    """SPEC §8.1: a closed folder can be moved, or opened by another."""
    first = opened(tmp_path)
    first.close()
    with pytest.raises(sqlite3.ProgrammingError):
        first._definitions.rows()
    opened(tmp_path).close()


def test_spill_of_an_earlier_run_is_removed() -> None:
    """SPEC §8.1: what is not durable does not survive, nor do its files."""
    rig = Rig()
    rig.settle_down()
    rig.disk.files["spill-09999999.log"] = rig.disk.files[next(iter(rig.disk.files))]
    again = rig.again()
    assert "spill-09999999.log" not in again.disk.files


def test_recovery_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: it is said how much was there, and after what end."""
    rig = Rig()
    rig.queue("q")
    rig.publish(letter(b"x"))
    rig.settle_down()
    with caplog.at_level("INFO"):
        rig.again()
        rig.restarted()
    assert "recovered 1 messages in 1 queues after an unclean end" in caplog.text
    assert "recovered 1 messages in 1 queues after a clean end" in caplog.text
