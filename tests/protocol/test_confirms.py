"""Confirms: what is told once, and how many at a time."""

from __future__ import annotations

import pytest

from leveret.broker.counters import Counters
from leveret.broker.storage import Storage
from leveret.protocol.confirms import Confirms
from leveret.wire.methods import encode_method
from leveret.wire.output import Output
from leveret.wire.spec import BasicAck, BasicNack


def nobody() -> None:
    """No one is woken."""


def told(confirms: Confirms) -> bytes:
    output = Output(nobody)
    confirms.tell(output)
    return b"".join(bytes(piece) for piece in output.take())


def frame(channel: int, ack: BasicAck | BasicNack) -> bytes:
    payload = encode_method(ack)
    return b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def test_nothing_published_is_nothing_told() -> None:
    assert told(Confirms(1, Counters())) == b""


@pytest.mark.parametrize("channel", [1, 255, 256, 2047, 65535])
@pytest.mark.parametrize("number", [1, 255, 256, 70_000, 2**40])
def test_one_message_is_told_alone(channel: int, number: int) -> None:
    confirms = Confirms(channel, Counters())
    confirms.told = number - 1
    confirms.published = number
    assert told(confirms) == frame(channel, BasicAck(number))


def test_several_messages_are_told_together() -> None:
    confirms = Confirms(7, Counters())
    confirms.published = 3
    assert told(confirms) == frame(7, BasicAck(3, multiple=True))


def test_nothing_is_told_twice() -> None:
    confirms = Confirms(1, Counters())
    confirms.published = 5
    told(confirms)
    assert told(confirms) == b""
    confirms.published = 6
    assert told(confirms) == frame(1, BasicAck(6))


@pytest.mark.parametrize(
    ("count", "refused", "expected"),
    [
        (1, [1], [BasicNack(1)]),
        (2, [2], [BasicAck(1), BasicNack(2)]),
        (2, [1], [BasicNack(1), BasicAck(2)]),
        (3, [1, 2, 3], [BasicNack(1), BasicNack(2), BasicNack(3)]),
        (7, [3, 4], [BasicAck(2, multiple=True), BasicNack(3), BasicNack(4), BasicAck(7, multiple=True)]),
        (5, [2, 4], [BasicAck(1), BasicNack(2), BasicAck(3), BasicNack(4), BasicAck(5)]),
    ],
)
def test_refused_messages_are_told_among_the_others(
    count: int, refused: list[int], expected: list[BasicAck | BasicNack]
) -> None:
    confirms = Confirms(7, Counters())
    for number in range(1, count + 1):
        confirms.published = number
        if number in refused:
            confirms.refuse()
    assert told(confirms) == b"".join(frame(7, answer) for answer in expected)
    assert told(confirms) == b""


def test_message_refused_by_several_queues_is_told_once() -> None:
    confirms = Confirms(1, Counters())
    confirms.published = 1
    confirms.refuse()
    confirms.refuse()
    assert told(confirms) == frame(1, BasicNack(1))


def test_large_numbers_are_refused_too() -> None:
    confirms = Confirms(1, Counters())
    confirms.told, confirms.published = 2**40 - 2, 2**40
    confirms.refuse()
    assert told(confirms) == frame(1, BasicAck(2**40 - 1)) + frame(1, BasicNack(2**40))


class Slow(Storage):
    """Has synced as far as it is told."""

    __slots__ = ("said",)

    def __init__(self) -> None:
        Storage.__init__(self)
        self.said = 0

    def position(self) -> int:
        return self.said


def publish_to(confirms: Confirms, *storages: Slow) -> None:
    confirms.published += 1
    for storage in storages:
        storage.said += 1
        if storage is not confirms.storage:
            confirms.wait_for(storage)


def test_each_message_waits_for_the_storage_of_its_queues() -> None:
    """SPEC §2.4: a queue whose log is slow does not hold up confirms of messages before those that went there."""
    confirms, output = Confirms(1, Counters()), Output(lambda: None)
    quick, slow = Slow(), Slow()
    publish_to(confirms, quick)
    publish_to(confirms, quick, slow)
    publish_to(confirms, quick)

    def told() -> int:
        confirms.tell(output)
        return confirms.told

    assert told() == 0
    quick.synced = 1
    assert told() == 0
    quick.synced = 3
    assert told() == 1
    slow.synced = 1
    assert told() == 3
    publish_to(confirms, slow)
    assert told() == 3
    slow.synced = 2
    assert told() == 4
