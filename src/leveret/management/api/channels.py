"""Channels: their state, their limits and what they have done."""

from leveret.management.api.consumers import consumer_view
from leveret.management.client import Client, channel_name, connected_clients, connection_details, visible_clients
from leveret.management.http.answer import Answer, Refused, not_found, stats_disabled
from leveret.management.http.json import JsonObject
from leveret.management.http.json_time import iso_time
from leveret.management.http.list_answer import answer_long_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import USER, VHOST, Result, Route
from leveret.management.statistics.breakdown import channel_deliveries, channel_publishes
from leveret.management.statistics.queue_stats import GARBAGE_COLLECTION
from leveret.management.statistics.rate import with_rates
from leveret.protocol.channel import Channel
from leveret.protocol.states import CHANNEL_CLOSING, CHANNEL_OPEN

Found = tuple[Client, Channel]


def channel_view(request: Request, client: Client, channel: Channel) -> JsonObject:
    """A channel as the API shows it."""
    transaction, confirms = channel.transaction, channel.confirms
    uncommitted = ([], []) if transaction is None else (transaction.publishes, transaction.entries())
    view: JsonObject = {
        "name": channel_name(channel),
        "number": channel.number,
        "node": request.broker.settings.node_name,
        "vhost": channel.vhost.name,
        "user": client.user.name,
        "user_who_performed_action": client.user.name,
        "connection_details": connection_details(channel.session),
        "state": state_of(client, channel),
        "confirm": confirms is not None,
        "transactional": transaction is not None,
        "prefetch_count": channel.consumers.prefetch.count_limit,
        "global_prefetch_count": channel.channel_window.count_limit,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": channel.unacked.count,
        "messages_unconfirmed": 0 if confirms is None else confirms.published - confirms.told,
        "messages_uncommitted": len(uncommitted[0]),
        "acks_uncommitted": len(uncommitted[1]),
        "pending_raft_commands": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": GARBAGE_COLLECTION,
        "message_stats": with_rates(channel.counters.counts(), request.statistics.of(channel), request.query),
    }
    idle_since = request.statistics.idle_since(channel, client.connection.connected_at)
    if idle_since is not None:
        view["idle_since"] = iso_time(idle_since)
    return view


def state_of(client: Client, channel: Channel) -> str:
    if channel.state != CHANNEL_OPEN:
        return "closing" if channel.state == CHANNEL_CLOSING else "starting"
    return "flow" if client.connection.status == "flow" else "running"


async def get_channels(request: Request) -> Answer:
    """All channels, or those of one vhost."""
    if request.without_stats:
        raise stats_disabled()
    vhost = request.vhost if "vhost" in request.path else None
    found = [
        (client, channel)
        for client in visible_clients(request)
        for channel in client.channels.values()
        if vhost is None or channel.vhost is vhost
    ]
    return await answer_long_list(request.query, found, lambda one: channel_view(request, *one), channel_key)


def channel_key(found: Found) -> tuple[str, str, str]:
    """By connection and number, not by the letters of the number."""
    client, channel = found
    return client.name, f"{channel.number:5}", channel_name(channel)


async def get_channel(request: Request) -> Result:
    """One channel, with its consumers."""
    if request.without_stats:
        raise stats_disabled()
    name = request.path["channel"]
    for client in connected_clients(request.node):
        for channel in client.channels.values() if name.startswith(client.name) else ():
            if channel_name(channel) == name:
                if not request.has_tag("monitoring") and client.user is not request.user:
                    raise Refused(401, "User not authorised to access object")
                return select_columns(request.query, await _whole_view(request, client, channel))
    raise not_found()


async def _whole_view(request: Request, client: Client, channel: Channel) -> JsonObject:
    return {
        **channel_view(request, client, channel),
        "consumer_details": [consumer_view(request, channel, consumer) for consumer in channel.consumers.by_tag.values()],
        "publishes": channel_publishes(request, channel),
        "deliveries": await channel_deliveries(request, channel),
    }


ROUTES = [
    Route("GET", "/api/channels", USER, get_channels),
    Route("GET", "/api/channels/{channel}", USER, get_channel),
    Route("GET", "/api/vhosts/{vhost}/channels", VHOST, get_channels),
]
