"""No client makes the broker's memory grow without bound: not by not reading, by asking, or by announcing."""

import socket

from tests.properties.dialogue import Frame, body, header, method, publish
from tests.server.support import MIB, PATIENCE, Client, InProcess, Process

from leveret.wire import spec

BODY = 2000
COUNT = 100_000


def test_consumer_that_does_not_read_holds_up_only_itself(fresh: Process) -> None:
    """200 MB wait; the consumer is given what its socket takes and no more, and all in order once it reads."""
    with fresh.login() as publisher, fresh.login(receive_buffer=65_536) as slow, fresh.login() as other:
        publisher.declare("q")
        for start in range(0, COUNT, 10_000):
            publisher.publish_many("q", [b"%08d" % n + bytes(BODY - 8) for n in range(start, start + 10_000)])
        other.declare("ping")
        other.ping()
        before = fresh.resident
        slow.call(spec.BasicConsume("q", "slow"), spec.BasicConsumeOk)
        assert other.longest_ping(0.5) < 0.25
        left = publisher.declare("q")
        assert COUNT * 0.9 < left < COUNT
        assert other.longest_ping(0.3) < 0.25
        assert publisher.declare("q") == left, "it was given more though it had not read"
        assert fresh.resident - before < 12 * MIB
        check_others_go_on(publisher, other)
        for number in range(COUNT):
            assert int(slow.delivery()[:8]) == number
        assert publisher.declare("q") == 0


def check_others_go_on(publisher: Client, other: Client) -> None:
    """A second consumer of the same queue gets messages at once, and so does one of another queue."""
    other.open(2)
    other.call(spec.BasicQos(prefetch_count=10), spec.BasicQosOk, 2)
    start = other.clock()
    other.call(spec.BasicConsume("q", "quick"), spec.BasicConsumeOk, 2)
    numbers = [int(other.delivery()[:8]) for _ in range(10)]
    assert numbers == list(range(numbers[0], numbers[0] + 10))
    publisher.declare("another")
    other.call(spec.BasicConsume("another", "too", no_ack=True), spec.BasicConsumeOk)
    publisher.publish_many("another", [b"at once"])
    assert other.delivery() == b"at once"
    assert other.clock() - start < 1
    other.call(spec.ChannelClose(200, "give back"), spec.ChannelCloseOk, 2)


def test_client_that_asks_and_does_not_read_is_not_heard(fresh: Process) -> None:
    """Each question is answered with as many bytes: the broker stops listening before its memory fills."""
    name = "n" * 250
    count = 200_000
    question = method(1, spec.QueueDeclare(name, passive=True)).encode()
    with fresh.login(receive_buffer=65_536) as asker, fresh.login() as other:
        asker.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        asker.declare(name)
        other.declare("ping")
        before = fresh.resident
        sent = send_until_stuck(asker, question * count)
        assert sent < len(question) * count, "all of it was taken"
        assert fresh.resident - before < 40 * MIB
        assert other.longest_ping(0.2) < 0.25
        # Once it reads, it is heard again, to the last question.
        asked = sent // len(question)
        rest = question[sent % len(question) :] if sent % len(question) else b""
        for number in range(asked):
            kind, channel, _ = asker.frame()
            assert (kind, channel) == (1, 1), number
        asker.socket.settimeout(PATIENCE)
        asker.socket.sendall(rest)
        if rest:
            asker.expect(spec.QueueDeclareOk)


def send_until_stuck(client: Client, data: bytes) -> int:
    """Send as much as the broker takes; how much that was."""
    sent = 0
    client.socket.settimeout(1.0)
    try:
        while sent < len(data):
            sent += client.socket.send(data[sent : sent + MIB])
    except TimeoutError:
        return sent
    finally:
        client.socket.settimeout(PATIENCE)
    return sent


def test_small_questions_with_large_answers_are_bounded(node: InProcess) -> None:
    """basic.get and basic.reject of one large message, over and over in a few packets."""
    size, count = 4 * MIB, 300
    with node.login(receive_buffer=65_536) as client, node.login() as other:
        other.declare("ping")
        client.declare("q")
        client.publish_many("q", [bytes(size)])
        frames = []
        for tag in range(1, count + 1):
            frames += [method(1, spec.BasicGet("q")), method(1, spec.BasicReject(tag, requeue=True))]
        client.send(*frames)
        assert other.longest_ping(0.5) < 0.25
        waiting = node.call(lambda: max(t._socket.get_write_buffer_size() for t in node.node.transports))
        assert waiting < 64 * MIB
        for _ in range(20):
            assert client.expect(spec.BasicGetOk).message_count == 0
            client.frame()
            for _ in range(-(-size // 131_064)):
                client.frame()


def test_announced_sizes_take_no_memory(fresh: Process) -> None:
    with fresh.login() as client:
        for channel in range(2, 1001):
            client.open(channel)
        before = fresh.resident
        for channel in range(1, 1001):
            client.send(method(channel, spec.BasicPublish("", "q")), header(channel, 128 << 20))
        client.send(method(1001, spec.ChannelOpen()))
        client.expect(spec.ChannelOpenOk)
        assert fresh.resident - before < 10 * MIB


def test_incomplete_bodies_are_bounded(fresh: Process) -> None:
    """One channel has a byte, the others 100 MiB each: beyond 256 MiB the connection is closed, and all is given back.

    The heap is kept for a while, so what was given back shows when the same is done again.
    """
    begin_too_much(fresh)
    before = fresh.resident
    begin_too_much(fresh)
    assert fresh.resident - before < 100 * MIB


def begin_too_much(broker: Process) -> None:
    piece = body(1, bytes(131_064))
    with broker.login() as client:
        client.send(method(1, spec.BasicPublish("", "q")), header(1, 128 << 20), body(1, b"x"))
        for channel in (2, 3, 4):
            client.open(channel)
            client.send(method(channel, spec.BasicPublish("", "q")), header(channel, 128 << 20))
            send_bodies(client, channel, piece, 100 * MIB)
        close = client.expect(spec.ConnectionClose)
        assert (close.reply_code, close.class_id, close.method_id) == (506, 60, 40)
        client.send(method(0, spec.ConnectionCloseOk()))
        assert client.at_end()


def send_bodies(client: Client, channel: int, piece: Frame, size: int) -> None:
    raw = piece.encode()
    raw = raw[:1] + channel.to_bytes(2, "big") + raw[3:]
    for _ in range(size // len(piece.payload)):
        client.socket.sendall(raw)


def test_message_of_many_queues_is_kept_once(fresh: Process) -> None:
    """SPEC §2.4 one copy in memory: 200 queues and 20 MiB."""
    with fresh.login() as client:
        for number in range(200):
            client.declare(f"q{number}")
            client.call(spec.QueueBind(f"q{number}", "amq.fanout"), spec.QueueBindOk)
        before = fresh.resident
        for _ in range(20):
            client.send(*publish(1, "", bytes(MIB), exchange="amq.fanout"))
        assert client.declare("q199") == client.declare("q0") == 20
        assert fresh.resident - before < 60 * MIB


def test_large_message_in_small_pieces_arrives(fresh: Process) -> None:
    data = bytes(range(256)) * (20 * MIB // 256)
    with fresh.login() as client:
        client.declare("q")
        client.send(*publish(1, "q", data, piece=50_000))
        client.send(method(1, spec.BasicGet("q", no_ack=True)))
        assert client.delivery() == data


def test_too_large_a_message_is_refused_before_it_comes(fresh: Process) -> None:
    with fresh.login() as client:
        client.send(method(1, spec.BasicPublish("", "q")), header(1, (128 << 20) + 1), body(1, bytes(1000)))
        close = client.expect(spec.ChannelClose)
        assert (close.reply_code, close.reply_text) == (
            406,
            "PRECONDITION_FAILED - message size 134217729 is larger than configured max size 134217728",
        )
        client.send(method(1, spec.ChannelCloseOk()))
        client.open(1)
