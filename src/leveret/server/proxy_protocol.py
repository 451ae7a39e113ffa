"""The PROXY protocol, versions 1 and 2: a proxy says in the first octets of a connection who its client is.

(1) It is believed only from the addresses that the settings name; they must say it, in the first seconds. From all others
    the octets are what any client says first, and no protocol begins so: who forges a header gets nowhere.
(2) What it says is the client's address from then on, for the log, for limits, and for who may come from this machine only.
(3) A proxy's own connections (LOCAL, UNKNOWN) have the proxy's address.
(4) A header is as long as its protocol lets it be, and not longer than `HEADER_MAX`.

https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
"""

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from typing import cast

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V2_HEAD = 16
V1_MAX = 107
HEADER_MAX = 4096
TIMEOUT_S = 5.0
# Address families of version 2, over a stream: the octets of an address.
STREAMS = {0x11: 4, 0x21: 16}
V1_FAMILIES = {"TCP4": ipaddress.IPv4Address, "TCP6": ipaddress.IPv6Address}

Address = tuple[str, int]
Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
Factory = Callable[[], asyncio.BaseProtocol]

log = logging.getLogger("leveret.server")


class BadHeader(Exception):
    """What a proxy says first is no header."""


class Header:
    """Both ends as the proxy has them, None where it says nothing of them; and how many octets that took."""

    __slots__ = ("destination", "size", "source")

    def __init__(self, size: int, source: Address | None = None, destination: Address | None = None) -> None:
        self.size = size
        self.source = source
        self.destination = destination


def networks_of(text: str) -> Networks:
    """Addresses and networks, with commas or spaces between; ValueError for anything else."""
    return tuple(ipaddress.ip_network(one) for one in text.replace(",", " ").split())


def is_within(host: str, networks: Networks) -> bool:
    """Whether an address is one of these."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


def parse_header(data: bytes) -> Header | None:
    """The header that these octets begin with; None if it is not complete, or BadHeader."""
    if data[: len(SIGNATURE)] == SIGNATURE[: len(data)]:
        return _version_2(data)
    if data[:6] == b"PROXY "[: len(data)]:
        return _version_1(data)
    raise BadHeader("no PROXY header")


def _version_1(data: bytes) -> Header | None:
    end = data.find(b"\r\n", 0, V1_MAX)
    if end < 0:
        if len(data) >= V1_MAX:
            raise BadHeader("a line that does not end")
        return None
    words = data[:end].decode("latin-1").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return Header(end + 2)
    if len(words) != 6 or words[1] not in V1_FAMILIES:
        raise BadHeader("no such line")
    family = V1_FAMILIES[words[1]]
    try:
        ends = [(str(family(host)), _port(port)) for host, port in ((words[2], words[4]), (words[3], words[5]))]
    except ValueError:
        raise BadHeader("bad addresses") from None
    return Header(end + 2, *ends)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 65_535:
        raise ValueError(text)
    return int(text)


def _version_2(data: bytes) -> Header | None:
    if len(data) < V2_HEAD:
        return None
    command, family, length = data[12], data[13], int.from_bytes(data[14:16], "big")
    if command not in (0x20, 0x21):
        raise BadHeader("no such version or command")
    if V2_HEAD + length > HEADER_MAX:
        raise BadHeader("it is too long")
    if len(data) < V2_HEAD + length:
        return None
    size = V2_HEAD + length
    octets = STREAMS.get(family)
    if command == 0x20 or octets is None:
        return Header(size)
    if length < 2 * octets + 4:
        raise BadHeader("its addresses are cut off")
    at = V2_HEAD
    hosts = [str(ipaddress.ip_address(data[at + n * octets : at + (n + 1) * octets])) for n in (0, 1)]
    ports = [int.from_bytes(data[at + 2 * octets + 2 * n : at + 2 * octets + 2 * n + 2], "big") for n in (0, 1)]
    return Header(size, (hosts[0], ports[0]), (hosts[1], ports[1]))


class ProxiedTransport:
    """A socket's transport whose ends are what the proxy said they are."""

    def __init__(self, transport: asyncio.Transport, header: Header) -> None:
        self._transport = transport
        self._ends = {"peername": header.source, "sockname": header.destination}

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._ends[name] if name in self._ends else self._transport.get_extra_info(name, default)

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._transport, name)
        return found


class ProxyHeaderReader(asyncio.Protocol):
    """Reads the header, if whoever connects is a proxy; then the connection is the inner protocol's."""

    def __init__(self, factory: Factory, proxies: Networks) -> None:
        self._factory = factory
        self._proxies = proxies
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple) and is_within(str(peer[0]), self._proxies):
            self._timer = asyncio.get_running_loop().call_later(TIMEOUT_S, self._give_up, "no PROXY header in time")
        else:
            self._hand_over(transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        try:
            header = parse_header(self._data)
        except BadHeader as error:
            self._give_up(f"bad PROXY header: {error}")
            return
        if header is None or self._transport is None:
            return
        rest = self._data[header.size :]
        transport = self._transport
        proxied = transport if header.source is None else ProxiedTransport(transport, header)
        inner = self._hand_over(cast(asyncio.BaseTransport, proxied))
        feed(inner, rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()

    def _hand_over(self, transport: asyncio.BaseTransport) -> asyncio.BaseProtocol:
        assert self._transport is not None
        inner = self._factory()
        self._transport.set_protocol(inner)
        self._stop()
        inner.connection_made(transport)
        return inner

    def _give_up(self, reason: str) -> None:
        transport = self._transport
        self._stop()
        if transport is not None:
            peer = transport.get_extra_info("peername")
            log.error("%s:%s: %s", *peer[:2], reason)
            transport.abort()

    def _stop(self) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()


def feed(inner: asyncio.BaseProtocol, data: bytes) -> None:
    """Give a protocol octets that were read before it was there."""
    if isinstance(inner, asyncio.BufferedProtocol):
        while data:
            buffer = memoryview(inner.get_buffer(len(data))).cast("B")
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            inner.buffer_updated(size)
            data = data[size:]
    elif data:
        cast(asyncio.Protocol, inner).data_received(data)


def over(factory: Factory, proxies: Networks) -> Factory:
    """A factory of the same protocols, behind proxies."""
    return (lambda: ProxyHeaderReader(factory, proxies)) if proxies else factory
