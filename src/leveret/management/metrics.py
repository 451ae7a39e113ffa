"""Prometheus' text: /metrics with sums, /metrics/per-object with each queue, channel and connection, /metrics/detailed with
the families that are asked for, /metrics/memory-breakdown. Names and labels are RabbitMQ's.
"""

import platform
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from leveret import __version__
from leveret.broker.logins import Attempts, Logins
from leveret.broker.queue import Queue
from leveret.broker.tally import Tally
from leveret.broker.vhost import VirtualHost
from leveret.management import families
from leveret.management.answers import Answer
from leveret.management.api.nodes import THREADS_MAX
from leveret.management.api.overview import cluster_name
from leveret.management.asking import Ask
from leveret.management.backlog import disk_writes, head_timestamp, persistent
from leveret.management.exposition import CLUSTER, DETAILED, GROUP, NAN, PREFIX, Page, Row, escaped, label
from leveret.management.families import Metric
from leveret.management.figures import (
    IO_NAMES,
    alarm_set,
    churn_counts,
    disk_free,
    disk_limit,
    io_counts,
    memory_limit,
)
from leveret.management.memory import MEMORY_PARTS, memory_view
from leveret.management.parts import tell_parts
from leveret.management.routes import NOBODY_ASKED, Route
from leveret.protocol.channel import Channel
from leveret.protocol.connection import Connection
from leveret.protocol.handshake import SERVER_PROPERTIES
from leveret.server.clock import now_ms
from leveret.server.listener import connections_limit, files_limit
from leveret.server.process_memory import resident_bytes
from leveret.server.transport import Transport

if TYPE_CHECKING:
    from multidict import MultiMapping

AMQP = "amqp091"
PROTOCOL = f'protocol="{AMQP}"'
# Deliveries are counted by channel, which knows no types of queues: all of them are here.
QUEUE_TYPE = 'queue_type="rabbit_classic_queue"'
STRATEGY = 'dead_letter_strategy="at_most_once"'


# What is read of objects. Everything shown is a sum of these, so that those of many objects may be added up first.


def queue_facts(queue: Queue) -> tuple[int, ...]:
    pages, rotation = queue.pages, queue.rotation
    return (
        queue.ready_count,
        queue.unacked_count,
        queue.ready_bytes,
        queue.unacked_bytes,
        len(rotation.everyone),
        1 if rotation.active_count else 0,
        pages.count,
        pages.body_bytes,
        *persistent(queue),
        pages.read_count,
        disk_writes(queue),
        queue.tally.publish,
    )


def queue_coarse_values(facts: Sequence[int]) -> tuple[int, ...]:
    ready, unacked = facts[0], facts[1]
    return ready, unacked, ready + unacked


def queue_values(facts: Sequence[int]) -> tuple[int, ...]:
    ready, unacked, ready_bytes, unacked_bytes, consumers, active, paged, paged_bytes, *stored, _ = facts
    stored_count, stored_bytes, reads, writes = stored
    held_bytes = ready_bytes + unacked_bytes - paged_bytes
    counts = (ready + unacked - paged, held_bytes, ready - paged, unacked, stored_count, stored_bytes)
    sizes = (ready_bytes + unacked_bytes, ready_bytes, unacked_bytes, paged, paged_bytes)
    return (consumers, active, active, held_bytes, *counts, *sizes, reads, writes)


def channel_values(channel: Channel) -> tuple[int, ...]:
    transaction, confirms = channel.transaction, channel.confirms
    return (
        len(channel.consumers),
        channel.unacked.count,
        0 if confirms is None else confirms.published - confirms.told,
        0 if transaction is None else len(transaction.publishes),
        0 if transaction is None else len(transaction.entries()),
        channel.prefetch.count_limit,
        channel.shared.count_limit,
    )


def published_values(tally: Tally) -> tuple[int, ...]:
    return tally.publish, tally.confirm, tally.return_unroutable, tally.drop_unroutable


def delivered_values(tally: Tally) -> tuple[int, ...]:
    handed_out = (tally.get, tally.get_no_ack, tally.deliver, tally.deliver_no_ack)
    return (*handed_out, tally.redeliver, tally.ack, tally.get_empty)


def connection_values(transport: Transport, connection: Connection) -> tuple[int, ...]:
    unsent = transport.unsent_bytes()
    return transport.received_count, transport.sent_count, unsent, len(connection.session.channels)


def open_connections(ask: Ask) -> list[tuple[Transport, Connection]]:
    found = [(transport, transport.connection) for transport in ask.node.transports]
    return [(one, connection) for one, connection in found if connection and connection.session.on_shut is not None]


# Families of one value


async def add_node(page: Page, ask: Ask) -> None:
    """The process and the machine."""
    node, sampled = ask.node, ask.statistics.node_counts
    page.add(families.CHURN, list(churn_counts(node).values()))
    memory = (sampled["fd_used"], len(node.transports), resident_bytes(), disk_free(node))
    page.add(families.NODE_COARSE, [*memory, *(sampled[name] for name in COARSE_NAMES)])
    limits = (files_limit(), connections_limit(), memory_limit(node), disk_limit(node), THREADS_MAX, 0, 60)
    page.add(families.NODE, [*limits, (now_ms() - node.started_at) / 1000])
    traffic = node.broker.storage.traffic()
    counts = io_counts(traffic)
    stored = [node.broker.storage.damaged_count, *(counts[name] for name in IO_NAMES)]
    none = [0] * (len(families.PERSISTER) - len(stored) - 3)
    page.add(families.PERSISTER, [*stored, traffic.read_s, traffic.write_s, traffic.sync_s, *none])
    await add_logins(page, ask.broker.churn.logins)


async def add_logins(page: Page, logins: Logins) -> None:
    """Logins by protocol; AMQP's also while there are none."""
    attempts = {AMQP: Attempts(), **logins.protocols}
    rows = [(label(protocol=name), login_values(one)) for name, one in attempts.items()]
    await page.add_rows(families.LOGINS, rows)


def login_values(one: Attempts) -> tuple[int, ...]:
    return one.total, one.succeeded, one.failed


async def add_sources(page: Page, logins: Logins) -> None:
    """Logins by what is known of who tried."""
    rows = []
    for (address, name, protocol), one in logins.sources.items():
        known = {"remote_address": address, "username": name, "protocol": protocol}
        rows.append((label(**{key: value for key, value in known.items() if value}), login_values(one)))
    await page.add_rows(families.LOGIN_SOURCES, rows)


COARSE_NAMES = ("proc_used", "gc_num", "gc_bytes_reclaimed", "context_switches")


def add_global(page: Page, ask: Ask, total: Tally, unconfirmed: int, publishers: int, consumers: int) -> None:
    """What was done since the start."""
    routed = total.publish - total.drop_unroutable - total.return_unroutable
    received = (total.publish, total.confirm + unconfirmed, routed, total.drop_unroutable, total.return_unroutable)
    page.add(families.GLOBAL, [*received, total.confirm, publishers, consumers], PROTOCOL)
    delivered = (total.deliver, total.deliver_no_ack, total.get, total.get_no_ack)
    rest = (total.get_empty, total.redeliver, total.ack)
    page.add(families.GLOBAL_QUEUE, [sum(delivered), *delivered, *rest], f"{PROTOCOL},{QUEUE_TYPE}")
    dead = ask.broker.churn.dead_lettered
    counts = [dead.get(reason, 0) for reason in ("maxlen", "expired", "rejected", "delivery_limit")]
    page.add(families.GLOBAL_DEAD, counts, f"{QUEUE_TYPE},{STRATEGY}")


def add_identity(page: Page, ask: Ask) -> None:
    """Which broker this is; dashboards choose by it."""
    page.prefix = PREFIX
    rabbitmq = str(SERVER_PROPERTIES["version"])
    build = label(
        rabbitmq_version=rabbitmq,
        prometheus_plugin_version=rabbitmq,
        prometheus_client_version="4.11.0",
        erlang_version=f"Python {platform.python_version()}",
        product_version=__version__,
        product_name="Leveret",
    )
    page.add([families.BUILD], [1], build)
    node_name = ask.broker.settings.node_name
    permanent_id = f"rabbitmq-cluster-id-{uuid.uuid5(uuid.NAMESPACE_DNS, node_name)}"
    identity = label(rabbitmq_node=node_name, rabbitmq_cluster=cluster_name(ask), rabbitmq_cluster_permanent_id=permanent_id)
    page.add([families.IDENTITY], [1], identity)


def add_alarms(page: Page, ask: Ask) -> None:
    disk, memory = alarm_set(ask.node, "disk"), alarm_set(ask.node, "memory")
    page.add(families.ALARMS, [0, int(disk), int(memory)])
    page.add(families.PEERS, [0])


# Sums over all objects


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
                published += queue.tally.publish
                rotation = queue.rotation
                if rotation.everyone:
                    consumers += len(rotation.everyone)
                    active += 1 if rotation.active_count else 0
                pages, ledger = queue.pages, queue.ledger
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

    __slots__ = ("channel", "channels", "connection", "connections", "publishers", "tally", "traffic", "unconfirmed")

    def __init__(self) -> None:
        self.tally = Tally()
        self.channel = [0] * len(families.CHANNEL)
        self.connection = [0] * len(families.CONNECTION)
        self.traffic = [0, 0]
        self.channels = self.connections = self.publishers = self.unconfirmed = 0

    def add(self, transport: Transport, connection: Connection) -> None:
        self.connections += 1
        add_up(self.connection, connection_values(transport, connection))
        self.traffic[0] += transport.received_bytes
        self.traffic[1] += transport.sent_bytes
        for channel in connection.session.channels.values():
            self.channels += 1
            tally, values = channel.tally, channel_values(channel)
            self.tally.add(tally)
            self.publishers += 1 if tally.publish else 0
            self.unconfirmed += values[2]
            add_up(self.channel, values)


def add_up(sums: list[int], values: Sequence[int]) -> None:
    for at, value in enumerate(values):
        if value:
            sums[at] += value


async def sum_of_connections(page: Page, ask: Ask) -> Sums:
    sums = Sums()
    sums.tally.add(ask.broker.tally)
    for vhost in ask.broker.vhosts.values():
        sums.tally.add(vhost.tally)
    for transport, connection in open_connections(ask):
        sums.add(transport, connection)
        await page.rest()
    return sums


async def get_metrics(ask: Ask) -> Answer:
    """Sums over all objects."""
    page = Page()
    vhosts = list(ask.broker.vhosts.values())
    facts = await sum_of_queues(page, vhosts)
    sums = await sum_of_connections(page, ask)
    await add_node(page, ask)
    page.add(families.QUEUE_COARSE, queue_coarse_values(facts))
    page.add(families.QUEUE, queue_values(facts))
    page.add(families.CHANNEL, sums.channel)
    page.add(families.CHANNEL_EXCHANGE, published_values(sums.tally))
    page.add(families.CHANNEL_QUEUE, delivered_values(sums.tally))
    page.add(families.CONNECTION_COARSE, sums.traffic)
    page.add(families.CONNECTION, sums.connection)
    page.add(families.QUEUE_PUBLISHED, facts[-1:])
    _add_ends(page, ask, sums, facts[4])
    # RabbitMQ: as every process calls it.
    page.prefix = ""
    page.add([families.PROCESS_START], [ask.node.started_at // 1000])
    return await page.answer()


def _add_ends(page: Page, ask: Ask, sums: Sums, consumers: int) -> None:
    """What is the same with sums and with objects."""
    add_global(page, ask, sums.tally, sums.unconfirmed, sums.publishers, consumers)
    queues = sum(len(vhost.queues) for vhost in ask.broker.vhosts.values())
    page.add(families.TOTALS, [sums.connections, sums.channels, consumers, queues])
    add_alarms(page, ask)
    add_identity(page, ask)


# Objects, one by one


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
    """The same labels with what is shown of the facts."""
    found = []
    for at in range(0, len(rows), GROUP):
        found += [(labels, values(facts)) for labels, facts in rows[at : at + GROUP]]
        await page.rest()
    return found


async def add_queues(page: Page, ask: Ask, vhosts: Iterable[VirtualHost], wanted: Sequence[str]) -> None:
    """The families of queues that are wanted."""
    if not QUEUE_FAMILIES & set(wanted):
        return
    rows = await queue_rows(page, vhosts)
    if "queue_coarse_metrics" in wanted:
        await page.add_rows(families.QUEUE_COARSE, await each(page, rows, queue_coarse_values))
    if "queue_metrics" in wanted:
        await page.add_rows(families.QUEUE, await each(page, rows, queue_values))
        await page.add_rows(families.QUEUE_HEAD, await head_rows(page, vhosts))
    elif "queue_consumer_count" in wanted:
        await page.add_rows(families.QUEUE_CONSUMERS, [(labels, facts[4:5]) for labels, facts in rows])
    if "channel_queue_exchange_metrics" in wanted:
        await page.add_rows(families.QUEUE_PUBLISHED, await brought_rows(page, ask, vhosts))


QUEUE_FAMILIES = {"queue_coarse_metrics", "queue_metrics", "queue_consumer_count", "channel_queue_exchange_metrics"}


async def brought_rows(page: Page, ask: Ask, vhosts: Iterable[VirtualHost]) -> list[tuple[str, tuple[int, ...]]]:
    """What came to each queue, by exchange."""
    rows: list[tuple[str, tuple[int, ...]]] = []
    for vhost in vhosts:
        tell_parts(ask, vhost)
        await page.rest()
    for vhost in vhosts:
        start = f'queue_vhost="{escaped(vhost.name)}",queue="'
        ends = {one.tally: label(exchange_vhost=vhost.name, exchange=one.name) for one in vhost.exchanges.values()}
        queues = [queue for queue in vhost.queues.values() if queue.tally.parts]
        for at in range(0, len(queues), GROUP):
            rows += [
                (f'{start}{escaped(queue.name)}",{ends[other]}', (part.publish,))
                for queue in queues[at : at + GROUP]
                for other, part in (queue.tally.parts or {}).items()
                if other in ends
            ]
            await page.rest()
    return rows


async def part_rows(
    page: Page, ask: Ask, channels: Sequence[tuple[str, Channel]], values: Callable[[Tally], tuple[int, ...]]
) -> list[tuple[str, tuple[int, ...]]]:
    """What each channel did with each exchange or queue, as far as these values tell of it."""
    names = await tally_labels(page, ask)
    rows = []
    for labels, channel in channels:
        ask.node.do(channel.tell_parts)
        for other, part in list((channel.tally.parts or {}).items()):
            found = values(part)
            if any(found) and other in names:
                rows.append((f"{labels},{names[other]}", found))
        await page.rest()
    return rows


async def tally_labels(page: Page, ask: Ask) -> dict[Tally, str]:
    """How exchanges and queues are called, by their tallies."""
    names: dict[Tally, str] = {}
    for vhost in list(ask.broker.vhosts.values()):
        async for exchanges in page.groups(list(vhost.exchanges.values())):
            names |= {exchange.tally: label(vhost=vhost.name, exchange=exchange.name) for exchange in exchanges}
        queues = list(vhost.queues.values())
        for at in range(0, len(queues), GROUP):
            names |= {queue.tally: label(vhost=vhost.name, queue=queue.name) for queue in queues[at : at + GROUP]}
            await page.rest()
    return names


async def add_clients(page: Page, ask: Ask, wanted: Sequence[str]) -> None:
    """The families of channels and connections that are wanted. RabbitMQ: both have the label `channel`."""
    connections = open_connections(ask)
    channels: list[tuple[str, Channel]] = []
    for _, connection in connections:
        for channel in connection.session.channels.values():
            channels.append((label(channel=f"{connection.name} ({channel.number})"), channel))  # noqa: PERF401
        await page.rest()
    if "channel_metrics" in wanted:
        await page.add_rows(families.CHANNEL, [(labels, channel_values(channel)) for labels, channel in channels])
    if "channel_exchange_metrics" in wanted:
        await page.add_rows(families.CHANNEL_EXCHANGE, await part_rows(page, ask, channels, published_values))
    if "channel_queue_metrics" in wanted:
        await page.add_rows(families.CHANNEL_QUEUE, await part_rows(page, ask, channels, delivered_values))
    names = [(label(channel=connection.name), transport, connection) for transport, connection in connections]
    if "connection_coarse_metrics" in wanted:
        traffic = [(labels, (one.received_bytes, one.sent_bytes)) for labels, one, _ in names]
        await page.add_rows(families.CONNECTION_COARSE, traffic)
    if "connection_metrics" in wanted:
        packets = [(labels, connection_values(transport, connection)) for labels, transport, connection in names]
        await page.add_rows(families.CONNECTION, packets)


ALL = (
    "queue_coarse_metrics",
    "queue_metrics",
    "channel_metrics",
    "channel_exchange_metrics",
    "channel_queue_metrics",
    "connection_coarse_metrics",
    "connection_metrics",
    "channel_queue_exchange_metrics",
)


async def get_per_object(ask: Ask) -> Answer:
    """Every queue, channel and connection by itself."""
    page = Page()
    await add_node(page, ask)
    await add_queues(page, ask, list(ask.broker.vhosts.values()), ALL)
    await add_clients(page, ask, ALL)
    sums = await sum_of_connections(page, ask)
    _add_ends(page, ask, sums, (await sum_of_queues(page, list(ask.broker.vhosts.values())))[4])
    return await page.answer()


async def get_detailed(ask: Ask) -> Answer:
    """The families that `family` names, of the vhosts that `vhost` names or of all."""
    query = cast("MultiMapping[str]", ask.query)
    wanted = query.getall("family", [])
    names = query.getall("vhost", [])
    vhosts = [vhost for vhost in ask.broker.vhosts.values() if not names or vhost.name in names]
    page = Page(DETAILED)
    if NODE_FAMILIES & set(wanted):
        await add_node(page, ask)
    if "auth_attempt_detailed_metrics" in wanted:
        await add_sources(page, ask.broker.churn.logins)
    await add_queues(page, ask, vhosts, wanted)
    await add_clients(page, ask, wanted)
    page.prefix = CLUSTER
    await add_cluster(page, list(ask.broker.vhosts.values()), wanted)
    add_identity(page, ask)
    return await page.answer()


NODE_FAMILIES = {
    "connection_churn_metrics",
    "node_coarse_metrics",
    "node_metrics",
    "node_persister_metrics",
    "auth_attempt_metrics",
}


EXCHANGE_FAMILIES = {"exchange_bindings", "exchange_names"}


async def add_cluster(page: Page, vhosts: Sequence[VirtualHost], wanted: Sequence[str]) -> None:
    """What is the same on every node."""
    if "vhost_status" in wanted:
        await page.add_rows(families.VHOST_STATUS, [(label(vhost=vhost.name), (1,)) for vhost in vhosts])
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
        await page.add_rows(families.EXCHANGE_BINDINGS, [(labels, (count,)) for labels, count in exchanges])
    if "exchange_names" in wanted:
        await page.add_rows(families.EXCHANGE_NAMES, [(labels, (1,)) for labels, _ in exchanges])


async def get_memory(ask: Ask) -> Answer:
    """Memory by its parts."""
    page = Page()
    parts = memory_view(ask)
    metrics = [Metric(f"memory_{part}_bytes", "gauge", f"Memory used by {part}") for part in MEMORY_PARTS]
    page.add(metrics, [parts[part] for part in MEMORY_PARTS])
    add_identity(page, ask)
    return await page.answer()


ROUTES = [
    Route("GET", "/metrics", NOBODY_ASKED, get_metrics),
    Route("GET", "/metrics/per-object", NOBODY_ASKED, get_per_object),
    Route("GET", "/metrics/detailed", NOBODY_ASKED, get_detailed),
    Route("GET", "/metrics/memory-breakdown", NOBODY_ASKED, get_memory),
]
