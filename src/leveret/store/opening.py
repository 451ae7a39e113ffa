"""Opening a data folder: recover what is there, or begin."""

import logging
from collections.abc import Callable
from pathlib import Path

from leveret.broker.broker import Broker
from leveret.broker.settings import Settings
from leveret.store.committer import Committer
from leveret.store.definitions import DefinitionsFile
from leveret.store.disk import Disk
from leveret.store.journal import SEGMENT_SIZE, Journal
from leveret.store.rebuild import rebuild
from leveret.store.recovery import Recovery
from leveret.store.store import SPILL_NUMBER, SPILL_PREFIX, Store

log = logging.getLogger("leveret.store")


class InUse(Exception):
    """Another process has the data folder."""


class Opened:
    """A broker with its store; `fresh` says that the folder was empty."""

    def __init__(self, folder: Path, settings: Settings, now: int, segment_size: int = SEGMENT_SIZE) -> None:
        self._disk = Disk(folder)
        if not self._disk.lock():
            raise InUse(f"{folder} is in use by another process")
        self._definitions = DefinitionsFile(folder)
        self._committer: Committer | None = None
        self._was_clean = clean = self._definitions.fact("clean") == "yes"
        self._definitions.set_fact("clean", "no")
        rows = self._definitions.rows()
        self.fresh = not rows
        journal = Journal(self._disk, segment_size)
        recovery = Recovery(self._disk, journal)
        recovery.read()
        ids = [value["id"] for kind, _, _, value in rows if kind in ("queue", "hidden")]
        next_id = max([recovery.highest_queue_id, *ids], default=0) + 1
        self.store = Store(journal, empty_spill(self._disk, segment_size), next_id, recovery.highest_group)
        self.broker = Broker(settings, self.store)
        self.broker.work.now = now
        self.store.work = self.broker.work
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
        self._committer = Committer(self._definitions, call_soon, sync)
        self.store.open(self._committer, on_synced, on_failed)

    def leave(self) -> None:
        """Let the folder go as it was: the broker does not start."""
        self._definitions.set_fact("clean", "yes" if self._was_clean else "no")
        self._definitions.close()
        self._disk.unlock()

    def close(self) -> None:
        """Write and sync all there is, and let the folder go; the loop has ended its part."""
        if self._committer is not None:
            self._committer.stop()
        if self.store.failed is None:
            self.store.finish(self._definitions)
            self._definitions.set_fact("clean", "yes")
        self._definitions.close()
        self._disk.unlock()


def empty_spill(disk: Disk, segment_size: int) -> Journal:
    """A new spill; what an earlier run left is of no use."""
    for name in disk.names():
        if name.startswith(f"{SPILL_PREFIX}-"):
            disk.remove(name)
    spill = Journal(disk, segment_size, SPILL_PREFIX)
    spill.begin(SPILL_NUMBER, 1)
    return spill
