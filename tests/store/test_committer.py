"""The committer's thread: one thing after the other, and a failure is the end."""

import threading
from collections.abc import Callable

import pytest
from tests.store.simulated_disk import SimulatedDisk
from tests.store.support import Definitions

from leveret.store.committer import Committer, Job
from leveret.store.definitions import put
from leveret.store.journal import BatchToWrite, Journal, Removal


class Loop:
    """Calls that were brought back, with the thread they came from."""

    def __init__(self) -> None:
        self.done: list[tuple[object, BaseException | None]] = []
        self.threads: set[str] = set()

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        self.threads.add(threading.current_thread().name)
        function(*arguments)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def loop() -> Loop:
    return Loop()


def batches(disk: SimulatedDisk, count: int) -> list[BatchToWrite]:
    journal = Journal(disk)  # type: ignore[arg-type]
    journal.begin(1, 1)
    found = []
    for group in range(count):
        journal.commit(group)
        found.append(journal.take())
    return found


def work(loop: Loop, name: object, subject: BatchToWrite | Removal, **options: bool) -> Job:
    return Job(subject, [], lambda error: loop.done.append((name, error)), **options)


def test_batches_are_written_and_synced_in_order(disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.2: a batch is told done when it is synced, by another thread than the loop's."""
    committer = Committer(Definitions(disk), loop.call_soon, sync=True)
    for number, batch in enumerate(batches(disk, 3)):
        committer.put(work(loop, number, batch))
    committer.stop()
    assert loop.done == [(0, None), (1, None), (2, None)]
    assert loop.threads == {"leveret-committer"}
    assert disk.worst().files["journal-00000001.log"].now == disk.files["journal-00000001.log"].now


def test_definitions_are_carried_out_before_the_batch(disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.1: a queue's row is on disk before any record names its id."""
    definitions = Definitions(disk)
    committer = Committer(definitions, loop.call_soon, sync=True)
    first, batch = batches(disk, 2)
    first.write()
    seen: list[int] = []
    batch_write = batch.segment.file.write

    class Spy:
        def write(self, data: bytearray) -> None:
            seen.append(len(definitions.rows()))
            batch_write(data)

        sync = batch.segment.file.sync
        is_removed = batch.segment.file.is_removed

    batch.segment.file = Spy()  # type: ignore[assignment]
    committer.put(Job(batch, [put("queue", "/", "q", {"id": 1})], lambda error: loop.done.append(("q", error))))
    committer.stop()
    assert seen == [1]
    assert loop.done == [("q", None)]


def test_without_sync_nothing_is_synced(disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.2: `sync = "os"` leaves it to the system."""
    committer = Committer(Definitions(disk), loop.call_soon, sync=False)
    committer.put(work(loop, 0, batches(disk, 1)[0]))
    committer.stop()
    assert loop.done == [(0, None)]
    assert disk.worst().names() == []


@pytest.mark.parametrize("what", ["write", "sync", "sync_folder"])
def test_failure_is_final(disk: SimulatedDisk, loop: Loop, what: str) -> None:
    """SPEC §8.7: after a failed write or sync nothing is written any more, and everything waiting fails."""
    first, second = batches(disk, 2)
    committer = Committer(Definitions(disk), loop.call_soon, sync=True)
    fault = OSError(5, "Input/output error")
    disk.faults[what] = fault
    committer.put(work(loop, 0, first))
    committer.stop()
    disk.faults.clear()
    size = disk.files["journal-00000001.log"].now[:]
    committer = Committer(Definitions(disk), loop.call_soon, sync=True)
    committer.failed = fault
    committer.put(work(loop, 1, second))
    committer.stop()
    assert loop.done == [(0, fault), (1, fault)]
    assert disk.files["journal-00000001.log"].now == size


def test_file_that_cannot_be_removed_is_a_failure_and_not_the_end_of_the_thread(disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.7: the thread lives on and says what has happened."""
    segment = batches(disk, 1)[0].segment
    committer = Committer(Definitions(disk), loop.call_soon, sync=True)
    fault = OSError(1, "Operation not permitted")
    disk.faults["remove"] = fault
    committer.put(work(loop, "removal", Removal(disk, segment)))  # type: ignore[arg-type]
    committer.stop()
    assert loop.done == [("removal", fault)]


def test_definitions_that_cannot_be_changed_are_a_failure(disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.7: a durable declaration that could not be stored is not confirmed."""
    fault = OSError(28, "No space left on device")
    definitions = Definitions(disk)
    (batch,) = batches(disk, 1)
    disk.faults["change"] = fault
    committer = Committer(definitions, loop.call_soon, sync=True)
    committer.put(Job(batch, [put("queue", "/", "q", {})], lambda error: loop.done.append(("q", error))))
    committer.stop()
    assert loop.done == [("q", fault)]
    assert committer.failed is fault
