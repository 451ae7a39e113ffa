"""The nodes: statistics of the process and the machine, under RabbitMQ's names; of others, what they have said last."""

import os
import platform
from typing import TYPE_CHECKING

import msgspec

from leveret import __version__
from leveret.broker.declaration import EXCHANGE_TYPES
from leveret.management.api.cluster import is_running, node_names
from leveret.management.http.answer import Answer
from leveret.management.http.json import JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import MONITOR, Result, Route
from leveret.management.statistics.memory import MEMORY_PARTS, memory_parts
from leveret.management.statistics.node_stats import (
    THREADS_MAX,
    UNKNOWN,
    alarm_set,
    churn_counts,
    disk_free,
    disk_limit,
    io_averages,
    memory_limit,
)
from leveret.management.statistics.rate import with_rates
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
PROTOCOLS = {"prometheus": "http/prometheus", "amqps": "amqp/ssl"}
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


def node_view(request: Request) -> JsonObject:
    """The node as the API shows it."""
    if request.without_stats:
        return {"name": request.broker.settings.node_name, "type": "disc", "running": True}
    node, statistics = request.node, request.statistics
    figures = {**statistics.node_counts, "mem_used": resident_bytes(), "disk_free": disk_free(node)}
    figures |= {"sockets_used": len(node.transports), **churn_counts(node)}
    return {
        "name": request.broker.settings.node_name,
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
        **with_rates(figures, statistics.node, request.query),
        **with_rates(dict.fromkeys(UNKNOWN, 0)),
        **with_rates(io_averages(node.broker.storage.traffic())),
        "log_files": ["<stderr>"],
        "db_dir": os.path.abspath(node.config.data_dir),
        "config_files": [],
        "enabled_plugins": PLUGINS,
        "exchange_types": exchange_types(),
        "auth_mechanisms": auth_mechanisms(node),
        "applications": applications(),
        "contexts": contexts(node),
        "cluster_links": [],
        "metrics_gc_queue_length": dict.fromkeys(COLLECTED, 0),
        "ra_open_file_metrics": {"ra_log_wal": 0, "ra_log_segment_writer": 0},
    }


def auth_mechanisms(node: "Node") -> list[JsonObject]:
    """How clients may log in."""
    found = {"PLAIN": "SASL PLAIN authentication mechanism", "AMQPLAIN": "QPid AMQPLAIN mechanism"}
    if node.config.tls.clients != "ignored":
        found["EXTERNAL"] = "TLS peer verification (x.509)"
    return [{"name": name, "description": description, "enabled": True} for name, description in found.items()]


def exchange_types() -> list[JsonObject]:
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
    return [(PROTOCOLS.get(one.scheme, one.scheme), one.host, one.port) for one in node.listeners]


def contexts(node: "Node") -> list[JsonObject]:
    """What listens for HTTP."""
    known = {"http": [("RabbitMQ Management", "/")], "prometheus": [("RabbitMQ Prometheus", "/")]}
    return [
        {
            "description": title,
            "path": path,
            "ip": one.host,
            "port": str(one.port),
            "protocol": "https" if one.tls else "http",
        }
        for one in node.listeners
        for title, path in known.get(one.protocol, ())
    ]


def any_node_view(request: Request, name: str) -> JsonObject:
    """This node, or what is known of another."""
    if name == request.broker.settings.node_name:
        return node_view(request)
    running = is_running(request, name)
    cluster = request.node.cluster
    said = cluster.descriptions.get(name) if running and cluster is not None else None
    found: JsonObject = {} if said is None else msgspec.json.decode(said)
    return found | {"name": name, "type": "disc", "running": running}


def get_nodes(request: Request) -> Answer:
    """All nodes."""
    names = node_names(request)
    return answer_list(request.query, names, lambda name: any_node_view(request, name), lambda name: (name,))


def get_node(request: Request) -> Result:
    """One node; `memory=true` adds its memory breakdown, `binary=true` the memory of message bodies."""
    name = request.path["node"]
    if name != request.broker.settings.node_name and name in node_names(request):
        return select_columns(request.query, any_node_view(request, name))
    request.check_node()
    view = node_view(request)
    if request.query.get("memory") == "true":
        view["memory"] = memory_parts(request).view()
    if request.query.get("binary") == "true":
        view["binary"] = {"queue_procs": memory_parts(request).parts["binary"], "other": 0}
    return select_columns(request.query, view)


def get_memory(request: Request) -> Result:
    """A node's memory breakdown."""
    request.check_node()
    return {"memory": memory_parts(request).view()}


def get_relative_memory(request: Request) -> Result:
    """A node's memory breakdown, in percent."""
    request.check_node()
    memory = memory_parts(request)
    parts, total = memory.parts, max(1, memory.resident)
    shares = {name: max(1, round(100 * parts[name] / total)) if parts[name] else 0 for name in MEMORY_PARTS}
    return {"memory": {"total": 100, **shares}}


def get_tables(request: Request) -> Result:
    """The memory of Erlang's tables; there are none here."""
    request.check_node()
    return {"ets_tables": {"total": 0}}


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
