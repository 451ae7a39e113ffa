"""The committer's thread: writes and syncs batches, one after the other, and says so on the loop.

Everything that arrives while it syncs is one batch the next time, so one sync covers it all.
"""

import logging
import queue
import threading
from collections.abc import Callable

from leveret.store.definitions import Change, DefinitionsFile
from leveret.store.journal import Batch
from leveret.store.paging import Filling, Reading

log = logging.getLogger("leveret.store")

Done = Callable[[BaseException | None], None]


class Work:
    """A batch with the definitions that changed with it, or a page to read; `done` is called on the loop."""

    __slots__ = ("changes", "done", "subject", "sync")

    def __init__(self, subject: Batch | Reading | Filling, changes: list[Change], done: Done, sync: bool = True) -> None:
        self.subject = subject
        self.changes = changes
        self.done = done
        self.sync = sync


class Committer:
    """The thread. `call_soon` brings a call back to the loop."""

    def __init__(self, definitions: DefinitionsFile, call_soon: Callable[..., object], sync: bool) -> None:
        self._definitions = definitions
        self._call_soon = call_soon
        self._sync = sync
        self._queue: queue.SimpleQueue[Work | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leveret-committer", daemon=True)
        self._thread.start()

    def put(self, work: Work | Callable[[], None]) -> None:
        """Have this written, or called in the thread, after all that was put before."""
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
            if isinstance(work, Work):
                self._commit(work)
            else:
                work()

    def _commit(self, work: Work) -> None:
        error: BaseException | None = None
        try:
            if work.changes:
                self._definitions.change(work.changes)
            if isinstance(work.subject, Batch):
                work.subject.write()
                if self._sync and work.sync:
                    work.subject.sync()
            else:
                work.subject.read()
        except BaseException as fault:
            error = fault
        self._call_soon(work.done, error)
