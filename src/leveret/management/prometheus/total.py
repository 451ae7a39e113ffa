"""Sums over all queues, channels and connections, for /metrics."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from leveret.broker.counters import Counters
from leveret.broker.vhost import VirtualHost
from leveret.management.client import Client, connected_clients
from leveret.management.http.request import Request
from leveret.management.prometheus import family
from leveret.management.prometheus.exposition import GROUP, Page
from leveret.management.prometheus.value import channel_values, connection_values

if TYPE_CHECKING:
    pass


async def sum_of_queues(page: Page, vhosts: Iterable[VirtualHost]) -> list[int]:
    """The facts of all queues, added up."""
    ready = unacked = ready_bytes = unacked_bytes = consumers = active = paged = paged_bytes = published = 0
    stored = stored_bytes = reads = writes = 0
    for vhost in vhosts:
        queues = list(vhost.queues.values())
        for start in range(0, len(queues), GROUP):
            for queue in queues[start : start + GROUP]:
                ready += queue.ready_count
                unacked += queue.unacked_count
                ready_bytes += queue.ready_bytes
                unacked_bytes += queue.unacked_bytes
                published += queue.counters.publish
                rotation = queue.rotation
                if rotation.everyone:
                    consumers += len(rotation.everyone)
                    active += 1 if rotation.active_count else 0
                pages, ledger = queue.backlog.pages, queue.ledger
                paged += pages.count
                paged_bytes += pages.body_bytes
                reads += pages.read_count
                writes += pages.spilled_count
                if ledger is not None:
                    stored += ledger.live_count
                    stored_bytes += ledger.live_bytes
                    writes += ledger.written_count
            await page.rest()
    held = [ready, unacked, ready_bytes, unacked_bytes, consumers, active, paged, paged_bytes]
    return [*held, stored, stored_bytes, reads, writes, published]


class Sums:
    """What the channels and connections are and have done, all together."""

    __slots__ = ("channel", "channels", "connection", "connections", "counters", "publishers", "traffic", "unconfirmed")

    def __init__(self) -> None:
        self.counters = Counters()
        self.channel = [0] * len(family.CHANNEL)
        self.connection = [0] * len(family.CONNECTION)
        self.traffic = [0, 0]
        self.channels = self.connections = self.publishers = self.unconfirmed = 0

    def add(self, client: Client) -> None:
        transport = client.transport
        self.connections += 1
        add_up(self.connection, connection_values(client))
        self.traffic[0] += transport.received_bytes
        self.traffic[1] += transport.sent_bytes
        for channel in client.channels.values():
            self.channels += 1
            counters, values = channel.counters, channel_values(channel)
            self.counters.add(counters)
            self.publishers += 1 if counters.publish else 0
            self.unconfirmed += values[2]
            add_up(self.channel, values)


def add_up(sums: list[int], values: Sequence[int]) -> None:
    for at, value in enumerate(values):
        if value:
            sums[at] += value


async def sum_of_connections(page: Page, request: Request) -> Sums:
    sums = Sums()
    sums.counters.add(request.broker.counters)
    for vhost in request.broker.vhosts.values():
        sums.counters.add(vhost.counters)
    for client in list(connected_clients(request.node)):
        sums.add(client)
        await page.rest()
    return sums
