"""The queue as a machine: the commands of a random run, given to a second queue, leave the same state.

Whether a consumer takes a message is drawn by chance here, as it is decided outside of the queue. The commands are written
down as values, with seqs for entries, and the second queue is told them one after the other.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.arguments import queue_settings_of
from leveret.broker.budget import Budget
from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.work import Task, Work
from leveret.wire.content import frame_content
from leveret.wire.values import Table

Command = tuple[str, tuple[Any, ...]]

calm = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])

DEAD = {"x-dead-letter-exchange": ""}
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"x-max-length": 2},
    {"x-max-length-bytes": 20, "x-overflow": "reject-publish"},
    {"x-max-length": 1, "x-overflow": "reject-publish-dlx"},
    {"x-message-ttl": 50},
    {"x-max-length": 1, "x-message-ttl": 0},
    {"x-delivery-limit": 1, "x-queue-type": "quorum"},
    {"x-message-deduplication": True},
)
ACTS = (*["push"] * 4, "deliver", "deliver", "get", "settle", "reject", "requeue", "later", "purge", "apply")


class Kept(Task):
    """Dead letters go nowhere, so that they can be looked at."""

    def run(self, budget: Budget) -> bool:
        return True


class Machine:
    """A queue that is told commands, and has them in `log`. Entries are spoken of by their seqs, which are never reused."""

    def __init__(self, priorities: bool) -> None:
        self.work = Work()
        self.arguments: Table = {"x-max-priority": 3} if priorities else {}
        self.queue = Queue("q", "queue 'q'", self.work, self.arguments)
        self.queue.dead_letter_task = Kept()
        self.consumers = (Consumer("tag"), Consumer("no_ack", no_ack=True))
        self.log: list[Command] = []
        self.entries: dict[int, Entry] = {}

    def tell(self, name: str, *arguments: Any) -> Any:
        self.log.append((name, arguments))
        found = getattr(self, f"_{name}")(*arguments)
        while not self.work.drain():
            self.work.budget.begin()
        return found

    def _pass(self, now: int) -> None:
        self.work.budget.begin()
        self.work.budget.now = now

    def _apply(self, which: int) -> None:
        self.queue.apply(queue_settings_of({**self.arguments, **DEAD, **ARGUMENTS[which]}, {}, {}), self.work.budget.now)

    def _accept(self, message: Message, ttl_ms: int) -> int:
        entry = self.queue.accept_for_a_time(message, self.work.budget.now, ttl_ms)
        self.entries[entry.seq] = entry
        return entry.seq

    def _refuse(self, message: Message) -> None:
        self.queue.refuse(message, self.work.budget.now)

    def _keep(self, seq: int, ttl_ms: int) -> None:
        self.queue.keep(self.entries[seq], ttl_ms)

    def _limit(self, seq: int, ttl_ms: int) -> None:
        self.queue.apply_limits(self.entries[seq], ttl_ms)

    def _first(self) -> int:
        entry = self.queue.first()
        return 0 if entry is None else entry.seq

    def _remove_first(self, seq: int) -> None:
        self.queue.remove_first(self.entries[seq])

    def _pass_on(self, message: Message, no_ack: bool) -> None:
        entry = self.queue.pass_on(message, self.consumers[no_ack], self.work.budget.now)
        self.entries[entry.seq] = entry

    def _hand_over(self, seq: int, no_ack: bool) -> None:
        self.queue.hand_over(self.entries[seq], self.consumers[no_ack])

    def _take(self, no_ack: bool) -> int:
        entry = self.queue.take(no_ack)
        return 0 if entry is None else entry.seq

    def _settle(self, seq: int) -> None:
        self.queue.settle(self.entries[seq])

    def _reject(self, seq: int) -> None:
        self.queue.reject(self.entries[seq])

    def _requeue(self, seqs: list[int], refused: bool) -> None:
        self.queue.requeue([self.entries[seq] for seq in seqs], refused)
        # In some queues they come again under other numbers.
        self.entries.update({entry.seq: entry for entry in self.queue.backlog.front.entries()})

    def _expire(self) -> None:
        self.queue.expire(self.work.budget.now)

    def _purge(self) -> None:
        self.queue.purge()

    def state(self) -> dict[str, Any]:
        queue = self.queue
        return {
            "next": queue.next_seq,
            "ready": [facts(entry) for entry in queue.backlog.front.entries()],
            "counts": (queue.ready_count, queue.ready_bytes, queue.unacked_count, queue.unacked_bytes),
            "unacked": [facts(entry) for entry in self.entries.values() if entry.queue is queue],
            "dead": [(facts(entry), reason) for entry, reason in queue.dead],
            "counters": [
                getattr(queue.counters, name) for name in ("publish", "deliver", "get", "ack", "redeliver", "get_empty")
            ],
        }


def facts(entry: Entry) -> tuple[int, int, bool, int]:
    return entry.seq, entry.expires_at, entry.redelivered, entry.delivery_count


class Player:
    """Draws what is done to a machine, as `dispatch.py` and the protocol would."""

    def __init__(self, data: st.DataObject, machine: Machine) -> None:
        self._draw = data.draw
        self._machine = machine
        self._tell = machine.tell
        self._now = 1000
        self._tell("pass", self._now)
        self._tell("apply", 0)

    def play(self, act: str) -> None:
        getattr(self, act)()

    def push(self) -> None:
        queue = self._machine.queue
        size, own_ms, priority = self._draw(
            st.tuples(st.integers(0, 30), st.sampled_from([-1, -1, 0, 40]), st.integers(0, 5))
        )
        header = bytes([0, 60, 0, 0]) + size.to_bytes(8, "big") + bytes(2)
        content = frame_content(header, bytes(size), max(1, size))
        message = new_message(Origin("", "q", b""), content, len(header), size, max(1, size), priority << 24)
        message.ttl_ms = own_ms
        if queue.is_duplicate(message, self._now):
            return
        if queue.limits is not None and queue.limits.refuses(queue.backlog, size):
            self._tell("refuse", message)
            return
        ttl_ms = queue.settings.ttl_ms_of(message)
        if not queue.needs_checks and own_ms < 0 and queue.ready_count == 0 and self._draw(st.booleans()):
            self._tell("pass_on", message, self._draw(st.booleans()))
            return
        seq = self._tell("accept", message, ttl_ms)
        if queue.ready_count == 0 and self._draw(st.booleans()):
            self._tell("hand_over", seq, self._draw(st.booleans()))
        else:
            self._tell("keep", seq, ttl_ms)
            self._tell("limit", seq, ttl_ms)

    def deliver(self) -> None:
        if seq := self._tell("first"):
            self._tell("remove_first", seq)
            self._tell("hand_over", seq, self._draw(st.booleans()))

    def get(self) -> None:
        self._tell("take", self._draw(st.booleans()))

    def settle(self) -> None:
        for seq in self._some():
            self._tell("settle", seq)

    def reject(self) -> None:
        for seq in self._some():
            self._tell("reject", seq)

    def requeue(self) -> None:
        if seqs := self._some():
            self._tell("requeue", seqs, self._draw(st.booleans()))

    def later(self) -> None:
        self._now += self._draw(st.sampled_from([1, 30, 60]))
        self._tell("pass", self._now)
        self._tell("expire")

    def purge(self) -> None:
        self._tell("purge")

    def apply(self) -> None:
        self._tell("apply", self._draw(st.integers(0, len(ARGUMENTS) - 1)))

    def _some(self) -> list[int]:
        machine = self._machine
        unacked = [seq for seq, entry in machine.entries.items() if entry.queue is machine.queue]
        return self._draw(st.lists(st.sampled_from(unacked), unique=True, max_size=3)) if unacked else []


@calm
@given(st.data(), st.booleans(), st.lists(st.sampled_from(ACTS), min_size=5, max_size=60))
def test_the_same_commands_leave_the_same_state(data: st.DataObject, priorities: bool, acts: list[str]) -> None:
    """SPEC §4: whatever consumers did, a second queue that is told the same is in the same state, after each command."""
    first, second = Machine(priorities), Machine(priorities)
    player = Player(data, first)
    for act in acts:
        player.play(act)
    for name, arguments in first.log:
        second.tell(name, *arguments)
    assert second.state() == first.state()
