"""The PROXY protocol: who is believed, and what."""

import socket
import struct

import pytest
from tests.properties.dialogue import PROTOCOL_HEADER
from tests.server.support import PATIENCE, Client, InProcess

from leveret.server.config import Config
from leveret.server.proxy_protocol import HEADER_MAX, SIGNATURE, BadHeader, is_within, networks_of, parse_header

V1 = b"PROXY TCP4 192.0.2.1 198.51.100.1 1111 5672\r\n"


def v2(source: str = "192.0.2.1", command: int = 0x21, family: int = 0x11, more: bytes = b"") -> bytes:
    kind = socket.AF_INET6 if ":" in source else socket.AF_INET
    body = socket.inet_pton(kind, source) * 2 + struct.pack(">HH", 1111, 5672) + more
    return SIGNATURE + bytes([command, family]) + len(body).to_bytes(2, "big") + body


@pytest.mark.parametrize(
    ("data", "source"),
    [
        (V1, ("192.0.2.1", 1111)),
        (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n", ("2001:db8::1", 1)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (v2(), ("192.0.2.1", 1111)),
        (v2("2001:db8::1", family=0x21), ("2001:db8::1", 1111)),
        (v2(more=b"\x04\x00\x01x"), ("192.0.2.1", 1111)),
        (v2(command=0x20), None),
        (v2(family=0x00), None),
    ],
)
def test_header_is_read_whole_and_byte_by_byte(data: bytes, source: tuple[str, int] | None) -> None:
    for size in range(len(data)):
        assert parse_header(data[:size]) is None, size
    for rest in (b"", b"AMQP"):
        header = parse_header(data + rest)
        assert header is not None
        assert (header.source, header.size) == (source, len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"AMQP\x00\x00\x09\x01",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1111\r\n",
        b"PROXY TCP4 2001:db8::1 198.51.100.1 1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 -1 2\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n",
        b"PROXY TCP9 a b 1 2\r\n",
        b"PROXY " + b"x" * 101,
        v2(command=0x11),
        v2(command=0x22),
        v2(family=0x21),
        SIGNATURE + b"\x21\x11" + (HEADER_MAX - 15).to_bytes(2, "big"),
    ],
)
def test_bad_header(data: bytes) -> None:
    with pytest.raises(BadHeader):
        parse_header(data)


def test_longest_headers() -> None:
    assert parse_header(v2(more=bytes(HEADER_MAX - 16 - 12))) is not None
    line = b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n"
    assert len(line) == 107
    header = parse_header(line)
    assert header is not None
    with pytest.raises(BadHeader):
        parse_header(b"x".join(line.split(b"x", 1))[:14] + b"x" * 92 + b"\r\n")


@pytest.mark.parametrize(
    ("host", "within"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("11.0.0.1", False), ("::1", True), ("::2", False), ("", False)],
)
def test_who_is_a_proxy(host: str, within: bool) -> None:
    assert is_within(host, networks_of("10.0.0.0/8, ::1")) is within


def peer_after(node: InProcess, first: bytes) -> str:
    with node.connect() as client:
        client.socket.sendall(first + PROTOCOL_HEADER)
        client.frame()
        found: list[str] = node.call(lambda: [transport.peer[0] for transport in node.node.transports])
        assert len(found) == 1
        return found[0]


@pytest.mark.parametrize("header", [V1, v2()], ids=["v1", "v2"])
def test_proxy_that_is_named_is_believed(header: bytes) -> None:
    with InProcess(Config(port=0, storage="memory", proxy_protocol_from="127.0.0.1")) as node:
        assert peer_after(node, header) == "192.0.2.1"


def test_cve_2026_57216_guest_behind_a_proxy_is_not_on_this_machine() -> None:
    """The proxy is on this machine, its client is not: the client decides."""
    with (
        InProcess(Config(port=0, storage="memory", proxy_protocol_from="127.0.0.1")) as node,
        node.connect() as client,
    ):
        client.socket.sendall(V1)
        with pytest.raises((AssertionError, OSError)):
            client.login()


def test_cve_2026_67411_header_of_anybody_else_is_not_believed() -> None:
    """A forged header made anybody a client of this machine. Here it is a bad protocol header."""
    with InProcess(Config(port=0, storage="memory", proxy_protocol_from="192.0.2.99")) as node:
        with node.connect() as client:
            client.socket.sendall(b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n")
            assert received(client) == PROTOCOL_HEADER
        assert peer_after(node, b"") == "127.0.0.1"


def test_proxy_must_say_it() -> None:
    with (
        InProcess(Config(port=0, storage="memory", proxy_protocol_from="127.0.0.1")) as node,
        node.connect() as client,
    ):
        client.socket.sendall(PROTOCOL_HEADER)
        assert received(client) == b""


def received(client: Client) -> bytes:
    """All that comes until the end."""
    client.socket.settimeout(PATIENCE)
    data = b""
    try:
        while piece := client.socket.recv(4096):
            data += piece
    except ConnectionResetError:
        pass
    return data
