"""Data folders to be damaged: brokers with two tenants, what their queues must have, and what each octet of a file says.

The main file of the definitions is older than what was changed last: there `guest` and `mallory` are still users, and the
queue `old` is. That they are gone is only in SQLite's write-ahead log, when a broker is killed.
"""

import hashlib
import re
import select
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tests.properties.dialogue import PROTOCOL_HEADER, handshake, method, publish
from tests.server.support import PATIENCE, Client, Process

from leveret.cli.api import Api, part
from leveret.store.batch import BATCH_HEAD_SIZE
from leveret.store.inspection import Looking
from leveret.store.layout import MESSAGE, PLACES_AT, PURGE, SETTLE
from leveret.store.records import read_head, read_numbers, read_place
from leveret.store.segment import HEADER_SIZE, next_batch_offset, open_segment, read_batch
from leveret.wire import spec
from leveret.wire.properties import Properties

PERSISTENT = Properties(delivery_mode=2)
SETTINGS = {
    "LEVERET_SEGMENT_SIZE": "65536",
    "LEVERET_WINDOW_COUNT": "8",
    "LEVERET_SHARED_WINDOW_SIZE": "0",
    "LEVERET_WINDOW_SIZE": "65536",
    "LEVERET_PAGE_COUNT": "4",
    "LEVERET_PAGE_SIZE": "8192",
    "LEVERET_DISK_FREE_LIMIT": "0",
    "LEVERET_MANAGEMENT_PORT": "0",
    "LEVERET_PROMETHEUS_PORT": "0",
}
TENANTS = ("north", "south")
STORED = ("orders", "mail")
TRANSIENT = "news"
ROUNDS = 7


class Identity(NamedTuple):
    """Which message it is: the number counts in its queue."""

    vhost: str
    queue: str
    number: int


def body(one: Identity) -> bytes:
    """A body that says whose it is, and shows any change of it; some are longer than a block."""
    size = 12_000 if one.number % 17 == 11 else 300 + one.number * 97 % 2400
    start = b"<%s/%s/%06d>" % (one.vhost.encode(), one.queue.encode(), one.number)
    filling = hashlib.sha256(start).digest() * (size // 32)
    return start + filling + hashlib.md5(start + filling).digest()


NAME = re.compile(rb"<([\w/]+)/([\w-]+)/(\d{6})>")


def identity(octets: bytes) -> Identity:
    """Whose message this is; it must be whole."""
    found = NAME.match(octets)
    if found is None:
        raise Garbled(f"{octets[:60]!r}")
    one = named(found)
    if octets != body(one):
        raise Garbled(str(one))
    return one


def named(found: re.Match[bytes]) -> Identity:
    return Identity(found[1].decode(), found[2].decode(), int(found[3]))


class Garbled(Exception):
    """A message was delivered that nobody has published."""


# Brokers


def start(folder: Path, *flags: str, management: bool = False) -> Process:
    """A broker on `folder`/data; if it has no port it has refused to start, and is over."""
    broker = Process(folder, *flags, environment=SETTINGS | {"LEVERET_MANAGEMENT": str(management).lower()})
    MINE.__dict__.setdefault("brokers", []).append(broker)
    assert broker.popen.stdout is not None
    assert select.select([broker.popen.stdout], [], [], PATIENCE)[0], "it neither starts nor ends"
    line = broker.popen.stdout.readline()
    if line:
        broker.port = int(line.split()[1].rpartition(":")[2])
    else:
        broker.popen.wait(PATIENCE)
        broker.popen.stdout.close()
    return broker


# The brokers of each thread.
MINE = threading.local()


def end_all() -> None:
    """End what this thread has started: a case that is wrong leaves it running."""
    for broker in MINE.__dict__.pop("brokers", []):
        broker.kill()


def stop(broker: Process) -> None:
    broker.popen.send_signal(signal.SIGTERM)
    broker.popen.wait(PATIENCE)
    broker.kill()
    assert broker.popen.returncode == 0, broker.log


def login(broker: Process, vhost: str, user: str = "ada") -> Client:
    return broker.login(vhost=vhost, response=f"\0{user}\0{user}".encode())


class Knock:
    """A login of somebody who must not get in; the answer takes a second, so it is asked for later."""

    def __init__(self, broker: Process, user: str) -> None:
        self._client = broker.connect()
        self._client.socket.sendall(PROTOCOL_HEADER)
        self._client.expect(spec.ConnectionStart)
        self._client.send(*handshake(response=f"\0{user}\0{user}".encode()))

    def let_in(self) -> bool:
        with self._client as client:
            try:
                return not isinstance(client.read(), spec.ConnectionClose)
            except EOFError:
                return False


def api(folder: Path) -> Api:
    return Api(str(folder / "data"))


def permit(folder: Path, user: str, *vhosts: str) -> None:
    """Make an administrator, as leveretctl does."""
    api(folder).put(f"/api/users/{user}", {"password": user, "tags": "administrator"})
    for vhost in vhosts:
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        api(folder).put(f"/api/permissions/{part(vhost)}/{user}", rights)


# What is in them


class Stock:
    """What queues must have, in order, and what was consumed for good.

    The books of the load (tests/crash/books.py) note what was begun, too: here nobody is interrupted, and files are damaged.
    """

    def __init__(self) -> None:
        self.ready: dict[tuple[str, str], list[int]] = {}
        self.gone: set[Identity] = set()
        self._next: dict[tuple[str, str], int] = {}

    def publish(self, vhost: str, queue: str, count: int) -> list[Identity]:
        """The next messages of a queue."""
        key = (vhost, queue)
        first = self._next.get(key, 0)
        self._next[key] = first + count
        return [Identity(*key, number) for number in range(first, first + count)]

    def confirmed(self, messages: list[Identity]) -> None:
        for one in messages:
            self.ready.setdefault((one.vhost, one.queue), []).append(one.number)

    def taken(self, one: Identity) -> None:
        self.ready[one.vhost, one.queue].remove(one.number)
        self.gone.add(one)

    def copy(self) -> "Stock":
        """Others that go on with the same numbers."""
        other = Stock()
        other.ready = {key: list(numbers) for key, numbers in self.ready.items()}
        other.gone = set(self.gone)
        other._next = dict(self._next)
        return other

    def all(self) -> set[Identity]:
        return {Identity(*key, number) for key, numbers in self.ready.items() for number in numbers}


class Publisher:
    """A client that waits until its messages are confirmed."""

    def __init__(self, broker: Process, vhost: str, stock: Stock, user: str = "ada") -> None:
        self.client = login(broker, vhost, user)
        self.client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        self._vhost = vhost
        self._stock = stock
        self._tag = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.socket.close()

    def fill(self, queue: str, count: int, persistent: bool = True) -> None:
        mine = self._stock.publish(self._vhost, queue, count)
        frames = []
        for one in mine:
            frames += publish(1, queue, body(one), PERSISTENT if persistent else None)
        self.client.send(*frames)
        self._tag += count
        while self.client.expect(spec.BasicAck).delivery_tag < self._tag:
            pass
        self._stock.confirmed(mine)


def take(client: Client, queue: str, count: int = 1 << 30, found: list[Identity] | None = None) -> list[Identity]:
    """Consume messages for good; `found` has them also when it is broken off."""
    found = [] if found is None else found
    while len(found) < count:
        client.send(method(1, spec.BasicGet(queue, no_ack=True)))
        answer = client.event()
        if isinstance(answer.method, spec.BasicGetEmpty):
            break
        assert isinstance(answer.method, spec.BasicGetOk), answer
        found.append(identity(answer.body))
    return found


def make(folder: Path, killed: bool) -> Stock:
    """The folder of a broker that was killed, or stopped."""
    stock = Stock()
    folder.mkdir()
    broker = start(folder, management=True)
    for name in TENANTS:
        api(folder).put(f"/api/vhosts/{name}", {})
    for user in ("ada", "mallory"):
        permit(folder, user, "/", *TENANTS)
    for vhost in TENANTS:
        with Publisher(broker, vhost, stock) as publisher:
            for queue in (STORED[0], "old"):
                publisher.client.declare(queue, durable=True)
                publisher.fill(queue, 8)
    stop(broker)
    broker = start(folder, management=True)
    for user in ("mallory", "guest"):
        api(folder).delete(f"/api/users/{user}")
    for number in range(ROUNDS):
        for vhost in TENANTS:
            with Publisher(broker, vhost, stock) as publisher:
                make_round(publisher, stock, vhost, number)
    with Publisher(broker, TENANTS[0], stock) as publisher:
        # Enough for the newest file, and each in a batch of its own.
        for _ in range(4):
            publisher.fill(STORED[0], 1)
        while newest_size(folder) < 24_000:
            publisher.fill(STORED[0], 1)
    if killed:
        broker.kill()
    else:
        stop(broker)
    for vhost in TENANTS:
        del stock.ready[vhost, TRANSIENT]
    return stock


def newest_size(folder: Path) -> int:
    return max((folder / "data").glob("journal-*")).stat().st_size


def make_round(publisher: Publisher, stock: Stock, vhost: str, number: int) -> None:
    client = publisher.client
    if number == 0:
        client.declare(STORED[1], durable=True)
        client.declare(TRANSIENT)
        client.call(spec.QueueDelete("old"), spec.QueueDeleteOk)
        stock.gone |= {Identity(vhost, "old", one) for one in stock.ready.pop((vhost, "old"))}
    for name in STORED:
        publisher.fill(name, 10)
    publisher.fill(TRANSIENT, 20, persistent=False)
    if number in (3, ROUNDS - 1):
        for name in STORED:
            for one in take(client, name, 3):
                stock.taken(one)
        # Confirmed when the acknowledgements are on disk.
        publisher.fill(STORED[0], 1)


# What a file says


class Record(NamedTuple):
    """A record and its batch, by offsets in the file, and what the file says with it."""

    start: int
    end: int
    batch: int
    table: int
    following: int
    kind: int
    about: frozenset[Identity]

    def needs(self, start: int, end: int) -> bool:
        """Whether it cannot be read without these octets: its own, or the head or the table of its batch."""
        return any(
            first < end and start < last
            for first, last in (
                (self.start, self.end),
                (self.batch, self.batch + BATCH_HEAD_SIZE),
                (self.table, self.following),
            )
        )

    def is_in(self, start: int, end: int) -> bool:
        return self.start < end and start < self.end


class Contents:
    """What all files of the journal, and of the spill, say while they are whole."""

    def __init__(self, folder: Path) -> None:
        self._who: dict[tuple[int, int], Identity] = {}
        self.queue_ids: dict[int, tuple[str, str]] = {}
        self.journal = sorted(path.name for path in folder.glob("journal-*"))
        self.spill = sorted(path.name for path in folder.glob("spill-*"))
        found = {name: list(self._records(folder, name)) for name in self.journal + self.spill}
        self.records = {name: [self._meant(*one) for one in records] for name, records in found.items()}

    def _records(self, folder: Path, name: str) -> Iterator[tuple[Record, list[tuple[int, int, int]]]]:
        segment = open_segment(Looking(folder), name, 0)
        offset: int | None = HEADER_SIZE
        while offset is not None and offset < segment.size:
            batch = read_batch(segment, offset)
            if batch is None:
                offset = next_batch_offset(segment, offset)
                continue
            at = 0
            while at < len(batch.payload):
                length, kind, _, _, queue = read_head(batch.payload, at)
                ends = (batch.offset + at, batch.offset + at + length)
                about, settled = self._read(batch.payload[at : at + length], kind, queue)
                table = batch.offset + len(batch.payload)
                yield Record(*ends, offset, table, batch.following, kind, about), settled
                at += length
            offset = batch.following
        segment.file.close()

    def _read(self, octets: bytes, kind: int, queue: int) -> tuple[frozenset[Identity], list[tuple[int, int, int]]]:
        if kind == MESSAGE:
            found = NAME.search(octets)
            assert found
            one = named(found)
            place = read_place(octets, PLACES_AT)
            if place.queue:
                self._who[place.queue, place.seq] = one
                self.queue_ids[place.queue] = (one.vhost, one.queue)
            return frozenset((one,)), []
        if kind in (SETTLE, PURGE):
            first, last = read_numbers(octets, 0)
            return frozenset(), [(queue, first, last)]
        return frozenset(), []

    def _meant(self, record: Record, settled: list[tuple[int, int, int]]) -> Record:
        about = set(record.about)
        for queue, first, last in settled:
            about |= {one for (owner, seq), one in self._who.items() if owner == queue and first <= seq <= last}
        return record._replace(about=frozenset(about))

    def said(self, file: str, start: int, end: int) -> tuple[set[Identity], set[Identity]]:
        """What is lost with these octets: messages, and that messages are gone."""
        lost: set[Identity] = set()
        back: set[Identity] = set()
        for record in self.records.get(file, ()):
            if record.needs(start, end):
                (lost if record.kind == MESSAGE else back).update(record.about)
        return lost, back


def copied(template: Path, folder: Path) -> Path:
    """A folder of one's own; sockets are not copied."""
    shutil.copytree(template / "data", folder / "data", ignore=shutil.ignore_patterns("*.sock"))
    return folder
