"""Valid dialogues, as frames that can be broken one by one.

A Frame is what goes over the wire, with every part open to change: `size` and `end` are usually what they must be, and
`raw` replaces the whole frame. The dialogues start after the handshake and use channels 1 to 3; sent as they are, none of
them is answered with a close.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from leveret.wire import spec
from leveret.wire.methods import encode_method
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.spec import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, Method
from leveret.wire.values import (
    Byte,
    Float32,
    LongString,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_MAX = 131_072

EVERY_TYPE: Table = {
    "t": True,
    "b": Byte(-1),
    "B": UnsignedByte(200),
    "s": Short(-300),
    "u": UnsignedShort(60_000),
    "I": SignedInt(-70_000),
    "i": UnsignedInt(4_000_000_000),
    "l": -5_000_000_000,
    "f": Float32(1.5),
    "d": 0.25,
    "D": Decimal("12.34"),
    "S": "žluťoučký",
    "not utf-8": LongString(b"\xff\xfe"),
    "x": b"\x00\x01",
    "A": [1, "two", None, [False, {"deep": 3}]],
    "T": Timestamp(1_700_000_000),
    "F": {"inner": {"innermost": ["x", 2**33]}},
    "V": None,
}

ALL_PROPERTIES = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers=EVERY_TYPE,
    delivery_mode=2,
    priority=7,
    correlation_id="correlation",
    reply_to="answers",
    expiration="60000",
    message_id="id",
    timestamp=1_700_000_000,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


@dataclass(slots=True)
class Frame:
    """One frame, perhaps broken; those of a dialogue are shared and must be copied before they are."""

    kind: int
    channel: int
    payload: bytes
    size: int | None = None
    end: int = FRAME_END
    raw: bytes | None = None

    def encode(self) -> bytes:
        if self.raw is not None:
            return self.raw
        size = len(self.payload) if self.size is None else self.size
        return (
            self.kind.to_bytes(1, "big")
            + self.channel.to_bytes(2, "big")
            + size.to_bytes(4, "big")
            + self.payload
            + self.end.to_bytes(1, "big")
        )

    def copy(self) -> "Frame":
        return replace(self)


def method(channel: int, value: Method) -> Frame:
    return Frame(FRAME_METHOD, channel, encode_method(value))


def heartbeat() -> Frame:
    return Frame(FRAME_HEARTBEAT, 0, b"")


def header(channel: int, size: int, properties: Properties | None = None, class_id: int = 60, weight: int = 0) -> Frame:
    fixed = class_id.to_bytes(2, "big") + weight.to_bytes(2, "big") + size.to_bytes(8, "big")
    return Frame(FRAME_HEADER, channel, fixed + encode_properties(properties or Properties()))


def body(channel: int, data: bytes) -> Frame:
    return Frame(FRAME_BODY, channel, data)


def publish(
    channel: int,
    routing_key: str,
    data: bytes,
    properties: Properties | None = None,
    exchange: str = "",
    mandatory: bool = False,
    piece: int = FRAME_MAX - 8,
) -> list[Frame]:
    """basic.publish with its content, the body in frames of `piece` octets."""
    return [
        method(channel, spec.BasicPublish(exchange, routing_key, mandatory)),
        header(channel, len(data), properties),
        *(body(channel, data[at : at + piece]) for at in range(0, len(data), piece)),
    ]


def handshake(
    capabilities: tuple[str, ...] = ("consumer_cancel_notify", "authentication_failure_close"),
    response: bytes = b"\0guest\0guest",
    tune: tuple[int, int, int] = (2047, FRAME_MAX, 0),
    vhost: str = "/",
) -> list[Frame]:
    """What a client sends after the protocol header until its connection runs."""
    about: Table = {"product": "fuzz", "capabilities": dict.fromkeys(capabilities, True), "platform": EVERY_TYPE}
    return [
        method(0, spec.ConnectionStartOk(about, "PLAIN", response, "en_US")),
        method(0, spec.ConnectionTuneOk(*tune)),
        method(0, spec.ConnectionOpen(vhost)),
    ]


def topology() -> list[Frame]:
    """Exchanges of every type, queues, bindings of both kinds, purging and deleting, on channel 1."""
    frames = [method(1, spec.ChannelOpen())]
    for kind in ("direct", "fanout", "topic", "headers"):
        name = f"x-{kind}"
        frames += [
            method(1, spec.ExchangeDeclare(name, kind, auto_delete=True, arguments={"alternate-exchange": "amq.fanout"})),
            method(1, spec.QueueDeclare(f"q-{kind}", arguments={"kept": EVERY_TYPE})),
            method(1, spec.QueueBind(f"q-{kind}", name, "a.*.#", arguments={"x-match": "any", "a": 1, "all": EVERY_TYPE})),
            *publish(1, "a.b.c", b"routed", Properties(headers={"a": 1}), exchange=name, mandatory=True),
            method(1, spec.ExchangeBind("amq.direct", name, "key", arguments={"b": None})),
            method(1, spec.ExchangeUnbind("amq.direct", name, "key", arguments={"b": None})),
            method(1, spec.QueuePurge(f"q-{kind}")),
            method(1, spec.QueueUnbind(f"q-{kind}", name, "nothing")),
        ]
    frames += [
        method(1, spec.ExchangeDeclare("amq.direct", passive=True, type="direct")),
        method(1, spec.QueueDeclare("q-direct", passive=True)),
        method(1, spec.ExchangeDelete("x-direct")),
        method(1, spec.QueueDelete("q-topic")),
        method(1, spec.ChannelClose(200, "enough")),
    ]
    return frames


def publishing() -> list[Frame]:
    """Confirms, returns, all properties, bodies of no, one and several frames, on channels 1 and 2 at once."""
    one = [
        method(1, spec.ChannelOpen()),
        method(1, spec.ConfirmSelect()),
        method(1, spec.QueueDeclare("q", durable=True)),
        *publish(1, "q", b"", ALL_PROPERTIES),
        *publish(1, "q", b"x" * 100, ALL_PROPERTIES),
        *publish(1, "q", b"y" * 9000, ALL_PROPERTIES, piece=4000),
        *publish(1, "nowhere", b"back", ALL_PROPERTIES, mandatory=True),
        *publish(1, "q", b"z" * 5000),
        method(1, spec.QueueDelete("q")),
        method(1, spec.ChannelClose(200, "enough")),
    ]
    two = [
        method(2, spec.ChannelOpen()),
        method(2, spec.QueueDeclare("q2", auto_delete=True)),
        method(2, spec.QueueBind("q2", "amq.headers", arguments={"x-match": "all", "t": True, "F": EVERY_TYPE["F"]})),
        *publish(2, "", b"by headers", ALL_PROPERTIES, exchange="amq.headers"),
        *publish(2, "any", b"to all", exchange="amq.fanout"),
        method(2, spec.QueueDelete("q2", no_wait=True)),
    ]
    mixed = []
    for at in range(max(len(one), len(two))):
        mixed += one[at : at + 1] + two[at : at + 1]
    return [*mixed, heartbeat(), method(0, spec.ConnectionClose(200, "bye"))]


def consuming() -> list[Frame]:
    """Prefetch, consuming, getting, every kind of settlement, recovering, cancelling, on channels 1 and 3."""
    return [
        heartbeat(),
        method(1, spec.ChannelOpen()),
        method(3, spec.ChannelOpen()),
        method(1, spec.QueueDeclare("mine", exclusive=True)),
        method(1, spec.BasicQos(prefetch_count=4)),
        method(1, spec.BasicQos(prefetch_size=10_000, prefetch_count=5, global_=True)),
        method(1, spec.BasicConsume("mine", "tag", arguments={"x-priority": 3, "more": EVERY_TYPE})),
        method(3, spec.BasicConsume("mine", "free", no_ack=True, no_wait=True)),
        *(frame for _ in range(8) for frame in publish(3, "mine", b"m" * 50, ALL_PROPERTIES)),
        method(1, spec.BasicAck(1)),
        method(1, spec.BasicNack(2, requeue=True)),
        method(3, spec.BasicCancel("free")),
        *(frame for _ in range(5) for frame in publish(3, "mine", b"n" * 20)),
        method(1, spec.BasicReject(3, requeue=True)),
        method(1, spec.BasicAck(5, multiple=True)),
        method(1, spec.BasicNack(7, multiple=True, requeue=False)),
        method(1, spec.BasicRecover(requeue=True)),
        method(1, spec.BasicRecoverAsync(requeue=True)),
        method(1, spec.BasicCancel("tag", no_wait=True)),
        *publish(3, "mine", b"got"),
        method(3, spec.BasicGet("mine")),
        method(3, spec.BasicGet("mine", no_ack=True)),
        # All of them; of what comes to consumers it depends on the cut what the client knows of.
        method(3, spec.BasicAck(0, multiple=True)),
        method(1, spec.ChannelFlow(active=True)),
        method(1, spec.AccessRequest()),
        method(0, spec.ConnectionUpdateSecret(b"new", "because")),
        method(1, spec.ChannelClose(200, "enough")),
        method(1, spec.ChannelOpen()),
        method(1, spec.BasicConsume("mine", "alone", exclusive=True)),
        heartbeat(),
    ]


def transactions() -> list[Frame]:
    """Publishing and settling in transactions, committed, rolled back and left open, on channels 1 and 2."""
    return [
        method(1, spec.ChannelOpen()),
        method(2, spec.ChannelOpen()),
        method(1, spec.QueueDeclare("in tx", auto_delete=True)),
        method(1, spec.TxSelect()),
        *publish(1, "in tx", b"one", ALL_PROPERTIES),
        *publish(1, "nowhere", b"back", mandatory=True),
        method(1, spec.TxCommit()),
        *(frame for _ in range(4) for frame in publish(2, "in tx", b"more")),
        method(1, spec.BasicConsume("in tx", "tag")),
        method(1, spec.BasicAck(1)),
        method(1, spec.BasicReject(2, requeue=True)),
        method(1, spec.TxRollback()),
        method(1, spec.BasicAck(2)),
        method(1, spec.BasicNack(4, multiple=True, requeue=True)),
        *publish(1, "in tx", b"two"),
        method(1, spec.TxCommit()),
        method(1, spec.BasicNack(5, multiple=True, requeue=False)),
        *publish(1, "in tx", b"never"),
        method(2, spec.ChannelClose(200, "enough")),
        heartbeat(),
    ]


@cache
def wire(name: str) -> dict[int, bytes]:
    """The octets of a dialogue's own frames, by their identity: most of them are sent unbroken, and often."""
    return {id(frame): frame.encode() for frame in DIALOGUES[name]}


def encode(name: str, frames: list[Frame]) -> bytes:
    """The octets of a dialogue, some of whose frames may have been replaced."""
    known = wire(name)
    return b"".join([known.get(id(frame)) or frame.encode() for frame in frames])


DIALOGUES = {"topology": topology(), "publishing": publishing(), "consuming": consuming(), "transactions": transactions()}
HANDSHAKE = PROTOCOL_HEADER + b"".join(frame.encode() for frame in handshake())
