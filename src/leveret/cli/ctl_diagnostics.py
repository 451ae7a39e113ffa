"""The checks of leveretctl, under the names that rabbitmq-diagnostics has for them: 0 if all is well, 69 if not."""

import socket
import ssl
from collections.abc import Callable

from leveret.cli.api import Api, Failed, JsonObject, part
from leveret.cli.command import DATA, UNAVAILABLE, Bad, Command, Do, Options, Result, Table
from leveret.cli.ctl_node import (
    UNITS,
    alarm_lines,
    amount,
    breakdown,
    listener_line,
    listeners_of,
    node_of,
    ping,
    unit_of,
    version,
)

CONNECT_S = 5.0
# HTTP's status of a check that has failed.
FAILED_CHECK = 503
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "::1"}
WITHIN = ("days", "weeks", "months", "years")


def wants_json(options: Options) -> bool:
    return options.flags.get("formatter") == "json"


def well(options: Options, text: str, **facts: object) -> Result:
    """All is well; with --silent that is said by the status alone."""
    if wants_json(options):
        return {"result": "ok", **facts}
    return None if "silent" in options.flags else text


def unwell(options: Options, text: str, **facts: object) -> Bad:
    if wants_json(options):
        return Bad("", UNAVAILABLE, {"result": "error", **facts})
    return Bad("" if "silent" in options.flags else text, UNAVAILABLE)


# Alarms


def check_alarms(told: str) -> Do:
    def do(api: Api, options: Options, given: list[str]) -> Result:
        node = node_of(api)
        found = alarm_lines(node)
        if found:
            raise unwell(options, "\n".join(found), local=found, message=f"Node {node['name']} reported alarms")
        return well(options, f"Node {node['name']} reported no {told}")

    return do


def alarms(api: Api, options: Options, given: list[str]) -> Result:
    node = node_of(api)
    found = alarm_lines(node)
    if wants_json(options):
        return {"result": "ok", "node": node["name"], "alarms": found}
    return "\n".join(found) or f"Node {node['name']} reported no alarms, local or clusterwide"


# Listeners


def listeners(api: Api, options: Options, given: list[str]) -> Result:
    found = listeners_of(api)
    if wants_json(options):
        return {"result": "ok", "node": node_of(api)["name"], "listeners": found}
    if options.flags.get("formatter") == "csv":
        return Table(found, ["node", "interface", "port", "protocol", "purpose"])
    return "\n".join(listener_line(one) for one in found)


def check_port_listener(api: Api, options: Options, given: list[str]) -> Result:
    if not given[0].isdigit():
        raise Bad(f"port must be a number, not {given[0]}", DATA)
    name, found = node_of(api)["name"], listeners_of(api)
    ports = sorted(one["port"] for one in found)
    if int(given[0]) in ports:
        text = f"A listener for port {given[0]} is running on node {name}."
        return well(options, text, node=name, port=int(given[0]))
    text = f"No listener for port {given[0]} is active on node {name}. Found listeners that use the following ports: "
    raise unwell(options, text + ", ".join(map(str, ports)), missing=int(given[0]), ports=ports, listeners=found)


def check_protocol_listener(api: Api, options: Options, given: list[str]) -> Result:
    name, found = node_of(api)["name"], listeners_of(api)
    protocols = sorted(one["protocol"] for one in found)
    wanted = {"amqp091": "amqp", "amqp0-9-1": "amqp", "amqp0.9.1": "amqp", "prometheus": "http/prometheus"}
    wanted |= {"amqps": "amqp/ssl", "tls": "amqp/ssl", "ssl": "amqp/ssl"}
    protocol = wanted.get(given[0].lower(), given[0].lower())
    if protocol in protocols:
        text = f"A listener for protocol {protocol} is running on node {name}."
        return well(options, text, node=name, protocol=protocol)
    text = f"No listener for protocol {protocol} is active on node {name}. Found listeners for the following protocols: "
    raise unwell(options, text + ", ".join(protocols), missing=protocol, protocols=protocols, listeners=found)


def check_port_connectivity(api: Api, options: Options, given: list[str]) -> Result:
    name, found = node_of(api)["name"], listeners_of(api)
    address = options.flags.get("address")
    failed = [one for one in found if not connects(address or host_of(one), one["port"])]
    if failed:
        lines = [f"Connection to ports of the following listeners on node {name} failed: ", *map(listener_line, failed)]
        raise unwell(options, "\n".join(lines), node=name, failures=failed)
    ports = ", ".join(map(str, sorted(one["port"] for one in found)))
    how = f"using {address} for target IP address" if address else "using the addresses it listens on"
    return well(options, f"Successfully connected to ports {ports} on node {name} ({how})", node=name, listeners=found)


def host_of(one: JsonObject) -> str:
    """Where a listener is reached from here."""
    interface = str(one["interface"])
    return ANY_ADDRESS.get(interface, interface.strip("[]"))


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError:
        return False
    return True


# The node


def check_running(api: Api, options: Options, given: list[str]) -> Result:
    ping(api, options, given)
    return well(options, f"RabbitMQ on node {node_of(api)['name']} is fully booted and running")


def is_running(api: Api, options: Options, given: list[str]) -> Result:
    text = f"RabbitMQ on node {node_of(api)['name']} is fully booted and running"
    return {"result": True, "message": text} if wants_json(options) else text


def is_booting(api: Api, options: Options, given: list[str]) -> Result:
    text = f"RabbitMQ on node {node_of(api)['name']} is fully booted (check with is_running)"
    return {"result": False, "message": text} if wants_json(options) else text


def check_virtual_hosts(api: Api, options: Options, given: list[str]) -> Result:
    api.get("/api/health/checks/virtual-hosts")
    return well(options, f"Node {node_of(api)['name']} reported all vhosts as running")


def check_single_node(api: Api, options: Options, given: list[str]) -> Result:
    name = node_of(api)["name"]
    return well(
        options, f"Node {name} seems to be the only one in a single node cluster, the check does not apply", node=name
    )


def check_certificates(api: Api, options: Options, given: list[str]) -> Result:
    within, unit = options.flags.get("within", "4"), options.flags.get("unit", "weeks")
    if not within.isdigit() or unit not in WITHIN:
        raise Bad(f"--within takes a number and --unit one of {', '.join(WITHIN)}", DATA)
    try:
        api.get(f"/api/health/checks/certificate-expiration/{within}/{unit}")
    except Failed as error:
        if error.status != FAILED_CHECK:
            raise
        raise unwell(options, f"Certificates are expiring within {within} {unit}.") from None
    return well(options, f"No certificates are expiring within {within} {unit}.")


def memory_breakdown(api: Api, options: Options, given: list[str]) -> Result:
    unit = unit_of(options)
    found = breakdown(api, node_of(api)["name"])
    if wants_json(options):
        return dict(found)
    if options.flags.get("formatter") == "csv":
        row = {f"{name}.{key}": value for name, one in found.items() for key, value in one.items()}
        return Table([row], list(row))
    return "\n".join(f"{name}: {amount(one['bytes'], unit)} ({one['percentage']}%)" for name, one in found.items())


def told(text: Callable[[JsonObject], str]) -> Do:
    """What the node says of itself."""

    def do(api: Api, options: Options, given: list[str]) -> Result:
        found = text(node_of(api))
        return {"result": "ok", "value": found} if wants_json(options) else found

    return do


def runtime(node: JsonObject) -> str:
    """The version of what it runs on: Python."""
    return next((f"{one['description']} {one['version']}" for one in node["applications"] if one["name"] == "python"), "")


def resolve_hostname(api: Api, options: Options, given: list[str]) -> Result:
    """On this machine: the broker's own tools run there."""
    family = socket.AF_INET6 if options.flags.get("address-family", "").lower() == "ipv6" else socket.AF_INET
    try:
        found = socket.getaddrinfo(given[0], None, family, socket.SOCK_STREAM)
    except OSError as error:
        raise Bad(f"Failed to resolve hostname {given[0]}: {error.strerror}", UNAVAILABLE) from None
    return "\n".join(dict.fromkeys(str(one[4][0]) for one in found))


# Logins


def list_attempts(api: Api, options: Options, given: list[str]) -> Result:
    name = node_of(api)["name"]
    by_source = "by-source" in options.flags
    found = api.get(f"/api/auth/attempts/{part(name)}" + ("/source" if by_source else ""))
    if wants_json(options):
        return {"result": "ok", "node": name, "attempts": found}
    counts = ["protocol", "auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded"]
    if not found:
        return f"Node {name} reported no authentication attempt stats"
    return Table(found, ["remote_address", "username", *counts] if by_source else counts)


def reset_attempts(api: Api, options: Options, given: list[str]) -> Result:
    api.delete(f"/api/auth/attempts/{part(node_of(api)['name'])}")
    return None


def track_sources(on: bool) -> Do:
    def do(api: Api, options: Options, given: list[str]) -> Result:
        api.put("/api/leveret/settings", {"track_auth_attempt_source": on})
        return None

    return do


def check_deprecated(api: Api, options: Options, given: list[str]) -> Result:
    used = [one["name"] for one in api.get("/api/deprecated-features/used")]
    if used:
        raise unwell(options, f"Deprecated features in use: {', '.join(used)}", used=used)
    return well(options, f"Node {node_of(api)['name']} reported no deprecated features in use")


ASKING = "Asking node {node} "
COMMANDS: dict[str, Command] = {
    "alarms": Command(alarms, "", ASKING + "to report any known resource alarms ..."),
    "check_alarms": Command(
        check_alarms("alarms, local or clusterwide"), "", ASKING + "to report any local resource alarms ..."
    ),
    "check_certificate_expiration": Command(
        check_certificates, "[--within <n>] [--unit <unit>]", "Checking certificate expiration on node {node} ..."
    ),
    "check_if_any_deprecated_features_are_used": Command(
        check_deprecated, "", "Checking if any deprecated features are used ..."
    ),
    "check_if_node_is_mirror_sync_critical": Command(
        check_single_node, "", "Checking if node {node} is critical for data safety of any classic mirrored queues ..."
    ),
    "check_if_node_is_quorum_critical": Command(
        check_single_node, "", "Checking if node {node} is critical for quorum of any quorum queues ..."
    ),
    "check_local_alarms": Command(check_alarms("local alarms"), "", ASKING + "to report any local resource alarms ..."),
    "check_port_connectivity": Command(
        check_port_connectivity,
        "[--address <address>]",
        "Testing TCP connections to all active listeners on node {node} ...",
    ),
    "check_port_listener": Command(
        check_port_listener, "<port>", ASKING + "if there's an active listener on port {0} ...", 1, 1
    ),
    "check_protocol_listener": Command(
        check_protocol_listener, "<protocol>", ASKING + "if there's an active listener for protocol {0} ...", 1, 1
    ),
    "check_running": Command(check_running, "", "Checking if RabbitMQ is running on node {node} ..."),
    "check_virtual_hosts": Command(check_virtual_hosts, "", "Checking if all vhosts are running on node {node} ..."),
    "disable_auth_attempt_source_tracking": Command(
        track_sources(False), "", "Disabling authentication attempt source tracking ..."
    ),
    "enable_auth_attempt_source_tracking": Command(
        track_sources(True), "", "Enabling authentication attempt source tracking ..."
    ),
    "erlang_version": Command(told(runtime), "", ASKING + "what it runs on ..."),
    "is_booting": Command(is_booting, "", ASKING + "for its boot status ..."),
    "is_running": Command(is_running, "", ASKING + "for its status ..."),
    "list_node_auth_attempt_stats": Command(
        list_attempts, "[--by-source]", 'Listing authentication attempts for node "{node}" ...'
    ),
    "listeners": Command(listeners, "", ASKING + "to report its protocol listeners ..."),
    "log_location": Command(told(lambda node: "\n".join(node["log_files"])), "", "Log file location(s) on node {node} ..."),
    "memory_breakdown": Command(
        memory_breakdown, f"[--unit {'|'.join(list(UNITS)[:3])}|...]", "Reporting memory breakdown on node {node}..."
    ),
    "reset_node_auth_attempt_metrics": Command(reset_attempts, "", "Reset auth attempt metrics on node {node} ..."),
    "resolve_hostname": Command(resolve_hostname, "<hostname>", "Resolving hostname {0} ...", 1, 1),
    "server_version": Command(version, "", ASKING + "for its RabbitMQ version..."),
    "tls_versions": Command(
        lambda api, options, given: "\n".join(tls_versions()), "", "Listing all TLS versions supported by the runtime..."
    ),
}


def tls_versions() -> list[str]:
    """Those that this Python has."""
    known = {"tlsv1.3": ssl.HAS_TLSv1_3, "tlsv1.2": ssl.HAS_TLSv1_2, "tlsv1.1": ssl.HAS_TLSv1_1, "tlsv1": ssl.HAS_TLSv1}
    return [name for name, there in known.items() if there]
