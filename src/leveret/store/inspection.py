"""A look at the data folder of a stopped broker: what is in it, and whether it is whole. Nothing in it is changed.

(1) The folder is locked, so that no broker begins to write; several may look at once.
(2) SQLite writes even when it reads, so the definitions are copied and read elsewhere.
(3) The numbers of batches follow on each other without a gap: a batch that was promised to nobody is written again
    under its number by the next start. So where a number is missing, something promised is lost.
(4) What is live is what recovery would find; it is asked, with a disk on which it can do nothing.
"""

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from leveret.broker.pages import Pages, Sizes
from leveret.definitions.kind import ROWS
from leveret.errors import AMQPError
from leveret.store.batch import BatchRead
from leveret.store.disk import Disk, File, lock_folder
from leveret.store.journal import PREFIX, Journal
from leveret.store.layout import MARK, MESSAGE, NUMBERS_SIZE, PLACE_SIZE, PLACES_AT
from leveret.store.modes import private
from leveret.store.opened import InUse, file_fault, number_of
from leveret.store.records import read_head, read_message, read_numbers
from leveret.store.recovery import Recovery
from leveret.store.rows import FILE_NAME, FORMAT, DefinitionsFile, Row, UnknownFormat, unpacked
from leveret.store.segment import (
    HEADER_SIZE,
    Segment,
    is_room,
    next_batch_offset,
    open_segment,
    read_batch,
    read_salt,
    salvage_batch,
    salvage_headless,
)
from leveret.store.store import CHANGES, LAST_BATCH


class NotData(Exception):
    """There is no data folder where one was said to be."""


class Unreadable(Exception):
    """The definitions cannot be read at all."""


@contextmanager
def kept_out(folder: Path) -> Iterator[None]:
    """Keep brokers out of a folder that is a data folder; InUse if one is in."""
    if not segment_names(folder) and not (folder / FILE_NAME).exists():
        raise NotData(f"{folder} is not a data folder")
    locks: list[int] = []
    try:
        locks.append(lock_folder(folder, fcntl.LOCK_SH))
        # A copy that no broker has had yet has no such file.
        with suppress(FileNotFoundError):
            locks.append(os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC))
            fcntl.flock(locks[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InUse(f"{folder} is in use by another process") from None
    finally:
        for lock in locks:
            os.close(lock)


def segment_names(folder: Path) -> list[str]:
    """The journal's files, the oldest first."""
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted(name for name in names if name.startswith(f"{PREFIX}-") and name.endswith(".log"))


def copy_definitions(folder: Path, target: Path) -> None:
    """Copy the definitions of a stopped broker, with what is not in the main file yet."""
    for name in (FILE_NAME, f"{FILE_NAME}-wal"):
        with (
            suppress(FileNotFoundError),
            open(folder / name, "rb") as source,
            open(target / name, "wb", opener=private) as copy,
        ):
            shutil.copyfileobj(source, copy)


class Fault:
    """Something that is not as it was written: where, and what it costs. `lost` says that something promised is gone."""

    def __init__(self, file: str, offset: int | None, text: str, lost: bool = True) -> None:
        self.file = file
        self.offset = offset
        self.text = text
        self.lost = lost

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file} at {self.offset}"
        return f"{place}: {self.text}"


class Seen(File):
    """A file of which nothing changes."""

    __slots__ = ()

    def sync(self) -> None:
        """Not here."""

    def truncate(self, size: int) -> None:
        """Not here."""


class Looking(Disk):
    """A disk on which nothing changes."""

    __slots__ = ()

    def create(self, name: str) -> File:
        return Seen(name, os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))

    def open(self, name: str) -> File:
        return Seen(name, os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC))

    def remove(self, name: str) -> None:
        """Not here."""

    def rename(self, name: str, new_name: str) -> None:
        """Not here."""

    def sync_folder(self) -> None:
        """Not here."""


class Hole:
    """Octets of a segment that are no whole batch, and the numbers of the batches around them; 0 is none."""

    def __init__(self, name: str, start: int, end: int, before: int, inside: bool) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.before = before
        self.after = 0
        # A batch of the same segment follows.
        self.inside = inside

    @property
    def missing(self) -> int:
        """How many batches were there, for sure."""
        return self.after - self.before - 1 if self.before and self.after else 0


class Inspection:
    """What is in a folder from which brokers are kept out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[Fault] = []
        self.batch_count = 0
        self._last_batch = 0
        self._synced = 0
        self._holes: list[Hole] = []
        self._first_batch = 0
        # What the newest MARK says: how often definitions have changed, and the oldest batch that must be there.
        self._changes = 0
        self._oldest = 0
        # What the definitions know: how often they have changed, and a batch before which none may be missing.
        self._known_changes = -1
        self._known_batch = 0
        self.format = FORMAT
        self.clean = False
        self.rows: list[Row] = []

    # Definitions

    def read_definitions(self) -> None:
        """Read the definitions; Unreadable, or UnknownFormat, if they cannot be."""
        with tempfile.TemporaryDirectory(prefix="leveret-") as name:
            copy = Path(name)
            copy_definitions(self.folder, copy)
            if not (copy / FILE_NAME).exists():
                raise Unreadable("missing; without it no message has a queue")
            fault = file_fault(copy / FILE_NAME)
            if fault is not None:
                raise Unreadable(f"cannot be read: {fault}; without it no message has a queue")
            try:
                self._read_definitions(copy)
            except UnknownFormat as error:
                raise UnknownFormat(str(error).replace(str(copy), str(self.folder))) from None
            except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
                raise Unreadable(f"cannot be read: {error}; without it no message has a queue") from None

    def _read_definitions(self, folder: Path) -> None:
        definitions = DefinitionsFile(folder)
        try:
            self.format = int(definitions.fact("format") or FORMAT)
            self.clean = definitions.fact("clean") == "yes"
            self._known_changes = number_of(definitions, CHANGES)
            self._known_batch = number_of(definitions, LAST_BATCH)
            for text in definitions.faults():
                self.faults.append(Fault(FILE_NAME, None, text))
            self.rows, damaged = definitions.read_rows()
            for title in damaged:
                self._note(FILE_NAME, None, f"the definition of {title} is damaged; no broker starts")
        finally:
            definitions.close()

    def check_definitions(self) -> None:
        """Look whether every row says what its kind must say."""
        seen: dict[int, str] = {}
        for kind, vhost, name, value in self.rows:
            title = f"{kind} {name!r} in vhost {vhost!r}"
            if kind not in (*ROWS, "hidden"):
                self._note(FILE_NAME, None, f"{title} is of a kind that is not known; it is left out")
            if "arguments" in value:
                self._check_arguments(title, value["arguments"])
            if kind in ("queue", "hidden"):
                number = value.get("id", 0)
                if number in seen or not number:
                    self._note(FILE_NAME, None, f"{title} has the id {number} of {seen.get(number, 'no queue')}")
                seen[number] = title

    def _check_arguments(self, title: str, text: Any) -> None:
        try:
            unpacked(text)
        except (AMQPError, ValueError, TypeError) as error:
            self._note(FILE_NAME, None, f"{title} has arguments that cannot be read ({error}); no broker starts")

    # The journal

    def check_journal(self) -> None:
        """Read every batch and record of every segment."""
        for name in segment_names(self.folder):
            segment = open_segment(Looking(self.folder), name, 0)
            try:
                self._check_segment(segment)
            finally:
                segment.file.close()
        for hole in self._holes:
            self._judge(hole)
        self._check_fit()

    def _check_fit(self) -> None:
        """Compare what definitions and journal say of each other."""
        if 0 <= self._known_changes < self._changes:
            missing = f"the last {self._changes - self._known_changes} of {self._changes} changes of definitions are missing"
            self._note(FILE_NAME, None, f"{missing}; no broker starts")
        # Where the first octets are damaged, that has been said.
        if self._oldest and self._first_batch > self._oldest and all(hole.before for hole in self._holes):
            self._note(PREFIX, None, f"a file is missing: {cost(self._oldest - 1, self._first_batch - self._oldest)}")
        # Rows are on disk before their batch is.
        known = self._known_batch if self.clean else self._known_batch - 1
        if self._last_batch < known and not self._holes:
            self._note(PREFIX, None, f"a file is missing: {cost(self._last_batch, known - self._last_batch)}")

    def _check_segment(self, segment: Segment) -> None:
        name, size = segment.name, segment.size
        before = self.batch_count
        offset: int | None = HEADER_SIZE
        while offset is not None and offset < size:
            batch = read_batch(segment, offset)
            if batch is None and is_room(segment, offset):
                break
            if batch is None:
                following = next_batch_offset(segment, offset)
                batch = self._complete(segment, offset, following)
            if batch is None:
                self._holes.append(Hole(name, offset, following or size, self._last_batch, following is not None))
                offset = following
                continue
            self._number(name, offset, batch)
            self._check_records(name, batch.offset, batch.payload)
            offset = batch.following
        if self.batch_count > before and read_salt(segment.file) is None:
            self._note(name, 0, f"the {HEADER_SIZE} octets that begin a segment are damaged; nothing is lost by that")

    def _complete(self, segment: Segment, offset: int, following: int | None) -> BatchRead | None:
        """A batch of which only the head or the table is damaged; at the end of a killed broker's file it is torn."""
        batch = salvage_batch(segment, offset)
        if batch is None and (following is not None or self.clean):
            batch = salvage_headless(segment, offset, following or segment.size, self._last_batch + 1)
        if batch is None or not batch.complete:
            return None
        text = "the head or the table of a batch is damaged; nothing is lost by that"
        self._note(segment.name, offset, text, lost=False)
        return batch

    def _number(self, name: str, offset: int, batch: BatchRead) -> None:
        """Compare a batch's number with the one before."""
        number = batch.number
        self._first_batch = min(self._first_batch or number, number)
        missing = number - self._last_batch - 1 if self._last_batch else 0
        holes = [hole for hole in self._holes if not hole.after]
        for hole in holes:
            hole.after = number
        if missing > 0 and not holes:
            self._note(name, offset, f"what was before is not there; {cost(self._last_batch, missing)}")
        elif missing < 0:
            self._note(name, offset, f"batch {number} follows on {self._last_batch}; all of it counts")
        self._last_batch = max(number, self._last_batch)
        self._synced = max(batch.synced, self._synced)
        self.batch_count += 1

    def _judge(self, hole: Hole) -> None:
        """Say what a place that is not whole has cost, by the rules of recovery: nothing, if nobody was promised it."""
        size = hole.end - hole.start
        if hole.missing:
            self._note(hole.name, hole.start, f"{size} octets are damaged; {cost(hole.before, hole.missing)}")
        elif hole.inside or self.clean or hole.before < self._synced:
            self._note(hole.name, hole.start, f"{size} octets are damaged; what they said is lost")
        else:
            text = f"{size} octets of an unfinished write; nothing that was promised is lost"
            self._note(hole.name, hole.start, text, lost=False)

    def _check_records(self, name: str, start: int, payload: bytes) -> None:
        at = 0
        while at < len(payload):
            text = record_fault(payload, at)
            if text:
                self._note(name, start + at, f"{text}; the {len(payload) - at} octets of its batch from there are lost")
                return
            length, kind, _, upper, lower = read_head(payload, at)
            if kind == MARK:
                self._changes = max(self._changes, read_numbers(payload, at)[0])
                self._oldest = max(self._oldest, upper << 32 | lower)
            at += length

    def _note(self, file: str, offset: int | None, text: str, lost: bool = True) -> None:
        self.faults.append(Fault(file, offset, text, lost))

    # What is live

    def statistics(self) -> dict[str, Any]:
        """Queues with their messages, segments with what is live of them, and what is defined."""
        journal = Journal(Looking(self.folder))
        recovery = Recovery(Looking(self.folder), journal)
        recovery.read(self.clean)
        queues = []
        titles = {value["id"]: (kind, vhost, name) for kind, vhost, name, value in self.rows if "id" in value}
        for queue_id, found in sorted(recovery.find(titles).items()):
            pages = Pages(Sizes())
            found.fill(pages, {}, journal, self.clean)
            kind, vhost, name = titles[queue_id]
            counts = {"messages": pages.count, "bytes": pages.body_bytes}
            queues.append({"vhost": vhost, "name": name, "hidden": kind == "hidden", **counts})
        queues.sort(key=lambda queue: (queue["vhost"], queue["name"]))
        for segment in journal.segments.values():
            segment.file.close()
        segments = [journal.segments[number] for number in sorted(journal.segments)]
        return {
            "format": self.format,
            "clean": self.clean,
            "definitions": dict(sorted(Counter(kind for kind, _, _, _ in self.rows).items())),
            "queues": queues,
            "messages": sum(queue["messages"] for queue in queues),
            "bytes": sum(queue["bytes"] for queue in queues),
            "segments": [
                {
                    "name": segment.name,
                    "bytes": segment.size,
                    "places": segment.total_count,
                    "live_places": segment.live_count,
                }
                for segment in segments
            ],
        }


def cost(before: int, missing: int) -> str:
    """What it means that so many batches behind one are not there."""
    which = f"batch {before + 1} is" if missing == 1 else f"batches {before + 1} to {before + missing} are"
    return f"{which} lost: messages published in it are gone, settled ones may be back"


def record_fault(payload: bytes, at: int) -> str:
    """What is wrong with the record at `at`; "" if nothing is."""
    if at + NUMBERS_SIZE > len(payload):
        return "a record that ends before its time"
    length, kind, count, _, _ = read_head(payload, at)
    if not MESSAGE <= kind <= MARK:
        return f"a record of the unknown kind {kind}"
    if length % 8 or length < NUMBERS_SIZE or at + length > len(payload):
        return f"a record of the impossible length {length}"
    if kind == MESSAGE:
        if length < PLACES_AT + count * PLACE_SIZE:
            return f"a message of {length} octets with {count} places"
        message = read_message(payload, at)
        if len(message.content) > length:
            return "a message that is longer than its record"
    return ""
