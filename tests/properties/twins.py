"""A broker and its naive twin: both are told the same, step by step, and compared after each.

Compared are what every client heard on every channel, every queue's messages in their order, and which queues, exchanges
and bindings there are. On one channel three things are in order each for itself: answers and returns; deliveries and
cancellations; confirms. Beyond that a channel's own consume-ok goes before its deliveries, a return before its confirm, and
nothing follows a close.
"""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.properties.naive import Close, Confirm, Content, Naive
from tests.properties.naive_queues import Difference
from tests.properties.naive_topology import Fault, Thing, Where
from tests.protocol.conftest import Client

from leveret.broker.broker import default_broker
from leveret.broker.queue import Queue
from leveret.wire import spec
from leveret.wire.content import body_of
from leveret.wire.properties import Properties

Command = spec.Method | tuple[spec.Method, Content]
Streams = dict[Where, list[Any]]

SLOTS = 3
SCRIPTS_MAX = 300
TURNS_MAX = 1_000
START = 1_000_000


class Mishaps(logging.Handler):
    """Keeps the log quiet and notes the exceptions in it, which nobody would see otherwise."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))

    @contextmanager
    def noted(self) -> Iterator[None]:
        log = logging.getLogger("leveret")
        log.addHandler(self)
        log.propagate = False
        try:
            yield
        finally:
            log.removeHandler(self)
            log.propagate = True


class Twins:
    """Three clients, a broker and its twin; `seen` counts what has been met with.

    A client's number modulo three is its place: who reconnects has a new number in the same place. Those in the last
    place cannot be told that a consumer of theirs is cancelled.
    """

    def __init__(self, seen: Counter[str], mishaps: Mishaps) -> None:
        self.seen = seen
        self.mishaps = mishaps
        mishaps.found.clear()
        self.now = START
        self.broker = default_broker()
        self.vhost = self.broker.vhosts["/"]
        self.naive = Naive(START)
        self.story: list[str] = []
        self.clients: dict[int, Client] = {}
        for slot in range(SLOTS):
            self.connect(slot)

    def connect(self, number: int) -> None:
        capabilities = () if number % SLOTS == SLOTS - 1 else ("consumer_cancel_notify",)
        self.clients[number] = Client(self.broker, now=self.now).log_in(capabilities=capabilities)

    def client(self, slot: int) -> int:
        """The number of the client in this place."""
        return next(number for number in self.clients if number % SLOTS == slot)

    def channel(self, slot: int, number: int) -> Where:
        """A channel of the client in this place, opened if it is not open."""
        where = (self.client(slot), number)
        if where in self.naive.channels and self.naive.channels[where]["closing"]:
            # What is said before the close is answered is not heard.
            self.tell(where, spec.BasicQos(prefetch_count=1), spec.ChannelCloseOk())
        if where not in self.naive.channels:
            self.tell(where, spec.ChannelOpen())
        return where

    # Steps

    def tell(self, where: Where, *commands: Command, cut: float = 1.0) -> None:
        """Have a client say this on a channel, in one read or in two."""
        pairs = [command if isinstance(command, tuple) else (command, None) for command in commands]
        client = self.clients[where[0]]
        pieces = [client.method(method, where[1]) for method, _ in pairs]
        for at, (_, content) in enumerate(pairs):
            if content is not None:
                pieces[at] += client.content(content[1], content[0], where[1])
        data = b"".join(pieces)
        middle = round(cut * len(data))
        ends = [sum(len(piece) for piece in pieces[: at + 1]) for at in range(len(pieces))]

        def act() -> None:
            for part in (data[:middle], data[middle:]):
                client.connection.receive(part, self.now)

        def follow(naive: Naive) -> None:
            naive.reads += 1
            for (method, content), end in zip(pairs, ends, strict=True):
                if end > middle >= end - len(pieces[ends.index(end)]):
                    naive.do_everything_later()
                    naive.reads += 1
                naive.hear(where, method, content)

        line = f"client {where[0]} channel {where[1]}: {', '.join(described(*pair) for pair in pairs)}"
        self.step(line if cut == 1 else f"{line}; in two reads, of {middle} and {len(data) - middle} octets", act, follow)
        if self.naive.lost:
            self.reconnect(where[0])

    def reconnect(self, number: int) -> None:
        """A connection was closed by the broker, or is at its end otherwise."""
        client = self.clients.pop(number)
        if not client.connection.ended:
            client.feed(client.method(spec.ConnectionCloseOk(), 0))
        assert client.connection.ended
        assert client.octets() == b""
        self.connect(number + SLOTS)

    def close(self, slot: int) -> None:
        """The client in this place closes its connection."""
        number = self.client(slot)
        client = self.clients[number]

        def follow(naive: Naive) -> None:
            naive.lose(number)
            naive.said[number, 0] = [spec.ConnectionCloseOk()]

        data = client.method(spec.ConnectionClose(200, "bye"), 0)
        self.step(f"client {number} closes", lambda: client.connection.receive(data, self.now), follow)
        self.reconnect(number)

    def lose(self, slot: int) -> None:
        """The client in this place is gone without a word."""
        number = self.client(slot)
        lost = self.clients[number].connection.lost
        self.step(f"client {number} is lost", lambda: lost(self.now), lambda naive: naive.lose(number))
        self.reconnect(number)

    def shut(self, slot: int) -> None:
        """The broker closes the connection in this place."""
        number = self.client(slot)
        shut = self.clients[number].connection.shut

        def follow(naive: Naive) -> None:
            naive.lose(number)
            naive.said[number, 0] = [Close(Fault(320, "enough"), 0)]

        self.step(f"client {number} is shut", lambda: shut("enough", self.now), follow)
        self.reconnect(number)

    def wait(self, time: int, late: bool) -> None:
        """Let time pass. Late, nobody looks at the clock before it is over."""
        until = self.now + time

        def act() -> None:
            while not late and (due := self.broker.timers.next_at()) <= until:
                self.now = max(self.now, due)
                self.turns()
            self.now = until

        line = f"{time} ms pass" + (", and nobody looks at the clock" if late else "")
        self.step(line, act, lambda naive: naive.wait(until, late))

    def set_policy(self, operator: bool, name: str, policy: Thing | None) -> None:
        """Set a policy, or clear it."""
        vhost = self.vhost

        def act() -> None:
            # As whoever is asked to do it begins a pass.
            self.broker.work.budget.now = self.now
            self.broker.work.budget.begin()
            if policy is None:
                (vhost.operator_policies.clear if operator else vhost.policies.clear)(name)
            else:
                (vhost.operator_policies.set if operator else vhost.policies.set)(name, **policy)

        line = f"{'operator policy' if operator else 'policy'} {name!r}: {policy or 'cleared'}"
        self.step(line, act, lambda naive: naive.set_policy(operator, name, policy))

    def step(self, line: str, act: Callable[[], None], follow: Callable[[Naive], None]) -> None:
        """Do something to the broker, have its twin follow, and compare them."""
        self.seen["steps"] += 1
        self.story.append(f"{len(self.story) + 1:4}. at {self.now - START}: {line}")
        before = pickle.dumps(self.naive)
        try:
            act()
            self.turns()
        except Exception as error:
            raise AssertionError(self.told(f"the broker fell over {error!r}")) from error
        streams = self.streams()
        deliveries, names = oracle(streams)
        first: Difference | None = None
        script: list[int] | None = []
        for _ in range(SCRIPTS_MAX):
            if script is None:
                break
            naive: Naive = self.naive if first is None else pickle.loads(before)
            naive.begin(deliveries, names, script)
            try:
                follow(naive)
                naive.end()
                self.compare(naive, streams)
            except Difference as difference:
                first = first or difference
                script = naive.next_script()
            except Exception as error:
                raise AssertionError(self.told(f"the model fell over {error!r}")) from error
            else:
                self.naive = naive
                self.seen.update(naive.seen)
                self.seen["in another order"] += first is not None
                return
        raise AssertionError(self.told(first)) from first

    def told(self, difference: object) -> str:
        return "\n".join(["the steps:", *self.story, f"the first difference:\n      {difference}"])

    def turns(self) -> None:
        """Do what the server does at the end of its turns, until nothing is left to do."""
        work = self.broker.work
        for _ in range(TURNS_MAX):
            busy = [client for client in self.clients.values() if client.connection.busy]
            for client in busy:
                client.connection.go_on(self.now)
            if work:
                work.budget.now = self.now
                work.budget.begin()
                work.drain()
            if self.broker.timers.next_at() <= self.now:
                work.budget.now = self.now
                work.budget.begin()
                self.broker.timers.run(self.now, 1000)
            elif not busy and not work:
                return
        raise RuntimeError("there is no end to the work")

    def streams(self) -> Streams:
        """What has been heard, by channel; a content is with its method."""
        streams: Streams = {}
        for number, client in self.clients.items():
            client.now = self.now
            items = iter(client.heard_on_channels())
            for channel, item in items:
                stream = streams.setdefault((number, channel), [])
                stream.append(item)
                if isinstance(item, spec.Method) and item.CONTENT:
                    content = next(items)[1]
                    stream.append((Properties(), content) if isinstance(content, bytes) else content)
        return streams

    # Comparing

    def compare(self, naive: Naive, streams: Streams) -> None:
        if self.mishaps.found:
            raise Difference(f"an exception was logged: {self.mishaps.found.pop()}")
        for where in sorted({*streams, *naive.said}):
            compare_streams(f"client {where[0]} channel {where[1]}", streams.get(where, []), naive.said.get(where, []))
        same("the queues", set(self.vhost.queues), set(naive.queues))
        for name, queue in self.vhost.queues.items():
            compare_queues(naive, queue, naive.queues[name])
        kinds = {name: exchange.kind for name, exchange in self.vhost.exchanges.items()}
        same("the exchanges", kinds, {name: exchange["kind"] for name, exchange in naive.exchanges.items()})
        bindings = [
            (source.name, binding.destination.name, binding.routing_key, arranged(binding.arguments))
            for source in self.vhost.exchanges.values()
            for binding in source.bindings.values()
        ]
        expected = [
            (binding["source"], binding["destination"], binding["key"], arranged(binding["arguments"]))
            for binding in naive.bindings
        ]
        same("the bindings", sorted(bindings), sorted(expected))


def described(method: spec.Method, content: Content | None) -> str:
    """A command as the story tells it: only what is set."""
    fields = [name for name, _ in method.FIELDS if name and getattr(method, name)]
    line = f"{method.NAME}({', '.join(f'{name}={getattr(method, name)!r}' for name in fields)})"
    if content is None:
        return line
    known = {name: getattr(content[0], name) for name in Properties.__slots__}
    return f"{line} {content[1]!r} { ({name: value for name, value in known.items() if value is not None}) }"


def arranged(arguments: Thing) -> str:
    return repr(sorted(arguments.items()))


def oracle(streams: Streams) -> tuple[dict[Where, list[tuple[str, bytes]]], list[str]]:
    """What only the broker can know: who got what (consumer tag and body), and the names it made."""
    deliveries: dict[Where, list[tuple[str, bytes]]] = {}
    names: list[str] = []
    for where, stream in streams.items():
        for at, item in enumerate(stream):
            if isinstance(item, spec.BasicDeliver):
                deliveries.setdefault(where, []).append((item.consumer_tag, stream[at + 1][1]))
            elif isinstance(item, spec.QueueDeclareOk):
                names.append(item.queue)
    return deliveries, names


def same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Difference(f"{what}: the broker has {found}, the model {expected}")


def compare_queues(naive: Naive, queue: Queue, expected: Thing) -> None:
    name = f"queue {queue.name!r}, "
    naive.sort(expected)
    entries = queue.backlog.front.entries()
    messages = [entry.message for entry in entries]
    bodies = [body_of(one.content, one.header_size, one.body_size, one.frame_size) for one in messages]
    ready = [(bytes(body), entry.redelivered) for body, entry in zip(bodies, entries, strict=True)]
    same(name + "ready", ready, [(place["message"]["body"], place["redelivered"]) for place in expected["ready"]])
    same(name + "ready count", queue.ready_count, len(bodies))
    same(name + "ready bytes", queue.ready_bytes, sum(len(body) for body in bodies))
    held = [len(one["place"]["message"]["body"]) for one in naive.unacked if one["queue"] is expected]
    same(name + "unacked count and bytes", (queue.unacked_count, queue.unacked_bytes), (len(held), sum(held)))
    same(name + "consumer count", queue.consumer_count, len(naive.consumers_of(expected)))


def compare_streams(who: str, heard: list[Any], said: list[Any]) -> None:
    """Compare what a client heard on one channel with what it should have heard."""
    flows = (spec.BasicDeliver, spec.BasicCancel)
    confirms = (spec.BasicAck, spec.BasicNack, Confirm)
    compare_answers(f"{who}, answers", parts(heard, (*flows, *confirms), False), parts(said, (*flows, *confirms), False))
    same(f"{who}, deliveries", parts(heard, flows, True), parts(said, flows, True))
    compare_confirms(f"{who}, confirms", heard, [one for one in said if isinstance(one, Confirm)])
    methods = [item for item in heard if isinstance(item, spec.Method)]
    for at, method in enumerate(methods):
        if isinstance(method, spec.ChannelClose | spec.ConnectionClose | spec.ChannelCloseOk) and at + 1 < len(methods):
            raise Difference(f"{who}: {described(methods[at + 1], None)} after {method.NAME}")
        if isinstance(method, spec.BasicConsumeOk | spec.BasicRecoverOk | spec.BasicGetOk) and at:
            raise Difference(f"{who}: {described(methods[0], None)} before {method.NAME}")


def parts(stream: list[Any], kinds: tuple[type, ...], wanted: bool) -> list[Any]:
    """The methods of these kinds, or all others, each with its content."""
    found: list[Any] = []
    chosen = False
    for item in stream:
        if not isinstance(item, tuple):
            chosen = isinstance(item, kinds) == wanted
        if chosen:
            found.append(item)
    return found


def compare_answers(who: str, heard: list[Any], said: list[Any]) -> None:
    fits = [one.fits(item) if isinstance(one, Close) else one == item for item, one in zip(heard, said, strict=False)]
    if len(heard) != len(said) or not all(fits):
        raise Difference(f"{who}: the broker said {heard}, the model {said}")


def compare_confirms(who: str, heard: list[Any], expected: list[Confirm]) -> None:
    """Each message must be confirmed once, alone or with others, and after it was returned."""
    left = {one.number: one for one in expected}
    returns = 0
    for item in heard:
        if isinstance(item, spec.BasicReturn):
            returns += 1
        elif isinstance(item, spec.BasicAck | spec.BasicNack):
            tag = item.delivery_tag
            numbers = [number for number in left if number == tag or (item.multiple and number < tag)]
            if tag not in numbers:
                raise Difference(f"{who}: {tag} is confirmed and should not be")
            for number in numbers:
                one = left.pop(number)
                if one.taken != isinstance(item, spec.BasicAck):
                    raise Difference(f"{who}: {number} is confirmed with {item.NAME}")
            if returns < sum(one.returned for one in expected if one.number <= tag):
                raise Difference(f"{who}: {tag} is confirmed before it is returned")
    if left:
        raise Difference(f"{who}: {sorted(left)} are not confirmed")
