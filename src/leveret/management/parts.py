"""Who had which part in what was counted: what a channel did with an exchange or a queue, an exchange brought a queue.

Tallies keep parts (`broker/tally.py`) by each other's tallies; here they get names. What remembered routes have counted is
told first; where there are very many of them, those of other channels are told with the next samples, 5 seconds later.
"""

from collections.abc import Callable, Iterator
from typing import Any

from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.tally import PUBLISHING, Tally
from leveret.broker.vhost import VirtualHost
from leveret.management.asking import Ask
from leveret.management.consuming import channel_details
from leveret.management.pieces import Pause
from leveret.management.rates import with_rates
from leveret.protocol.channel import Channel

# What queues count of publishing.
QUEUE_PUBLISHING = ("publish",)
# So many remembered routes are looked at for one answer.
ROUTES_LOOKS = 100_000


def part_of(whole: Tally, other: Tally) -> Tally | None:
    return None if whole.parts is None else whole.parts.get(other)


def channels_of(vhost: VirtualHost) -> Iterator[Channel]:
    """The channels that clients have in a vhost."""
    for session in vhost.clients:
        yield from session.channels.values()  # type: ignore[attr-defined]


def tell_parts(ask: Ask, vhost: VirtualHost) -> None:
    """Have what channels have counted told; of routes to many queues that may go on in the next turns."""
    channels = [channel for channel in channels_of(vhost) if channel.tally.publish]

    def tell() -> None:
        left = ROUTES_LOOKS
        for channel in channels:
            left -= 1 + channel.tell_parts()
            if left < 0:
                break
        ask.broker.work.drain()

    if channels:
        ask.node.do(tell)


def row(ask: Ask, part: Tally, publishing: tuple[str, ...] = PUBLISHING, **of: Any) -> dict[str, Any]:
    return {"stats": with_rates(part.counts(publishing), ask.statistics.of(part), ask.query), **of}


def place(vhost: VirtualHost, name: str) -> dict[str, str]:
    return {"name": name, "vhost": vhost.name}


def published(ask: Ask, channel: Channel) -> list[dict[str, Any]]:
    """What a channel has published, by exchange. Its confirms are known by exchange only while there is one."""
    channel.tell_parts()
    vhost, tally = channel.vhost, channel.tally
    found = [(one, part_of(tally, one.tally)) for one in vhost.exchanges.values()]
    parts = [(exchange, part) for exchange, part in found if part is not None]
    for _, part in parts:
        part.confirm = tally.confirm if part.publish == tally.publish else 0
    return [row(ask, part, exchange=place(vhost, exchange.name)) for exchange, part in parts]


async def delivered(ask: Ask, channel: Channel) -> list[dict[str, Any]]:
    """What a channel was given, by queue."""
    vhost = channel.vhost
    found = await queues_with(vhost, lambda queue: part_of(channel.tally, queue.tally))
    return [row(ask, part, queue=place(vhost, queue.name)) for queue, part in found if any_counted(part)]


async def queues_with(vhost: VirtualHost, part: Callable[[Queue], Tally | None]) -> list[tuple[Queue, Tally]]:
    """The queues of a vhost for which there is such a part, and that."""
    found: list[tuple[Queue, Tally]] = []
    async for queues in Pause().groups(list(vhost.queues.values())):
        parts = [(queue, part(queue)) for queue in queues]
        found += [(queue, one) for queue, one in parts if one is not None]
    return found


def any_counted(part: Tally) -> bool:
    return bool(part.deliver_get or part.get_empty or part.ack)


def brought(ask: Ask, vhost: VirtualHost, queue: Queue) -> list[dict[str, Any]]:
    """What came to a queue, by exchange."""
    tell_parts(ask, vhost)
    found = [(exchange, part_of(queue.tally, exchange.tally)) for exchange in vhost.exchanges.values()]
    return [
        row(ask, part, QUEUE_PUBLISHING, exchange=place(vhost, exchange.name))
        for exchange, part in found
        if part is not None
    ]


async def sent_on(ask: Ask, vhost: VirtualHost, exchange: Exchange) -> list[dict[str, Any]]:
    """What an exchange has brought, by queue."""
    tell_parts(ask, vhost)
    found = await queues_with(vhost, lambda queue: part_of(queue.tally, exchange.tally))
    rows: list[dict[str, Any]] = []
    async for some in Pause().groups(found):
        rows += [row(ask, part, QUEUE_PUBLISHING, queue=place(vhost, queue.name)) for queue, part in some]
    return rows


def by_channels(ask: Ask, vhost: VirtualHost, tally: Tally) -> list[dict[str, Any]]:
    """What was published to an exchange, or taken from a queue, by channel."""
    found = [(channel, part_of(channel.tally, tally)) for channel in channels_of(vhost)]
    return [
        row(ask, part, channel_details=channel_details(ask, channel))
        for channel, part in found
        if part is not None and (part.publish or any_counted(part))
    ]
