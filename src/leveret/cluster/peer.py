"""The sockets of links: one connection for each pair of nodes, made by either and kept by both.

(1) Every node dials those it has been told of and has no link to. If two have dialed each other at once, the connection of
    the one whose name comes first stays.
(2) A node says that it is there twice a second; one that says nothing for 5 s is hung up on.
(3) A link that has broken one of its rules is closed and begun anew.
(4) What is said to a node that does not read is kept up to a bound; beyond that its link is closed.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import cast

import msgspec

from leveret.cluster.link import BadLink, Hello, Link, Refusal

TICK_S = 0.5
DIAL_S = 2.0
GREETING_S = 5.0
SILENT_S = 5.0
UNREAD_MAX = 64 << 20

log = logging.getLogger("leveret.cluster")

Address = tuple[str, int]


class Peer(asyncio.Protocol):
    """One connection with another node, or with whoever says so."""

    def __init__(self, peers: "Peers", dialed: Address | None) -> None:
        self._peers = peers
        self.dialed = dialed
        self.link = Link(peers.hello(), peers.secret, peers.judge, dialed is not None)
        self.heard_at = peers.loop.time()
        self.transport: asyncio.Transport | None = None
        self._was_open = False

    @property
    def node(self) -> str:
        return "" if self.link.theirs is None else self.link.theirs.node

    @property
    def dialer(self) -> str:
        """Who has made the connection."""
        return self.link.mine.node if self.dialed is not None else self.node

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._peers.everyone.add(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._peers.loop.time()
        try:
            records = self.link.receive(data)
        except BadLink as error:
            log.warning("link with node '%s': %s; it is begun anew", self.node, error)
            self.abort()
            return
        if self.link.is_open and not self._was_open:
            self._was_open = True
            self._peers.opened(self)
        refusal = self.link.has_refused or self.link.refused
        if refusal is not None:
            self._peers.refused(self, refusal)
            self.flush()
            self.close()
            return
        self.flush()
        for kind, octets in records:
            try:
                self._peers.on_record(self.node, kind, octets)
            except msgspec.DecodeError as error:
                log.warning("link with node '%s': %s; it is begun anew", self.node, error)
                self.abort()
                return

    def connection_lost(self, exc: Exception | None) -> None:
        self._peers.everyone.discard(self)
        self._peers.closed(self)

    def send(self, kind: int, octets: bytes) -> None:
        """Say something; it goes out at once, as nothing that is said so far is worth waiting for company."""
        self.link.send(kind, octets)
        self.flush()

    def flush(self) -> None:
        transport = self.transport
        octets = self.link.take_output()
        if transport is None or not octets or transport.is_closing():
            return
        transport.write(octets)
        if transport.get_write_buffer_size() > UNREAD_MAX:
            log.warning("node '%s' does not read: its link is begun anew", self.node)
            self.abort()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Peers:
    """All connections with other nodes.

    `hello` is what is said of this node, with a new nonce each time; `judge` says who may come in. `on_open`, `on_closed`
    and `on_record` are told of links that are open; `on_refused` that this node was refused, or has refused whom it dialed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        mine: Callable[[str], Hello],
        secret: bytes,
        judge: Callable[[Hello], Refusal | None],
        on_open: Callable[[Hello], None],
        on_closed: Callable[[str], None],
        on_record: Callable[[str, int, bytes], None],
        on_refused: Callable[[Refusal], None],
    ) -> None:
        self.loop = loop
        self.secret = secret
        self.judge = judge
        self.on_record = on_record
        self._mine = mine
        self._on_open = on_open
        self._on_closed = on_closed
        self._on_refused = on_refused
        self.everyone: set[Peer] = set()
        # Open, by the other's name.
        self.links: dict[str, Peer] = {}
        self._addresses: set[Address] = set()
        # Whom an address has turned out to be, and which are being dialed.
        self._found: dict[Address, str] = {}
        self._dialing: dict[Address, asyncio.Task[None]] = {}
        # What was said already: a node that is refused tries again and again.
        self._told: set[tuple[str, str]] = set()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    def hello(self) -> Hello:
        return self._mine(secrets.token_hex(16))

    async def listen(self, host: str, port: int) -> int:
        """Let others come in; the port. OSError if that cannot be."""
        self._server = await self.loop.create_server(lambda: Peer(self, None), host, port)
        return int(self._server.sockets[0].getsockname()[1])

    def start(self, addresses: Iterable[Address]) -> None:
        self._addresses |= set(addresses)
        self._tick()

    def know(self, address: Address) -> None:
        """There is a node at this address."""
        if address not in self._addresses:
            self._addresses.add(address)
            self._dial_missing()

    def forget(self, address: Address, node: str) -> None:
        """There is none any more."""
        self._addresses.discard(address)
        if node in self.links:
            self.links[node].abort()

    async def stop(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        tasks = list(self._dialing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for peer in list(self.everyone):
            peer.abort()
        await asyncio.sleep(0)

    def say(self, kind: int, octets: bytes, node: str | None = None) -> None:
        """Say something to a node, or to all."""
        found = list(self.links.values()) if node is None else [self.links[node]] if node in self.links else []
        for peer in found:
            peer.send(kind, octets)

    def names(self) -> list[str]:
        return sorted(self.links)

    # What peers tell

    def opened(self, peer: Peer) -> None:
        theirs = peer.link.theirs
        assert theirs is not None
        if peer.dialed is not None:
            self._found[peer.dialed] = theirs.node
        known = self.links.get(theirs.node)
        if known is not None and not self._gives_way(known, peer):
            peer.abort()
            return
        self.links[theirs.node] = peer
        if known is not None:
            known.abort()
        self._on_open(theirs)

    def _gives_way(self, known: Peer, new: Peer) -> bool:
        """Whether an open link is given up for another with the same node."""
        assert known.link.theirs is not None
        assert new.link.theirs is not None
        if known.link.theirs.incarnation != new.link.theirs.incarnation:
            return new.link.theirs.incarnation > known.link.theirs.incarnation
        return known.dialer == new.dialer or new.dialer == min(new.node, new.link.mine.node)

    def closed(self, peer: Peer) -> None:
        if self.links.get(peer.node) is peer:
            del self.links[peer.node]
            self._on_closed(peer.node)

    def refused(self, peer: Peer, refusal: Refusal) -> None:
        if refusal.rule == "self":
            assert peer.link.theirs is not None
            if peer.dialed is not None:
                self._addresses.discard(peer.dialed)
            return
        if (peer.node, refusal.rule) not in self._told:
            self._told.add((peer.node, refusal.rule))
            log.error("no link with node '%s': %s", peer.node, refusal.text)
        if peer.link.refused is not None or peer.dialed is not None:
            self._on_refused(peer.link.refused or refusal)

    # Now and then

    def _tick(self) -> None:
        self._timer = self.loop.call_later(TICK_S, self._tick)
        now = self.loop.time()
        for peer in list(self.everyone):
            if now - peer.heard_at > (SILENT_S if peer.link.is_open else GREETING_S):
                peer.abort()
        self._dial_missing()

    def _dial_missing(self) -> None:
        for address in self._addresses:
            if address not in self._dialing and self._found.get(address) not in self.links:
                self._dialing[address] = self.loop.create_task(self._dial(address))

    async def _dial(self, address: Address) -> None:
        try:
            async with asyncio.timeout(DIAL_S):
                await self.loop.create_connection(lambda: Peer(self, address), *address)
            # Until it is known who that is.
            await asyncio.sleep(DIAL_S)
        except OSError as error:
            log.debug("%s:%d: %s", *address, error)
        finally:
            self._dialing.pop(address, None)
