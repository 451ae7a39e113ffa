"""Opening a data folder: recover what is there, or begin."""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from leveret.broker.broker import Broker
from leveret.broker.settings import Settings
from leveret.store.committer import Committer
from leveret.store.definitions import DefinitionsFile, set_fact
from leveret.store.disk import Disk
from leveret.store.journal import SEGMENT_SIZE, Journal
from leveret.store.layout import SPILL_NUMBER
from leveret.store.rebuild import rebuild
from leveret.store.recovery import Recovery
from leveret.store.store import LAST_QUEUE_ID, SPILL_PREFIX, Store

log = logging.getLogger("leveret.store")


class InUse(Exception):
    """Another process has the data folder."""


class Unusable(Exception):
    """The data folder cannot be made, read or written."""


class Opened:
    """A broker with its store; `fresh` says that the folder was empty."""

    def __init__(
        self, disk: Disk, definitions: DefinitionsFile, settings: Settings, now: int, segment_size: int = SEGMENT_SIZE
    ) -> None:
        self._disk = disk
        self._definitions = definitions
        self._committers: list[Committer] = []
        self._was_clean = clean = self._definitions.fact("clean") == "yes"
        self._definitions.change([set_fact("clean", "no")])
        rows = self._definitions.rows()
        self.fresh = not rows
        journal = Journal(self._disk, segment_size)
        recovery = Recovery(self._disk, journal)
        recovery.read(clean)
        next_id = max(recovery.highest_queue_id, int(self._definitions.fact(LAST_QUEUE_ID) or 0)) + 1
        self.store = Store(journal, empty_spill(self._disk, segment_size), next_id, recovery.highest_group, settings.sizes)
        self.broker = Broker(settings, self.store)
        self.broker.work.now = now
        self.store.work = self.broker.work
        self.store.holds = settings.deliver_synced
        rebuild(self.broker, self.store, rows)
        recovery.restore(self.store, clean)
        self.damage = recovery.damage
        if rows:
            log.info(
                "recovered %d messages in %d queues after %s end",
                recovery.message_count,
                len(self.store.queues),
                "a clean" if clean else "an unclean",
            )

    def start(
        self,
        call_soon: Callable[..., object],
        on_synced: Callable[[], None],
        on_failed: Callable[[BaseException], None],
        sync: bool,
    ) -> None:
        """Begin to write what happens from now on."""
        committer = Committer(self._definitions, call_soon, sync)
        spiller = Committer(self._definitions, call_soon, sync)
        self._committers = [committer, spiller]
        self.store.open(committer, spiller, on_synced, on_failed)

    def leave(self) -> None:
        """Let the folder go as it was: the broker does not start."""
        self._definitions.change([set_fact("clean", "yes" if self._was_clean else "no")])
        self._let_go()

    def close(self) -> None:
        """Write and sync all there is, and let the folder go; the loop has ended its part."""
        store = self.store
        for committer in self._committers:
            committer.stop()
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
            for segment in journal.segments.values():
                # All of it is synced, or has failed before.
                with suppress(OSError):
                    if segment.made:
                        segment.file.close()
        self._definitions.close()
        self._disk.unlock()


def open_folder(folder: Path, settings: Settings, now: int, segment_size: int = SEGMENT_SIZE) -> Opened:
    """Open a data folder: InUse, UnknownFormat or Unusable if that cannot be."""
    disk = Disk(folder)
    try:
        if not disk.lock():
            raise InUse(f"{folder} is in use by another process")
        return Opened(disk, DefinitionsFile(folder), settings, now, segment_size)
    except (OSError, sqlite3.Error) as error:
        disk.unlock()
        raise Unusable(f"cannot use the data folder {folder}: {error}") from error
    except BaseException:
        disk.unlock()
        raise


def empty_spill(disk: Disk, segment_size: int) -> Journal:
    """A new spill; what an earlier run left is of no use."""
    for name in disk.names():
        if name.startswith(f"{SPILL_PREFIX}-"):
            disk.remove(name)
    spill = Journal(disk, segment_size, SPILL_PREFIX)
    spill.begin(SPILL_NUMBER, 1)
    return spill
