"""Channels: their state, their limits and what they have done."""

from collections.abc import Iterator
from typing import Any

from leveret.broker.queue import Queue
from leveret.management.answers import Answer, Refused, not_found
from leveret.management.asking import Ask
from leveret.management.lists import chosen, listed
from leveret.management.moments import moment
from leveret.management.parts import Found, channel_details, delivered, published
from leveret.management.rates import with_rates
from leveret.management.routes import USER, VHOST, Result, Route
from leveret.protocol.channel import Channel
from leveret.protocol.connection import Connection
from leveret.protocol.states import CHANNEL_CLOSING, CHANNEL_OPEN
from leveret.protocol.subscriber import Subscriber
from leveret.server.transport import Transport


def open_channels(ask: Ask) -> Iterator[Found]:
    """The channels that this user may see: all, or only those of its own connections."""
    everyones = ask.has_tag("monitoring")
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is None or connection.session.on_shut is None:
            continue
        if everyones or connection.session.user is ask.user:
            for channel in connection.session.channels.values():
                yield transport, connection, channel


def name_of(connection: Connection, channel: Channel) -> str:
    return f"{connection.name} ({channel.number})"


def channel_view(ask: Ask, transport: Transport, connection: Connection, channel: Channel) -> dict[str, Any]:
    """A channel as the API shows it."""
    transaction, confirms = channel.transaction, channel.confirms
    uncommitted = ([], []) if transaction is None else (transaction.publishes, transaction.entries())
    view = {
        "name": name_of(connection, channel),
        "number": channel.number,
        "node": ask.broker.settings.node_name,
        "vhost": channel.vhost.name,
        "user": connection.session.user.name,
        "user_who_performed_action": connection.session.user.name,
        "connection_details": connection_details(transport, connection),
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
        "garbage_collection": {},
        "message_stats": with_rates(channel.tally.counts(), ask.statistics.of(channel), ask.query),
    }
    idle_since = ask.statistics.idle_since(channel, connection.connected_at)
    if idle_since is not None:
        view["idle_since"] = moment(idle_since)
    return view


def connection_details(transport: Transport, connection: Connection) -> dict[str, Any]:
    return {"name": connection.name, "peer_host": transport.peer[0], "peer_port": transport.peer[1]}


def state_of(connection: Connection, channel: Channel) -> str:
    if channel.state != CHANNEL_OPEN:
        return "closing" if channel.state == CHANNEL_CLOSING else "starting"
    return "flow" if connection.status == "flow" else "running"


def get_channels(ask: Ask) -> Answer:
    """All channels, or those of one vhost."""
    vhost = ask.vhost if "vhost" in ask.path else None
    found = [one for one in open_channels(ask) if vhost is None or one[2].vhost is vhost]
    return listed(ask.query, found, lambda one: channel_view(ask, *one), channel_key)


def channel_key(found: Found) -> tuple[str, str, str]:
    """By connection and number, not by the letters of the number."""
    _, connection, channel = found
    return connection.name, f"{channel.number:5}", name_of(connection, channel)


def get_channel(ask: Ask) -> Result:
    """One channel, with its consumers."""
    name = ask.path["channel"]
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is None or connection.session.on_shut is None or not name.startswith(connection.name):
            continue
        for channel in connection.session.channels.values():
            if name_of(connection, channel) == name:
                if not ask.has_tag("monitoring") and connection.session.user is not ask.user:
                    raise Refused(401, "User not authorised to access object")
                return chosen(ask.query, _whole_view(ask, transport, connection, channel))
    raise not_found()


def _whole_view(ask: Ask, transport: Transport, connection: Connection, channel: Channel) -> dict[str, Any]:
    return {
        **channel_view(ask, transport, connection, channel),
        "consumer_details": [
            consumer_view(ask, transport, connection, channel, consumer) for consumer in channel.consumers.values()
        ],
        "publishes": published(ask, channel),
        "deliveries": delivered(ask, channel),
    }


# Consumers


def consumer_view(
    ask: Ask, transport: Transport, connection: Connection, channel: Channel, consumer: Subscriber
) -> dict[str, Any]:
    """A consumer as the API shows it."""
    queue = consumer.queue
    waiting = queue.rotation.single and queue.rotation.everyone and queue.rotation.everyone[0] is not consumer
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": queue.name, "vhost": channel.vhost.name},
        "channel_details": channel_details(ask, transport, connection, channel),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.window.count_limit,
        "active": not waiting,
        "activity_status": "waiting" if waiting else "single_active" if queue.rotation.single else "up",
        "arguments": consumer.arguments,
        "consumer_timeout": ask.broker.settings.ack_timeout_ms,
    }


def consumer_details(ask: Ask, queue: Queue) -> list[dict[str, Any]]:
    """The consumers of one queue, for its own view: those of other users too."""
    if not queue.consumer_count:
        return []
    found = []
    for transport in ask.node.transports:
        connection = transport.connection
        if connection is None or connection.session.on_shut is None:
            continue
        for channel in connection.session.channels.values():
            for consumer in channel.consumers.values():
                if consumer.queue is queue:
                    found.append(consumer_view(ask, transport, connection, channel, consumer))  # noqa: PERF401
    return found


ROUTES = [
    Route("GET", "/api/channels", USER, get_channels),
    Route("GET", "/api/channels/{channel}", USER, get_channel),
    Route("GET", "/api/vhosts/{vhost}/channels", VHOST, get_channels),
]
