"""Who consumes: connections, channels and consumers as the details of other objects name them."""

from typing import Any

from leveret.broker.consumer import Consumer
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.values import plain, text


def connection_details(session: Any) -> dict[str, Any]:
    """A connection, from what its name says."""
    host, _, port = session.connection_name.partition(" -> ")[0].rpartition(":")
    return {
        "name": session.connection_name,
        "peer_host": host,
        "peer_port": int(port) if port.isdigit() else 0,
    }


def consumers_of(vhost: VirtualHost, queue: Queue, node_name: str) -> list[dict[str, Any]]:
    """The consumers of one queue, with their channels."""
    if not queue.rotation.everyone:
        return []
    return [
        consumer_view(vhost, channel, consumer, node_name)
        for session in vhost.present
        for channel in session.channels.values()  # type: ignore[attr-defined]
        for consumer in channel.consumers.values()
        if consumer.queue is queue
    ]


def consumer_view(vhost: VirtualHost, channel: Any, consumer: Consumer, node_name: str) -> dict[str, Any]:
    """A consumer as the API shows it."""
    queue = consumer.queue
    session = channel.session
    connection = connection_details(session)
    waiting = queue.rotation.single and queue.rotation.everyone[0] is not consumer
    return {
        "consumer_tag": text(consumer.tag),
        "ack_required": not consumer.no_ack,
        "active": not waiting,
        "activity_status": "waiting" if waiting else "single_active" if queue.rotation.single else "up",
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.window.count_limit,
        "priority": consumer.priority,
        "arguments": plain(consumer.arguments),
        "consumer_timeout": "undefined",
        "queue": {"name": queue.name, "vhost": vhost.name},
        "channel_details": {
            "name": f"{session.connection_name} ({channel.number})",
            "number": channel.number,
            "user": session.user.name,
            "node": node_name,
            "connection_name": connection["name"],
            "peer_host": connection["peer_host"],
            "peer_port": connection["peer_port"],
        },
    }
