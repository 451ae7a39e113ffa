"""The broker as a whole, and the user who makes the request."""

import platform

from leveret import __version__
from leveret.broker.broker import CLUSTER_NAME
from leveret.broker.counters import NAMES
from leveret.broker.queue_sums import QueueSums
from leveret.broker.vhost import VirtualHost
from leveret.definitions.from_json import checked_name
from leveret.management.api.nodes import contexts, exchange_types, protocols
from leveret.management.http.answer import Answer
from leveret.management.http.json import JsonObject
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, USER, Result, Route
from leveret.management.statistics.node_stats import churn_counts
from leveret.management.statistics.rate import with_rates
from leveret.management.statistics.total import broker_counters, message_counts, queue_sums, vhosts_counters
from leveret.protocol.handshake import SERVER_PROPERTIES


def get_overview(request: Request) -> Result:
    """The whole broker at a glance: versions, totals, rates and listeners."""
    node_name = request.broker.settings.node_name
    version = str(SERVER_PROPERTIES["version"])
    view: JsonObject = {
        "management_version": version,
        "rates_mode": "basic",
        "sample_retention_policies": {
            "global": [600, 3600, 28800, 86400],
            "basic": [600, 3600],
            "detailed": [600],
        },
        "product_version": version,
        "product_name": "RabbitMQ",
        "rabbitmq_version": version,
        "leveret_version": __version__,
        "erlang_version": "0",
        "erlang_full_version": f"Python {platform.python_version()}",
        "release_series_support_status": "supported",
        "disable_stats": request.without_stats,
        "enable_queue_totals": False,
        "is_op_policy_updating_enabled": True,
        "cluster_name": request.broker.cluster_name,
        "exchange_types": exchange_types(),
        "node": node_name,
    }
    if request.without_stats:
        wanted = ("queues", "exchanges", "connections")
        vhosts = request.vhosts(visible=True)
        counts = object_totals(request, vhosts, queue_sums(vhosts))
        return select_columns(request.query, view | {"object_totals": {name: counts[name] for name in wanted}})
    view |= {**totals(request), "statistics_db_event_queue": 0}
    if request.has_tag("monitoring"):
        # Not for everybody, as in RabbitMQ.
        view["listeners"] = listeners(request)
        view["contexts"] = [{"node": node_name, "ssl_opts": [], **context} for context in contexts(request.node)]
    return select_columns(request.query, view)


def totals(request: Request) -> JsonObject:
    """Sums over what the user may see, with rates of those that are the whole broker's."""
    sees_all = request.has_tag("monitoring")
    vhosts = request.vhosts(visible=True)
    sums = queue_sums(vhosts)
    history = request.statistics.total if sees_all else None
    counters = broker_counters(request.broker) if sees_all else vhosts_counters(vhosts)
    traffic = request.broker.storage.traffic()
    disk = {"disk_reads": traffic.messages_read, "disk_writes": traffic.messages_written}
    counts = {**dict.fromkeys(NAMES, 0), **disk, "deliver_get": 0, **counters.counts()}
    counts = {name: value for name, value in counts.items() if name not in ("publish_in", "publish_out")}
    return {
        "message_stats": with_rates(counts, history, request.query),
        "churn_rates": with_rates(churn_counts(request.node), request.statistics.node, request.query),
        "queue_totals": with_rates(message_counts(sums), history, request.query),
        "object_totals": object_totals(request, vhosts, sums),
    }


def object_totals(request: Request, vhosts: list[VirtualHost], sums: QueueSums) -> dict[str, int]:
    """How many there are of each kind, in these vhosts and as far as the user may see them."""
    sees_all = request.has_tag("monitoring")
    sessions = [client for vhost in vhosts for client in vhost.clients if sees_all or client in request.user.clients]
    return {
        "channels": sum(len(session.channels) for session in sessions),
        "connections": len(sessions),
        "consumers": sums.consumers,
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sums.queues,
    }


def listeners(request: Request) -> list[JsonObject]:
    node_name = request.broker.settings.node_name
    return [
        {
            "node": node_name,
            "protocol": protocol,
            "ip_address": host,
            "port": port,
            "socket_opts": {},
        }
        for protocol, host, port in protocols(request.node)
    ]


def get_cluster_name(request: Request) -> Result:
    """The cluster's name."""
    return {"name": request.broker.cluster_name}


async def put_cluster_name(request: Request) -> Result:
    """Set the cluster's name."""
    (name,) = request.need("name")
    await request.change(request.broker.set_parameter, CLUSTER_NAME, checked_name(str(name), "name"), by=request.user.name)
    return Answer(None, 204)


def get_whoami(request: Request) -> Result:
    """The user who makes the request."""
    return {"name": request.user.name, "tags": list(request.user.tags)}


ROUTES = [
    Route("GET", "/api/overview", USER, get_overview),
    Route("GET", "/api/cluster-name", USER, get_cluster_name),
    Route("PUT", "/api/cluster-name", ADMINISTRATOR, put_cluster_name),
    Route("GET", "/api/whoami", USER, get_whoami),
]
