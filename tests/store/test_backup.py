"""Backups of a journal that grows meanwhile."""

import os
import random
from itertools import count
from pathlib import Path

import pytest
from tests.store.paging_model import QUEUES, Life, declare, differences, everything
from tests.store.support import RealDisk, Rig

from leveret.broker.pages import Sizes
from leveret.store import backup as module
from leveret.store.backup import backup
from leveret.store.disk import Disk
from leveret.store.inspection import Inspection
from leveret.store.journal import BatchToWrite, Journal
from leveret.store.layout import SETTLE
from leveret.store.records import write_numbers
from leveret.store.rows import DefinitionsFile

SEEDS = int(os.environ.get("SOAK_SEEDS", "4"))


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


@pytest.mark.parametrize("seed", range(SEEDS))
def test_copy_of_a_broker_at_work_is_one_moment(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.9: between the copies of any two files it goes on, and compacts; the copy is the state of one batch."""
    choice = random.Random(seed)
    disk = RealDisk(tmp_path / "data")
    assert disk.lock()
    options = {"segment_size": 1 << 12, "sizes": Sizes(8, 1 << 16, 4, 2048), "apart": True}
    rig = Rig(disk, **options)  # type: ignore[arg-type]
    rig.vhost.declare_exchange("fan", "fanout", durable=True)
    for name in QUEUES:
        declare(rig, name)
    rig.settle_down()
    life = Life(rig, choice, count())
    first = set(life.model)
    life.live(choice.randint(50, 300))
    copy, copy_definitions = module._copy, module._copy_live_definitions

    def copy_slowly(source: int, target: Path) -> int:
        life.live(choice.choice([0, 5, 25]))
        return copy(source, target)

    def copy_definitions_late(folder: Path, target: Path) -> None:
        life.live(choice.choice([0, 5, 25]))
        copy_definitions(folder, target)

    monkeypatch.setattr(module, "_copy", copy_slowly)
    monkeypatch.setattr(module, "_copy_live_definitions", copy_definitions_late)
    since = rig.store.synced
    assert backup(tmp_path / "data", tmp_path / "copy").running
    assert rig.failures == []
    found = Rig(RealDisk(tmp_path / "copy"), **options)  # type: ignore[arg-type]
    assert found.opened.damage == []
    stored = {queue_id: everything(found, queue) for queue_id, queue in found.store.queues.items()}
    states = [state for number, state in life.states.items() if number >= since]
    wrong = [differences(stored, state, found) for state in states]
    assert not all(wrong), min(wrong, key=lambda lines: len(str(lines)))
    # What is defined is copied last: nothing is missing but what was deleted meanwhile.
    assert first & life.model.keys() <= stored.keys()
    for opened in (rig.opened, found.opened):
        opened.close()
