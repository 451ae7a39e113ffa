"""A broker with a store over a simulated disk, and what its queues hold, read off into dictionaries."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from tests.store.simulated_disk import SimulatedDisk

from leveret.broker.broker import Broker
from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry, Message, is_stub, new_entry, new_message
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import Page, Sizes
from leveret.broker.queue import Queue
from leveret.broker.rewrite import make_origin
from leveret.broker.settings import Settings
from leveret.broker.storage import Traffic
from leveret.broker.vhost import VirtualHost
from leveret.store.committer import Committer, Job, carry_out
from leveret.store.disk import Disk
from leveret.store.journal import Journal
from leveret.store.layout import PLACE_SIZE, SPILL_NUMBER
from leveret.store.opened import Opened
from leveret.store.records import read_place
from leveret.store.rows import Change, DefinitionsFile
from leveret.wire.content import PERSISTENT, body_of, check_properties, frame_content
from leveret.wire.properties import Properties, encode_properties

NOW = 1_700_000_000_000
# With more messages than this the invariants are not looked at in each turn: it would take too long.
CHECKED_MAX = 3000

Facts = tuple[int, bytes, int, int]
"""Seq, body, delivery count and time of expiry of a stored message."""

Contents = dict[int, list[Facts]]
"""What the queues have, by their ids."""

Record = tuple[int, int, int, int, bool]
"""What a page knows of a message: seq, location, body size, delivery count, redelivered."""

# Its content is only in storage.
STUB = new_message(make_origin("", ""), b"", 0, 0, 1, 0)


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


class RealDisk(Disk):
    """A folder in place of a simulated disk: the power stays, and definitions are there too."""

    steps_left: int | None = None
    cut = False

    def step(self, what: str) -> bool:
        return False


class Definitions(DefinitionsFile):
    """SQLite in memory; `history` is what was carried out. Its changes are safe when they are done."""

    def __init__(self, disk: SimulatedDisk | RealDisk, history: list[list[Change]] | None = None) -> None:
        self._disk: SimulatedDisk | RealDisk | None = None
        self.history: list[list[Change]] = []
        super().__init__(disk.folder if isinstance(disk, RealDisk) else cast(Path, MemoryPath()))
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

    `durable` is the last batch of the journal for which sync has returned. On a `quick` disk some are carried out by the
    loop itself: `done_now` are they.
    """

    def __init__(self, definitions: DefinitionsFile, held: bool = False, sync: bool = True) -> None:
        self.definitions = definitions
        self.held = held
        self.sync = sync
        self.kept: list[Job] = []
        self.traffic = Traffic()
        self.failed: BaseException | None = None
        self.durable = 0
        self.quick = False
        self.done_now: list[Job] = []

    def is_quick(self) -> bool:
        return self.quick and not self.kept

    def carry_out_now(self, job: Job) -> None:
        self.done_now.append(job)
        self._carry_out(job)
        job.done(self.failed)

    def put(self, work: Job) -> None:
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

    def _carry_out(self, work: Job) -> None:
        if self.failed is not None:
            return
        try:
            carry_out(work, self.definitions, self.sync, self.traffic)
        except Exception as error:  # as the thread does it
            self.failed = error
            return
        number = getattr(work.subject, "number", None)
        if number is not None and work.sync:
            self.durable = number

    def stop(self) -> None:
        self.run()


class Rig:
    """A broker, its store and the disk below; `failures` are what the store has said it failed for.

    With `apart` the spill has a committer of its own, which is held: `spiller`. Else both are one. Without a disk it has a
    new one: suites of the journal run on a simulated folder, and on a stream.
    """

    new_disk: Callable[[], Any] = SimulatedDisk

    def __init__(
        self,
        disk: SimulatedDisk | RealDisk | None = None,
        history: list[list[Change]] | None = None,
        *,
        held: bool = False,
        segment_size: int = 1 << 16,
        now: int = NOW,
        sync: bool = True,
        sizes: Sizes | None = None,
        apart: bool = False,
    ) -> None:
        settings = Settings()
        # Each broker lends from a shared window of its own.
        settings.sizes = settings.sizes if sizes is None else same_sizes(sizes)
        self.disk = cast(SimulatedDisk, disk or Rig.new_disk())
        self.definitions = Definitions(self.disk, history)
        self.opened = Opened(cast(Disk, self.disk), self.definitions, settings, now, segment_size)
        self.store = self.opened.store
        self.broker: Broker = self.opened.broker
        self.progress_calls = 0
        self.failures: list[BaseException] = []
        self.committer = StandIn(self.definitions, held, sync)
        self.spiller = StandIn(self.definitions, True, sync) if apart else self.committer
        self.opened._committers = [self.committer, self.spiller]
        self.store.open(self.committer, self.spiller, self._on_progress, self.failures.append)
        if self.opened.fresh:
            self.broker.add_vhost("/")
        else:
            # Brings back what is paged out.
            self.store.flush()
            self.committer.run()

    def _on_progress(self) -> None:
        self.progress_calls += 1

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    @property
    def now(self) -> int:
        return self.broker.work.budget.now

    # What a server does

    def turn(self) -> None:
        """The end of a turn: all that is left to do, and what has gathered to the committer."""
        self.drain()
        self.flush()

    def flush(self) -> None:
        """What has gathered goes to the committer."""
        if sum(queue.ready_count for queue in self.queues()) <= CHECKED_MAX:
            self.check()
        self.store.flush()

    def drain(self) -> None:
        work = self.broker.work
        work.budget.begin()
        while not work.drain():
            work.budget.begin()

    def settle_down(self) -> None:
        """Turns until nothing is left to do or to write."""
        while True:
            self.turn()
            self.spiller.run()
            self.committer.run()
            busy = self.broker.work or self.committer.kept or self.spiller.kept
            if not busy and self.store.position() <= self.store.synced:
                return
            if self.store.failed is not None:
                return

    def later(self, now: int) -> None:
        """Let it be that time, and do what is due."""
        work = self.broker.work
        work.budget.now = now
        work.budget.begin()
        while not self.broker.timers.run(now, 1000) or work:
            work.budget.begin()
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

    def queues(self) -> list[Queue]:
        """All queues, hidden ones too."""
        found = dict.fromkeys(self.store.queues.values())
        for vhost in self.broker.vhosts.values():
            found.update(dict.fromkeys([*vhost.queues.values(), *vhost.hidden]))
        return list(found)

    def bodies(self, name: str) -> list[bytes]:
        """The ready messages of a queue, in order."""
        return [body(entry.message) for entry in self.ready(self.vhost.queues[name])]

    def ready(self, queue: Queue) -> list[Entry]:
        """The ready messages of a queue, in order, with their content; what is paged out or a stub is left so."""
        found = [self.whole(entry) for entry in [*queue.backlog.front.entries(), *opened_entries(queue)]]
        found += [self._paged_out(record) for record in records_of(queue)]
        return found + behind(queue)

    def whole(self, entry: Entry) -> Entry:
        """An entry with its content: a copy, if it is a stub."""
        if not is_stub(entry.message):
            return entry
        found = new_entry(self.store.fetch(entry), entry.seq)
        found.location, found.expires_at = entry.location, entry.expires_at
        found.delivery_count, found.redelivered = entry.delivery_count, entry.redelivered
        return found

    def _paged_out(self, record: Record) -> Entry:
        seq, location, _, delivery_count, redelivered = record
        stub = new_entry(STUB, seq)
        stub.location = location
        stub.delivery_count, stub.redelivered = delivery_count, redelivered
        log = self._log(location)
        segment, offset = log.place_of(location)
        place = read_place(log.read(segment, offset, PLACE_SIZE), 0)
        assert place.seq == seq
        stub.expires_at = place.expires_at
        return self.whole(stub)

    def _log(self, location: int) -> Journal:
        return self.store.spill if location >> 32 >= SPILL_NUMBER else self.store.journal

    def contents(self) -> Contents:
        """What the durable queues have ready, on its way to dead letters, and nothing else."""
        found: Contents = {}
        for queue_id, queue in self.store.queues.items():
            found[queue_id] = [facts(entry) for entry in self.ready(queue) if entry.message.flags & PERSISTENT]
            found[queue_id] += self.dying(queue)
        return found

    def dying(self, queue: Queue) -> list[Facts]:
        """What of a queue's is on its way to dead letters."""
        found = []
        for entry, reason in queue.dead:
            if entry.message.flags & PERSISTENT:
                # Of one that was dropped from a page only storage knows when it was to expire.
                record = (entry.seq, entry.location, entry.message.body_size, entry.delivery_count, entry.redelivered)
                seq, content, count, expires_at = facts(self._paged_out(record) if is_stub(entry.message) else entry)
                # What was given back once too often is about to go, and that is not said before it goes.
                found.append((seq, content, count - (reason == "delivery_limit"), expires_at))
        return found

    # What must always be so

    def check(self, unacked: Iterable[Entry] | None = None) -> None:
        """Look at the invariants; given all that is unacknowledged, also whether storage has that and nothing else."""
        self.broker.storage.write_places()
        held: dict[int, int] = {}
        for queue in self.queues():
            check_counts(queue)
            entries = [*in_memory(queue), *(entry for entry, _ in queue.dead)]
            self._check_placed(queue, entries)
            self._hold(held, [(entry.location, entry.message.body_size) for entry in entries if entry.location])
            self._hold(held, self._check_pages(queue))
        for entry in unacked or []:
            self._check_placed(entry.queue, [entry])
            if entry.location:
                self._hold(held, [(entry.location, entry.message.body_size)])
        lent = sum(queue.backlog.granted for queue in self.queues())
        assert lent == self.store.sizes.shared.used <= self.store.sizes.shared.limit
        self._check_live(list(held))
        if unacked is not None and self._at_rest():
            self._check_ledgers(list(unacked))
            for log in (self.store.journal, self.store.spill):
                bodies = [size for location, size in held.items() if self._log(location) is log]
                live = sum(segment.live_count for segment in log.segments.values())
                assert live == len(bodies), f"{live} places are live where {len(bodies)} are held, in {sorted(log.segments)}"
                size = sum(segment.live_body_bytes for segment in log.segments.values())
                assert size == sum(bodies), f"{size} octets are live where {sum(bodies)} are held"

    def _hold(self, held: dict[int, int], places: list[tuple[int, int]]) -> None:
        """Take note of these locations and bodies: each belongs to one."""
        for location, size in places:
            assert location not in held
            held[location] = size

    def _check_ledgers(self, unacked: list[Entry]) -> None:
        """What a ledger counts is what its queue has in the journal."""
        for queue in self.queues():
            if queue.ledger is None:
                continue
            entries = [*in_memory(queue), *(entry for entry, _ in queue.dead)]
            entries += [entry for entry in unacked if entry.queue is queue]
            sizes = [(entry.location, entry.message.body_size) for entry in entries if entry.location]
            sizes += [(record[1], record[2]) for record in records_of(queue) if record[1]]
            stored = [size for location, size in sizes if self._log(location) is self.store.journal]
            assert (queue.ledger.live_count, queue.ledger.live_bytes) == (len(stored), sum(stored)), queue.title

    def _check_placed(self, queue: Queue, entries: list[Entry]) -> None:
        """What is persistent in a durable queue is in the journal, what is a stub is somewhere."""
        for entry in entries:
            if queue.ledger is not None and entry.message.flags & PERSISTENT:
                assert entry.location, f"{queue.name}: message {entry.seq} has no place in the journal"
                assert self._log(entry.location) is self.store.journal, f"{queue.name}: message {entry.seq} is spilt"
            else:
                assert entry.location or not is_stub(entry.message)
                assert not entry.location or self._log(entry.location) is self.store.spill

    def _check_pages(self, queue: Queue) -> list[tuple[int, int]]:
        """The same of what is paged out; where it is, and how long its body is."""
        found = []
        for record in records_of(queue):
            entry = self._paged_out(record)
            assert entry.message.body_size == record[2]
            self._check_placed(queue, [entry])
            found.append((entry.location, record[2]))
        return found

    def _check_live(self, held: list[int]) -> None:
        """Nothing that is held has been given free, and nothing is held twice."""
        places = set()
        for location in held:
            segment, offset = self._log(location).place_of(location)
            assert not segment.is_dead(offset), f"{segment.name}: the place at {offset} is dead, and somebody has it"
            places.add(segment.number << 32 | offset)
        assert len(places) == len(held)

    def _at_rest(self) -> bool:
        """Whether nobody has anything left to do that gives places free."""
        store = self.store
        return not (self.broker.work or self.committer.kept or self.spiller.kept or store._readings or store.open_groups)

    # Ends

    def close(self) -> None:
        """A clean end."""
        self.drain()
        self.opened.close()
        if self.store.failed is not None:
            raise self.store.failed

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


def same_sizes(sizes: Sizes) -> Sizes:
    return Sizes(sizes.window_count, sizes.window_bytes, sizes.page_count, sizes.page_bytes, sizes.shared.limit)


def read_octets(page: OpenPage, index: int) -> Entry:
    """A message of an open page, as whoever takes the octets would see it."""
    start = page.content_at(index)
    content = page.data[start : start + page.content_size(index)]
    sizes = (page.header_size(index), page.body_size(index), page.frame_size(index))
    return new_entry(new_message(page.origin(index), content, *sizes, page.flags(index)), page.seq(index))


def opened_entries(queue: Queue) -> list[Entry]:
    """What was read and is octets still; the location is where storage has it."""
    found = []
    for page in queue.backlog.opened:
        for index in range(page.at, page.count):
            entry = read_octets(page, index)
            entry.location = page.location(index)
            found.append(entry)
    return found


def in_memory(queue: Queue) -> list[Entry]:
    """What is ready and not in pages, in order."""
    return [*queue.backlog.front.entries(), *opened_entries(queue), *behind(queue)]


def behind(queue: Queue) -> list[Entry]:
    """What is in memory behind the pages."""
    return [] if queue.backlog.back is None else queue.backlog.back.entries()


def records_of(queue: Queue) -> list[Record]:
    """What is paged out, in order: of the page that is being read too."""
    found: list[Record] = []
    page = queue.backlog.loading
    if isinstance(page, Page):
        for at in range(page.count):
            redelivered = page.redelivered(at)
            found.append((page.seq(at), page.location(at), page.body_size(at), page.delivery_count(at), redelivered))
    # What has left a page from its middle has no location.
    found = [record for record in found if record[1]]
    return found + queue.backlog.pages.span(0, queue.backlog.pages.count)


def check_counts(queue: Queue) -> None:
    """What a queue says it has is what it has, each once and in order."""
    front, back, records = [*queue.backlog.front.entries(), *opened_entries(queue)], behind(queue), records_of(queue)
    sizes = [entry.message.body_size for entry in front] + [record[2] for record in records]
    back_sizes = [entry.message.body_size for entry in back]
    assert queue.ready_count == len(sizes) + len(back_sizes)
    assert queue.ready_bytes == sum(sizes) + sum(back_sizes)
    assert (queue.backlog.back_count, queue.backlog.back_bytes) == (len(back), sum(back_sizes))
    paged = queue.backlog.pages.span(0, len(records))
    assert (queue.backlog.pages.count, queue.backlog.pages.body_bytes) == (len(paged), sum(record[2] for record in paged))
    assert queue.backlog.stub_bytes == sum(entry.message.body_size for entry in front if is_stub(entry.message))
    assert not any(is_stub(entry.message) for entry in back)
    assert queue.unacked_count >= 0
    assert queue.unacked_bytes >= 0
    assert queue.backlog.paged or not (records or back)
    seqs = [*(entry.seq for entry in front), *(record[0] for record in records), *(entry.seq for entry in back)]
    assert len(set(seqs)) == len(seqs)
    # What a quorum queue is given back stands as it came back.
    assert queue.settings.max_priority or queue.settings.quorum or seqs == sorted(seqs)


def facts(entry: Entry) -> Facts:
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
