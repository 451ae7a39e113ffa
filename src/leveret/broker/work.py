"""The list of what still has to be done.

Queue methods never call back into the broker: what they cause elsewhere is put on this list and done when the operation has
returned, within the budget of whichever pass that is.

  (1) Tasks run in the order they were added; one that is not finished keeps its place.
  (2) A task does at most about `Budget.left` units at a time.
"""

import logging

from leveret.broker.budget import Budget
from leveret.broker.storage import Storage
from leveret.errors import AMQPError

FORGET_FROM = 64

log = logging.getLogger("leveret.broker")


class Task:
    """Something to do in pieces."""

    __slots__ = ()

    def run(self, budget: Budget) -> bool:
        """Do a piece of it, spending `budget.left`; True when nothing is left to do."""
        raise NotImplementedError


class Work:
    """One broker's task list, the budget of the pass they run in, and the storage.

    That is told when a task failed because of a file: nothing may be promised then.
    """

    __slots__ = ("_head", "_tasks", "budget", "storage")

    def __init__(self) -> None:
        self.budget = Budget()
        self.storage = Storage()
        self._tasks: list[Task] = []
        self._head = 0

    def __bool__(self) -> bool:
        return self._head < len(self._tasks)

    def add(self, task: Task) -> None:
        self._tasks.append(task)

    def drain(self) -> bool:
        """Run tasks until none is left or the budget is spent; True if none is left."""
        tasks, budget = self._tasks, self.budget
        while self._head < len(tasks):
            if budget.left <= 0:
                self._forget_done()
                return False
            try:
                if not tasks[self._head].run(budget):
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
