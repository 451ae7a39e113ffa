"""A broker with a connection that nobody touches, and others that are fed what a mutator made.

Whatever is fed, `feed` must not raise, what is sent must be well formed (see `observer`), the untouched connection must go
on working, and once a fed connection is lost nothing of it may be left.
"""

import random
from collections.abc import Iterable

from tests.properties.dialogue import FRAME_MAX, HANDSHAKE, method, publish
from tests.properties.observer import Observer

from leveret.broker.broker import Broker, default_broker
from leveret.protocol.connection import Connection
from leveret.protocol.heartbeat import NEVER
from leveret.protocol.peer import Peer
from leveret.server.read_buffer import ReadBuffer
from leveret.wire import spec

TURNS_MAX = 5_000


class Client:
    """A connection, what it has sent, and the time."""

    def __init__(self, broker: Broker, name: str = "fed", buffer: ReadBuffer | None = None) -> None:
        self.now = 1_000_000
        self.broker = broker
        self.buffer = buffer
        self.connection = Connection(broker, Peer(name, "127.0.0.1"), lambda: None, self.now)
        self.seen = Observer()

    def feed(self, data: bytes) -> None:
        """Let these bytes arrive, and everything they cause be done."""
        self.now += 1
        if self.buffer is None:
            self.connection.receive(data, self.now)
        else:
            self._feed_through(self.buffer, data)
        turns = 0
        while self.connection.busy or self.broker.work:
            turns += 1
            assert turns < TURNS_MAX, "there is no end to the work"
            if self.connection.busy:
                self.connection.go_on(self.now)
            if self.broker.work:
                self.broker.work.budget.begin()
                self.broker.work.drain()
        self.seen.observe(self.connection.take_output(self.now))

    def _feed_through(self, buffer: ReadBuffer, data: bytes) -> None:
        """As the server does it: large bodies in place, all else in the buffer of all sockets, which changes afterwards."""
        room = self.connection.room()
        while room is not None and data:
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self.connection.receive_in_place(size, self.now)
            data = data[size:]
            room = self.connection.room()
        rest = self.connection.reader.rest
        size = len(rest) + len(data)
        buffer.room(rest)[: len(data)] = data
        self.connection.receive_from(buffer.buffer, size, self.now)
        buffer.buffer[:size] = b"\xa5" * size

    def feed_in_pieces(self, data: bytes, cuts: Iterable[int]) -> None:
        """Feed the same, cut at these places."""
        at = 0
        for cut in sorted(cuts):
            if at < cut < len(data):
                self.feed(data[at:cut])
                at = cut
        self.feed(data[at:])

    def wait(self) -> None:
        """Let time pass until nothing more is due, as when the client stays silent."""
        for _ in range(10):
            if self.connection.tick_at == NEVER or self.connection.ended:
                break
            self.now = self.connection.tick_at
            self.connection.tick(self.now)
            self.seen.observe(self.connection.take_output(self.now))
        assert self.connection.ended


class Lab:
    """The broker and the untouched connection."""

    def __init__(self) -> None:
        self.broker = default_broker()
        self._pings = 0
        self._clients = 0
        self._buffer = ReadBuffer(FRAME_MAX)
        self._bystander = Client(self.broker, "bystander")
        self._bystander.feed(HANDSHAKE)
        self._bystander.feed(method(1, spec.ChannelOpen()).encode() + method(1, spec.ConfirmSelect()).encode())
        self._bystander.feed(method(1, spec.QueueDeclare("bystander's own", exclusive=True)).encode())
        self._bystander.feed(method(1, spec.BasicConsume("bystander's own", "c", no_ack=True)).encode())
        self._ping = b"".join(frame.encode() for frame in publish(1, "bystander's own", b"ping"))

    def client(self) -> Client:
        """A new connection; every other one is fed through the buffer that the server reads into."""
        self._clients += 1
        return Client(self.broker, buffer=self._buffer if self._clients % 2 else None)

    def run(self, data: bytes, cuts: Iterable[int] = (), greeting: bytes = HANDSHAKE) -> Observer:
        """Feed a new connection and lose it; fails if that leaves anything behind."""
        client = self.client()
        client.feed(greeting)
        client.feed_in_pieces(data, cuts)
        self.lose(client)
        return client.seen

    def lose(self, client: Client) -> None:
        """Lose a connection and look at what is left."""
        client.connection.lost(client.now)
        self.check_untouched()
        vhost = self.broker.vhosts["/"]
        for queue in list(vhost.queues.values()):
            if queue.name == "bystander's own":
                continue
            assert queue.owner is None, f"{queue.title} is exclusive to a connection that is gone"
            assert queue.consumer_count == 0, f"{queue.title} has a consumer that is gone"
            assert (queue.unacked_count, queue.unacked_bytes) == (0, 0), f"{queue.title} has unacked messages"
            vhost.remove_queue(queue)
        for name in [name for name in vhost.exchanges if name and not name.startswith("amq.")]:
            vhost.delete_exchange(name)
        for exchange in vhost.exchanges.values():
            for binding in list(exchange.bindings.values()):
                vhost.unbind(exchange.name, binding.destination, binding.routing_key, binding.arguments, None)
        self.drain()

    def drain(self) -> None:
        """Do what is on the work list; it must come to an end."""
        for _ in range(TURNS_MAX):
            if not self.broker.work:
                return
            self.broker.work.budget.begin()
            self.broker.work.drain()
        raise AssertionError("there is no end to the work")

    def check_untouched(self) -> None:
        """Fail unless the untouched connection still gets what it publishes, confirmed."""
        self.drain()
        bystander = self._bystander
        bystander.seen.methods.clear()
        bystander.feed(self._ping)
        self._pings += 1
        sent = [answer for _, answer in bystander.seen.methods]
        assert sent == [
            spec.BasicDeliver("c", self._pings, False, "", "bystander's own"),
            spec.BasicAck(self._pings, False),
        ]


def cuts_of(rng: random.Random, size: int) -> list[int]:
    """A few places to cut `size` bytes, sometimes none, sometimes everywhere near the start."""
    if rng.random() < 0.5:
        return []
    if rng.random() < 0.1:
        return list(range(1, min(size, 40)))
    return [rng.randrange(size + 1) for _ in range(rng.randrange(1, 4))]
