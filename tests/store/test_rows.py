"""Definitions in SQLite: rows, odd names, all or none, and formats that are not ours."""

import sqlite3
from pathlib import Path

import pytest
from tests.properties.dialogue import EVERY_TYPE

from leveret.store.rows import (
    FILE_NAME,
    FORMAT,
    Change,
    DefinitionsFile,
    UnknownFormat,
    packed,
    put,
    remove,
    remove_vhost,
    set_fact,
    unpacked,
)
from leveret.wire.values import kind_of

NAMES = [
    "",
    "q",
    "with space",
    "ünï",
    "a\0b",
    "\0",
    "\udcff\udcfe",
    "caf\udce9\0",
    "'; DROP TABLE definition; --",
    "%41",
    "\n",
]


@pytest.fixture
def file(tmp_path: Path) -> DefinitionsFile:
    return DefinitionsFile(tmp_path)


def reopened(file: DefinitionsFile, folder: Path) -> DefinitionsFile:
    file.close()
    return DefinitionsFile(folder)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vhost", ["/", "caf\udce9", "\0"])
def test_names_of_any_octets_are_kept_found_and_removed(
    file: DefinitionsFile, tmp_path: Path, name: str, vhost: str
) -> None:
    """SPEC §8.1: durable things survive by any name AMQP allows, UTF-8 or not."""
    file.change([put("queue", vhost, name, {"id": 1}), put("queue", vhost, name + "x", {"id": 2})])
    file.change([put("queue", vhost, name, {"id": 3})])
    file = reopened(file, tmp_path)
    assert sorted(file.rows(), key=lambda row: row[3]["id"]) == [
        ("queue", vhost, name + "x", {"id": 2}),
        ("queue", vhost, name, {"id": 3}),
    ]
    file.change([remove("queue", vhost, name)])
    assert file.rows() == [("queue", vhost, name + "x", {"id": 2})]
    file.close()


def test_text_is_readable_as_such(file: DefinitionsFile, tmp_path: Path) -> None:
    """SPEC §8.9: an operator can look with any SQLite tool."""
    file.change([put("queue", "/", "orders", {"id": 1})])
    file.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        found = db.execute("SELECT name, value FROM definition WHERE kind = 'queue' AND name = 'orders'").fetchall()
    assert found == [("orders", '{"id":1}')]
    db.close()


def test_changes_are_carried_out_all_or_none(file: DefinitionsFile) -> None:
    """SPEC §8.1: what belongs together is there together."""
    with pytest.raises(sqlite3.Error):
        file.change([put("queue", "/", "a", {}), ("INSERT INTO nothing VALUES (1)", ())])
    assert file.rows() == []
    file.change([put("queue", "/", "b", {})])
    assert [name for _, _, name, _ in file.rows()] == ["b"]
    file.close()


def test_full_disk_is_said_as_such(file: DefinitionsFile) -> None:
    """SPEC §8.7: the reason is the disk's, not what SQLite makes of it afterwards."""
    file._db.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.Error, match="database or disk is full"):
        file.change([put("queue", "/", str(number), {"x": "x" * 1000}) for number in range(1000)])
    file._db.execute("PRAGMA max_page_count = 100000")
    assert file.rows() == []
    file.close()


def test_vhost_goes_with_everything_in_it_and_nothing_else(file: DefinitionsFile) -> None:
    """SPEC §8.1: deleting a vhost, even one without a name, leaves users and other vhosts alone."""
    file.change(
        [
            put("vhost", "", "", {}),
            put("queue", "", "q", {}),
            put("queue", "other", "q", {}),
            put("user", "", "guest", {}),
            put("global_parameter", "", "p", {}),
        ]
    )
    file.change([remove_vhost("")])
    assert [(kind, vhost) for kind, vhost, _, _ in file.rows()] == [
        ("global_parameter", ""),
        ("queue", "other"),
        ("user", ""),
    ]
    file.close()


def test_facts_are_kept(file: DefinitionsFile, tmp_path: Path) -> None:
    """SPEC §8.9: the format is written down."""
    assert file.fact("clean") is None
    file.change([set_fact("clean", "no")])
    file.change([set_fact("clean", "yes")])
    file = reopened(file, tmp_path)
    assert (file.fact("clean"), file.fact("format")) == ("yes", str(FORMAT))
    file.close()


@pytest.mark.parametrize("number", [FORMAT + 1, 1])
def test_newer_format_is_refused_and_left_as_it_is(file: DefinitionsFile, tmp_path: Path, number: int) -> None:
    """SPEC §8.9: a newer format is refused with a clear message, and nothing is written. 1 was never released."""
    file.change([set_fact("format", str(number))])
    file.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("DROP TABLE definition")
    db.close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(UnknownFormat, match=rf"has format {number}; this version knows {FORMAT - 1} and {FORMAT}"):
        DefinitionsFile(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_tables_keep_the_types_on_the_wire() -> None:
    """SPEC §8.1: arguments come back with the types they were declared with."""
    found = unpacked(packed(EVERY_TYPE))
    assert found == EVERY_TYPE
    assert [kind_of(value) for value in found.values()] == [kind_of(value) for value in EVERY_TYPE.values()]
    assert unpacked(packed({})) == {}


def format_2(folder: Path) -> None:
    """Make a file as the version before has left it."""
    with sqlite3.connect(folder / FILE_NAME) as db:
        db.execute("CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
        columns = "kind TEXT NOT NULL, vhost TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL"
        db.execute(f"CREATE TABLE definition ({columns}, PRIMARY KEY (kind, vhost, name)) WITHOUT ROWID")
        db.execute("INSERT INTO fact VALUES ('format', '2')")
        db.execute("INSERT INTO definition VALUES ('queue', '/', CAST(? AS TEXT), '{\"id\":7}')", (b"q\xff",))
    db.close()


def test_format_before_is_read_and_made_this_one(tmp_path: Path) -> None:
    """SPEC §8.9: every released format opens."""
    format_2(tmp_path)
    for _ in range(2):
        file = DefinitionsFile(tmp_path)
        assert file.rows() == [("queue", "/", "q\udcff", {"id": 7})]
        assert file.fact("format") == str(FORMAT)
        file.close()


def test_format_is_made_this_one_all_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.9: an end in the middle of it leaves the format before."""
    format_2(tmp_path)

    def fail(name: str, value: str) -> Change:
        return "no statement", ()

    monkeypatch.setattr("leveret.store.rows.set_fact", fail)
    with pytest.raises(sqlite3.OperationalError):
        DefinitionsFile(tmp_path)
    monkeypatch.undo()
    file = DefinitionsFile(tmp_path)
    assert file.rows() == [("queue", "/", "q\udcff", {"id": 7})]
    file.close()
