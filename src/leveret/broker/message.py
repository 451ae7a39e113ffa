"""A message, its origin, and its entry in a queue.

The content stays as the publisher's frames brought it: one content header frame and then body frames, all but the last
with `frame_size` bytes of body. Whoever needs to look inside asks `wire/content.py`; this module and the queues only
carry it. One Message is shared by all queues that hold it and is never changed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.broker.consumer import Consumer
    from leveret.broker.queue import Queue

STUBS_MAX = 4096


class Origin:
    """Where messages were published to; shared by all messages of one route.

    `address` is exchange and routing key as a delivery carries them, up to the end of its frame. `blind` are the keys of a
    header BCC, which nobody sees: wherever the message is routed again, it goes by them too.
    """

    __slots__ = ("address", "blind", "exchange", "routing_key")

    def __init__(self, exchange: str, routing_key: str, address: bytes, blind: tuple[str, ...] = ()) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.address = address
        self.blind = blind


class Message:
    """What was published: origin and content.

    `flags` are those of its properties, with PERSISTENT and the priority above them (`wire/content.py`); `ttl_ms` is its
    own time to live, -1 for none.
    """

    __slots__ = ("body_size", "content", "flags", "frame_size", "header_size", "origin", "ttl_ms")

    origin: Origin
    content: bytes
    header_size: int
    body_size: int
    frame_size: int
    flags: int
    ttl_ms: int


class Entry:
    """A message in one queue.

    `seq` orders the queue and `next` is the entry behind it; `waiting` says that it is ready. `expires_at` is when it must
    be gone (ms; 0 for never), `delivery_count` how often it was given back. While it is unacknowledged, `queue` is where
    it belongs, `consumer` who has it (None: it was taken by basic.get) and `tag` its delivery tag; while it is ready, it
    knows of nobody. `location` is where storage has it, 0 if it has not. So what waits in queues forms no cycles, and
    compiled it is no matter for the garbage collector, which would stop the loop to look at millions.
    """

    __slots__ = (
        "consumer",
        "delivery_count",
        "expires_at",
        "location",
        "message",
        "next",
        "queue",
        "redelivered",
        "seq",
        "tag",
        "waiting",
    )

    queue: "Queue"
    message: Message
    consumer: "Consumer | None"
    next: "Entry | None"
    seq: int
    redelivered: bool
    tag: int
    waiting: bool
    expires_at: int
    delivery_count: int
    location: int


def new_message(origin: Origin, content: bytes, header_size: int, body_size: int, frame_size: int, flags: int) -> Message:
    """Make a message; `frame_size` is the body bytes in each frame but the last."""
    # Not through a constructor: compiled, that would cost as much as the rest of a publish.
    message = Message.__new__(Message)
    message.origin = origin
    message.content = content
    message.header_size = header_size
    message.body_size = body_size
    message.frame_size = frame_size
    message.flags = flags
    message.ttl_ms = -1
    return message


NOWHERE = Origin("", "", b"")
_STUBS: dict[tuple[int, int], Message] = {}


def is_stub(message: Message) -> bool:
    """Whether the content is only in storage."""
    return message.header_size == 0


def stub_of(flags: int, body_size: int) -> Message:
    """What is known of a message without its content; shared by all that are alike."""
    key = (flags, body_size)
    stub = _STUBS.get(key)
    if stub is None:
        if len(_STUBS) >= STUBS_MAX:
            _STUBS.clear()
        stub = _STUBS[key] = new_message(NOWHERE, b"", 0, body_size, 1, flags)
    return stub


def new_entry(message: Message, seq: int) -> Entry:
    """Make an entry for `message`."""
    entry = Entry.__new__(Entry)
    entry.queue = None  # type: ignore[assignment]
    entry.message = message
    entry.consumer = None
    entry.next = None
    entry.seq = seq
    entry.redelivered = False
    entry.tag = 0
    entry.waiting = False
    entry.expires_at = 0
    entry.delivery_count = 0
    entry.location = 0
    return entry


def renewed_entry(old: Entry, message: Message, seq: int) -> Entry:
    """Another entry for a message that was given back."""
    entry = new_entry(message, seq)
    entry.redelivered = True
    entry.expires_at = old.expires_at
    entry.delivery_count = old.delivery_count
    return entry
