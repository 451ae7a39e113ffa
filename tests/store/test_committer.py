"""The committer's thread: one thing after the other, and a failure is the end."""

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.store.simulated_disk import SimulatedDisk
from tests.store.support import Definitions

from leveret.store import committer as committer_module
from leveret.store.committer import MEAN_OF, QUICK_S, Committer, Job
from leveret.store.journal import BatchToWrite, Journal, Removal
from leveret.store.rows import put


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

        reserve = batch.segment.file.reserve
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


class Clock:
    """In place of the processor's: each batch takes `batch_s`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.batch_s = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    write = BatchToWrite.write

    def timed(batch: BatchToWrite) -> None:
        clock.now += clock.batch_s
        write(batch)

    monkeypatch.setattr(committer_module, "time", clock)
    monkeypatch.setattr(BatchToWrite, "write", timed)
    return clock


@pytest.fixture
def idle(disk: SimulatedDisk, loop: Loop, clock: Clock) -> Iterator[Committer]:
    """A committer whose thread has nothing to do."""
    committer = Committer(Definitions(disk), loop.call_soon, sync=True)
    yield committer
    committer.stop()


def test_disk_is_quick_when_batches_have_been_lately(idle: Committer, disk: SimulatedDisk, loop: Loop, clock: Clock) -> None:
    """SPEC §8.2: not at first, and one that took long turns it off until some more were quick."""
    times = [QUICK_S / 4] * MEAN_OF + [20 * QUICK_S] + [QUICK_S / 4] * MEAN_OF
    found = []
    for number, batch in enumerate(batches(disk, len(times))):
        clock.batch_s = times[number]
        idle.carry_out_now(work(loop, number, batch))
        found.append(idle.is_quick())
    assert not any(found[:8])
    assert found[MEAN_OF - 1]
    assert not any(found[MEAN_OF : MEAN_OF + 8])
    assert found[-1]


@pytest.mark.parametrize("longer", [False, True])
def test_disk_is_quick_up_to_a_time(idle: Committer, longer: bool) -> None:
    idle.batch_s = QUICK_S * 1.01 if longer else QUICK_S
    assert idle.is_quick() is not longer


def test_definitions_say_nothing_about_the_pace_of_batches(
    idle: Committer, disk: SimulatedDisk, loop: Loop, clock: Clock
) -> None:
    idle.batch_s = QUICK_S
    clock.batch_s = 2 * QUICK_S
    (batch,) = batches(disk, 1)
    idle.carry_out_now(Job(batch, [put("queue", "/", "q", {})], lambda error: loop.done.append(("q", error))))
    assert idle.is_quick()


def test_what_is_carried_out_now_needs_no_thread(idle: Committer, disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.2: it is written, synced and told by the caller."""
    (batch,) = batches(disk, 1)
    idle.carry_out_now(work(loop, "now", batch))
    assert loop.done == [("now", None)]
    assert loop.threads == set()
    assert disk.worst().files["journal-00000001.log"].now == disk.files["journal-00000001.log"].now
    assert (idle.traffic.write_count, idle.traffic.sync_count) == (1, 1)


def test_disk_is_not_quick_while_something_is_to_be_done(disk: SimulatedDisk) -> None:
    """SPEC §8.2: batches go to the disk in order, and none past another."""
    calls: list[Callable[[], None]] = []
    committer = Committer(Definitions(disk), lambda function, *given: calls.append(lambda: function(*given)), sync=True)
    committer.batch_s = 0.0
    assert committer.is_quick()
    committer.put(Job(batches(disk, 1)[0], [], lambda error: None))
    assert not committer.is_quick()
    committer.stop()
    # The thread has done it, and the loop has not heard of it yet.
    assert not committer.is_quick()
    committer.batch_s = 0.0
    for call in calls:
        call()
    assert committer.is_quick()


def test_failure_on_the_loop_is_final_too(idle: Committer, disk: SimulatedDisk, loop: Loop) -> None:
    """SPEC §8.7: nobody writes any more."""
    first, second = batches(disk, 2)
    fault = OSError(5, "Input/output error")
    disk.faults["sync"] = fault
    idle.carry_out_now(work(loop, 0, first))
    disk.faults.clear()
    idle.put(work(loop, 1, second))
    idle.stop()
    assert loop.done == [(0, fault), (1, fault)]
