"""What the clients of the load do: publishers, consumers, those who get, purge, move, delete, and who open channels again.

Each runs until the broker ends, in a thread and on a connection of its own. Bodies are of 0 octets to 20 MB, most of them
small or around the sizes at which something changes.
"""

import math
from dataclasses import dataclass, field
from random import Random

from tests.crash.books import Books, Copy, Family, Transaction
from tests.crash.peer import Channel, Peer
from tests.properties.dialogue import Frame, method

from leveret.wire import spec

# Around TINY's sizes, and around the payload of the largest frame.
EDGES = (0, 1, 8191, 8192, 8193)
WIDE_EDGES = (65_500, 65_535, 65_536, 65_537, 131_063, 131_064, 131_065, 131_072)
LARGE_MIN, LARGE_MAX = 1_000_000, 20_000_000
BURST_MAX = 20
# More than a pass of the broker does at once, so that the transaction is written in pieces.
LARGE_COMMIT = 1100
EXCHANGE = "fan"
DIRECT = "amq.direct"
LONG = "3600000"


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
    """Somebody at work: a connection, and the stream of persistent receipts that shows what came before to be on disk."""

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
