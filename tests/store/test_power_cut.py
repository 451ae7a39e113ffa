"""Power cuts: a broker lives on a simulated disk, the power goes at any step, and what is found then is what was promised.

What the queues hold is read off into dictionaries whenever a batch is taken. Windows, pages and segments are tiny, so that
most of it is paged out, most of what is unacknowledged are stubs, and compaction is always at work; the spill is written
by a thread of its own, which is slower or faster than the other. Several lives follow one another, after power cuts and
after clean ends.

After a power cut the messages are those of one batch, the last for which sync has returned, or the one being written:

(1) Every queue that was promised by that batch is there, with exactly the messages it had: nothing confirmed is lost,
    nothing settled is back, order and delivery counts are kept, and nothing is invented. A queue that was declared
    and not promised yet may be missing, but then nothing was in it that was anywhere else at the batch before.
(2) A queue that was deleted by then may still be there, until its deletion is synced: with what it had when it was
    deleted, or some of it, but all that is on its way to dead letters, and nothing that was settled since. One that was
    deleted with the next batch may be gone already, as rows are written first, but not what it had of rejected messages.
(3) A queue that was made later may be there already; it is empty.
(4) What a purge has dropped may be there until storage has been told of each message (purge-ok waits for that).
(5) What a transaction does counts with its COMMIT: until then its messages are nowhere, dead letters of what it rejects
    neither, and what it settles is where it was.
(6) After a power cut every message is redelivered; after a clean end those are that were delivered in any life.
"""

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from tests.store.simulated_disk import SimulatedDisk
from tests.store.support import NOW, Contents, Facts, Rig, facts, letter

from leveret.broker.message import Entry, is_stub
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.queue_tasks import Discard
from leveret.protocol.settlement import ACKED, REJECTED
from leveret.protocol.transaction import Commit, Transaction
from leveret.store import store as store_module
from leveret.store.layout import SPILL_NUMBER
from leveret.store.ledger import ledger_of
from leveret.store.rows import Change
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
ROUNDS = 6
OPERATIONS = 200
OUTCOMES = 4
# When there are fewer queues, none is deleted.
FEW = 5
# How often a body is how large: mostly small, so that it is quick.
BODY_SIZES = [(60, 300), (30, 3000), (8, 30_000), (2, 300_000)]
HUGE = 3_000_000

Messages = dict[int, dict[int, Facts]]
"""By queue's id and seq."""


@dataclass
class World:
    """What all lives of one run share. `delivered` are the bodies of messages that a client has had, by place."""

    choice: random.Random
    options: dict[str, Any]
    numbers: "count[int]" = field(default_factory=count)
    published: set[bytes] = field(default_factory=set)
    delivered: dict[tuple[int, int], bytes] = field(default_factory=dict)
    # Those that were there when the power went count as redelivered, whether they were or not.
    doubtful: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class State:
    """What must be found, and what may be besides. Of a queue that is `deleted` or `unpromised`, only if it is found."""

    must: Messages
    may: Messages
    deleted: set[int]
    unpromised: set[int] = field(default_factory=set)
    # Queues whose rows go with the next batch, and what was rejected in them.
    going: set[int] = field(default_factory=set)
    rejected: set[tuple[int, int]] = field(default_factory=set)

    def bodies(self) -> set[bytes]:
        return {content for entries in self.must.values() for _, content, _, _ in entries.values()}

    def faults(self, contents: Contents, before: "State | None" = None) -> list[str]:
        """What is wrong with what was found; `before` is the state of the batch before."""
        missing = self.must.keys() - contents.keys() - self.deleted
        wrong = [f"queue {number}: lost" for number in missing - self.unpromised - self.going]
        for number in missing & self.going:
            lost = [short(entry) for seq, entry in self.must[number].items() if (number, seq) in self.rejected]
            if lost:
                wrong.append(f"queue {number}, which is deleted: lost {lost}, which were rejected")
        found_bodies = {content for entries in contents.values() for _, content, _, _ in entries}
        known = set() if before is None else before.bodies() - found_bodies
        for number in missing & self.unpromised:
            lost = [short(entry) for entry in self.must[number].values() if entry[1] in known]
            if lost:
                wrong.append(f"queue {number}, which was not promised yet: lost {lost}, which were elsewhere before")
        for number, entries in contents.items():
            found = {entry[0]: entry for entry in entries}
            must, may = self.must.get(number, {}), self.may.get(number, {})
            lost = [short(entry) for seq, entry in must.items() if found.get(seq) != entry]
            back = [short(entry) for seq, entry in found.items() if entry not in (must.get(seq), may.get(seq))]
            if lost or back or len(found) != len(entries):
                wrong.append(f"queue {number}: lost {lost}, back {back}")
        return wrong


@dataclass
class Purge:
    """A purge that is not over, and what it dropped: over when storage was told of each message."""

    queue_id: int
    discard: Discard
    dropped: dict[int, Facts]


class Life:
    """One broker between two starts, with everything that is done to it."""

    def __init__(self, rig: Rig, world: World) -> None:
        self.rig = rig
        self.world = world
        self.choice = world.choice
        self.unacked: list[Entry] = []
        self.purges: list[Purge] = []
        self.deleted: dict[int, tuple[Queue, dict[int, Facts]]] = {}
        # The batch with which a queue that was declared is promised.
        self.promised: dict[int, int] = {}
        # The batch with which the row of a deleted queue goes, and the places of what was rejected to go elsewhere.
        self.removed: dict[int, int] = {}
        self.rejected: set[tuple[int, int]] = set()
        self.commit: Commit | None = None
        # Of a transaction that is being committed: what it settles, by place, what it publishes, and what it rejects.
        self.settling: dict[tuple[int, int], Facts] = {}
        self.publishing: set[bytes] = set()
        self.rejecting: set[bytes] = set()
        rig.committer.durable = rig.store.synced
        rig.committer.held = True
        self.states: dict[int, State] = {rig.store.synced: self.state()}

    # What is on disk once the next batch is

    def state(self) -> State:
        must = {queue_id: {entry[0]: entry for entry in entries} for queue_id, entries in self.rig.contents().items()}
        for entry in self.unacked:
            queue_id = ledger_of(entry.queue).queue_id
            if queue_id in must and entry.message.flags & PERSISTENT:
                must[queue_id][entry.seq] = facts(self.rig.whole(entry))
        for (queue_id, seq), entry_facts in self.settling.items():
            if queue_id in must:
                must[queue_id][seq] = entry_facts
        for queue_id, places in must.items():
            for seq in [seq for seq, entry in places.items() if self._is_tentative(queue_id, entry)]:
                del places[seq]
        state = State(must, {}, set(self.deleted))
        for queue_id, (queue, had) in self.deleted.items():
            must[queue_id] = {entry[0]: entry for entry in self.rig.dying(queue)}
            state.may[queue_id] = dict(had)
        self.purges = [purge for purge in self.purges if not purge.discard.done]
        for purge in self.purges:
            state.may.setdefault(purge.queue_id, {}).update(purge.dropped)
        return state

    def _is_tentative(self, queue_id: int, entry: Facts) -> bool:
        """Whether it counts only with a COMMIT that is still to come."""
        seq, content, _, _ = entry
        return content in self.publishing or (content in self.rejecting and (queue_id, seq) not in self.settling)

    def flush(self) -> None:
        self.rig.check(self.unacked)
        state = self.state()
        number = self.rig.store.journal.batch
        self.rig.store.flush()
        self.note_left(number)
        if self.rig.store.journal.batch > number:
            self.note(number, state)

    def note(self, number: int, state: State) -> None:
        state.unpromised = {queue_id for queue_id, batch in self.promised.items() if batch > number}
        self.states[number] = state

    def note_left(self, number: int) -> None:
        """The rows of these go with this batch."""
        for queue_id, (queue, _) in self.deleted.items():
            if queue_id not in self.removed and self.rig.store.has_removed(queue):
                self.removed[queue_id] = number

    # What clients do

    def live(self, operations: int) -> None:
        """Do that much, or until the power goes."""
        ways: list[tuple[int, Callable[[], None]]] = [
            (30, self.publish),
            (14, self.take),
            (12, self.acknowledge),
            (5, self.give_back),
            (4, self.reject),
            (2, self.get_without_ack),
            (4, self.pass_time),
            (3, self.purge),
            (1, self.delete),
            (2, self.reject_and_delete),
            (4, self.declare_missing),
            (4, self.begin_commit),
            (12, self.flush),
            (14, self.write),
            (8, self.spill),
            (10, self.drain_some),
            (4, self.rig.drain),
        ]
        weights = [weight for weight, _ in ways]
        for _ in range(operations):
            if self.rig.disk.cut or self.rig.store.failed is not None:
                return
            self.rig.broker.work.budget.begin()
            self.choice.choices(ways, weights)[0][1]()
            if self.commit is not None:
                self.go_on_committing(self.choice.randint(1, 10))

    def queue(self) -> Queue:
        return self.choice.choice(list(self.rig.vhost.queues.values()))

    def new_body(self) -> bytes:
        weights = [weight for weight, _ in BODY_SIZES]
        size = HUGE if self.choice.random() < 0.001 else self.choice.choices(BODY_SIZES, weights)[0][1]
        content = b"%d:" % next(self.world.numbers) + b"x" * self.choice.randrange(size)
        self.world.published.add(content)
        return content

    def publish(self) -> None:
        for _ in range(self.choice.randint(1, 8)):
            content = self.new_body()
            way = self.choice.random()
            properties: dict[str, Any] = {"priority": self.choice.randrange(8)}
            if self.choice.random() < 0.15:
                properties["expiration"] = str(self.choice.randrange(5000))
            if self.choice.random() < 0.2:
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
        patient = self.choice.random() < 0.5
        for _ in range(self.choice.randint(1, 30)):
            entry = queue.take(False)
            if entry is None and patient:
                # It is being read.
                self.rig.spiller.run()
                self.rig.committer.run()
            if entry is not None:
                self.unacked.append(entry)
                _, content, _, _ = facts(entry)
                assert content in self.world.published
                self.world.delivered[ledger_of(queue).queue_id, entry.seq] = content

    def get_without_ack(self) -> None:
        self.queue().take(True)

    def some_unacked(self) -> list[Entry]:
        # Mostly few, so that many stay.
        number = self.choice.randint(0, min(len(self.unacked), self.choice.choice([3, 6, 6, 1000])))
        if self.choice.random() < 0.5:
            self.choice.shuffle(self.unacked)
        taken, self.unacked = self.unacked[:number], self.unacked[number:]
        self.unacked.sort(key=lambda entry: entry.seq)
        return taken

    def settled(self, entries: list[Entry]) -> list[Entry]:
        """What is done with these now is done in a deleted queue too."""
        for entry in entries:
            _, had = self.deleted.get(ledger_of(entry.queue).queue_id, (None, {}))
            had.pop(entry.seq, None)
        return entries

    def acknowledge(self) -> None:
        for entry in self.settled(self.some_unacked()):
            entry.queue.settle(entry)

    def give_back(self) -> None:
        for entry in self.settled(self.some_unacked()):
            entry.queue.requeue([entry])

    def reject(self) -> None:
        for entry in self.settled(self.some_unacked()):
            self.refuse(entry)

    def refuse(self, entry: Entry) -> None:
        queue = entry.queue
        if queue.settings.dead_letter_exchange is not None and not queue.deleted:
            self.rejected.add((ledger_of(queue).queue_id, entry.seq))
        queue.reject(entry)

    def pass_time(self) -> None:
        self.rig.broker.work.budget.now += self.choice.randint(1, 2000)
        self.rig.broker.timers.run(self.rig.now, 100)

    def purge(self) -> None:
        queue = self.queue()
        ready = [facts(entry) for entry in self.rig.ready(queue) if entry.message.flags & PERSISTENT]
        queue.purge()
        if queue.discard is not None:
            # Some stay, so each of the others is said to be gone, one after the other.
            self.purges.append(Purge(ledger_of(queue).queue_id, queue.discard, {entry[0]: entry for entry in ready}))

    def delete(self) -> None:
        self.remove(self.queue())

    def reject_and_delete(self) -> None:
        """Within one turn."""
        queue = self.queue()
        for _ in range(self.choice.randint(1, 6)):
            entry = queue.take(False)
            if entry is not None:
                self.refuse(entry)
        if self.choice.random() < 0.5:
            self.rig.drain()
        self.remove(queue)

    def remove(self, queue: Queue) -> None:
        if len(self.rig.vhost.queues) < FEW:
            return
        state = self.state()
        queue_id = ledger_of(queue).queue_id
        # What it has of a transaction counts later, perhaps.
        ready = {entry[0]: entry for entry in self.rig.contents()[queue_id]}
        self.deleted[queue_id] = queue, {**ready, **state.must[queue_id], **state.may.get(queue_id, {})}
        number = self.rig.store.journal.batch
        self.rig.vhost.remove_queue(queue)
        if self.rig.store.journal.batch > number:
            # What has become of its messages is a batch of its own, before it goes.
            self.note(number, state)
        self.note_left(self.rig.store.journal.batch)
        # One that was being removed under a name that is another one's by now has a name of its own.
        if queue.name in QUEUES and self.choice.random() < 0.5:
            self.declare(queue.name)

    def declare_missing(self) -> None:
        for name in QUEUES:
            if name not in self.rig.vhost.queues:
                self.declare(name)

    def declare(self, name: str) -> None:
        declare(self.rig, name)
        self.promised[ledger_of(self.rig.vhost.queues[name]).queue_id] = self.rig.store.position()

    def begin_commit(self) -> None:
        if self.commit is not None:
            return
        transaction = Transaction()
        queues = [queue for queue in self.rig.vhost.queues.values() if queue.name in SPREAD]
        for _ in range(self.choice.randint(0, 20) if queues else 0):
            content = self.new_body()
            self.publishing.add(content)
            transaction.publish(
                letter(content, "tx"), self.choice.sample(queues, self.choice.randint(1, len(queues))), False
            )
        for how in self.choice.choices([ACKED, REJECTED], k=self.choice.randint(0, 3)):
            entries = self.some_unacked()
            transaction.settle(entries, how)
            for entry in entries:
                entry_facts = facts(self.rig.whole(entry))
                if entry.message.flags & PERSISTENT:
                    self.settling[ledger_of(entry.queue).queue_id, entry.seq] = entry_facts
                # Only what dies is somewhere else then, and was in one queue only.
                if how == REJECTED and entry.queue.settings.dead_letter_exchange is not None:
                    self.rejecting.add(entry_facts[1])
        self.commit = Commit(transaction, self.rig.store, self.rig.now, lambda message: None, self.on_committed)

    def on_committed(self) -> None:
        for queue_id, seq in self.settling:
            self.deleted.get(queue_id, (None, {}))[1].pop(seq, None)
        self.settling, self.publishing, self.rejecting = {}, set(), set()

    def go_on_committing(self, budget: int) -> None:
        assert self.commit is not None
        self.rig.broker.work.budget.left = budget
        if self.commit.run(self.rig.broker.work.budget):
            self.commit = None

    # What the server does

    def write(self) -> None:
        self.rig.committer.run(self.choice.randint(1, 4))

    def spill(self) -> None:
        self.rig.spiller.run(self.choice.randint(1, 3))

    def drain_some(self) -> None:
        self.rig.broker.work.budget.left = self.choice.randint(1, 60)
        self.rig.broker.work.drain()

    # What must be found

    def check(self, found: Rig) -> None:
        """Look at what a power cut has left."""
        contents = found.contents()
        durable = self.rig.committer.durable
        numbers = [number for number in (durable, durable + 1) if number in self.states]
        for number in numbers:
            state = self.states[number]
            state.going = {queue_id for queue_id, batch in self.removed.items() if batch == number + 1}
            state.rejected = self.rejected
        choices = [self.states[number].faults(contents, self.states.get(number - 1)) for number in numbers]
        if all(choices):
            # The state that is nearest.
            pytest.fail("\n".join(line[:1000] for line in min(choices, key=lambda lines: len(str(lines)))))
        assert found.opened.damage == []
        found.check([])
        for queue in found.store.queues.values():
            assert all(entry.redelivered for entry in found.ready(queue))
        for entries in contents.values():
            assert {content for _, content, _, _ in entries} <= self.world.published

    def after_power_cut(self) -> Rig:
        """What may be found then, in several ways; the last of them."""
        rig, world = self.rig, self.world
        rig.disk.cut = True
        disks = [rig.disk.worst(), rig.disk.best(), *(rig.disk.after(self.choice) for _ in range(OUTCOMES))]
        for disk in disks:
            found = found_after(disk, rig.definitions.history, rig.now, world)
            self.check(found)
        contents = found.contents()
        # Found twice, it is the same.
        found = found.again(now=found.now, **world.options)
        assert found.contents() == contents
        world.doubtful = {(queue_id, entry[0]) for queue_id, entries in contents.items() for entry in entries}
        places = {(queue_id, entry[0]): entry[1] for queue_id, entries in contents.items() for entry in entries}
        world.delivered = {place: text for place, text in world.delivered.items() if places.get(place) == text}
        return found

    def after_clean_end(self) -> Rig:
        """Clients go, everything is written, and another start finds it as it was."""
        rig = self.rig
        rig.disk.steps_left = None
        while self.commit is not None:
            self.go_on_committing(1000)
        for entry in self.settled(self.unacked):
            entry.queue.requeue([entry])
        self.unacked = []
        rig.settle_down()
        rig.check([])
        state = self.state()
        rig.close()
        disk = rig.disk.worst() if self.choice.random() < 0.5 else rig.disk.best()
        found = Rig(disk, rig.definitions.history, now=rig.now, **self.world.options)
        contents = found.contents()
        assert contents.keys() == state.must.keys() - self.deleted.keys()
        assert State(state.must, {}, state.deleted).faults(contents) == []
        found.check([])
        for queue_id, queue in found.store.queues.items():
            for entry in found.ready(queue):
                self._check_redelivered((queue_id, entry.seq), entry)
        return found

    def _check_redelivered(self, place: tuple[int, int], entry: Entry) -> None:
        if place in self.world.delivered:
            assert entry.redelivered, f"{place} was delivered once and says that it was not"
        elif place not in self.world.doubtful:
            assert not entry.redelivered, f"{place} was never delivered and says that it was"


def short(entry: Facts) -> Facts:
    seq, content, delivery_count, expires_at = entry
    return seq, content[:20], delivery_count, expires_at


def declare(rig: Rig, name: str) -> None:
    queue = rig.queue(name, arguments=QUEUES[name])
    if name in SPREAD:
        rig.vhost.bind("spread", queue, "", {})
    rig.vhost.bind("later", queue, name, {})


def new_world(seed: int) -> World:
    choice = random.Random(seed)
    page_bytes = choice.choice([512, 2048, 16_384])
    shared_bytes = choice.choice([0, 5000, 50_000])
    sizes = Sizes(
        choice.choice([4, 8, 12]), choice.choice([4096, 65_536]), choice.choice([2, 4, 8]), page_bytes, shared_bytes
    )
    return World(
        choice, {"segment_size": choice.choice([1 << 12, 1 << 13, 1 << 15]), "sizes": sizes, "apart": seed % 4 != 3}
    )


def first_rig(world: World) -> Rig:
    rig = Rig(SimulatedDisk(makes_room=world.choice.random() < 0.5), **world.options)
    rig.vhost.declare_exchange("spread", "fanout", durable=True)
    rig.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    for name in QUEUES:
        declare(rig, name)
    rig.settle_down()
    return rig


def found_after(disk: SimulatedDisk, history: list[list[Change]], now: int, world: World) -> Rig:
    """Start on what a power cut has left; the power may go again while it starts."""
    if world.choice.random() < 0.3:
        disk.steps_left = world.choice.randrange(8)
        with suppress(OSError):
            Rig(disk, history, now=now, **world.options)
        disk = disk.after(world.choice)
    disk.steps_left = None
    return Rig(disk, history, now=now, **world.options)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The spill is written in pieces, and there are several."""
    monkeypatch.setattr(store_module, "SPILL_PIECE", 600)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_power_cut_everything_promised_is_there_and_nothing_else(seed: int) -> None:
    """SPEC §8.1 and §8.3: a power cut at any step loses nothing confirmed and brings nothing settled back."""
    world = new_world(seed)
    rig = first_rig(world)
    for _ in range(ROUNDS):
        life = Life(rig, world)
        life.declare_missing()
        rig.disk.steps_left = world.choice.randrange(150)
        life.live(OPERATIONS)
        failed = rig.store.failed
        if failed is not None and not rig.disk.cut:
            raise failed
        rig = life.after_clean_end() if failed is None and world.choice.random() < 0.4 else life.after_power_cut()


def test_power_cuts_hit_paging_and_compaction_too() -> None:
    """SPEC §8.4 and §8.5: segments go while all that happens, pages are read, and stubs are given back."""
    world = new_world(0)
    world.options["sizes"] = Sizes(4, 4096, 2, 512)
    rig = first_rig(world)
    life = Life(rig, world)
    paged = stubs = loading = 0
    for _ in range(40):
        life.live(50)
        life.write()
        paged += sum(queue.backlog.pages.count for queue in rig.store.queues.values())
        loading += len([queue for queue in rig.store.queues.values() if queue.backlog.loading is not None])
        stubs += len([entry for entry in life.unacked if is_stub(entry.message)])
    numbers = sorted(rig.store.journal.segments)
    assert numbers[0] > 1
    assert numbers[-1] > numbers[0]
    assert min(rig.store.spill.segments) > SPILL_NUMBER
    assert min(paged, stubs, loading) > 0
    assert rig.now > NOW
