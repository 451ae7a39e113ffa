"""What routes to many queues have counted, told in pieces."""

from leveret.broker.counters import BREAKDOWN_MAX, Counters
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.protocol.route_counts import RouteCounts


def queues(work: Work, count: int) -> list[Queue]:
    return [Queue(f"q{number}", f"q{number}", work, {}) for number in range(count)]


def test_budget_is_kept_to() -> None:
    work, counters = Work(), Counters()
    many = queues(work, 100)
    tell = RouteCounts(counters, many, 3)
    work.add(tell)
    work.budget.left = 10
    assert not work.drain()
    assert sum(1 for queue in many if queue.counters.breakdown) == 40
    work.budget.left = 1000
    assert work.drain()
    assert all(queue.counters.breakdown_for(counters).publish == 3 for queue in many)


def test_the_same_queues_are_told_together() -> None:
    work, counters = Work(), Counters()
    some = queues(work, 3)
    tell = RouteCounts(counters, some, 1)
    assert tell.same(counters, list(some))
    assert not tell.same(counters, some[:2])
    assert not tell.same(Counters(), some)


def test_parts_are_bounded() -> None:
    counters = Counters()
    others = [Counters() for _ in range(BREAKDOWN_MAX + 1)]
    for other in others:
        counters.breakdown_for(other).publish += 1
    assert counters.breakdown is not None
    assert len(counters.breakdown) == BREAKDOWN_MAX
    assert others[0] not in counters.breakdown
    assert counters.breakdown_for(others[1]).publish == 1
