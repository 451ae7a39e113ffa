"""Confirms: what is told once, and how many at a time."""

from __future__ import annotations

import pytest

from leveret.protocol.confirms import Confirms
from leveret.wire.methods import encode_method
from leveret.wire.output import Output
from leveret.wire.spec import BasicAck


def nobody() -> None:
    """No one is woken."""


def told(confirms: Confirms) -> bytes:
    output = Output(nobody)
    confirms.tell(output)
    return b"".join(bytes(piece) for piece in output.take())


def frame(channel: int, ack: BasicAck) -> bytes:
    payload = encode_method(ack)
    return b"\x01" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def test_nothing_published_is_nothing_told() -> None:
    assert told(Confirms(1)) == b""


@pytest.mark.parametrize("channel", [1, 255, 256, 2047, 65535])
@pytest.mark.parametrize("number", [1, 255, 256, 70_000, 2**40])
def test_one_message_is_told_alone(channel: int, number: int) -> None:
    confirms = Confirms(channel)
    confirms.told = number - 1
    confirms.published = number
    assert told(confirms) == frame(channel, BasicAck(number))


def test_several_messages_are_told_together() -> None:
    confirms = Confirms(7)
    confirms.published = 3
    assert told(confirms) == frame(7, BasicAck(3, multiple=True))


def test_nothing_is_told_twice() -> None:
    confirms = Confirms(1)
    confirms.published = 5
    told(confirms)
    assert told(confirms) == b""
    confirms.published = 6
    assert told(confirms) == frame(1, BasicAck(6))
