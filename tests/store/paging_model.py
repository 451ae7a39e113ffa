"""Clients of a few queues, and a model of what these have: what is delivered is what was published, in order and once.

The model knows each queue's messages by seq, and hears of nothing but what clients do and what they get; it does not look
at the broker. Windows, pages and segments are tiny, transient messages are spilt by a thread of its own, compaction moves
what is paged out, and consumers come and go. After a crash the queues have what the model had at the last synced batch, or
at the one behind it; then the next life goes on with that.
"""

import random
from dataclasses import dataclass, replace
from itertools import count

import pytest
from tests.store.support import Rig, body, letter, read_octets

from leveret.broker.consumer import Consumer, Window
from leveret.broker.deduplication import HEADER, key_of
from leveret.broker.dispatch import cancel, dispatch, resume, subscribe
from leveret.broker.message import Entry, is_stub
from leveret.broker.open_page import OpenPage
from leveret.broker.queue import Queue
from leveret.broker.relief import Relief
from leveret.store.ledger import ledger_of
from leveret.wire.values import Table

LIMIT = 40
PRIORITY_MAX = 3
QUEUES: dict[str, Table] = {
    "mortal": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain"},
    "plain": {},
    "ranked": {"x-max-priority": PRIORITY_MAX},
    "short": {"x-max-length": LIMIT},
    "single": {"x-message-deduplication": True},
}

Snapshot = dict[int, dict[int, tuple[bytes, int]]]
"""By queue's id and seq: body and delivery count of what is stored."""


@dataclass
class Known:
    """What the model knows of a message."""

    body: bytes
    persistent: bool
    priority: int = 0
    key: bytes | None = None
    delivery_count: int = 0
    redelivered: bool = False
    ready: bool = True


class Eater(Consumer):
    """A consumer that acknowledges when the test does; it may take messages as the octets they are."""

    def __init__(self, life: "Life", prefetch_count: int, octets: bool) -> None:
        Consumer.__init__(self, "eater", False, False, Window(prefetch_count))
        self._life = life
        self._octets = octets

    def takes_octets(self) -> bool:
        return self._octets

    def deliver(self, entry: Entry) -> None:
        self._life.delivered(self.queue, entry)

    def run_end(self, page: OpenPage, limit: int) -> int:
        return min(page.count, page.at + limit)

    def deliver_octets(self, page: OpenPage, first: int, end: int, entries: list[Entry]) -> None:
        for index, entry in zip(range(first, end), entries, strict=True):
            self._life.octets_count += 1
            self._life.delivered(self.queue, read_octets(page, index))
            self._life.unacked[-1] = entry

    def cancelled(self) -> None:
        self._life.eaters.pop(self.queue.name, None)


class Drinker(Consumer):
    """A consumer that does not acknowledge, takes messages as the octets they are, and so many of them at a time."""

    def __init__(self, life: "Life", thirst: int) -> None:
        Consumer.__init__(self, "drinker", True)
        self._life = life
        self._thirst = self._left = thirst

    def drink(self) -> None:
        self._left = self._thirst

    def can_take(self, size: int) -> bool:
        return self._left > 0

    def takes_octets(self) -> bool:
        return True

    def deliver(self, entry: Entry) -> None:
        self._left -= 1
        self._life.delivered(self.queue, entry)
        self._life.forget_last(self.queue)

    def run_end(self, page: OpenPage, limit: int) -> int:
        return min(page.count, page.at + min(limit, self._left))

    def deliver_octets(self, page: OpenPage, first: int, end: int, entries: list[Entry]) -> None:
        for index in range(first, end):
            self._life.octets_count += 1
            self.deliver(read_octets(page, index))

    def cancelled(self) -> None:
        self._life.eaters.pop(self.queue.name, None)


class Life:
    """One broker between two starts, and the model of it."""

    def __init__(self, rig: Rig, choice: random.Random, numbers: "count[int]") -> None:
        self.rig = rig
        self.choice = choice
        self.numbers = numbers
        self.unacked: list[Entry] = []
        self.eaters: dict[str, Eater | Drinker] = {}
        self.octets_count = 0
        self.model: dict[int, dict[int, Known]] = {}
        rig.committer.held = True
        rig.committer.durable = rig.store.synced
        for queue_id, queue in rig.store.queues.items():
            places = self.model[queue_id] = {}
            for entry in rig.ready(queue):
                priority, key = entry.message.flags >> 24, key_of(entry.message)
                known = Known(body(entry.message), True, priority, key, entry.delivery_count, bool(entry.redelivered))
                places[entry.seq] = known
        self.states: dict[int, Snapshot] = {rig.store.synced: self.snapshot()}

    def known(self, queue: Queue) -> dict[int, Known]:
        return self.model.get(ledger_of(queue).queue_id, {})

    def snapshot(self) -> Snapshot:
        return {
            queue_id: {seq: (known.body, known.delivery_count) for seq, known in places.items() if known.persistent}
            for queue_id, places in self.model.items()
        }

    def flush(self) -> None:
        self.rig.broker.storage.write_places()
        self.trim()
        state, number = self.snapshot(), self.rig.store.journal.batch
        self.rig.check(self.unacked)
        self.rig.store.flush()
        if self.rig.store.journal.batch > number:
            self.states[number] = state

    # What clients get

    def delivered(self, queue: Queue, entry: Entry) -> None:
        places = self.known(queue)
        known = places[entry.seq]
        mine = (-known.priority, entry.seq) if queue.name == "ranked" else (0, entry.seq)
        places_before = [
            (seq, (-other.priority, seq) if queue.name == "ranked" else (0, seq))
            for seq, other in places.items()
            if other.ready
        ]
        earlier = [seq for seq, place in places_before if place < mine]
        if queue.name == "short":
            # It has dropped them.
            for seq in earlier:
                del places[seq]
        else:
            assert earlier == []
        assert known.ready, f"{queue.name}: {entry.seq} was delivered twice"
        assert body(entry.message) == known.body
        assert bool(entry.redelivered) == known.redelivered
        assert entry.delivery_count == known.delivery_count
        known.ready = False
        self.unacked.append(entry)

    def forget_last(self, queue: Queue) -> None:
        """What was delivered last needs no acknowledgement."""
        del self.known(queue)[self.unacked.pop().seq]

    def trim(self) -> None:
        """The bounded queue drops its oldest: as many as are not there any more. The others have what they should."""
        for queue in self.rig.vhost.queues.values():
            places = self.known(queue)
            ready = sorted(seq for seq, known in places.items() if known.ready)
            dropped = ready[: len(ready) - queue.ready_count]
            assert queue.name == "short" or not dropped
            assert len(ready) >= queue.ready_count
            for seq in dropped:
                del places[seq]

    # What they do

    def live(self, operations: int) -> None:
        ways = [
            (30, self.publish),
            (12, self.get),
            (5, self.eat),
            (12, self.acknowledge),
            (8, self.give_back),
            (4, self.reject),
            (1, self.purge),
            (1, self.delete),
            (2, self.relieve),
            (16, self.flush),
            (16, self.write),
            (12, self.spill),
            (10, self.drain_some),
            (3, self.rig.drain),
        ]
        weights = [weight for weight, _ in ways]
        for _ in range(operations):
            if self.rig.disk.cut or self.rig.store.failed is not None:
                return
            self.rig.broker.work.budget.begin()
            self.choice.choices(ways, weights)[0][1]()
            self.trim()

    def publish(self) -> None:
        for _ in range(self.choice.randint(1, 10)):
            persistent = self.choice.random() < 0.6
            content = b"%d:" % next(self.numbers) + b"x" * self.choice.choice([0, 10, 100, 400, 5000])
            names = list(QUEUES) if self.choice.random() < 0.25 else [self.choice.choice(list(QUEUES))]
            priority = self.choice.randint(0, PRIORITY_MAX)
            exchange = "" if len(names) == 1 else "fan"
            said = {"headers": {HEADER: self.choice.randrange(60)}} if self.choice.random() < 0.5 else {}
            delivery_mode = 2 if persistent else 1
            message = letter(content, names[0], exchange, delivery_mode=delivery_mode, priority=priority, **said)
            known = Known(content, persistent, priority, key_of(message))
            for name in names:
                queue = self.rig.vhost.queues[name]
                if name != "single" or not self.has_key(queue, known.key):
                    self.known(queue)[queue.next_seq] = replace(known)
            self.rig.publish(message)

    def has_key(self, queue: Queue, key: bytes | None) -> bool:
        """Whether a queue that tells messages apart has one like this."""
        return key is not None and any(known.key == key for known in self.known(queue).values())

    def relieve(self) -> None:
        """Memory is short: all queues leave what is ready to storage."""
        relief = Relief(self.rig.broker, self.choice.choice([0, 3000]), 1 << 40)
        while not relief.run(self.rig.broker.work.budget):
            self.rig.broker.work.budget.begin()

    def queue(self) -> Queue:
        return self.rig.vhost.queues[self.choice.choice(list(QUEUES))]

    def get(self) -> None:
        queue = self.queue()
        for _ in range(self.choice.randint(1, 12) if queue.name not in self.eaters else 0):
            no_ack = self.choice.random() < 0.2
            entry = queue.take(no_ack)
            if entry is None:
                return
            self.delivered(queue, entry)
            if no_ack:
                self.forget_last(queue)

    def eat(self) -> None:
        queue = self.queue()
        eater = self.eaters.pop(queue.name, None)
        if eater is not None:
            cancel(queue, eater)
        else:
            if self.choice.random() < 0.4:
                eater = Drinker(self, self.choice.choice([3, 30]))
            else:
                eater = Eater(self, self.choice.choice([0, 5, 30]), self.choice.random() < 0.7)
            self.eaters[queue.name] = eater
            subscribe(queue, eater)

    def some_unacked(self) -> list[Entry]:
        number = self.choice.randint(0, len(self.unacked))
        if self.choice.random() < 0.4:
            self.choice.shuffle(self.unacked)
        taken, self.unacked = self.unacked[:number], self.unacked[number:]
        return taken

    def resume(self) -> None:
        for name, eater in list(self.eaters.items()):
            if isinstance(eater, Drinker):
                eater.drink()
            resume(self.rig.vhost.queues[name], eater)

    def acknowledge(self) -> None:
        for entry in self.some_unacked():
            self.known(entry.queue).pop(entry.seq, None)
            entry.queue.settle(entry)
        self.resume()

    def give_back(self) -> None:
        by_queue: dict[Queue, list[Entry]] = {}
        for entry in self.some_unacked():
            by_queue.setdefault(entry.queue, []).append(entry)
            known = self.known(entry.queue).get(entry.seq)
            if known is not None:
                known.delivery_count += 1
                known.redelivered = known.ready = True
        for queue, entries in by_queue.items():
            queue.requeue(entries)
        for queue in list(self.rig.vhost.queues.values()):
            dispatch(queue)
        self.resume()

    def reject(self) -> None:
        letters = self.rig.vhost.queues["plain"]
        seq = letters.next_seq
        for entry in self.some_unacked():
            queue = entry.queue
            known = self.known(queue).pop(entry.seq, None)
            if is_stub(entry.message):
                # It would be read first, and be nowhere meanwhile; the power cut test has that.
                queue.settle(entry)
                continue
            queue.reject(entry)
            if known is not None and queue.name == "mortal":
                self.known(letters)[seq] = replace(known, delivery_count=0, redelivered=False, ready=True)
                seq += 1
        self.rig.drain()

    def purge(self) -> None:
        queue = self.queue()
        queue.purge()
        for seq in [seq for seq, known in self.known(queue).items() if known.ready]:
            del self.known(queue)[seq]
        # What is told of each message is between two states until all is told.
        for _ in range(100):
            if queue.discard is None or queue.discard.done:
                return
            self.rig.drain()
            self.rig.spiller.run()
            self.rig.committer.run()
            self.flush()
        pytest.fail("a purge does not come to its end")

    def delete(self) -> None:
        queue = self.queue()
        self.rig.broker.storage.write_places()
        self.trim()
        state, number = self.snapshot(), self.rig.store.journal.batch
        del self.model[ledger_of(queue).queue_id]
        self.rig.vhost.remove_queue(queue)
        if self.rig.store.journal.batch > number:
            # What has become of its messages is a batch of its own, before it goes.
            self.states[number] = state
        self.rig.drain()
        declare(self.rig, queue.name)
        self.model[ledger_of(self.rig.vhost.queues[queue.name]).queue_id] = {}

    def write(self) -> None:
        self.rig.committer.run(self.choice.randint(1, 4))

    def spill(self) -> None:
        self.rig.spiller.run(self.choice.randint(1, 3))

    def drain_some(self) -> None:
        self.rig.broker.work.budget.left = self.choice.randint(1, 60)
        self.rig.broker.work.drain()

    # After a crash

    def check(self, found: Rig) -> None:
        """Each queue has what it had at the last synced batch, or at the one behind it."""
        stored = {queue_id: everything(found, queue) for queue_id, queue in found.store.queues.items()}
        durable = self.rig.committer.durable
        states = [self.states[number] for number in (durable, durable + 1) if number in self.states]
        wrong = [differences(stored, state, found) for state in states]
        assert not all(wrong), min(wrong, key=lambda lines: len(str(lines)))


def differences(stored: Snapshot, state: Snapshot, found: Rig) -> list[str]:
    """What is not as it was; queues that were deleted, or made since, are the power cut test's matter."""
    wrong = []
    for queue_id in stored.keys() & state.keys():
        here, there = stored[queue_id], bounded(state, queue_id, found)
        seqs = [seq for seq in sorted(here.keys() | there.keys()) if here.get(seq) != there.get(seq)]
        if seqs:
            wrong.append(f"queue {queue_id}: of {seqs}, {sorted(seqs & here.keys())} are there")
    return wrong


def bounded(state: Snapshot, queue_id: int, found: Rig) -> dict[int, tuple[bytes, int]]:
    """What a queue had; of the bounded one what fits now that nothing is unacknowledged."""
    places = state.get(queue_id, {})
    seqs = sorted(places)[-LIMIT:] if found.store.queues[queue_id].name == "short" else places
    return {seq: places[seq] for seq in seqs}


def everything(rig: Rig, queue: Queue) -> dict[int, tuple[bytes, int]]:
    """All that a queue has, by taking it: brought back page by page."""
    found: dict[int, tuple[bytes, int]] = {}
    while queue.ready_count:
        entry = queue.take(False)
        if entry is None:
            # It is being brought back, or was while it was asked for.
            rig.settle_down()
            continue
        assert entry.seq > max(found, default=0) or queue.settings.max_priority
        assert entry.redelivered
        # Now: it may be a stub soon.
        found[entry.seq] = body(entry.message), entry.delivery_count
    return found


def declare(rig: Rig, name: str) -> None:
    rig.vhost.bind("fan", rig.queue(name, arguments=QUEUES[name]), "", {})
