"""A channel's consumer: the frames of its deliveries, and when it can take one."""

from __future__ import annotations

import pytest

from leveret.broker.broker import default_broker
from leveret.broker.consumer import Window
from leveret.broker.counters import Counters
from leveret.broker.message import Entry, Origin, new_entry, new_message
from leveret.protocol.session import Session
from leveret.protocol.subscriber import Subscriber
from leveret.protocol.unacked import Unacked
from leveret.wire.content import frame_content
from leveret.wire.methods import write_method
from leveret.wire.output import Output
from leveret.wire.spec import BasicDeliver

HEADER = b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"


def origin(exchange: bytes = b"", key: bytes = b"q") -> Origin:
    address = bytes([len(exchange)]) + exchange + bytes([len(key)]) + key + b"\xce"
    return Origin(exchange.decode(), key.decode(), address)


def entry(body: bytes, place: Origin, redelivered: bool = False) -> Entry:
    header = HEADER[:4] + len(body).to_bytes(8, "big") + HEADER[12:]
    content = frame_content(header, body, max(1, len(body)))
    made = new_entry(new_message(place, content, len(header), len(body), max(1, len(body)), False), 1)
    made.redelivered = redelivered
    return made


class Listener:
    """A subscriber with its output, and the calls that reached the client's side."""

    def __init__(self, channel: int = 1, no_ack: bool = False, window: Window | None = None) -> None:
        self.wakes = 0
        self.cancelled: list[Subscriber] = []
        self.session = Session(default_broker(), Output(self.wake))
        self.output = self.session.output
        self.output.frame_max = 131072
        self.unacked = Unacked()
        self.channel_counters, self.counters = Counters(), Counters()
        self.subscriber = Subscriber(
            "tag",
            channel,
            self.session,
            self.unacked,
            self.channel_counters,
            self.counters,
            self.cancelled.append,
            no_ack=no_ack,
            exclusive=False,
            window=window or Window(),
            shared=Window(),
            arguments={},
            priority=0,
        )

    def wake(self) -> None:
        self.wakes += 1

    def sent(self) -> bytes:
        return b"".join(bytes(piece) for piece in self.output.take())


def expected(channel: int, deliver: BasicDeliver, content: bytes) -> bytes:
    out = bytearray()
    write_method(out, channel, deliver)
    frames = bytearray(content)
    at = 0
    while at < len(frames):
        frames[at + 1 : at + 3] = channel.to_bytes(2, "big")
        at += 8 + int.from_bytes(frames[at + 3 : at + 7], "big")
    return bytes(out + frames)


@pytest.mark.parametrize("channel", [1, 300])
@pytest.mark.parametrize("body", [b"", b"body", bytes(5000)], ids=["empty", "small", "large"])
def test_delivery_is_method_and_content(channel: int, body: bytes) -> None:
    listener = Listener(channel)
    first = entry(body, origin())
    listener.subscriber.deliver(first)
    assert listener.sent() == expected(channel, BasicDeliver("tag", 1, False, "", "q"), first.message.content)
    assert (listener.wakes, listener.unacked.count) == (1, 1)


def test_tags_go_up_and_redelivery_is_marked() -> None:
    listener = Listener()
    place = origin(b"x", b"k")
    for tag in range(1, 600):
        again = tag % 3 == 0
        one = entry(b"b", place, again)
        listener.subscriber.deliver(one)
        assert listener.sent() == expected(1, BasicDeliver("tag", tag, again, "x", "k"), one.message.content)
    assert listener.unacked.count == 599


def test_origin_may_change_with_each_message() -> None:
    listener = Listener()
    for tag, key in enumerate((b"a", b"longer", b"", b"a"), 1):
        one = entry(b"b", origin(b"x", key))
        listener.subscriber.deliver(one)
        assert listener.sent() == expected(1, BasicDeliver("tag", tag, False, "x", key.decode()), one.message.content)


def test_without_acknowledgement_tags_are_used_up_and_nothing_is_kept() -> None:
    listener = Listener(no_ack=True)
    listener.subscriber.deliver(entry(b"b", origin()))
    assert (listener.unacked.count, listener.unacked.next_tag) == (0, 2)


def test_client_is_woken_once_for_a_burst() -> None:
    listener = Listener()
    for _ in range(5):
        listener.subscriber.deliver(entry(b"b", origin()))
    assert listener.wakes == 1


def test_window_and_output_say_what_it_can_take() -> None:
    listener = Listener(window=Window(count_limit=1))
    assert listener.subscriber.can_take(10)
    listener.subscriber.window.take(10)
    assert not listener.subscriber.can_take(10)
    listener.subscriber.window.free(10)
    listener.output.blocked = True
    assert not listener.subscriber.can_take(10)


def test_full_output_holds_back_consumers_without_acknowledgement_too() -> None:
    listener = Listener(no_ack=True)
    assert listener.subscriber.can_take(1)
    listener.output.write(bytes((1 << 20) + 1))
    assert not listener.subscriber.can_take(1)
    listener.output.take()
    assert listener.subscriber.can_take(1)


def test_cancelling_is_passed_on() -> None:
    listener = Listener()
    listener.subscriber.cancelled()
    assert listener.cancelled == [listener.subscriber]
