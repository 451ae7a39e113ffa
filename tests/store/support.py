"""A broker with a store over a simulated disk, and what its queues hold, read off into dictionaries."""

import random
from pathlib import Path
from typing import Any, cast

from tests.store.simulated_disk import SimulatedDisk

from leveret.broker.broker import Broker
from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry, Message, new_message
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.rewriting import make_origin
from leveret.broker.settings import Settings
from leveret.broker.vhost import VirtualHost
from leveret.store.committer import Committer, Work, carry_out
from leveret.store.definitions import Change, DefinitionsFile
from leveret.store.disk import Disk
from leveret.store.journal import BatchToWrite
from leveret.store.opening import Opened
from leveret.wire.content import PERSISTENT, body_of, check_properties, frame_content
from leveret.wire.properties import Properties, encode_properties

NOW = 1_700_000_000_000

Contents = dict[int, list[tuple[int, bytes, int, int]]]
"""By queue's id: seq, body, delivery count and time of expiry of each stored message."""


def letter(body: bytes, routing_key: str = "q", exchange: str = "", **properties: Any) -> Message:
    """A message as a channel makes it; persistent unless something else is said."""
    properties.setdefault("delivery_mode", 2)
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties(Properties(**properties))
    content = frame_content(header, body, max(len(body), 1))
    flags = check_properties(content, len(header))
    message = new_message(make_origin(exchange, routing_key), content, len(header), len(body), max(len(body), 1), flags)
    if "expiration" in properties:
        message.ttl_ms = int(properties["expiration"])
    return message


def body(message: Message) -> bytes:
    return body_of(message.content, message.header_size, message.body_size, message.frame_size)


class Definitions(DefinitionsFile):
    """SQLite in memory; `history` is what was carried out. Its changes are safe when they are done."""

    def __init__(self, disk: SimulatedDisk, history: list[list[Change]] | None = None) -> None:
        self._disk: SimulatedDisk | None = None
        self.history: list[list[Change]] = []
        super().__init__(cast(Path, MemoryPath()))
        for changes in history or []:
            self.change(changes)
        self._disk = disk

    def change(self, changes: list[Change]) -> None:
        if self._disk is not None:
            cut = self._disk.step("change")
            if cut and self._disk.steps_left is not None and random.Random(len(self.history)).random() < 0.5:
                raise OSError("no power")
        super().change(changes)
        self.history.append(changes)


class MemoryPath:
    def __truediv__(self, name: str) -> str:
        return ":memory:"


class StandIn(Committer):
    """A committer without a thread: does what it is given at once, or when it is told to.

    `durable` is the last batch of the journal for which sync has returned.
    """

    def __init__(self, definitions: DefinitionsFile, held: bool = False, sync: bool = True) -> None:
        self.definitions = definitions
        self.held = held
        self.sync = sync
        self.kept: list[Work] = []
        self.failed: BaseException | None = None
        self.durable = 0

    def put(self, work: Work) -> None:
        self.kept.append(work)
        if not self.held:
            self.run()

    def run(self, count: int = -1) -> None:
        """Do what was kept, or so much of it."""
        while self.kept and count:
            work = self.kept.pop(0)
            self._carry_out(work)
            work.done(self.failed)
            count -= 1

    def _carry_out(self, work: Work) -> None:
        if self.failed is not None:
            return
        try:
            carry_out(work, self.definitions, self.sync)
        except OSError as error:
            self.failed = error
            return
        if isinstance(work.subject, BatchToWrite) and work.sync:
            self.durable = work.subject.number

    def stop(self) -> None:
        self.run()


class Rig:
    """A broker, its store and the disk below; `failures` are what the store has said it failed for."""

    def __init__(
        self,
        disk: SimulatedDisk | Disk | None = None,
        history: list[list[Change]] | None = None,
        *,
        held: bool = False,
        segment_size: int = 1 << 16,
        now: int = NOW,
        sync: bool = True,
        sizes: Sizes | None = None,
    ) -> None:
        settings = Settings()
        settings.sizes = sizes or settings.sizes
        self.disk = cast(SimulatedDisk, disk or SimulatedDisk())
        self.definitions = Definitions(self.disk, history)
        self.opened = Opened(cast(Disk, self.disk), self.definitions, settings, now, segment_size)
        self.store = self.opened.store
        self.broker: Broker = self.opened.broker
        self.synced_calls = 0
        self.failures: list[BaseException] = []
        self.committer = StandIn(self.definitions, held, sync)
        self.store.open(self.committer, self.committer, self._on_synced, self.failures.append)
        if self.opened.fresh:
            self.broker.add_vhost("/")
        else:
            # Brings back what is paged out.
            self.store.flush()
            self.committer.run()

    def _on_synced(self) -> None:
        self.synced_calls += 1

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    @property
    def now(self) -> int:
        return self.broker.work.now

    # What a server does

    def turn(self) -> None:
        """The end of a turn: all that is left to do, and what has gathered to the committer."""
        self.drain()
        self.store.flush()

    def drain(self) -> None:
        work = self.broker.work
        work.begin()
        while not work.drain():
            work.begin()

    def settle_down(self) -> None:
        """Turns until nothing is left to do or to write."""
        while True:
            self.turn()
            self.committer.run()
            if not self.broker.work and not self.committer.kept and self.store.position() <= self.store.synced:
                return
            if self.store.failed is not None:
                return

    def later(self, now: int) -> None:
        """Let it be that time, and do what is due."""
        work = self.broker.work
        work.now = now
        work.begin()
        while not self.broker.timers.run(now, 1000) or work:
            work.begin()
            work.drain()

    def publish(self, message: Message) -> None:
        exchange = self.vhost.exchange(message.origin.exchange)
        self.vhost.publish(exchange, message, self.now)

    def queue(self, name: str, **options: Any) -> Queue:
        options.setdefault("durable", True)
        return self.vhost.declare_queue(name, **options)

    def take(self, name: str) -> Entry:
        entry = self.vhost.queues[name].take(False)
        assert entry is not None
        return entry

    # What is there

    def bodies(self, name: str) -> list[bytes]:
        """The ready messages of a queue, in order."""
        return [body(entry.message) for entry in self.vhost.queues[name].chain.entries()]

    def contents(self) -> Contents:
        """What the durable queues have ready, on its way to dead letters, and nothing else."""
        found: Contents = {}
        for queue_id, queue in self.store.queues.items():
            assert not queue.paged
            found[queue_id] = [facts(entry) for entry in queue.chain.entries() if entry.message.flags & PERSISTENT]
            for entry, reason in queue.dead:
                if entry.message.flags & PERSISTENT:
                    seq, content, count, expires_at = facts(entry)
                    # What was given back once too often is about to go, and that is not said before it goes.
                    found[queue_id].append((seq, content, count - (reason == "delivery_limit"), expires_at))
        return found

    # Ends

    def close(self) -> None:
        """A clean end."""
        self.drain()
        self.committer.run()
        self.store.finish(self.definitions)
        self.definitions.change([("INSERT OR REPLACE INTO fact VALUES (?, ?)", ("clean", "yes"))])

    def again(self, **options: Any) -> "Rig":
        """Another start on what is there after the end of the process."""
        return Rig(self.disk.best(), self.definitions.history, **options)

    def after_power_cut(self, choice: random.Random, **options: Any) -> "Rig":
        """Another start on what a power cut may leave."""
        return Rig(self.disk.after(choice), self.definitions.history, **options)

    def restarted(self, **options: Any) -> "Rig":
        """A clean end, and another start."""
        self.close()
        return self.again(**options)


def facts(entry: Entry) -> tuple[int, bytes, int, int]:
    return entry.seq, body(entry.message), entry.delivery_count, entry.expires_at


class Taker(Consumer):
    """A consumer without acknowledgement that keeps what it was given."""

    def __init__(self, no_ack: bool = True) -> None:
        Consumer.__init__(self, "taker", no_ack)
        self.taken: list[Entry] = []

    def deliver(self, entry: Entry) -> None:
        self.taken.append(entry)

    def cancelled(self) -> None:
        pass
