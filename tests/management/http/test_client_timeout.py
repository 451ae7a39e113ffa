"""HTTP clients that take their time: for a request, for its body, to read the answer, or for ever."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.management.support import Running
from tests.server.support import PATIENCE, eventually

from leveret.management.http.client_timeout import BODY_S, ClientLimits, TimedClient, client_of

LIMITS = ClientLimits(request_ms=10_000, idle_ms=60_000)


class Clock:
    """A loop that has a time and timers, and nothing else."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, function: Callable[[], None]) -> "Timer":
        self._timers.append((when, function))
        return Timer(self._timers, self._timers[-1])

    def go_to(self, when: float) -> None:
        """Let the time pass."""
        while due := [timer for timer in self._timers if timer[0] <= when]:
            first = min(due, key=lambda timer: timer[0])
            self._timers.remove(first)
            self.now = first[0]
            first[1]()
        self.now = when


class Timer:
    def __init__(self, timers: list[Any], timer: Any) -> None:
        self._timers = timers
        self._timer = timer

    def cancel(self) -> None:
        if self._timer in self._timers:
            self._timers.remove(self._timer)


class Wire(asyncio.Transport):
    """A socket of which only this is known: what is not sent yet, and whether it was ended."""

    unsent = 0
    ended = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.ended = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: clock)
    return clock


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def client(clock: Clock, wire: Wire) -> TimedClient:
    client = TimedClient(asyncio.Protocol(), LIMITS, set())
    client.connection_made(wire)
    return client


def test_head_of_the_first_request_comes_in_time(client: TimedClient, clock: Clock, wire: Wire) -> None:
    """SPEC §9.1: however many octets of it come."""
    for second in range(10):
        clock.go_to(second)
        client.data_received(b"x")
        assert not wire.ended
    clock.go_to(10)
    assert wire.ended


def test_head_of_another_request_has_its_time_from_its_first_octet(client: TimedClient, clock: Clock, wire: Wire) -> None:
    with client.answering():
        clock.go_to(5)
    clock.go_to(50)
    client.data_received(b"GET")
    clock.go_to(59.9)
    assert not wire.ended
    clock.go_to(60)
    assert wire.ended


def test_silence_between_requests_ends(client: TimedClient, clock: Clock, wire: Wire) -> None:
    for second in (1, 60, 119, 178):
        clock.go_to(second)
        client.data_received(b"GET")
        with client.answering():
            pass
    clock.go_to(237.9)
    assert not wire.ended
    clock.go_to(238)
    assert wire.ended


def test_body_may_be_slow_but_goes_on(client: TimedClient, clock: Clock, wire: Wire) -> None:
    with client.answering(), client.reading():
        for second in range(0, 250, 50):
            clock.go_to(second)
            client.data_received(b"x")
        clock.go_to(259)
        assert not wire.ended
        clock.go_to(260)
        assert wire.ended


def test_body_is_complete_in_time(client: TimedClient, clock: Clock, wire: Wire) -> None:
    with client.answering(), client.reading():
        for second in range(int(BODY_S)):
            clock.go_to(second)
            client.data_received(b"x")
            assert not wire.ended
        clock.go_to(BODY_S)
        assert wire.ended


def test_our_own_time_does_not_count(client: TimedClient, clock: Clock, wire: Wire) -> None:
    with client.answering():
        clock.go_to(1000)
    clock.go_to(1059)
    assert not wire.ended


def test_answer_is_read_on(client: TimedClient, clock: Clock, wire: Wire) -> None:
    """SPEC §9.1: slowly, but not never; also what is left when the answer is given to the system."""
    with client.answering():
        for second in range(0, 500, 50):
            wire.unsent = 1000 - second
            clock.go_to(second)
        assert not wire.ended
    for second in range(500, 900, 50):
        wire.unsent = 1000 - second
        clock.go_to(second)
    assert not wire.ended
    clock.go_to(1000)
    assert wire.ended


def test_broker_that_stops_waits_only_for_those_it_answers(client: TimedClient, clock: Clock, wire: Wire) -> None:
    with client.answering():
        client.end_unless_answering()
        during_answer = wire.ended
        with client.reading():
            client.end_unless_answering()
    assert (during_answer, wire.ended) == (False, True)
    client.connection_lost(None)
    assert client_of(None) is None


# Real sockets

KINDS = {
    "silent": b"",
    "half a head": b"GET /api/overview HTTP/1.1\r\nHost: x\r\nX-a: ",
    "half a body": b"POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nuser",
    "half a piece": b"POST /api/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nus",
    "idle": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "half of a second": b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHo",
}


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker that has little patience."""
    settings = {"LEVERET_MANAGEMENT_REQUEST_TIMEOUT": "300", "LEVERET_MANAGEMENT_IDLE_TIMEOUT": "600"}
    folder = Path(tmp_path_factory.mktemp("hurried"))
    with Running(folder, "--log-level", "debug", environment=settings) as running:
        yield running


def connected(port: int, octets: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.sendall(octets)
    return client


def is_ended(client: socket.socket) -> bool:
    """Whether the broker ends the connection, after what it answers."""
    try:
        while client.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("listener", ["http_port", "prometheus_port"])
@pytest.mark.parametrize("kind", KINDS)
def test_client_that_takes_too_long_is_cut_off(hurried: Running, kind: str, listener: str) -> None:
    """SPEC §9.1: as cowboy does it for RabbitMQ; a client that stays costs a descriptor."""
    with connected(getattr(hurried, listener), KINDS[kind]) as client:
        assert is_ended(client)


def test_client_that_does_not_read_is_cut_off(hurried: Running) -> None:
    """SPEC §9.1: its answer costs memory, too."""
    name, http = "unread", hurried.http()
    assert http.put(f"/api/queues/%2F/{name}").status == 201
    body = {"routing_key": name, "payload": "x" * 15_000_000, "payload_encoding": "string", "properties": {}}
    assert http.post("/api/exchanges/%2F/amq.default/publish", body).status == 200
    before = len(list(Path(f"/proc/{hurried.popen.pid}/fd").iterdir()))
    ask = (
        f"GET /api/queues/%2F/{name}/messages HTTP/1.1\r\nHost: x\r\nAuthorization: {http.headers['Authorization']}\r\n\r\n"
    )
    with connected(hurried.http_port, ask.encode()) as client:
        assert client.recv(1) == b"H"
        eventually(lambda: len(list(Path(f"/proc/{hurried.popen.pid}/fd").iterdir())) <= before)


@pytest.mark.parametrize("kind", ["half a body", "half a piece"])
def test_client_that_goes_before_its_request_is_complete_is_no_fault_of_ours(hurried: Running, kind: str) -> None:
    """SPEC §9.1: nor worth a traceback."""
    said = "gone before its request was complete"
    before = hurried.log.count(said)

    def told() -> bool:
        with connected(hurried.http_port, KINDS[kind]) as client:
            # Who goes at once may be gone before anybody asks for the body.
            client.settimeout(0.05)
            with suppress(TimeoutError):
                client.recv(1)
        return hurried.log.count(said) > before

    eventually(told)
    assert "Traceback" not in hurried.log


@pytest.mark.parametrize(
    "head",
    ["Transfer-Encoding: chunked\r\n\r\nrubbish\r\n", "Content-Encoding: gzip\r\nContent-Length: 7\r\n\r\nrubbish"],
    ids=["pieces", "gzip"],
)
def test_body_that_cannot_be_read_is_refused(hurried: Running, head: str) -> None:
    with connected(hurried.http_port, f"POST /api/login HTTP/1.1\r\nHost: x\r\n{head}".encode()) as client:
        assert client.recv(12)[8:] == b" 400"
