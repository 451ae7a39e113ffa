"""The budget of one pass, and the list of what still has to be done.

A pass handles one read from one socket. Everything it does to a queue costs one unit of `left`, a microsecond or two, and
everything else that grows with what clients make costs by that measure: routes looked up, tables decoded, things made and
removed. When it is used up the pass stops where it is and goes on in the next turn of the loop, so that no client makes the
others wait. Queue methods never call back into the broker: what they cause elsewhere is put on this list and done when the
operation has returned.

Knows nothing of queues, sockets or clocks.

  (1) Tasks run in the order they were added; one that is not finished keeps its place.
  (2) A task does at most about `left` units at a time.
"""

import logging
from typing import Any

from leveret.broker.storage import Storage
from leveret.errors import AMQPError

PASS_BUDGET = 2000
FORGET_FROM = 64
# A table of so many octets takes as long to decode as one operation of a queue.
OCTETS_A_UNIT = 32

log = logging.getLogger("leveret.broker")


class Task:
    """Something to do in pieces."""

    __slots__ = ()

    def run(self, work: "Work") -> bool:
        """Do a piece of it, spending `work.left`; True when nothing is left to do."""
        raise NotImplementedError


class Work:
    """One broker's budget and task list.

    `now` is the time of the pass (ms); `flooded` is a queue that it has made, or kept, very full.
    """

    __slots__ = ("_head", "_tasks", "flooded", "left", "now", "storage")

    def __init__(self) -> None:
        self.left = PASS_BUDGET
        self.now = 0
        self.flooded: Any = None
        self.storage = Storage()
        self._tasks: list[Task] = []
        self._head = 0

    def __bool__(self) -> bool:
        return self._head < len(self._tasks)

    def add(self, task: Task) -> None:
        self._tasks.append(task)

    def begin(self) -> None:
        """Start a pass with a full budget."""
        self.left = PASS_BUDGET
        self.flooded = None

    def drain(self) -> bool:
        """Run tasks until none is left or the budget is spent; True if none is left."""
        tasks = self._tasks
        while self._head < len(tasks):
            if self.left <= 0:
                self._forget_done()
                return False
            try:
                if not tasks[self._head].run(self):
                    continue
            except AMQPError as error:
                # A client's fault, such as a commit that a queue refused, when the client is gone.
                log.warning("nobody is there to hear: %s", error.reply_text)
            except OSError as error:
                # A file's fault: what the task was to store is not stored, and nobody may be told that it is.
                log.exception("a task on the work list failed")
                self.storage.fail(error)
            except Exception:
                # Whoever's task it was is gone; the others' must still be done, and whoever drains is not to blame.
                log.exception("a task on the work list failed")
            self._head += 1
        tasks.clear()
        self._head = 0
        return True

    def _forget_done(self) -> None:
        # Under a steady load the list is never empty.
        if self._head >= FORGET_FROM:
            del self._tasks[: self._head]
            self._head = 0
