"""The lists of leveretctl, under rabbitmqctl's names and with its columns."""

from leveret.cli.api import Api, JsonObject
from leveret.cli.command import Bad, Command, Do, Options, Result, Table, compact, filled

# What may be asked for, as far as it is not among what is shown anyway.
QUEUE_COLUMNS = """
name durable auto_delete arguments policy operator_policy effective_policy_definition pid owner_pid exclusive
exclusive_consumer_pid exclusive_consumer_tag messages_ready messages_unacknowledged messages messages_ready_ram
messages_unacknowledged_ram messages_ram messages_persistent message_bytes message_bytes_ready
message_bytes_unacknowledged message_bytes_ram message_bytes_persistent head_message_timestamp disk_reads disk_writes
consumers consumer_utilisation consumer_capacity memory slave_pids synchronised_slave_pids state type leader members online
mirror_pids synchronised_mirror_pids confirm_on members_count vhost node idle_since
"""
CONNECTION_COLUMNS = """
pid name port host peer_port peer_host ssl ssl_protocol ssl_key_exchange ssl_cipher ssl_hash peer_cert_subject
peer_cert_issuer peer_cert_validity state channels protocol auth_mechanism user vhost timeout frame_max channel_max
client_properties recv_oct recv_cnt send_oct send_cnt send_pend connected_at node
"""
CHANNEL_COLUMNS = """
pid connection name number user vhost transactional confirm consumer_count messages_unacknowledged messages_uncommitted
acks_uncommitted messages_unconfirmed prefetch_count global_prefetch_count state node
"""
EXCHANGE_COLUMNS = "name type durable auto_delete internal arguments policy vhost"
BINDING_COLUMNS = "source_name source_kind destination_name destination_kind routing_key arguments vhost"
CONSUMER_COLUMNS = "queue_name channel_pid consumer_tag ack_required prefetch_count active activity_status arguments"
VHOST_COLUMNS = "name description tags default_queue_type tracing cluster_state metadata"
FEATURE_COLUMNS = "name state stability provided_by desc doc_url"
DEPRECATED_COLUMNS = "name deprecation_phase provided_by desc doc_url state"
# The API has names for what rabbitmqctl shows as a tuple.
PROTOCOLS = {"AMQP 0-9-1": (0, 9, 1)}


def chosen(given: list[str], shown: str, known: str) -> list[str]:
    """The columns that are asked for, or else those that are shown; ones that nobody knows are refused."""
    wanted = [column for word in given for column in word.split(",") if column]
    unknown = [column for column in wanted if column not in known.split()]
    if unknown:
        raise Bad(f"Info key(s) {', '.join(unknown)} are not supported")
    return wanted or shown.split()


def listing(path: str, shown: str, known: str = "", renamed: dict[str, str] | None = None, encoded: str = "") -> Do:
    """A list; arguments choose other columns of those that are `known`.

    `renamed` has rabbitmqctl's names for the API's fields; those in `encoded` are shown as JSON.
    """
    names = renamed or {}

    def do(api: Api, options: Options, given: list[str]) -> Result:
        columns = chosen(given[1:] if "{0}" in path else given, shown, known)
        # RabbitMQ: what is on nodes that are down; there is none.
        rows = [] if "offline" in options.flags else api.get(filled(path, options, given if "{0}" in path else []))
        for row in rows:
            row.update({column: row.get(field) for column, field in names.items() if column not in row})
            row.update({column: compact(row[column], ordered=True) for column in encoded.split() if column in row})
        return Table(rows, columns)

    return do


def list_connections(api: Api, options: Options, given: list[str]) -> Result:
    columns = chosen(given, "user peer_host peer_port state", CONNECTION_COLUMNS)
    rows = api.get("/api/connections")
    for row in rows:
        row |= {"pid": row["name"], "protocol": PROTOCOLS.get(row["protocol"], row["protocol"])}
    return Table(rows, columns)


def list_consumers(api: Api, options: Options, given: list[str]) -> Result:
    shown = "queue_name channel_pid consumer_tag ack_required prefetch_count active arguments"
    columns = chosen(given, shown, CONSUMER_COLUMNS)
    rows = api.get(f"/api/consumers/{options.in_vhost}")
    for row in rows:
        row["queue_name"] = row["queue"]["name"]
        row["channel_pid"] = (row.get("channel_details") or {}).get("name", "")
    return Table(rows, columns)


def list_bindings(api: Api, options: Options, given: list[str]) -> Result:
    columns = chosen(
        given, "source_name source_kind destination_name destination_kind routing_key arguments", BINDING_COLUMNS
    )
    rows = api.get(f"/api/bindings/{options.in_vhost}")
    for row in rows:
        row |= {"source_name": row["source"], "source_kind": "exchange"}
        row |= {"destination_name": row["destination"], "destination_kind": row["destination_type"]}
    return Table(rows, columns)


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


def list_parameters(api: Api, options: Options, given: list[str]) -> Result:
    rows = [row for row in api.get("/api/parameters") if row["vhost"] == options.vhost]
    return Table([{**row, "value": compact(row["value"])} for row in rows], ["component", "name", "value"])


def shovel_status(api: Api, options: Options, given: list[str]) -> Result:
    rows = api.get("/api/shovels")
    found = [
        {name: row[name] for name in ("name", "vhost", "type", "state")}
        | {column: row.get(field, "") for column, field in SHOVEL_COLUMNS.items()}
        for row in rows
    ]
    return Table(found, ["name", "vhost", "type", "state", *list(SHOVEL_COLUMNS)[:6]])


def list_limits(kind: str, usual: str) -> Do:
    """The limits of one vhost or user as JSON, or with --global of all in a table."""

    def do(api: Api, options: Options, given: list[str]) -> Result:
        rows = api.get(f"/api/{kind}-limits")
        if "global" in options.flags:
            return Table([{**row, "limits": compact(row["value"])} for row in rows], [kind, "limits"])
        name = options.flags.get(kind, usual)
        return compact(next((row["value"] for row in rows if row[kind] == name), {}))

    return do


def list_policies_that_match(api: Api, options: Options, given: list[str]) -> Result:
    """The policies that a queue, or an exchange, has."""
    kind = options.flags.get("object-type", "queue")
    if kind not in ("queue", "exchange"):
        raise Bad(f"object type must be queue or exchange, not {kind}")
    found = api.get(f"/api/{kind}s/{options.in_vhost}/{filled('{0}', options, given)}")
    names = {"policies": found.get("policy"), "operator-policies": found.get("operator_policy")}
    rows: list[JsonObject] = []
    for resource, name in names.items():
        if name:
            rows += [row for row in api.get(f"/api/{resource}/{options.in_vhost}") if row["name"] == name]
    for row in rows:
        row["definition"] = compact(row["definition"])
    return Table(rows, ["vhost", "name", "pattern", "apply-to", "definition", "priority"])


def nothing_found(api: Api, options: Options, given: list[str]) -> Result:
    """A list that is always empty here."""
    return Table([], ["name"])


CHANNEL_NAMES = {"pid": "name"}
POLICY_COLUMNS = "vhost name pattern apply-to definition priority"

COMMANDS: dict[str, Command] = {
    "list_bindings": Command(list_bindings, "[<column> ...]", "Listing bindings for vhost {vhost}...", 0, None),
    "list_channels": Command(
        listing("/api/channels", "pid user consumer_count messages_unacknowledged", CHANNEL_COLUMNS, CHANNEL_NAMES),
        "[<column> ...]",
        "Listing channels ...",
        0,
        None,
    ),
    "list_connections": Command(
        list_connections,
        "[<column> ...]",
        "Listing connections ...",
        0,
        None,
    ),
    "list_consumers": Command(list_consumers, "[<column> ...]", "Listing consumers in vhost {vhost} ...", 0, None),
    "list_exchanges": Command(
        listing("/api/exchanges/{vhost}", "name type", EXCHANGE_COLUMNS),
        "[<column> ...]",
        "Listing exchanges for vhost {vhost} ...",
        0,
        None,
    ),
    "list_feature_flags": Command(
        listing("/api/feature-flags", "name state", FEATURE_COLUMNS), "[<column> ...]", "Listing feature flags ...", 0, None
    ),
    "list_global_parameters": Command(
        listing("/api/global-parameters", "name value", encoded="value"), "", "Listing global runtime parameters ..."
    ),
    "list_operator_policies": Command(
        listing("/api/operator-policies/{vhost}", POLICY_COLUMNS, encoded="definition"),
        "",
        'Listing operator policy overrides for vhost "{vhost}" ...',
    ),
    "list_parameters": Command(list_parameters, "", 'Listing runtime parameters for vhost "{vhost}" ...'),
    "list_permissions": Command(
        listing("/api/vhosts/{vhost}/permissions", "user configure write read"),
        "",
        'Listing permissions for vhost "{vhost}" ...',
    ),
    "list_policies": Command(
        listing("/api/policies/{vhost}", POLICY_COLUMNS, encoded="definition"),
        "",
        'Listing policies for vhost "{vhost}" ...',
    ),
    "list_queues": Command(
        listing("/api/queues/{vhost}", "name messages", QUEUE_COLUMNS),
        "[<column> ...]",
        "Timeout: {timeout} seconds ...\nListing queues for vhost {vhost} ...",
        0,
        None,
    ),
    "list_topic_permissions": Command(
        listing("/api/vhosts/{vhost}/topic-permissions", "user exchange write read"),
        "",
        'Listing topic permissions for vhost "{vhost}" ...',
    ),
    "list_user_limits": Command(list_limits("user", "guest"), "", 'Listing limits for user "{user}" ...'),
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
    "list_users": Command(listing("/api/users", "user tags", "", {"user": "name"}), "", "Listing users ..."),
    "list_vhost_limits": Command(list_limits("vhost", "/"), "", 'Listing limits for vhost "{vhost}" ...'),
    "list_vhosts": Command(listing("/api/vhosts", "name", VHOST_COLUMNS), "[<column> ...]", "Listing vhosts ...", 0, None),
    "shovel_status": Command(shovel_status, "", "Shovel status ..."),
    "list_deprecated_features": Command(
        listing("/api/deprecated-features", "name deprecation_phase", DEPRECATED_COLUMNS),
        "[--used] [<column> ...]",
        "Listing deprecated features ...",
        0,
        None,
    ),
    "list_policies_that_match": Command(
        list_policies_that_match,
        "[--object-type queue|exchange] <name>",
        'Listing policies that match {0} "{vhost}" ...',
        1,
        1,
    ),
    "list_unresponsive_queues": Command(
        nothing_found, "[<column> ...]", "Listing unresponsive queues for vhost {vhost} ...", 0, None
    ),
}
