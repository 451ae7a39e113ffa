"""Listeners: where file descriptors are used up, clients wait, that is said, and it goes on when there are some again."""

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.management.support import Http
from tests.properties.dialogue import PROTOCOL_HEADER
from tests.server.support import PATIENCE, Process, eventually

from leveret.server.listener import Listener, connections_limit, files_limit, listen, listen_at

LIMIT = 120
# As `ulimit -n` does it, for the broker alone.
LIMITED = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT})); " + (
    "from leveret.cli.main import main; main()"
)
SAID = "file descriptor limit reached"


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path, program=("-c", LIMITED)) as process:
        yield process


def connect(port: int, octets: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.sendall(octets)
    return client


@pytest.mark.parametrize("listener", ["port", "http_port", "prometheus_port"])
def test_clients_wait_while_descriptors_are_used_up(limited: Process, listener: str) -> None:
    """SPEC §9.6: nobody is turned away, nothing else stops, and the log has a line a second."""
    port = getattr(limited, listener)
    # The request is not complete; so nobody is answered and closed.
    octets = PROTOCOL_HEADER if listener == "port" else b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
    rest = b"" if listener == "port" else b"\r\n"
    began = time.monotonic()
    clients = [connect(port, octets) for _ in range(2 * LIMIT)]
    try:
        eventually(lambda: limited.log.count(SAID) >= 2)
        assert limited.log.count(SAID) <= time.monotonic() - began + 1
        assert len(list(Path(f"/proc/{limited.popen.pid}/fd").iterdir())) < LIMIT
        if listener == "port":
            for other in (limited.http_port, limited.prometheus_port):
                assert Http(other).ask("GET", "/metrics").status == 200
        for client in clients[:-1]:
            client.close()
        # Not as a hope: it was in the backlog all the time.
        clients[-1].sendall(rest)
        assert clients[-1].recv(1)
    finally:
        for client in clients:
            client.close()
    shown = f"127.0.0.1:{port}"
    assert re.search(rf"not accepting connections on {shown} for now: {SAID}, \d+ of {LIMIT} are in use\n", limited.log)


def test_limit_is_told_as_rabbitmq_tells_it(limited: Process) -> None:
    """SPEC §9.1: sockets_total is nine tenths of fd_total, less two."""
    (node,) = Http(limited.http_port).get("/api/nodes")
    assert (node["fd_total"], node["sockets_total"]) == (LIMIT, LIMIT * 9 // 10 - 2)
    assert connections_limit() == int(files_limit() * 0.9) - 2


class Seen(asyncio.Protocol):
    """Says who came."""

    def __init__(self, made: list[asyncio.BaseTransport]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


def test_whoever_was_accepted_is_known_when_it_is_closed() -> None:
    """SPEC §9.6: a client that comes while the broker stops is closed too."""

    async def run() -> None:
        made: list[asyncio.BaseTransport] = []
        listener = await listen("127.0.0.1", 0, lambda: Seen(made), 1.0)
        address = listener.address
        with socket.create_connection(address):
            listener._accept(listener.sockets[0])
            assert made == []
            await listener.close()
            assert len(made) == 1
            made[0].close()
            await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    asyncio.run(run())


def test_address_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    """SPEC §9.5: one line says what is wrong."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="address already in use"):
            await listen("127.0.0.1", taken.getsockname()[1], asyncio.Protocol, 1.0)
        with pytest.raises(OSError, match="too long"):
            listen_at(tmp_path / ("x" * 200), asyncio.Protocol, 1.0)
        both = await listen("localhost", 0, asyncio.Protocol, 1.0)
        assert isinstance(both, Listener)
        await both.close()

    asyncio.run(run())
