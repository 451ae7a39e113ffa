"""Single faults whose answer is known: each makes frames for a fresh connection and says what it is closed with.

A Fault is sent after the handshake and channel.open on channel 1. `code` is what the broker closes with, `channel` what it
closes: 0 is the connection.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.properties.dialogue import ALL_PROPERTIES, DIALOGUES, FRAME_MAX, Frame, body, header, method, publish
from tests.properties.mutator import NOT_UTF8, nested, random_fields

from leveret.wire import spec
from leveret.wire.properties import Properties
from leveret.wire.spec import FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, METHODS

MESSAGE_MAX = 128 << 20
# Methods a client may send on a channel, whose fields all have a fixed place in the payload.
ON_CHANNEL = [index for index in METHODS if index >> 16 not in (10,)]
WITH_TABLE: list[Callable[[], spec.Method]] = [
    lambda: spec.QueueDeclare("q"),
    lambda: spec.ExchangeDeclare("x", "topic"),
    lambda: spec.QueueBind("q", "amq.topic", "k"),
    lambda: spec.BasicConsume("q", "t"),
    lambda: spec.ExchangeBind("amq.fanout", "amq.topic", "k"),
]
ON_FRAMES = [frame for frames in DIALOGUES.values() for frame in frames if frame.channel <= 1]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is sent, and how it is answered."""

    frames: list[Frame]
    code: int
    channel: int = 0


Maker = Callable[[random.Random], Fault]


def wrong_end(rng: random.Random) -> Fault:
    frame = rng.choice(ON_FRAMES).copy()
    frame.end = rng.choice([octet for octet in range(256) if octet != 0xCE])
    return Fault([frame], 501)


def too_large(rng: random.Random) -> Fault:
    frame = rng.choice(ON_FRAMES).copy()
    frame.size = rng.choice(
        (FRAME_MAX + 1, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, rng.randrange(FRAME_MAX + 1, 1 << 32))
    )
    return Fault([frame], 501)


def unknown_kind(rng: random.Random) -> Fault:
    kind = rng.choice([kind for kind in range(256) if kind not in (1, 2, 3, 8)])
    return Fault([Frame(kind, rng.choice((0, 1, 2, 900)), rng.randbytes(rng.randrange(30)))], 501)


def heartbeat_on_channel(rng: random.Random) -> Fault:
    return Fault([Frame(FRAME_HEARTBEAT, rng.choice((1, 5)), b"")], 505)


def heartbeat_with_payload(rng: random.Random) -> Fault:
    return Fault([Frame(FRAME_HEARTBEAT, rng.choice((0, 1)), rng.randbytes(rng.randrange(1, 9)))], 501)


def short_method(rng: random.Random) -> Fault:
    return Fault([Frame(FRAME_METHOD, rng.choice((0, 1)), rng.randbytes(rng.randrange(4)))], 501)


def short_header(rng: random.Random) -> Fault:
    start = method(1, spec.BasicPublish("", "q"))
    return Fault([start, Frame(FRAME_HEADER, 1, rng.randbytes(rng.randrange(12)))], 501)


def unknown_method(rng: random.Random) -> Fault:
    index = rng.choice(list(METHODS)) ^ 1 << rng.randrange(32) if rng.random() < 0.5 else rng.getrandbits(32)
    while index in METHODS:
        index = rng.getrandbits(32)
    return Fault(
        [Frame(FRAME_METHOD, rng.choice((0, 1, 7)), index.to_bytes(4, "big") + rng.randbytes(rng.randrange(9)))], 503
    )


def servers_method(rng: random.Random) -> Fault:
    kind = rng.choice((spec.QueueDeclareOk, spec.BasicDeliver, spec.BasicGetEmpty, spec.BasicReturn, spec.ExchangeBindOk))
    return Fault([method(1, kind())], 503)


def cut_fields(rng: random.Random) -> Fault:
    frame = method(
        1, rng.choice((spec.BasicQos(), spec.BasicAck(5), spec.BasicNack(5), spec.QueuePurge("q"), spec.BasicGet("q")))
    )
    frame.payload = frame.payload[: rng.randrange(4, len(frame.payload))]
    return Fault([frame], 501)


def extra_fields(rng: random.Random) -> Fault:
    frame = method(1, rng.choice((spec.BasicQos(), spec.BasicAck(5), spec.BasicReject(5), *(make() for make in WITH_TABLE))))
    frame.payload += rng.randbytes(rng.randrange(1, 9))
    return Fault([frame], 501)


def extra_publish_fields(rng: random.Random) -> Fault:
    frames = publish(1, "q", b"x" * rng.randrange(3))
    frames[0].payload += rng.randbytes(rng.randrange(1, 9))
    return Fault(frames, 501)


def not_utf8(rng: random.Random) -> Fault:
    bad = rng.choice(NOT_UTF8)
    frame = method(
        1, rng.choice((spec.QueueDeclare("N"), spec.QueueDelete("N"), spec.BasicConsume("N"), spec.BasicGet("N")))
    )
    at = frame.payload.index(b"\x01N")
    frame.payload = frame.payload[:at] + bytes([len(bad)]) + bad + frame.payload[at + 2 :]
    return Fault([frame], 501)


def with_table(rng: random.Random, fields: bytes) -> list[Frame]:
    """A method, or a message's headers, with these octets for a table."""
    table = len(fields).to_bytes(4, "big") + fields
    if rng.random() < 0.4:
        frames = publish(1, "q", b"x" * rng.randrange(2), Properties(headers={}))
        frames[1].payload = frames[1].payload[:-4] + table
        return frames
    frame = method(1, rng.choice(WITH_TABLE)())
    frame.payload = frame.payload[:-4] + table
    return [frame]


def bad_table(rng: random.Random) -> Fault:
    """A table with one thing wrong, after something that is right."""
    good = b"\x01aS\x00\x00\x00\x01b" * rng.randrange(3)
    letter = rng.choice([octet for octet in range(256) if octet not in b"tbBsuIilLfdDSxATFV"])
    bad = rng.choice(
        (
            b"\x01k" + bytes([letter]) + bytes(8),
            b"\x01k",
            b"\x05key",
            b"\x01kS\x00\x00\x00\x05four",
            b"\x01kS\x00\x00",
            b"\x01kS\xff\xff\xff\xffx",
            b"\x01kx\x80\x00\x00\x00x",
            b"\x01kl\x00\x00\x00",
            b"\x01kA\x00\x00\x00\x02S\x00",
            b"\x01kF\x00\x00\x00\x03\x09xx",
            b"\x01kF\xff\xff\xff\xff",
            b"\x01kd\x7f\xf0\x00\x00\x00\x00\x00\x00",
            b"\x01kf\xff\xc0\x00\x00",
        )
    )
    return Fault(with_table(rng, good + bad), 502)


def table_too_deep(rng: random.Random) -> Fault:
    return Fault(with_table(rng, nested(rng, rng.choice((33, 34, 100, 1000)))[4:]), 502)


def table_past_payload(rng: random.Random) -> Fault:
    """A method's table announces more than the frame has."""
    frame = method(1, rng.choice(WITH_TABLE)())
    frame.payload = frame.payload[:-4] + rng.choice((5, 1 << 16, 1 << 31, (1 << 32) - 1)).to_bytes(4, "big")
    return Fault([frame], 501)


def cut_properties(rng: random.Random) -> Fault:
    frames = publish(1, "q", b"x" * rng.randrange(3), ALL_PROPERTIES)
    frames[1].payload = frames[1].payload[: rng.randrange(12, len(frames[1].payload))]
    return Fault(frames, 502)


def extra_properties(rng: random.Random) -> Fault:
    frames = publish(1, "q", b"x" * rng.randrange(3), ALL_PROPERTIES)
    frames[1].payload += rng.randbytes(rng.randrange(1, 9))
    return Fault(frames, 502)


def content_out_of_place(rng: random.Random) -> Fault:
    start = method(1, spec.BasicPublish("", "q"))
    any_method = method(
        1, rng.choice((spec.BasicQos(), spec.BasicGet("q"), spec.BasicPublish("", "q"), spec.ChannelClose()))
    )
    frames = rng.choice(
        (
            [header(1, rng.randrange(3))],
            [body(1, b"x")],
            [start, body(1, b"x")],
            [start, any_method],
            [start, header(1, 5), header(1, 5)],
            [start, header(1, 5), any_method],
            [start, header(1, 5), body(1, b"123"), any_method],
            [start, header(1, 5), body(1, b"123"), header(1, 2)],
            [start, header(1, 5, class_id=rng.choice((0, 50, 61, 65_535)))],
            [start, header(1, 5, weight=rng.choice((1, 256)))],
            [start, header(1, 0), body(1, b"")],
            [header(0, 5)],
            [body(0, b"x")],
        )
    )
    return Fault(frames, 505)


def too_much_body(rng: random.Random) -> Fault:
    size = rng.randrange(1, 200)
    pieces = [body(1, b"x" * rng.randrange(size)), body(1, b"y" * (size + rng.randrange(1, 50)))]
    return Fault([method(1, spec.BasicPublish("", "q")), header(1, size), *pieces[rng.randrange(2) :]], 501)


def channel_not_open(rng: random.Random) -> Fault:
    index = rng.choice([index for index in ON_CHANNEL if index != spec.ChannelOpen.INDEX])
    fields = random_fields(random.Random(0), index)
    return Fault([Frame(FRAME_METHOD, rng.choice((2, 3, 2047, 65_535)), index.to_bytes(4, "big") + fields)], 504)


def opened_twice(rng: random.Random) -> Fault:
    return Fault([method(1, spec.ChannelOpen())], 504)


def unexpected_on_zero(rng: random.Random) -> Fault:
    kinds = (spec.ConnectionStartOk, spec.ConnectionTuneOk, spec.ConnectionOpen, spec.ConnectionCloseOk, spec.QueueDeclare)
    return Fault([method(0, rng.choice(kinds)())], 504)


def unknown_tag(rng: random.Random) -> Fault:
    tag = rng.choice((1, 2, 1000, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
    multiple = rng.random() < 0.5
    kinds = (spec.BasicAck(tag, multiple), spec.BasicNack(tag, multiple, rng.random() < 0.5), spec.BasicReject(tag, True))
    return Fault([method(1, rng.choice(kinds))], 406, 1)


def no_such_thing(rng: random.Random) -> Fault:
    name = rng.choice(("nothing", "", "n" * 255, "ž" * 127, "no\nne"))
    frames = rng.choice(
        (
            [method(1, spec.BasicConsume(name))],
            [method(1, spec.BasicGet(name))],
            [method(1, spec.QueuePurge(name))],
            [method(1, spec.QueueDeclare(name or "none", passive=True))],
            [method(1, spec.QueueBind(name, "amq.topic", "k"))],
            publish(1, "k", b"x", exchange=name or "none"),
        )
    )
    return Fault(frames, 404, 1)


def no_such_exchange_in_octets(rng: random.Random) -> Fault:
    """basic.publish may name an exchange by any octets."""
    frames = publish(1, "k", b"x", exchange="N")
    bad = rng.choice(NOT_UTF8) * rng.choice((1, 80))
    frames[0].payload = frames[0].payload.replace(b"\x01N", bytes([len(bad)]) + bad)
    return Fault(frames, 404, 1)


def bad_properties(rng: random.Random) -> Fault:
    properties = rng.choice(
        (
            Properties(expiration=rng.choice(("", "x", "-1", "1x", "315360000001", "1.5", "\udcff"))),
            Properties(user_id=rng.choice(("", "other", "guest\0", "\udcff", "u" * 255))),
        )
    )
    return Fault(publish(1, "q", b"x" * rng.randrange(3), properties), 406, 1)


def message_too_large(rng: random.Random) -> Fault:
    size = rng.choice((MESSAGE_MAX + 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
    return Fault([method(1, spec.BasicPublish("", "q")), header(1, size), body(1, b"x" * rng.randrange(9))], 406, 1)


def bad_arguments(rng: random.Random) -> Fault:
    """Well-formed tables with a value of the wrong kind for its name."""
    priority = b"\x0ax-priority"
    match = b"\x07x-match"
    value = rng.choice(
        (b"T" + b"\xff" * 8, b"S\0\0\0\1\xff", b"V", b"F\0\0\0\3\1\xffV", b"A\0\0\0\2t\1", b"t\1", b"d" + bytes(8))
    )
    consume = method(1, spec.BasicConsume("q", "t"))
    consume.payload = consume.payload[:-4] + (len(priority) + len(value)).to_bytes(4, "big") + priority + value
    bind = method(1, spec.QueueBind("q", "amq.headers", ""))
    bind.payload = bind.payload[:-4] + (len(match) + len(value)).to_bytes(4, "big") + match + value
    return Fault([method(1, spec.QueueDeclare("q")), rng.choice((consume, bind))], 406, 1)


def refused(rng: random.Random) -> Fault:
    one = rng.choice(
        (
            spec.QueueDeclare("amq.mine"),
            spec.ExchangeDeclare("amq.mine", "direct"),
            spec.ExchangeDelete("amq.direct"),
            spec.ExchangeDelete(""),
            spec.QueueBind("q", "", "k"),
        )
    )
    return Fault([method(1, spec.QueueDeclare("q")), method(1, one)], 403, 1)


def not_the_same(rng: random.Random) -> Fault:
    frames = rng.choice(
        (
            [spec.QueueDeclare("q"), spec.QueueDeclare("q", durable=True)],
            [spec.QueueDeclare("q"), spec.QueueDeclare("q", auto_delete=True)],
            [spec.ExchangeDeclare("x", "direct"), spec.ExchangeDeclare("x", "topic")],
            [spec.ExchangeDeclare("x", "no such type")],
        )
    )
    return Fault([method(1, one) for one in frames], 406, 1)


def tag_reused(rng: random.Random) -> Fault:
    consume = method(1, spec.BasicConsume("q", "t"))
    return Fault([method(1, spec.QueueDeclare("q")), consume, consume], 530)


def not_implemented(rng: random.Random) -> Fault:
    frames = rng.choice(
        (
            [method(1, spec.BasicPublish("", "q", immediate=True)), header(1, 1), body(1, b"x")],
            [method(1, spec.ChannelFlow(active=False))],
            [method(1, spec.BasicRecover(requeue=False))],
        )
    )
    return Fault(frames, 540)


MAKERS: tuple[Maker, ...] = (
    wrong_end,
    too_large,
    unknown_kind,
    heartbeat_on_channel,
    heartbeat_with_payload,
    short_method,
    short_header,
    unknown_method,
    servers_method,
    cut_fields,
    extra_fields,
    extra_publish_fields,
    not_utf8,
    bad_table,
    table_too_deep,
    table_past_payload,
    cut_properties,
    extra_properties,
    content_out_of_place,
    too_much_body,
    channel_not_open,
    opened_twice,
    unexpected_on_zero,
    unknown_tag,
    no_such_thing,
    no_such_exchange_in_octets,
    bad_properties,
    message_too_large,
    bad_arguments,
    refused,
    not_the_same,
    tag_reused,
    not_implemented,
)
