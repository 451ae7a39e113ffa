"""Repair: a data folder whose definitions are damaged is made one that a broker starts on, and nothing is thrown away.

(1) A file of definitions that cannot be read is kept under another name; rows that are damaged, or that need one that is
    lost, are dropped and named.
(2) A queue whose definition is lost, and of which messages are in the journal, becomes `queue-ID` in the vhost `recovered`.
(3) No user is made: `leveretctl add_user` needs none. Where the last changes are missing, none is kept either: a user
    who was deleted must not be back, nor one whose password was changed.
"""

import sqlite3
from pathlib import Path
from typing import Any

from leveret.broker.pages import Pages, Sizes
from leveret.store.disk import Disk
from leveret.store.journal import Journal
from leveret.store.opened import InUse, Unusable, close_files, number_of, open_definitions
from leveret.store.rebuild import fitting
from leveret.store.recovery import Recovery
from leveret.store.rows import Change, DefinitionsFile, packed, put, remove, set_fact
from leveret.store.store import CHANGES, DELIVERED_UP_TO, LAST_BATCH, LAST_QUEUE_ID

VHOST = "recovered"
DEFAULT_VHOST = "/"


def repair(folder: Path) -> list[str]:
    """Repair a stopped broker's folder; what was done, in lines. InUse, UnknownFormat or Unusable if that cannot be."""
    disk = Disk(folder)
    try:
        if not disk.lock():
            raise InUse(f"{folder} is in use by another process")
        definitions = open_definitions(disk, accept_loss=True)
        try:
            return Repair(disk, definitions).run()
        finally:
            definitions.close()
    except (OSError, sqlite3.Error) as error:
        raise Unusable(folder, error) from error
    finally:
        disk.unlock()


class Repair:
    """One repair; `_changes` are carried out at its end, all or none."""

    def __init__(self, disk: Disk, definitions: DefinitionsFile) -> None:
        self._disk = disk
        self._definitions = definitions
        self._changes: list[Change] = []
        self._said: list[str] = []
        # How many changes the journal knows of that are not in the definitions.
        self._missing = 0

    def run(self) -> list[str]:
        rows, damaged = self._definitions.read_rows()
        self._said += [f"dropped the damaged definition of {title}" for title in damaged]
        self._definitions.drop_damaged_rows()
        counts = self._count_messages()
        kept = fitting(rows)
        if self._missing and rows:
            self._said.append(
                f"the last {self._missing} changes are missing: what was deleted by them is back, but no users"
            )
            kept = fitting([row for row in kept if row[0] != "user"])
        for kind, vhost, name, _ in [row for row in rows if row not in kept]:
            self._said.append(f"dropped {kind} {name!r} in vhost {vhost!r}: {self._why(kind)}")
            self._changes.append(remove(kind, vhost, name))
        vhosts = {vhost for kind, vhost, _, _ in kept if kind == "vhost"}
        known = {value["id"] for kind, _, _, value in kept if kind in ("queue", "hidden")}
        if DEFAULT_VHOST not in vhosts:
            self._add_vhost(DEFAULT_VHOST)
        lost = [(queue_id, count) for queue_id, count in sorted(counts.items()) if queue_id not in known and count]
        if lost and VHOST not in vhosts:
            self._add_vhost(VHOST)
        for queue_id, count in lost:
            self._add_queue(queue_id, count)
        self._definitions.change(self._changes)
        return self._said or ["nothing to repair"]

    def _count_messages(self) -> dict[int, int]:
        """How many messages each queue has that the journal names; facts that fit the journal are set, too."""
        facts = [number_of(self._definitions, name) for name in (DELIVERED_UP_TO, LAST_BATCH)]
        clean = self._definitions.fact("clean") == "yes"
        recovery, journal = self._read(facts, clean)
        ids = recovery.all_ids()
        close_files(journal)
        known = number_of(self._definitions, CHANGES)
        changes = max(known, recovery.mark[0])
        self._missing = changes - known
        last_id = max(number_of(self._definitions, LAST_QUEUE_ID), recovery.mark[1], recovery.highest_queue_id)
        self._changes += [set_fact(CHANGES, str(changes)), set_fact(LAST_QUEUE_ID, str(last_id))]
        recovery, journal = self._read(facts, clean)
        counts = {}
        for queue_id, found in recovery.find(ids).items():
            pages = Pages(Sizes())
            found.fill(pages, {}, journal, clean)
            counts[queue_id] = pages.count
        close_files(journal)
        return counts

    def _read(self, facts: list[int], clean: bool) -> tuple[Recovery, Journal]:
        journal = Journal(self._disk)
        recovery = Recovery(self._disk, journal, *facts)
        recovery.read(clean)
        return recovery, journal

    def _why(self, kind: str) -> str:
        return "perhaps it was deleted" if kind == "user" else "what it belongs to is lost"

    def _add_vhost(self, name: str) -> None:
        facts: dict[str, Any] = {"description": "", "tags": [], "default_queue_type": "", "limits": {}, "tracing": False}
        self._changes.append(put("vhost", name, "", facts))
        self._said.append(f"made the vhost {name!r}")

    def _add_queue(self, queue_id: int, count: int) -> None:
        name = f"queue-{queue_id}"
        self._changes.append(put("queue", VHOST, name, {"auto_delete": False, "arguments": packed({}), "id": queue_id}))
        self._said.append(f"made the queue {name!r} in vhost {VHOST!r}: {count} messages whose queue is lost are there")
