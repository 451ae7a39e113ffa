"""What the broker is and does as a whole, and who asks."""

import platform
from typing import Any

from leveret import __version__
from leveret.broker.tally import NAMES
from leveret.broker.vhost import EXCHANGE_TYPES
from leveret.management.answers import Answer
from leveret.management.asking import Ask
from leveret.management.lists import chosen
from leveret.management.routes import ADMINISTRATOR, USER, Result, Route
from leveret.management.totals import broker_tally, message_counts
from leveret.protocol.handshake import SERVER_PROPERTIES

CLUSTER_NAME = "cluster_name"


def get_overview(ask: Ask) -> Result:
    """Everything in one object."""
    broker = ask.broker
    node_name = broker.settings.node_name
    version = str(SERVER_PROPERTIES["version"])
    queues = [queue for vhost in ask.vhosts(visible=True) for queue in vhost.queues.values()]
    transports = ask.node.transports
    sessions = [one.connection.session for one in transports if one.connection is not None]
    counts: dict[str, Any] = dict.fromkeys(NAMES, 0) | {"disk_reads": 0, "disk_writes": 0, "deliver_get": 0}
    counts |= broker_tally(broker).counts()
    counts = {name: value for name, value in counts.items() if name not in ("publish_in", "publish_out")}
    return chosen(
        ask.query,
        {
            "management_version": version,
            "rates_mode": "basic",
            "product_version": version,
            "product_name": "RabbitMQ",
            "rabbitmq_version": version,
            "leveret_version": __version__,
            "erlang_version": "0",
            "erlang_full_version": f"Python {platform.python_version()}",
            "cluster_name": cluster_name(ask),
            "node": node_name,
            "exchange_types": exchange_types(),
            "message_stats": {**counts, **{f"{name}_details": {"rate": 0.0} for name in counts}},
            "queue_totals": message_counts(queues),
            "object_totals": {
                "channels": sum(len(session.channels) for session in sessions),
                "connections": len(sessions),
                "consumers": sum(queue.consumer_count for queue in queues),
                "exchanges": sum(len(vhost.exchanges) for vhost in ask.vhosts(visible=True)),
                "queues": len(queues),
            },
            "statistics_db_event_queue": 0,
            "listeners": [
                {
                    "node": node_name,
                    "protocol": protocol,
                    "ip_address": host,
                    "port": port,
                    "socket_opts": {},
                }
                for protocol, (host, port) in ask.node.listeners.items()
            ],
            "contexts": [],
        },
    )


def exchange_types() -> list[dict[str, Any]]:
    return [{"name": name, "description": "", "enabled": True} for name in sorted(EXCHANGE_TYPES)]


def cluster_name(ask: Ask) -> str:
    return str(ask.broker.parameters.get(CLUSTER_NAME) or ask.broker.settings.node_name)


def get_cluster_name(ask: Ask) -> Result:
    """The cluster's name."""
    return {"name": cluster_name(ask)}


async def put_cluster_name(ask: Ask) -> Result:
    """Name the cluster."""
    (name,) = ask.need("name")
    await ask.change(ask.broker.set_parameter, CLUSTER_NAME, str(name))
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
