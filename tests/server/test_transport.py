"""One client's socket: limits of the handshake, slow refusals, heartbeats, and faults of our own."""

import asyncio
import logging
import time
from typing import Any

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER, Frame, handshake, method, publish
from tests.server.support import MIB, Client, InProcess, Process, Records, eventually

from leveret.broker.budget import Budget
from leveret.broker.work import Task
from leveret.protocol.handlers import HANDLERS
from leveret.server.config import Config
from leveret.server.transport import SHORT_READ, peer_of
from leveret.wire import spec
from leveret.wire.spec import FRAME_METHOD


@pytest.mark.parametrize("shown", [None, {}, {"subject": ((("commonName", "shop"),),)}])
def test_peer_is_what_the_socket_knows(shown: dict[str, Any] | None) -> None:
    """Its addresses, in the name that RabbitMQ gives a connection, and the certificate that TLS was shown."""
    names = {"peername": ("192.0.2.1", 40_000), "sockname": ("192.0.2.2", 5672)}
    peer = peer_of(asyncio.BaseTransport({**names, "peercert": shown}))
    assert (peer.name, peer.host, peer.user) == ("192.0.2.1:40000 -> 192.0.2.2:5672", "192.0.2.1", None)
    assert peer.certificate == (shown or None)


def test_who_says_nothing_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.protocol.connection.TIMEOUT_MS", 300)
    with InProcess() as node, node.connect() as silent, node.connect() as half:
        half.socket.sendall(PROTOCOL_HEADER)
        half.expect(spec.ConnectionStart)
        assert silent.at_end()
        assert half.at_end()


def test_time_for_the_handshake_is_ten_seconds(node: InProcess) -> None:
    with node.connect() as client:
        client.socket.sendall(PROTOCOL_HEADER)
        client.expect(spec.ConnectionStart)
        [transport] = node.node.transports
        connection = transport.connection
        assert connection is not None
        assert connection.tick_at - connection.connected_at == 10_000


@pytest.mark.parametrize("header", [b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x01\x00\x00", b"GET / HTTP/1.1\r\n\r\n"])
def test_bad_protocol_header_is_answered_with_ours(node: InProcess, header: bytes) -> None:
    with node.connect() as client:
        client.socket.sendall(header)
        data = b""
        while piece := client.socket.recv(100):
            data += piece
        assert data == PROTOCOL_HEADER


@pytest.mark.parametrize("size", [4097, 131_072, 1 << 31, (1 << 32) - 1])
def test_large_frame_before_tune_ok_gets_no_answer(node: InProcess, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.protocol.connection.SILENT_CLOSE_MS", 200)
    with node.connect() as client:
        client.socket.sendall(PROTOCOL_HEADER)
        client.expect(spec.ConnectionStart)
        client.send(Frame(FRAME_METHOD, 0, b"x" * 4097, size=size))
        with pytest.raises(EOFError):
            client.frame()


def test_frame_of_4096_is_taken_before_tune_ok(node: InProcess) -> None:
    with node.connect() as client:
        client.socket.sendall(PROTOCOL_HEADER)
        client.expect(spec.ConnectionStart)
        small = method(0, spec.ConnectionStartOk({"filling": ""}, "PLAIN", b"\0guest\0guest", "en_US"))
        filling = "f" * (4096 - len(small.payload))
        client.send(method(0, spec.ConnectionStartOk({"filling": filling}, "PLAIN", b"\0guest\0guest", "en_US")))
        client.expect(spec.ConnectionTune)


@pytest.mark.parametrize("told", [True, False])
def test_failed_login_is_answered_at_once_and_held(node: InProcess, told: bool) -> None:
    records = Records()
    logging.getLogger("leveret").addHandler(records)
    try:
        with node.connect() as client, node.login() as other:
            client.socket.sendall(PROTOCOL_HEADER)
            client.expect(spec.ConnectionStart)
            start = time.monotonic()
            capabilities = ("authentication_failure_close",) if told else ()
            client.send(handshake(capabilities=capabilities, response=b"\0guest\0wrong")[0])
            other.declare("ping")
            other.ping()
            if told:
                close = client.expect(spec.ConnectionClose)
                assert (close.reply_code, close.class_id, close.method_id) == (403, 0, 0)
            with pytest.raises(EOFError):
                client.frame()
            assert time.monotonic() - start > 2.5
    finally:
        logging.getLogger("leveret").removeHandler(records)
    refusals = [record.getMessage() for record in records.kept if record.levelno >= logging.WARNING]
    assert len(refusals) == 1
    assert refusals[0].endswith("PLAIN login refused: user 'guest' - invalid credentials")


def test_heartbeats_are_sent_and_awaited(broker: Process) -> None:
    """A client that sends nothing gets heartbeats, and is dropped after two intervals; one that sends stays."""
    with broker.login(heartbeat_s=1) as silent, broker.login(heartbeat_s=1) as alive:
        alive.declare("ping")
        start = time.monotonic()
        beats: list[float] = []
        dropped = 0.0
        while not dropped:
            alive.beat()
            if not silent.silent(0.3):
                try:
                    kind, channel, payload = silent.frame()
                    assert (kind, channel, payload) == (8, 0, b"")
                    beats.append(time.monotonic() - start)
                except EOFError:
                    dropped = time.monotonic() - start
        # The second heartbeat and the end are due at the same moment.
        assert beats
        assert dropped > 1.8
        alive.ping()
    assert broker.log.count("missed heartbeats from client, timeout: 1s") == 1


def test_slow_reader_of_much_is_alive(broker: Process) -> None:
    """While so much is unread it is not heard, nor are its heartbeats; but it reads."""
    with broker.login(heartbeat_s=1, receive_buffer=65_536) as slow:
        slow.declare("large", exclusive=True)
        slow.publish_many("large", [bytes(MIB)] * 60)
        slow.send(method(1, spec.BasicGet("large", no_ack=True)))
        slow.send(*[method(1, spec.BasicGet("large", no_ack=True))] * 59)
        start = time.monotonic()
        for number in range(60):
            assert slow.delivery() == bytes(MIB)
            if number % 5 == 0 and time.monotonic() - start < 4:
                time.sleep(0.4)
                slow.beat()
        assert slow.declare("large", exclusive=True) == 0


def test_without_heartbeats_silence_is_fine(broker: Process) -> None:
    with broker.login(heartbeat_s=0) as client:
        assert client.silent(2.5)
        client.declare("ping")


def test_client_that_closes_may_go_on_writing(node: InProcess) -> None:
    """SPEC §1.9: it is read, and not heard, until it ends the socket; a reset would take close-ok from it."""
    with node.login() as client:
        client.declare("q", exclusive=True)
        client.call(spec.ConnectionClose(200, "bye"), spec.ConnectionCloseOk, channel=0)
        late = b"".join([frame.encode() for frame in publish(1, "q", bytes(100_000))])
        # More than the buffers of two sockets hold.
        for _ in range(200):
            client.socket.sendall(late)
        assert len(node.node.transports) == 1
    eventually(lambda: not node.node.transports)


def test_client_that_closes_and_stays_is_ended(node: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.protocol.connection.CLOSING_MS", 200)
    with node.login() as client:
        client.call(spec.ConnectionClose(200, "bye"), spec.ConnectionCloseOk, channel=0)
        assert client.at_end()


def test_channel_max_is_kept_to(node: InProcess) -> None:
    with node.login(channel_max=2) as client:
        client.open(2)
        client.send(method(3, spec.ChannelOpen()))
        close = client.expect(spec.ConnectionClose)
        assert (close.reply_code, close.reply_text) == (
            530,
            "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
        )


def test_channels_can_be_opened_again_and_again(node: InProcess) -> None:
    with node.login(channel_max=1) as client:
        for _ in range(5):
            client.call(spec.ChannelClose(200, "enough"), spec.ChannelCloseOk)
            client.open(1)


def test_message_size_max_is_kept_to_whatever_the_reads() -> None:
    """A message that arrives whole in one read, and one whose frames come apart."""
    with InProcess(Config(port=0, storage="memory", max_message_size=1000)) as node:
        for apart in (False, True):
            with node.login() as client:
                client.declare("q")
                client.publish_many("q", [b"x" * 1000])
                frames = publish(1, "q", b"x" * 1001)
                for frame in frames if apart else [Frame(0, 0, b"", raw=b"".join(frame.encode() for frame in frames))]:
                    client.send(frame)
                    time.sleep(0.02)
                close = client.expect(spec.ChannelClose)
                assert close.reply_text == (
                    "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"
                )


def test_fault_of_ours_closes_that_connection_with_541(node: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("leveret.protocol.connection.SILENT_CLOSE_MS", 200)
    records = Records()
    logging.getLogger("leveret").addHandler(records)
    try:
        with node.login() as victim, node.login() as other:
            other.declare("ping")
            victim.declare("mine", exclusive=True)
            victim.publish_many("mine", [b"x"])
            monkeypatch.setitem(HANDLERS, spec.QueuePurge.INDEX, fail)
            victim.send(method(1, spec.QueuePurge("mine")))
            close = victim.expect(spec.ConnectionClose)
            assert (close.reply_code, close.reply_text) == (541, "INTERNAL_ERROR")
            assert other.ping() < 1
            victim.send(method(0, spec.ConnectionCloseOk()))
            other.send(method(1, spec.QueueDeclare("mine", passive=True)))
            assert other.expect(spec.ChannelClose).reply_code == 404
            assert victim.at_end()
    finally:
        logging.getLogger("leveret").removeHandler(records)
    [traced] = [record for record in records.kept if record.exc_info]
    assert traced.exc_info is not None
    assert isinstance(traced.exc_info[1], RuntimeError)


def test_fault_in_a_task_is_nobodys(node: InProcess) -> None:
    """What fails on the work list is logged and dropped, and who happens to drain it is not closed."""

    class Failing(Task):
        def run(self, budget: Budget) -> bool:
            raise RuntimeError("a fault of ours")

    records = Records()
    logging.getLogger("leveret").addHandler(records)
    try:
        with node.login() as client:
            client.declare("ping")
            for _ in range(3):
                node.call(lambda: node.node.broker.work.add(Failing()))
                client.ping()
    finally:
        logging.getLogger("leveret").removeHandler(records)
    assert len([record for record in records.kept if record.exc_info]) == 3


def test_connection_that_is_cut_leaves_nothing(node: InProcess) -> None:
    def left() -> Any:
        queues = node.node.broker.vhosts["/"].queues.values()
        return len(node.node.transports), [(q.name, q.ready_count, q.unacked_count, q.consumer_count) for q in queues]

    client = node.login()
    client.declare("stays")
    client.declare("goes", exclusive=True)
    client.publish_many("stays", [b"x"] * 10)
    client.call(spec.BasicConsume("stays", "t"), spec.BasicConsumeOk)
    client.skip_deliveries(5)
    client.socket.close()
    eventually(lambda: node.call(left) == (0, [("stays", 10, 0, 0)]))


def test_many_connections_come_and_go(broker: Process) -> None:
    before = broker.resident
    for _ in range(3):
        clients: list[Client] = [broker.login() for _ in range(100)]
        for client in clients:
            client.socket.close()
    with broker.login() as client:
        client.declare("ping")
    assert broker.resident - before < 20 << 20


def test_large_body_is_read_to_where_it_stays(node: InProcess) -> None:
    whole = b"".join(number.to_bytes(4, "big") for number in range(MIB))
    data = b"".join(frame.encode() for frame in [*publish(1, "q", whole), *publish(1, "q", b"small")])
    with node.login() as client:
        client.declare("q")
        [transport] = node.node.transports
        connection = transport.connection
        assert connection is not None
        client.socket.sendall(data[:200_000])
        eventually(lambda: transport.received_bytes > 200_000)
        incoming = node.call(lambda: connection.session.filling)
        assert incoming.size == len(whole)
        assert 0 < incoming.received < 200_000
        client.socket.sendall(data[200_000:])
        assert client.declare("q", passive=True) == 2
        assert node.call(lambda: (connection.session.filling, connection.session.reserved_size)) == (None, 0)
        for body in (whole, b"small"):
            client.send(method(1, spec.BasicGet("q", no_ack=True)))
            assert client.delivery() == body


def test_what_follows_a_large_body_is_read_in_short(node: InProcess) -> None:
    data = b"".join(frame.encode() for frame in publish(1, "q", bytes(MIB)))
    with node.login() as client:
        client.declare("q")
        [transport] = node.node.transports
        connection = transport.connection
        assert connection is not None
        long = node.call(lambda: len(transport.get_buffer(0)))
        assert long > 256 * 1024
        client.socket.sendall(data)
        eventually(lambda: connection.after_large)
        assert node.call(lambda: len(transport.get_buffer(0))) == SHORT_READ
        assert client.declare("q", passive=True) == 1
        assert node.call(lambda: len(transport.get_buffer(0))) == long


def test_client_that_goes_amid_a_large_body_leaves_nothing(node: InProcess) -> None:
    data = b"".join(frame.encode() for frame in publish(1, "q", bytes(4 * MIB)))
    with node.login() as other:
        with node.login() as client:
            client.declare("q")
            client.socket.sendall(data[:MIB])
        eventually(lambda: len(node.node.transports) == 1)
        assert other.declare("q", passive=True) == 0
