"""The committer's thread: writes and syncs batches, one after the other, and says so on the loop.

Everything that arrives while it syncs is one batch the next time, so one sync covers it all.

Waking a thread and being woken by it takes longer than a quick disk's sync. So where nothing else is in its hands and the
disk has been quick, a batch may be carried out on the loop itself (`carry_out_now`): the one who asks knows that nobody
else is stopped by it.
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

# A disk is quick when a batch takes no longer than this, about as long as a pass may take, in a mean in which the last one
# counts one part in so many. One that takes long makes it slow until that is forgotten; at first nothing is known.
QUICK_S = 0.001
MEAN_OF = 16
UNKNOWN_S = 2 * QUICK_S


class Job:
    """A batch and the definitions that changed with it, a file to remove or a page to read. `done` is called on the loop."""

    __slots__ = ("changes", "done", "subject", "sync")

    def __init__(self, subject: Subject, changes: list[Change], done: Done, sync: bool = True) -> None:
        self.subject = subject
        self.changes = changes
        self.done = done
        self.sync = sync


class Committer:
    """The thread. `call_soon` brings a call back to the loop. After a failure nothing is written any more.

    Without `definitions` none may change with a batch.
    """

    def __init__(self, definitions: DefinitionsFile | None, call_soon: Callable[..., object], sync: bool) -> None:
        self._definitions = definitions
        self._call_soon = call_soon
        self._sync = sync
        self.failed: BaseException | None = None
        # Both by whoever carries something out: how long batches take lately, in seconds.
        self.traffic = Traffic()
        self.batch_s = UNKNOWN_S
        # What was put and is not done, as the loop knows it.
        self._put_count = 0
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leveret-committer", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Have this done after all that was put before."""
        self._put_count += 1
        self._queue.put(job)

    def is_quick(self) -> bool:
        """Whether a batch would be done at once and soon: nothing was put before, and the disk has been quick."""
        return self._put_count == 0 and self.batch_s <= QUICK_S

    def carry_out_now(self, job: Job) -> None:
        """Do this in the calling thread, while the other one has nothing to do."""
        self._commit(job)
        job.done(self.failed)

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
            self._call_soon(self._done, job, self.failed)

    def _done(self, job: Job, fault: BaseException | None) -> None:
        self._put_count -= 1
        job.done(fault)

    def _commit(self, job: Job) -> None:
        if self.failed is None:
            start = time.perf_counter()
            try:
                carry_out(job, self._definitions, self._sync, self.traffic)
            except BaseException as fault:
                self.failed = fault
            if isinstance(job.subject, BatchToWrite) and not job.changes:
                self.batch_s += (time.perf_counter() - start - self.batch_s) / MEAN_OF


def carry_out(job: Job, definitions: DefinitionsFile | None, sync: bool, traffic: Traffic) -> None:
    """Do one job; without `sync`, have nothing synced but what takes the place of a file that is removed."""
    if job.changes:
        assert definitions is not None
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
