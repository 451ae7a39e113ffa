"""The records of the journal, to and from octets.

All numbers are little-endian; every record begins at a multiple of 8 and says its length, padding included.

  record   := length u32 | kind u8 | 0 u8 | count u16 | group u32 | queue u32 | fields | padding
  MESSAGE  := header size u32 | frame size u32 | body size u64 | ttl ms i64 | flags u32 | address size u32
              | place * count | address | content                    queue is 0
  place    := queue u32 | delivery count u16 | its number u16 | seq u64 | expires at i64
  SETTLE   := first seq u64 | last seq u64                           gone: acked, dropped, expired, consumed
  PURGE    := 0 u64 | last seq u64                                   all up to that one are gone
  REQUEUE  := seq u64 | delivery count u64                           given back
  COMMIT   := 0 u64 | 0 u64                                          the records of `group` count from now on

  (1) A place is known by segment and offset, its own, not its record's: `place_offset`.
  (2) `group` is 0 or a number of one transaction; its records count only if its COMMIT is there too.
  (3) What is live is what was placed less what was settled, in whatever order the records stand: a seq is never reused.

Knows nothing of files or batches.
"""

from struct import Struct

from leveret.broker.message import Message, Origin, new_message

MESSAGE, SETTLE, PURGE, REQUEUE, COMMIT = 1, 2, 3, 4, 5

HEAD_SIZE = 16
PLACES_AT = 48
PLACE_SIZE = 24
NUMBERS_SIZE = 32
ORIGINS_MAX = 1024
COUNT_MAX = (1 << 16) - 1

_HEAD = Struct("<IHHII")
_MESSAGE = Struct("<IHHIIIIQqII")
_PLACE = Struct("<IHHQq")
_NUMBERS = Struct("<IHHIIQQ")
_TWO = Struct("<QQ")
_BODY_SIZE = Struct("<Q")
_ZEROS = [bytes(count * PLACE_SIZE) for count in range(16)]
_PADDING = [bytes(size) for size in range(8)]
_LAST: dict[bytes, Origin] = {}


class Place:
    """A message's place in a queue, as the journal has it."""

    __slots__ = ("delivery_count", "expires_at", "number", "queue", "seq")

    def __init__(self, queue: int, seq: int, expires_at: int = 0, delivery_count: int = 0, number: int = 0) -> None:
        self.number = number
        self.queue = queue
        self.seq = seq
        self.expires_at = expires_at
        self.delivery_count = delivery_count


def place_offset(offset: int, at: int) -> int:
    """Where the place number `at` of the record at `offset` stands."""
    return offset + PLACES_AT + at * PLACE_SIZE


def write_message(out: bytearray, message: Message, count: int, group: int) -> int:
    """Append a MESSAGE without its places, which `write_place` fills in; the record's length."""
    address = message.origin.address
    content = message.content
    size = PLACES_AT + count * PLACE_SIZE + len(address) + len(content)
    length = size + 7 & ~7
    out += _MESSAGE.pack(
        length,
        MESSAGE,
        count,
        group,
        0,
        message.header_size,
        message.frame_size,
        message.body_size,
        message.ttl_ms,
        message.flags,
        len(address),
    )
    out += _ZEROS[count] if count < len(_ZEROS) else bytes(count * PLACE_SIZE)
    out += address
    out += content
    out += _PADDING[length - size]
    return length


def copy_message(out: bytearray, data: bytes, at: int, count: int, new_count: int) -> None:
    """Append a copy of the record at `at` with room for other places, and in no group."""
    fields = _MESSAGE.unpack_from(data, at)
    start = at + PLACES_AT + count * PLACE_SIZE
    rest = data[start : start + fields[10] + content_size(fields[5], fields[7], fields[6])]
    size = PLACES_AT + new_count * PLACE_SIZE + len(rest)
    length = size + 7 & ~7
    out += _MESSAGE.pack(length, MESSAGE, new_count, 0, *fields[4:])
    out += bytes(new_count * PLACE_SIZE)
    out += rest
    out += bytes(length - size)


def write_place(out: bytearray, at: int, queue: int, seq: int, expires_at: int, delivery_count: int, number: int) -> None:
    """Fill in the place at `at` of the buffer."""
    _PLACE.pack_into(out, at, queue, min(delivery_count, COUNT_MAX), number, seq, expires_at)


def write_numbers(out: bytearray, kind: int, group: int, queue: int, first: int, last: int) -> None:
    """Append a record of two numbers: every kind but MESSAGE."""
    out += _NUMBERS.pack(NUMBERS_SIZE, kind, 0, group, queue, first, last)


def read_head(data: bytes, at: int) -> tuple[int, int, int, int, int]:
    """Length, kind, count, group and queue of the record at `at`."""
    return _HEAD.unpack_from(data, at)


def read_numbers(data: bytes, at: int) -> tuple[int, int]:
    """The two numbers of a record that has them."""
    return _TWO.unpack_from(data, at + HEAD_SIZE)


def read_place(data: bytes, at: int) -> Place:
    queue, delivery_count, number, seq, expires_at = _PLACE.unpack_from(data, at)
    return Place(queue, seq, expires_at, delivery_count, number)


def read_message(data: bytes, at: int) -> Message:
    """The message of the record at `at`."""
    _, _, count, _, _, header_size, frame_size, body_size, ttl_ms, flags, address_size = _MESSAGE.unpack_from(data, at)
    address_at = at + PLACES_AT + count * PLACE_SIZE
    content_at = address_at + address_size
    end = content_at + content_size(header_size, body_size, frame_size)
    address = bytes(data[address_at:content_at])
    message = new_message(origin_of(address), bytes(data[content_at:end]), header_size, body_size, frame_size, flags)
    message.ttl_ms = ttl_ms
    return message


def body_size_of(data: bytes, at: int) -> int:
    return int(_BODY_SIZE.unpack_from(data, at + 24)[0])


def content_size(header_size: int, body_size: int, frame_size: int) -> int:
    """How long the frames of a message are."""
    frames = 0 if body_size == 0 else (body_size + frame_size - 1) // frame_size
    return header_size + 8 + body_size + 8 * frames


def origin_of(address: bytes) -> Origin:
    """Exchange and routing key; the last one asked for is remembered, as neighbours often share theirs."""
    origin = _LAST.get(address)
    if origin is None:
        name_end = 1 + address[0]
        exchange = address[1:name_end].decode("utf-8", "surrogateescape")
        routing_key = address[name_end + 1 : len(address) - 1].decode("utf-8", "surrogateescape")
        if len(_LAST) >= ORIGINS_MAX:
            _LAST.clear()
        origin = _LAST[address] = Origin(exchange, routing_key, address)
    return origin
