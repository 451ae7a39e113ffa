"""Definitions on disk: vhosts, users, rights, policies, exchanges, queues and bindings as rows of one SQLite table.

definition(kind, vhost, name, value)     value is JSON; AMQP tables in it are base64 of their wire form
fact(name, value)                        format, clean, last_queue_id

(1) Changes are gathered on the loop and carried out in the committer's thread, a transaction for each batch, before
    the journal's part of it: a queue's row is on disk before any record names its id.
(2) `fact.format` is 2, for all files of the folder; a higher one is refused, and nothing is written. So is 1, which was
    never released.
(3) Names are text of any octets: AMQP's need not be UTF-8.
"""

import base64
import sqlite3
from pathlib import Path
from typing import Any

import msgspec

from leveret.wire.values import Table, decode_table, encode_table

FILE_NAME = "definitions.sqlite"
FORMAT = 2

Change = tuple[str, tuple[Any, ...]]
Row = tuple[str, str, str, dict[str, Any]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS definition (
    kind TEXT NOT NULL, vhost TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, vhost, name)
) WITHOUT ROWID;
"""


class UnknownFormat(Exception):
    """The data folder was written by a later version, or by one that was never released."""


class DefinitionsFile:
    """The SQLite file; used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / FILE_NAME, isolation_level=None, check_same_thread=False)
        self._db.text_factory = lambda octets: octets.decode("utf-8", "surrogateescape")
        self._check_format(folder)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_SCHEMA)
        self.change([set_fact("format", str(FORMAT))])

    def _check_format(self, folder: Path) -> None:
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'fact'").fetchone():
            return
        found = self.fact("format")
        if found is not None and int(found) != FORMAT:
            self._db.close()
            raise UnknownFormat(f"{folder / FILE_NAME} has format {found}; this version knows {FORMAT}")

    def fact(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def faults(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        found = [str(text) for (text,) in self._db.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def rows(self) -> list[Row]:
        """Everything defined."""
        found = self._db.execute("SELECT kind, vhost, name, value FROM definition")
        return [(kind, vhost, name, msgspec.json.decode(value)) for kind, vhost, name, value in found]

    def change(self, changes: list[Change]) -> None:
        """Carry out changes, all or none."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for statement, values in changes:
                self._db.execute(statement, values)
            self._db.execute("COMMIT")
        except BaseException:
            # On a full disk SQLite has rolled back already, and would say that instead of why.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._db.close()


def set_fact(name: str, value: str) -> Change:
    return "INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value)


def put(kind: str, vhost: str, name: str, value: dict[str, Any]) -> Change:
    row = (kind, octets(vhost), octets(name), msgspec.json.encode(value).decode())
    return "INSERT OR REPLACE INTO definition VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), ?)", row


def remove(kind: str, vhost: str, name: str) -> Change:
    statement = "DELETE FROM definition WHERE kind = ? AND vhost = CAST(? AS TEXT) AND name = CAST(? AS TEXT)"
    return statement, (kind, octets(vhost), octets(name))


def remove_vhost(vhost: str) -> Change:
    # Users and what is the whole broker's are in no vhost, which is not the one without a name.
    statement = "DELETE FROM definition WHERE vhost = CAST(? AS TEXT) AND kind NOT IN ('user', 'global_parameter')"
    return statement, (octets(vhost),)


def octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def packed(table: Table) -> str:
    """An AMQP table as text."""
    return base64.b64encode(encode_table(table)[4:]).decode()


def unpacked(text: str) -> Table:
    data = base64.b64decode(text)
    return decode_table(data, 0, len(data))
