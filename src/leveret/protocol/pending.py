"""An answer that waits until storage has what it promises; the connection's later frames wait with it.

Answers about exchanges, queues and bindings wait in `Session.answers`, and let later frames about those go on.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.budget import Budget
from leveret.broker.command import Proposal
from leveret.broker.login import Login
from leveret.broker.queue import Queue
from leveret.broker.queue_tasks import Discard
from leveret.broker.storage import Storage
from leveret.broker.vhost_tasks import UnbindTask
from leveret.broker.work import Task
from leveret.errors import AMQPError

if TYPE_CHECKING:
    from leveret.protocol.session import Session


class AfterPage(Task):
    """Done when a queue's first message is in memory again."""

    __slots__ = ("_done", "_queue")

    def __init__(self, queue: Queue, done: Callable[[], None]) -> None:
        self._queue = queue
        self._done = done

    def run(self, budget: Budget) -> bool:
        if self._queue.backlog.loading is not None:
            return False
        self._done()
        return True


class AfterTask(Task):
    """Done when a task on the work list is: storage was told of all that was purged, or bindings are removed."""

    __slots__ = ("_done", "_task")

    def __init__(self, task: Discard | UnbindTask, done: Callable[[], None]) -> None:
        self._task = task
        self._done = done

    def run(self, budget: Budget) -> bool:
        if not self._task.done:
            return False
        self._done()
        return True


class AfterRemoval(Task):
    """Done when storage has been told that a queue is gone, after all its dead letters."""

    __slots__ = ("_done", "_queue")

    def __init__(self, queue: Queue, done: Callable[[], None]) -> None:
        self._queue = queue
        self._done = done

    def run(self, budget: Budget) -> bool:
        if not self._queue.storage.has_removed(self._queue):
            return False
        self._done()
        return True


class AfterSync(Task):
    """Done when storage has synced all that was said up to now."""

    __slots__ = ("_done", "_position", "_storage")

    def __init__(self, storage: Storage, done: Callable[[], None]) -> None:
        self._storage = storage
        self._position = storage.position()
        self._done = done

    def run(self, budget: Budget) -> bool:
        if self._storage.synced < self._position:
            return False
        self._done()
        return True


class AfterChange(Task):
    """Done when all nodes of the cluster have made a change; what it could not be made for is the client's fault."""

    __slots__ = ("_done", "_proposal", "_session")

    def __init__(self, session: "Session", proposal: Proposal, done: Callable[[Proposal], None]) -> None:
        self._session = session
        self._proposal = proposal
        self._done = done

    def run(self, budget: Budget) -> bool:
        if not self._proposal.done or self._session.answers:
            return False
        if self._proposal.error is not None:
            raise self._proposal.error
        self._done(self._proposal)
        return True

    def leave(self) -> None:
        """The client is gone: an exclusive queue that is made for it is nobody's."""
        self._proposal.owner = None


class AfterAnswers(Task):
    """Done when all answers that wait are given: what is said at once must not overtake them."""

    __slots__ = ("_done", "_session")

    def __init__(self, session: "Session", done: Callable[[], None]) -> None:
        self._session = session
        self._done = done

    def run(self, budget: Budget) -> bool:
        if self._session.answers:
            return False
        self._done()
        return True


class AfterLogin(Task):
    """Done when a login is decided."""

    __slots__ = ("_done", "_login")

    def __init__(self, login: Login, done: Callable[[], None]) -> None:
        self._login = login
        self._done = done

    def run(self, budget: Budget) -> bool:
        if not self._login.done:
            return False
        self._done()
        return True


class Failure(Task):
    """A method has failed while answers to those before it waited: it fails when they are given."""

    __slots__ = ("_error", "_session")

    def __init__(self, session: "Session", error: AMQPError) -> None:
        self._session = session
        self._error = error

    def run(self, budget: Budget) -> bool:
        if self._session.answers:
            return False
        raise self._error


def awaits_storage(task: Task | None) -> bool:
    """Whether it goes on only when storage has written or read something, or, as a login, when it is told to."""
    return isinstance(task, AfterSync | AfterPage | AfterRemoval | AfterAnswers | AfterLogin | AfterChange | Failure)


def abandon_pending(session: "Session") -> None:
    """Have the task in hand finished as everybody's work, unless it only waits: nobody here does any more."""
    pending = session.pending
    if isinstance(pending, AfterChange):
        pending.leave()
    if pending is not None and not awaits_storage(pending) and not isinstance(pending, AfterTask):
        session.broker.work.add(pending)
    session.pending = None
    session.answers = []
