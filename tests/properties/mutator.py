"""Breaks dialogues at random: each mutation changes a list of frames and nothing else, by a seeded generator.

`mutate` makes compound ones, of which only the class of the close can be foretold; `faults` has single ones of which the
exact code is known.
"""

import random
from collections.abc import Callable

from tests.properties.dialogue import EVERY_TYPE, Frame, heartbeat

from leveret.wire.spec import FRAME_METHOD, METHODS
from leveret.wire.values import encode_value

Mutation = Callable[[random.Random, list[Frame], int], None]

INDICES = list(METHODS)
NUMBERS = (0, 1, 2, 3, 7, 255, 256, 2047, 2048, 65_535)
LENGTHS = (0, 1, 7, 255, 4096, 131_064, 131_072, 131_073, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
NOT_UTF8 = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f", b"\x80", b"\xc0\xaf")


def flip_bits(rng: random.Random, frames: list[Frame], at: int) -> None:
    raw = bytearray(frames[at].encode())
    for _ in range(rng.randrange(1, 4)):
        if raw:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    frames[at].raw = bytes(raw)


def flip_payload_bits(rng: random.Random, frames: list[Frame], at: int) -> None:
    """The frame stays one, what is in it does not."""
    payload = bytearray(frames[at].payload)
    for _ in range(rng.randrange(1, 4)):
        if payload:
            payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
    frames[at].payload = bytes(payload)


def truncate_frame(rng: random.Random, frames: list[Frame], at: int) -> None:
    raw = frames[at].encode()
    frames[at].raw = raw[: rng.randrange(len(raw) + 1)]


def truncate_payload(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames[at].payload = frames[at].payload[: rng.randrange(len(frames[at].payload) + 1)]


def extend_payload(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames[at].payload += rng.randbytes(rng.randrange(1, 20))


def change_size(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames[at].size = rng.choice((*LENGTHS, max(0, len(frames[at].payload) + rng.randrange(-3, 4))))


def change_inner_length(rng: random.Random, frames: list[Frame], at: int) -> None:
    """Any four octets may be the length of a table or a string."""
    payload = bytearray(frames[at].payload)
    if len(payload) >= 4:
        place = rng.randrange(len(payload) - 3)
        payload[place : place + 4] = rng.choice(LENGTHS).to_bytes(4, "big")
    frames[at].payload = bytes(payload)


def change_end(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames[at].end = rng.randrange(256)


def change_kind(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames[at].kind = rng.choice((0, 1, 2, 3, 4, 8, 255, rng.randrange(256)))


def change_channel(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames[at].channel = rng.choice(NUMBERS)


def swap(rng: random.Random, frames: list[Frame], at: int) -> None:
    other = rng.randrange(len(frames))
    frames[at], frames[other] = frames[other], frames[at]


def duplicate(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames.insert(at, frames[at].copy())


def drop(rng: random.Random, frames: list[Frame], at: int) -> None:
    if len(frames) > 1:
        del frames[at]


def insert_method(rng: random.Random, frames: list[Frame], at: int) -> None:
    """A method out of the blue: a known one or not, with fields or with noise."""
    index = rng.choice(INDICES) if rng.random() < 0.9 else rng.getrandbits(32)
    fields = random_fields(rng, index) if rng.random() < 0.8 else rng.randbytes(rng.randrange(40))
    frames.insert(at, Frame(FRAME_METHOD, rng.choice((0, 1, 1, 2, 3, 9)), index.to_bytes(4, "big") + fields))


def change_index(rng: random.Random, frames: list[Frame], at: int) -> None:
    index = rng.choice(INDICES) if rng.random() < 0.7 else rng.getrandbits(32)
    frames[at].payload = index.to_bytes(4, "big") + frames[at].payload[4:]


def insert_heartbeat(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames.insert(at, heartbeat())


def insert_noise(rng: random.Random, frames: list[Frame], at: int) -> None:
    frames.insert(at, Frame(0, 0, b"", raw=rng.randbytes(rng.randrange(1, 40))))


def bad_utf8(rng: random.Random, frames: list[Frame], at: int) -> None:
    payload = bytearray(frames[at].payload)
    if len(payload) > 8:
        place = rng.randrange(5, len(payload))
        bad = rng.choice(NOT_UTF8)
        payload[place : place + len(bad)] = bad
    frames[at].payload = bytes(payload)


def bomb(rng: random.Random, frames: list[Frame], at: int) -> None:
    """Put a deeply nested table where a method's or header's fields end, with fitting lengths about it."""
    frames[at].payload = frames[at].payload[: rng.randrange(len(frames[at].payload) + 1)] + nested(
        rng, rng.choice((3, 31, 32, 33, 200))
    )


def extreme_number(rng: random.Random, frames: list[Frame], at: int) -> None:
    """Any eight octets may be a delivery tag or a size."""
    payload = bytearray(frames[at].payload)
    if len(payload) >= 12:
        place = rng.choice((4, rng.randrange(len(payload) - 7)))
        number = rng.choice((0, 1, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
        payload[place : place + 8] = number.to_bytes(8, "big")
    frames[at].payload = bytes(payload)


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    flip_payload_bits,
    truncate_frame,
    truncate_payload,
    extend_payload,
    change_size,
    change_inner_length,
    change_end,
    change_kind,
    change_channel,
    swap,
    duplicate,
    drop,
    insert_method,
    change_index,
    insert_heartbeat,
    insert_noise,
    bad_utf8,
    bomb,
    extreme_number,
)
# Those after which the connection often goes on, so that a second fault meets a state the first one made.
GENTLE: tuple[Mutation, ...] = (
    flip_payload_bits,
    swap,
    duplicate,
    drop,
    insert_method,
    insert_heartbeat,
    extreme_number,
    bad_utf8,
)


def mutate(rng: random.Random, frames: list[Frame]) -> tuple[list[Frame], int]:
    """Break a copy of a dialogue in a few places; what came of it, and how many frames were touched."""
    frames = list(frames)
    count = rng.choice((1, 2, 3, 5, 8))
    for _ in range(count):
        mutation = rng.choice(GENTLE if rng.random() < 0.7 else MUTATIONS)
        apply(mutation, rng, frames, rng.randrange(len(frames)))
    return frames, count


def apply(mutation: Mutation, rng: random.Random, frames: list[Frame], at: int) -> None:
    """Break the frame at this place, or what is about it, without changing the dialogue it comes from."""
    frames[at] = frames[at].copy()
    mutation(rng, frames, at)


def random_fields(rng: random.Random, index: int) -> bytes:
    """Well-formed fields for a method, of no sense."""
    kind = METHODS.get(index)
    if kind is None:
        return b""
    out = bytearray()
    bits = 8
    for _, field in kind.FIELDS:
        if field == "bit":
            if bits == 8:
                bits = 0
                out.append(0)
            out[-1] |= rng.getrandbits(1) << bits
            bits += 1
            continue
        bits = 8
        out += random_field(rng, field)
    return bytes(out)


def random_field(rng: random.Random, kind: str) -> bytes:
    widths = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
    if kind in widths:
        number = rng.choice((0, 1, 2, rng.getrandbits(8 * widths[kind])))
        return number.to_bytes(widths[kind], "big")
    if kind == "table":
        return random_table(rng)
    text = rng.choice(
        (b"", b"q", b"q2", b"mine", b"tag", b"x-topic", b"amq.direct", b"amq.gen", b"a.b\n", b"\xff", b"n" * 255)
    )
    return len(text).to_bytes(1 if kind == "shortstr" else 4, "big") + text


KEYS = (b"a", b"x-match", b"x-priority", b"alternate-exchange", b"x-message-ttl", b"x-max-length", b"\xff\xfe", b"")


def random_table(rng: random.Random, depth: int = 0) -> bytes:
    """A table with its length, mostly well formed, with argument names that mean something."""
    fields = bytearray()
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        key = rng.choice(KEYS)
        fields += bytes([len(key)]) + key + random_value(rng, depth)
    return len(fields).to_bytes(4, "big") + fields


def random_value(rng: random.Random, depth: int) -> bytes:
    draw = rng.random()
    if draw < 0.1 and depth < 5:
        return b"F" + random_table(rng, depth + 1)
    if draw < 0.2 and depth < 5:
        items = b"".join(random_value(rng, depth + 1) for _ in range(rng.randrange(3)))
        return b"A" + len(items).to_bytes(4, "big") + items
    if draw < 0.3:
        return b"T" + rng.choice((bytes(8), b"\xff" * 8, b"\x80" + bytes(7)))
    if draw < 0.4:
        return b"S\0\0\0\2" + rng.choice((b"ok", b"\xff\xfe", b"q2"))
    return encode_value(rng.choice(list(EVERY_TYPE.values())))


def nested(rng: random.Random, depth: int) -> bytes:
    """A table with its length, `depth` tables and arrays deep."""
    inner = b""
    for _ in range(depth):
        if rng.random() < 0.5:
            inner = b"\x01kF" + len(inner).to_bytes(4, "big") + inner
        else:
            # An array holds a value, a table a named one.
            inner = b"\x01kA" + (len(inner[2:])).to_bytes(4, "big") + inner[2:]
    return len(inner).to_bytes(4, "big") + inner
