"""What the channels of a connection share."""

from __future__ import annotations

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.budget import Budget
from leveret.broker.queue import Queue
from leveret.broker.work import Task
from leveret.errors import ResourceError
from leveret.protocol.session import INCOMPLETE_SIZE_MAX, Session
from leveret.wire.output import Output


class Steps(Task):
    """A task of so many pieces."""

    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, budget: Budget) -> bool:
        self.count -= 1
        return self.count <= 0


class Failing(Task):
    """A task of two pieces that fails in the second."""

    def __init__(self) -> None:
        self.begun = False

    def run(self, budget: Budget) -> bool:
        if self.begun:
            raise ResourceError("too much")
        self.begun = True
        return False


def nobody() -> None:
    """No one is woken."""


def session(broker: Broker | None = None) -> Session:
    return Session(broker or default_broker(), Output(nobody))


def test_short_task_is_done_at_once() -> None:
    shared = session()
    shared.do(Steps(1))
    assert shared.pending is None
    assert shared.go_on()


def test_long_task_is_pending_until_it_is_done() -> None:
    shared = session()
    shared.do(Steps(3))
    assert shared.pending is not None
    assert not shared.go_on()
    assert shared.go_on()
    assert shared.pending is None


def test_task_that_fails_is_done_with() -> None:
    shared = session()
    shared.do(Failing())
    with pytest.raises(ResourceError):
        shared.go_on()
    assert shared.pending is None


def test_deleted_exclusive_queues_are_forgotten_now_and_then() -> None:
    broker = default_broker()
    shared = session(broker)
    kept = Queue("kept", "queue", broker.work, {})
    shared.own(kept)
    for _ in range(1000):
        queue = Queue("q", "queue", broker.work, {})
        queue.deleted = True
        shared.own(queue)
    assert shared.exclusive_queues[0] is kept
    assert len(shared.exclusive_queues) < 200


def test_live_exclusive_queues_are_all_remembered() -> None:
    broker = default_broker()
    shared = session(broker)
    for number in range(500):
        shared.own(Queue(f"q{number}", "queue", broker.work, {}))
    assert [queue.name for queue in shared.exclusive_queues] == [f"q{number}" for number in range(500)]


def test_capability_must_be_true() -> None:
    shared = session()
    shared.capabilities = {"yes": True, "no": False, "one": 1}
    assert [shared.capable(name) for name in ("yes", "no", "one", "missing")] == [True, False, False, False]


def test_incomplete_messages_are_bounded() -> None:
    shared = session()
    shared.count_incomplete(INCOMPLETE_SIZE_MAX)
    with pytest.raises(ResourceError, match="more than 268435456 bytes of incomplete messages"):
        shared.count_incomplete(1)
    shared.count_incomplete(-1)
    shared.count_incomplete(-INCOMPLETE_SIZE_MAX)
    assert shared.incomplete_size == 0
