"""What becomes of a message, mostly with a channel that does as a test wants; `test_table.py` has all policies."""

import asyncio
import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from tests.server.support import eventually
from tests.work.support import Calls, Place, Working, fresh, one

from leveret.client.incoming import Delivery
from leveret.wire.properties import Properties, encode_properties
from leveret.work import Message, Subscription
from leveret.work.backoff import requeue_delay_s
from leveret.work.policy import Counters, InFlight, MessagePolicy, load_per_core, overloaded
from leveret.work.run_once import RecordingChannel


class ClosedChannel(RecordingChannel):
    """Its connection has ended before anything could be sent."""

    def publish(self, *_: Any) -> bool:
        return False

    def wait_until_sent(self) -> bool:
        return False


def policy_of(**fields: Any) -> tuple[MessagePolicy, Counters, InFlight]:
    counters, in_flight = Counters(), InFlight()
    return MessagePolicy(Subscription(name="s", handler=print, **fields), counters, in_flight), counters, in_flight


def message(properties: bytes = encode_properties(Properties(reply_to="r"))) -> Message:
    return Message(Delivery(1, False, "", "k", properties, b""), None, ClosedChannel([]))


def test_what_could_not_be_acknowledged_before_is_not_handled() -> None:
    """It comes again, and would be handled twice."""
    policy, counters, in_flight = policy_of(acknowledge_policy="AlwaysBeforeHandling")
    assert policy.begin(message()) is False
    assert (in_flight.count, counters.received, counters.refused) == (0, 1, 0)


def test_receipt_that_was_not_sent_is_not_counted() -> None:
    policy, counters, _ = policy_of(receipt="Always")
    assert policy.begin(message())
    assert policy.succeeded(message()) == "handled"
    assert counters.receipts == 0


@pytest.mark.parametrize("octets", [b"", b"\xff\xff", b"\x80\x00\xff"])
def test_properties_that_are_none_cost_only_the_receipt(octets: bytes) -> None:
    policy, counters, _ = policy_of(receipt="Always")
    one = message(octets)
    assert one.title == "message with routing key 'k', delivery 1"
    policy.failed(one, ValueError("no"))
    assert (counters.failed, counters.receipts, one.settled) == (1, 0, "acked")


@pytest.mark.parametrize(
    ("bound", "load", "refused"),
    [
        ({}, 1.0, False),
        ({}, 1.01, True),
        ({"Load": 2}, 1.99, False),
        ({"Load": 2}, 2.01, True),
        ({"Load": 0.5, "InFlight": 3}, 0.6, True),
        ({"InFlight": 3}, 99.0, False),
    ],
)
def test_load(bound: dict[str, float], load: float, refused: bool) -> None:
    assert overloaded(bound, lambda: load) is refused


def test_load_of_this_machine_is_a_number() -> None:
    assert load_per_core() >= 0
    assert overloaded({"Load": 1e9}) is False


def test_bound_is_kept_by_many_threads_and_nothing_is_lost() -> None:
    in_flight = InFlight()
    most: list[int] = []

    def work() -> None:
        for _ in range(2000):
            if in_flight.enter(3):
                most.append(in_flight.count)
                in_flight.leave()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_flight.count == 0
    assert most
    assert max(most) <= 3


# Messages that fail again and again: each time they come back later, and in the end not at all


def fails(message: Any) -> None:
    if message.body == b"bad":
        raise ValueError("it is bad")


def gives_back(message: Any) -> None:
    if message.body == b"bad":
        message.reject(requeue=True)


async def fails_later(message: Any) -> None:
    fails(message)


@pytest.mark.parametrize("handler", [fails, gives_back, fails_later], ids=["fails", "gives back", "fails as a coroutine"])
def test_message_that_always_fails_does_not_keep_the_worker_busy(place: Place, handler: Any) -> None:
    """SPEC §10: each time it comes later than the last time, and others are handled meanwhile."""
    at: list[float] = []
    good = threading.Event()

    def noted(message: Any) -> Any:
        if message.body == b"bad":
            at.append(time.monotonic())
        else:
            good.set()
        return handler(message)

    async def noted_too(message: Any) -> None:
        await noted(message)

    exchange, queue = one(noted_too if asyncio.iscoroutinefunction(handler) else noted, reject_policy="OnFailure")
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"bad")
        eventually(lambda: len(at) >= 3)
        place.publish(exchange.name, "k", b"good")
        assert good.wait(60)
        eventually(lambda: len(at) >= 4)
        assert working.runtime.counters.received >= 5
    gaps = [later - sooner for sooner, later in pairwise(at)]
    # Clocks of two kinds, each with a grain of its own.
    assert all(gap > requeue_delay_s(count) - 0.01 for count, gap in enumerate(gaps, 1))
    assert place.ready(queue) == 1, "it is back when the worker has gone"


def test_message_that_fails_too_often_goes_to_the_dead_letters(place: Place) -> None:
    """SPEC §10: with a limit of 2 it is given back twice; one that succeeds in the end is none of them."""
    dead = fresh("dead")
    place.declare(dead)

    def handle(message: Any) -> None:
        if message.body == b"bad" or calls.bodies.count(message.body) < 3:
            raise ValueError("not now")

    calls = Calls(handle)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    exchange, queue = one(
        calls, reject_policy="OnFailure", delivery_limit=2, queue={"Arguments": arguments}, worker_thread_count=2
    )
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", b"bad", b"late")
        eventually(lambda: place.ready(dead) == 1)
        eventually(lambda: working.runtime.counters.handled == 1)
        assert working.runtime.counters.failed == 5
    assert sorted(calls.bodies) == [b"bad"] * 3 + [b"late"] * 3
    ((_, properties, body),) = place.take(dead)
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"bad", "rejected")
    assert place.ready(queue) == 0
