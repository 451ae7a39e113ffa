"""Messages that fail again and again: each time they come back later, and in the end not at all."""

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
from leveret.work import Message
from leveret.work.failures import KEPT_MAX, Failures, pause_s
from leveret.work.line import AHEAD_MAX, OpenLine
from leveret.work.once import Recorder


def message(body: bytes = b"", redelivered: bool = True, **properties: Any) -> Message:
    octets = encode_properties(Properties(**properties))
    return Message(Delivery(1, redelivered, "x", "k", octets, body), None, Recorder([]))


def test_pause_doubles_up_to_a_minute() -> None:
    """SPEC §10."""
    assert [pause_s(count) for count in (1, 2, 3, 4)] == [0.1, 0.2, 0.4, 0.8]
    assert [pause_s(count) for count in (10, 11, 12, 100_000)] == [51.2, 60.0, 60.0, 60.0]


def test_failures_are_counted_by_message() -> None:
    """SPEC §10: by its id, or else by all of it."""
    failures = Failures()
    assert [failures.add(message(b"one")) for _ in range(3)] == [1, 2, 3]
    assert failures.add(message(b"two")) == 1
    assert failures.add(message(b"one", correlation_id="c")) == 1
    assert [failures.add(message(body, message_id="m")) for body in (b"one", b"two")] == [1, 2]
    failures.forget(message(b"one"))
    assert failures.add(message(b"one")) == 1


def test_message_that_is_like_another_one_begins_at_one() -> None:
    """SPEC §10: and does not take away what the other one has behind it."""
    failures = Failures()
    assert [failures.add(message(b"same")) for _ in range(3)] == [1, 2, 3]
    assert failures.add(message(b"same", redelivered=False)) == 1
    assert failures.add(message(b"same")) == 4


@pytest.mark.parametrize(("told", "counted"), [(3, 4), (0, 1), (-1, 1), ("3", 1), (True, 1)])
def test_count_of_the_queue_is_heeded(told: Any, counted: int) -> None:
    """SPEC §10: it knows of other processes."""
    assert Failures().add(message(headers={"x-delivery-count": told})) == counted


def test_properties_that_cannot_be_read_are_no_obstacle() -> None:
    failures = Failures()
    rubbish = Message(Delivery(1, True, "x", "k", b"\xff\xff", b""), None, Recorder([]))
    assert [failures.add(rubbish) for _ in range(2)] == [1, 2]


def test_only_so_many_are_remembered() -> None:
    failures = Failures()
    for number in range(KEPT_MAX + 10):
        failures.add(message(b"%d" % number))
    assert len(failures._counts) == KEPT_MAX
    assert failures.add(message(b"0")) == 1
    assert failures.add(message(b"%d" % KEPT_MAX)) == 2


class Reading:
    """A client that knows whether it reads."""

    socket_full = False
    on_flow: Any = None
    reads = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def pause(self) -> None:
        self.reads = False

    def resume(self) -> None:
        self.reads = True

    def send(self, octets: bytes) -> None:
        self.sent.append(octets)


def test_what_is_kept_is_bounded() -> None:
    """SPEC §10: what is to be given back counts among what was read ahead; of a connection that is cut nothing is said."""

    async def main() -> None:
        client: Any = Reading()
        line = OpenLine(client)
        for tag in range(1, AHEAD_MAX + 1):
            assert client.reads
            line._keep(tag, True, 1000.0)
        assert not client.reads
        for tag in range(1, AHEAD_MAX // 2 + 1):
            line._give_back(tag, True)
        assert client.reads
        line.flush()
        assert sum(map(len, client.sent)) == AHEAD_MAX // 2 * 21
        line.cut_off()
        line._give_back(AHEAD_MAX, True)
        line.flush()
        assert len(client.sent) == 1

    asyncio.run(main())


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
    assert all(gap > pause_s(count) - 0.01 for count, gap in enumerate(gaps, 1))
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
