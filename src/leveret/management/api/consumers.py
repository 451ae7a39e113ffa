"""Consumers, with the channel that each belongs to."""

from leveret.management.answers import Answer, stats_disabled
from leveret.management.api.channels import Found, open_channels
from leveret.management.asking import Ask
from leveret.management.consuming import consumer_view
from leveret.management.pieces import listed_in_pieces
from leveret.management.routes import USER, VISIBLE, Route
from leveret.protocol.subscriber import Subscriber


async def get_consumers(ask: Ask) -> Answer:
    """All consumers, or those in one vhost; not those that wait for replies."""
    if ask.without_stats:
        raise stats_disabled()
    vhost = ask.vhost if "vhost" in ask.path else None
    found = [
        (one, consumer)
        for one in open_channels(ask)
        if vhost is None or one[1].vhost is vhost
        for consumer in one[1].consumers.values()
    ]
    return await listed_in_pieces(ask.query, found, lambda pair: consumer_view(ask, pair[0][1], pair[1]), _key)


def _key(pair: tuple[Found, Subscriber]) -> tuple[str, str, str]:
    (_, channel), consumer = pair
    return channel.vhost.name, consumer.queue.name, consumer.tag


ROUTES = [
    Route("GET", "/api/consumers", USER, get_consumers),
    Route("GET", "/api/consumers/{vhost}", VISIBLE, get_consumers),
]
