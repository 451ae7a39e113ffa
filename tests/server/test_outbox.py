"""Turns: however much one client has to be done for it, the others are served in between."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.properties.dialogue import HANDSHAKE, method, publish
from tests.server.support import Client, InProcess, Process, eventually

from leveret.broker.broker import default_broker
from leveret.protocol.connection import Connection
from leveret.protocol.peer import Peer
from leveret.server import rate_limit
from leveret.server.config import Config
from leveret.server.node import Node
from leveret.store import committer
from leveret.store.committer import Committer, Job
from leveret.store.journal import BatchToWrite
from leveret.wire import spec
from leveret.wire.properties import Properties

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


class Commits:
    """How many batches went to the committer's thread, and how many were written in the loop's own turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.put = self.done_now = 0
        put, carry_out_now = Committer.put, Committer.carry_out_now

        def counted_put(committer: Committer, job: Job) -> None:
            self.put += isinstance(job.subject, BatchToWrite) and job.sync
            put(committer, job)

        def counted_now(committer: Committer, job: Job) -> None:
            self.done_now += 1
            carry_out_now(committer, job)

        monkeypatch.setattr(Committer, "put", counted_put)
        monkeypatch.setattr(Committer, "carry_out_now", counted_now)
        # However busy the machine's disk is.
        monkeypatch.setattr(committer, "QUICK_S", 60.0)


@pytest.fixture
def on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[InProcess, Commits]]:
    commits = Commits(monkeypatch)
    with InProcess(Config(port=0, data_dir=str(tmp_path))) as node:
        yield node, commits


def publish_confirmed(client: Client, queue: str = "q") -> None:
    client.send(*publish(1, queue, b"x", Properties(delivery_mode=2)))
    assert client.expect(spec.BasicAck)


def test_publisher_that_is_alone_has_its_messages_written_in_the_loops_turn(on_disk: tuple[InProcess, Commits]) -> None:
    """SPEC §8.2: once the disk has shown that it is quick, and each in one turn with its confirm."""
    node, commits = on_disk
    with node.login() as client:
        client.declare("q", durable=True)
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        while not commits.done_now:
            publish_confirmed(client)
        commits.put = commits.done_now = 0
        turns = count_turns(node)
        for _ in range(50):
            publish_confirmed(client)
        assert (commits.put, commits.done_now) == (0, 50)
        # Some other one may have come in between; with the thread each message takes two.
        assert turns() < 75


def count_turns(node: InProcess) -> Callable[[], int]:
    """How many turns have ended since."""
    heap = node.node._heap
    assert heap is not None
    counted = [0]
    used = heap.used

    def count() -> None:
        counted[0] += 1
        used()

    heap.used = count  # type: ignore[method-assign]
    return lambda: counted[0]


def test_publisher_that_is_not_alone_has_its_messages_written_beside_the_loop(
    on_disk: tuple[InProcess, Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC §8.2: nobody is stopped by a sync that somebody else waits for."""
    node, commits = on_disk
    with node.login() as client, node.login() as other:
        client.declare("q", durable=True)
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        while not commits.done_now:
            publish_confirmed(client)
        # However slow the machine is, the other one counts as active from its next word on.
        monkeypatch.setattr(rate_limit, "ACTIVE_S", 60.0)
        other.declare("q", passive=True)
        commits.put = commits.done_now = 0
        for _ in range(30):
            publish_confirmed(client)
        assert (commits.put, commits.done_now) == (30, 0)


def test_acknowledgements_are_written_beside_the_loop(on_disk: tuple[InProcess, Commits]) -> None:
    """SPEC §8.2: nobody waits for them."""
    node, commits = on_disk
    with node.login() as client:
        client.declare("q", durable=True)
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        while commits.done_now < 20:
            publish_confirmed(client)
        client.call(spec.BasicQos(prefetch_count=1), spec.BasicQosOk)
        commits.done_now = 0
        client.call(spec.BasicConsume("q", "c"), spec.BasicConsumeOk)
        for number in range(20):
            assert client.delivery() == b"x"
            client.send(method(1, spec.BasicAck(number + 1)))
        assert client.delivery() == b"x"
        assert commits.done_now == 0


def test_definitions_that_one_client_sends_in_a_row_share_their_syncs(on_disk: tuple[InProcess, Commits]) -> None:
    """SPEC §8.1: as many as one turn takes are one batch, and those that come while it is written another one."""
    node, commits = on_disk
    names = [f"q{number}" for number in range(300)]
    with node.login() as client:
        for requests, answer in (
            ([spec.QueueDeclare(name, durable=True) for name in names], spec.QueueDeclareOk),
            ([spec.QueueBind(name, "amq.direct", name) for name in names], spec.QueueBindOk),
            ([spec.QueueDelete(name) for name in names], spec.QueueDeleteOk),
        ):
            commits.put = 0
            client.send(*[method(1, request) for request in requests])
            for _ in names:
                client.expect(answer)
            assert commits.put <= 12


def test_transaction_of_a_client_that_is_alone_is_written_in_the_loops_turn(on_disk: tuple[InProcess, Commits]) -> None:
    """SPEC §8.2: it waits for its commit-ok as others do for a confirm."""
    node, commits = on_disk
    with node.login() as client:
        client.declare("q", durable=True)
        client.call(spec.TxSelect(), spec.TxSelectOk)
        for _ in range(10):
            commits.put = commits.done_now = 0
            while not commits.done_now:
                client.send(*publish(1, "q", b"x", Properties(delivery_mode=2)), method(1, spec.TxCommit()))
                client.expect(spec.TxCommitOk)
        assert commits.put == 0
