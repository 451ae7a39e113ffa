"""What a client is told, and when: confirms and answers wait for the disk, deliveries and other clients do not."""

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.properties.dialogue import method, publish
from tests.server.support import PATIENCE, Client, InProcess, eventually

from leveret.server.config import Config
from leveret.store.disk import File
from leveret.wire import spec
from leveret.wire.properties import Properties

PERSISTENT = Properties(delivery_mode=2)
SHORT_S = 0.2
PURGED = 60_000


class Held:
    """A node whose syncs wait until they are let through."""

    def __init__(self, node: InProcess, gate: threading.Event) -> None:
        self.node = node
        self.gate = gate

    def login(self) -> Client:
        return self.node.login()


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Held]:
    """A node whose syncs can be held, with durable queues q and old and an exchange old; `gate` is open at first."""
    gate = threading.Event()
    gate.set()
    sync = File.sync

    def wait(file: File) -> None:
        assert gate.wait(PATIENCE)
        sync(file)

    monkeypatch.setattr(File, "sync", wait)
    with InProcess(Config(port=0, data_dir=str(tmp_path / "data"), **getattr(request, "param", {}))) as node:
        with node.login() as client:
            client.declare("q", durable=True)
            client.declare("old", durable=True)
            client.call(spec.ExchangeDeclare("old", "fanout", durable=True), spec.ExchangeDeclareOk)
            client.call(spec.QueueBind("q", "old"), spec.QueueBindOk)
            client.call(spec.ExchangeBind("old", "amq.fanout"), spec.ExchangeBindOk)
        yield Held(node, gate)
        gate.set()


def test_confirm_waits_for_the_sync_and_deliveries_do_not(held: Held) -> None:
    """SPEC §8.2: a confirm is sent only after the sync; meanwhile messages are delivered."""
    with held.login() as publisher, held.login() as consumer:
        publisher.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        consumer.call(spec.BasicConsume("q", consumer_tag="c"), spec.BasicConsumeOk)
        held.gate.clear()
        publisher.send(*publish(1, "q", b"one", PERSISTENT))
        assert consumer.delivery() == b"one"
        publisher.send(*publish(1, "q", b"two", PERSISTENT))
        assert consumer.delivery() == b"two"
        assert publisher.silent(SHORT_S)
        held.gate.set()
        ack = publisher.expect(spec.BasicAck)
        while ack.delivery_tag < 2:
            ack = publisher.expect(spec.BasicAck)


@pytest.mark.parametrize("held", [{"deliver": "synced"}], indirect=True)
def test_delivery_waits_for_the_sync_if_that_is_wanted(held: Held) -> None:
    """SPEC §12 deliver: with "synced" no consumer gets a persistent message before it is on disk, and order is kept."""
    with held.login() as publisher, held.login() as consumer:
        consumer.call(spec.BasicConsume("q", consumer_tag="c"), spec.BasicConsumeOk)
        publisher.send(*publish(1, "q", b"at first", PERSISTENT))
        assert consumer.delivery() == b"at first"
        held.gate.clear()
        publisher.send(*publish(1, "q", b"transient, alone"))
        assert consumer.delivery() == b"transient, alone"
        publisher.send(
            *publish(1, "q", b"one", PERSISTENT), *publish(1, "q", b"two"), *publish(1, "q", b"three", PERSISTENT)
        )
        assert consumer.silent(SHORT_S)
        assert publisher.declare("q", passive=True) == 3
        publisher.call(spec.BasicGet("q"), spec.BasicGetEmpty)
        held.gate.set()
        assert [consumer.delivery() for _ in range(3)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("held", [{"deliver": "synced"}], indirect=True)
def test_what_was_delivered_and_given_back_is_not_held_again(held: Held) -> None:
    """SPEC §12 deliver: what comes back is on disk already, whatever stands behind it."""
    with held.login() as publisher, held.login() as consumer:
        publisher.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        publisher.send(*publish(1, "q", b"one", PERSISTENT))
        publisher.expect(spec.BasicAck)
        consumer.call(spec.BasicGet("q"), spec.BasicGetOk)
        consumer.skip_content()
        held.gate.clear()
        publisher.send(*publish(1, "q", b"two", PERSISTENT))
        consumer.send(method(1, spec.BasicNack(1, requeue=True)))
        assert consumer.call(spec.BasicGet("q"), spec.BasicGetOk).redelivered
        consumer.skip_content()
        consumer.call(spec.BasicGet("q"), spec.BasicGetEmpty)
        held.gate.set()


def test_transient_message_is_confirmed_without_the_disk(held: Held) -> None:
    """SPEC §8.2: what need not survive is confirmed at once, unless it stands behind what must."""
    with held.login() as client:
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        held.gate.clear()
        client.send(*publish(1, "q", b"transient"))
        assert client.expect(spec.BasicAck).delivery_tag == 1
        client.send(*publish(1, "q", b"persistent", PERSISTENT), *publish(1, "q", b"transient"))
        assert client.silent(SHORT_S)
        held.gate.set()
        ack = client.expect(spec.BasicAck)
        assert (ack.delivery_tag, ack.multiple) == (3, True)


def test_commit_waits_with_what_follows_it_and_others_go_on(held: Held) -> None:
    """SPEC §8.2: tx.commit-ok comes after the sync, and later frames of that connection wait with it."""
    with held.login() as client, held.login() as other:
        other.declare("ping")
        client.call(spec.TxSelect(), spec.TxSelectOk)
        held.gate.clear()
        client.send(*publish(1, "q", b"x", PERSISTENT), method(1, spec.TxCommit()), method(1, spec.BasicGet("ping")))
        assert client.silent(SHORT_S)
        assert other.ping() < 1
        # It counts already, for whoever is not promised anything.
        assert other.declare("q", passive=True) == 1
        other.send(*publish(1, "ping", b"transient"))
        other.call(spec.BasicGet("ping", no_ack=True), spec.BasicGetOk)
        held.gate.set()
        client.expect(spec.TxCommitOk)
        client.expect(spec.BasicGetEmpty)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (spec.QueueDeclare("new", durable=True), spec.QueueDeclareOk),
        (spec.ExchangeDeclare("x", "fanout", durable=True), spec.ExchangeDeclareOk),
        (spec.QueueBind("q", "amq.direct", "key"), spec.QueueBindOk),
        (spec.QueuePurge("q"), spec.QueuePurgeOk),
        (spec.QueueUnbind("q", "old"), spec.QueueUnbindOk),
        (spec.ExchangeUnbind("old", "amq.fanout"), spec.ExchangeUnbindOk),
        (spec.ExchangeDelete("old"), spec.ExchangeDeleteOk),
        (spec.QueueDelete("old"), spec.QueueDeleteOk),
    ],
)
def test_durable_definition_is_answered_after_the_sync(held: Held, request_: spec.Method, answer: type[spec.Method]) -> None:
    """SPEC §8.2: what was declared durable, or ended, and answered survives; transient declarations do not wait."""
    with held.login() as client, held.login() as other:
        held.gate.clear()
        client.send(method(1, request_), method(1, spec.BasicGet("q")))
        assert client.silent(SHORT_S)
        other.declare("transient")
        other.call(spec.ExchangeDeclare("transient", "fanout"), spec.ExchangeDeclareOk)
        held.gate.set()
        client.expect(answer)
        client.expect(spec.BasicGetEmpty)


def test_purge_beside_unacknowledged_messages_is_answered_when_all_of_it_is_synced(held: Held, tmp_path: Path) -> None:
    """SPEC §8.2: what was purged and answered does not come back, however many there were."""
    copied = tmp_path / "copied"
    with held.login() as client:
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        frames = publish(1, "q", b"x", PERSISTENT)
        for _ in range(PURGED // 1000):
            client.send(*frames * 1000)
        ack = client.expect(spec.BasicAck)
        while ack.delivery_tag < PURGED:
            ack = client.expect(spec.BasicAck)
        client.call(spec.BasicGet("q"), spec.BasicGetOk)
        client.skip_content()
        assert client.call(spec.QueuePurge("q"), spec.QueuePurgeOk).message_count == PURGED - 1
        held.gate.clear()
        shutil.copytree(tmp_path / "data", copied)
        held.gate.set()
    with InProcess(Config(port=0, data_dir=str(copied))) as node, node.login() as client:
        assert client.declare("q", passive=True) == 1


@pytest.mark.parametrize("how", ["abort", "shut"])
def test_client_that_leaves_while_it_waits_holds_nobody_up(held: Held, how: str) -> None:
    """SPEC §8.8: a connection that ends before its answer does not stop the others."""

    def end() -> None:
        for transport in list(held.node.node.transports):
            if transport.connection is not None and transport.connection.awaiting:
                transport.abort() if how == "abort" else transport.shut("for a test")

    with held.login() as other, held.login() as client:
        other.declare("ping")
        held.gate.clear()
        client.send(method(1, spec.QueueDeclare("new", durable=True)))
        assert client.silent(SHORT_S)
        held.node.call(end)
        assert other.ping() < 1
        held.gate.set()
        assert other.declare("new", durable=True) == 0


# A disk that fails

FAILING = """
import errno, os, sys
from leveret.store.disk import File
real_sync, real_write = File.sync, File.write

def sync(file):
    if os.path.exists(sys.argv[1] + ".sync"):
        raise OSError(errno.EIO, "Input/output error")
    real_sync(file)

def write(file, data):
    if os.path.exists(sys.argv[1] + ".write"):
        real_write(file, bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")
    real_write(file, data)

File.sync, File.write = sync, write
from leveret.cli.main import main
main(["--port", "0", "--data-dir", sys.argv[1]])
"""


@pytest.mark.parametrize(("what", "text"), [("sync", "Input/output error"), ("write", "No space left on device")])
def test_failed_disk_yields_no_false_confirm(tmp_path: Path, what: str, text: str) -> None:
    """SPEC §8.7: waiting confirms are nacked, the broker stops with 1 and says why, and the data can be read."""
    data = tmp_path / "data"
    command = [sys.executable, "-c", FAILING, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[1].rpartition(":")[2])
        with Client(port).login() as client, Client(port).login() as waiting:
            client.declare("q", durable=True)
            client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
            client.send(*publish(1, "q", b"kept", PERSISTENT))
            assert client.expect(spec.BasicAck).delivery_tag == 1
            Path(f"{data}.{what}").touch()
            client.send(*publish(1, "q", b"lost", PERSISTENT), *publish(1, "q", b"lost", PERSISTENT))
            waiting.send(method(1, spec.QueueDeclare("not stored", durable=True)))
            assert [client.expect(spec.BasicNack).delivery_tag for _ in range(2)] == [2, 3]
            for end in (client, waiting):
                assert end.expect(spec.ConnectionClose).reply_code == 320
                end.send(method(0, spec.ConnectionCloseOk()))
        # Nobody is waited for: those whose answers will never come hear the close too.
        process.wait(4)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == 1
    assert f"leveret: storage failed: [Errno {5 if what == 'sync' else 28}] {text}" in errors
    assert "storage failed, shutting down" in errors
    assert "Traceback" not in errors
    Path(f"{data}.{what}").unlink()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[1].rpartition(":")[2])
        with Client(port).login() as client:
            # What was refused may be there or not; what was confirmed is.
            assert client.declare("q", durable=True) >= 1
            client.send(method(1, spec.BasicGet("q", no_ack=True)))
            assert client.delivery() == b"kept"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "damaged" not in errors


def test_client_that_goes_while_its_deletion_waits_stops_nobody(held: Held) -> None:
    """SPEC §8.8: a queue is gone when its dead letters are where they go; who has asked for that may be gone before."""
    count = 3000
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "old"}
    with held.login() as other:
        client = held.login()
        client.declare("mortal", durable=True, arguments=arguments)
        client.publish_many("mortal", [b"x"] * count)
        client.call(spec.BasicConsume("mortal", "c"), spec.BasicConsumeOk)
        client.skip_deliveries(count)
        nack = method(1, spec.BasicNack(count, multiple=True, requeue=False))
        client.send(nack, method(1, spec.QueueDelete("mortal")))
        client.socket.close()
        eventually(lambda: other.declare("old", durable=True) == count)
        other.send(method(1, spec.QueueDeclare("mortal", passive=True)))
        assert other.expect(spec.ChannelClose).reply_code == 404


def test_what_a_commit_makes_room_for_comes_after_its_answer(held: Held) -> None:
    """SPEC §2.4: also when the answer waits for the disk; and if it never comes, others get it."""
    with held.login() as client, held.login() as other:
        client.send(*publish(1, "q", b"x", PERSISTENT))
        client.call(spec.TxSelect(), spec.TxSelectOk)
        client.call(spec.BasicConsume("q", "t"), spec.BasicConsumeOk)
        assert client.delivery() == b"x"
        held.gate.clear()
        client.send(method(1, spec.BasicNack(1, requeue=True)), method(1, spec.TxCommit()))
        assert client.silent(SHORT_S)
        held.gate.set()
        client.expect(spec.TxCommitOk)
        assert client.delivery() == b"x"
        other.call(spec.BasicConsume("q", "o", arguments={"x-priority": -1}), spec.BasicConsumeOk)
        held.gate.clear()
        client.send(method(1, spec.BasicNack(2, requeue=True)), method(1, spec.TxCommit()))
        assert client.silent(SHORT_S)
        held.node.call(lambda: cut_off_waiting(held.node))
        assert other.delivery() == b"x"
        held.gate.set()


def test_what_a_commit_of_messages_makes_room_for_does_not_wait_for_its_answer(held: Held) -> None:
    """SPEC §2.4: RabbitMQ's queues deliver while a commit waits for its messages to be on disk."""
    with held.login() as client:
        client.send(*publish(1, "q", b"one", PERSISTENT), *publish(1, "q", b"two", PERSISTENT))
        client.call(spec.TxSelect(), spec.TxSelectOk)
        client.call(spec.BasicQos(prefetch_count=1), spec.BasicQosOk)
        client.call(spec.BasicConsume("q", "t"), spec.BasicConsumeOk)
        assert client.delivery() == b"one"
        for settle, body in ((spec.BasicAck(1), b"two"), (spec.BasicNack(2, requeue=True), b"two")):
            held.gate.clear()
            client.send(*publish(1, "old", b"new", PERSISTENT), method(1, settle), method(1, spec.TxCommit()))
            assert client.delivery() == body
            assert client.silent(SHORT_S)
            held.gate.set()
            client.expect(spec.TxCommitOk)


def test_window_of_a_channel_opens_before_the_answer_to_a_commit_of_messages(held: Held) -> None:
    """The same when the consumers of a channel share a window."""
    with held.login() as client:
        client.send(*publish(1, "q", b"one", PERSISTENT), *publish(1, "q", b"two", PERSISTENT))
        client.call(spec.TxSelect(), spec.TxSelectOk)
        client.call(spec.BasicQos(prefetch_count=1, global_=True), spec.BasicQosOk)
        client.call(spec.BasicConsume("q", "t"), spec.BasicConsumeOk)
        assert client.delivery() == b"one"
        held.gate.clear()
        client.send(*publish(1, "old", b"new", PERSISTENT), method(1, spec.BasicAck(1)), method(1, spec.TxCommit()))
        assert client.delivery() == b"two"
        assert client.silent(SHORT_S)
        held.gate.set()
        client.expect(spec.TxCommitOk)


def test_dead_letter_of_a_commit_comes_after_its_answer_unless_that_waits_for_messages(held: Held) -> None:
    """SPEC §2.4: what a rejected message leads to comes after the answer, and what its consumer gets next before that."""
    with held.login() as client:
        mortal = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
        client.declare("mortal", durable=True, arguments=mortal)
        client.send(*(frame for body in (b"one", b"two", b"three") for frame in publish(1, "mortal", body, PERSISTENT)))
        client.call(spec.TxSelect(), spec.TxSelectOk)
        client.call(spec.BasicConsume("q", "dead", no_ack=True), spec.BasicConsumeOk)
        client.call(spec.BasicQos(prefetch_count=1), spec.BasicQosOk)
        client.call(spec.BasicConsume("mortal", "t"), spec.BasicConsumeOk)
        assert client.delivery() == b"one"
        held.gate.clear()
        client.send(method(1, spec.BasicReject(1, requeue=False)), method(1, spec.TxCommit()))
        assert client.silent(SHORT_S)
        held.gate.set()
        client.expect(spec.TxCommitOk)
        assert [client.delivery(), client.delivery()] == [b"two", b"one"]
        held.gate.clear()
        reject = method(1, spec.BasicReject(2, requeue=False))
        client.send(*publish(1, "old", b"new", PERSISTENT), reject, method(1, spec.TxCommit()))
        assert [client.delivery(), client.delivery()] == [b"three", b"two"]
        assert client.silent(SHORT_S)
        held.gate.set()
        client.expect(spec.TxCommitOk)


@pytest.mark.parametrize("limits", [{"x-message-ttl": 0}, {"x-max-length": 0}], ids=str)
def test_dead_letter_of_a_commit_reaches_who_waits_at_a_queue_that_keeps_nothing(held: Held, limits: dict[str, int]) -> None:
    """SPEC §4.5: nobody has to wait for the answer then."""
    with held.login() as client:
        client.declare("full", durable=True, arguments=limits)
        client.declare("mortal", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full"})
        client.send(*publish(1, "mortal", b"one"))
        client.call(spec.TxSelect(), spec.TxSelectOk)
        client.call(spec.BasicConsume("full", "dead"), spec.BasicConsumeOk)
        client.call(spec.BasicConsume("mortal", "t"), spec.BasicConsumeOk)
        assert client.delivery() == b"one"
        client.send(method(1, spec.BasicReject(1, requeue=False)), method(1, spec.TxCommit()))
        assert client.delivery() == b"one"
        client.expect(spec.TxCommitOk)


def cut_off_waiting(node: InProcess) -> None:
    """Cut the connections whose answer waits for the disk."""
    for transport in list(node.node.transports):
        if transport.connection is not None and transport.connection.awaiting:
            transport.abort()
