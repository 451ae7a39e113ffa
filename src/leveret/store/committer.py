"""The committer's thread: writes and syncs batches, one after the other, and says so on the loop.

Everything that arrives while it syncs is one batch the next time, so one sync covers it all.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable

from leveret.broker.storage import Traffic
from leveret.store.compaction import Clean
from leveret.store.journal import BatchToWrite, Removal
from leveret.store.page_transfer import Fetching, Filling, Reading
from leveret.store.peek import Peek
from leveret.store.rows import Change, DefinitionsFile

log = logging.getLogger("leveret.store")

Done = Callable[[BaseException | None], None]
Subject = BatchToWrite | Removal | Reading | Filling | Fetching | Peek | Clean


class Job:
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
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leveret-committer", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Have this done after all that was put before."""
        self._queue.put(job)

    def stop(self) -> None:
        """Finish what was put, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            job = self._queue.get()
            if job is None:
                return
            self._commit(job)

    def _commit(self, job: Job) -> None:
        if self.failed is None:
            try:
                carry_out(job, self._definitions, self._sync, self.traffic)
            except BaseException as fault:
                self.failed = fault
        self._call_soon(job.done, self.failed)


def carry_out(job: Job, definitions: DefinitionsFile, sync: bool, traffic: Traffic) -> None:
    """Do one job; without `sync`, have nothing synced but what takes the place of a file that is removed."""
    if job.changes:
        definitions.change(job.changes)
        traffic.change_count += 1
    start = time.perf_counter()
    if isinstance(job.subject, Reading | Filling | Fetching | Peek | Clean):
        traffic.read_bytes += job.subject.read()
        traffic.read_count += 1
        traffic.read_s += time.perf_counter() - start
        return
    if not sync and isinstance(job.subject, Removal):
        job.subject.sync_copies()
    job.subject.write()
    written = time.perf_counter()
    if isinstance(job.subject, BatchToWrite):
        traffic.write_count += 1
        traffic.write_bytes += len(job.subject.data)
        traffic.write_s += written - start
    if sync and job.sync:
        job.subject.sync()
        traffic.sync_count += 1
        traffic.sync_s += time.perf_counter() - written
