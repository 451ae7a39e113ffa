"""Opening a data folder: recover what is there, or begin."""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from pathlib import Path

from leveret.broker.broker import Broker
from leveret.broker.settings import Settings
from leveret.store.committer import Committer
from leveret.store.disk import Disk
from leveret.store.journal import PREFIX, SEGMENT_SIZE, Journal
from leveret.store.layout import SPILL_NUMBER
from leveret.store.modes import private
from leveret.store.rebuild import fitting, rebuild, settle_leaving
from leveret.store.recovery import Recovery
from leveret.store.rows import FILE_NAME, DamagedRows, DefinitionsFile, Row, remove, set_fact
from leveret.store.store import CHANGES, DELIVERED_UP_TO, LAST_BATCH, LAST_QUEUE_ID, SPILL_PREFIX, Store

log = logging.getLogger("leveret.store")


class InUse(Exception):
    """Another process has the data folder."""


class Unusable(Exception):
    """The data folder cannot be made, read or written; the text is a line that says why."""

    def __init__(self, folder: Path, error: OSError | sqlite3.Error) -> None:
        super().__init__(f"cannot use the data folder {folder}: {reason_of(folder, error)}")


class Misfit(Exception):
    """The definitions are damaged, or not those with which the journal was written."""


HOW_TO_GO_ON = (
    "Restore it from a backup; or run 'leveret store repair DIR', which keeps messages whose queue is lost in the vhost "
    "'recovered'; or start with --accept-loss, which drops them"
)


# What SQLite needs beside its file.
SPACE_MIN = 1 << 16
# Where the header of SQLite's file says who may write and read it.
VERSIONS = slice(18, 20)


class Opened:
    """A broker with its store; `fresh` says that the folder was empty.

    Nothing is written before it is known that the definitions are those of the journal; Misfit if they are not. With
    `accept_loss` what is there of them is taken, and that is said.
    """

    def __init__(
        self,
        disk: Disk,
        definitions: DefinitionsFile,
        settings: Settings,
        now: int,
        segment_size: int = SEGMENT_SIZE,
        accept_loss: bool = False,
    ) -> None:
        self._disk = disk
        self._definitions = definitions
        self._committers: list[Committer] = []
        self._accept_loss = accept_loss
        self._was_clean = definitions.fact("clean") == "yes"
        rows, leaving = settle_leaving(self._rows())
        self.fresh = not rows
        journal = Journal(disk, segment_size)
        recovery = Recovery(disk, journal, number_of(definitions, DELIVERED_UP_TO), number_of(definitions, LAST_BATCH))
        try:
            recovery.read(self._was_clean)
            self._check_fit(recovery)
        except BaseException:
            close_files(journal)
            raise
        clean = self._was_clean and not recovery.damage
        recovery.begin(self._was_clean)
        if leaving:
            definitions.change(leaving)
        found = recovery.find({value["id"] for kind, _, _, value in rows if kind in ("queue", "hidden")})
        self.store = self._make_store(journal, recovery, settings, segment_size, clean)
        self.broker = Broker(settings, self.store)
        self.broker.work.budget.now = now
        self.store.work = self.broker.work
        self.store.delivers_synced = settings.deliver_synced
        rebuild(self.broker, self.store, rows)
        recovery.restore(self.store, found, clean)
        self.damage = recovery.damage
        if rows:
            log.info(
                "recovered %d messages in %d queues after %s end",
                recovery.message_count,
                len(self.store.queues),
                "a clean" if self._was_clean else "an unclean",
            )

    def _rows(self) -> list[Row]:
        try:
            return self._definitions.rows()
        except DamagedRows as error:
            self._lost(str(error))
            self._definitions.drop_damaged_rows()
            rows = self._definitions.rows()
            kept = fitting(rows)
            # The next start must not find what belongs to a row that is lost.
            self._definitions.change([remove(*row[:3]) for row in rows if row not in kept])
            return kept

    def _check_fit(self, recovery: Recovery) -> None:
        """Compare how often definitions have changed by their own account with what the journal says."""
        changes = number_of(self._definitions, CHANGES)
        expected = recovery.mark[0]
        if changes < expected:
            self._lost(f"the last {expected - changes} of {expected} changes are missing")

    def _lost(self, what: str) -> None:
        if not self._accept_loss:
            raise Misfit(f"the definitions in {FILE_NAME} are damaged: {what}. {HOW_TO_GO_ON}")
        log.error("the definitions in %s are damaged: %s; --accept-loss: the broker starts without them", FILE_NAME, what)

    def _make_store(self, journal: Journal, recovery: Recovery, settings: Settings, segment_size: int, clean: bool) -> Store:
        definitions = self._definitions
        changes = max(number_of(definitions, CHANGES), recovery.mark[0])
        last_id = max(number_of(definitions, LAST_QUEUE_ID), recovery.mark[1], recovery.highest_queue_id)
        # Without it nobody would miss the first file.
        oldest = recovery.mark[2] or recovery.first_batch or 1
        journal.set_mark((changes, last_id, oldest))
        facts = [set_fact("clean", "no"), set_fact(CHANGES, str(changes))]
        delivered_up_to = number_of(definitions, DELIVERED_UP_TO)
        if not clean and recovery.last_batch:
            delivered_up_to = recovery.last_batch
            facts.append(set_fact(DELIVERED_UP_TO, str(delivered_up_to)))
        definitions.change(facts)
        store = Store(journal, empty_spill(self._disk, segment_size), last_id, recovery.highest_group, settings.sizes)
        store.delivered_up_to = delivered_up_to
        return store

    def fact(self, name: str) -> str | None:
        """What was kept under this name; to be asked before anything is written."""
        return self._definitions.fact(name)

    def start(
        self,
        call_soon: Callable[..., object],
        on_progress: Callable[[], None],
        on_failed: Callable[[BaseException], None],
        sync: bool,
    ) -> None:
        """Begin to write what happens from now on."""
        committer = Committer(self._definitions, call_soon, sync)
        spiller = Committer(self._definitions, call_soon, sync)
        self._committers = [committer, spiller]
        self.store.open(committer, spiller, on_progress, on_failed)

    def leave(self) -> None:
        """Let the folder go as it was: the broker does not start."""
        # Where nothing can be written it is left as after a crash, and nothing is lost by that.
        with suppress(OSError, sqlite3.Error):
            self._definitions.change([set_fact("clean", "yes" if self._was_clean else "no")])
        self._let_go()

    def close(self) -> None:
        """Write and sync all there is, and let the folder go; the loop has ended its part."""
        store = self.store
        for committer in self._committers:
            committer.stop()
        store.closed = True
        for committer in self._committers:
            store.failed = store.failed or committer.failed
        if store.failed is None:
            try:
                store.finish(self._definitions)
                self._definitions.change([set_fact("clean", "yes")])
            except (OSError, sqlite3.Error) as error:
                store.failed = error
        self._let_go()

    def _let_go(self) -> None:
        for journal in (self.store.journal, self.store.spill):
            close_files(journal)
        self._definitions.close()
        self._disk.unlock()


def open_folder(
    folder: Path, settings: Settings, now: int, segment_size: int = SEGMENT_SIZE, accept_loss: bool = False
) -> Opened:
    """Open a data folder: InUse, UnknownFormat, Misfit or Unusable if that cannot be."""
    disk = Disk(folder)
    try:
        if not disk.lock():
            raise InUse(f"{folder} is in use by another process")
        return open_locked(disk, settings, now, segment_size, accept_loss)
    except (OSError, sqlite3.Error) as error:
        disk.unlock()
        raise Unusable(folder, error) from error
    except BaseException:
        disk.unlock()
        raise


def open_locked(disk: Disk, settings: Settings, now: int, segment_size: int, accept_loss: bool) -> Opened:
    write_ahead_log = WriteAheadLog(disk.folder)
    definitions = open_definitions(disk, accept_loss)
    try:
        return Opened(disk, definitions, settings, now, segment_size, accept_loss)
    except BaseException:
        definitions.close()
        write_ahead_log.put_back()
        raise


def open_definitions(disk: Disk, accept_loss: bool) -> DefinitionsFile:
    """The definitions; Misfit if they cannot be read, or are missing beside a journal."""
    folder = disk.folder
    fault = None
    if any(name.startswith(f"{PREFIX}-") for name in disk.names()):
        fault = file_fault(folder / FILE_NAME)
    kept = WriteAheadLog(folder)
    try:
        if fault is None:
            definitions = DefinitionsFile(folder)
            faults = definitions.faults()
            if not faults:
                return definitions
            definitions.close()
            fault = f"{FILE_NAME} is damaged: {faults[0]}"
    except sqlite3.DatabaseError as error:
        # Others are about the system, such as a disk that is full.
        if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        fault = f"{FILE_NAME} is damaged: {error}"
    kept.put_back()
    if not accept_loss:
        raise Misfit(f"the definitions are lost: {fault}. {HOW_TO_GO_ON}")
    log.error("the definitions are lost: %s; --accept-loss: the broker starts without them", fault)
    set_aside(disk)
    return DefinitionsFile(folder)


def file_fault(file: Path) -> str | None:
    """What is wrong with a file of definitions that SQLite would take as it is."""
    if not file.exists():
        return f"{file.name} is missing"
    with file.open("rb") as opened:
        header = opened.read(VERSIONS.stop)
    if not header:
        # It would begin anew, and remove its write-ahead log.
        return f"{file.name} is empty"
    # With others it would only read the file.
    return None if header[VERSIONS] in (b"\1\1", b"\2\2") else f"{file.name} is damaged: its header"


def set_aside(disk: Disk) -> None:
    """Keep files of definitions that are of no use under other names."""
    names = disk.names()
    for name in names:
        if name.startswith(FILE_NAME):
            number = 1
            while f"damaged-{number}-{name}" in names:
                number += 1
            disk.rename(name, f"damaged-{number}-{name}")
    disk.sync_folder()


class WriteAheadLog:
    """What SQLite had not moved to its main file yet. It removes that when it is closed, also where it could not use it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{FILE_NAME}-wal"
        self._octets = self._path.read_bytes() if self._path.exists() else b""

    def put_back(self) -> None:
        """Leave it as it was, for those who look closer."""
        if self._octets:
            with open(self._path, "wb", opener=private) as file:
                file.write(self._octets)


def reason_of(folder: Path, error: OSError | sqlite3.Error) -> str:
    """Why a folder cannot be used, in the words of whoever has to mend it."""
    if is_full(folder, error):
        return "no space left on device"
    if isinstance(error, sqlite3.Error):
        return f"{FILE_NAME}: {error}"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename} is a file, not a folder"
    if isinstance(error, IsADirectoryError):
        return f"{error.filename} is a folder, not a file"
    return f"{error.filename or folder}: {error.strerror or error}"


def is_full(folder: Path, error: OSError | sqlite3.Error) -> bool:
    """Whether there is no space. SQLite has no word for that where its shared memory does not fit."""
    if isinstance(error, OSError):
        return error.errno in (ENOSPC, EDQUOT)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and Disk(folder).free_bytes() < SPACE_MIN)


def number_of(definitions: DefinitionsFile, fact: str) -> int:
    """A fact that is a number; 0 if it is none."""
    found = definitions.fact(fact) or ""
    return int(found) if found.isdecimal() else 0


def close_files(journal: Journal) -> None:
    for segment in journal.segments.values():
        # All of it is synced, or has failed before.
        with suppress(OSError):
            if segment.made:
                segment.file.close()


def empty_spill(disk: Disk, segment_size: int) -> Journal:
    """A new spill; what an earlier run left is of no use."""
    for name in disk.names():
        if name.startswith(f"{SPILL_PREFIX}-"):
            disk.remove(name)
    spill = Journal(disk, segment_size, SPILL_PREFIX)
    spill.begin(SPILL_NUMBER, 1)
    return spill
