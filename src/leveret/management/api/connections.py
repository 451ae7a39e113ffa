"""Connections: what they are and do, and how to end them."""

from collections.abc import Iterator
from typing import Any

from leveret.management.answers import Answer, Refused, done, not_found, stats_disabled
from leveret.management.api.channels import channel_view
from leveret.management.asking import Ask
from leveret.management.backlog import GARBAGE_COLLECTION
from leveret.management.lists import chosen
from leveret.management.pieces import listed_in_pieces
from leveret.management.rates import with_rates
from leveret.management.routes import USER, VHOST, Result, Route
from leveret.management.statistics import CONNECTION_NAMES, connection_values
from leveret.management.values import plain
from leveret.protocol.channel import Channel
from leveret.protocol.connection import Connection
from leveret.server.transport import Transport

# What is known only of connections with TLS.
TLS = (
    "ssl_protocol",
    "ssl_key_exchange",
    "ssl_cipher",
    "ssl_hash",
    "peer_cert_subject",
    "peer_cert_issuer",
    "peer_cert_validity",
)
SHORT = ("name", "node", "user", "vhost")
CLOSED_HERE = "Closed via management plugin"


def open_connections(ask: Ask) -> Iterator[tuple[Transport, Connection]]:
    """The connections that are logged in and that this user may see: all, or only its own."""
    everyones = ask.has_tag("monitoring")
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is None or connection.session.on_shut is None:
            continue
        if everyones or connection.session.user is ask.user:
            yield transport, connection


def connection_view(ask: Ask, transport: Transport, connection: Connection) -> dict[str, Any]:
    """A connection as the API shows it."""
    session = connection.session
    counts = dict(zip(CONNECTION_NAMES, connection_values(transport), strict=True))
    return {
        "name": connection.name,
        "vhost": session.vhost.name,
        "user": session.user.name,
        "user_who_performed_action": session.user.name,
        "user_provided_name": str(connection.client_properties.get("connection_name", "")),
        "node": ask.broker.settings.node_name,
        "protocol": "Direct 0-9-1" if transport.direct else "AMQP 0-9-1",
        "type": "direct" if transport.direct else "network",
        "state": connection.status,
        "channels": len(session.channels),
        "channel_max": connection.channel_max,
        "frame_max": connection.reader.frame_max,
        "timeout": connection.heartbeat_ms // 1000,
        "connected_at": connection.connected_at,
        "client_properties": plain(connection.client_properties),
        "auth_mechanism": connection.mechanism,
        "ssl": False,
        "host": transport.local[0],
        "port": transport.local[1],
        "peer_host": transport.peer[0],
        "peer_port": transport.peer[1],
        **with_rates(counts, ask.statistics.of(transport), ask.query),
        "send_pend": transport.unsent_bytes(),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": GARBAGE_COLLECTION,
        **dict.fromkeys(TLS),
    }


async def get_connections(ask: Ask) -> Answer:
    """All connections, or those to one vhost."""
    vhost = ask.vhost if "vhost" in ask.path else None
    return await _listed(ask, [pair for pair in open_connections(ask) if vhost is None or pair[1].session.vhost is vhost])


def listed_view(ask: Ask, transport: Transport, connection: Connection) -> dict[str, Any]:
    """A connection in a list."""
    view = connection_view(ask, transport, connection)
    return {name: view[name] for name in SHORT} if ask.without_stats else view


async def get_user_connections(ask: Ask) -> Answer:
    """The connections of one user."""
    return await _listed(ask, _of_user(ask))


def get_connection(ask: Ask) -> Result:
    """One connection."""
    view = connection_view(ask, *_named(ask))
    # RabbitMQ: here, and not in lists, what it has not is an empty text.
    return chosen(ask.query, view | {name: "" for name in TLS if view[name] is None})


async def delete_connection(ask: Ask) -> Result:
    """End a connection, for the reason in the header X-Reason."""
    transport, _ = _named(ask, "administrator")
    await ask.change(transport.shut, _reason(ask))
    return done()


async def delete_user_connections(ask: Ask) -> Result:
    """End all connections of one user."""
    for transport, _ in _of_user(ask, "administrator"):
        await ask.change(transport.shut, _reason(ask))
    return done()


async def get_connection_channels(ask: Ask) -> Answer:
    """The channels of one connection."""
    if ask.without_stats:
        raise stats_disabled()
    _, connection = _named(ask)

    def view(channel: Channel) -> dict[str, Any]:
        return channel_view(ask, connection, channel)

    channels = list(connection.session.channels.values())
    return await listed_in_pieces(
        ask.query, channels, view, lambda channel: (f"{channel.number:5}", f"{connection.name} ({channel.number})")
    )


async def _listed(ask: Ask, pairs: list[tuple[Transport, Connection]]) -> Answer:
    return await listed_in_pieces(ask.query, pairs, lambda pair: listed_view(ask, *pair), lambda pair: (pair[1].name,))


def _named(ask: Ask, tag: str = "monitoring") -> tuple[Transport, Connection]:
    """The connection that the path names; 404 if there is none, 401 if it is another's and the user has no such tag."""
    name = ask.path["connection"]
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is not None and connection.name == name and connection.session.on_shut is not None:
            if not ask.has_tag(tag) and connection.session.user is not ask.user:
                raise Refused(401, "User not authorised to access object")
            return transport, connection
    raise not_found()


def _of_user(ask: Ask, tag: str = "monitoring") -> list[tuple[Transport, Connection]]:
    name = ask.path["user"]
    if not ask.has_tag(tag) and name != ask.user.name:
        raise Refused(401, "User not authorised to access object")
    return [pair for pair in open_connections(ask) if pair[1].session.user.name == name]


def _reason(ask: Ask) -> str:
    return ask.headers.get("X-Reason") or CLOSED_HERE


ROUTES = [
    Route("GET", "/api/connections", USER, get_connections),
    Route("GET", "/api/connections/username/{user}", USER, get_user_connections),
    Route("DELETE", "/api/connections/username/{user}", USER, delete_user_connections),
    Route("GET", "/api/connections/{connection}", USER, get_connection),
    Route("DELETE", "/api/connections/{connection}", USER, delete_connection),
    Route("GET", "/api/connections/{connection}/channels", USER, get_connection_channels),
    Route("GET", "/api/vhosts/{vhost}/connections", VHOST, get_connections),
]
