"""Queues with limits, times and priorities, against lists: random commands leave the same messages in the same order."""

from __future__ import annotations

import random

import pytest

from leveret.broker.arguments import queue_settings_of
from leveret.broker.budget import Budget
from leveret.broker.dispatch import push
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.timers import Timers
from leveret.broker.work import Task, Work
from leveret.wire.values import Table

ORIGIN = Origin("", "q", b"")


class Collect(Task):
    """Notes what a queue has dropped, and why."""

    def __init__(self, queue: Queue, found: list[tuple[Message, str]]) -> None:
        self.queue = queue
        self.found = found

    def run(self, budget: Budget) -> bool:
        self.found.extend((entry.message, reason) for entry, reason in self.queue.dead)
        self.queue.dead.clear()
        return True


class Item:
    """A message as the list knows it."""

    def __init__(self, message: Message, seq: int, priority: int, expires_at: int | None) -> None:
        self.message = message
        self.seq = seq
        self.priority = priority
        self.expires_at = expires_at
        self.count = 0

    def place(self) -> tuple[int, int]:
        return -self.priority, self.seq


class Pair:
    """A queue, and the lists it is compared with."""

    def __init__(self, arguments: Table, rng: random.Random) -> None:
        self.rng = rng
        self.now = 1000
        self.work = Work()
        self.timers = Timers()
        self.queue = Queue("q", "queue 'q' in vhost '/'", self.work, arguments, self.timers)
        self.died: list[tuple[Message, str]] = []
        self.queue.dead_letter_task = Collect(self.queue, self.died)
        self.settings = queue_settings_of({**arguments, "x-dead-letter-exchange": "x"}, {}, {})
        # Its messages have no content to write a count into.
        self.settings.counts_deliveries = False
        self.queue.apply(self.settings, self.now)
        self.work.budget.now = self.now
        self.next_seq = 1
        self.ready: list[Item] = []
        self.taken: list[tuple[Entry, Item]] = []
        self.expected: list[tuple[Message, str]] = []

    def accept(self) -> None:
        rng, settings = self.rng, self.settings
        priority, ttl = rng.choice((0, 0, 1, 3, 9)), rng.choice((-1, -1, 0, 5, 20, 50))
        message = new_message(ORIGIN, b"", 14, rng.randrange(10), 10, priority << 24)
        message.ttl_ms = ttl
        full = settings.overflow != "drop-head" and self.over(1, message.body_size)
        assert push(self.queue, message, self.now) is not full
        if full:
            if settings.overflow == "reject-publish-dlx":
                self.expected.append((message, "maxlen"))
            return
        times = [time for time in (ttl, settings.message_ttl_ms) if time is not None and time >= 0]
        item = Item(message, self.next_seq, min(priority, settings.max_priority), self.now + min(times) if times else None)
        self.next_seq += 1
        if times and min(times) == 0:
            self.expected.append((message, "expired"))
        else:
            self.ready.append(item)
        self.trim()

    def take(self) -> None:
        entry = self.queue.take(False)
        if not self.ready:
            assert entry is None
            return
        assert entry is not None
        item = min(self.ready, key=Item.place)
        assert (entry.seq, entry.message, entry.redelivered) == (item.seq, item.message, item.count > 0)
        self.ready.remove(item)
        self.taken.append((entry, item))

    def some_taken(self) -> list[tuple[Entry, Item]]:
        chosen = self.rng.sample(self.taken, self.rng.randint(0, min(4, len(self.taken))))
        self.taken = [pair for pair in self.taken if pair not in chosen]
        return chosen

    def settle(self) -> None:
        for entry, item in self.some_taken():
            if self.rng.random() < 0.5:
                self.queue.settle(entry)
            else:
                self.queue.reject(entry)
                self.expected.append((item.message, "rejected"))

    def requeue(self) -> None:
        chosen = self.some_taken()
        self.queue.requeue([entry for entry, _ in chosen])
        for _, item in chosen:
            item.count += 1
            limit = self.settings.delivery_limit
            if limit is not None and item.count > limit:
                self.expected.append((item.message, "delivery_limit"))
            else:
                self.ready.append(item)
        self.trim()
        self.expire()

    def pass_time(self) -> None:
        self.now += self.rng.choice((1, 5, 20))
        self.expire()

    def purge(self) -> None:
        if self.rng.random() < 0.1:
            assert self.queue.purge() == len(self.ready)
            self.ready = []

    def over(self, count: int, size: int) -> bool:
        settings = self.settings
        if settings.max_length is not None and len(self.ready) + count > settings.max_length:
            return True
        return (
            settings.max_bytes is not None and sum(item.message.body_size for item in self.ready) + size > settings.max_bytes
        )

    def trim(self) -> None:
        while self.settings.overflow == "drop-head" and self.ready and self.over(0, 0):
            first = min(self.ready, key=Item.place)
            self.ready.remove(first)
            expired = first.expires_at is not None and first.expires_at <= self.now
            self.expected.append((first.message, "expired" if expired else "maxlen"))

    def expire(self) -> None:
        self.work.budget.now = self.now
        while not self.timers.run(self.now, 10) or self.work:
            self.work.budget.begin()
            self.work.drain()
        gone = [item for item in self.ready if item.expires_at is not None and item.expires_at <= self.now]
        self.ready = [item for item in self.ready if item not in gone]
        self.expected += [(item.message, "expired") for item in gone]

    def check(self) -> None:
        queue = self.queue
        self.work.budget.begin()
        self.work.drain()
        assert [entry.seq for entry in queue.backlog.front.entries()] == [
            item.seq for item in sorted(self.ready, key=Item.place)
        ]
        assert (queue.ready_count, queue.unacked_count) == (len(self.ready), len(self.taken))
        assert queue.ready_bytes == sum(item.message.body_size for item in self.ready)
        assert queue.unacked_bytes == sum(item.message.body_size for _, item in self.taken)
        assert sorted((id(message), reason) for message, reason in self.died) == sorted(
            (id(message), reason) for message, reason in self.expected
        )


KINDS: list[Table] = [
    {},
    {"x-message-ttl": 30},
    {"x-max-priority": 5},
    {"x-max-priority": 5, "x-message-ttl": 30},
    {"x-max-length": 5, "x-delivery-limit": 2},
    {"x-max-length-bytes": 30, "x-message-ttl": 15},
    {"x-max-length": 6, "x-overflow": "reject-publish"},
    {"x-max-length": 6, "x-max-length-bytes": 30, "x-overflow": "reject-publish-dlx", "x-max-priority": 2},
    {"x-max-length": 8, "x-max-priority": 9, "x-message-ttl": 40, "x-delivery-limit": 1},
]


@pytest.mark.parametrize("arguments", KINDS, ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_queue_does_what_lists_do(arguments: Table, seed: int) -> None:
    rng = random.Random(seed)
    pair = Pair(arguments, rng)
    commands = [pair.accept, pair.accept, pair.accept, pair.take, pair.settle, pair.requeue, pair.pass_time, pair.purge]
    for _ in range(400):
        rng.choice(commands)()
        pair.check()
