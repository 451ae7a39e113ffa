"""The pages that Prometheus reads: /metrics with sums, /metrics/per-object with each queue, channel and connection,
/metrics/detailed with the families that are asked for, /metrics/memory-breakdown. Names and labels are RabbitMQ's.
"""

from typing import TYPE_CHECKING, cast

from leveret.management.http.answer import Answer
from leveret.management.http.request import Request
from leveret.management.http.route import ANYONE, Route
from leveret.management.prometheus import family
from leveret.management.prometheus.exposition import CLUSTER, DETAILED, Page
from leveret.management.prometheus.family import Metric
from leveret.management.prometheus.node import add_alarms, add_global, add_identity, add_node, add_sources
from leveret.management.prometheus.object import add_clients, add_cluster, add_queues
from leveret.management.prometheus.total import Sums, sum_of_connections, sum_of_queues
from leveret.management.prometheus.value import delivered_values, published_values, queue_coarse_values, queue_values
from leveret.management.statistics.memory import MEMORY_PARTS, memory_parts

if TYPE_CHECKING:
    from multidict import MultiMapping


async def get_metrics(request: Request) -> Answer:
    """Sums over all objects."""
    page = Page()
    vhosts = list(request.broker.vhosts.values())
    facts = await sum_of_queues(page, vhosts)
    sums = await sum_of_connections(page, request)
    await add_node(page, request)
    page.add(family.QUEUE_COARSE, queue_coarse_values(facts))
    page.add(family.QUEUE, queue_values(facts))
    page.add(family.CHANNEL, sums.channel)
    page.add(family.CHANNEL_EXCHANGE, published_values(sums.counters))
    page.add(family.CHANNEL_QUEUE, delivered_values(sums.counters))
    page.add(family.CONNECTION_COARSE, sums.traffic)
    page.add(family.CONNECTION, sums.connection)
    page.add(family.QUEUE_PUBLISHED, facts[-1:])
    _add_ends(page, request, sums, facts[4])
    # RabbitMQ: as every process calls it.
    page.prefix = ""
    page.add([family.PROCESS_START], [request.node.started_at // 1000])
    return await page.answer()


def _add_ends(page: Page, request: Request, sums: Sums, consumers: int) -> None:
    """The last metrics, which are the same with sums and with objects."""
    add_global(page, request, sums.counters, sums.unconfirmed, sums.publishers, consumers)
    queues = sum(len(vhost.queues) for vhost in request.broker.vhosts.values())
    page.add(family.TOTALS, [sums.connections, sums.channels, consumers, queues])
    add_alarms(page, request)
    add_identity(page, request)


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


async def get_per_object(request: Request) -> Answer:
    """Every queue, channel and connection by itself."""
    page = Page()
    await add_node(page, request)
    await add_queues(page, request, list(request.broker.vhosts.values()), ALL)
    await add_clients(page, request, ALL)
    sums = await sum_of_connections(page, request)
    _add_ends(page, request, sums, (await sum_of_queues(page, list(request.broker.vhosts.values())))[4])
    return await page.answer()


async def get_detailed(request: Request) -> Answer:
    """The families that `family` names, of the vhosts that `vhost` names or of all."""
    query = cast("MultiMapping[str]", request.query)
    wanted = query.getall("family", [])
    names = query.getall("vhost", [])
    vhosts = [vhost for vhost in request.broker.vhosts.values() if not names or vhost.name in names]
    page = Page(DETAILED)
    if NODE_FAMILIES & set(wanted):
        await add_node(page, request)
    if "auth_attempt_detailed_metrics" in wanted:
        await add_sources(page, request.broker.churn.logins)
    await add_queues(page, request, vhosts, wanted)
    await add_clients(page, request, wanted)
    page.prefix = CLUSTER
    await add_cluster(page, list(request.broker.vhosts.values()), wanted)
    add_identity(page, request)
    return await page.answer()


NODE_FAMILIES = {
    "connection_churn_metrics",
    "node_coarse_metrics",
    "node_metrics",
    "node_persister_metrics",
    "auth_attempt_metrics",
}


async def get_memory(request: Request) -> Answer:
    """Memory by its parts."""
    page = Page()
    parts = memory_parts(request).parts
    metrics = [Metric(f"memory_{part}_bytes", "gauge", f"Memory used by {part}") for part in MEMORY_PARTS]
    page.add(metrics, [parts[part] for part in MEMORY_PARTS])
    add_identity(page, request)
    return await page.answer()


ROUTES = [
    Route("GET", "/metrics", ANYONE, get_metrics),
    Route("GET", "/metrics/per-object", ANYONE, get_per_object),
    Route("GET", "/metrics/detailed", ANYONE, get_detailed),
    Route("GET", "/metrics/memory-breakdown", ANYONE, get_memory),
]
