"""Backups of a journal that grows meanwhile."""

from pathlib import Path

import pytest

from leveret.store import backup as module
from leveret.store.backup import backup
from leveret.store.definitions import DefinitionsFile
from leveret.store.disk import Disk
from leveret.store.inspection import Inspection
from leveret.store.journal import BatchToWrite, Journal
from leveret.store.layout import SETTLE
from leveret.store.records import write_numbers


def taken(journal: Journal) -> BatchToWrite:
    write_numbers(journal.out, SETTLE, 0, 1, 1, 1)
    return journal.take()


def write(journal: Journal, batch: BatchToWrite) -> None:
    batch.write()
    batch.sync()
    journal.committed(batch)


def test_batch_in_a_copy_has_all_before_it_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.9: the newest segment is copied first, and may grow while the others are."""
    disk = Disk(tmp_path / "data")
    assert disk.lock()
    DefinitionsFile(tmp_path / "data").close()
    journal = Journal(disk, segment_size=200)
    journal.begin(1, 1)
    for _ in range(3):
        write(journal, taken(journal))
    assert sorted(journal.segments) == [1, 2]
    copy = module._copy

    def copy_slowly(source: int, target: Path) -> int:
        size = copy(source, target)
        if journal.synced == 3:
            write(journal, taken(journal))
        return size

    monkeypatch.setattr(module, "_copy", copy_slowly)
    assert backup(tmp_path / "data", tmp_path / "copy").running
    assert journal.synced == 4
    found = Inspection(tmp_path / "copy")
    found.check_journal()
    assert found.faults == []
    assert found.batch_count == 3
    for number in (1, 2):
        journal.segments[number].file.close()
    disk.unlock()
    assert not (tmp_path / "copy" / "lock").exists()
