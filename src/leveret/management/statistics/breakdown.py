"""The breakdown of counters: what each channel did with each exchange and queue, and each exchange with each queue.

Tallies keep parts (`broker/tally.py`) by each other's tallies; here they get names. What remembered routes have counted is
told first; where there are very many of them, those of other channels are told with the next samples, 5 seconds later.
"""

from collections.abc import Callable

from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.tally import PUBLISHING, Tally
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


def part_of(whole: Tally, other: Tally) -> Tally | None:
    return None if whole.parts is None else whole.parts.get(other)


def update_breakdown(request: Request, vhost: VirtualHost) -> None:
    """Have what channels have counted told; of routes to many queues that may go on in the next turns."""
    channels = [channel for channel in channels_in(vhost) if channel.tally.publish]

    def tell() -> None:
        left = ROUTES_LOOKS
        for channel in channels:
            left -= 1 + channel.routes.tell_parts()
            if left < 0:
                break
        request.broker.work.drain()

    if channels:
        request.node.do(tell)


def row(request: Request, part: Tally, publishing: tuple[str, ...] = PUBLISHING, **of: Json) -> JsonObject:
    return {"stats": with_rates(part.counts(publishing), request.statistics.of(part), request.query), **of}


def place(vhost: VirtualHost, name: str) -> dict[str, str]:
    return {"name": name, "vhost": vhost.name}


def channel_publishes(request: Request, channel: Channel) -> list[JsonObject]:
    """What a channel has published, by exchange. Its confirms are known by exchange only while there is one."""
    channel.routes.tell_parts()
    vhost, tally = channel.vhost, channel.tally
    found = [(one, part_of(tally, one.tally)) for one in vhost.exchanges.values()]
    parts = [(exchange, part) for exchange, part in found if part is not None]
    for _, part in parts:
        part.confirm = tally.confirm if part.publish == tally.publish else 0
    return [row(request, part, exchange=place(vhost, exchange.name)) for exchange, part in parts]


async def channel_deliveries(request: Request, channel: Channel) -> list[JsonObject]:
    """What was delivered to a channel, by queue."""
    vhost = channel.vhost
    found = await queues_with(vhost, lambda queue: part_of(channel.tally, queue.tally))
    return [row(request, part, queue=place(vhost, queue.name)) for queue, part in found if any_counted(part)]


async def queues_with(vhost: VirtualHost, part: Callable[[Queue], Tally | None]) -> list[tuple[Queue, Tally]]:
    """The queues of a vhost that have such a part, each with it."""
    found: list[tuple[Queue, Tally]] = []
    async for queues in Pause().groups(list(vhost.queues.values())):
        parts = [(queue, part(queue)) for queue in queues]
        found += [(queue, one) for queue, one in parts if one is not None]
    return found


def any_counted(part: Tally) -> bool:
    return bool(part.deliver_get or part.get_empty or part.ack)


def queue_incoming(request: Request, vhost: VirtualHost, queue: Queue) -> list[JsonObject]:
    """What was published to a queue, by exchange."""
    update_breakdown(request, vhost)
    found = [(exchange, part_of(queue.tally, exchange.tally)) for exchange in vhost.exchanges.values()]
    return [
        row(request, part, QUEUE_PUBLISHING, exchange=place(vhost, exchange.name))
        for exchange, part in found
        if part is not None
    ]


async def exchange_outgoing(request: Request, vhost: VirtualHost, exchange: Exchange) -> list[JsonObject]:
    """What an exchange has routed, by queue."""
    update_breakdown(request, vhost)
    found = await queues_with(vhost, lambda queue: part_of(queue.tally, exchange.tally))
    rows: list[JsonObject] = []
    async for some in Pause().groups(found):
        rows += [row(request, part, QUEUE_PUBLISHING, queue=place(vhost, queue.name)) for queue, part in some]
    return rows


def channel_rows(request: Request, vhost: VirtualHost, tally: Tally) -> list[JsonObject]:
    """What was published to an exchange, or taken from a queue, by channel."""
    found = [(channel, part_of(channel.tally, tally)) for channel in channels_in(vhost)]
    return [
        row(request, part, channel_details=channel_details(channel))
        for channel, part in found
        if part is not None and (part.publish or any_counted(part))
    ]
