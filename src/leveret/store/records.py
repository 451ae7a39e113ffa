"""The records of the journal, to and from octets.

All numbers are little-endian; every record begins at a multiple of 8 and says its length, padding included.

  record   := length u32 | kind u8 | upper group u8 | count u16 | group u32 | queue u32 | fields | padding
  MESSAGE  := header size u32 | frame size u32 | body size u64 | ttl ms + 1 u64 | flags u32 | address size u32
              | place * count | address | content                    queue is 0
  address  := length u8 | exchange | length u8 | routing key | 206 u8 | blind *
  blind    := length u32 | a key of the header BCC
  place    := queue u32 | delivery count u16 | its number, 15 bits | delivered before, 1 bit | seq u64 | expires at u64
  SETTLE   := first seq u64 | last seq u64                           gone: acked, dropped, expired, consumed
  PURGE    := 0 u64 | last seq u64                                   all up to that one are gone
  REQUEUE  := seq u64 | delivery count u64                           given back
  COMMIT   := 0 u64 | 0 u64                                          the records of `group` count from now on
  MARK     := changes u64 | last queue id u64                        how often definitions have changed, the last id given
                                                                     out; `group` and `queue`: the oldest batch there is

  (1) A place is known by segment and offset, its own, not its record's: `place_offset`.
  (2) `group` is 0 or a number of one transaction; its records count only if its COMMIT is there too.
  (3) The first batch of each segment has a MARK, and every batch after which it says something else. So the newest one
      is always there, and definitions or batches that are missing are found out.
  (4) What is live is what was placed less what was settled, in whatever order the records stand: a seq is never reused.

Knows nothing of files or batches.
"""

from errno import EIO

from leveret.broker.message import Message, Origin, new_message
from leveret.broker.open_page import OpenPage
from leveret.octets import put_u16, put_u32, put_u64, u16_at, u32_at, u64_at
from leveret.store.checks import BLOCK_BITS
from leveret.store.layout import (
    COUNT_MAX,
    DELIVERED,
    HEAD_SIZE,
    KIND_MASK,
    MESSAGE,
    NUMBER_MASK,
    NUMBERS_SIZE,
    PLACE_SIZE,
    PLACES_AT,
)

ORIGINS_MAX = 1024

_ZEROS = [bytes(PLACES_AT + count * PLACE_SIZE) for count in range(16)]
_PADDING = [bytes(size) for size in range(8)]
_LAST: dict[bytes, Origin] = {}


class Place:
    """A message's place in a queue, as the journal has it."""

    __slots__ = ("delivered", "delivery_count", "expires_at", "number", "queue", "seq")

    def __init__(self, queue: int, seq: int, expires_at: int = 0, delivery_count: int = 0, number: int = 0) -> None:
        self.number = number & NUMBER_MASK
        self.delivered = number & DELIVERED != 0
        self.queue = queue
        self.seq = seq
        self.expires_at = expires_at
        self.delivery_count = delivery_count


def place_offset(offset: int, number: int) -> int:
    """Where a place of the record at `offset` stands."""
    return offset + PLACES_AT + number * PLACE_SIZE


def write_message(out: bytearray, message: Message, count: int, group: int) -> int:
    """Append a MESSAGE without its places, which `write_place` fills in; the record's length."""
    origin = message.origin
    address = origin.address if not origin.blind else blind_address(origin)
    content = message.content
    size = PLACES_AT + count * PLACE_SIZE + len(address) + len(content)
    length = size + 7 & ~7
    at = len(out)
    out += _ZEROS[count] if count < len(_ZEROS) else bytes(PLACES_AT + count * PLACE_SIZE)
    out += address
    out += content
    if length != size:
        out += _PADDING[length - size]
    p = out
    put_u32(p, at, length)
    put_u16(p, at + 4, MESSAGE | group >> 32 << 8)
    put_u16(p, at + 6, count)
    put_u32(p, at + 8, group)
    put_u32(p, at + 16, message.header_size)
    put_u32(p, at + 20, message.frame_size)
    put_u64(p, at + 24, message.body_size)
    put_u64(p, at + 32, message.ttl_ms + 1)
    put_u32(p, at + 40, message.flags)
    put_u32(p, at + 44, len(address))
    return length


def copy_message(out: bytearray, data: bytes, at: int, count: int, new_count: int) -> None:
    """Append a copy of the record at `at` with room for other places, and in no group."""
    address_size = u32_at(data, at + 44)
    start = at + PLACES_AT + count * PLACE_SIZE
    rest = data[start : start + address_size + content_size_at(data, at)]
    size = PLACES_AT + new_count * PLACE_SIZE + len(rest)
    length = size + 7 & ~7
    to = len(out)
    out += data[at : at + PLACES_AT]
    out += bytes(new_count * PLACE_SIZE)
    out += rest
    out += bytes(length - size)
    put_u32(out, to, length)
    put_u16(out, to + 4, MESSAGE)
    put_u16(out, to + 6, new_count)
    put_u32(out, to + 8, 0)


def write_place(out: bytearray, at: int, queue: int, seq: int, expires_at: int, delivery_count: int, number: int) -> None:
    """Fill in the place at `at` of the buffer."""
    p = out
    put_u32(p, at, queue)
    put_u16(p, at + 4, min(delivery_count, COUNT_MAX))
    put_u16(p, at + 6, number)
    put_u64(p, at + 8, seq)
    put_u64(p, at + 16, expires_at)


def write_numbers(out: bytearray, kind: int, group: int, queue: int, first: int, last: int) -> None:
    """Append a record of two numbers: every kind but MESSAGE."""
    at = len(out)
    out += bytes(NUMBERS_SIZE)
    p = out
    put_u32(p, at, NUMBERS_SIZE)
    put_u16(p, at + 4, kind | group >> 32 << 8)
    put_u32(p, at + 8, group)
    put_u32(p, at + 12, queue)
    put_u64(p, at + 16, first)
    put_u64(p, at + 24, last)


def record_size(data: bytes, at: int) -> int:
    """How long the record at `at` is, which has a whole head."""
    check_room(len(data), at, HEAD_SIZE)
    p = data
    length = u32_at(p, at)
    check_room(length, 0, HEAD_SIZE)
    check_room(len(data), at, length)
    return length


def read_head(data: bytes, at: int) -> tuple[int, int, int, int, int]:
    """Length, kind, count, group and queue of the record at `at`."""
    check_room(len(data), at, HEAD_SIZE)
    p = data
    return u32_at(p, at), u16_at(p, at + 4) & KIND_MASK, u16_at(p, at + 6), group_at(p, at), u32_at(p, at + 12)


def group_at(p: bytes | bytearray, at: int) -> int:
    """The transaction of the record at `at`; 0 if it is in none."""
    upper = u16_at(p, at + 4) >> 8
    return upper << 32 | u32_at(p, at + 8)


def first_records(data: bytes | bytearray, start: int, end: int, offset: int) -> list[int]:
    """For each block of a batch's records, from `start` on, where the first record at or behind its beginning is.

    `offset` is where in the file `data` begins.
    """
    p = data
    found: list[int] = []
    number = offset + start >> BLOCK_BITS
    at = start
    # In what is damaged a length may be any number.
    while at + 4 <= end:
        while number <= offset + at >> BLOCK_BITS:
            found.append(at - start)
            number += 1
        length = u32_at(p, at)
        at += length if length > 0 else end
    while start < end and number <= offset + end - 1 >> BLOCK_BITS:
        found.append(end - start)
        number += 1
    return found


def read_numbers(data: bytes, at: int) -> tuple[int, int]:
    """The two numbers of a record that has them."""
    check_room(len(data), at, NUMBERS_SIZE)
    p = data
    return u64_at(p, at + HEAD_SIZE), u64_at(p, at + HEAD_SIZE + 8)


def read_place(data: bytes, at: int) -> Place:
    check_room(len(data), at, PLACE_SIZE)
    p = data
    return Place(u32_at(p, at), u64_at(p, at + 8), u64_at(p, at + 16), u16_at(p, at + 4), u16_at(p, at + 6))


def read_message(data: bytes, at: int) -> Message:
    """The message of the record at `at`."""
    check_room(len(data), at, PLACES_AT)
    p = data
    header_size = u32_at(p, at + 16)
    frame_size = u32_at(p, at + 20)
    body_size = u64_at(p, at + 24)
    address_at = at + PLACES_AT + u16_at(p, at + 6) * PLACE_SIZE
    content_at = address_at + u32_at(p, at + 44)
    end = content_at + content_size(header_size, body_size, frame_size)
    check_room(len(data), at, end - at)
    # Cut out of `p`, not of `data`: compiled, that needs no slice object.
    origin = origin_of(p[address_at:content_at])
    message = new_message(origin, p[content_at:end], header_size, body_size, frame_size, u32_at(p, at + 40))
    message.ttl_ms = u64_at(p, at + 32) - 1
    return message


def describe_message(data: bytes, at: int, seq: int, location: int, page: OpenPage) -> bool:
    """Have a page know where the content of the record at `at` is; False of a message with a time to live of its own."""
    check_room(len(data), at, PLACES_AT)
    p = data
    if u64_at(p, at + 32) != 0:
        return False
    header_size = u32_at(p, at + 16)
    frame_size = u32_at(p, at + 20)
    body_size = u64_at(p, at + 24)
    address_at = at + PLACES_AT + u16_at(p, at + 6) * PLACE_SIZE
    content_at = address_at + u32_at(p, at + 44)
    size = content_size(header_size, body_size, frame_size)
    check_room(len(data), at, content_at + size - at)
    # Neighbours mostly share their origin: found by comparing octets, not by hashing them.
    if not page.has_address(address_at, content_at - address_at):
        page.add_origin(origin_of(p[address_at:content_at]), address_at, content_at - address_at)
    page.add(seq, location, content_at, size, u32_at(p, at + 40))
    page.add_sizes(header_size, body_size, frame_size)
    return True


def check_room(size: int, at: int, length: int) -> None:
    """Whether that many octets can be at `at`; what is read again was whole once, but disks decay."""
    if at < 0 or length < 0 or at + length > size:
        raise OSError(EIO, "the data folder has changed: what was written is not what is read")


def content_size(header_size: int, body_size: int, frame_size: int) -> int:
    """How long the frames of a message are."""
    frames = 0 if body_size == 0 else (body_size + frame_size - 1) // max(frame_size, 1)
    return header_size + 8 + body_size + 8 * frames


def body_size_at(data: bytes, at: int) -> int:
    check_room(len(data), at, PLACES_AT)
    return u64_at(data, at + 24)


def content_size_at(data: bytes, at: int) -> int:
    return content_size(u32_at(data, at + 16), u64_at(data, at + 24), u32_at(data, at + 20))


def origin_of(address: bytes) -> Origin:
    """Exchange and routing keys; those of the last ones are remembered, as neighbours often share theirs."""
    origin = _LAST.get(address)
    if origin is None:
        check_room(len(address), 0, 3)
        name_end = 1 + address[0]
        check_room(len(address), name_end, 2)
        key_end = name_end + 1 + address[name_end]
        check_room(len(address), key_end, 1)
        exchange = address[1:name_end].decode("utf-8", "surrogateescape")
        routing_key = address[name_end + 1 : key_end].decode("utf-8", "surrogateescape")
        if len(address) > key_end + 1:
            # Not remembered: they may be long, and are seldom the same.
            return Origin(exchange, routing_key, address[: key_end + 1], blind_keys(address, key_end + 1))
        if len(_LAST) >= ORIGINS_MAX:
            _LAST.clear()
        origin = _LAST[address] = Origin(exchange, routing_key, address)
    return origin


def blind_address(origin: Origin) -> bytes:
    """What is written of an origin with keys that nobody sees."""
    out = bytearray(origin.address)
    for key in origin.blind:
        octets = key.encode("utf-8", "surrogateescape")
        at = len(out)
        out += bytes(4)
        put_u32(out, at, len(octets))
        out += octets
    return bytes(out)


def blind_keys(address: bytes, at: int) -> tuple[str, ...]:
    """The keys that stand in an address from `at` on."""
    found = []
    while at < len(address):
        check_room(len(address), at, 4)
        size = u32_at(address, at)
        check_room(len(address), at + 4, size)
        found.append(address[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape"))
        at += 4 + size
    return tuple(found)
