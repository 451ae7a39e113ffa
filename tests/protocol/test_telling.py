"""What routes to many queues have counted, told in pieces."""

from leveret.broker.queue import Queue
from leveret.broker.tally import PARTS_MAX, Tally
from leveret.broker.work import Work
from leveret.protocol.telling import Tell


def queues(work: Work, count: int) -> list[Queue]:
    return [Queue(f"q{number}", f"q{number}", work, {}) for number in range(count)]


def test_budget_is_kept_to() -> None:
    work, tally = Work(), Tally()
    many = queues(work, 100)
    tell = Tell(tally, many, 3)
    work.add(tell)
    work.left = 10
    assert not work.drain()
    assert sum(1 for queue in many if queue.tally.parts) == 40
    work.left = 1000
    assert work.drain()
    assert all(queue.tally.part(tally).publish == 3 for queue in many)


def test_the_same_queues_are_told_together() -> None:
    work, tally = Work(), Tally()
    some = queues(work, 3)
    tell = Tell(tally, some, 1)
    assert tell.same(tally, list(some))
    assert not tell.same(tally, some[:2])
    assert not tell.same(Tally(), some)


def test_parts_are_bounded() -> None:
    tally = Tally()
    others = [Tally() for _ in range(PARTS_MAX + 1)]
    for other in others:
        tally.part(other).publish += 1
    assert tally.parts is not None
    assert len(tally.parts) == PARTS_MAX
    assert others[0] not in tally.parts
    assert tally.part(others[1]).publish == 1
