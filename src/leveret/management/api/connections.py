"""Connections: what they are and do, and how to end them."""

from leveret.management.api.channels import channel_view
from leveret.management.client import Client, connected_clients, visible_clients
from leveret.management.http.answer import Answer, Refused, done, not_found, stats_disabled
from leveret.management.http.json import JsonObject
from leveret.management.http.json_table import to_json
from leveret.management.http.list_answer import answer_long_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import USER, VHOST, Result, Route
from leveret.management.statistics.queue_stats import GARBAGE_COLLECTION
from leveret.management.statistics.rate import with_rates
from leveret.management.statistics.sampler import CONNECTION_NAMES, connection_values
from leveret.management.tls_view import NAMES as TLS_NAMES
from leveret.management.tls_view import tls_view
from leveret.protocol.channel import Channel

SHORT = ("name", "node", "user", "vhost")
CLOSED_HERE = "Closed via management plugin"


def connection_view(request: Request, client: Client) -> JsonObject:
    """A connection as the API shows it."""
    transport, connection = client
    counts = dict(zip(CONNECTION_NAMES, connection_values(transport), strict=True))
    return {
        "name": connection.name,
        "vhost": client.vhost.name,
        "user": client.user.name,
        "user_who_performed_action": client.user.name,
        "user_provided_name": str(connection.client_properties.get("connection_name", "")),
        "node": request.broker.settings.node_name,
        "protocol": "Direct 0-9-1" if transport.direct else "AMQP 0-9-1",
        "type": "direct" if transport.direct else "network",
        "state": connection.status,
        "channels": len(client.channels),
        "channel_max": connection.channel_max,
        "frame_max": connection.reader.frame_max,
        "timeout": connection.heartbeat.interval_ms // 1000,
        "connected_at": connection.connected_at,
        "client_properties": to_json(connection.client_properties),
        "auth_mechanism": connection.mechanism,
        "ssl": transport.endpoint is not None and transport.endpoint.tls,
        "host": transport.local[0],
        "port": transport.local[1],
        "peer_host": transport.peer[0],
        "peer_port": transport.peer[1],
        **with_rates(counts, request.statistics.of(transport), request.query),
        "send_pend": transport.unsent_bytes(),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": GARBAGE_COLLECTION,
        **tls_view(transport.tls),
    }


async def get_connections(request: Request) -> Answer:
    """All connections, or those to one vhost."""
    vhost = request.vhost if "vhost" in request.path else None
    return await _list(request, [one for one in visible_clients(request) if vhost is None or one.vhost is vhost])


def listed_view(request: Request, client: Client) -> JsonObject:
    """A connection in a list."""
    view = connection_view(request, client)
    return {name: view[name] for name in SHORT} if request.without_stats else view


async def get_user_connections(request: Request) -> Answer:
    """The connections of one user."""
    return await _list(request, _of_user(request))


def get_connection(request: Request) -> Result:
    """One connection."""
    view = connection_view(request, _named(request))
    # RabbitMQ: here, and not in lists, what it has not is an empty text.
    return select_columns(request.query, view | {name: "" for name in TLS_NAMES if view[name] is None})


async def delete_connection(request: Request) -> Result:
    """Close a connection; the header X-Reason may give the reason."""
    client = _named(request, "administrator")
    await request.change(client.transport.shut, _reason(request))
    return done()


async def delete_user_connections(request: Request) -> Result:
    """Close all connections of one user."""
    for client in _of_user(request, "administrator"):
        await request.change(client.transport.shut, _reason(request))
    return done()


async def get_connection_channels(request: Request) -> Answer:
    """The channels of one connection."""
    if request.without_stats:
        raise stats_disabled()
    client = _named(request)

    def view(channel: Channel) -> JsonObject:
        return channel_view(request, client, channel)

    def key_of(channel: Channel) -> tuple[str, str]:
        return f"{channel.number:5}", f"{client.name} ({channel.number})"

    return await answer_long_list(request.query, list(client.channels.values()), view, key_of)


async def _list(request: Request, clients: list[Client]) -> Answer:
    return await answer_long_list(
        request.query, clients, lambda client: listed_view(request, client), lambda client: (client.name,)
    )


def _named(request: Request, tag: str = "monitoring") -> Client:
    """The connection that the path names; 404 if there is none, 401 if it is another's and the user has no such tag."""
    name = request.path["connection"]
    for client in connected_clients(request.node):
        if client.name == name:
            if not request.has_tag(tag) and client.user is not request.user:
                raise Refused(401, "User not authorised to access object")
            return client
    raise not_found()


def _of_user(request: Request, tag: str = "monitoring") -> list[Client]:
    name = request.path["user"]
    if not request.has_tag(tag) and name != request.user.name:
        raise Refused(401, "User not authorised to access object")
    return [client for client in visible_clients(request) if client.user.name == name]


def _reason(request: Request) -> str:
    return request.headers.get("X-Reason") or CLOSED_HERE


ROUTES = [
    Route("GET", "/api/connections", USER, get_connections),
    Route("GET", "/api/connections/username/{user}", USER, get_user_connections),
    Route("DELETE", "/api/connections/username/{user}", USER, delete_user_connections),
    Route("GET", "/api/connections/{connection}", USER, get_connection),
    Route("DELETE", "/api/connections/{connection}", USER, delete_connection),
    Route("GET", "/api/connections/{connection}/channels", USER, get_connection_channels),
    Route("GET", "/api/vhosts/{vhost}/connections", VHOST, get_connections),
]
