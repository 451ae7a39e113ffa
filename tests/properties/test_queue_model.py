"""Random commands on a queue against a naive one: lists that are sorted and searched.

The naive queue does not foresee who gets a message, but it knows what must be so: a delivery is always the first ready
message, goes to a consumer with room for it, and never waits while there is one. Nothing is lost and nothing doubled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from leveret.broker.consumer import Consumer, Window
from leveret.broker.dispatch import cancel, dispatch, push, resume, subscribe
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.work import Work

ORIGIN = Origin("", "q", b"")


@dataclass
class Place:
    """A message in the naive queue."""

    seq: int
    message: Message
    redelivered: bool = False


@dataclass
class Naive:
    """Ready and unacknowledged messages."""

    ready: list[Place] = field(default_factory=list)
    unacked: list[tuple[Place, Entry, Listener | None]] = field(default_factory=list)

    def first(self) -> Place | None:
        return min(self.ready, key=lambda place: place.seq, default=None)

    def outstanding(self, chosen: list[Listener]) -> list[int]:
        """The sizes of what these consumers have."""
        return [place.message.body_size for place, _, who in self.unacked if who in chosen]


class Listener(Consumer):
    """A consumer that checks each delivery against the naive queue."""

    def __init__(self, machine: QueueMachine, tag: str, no_ack: bool, limits: tuple[int, int], priority: int) -> None:
        Consumer.__init__(self, tag, no_ack, False, Window(*limits), machine.shared, None, priority)
        self.machine = machine

    def deliver(self, entry: Entry) -> None:
        self.machine.on_delivery(self, entry)

    def cancelled(self) -> None:
        """The queue stays."""


def room(sizes: list[int], size: int, window: Window) -> bool:
    """Whether a window with these in it takes one more."""
    if window.count_limit and len(sizes) >= window.count_limit:
        return False
    return not window.size_limit or not sizes or sum(sizes) + size <= window.size_limit


limits = st.tuples(st.sampled_from([0, 1, 2, 5]), st.sampled_from([0, 0, 0, 10, 25]))


class QueueMachine(RuleBasedStateMachine):
    """A queue, its naive twin, and some consumers that share a window; `seen` counts what all runs have done."""

    seen: ClassVar[Counter[str]] = Counter()

    @initialize(budget=st.sampled_from([1, 2, 5, 2000]), windows=st.lists(limits, max_size=3))
    def begin(self, budget: int, windows: list[tuple[int, int]]) -> None:
        self.budget = budget
        self.work = Work()
        self.queue = Queue("q", "queue 'q' in vhost '/'", self.work, {})
        self.naive = Naive()
        self.shared = Window()
        self.listeners: list[Listener] = []
        self.subscribed = 0
        self.last_seq = 0
        for window in windows:
            self.subscribe(False, window, 0)

    # What the queue does

    def on_delivery(self, listener: Listener, entry: Entry) -> None:
        first = self.naive.first()
        assert first is not None, "delivered out of nothing"
        self.seen["redelivered" if first.redelivered else "delivered"] += 1
        assert (entry.seq, entry.message, entry.redelivered) == (first.seq, first.message, first.redelivered)
        assert listener in self.listeners, "delivered to one who has left"
        assert self.can_take(listener, entry.message.body_size), "delivered to one who is full"
        self.naive.ready.remove(first)
        if not listener.no_ack:
            self.naive.unacked.append((first, entry, listener))

    def can_take(self, listener: Listener, size: int) -> bool:
        everybody = [who for _, _, who in self.naive.unacked if who is not None]
        shared = self.naive.outstanding(everybody)
        if listener.no_ack:
            return not self.shared.count_limit or len(shared) < self.shared.count_limit
        return room(self.naive.outstanding([listener]), size, listener.window) and room(shared, size, self.shared)

    def finish(self, *freed: Listener | None) -> None:
        """Do what the protocol does after a command: resume those who have settled something and, if they share a limited
        window, the others too; nobody else. Then do what a spent budget left undone."""
        chosen = self.listeners if self.shared.limited() and freed else freed
        for listener in chosen:
            if listener is not None and not listener.active:
                resume(self.queue, listener)
        while self.work:
            self.work.budget.left = self.budget
            self.work.drain()
        self.work.budget.left = self.budget

    # Commands

    @rule(sizes=st.lists(st.sampled_from([0, 1, 7, 12, 40]), min_size=1, max_size=6))
    def accept(self, sizes: list[int]) -> None:
        for size in sizes:
            self.last_seq += 1
            message = new_message(ORIGIN, b"", 14, size, max(size, 1), False)
            self.naive.ready.append(Place(self.last_seq, message))
            assert push(self.queue, message, 0)
        self.finish()

    @rule(no_ack=st.booleans())
    def take(self, no_ack: bool) -> None:
        entry = self.queue.take(no_ack)
        first = self.naive.first()
        if first is None:
            assert entry is None
            return
        assert entry is not None
        assert (entry.seq, entry.redelivered) == (first.seq, first.redelivered)
        self.naive.ready.remove(first)
        if not no_ack:
            self.naive.unacked.append((first, entry, None))
        dispatch(self.queue)
        self.finish()

    @precondition(lambda self: self.naive.unacked)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, len(self.naive.unacked)))):
            at = data.draw(st.integers(0, len(self.naive.unacked) - 1))
            _, entry, who = self.naive.unacked.pop(at)
            self.seen["settled"] += 1
            self.queue.settle(entry)
            self.finish(who)

    @precondition(lambda self: self.naive.unacked)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        picks = data.draw(st.lists(st.integers(0, len(self.naive.unacked) - 1), min_size=1, unique=True))
        chosen = [self.naive.unacked[at] for at in picks]
        self.naive.unacked = [item for at, item in enumerate(self.naive.unacked) if at not in picks]
        for place, _, _ in chosen:
            place.redelivered = True
            self.naive.ready.append(place)
        self.queue.requeue([entry for _, entry, _ in chosen])
        dispatch(self.queue)
        self.finish(*(who for _, _, who in chosen))

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.naive.ready)
        self.naive.ready.clear()
        self.finish()

    @precondition(lambda self: len(self.listeners) < 4)
    @rule(no_ack=st.sampled_from([False, False, True]), window=limits, priority=st.integers(-1, 1))
    def join(self, no_ack: bool, window: tuple[int, int], priority: int) -> None:
        self.subscribe(no_ack, window, priority)

    def subscribe(self, no_ack: bool, window: tuple[int, int], priority: int) -> None:
        self.subscribed += 1
        listener = Listener(self, f"c{self.subscribed}", no_ack, window, priority)
        self.listeners.append(listener)
        subscribe(self.queue, listener)
        self.finish()

    @precondition(lambda self: self.listeners)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        listener = self.listeners.pop(data.draw(st.integers(0, len(self.listeners) - 1)))
        cancel(self.queue, listener)
        self.finish()

    @rule(window=limits)
    def qos(self, window: tuple[int, int]) -> None:
        self.shared.count_limit, self.shared.size_limit = window
        for listener in self.listeners:
            if not listener.active:
                resume(self.queue, listener)
        self.finish()

    # What must always be so

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        queue, naive = self.queue, self.naive
        assert (queue.ready_count, queue.unacked_count) == (len(naive.ready), len(naive.unacked))
        assert queue.ready_bytes == sum(place.message.body_size for place in naive.ready)
        assert queue.unacked_bytes == sum(place.message.body_size for place, _, _ in naive.unacked)
        assert queue.consumer_count == len(self.listeners)

    @invariant()
    def windows_agree(self) -> None:
        for listener in getattr(self, "listeners", ()):
            mine = self.naive.outstanding([listener])
            assert (listener.window.count, listener.window.size) == (len(mine), sum(mine))

    @invariant()
    def nothing_waits_that_could_go(self) -> None:
        first = self.naive.first() if hasattr(self, "naive") else None
        if first is not None:
            assert not any(self.can_take(listener, first.message.body_size) for listener in self.listeners)

    def teardown(self) -> None:
        """Everything ever accepted and not settled is there, once and in order."""
        if not hasattr(self, "queue"):
            return
        for listener in self.listeners:
            cancel(self.queue, listener)
        expected = sorted(place.seq for place in self.naive.ready)
        left = []
        while (entry := self.queue.take(True)) is not None:
            left.append(entry.seq)
        assert left == expected


def test_random_commands() -> None:
    QueueMachine.seen.clear()
    calm = settings(
        max_examples=300,
        stateful_step_count=50,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(QueueMachine, settings=calm)
    # A model that meets with nothing agrees with everything.
    least = {"delivered": 400, "redelivered": 80, "settled": 50}
    assert {name: QueueMachine.seen[name] for name in least if QueueMachine.seen[name] < least[name]} == {}
