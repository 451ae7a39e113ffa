"""Turns: however much one client has to be done for it, the others are served in between."""

import asyncio
import threading
import time

import pytest
from tests.properties.dialogue import HANDSHAKE, method, publish
from tests.server.support import InProcess, Process, eventually

from leveret.broker.broker import default_broker
from leveret.protocol.connection import Connection
from leveret.protocol.peer import Peer
from leveret.server.node import Node
from leveret.wire import spec

# What one turn may take of the broker's processor time, all its threads; who had to wait for all of it would for seconds.
SOON = 0.15


def test_masses_make_nobody_wait(broker: Process) -> None:
    """Requeueing, acknowledging, purging and deleting a hundred thousand messages and more."""
    with broker.login() as worker, broker.login() as other:
        other.declare("ping")
        worker.declare("mass")
        worker.publish_many("mass", [b"x" * 10] * 100_000)
        worker.open(2)

        worker.call(spec.BasicConsume("mass", "c"), spec.BasicConsumeOk, 2)
        worker.skip_deliveries(100_000)
        worker.send(method(2, spec.ChannelClose(200, "give all back")))
        assert other.longest_ping(0.5) < SOON
        worker.expect(spec.ChannelCloseOk)
        assert worker.declare("mass") == 100_000

        worker.open(2)
        worker.call(spec.BasicConsume("mass", "c"), spec.BasicConsumeOk, 2)
        worker.skip_deliveries(100_000)
        worker.send(method(2, spec.BasicAck(100_000, multiple=True)))
        assert other.longest_ping(0.3) < SOON
        assert worker.declare("mass") == 0

        worker.call(spec.BasicCancel("c"), spec.BasicCancelOk, 2)
        worker.publish_many("mass", [b"x" * 10] * 200_000)
        worker.send(method(1, spec.QueuePurge("mass")))
        assert other.longest_ping(0.3) < SOON
        assert worker.expect(spec.QueuePurgeOk).message_count == 200_000


def test_lost_connection_with_masses_makes_nobody_wait(broker: Process) -> None:
    with broker.login() as other:
        other.declare("ping")
        worker = broker.login()
        worker.declare("mine", exclusive=True)
        worker.declare("ours")
        worker.publish_many("mine", [b"x" * 10] * 100_000)
        worker.publish_many("ours", [b"x" * 10] * 100_000)
        worker.call(spec.BasicConsume("ours", "c"), spec.BasicConsumeOk)
        worker.skip_deliveries(100_000)
        worker.socket.close()
        assert other.longest_ping(0.5) < SOON
        eventually(lambda: other.declare("ours") == 100_000)


def test_two_publishers_both_progress(broker: Process) -> None:
    """Both send as fast as they can until one has sent a million; neither gets much less taken than the other."""
    burst = b"".join(frame.encode() for frame in publish(1, "nowhere", b"x" * 100)) * 1000
    taken = {"first": 0, "second": 0}
    barrier = threading.Barrier(2)

    def run(name: str) -> None:
        with broker.login() as publisher:
            barrier.wait()
            while max(taken.values()) < 1000:
                publisher.socket.sendall(burst)
                taken[name] += 1

    threads = [threading.Thread(target=run, args=(name,)) for name in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(taken.values()) > max(taken.values()) / 3, taken


def test_one_read_is_handled_in_turns() -> None:
    """A burst of ten thousand messages in one read leaves off after a budget, and another client is served between."""
    broker = default_broker()
    greedy, other = (Connection(broker, Peer(name, "127.0.0.1"), lambda: None, 0) for name in ("greedy", "other"))
    for connection in (greedy, other):
        connection.receive(HANDSHAKE + method(1, spec.ChannelOpen()).encode(), 1)
    greedy.receive(method(1, spec.QueueDeclare("greedy")).encode(), 1)
    other.receive(method(1, spec.QueueDeclare("other")).encode(), 1)
    burst = b"".join(frame.encode() for frame in publish(1, "greedy", b"x"))
    one = b"".join(frame.encode() for frame in publish(1, "other", b"x"))
    queues = broker.vhosts["/"].queues
    greedy.receive(burst * 10_000, 1)
    taken = [queues["greedy"].ready_count]
    while greedy.busy:
        other.receive(one, 1)
        assert queues["other"].ready_count == len(taken)
        greedy.go_on(1)
        taken.append(queues["greedy"].ready_count)
    # To look up the route has cost something, too.
    assert taken == [1998, 3998, 5998, 7998, 9998, 10_000]


def test_giving_back_takes_no_longer_with_every_piece() -> None:
    """Twice as many messages take about twice the time: sorting all of them again for each piece took four times."""
    small, large = (min(seconds_to_give_back(count) for _ in range(3)) for count in (40_000, 160_000))
    assert large < 10 * small


def seconds_to_give_back(count: int) -> float:
    """How long it takes to close a channel with so many messages unacknowledged."""
    broker = default_broker()
    connection = Connection(broker, Peer("client", "127.0.0.1"), lambda: None, 0)
    connection.receive(HANDSHAKE + method(1, spec.ChannelOpen()).encode(), 1)
    connection.receive(method(1, spec.QueueDeclare("q")).encode() + method(1, spec.BasicConsume("q", "t")).encode(), 1)
    burst = b"".join(frame.encode() for frame in publish(1, "q", b"x")) * 1000
    queue = broker.vhosts["/"].queues["q"]
    while queue.unacked_count < count:
        connection.receive(burst, 1)
        while connection.busy:
            connection.go_on(1)
        connection.take_output(1)
        connection.drained(1)
    start = time.thread_time()
    connection.receive(method(1, spec.ChannelClose()).encode(), 1)
    while connection.busy:
        connection.go_on(1)
    assert (queue.ready_count, queue.unacked_count) == (count, 0)
    return time.thread_time() - start


def test_time_of_a_turn_is_short_under_load(broker: Process) -> None:
    """A publisher at full speed does not make a question wait."""
    with broker.login() as publisher, broker.login() as other:
        other.declare("ping")
        publisher.declare("load", exclusive=True)
        data = b"".join(frame.encode() for frame in publish(1, "load", b"x" * 100)) * 200_000
        sender = threading.Thread(target=publisher.socket.sendall, args=(data,))
        sender.start()
        longest = 0.0
        start = time.monotonic()
        while sender.is_alive() and time.monotonic() - start < 10:
            longest = max(longest, other.ping())
        sender.join()
        assert longest < SOON


# From outside of any connection


def on_loop(running: InProcess, coroutine: object) -> object:
    return asyncio.run_coroutine_threadsafe(coroutine, running._loop).result(60)  # type: ignore[arg-type]


def test_what_is_waited_for_is_looked_at_when_a_turn_ends() -> None:
    """SPEC §9.4: what is paged out, or being dropped, is waited for without asking again and again."""
    ready: list[bool] = []

    async def wait(node: Node) -> str:
        asyncio.get_running_loop().call_later(0.01, node.do, lambda: ready.append(True))
        await node.until(lambda: bool(ready))
        await node.until(lambda: bool(ready))
        return "done"

    with InProcess() as running:
        assert on_loop(running, wait(running.node)) == "done"


def test_condition_that_fails_is_told_to_whoever_waits() -> None:
    """SPEC §9.4: and the turn goes on."""
    asked: list[int] = []

    def condition() -> bool:
        asked.append(1)
        if len(asked) > 1:
            raise KeyError("gone")
        return False

    async def wait(node: Node) -> None:
        asyncio.get_running_loop().call_later(0.01, node.do, lambda: None)
        await node.until(condition)

    with InProcess() as running, pytest.raises(KeyError):
        on_loop(running, wait(running.node))


def test_whoever_waits_hears_that_storage_has_failed() -> None:
    """SPEC §8.7: nobody waits for ever."""

    async def wait(node: Node) -> None:
        asyncio.get_running_loop().call_later(0.01, node._on_storage_failed, OSError("no disk"))
        await node.until(lambda: False)

    with InProcess() as running, pytest.raises(OSError, match="no disk"):
        on_loop(running, wait(running.node))
