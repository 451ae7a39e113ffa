"""Clients that keep a broker busy until it ends, and the comparison of what another start brings with their books.

Bodies are of 0 octets to 20 MB, most of them small or around the sizes at which something changes; half of the queues hold
more than a broker with the sizes of `TINY` keeps in memory. Each client is a thread with a connection of its own.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.crash.books import Books, Copy, Family, Transaction
from tests.crash.peer import Channel, Peer, Stopped
from tests.properties.dialogue import Frame, method
from tests.server.support import eventually

from leveret.wire import spec
from leveret.wire.values import Table

# A broker with these pages out what would fit its memory many times, and compacts.
TINY = {
    "LEVERET_SEGMENT_SIZE": "65536",
    "LEVERET_WINDOW_COUNT": "8",
    "LEVERET_WINDOW_SIZE": "65536",
    "LEVERET_PAGE_COUNT": "2",
    "LEVERET_PAGE_SIZE": "8192",
}
# Around TINY's sizes, and around the payload of the largest frame.
EDGES = (0, 1, 8191, 8192, 8193)
WIDE_EDGES = (65_500, 65_535, 65_536, 65_537, 131_063, 131_064, 131_065, 131_072)
LARGE_MIN, LARGE_MAX = 1_000_000, 20_000_000
BURST_MAX = 20
# More than a pass of the broker does at once, so that the transaction is written in pieces.
LARGE_COMMIT = 1100
# What is more when the queues are compared is purged, so that a long run does not spend its time on reading.
KEPT_MAX = 300
KEPT_BYTES = 10_000_000
EXCHANGE = "fan"
DIRECT = "amq.direct"
# Milliseconds; a message of the last outlives every run.
EXPIRATIONS = (None, None, "0", "40", "3600000")
LONG = "3600000"
ALARMING = ("ERROR", "CRITICAL", "Traceback", "damaged")
# What clients ask for in vain, and what they are told when the broker is stopped.
EXPECTED = ("NOT_FOUND - no queue", "broker forced connection closure with reason 'shutdown'")


class Sizes:
    """Draws sizes of bodies, and of each life only so many octets in large ones."""

    def __init__(self, large_bytes: int) -> None:
        self._large_bytes = large_bytes
        self.begin()

    def begin(self) -> None:
        self._left = self._large_bytes

    def draw(self, random: Random) -> int:
        way = random.random()
        if way < 0.7:
            return random.randrange(300)
        if way < 0.95:
            return random.choice(EDGES)
        size = random.choice(WIDE_EDGES)
        if way > 0.99:
            size = int(LARGE_MIN * math.exp(random.random() * math.log(LARGE_MAX / LARGE_MIN)))
        if size > self._left:
            return random.randrange(300)
        self._left -= size
        return size


@dataclass(slots=True)
class Stream:
    """Numbers the messages of one publisher; each goes to all its families."""

    name: str
    families: tuple[Family, ...]
    sizes: Sizes | None = None
    transient_share: float = 0.0
    next_number: int = 0

    def make(self, books: Books, random: Random, expiration: str | None = None) -> list[Copy]:
        """A new message, noted as published."""
        size = random.randrange(40) if self.sizes is None else self.sizes.draw(random)
        transient = random.random() < self.transient_share
        message_id = f"{self.name}:{self.next_number}:{size}:{'transient' if transient else 'persistent'}"
        self.next_number += 1
        copies = []
        for family in self.families:
            expires = expiration not in (None, LONG) and not family.grave
            copies.append(Copy(message_id, family, books.life, transient, expires))
            family.add(copies[-1])
        return copies

    def burst(self, channel: Channel, random: Random, expirations: tuple[str | None, ...] = (None,)) -> list[Frame]:
        """The frames of a few new messages."""
        frames = []
        for _ in range(random.randint(1, BURST_MAX)):
            expiration = random.choice(expirations)
            copies = self.make(channel.books, random, expiration)
            fan = len(copies) > 1
            key = "" if fan else self.families[0].home
            frames += channel.publish(copies, EXCHANGE if fan else "", key, expiration)
        return frames


@dataclass(slots=True)
class Client:
    """Somebody at work: a connection, and the stream of receipts that shows what came before to be on disk."""

    peer: Peer
    receipts: Stream
    random: Random

    def send_receipt(self, channel: Channel) -> None:
        channel.send(*channel.publish(self.receipts.make(channel.books, self.random), key=self.receipts.families[0].home))

    def show(self, channel: Channel) -> None:
        """Have a receipt confirmed: what was settled on the channel before is gone then."""
        self.send_receipt(channel)
        channel.wait_for_confirms()


def publish_on(client: Client, stream: Stream, expirations: tuple[str | None, ...]) -> None:
    """Publish bursts, with some of the last one unconfirmed."""
    channel = client.peer.channel()
    while True:
        channel.send(*stream.burst(channel, client.random, expirations))
        channel.wait_for_confirms(client.random.choice((0, 0, 5)))


def consume(client: Client, family: Family) -> None:
    """Acknowledge, give back, reject and purge, and begin again on a new channel of the same number."""
    random = client.random
    channel = client.peer.channel()
    channel.consume(family.home, 30)
    while True:
        while len(channel.held) < random.choice((1, 5, 20)):
            client.peer.step()
        way = random.random()
        tag = random.choice(list(channel.held))
        if way < 0.08:
            channel.send(channel.requeue(tag))
        elif way < 0.16 and family.grave:
            channel.send(channel.reject(tag))
        elif way < 0.18:
            purge_unread(channel, family)
        elif way < 0.2:
            channel.close()
            channel = client.peer.channel()
            channel.consume(family.home, 30)
        else:
            channel.send(channel.ack(tag, multiple=random.random() < 0.7))
            if random.random() < 0.3:
                client.send_receipt(channel)


def purge_unread(channel: Channel, family: Family) -> None:
    """Purge a queue as its only consumer: what was not delivered by the answer is gone."""
    confirmed = [copy for copy in family.certain() if copy.places() == {family.home}]
    family.begin_emptying()
    channel.call(spec.QueuePurge(family.home), spec.QueuePurgeOk)
    held = set(channel.held.values())
    family.end_emptying(held, [copy for copy in confirmed if copy not in held])


def purge_idle(client: Client, family: Family) -> None:
    """Purge now and then what nobody consumes: what was confirmed before is gone."""
    channel = client.peer.channel()
    while True:
        for _ in range(client.random.randint(1, 40)):
            client.show(channel)
        confirmed = [copy for copy in list(family.copies.values()) if copy.confirmed]
        family.begin_emptying()
        channel.call(spec.QueuePurge(family.home), spec.QueuePurgeOk)
        family.end_emptying((), confirmed)


def get_some(client: Client, family: Family) -> None:
    """Get slowly, with acknowledgement and without, and settle in any order."""
    random = client.random
    channel = client.peer.channel()
    while True:
        channel.get(family.home, random.randint(1, 6), no_ack=random.random() < 0.2)
        while len(channel.held) > random.choice((0, 3, 12)):
            tag = random.choice(list(channel.held))
            how = random.choice((channel.ack, channel.ack, channel.requeue, channel.reject))
            channel.send(how(tag))
        client.show(channel)


def move(client: Client, source: Stream, target: Family) -> None:
    """Move messages to another queue in transactions: acknowledged, or rejected to the dead letters."""
    random = client.random
    channel = client.peer.channel(confirms=False)
    channel.call(spec.TxSelect(), spec.TxSelectOk)
    while True:
        size = LARGE_COMMIT if random.random() < 0.02 else random.randint(1, 10)
        fill(channel, source, size, random)
        for _ in range(random.randint(0, 2)):
            tags = channel.get(source.families[0].home, min(size, 2 * BURST_MAX))
            if tags and random.random() < 0.1:
                commit(channel, target, tags, rejected=False, undo=True)
            if tags:
                commit(channel, target, tags, rejected=random.random() < 0.3)


def fill(channel: Channel, source: Stream, size: int, random: Random) -> None:
    made = [source.make(channel.books, random)[0] for _ in range(size)]
    transaction = Transaction([], made)
    channel.books.begin(transaction)
    home = source.families[0].home
    channel.send(*[frame for copy in made for frame in channel.publish([copy], key=home)])
    channel.call(spec.TxCommit(), spec.TxCommitOk)
    transaction.resolve(True)


def commit(channel: Channel, target: Family, tags: list[int], rejected: bool, undo: bool = False) -> None:
    """Publish what was got and settle it in one transaction; or do it, and then not."""
    books = channel.books
    moved = [channel.held[tag] for tag in tags]
    made = [Copy(copy.id, target, books.life) for copy in moved]
    for copy in made:
        target.add(copy)
    transaction = Transaction(moved, made, rejected)
    books.begin(transaction)
    frames = [frame for copy in made for frame in channel.publish([copy], key=target.home)]
    for tag in tags:
        settlement = spec.BasicReject(tag, requeue=False) if rejected else spec.BasicAck(tag)
        frames.append(method(channel.number, settlement))
    channel.send(*frames)
    if undo:
        channel.call(spec.TxRollback(), spec.TxRollbackOk)
    else:
        channel.call(spec.TxCommit(), spec.TxCommitOk)
        for tag in tags:
            del channel.held[tag]
    transaction.resolve(not undo)


def reopen(client: Client, stream: Stream) -> None:
    """Publish, close the channel with confirms outstanding, and open it again under the same number."""
    random = client.random
    channel = client.peer.channel()
    while True:
        frames = stream.burst(channel, random)
        if random.random() < 0.5:
            channel.send(*frames)
            channel.wait_for_confirms(random.randint(0, 10))
            frames = []
        if random.random() < 0.3:
            fail(channel, frames)
        else:
            channel.send(*frames)
            channel.close()
        channel = client.peer.channel()
        # Less than before, so that a confirm of the last channel shows.
        channel.send(*channel.publish(stream.make(channel.books, random), key=stream.families[0].home))
        channel.wait_for_confirms(random.choice((0, 1)))


def fail(channel: Channel, frames: list[Frame]) -> None:
    """Have the broker close the channel."""
    channel.send(*frames, method(channel.number, spec.QueueDeclare("absent", passive=True)))
    assert channel.expect(spec.ChannelClose).reply_code == 404
    channel.send(method(channel.number, spec.ChannelCloseOk()))
    del channel.peer.channels[channel.number]


@dataclass(slots=True)
class Passing:
    """Queues that are declared and deleted; `there` says of each what was answered last, None what is in doubt."""

    streams: list[Stream]
    there: dict[str, bool | None] = field(default_factory=dict)

    def run(self, client: Client) -> None:
        channel = client.peer.channel()
        while True:
            stream = client.random.choice(self.streams)
            family = stream.families[0]
            if not self.there.get(family.home):
                self._begin_declare(channel, family)
                self._end_declare(channel, family)
            channel.send(*stream.burst(channel, client.random))
            if client.random.random() < 0.5:
                channel.wait_for_confirms()
            self._settle(channel, family, client.random)
            if client.random.random() < 0.5:
                self._delete(channel, stream, client.random)

    def _begin_declare(self, channel: Channel, family: Family) -> None:
        self.there[family.home] = None
        channel.send(
            method(channel.number, spec.QueueDeclare(family.home, durable=True, arguments=family.arguments)),
            method(channel.number, spec.QueueBind(family.home, DIRECT, family.home)),
        )

    def _end_declare(self, channel: Channel, family: Family) -> None:
        channel.expect(spec.QueueDeclareOk)
        channel.expect(spec.QueueBindOk)
        self.there[family.home] = True

    def _settle(self, channel: Channel, family: Family, random: Random) -> None:
        for tag in channel.get(family.home, random.randint(0, 4)):
            if random.random() < 0.5:
                channel.send(random.choice((channel.ack, channel.requeue))(tag))

    def _delete(self, channel: Channel, stream: Stream, random: Random) -> None:
        """Delete a queue right behind rejections, and perhaps declare it again in the same breath."""
        family = stream.families[0]
        self.there[family.home] = None
        tags = [tag for tag, copy in channel.held.items() if copy.family is family]
        rejected = [channel.held[tag] for tag in tags]
        gone = [copy for copy in family.copies.values() if copy.places() == {family.home} and copy not in rejected]
        family.begin_emptying()
        family.end_emptying(rejected)
        frames = [channel.reject(tag) for tag in tags]
        channel.send(*frames, method(channel.number, spec.QueueDelete(family.home)))
        again = random.random() < 0.5
        if again:
            self._begin_declare(channel, family)
            channel.send(*stream.burst(channel, random))
        channel.expect(spec.QueueDeleteOk)
        for copy in gone:
            copy.gone = True
        for copy in rejected:
            copy.dead = True
        if again:
            self._end_declare(channel, family)
        else:
            self.there[family.home] = False

    def is_there(self, peer: Peer, queue: str) -> bool:
        """Whether there is such a queue, as it was answered."""
        channel = peer.channel(3, confirms=False)
        channel.send(method(3, spec.QueueDeclare(queue, passive=True)))
        found = peer.answer().method
        if isinstance(found, spec.ChannelClose):
            channel.send(method(3, spec.ChannelCloseOk()))
            assert self.there.get(queue) is not True, f"{queue} was declared, and is not there"
            return False
        channel.close()
        assert self.there.get(queue) is not False, f"{queue} was deleted, and is there"
        return True

    def check_bound(self, peer: Peer, queue: str) -> None:
        """Look whether the queue, all of whose messages are held, gets what is published to its binding."""
        channel = peer.channel(3, confirms=False)
        channel.send(
            method(3, spec.BasicPublish(DIRECT, queue)),
            Frame(2, 3, bytes([0, 60]) + bytes(12)),
            method(3, spec.BasicGet(queue, no_ack=True)),
        )
        found = peer.answer().method
        assert isinstance(found, spec.BasicGetOk), f"{queue} is not bound any more: {found}"
        channel.close()


def contents(peer: Peer, queue: str) -> list[Copy]:
    """What is in a queue, all of it held until the connection ends."""
    channel = peer.channels.get(2) or peer.channel(confirms=False)
    found: list[Copy] = []
    channel.call(spec.BasicConsume(queue, queue), spec.BasicConsumeOk)

    def read_until(answer: type[spec.Method]) -> spec.Method:
        while True:
            event = peer.event()
            if not isinstance(event.method, spec.BasicDeliver):
                assert isinstance(event.method, answer), event.method
                return event.method
            found.append(peer.books.read(queue, event.message_id, event.body, event.method.redelivered))

    def all_read() -> bool:
        channel.send(method(channel.number, spec.QueueDeclare(queue, passive=True)))
        answer = read_until(spec.QueueDeclareOk)
        assert isinstance(answer, spec.QueueDeclareOk)
        assert answer.message_count < 1 << 31, f"{queue}: a negative count"
        return answer.message_count == 0

    eventually(all_read)
    channel.send(method(channel.number, spec.BasicCancel(queue)))
    read_until(spec.BasicCancelOk)
    return found


def check_log(log: str) -> None:
    """Nothing went wrong but what clients were told of."""
    lines = [line for line in log.splitlines() if not any(word in line for word in EXPECTED)]
    found = [number for number, line in enumerate(lines) if any(word in line for word in ALARMING)]
    assert not found, "\n".join(lines[found[0] : found[0] + 30])


def to_grave(queue: str, more: Table | None = None) -> Table:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{queue}-dead", **(more or {})}


def family_with_grave(queue: str, more: Table | None = None) -> Family:
    return Family(queue, f"{queue}-dead", dying=more is not None, arguments=to_grave(queue, more))


class Load:
    """All of it at once."""

    def __init__(self, seed: int, large_bytes: int = 24_000_000) -> None:
        self._random = Random(seed)
        self._sizes = Sizes(large_bytes)
        self.told: list[spec.Method] = []
        self._declared = False
        self._faults: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._receipts: list[Stream] = []
        self._make_families()
        self._make_streams()

    def _make_families(self) -> None:
        self._passing_families = [family_with_grave(f"passing-{number}") for number in range(3)]
        self.books = Books(
            [
                *(family_with_grave(queue) for queue in ("main", "slow", "from")),
                *(Family(queue, unread=True) for queue in ("idle", "fan-right", "to", "reopened", "receipts")),
                Family("fan-left"),
                family_with_grave("brief", {"x-message-ttl": 300}),
                family_with_grave("short", {"x-max-length": 20}),
                *self._passing_families,
            ]
        )

    def _make_streams(self) -> None:
        families, sizes = self.books.families, self._sizes
        self._plain = {
            queue: Stream(queue, (families[queue],), sizes, 0.2) for queue in ("main", "slow", "idle", "brief", "short")
        }
        self._fan = Stream("fan", (families["fan-left"], families["fan-right"]), sizes, 0.2)
        self._from = Stream("from", (families["from"],), sizes)
        self._reopened = Stream("reopened", (families["reopened"],), sizes, 0.2)
        self._passing = Passing([Stream(family.home, (family,), sizes, 0.2) for family in self._passing_families])

    @property
    def published(self) -> int:
        streams = [*self._plain.values(), self._fan, self._from, self._reopened, *self._passing.streams, *self._receipts]
        return sum(stream.next_number for stream in streams)

    @property
    def kept(self) -> int:
        """How many messages must be there."""
        return sum(len(family.certain()) for family in self.books.families.values())

    # The clients

    def start(self, port: int) -> None:
        """Set all clients to work; they end when the broker does."""
        self._sizes.begin()
        self._declare(port)
        families = self.books.families
        clients: list[Callable[[Client], None]] = [
            lambda client: publish_on(client, self._plain["main"], (None,)),
            lambda client: publish_on(client, self._plain["slow"], (None,)),
            lambda client: publish_on(client, self._plain["idle"], EXPIRATIONS),
            lambda client: publish_on(client, self._plain["brief"], EXPIRATIONS),
            lambda client: publish_on(client, self._plain["short"], EXPIRATIONS),
            lambda client: publish_on(client, self._fan, EXPIRATIONS),
            lambda client: consume(client, families["main"]),
            lambda client: consume(client, families["fan-left"]),
            lambda client: get_some(client, families["slow"]),
            lambda client: get_some(client, families["short"]),
            lambda client: purge_idle(client, families["idle"]),
            lambda client: move(client, self._from, families["to"]),
            lambda client: reopen(client, self._reopened),
            self._passing.run,
        ]
        for number, run in enumerate(clients):
            if number == len(self._receipts):
                self._receipts.append(Stream(f"receipt-{number}", (families["receipts"],)))
            peer = Peer(port, self.books, self.told).login()
            self._run(run, Client(peer, self._receipts[number], Random(self._random.random())))

    @property
    def client_count(self) -> int:
        return len(self._receipts)

    def _declare(self, port: int) -> None:
        with Peer(port, self.books).login() as peer:
            channel = peer.channel()
            for family in self.books.families.values():
                if family.grave:
                    channel.declare(family.grave, durable=True)
                if family not in self._passing_families:
                    channel.declare(family.home, durable=True, arguments=family.arguments)
            channel.call(spec.ExchangeDeclare(EXCHANGE, "fanout", durable=True), spec.ExchangeDeclareOk)
            for family in self._fan.families:
                channel.call(spec.QueueBind(family.home, EXCHANGE), spec.QueueBindOk)
        self._declared = True

    def _run(self, run: Callable[[Client], None], client: Client) -> None:
        def work() -> None:
            try:
                with client.peer:
                    run(client)
            except (EOFError, OSError, Stopped):
                pass
            except BaseException as fault:
                self._faults.append(fault)

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def end(self, clean: bool = False) -> None:
        """Wait for the clients of a broker that has ended, in order or not."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        self._threads = []
        self.books.end(clean)
        faults, self._faults = self._faults, []
        if faults:
            raise faults[0]

    # What is there

    def check(self, port: int) -> None:
        """Compare what a broker has after its start with the books, before clients are set to work."""
        if not self._declared:
            return
        with Peer(port, self.books).login() as peer:
            found: dict[str, list[Copy]] = {}
            for family in self.books.families.values():
                self._read(peer, family, found)
            # What it held is back in its queues when this is answered.
            peer.end()
        self.books.check(found)
        self._trim(port)

    def _read(self, peer: Peer, family: Family, found: dict[str, list[Copy]]) -> None:
        passing = family in self._passing_families
        there = not passing or self._passing.is_there(peer, family.home)
        found[family.home] = contents(peer, family.home) if there else []
        if passing and there and self._passing.there.get(family.home):
            self._passing.check_bound(peer, family.home)
        if family.dying:
            self._wait_for_deaths(peer, family, len(found[family.home]))
        if family.grave:
            found[family.grave] = contents(peer, family.grave)

    def _wait_for_deaths(self, peer: Peer, family: Family, alive: int) -> None:
        """Wait until what died is where it comes to; what never does is found to be lost."""
        certain = len(family.certain())
        try:
            eventually(lambda: alive + peer.channels[2].declare(family.grave, passive=True) >= certain)
        except AssertionError:
            return

    def _trim(self, port: int) -> None:
        """Purge what has become long, while nobody works on it."""
        with Peer(port, self.books).login() as peer:
            channel = peer.channel()
            for family in self.books.families.values():
                self._trim_queue(channel, family, family.grave, [copy for copy in family.copies.values() if copy.dead])
                # Of what dies by itself nobody knows where it is.
                if not family.dying:
                    alive = [copy for copy in family.copies.values() if not copy.dead]
                    self._trim_queue(channel, family, family.home, alive)

    def _trim_queue(self, channel: Channel, family: Family, queue: str, copies: list[Copy]) -> None:
        if len(copies) < KEPT_MAX and sum(copy.size for copy in copies) < KEPT_BYTES:
            return
        for copy in copies:
            copy.may_go = True
        channel.call(spec.QueuePurge(queue), spec.QueuePurgeOk)
        family.end_emptying((), copies)
