"""Channels: their state, their limits and what they have done."""

from collections.abc import Iterator
from typing import Any

from leveret.management.answers import Answer, Refused, not_found, stats_disabled
from leveret.management.asking import Ask
from leveret.management.backlog import GARBAGE_COLLECTION
from leveret.management.consuming import channel_name, connection_details, consumer_view
from leveret.management.lists import chosen
from leveret.management.moments import moment
from leveret.management.parts import delivered, published
from leveret.management.pieces import listed_in_pieces
from leveret.management.rates import with_rates
from leveret.management.routes import USER, VHOST, Result, Route
from leveret.protocol.channel import Channel
from leveret.protocol.connection import Connection
from leveret.protocol.states import CHANNEL_CLOSING, CHANNEL_OPEN

Found = tuple[Connection, Channel]


def open_channels(ask: Ask) -> Iterator[Found]:
    """The channels that this user may see: all, or only those of its own connections."""
    everyones = ask.has_tag("monitoring")
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is None or connection.session.on_shut is None:
            continue
        if everyones or connection.session.user is ask.user:
            for channel in connection.session.channels.values():
                yield connection, channel


def channel_view(ask: Ask, connection: Connection, channel: Channel) -> dict[str, Any]:
    """A channel as the API shows it."""
    transaction, confirms = channel.transaction, channel.confirms
    uncommitted = ([], []) if transaction is None else (transaction.publishes, transaction.entries())
    view = {
        "name": channel_name(channel),
        "number": channel.number,
        "node": ask.broker.settings.node_name,
        "vhost": channel.vhost.name,
        "user": connection.session.user.name,
        "user_who_performed_action": connection.session.user.name,
        "connection_details": connection_details(connection.session),
        "state": state_of(connection, channel),
        "confirm": confirms is not None,
        "transactional": transaction is not None,
        "prefetch_count": channel.prefetch.count_limit,
        "global_prefetch_count": channel.shared.count_limit,
        "consumer_count": len(channel.consumers),
        "messages_unacknowledged": channel.unacked.count,
        "messages_unconfirmed": 0 if confirms is None else confirms.published - confirms.told,
        "messages_uncommitted": len(uncommitted[0]),
        "acks_uncommitted": len(uncommitted[1]),
        "pending_raft_commands": 0,
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "garbage_collection": GARBAGE_COLLECTION,
        "message_stats": with_rates(channel.tally.counts(), ask.statistics.of(channel), ask.query),
    }
    idle_since = ask.statistics.idle_since(channel, connection.connected_at)
    if idle_since is not None:
        view["idle_since"] = moment(idle_since)
    return view


def state_of(connection: Connection, channel: Channel) -> str:
    if channel.state != CHANNEL_OPEN:
        return "closing" if channel.state == CHANNEL_CLOSING else "starting"
    return "flow" if connection.status == "flow" else "running"


async def get_channels(ask: Ask) -> Answer:
    """All channels, or those of one vhost."""
    if ask.without_stats:
        raise stats_disabled()
    vhost = ask.vhost if "vhost" in ask.path else None
    found = [one for one in open_channels(ask) if vhost is None or one[1].vhost is vhost]
    return await listed_in_pieces(ask.query, found, lambda one: channel_view(ask, *one), channel_key)


def channel_key(found: Found) -> tuple[str, str, str]:
    """By connection and number, not by the letters of the number."""
    connection, channel = found
    return connection.name, f"{channel.number:5}", channel_name(channel)


async def get_channel(ask: Ask) -> Result:
    """One channel, with its consumers."""
    if ask.without_stats:
        raise stats_disabled()
    name = ask.path["channel"]
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is None or connection.session.on_shut is None or not name.startswith(connection.name):
            continue
        for channel in connection.session.channels.values():
            if channel_name(channel) == name:
                if not ask.has_tag("monitoring") and connection.session.user is not ask.user:
                    raise Refused(401, "User not authorised to access object")
                return chosen(ask.query, await _whole_view(ask, connection, channel))
    raise not_found()


async def _whole_view(ask: Ask, connection: Connection, channel: Channel) -> dict[str, Any]:
    return {
        **channel_view(ask, connection, channel),
        "consumer_details": [consumer_view(ask, channel, consumer) for consumer in channel.consumers.values()],
        "publishes": published(ask, channel),
        "deliveries": await delivered(ask, channel),
    }


ROUTES = [
    Route("GET", "/api/channels", USER, get_channels),
    Route("GET", "/api/channels/{channel}", USER, get_channel),
    Route("GET", "/api/vhosts/{vhost}/channels", VHOST, get_channels),
]
