"""Disks that fail, fill up or may no longer be written, under clients that publish with confirms and commit transactions.

Whatever fails, nobody is told that something is stored which is not; the broker stops, or stops publishers, and says why;
and when the disk is well again, everything promised is there.
"""

import contextlib
import errno
import os
import subprocess
import time
from pathlib import Path
from types import TracebackType

import pytest
from tests.crash.load import TINY, Load
from tests.properties.dialogue import method, publish
from tests.server.support import MIB, PATIENCE, Client, Process, eventually

from leveret.wire import spec
from leveret.wire.properties import Properties

PERSISTENT = Properties(delivery_mode=2)
SEGMENT = 1 << 16
LARGE_BYTES = 4_000_000
FAULT_RUNS = int(os.environ.get("SOAK_FAULTS", "1"))
MOUNTED = "filesystem/data"


class Failing(Process):
    """A broker whose disk fails as `faults` says; it is over before this is, or is killed."""

    def __init__(self, folder: Path, data: str = "data") -> None:
        self.faults = folder / "faults"
        given = {**TINY, "LEVERET_DISK_FREE_LIMIT": "0", "FAULTS": str(self.faults)}
        script = str(Path(__file__).with_name("failing_broker.py"))
        super().__init__(folder, "--data-dir", str(folder / data), environment=given, program=(script,))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.popen.kill()
        self.popen.wait()
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        if kind is None:
            assert "Traceback" not in self.log
            assert "damaged" not in self.log

    def does_not_start(self) -> None:
        """It says why it cannot use its folder."""
        with self.popen:
            self.popen.wait(PATIENCE)
        assert self.popen.returncode == 1
        assert "leveret: cannot use the data folder" in self.log
        assert "Traceback" not in self.log

    def ends(self, *reasons: str) -> None:
        """It stops by itself, before the patience of those who wait is over, and says why: it is one of these."""
        self.popen.wait(PATIENCE)
        assert self.popen.returncode == 1
        text = self.log
        said = [reason for reason in reasons if f"storage failed, shutting down: {reason}" in text]
        assert said, text[-1000:]
        assert f"leveret: storage failed: {said[0]}" in text


class Filesystem:
    """A small one of its own."""

    def __init__(self, folder: Path, options: str) -> None:
        self.folder = folder
        folder.mkdir()
        assert os.geteuid() == 0, "only root may mount"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "leveret-test", folder], check=True)

    def __enter__(self) -> "Filesystem":
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def change(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)

    def fill(self) -> Path:
        """Leave no octet free; the file that takes it all."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(SEGMENT))
        return filler


def recovered(folder: Path, load: Load, data: str = "data") -> None:
    """Start once more, on a disk that is well, and compare."""
    with Failing(folder, data) as broker:
        load.check(broker.port)


def check_told(load: Load) -> None:
    """Something had been promised, and every client was told of the end."""
    assert load.kept, "nothing was confirmed"
    closes = [one for one in load.told if isinstance(one, spec.ConnectionClose)]
    assert len(closes) == load.client_count
    assert {close.reply_code for close in closes} == {320}


@pytest.mark.parametrize("seed", range(FAULT_RUNS))
@pytest.mark.parametrize(
    ("what", "number"),
    [
        ("write", errno.EIO),
        ("write", errno.ENOSPC),
        ("sync", errno.EIO),
        ("sync", errno.ENOSPC),
        ("create", errno.ENOSPC),
        ("create", errno.EROFS),
        ("remove", errno.EROFS),
        ("sync_folder", errno.EIO),
    ],
)
def test_failing_disk_under_load(tmp_path: Path, what: str, number: int, seed: int) -> None:
    """SPEC §8.7: no false confirm or commit, a clean stop with the reason, and everything promised is there later."""
    load = Load(seed, LARGE_BYTES)
    with Failing(tmp_path) as broker:
        load.start(broker.port)
        time.sleep(0.3 + 0.1 * seed)
        broker.faults.write_text(f"{what} {number}")
        if what == "remove":
            purge(broker, load)
        broker.ends(f"[Errno {number}] {os.strerror(number)}")
        load.end()
    check_told(load)
    broker.faults.unlink()
    recovered(tmp_path, load)


def purge(broker: Process, load: Load) -> None:
    """Empty what nobody consumes, so that there are files to remove."""
    names = ("fan-right", "to", "reopened", "receipts")
    for name in names:
        # It may be done or not when the broker stops, which it may do at any moment.
        load.books.families[name].begin_emptying()
    with contextlib.suppress(EOFError, OSError, AssertionError), broker.connect() as client:
        client.login()
        for name in names:
            client.send(method(1, spec.QueuePurge(name)))
        for _ in names:
            client.expect(spec.QueuePurgeOk)


def test_disk_that_somebody_else_fills(tmp_path: Path) -> None:
    """SPEC §8.6 and §8.7: publishers are stopped, or the broker stops and says why; with room again all is there."""
    load = Load(1, LARGE_BYTES)
    with Filesystem(tmp_path / "filesystem", "size=24m") as filesystem:
        with Failing(tmp_path, MOUNTED) as broker:
            load.start(broker.port)
            time.sleep(0.3)
            filler = filesystem.fill()
            eventually(lambda: "low on disk (" in broker.log or broker.popen.poll() is not None)
            # Consumers go on until what they say finds no room either.
            # Whichever file asks first for room: the journal's, or that of the definitions.
            broker.ends("[Errno 28] No space left on device", "database or disk is full")
            load.end()
        assert load.kept
        # Nothing can be done without any room, and nothing is spoilt.
        Failing(tmp_path, MOUNTED).does_not_start()
        filler.unlink()
        recovered(tmp_path, load, MOUNTED)


def test_disk_that_fills_up(tmp_path: Path) -> None:
    """SPEC §8.6: publishers are stopped before the disk is full, and go on when consumers have made room."""
    body = bytes(20_000)
    with (
        Filesystem(tmp_path / "filesystem", "size=16m"),
        Failing(tmp_path, MOUNTED) as broker,
        broker.login(capabilities=("connection.blocked",)) as publisher,
        broker.login() as consumer,
    ):
        publisher.declare("q", durable=True)
        publisher.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        for _ in range(2):
            confirmed = fill_queue(publisher, body)
            assert confirmed * len(body) > 8 * MIB
            consumer.call(spec.BasicConsume("q", consumer_tag="c", no_ack=True), spec.BasicConsumeOk)
            for _ in range(confirmed):
                assert consumer.delivery() == body
            consumer.call(spec.BasicCancel("c"), spec.BasicCancelOk)
            publisher.expect(spec.ConnectionUnblocked)
        assert broker.popen.poll() is None
        assert "storage failed" not in broker.log


def fill_queue(publisher: Client, body: bytes) -> int:
    """Publish until publishers are stopped; how many were confirmed before."""
    confirmed = 0
    while True:
        publisher.send(*publish(1, "q", body, PERSISTENT))
        found = publisher.read()
        if isinstance(found, spec.ConnectionBlocked):
            assert found.reason == "low on disk"
            # This one was the last.
            publisher.expect(spec.BasicAck)
            return confirmed + 1
        assert isinstance(found, spec.BasicAck)
        confirmed += 1


def test_full_definitions(tmp_path: Path) -> None:
    """SPEC §8.7: a queue whose definition finds no room is not answered, and the reason is said."""
    with Filesystem(tmp_path / "filesystem", "size=8m") as filesystem:
        with Failing(tmp_path, MOUNTED) as broker:
            with broker.login() as client:
                client.declare("kept", durable=True)
                filler = filesystem.fill()
                frames = [
                    method(1, spec.QueueDeclare(f"{number}", durable=True, arguments={"x-note": "n" * 60_000}))
                    for number in range(20)
                ]
                client.send(*frames)
                answered = 0
                while isinstance(found := client.read(), spec.QueueDeclareOk):
                    answered += 1
                assert isinstance(found, spec.ConnectionClose)
                assert found.reply_code == 320
                client.send(method(0, spec.ConnectionCloseOk()))
            broker.ends("database or disk is full")
        filler.unlink()
        with Failing(tmp_path, MOUNTED) as broker, broker.login() as client:
            client.declare("kept", passive=True)
            for number in range(answered):
                client.declare(f"{number}", passive=True)


def test_full_inode_table(tmp_path: Path) -> None:
    """SPEC §8.7: where no more files can be made, the broker stops with the reason, and goes on when they can."""
    load = Load(1, LARGE_BYTES)
    with Filesystem(tmp_path / "filesystem", "size=64m,nr_inodes=60") as filesystem:
        with Failing(tmp_path, MOUNTED) as broker:
            load.start(broker.port)
            broker.ends("[Errno 28] No space left on device")
            load.end()
        check_told(load)
        filesystem.change("nr_inodes=1000")
        recovered(tmp_path, load, MOUNTED)


def test_folder_that_may_no_longer_be_written(tmp_path: Path) -> None:
    """SPEC §8.7: in a folder that is read-only from some moment on the broker stops, does not start, and loses nothing."""
    data = tmp_path / "data"
    load = Load(1, LARGE_BYTES)
    with Failing(tmp_path) as broker:
        load.start(broker.port)
        time.sleep(0.3)
        data.chmod(0o555)
        broker.ends("[Errno 13] Permission denied")
        load.end()
    assert load.kept
    Failing(tmp_path).does_not_start()
    data.chmod(0o755)
    recovered(tmp_path, load)
