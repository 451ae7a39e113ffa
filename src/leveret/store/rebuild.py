"""From the rows of the definitions file to a broker: vhosts, users, rights, exchanges, queues, bindings, policies."""

from ast import literal_eval
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.exchange import NOBODY
from leveret.broker.vhost import VirtualHost
from leveret.store.definitions import Change, Row, put, remove, unpacked
from leveret.store.store import Store

# The order in which one needs the other.
KINDS = (
    "vhost",
    "user",
    "permission",
    "global_parameter",
    "parameter",
    "policy",
    "operator_policy",
    "exchange",
    "queue",
    "binding",
)


def rebuild(broker: Broker, store: Store, rows: list[Row]) -> None:
    """Make everything that is defined, with nothing said to storage again."""
    by_kind: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    for row in rows:
        kind, vhost, name, value = row
        if kind in ("queue", "hidden"):
            store.known_ids[kind, vhost, name] = value["id"]
        if kind in by_kind:
            by_kind[kind].append(row)
    for kind in KINDS:
        for _, vhost, name, value in by_kind[kind]:
            _MAKERS[kind](broker, vhost, name, value)
    store.forget_changes()


def settle_leaving(rows: list[Row]) -> tuple[list[Row], list[Change]]:
    """Queues that were being removed under a name that is another one's by now are there again, as `ID:NAME`.

    Some of their messages were on their way to dead letters. The rows, and how to make them so on disk.
    """
    changes: list[Change] = []
    found: list[Row] = []
    for kind, vhost, name, value in rows:
        if kind == "leaving":
            changes += [remove(kind, vhost, name), put("queue", vhost, name, value)]
        found.append(("queue" if kind == "leaving" else kind, vhost, name, value))
    return found, changes


def fitting(rows: list[Row]) -> list[Row]:
    """Those rows that need none that is not there."""
    vhosts = {vhost for kind, vhost, _, _ in rows if kind == "vhost"}
    users = {name for kind, _, name, _ in rows if kind == "user"}
    return [
        (kind, vhost, name, value)
        for kind, vhost, name, value in rows
        if kind in ("user", "global_parameter") or (vhost in vhosts and (kind != "permission" or name in users))
    ]


def _vhost(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    made = broker.add_vhost(vhost)
    made.describe(value["description"], tuple(value["tags"]))
    made.default_queue_type = value["default_queue_type"]
    made.limits = value["limits"]
    made.tracing = value["tracing"]


def _user(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    user = broker.add_hashed_user(
        name, value["password_hash"], value["hashing"], tuple(value["tags"]), value["loopback_only"]
    )
    user.limits = value["limits"]


def _permission(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    rights = broker.find_user(name).rights_in(vhost)
    if value["granted"]:
        rights.grant(*value["patterns"])
    for exchange, (write, read) in value["topics"].items():
        rights.grant_topics(exchange, write, read)


def _global_parameter(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    broker.parameters[name] = value["value"]


def _parameter(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    component, _, own_name = name.partition("\0")
    # As it is: what an older version took is not refused now.
    _in(broker, vhost).parameters[component, own_name] = value["value"]


def _policy(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    _in(broker, vhost).set_policy(
        name, value["pattern"], value["definition"], priority=value["priority"], apply_to=value["apply_to"]
    )


def _operator_policy(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    _in(broker, vhost).set_operator_policy(
        name, value["pattern"], value["definition"], priority=value["priority"], apply_to=value["apply_to"]
    )


def _exchange(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    _in(broker, vhost).declare_exchange(
        name,
        value["type"],
        durable=True,
        auto_delete=value["auto_delete"],
        internal=value["internal"],
        arguments=unpacked(value["arguments"]),
        made_by=value.get("made_by", NOBODY),
    )


def _queue(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    _in(broker, vhost).restore_queue(name, value["auto_delete"], unpacked(value["arguments"]))


def _binding(broker: Broker, vhost: str, name: str, value: dict[str, Any]) -> None:
    where = _in(broker, vhost)
    source, kind, destination, routing_key, _ = literal_eval(name)
    found = where.queues.get(destination) if kind == "queue" else where.exchanges.get(destination)
    if found is not None and source in where.exchanges:
        where.bind(source, found, routing_key, unpacked(value["arguments"]))


def _in(broker: Broker, vhost: str) -> VirtualHost:
    return broker.find_vhost(vhost)


_MAKERS = {
    "vhost": _vhost,
    "user": _user,
    "permission": _permission,
    "global_parameter": _global_parameter,
    "parameter": _parameter,
    "policy": _policy,
    "operator_policy": _operator_policy,
    "exchange": _exchange,
    "queue": _queue,
    "binding": _binding,
}
