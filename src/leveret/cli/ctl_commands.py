"""The commands of leveretctl, under rabbitmqctl's names: arguments, what is said first, and the requests they are."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leveret.cli.api import Api, Failed, Unreachable, part

USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TEMPORARY = 64, 65, 67, 69, 70, 75


class Bad(Exception):
    """A command that cannot be done; `status` is what to exit with."""

    def __init__(self, text: str, status: int = USAGE) -> None:
        super().__init__(text)
        self.status = status


class Options:
    """What was given with a dash."""

    def __init__(self, vhost: str = "/", flags: dict[str, str] | None = None) -> None:
        self.vhost = vhost
        self.flags = flags or {}

    @property
    def in_vhost(self) -> str:
        return part(self.vhost)


class Table:
    """Rows and the columns to show."""

    def __init__(self, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
        self.rows = rows
        self.columns = columns


Result = Table | dict[str, Any] | str | None
Do = Callable[[Api, Options, list[str]], Result]


class Command:
    """One command: how many arguments it takes at least and at most (None: any), and what it says before it is done."""

    def __init__(self, do: Do, usage: str = "", banner: str = "", least: int = 0, most: int | None = 0) -> None:
        self.do = do
        self.usage = usage
        self.banner = banner
        self.least = least
        self.most = most


# What is set and cleared


def putting(path: str, body: Callable[[Options, list[str]], Any] | None = None) -> Do:
    """A PUT to a path with {vhost} and {0}, {1}… for arguments."""

    def do(api: Api, options: Options, given: list[str]) -> Result:
        api.put(filled(path, options, given), {} if body is None else body(options, given))
        return None

    return do


def deleting(path: str) -> Do:
    def do(api: Api, options: Options, given: list[str]) -> Result:
        api.delete(filled(path, options, given))
        return None

    return do


def filled(path: str, options: Options, given: list[str]) -> str:
    return path.format(*(part(one) for one in given), vhost=options.in_vhost)


def parsed(text: str) -> Any:
    """An argument that must be JSON."""
    try:
        return json.loads(text)
    except ValueError:
        raise Bad(f"JSON decoding error: {text}", DATA) from None


def password_of(given: list[str]) -> str:
    """The password, from standard input if it is no argument."""
    return given[1] if len(given) > 1 else sys.stdin.readline().rstrip("\n")


def add_user(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/users/{part(given[0])}"
    if exists(api, path):
        raise Bad(f'User "{given[0]}" already exists', SOFTWARE)
    api.put(path, {"password": password_of(given), "tags": ""})
    return "Done. The user may enter no virtual host yet: see 'leveretctl help set_permissions'."


def change_password(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/users/{part(given[0])}"
    tags = user_of(api, given[0])["tags"]
    api.put(path, {"password": password_of(given), "tags": tags})
    return None


def clear_password(api: Api, options: Options, given: list[str]) -> Result:
    tags = user_of(api, given[0])["tags"]
    api.put(f"/api/users/{part(given[0])}", {"password_hash": "", "tags": tags})
    return None


def set_user_tags(api: Api, options: Options, given: list[str]) -> Result:
    found = user_of(api, given[0])
    body = {"password_hash": found["password_hash"], "hashing_algorithm": found["hashing_algorithm"], "tags": given[1:]}
    api.put(f"/api/users/{part(given[0])}", body)
    return None


def user_of(api: Api, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = api.get(f"/api/users/{part(name)}")
    except Failed as error:
        if error.status == 404:
            raise Bad(f'User "{name}" does not exist', NO_USER) from None
        raise
    return found


def exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except Failed as error:
        if error.status == 404:
            return False
        raise
    return True


def authenticate_user(api: Api, options: Options, given: list[str]) -> Result:
    answer = api.ask("POST", "/api/leveret/authenticate", {"name": given[0], "password": password_of(given)})
    if not answer["ok"]:
        raise Bad(f'failed to authenticate user "{given[0]}"', DATA)
    return "Success"


def add_vhost(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/vhosts/{part(given[0])}"
    body = {name.replace("-", "_"): value for name, value in options.flags.items()}
    api.put(path, {name: body[name] for name in ("description", "tags", "default_queue_type") if name in body})
    return None


def policy(options: Options, given: list[str]) -> dict[str, Any]:
    return {
        "pattern": given[1],
        "definition": parsed(given[2]),
        "priority": int(options.flags.get("priority", "0")),
        "apply-to": options.flags.get("apply-to", "all"),
    }


def operator_policy(options: Options, given: list[str]) -> dict[str, Any]:
    return policy(options, given) | {"apply-to": options.flags.get("apply-to", "queues")}


def set_vhost_limits(api: Api, options: Options, given: list[str]) -> Result:
    for name, value in parsed(given[0]).items():
        api.put(f"/api/vhost-limits/{options.in_vhost}/{part(name)}", {"value": value})
    return None


def clear_vhost_limits(api: Api, options: Options, given: list[str]) -> Result:
    for limit in ("max-connections", "max-queues"):
        api.delete(f"/api/vhost-limits/{options.in_vhost}/{limit}")
    return None


def set_user_limits(api: Api, options: Options, given: list[str]) -> Result:
    for name, value in parsed(given[1]).items():
        api.put(f"/api/user-limits/{part(given[0])}/{part(name)}", {"value": value})
    return None


def clear_user_limits(api: Api, options: Options, given: list[str]) -> Result:
    names = ("max-connections", "max-channels") if given[1] == "all" else (given[1],)
    for name in names:
        api.delete(f"/api/user-limits/{part(given[0])}/{part(name)}")
    return None


def clear_topic_permissions(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/topic-permissions/{options.in_vhost}/{part(given[0])}"
    api.delete(path if len(given) == 1 else f"{path}/{part(given[1])}")
    return None


def tracing(on: bool) -> Do:
    def do(api: Api, options: Options, given: list[str]) -> Result:
        api.put(f"/api/vhosts/{options.in_vhost}", {"tracing": on})
        return f"Trace {'enabled' if on else 'disabled'} for vhost {options.vhost}"

    return do


# Lists


def listing(path: str, columns: str, renamed: dict[str, str] | None = None) -> Do:
    """A list; arguments choose other columns. `renamed` has rabbitmqctl's names for the API's fields."""
    names = renamed or {}

    def do(api: Api, options: Options, given: list[str]) -> Result:
        rows = api.get(filled(path, options, given if "{0}" in path else []))
        for row in rows:
            row.update({column: row.get(field) for column, field in names.items() if column not in row})
        wanted = given[1:] if "{0}" in path else given
        return Table(rows, wanted or columns.split())

    return do


def list_consumers(api: Api, options: Options, given: list[str]) -> Result:
    rows = api.get(f"/api/consumers/{options.in_vhost}")
    for row in rows:
        row["queue_name"] = row["queue"]["name"]
        row["channel_pid"] = (row.get("channel_details") or {}).get("name", "")
    columns = "queue_name channel_pid consumer_tag ack_required prefetch_count active arguments"
    return Table(rows, given or columns.split())


def list_bindings(api: Api, options: Options, given: list[str]) -> Result:
    rows = api.get(f"/api/bindings/{options.in_vhost}")
    for row in rows:
        row |= {"source_name": row["source"], "source_kind": "exchange"}
        row |= {"destination_name": row["destination"], "destination_kind": row["destination_type"]}
    columns = "source_name source_kind destination_name destination_kind routing_key arguments"
    return Table(rows, given or columns.split())


SHOVEL_COLUMNS = {
    "source": "src_uri",
    "source_protocol": "src_protocol",
    "destination": "dest_uri",
    "destination_protocol": "dest_protocol",
    "termination_reason": "reason",
    "last_changed": "timestamp",
    "source_queue": "src_queue",
    "source_exchange": "src_exchange",
    "source_exchange_key": "src_exchange_key",
    "destination_queue": "dest_queue",
    "destination_exchange": "dest_exchange",
    "destination_exchange_key": "dest_exchange_key",
}


def shovel_status(api: Api, options: Options, given: list[str]) -> Result:
    rows = api.get("/api/shovels")
    found = [
        {name: row[name] for name in ("name", "vhost", "type", "state")}
        | {column: row.get(field, "") for column, field in SHOVEL_COLUMNS.items()}
        for row in rows
    ]
    return Table(found, ["name", "vhost", "type", "state", *list(SHOVEL_COLUMNS)[:6]])


def list_limits(kind: str) -> Do:
    def do(api: Api, options: Options, given: list[str]) -> Result:
        rows = api.get(f"/api/{kind}-limits")
        return Table([{**row, "limits": json.dumps(row["value"])} for row in rows], [kind, "limits"])

    return do


# Objects


def purge_queue(api: Api, options: Options, given: list[str]) -> Result:
    api.delete(f"/api/queues/{options.in_vhost}/{part(given[0])}/contents")
    return None


def delete_queue(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/queues/{options.in_vhost}/{part(given[0])}"
    count = api.get(path).get("messages_ready", 0)
    asked = [f"{flag}=true" for flag in ("if-empty", "if-unused") if flag in options.flags]
    api.delete(path + ("?" + "&".join(asked) if asked else ""))
    return f"Queue was successfully deleted with {count} ready messages"


def close_connection(api: Api, options: Options, given: list[str]) -> Result:
    api.delete(f"/api/connections/{part(given[0])}", {"X-Reason": given[1]})
    return None


def close_all_connections(api: Api, options: Options, given: list[str]) -> Result:
    everywhere = "global" in options.flags
    rows = api.get("/api/connections" if everywhere else f"/api/vhosts/{options.in_vhost}/connections")
    limit = int(options.flags.get("limit", "0")) or len(rows)
    for row in rows[:limit]:
        api.delete(f"/api/connections/{part(row['name'])}", {"X-Reason": given[0]})
    return f"Closed {min(limit, len(rows))} connections"


def export_definitions(api: Api, options: Options, given: list[str]) -> Result:
    text = json.dumps(api.get("/api/definitions"), indent=2)
    if given[0] == "-":
        return text
    Path(given[0]).write_text(text + "\n", encoding="utf-8")
    return None


def import_definitions(api: Api, options: Options, given: list[str]) -> Result:
    try:
        text = Path(given[0]).read_text(encoding="utf-8") if given else sys.stdin.read()
    except OSError as error:
        raise Bad(f"cannot read {given[0]}: {error.strerror}", DATA) from None
    api.ask("POST", "/api/definitions", parsed(text))
    return "Definitions imported."


# The node


def ping(api: Api, options: Options, given: list[str]) -> Result:
    api.get("/api/whoami")
    return "Ping succeeded"


def status(api: Api, options: Options, given: list[str]) -> Result:
    found = api.get("/api/overview")
    keys = ("node", "rabbitmq_version", "leveret_version", "erlang_full_version", "cluster_name")
    return {key: found.get(key, "") for key in keys} | {
        "listeners": [f"{one['protocol']} {one['ip_address']}:{one['port']}" for one in found["listeners"]],
        "totals": found["object_totals"] | found["queue_totals"],
    }


def report(api: Api, options: Options, given: list[str]) -> Result:
    paths = ("overview", "vhosts", "users", "permissions", "policies", "queues", "exchanges", "bindings", "connections")
    found = {path: api.get(f"/api/{path}") for path in paths}
    for user in found["users"]:
        user.pop("password_hash", None)
    return found


def await_startup(api: Api, options: Options, given: list[str]) -> Result:
    deadline = time.monotonic() + float(options.flags.get("timeout", "60"))
    while True:
        try:
            api.get("/api/whoami")
        except Unreachable:
            if time.monotonic() > deadline:
                raise Bad("the broker did not start in time", TEMPORARY) from None
            time.sleep(0.1)
        else:
            return None


def setting(name: str, value: Callable[[list[str]], Any]) -> Do:
    def do(api: Api, options: Options, given: list[str]) -> Result:
        api.put("/api/leveret/settings", {name: value(given)})
        return None

    return do


UNITS = {"k": 1 << 10, "kib": 1 << 10, "kb": 10**3, "m": 1 << 20, "mib": 1 << 20, "mb": 10**6}
UNITS |= {"g": 1 << 30, "gib": 1 << 30, "gb": 10**9, "t": 1 << 40, "tib": 1 << 40, "tb": 10**12}


def octets(text: str) -> int:
    """A number of bytes, perhaps with a unit: 2GB."""
    digits = text.rstrip("kKmMgGtTiIbB")
    unit = text[len(digits) :].lower()
    if not digits.isdigit() or (unit and unit not in UNITS):
        raise Bad(f"bad argument: {text}", DATA)
    return int(digits) * UNITS.get(unit, 1)


def watermark(given: list[str]) -> float:
    if given[0] == "absolute" and len(given) == 2:
        return octets(given[1])
    try:
        fraction = float(given[0])
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction <= 1:
        raise Bad("The threshold should be a fraction between 0.0 and 1.0", DATA)
    return fraction


def stop(api: Api, options: Options, given: list[str]) -> Result:
    api.ask("POST", "/api/leveret/stop", {"reason": "leveretctl stop"})
    return None


def hash_password(api: Api, options: Options, given: list[str]) -> Result:
    return str(api.get(f"/api/auth/hash_password/{part(given[0])}")["ok"])


COMMANDS: dict[str, Command] = {
    "add_user": Command(add_user, "<username> [<password>]", 'Adding user "{0}" ...', 1, 2),
    "add_vhost": Command(add_vhost, "<vhost>", 'Adding vhost "{0}" ...', 1, 1),
    "authenticate_user": Command(authenticate_user, "<username> [<password>]", 'Authenticating user "{0}" ...', 1, 2),
    "await_startup": Command(await_startup),
    "change_password": Command(change_password, "<username> [<password>]", 'Changing password for user "{0}" ...', 1, 2),
    "clear_global_parameter": Command(
        deleting("/api/global-parameters/{0}"), "<name>", 'Clearing global runtime parameter "{0}" ...', 1, 1
    ),
    "clear_operator_policy": Command(
        deleting("/api/operator-policies/{vhost}/{0}"),
        "<name>",
        'Clearing operator policy "{0}" on vhost "{vhost}" ...',
        1,
        1,
    ),
    "clear_parameter": Command(
        deleting("/api/parameters/{0}/{vhost}/{1}"),
        "<component> <name>",
        'Clearing runtime parameter "{1}" for component "{0}" on vhost "{vhost}" ...',
        2,
        2,
    ),
    "clear_password": Command(clear_password, "<username>", 'Clearing password for user "{0}" ...', 1, 1),
    "clear_permissions": Command(
        deleting("/api/permissions/{vhost}/{0}"),
        "<username>",
        'Clearing permissions for user "{0}" in vhost "{vhost}" ...',
        1,
        1,
    ),
    "clear_policy": Command(
        deleting("/api/policies/{vhost}/{0}"), "<name>", 'Clearing policy "{0}" on vhost "{vhost}" ...', 1, 1
    ),
    "clear_topic_permissions": Command(
        clear_topic_permissions,
        "<username> [<exchange>]",
        'Clearing topic permissions for user "{0}" in vhost "{vhost}" ...',
        1,
        2,
    ),
    "clear_user_limits": Command(
        clear_user_limits, "<username> <limit>|all", 'Clearing "{1}" limit for user "{0}" ...', 2, 2
    ),
    "clear_vhost_limits": Command(clear_vhost_limits, "", 'Clearing vhost "{vhost}" limits ...'),
    "close_all_connections": Command(
        close_all_connections, "<explanation>", "Closing all connections in vhost {vhost}, reason: {0}...", 1, 1
    ),
    "close_connection": Command(
        close_connection, "<connection> <explanation>", "Closing connection {0}, reason: {1}...", 2, 2
    ),
    "delete_queue": Command(delete_queue, "<queue>", "Deleting queue '{0}' on vhost '{vhost}' ...", 1, 1),
    "delete_shovel": Command(
        deleting("/api/parameters/shovel/{vhost}/{0}"), "<name>", "Deleting shovel {0} in vhost {vhost}", 1, 1
    ),
    "delete_user": Command(deleting("/api/users/{0}"), "<username>", 'Deleting user "{0}" ...', 1, 1),
    "delete_vhost": Command(deleting("/api/vhosts/{0}"), "<vhost>", 'Deleting vhost "{0}" ...', 1, 1),
    "export_definitions": Command(export_definitions, "<file>|-", "Exporting definitions ...", 1, 1),
    "hash_password": Command(hash_password, "<password>", "Will hash password {0}", 1, 1),
    "import_definitions": Command(import_definitions, "[<file>]", "Importing definitions ...", 0, 1),
    "list_bindings": Command(list_bindings, "[<column> ...]", "Listing bindings for vhost {vhost}...", 0, None),
    "list_channels": Command(
        listing("/api/channels", "pid user consumer_count messages_unacknowledged", {"pid": "name"}),
        "[<column> ...]",
        "Listing channels ...",
        0,
        None,
    ),
    "list_connections": Command(
        listing("/api/connections", "user peer_host peer_port state", {"pid": "name"}),
        "[<column> ...]",
        "Listing connections ...",
        0,
        None,
    ),
    "list_consumers": Command(list_consumers, "[<column> ...]", "Listing consumers in vhost {vhost} ...", 0, None),
    "list_exchanges": Command(
        listing("/api/exchanges/{vhost}", "name type"),
        "[<column> ...]",
        "Listing exchanges for vhost {vhost} ...",
        0,
        None,
    ),
    "list_feature_flags": Command(
        listing("/api/feature-flags", "name state"), "[<column> ...]", "Listing feature flags ...", 0, None
    ),
    "list_global_parameters": Command(
        listing("/api/global-parameters", "name value"), "", "Listing global runtime parameters ..."
    ),
    "list_operator_policies": Command(
        listing("/api/operator-policies/{vhost}", "vhost name pattern apply-to definition priority"),
        "",
        'Listing operator policy overrides for vhost "{vhost}" ...',
    ),
    "list_parameters": Command(
        listing("/api/parameters", "component name value"), "", 'Listing runtime parameters for vhost "{vhost}" ...'
    ),
    "list_permissions": Command(
        listing("/api/vhosts/{vhost}/permissions", "user configure write read"),
        "",
        'Listing permissions for vhost "{vhost}" ...',
    ),
    "list_policies": Command(
        listing("/api/policies/{vhost}", "vhost name pattern apply-to definition priority"),
        "",
        'Listing policies for vhost "{vhost}" ...',
    ),
    "list_queues": Command(
        listing("/api/queues/{vhost}", "name messages"),
        "[<column> ...]",
        "Timeout: 60.0 seconds ...\nListing queues for vhost {vhost} ...",
        0,
        None,
    ),
    "list_topic_permissions": Command(
        listing("/api/vhosts/{vhost}/topic-permissions", "user exchange write read"),
        "",
        'Listing topic permissions for vhost "{vhost}" ...',
    ),
    "list_user_limits": Command(list_limits("user"), "", "Listing limits for all users ..."),
    "list_user_permissions": Command(
        listing("/api/users/{0}/permissions", "vhost configure write read"),
        "<username>",
        'Listing permissions for user "{0}" ...',
        1,
        1,
    ),
    "list_user_topic_permissions": Command(
        listing("/api/users/{0}/topic-permissions", "vhost exchange write read"),
        "<username>",
        'Listing topic permissions for user "{0}" ...',
        1,
        1,
    ),
    "list_users": Command(listing("/api/users", "user tags", {"user": "name"}), "", "Listing users ..."),
    "list_vhost_limits": Command(list_limits("vhost"), "", 'Listing limits for vhost "{vhost}" ...'),
    "list_vhosts": Command(listing("/api/vhosts", "name"), "[<column> ...]", "Listing vhosts ...", 0, None),
    "node_health_check": Command(
        lambda api, options, given: "Health check passed" if api.get("/api/health/checks/alarms") else None,
        "",
        "Checking health of the node ...",
    ),
    "ping": Command(ping, "", "Will ping the broker ..."),
    "purge_queue": Command(purge_queue, "<queue>", "Purging queue '{0}' in vhost '{vhost}' ...", 1, 1),
    "report": Command(report, "", "Reporting server status ..."),
    "restart_shovel": Command(
        deleting("/api/shovels/vhost/{vhost}/{0}/restart"),
        "<name>",
        "Restarting dynamic Shovel {0} in virtual host {vhost}",
        1,
        1,
    ),
    "set_cluster_name": Command(
        putting("/api/cluster-name", lambda options, given: {"name": given[0]}),
        "<name>",
        'Setting cluster name to "{0}" ...',
        1,
        1,
    ),
    "set_disk_free_limit": Command(
        setting("disk_free_limit", lambda given: octets(given[0])),
        "<bytes>",
        "Setting disk free limit to {0} bytes ...",
        1,
        1,
    ),
    "set_global_parameter": Command(
        putting("/api/global-parameters/{0}", lambda options, given: {"value": parsed(given[1])}),
        "<name> <value>",
        'Setting global runtime parameter "{0}" to "{1}" ...',
        2,
        2,
    ),
    "set_log_level": Command(
        setting("log_level", lambda given: given[0]), "<level>", 'Setting log level to "{0}" ...', 1, 1
    ),
    "set_operator_policy": Command(
        putting("/api/operator-policies/{vhost}/{0}", operator_policy),
        "<name> <pattern> <definition>",
        'Setting operator policy override "{0}" for pattern "{1}" to "{2}" with priority "{priority}" '
        'for vhost "{vhost}" ...',
        3,
        3,
    ),
    "set_parameter": Command(
        putting("/api/parameters/{0}/{vhost}/{1}", lambda options, given: {"value": parsed(given[2])}),
        "<component> <name> <value>",
        'Setting runtime parameter "{1}" for component "{0}" to "{2}" in vhost "{vhost}" ...',
        3,
        3,
    ),
    "set_permissions": Command(
        putting(
            "/api/permissions/{vhost}/{0}",
            lambda options, given: {"configure": given[1], "write": given[2], "read": given[3]},
        ),
        "<username> <conf> <write> <read>",
        'Setting permissions for user "{0}" in vhost "{vhost}" ...',
        4,
        4,
    ),
    "set_policy": Command(
        putting("/api/policies/{vhost}/{0}", policy),
        "<name> <pattern> <definition>",
        'Setting policy "{0}" for pattern "{1}" to "{2}" with priority "{priority}" for vhost "{vhost}" ...',
        3,
        3,
    ),
    "set_topic_permissions": Command(
        putting(
            "/api/topic-permissions/{vhost}/{0}",
            lambda options, given: {"exchange": given[1], "write": given[2], "read": given[3]},
        ),
        "<username> <exchange> <write> <read>",
        'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
        4,
        4,
    ),
    "set_user_limits": Command(
        set_user_limits, "<username> <definition>", 'Setting user limits to "{1}" for user "{0}" ...', 2, 2
    ),
    "set_user_tags": Command(
        set_user_tags, "<username> <tag> [...]", 'Setting tags for user "{0}" to [{rest}] ...', 1, None
    ),
    "set_vhost_limits": Command(
        set_vhost_limits, "<definition>", 'Setting vhost limits to "{0}" for vhost "{vhost}" ...', 1, 1
    ),
    "set_vm_memory_high_watermark": Command(
        setting("memory_watermark", watermark), "<fraction> | absolute <bytes>", "Setting memory threshold to {0} ...", 1, 2
    ),
    "shovel_status": Command(shovel_status, "", "Shovel status ..."),
    "status": Command(status, "", "Status of the broker ..."),
    "stop": Command(stop, "", "Stopping the broker ..."),
    "trace_off": Command(tracing(False), "", 'Stopping tracing for vhost "{vhost}" ...'),
    "trace_on": Command(tracing(True), "", 'Starting tracing for vhost "{vhost}" ...'),
}
