"""Random dialogues of three clients with one broker against a naive broker in lists and dictionaries.

The naive broker routes by trying every binding, keeps each queue as a sorted list, and does not foresee which consumer gets
a message: what the clients hear must be what was ready, in order, to somebody who consumes it and has room.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.protocol.conftest import Client

from leveret.broker.broker import default_broker
from leveret.wire.spec import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeBindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

EXCHANGES = {"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic"}
QUEUES = ("p", "q", "r")
KEYS = ("a", "a.b", "b", "")
PATTERNS = (*KEYS, "#", "*", "a.#", "#.b", "*.b")

queues = st.sampled_from(QUEUES)
exchanges = st.sampled_from(list(EXCHANGES))
clients = st.integers(0, 2)
# What ends much of what the others build up must not happen at every other step.
rarely = st.integers(0, 7).map(lambda number: number == 7)


def fits(kind: str, pattern: list[str], key: list[str]) -> bool:
    """Whether a binding leads on, tried out recursively."""
    if kind == "fanout":
        return True
    if kind == "direct" or not pattern:
        return pattern == key
    if pattern[0] == "#":
        return any(fits(kind, pattern[1:], key[at:]) for at in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and fits(kind, pattern[1:], key[1:])


@dataclass
class Place:
    """A message in a queue; `seq` is its place."""

    seq: int
    body: bytes
    redelivered: bool = False


@dataclass
class Store:
    """A naive queue."""

    owner: int | None
    auto_delete: bool
    ready: list[Place] = field(default_factory=list)

    def first(self) -> Place:
        return min(self.ready, key=lambda place: place.seq)


@dataclass
class Subscription:
    queue: str
    no_ack: bool
    prefetch: int


@dataclass
class Held:
    """An unacknowledged delivery; `store` may be gone from its broker."""

    store: Store
    place: Place
    tag: str | None


@dataclass
class Side:
    """What the naive broker knows of one client's channel."""

    client: Client
    prefetch: int = 0
    shared: int = 0
    confirming: bool = False
    published: int = 0
    last_tag: int = 0
    consumers: dict[str, Subscription] = field(default_factory=dict)
    unacked: dict[int, Held] = field(default_factory=dict)

    def held_by(self, tag: str) -> int:
        return sum(held.tag == tag for held in self.unacked.values())

    def held_by_consumers(self) -> int:
        return sum(held.tag is not None for held in self.unacked.values())


class BrokerMachine(RuleBasedStateMachine):
    """Three clients, a broker, and its naive twin; `seen` counts what all runs together have done."""

    seen: ClassVar[Counter[str]] = Counter()

    @initialize(consumers=st.lists(st.tuples(clients, queues, st.sampled_from([0, 1, 2, 4])), max_size=4))
    def begin(self, consumers: list[tuple[int, str, int]]) -> None:
        self.broker = default_broker()
        self.stores: dict[str, Store] = {}
        self.bindings: set[tuple[str, str, str]] = set()  # source, destination, key; exchanges are destinations too
        self.numbers = itertools.count(1)
        self.sides = [self.connected() for _ in range(3)]
        for name in QUEUES:
            self.stores[name] = Store(None, False)
            assert self.say(0, QueueDeclare(name)) == [QueueDeclareOk(name, 0, 0)]
        for tag, (at, name, prefetch) in zip("fghi", consumers, strict=False):
            self.limit(at, prefetch, False)
            self.subscribe(at, name, tag, False)

    def connected(self) -> Side:
        return Side(Client(self.broker).log_in().open(1))

    # The naive broker

    def routed(self, exchange: str, key: str) -> list[str]:
        if not exchange:
            return [key] if key in self.stores else []
        seen, pending, found = {exchange}, [exchange], list[str]()
        while pending:
            source = pending.pop()
            for origin, destination, pattern in sorted(self.bindings):
                if origin == source and fits(EXCHANGES[source], pattern.split("."), key.split(".")):
                    if destination in EXCHANGES:
                        if destination not in seen:
                            seen.add(destination)
                            pending.append(destination)
                    elif destination not in found:
                        found.append(destination)
        return found

    def drop(self, name: str) -> None:
        """A queue is gone, and with it its bindings and consumers."""
        del self.stores[name]
        self.bindings = {binding for binding in self.bindings if binding[1] != name}

    def give_back(self, held: list[Held]) -> None:
        self.seen["given back"] += len(held)
        for one in held:
            one.place.redelivered = True
            one.store.ready.append(one.place)

    def leave(self, at: int, channel_only: bool) -> None:
        """A client's channel is closed, and perhaps its connection."""
        side = self.sides[at]
        names = {subscription.queue for subscription in side.consumers.values()}
        side.consumers.clear()
        self.give_back(list(side.unacked.values()))
        side.unacked.clear()
        for name in names:
            self.drop_unused(name)
        if not channel_only:
            for name in [name for name, store in self.stores.items() if store.owner == at]:
                self.drop(name)

    def drop_unused(self, name: str) -> None:
        if self.stores[name].auto_delete and not self.consumers_of(name):
            self.drop(name)

    def consumers_of(self, name: str) -> list[tuple[Side, str]]:
        return [
            (side, tag) for side in self.sides for tag, subscription in side.consumers.items() if subscription.queue == name
        ]

    def has_room(self, side: Side, tag: str) -> bool:
        subscription = side.consumers[tag]
        if side.shared and side.held_by_consumers() >= side.shared:
            return False
        return subscription.no_ack or not subscription.prefetch or side.held_by(tag) < subscription.prefetch

    # What is said and heard

    def say(self, at: int, *items: Method | bytes) -> list[object]:
        """Have a client say this; what it hears other than deliveries. Deliveries to all are taken note of."""
        side = self.sides[at]
        side.client.feed(b"".join(item if isinstance(item, bytes) else side.client.method(item) for item in items))
        heard = [self.heard(one) for one in self.sides]
        deliveries = [delivery for _, some in heard for delivery in some]
        for one, (others, _) in zip(self.sides, heard, strict=True):
            assert one is side or others == [], "somebody heard what was meant for another"
        self.note(deliveries)
        return heard[at][0]

    def heard(self, side: Side) -> tuple[list[object], list[tuple[Side, BasicDeliver, bytes]]]:
        others: list[object] = []
        deliveries: list[tuple[Side, BasicDeliver, bytes]] = []
        items = iter(side.client.heard_on_channels())
        for _, item in items:
            if isinstance(item, BasicDeliver):
                _, body = next(items)
                assert isinstance(body, bytes)
                deliveries.append((side, item, body))
            elif isinstance(item, BasicCancel):
                subscription = side.consumers.pop(item.consumer_tag)
                assert subscription.queue not in self.stores
            else:
                others.append(item)
        return others, deliveries

    def note(self, deliveries: list[tuple[Side, BasicDeliver, bytes]]) -> None:
        """Deliveries of one queue may be spread over clients: together they are what was first, and each has its order."""
        waiting: dict[str, list[tuple[Side, BasicDeliver, bytes]]] = {}
        for side, deliver, body in deliveries:
            side.last_tag += 1
            assert deliver.delivery_tag == side.last_tag
            waiting.setdefault(side.consumers[deliver.consumer_tag].queue, []).append((side, deliver, body))
        for name, some in waiting.items():
            store = self.stores[name]
            while some:
                first = store.first()
                found = next((one for one in some if one[2] == first.body), None)
                assert found is not None, "something was delivered before what is first"
                some.remove(found)
                self.note_one(store, first, *found[:2])

    def note_one(self, store: Store, first: Place, side: Side, deliver: BasicDeliver) -> None:
        self.seen["redelivered" if first.redelivered else "delivered"] += 1
        assert deliver.redelivered == first.redelivered
        assert self.has_room(side, deliver.consumer_tag)
        store.ready.remove(first)
        if not side.consumers[deliver.consumer_tag].no_ack:
            side.unacked[deliver.delivery_tag] = Held(store, first, deliver.consumer_tag)

    # Commands

    def may_use(self, at: int, name: str) -> bool:
        return name in self.stores and self.stores[name].owner in (None, at)

    @rule(
        at=clients, name=queues, auto_delete=st.booleans(), exclusive=st.sampled_from([False, False, True]), wrongly=rarely
    )
    def declare(self, at: int, name: str, auto_delete: bool, exclusive: bool, wrongly: bool) -> None:
        owner = at if exclusive else None
        store = self.stores.get(name)
        declare = QueueDeclare(name, auto_delete=auto_delete, exclusive=exclusive)
        if store is None:
            self.stores[name] = Store(owner, auto_delete)
            assert self.say(at, declare) == [QueueDeclareOk(name, 0, 0)]
        elif store.owner != owner or store.auto_delete != auto_delete:
            if not wrongly:
                return
            self.seen["channel errors"] += 1
            self.leave(at, channel_only=True)
            self.closed(at, self.say(at, declare), 405 if store.owner != owner else 406)
        else:
            expected = QueueDeclareOk(name, len(store.ready), len(self.consumers_of(name)))
            assert self.say(at, declare) == [expected]

    def closed(self, at: int, heard: list[object], code: int) -> None:
        """The channel was closed for an error; it is opened again."""
        assert len(heard) == 1
        assert isinstance(heard[0], ChannelClose)
        assert heard[0].reply_code == code
        self.after_closing(at)
        assert self.say(at, ChannelCloseOk(), ChannelOpen()) == [ChannelOpenOk()]

    def after_closing(self, at: int) -> None:
        """Note what follows from a closed channel. Its messages may have gone to others before this is called."""
        self.sides[at] = Side(self.sides[at].client)

    @rule(at=clients, name=queues, really=rarely)
    def delete(self, at: int, name: str, really: bool) -> None:
        if not really or (name in self.stores and not self.may_use(at, name)):
            return
        count = len(self.stores[name].ready) if name in self.stores else 0
        if name in self.stores:
            self.drop(name)
        assert self.say(at, QueueDelete(name)) == [QueueDeleteOk(count)]

    @rule(at=clients, name=queues, really=rarely)
    def purge(self, at: int, name: str, really: bool) -> None:
        if really and self.may_use(at, name):
            count = len(self.stores[name].ready)
            self.stores[name].ready.clear()
            assert self.say(at, QueuePurge(name)) == [QueuePurgeOk(count)]

    @rule(at=clients, name=queues, exchange=exchanges, pattern=st.sampled_from(PATTERNS))
    def bind(self, at: int, name: str, exchange: str, pattern: str) -> None:
        if self.may_use(at, name):
            self.bindings.add((exchange, name, pattern))
            assert self.say(at, QueueBind(name, exchange, pattern)) == [QueueBindOk()]

    @rule(at=clients, source=exchanges, destination=exchanges, pattern=st.sampled_from(PATTERNS))
    def bind_exchange(self, at: int, source: str, destination: str, pattern: str) -> None:
        self.bindings.add((source, destination, pattern))
        assert self.say(at, ExchangeBind(destination, source, pattern)) == [ExchangeBindOk()]

    @precondition(lambda self: self.bindings)
    @rule(at=clients, data=st.data())
    def unbind(self, at: int, data: st.DataObject) -> None:
        exchange, name, pattern = data.draw(st.sampled_from(sorted(self.bindings)))
        if self.may_use(at, name):
            self.bindings.discard((exchange, name, pattern))
            assert self.say(at, QueueUnbind(name, exchange, pattern)) == [QueueUnbindOk()]

    @rule(
        at=clients,
        places=st.lists(st.tuples(exchanges, st.sampled_from(KEYS)), min_size=1, max_size=5),
        mandatory=st.booleans(),
        cut=st.floats(0, 1),
    )
    def publish_by_exchange(self, at: int, places: list[tuple[str, str]], mandatory: bool, cut: float) -> None:
        self.publish(at, places, mandatory, cut)

    def publish(self, at: int, places: list[tuple[str, str]], mandatory: bool, cut: float) -> None:
        side = self.sides[at]
        data, expected = b"", list[object]()
        for exchange, key in places:
            body = b"%d" % next(self.numbers)
            data += side.client.message(key, body, exchange, mandatory=mandatory)
            names = self.routed(exchange, key)
            self.seen["routed by exchanges" if exchange else "routed by name"] += len(names)
            for name in names:
                self.stores[name].ready.append(Place(next(self.numbers), body))
            if mandatory and not names:
                self.seen["returned"] += 1
                expected += [BasicReturn(312, "NO_ROUTE", exchange, key), body]
        if side.confirming:
            side.published += len(places)
            expected.append(BasicAck(side.published, multiple=len(places) > 1))
        # The last message may come in two reads.
        side.client.connection.receive(data[: round(cut * len(data))], 0)
        assert self.say(at, data[round(cut * len(data)) :]) == expected

    @rule(at=clients, names=st.lists(queues, min_size=1, max_size=6), cut=st.floats(0, 1))
    def publish_by_name(self, at: int, names: list[str], cut: float) -> None:
        self.publish(at, [("", name) for name in names], False, cut)

    @rule(at=clients, name=queues, no_ack=st.booleans())
    def get(self, at: int, name: str, no_ack: bool) -> None:
        if not self.may_use(at, name):
            return
        side, store = self.sides[at], self.stores[name]
        heard = self.say(at, BasicGet(name, no_ack=no_ack))
        if not store.ready:
            assert heard == [BasicGetEmpty()]
            return
        first = store.first()
        store.ready.remove(first)
        side.last_tag += 1
        self.seen["got"] += 1
        ok, body = heard
        assert isinstance(ok, BasicGetOk)
        assert (ok.delivery_tag, ok.redelivered, ok.message_count) == (side.last_tag, first.redelivered, len(store.ready))
        assert body == first.body
        if not no_ack:
            side.unacked[side.last_tag] = Held(store, first, None)

    @rule(at=clients, name=queues, tag=st.sampled_from("cde"), no_ack=st.booleans())
    def consume(self, at: int, name: str, tag: str, no_ack: bool) -> None:
        self.subscribe(at, name, tag, no_ack)

    def subscribe(self, at: int, name: str, tag: str, no_ack: bool) -> None:
        side = self.sides[at]
        if self.may_use(at, name) and tag not in side.consumers:
            side.consumers[tag] = Subscription(name, no_ack, side.prefetch)
            assert self.say(at, BasicConsume(name, tag, no_ack=no_ack)) == [BasicConsumeOk(tag)]

    @rule(at=clients, tag=st.sampled_from("cde"))
    def cancel(self, at: int, tag: str) -> None:
        subscription = self.sides[at].consumers.pop(tag, None)
        if subscription is not None:
            self.drop_unused(subscription.queue)
        assert self.say(at, BasicCancel(tag)) == [BasicCancelOk(tag)]

    @rule(at=clients, count=st.sampled_from([0, 1, 2, 4]), shared=st.booleans())
    def qos(self, at: int, count: int, shared: bool) -> None:
        self.limit(at, count, shared)

    def limit(self, at: int, count: int, shared: bool) -> None:
        side = self.sides[at]
        side.shared = count if shared else 0
        if not shared:
            side.prefetch = count
        assert self.say(at, BasicQos(prefetch_count=count, global_=shared)) == [BasicQosOk()]

    @precondition(lambda self: any(side.unacked for side in self.sides))
    @rule(data=st.data(), multiple=st.booleans(), act=st.sampled_from(["ack", "drop", "requeue"]), again=st.integers(0, 4))
    def settle(self, data: st.DataObject, multiple: bool, act: str, again: int) -> None:
        self.settle_one(data, multiple, act)
        while again and any(side.unacked for side in self.sides):
            again -= 1
            self.settle_one(data, data.draw(st.booleans()), data.draw(st.sampled_from(["ack", "drop", "requeue"])))

    def settle_one(self, data: st.DataObject, multiple: bool, act: str) -> None:
        self.seen["settled"] += 1
        at = data.draw(st.sampled_from([at for at, side in enumerate(self.sides) if side.unacked]))
        side = self.sides[at]
        tag = data.draw(st.sampled_from([0, *side.unacked] if multiple else list(side.unacked)))
        tags = [known for known in side.unacked if known == tag or (multiple and (known < tag or tag == 0))]
        chosen = [side.unacked.pop(known) for known in tags]
        if act == "requeue":
            self.give_back(chosen)
        method = BasicAck(tag, multiple) if act == "ack" else BasicNack(tag, multiple, requeue=act == "requeue")
        assert self.say(at, method) == []

    @rule(at=clients)
    def recover(self, at: int) -> None:
        side = self.sides[at]
        self.give_back(list(side.unacked.values()))
        side.unacked.clear()
        assert self.say(at, BasicRecover(requeue=True)) == [BasicRecoverOk()]

    @rule(at=clients)
    def confirm(self, at: int) -> None:
        self.sides[at].confirming = True
        assert self.say(at, ConfirmSelect()) == [ConfirmSelectOk()]

    @rule(at=clients, really=rarely)
    def acknowledge_nothing(self, at: int, really: bool) -> None:
        """An unknown tag closes the channel, as if the client had."""
        if not really:
            return
        self.seen["channel errors"] += 1
        side = self.sides[at]
        unknown = side.last_tag + 1
        self.leave(at, channel_only=True)
        heard = self.say(at, BasicAck(unknown))
        self.closed(at, heard, 406)

    @rule(at=clients, really=rarely)
    def close_channel(self, at: int, really: bool) -> None:
        if not really:
            return
        self.leave(at, channel_only=True)
        assert self.say(at, ChannelClose(200, "enough")) == [ChannelCloseOk()]
        self.after_closing(at)
        assert self.say(at, ChannelOpen()) == [ChannelOpenOk()]

    @rule(at=clients, how=st.sampled_from(["close", "lost", "shut"]), really=rarely)
    def close_connection(self, at: int, how: str, really: bool) -> None:
        if not really:
            return
        self.seen["connections ended"] += 1
        client = self.sides[at].client
        self.leave(at, channel_only=False)
        if how == "close":
            client.feed(client.method(ConnectionClose(200, "bye"), 0))
            assert client.heard(0) == [ConnectionCloseOk()]
        elif how == "lost":
            client.connection.lost(client.now)
        else:
            client.connection.shut("because", 0)
            client.finish()
            client.octets()
        assert client.connection.ended == (how != "shut")
        self.sides[at] = self.connected()
        self.note([delivery for side in self.sides for delivery in self.heard(side)[1]])

    # What must always be so

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "stores"):
            return
        found = self.broker.vhosts["/"].queues
        assert set(found) == set(self.stores)
        for name, store in self.stores.items():
            held = sum(one.store is store for side in self.sides for one in side.unacked.values())
            queue = found[name]
            assert (queue.ready_count, queue.unacked_count) == (len(store.ready), held)
            assert queue.consumer_count == len(self.consumers_of(name))

    @invariant()
    def nothing_waits_that_could_go(self) -> None:
        for name, store in getattr(self, "stores", {}).items():
            if store.ready:
                assert not any(self.has_room(side, tag) for side, tag in self.consumers_of(name))

    @invariant()
    def bindings_agree(self) -> None:
        if not hasattr(self, "bindings"):
            return
        vhost = self.broker.vhosts["/"]
        assert {
            (exchange.name, binding.destination.name, binding.routing_key)
            for exchange in vhost.exchanges.values()
            for binding in exchange.bindings.values()
        } == self.bindings


def test_random_dialogues() -> None:
    BrokerMachine.seen.clear()
    calm = settings(
        max_examples=200,
        stateful_step_count=50,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(BrokerMachine, settings=calm)
    # A model that meets with nothing agrees with everything.
    least = {
        "delivered": 100,
        "settled": 40,
        "redelivered": 15,
        "given back": 20,
        "got": 15,
        "routed by name": 200,
        "routed by exchanges": 15,
        "returned": 20,
        "channel errors": 5,
        "connections ended": 5,
    }
    assert {name: BrokerMachine.seen[name] for name in least if BrokerMachine.seen[name] < least[name]} == {}
