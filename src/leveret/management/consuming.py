"""Who consumes: connections, channels and consumers as the details of other objects name them."""

from typing import TYPE_CHECKING, Any

from leveret.broker.queue import Queue
from leveret.management.values import plain
from leveret.protocol.channel import Channel
from leveret.protocol.subscriber import Subscriber

if TYPE_CHECKING:
    from leveret.management.asking import Ask


def connection_details(session: Any) -> dict[str, Any]:
    """A connection, from what its name says."""
    host, _, port = session.connection_name.partition(" -> ")[0].rpartition(":")
    return {
        "name": session.connection_name,
        "peer_host": host,
        "peer_port": int(port) if port.isdigit() else 0,
    }


def channel_name(channel: Channel) -> str:
    return f"{channel.session.connection_name} ({channel.number})"


def channel_details(ask: "Ask", channel: Channel) -> dict[str, Any]:
    """A channel as it is named beside what it has to do with."""
    connection = connection_details(channel.session)
    return {
        "name": channel_name(channel),
        "number": channel.number,
        "node": ask.broker.settings.node_name,
        "user": channel.session.user.name,
        "connection_name": connection["name"],
        "peer_host": connection["peer_host"],
        "peer_port": connection["peer_port"],
    }


def consumers_of(ask: "Ask", queue: Queue) -> list[dict[str, Any]]:
    """The consumers of one queue of the path's vhost, for its own view: those of other users too."""
    if not queue.rotation.everyone:
        return []
    return [
        consumer_view(ask, channel, consumer)
        for session in ask.vhost.clients
        for channel in session.channels.values()  # type: ignore[attr-defined]
        for consumer in channel.consumers.values()
        if consumer.queue is queue
    ]


def consumer_view(ask: "Ask", channel: Channel, consumer: Subscriber) -> dict[str, Any]:
    """A consumer as the API shows it."""
    queue = consumer.queue
    own = queue.traits.consumer_timeout_ms
    waiting = queue.rotation.single and queue.rotation.chosen is not consumer
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": queue.name, "vhost": channel.vhost.name},
        "channel_details": channel_details(ask, channel),
        "ack_required": not consumer.no_ack,
        "active": not waiting,
        "activity_status": "waiting" if waiting else "single_active" if queue.rotation.single else "up",
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.window.count_limit,
        "priority": consumer.priority,
        "arguments": plain(consumer.arguments),
        "consumer_timeout": ask.broker.settings.ack_timeout_ms if own is None else own,
    }
