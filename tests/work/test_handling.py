"""What is decided of a message, with a line that does as a test wants; `test_table.py` has the rest, with brokers."""

from typing import Any

import pytest

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties, encode_properties
from leveret.work import Message, Subscription
from leveret.work.counters import Counters
from leveret.work.handling import Handling
from leveret.work.load import InFlight
from leveret.work.once import Recorder


class CutLine(Recorder):
    """It is cut before anything could be sent."""

    def publish(self, *_: Any) -> bool:
        return False

    def sent(self) -> bool:
        return False


def handling_of(**fields: Any) -> tuple[Handling, Counters, InFlight]:
    counters, in_flight = Counters(), InFlight()
    return Handling(Subscription(name="s", handler=print, **fields), counters, in_flight), counters, in_flight


def message(properties: bytes = encode_properties(Properties(reply_to="r"))) -> Message:
    return Message(Delivery(1, False, "", "k", properties, b""), None, CutLine([]))


def test_what_could_not_be_acknowledged_before_is_not_handled() -> None:
    """It comes again, and would be handled twice."""
    handling, counters, in_flight = handling_of(acknowledge_policy="AlwaysBeforeHandling")
    assert handling.begin(message()) is False
    assert (in_flight.count, counters.received, counters.refused) == (0, 1, 0)


def test_receipt_that_was_not_sent_is_not_counted() -> None:
    handling, counters, _ = handling_of(receipt="Always")
    assert handling.begin(message())
    assert handling.succeeded(message()) == "handled"
    assert counters.receipts == 0


@pytest.mark.parametrize("octets", [b"", b"\xff\xff", b"\x80\x00\xff"])
def test_properties_that_are_none_cost_only_the_receipt(octets: bytes) -> None:
    handling, counters, _ = handling_of(receipt="Always")
    one = message(octets)
    assert one.title == "message with routing key 'k', delivery 1"
    handling.failed(one, ValueError("no"))
    assert (counters.failed, counters.receipts, one.settled) == (1, 0, "acked")
