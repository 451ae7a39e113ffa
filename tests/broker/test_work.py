"""The budget and the work list."""

from __future__ import annotations

import pytest

from leveret.broker.budget import PASS_BUDGET, Budget
from leveret.broker.storage import Storage
from leveret.broker.work import Task, Work
from leveret.errors import PreconditionFailed


class Steps(Task):
    """A task of so many pieces that cost so much each; says in a list when it ran."""

    def __init__(self, name: str, said: list[str], pieces: int = 1, cost: int = 1) -> None:
        self.name = name
        self.said = said
        self.pieces = pieces
        self.cost = cost

    def run(self, budget: Budget) -> bool:
        self.said.append(self.name)
        self.pieces -= 1
        budget.left -= self.cost
        return self.pieces <= 0


class Faulty(Task):
    def run(self, budget: Budget) -> bool:
        raise RuntimeError("broken")


class Adding(Task):
    """A task that causes another."""

    def __init__(self, work: Work, other: Task) -> None:
        self.work = work
        self.other = other

    def run(self, budget: Budget) -> bool:
        self.work.add(self.other)
        return True


def test_a_pass_begins_with_a_full_budget() -> None:
    work = Work()
    work.budget.left = 0
    work.budget.begin()
    assert work.budget.left == PASS_BUDGET == 2000


def test_nothing_to_do() -> None:
    work = Work()
    assert not work
    assert work.drain()


def test_tasks_run_in_the_order_they_were_added() -> None:
    work, said = Work(), list[str]()
    for name in "abc":
        work.add(Steps(name, said))
    assert work
    assert work.drain()
    assert (said, bool(work)) == (["a", "b", "c"], False)


def test_unfinished_task_keeps_its_place() -> None:
    work, said = Work(), list[str]()
    work.add(Steps("a", said, pieces=3))
    work.add(Steps("b", said))
    assert work.drain()
    assert said == ["a", "a", "a", "b"]


def test_spent_budget_stops_the_list_and_it_goes_on_later() -> None:
    work, said = Work(), list[str]()
    work.add(Steps("a", said, pieces=3, cost=1500))
    work.add(Steps("b", said))
    assert not work.drain()
    assert said == ["a", "a"]
    assert not work.drain()
    work.budget.begin()
    assert work.drain()
    assert said == ["a", "a", "a", "b"]


def test_task_may_add_another() -> None:
    work, said = Work(), list[str]()
    work.add(Adding(work, Steps("b", said)))
    assert work.drain()
    assert said == ["b"]


def test_faulty_task_is_dropped_and_the_others_are_done(caplog: pytest.LogCaptureFixture) -> None:
    work, said = Work(), list[str]()
    work.add(Steps("a", said))
    work.add(Faulty())
    work.add(Steps("b", said))
    assert work.drain()
    assert said == ["a", "b"]
    assert "a task on the work list failed" in caplog.text


def test_list_that_is_never_empty_forgets_what_is_done() -> None:
    work, said = Work(), list[str]()
    for _ in range(1000):
        work.add(Steps("a", said, cost=50))
    while not work.drain():
        work.budget.begin()
        if len(said) < 5000:
            for _ in range(40):
                work.add(Steps("a", said, cost=50))
    assert len(said) >= 5000
    assert not work


def test_a_task_must_say_what_it_does() -> None:
    with pytest.raises(NotImplementedError):
        Task().run(Budget())


class Refusing(Task):
    def run(self, budget: Budget) -> bool:
        raise PreconditionFailed("partial tx completion")


def test_fault_of_a_client_that_is_gone_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    work.add(Refusing())
    assert work.drain()
    assert caplog.messages == ["nobody is there to hear: PRECONDITION_FAILED - partial tx completion"]
    assert caplog.records[0].exc_info is None


class Broken(Task):
    def run(self, budget: Budget) -> bool:
        raise OSError(5, "Input/output error")


class Failing(Storage):
    """Takes note of why it failed."""

    def __init__(self) -> None:
        Storage.__init__(self)
        self.faults: list[BaseException] = []

    def fail(self, error: BaseException) -> None:
        self.faults.append(error)


def test_fault_of_a_file_in_a_task_stops_storage_and_not_the_other_tasks() -> None:
    """SPEC §8.7: nobody may be promised anything after that."""
    work, said = Work(), list[str]()
    storage = work.storage = Failing()
    work.add(Broken())
    work.add(Steps("next", said))
    assert work.drain()
    assert [str(error) for error in storage.faults] == ["[Errno 5] Input/output error"]
    assert said == ["next"]
