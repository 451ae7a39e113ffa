"""A broker that is stopped and started again: the same queues, messages and flags."""

import signal
from pathlib import Path

import pytest
from tests.crash.load import TINY
from tests.properties.dialogue import method, publish
from tests.server.support import Client, Process

from leveret.wire import spec
from leveret.wire.properties import Properties
from leveret.wire.values import Table

PERSISTENT = Properties(delivery_mode=2)


def got(client: Client, queue: str) -> list[tuple[bytes, bool]]:
    """Take everything of a queue: bodies, and whether they say redelivered."""
    found: list[tuple[bytes, bool]] = []
    while True:
        client.send(method(1, spec.BasicGet(queue, no_ack=True)))
        answer = client.read()
        if isinstance(answer, spec.BasicGetEmpty):
            return found
        assert isinstance(answer, spec.BasicGetOk)
        _, _, header = client.frame()
        size, body = int.from_bytes(header[4:12], "big"), b""
        while len(body) < size:
            body += client.frame()[2]
        found.append((body, answer.redelivered))


@pytest.mark.parametrize("connected", [True, False])
def test_clean_end_keeps_flags_exact(tmp_path: Path, connected: bool) -> None:
    """SPEC §8.3: after a clean end what was delivered and not acknowledged says so, and nothing else does."""
    with Process(tmp_path) as broker:
        client = broker.login()
        client.declare("q", durable=True)
        client.declare("transient")
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        for number in range(6):
            client.send(*publish(1, "q", b"%d" % number, PERSISTENT))
            client.expect(spec.BasicAck)
        client.call(spec.BasicQos(0, 3), spec.BasicQosOk)
        client.call(spec.BasicConsume("q"), spec.BasicConsumeOk)
        assert [client.delivery() for _ in range(3)] == [b"0", b"1", b"2"]
        client.send(method(1, spec.BasicAck(2)), method(1, spec.BasicCancel("none")))
        client.read()
        if not connected:
            client.socket.close()
    if connected:
        client.socket.close()
    with Process(tmp_path) as broker, broker.login() as client:
        # After the acknowledgement one more was delivered.
        assert got(client, "q") == [(b"0", True), (b"2", True), (b"3", True), (b"4", False), (b"5", False)]
        assert client.call(spec.QueueDeclare("transient", durable=True), spec.QueueDeclareOk).message_count == 0
    with Process(tmp_path) as broker, broker.login() as client:
        assert got(client, "q") == []


def test_clean_end_buries_what_was_rejected(tmp_path: Path) -> None:
    """SPEC §5.1: dead letters whose content has to be read first are where they go, and not back in their queue."""
    count = 2000
    with Process(tmp_path, environment=TINY) as broker, broker.login() as client:
        client.declare("dead", durable=True)
        arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        client.declare("q", durable=True, arguments=arguments)
        frames = [frame for number in range(count) for frame in publish(1, "q", b"%d" % number, PERSISTENT)]
        client.send(*frames)
        client.call(spec.BasicConsume("q", "t"), spec.BasicConsumeOk)
        bodies = [client.delivery() for _ in range(count)]
        assert bodies == [b"%d" % number for number in range(count)]
        client.send(method(1, spec.BasicNack(0, multiple=True, requeue=False)))
        client.declare("q", durable=True, passive=True)
        broker.popen.send_signal(signal.SIGTERM)
        client.socket.close()
        assert broker.popen.wait(60) == 0
    with Process(tmp_path) as broker, broker.login() as client:
        assert got(client, "q") == []
        assert [body for body, _ in got(client, "dead")] == bodies


def test_end_while_definitions_are_written(tmp_path: Path) -> None:
    """SPEC §8.1: told to stop while declarations wait for the disk, the broker ends."""
    with Process(tmp_path) as broker:
        clients = [broker.login() for _ in range(5)]
        for number, client in enumerate(clients):
            client.send(*[method(1, spec.QueueDeclare(f"q-{number}-{at}", durable=True)) for at in range(1000)])
        clients[0].expect(spec.QueueDeclareOk)
        broker.popen.send_signal(signal.SIGTERM)
        assert broker.popen.wait(60) == 0
        for client in clients:
            client.socket.close()


def test_users_are_as_they_were_left(tmp_path: Path) -> None:
    """SPEC §7: users are made on first start only, and then are as they were left."""
    config = tmp_path / "leveret.toml"
    user = '[[users]]\nname = "guest"\npassword = "other"\n'
    config.write_text(user + '[[permissions]]\nuser = "guest"\nconfigure = ""\nwrite = ""\nread = ""\n')
    with Process(tmp_path) as broker, broker.login() as client:
        client.declare("q", durable=True)
    with Process(tmp_path, "--config", str(config)) as broker, broker.login(response=b"\0guest\0other"):
        pass
    # What was set stays set without the file too.
    with Process(tmp_path) as broker, broker.login(response=b"\0guest\0other") as client:
        client.send(method(1, spec.QueueDeclare("q", durable=True)))
        assert client.expect(spec.ChannelClose).reply_code == 403


def test_sync_by_the_system_says_so(tmp_path: Path) -> None:
    """SPEC §8.2: `sync = "os"` trades safety for speed, and the log says that."""
    with Process(tmp_path, environment={"LEVERET_SYNC": "os"}) as broker, broker.login() as client:
        client.declare("q", durable=True)
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        client.send(*publish(1, "q", b"x", PERSISTENT))
        client.expect(spec.BasicAck)
    assert 'sync = "os": confirmed messages may be lost in a power cut' in broker.log
    with Process(tmp_path) as broker, broker.login() as client:
        assert got(client, "q") == [(b"x", False)]
