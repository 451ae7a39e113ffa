"""What must not be read in the loop: what compaction copies, and what dead letters say."""

from typing import Any

import pytest
from tests.store.simulated_disk import SimulatedFile
from tests.store.support import Rig, StandIn, letter

from leveret.broker.pages import Sizes
from leveret.store.compaction import Clean

SIZES = Sizes(8, 1 << 16, 4, 1 << 12)


@pytest.fixture
def read_where(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often files are read, in the loop and in the threads that write."""
    counts = {"loop": 0, "thread": 0}
    where = ["loop"]
    read, carry_out = SimulatedFile.read, StandIn._carry_out

    def counted(file: SimulatedFile, offset: int, size: int) -> bytes:
        counts[where[0]] += 1
        return read(file, offset, size)

    def carried_out(committer: StandIn, work: Any) -> None:
        where[0] = "thread"
        try:
            carry_out(committer, work)
        finally:
            where[0] = "loop"

    monkeypatch.setattr(SimulatedFile, "read", counted)
    monkeypatch.setattr(StandIn, "_carry_out", carried_out)
    return counts


def test_compaction_reads_batches_beside_the_loop(read_where: dict[str, int]) -> None:
    """SPEC §8.8: 32 MiB are read and checked there, and nobody waits for it."""
    rig = Rig(segment_size=1 << 12)
    queue = rig.queue("q")
    for number in range(200):
        rig.publish(letter(b"%d" % number + bytes(200)))
        rig.settle_down()
    kept = rig.take("q")
    first = min(rig.store.journal.segments)
    for _ in range(198):
        entry = rig.take("q")
        queue.settle(entry)
    rig.settle_down()
    assert first not in rig.store.journal.segments
    assert read_where["thread"] > 0
    assert read_where["loop"] == 0
    queue.requeue([kept])
    assert rig.bodies("q")[0].startswith(b"0")


def test_batch_is_asked_for_one_at_a_time(read_where: dict[str, int]) -> None:
    """SPEC §8.4: while one is being read the loop has nothing to do for it."""
    rig = Rig(segment_size=1 << 12, apart=True)
    queue = rig.queue("q")
    for number in range(200):
        rig.publish(letter(b"%d" % number + bytes(200)))
        rig.settle_down()
    rig.take("q")
    for _ in range(150):
        queue.settle(rig.take("q"))
    rig.flush()
    rig.committer.run()
    rig.drain()
    assert [type(work.subject) for work in rig.spiller.kept] == [Clean]
    assert not rig.broker.work
    rig.settle_down()
    assert not rig.spiller.kept


@pytest.mark.parametrize("persistent", [True, False])
def test_dead_letters_are_read_beside_the_loop(read_where: dict[str, int], persistent: bool) -> None:
    """SPEC §4.5: thousands that expire on disk are read some at a time, and published in order."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    dead = rig.queue("dead")
    for number in range(60):
        rig.publish(letter(b"%02d" % number + bytes(500), expiration="1000", delivery_mode=2 if persistent else 1))
    rig.settle_down()
    assert queue.backlog.pages.count > 30
    rig.later(rig.now + 1000)
    rig.settle_down()
    assert (queue.ready_count, dead.ready_count) == (0, 60)
    assert not queue.dead
    assert read_where["loop"] == 0
    assert read_where["thread"] > 0
    found = []
    while dead.ready_count:
        entry = dead.take(True)
        if entry is not None:
            found.append(entry.seq)
        rig.settle_down()
    assert found == list(range(1, 61))
    rig.check([])
