"""Metrics of each queue, channel, connection and exchange, for /metrics/per-object and /metrics/detailed."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from leveret.broker.counters import Counters
from leveret.broker.vhost import VirtualHost
from leveret.management.client import connected_clients
from leveret.management.http.request import Request
from leveret.management.prometheus import family
from leveret.management.prometheus.exposition import GROUP, NAN, Page, Row, escaped, label
from leveret.management.prometheus.value import (
    channel_values,
    connection_values,
    delivered_values,
    published_values,
    queue_coarse_values,
    queue_facts,
    queue_values,
)
from leveret.management.statistics.breakdown import update_breakdown
from leveret.management.statistics.queue_stats import head_timestamp
from leveret.protocol.channel import Channel

if TYPE_CHECKING:
    pass


async def queue_rows(page: Page, vhosts: Iterable[VirtualHost]) -> list[tuple[str, tuple[int, ...]]]:
    """Labels and facts of each queue."""
    rows = []
    for vhost in vhosts:
        start = f'vhost="{escaped(vhost.name)}",queue="'
        queues = list(vhost.queues.values())
        for at in range(0, len(queues), GROUP):
            rows += [(f'{start}{escaped(queue.name)}"', queue_facts(queue)) for queue in queues[at : at + GROUP]]
            await page.rest()
    return rows


async def head_rows(page: Page, vhosts: Iterable[VirtualHost]) -> list[Row]:
    """The timestamp of each queue's first message. RabbitMQ: no number where there is none."""
    rows: list[Row] = []
    for vhost in vhosts:
        queues = list(vhost.queues.values())
        for at in range(0, len(queues), GROUP):
            found = [(queue, head_timestamp(queue)) for queue in queues[at : at + GROUP]]
            rows += [
                (label(vhost=vhost.name, queue=queue.name), (NAN if timestamp is None else timestamp,))
                for queue, timestamp in found
            ]
            await page.rest()
    return rows


async def each(
    page: Page, rows: Sequence[tuple[str, tuple[int, ...]]], values: Callable[[Sequence[int]], tuple[int, ...]]
) -> list[tuple[str, tuple[int, ...]]]:
    """The same labels, with the values that are made from the facts."""
    found = []
    for at in range(0, len(rows), GROUP):
        found += [(labels, values(facts)) for labels, facts in rows[at : at + GROUP]]
        await page.rest()
    return found


async def add_queues(page: Page, request: Request, vhosts: Iterable[VirtualHost], wanted: Sequence[str]) -> None:
    """The families of queues that are wanted."""
    if not QUEUE_FAMILIES & set(wanted):
        return
    rows = await queue_rows(page, vhosts)
    if "queue_coarse_metrics" in wanted:
        await page.add_rows(family.QUEUE_COARSE, await each(page, rows, queue_coarse_values))
    if "queue_metrics" in wanted:
        await page.add_rows(family.QUEUE, await each(page, rows, queue_values))
        await page.add_rows(family.QUEUE_HEAD, await head_rows(page, vhosts))
    elif "queue_consumer_count" in wanted:
        await page.add_rows(family.QUEUE_CONSUMERS, [(labels, facts[4:5]) for labels, facts in rows])
    if "channel_queue_exchange_metrics" in wanted:
        await page.add_rows(family.QUEUE_PUBLISHED, await brought_rows(page, request, vhosts))


QUEUE_FAMILIES = {"queue_coarse_metrics", "queue_metrics", "queue_consumer_count", "channel_queue_exchange_metrics"}


async def brought_rows(page: Page, request: Request, vhosts: Iterable[VirtualHost]) -> list[tuple[str, tuple[int, ...]]]:
    """Messages published to each queue, by exchange."""
    rows: list[tuple[str, tuple[int, ...]]] = []
    for vhost in vhosts:
        update_breakdown(request, vhost)
        await page.rest()
    for vhost in vhosts:
        start = f'queue_vhost="{escaped(vhost.name)}",queue="'
        ends = {one.counters: label(exchange_vhost=vhost.name, exchange=one.name) for one in vhost.exchanges.values()}
        queues = [queue for queue in vhost.queues.values() if queue.counters.breakdown]
        for at in range(0, len(queues), GROUP):
            rows += [
                (f'{start}{escaped(queue.name)}",{ends[other]}', (part.publish,))
                for queue in queues[at : at + GROUP]
                for other, part in (queue.counters.breakdown or {}).items()
                if other in ends
            ]
            await page.rest()
    return rows


async def part_rows(
    page: Page, request: Request, channels: Sequence[tuple[str, Channel]], values: Callable[[Counters], tuple[int, ...]]
) -> list[tuple[str, tuple[int, ...]]]:
    """What each channel did with each exchange or queue, where any of these values is not 0."""
    names = await counters_labels(page, request)
    rows = []
    for labels, channel in channels:
        request.node.do(channel.routes.flush_counts)
        for other, part in list((channel.counters.breakdown or {}).items()):
            found = values(part)
            if any(found) and other in names:
                rows.append((f"{labels},{names[other]}", found))
        await page.rest()
    return rows


async def counters_labels(page: Page, request: Request) -> dict[Counters, str]:
    """The labels of exchanges and queues, by their counters."""
    names: dict[Counters, str] = {}
    for vhost in list(request.broker.vhosts.values()):
        async for exchanges in page.groups(list(vhost.exchanges.values())):
            names |= {exchange.counters: label(vhost=vhost.name, exchange=exchange.name) for exchange in exchanges}
        queues = list(vhost.queues.values())
        for at in range(0, len(queues), GROUP):
            names |= {queue.counters: label(vhost=vhost.name, queue=queue.name) for queue in queues[at : at + GROUP]}
            await page.rest()
    return names


async def add_clients(page: Page, request: Request, wanted: Sequence[str]) -> None:
    """The families of channels and connections that are wanted. RabbitMQ: both have the label `channel`."""
    clients = list(connected_clients(request.node))
    channels: list[tuple[str, Channel]] = []
    for client in clients:
        for channel in client.channels.values():
            channels.append((label(channel=f"{client.name} ({channel.number})"), channel))  # noqa: PERF401
        await page.rest()
    if "channel_metrics" in wanted:
        await page.add_rows(family.CHANNEL, [(labels, channel_values(channel)) for labels, channel in channels])
    if "channel_exchange_metrics" in wanted:
        await page.add_rows(family.CHANNEL_EXCHANGE, await part_rows(page, request, channels, published_values))
    if "channel_queue_metrics" in wanted:
        await page.add_rows(family.CHANNEL_QUEUE, await part_rows(page, request, channels, delivered_values))
    connections = [(label(channel=client.name), client) for client in clients]
    if "connection_coarse_metrics" in wanted:
        traffic = [(labels, (one.transport.received_bytes, one.transport.sent_bytes)) for labels, one in connections]
        await page.add_rows(family.CONNECTION_COARSE, traffic)
    if "connection_metrics" in wanted:
        await page.add_rows(family.CONNECTION, [(labels, connection_values(one)) for labels, one in connections])


EXCHANGE_FAMILIES = {"exchange_bindings", "exchange_names"}


async def add_cluster(page: Page, vhosts: Sequence[VirtualHost], wanted: Sequence[str]) -> None:
    """What is the same on every node."""
    if "vhost_status" in wanted:
        await page.add_rows(family.VHOST_STATUS, [(label(vhost=vhost.name), (1,)) for vhost in vhosts])
    if not EXCHANGE_FAMILIES & set(wanted):
        return
    exchanges: list[tuple[str, int]] = []
    for vhost in vhosts:
        async for some in page.groups(list(vhost.exchanges.values())):
            exchanges += [
                (label(vhost=vhost.name, exchange=exchange.name, type=exchange.kind), len(exchange.bindings))
                for exchange in some
                if exchange.name and not exchange.internal
            ]
    if "exchange_bindings" in wanted:
        await page.add_rows(family.EXCHANGE_BINDINGS, [(labels, (count,)) for labels, count in exchanges])
    if "exchange_names" in wanted:
        await page.add_rows(family.EXCHANGE_NAMES, [(labels, (1,)) for labels, _ in exchanges])
