"""What a client is sent of a deep queue, byte by byte: the same whether pages stay octets or become entries.

Two brokers are told the same, by chance: one may serve pages as octets. Each step is compared, and in the end what storage
has of it, and what is there after a power cut.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tests.protocol.conftest import Client
from tests.store.support import Rig, body

from leveret.broker.message import Entry
from leveret.broker.pages import Sizes
from leveret.protocol import subscriber
from leveret.wire.methods import decode_method
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    FRAME_METHOD,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    Method,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from leveret.wire.values import Table

SIZES = Sizes(8, 64 << 10, 4, 16 << 10)
BODIES = [0, 1, 100, 4088, 4089, 9000]
HUGE = 20_000_000
# Many pages are in two files.
SMALL = 1 << 16
ACTS = ["ack", "ack", "ack all", "requeue", "requeue all", "reject", "publish", "consume", "cancel", "get", "purge", "close"]
ANSWERS: dict[str, Callable[[int], Method]] = {
    "ack": lambda tag: BasicAck(tag, False),
    "requeue": lambda tag: BasicNack(tag, False, True),
    "reject": lambda tag: BasicReject(tag, False),
}
WHICH = ["transient", "persistent", "both"]


@dataclass
class Plan:
    """What is done, drawn from a seed alone; acts mean tags by how many are outstanding."""

    which: str
    steps: list[tuple[str, float, int]]
    sizes: list[int]
    prefetch_count: int
    shared: bool
    no_ack: bool
    segment_size: int


def planned(seed: int) -> Plan:
    choice = random.Random(seed)
    steps = [(choice.choice(ACTS), choice.random(), choice.choice([1, 3, 10])) for _ in range(25)]
    sizes = [choice.choice(BODIES[: choice.choice([3, 6])]) for _ in range(60)]
    if seed == 0:
        sizes[20] = HUGE
    if seed % 5 == 0:
        steps.append(("delete", 0.0, 0))
    return Plan(
        WHICH[seed % 3],
        steps,
        sizes,
        choice.choice([1, 5, 20]),
        choice.random() < 0.3,
        choice.random() < 0.2,
        SMALL if seed % 4 else 1 << 20,
    )


class Told:
    """A broker with a store, and one client of it; `tags` are outstanding, `opened` says that pages were octets."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rig = Rig(held=True, sizes=SIZES, segment_size=plan.segment_size)
        self.rig.broker.add_user("guest", "guest")
        self.rig.broker.set_permissions("guest", "/", ".*", ".*", ".*")
        self.client = Client(self.rig.broker, now=self.rig.now).log_in().open(1, 2)
        self.tags: list[int] = []
        self.opened = False
        self.number = 0
        self.consumers = 0
        self.tag = "none"
        self.declare()

    def declare(self) -> None:
        dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.say(QueueDeclare("dead", durable=True), QueueDeclare("q", durable=True, arguments=dead), channel=2)

    def say(self, *methods: Method | bytes, channel: int = 1) -> bytes:
        """Say this, and return everything that is heard until nothing happens any more."""
        client, connection = self.client, self.client.connection
        said = b"".join(one if isinstance(one, bytes) else client.method(one, channel) for one in methods)
        connection.receive(said, client.now)
        heard = b""
        silent = False
        while not silent or connection.busy:
            self.rig.settle_down()
            connection.drained(client.now)
            connection.go_on(client.now)
            self.rig.settle_down()
            queue = self.rig.vhost.queues.get("q")
            self.opened |= queue is not None and bool(queue.backlog.opened)
            data = client.octets()
            silent = not data
            heard += data
        self.note(heard)
        return heard

    def note(self, heard: bytes) -> None:
        at = 0
        while at < len(heard):
            size = int.from_bytes(heard[at + 3 : at + 7], "big")
            if heard[at] == FRAME_METHOD:
                method = decode_method(
                    int.from_bytes(heard[at + 7 : at + 11], "big"), heard[at + 7 : at + 7 + size], 4, size
                )
                if isinstance(method, BasicGetOk) or (
                    isinstance(method, BasicDeliver) and not method.consumer_tag.startswith("n")
                ):
                    self.tags.append(method.delivery_tag)
            at += size + 8

    def publish(self, sizes: list[int]) -> bytes:
        said = []
        for size in sizes:
            self.number += 1
            persistent = self.plan.which == "persistent" or (self.plan.which == "both" and self.number % 3 == 0)
            text = (b"%06d" % self.number * (size // 6 + 1))[:size]
            said.append(
                self.client.message("q", text, properties=Properties(delivery_mode=2 if persistent else 1), channel=2)
            )
        return self.say(*said, channel=2)

    def consume(self, no_ack: bool) -> bytes:
        """Consume, alone: who of several gets what was given back depends on how long it takes to read it."""
        cancelled = self.cancel()
        self.consumers += 1
        qos = BasicQos(0, self.plan.prefetch_count, self.plan.shared)
        self.tag = f"{'n' if no_ack else 'c'}{self.consumers}"
        return cancelled + self.say(qos, BasicConsume("q", self.tag, no_ack=no_ack, no_wait=True))

    def cancel(self) -> bytes:
        return self.say(BasicCancel(self.tag))

    def do(self, act: str, where: float, count: int) -> bytes:
        if act == "publish":
            return self.publish(self.plan.sizes[:count])
        if act == "consume":
            return self.consume(where < 0.2)
        if act == "close":
            return self.reopen() if where < 0.4 else b""
        if act in ("purge", "delete"):
            return self.say(QueuePurge("q") if act == "purge" else QueueDelete("q"), channel=2) if where < 0.3 else b""
        if act in ("get", "cancel"):
            return self.say(BasicGet("q")) if act == "get" else self.cancel()
        return self.answer(act, where, count) if self.tags else b""

    def reopen(self) -> bytes:
        """End the channel in the middle, and come back."""
        self.tags = []
        return self.say(ChannelClose(200, "", 0, 0)) + self.say(ChannelOpen()) + self.consume(False)

    def answer(self, act: str, where: float, count: int) -> bytes:
        """Acknowledge some of what is outstanding, or give it back, or do not want it."""
        at = int(where * len(self.tags))
        if act in ("ack all", "requeue all"):
            tag = self.tags[at]
            del self.tags[: at + 1]
            return self.say(BasicAck(tag, True) if act == "ack all" else BasicNack(tag, True, True))
        # Given back one by one in a single read, each comes again before the next has gone, unless it is to be read.
        end = at + (1 if act == "requeue" else count)
        chosen = self.tags[at:end]
        del self.tags[at:end]
        return self.say(*(ANSWERS[act](tag) for tag in chosen))

    def unacked(self) -> list[Entry]:
        unacked = self.client.connection.session.channels[1].unacked
        return [unacked.entry(tag) for tag in sorted(self.tags)]

    def left(self) -> list[tuple[str, int, bytes, bool]]:
        """What is there after a power cut: all persistent messages, each as delivered before."""
        again = self.rig.after_power_cut(random.Random(self.number))
        return [
            (name, entry.seq, body(entry.message), entry.redelivered)
            for name in ("q", "dead")
            if name in again.vhost.queues
            for entry in again.ready(again.vhost.queues[name])
        ]


@pytest.mark.parametrize("seed", range(40))
def test_octets_are_sent_as_entries_would_be(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.5: whoever consumes, acknowledges, gives back and goes in between; and nothing is lost or kept."""
    plan = planned(seed)
    heard: list[list[bytes]] = []
    left = []
    for octets in (False, True):
        monkeypatch.setattr(subscriber, "COMPILED", octets)
        told = Told(plan)
        told.publish(plan.sizes)
        steps = [told.consume(plan.no_ack)]
        steps += [told.do(*step) for step in plan.steps]
        told.rig.check(told.unacked())
        heard.append(steps)
        left.append(told.left())
        assert told.opened <= octets
        # What is in two logs, or files, is not in one piece; those who do not acknowledge have taken all at once.
        is_piecemeal = plan.which == "both" or plan.segment_size == SMALL
        assert told.opened or not octets or is_piecemeal or plan.no_ack or plan.prefetch_count == 1
        assert all(redelivered for _, _, _, redelivered in left[-1])
    assert heard[0] == heard[1]
    assert left[0] == left[1]
