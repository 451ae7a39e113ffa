"""Definitions on disk: vhosts, users, rights, policies, exchanges, queues and bindings as rows of one SQLite table.

definition(kind, vhost, name, value, sum)     value is JSON; AMQP tables in it are base64 of their wire form
fact(name, value)                             format, clean, last_queue_id, changes, last_batch, delivered_up_to

(1) Changes are gathered on the loop and carried out in the committer's thread, a transaction for each batch, before
    the journal's part of it: a queue's row is on disk before any record names its id.
(2) `fact.format` is 3, for all files of the folder; a higher one is refused, and nothing is written. So is 1, which was
    never released. In format 2 rows have no `sum`.
(3) Names are text of any octets: AMQP's need not be UTF-8.
(4) `sum` is a CRC-32 of the rest of the row: SQLite checks its own pages' structure, not what is in them.
(5) Somebody else who looks into the file with a lock on it is waited for, as nothing is lost by that; it is said.
"""

import base64
import logging
import sqlite3
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from leveret.store.modes import make_private
from leveret.wire.values import Table, decode_table, encode_table

FILE_NAME = "definitions.sqlite"
FORMAT = 3
FORMATS = (2, 3)
# How long SQLite waits for somebody's lock before that is said, and how often.
LOCKED_S = 5.0
LOCKED_MAX = 120

log = logging.getLogger("leveret.store")

Change = tuple[str, tuple[Any, ...]]
Row = tuple[str, str, str, dict[str, Any]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS definition (
    kind TEXT NOT NULL, vhost TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, sum INTEGER,
    PRIMARY KEY (kind, vhost, name)
) WITHOUT ROWID;
"""


class UnknownFormat(Exception):
    """The data folder was written by a later version, or by one that was never released."""


class DamagedRows(Exception):
    """Definitions are not as they were written."""


class DefinitionsFile:
    """The SQLite file; used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME
        make_private(self._file)
        self._db = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False, timeout=LOCKED_S)
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        self._db.text_factory = lambda octets: octets.decode("utf-8", "surrogateescape")
        found = self._find_format()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_SCHEMA)
        if found != FORMAT:
            changes = self._sums() if found == 2 else []
            self.change([*changes, set_fact("format", str(FORMAT))])

    def _find_format(self) -> int | None:
        """The format of what is there; None if nothing is."""
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'fact'").fetchone():
            return None
        found = self.fact("format")
        if found is not None and found not in map(str, FORMATS):
            raise UnknownFormat(f"{self._file} has format {found}; this version knows {' and '.join(map(str, FORMATS))}")
        return None if found is None else int(found)

    def _sums(self) -> list[Change]:
        """What makes rows of format 2 those of format 3; with the format itself that is all or nothing."""
        rows = self._db.execute("SELECT kind, vhost, name, value FROM definition").fetchall()
        column: Change = ("ALTER TABLE definition ADD COLUMN sum INTEGER", ())
        return [column, *(_put(kind, octets(vhost), octets(name), value) for kind, vhost, name, value in rows)]

    def fact(self, name: str) -> str | None:
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def faults(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        found = [str(text) for (text,) in self._db.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def rows(self) -> list[Row]:
        """Everything defined; DamagedRows if something is not as it was written."""
        rows, damaged = self.read_rows()
        if damaged:
            raise DamagedRows(f"{len(damaged)} rows are damaged, such as {damaged[0]}")
        return rows

    def read_rows(self) -> tuple[list[Row], list[str]]:
        """Everything defined that is whole, and the titles of what is not."""
        rows: list[Row] = []
        damaged = []
        for kind, vhost, name, value, found in self._db.execute("SELECT kind, vhost, name, value, sum FROM definition"):
            if found != row_sum(kind, octets(vhost), octets(name), value):
                damaged.append(f"{kind} {name!r} in vhost {vhost!r}")
            else:
                rows.append((kind, vhost, name, msgspec.json.decode(value)))
        return rows, damaged

    def drop_damaged_rows(self) -> None:
        """Remove what is not as it was written."""
        self._db.execute("BEGIN IMMEDIATE")
        for kind, vhost, name, value, found in self._db.execute("SELECT * FROM definition").fetchall():
            if found != row_sum(kind, octets(vhost), octets(name), value):
                self._db.execute(*remove(kind, vhost, name))
        self._db.execute("COMMIT")

    def change(self, changes: list[Change]) -> None:
        """Carry out changes, all or none."""
        self._begin()
        try:
            for statement, values in changes:
                self._db.execute(statement, values)
            self._db.execute("COMMIT")
        except BaseException:
            # On a full disk SQLite has rolled back already, and would say that instead of why.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _begin(self) -> None:
        for _ in range(LOCKED_MAX):
            try:
                self._db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                log.warning("%s is locked by another program; what waits for the disk goes on when it is not", FILE_NAME)
        self._db.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        self._db.close()


def set_fact(name: str, value: str) -> Change:
    return "INSERT OR REPLACE INTO fact VALUES (?, ?)", (name, value)


def put(kind: str, vhost: str, name: str, value: dict[str, Any]) -> Change:
    return _put(kind, octets(vhost), octets(name), msgspec.json.encode(value).decode())


def _put(kind: str, vhost: bytes, name: bytes, value: str) -> Change:
    row = (kind, vhost, name, value, row_sum(kind, vhost, name, value))
    return "INSERT OR REPLACE INTO definition VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT), ?, ?)", row


def row_sum(kind: str, vhost: bytes, name: bytes, value: str) -> int:
    """The check of a row."""
    return crc32(b"\0".join((octets(kind), vhost, name, octets(value))))


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
