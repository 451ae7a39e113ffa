"""The nodes: there is one. Figures of the process and the machine, under RabbitMQ's names."""

import os
import platform
from typing import TYPE_CHECKING, Any

from leveret import __version__
from leveret.broker.vhost import EXCHANGE_TYPES
from leveret.management.answers import Answer, not_found
from leveret.management.asking import Ask
from leveret.management.figures import (
    UNKNOWN,
    alarm_set,
    churn_counts,
    disk_free,
    disk_limit,
    io_averages,
    memory_limit,
)
from leveret.management.lists import chosen, listed
from leveret.management.memory import MEMORY_PARTS, memory_view
from leveret.management.rates import with_rates
from leveret.management.routes import MONITOR, Result, Route
from leveret.protocol.handshake import SERVER_PROPERTIES
from leveret.server.clock import now_ms
from leveret.server.listener import connections_limit, files_limit
from leveret.server.process_memory import resident_bytes

if TYPE_CHECKING:
    from leveret.server.node import Node

# What the readers of nodes expect to be on; here it is built in.
PLUGINS = [
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
    "rabbitmq_web_dispatch",
]
# What RabbitMQ calls the protocol of a listener.
PROTOCOLS = {"prometheus": "http/prometheus"}
# What RabbitMQ forgets the figures of a little later than it is gone.
COLLECTED = (
    "channel_closed",
    "channel_consumer_deleted",
    "connection_closed",
    "consumer_deleted",
    "exchange_deleted",
    "node_node_deleted",
    "queue_deleted",
    "vhost_deleted",
)
# RabbitMQ's Erlang machine has a limit of processes; here are threads.
THREADS_MAX = 32_768


def node_view(ask: Ask) -> dict[str, Any]:
    """The node as the API shows it."""
    if ask.without_stats:
        return {"name": ask.broker.settings.node_name, "type": "disc", "running": True}
    node, statistics = ask.node, ask.statistics
    figures = {**statistics.node_counts, "mem_used": resident_bytes(), "disk_free": disk_free(node)}
    figures |= {"sockets_used": len(node.transports), **churn_counts(node)}
    return {
        "name": ask.broker.settings.node_name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "partitions": [],
        "os_pid": str(os.getpid()),
        "uptime": now_ms() - node.started_at,
        "run_queue": 0,
        "processors": os.cpu_count() or 1,
        "rates_mode": "basic",
        "net_ticktime": 60,
        "mem_calculation_strategy": "rss",
        "mem_limit": memory_limit(node),
        "mem_alarm": alarm_set(node, "memory"),
        "disk_free_limit": disk_limit(node),
        "disk_free_alarm": alarm_set(node, "disk"),
        "fd_total": files_limit(),
        "sockets_total": connections_limit(),
        "proc_total": THREADS_MAX,
        **with_rates(figures, statistics.node, ask.query),
        **with_rates(dict.fromkeys(UNKNOWN, 0)),
        **with_rates(io_averages(node.broker.storage.traffic())),
        "log_files": ["<stderr>"],
        "db_dir": os.path.abspath(node.config.data_dir),
        "config_files": [],
        "enabled_plugins": PLUGINS,
        "exchange_types": exchange_types(),
        "auth_mechanisms": [
            {"name": "PLAIN", "description": "SASL PLAIN authentication mechanism", "enabled": True},
            {"name": "AMQPLAIN", "description": "QPid AMQPLAIN mechanism", "enabled": True},
        ],
        "applications": applications(),
        "contexts": contexts(node),
        "cluster_links": [],
        "metrics_gc_queue_length": dict.fromkeys(COLLECTED, 0),
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
    }


def exchange_types() -> list[dict[str, Any]]:
    return [{"name": name, "description": "", "enabled": True} for name in sorted(EXCHANGE_TYPES)]


def applications() -> list[dict[str, str]]:
    """What runs here, in the place of Erlang's applications."""
    version = str(SERVER_PROPERTIES["version"])
    return [
        {"name": "leveret", "description": "Leveret, a message broker in Python", "version": __version__},
        {"name": "python", "description": platform.python_implementation(), "version": platform.python_version()},
        {"name": "rabbit", "description": "RabbitMQ, whose protocol and API this is", "version": version},
    ]


def protocols(node: "Node") -> list[tuple[str, str, int]]:
    """Protocol, host and port of each listener, under RabbitMQ's names."""
    return [(PROTOCOLS.get(one.protocol, one.protocol), one.host, one.port) for one in node.listeners]


def contexts(node: "Node") -> list[dict[str, Any]]:
    """What listens for HTTP."""
    known = {"http": [("RabbitMQ Management", "/")], "prometheus": [("RabbitMQ Prometheus", "/")]}
    return [
        {"description": title, "path": path, "ip": one.host, "port": str(one.port), "protocol": "http"}
        for one in node.listeners
        for title, path in known.get(one.protocol, ())
    ]


def get_nodes(ask: Ask) -> Answer:
    """All nodes."""
    return listed(ask.query, [ask.broker.settings.node_name], lambda _: node_view(ask), lambda name: (name,))


def get_node(ask: Ask) -> Result:
    """One node; with `memory=true` by its parts too, with `binary=true` what large things take."""
    _check(ask)
    view = node_view(ask)
    if ask.query.get("memory") == "true":
        view["memory"] = memory_view(ask)
    if ask.query.get("binary") == "true":
        view["binary"] = {"queue_procs": memory_view(ask)["binary"], "other": 0}
    return chosen(ask.query, view)


def get_memory(ask: Ask) -> Result:
    """A node's memory by its parts."""
    _check(ask)
    return {"memory": memory_view(ask)}


def get_relative_memory(ask: Ask) -> Result:
    """A node's memory by its parts, in percent."""
    _check(ask)
    parts = memory_view(ask)
    total = max(1, parts["total"]["rss"])
    shares = {name: max(1, round(100 * parts[name] / total)) if parts[name] else 0 for name in MEMORY_PARTS}
    return {"memory": {"total": 100, **shares}}


def get_tables(ask: Ask) -> Result:
    """Erlang's tables, of which there are none here."""
    _check(ask)
    return {"ets_tables": {"total": 0}}


def _check(ask: Ask) -> None:
    if ask.path["node"] != ask.broker.settings.node_name:
        raise not_found()


ROUTES = [
    Route("GET", "/api/nodes", MONITOR, get_nodes),
    Route("GET", "/api/nodes/{node}", MONITOR, get_node),
    Route("GET", "/api/nodes/{node}/memory", MONITOR, get_memory),
    Route("GET", "/api/nodes/{node}/memory/relative", MONITOR, get_relative_memory),
    Route("GET", "/api/nodes/{node}/memory/ets", MONITOR, get_tables),
    Route("GET", "/api/nodes/{node}/memory/ets/relative", MONITOR, get_tables),
    Route("GET", "/api/nodes/{node}/memory/ets/{filter}", MONITOR, get_tables),
    Route("GET", "/api/nodes/{node}/memory/ets/{filter}/relative", MONITOR, get_tables),
]
