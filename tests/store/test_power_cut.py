"""Power cuts: a broker lives on a simulated disk, the power goes at any step, and what is found then is what was promised.

What the queues hold is read off into dictionaries whenever a batch is taken. A batch counts as a whole, so after a power
cut the queues must be as they were at the last batch for which sync has returned, or at the one being written: nothing
confirmed is lost, nothing settled is back, order and delivery counts are kept, and nothing is invented.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.store.simulated_disk import PowerCut, SimulatedDisk
from tests.store.support import NOW, Contents, Rig, facts, letter

from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.protocol.transaction import Commit, Transaction
from leveret.store.definitions import Change
from leveret.wire.content import PERSISTENT
from leveret.wire.values import Table

QUEUES: dict[str, Table] = {
    "plain": {},
    "mortal": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"},
    "brief": {"x-message-ttl": 3000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"},
    "short": {"x-max-length": 20, "x-dead-letter-exchange": "spread"},
    "urgent": {"x-max-priority": 5},
    "once": {"x-message-deduplication": True},
    "quorum": {"x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "spread"},
    "grave": {},
}
SPREAD = ("plain", "grave", "urgent")
SEEDS = int(os.environ.get("SOAK_SEEDS", "8"))
# Small, so that there is much to compact.
SEGMENT_SIZE = 1 << 13
ROUNDS = 6
OPERATIONS = 200
OUTCOMES = 4


class Life:
    """One broker between two power cuts, with everything that is done to it."""

    def __init__(self, rig: Rig, choice: random.Random, published: set[bytes]) -> None:
        self.rig = rig
        self.choice = choice
        self.published = published
        self.unacked: list[Entry] = []
        self.transaction: Transaction | None = None
        self.commit: Commit | None = None
        self.committed = False
        rig.committer.durable = rig.store.synced
        rig.committer.held = True
        self.states: dict[int, Contents] = {rig.store.synced: self.state()}

    # What is on disk once the next batch is

    def state(self) -> Contents:
        found = {queue_id: dict(by_seq(entries)) for queue_id, entries in self.rig.contents().items()}
        tentative: set[bytes] = set()
        entries = list(self.unacked)
        if self.commit is not None and not self.committed:
            assert self.transaction is not None
            entries += self.transaction.entries()
            tentative = {facts_body(message.content) for message, _, _ in self.transaction.publishes}
        for entry in entries:
            queue_id = entry.queue.ledger.queue_id
            if queue_id in found and entry.message.flags & PERSISTENT:
                found[queue_id][entry.seq] = facts(entry)
        return {
            queue_id: [entry for _, entry in sorted(entries.items()) if entry[1] not in tentative]
            for queue_id, entries in found.items()
        }

    def flush(self) -> None:
        state = self.state()
        number = self.rig.store.journal.batch
        self.rig.store.flush()
        if self.rig.store.journal.batch > number:
            self.states[number] = state

    # What clients do

    def live(self, operations: int) -> None:
        """Do that much, or until the power goes."""
        ways: list[tuple[int, Callable[[], None]]] = [
            (30, self.publish),
            (10, self.take),
            (14, self.acknowledge),
            (5, self.give_back),
            (5, self.reject),
            (2, self.get_without_ack),
            (4, self.pass_time),
            (1, self.purge),
            (1, self.delete),
            (3, self.begin_commit),
            (12, self.flush),
            (14, self.write),
            (10, self.drain_some),
            (4, self.rig.drain),
        ]
        weights = [weight for weight, _ in ways]
        for _ in range(operations):
            if self.rig.disk.cut or self.rig.store.failed is not None:
                return
            self.rig.broker.work.begin()
            self.choice.choices(ways, weights)[0][1]()
            if self.commit is not None:
                self.go_on_committing()

    def queue(self) -> Queue:
        return self.rig.vhost.queues[self.choice.choice(list(QUEUES))]

    def publish(self) -> None:
        for _ in range(self.choice.randint(1, 8)):
            text = b"%d:" % len(self.published)
            content = text + b"x" * self.choice.choice([0, 10, 300, 2000])
            self.published.add(content)
            way = self.choice.random()
            properties: dict[str, Any] = {"priority": self.choice.randrange(8)}
            if self.choice.random() < 0.15:
                properties["expiration"] = str(self.choice.randrange(5000))
            if self.choice.random() < 0.1:
                properties["delivery_mode"] = 1
            if way < 0.2:
                message = letter(content, "", "spread", **properties)
            elif way < 0.3:
                message = letter(content, "grave", "later", headers={"x-delay": self.choice.randint(1, 4000)}, **properties)
            else:
                name = self.choice.choice(list(QUEUES))
                if name == "once":
                    properties["headers"] = {"x-deduplication-header": self.choice.randrange(30)}
                message = letter(content, name, **properties)
            self.rig.publish(message)

    def take(self) -> None:
        queue = self.queue()
        for _ in range(self.choice.randint(1, 10)):
            entry = queue.take(False)
            if entry is not None:
                self.unacked.append(entry)

    def get_without_ack(self) -> None:
        self.queue().take(True)

    def some_unacked(self) -> list[Entry]:
        count = self.choice.randint(0, len(self.unacked))
        if self.choice.random() < 0.5:
            taken, self.unacked = self.unacked[:count], self.unacked[count:]
        else:
            self.choice.shuffle(self.unacked)
            taken, self.unacked = self.unacked[:count], self.unacked[count:]
            self.unacked.sort(key=lambda entry: entry.seq)
        return taken

    def acknowledge(self) -> None:
        for entry in self.some_unacked():
            entry.queue.settle(entry)

    def give_back(self) -> None:
        for entry in self.some_unacked():
            entry.queue.requeue([entry])

    def reject(self) -> None:
        for entry in self.some_unacked():
            entry.queue.reject(entry)

    def pass_time(self) -> None:
        self.rig.broker.work.now += self.choice.randint(1, 2000)
        self.rig.broker.timers.run(self.rig.now, 100)

    def purge(self) -> None:
        if self.commit is None:
            queue = self.queue()
            queue.purge()
            if queue.unacked_count or queue.dead:
                # Some stay, so each of the others is said to be gone, one after the other.
                self.rig.drain()

    def delete(self) -> None:
        queue = self.queue()
        self.rig.vhost.remove_queue(queue)
        self.unacked = [entry for entry in self.unacked if entry.queue is not queue]
        declare(self.rig, queue.name)

    def begin_commit(self) -> None:
        if self.commit is not None:
            return
        self.transaction = Transaction()
        self.committed = False
        vhost = self.rig.vhost
        for number in range(self.choice.randint(0, 20)):
            content = b"tx %d of %d" % (number, len(self.published))
            self.published.add(content)
            names = self.choice.sample(["plain", "grave", "urgent"], self.choice.randint(1, 3))
            self.transaction.publish(letter(content, "tx"), [vhost.queues[name] for name in names], False)
        self.transaction.settle(self.some_unacked(), 0)
        self.commit = Commit(self.transaction, self.rig.now, lambda message: None, self.on_committed)

    def on_committed(self) -> None:
        self.committed = True

    def go_on_committing(self) -> None:
        assert self.commit is not None
        self.rig.broker.work.left = self.choice.randint(1, 10)
        if self.commit.run(self.rig.broker.work):
            self.commit = self.transaction = None

    # What the server does

    def write(self) -> None:
        self.rig.committer.run(self.choice.randint(1, 3))

    def drain_some(self) -> None:
        self.rig.broker.work.left = self.choice.randint(1, 60)
        self.rig.broker.work.drain()

    # What must be found

    def allowed(self) -> list[tuple[Contents, set[int]]]:
        """Contents and queues that may be found: of each batch, the definitions are written before the messages."""
        durable = self.rig.committer.durable
        taken = [number for number in (durable, durable + 1) if number in self.states]
        return [
            (self.states[messages], set(self.states[definitions]))
            for messages in taken
            for definitions in (messages, messages + 1)
            if definitions in self.states
        ]

    def check(self, found: Rig) -> None:
        contents = found.contents()
        expected = [{queue_id: state.get(queue_id, []) for queue_id in queue_ids} for state, queue_ids in self.allowed()]
        contents = {queue_id: sorted(entries) for queue_id, entries in contents.items()}
        if contents not in expected:
            pytest.fail(difference(contents, expected))
        assert found.opened.damage == []
        stored = sum(len(entries) for entries in contents.values())
        assert sum(segment.live_count for segment in found.store.journal.segments.values()) == stored
        for queue in found.store.queues.values():
            assert all(entry.redelivered for entry in queue.chain.entries())
        for entries in contents.values():
            assert {content for _, content, _, _ in entries} <= self.published


def by_seq(entries: list[tuple[int, bytes, int, int]]) -> list[tuple[int, tuple[int, bytes, int, int]]]:
    return [(entry[0], entry) for entry in entries]


def facts_body(content: bytes) -> bytes:
    """The body of a small message, out of its frames."""
    size = int.from_bytes(content[11:19], "big")
    return content[len(content) - 1 - size : len(content) - 1]


def difference(found: Contents, expected: list[Contents]) -> str:
    lines = []
    for number, contents in enumerate(expected):
        for queue_id in sorted(contents.keys() | found.keys()):
            here, there = (short(side.get(queue_id, [])) for side in (found, contents))
            if here != there or (queue_id in found) != (queue_id in contents):
                lines.append(f"choice {number}, queue {queue_id}: lost {sorted(there - here)}, back {sorted(here - there)}")
    return "\n".join(lines)


def short(entries: list[tuple[int, bytes, int, int]]) -> set[tuple[int, bytes, int, int]]:
    return {(seq, body[:20], count, expires_at) for seq, body, count, expires_at in entries}


def declare(rig: Rig, name: str) -> None:
    queue = rig.queue(name, arguments=QUEUES[name])
    if name in SPREAD:
        rig.vhost.bind("spread", queue, "", {})
    rig.vhost.bind("later", queue, name, {})


def first_rig() -> Rig:
    rig = Rig(segment_size=SEGMENT_SIZE)
    rig.vhost.declare_exchange("spread", "fanout", durable=True)
    rig.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    for name in QUEUES:
        declare(rig, name)
    rig.settle_down()
    return rig


def found_after(disk: SimulatedDisk, history: list[list[Change]], now: int, choice: random.Random) -> Rig:
    """Start on what a power cut has left; the power may go again while it starts."""
    if choice.random() < 0.3:
        disk.steps_left = choice.randrange(8)
        try:
            Rig(disk, history, now=now, segment_size=SEGMENT_SIZE)
        except PowerCut:
            disk = disk.after(choice)
        except OSError:
            disk = disk.after(choice)
        else:
            disk = disk.after(choice)
    disk.steps_left = None
    return Rig(disk, history, now=now, segment_size=SEGMENT_SIZE)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_power_cut_everything_promised_is_there_and_nothing_else(seed: int) -> None:
    """SPEC §8.1 and §8.3: a power cut at any step loses nothing confirmed and brings nothing settled back."""
    choice = random.Random(seed)
    rig = first_rig()
    published: set[bytes] = set()
    for _ in range(ROUNDS):
        life = Life(rig, choice, published)
        rig.disk.steps_left = choice.randrange(150)
        life.live(OPERATIONS)
        rig.disk.cut = True
        history = rig.definitions.history
        disks = [rig.disk.worst(), rig.disk.best(), *(rig.disk.after(choice) for _ in range(OUTCOMES))]
        for disk in disks:
            rig = found_after(disk, history, life.rig.now, choice)
            life.check(rig)
        contents = rig.contents()
        # Found twice, it is the same.
        rig = rig.again(now=rig.now, segment_size=SEGMENT_SIZE)
        assert rig.contents() == contents


def test_power_cuts_hit_compaction_too() -> None:
    """SPEC §8.4: segments go while all that happens, so the runs above are about compaction as well."""
    choice = random.Random(1)
    rig = first_rig()
    life = Life(rig, choice, set())
    for _ in range(40):
        life.live(50)
        life.write()
    numbers = sorted(rig.store.journal.segments)
    assert numbers[0] > 1
    assert numbers[-1] > numbers[0]
    assert rig.now > NOW
