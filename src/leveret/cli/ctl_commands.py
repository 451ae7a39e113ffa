"""The commands of leveretctl that set and clear, under rabbitmqctl's names."""

import json
import os
import sys
from collections.abc import Callable, Mapping

import click

from leveret.broker.password import ARGON2ID
from leveret.cli.api import Api, Failed, JsonObject, part
from leveret.cli.command import (
    DATA,
    NO_USER,
    SOFTWARE,
    USAGE,
    Bad,
    Command,
    Do,
    Options,
    Result,
    definitions_in,
    deleting,
    exists,
    parsed,
    parsed_object,
    putting,
)


def password_of(given: list[str]) -> str:
    """The password, from standard input if it is no argument."""
    return given[1] if len(given) > 1 else sys.stdin.readline().rstrip("\n")


def add_user(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/users/{part(given[0])}"
    if exists(api, path):
        raise Bad(f'User "{given[0]}" already exists', SOFTWARE)
    kind = "password_hash" if "pre-hashed-password" in options.flags else "password"
    api.put(path, {kind: password_of(given), "tags": ""})
    return "Done. The user has no permissions in any virtual host yet: see 'leveretctl help set_permissions'."


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


def user_of(api: Api, name: str) -> JsonObject:
    try:
        found: JsonObject = api.get(f"/api/users/{part(name)}")
    except Failed as error:
        if error.status == 404:
            raise Bad(f'User "{name}" does not exist', NO_USER) from None
        raise
    return found


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


def delete_vhost(api: Api, options: Options, given: list[str]) -> Result:
    check_vhost(api, given[0])
    api.delete(f"/api/vhosts/{part(given[0])}")
    return None


def check_vhost(api: Api, name: str) -> None:
    if not exists(api, f"/api/vhosts/{part(name)}"):
        raise Bad(f"Virtual host '{name}' does not exist", DATA)


def set_vhost_tags(api: Api, options: Options, given: list[str]) -> Result:
    """All its tags, so those that it had are gone."""
    return update_vhost(api, given[0], {"tags": given[1:]})


def update_vhost_metadata(api: Api, options: Options, given: list[str]) -> Result:
    flags = {"description": "description", "tags": "tags", "default-queue-type": "default_queue_type"}
    changes = {field: options.flags[flag] for flag, field in flags.items() if flag in options.flags}
    if not changes:
        raise Bad(f"nothing to change: give {', '.join('--' + flag for flag in flags)}")
    return update_vhost(api, given[0], changes)


def update_vhost(api: Api, name: str, changes: Mapping[str, object]) -> Result:
    check_vhost(api, name)
    found = api.get(f"/api/vhosts/{part(name)}")
    kept = {field: found[field] for field in ("description", "tags", "default_queue_type") if found.get(field)}
    api.put(f"/api/vhosts/{part(name)}", {**kept, **changes})
    return None


def set_permissions(api: Api, options: Options, given: list[str]) -> Result:
    user_of(api, given[0])
    check_vhost(api, options.vhost)
    rights = {"configure": given[1], "write": given[2], "read": given[3]}
    api.put(f"/api/permissions/{options.in_vhost}/{part(given[0])}", rights)
    return None


def set_permissions_globally(api: Api, options: Options, given: list[str]) -> Result:
    user_of(api, given[0])
    rights = {"configure": given[1], "write": given[2], "read": given[3]}
    for vhost in api.get("/api/vhosts?columns=name"):
        api.put(f"/api/permissions/{part(vhost['name'])}/{part(given[0])}", rights)
    return None


def policy(options: Options, given: list[str]) -> dict[str, object]:
    return {
        "pattern": given[1],
        "definition": parsed(given[2]),
        "priority": int(options.flags.get("priority", "0")),
        "apply-to": options.flags.get("apply-to", "all"),
    }


def operator_policy(options: Options, given: list[str]) -> dict[str, object]:
    return policy(options, given) | {"apply-to": options.flags.get("apply-to", "all")}


def set_vhost_limits(api: Api, options: Options, given: list[str]) -> Result:
    for name, value in parsed_object(given[0]).items():
        api.put(f"/api/vhost-limits/{options.in_vhost}/{part(name)}", {"value": value})
    return None


def clear_vhost_limits(api: Api, options: Options, given: list[str]) -> Result:
    for limit in ("max-connections", "max-queues"):
        api.delete(f"/api/vhost-limits/{options.in_vhost}/{limit}")
    return None


def set_user_limits(api: Api, options: Options, given: list[str]) -> Result:
    for name, value in parsed_object(given[1]).items():
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


# Objects


def delete_queue(api: Api, options: Options, given: list[str]) -> Result:
    path = f"/api/queues/{options.in_vhost}/{part(given[0])}"
    if not exists(api, path):
        raise Bad("Queue not found", USAGE)
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


def close_all_user_connections(api: Api, options: Options, given: list[str]) -> Result:
    api.delete(f"/api/connections/username/{part(given[0])}", {"X-Reason": given[1]})
    return None


def export_definitions(api: Api, options: Options, given: list[str]) -> Result:
    found = api.get("/api/definitions")
    text = json.dumps(found, indent=2)
    argon2 = [user["name"] for user in found["users"] if user["hashing_algorithm"] == ARGON2ID]
    if argon2:
        click.echo(f"warning: RabbitMQ cannot read the argon2id passwords of: {', '.join(argon2)}", err=True)
    if given[0] == "-":
        return text
    from leveret.store.modes import write_private  # noqa: PLC0415 - logging takes its time

    write_private(given[0], text)
    return None


def import_definitions(api: Api, options: Options, given: list[str]) -> Result:
    found = definitions_in(given[0] if given else "-")
    path = "/api/definitions?skip_unsupported=true" if "skip-unsupported" in options.flags else "/api/definitions"
    answer = api.ask("POST", path, found)
    left_out = [f"left out: {line}" for line in (answer or {}).get("left_out", [])]
    return "\n".join([*left_out, "Definitions imported."])


def setting(name: str, value: Callable[[list[str]], object]) -> Do:
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


def free_limit(given: list[str]) -> int:
    if given[0] == "mem_relative" and len(given) == 2:
        try:
            return int(float(given[1]) * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except ValueError:
            raise Bad(f"bad argument: {given[1]}", DATA) from None
    if len(given) > 1:
        raise Bad("too many arguments")
    return octets(given[0])


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


def hash_password(api: Api, options: Options, given: list[str]) -> Result:
    return str(api.get(f"/api/auth/hash_password/{part(given[0])}")["ok"])


NO_PARAMETER = "Parameter does not exist"

COMMANDS: dict[str, Command] = {
    "add_user": Command(add_user, "<username> [<password>]", 'Adding user "{0}" ...', 1, 2),
    "add_vhost": Command(add_vhost, "<vhost>", 'Adding vhost "{0}" ...', 1, 1),
    "authenticate_user": Command(authenticate_user, "<username> [<password>]", 'Authenticating user "{0}" ...', 1, 2),
    "change_password": Command(change_password, "<username> [<password>]", 'Changing password for user "{0}" ...', 1, 2),
    "clear_global_parameter": Command(
        deleting("/api/global-parameters/{0}", NO_PARAMETER),
        "<name>",
        'Clearing global runtime parameter "{0}" ...',
        1,
        1,
    ),
    "clear_operator_policy": Command(
        deleting("/api/operator-policies/{vhost}/{0}", NO_PARAMETER),
        "<name>",
        'Clearing operator policy "{0}" on vhost "{vhost}" ...',
        1,
        1,
    ),
    "clear_parameter": Command(
        deleting("/api/parameters/{0}/{vhost}/{1}", NO_PARAMETER),
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
        deleting("/api/policies/{vhost}/{0}", NO_PARAMETER),
        "<name>",
        'Clearing policy "{0}" on vhost "{vhost}" ...',
        1,
        1,
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
    "close_all_user_connections": Command(
        close_all_user_connections, "<username> <explanation>", "Closing connections of user {0}, reason: {1}...", 2, 2
    ),
    "close_connection": Command(
        close_connection, "<connection> <explanation>", "Closing connection {0}, reason: {1}...", 2, 2
    ),
    "delete_queue": Command(delete_queue, "<queue>", "Deleting queue '{0}' on vhost '{vhost}' ...", 1, 1),
    "delete_shovel": Command(
        deleting("/api/parameters/shovel/{vhost}/{0}"), "<name>", "Deleting shovel {0} in vhost {vhost}", 1, 1
    ),
    "delete_user": Command(
        deleting("/api/users/{0}", 'User "{0}" does not exist', NO_USER), "<username>", 'Deleting user "{0}" ...', 1, 1
    ),
    "delete_vhost": Command(delete_vhost, "<vhost>", 'Deleting vhost "{0}" ...', 1, 1),
    "export_definitions": Command(export_definitions, "<file>|-", "Exporting definitions ...", 1, 1),
    "hash_password": Command(hash_password, "<password>", "Will hash password {0}", 1, 1),
    "import_definitions": Command(import_definitions, "[--skip-unsupported] [<file>]", "Importing definitions ...", 0, 1),
    "purge_queue": Command(
        deleting("/api/queues/{vhost}/{0}/contents", "not_found"),
        "<queue>",
        "Purging queue '{0}' in vhost '{vhost}' ...",
        1,
        1,
    ),
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
        "Setting cluster name to {0} ...",
        1,
        1,
    ),
    "set_disk_free_limit": Command(
        setting("disk_free_limit", free_limit),
        "<bytes> | mem_relative <fraction>",
        "Setting disk free limit to {0} ...",
        1,
        2,
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
        set_permissions,
        "<username> <conf> <write> <read>",
        'Setting permissions for user "{0}" in vhost "{vhost}" ...',
        4,
        4,
    ),
    "set_permissions_globally": Command(
        set_permissions_globally,
        "<username> <conf> <write> <read>",
        'Setting permissions for user "{0}" in all virtual hosts ...',
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
    "set_vhost_tags": Command(
        set_vhost_tags, "<vhost> <tag> [...]", 'Setting tags for virtual host "{0}" to [{rest}] ...', 1, None
    ),
    "set_vm_memory_high_watermark": Command(
        setting("memory_watermark", watermark), "<fraction> | absolute <bytes>", "Setting memory threshold to {0} ...", 1, 2
    ),
    "trace_off": Command(tracing(False), "", 'Stopping tracing for vhost "{vhost}" ...'),
    "trace_on": Command(tracing(True), "", 'Starting tracing for vhost "{vhost}" ...'),
    "update_vhost_metadata": Command(
        update_vhost_metadata,
        "<vhost> [--description <text>] [--tags <tags>] [--default-queue-type <type>]",
        'Updating metadata of vhost "{0}" ...',
        1,
        1,
    ),
}
