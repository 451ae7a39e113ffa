"""The commands `leveret store …`, on the folders of real brokers."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crash.books import Books, Copy, body_of, number_of
from tests.crash.load import TINY, Load
from tests.crash.peer import Peer
from tests.properties.dialogue import method, publish
from tests.server.support import Client, Process, eventually

from leveret.store.rows import FORMAT, DefinitionsFile, put
from leveret.store.segment import HEADER_SIZE
from leveret.wire import spec
from leveret.wire.properties import Properties

PERSISTENT = Properties(delivery_mode=2)
SMALL = {"LEVERET_SEGMENT_SIZE": "65536"}
# Those of the load's queues whose messages leave only by what clients do.
COPIED = ("main", "slow", "from", "to", "reopened", "receipts")


def store(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leveret", "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def fill(client: Client, queue: str, bodies: list[bytes]) -> None:
    """Have messages confirmed one by one, each in a batch of its own."""
    client.declare(queue, durable=True)
    client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
    for body in bodies:
        client.send(*publish(1, queue, body, PERSISTENT))
        client.expect(spec.BasicAck)


def take(client: Client, queue: str, count: int) -> list[bytes]:
    """Consume messages for good."""
    found = []
    for _ in range(count):
        client.send(method(1, spec.BasicGet(queue, no_ack=True)))
        found.append(client.delivery())
    client.declare(queue, durable=True)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a broker that was stopped: `orders` has 20 messages of 100 octets, `other` none."""
    with Process(tmp_path) as broker, broker.login() as client:
        fill(client, "orders", [b"%099d" % number + b"." for number in range(30)])
        client.declare("other", durable=True)
        take(client, "orders", 10)
    return tmp_path / "data"


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir() if path.is_file()}


def journal(folder: Path) -> Path:
    return next(
        path for path in sorted(folder.iterdir()) if path.name.startswith("journal-") and path.stat().st_size > HEADER_SIZE
    )


# check


def test_check_of_a_whole_folder_changes_nothing(data: Path) -> None:
    """SPEC §8.9 check"""
    before = everything(data)
    done = store("check", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"intact: 20 messages in 2 queues, \d+ batches in \d+ segments?\n", done.stdout)
    assert everything(data) == before


def test_check_after_a_kill_changes_nothing(tmp_path: Path) -> None:
    """SPEC §8.9 check: what SQLite has not moved to its file yet is read too."""
    broker = Process(tmp_path).__enter__()
    with broker.login() as client:
        fill(client, "q", [b"x"] * 3)
    broker.kill()
    assert (tmp_path / "data" / "definitions.sqlite-wal").stat().st_size
    before = everything(tmp_path / "data")
    done = store("check", tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    assert "intact: 3 messages in 1 queue" in done.stdout
    assert everything(tmp_path / "data") == before


def test_check_names_the_place_of_damage_and_its_cost(data: Path) -> None:
    """SPEC §8.9 check: a batch that was promised, in the middle of a segment."""
    file = journal(data)
    content = bytearray(file.read_bytes())
    at = content.index(b"%099d." % 15)
    content[at] ^= 1
    file.write_bytes(content)
    before = everything(data)
    done = store("check", data)
    assert done.returncode == 1
    found = re.search(rf"^{file.name} at (\d+): (\d+) octets are damaged; batch (\d+) is lost: ", done.stdout)
    assert found, done.stdout
    offset, size = int(found[1]), int(found[2])
    assert offset < at < offset + size
    assert "damaged: 19 messages in 2 queues" in done.stdout
    assert everything(data) == before


def test_check_knows_a_torn_end_from_a_lost_one(data: Path) -> None:
    """SPEC §8.1: an unfinished last write was promised to nobody; the same in front of another segment was."""
    file = journal(data)
    with file.open("ab") as torn:
        torn.write(b"LVB2 and no more")
    done = store("check", data)
    assert done.returncode == 1
    assert "16 octets are damaged; what they said is lost" in done.stdout, "it was stopped in order"
    with sqlite3.connect(data / "definitions.sqlite") as db:
        db.execute("UPDATE fact SET value = 'no' WHERE name = 'clean'")
    db.close()
    done = store("check", data)
    assert done.returncode == 0
    assert "16 octets of an unfinished write; nothing that was promised is lost" in done.stdout
    # Another start cuts it, and goes on in a new segment.
    with Process(data.parent) as broker, broker.login() as client:
        fill(client, "orders", [b"more"])
    assert store("check", data).returncode == 0
    os.truncate(file, file.stat().st_size - 60)
    done = store("check", data)
    assert done.returncode == 1
    assert re.search(r"octets are damaged; batch \d+ is lost", done.stdout)


def test_check_misses_a_segment(tmp_path: Path) -> None:
    """SPEC §8.9 check: a file that is gone, and one that is none."""
    with Process(tmp_path, environment=SMALL) as broker, broker.login() as client:
        fill(client, "q", [bytes(20_000)] * 10)
    files = [path for path in sorted((tmp_path / "data").iterdir()) if path.name.startswith("journal-")]
    files[1].unlink()
    done = store("check", tmp_path / "data")
    assert done.returncode == 1
    assert re.search(
        rf"{files[2].name} at {HEADER_SIZE}: what was before is not there; batches \d+ to \d+ are lost", done.stdout
    )
    files[0].write_bytes(bytes(HEADER_SIZE) + b"something else")
    done = store("check", tmp_path / "data")
    assert done.returncode == 1
    assert f"{files[0].name} at {HEADER_SIZE}: 14 octets are damaged; what they said is lost" in done.stdout


def test_check_of_definitions(data: Path) -> None:
    """SPEC §8.9 check: rows that say what no queue can have, and a file that SQLite cannot read."""
    with sqlite3.connect(data / "definitions.sqlite") as db:
        db.execute("UPDATE definition SET value = replace(value, '\"id\":2', '\"id\":1') WHERE kind = 'queue'")
    db.close()
    done = store("check", data)
    assert done.returncode == 1
    assert "definitions.sqlite: the definition of queue 'other' in vhost '/' is damaged" in done.stdout
    definitions = DefinitionsFile(data)
    for kind, vhost, name, value in [row for row in definitions.read_rows()[0] if row[0] == "queue"]:
        definitions.change([put(kind, vhost, name, value), put(kind, vhost, "other", value)])
    definitions.close()
    done = store("check", data)
    assert done.returncode == 1
    assert "definitions.sqlite: queue 'other' in vhost '/' has the id 1 of queue 'orders' in vhost '/'" in done.stdout
    (data / "definitions.sqlite").write_bytes(b"SQLite format 3\0" + bytes(5000))
    done = store("check", data)
    assert done.returncode == 1
    assert "definitions.sqlite: cannot be read: " in done.stdout
    assert store("stat", data).returncode == 1
    (data / "definitions.sqlite").unlink()
    done = store("check", data)
    assert done.returncode == 1
    assert "definitions.sqlite: missing; without it no message has a queue" in done.stdout


@pytest.mark.parametrize("command", ["check", "stat"])
def test_running_broker_and_other_folders_are_refused(command: str, tmp_path: Path) -> None:
    """SPEC §8.9 check"""
    with Process(tmp_path):
        done = store(command, tmp_path / "data")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"leveret: {tmp_path / 'data'} is in use by another process\n"
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        done = store(command, tmp_path / name)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"leveret: {tmp_path / name} is not a data folder\n"


@pytest.mark.parametrize("command", ["check", "stat"])
def test_newer_format_is_refused(command: str, data: Path) -> None:
    """SPEC §8.9 a newer format"""
    with sqlite3.connect(data / "definitions.sqlite") as db:
        db.execute("UPDATE fact SET value = '99' WHERE name = 'format'")
    db.close()
    done = store(command, data)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{data / 'definitions.sqlite'} has format 99" in done.stderr


# stat


def test_stat(data: Path) -> None:
    """SPEC §8.9 stat"""
    before = everything(data)
    done = store("stat", "--json", data)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["format"], found["clean"], found["messages"], found["bytes"]) == (FORMAT, True, 20, 2000)
    assert found["queues"] == [
        {"vhost": "/", "name": "orders", "hidden": False, "messages": 20, "bytes": 2000},
        {"vhost": "/", "name": "other", "hidden": False, "messages": 0, "bytes": 0},
    ]
    assert found["definitions"]["queue"] == 2
    assert found["definitions"]["user"] == 1
    (segment,) = [one for one in found["segments"] if one["places"]]
    assert (segment["name"], segment["places"], segment["live_places"]) == (journal(data).name, 30, 20)
    done = store("stat", data)
    assert done.stdout.startswith("format 3, shut down cleanly\ndefinitions: ")
    assert re.search(r"^/ +orders +20 +2000$", done.stdout, re.MULTILINE)
    assert re.search(rf"^{segment['name']} +{segment['bytes']} +66 %$", done.stdout, re.MULTILINE)
    assert everything(data) == before


def test_stat_of_queues_with_odd_names(tmp_path: Path) -> None:
    """SPEC §8.9 stat: a name that a client chose is one cell; a delayed message is in a queue of its exchange."""
    with Process(tmp_path) as broker, broker.login() as client:
        client.declare("one\t/  two  3", durable=True)
        client.call(
            spec.ExchangeDeclare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}),
            spec.ExchangeDeclareOk,
        )
        client.call(spec.QueueBind("one\t/  two  3", "later"), spec.QueueBindOk)
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        delayed = Properties(delivery_mode=2, headers={"x-delay": 600_000})
        client.send(*publish(1, "", b"12345", delayed, exchange="later"))
        client.expect(spec.BasicAck)
    done = store("stat", tmp_path / "data")
    assert "'one\\t/  two  3'" in done.stdout
    assert re.search(r"^/ +\(.*\) +1 +5$", done.stdout, re.MULTILINE)


# backup


def test_backup_of_a_stopped_broker(data: Path, tmp_path: Path) -> None:
    """SPEC §8.9 backup: the same folder, and nothing in it is changed."""
    before = everything(data)
    (tmp_path / "copy").mkdir()
    done = store("backup", data, tmp_path / "copy" / "data")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("copied a stopped broker's ")
    assert everything(data) == before
    assert store("check", tmp_path / "copy" / "data").returncode == 0
    with Process(tmp_path / "copy") as broker, broker.login() as client:
        assert client.declare("orders", durable=True) == 20
        client.send(method(1, spec.BasicGet("orders")))
        found = client.expect(spec.BasicGetOk)
        assert not found.redelivered, "it was stopped in order"
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["data", "log"]


def test_backup_after_a_kill(tmp_path: Path) -> None:
    """SPEC §8.9 backup: definitions that SQLite has not moved to its file yet are in the copy."""
    broker = Process(tmp_path).__enter__()
    with broker.login() as client:
        fill(client, "q", [b"one", b"two"])
    broker.kill()
    (tmp_path / "copy").mkdir()
    assert store("backup", tmp_path / "data", tmp_path / "copy" / "data").returncode == 0
    with Process(tmp_path / "copy") as copy, copy.login() as client:
        assert take(client, "q", 2) == [b"one", b"two"]


def test_backup_of_a_running_broker(tmp_path: Path) -> None:
    """SPEC §8.9 backup: under load, while segments are begun, compacted and removed."""
    load = Load(3, large_bytes=2_000_000)
    broker = Process(tmp_path, environment=TINY).__enter__()
    try:
        load.start(broker.port)
        # Under way: with so much published, segments of this size have come and gone.
        eventually(lambda: load.published > 500)
        for number in range(3):
            before = [copy for queue in COPIED for copy in list(load.books.families[queue].copies.values())]
            certain, gone = (
                [copy for copy in before if copy.certain and not copy.transient],
                [copy for copy in before if copy.gone],
            )
            done = store("backup", tmp_path / "data", tmp_path / f"copy-{number}" / "data")
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith("copied a running broker's ")
            if number < 2:
                check_copy(tmp_path / f"copy-{number}", certain, gone)
    finally:
        broker.kill()
        load.end()
    assert "Traceback" not in broker.log
    segments = [path.name for path in (tmp_path / "data").iterdir() if path.name.startswith("journal-")]
    assert "journal-00000001.log" not in segments, "none was removed"


def check_copy(folder: Path, certain: list[Copy], gone: list[Copy]) -> None:
    """A copy has what was confirmed before and not settled since, in order; not what was gone before."""
    done = store("check", folder / "data")
    assert done.returncode == 0, done.stdout
    with Process(folder, environment=SMALL) as broker, Peer(broker.port, Books([])).login() as peer:
        found = {queue: copied(peer, queue) for queue in COPIED}
    for queue, ids in found.items():
        numbers = [number_of(one) for one in ids]
        for stream in {stream for stream, _ in numbers}:
            own = [number for name, number in numbers if name == stream]
            assert own == sorted(set(own)), f"{queue}: out of order, or twice"
    lost = [copy for copy in certain if copy.id not in found[copy.family.home]]
    # Those that somebody has settled since are no longer promised.
    assert not [str(copy) for copy in lost if copy.certain and copy.places() == {copy.family.home}]
    assert not [str(copy) for copy in gone if copy.id in found[copy.family.home]]


def copied(peer: Peer, queue: str) -> list[str]:
    """The ids of the messages in a queue, which must be whole."""
    count = peer.declare(queue, passive=True)
    peer.call(spec.BasicConsume(queue, queue), spec.BasicConsumeOk)
    found = []
    for _ in range(count):
        event = peer.event()
        assert event.body == body_of(event.message_id)
        found.append(event.message_id)
    peer.call(spec.BasicCancel(queue), spec.BasicCancelOk)
    return found


def test_backup_refuses_what_is_not_meant(data: Path, tmp_path: Path) -> None:
    """SPEC §8.9 backup"""
    done = store("backup", tmp_path / "none", tmp_path / "copy")
    assert (done.returncode, done.stderr) == (2, f"leveret: {tmp_path / 'none'} is not a data folder\n")
    assert not (tmp_path / "copy").exists()
    done = store("backup", data, data)
    assert (done.returncode, done.stderr) == (2, f"leveret: {data} is not empty\n")
    done = store("backup", data, tmp_path / "log")
    assert (done.returncode, done.stderr) == (2, f"leveret: {tmp_path / 'log'} is a file\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "log"]


# the command


def test_flags_of_the_broker_are_refused(data: Path) -> None:
    command = [sys.executable, "-m", "leveret", "--data-dir", str(data), "store", "check", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--data-dir cannot be used with the command 'store'" in done.stderr


def test_help_names_every_command() -> None:
    done = store("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("backup", "check", "stat"):
        assert f"  {name} " in done.stdout


# What does not fit, and the ways out


def test_first_segment_is_missed(tmp_path: Path) -> None:
    """SPEC §8.9 check: also where no segment was ever removed."""
    with Process(tmp_path, environment=SMALL) as broker, broker.login() as client:
        fill(client, "q", [bytes(20_000)] * 10)
    min((tmp_path / "data").glob("journal-*")).unlink()
    done = store("check", tmp_path / "data")
    assert done.returncode == 1
    assert re.search(r"^journal: a file is missing: batches 1 to \d+ are lost", done.stdout, re.MULTILINE)
    with Process(tmp_path, environment=SMALL) as broker:
        assert re.search(r"ERROR .* the journal's batches 1 to \d+ are missing", broker.log)


def refusal(folder: Path, *flags: str) -> str:
    """What a broker says that does not start."""
    command = [sys.executable, "-m", "leveret", "--port", "0", "--data-dir", str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_empty_definitions_are_refused_and_left_alone(data: Path) -> None:
    """SPEC §8.1: SQLite would begin anew in them."""
    (data / "definitions.sqlite").write_bytes(b"")
    before = everything(data)
    assert "the definitions are lost: definitions.sqlite is empty. Restore it from a backup; or" in refusal(data)
    assert everything(data) == before


@pytest.mark.parametrize("at", [18, 47])
def test_definitions_that_sqlite_will_not_write_are_damaged(data: Path, at: int) -> None:
    """SPEC §8.1: the ways out are open where a bit of SQLite's header says that the file is read-only, or newer."""
    file = data / "definitions.sqlite"
    content = bytearray(file.read_bytes())
    content[at] ^= 64
    file.write_bytes(content)
    assert store("check", data).returncode == 1
    assert "leveret: the definitions are lost: definitions.sqlite is damaged: " in refusal(data)
    done = store("repair", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 messages whose queue is lost are there" in done.stdout
    with Process(data.parent):
        pass


def test_backup_of_damaged_definitions_says_so(data: Path, tmp_path: Path) -> None:
    (data / "definitions.sqlite").write_bytes(b"none" * 5000)
    done = store("backup", data, tmp_path / "copy")
    assert (done.returncode, done.stdout) == (1, "")
    text = f"leveret: cannot copy {data} to {tmp_path / 'copy'}: definitions.sqlite: file is not a database\n"
    assert done.stderr == text
    assert not (tmp_path / "copy").exists()


def test_accepted_loss_of_a_user_leaves_nothing_that_needs_it(data: Path) -> None:
    """SPEC §8.1: the next start finds no rights of a user who is lost."""
    with sqlite3.connect(data / "definitions.sqlite") as db:
        db.execute("UPDATE definition SET sum = sum + 1 WHERE kind = 'user'")
    db.close()
    assert "1 rows are damaged, such as user 'guest' in vhost ''" in refusal(data)
    with Process(data.parent, "--accept-loss"):
        pass
    with Process(data.parent):
        pass


def test_repair_without_the_last_changes_keeps_no_user(tmp_path: Path) -> None:
    """SPEC §8.1: somebody may have been deleted by them."""
    with Process(tmp_path):
        pass
    broker = Process(tmp_path).__enter__()
    with broker.login() as client:
        fill(client, "q", [b"one"])
    broker.kill()
    (tmp_path / "data" / "definitions.sqlite-wal").unlink()
    assert "definitions.sqlite are damaged: the last " in refusal(tmp_path / "data")
    done = store("repair", tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    assert "dropped user 'guest' in vhost '': perhaps it was deleted\n" in done.stdout
    assert "made the queue 'queue-1' in vhost 'recovered': 1 messages whose queue is lost are there\n" in done.stdout
    found = json.loads(store("stat", "--json", tmp_path / "data").stdout)
    assert "user" not in found["definitions"]
    with Process(tmp_path):
        pass
