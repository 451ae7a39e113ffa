"""A copy of a data folder that a broker can be started on, made while its own broker runs, or stands.

(1) The journal first. Its segments only grow, and the oldest one is removed when what is live of it has been written
    again in a newer one; so all are opened before any is read, and again if one came or went meanwhile. What the open
    files hold is the journal as it was at that moment, and perhaps some more of its end.
(2) The definitions last: a queue's row is on disk before any record names the queue, so none is missing in the copy. A
    queue that was deleted meanwhile is not there; one that was made meanwhile may be empty.
(3) The newest segment is copied first: when a batch is in the copy, so is every batch before it. The end may be half a
    batch, which recovery cuts: it was not on disk when the copy began.
(4) The copy gets its name when all of it is on disk: a target that is there is whole.
"""

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import quote

from leveret.store.disk import make_folder, sync_folder
from leveret.store.inspection import NotData, copy_definitions, kept_out, segment_names
from leveret.store.modes import make_private, private
from leveret.store.opened import InUse
from leveret.store.rows import FILE_NAME, DefinitionsFile, set_fact
from leveret.store.store import LAST_BATCH

BUSY_S = 30.0
TRIES_MAX = 1000
PIECE = 1 << 20


class TargetExists(Exception):
    """There is something where the copy was to be."""


class Backup:
    """What was copied."""

    def __init__(self, running: bool, segment_count: int, byte_count: int) -> None:
        self.running = running
        self.segment_count = segment_count
        self.byte_count = byte_count


def backup(folder: Path, target: Path) -> Backup:
    """Copy a data folder; NotData, TargetExists or OSError if that cannot be."""
    if target.is_dir() and any(target.iterdir()):
        raise TargetExists(f"{target} is not empty")
    if target.exists() and not target.is_dir():
        raise TargetExists(f"{target} is a file")
    make_folder(target.absolute().parent)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.absolute().parent))
    try:
        made = _fill(folder, partial)
        sync_folder(partial)
        os.rename(partial, target)
        sync_folder(target.absolute().parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return made


def _fill(folder: Path, target: Path) -> Backup:
    with ExitStack() as stack:
        running = False
        try:
            stack.enter_context(kept_out(folder))
        except InUse:
            running = True
        files = _open_segments(folder, stack)
        byte_count = sum(_copy(fd, target / name) for name, fd in reversed(files.items()))
        if running:
            _copy_live_definitions(folder, target)
        else:
            copy_definitions(folder, target)
        _settle_definitions(target, running)
    return Backup(running, len(files), byte_count)


def _open_segments(folder: Path, stack: ExitStack) -> dict[str, int]:
    """All segments of one moment, open."""
    for _ in range(TRIES_MAX):
        names = segment_names(folder)
        opened: dict[str, int] = {}
        with ExitStack() as tried, suppress(FileNotFoundError):
            for name in names:
                opened[name] = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
                tried.callback(os.close, opened[name])
            if segment_names(folder) == names:
                stack.push(tried.pop_all())
                return opened
    raise NotData(f"{folder} does not come to rest")


def _copy(source: int, target: Path) -> int:
    """Copy an open file to its end, and sync the copy; how long it is."""
    size = 0
    with open(target, "xb", opener=private) as copy:
        while piece := os.pread(source, PIECE, size):
            copy.write(piece)
            size += len(piece)
        copy.flush()
        os.fsync(copy.fileno())
    return size


def _copy_live_definitions(folder: Path, target: Path) -> None:
    """Have SQLite copy what is committed, beside the broker that goes on writing."""
    make_private(target / FILE_NAME)
    source = f"file:{quote(str(folder.absolute() / FILE_NAME))}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=BUSY_S)) as live,
        closing(sqlite3.connect(target / FILE_NAME)) as copy,
    ):
        live.backup(copy)


def _settle_definitions(target: Path, running: bool) -> None:
    """Leave one file, synced; of a running broker it says that it was not stopped."""
    definitions = DefinitionsFile(target)
    if running:
        # They are newer than the journal's copy, and know of batches that are not in it.
        definitions.change([set_fact("clean", "no"), set_fact(LAST_BATCH, "0")])
    # SQLite syncs what it moves from its log to the file.
    definitions.close()
    for name in (f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (target / name).unlink(missing_ok=True)
