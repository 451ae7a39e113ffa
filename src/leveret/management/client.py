"""Who is connected: connections and channels, with their types, and as the details of other objects name them.

The model knows its connections only by what it may ask of them; here they are what they are, sessions with channels.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from leveret.broker.access import User
from leveret.broker.vhost import VirtualHost
from leveret.protocol.channel import Channel
from leveret.protocol.connection import Connection
from leveret.protocol.session import Session
from leveret.server.transport import Transport

if TYPE_CHECKING:
    from leveret.management.http.request import Request
    from leveret.server.node import Node


class Client(NamedTuple):
    """A client that is logged in: its socket and its AMQP connection."""

    transport: Transport
    connection: Connection

    @property
    def name(self) -> str:
        return self.connection.name

    @property
    def user(self) -> User:
        return self.connection.session.user

    @property
    def vhost(self) -> VirtualHost:
        return self.connection.session.vhost

    @property
    def channels(self) -> dict[int, Channel]:
        return self.connection.session.channels


def connected_clients(node: "Node") -> Iterator[Client]:
    """All clients that are logged in."""
    for transport in node.transports:
        connection = transport.connection
        if connection is not None and connection.session.on_shut is not None:
            yield Client(transport, connection)


def visible_clients(request: "Request") -> Iterator[Client]:
    """The clients that this user may see: all, or only its own."""
    everyones = request.has_tag("monitoring")
    return (client for client in connected_clients(request.node) if everyones or client.user is request.user)


def sessions_in(vhost: VirtualHost) -> Iterator[Session]:
    """The sessions of the clients in a vhost."""
    return (client for client in vhost.clients if isinstance(client, Session))


def channels_in(vhost: VirtualHost) -> Iterator[Channel]:
    """The channels that clients have in a vhost."""
    for session in sessions_in(vhost):
        yield from session.channels.values()


def channel_name(channel: Channel) -> str:
    return f"{channel.session.connection_name} ({channel.number})"


def connection_details(session: Session) -> dict[str, str | int]:
    """A connection as it is named beside what it has to do with, from what its name says."""
    host, _, port = session.connection_name.partition(" -> ")[0].rpartition(":")
    return {
        "name": session.connection_name,
        "peer_host": host,
        "peer_port": int(port) if port.isdigit() else 0,
    }


def channel_details(channel: Channel) -> dict[str, str | int]:
    """A channel as it is named beside what it has to do with."""
    session = channel.session
    connection = connection_details(session)
    return {
        "name": channel_name(channel),
        "number": channel.number,
        "node": session.broker.settings.node_name,
        "user": session.user.name,
        "connection_name": connection["name"],
        "peer_host": connection["peer_host"],
        "peer_port": connection["peer_port"],
    }
