"""From the rows of definitions to a broker: which count, and the ids of queues. What one says `definitions/` knows."""

from leveret.broker.broker import Broker
from leveret.definitions.kind import ROWS
from leveret.store.rows import Change, Row, put, remove, unpacked
from leveret.store.store import Store


def rebuild(broker: Broker, store: Store, rows: list[Row]) -> None:
    """Make everything that is defined, with nothing said to storage again."""
    by_kind: dict[str, list[Row]] = {kind: [] for kind in ROWS}
    for row in rows:
        kind, vhost, name, value = row
        if kind in ("queue", "hidden"):
            store.known_ids[kind, vhost, name] = value["id"]
        if kind in by_kind:
            by_kind[kind].append(row)
    for kind, restore in ROWS.items():
        for _, vhost, name, value in by_kind[kind]:
            if "arguments" in value:
                value["arguments"] = unpacked(value["arguments"])
            restore(broker, vhost, name, value)
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
