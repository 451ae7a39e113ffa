"""What the broker is and does as a whole, and who asks."""

import platform
from typing import Any

from leveret import __version__
from leveret.broker.broker import CLUSTER_NAME
from leveret.broker.queue_sums import QueueSums
from leveret.broker.tally import NAMES
from leveret.broker.vhost import VirtualHost
from leveret.management.answers import Answer
from leveret.management.api.nodes import contexts, exchange_types, protocols
from leveret.management.asking import Ask
from leveret.management.figures import churn_counts
from leveret.management.lists import chosen
from leveret.management.rates import with_rates
from leveret.management.routes import ADMINISTRATOR, USER, Result, Route
from leveret.management.totals import broker_tally, message_counts, queue_sums, vhosts_tally
from leveret.protocol.handshake import SERVER_PROPERTIES
from leveret.server.from_json import checked_name


def get_overview(ask: Ask) -> Result:
    """Everything in one object."""
    node_name = ask.broker.settings.node_name
    version = str(SERVER_PROPERTIES["version"])
    view = {
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
        "disable_stats": ask.without_stats,
        "enable_queue_totals": False,
        "is_op_policy_updating_enabled": True,
        "cluster_name": cluster_name(ask),
        "exchange_types": exchange_types(),
        "node": node_name,
    }
    if ask.without_stats:
        wanted = ("queues", "exchanges", "connections")
        vhosts = ask.vhosts(visible=True)
        counts = object_totals(ask, vhosts, queue_sums(vhosts))
        return chosen(ask.query, view | {"object_totals": {name: counts[name] for name in wanted}})
    view |= {**totals(ask), "statistics_db_event_queue": 0}
    if ask.has_tag("monitoring"):
        # Not for everybody, as in RabbitMQ.
        view["listeners"] = listeners(ask)
        view["contexts"] = [{"node": node_name, "ssl_opts": [], **context} for context in contexts(ask.node)]
    return chosen(ask.query, view)


def totals(ask: Ask) -> dict[str, Any]:
    """Sums over what the user may see, with rates of those that are the whole broker's."""
    sees_all = ask.has_tag("monitoring")
    vhosts = ask.vhosts(visible=True)
    sums = queue_sums(vhosts)
    history = ask.statistics.total if sees_all else None
    tally = broker_tally(ask.broker) if sees_all else vhosts_tally(vhosts)
    traffic = ask.broker.storage.traffic()
    disk = {"disk_reads": traffic.messages_read, "disk_writes": traffic.messages_written}
    counts = {**dict.fromkeys(NAMES, 0), **disk, "deliver_get": 0, **tally.counts()}
    counts = {name: value for name, value in counts.items() if name not in ("publish_in", "publish_out")}
    return {
        "message_stats": with_rates(counts, history, ask.query),
        "churn_rates": with_rates(churn_counts(ask.node), ask.statistics.node, ask.query),
        "queue_totals": with_rates(message_counts(sums), history, ask.query),
        "object_totals": object_totals(ask, vhosts, sums),
    }


def object_totals(ask: Ask, vhosts: list[VirtualHost], sums: QueueSums) -> dict[str, int]:
    """How many there are of each kind, in these vhosts and as far as the user may see them."""
    sees_all = ask.has_tag("monitoring")
    sessions = [client for vhost in vhosts for client in vhost.clients if sees_all or client in ask.user.clients]
    return {
        "channels": sum(len(session.channels) for session in sessions),
        "connections": len(sessions),
        "consumers": sums.consumers,
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sums.queues,
    }


def listeners(ask: Ask) -> list[dict[str, Any]]:
    node_name = ask.broker.settings.node_name
    return [
        {
            "node": node_name,
            "protocol": protocol,
            "ip_address": host,
            "port": port,
            "socket_opts": {},
        }
        for protocol, host, port in protocols(ask.node)
    ]


def cluster_name(ask: Ask) -> str:
    return ask.broker.cluster_name


def get_cluster_name(ask: Ask) -> Result:
    """The cluster's name."""
    return {"name": cluster_name(ask)}


async def put_cluster_name(ask: Ask) -> Result:
    """Name the cluster."""
    (name,) = ask.need("name")
    await ask.change(ask.broker.set_parameter, CLUSTER_NAME, checked_name(str(name), "name"))
    return Answer(None, 204)


def get_whoami(ask: Ask) -> Result:
    """Who asks."""
    return {"name": ask.user.name, "tags": list(ask.user.tags)}


ROUTES = [
    Route("GET", "/api/overview", USER, get_overview),
    Route("GET", "/api/cluster-name", USER, get_cluster_name),
    Route("PUT", "/api/cluster-name", ADMINISTRATOR, put_cluster_name),
    Route("GET", "/api/whoami", USER, get_whoami),
]
