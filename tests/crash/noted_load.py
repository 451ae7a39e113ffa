"""Clients that note what they have sent and what they were told, and what must be there after another start.

They publish with confirms, acknowledge, give back, reject and commit, on queues with consumers, dead letters, times to
live and a fanout. Whatever ends the broker, everything in its queues is read then and compared with the notes.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from tests.properties.dialogue import Frame, method, publish
from tests.server.support import Client, Process, eventually

from leveret.wire import spec
from leveret.wire.properties import Properties
from leveret.wire.values import Table

PERSISTENT = Properties(delivery_mode=2)
FILLER = b" " * 700
BURST = 20

DEAD_LETTERS: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUEUES: dict[str, Table] = {
    "main": DEAD_LETTERS,
    "brief": {**DEAD_LETTERS, "x-message-ttl": 300},
    "fan1": {},
    "fan2": {},
    "from": {},
    "to": {},
    "log": {},
    "dead": {},
}
# Where a message of a queue may be as long as nobody has acknowledged it.
HOMES = {
    "main": ("main", "dead"),
    "brief": ("brief", "dead"),
    "fan1": ("fan1",),
    "fan2": ("fan2",),
    "from": ("from", "to"),
    "log": ("log",),
}

Ids = set[tuple[str, int]]


@dataclass
class Notes:
    """Messages by the queue they were published to and their number: what was sent, and what was promised."""

    published: Ids = field(default_factory=set)
    confirmed: Ids = field(default_factory=set)
    acknowledged: Ids = field(default_factory=set)
    surely_gone: Ids = field(default_factory=set)
    moved: Ids = field(default_factory=set)
    numbers: dict[str, Iterator[int]] = field(default_factory=lambda: {name: count() for name in QUEUES})

    def new(self, queue: str) -> int:
        return next(self.numbers[queue])


def body_of(queue: str, number: int) -> bytes:
    return f"{queue} {number}".encode() + FILLER


def id_of(body: bytes) -> tuple[str, int]:
    queue, number = body.decode().split()
    return queue, int(number)


# The clients; each ends when the broker does


def publish_to(client: Client, notes: Notes, exchange: str, targets: tuple[str, ...]) -> None:
    """Publish bursts, and wait until each is confirmed."""
    client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
    told = 0
    while True:
        frames: list[Frame] = []
        burst: list[Ids] = []
        for _ in range(BURST):
            number = notes.new(targets[0])
            ids = {(target, number) for target in targets}
            notes.published |= ids
            burst.append(ids)
            key = "" if exchange else targets[0]
            frames += publish(1, key, body_of(targets[0], number), PERSISTENT, exchange)
        client.send(*frames)
        done = told
        while done < told + BURST:
            ack = client.expect(spec.BasicAck)
            for at in range(done if ack.multiple else ack.delivery_tag - 1, ack.delivery_tag):
                notes.confirmed |= burst[at - told]
            done = ack.delivery_tag
        told = done


def consume(client: Client, notes: Notes, queue: str, choice: random.Random) -> None:
    """Acknowledge most, give back and reject some; now and then a confirm shows that it is on disk."""
    client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
    client.call(spec.BasicQos(0, 50), spec.BasicQosOk)
    client.call(spec.BasicConsume(queue), spec.BasicConsumeOk)
    sent: Ids = set()
    shown: dict[int, Ids] = {}
    marks = 0
    while True:
        found = client.read()
        if isinstance(found, spec.BasicAck):
            for mark in [mark for mark in shown if mark <= found.delivery_tag]:
                notes.surely_gone |= shown.pop(mark)
            continue
        assert isinstance(found, spec.BasicDeliver)
        identity = id_of(rest_of_delivery(client))
        way = choice.random()
        if way < 0.8:
            notes.acknowledged.add(identity)
            sent.add(identity)
            client.send(method(1, spec.BasicAck(found.delivery_tag)))
        elif way < 0.9 or queue != "main":
            client.send(method(1, spec.BasicNack(found.delivery_tag, requeue=True)))
        else:
            client.send(method(1, spec.BasicReject(found.delivery_tag, requeue=False)))
        if len(sent) >= 25:
            marks += 1
            shown[marks] = sent
            sent = set()
            number = notes.new("log")
            notes.published.add(("log", number))
            client.send(*publish(1, "log", body_of("log", number), PERSISTENT))


def move(client: Client, notes: Notes) -> None:
    """Move messages from one queue to another, each in a transaction."""
    client.call(spec.TxSelect(), spec.TxSelectOk)
    while True:
        client.send(method(1, spec.BasicGet("from")))
        found = client.read()
        if isinstance(found, spec.BasicGetEmpty):
            time.sleep(0.005)
            continue
        assert isinstance(found, spec.BasicGetOk)
        body = rest_of_delivery(client)
        client.send(*publish(1, "to", body, PERSISTENT), method(1, spec.BasicAck(found.delivery_tag)))
        client.call(spec.TxCommit(), spec.TxCommitOk)
        notes.moved.add(id_of(body))


def rest_of_delivery(client: Client) -> bytes:
    _, _, header = client.frame()
    size, body = int.from_bytes(header[4:12], "big"), b""
    while len(body) < size:
        body += client.frame()[2]
    return body


class Load:
    """All clients at once, until the broker ends."""

    def __init__(self, port: int, notes: Notes, choice: random.Random, connect: Callable[[int], Client] = Client) -> None:
        self._connect = connect
        seeds = [choice.random() for _ in range(2)]
        self._faults: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(port, run))
            for run in (
                lambda client: publish_to(client, notes, "", ("main",)),
                lambda client: publish_to(client, notes, "", ("brief",)),
                lambda client: publish_to(client, notes, "fan", ("fan1", "fan2")),
                lambda client: publish_to(client, notes, "", ("from",)),
                lambda client: consume(client, notes, "main", random.Random(seeds[0])),
                lambda client: consume(client, notes, "fan1", random.Random(seeds[1])),
                lambda client: move(client, notes),
            )
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, port: int, run: Callable[[Client], None]) -> None:
        try:
            with self._connect(port).login() as client:
                run(client)
        except (OSError, EOFError):
            pass
        except BaseException as fault:
            self._faults.append(fault)

    def end(self) -> None:
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        assert self._faults == []


# What is there


def declare_all(client: Client) -> None:
    client.call(spec.ExchangeDeclare("fan", "fanout", durable=True), spec.ExchangeDeclareOk)
    for name, arguments in QUEUES.items():
        client.declare(name, durable=True, arguments=arguments)
        if name.startswith("fan"):
            client.call(spec.QueueBind(name, "fan"), spec.QueueBindOk)


def contents(client: Client) -> Iterator[tuple[str, list[tuple[tuple[str, int], bool]]]]:
    """What each queue has, and whether it says redelivered; all of it stays unacknowledged until the client goes."""
    # What is left of a time to live goes on after a restart, and then all of these are dead letters.
    eventually(lambda: client.declare("brief", passive=True) == 0)
    for number, name in enumerate(QUEUES, 2):
        client.open(number)
        ready = client.call(spec.QueueDeclare(name, passive=True), spec.QueueDeclareOk, number).message_count
        client.call(spec.BasicConsume(name, consumer_tag=name), spec.BasicConsumeOk, number)
        found = []
        for _ in range(ready):
            deliver = client.read()
            assert isinstance(deliver, spec.BasicDeliver)
            assert deliver.consumer_tag == name
            found.append((id_of(rest_of_delivery(client)), deliver.redelivered))
        client.call(spec.BasicCancel(name), spec.BasicCancelOk, number)
        yield name, found


def check(found: dict[str, list[tuple[tuple[str, int], bool]]], notes: Notes) -> None:
    """Compare what is there with what was promised."""
    there: dict[tuple[str, int], list[str]] = {}
    for queue, entries in found.items():
        for (origin, number), redelivered in entries:
            identity = (queue if origin.startswith("fan") else origin, number)
            there.setdefault(identity, []).append(queue)
            # What dies after the start is new where it comes to.
            assert redelivered or queue == "dead", f"{identity} in {queue} does not say redelivered"
        by_origin: dict[str, list[int]] = {}
        for (origin, number), _ in entries:
            by_origin.setdefault(origin, []).append(number)
        # Dead letters come as they die, and two clients write the log.
        if queue not in ("dead", "log"):
            assert all(numbers == sorted(numbers) for numbers in by_origin.values()), f"{queue} is out of order"
    assert there.keys() <= notes.published, f"invented: {sorted(there.keys() - notes.published)[:5]}"
    twice = {identity: queues for identity, queues in there.items() if len(queues) > 1}
    assert not twice
    misplaced = {identity: queues for identity, queues in there.items() if queues[0] not in HOMES[identity[0]]}
    assert not misplaced
    unmoved = {identity for identity in notes.moved if there.get(identity) == ["from"]}
    assert not unmoved, f"committed, and not moved: {sorted(unmoved)[:5]}"
    lost = (notes.confirmed | notes.moved) - notes.acknowledged - there.keys()
    assert not lost, f"lost: {sorted(lost)[:5]}"
    back = notes.surely_gone & there.keys()
    assert not back, f"back: {sorted(back)[:5]}"


def settle_notes(notes: Notes, there: Ids) -> None:
    """What was found is known to be safe, and what was not is gone for good."""
    notes.confirmed = set(there)
    notes.moved &= there
    notes.acknowledged = set()
    notes.surely_gone = notes.published - there


def purge_some(client: Client, notes: Notes, choice: random.Random) -> None:
    """Keep the queues short: what was purged, and answered, is gone."""
    for name in ("dead", "fan2", "to", "log"):
        if choice.random() < 0.5:
            client.call(spec.QueuePurge(name), spec.QueuePurgeOk)
            notes.acknowledged |= {identity for identity in notes.confirmed if name in HOMES[identity[0]]}


def read_and_compare(broker: Process, notes: Notes, choice: random.Random) -> None:
    with broker.login() as client:
        found = dict(contents(client))
    check(found, notes)
    there = {
        (queue if origin.startswith("fan") else origin, number)
        for queue, entries in found.items()
        for (origin, number), _ in entries
    }
    settle_notes(notes, there)
    with broker.login() as client:
        purge_some(client, notes, choice)
