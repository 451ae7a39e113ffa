"""Workers and their connections: lost, refused, silent, stopped. Time is injected wherever something waits."""

import asyncio
import json
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from tests.client.support import Peer, peer
from tests.server.support import PATIENCE, Process, eventually
from tests.work.support import Calls, Door, Log, Place, Working, at_once, for_ever, fresh, one

from leveret.uri import Uri
from leveret.wire import spec
from leveret.wire.content import END, frame_head
from leveret.wire.methods import write_method
from leveret.wire.properties import Properties, encode_properties
from leveret.work import Exchange, Message, Runtime, Subscription
from leveret.work.channel import READ_AHEAD_MAX

HOUR_S = 3600


class Delays:
    """Waits hardly, and keeps how long it should have."""

    def __init__(self, real_s: float = 0.02) -> None:
        self.asked: list[float] = []
        self._real_s = real_s

    async def __call__(self, delay_s: float) -> None:
        self.asked.append(delay_s)
        await asyncio.sleep(self._real_s)


def spaced(delays: list[float], workers: int) -> list[int]:
    """How many workers waited for the first, second, … time; each wait is as long as SPEC §10 says."""
    counts = []
    for number in range(7):
        least = 2.0 * 2**number
        counts.append(sum(least <= delay <= 1.2 * least for delay in delays))
    later = [delay for delay in delays if delay > 1.2 * 128]
    assert all(256 <= delay <= 300 for delay in later)
    assert sum(counts) + len(later) == len(delays)
    assert max(counts) <= workers
    assert counts == sorted(counts, reverse=True)
    return counts


def cut_and_back(door: Door, working: Working) -> None:
    """Cut what goes through the door, and wait until they listen again."""
    before = door.count
    door.cut()
    eventually(lambda: door.count > before and working.runtime.listening == len(working.runtime.workers))


# Lost connections


def test_broker_killed_and_restarted_under_four_workers(tmp_path: Path) -> None:
    """Issue 6, 3: every message is handled at least once, none is lost, and retries are spaced as specified."""
    bodies = [str(number).encode() for number in range(3000)]
    seen: set[bytes] = set()
    half = threading.Event()

    def plain(message: Message) -> None:
        seen.add(message.body)
        if len(seen) > 500:
            half.set()
        time.sleep(0.0005)

    async def coroutine(message: Message) -> None:
        seen.add(message.body)
        await asyncio.sleep(0.001)

    names: Any = {"acknowledge_policy": "OnlyOnSuccessHandling", "worker_thread_count": 2, "prefetch_count": 20}
    exchanges = [one(handler, **names)[0] for handler in (plain, coroutine)]
    delays = Delays(0.05)
    with killed_in_the_end(Process(tmp_path)) as broker:
        place = Place(broker.port)
        with Working(place.url, *exchanges, attempts=0, wait=delays) as working:
            for number, exchange in enumerate(exchanges):
                place.publish(exchange.name, "k", *bodies[number::2], persistent=True)
            assert half.wait(60)
            broker.kill()
            with Process(tmp_path, "--port", str(place.port)):
                eventually(lambda: seen == set(bodies), 60)
                eventually(lambda: working.runtime.listening == 4)
                eventually(lambda: working.runtime.in_flight == 0)
                assert working.runtime.counters.disconnects >= 4
                assert working.runtime.counters.handled >= len(bodies)
                working.stop()
                assert all(place.ready(exchange.queue_of(exchange.subscriptions[0])) == 0 for exchange in exchanges)
        assert spaced(delays.asked, 4)[0] == 4


@contextmanager
def killed_in_the_end(broker: Process) -> Iterator[Process]:
    try:
        yield broker.__enter__()
    finally:
        broker.kill()


@pytest.mark.parametrize("attempts", [1, 3, 5])
def test_no_broker_is_given_up_in_the_end(attempts: int) -> None:
    """SPEC §10: after 5 failures in a row, a setting, the thread ends; nothing is left then."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    delays = Delays(0)
    exchanges = [one(print, worker_thread_count=2)[0], one(print)[0]]
    with (
        Log() as log,
        Working(f"amqp://127.0.0.1:{port}", *exchanges, ready=False, attempts=attempts, wait=delays) as working,
    ):
        working.join()
    assert working.told is False
    assert spaced(delays.asked, 3)[:5] == [3] * (attempts - 1) + [0] * (6 - attempts)
    assert working.runtime.counters.disconnects == 3 * attempts
    assert log.says(f"that was failure {attempts} in a row, this worker ends")


def test_longer_listening_is_no_failure(place: Place) -> None:
    """SPEC §10: MinListenTime. What ends later is begun anew at once, however often."""
    calls = Calls()
    exchange, _ = one(calls, min_listen_time=1)
    delays = Delays()
    with Door(place.port) as door, Working(f"amqp://127.0.0.1:{door.port}", exchange, attempts=1, wait=delays) as working:
        for _ in range(7):
            time.sleep(0.01)
            cut_and_back(door, working)
        place.publish(exchange.name, "k", b"")
        calls.wait(1)
        assert delays.asked == []


def test_short_listening_is_a_failure(place: Place) -> None:
    exchange, _ = one(print, min_listen_time=60_000)
    delays = Delays()
    with Door(place.port) as door, Working(f"amqp://127.0.0.1:{door.port}", exchange, attempts=3, wait=delays) as working:
        for _ in range(2):
            cut_and_back(door, working)
        door.shut()
        working.join()
    assert working.told is False
    assert spaced(delays.asked, 1)[:3] == [1, 1, 0]


def test_what_is_said_of_an_old_message_never_reaches_the_new_connection(place: Place) -> None:
    """Its tag would be another message's there: the one that came first after the cut would be acknowledged."""
    cut = threading.Event()

    def handle(message: Message) -> None:
        if message.body == b"old":
            assert cut.wait(60)
        else:
            raise ValueError("it must stay unacknowledged")

    calls = Calls(handle)
    exchange, queue = one(calls, acknowledge_policy="OnlyOnSuccessHandling", prefetch_count=5)
    with Door(place.port) as door, Working(f"amqp://127.0.0.1:{door.port}", exchange, wait=at_once, attempts=0) as working:
        place.publish(exchange.name, "k", b"old")
        calls.wait(1)
        door.shut()
        eventually(lambda: place.ready(queue) == 1)
        assert len(place.take(queue)) == 1
        place.publish(exchange.name, "k", b"new")
        door.open()
        eventually(lambda: working.runtime.listening and place.ready(queue) == 0)
        cut.set()
        calls.wait(2)
        eventually(lambda: working.runtime.counters.failed == 1)
        assert (calls.bodies, [message.redelivered for message in calls.messages]) == ([b"old", b"new"], [False, False])
    assert [body for _, _, body in place.take(queue)] == [b"new"]


def test_messages_of_a_cut_connection_do_not_pile_up(place: Place) -> None:
    """While one handler is stuck, each new connection brings the same messages again."""
    stuck = threading.Event()
    exchange, _ = one(lambda message: stuck.wait(20), min_listen_time=1)
    with Door(place.port) as door, Working(f"amqp://127.0.0.1:{door.port}", exchange, wait=at_once, attempts=0) as working:
        place.publish(exchange.name, "k", *[b""] * 100)
        waiting: Any = working.runtime.workers[0]._thread
        for _ in range(4):
            eventually(lambda: waiting._waiting.qsize() >= 99)
            cut_and_back(door, working)
        eventually(lambda: waiting._waiting.qsize() == 100)
        time.sleep(0.1)
        assert waiting._waiting.qsize() == 100
        stuck.set()


def test_queue_and_exchange_that_were_deleted_are_declared_again(place: Place) -> None:
    """The consumer is cancelled by the broker."""
    calls = Calls()
    exchange, queue = one(calls)
    with Log() as log, Working(place.url, exchange, wait=at_once) as working:
        with place.channel() as channel:
            channel.exchange_delete(exchange.name)
            channel.queue_delete(queue)
        eventually(lambda: log.says("the consumer was cancelled"))
        eventually(lambda: working.runtime.listening)
        place.publish(exchange.name, "k", b"x")
        calls.wait(1)
        assert working.runtime.counters.disconnects == 1


def test_fault_in_a_callback_is_a_lost_connection(place: Place) -> None:
    calls = Calls()
    exchange, _ = one(calls)
    with Working(place.url, exchange, wait=at_once) as working:
        thread: Any = working.runtime.workers[0]._thread
        submit, broken = thread.submit, [True]

        def once(*work: Any) -> None:
            if broken.pop():
                raise RuntimeError("broken")

        def sometimes(*work: Any) -> None:
            (once if broken else submit)(*work)

        thread.submit = sometimes
        place.publish(exchange.name, "k", b"x")
        calls.wait(1)
        assert calls.messages[0].redelivered
        assert working.runtime.counters.disconnects == 1


# What waiting cannot mend


def test_declaration_that_differs_ends_the_worker(place: Place) -> None:
    exchange, queue = one(print)
    with place.channel() as channel:
        channel.exchange_declare(exchange.name, "fanout", durable=True)
    with Log() as log, Working(place.url, exchange, ready=False, wait=for_ever) as working:
        working.join()
    assert working.told is False
    assert log.says(f"{queue}/1: 406: PRECONDITION_FAILED")


@pytest.mark.parametrize("url", ["amqp://guest:wrong@127.0.0.1:{}", "amqp://127.0.0.1:{}/nowhere"])
def test_login_that_is_refused_ends_the_worker(place: Place, url: str) -> None:
    with Working(url.format(place.port), one(print)[0], ready=False, wait=for_ever) as working:
        working.join()
    assert working.told is False


# Peers that no broker is


def talking(talk: Callable[[Peer], Any], work: Callable[[Uri], Any]) -> Any:
    """Have a peer, and do something with it; both on one loop."""

    async def main() -> Any:
        async with asyncio.timeout(PATIENCE), peer(talk) as uri:
            return await work(uri)

    return asyncio.run(main())


async def serve(peer: Peer) -> None:
    """Everything up to the consumer, as a broker does it."""
    await peer.welcome()
    await peer.expect(spec.ExchangeDeclare)
    peer.send(1, spec.ExchangeDeclareOk())
    await peer.expect(spec.QueueDeclare)
    peer.send(1, spec.QueueDeclareOk("q", 0, 0))
    await peer.expect(spec.QueueBind)
    peer.send(1, spec.QueueBindOk())
    await peer.expect(spec.BasicConsume)
    peer.send(1, spec.BasicConsumeOk("tag"))


def url_of(uri: Uri, query: str = "") -> str:
    return f"amqp://127.0.0.1:{uri.port}{query}"


async def running(runtime: Runtime, until: Callable[[], object]) -> "asyncio.Task[bool]":
    task = asyncio.ensure_future(runtime.run())
    async with asyncio.timeout(60):
        while not until():
            await asyncio.sleep(0.005)
    return task


def test_message_kept_for_too_long_ends_a_connection_and_not_the_worker() -> None:
    """The broker's acknowledgement timeout is a 406; the same code ends a worker only before it has listened."""
    consumers = []

    async def talk(peer: Peer) -> None:
        await serve(peer)
        consumers.append(peer)
        if len(consumers) < 3:
            peer.send(
                1, spec.ChannelClose(406, "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out", 0, 0)
            )
        await asyncio.sleep(HOUR_S)

    async def work(uri: Uri) -> None:
        runtime = Runtime(url_of(uri), [one(print)[0]], wait=at_once, grace_s=0.1)
        task = await running(runtime, lambda: len(consumers) == 3 and runtime.listening)
        runtime.stop()
        assert await task is True

    talking(talk, work)


@pytest.mark.parametrize("stage", ["connect", "declare", "cancel"])
def test_stop_does_not_wait_for_a_silent_peer(stage: str) -> None:
    reached = asyncio.Event()

    async def talk(peer: Peer) -> None:
        if stage == "declare":
            await peer.welcome()
        elif stage == "cancel":
            await serve(peer)
        reached.set()
        await asyncio.sleep(HOUR_S)

    async def work(uri: Uri) -> None:
        runtime = Runtime(url_of(uri, "?heartbeat=0"), [one(print)[0]], grace_s=0.3)
        task = await running(runtime, reached.is_set)
        if stage == "cancel":
            await running_until(lambda: runtime.listening)
        runtime.stop()
        assert await task is True

    talking(talk, work)


async def running_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def test_broker_that_is_silent_while_things_are_declared_is_a_lost_connection() -> None:
    async def talk(peer: Peer) -> None:
        await peer.welcome()
        await asyncio.sleep(HOUR_S)

    async def work(uri: Uri) -> bool:
        url = url_of(uri, "?heartbeat=0&connection_timeout=200")
        return await Runtime(url, [one(print)[0]], attempts=1, wait=at_once).run()

    with Log() as log:
        assert talking(talk, work) is False
    assert log.says("no answer in 0.2 s")


def test_stop_before_it_runs_and_while_it_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    async def work() -> None:
        runtime = Runtime(f"amqp://127.0.0.1:{port}", [one(print)[0]])
        runtime.stop()
        assert await runtime.run() is True
        runtime = Runtime(f"amqp://127.0.0.1:{port}", [one(print)[0]], wait=for_ever)
        task = await running(runtime, lambda: runtime.counters.disconnects)
        runtime.stop()
        assert await task is True

    asyncio.run(work())


def test_cancelled_runtime_leaves_nothing_behind(place: Place) -> None:
    calls = Calls()
    exchange, queue = one(calls)

    async def work() -> None:
        runtime = Runtime(place.url, [exchange])
        task = await running(runtime, lambda: runtime.listening)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(work())
    # A thread that has ended its work may be there for a moment.
    eventually(lambda: not any(queue in thread.name for thread in threading.enumerate()))


def delivered(number: int, body: bytes, properties: bytes) -> bytes:
    out = bytearray()
    write_method(out, 1, spec.BasicDeliver("tag", number, False, "x", "k"))
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + properties
    out += frame_head(2, 1, len(header)) + header + END
    return bytes(out)


def test_answers_do_not_pile_up_for_a_broker_that_does_not_read() -> None:
    """Reading stops while the socket takes no more, and goes on when it does."""
    count = 4000
    reads = asyncio.Event()
    calls = Calls(lambda message: message.reply(bytes(16_384)))
    octets = encode_properties(Properties(reply_to="r"))

    async def talk(peer: Peer) -> None:
        await serve(peer)
        for number in range(1, count + 1):
            peer.writer.write(delivered(number, b"", octets))
            await peer.writer.drain()
            if number % 100 == 0:
                await asyncio.sleep(0)
        await reads.wait()
        while await peer.reader.read(1 << 20):
            pass

    async def work(uri: Uri) -> int:
        runtime = Runtime(url_of(uri, "?heartbeat=0"), [one(calls)[0]], grace_s=0.2)
        task = await running(runtime, lambda: len(calls.messages) > 100)
        before = -1
        while before != len(calls.messages):
            before = len(calls.messages)
            await asyncio.sleep(0.4)
        reads.set()
        await running_until(lambda: len(calls.messages) == count)
        runtime.stop()
        assert await task is True
        return before

    assert talking(talk, work) < count - 1000


# Prefetch


def test_no_prefetch_reads_a_thousand_ahead(place: Place) -> None:
    """SPEC §10: 0 = no limit (the runtime reads at most 1,000 ahead), however many come with one read of the socket."""
    free = threading.Event()
    calls = Calls(lambda message: free.wait(20))
    exchange, queue = one(calls)
    with Working(place.url, exchange):
        """Its queue is there now."""
    with place.channel() as channel:
        for _ in range(20_000):
            channel.basic_publish(exchange.name, "k", b"")
    with Working(place.url, exchange) as working:
        thread: Any = working.runtime.workers[0]._thread
        # One of them may be with the handler by the time the thousandth comes.
        eventually(lambda: thread._waiting.qsize() >= READ_AHEAD_MAX - 1)
        time.sleep(0.2)
        assert thread._waiting.qsize() <= READ_AHEAD_MAX
        free.set()
        eventually(lambda: working.runtime.counters.handled == 20_000, 60)
    assert place.ready(queue) == 0


def test_no_prefetch_runs_at_most_a_thousand_coroutines(place: Place) -> None:
    now, most, free = [0], [0], threading.Event()

    async def handle(message: Message) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        while not free.is_set():
            await asyncio.sleep(0.05)
        now[0] -= 1

    exchange, queue = one(handle)
    with Working(place.url, exchange) as working:
        with place.channel() as channel:
            for _ in range(5000):
                channel.basic_publish(exchange.name, "k", b"")
        eventually(lambda: now[0] == READ_AHEAD_MAX)
        time.sleep(0.2)
        assert now[0] == READ_AHEAD_MAX
        free.set()
        eventually(lambda: working.runtime.counters.handled == 5000, 60)
    assert most[0] == READ_AHEAD_MAX
    assert place.ready(queue) == 0


def test_prefetch_count_is_what_the_broker_gives(place: Place) -> None:
    free = threading.Event()
    calls = Calls(lambda message: free.wait(20))
    exchange, queue = one(calls, prefetch_count=3)
    with Working(place.url, exchange):
        place.publish(exchange.name, "k", *[b""] * 10)
        eventually(lambda: place.ready(queue) == 7)
        free.set()
        calls.wait(10)


def test_prefetch_size_is_honoured_here(place: Place) -> None:
    free = threading.Event()
    calls = Calls(lambda message: free.wait(20))
    exchange, queue = one(calls, prefetch_size=100)
    with Working(place.url, exchange):
        place.publish(exchange.name, "k", *[bytes(40)] * 10)
        calls.wait(1)
        eventually(lambda: place.ready(queue) == 8)
        free.set()
        calls.wait(10)


def test_prefetch_size_that_is_refused_is_done_without(rabbitmq_place: Place) -> None:
    """SPEC §10, issue 6: RabbitMQ answers 540; say so and go on with the count."""
    free = threading.Event()
    calls = Calls(lambda message: free.wait(20))
    exchange, queue = one(calls, prefetch_size=100, prefetch_count=2)
    with Log() as log, Working(rabbitmq_place.url, exchange, wait=for_ever) as working:
        assert log.says("this broker does not support prefetch-size; using only the count")
        rabbitmq_place.publish(exchange.name, "k", *[bytes(60)] * 6)
        eventually(lambda: rabbitmq_place.ready(queue) == 4)
        free.set()
        calls.wait(6)
        assert working.runtime.counters.disconnects == 0


@pytest.mark.parametrize("prefetch", [{"prefetch_count": 3}, {"prefetch_size": 30}])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_unacknowledged_messages_that_fill_the_prefetch_are_warned_of(
    place: Place, kind: str, prefetch: dict[str, int]
) -> None:
    """SPEC §10: counted, logged, and warned of; they come again when the connection has ended."""

    def plain(message: Message) -> None:
        if not message.redelivered:
            raise ValueError("no")

    async def coroutine(message: Message) -> None:
        plain(message)

    fields: Any = {"acknowledge_policy": "OnlyOnSuccessHandling", "min_listen_time": 1, **prefetch}
    exchange, queue = one(plain if kind == "function" else coroutine, **fields)
    warning = "3 messages of 30 bytes have failed and stay unacknowledged, which is all that the prefetch allows"
    with Log() as log, Door(place.port) as door, Working(f"amqp://127.0.0.1:{door.port}", exchange, wait=at_once) as working:
        place.publish(exchange.name, "k", *[bytes(10)] * 2)
        eventually(lambda: working.runtime.counters.unacknowledged == 2)
        assert not log.says(warning)
        place.publish(exchange.name, "k", *[bytes(10)] * 3)
        eventually(lambda: log.says(warning))
        assert working.runtime.counters.unacknowledged == 3
        assert place.ready(queue) == 2
        cut_and_back(door, working)
        eventually(lambda: working.runtime.counters.handled == 3)
        eventually(lambda: working.runtime.counters.failed == 5)
        assert sum(warning in line for line in log.lines) == 1


# What the broker is told of us


def test_consumer_id_is_the_consumer_tag(tmp_path: Path) -> None:
    calls = Calls()
    exchange, queue = one(calls, consumer_id="it-is-me", worker_thread_count=2)
    with Process(tmp_path) as broker, Working(Place(broker.port).url, exchange):
        request = urllib.request.Request(f"http://127.0.0.1:{broker.http_port}/api/consumers")
        request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
        found = json.load(urllib.request.urlopen(request, timeout=60))
        assert [(row["consumer_tag"], row["queue"]["name"]) for row in found] == [("it-is-me", queue)] * 2
        assert len({row["channel_details"]["connection_name"] for row in found}) == 2
        Place(broker.port).publish(exchange.name, "k", b"")
        calls.wait(1)
        assert calls.messages[0].consumer_id == "it-is-me"


@pytest.mark.parametrize(
    ("kind", "fields", "matching", "others"),
    [
        ("Direct", {"routing_key": "a.b"}, [("a.b", {})], [("a", {}), ("a.b.c", {})]),
        ("Topic", {"routing_key": "a.*"}, [("a.b", {}), ("a.c", {})], [("a", {}), ("a.b.c", {})]),
        ("Fanout", {}, [("a", {}), ("", {})], []),
        ("Headers", {"routing_headers": {"x": 1, "y": "z"}}, [("", {"x": 1, "y": "z"})], [("", {"x": 1}), ("", {})]),
        (
            "Headers",
            {"routing_headers": {"x-match": "any", "Headers": {"x": 1, "y": "z"}}},
            [("", {"x": 1}), ("", {"y": "z"})],
            [("", {"x": 2})],
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_routing(place: Place, kind: str, fields: dict[str, Any], matching: list[Any], others: list[Any]) -> None:
    calls = Calls()
    exchange, _ = one(calls, type=kind, **fields)
    with Working(place.url, exchange), place.channel() as channel:
        for key, headers in random.sample(matching + others, len(matching + others)):
            channel.basic_publish(exchange.name, key, b"", pika.BasicProperties(headers=headers))
        calls.wait(len(matching))
        time.sleep(0.05)
        assert sorted(map(str, ((one.routing_key, one.headers) for one in calls.messages))) == sorted(map(str, matching))


def test_exchange_of_the_brokers_own(place: Place) -> None:
    calls = Calls()
    subscription = Subscription(name="s", queue=fresh("q"), routing_key="key_of_mine", handler=calls)
    with Working(place.url, Exchange("amq.topic", "Topic", subscriptions=[subscription])):
        place.publish("amq.topic", "key_of_mine", b"x")
        calls.wait(1)


# Stopping


def test_stop_finishes_what_is_in_hand_and_gives_the_rest_back(place: Place) -> None:
    free = threading.Event()
    calls = Calls(lambda message: free.wait(20))
    exchange, queue = one(calls)
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", *[str(number).encode() for number in range(20)])
        calls.wait(1)
        eventually(lambda: place.ready(queue) == 0)
        working.tell()
        eventually(lambda: not working.runtime.listening)
        place.publish(exchange.name, "k", b"20")
        assert place.ready(queue) == 1
        free.set()
        working.join()
        assert working.told is True
        assert working.runtime.finished
        assert (working.runtime.counters.handled, working.runtime.in_flight) == (1, 0)
    assert [int(body) for _, _, body in place.take(queue)] == list(range(1, 21))


def test_stop_finishes_coroutines(place: Place) -> None:
    free, begun = threading.Event(), []

    async def handle(message: Message) -> None:
        begun.append(message.body)
        while not free.is_set():
            await asyncio.sleep(0.01)

    exchange, queue = one(handle, prefetch_count=4)
    with Working(place.url, exchange) as working:
        place.publish(exchange.name, "k", *[str(number).encode() for number in range(10)])
        eventually(lambda: len(begun) == 4)
        working.tell()
        eventually(lambda: not working.runtime.listening)
        free.set()
        working.join()
    assert working.runtime.counters.handled == 4
    assert [int(body) for _, _, body in place.take(queue)] == list(range(4, 10))


@contextmanager
def outlasting(place: Place, handler: Any, begun: Callable[[], object], **fields: Any) -> Iterator[str]:
    """A handler that takes longer than it is given; the block runs when all is over. Gives its queue."""
    exchange, queue = one(handler, **fields)
    with Log() as log, Working(place.url, exchange, grace_s=0.2) as working:
        place.publish(exchange.name, "k", b"a", b"b")
        eventually(begun)
        working.stop()
        assert working.told is True
        assert not working.runtime.finished
        assert log.says("a handler was still running after 0.2 s; its message is requeued")
        assert next((body, method.redelivered) for method, _, body in place.take(queue)) == (b"a", True)
    yield queue


def test_function_that_outlasts_the_grace(place: Place) -> None:
    free, done = threading.Event(), threading.Event()

    def handle(message: Message) -> None:
        calls.append(message.body)
        free.wait(20)
        done.set()

    calls: list[bytes] = []
    with outlasting(place, handle, lambda: calls) as queue:
        free.set()
        assert done.wait(60)
        eventually(lambda: not any(queue in thread.name for thread in threading.enumerate()))
        assert calls == [b"a"]


@pytest.mark.parametrize("stubborn", [False, True])
def test_coroutine_that_outlasts_the_grace_is_cancelled(place: Place, stubborn: bool) -> None:
    """And if it takes that for success, its message is given back nevertheless."""
    begun, ended = [], []

    async def handle(message: Message) -> None:
        begun.append(message.body)
        try:
            await asyncio.sleep(HOUR_S)
        except asyncio.CancelledError:
            ended.append(message.body)
            if not stubborn:
                raise

    with outlasting(place, handle, lambda: len(begun) == 2) as queue:
        eventually(lambda: sorted(ended) == [b"a", b"b"])
        eventually(lambda: not any(queue in thread.name for thread in threading.enumerate()))


def test_command_that_outlasts_the_grace_is_ended(place: Place, tmp_path: Path) -> None:
    """It would work on a message that another has by then."""
    pid = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 30"]
    with outlasting(place, command, pid.exists, acknowledge_policy="AlwaysAfterHandling"):
        number = int(pid.read_text())
        eventually(lambda: subprocess.run(["kill", "-0", str(number)], capture_output=True, check=False).returncode)


def test_library_imports_no_more_than_it_needs() -> None:
    """The library is imported without what only the command or the broker needs."""
    code = (
        "import sys, leveret.work; print([name for name in ('aiohttp', 'yaml', 'click', 'uvloop') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
