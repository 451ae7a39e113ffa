"""The breakdown of counters: what each channel did with each exchange and queue, and each exchange with each queue.

Counters keep theirs (`broker/counters.py`) by each other's counters; here they get names. What remembered routes have
counted is told first; where there are very many, those of other channels are told with the next samples, 5 seconds later.
"""

from collections.abc import Callable

from leveret.broker.counters import PUBLISHING, Counters
from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.client import channel_details, channels_in
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.pause import Pause
from leveret.management.http.request import Request
from leveret.management.statistics.rate import with_rates
from leveret.protocol.channel import Channel

# What queues count of publishing.
QUEUE_PUBLISHING = ("publish",)
# So many remembered routes are looked at for one answer.
ROUTES_LOOKS = 100_000


def part_of(whole: Counters, other: Counters) -> Counters | None:
    return None if whole.breakdown is None else whole.breakdown.get(other)


def update_breakdown(request: Request, vhost: VirtualHost) -> None:
    """Have what channels have counted told; of routes to many queues that may go on in the next turns."""
    channels = [channel for channel in channels_in(vhost) if channel.counters.publish]

    def tell() -> None:
        left = ROUTES_LOOKS
        for channel in channels:
            left -= 1 + channel.routes.flush_counts()
            if left < 0:
                break
        request.broker.work.drain()

    if channels:
        request.node.do(tell)


def row(request: Request, part: Counters, publishing: tuple[str, ...] = PUBLISHING, **of: Json) -> JsonObject:
    return {"stats": with_rates(part.counts(publishing), request.statistics.of(part), request.query), **of}


def place(vhost: VirtualHost, name: str) -> dict[str, str]:
    return {"name": name, "vhost": vhost.name}


def channel_publishes(request: Request, channel: Channel) -> list[JsonObject]:
    """What a channel has published, by exchange. Its confirms are known by exchange only while there is one."""
    channel.routes.flush_counts()
    vhost, counters = channel.vhost, channel.counters
    found = [(one, part_of(counters, one.counters)) for one in vhost.exchanges.values()]
    parts = [(exchange, part) for exchange, part in found if part is not None]
    for _, part in parts:
        part.confirm = counters.confirm if part.publish == counters.publish else 0
    return [row(request, part, exchange=place(vhost, exchange.name)) for exchange, part in parts]


async def channel_deliveries(request: Request, channel: Channel) -> list[JsonObject]:
    """What was delivered to a channel, by queue."""
    vhost = channel.vhost
    found = await queues_with(vhost, lambda queue: part_of(channel.counters, queue.counters))
    return [row(request, part, queue=place(vhost, queue.name)) for queue, part in found if any_counted(part)]


async def queues_with(vhost: VirtualHost, part: Callable[[Queue], Counters | None]) -> list[tuple[Queue, Counters]]:
    """The queues of a vhost that have such a part, each with it."""
    found: list[tuple[Queue, Counters]] = []
    async for queues in Pause().groups(list(vhost.queues.values())):
        parts = [(queue, part(queue)) for queue in queues]
        found += [(queue, one) for queue, one in parts if one is not None]
    return found


def any_counted(part: Counters) -> bool:
    return bool(part.deliver_get or part.get_empty or part.ack)


def queue_incoming(request: Request, vhost: VirtualHost, queue: Queue) -> list[JsonObject]:
    """What was published to a queue, by exchange."""
    update_breakdown(request, vhost)
    found = [(exchange, part_of(queue.counters, exchange.counters)) for exchange in vhost.exchanges.values()]
    return [
        row(request, part, QUEUE_PUBLISHING, exchange=place(vhost, exchange.name))
        for exchange, part in found
        if part is not None
    ]


async def exchange_outgoing(request: Request, vhost: VirtualHost, exchange: Exchange) -> list[JsonObject]:
    """What an exchange has routed, by queue."""
    update_breakdown(request, vhost)
    found = await queues_with(vhost, lambda queue: part_of(queue.counters, exchange.counters))
    rows: list[JsonObject] = []
    async for some in Pause().groups(found):
        rows += [row(request, part, QUEUE_PUBLISHING, queue=place(vhost, queue.name)) for queue, part in some]
    return rows


def channel_rows(request: Request, vhost: VirtualHost, counters: Counters) -> list[JsonObject]:
    """What was published to an exchange, or taken from a queue, by channel."""
    found = [(channel, part_of(channel.counters, counters)) for channel in channels_in(vhost)]
    return [
        row(request, part, channel_details=channel_details(channel))
        for channel, part in found
        if part is not None and (part.publish or any_counted(part))
    ]
