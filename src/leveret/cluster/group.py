"""A group: the log of some replicated queues, and what this node has to do with it.

  following ──take_over──► taking over ──► leading ──► ended
      ▲                        │                         │
      └────────────────────────┴───────── again ─────────┘

  (1) While it leads, `store` is the storage of its queues: one journal, whose disk is a stream. What is defined is
      elsewhere: the ids of queues come from there too.
  (2) When an append fails it has ended: another leads, or the outcome is not known. Nothing that waits for it is confirmed
      any more, and that is the end of this group alone, not of the broker: `on_ended` says why.
  (3) Whatever was there before a take-over counts as redelivered, as nobody knows what the leader before had given away.

All of it is called on the loop, which waits for nothing: reading the log, and writing what is left, is done in threads.
"""

import logging
import threading
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.cluster.takeover import LogPlace, Takeover
from leveret.store.committer import Committer
from leveret.store.ledger import Ledger
from leveret.store.opened import close_files
from leveret.store.store import Store, nothing_more
from leveret.store.sync_barrier import Barrier
from leveret.wire.content import PERSISTENT

if TYPE_CHECKING:
    from leveret.broker.work import Work

log = logging.getLogger("leveret.cluster")


class GroupStore(Store):
    """The store of a group's queues: messages alone. `known_ids` are those of queues that are about to be added."""

    __slots__ = ()

    def segment_begun(self) -> None:
        """How far the log reaches is known otherwise."""

    def put(self, kind: str, vhost: str, name: str, value: dict[str, object]) -> None:
        """Definitions are elsewhere."""

    def remove(self, kind: str, vhost: str, name: str) -> None:
        """Definitions are elsewhere."""

    def remove_vhost(self, vhost: str) -> None:
        """Definitions are elsewhere."""

    def add_queue(self, queue: Queue, vhost: str, kind: str, value: dict[str, object]) -> None:
        queue_id = self.known_ids.pop((kind, vhost, queue.name))
        queue.storage = self
        queue.ledger = Ledger(self.journal, queue_id)
        # RabbitMQ: as in a quorum queue, all is stored, and nobody gets what a majority does not have yet.
        queue.keeps_all = PERSISTENT
        queue.set_barrier(Barrier(self, queue))
        self.queues[queue_id] = queue

    def remove_queue(self, queue: Queue, vhost: str, kind: str) -> None:
        # What is left of it in the log is of a queue that nobody knows, and goes with its segments.
        assert isinstance(queue.ledger, Ledger)
        self.queues.pop(queue.ledger.queue_id, None)


class State(Enum):
    """What this node has to do with a group."""

    FOLLOWING = "following"
    TAKING_OVER = "taking over"
    LEADING = "leading"
    ENDED = "ended"


class Group:
    """One log. `call_soon` brings a call to the loop from threads."""

    def __init__(self, place: LogPlace, call_soon: Callable[..., object]) -> None:
        self.place = place
        self.state = State.FOLLOWING
        self.store: GroupStore | None = None
        self.failed: BaseException | None = None
        self._call_soon = call_soon
        self._takeover: Takeover | None = None
        self._committers: list[Committer] = []
        self._threads: list[threading.Thread] = []
        self._on_ended: Callable[[BaseException], None] = nothing_more

    @property
    def epoch(self) -> int:
        """Which leader's time it is, as far as is known here."""
        return 0 if self._takeover is None or self._takeover.stream is None else self._takeover.stream.epoch

    def take_over(
        self, queue_ids: list[int], on_taken: Callable[[], None], on_ended: Callable[[BaseException], None]
    ) -> None:
        """Become the leader; `on_taken` is called when all is read, and `open` may be."""
        assert self.state in (State.FOLLOWING, State.ENDED)
        self.state = State.TAKING_OVER
        self.failed = None
        self._on_ended = on_ended
        takeover = self._takeover = Takeover(self.place, queue_ids)
        self._in_thread("takeover", takeover.run, lambda error: self._taken(on_taken, error))

    def _in_thread(self, name: str, run: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        def carry_out() -> None:
            fault = None
            try:
                run()
            except BaseException as error:
                fault = error
            self._call_soon(done, fault)

        thread = threading.Thread(target=carry_out, name=f"leveret-{name}", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _taken(self, on_taken: Callable[[], None], error: BaseException | None) -> None:
        if error is not None:
            self._end(error)
        elif self.state is State.TAKING_OVER:
            on_taken()

    def open(self, sizes: Sizes) -> GroupStore:
        """The store of what was taken over; its queues are to be added by it, and then to be filled by `lead`."""
        takeover = self._takeover
        assert takeover is not None
        journal, recovery = takeover.journal, takeover.recovery
        journal.set_mark((0, recovery.highest_queue_id, recovery.mark[2] or recovery.first_batch or 1))
        last_id = recovery.highest_queue_id
        store = self.store = GroupStore(journal, takeover.spill, last_id, recovery.highest_group, sizes)
        store.delivered_up_to = recovery.last_batch
        store.delivers_synced = True
        return store

    def lead(self, work: "Work", on_progress: Callable[[], None]) -> None:
        """Fill the queues, and write what happens from now on."""
        store, takeover = self.store, self._takeover
        assert store is not None
        assert takeover is not None
        store.work = work
        takeover.recovery.restore(store, takeover.found, clean=False)
        takeover.found = {}
        self._committers = [Committer(None, self._call_soon, sync=True) for _ in range(2)]
        store.open(self._committers[0], self._committers[1], on_progress, self._end)
        self.state = State.LEADING

    def _end(self, error: BaseException) -> None:
        """Lead no more, and promise nothing."""
        if self.state is State.ENDED:
            return
        log.warning("%s: ended while %s: %s", self.place.name, self.state.value, error)
        self.state = State.ENDED
        self.failed = error
        self._close(write=False, done=lambda fault: None)
        self._on_ended(error)

    def step_down(self, on_done: Callable[[BaseException | None], None]) -> None:
        """Write what was said up to now, and lead no more. Its queues are to be left alone before."""
        assert self.state is State.LEADING
        self.state = State.ENDED
        self._close(write=True, done=on_done)

    def _close(self, write: bool, done: Callable[[BaseException | None], None]) -> None:
        store, takeover, committers = self.store, self._takeover, self._committers
        assert takeover is not None
        self.store = None
        self._committers = []
        if not write:
            takeover.abandon()

        def close() -> None:
            try:
                for committer in committers:
                    committer.stop()
                if store is not None:
                    finish(store, committers, write)
            finally:
                takeover.close()

        self._in_thread("group-end", close, done)

    def join(self) -> None:
        """Wait for the threads at the end of the process; what leads does so no more, and nothing more is written."""
        if self._takeover is not None:
            self._takeover.abandon()
        for thread in self._threads:
            thread.join()
        if self.state is State.LEADING:
            self.state = State.ENDED
            self._close(write=False, done=lambda fault: None)
            self._threads[-1].join()
        elif self._takeover is not None:
            self._takeover.close()


def finish(store: GroupStore, committers: list[Committer], write: bool) -> None:
    """Write what is left, and close the files; the committers have ended."""
    store.closed = True
    for committer in committers:
        store.failed = store.failed or committer.failed
    try:
        if write and store.failed is None:
            store.finish_journal(None)
        elif write and store.failed is not None:
            raise store.failed
    finally:
        for journal in (store.journal, store.spill):
            close_files(journal)
