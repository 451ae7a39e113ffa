"""The client of nats-server: what it asks, what it is answered, and what it knows when it is not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest
from tests.cluster.support import CUT, CUT_BEFORE, LOSE, LOSE_ANSWER, NOT_FOUND, Proxy, free_port, new_name

from leveret.cluster import nats
from leveret.cluster.engine import MAX_PAYLOAD, Engine
from leveret.cluster.nats import Address, Client, Down, Fault, Refused, Unknown, head_of, received

SHORT_S = 0.2


def new_stream(client: Client) -> str:
    name = new_name()
    client.ask_jetstream(
        f"STREAM.CREATE.{name}", name=name, subjects=[f"log.{name}"], storage="memory", allow_direct=True, deny_delete=True
    )
    return name


@contextmanager
def through(proxy: Proxy, timeout_s: float = 5.0) -> Iterator[Client]:
    client = Client(proxy.address, timeout_s)
    try:
        yield client
    finally:
        client.close()


def last_seq(client: Client, name: str) -> int:
    state = client.ask_jetstream(f"STREAM.INFO.{name}").state
    assert state is not None
    return state.last_seq


# What a stream is asked


def test_append_is_stored_behind_the_last_one_or_refused(client: Client) -> None:
    """SPEC §11.3: who does not know of the newest message stores nothing."""
    name = new_stream(client)
    assert client.append(f"log.{name}", {"A": "1"}, b"one", 0) == 1
    assert client.append(f"log.{name}", {"A": "2"}, memoryview(b"two"), 1) == 2
    for seq in (0, 1, 3):
        with pytest.raises(Refused, match="wrong last sequence: 2"):
            client.append(f"log.{name}", {}, b"x", seq)
    found = client.read_on(name, 1, 10, 1 << 20)
    assert [(message.seq, message.headers["A"], message.payload) for message in found] == [
        (1, "1", b"one"),
        (2, "2", b"two"),
    ]


def test_reading_stops_at_the_count_at_the_size_and_at_the_end(client: Client) -> None:
    """SPEC §11.2: batches, however large their messages are."""
    name = new_stream(client)
    for number in range(5):
        client.append(f"log.{name}", {}, bytes(1000), number)
    assert [message.seq for message in client.read_on(name, 2, 2, 1 << 20)] == [2, 3]
    assert [message.seq for message in client.read_on(name, 1, 9, 1)] == [1]
    assert [message.seq for message in client.read_on(name, 4, 9, 1 << 20)] == [4, 5]
    assert client.read_on(name, 6, 9, 1 << 20) == []
    client.ask_jetstream(f"STREAM.PURGE.{name}", seq=4)
    assert [message.seq for message in client.read_on(name, 1, 1, 1 << 20)] == [4]


def test_message_of_the_largest_size_goes_and_comes(client: Client) -> None:
    """SPEC §11.2: up to what the server is told to take, and that beyond is not known to be stored."""
    name = new_stream(client)
    head = len(head_of({"Nats-Expected-Last-Sequence": "0"}))
    octets = bytes(range(256)) * (MAX_PAYLOAD // 256)
    assert client.append(f"log.{name}", {}, octets[: MAX_PAYLOAD - head], 0) == 1
    assert client.read_on(name, 1, 1, MAX_PAYLOAD)[0].payload == octets[: MAX_PAYLOAD - head]
    with pytest.raises(Unknown):
        client.append(f"log.{name}", {}, octets[: MAX_PAYLOAD - head + 1], 1)
    assert last_seq(client, name) == 1


def test_what_jetstream_refuses_is_a_fault_with_its_code(client: Client) -> None:
    """SPEC §11.3: a stream that is missing is told from one that does not answer."""
    with pytest.raises(Fault, match=r"stream not found \(JetStream 10059\)") as fault:
        client.ask_jetstream("STREAM.INFO.missing")
    assert fault.value.code == 10059


# What is known without an answer


def test_nobody_there_is_down(client: Client) -> None:
    """SPEC §11.3: nothing is stored where there is no stream."""
    with pytest.raises(Down, match=r"nobody answers log\.nowhere"):
        client.append("log.nowhere", {}, b"x", 0)


def test_no_server_is_down() -> None:
    """SPEC §11.3: nothing is sent where there is no connection."""
    client = Client(Address("127.0.0.1", free_port(), "t"))
    with pytest.raises(Down, match="Connection refused"):
        client.ask("x")


def test_wrong_token_is_down(engine: Engine) -> None:
    """SPEC §11.1: a nats-server takes its own node's clients only."""
    client = Client(Address("127.0.0.1", engine.address.port, "guessed"))
    with pytest.raises(Down, match="Authorization Violation"):
        client.ask("$SYS.REQ.USER.INFO")


def test_server_that_says_nothing_is_down_in_time() -> None:
    """SPEC §11.3: a connection has a deadline, too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client(Address("127.0.0.1", listener.getsockname()[1], "t"), SHORT_S)
        with pytest.raises(Down, match="timed out"):
            client.ask("x")


@pytest.mark.parametrize(
    ("what", "timeout_s", "stored"), [(LOSE, SHORT_S, 0), (LOSE_ANSWER, SHORT_S, 1), (CUT, 5.0, 1), (CUT_BEFORE, 5.0, 0)]
)
def test_lost_answer_is_unknown_and_the_next_request_is_answered(
    client: Client, proxy: Proxy, what: str, timeout_s: float, stored: int
) -> None:
    """SPEC §11.3: it may be stored or not; the client cannot tell, and says so."""
    name = new_stream(client)
    with through(proxy, timeout_s) as other:
        assert last_seq(other, name) == 0
        proxy.once("log.", what)
        with pytest.raises(Unknown):
            other.append(f"log.{name}", {}, b"x", 0)
        assert last_seq(other, name) == stored
        assert other.append(f"log.{name}", {}, b"y", stored) == stored + 1


def test_late_answer_is_not_taken_for_the_next_ones(client: Client) -> None:
    """SPEC §11.3: an answer is of one request, however late it comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_late, args=(listener,))
        server.start()
        other = Client(Address("127.0.0.1", listener.getsockname()[1], "t"))
        assert other.ask("first").payload == b"first"
        assert other.ask("second").payload == b"second"
        other.close()
        server.join()


def answer_late(listener: socket.socket) -> None:
    """A server that repeats the answer before with each answer."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        stream.write(b"INFO {}\r\n")
        stream.flush()
        before = b""
        while line := stream.readline():
            verb, *rest = line.split()
            if verb == b"PING":
                stream.write(b"PING\r\nPONG\r\n")
            elif verb == b"PUB":
                stream.readline()
                answer = b"MSG %s 0 %d\r\n%s\r\n" % (rest[1], len(rest[0]), rest[0])
                stream.write(before + answer)
                before = answer
            stream.flush()


def test_connection_that_was_idle_is_looked_at_before_it_is_used(
    client: Client, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC §11.3: a connection that has ended meanwhile makes no outcome unknown."""
    name = new_stream(client)
    monkeypatch.setattr(nats, "IDLE_S", 0.0)
    with through(proxy) as other:
        assert other.append(f"log.{name}", {}, b"x", 0) == 1
        assert other._connection is not None
        other._connection._socket.shutdown(socket.SHUT_RDWR)
        assert other.append(f"log.{name}", {}, b"y", 1) == 2


def test_replica_that_lags_has_nothing(client: Client, proxy: Proxy) -> None:
    """SPEC §11.2: a 404 is no message, and no error."""
    name = new_stream(client)
    client.append(f"log.{name}", {}, b"x", 0)
    with through(proxy) as other:
        proxy.once("DIRECT.GET", NOT_FOUND)
        assert other.read_on(name, 1, 1, 1000) == []
        assert len(other.read_on(name, 1, 1, 1000)) == 1


# Listening


def test_advisories_are_heard(client: Client, engine: Engine) -> None:
    """SPEC §11.3: what happens to streams is told to whoever listens."""
    listener = Client(engine.address)
    listener.listen("$JS.EVENT.ADVISORY.STREAM.CREATED.*")
    name = new_stream(client)
    found = listener.hear(5.0)
    assert found is not None
    assert found.subject == f"$JS.EVENT.ADVISORY.STREAM.CREATED.{name}"
    start = monotonic()
    assert listener.hear(SHORT_S) is None
    assert monotonic() - start >= SHORT_S
    listener.close()


def test_lost_connection_is_said_and_listening_goes_on_in_the_next(client: Client, proxy: Proxy) -> None:
    """SPEC §11.3: what was missed meanwhile is for whoever listens to find out."""
    with through(proxy) as listener:
        listener.listen("$JS.EVENT.ADVISORY.STREAM.CREATED.*")
        assert listener._connection is not None
        listener._connection._socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(Down):
            listener.hear(5.0)
        # Known to the server once it answers.
        listener.ask("$SYS.REQ.USER.INFO")
        name = new_stream(client)
        found = listener.hear(5.0)
        assert found is not None
        assert found.subject.endswith(name)


@pytest.mark.parametrize(
    ("head", "status", "headers"),
    [
        (b"", 0, {}),
        (b"NATS/1.0\r\n\r\n", 0, {}),
        (b"NATS/1.0\r\nA: b\r\nC: d: e\r\n\r\n", 0, {"A": "b", "C": "d: e"}),
        (b"NATS/1.0 404 Message Not Found\r\n\r\n", 404, {}),
        (b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 3\r\n\r\n", 204, {"Nats-Num-Pending": "3"}),
    ],
)
def test_heads(head: bytes, status: int, headers: dict[str, str]) -> None:
    """SPEC §11: what the server says of a message."""
    found = received("s", head + b"body", len(head))
    assert (found.status, found.headers, found.payload) == (status, headers, b"body")
