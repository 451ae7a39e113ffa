"""Clients that keep a broker busy and note what it has promised, and the check of what a restart brings back.

Messages are numbered for each queue, and a number tells the whole body, so that every queue has one publisher and its
numbers must come back in order. Each kind of client is a thread with a connection of its own; it ends when that does.
"""

import threading
from collections.abc import Callable
from random import Random

from tests.properties.dialogue import method, publish
from tests.server.support import Client, eventually

from leveret.wire import spec
from leveret.wire.properties import Properties
from leveret.wire.values import Table

PERSISTENT = Properties(delivery_mode=2)
BURST_MAX = 20
BODY_MAX = 3000
# Queues that have more when clients are set to work are purged, so that a long run does not spend its time on reading them.
KEPT_MAX = 1500
# More than a pass of the broker does at once, so that the transaction is written in pieces.
LARGE_COMMIT = 1100


class Books:
    """What one queue was promised: numbers, in order of publishing. Publisher and consumer each write their own part.

    `confirmed` were confirmed, or found after a restart; `acked` were acknowledged, which may or may not be on disk yet;
    `gone` are known to be on disk as such. What is in none, and was not published since, must not be there.
    """

    def __init__(self, queue: str, origin: str = "") -> None:
        self.queue = queue
        # What its messages say they were published to.
        self._origin = origin or queue
        self.next_number = 0
        self.published: set[int] = set()
        self.confirmed: set[int] = set()
        self.acked: set[int] = set()
        self.gone: set[int] = set()

    def body(self, number: int) -> bytes:
        random = Random(f"{self._origin} {number}")
        return f"{self._origin} {number} ".encode() + random.randbytes(random.randrange(BODY_MAX))

    def number_of(self, body: bytes) -> int:
        """The number of a body that is exactly as it was published."""
        queue, number = body.split(b" ", 2)[:2]
        assert queue.decode() == self._origin, f"{queue!r} was not published to {self.queue}"
        assert body == self.body(int(number)), f"number {number!r} of {self.queue} was changed"
        return int(number)

    def take(self, count: int) -> list[int]:
        """New numbers."""
        self.next_number += count
        return list(range(self.next_number - count, self.next_number))

    def check(self, found: list[int]) -> None:
        """Compare with what a restart brought back, and go on from there."""
        assert found == sorted(set(found)), f"{self.queue}: out of order, or twice: {found}"
        there = set(found)
        lost = self.confirmed - self.acked - self.gone - there
        assert not lost, f"{self.queue}: confirmed and lost: {sorted(lost)}"
        back = there & self.gone
        assert not back, f"{self.queue}: settled and back: {sorted(back)}"
        invented = there - self.published - self.confirmed
        assert not invented, f"{self.queue}: gone before, or unheard of, and there: {sorted(invented)}"
        self.confirmed = there
        self.published, self.acked, self.gone = set(), set(), set()


class Stopped(Exception):
    """The broker refused what it would otherwise promise: it stops."""


class Peer(Client):
    """A client with a confirming channel 1."""

    def confirming(self) -> "Peer":
        self.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        self._confirmed = 0
        return self

    def publish(self, books: Books, numbers: list[int], exchange: str = "", key: str = "") -> None:
        books.published.update(numbers)
        frames = []
        for number in numbers:
            frames += publish(1, key or books.queue, books.body(number), PERSISTENT, exchange=exchange)
        self.send(*frames)

    def read(self) -> spec.Method:
        found = super().read()
        if isinstance(found, spec.ConnectionClose | spec.BasicNack):
            raise Stopped(found)
        return found

    def message(self) -> tuple[spec.Method, bytes]:
        """The next delivery or get-ok with its body; BasicGetEmpty without one."""
        return self._content(self.read())

    def _content(self, found: spec.Method) -> tuple[spec.Method, bytes]:
        if not isinstance(found, spec.BasicDeliver | spec.BasicGetOk):
            return found, b""
        size, body = int.from_bytes(self.frame()[2][4:12], "big"), b""
        while len(body) < size:
            body += self.frame()[2]
        return found, body


def publisher(peer: Peer, books: Books, random: Random) -> None:
    """Publishes bursts and notes what is confirmed."""
    while True:
        numbers = books.take(random.randint(1, BURST_MAX))
        peer.publish(books, numbers)
        note_confirms(peer, (books,), numbers)


def note_confirms(peer: Peer, targets: tuple[Books, ...], numbers: list[int]) -> None:
    while numbers:
        count = settled_count(peer.expect(spec.BasicAck), peer)
        for books in targets:
            books.confirmed.update(numbers[:count])
        del numbers[:count]


def settled_count(ack: spec.BasicAck, peer: Peer) -> int:
    """How many messages a confirm is about; they come in order."""
    count = ack.delivery_tag - peer._confirmed
    peer._confirmed = ack.delivery_tag
    return count


class Worker:
    """Acknowledges what it consumes; each confirmed receipt shows that the acknowledgements before it are on disk.

    A few messages it gives back or, if they are `mortal`, rejects.
    """

    def __init__(self, peer: Peer, source: Books, receipts: Books, mortal: bool, random: Random) -> None:
        self._peer = peer
        self._source = source
        self._mortal = mortal
        self._receipts = receipts
        self._random = random
        # Delivery tags and numbers of what is not acknowledged.
        self._behind: list[tuple[int, int]] = []

    def run(self) -> None:
        self._peer.call(spec.BasicQos(prefetch_count=30), spec.BasicQosOk)
        self._peer.call(spec.BasicConsume(self._source.queue, "worker"), spec.BasicConsumeOk)
        while True:
            # Some are acknowledged at once, some together.
            while len(self._behind) < self._random.choice((1, 5, 20)):
                self._read()
            way = self._random.random()
            if way < 0.1:
                tag, _ = self._behind.pop()
                self._peer.send(method(1, spec.BasicNack(tag, requeue=way < 0.05 or not self._mortal)))
                continue
            self._source.acked.update(number for _, number in self._behind)
            self._peer.send(method(1, spec.BasicAck(self._behind[-1][0], multiple=True)))
            self._behind = []
            if self._random.random() < 0.3:
                self._send_receipt()

    def _read(self) -> spec.Method:
        """Read a delivery, or a confirm."""
        found, body = self._peer.message()
        if isinstance(found, spec.BasicDeliver):
            self._behind.append((found.delivery_tag, self._source.number_of(body)))
        return found

    def _send_receipt(self) -> None:
        receipt = self._receipts.take(1)
        acked = set(self._source.acked)
        self._peer.publish(self._receipts, receipt)
        while not isinstance(self._read(), spec.BasicAck):
            pass
        self._receipts.confirmed.update(receipt)
        self._source.gone |= acked


def worker(peer: Peer, source: Books, receipts: Books, random: Random) -> None:
    Worker(peer, source, receipts, False, random).run()


class Fan:
    """One message for two queues; only the left one is consumed."""

    EXCHANGE = "fan"

    def __init__(self) -> None:
        self.left = Books("fan-left", "fan")
        self.right = Books("fan-right", "fan")

    def declare(self, peer: Peer) -> None:
        peer.call(spec.ExchangeDeclare(self.EXCHANGE, "fanout", durable=True), spec.ExchangeDeclareOk)
        for books in (self.left, self.right):
            peer.call(spec.QueueBind(books.queue, self.EXCHANGE), spec.QueueBindOk)

    def publish(self, peer: Peer, random: Random) -> None:
        while True:
            numbers = self.left.take(random.randint(1, BURST_MAX))
            self.right.published.update(numbers)
            peer.publish(self.left, numbers, self.EXCHANGE)
            note_confirms(peer, (self.left, self.right), numbers)


class Mortal:
    """A queue whose messages die into another one, its grave: rejected, or of age."""

    def __init__(self, queue: str, arguments: Table) -> None:
        self.books = Books(queue)
        self.grave = Books(f"{queue}-grave", queue)
        self.arguments: Table = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": self.grave.queue,
            **arguments,
        }

    def declare(self, peer: Peer) -> None:
        peer.declare(self.books.queue, durable=True, arguments=self.arguments)
        peer.declare(self.grave.queue, durable=True)
        if len(self.books.confirmed) > KEPT_MAX:
            self._purge(peer)

    def _purge(self, peer: Peer) -> None:
        self.books.acked = set(self.books.confirmed)
        for books in (self.books, self.grave):
            peer.call(spec.QueuePurge(books.queue), spec.QueuePurgeOk)
        self.books.gone = set(self.books.acked)

    def check(self, peer: Peer) -> None:
        """Every message is in one of both."""
        if "x-message-ttl" in self.arguments:
            # What is left of it goes on after a restart.
            eventually(lambda: peer.declare(self.books.queue, passive=True) == 0)
        alive = contents(peer, self.books)
        assert alive == sorted(alive), f"{self.books.queue}: out of order: {alive}"
        # What dies after the start is new in its grave.
        dead = contents(peer, self.grave, redelivered=False)
        self.books.check(sorted(alive + dead))

    def reject(self, peer: Peer, receipts: Books, random: Random) -> None:
        Worker(peer, self.books, receipts, True, random).run()


def empty(peer: Peer, books: Books) -> None:
    """Purge a queue that has become long, while nobody works on it."""
    if len(books.confirmed) > KEPT_MAX:
        books.acked = set(books.confirmed)
        peer.call(spec.QueuePurge(books.queue), spec.QueuePurgeOk)
        books.gone = set(books.acked)


class Transfers:
    """Moves messages from one queue to two others, in transactions."""

    def __init__(self) -> None:
        self.source = Books("tx-source")
        self.targets = (Books("tx-left"), Books("tx-right"))

    def run(self, peer: Peer, random: Random) -> None:
        peer.call(spec.TxSelect(), spec.TxSelectOk)
        while True:
            size = LARGE_COMMIT if random.random() < 0.1 else random.randint(1, 10)
            self._fill(peer, self.source.take(size))
            self._move(peer, size)

    def _fill(self, peer: Peer, numbers: list[int]) -> None:
        peer.publish(self.source, numbers)
        peer.call(spec.TxCommit(), spec.TxCommitOk)
        self.source.confirmed.update(numbers)

    def _move(self, peer: Peer, size: int) -> None:
        numbers = []
        for _ in range(size):
            peer.send(method(1, spec.BasicGet(self.source.queue)))
            found, body = peer.message()
            assert isinstance(found, spec.BasicGetOk), found
            numbers.append(self.source.number_of(body))
        for target in self.targets:
            peer.publish(target, numbers)
        self.source.acked.update(numbers)
        peer.send(method(1, spec.BasicAck(0, multiple=True)))
        peer.call(spec.TxCommit(), spec.TxCommitOk)
        self.source.gone.update(numbers)
        for target in self.targets:
            target.confirmed.update(numbers)

    def check(self, found: dict[str, list[int]]) -> None:
        """Every message is in one place or in both others."""
        source, left, right = (set(found[books.queue]) for books in (self.source, *self.targets))
        assert left == right, f"half of a transaction: {sorted(left ^ right)}"
        assert not source & left, f"moved and still there: {sorted(source & left)}"


class Definitions:
    """Declares, binds and deletes; `there` and `gone` were answered, what is in neither is in doubt."""

    EXCHANGE = "passing"

    def __init__(self) -> None:
        self.there: dict[str, Books] = {}
        self.gone: set[str] = set()
        self._next = 0

    def run(self, peer: Peer, random: Random) -> None:
        peer.call(spec.ExchangeDeclare(self.EXCHANGE, "topic", durable=True), spec.ExchangeDeclareOk)
        while True:
            name = f"passing-{self._next}"
            self._next += 1
            peer.call(spec.QueueDeclare(name, durable=True), spec.QueueDeclareOk)
            peer.call(spec.QueueBind(name, self.EXCHANGE, name), spec.QueueBindOk)
            books = self.there[name] = Books(name)
            numbers = books.take(random.randint(1, 5))
            peer.publish(books, numbers, self.EXCHANGE, name)
            note_confirms(peer, (books,), numbers)
            if len(self.there) > 5:
                self._delete(peer, random.choice(list(self.there)))

    def _delete(self, peer: Peer, name: str) -> None:
        del self.there[name]
        peer.call(spec.QueueDelete(name), spec.QueueDeleteOk)
        self.gone.add(name)

    def check(self, connect: Callable[[], Peer]) -> None:
        with connect() as peer:
            for name, books in self.there.items():
                books.check(contents(peer, books))
                # Not persistent: gone after the next cut.
                peer.send(*publish(1, name, b"still bound?", exchange=self.EXCHANGE, mandatory=True))
                found = peer.read()
                assert isinstance(found, spec.BasicAck), f"{name} is not bound any more: {found}"
        for name in self.gone:
            with connect() as peer:
                peer.send(method(1, spec.QueueDeclare(name, passive=True)))
                found = peer.read()
                assert isinstance(found, spec.ChannelClose), f"{name} was deleted, and is there: {found}"
        self.gone = set()


def contents(peer: Peer, books: Books, redelivered: bool = True) -> list[int]:
    """The numbers in a queue, left there; all count as redelivered after an unclean end."""
    count = peer.declare(books.queue, passive=True)
    peer.call(spec.BasicConsume(books.queue, books.queue), spec.BasicConsumeOk)
    numbers = []
    for _ in range(count):
        found, body = peer.message()
        assert isinstance(found, spec.BasicDeliver), found
        assert found.redelivered or not redelivered, f"{books.queue}: not marked as redelivered"
        numbers.append(books.number_of(body))
    peer.call(spec.BasicCancel(books.queue), spec.BasicCancelOk)
    return numbers


class Load:
    """All of it at once."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._plain = Books("plain")
        self._fan = Fan()
        self._rejected = Mortal("rejected", {})
        self._brief = Mortal("brief", {"x-message-ttl": 300})
        self._receipts = [Books(f"receipts-{number}") for number in range(3)]
        self._transfers = Transfers()
        self._definitions = Definitions()
        self._declared = False
        self._faults: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    @property
    def all_books(self) -> list[Books]:
        """Those of which everything is in one queue."""
        fan = self._fan
        return [self._plain, fan.left, fan.right, *self._receipts, self._transfers.source, *self._transfers.targets]

    @property
    def figures(self) -> tuple[int, int]:
        """How many messages were published, and how many are promised to be there."""
        books = [*self.all_books, self._rejected.books, self._brief.books]
        return sum(one.next_number for one in books), sum(len(one.confirmed) for one in books)

    def start(self, port: int) -> None:
        """Set all clients to work; they end when the broker does."""
        with Peer(port).login() as peer:
            for books in self.all_books:
                peer.declare(books.queue, durable=True)
                empty(peer, books)
            self._fan.declare(peer)
            self._rejected.declare(peer)
            self._brief.declare(peer)
        self._declared = True
        self._run(port, publisher, self._plain)
        self._run(port, worker, self._plain, self._receipts[0])
        self._run(port, self._fan.publish)
        self._run(port, worker, self._fan.left, self._receipts[1])
        self._run(port, publisher, self._rejected.books)
        self._run(port, self._rejected.reject, self._receipts[2])
        self._run(port, publisher, self._brief.books)
        self._run(port, self._transfers.run, confirms=False)
        self._run(port, self._definitions.run)

    def _run(self, port: int, client: Callable[..., None], *books: Books, confirms: bool = True) -> None:
        random = Random(self._random.random())
        peer = Peer(port).login()
        if confirms:
            peer.confirming()

        def run() -> None:
            try:
                with peer:
                    client(peer, *books, random)
            except (EOFError, OSError, Stopped):
                pass
            except BaseException as fault:
                self._faults.append(fault)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        """Wait for the clients of a broker that has ended."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        self._threads = []
        faults, self._faults = self._faults, []
        if faults:
            raise faults[0]

    def check(self, port: int) -> None:
        """Compare what a broker has after it was ended with what was promised before."""
        if not self._declared:
            return
        with Peer(port).login() as peer:
            found = {books.queue: contents(peer, books) for books in self.all_books}
        self._transfers.check(found)
        for books in self.all_books:
            books.check(found[books.queue])
        with Peer(port).login() as peer:
            self._brief.check(peer)
            self._rejected.check(peer)
        self._definitions.check(lambda: Peer(port).login().confirming())
