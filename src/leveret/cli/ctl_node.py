"""The commands of leveretctl about the node and the cluster of one that it is, under rabbitmqctl's names."""

import platform
import time
from collections.abc import Callable, Iterator

from leveret.cli.api import Api, Failed, JsonObject, Unreachable, part
from leveret.cli.command import (
    DATA,
    SOFTWARE,
    TEMPORARY,
    UNAVAILABLE,
    USAGE,
    Bad,
    Command,
    Options,
    Result,
    exists,
)

PURPOSES = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
    "https/prometheus": "Prometheus exporter API over TLS (HTTPS)",
}
UNITS = {"bytes": 1, "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12}
UNITS |= {"ki": 1 << 10, "kib": 1 << 10, "mi": 1 << 20, "mib": 1 << 20, "gi": 1 << 30, "gib": 1 << 30, "ti": 1 << 40}
UNITS |= {"tib": 1 << 40, "kilobytes": 10**3, "megabytes": 10**6, "gigabytes": 10**9, "terabytes": 10**12}


def node_of(api: Api) -> JsonObject:
    """The node as the API shows it."""
    found: JsonObject = api.get("/api/nodes")[0]
    return found


def listeners_of(api: Api) -> list[JsonObject]:
    return [
        {
            "node": one["node"],
            "protocol": one["protocol"],
            "interface": f"[{one['ip_address']}]" if ":" in one["ip_address"] else one["ip_address"],
            "port": one["port"],
            "purpose": PURPOSES.get(one["protocol"], one["protocol"]),
        }
        for one in api.get("/api/overview?columns=listeners")["listeners"]
    ]


def listener_line(one: JsonObject) -> str:
    return "Interface: {interface}, port: {port}, protocol: {protocol}, purpose: {purpose}".format(**one)


def alarm_lines(node: JsonObject) -> list[str]:
    """What runs low."""
    known = {"mem_alarm": "Memory alarm on node {}", "disk_free_alarm": "Free disk space alarm on node {}"}
    return [text.format(node["name"]) for alarm, text in known.items() if node[alarm]]


def unit_of(options: Options) -> str:
    unit = options.flags.get("unit", "gb").lower()
    if unit not in UNITS:
        raise Bad(f"unit '{unit}' is not supported. Please use one of: bytes, mb, mib, gb, gib, tb, tib")
    return unit


def amount(octets: int, unit: str) -> str:
    return f"{octets} bytes" if unit == "bytes" else f"{round(octets / UNITS[unit], 4)} {unit}"


def breakdown(api: Api, name: str) -> dict[str, JsonObject]:
    """Memory by its parts, largest first."""
    found = api.get(f"/api/nodes/{part(name)}/memory")["memory"]
    total = max(1, found.pop("total")["rss"])
    found.pop("strategy")
    largest = sorted(found.items(), key=lambda one: -one[1])
    return {key: {"bytes": size, "percentage": round(100 * size / total, 2)} for key, size in largest}


def section(title: str, lines: list[str]) -> Iterator[str]:
    yield from ("", title, "", *(lines or ["(none)"]))


# Looking


def ping(api: Api, options: Options, given: list[str]) -> Result:
    api.get("/api/whoami")
    return "Ping succeeded"


def status(api: Api, options: Options, given: list[str]) -> Result:
    unit = unit_of(options)
    node, overview = node_of(api), api.get("/api/overview")
    memory = breakdown(api, node["name"])
    found = {
        "os": platform.system(),
        "pid": int(node["os_pid"]),
        "uptime": node["uptime"] // 1000,
        "is_under_maintenance": node["being_drained"],
        "node": node["name"],
        "product_name": "Leveret" if "leveret_version" in overview else "RabbitMQ",
        "product_version": overview.get("leveret_version", overview["rabbitmq_version"]),
        "rabbitmq_version": overview["rabbitmq_version"],
        "erlang_version": overview.get("erlang_full_version", ""),
        "cluster_name": overview["cluster_name"],
        "active_plugins": node["enabled_plugins"],
        "data_directory": node["db_dir"],
        "config_files": node["config_files"],
        "log_files": node["log_files"],
        "alarms": alarm_lines(node),
        "memory": memory,
        "vm_memory_calculation_strategy": node["mem_calculation_strategy"],
        "vm_memory_high_watermark_limit": node["mem_limit"],
        "memory_used": node["mem_used"],
        "file_descriptors": {"total_used": node["fd_used"], "total_limit": node["fd_total"]},
        "sockets": {"sockets_used": node["sockets_used"], "sockets_limit": node["sockets_total"]},
        "disk_free": node["disk_free"],
        "disk_free_limit": node["disk_free_limit"],
        "totals": {
            "connection_count": overview["object_totals"]["connections"],
            "queue_count": overview["object_totals"]["queues"],
            "virtual_host_count": len(api.get("/api/vhosts?columns=name")),
        },
        "listeners": listeners_of(api),
    }
    return found if options.flags.get("formatter") == "json" else "\n".join(status_lines(found, unit))


def status_lines(found: JsonObject, unit: str) -> Iterator[str]:
    yield from ("Runtime", "", f"OS PID: {found['pid']}", f"OS: {found['os']}", f"Uptime (seconds): {found['uptime']}")
    yield f"Is under maintenance?: {'true' if found['is_under_maintenance'] else 'false'}"
    yield f"Product name: {found['product_name']}"
    yield f"Product version: {found['product_version']}"
    yield f"RabbitMQ version: {found['rabbitmq_version']}"
    yield f"Node name: {found['node']}"
    yield f"Cluster name: {found['cluster_name']}"
    yield f"Runtime: {found['erlang_version']}"
    yield from section("Plugins", [f" * {one}" for one in found["active_plugins"]])
    yield from section("Data directory", [f"Node data directory: {found['data_directory']}"])
    yield from section("Config files", [f" * {one}" for one in found["config_files"]])
    yield from section("Log file(s)", [f" * {one}" for one in found["log_files"]])
    yield from section("Alarms", found["alarms"])
    yield from section("Memory", [f"Total memory used: {amount(found['memory_used'], unit)}"])
    yield f"Calculation strategy: {found['vm_memory_calculation_strategy']}"
    yield f"Memory high watermark computed to: {amount(found['vm_memory_high_watermark_limit'], unit)}"
    yield ""
    for name, one in found["memory"].items():
        yield f"{name}: {amount(one['bytes'], unit)} ({one['percentage']} %)"
    files, sockets = found["file_descriptors"], found["sockets"]
    yield from section("File Descriptors", [f"Total: {files['total_used']}, limit: {files['total_limit']}"])
    yield f"Sockets: {sockets['sockets_used']}, limit: {sockets['sockets_limit']}"
    yield from section("Free Disk Space", [f"Low free disk space watermark: {amount(found['disk_free_limit'], unit)}"])
    yield f"Free disk space: {amount(found['disk_free'], unit)}"
    totals = found["totals"]
    yield from section("Totals", [f"Connection count: {totals['connection_count']}"])
    yield f"Queue count: {totals['queue_count']}"
    yield f"Virtual host count: {totals['virtual_host_count']}"
    yield from section("Listeners", [listener_line(one) for one in found["listeners"]])


def cluster_status(api: Api, options: Options, given: list[str]) -> Result:
    node, overview = node_of(api), api.get("/api/overview")
    name, flags = node["name"], api.get("/api/feature-flags")
    nodes = api.get("/api/cluster")["nodes"]
    names = [one["name"] for one in nodes]
    running = [one["name"] for one in nodes if one["running"]]
    listeners = listeners_of(api)
    version = {"rabbitmq_name": "RabbitMQ", "rabbitmq_version": overview["rabbitmq_version"]}
    if options.flags.get("formatter") == "json":
        return {
            "alarms": alarm_lines(node),
            "cluster_name": overview["cluster_name"],
            "cpu_cores": {name: node["processors"]},
            "disk_nodes": names,
            "feature_flags": flags,
            "listeners": {name: listeners},
            "maintenance_status": {name: "not under maintenance"},
            "partitions": {},
            "ram_nodes": [],
            "running_nodes": running,
            "versions": {name: {**version, "erlang_version": overview["erlang_version"]}},
        }
    lines = ["Basics", "", f"Cluster name: {overview['cluster_name']}"]
    lines.append(f"Total CPU cores available cluster-wide: {node['processors']}")
    lines += section("Disk Nodes", names)
    lines += section("Running Nodes", running)
    lines += section("Versions", [f"{name}: RabbitMQ {overview['rabbitmq_version']}"])
    lines += section("CPU Cores", [f"Node: {name}, available CPU cores: {node['processors']}"])
    lines += section("Maintenance status", [f"Node: {name}, status: not under maintenance"])
    lines += section("Alarms", alarm_lines(node))
    lines += section("Network Partitions", [])
    lines += section("Listeners", [f"Node: {name}, i{listener_line(one)[1:]}" for one in listeners])
    lines += section("Feature flags", [f"Flag: {flag['name']}, state: {flag['state']}" for flag in flags])
    return "\n".join(lines)


def forget_cluster_node(api: Api, options: Options, given: list[str]) -> Result:
    api.delete(f"/api/cluster/nodes/{part(given[0])}")
    return None


def version(api: Api, options: Options, given: list[str]) -> Result:
    return str(api.get("/api/overview?columns=rabbitmq_version")["rabbitmq_version"])


def environment(api: Api, options: Options, given: list[str]) -> Result:
    """The settings in use."""
    return str(api.get("/api/config/effective")).rstrip("\n")


def report(api: Api, options: Options, given: list[str]) -> Result:
    paths = ("overview", "vhosts", "users", "permissions", "policies", "queues", "exchanges", "bindings", "connections")
    found = {path: api.get(f"/api/{path}") for path in paths}
    for user in found["users"]:
        user.pop("password_hash", None)
    return found


def health(api: Api, options: Options, given: list[str]) -> Result:
    api.get("/api/health/checks/alarms")
    return "Health check passed"


# Waiting and stopping


def await_startup(api: Api, options: Options, given: list[str]) -> Result:
    wait_until(options, lambda: answers(api), "the broker did not start in time")
    return None


def await_online_nodes(api: Api, options: Options, given: list[str]) -> Result:
    if not given[0].isdigit() or not int(given[0]):
        raise Bad(f"the number of nodes must be a positive integer, not {given[0]}", DATA)
    if int(given[0]) > 1:
        raise Bad("there is one node, and no more will join it", TEMPORARY)
    return await_startup(api, options, given)


def answers(api: Api) -> bool:
    try:
        api.get("/api/whoami")
    except Unreachable:
        return False
    return True


def wait_until(options: Options, condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + options.timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Bad(complaint, TEMPORARY)
        time.sleep(0.1)


def stop(api: Api, options: Options, given: list[str]) -> Result:
    """Also with the path of a process id's file, as rabbitmqctl has it; it is not needed."""
    api.ask("POST", "/api/leveret/stop", {"reason": "leveretctl stop"})
    return None


def shutdown(api: Api, options: Options, given: list[str]) -> Result:
    stop(api, options, given)
    if "no-wait" not in options.flags:
        wait_until(options, lambda: not answers(api), "the broker did not stop in time")
    return None


def start_app(api: Api, options: Options, given: list[str]) -> Result:
    """It runs whenever the process does."""
    return ping(api, options, given) and None


# One node's share of what clusters need


def restart_vhost(api: Api, options: Options, given: list[str]) -> Result:
    name = node_of(api)["name"]
    try:
        api.ask("POST", f"/api/vhosts/{options.in_vhost}/start/{part(name)}", {})
    except Failed as error:
        raise Bad(f"Failed to start vhost '{options.vhost}' on node '{name}'. Reason: {error}", SOFTWARE) from None
    return f"Vhost '{options.vhost}' is already running on node '{name}'"


def sync_queue(api: Api, options: Options, given: list[str]) -> Result:
    if not exists(api, f"/api/queues/{options.in_vhost}/{part(given[0])}"):
        raise Bad("not_found", UNAVAILABLE)
    raise Bad("not_mirrored", UNAVAILABLE)


def cancel_sync_queue(api: Api, options: Options, given: list[str]) -> Result:
    return "not_syncing"


def enable_feature_flag(api: Api, options: Options, given: list[str]) -> Result:
    known = [flag["name"] for flag in api.get("/api/feature-flags")]
    if given[0] != "all" and given[0] not in known:
        raise Bad("This feature flag is not supported by the node", USAGE)
    for name in known if given[0] == "all" else given:
        api.put(f"/api/feature-flags/{part(name)}/enable", {})
    return None


def rebalance(api: Api, options: Options, given: list[str]) -> Result:
    api.ask("POST", "/api/rebalance/queues", {})
    return None


def quorum_status(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/queues/{options.in_vhost}/{part(given[0])}"
    if not exists(api, path):
        raise Bad("not_found", DATA)
    return {"members": api.get(f"/api/queues/quorum/{options.in_vhost}/{part(given[0])}/status")}


def peek(api: Api, options: Options, given: list[str]) -> Result:
    """The message at a position of a queue, from 1; nothing happens to it."""
    if not given[1].isdigit() or not int(given[1]):
        raise Bad("position value must be a positive integer", DATA)
    offset = int(given[1]) - 1
    found = api.get(f"/api/queues/{options.in_vhost}/{part(given[0])}/messages?offset={offset}&count=1")
    if not found:
        raise Bad("No message at the requested position", DATA)
    message: JsonObject = found[0]
    return message


COMMANDS: dict[str, Command] = {
    "await_online_nodes": Command(
        await_online_nodes,
        "<count>",
        "Will wait for at least {0} nodes to join the cluster. Timeout: {timeout} seconds.",
        1,
        1,
    ),
    "await_startup": Command(await_startup),
    "cancel_sync_queue": Command(
        cancel_sync_queue, "<queue>", "Stopping synchronising queue '{0}' in vhost '{vhost}' ...", 1, 1
    ),
    "forget_cluster_node": Command(forget_cluster_node, "<node>", "Removing node {0} from the cluster ...", 1, 1),
    "cluster_status": Command(cluster_status, "", "Cluster status of node {node} ..."),
    "enable_feature_flag": Command(enable_feature_flag, "<name>|all", 'Enabling feature flag "{0}" ...', 1, 1),
    "environment": Command(environment, "", "Application environment of node {node} ..."),
    "node_health_check": Command(health, "", "Checking health of node {node} ..."),
    "peek": Command(peek, "<queue> <position>", "Peeking at queue {0} at position {1}...", 2, 2),
    "ping": Command(ping, "", "Will ping the broker ..."),
    "quorum_status": Command(quorum_status, "<queue>", "Status of quorum queue {0} on node {node} ...", 1, 1),
    "rebalance": Command(
        rebalance, "all|classic|quorum|stream", "Rebalancing {0} queues... This operation may take several minutes.", 1, 1
    ),
    "reconcile_vhosts": Command(start_app, "", "Will try to initiate virtual host reconciliation on all reachable nodes..."),
    "report": Command(report, "", "Reporting server status of node {node} ..."),
    "restart_vhost": Command(restart_vhost, "", "Trying to restart vhost '{vhost}' on node '{node}' ..."),
    "shutdown": Command(shutdown, "[--no-wait]", "Shutting down the broker ..."),
    "start_app": Command(start_app, "", "Starting node {node} ..."),
    "status": Command(status, "[--unit <unit>]", "Status of node {node} ..."),
    "stop": Command(stop, "[<pidfile>]", "Stopping the broker ...", 0, 1),
    "sync_queue": Command(sync_queue, "<queue>", "Synchronising queue '{0}' in vhost '{vhost}' ...", 1, 1),
    "version": Command(version),
    "wait": Command(await_startup, "[<pidfile>] [--pid <pid>]", "Waiting for the broker to start ...", 0, 1),
}
