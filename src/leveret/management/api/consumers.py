"""Consumers, with the channel that each belongs to."""

from leveret.broker.queue import Queue
from leveret.management.client import channel_details, channels_in, visible_clients
from leveret.management.http.answer import Answer, stats_disabled
from leveret.management.http.json import JsonObject
from leveret.management.http.json_table import to_json
from leveret.management.http.list_answer import answer_long_list
from leveret.management.http.request import Request
from leveret.management.http.route import USER, VISIBLE, Route
from leveret.protocol.channel import Channel
from leveret.protocol.subscriber import Subscriber

Found = tuple[Channel, Subscriber]


def consumer_view(request: Request, channel: Channel, consumer: Subscriber) -> JsonObject:
    """A consumer as the API shows it."""
    queue = consumer.queue
    own = queue.settings.consumer_timeout_ms
    waiting = queue.rotation.single and queue.rotation.chosen is not consumer
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": queue.name, "vhost": channel.vhost.name},
        "channel_details": channel_details(channel),
        "ack_required": not consumer.no_ack,
        "active": not waiting,
        "activity_status": "waiting" if waiting else "single_active" if queue.rotation.single else "up",
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.window.count_limit,
        "priority": consumer.priority,
        "arguments": to_json(consumer.arguments),
        "consumer_timeout": request.broker.settings.consumer_timeout_ms if own is None else own,
    }


def consumers_of(request: Request, queue: Queue) -> list[JsonObject]:
    """The consumers of one queue of the path's vhost, for its own view: those of other users too."""
    if not queue.rotation.everyone:
        return []
    return [
        consumer_view(request, channel, consumer)
        for channel in channels_in(request.vhost)
        for consumer in channel.consumers.by_tag.values()
        if consumer.queue is queue
    ]


async def get_consumers(request: Request) -> Answer:
    """All consumers, or those in one vhost; without those of direct reply-to."""
    if request.without_stats:
        raise stats_disabled()
    vhost = request.vhost if "vhost" in request.path else None
    found = [
        (channel, consumer)
        for client in visible_clients(request)
        for channel in client.channels.values()
        if vhost is None or channel.vhost is vhost
        for consumer in channel.consumers.by_tag.values()
    ]
    return await answer_long_list(request.query, found, lambda pair: consumer_view(request, *pair), _key)


def _key(pair: Found) -> tuple[str, str, str]:
    channel, consumer = pair
    return channel.vhost.name, consumer.queue.name, consumer.tag


ROUTES = [
    Route("GET", "/api/consumers", USER, get_consumers),
    Route("GET", "/api/consumers/{vhost}", VISIBLE, get_consumers),
]
