"""Connections of which this broker is the client: to other brokers over the network, to itself through a pair of sockets."""

import asyncio
import itertools
import socket
from collections.abc import Callable

from leveret.broker.access import TrustedUser, User
from leveret.broker.broker import Broker
from leveret.client.client import Client, connect, uninterrupted
from leveret.client.fault import Disconnected
from leveret.protocol.peer import Peer
from leveret.server.transport import LOOPBACK, Transport
from leveret.uri import Uri

# RabbitMQ: who connects from within is called so, and may pass on messages with anybody's user-id.
NOBODY = "none"


class Connector:
    """Opens them. `transport` makes the broker's end of one to itself, for the peer that is at the other."""

    def __init__(self, broker: Broker, transport: Callable[[Peer], Transport]) -> None:
        self._broker = broker
        self._transport = transport
        self._numbers = itertools.count(1)

    async def connect(self, uri: Uri, name: str) -> Client:
        """Connect to where a URI says, as a client of this name; or ClientFault."""
        if not uri.local:
            return await connect(uri, name)
        peer = Peer(f"<{self._broker.settings.node_name}.{next(self._numbers)}>", LOOPBACK, self._identity(uri))
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await uninterrupted(loop.connect_accepted_socket(lambda: self._transport(peer), theirs))
        except BaseException:
            ours.close()
            raise
        return await connect(uri, name, ours)

    def _identity(self, uri: Uri) -> User | None:
        """Who a URI without a host means: whoever has set it up may enter the vhost; None must show its password."""
        if uri.user is None:
            return TrustedUser(NOBODY, "", ("impersonator",))
        if uri.password is not None:
            return None
        if uri.user not in self._broker.users:
            raise Disconnected(f"no user '{uri.user}'")
        return self._broker.users[uri.user]
