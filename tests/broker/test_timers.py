"""Timers: what is due when, and how much of it at a time."""

from __future__ import annotations

import gc
import weakref

import pytest

from leveret.broker.timers import NEVER, STALE_MAX, Timer, Timers


class Noted(Timer):
    """A timer that says in a list when it was called, and may set itself again."""

    def __init__(self, name: str, said: list[tuple[str, int]]) -> None:
        Timer.__init__(self)
        self.name = name
        self.said = said
        self.again: tuple[Timers, int] | None = None

    def due(self, now: int) -> None:
        self.said.append((self.name, now))
        if self.again is not None:
            timers, at = self.again
            timers.set(self, at)


def test_nothing_is_due_at_first() -> None:
    timers = Timers()
    assert timers.next_at() == NEVER
    assert timers.run(10**15, 10)


def test_timer_itself_does_nothing() -> None:
    with pytest.raises(NotImplementedError):
        Timer().due(0)


def test_what_is_due_is_called_in_order_of_time_and_setting() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    for name, at in (("c", 30), ("a", 10), ("b", 20), ("b2", 20)):
        timers.set(Noted(name, said), at)
    assert timers.next_at() == 10
    assert timers.run(9, 10)
    assert said == []
    assert timers.run(20, 10)
    assert said == [("a", 20), ("b", 20), ("b2", 20)]
    assert timers.next_at() == 30


def test_timer_is_called_once() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    timer = Noted("a", said)
    timers.set(timer, 5)
    timers.set(timer, 5)
    assert timers.run(5, 10)
    assert timers.run(50, 10)
    assert (said, timer.due_at) == ([("a", 5)], NEVER)


@pytest.mark.parametrize("at", [3, 30])
def test_timer_may_be_moved(at: int) -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    timer = Noted("a", said)
    timers.set(timer, 10)
    timers.set(timer, at)
    assert timers.next_at() == at
    assert timers.run(at - 1, 10)
    assert said == []
    timers.run(at, 10)
    timers.run(100, 10)
    assert said == [("a", at)]


def test_timer_moved_there_and_back_is_called_once() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    timer = Noted("a", said)
    for at in (10, 5, 10):
        timers.set(timer, at)
    assert timers.run(20, 10)
    assert said == [("a", 20)]


def test_stopped_timer_is_not_called() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    one, two = Noted("a", said), Noted("b", said)
    timers.set(one, 10)
    timers.set(two, 10)
    timers.stop(one)
    timers.stop(one)
    timers.set(two, NEVER)
    assert timers.next_at() == NEVER
    timers.run(10, 10)
    assert said == []


def test_timer_may_set_itself_again() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    timer = Noted("a", said)
    timer.again = (timers, 20)
    timers.set(timer, 10)
    assert timers.run(10, 10)
    assert timers.next_at() == 20
    assert timers.run(20, 2) is False


def test_many_go_in_pieces() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    for number in range(5):
        timers.set(Noted(str(number), said), number)
    assert not timers.run(10, 3)
    assert len(said) == 3
    assert timers.run(10, 2)
    assert len(said) == 5


def test_stopped_timers_are_let_go_before_their_time() -> None:
    timers, said = Timers(), list[tuple[str, int]]()
    kept = Noted("kept", said)
    timers.set(kept, 10)
    gone = []
    for _ in range(STALE_MAX + 1):
        timer = Noted("gone", said)
        gone.append(weakref.ref(timer))
        timers.set(timer, 10**12)
        timers.stop(timer)
        del timer
    gc.collect()
    assert [ref for ref in gone if ref() is not None] == []
    assert timers.run(10**13, 10)
    assert said == [("kept", 10**13)]
