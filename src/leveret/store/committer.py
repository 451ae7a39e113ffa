"""The committer's thread: writes and syncs batches, one after the other, and says so on the loop.

Everything that arrives while it syncs is one batch the next time, so one sync covers it all.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable

from leveret.broker.storage import Traffic
from leveret.store.cleaner import Clean
from leveret.store.journal import BatchToWrite, Removal
from leveret.store.paging import Fetching, Filling, Reading
from leveret.store.peeking import Peek
from leveret.store.rows import Change, DefinitionsFile

log = logging.getLogger("leveret.store")

Done = Callable[[BaseException | None], None]
Subject = BatchToWrite | Removal | Reading | Filling | Fetching | Peek | Clean


class Work:
    """A batch and the definitions that changed with it, a file to remove or a page to read. `done` is called on the loop."""

    __slots__ = ("changes", "done", "subject", "sync")

    def __init__(self, subject: Subject, changes: list[Change], done: Done, sync: bool = True) -> None:
        self.subject = subject
        self.changes = changes
        self.done = done
        self.sync = sync


class Committer:
    """The thread. `call_soon` brings a call back to the loop. After a failure nothing is written any more."""

    def __init__(self, definitions: DefinitionsFile, call_soon: Callable[..., object], sync: bool) -> None:
        self._definitions = definitions
        self._call_soon = call_soon
        self._sync = sync
        self.failed: BaseException | None = None
        # Counted by the thread.
        self.traffic = Traffic()
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leveret-committer", daemon=True)
        self._thread.start()

    def put(self, work: Work) -> None:
        """Have this done after all that was put before."""
        self._queue.put(work)

    def stop(self) -> None:
        """Finish what was put, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            self._commit(work)

    def _commit(self, work: Work) -> None:
        if self.failed is None:
            try:
                carry_out(work, self._definitions, self._sync, self.traffic)
            except BaseException as fault:
                self.failed = fault
        self._call_soon(work.done, self.failed)


def carry_out(work: Work, definitions: DefinitionsFile, sync: bool, traffic: Traffic) -> None:
    """Do one piece of work; without `sync`, have nothing synced but what takes the place of a file that is removed."""
    if work.changes:
        definitions.change(work.changes)
        traffic.change_count += 1
    start = time.perf_counter()
    if isinstance(work.subject, Reading | Filling | Fetching | Peek | Clean):
        traffic.read_bytes += work.subject.read()
        traffic.read_count += 1
        traffic.read_s += time.perf_counter() - start
        return
    if not sync and isinstance(work.subject, Removal):
        work.subject.sync_copies()
    work.subject.write()
    written = time.perf_counter()
    if isinstance(work.subject, BatchToWrite):
        traffic.write_count += 1
        traffic.write_bytes += len(work.subject.data)
        traffic.write_s += written - start
    if sync and work.sync:
        work.subject.sync()
        traffic.sync_count += 1
        traffic.sync_s += time.perf_counter() - written
