"""A transaction: what it gathers, its bound, and its commit in pieces."""

from __future__ import annotations

import pytest

from leveret.broker.arguments import queue_settings_of
from leveret.broker.dispatch import push
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.errors import PreconditionFailed, ResourceError
from leveret.protocol.settlement import ACKED, REQUEUED, nothing
from leveret.protocol.transaction import BUFFERED_SIZE_MAX, OVERHEAD, Commit, Transaction


def message(content: bytes = b"") -> Message:
    return new_message(Origin("", "q", b""), content, 14, len(content), max(1, len(content)), False)


def new_queue(work: Work) -> Queue:
    return Queue("q", "queue 'q' in vhost '/'", work, {})


def commit(transaction: Transaction, work: Work, returned: list[Message] | None = None) -> int:
    """Carry it out as a connection would; how many passes it took."""
    task = Commit(transaction, work.storage, 0, ([] if returned is None else returned).append, nothing)
    count = 1
    work.budget.begin()
    while not task.run(work.budget):
        assert work.budget.left <= 0
        work.budget.begin()
        count += 1
    return count


def taken(queue: Queue, count: int) -> list[Entry]:
    entries = []
    for _ in range(count):
        push(queue, message(), 0)
        entry = queue.take(False)
        assert entry is not None
        entries.append(entry)
    return entries


def test_messages_come_first_then_settlements() -> None:
    work = Work()
    queue, transaction = new_queue(work), Transaction()
    entries = taken(queue, 3)
    transaction.settle(entries[:1], ACKED)
    transaction.publish(message(), [queue], False)
    transaction.settle(entries[1:], REQUEUED)
    assert transaction.entries() == entries
    assert (queue.ready_count, queue.unacked_count) == (0, 3)
    assert commit(transaction, work) == 1
    assert (queue.ready_count, queue.unacked_count) == (3, 0)
    order = [queue.take(True) for _ in range(3)]
    assert [entry is not None and entry.seq for entry in order] == [2, 3, 4]


def test_long_commit_goes_in_pieces() -> None:
    work = Work()
    queue, transaction = new_queue(work), Transaction()
    entries = taken(queue, 5000)
    for _ in range(5000):
        transaction.publish(message(), [queue], False)
    transaction.settle(entries, ACKED)
    assert commit(transaction, work) >= 4
    assert (queue.ready_count, queue.unacked_count) == (5000, 0)


def test_mandatory_message_that_reaches_no_queue_is_returned() -> None:
    work = Work()
    queue, transaction, returned = new_queue(work), Transaction(), list[Message]()
    lost, kept, dropped = message(), message(), message()
    transaction.publish(lost, [], True)
    transaction.publish(kept, [queue], True)
    transaction.publish(dropped, [], False)
    commit(transaction, work, returned)
    assert returned == [lost]
    assert queue.ready_count == 1


def test_queue_that_is_gone_by_then_gets_nothing() -> None:
    work = Work()
    queue, transaction, returned = new_queue(work), Transaction(), list[Message]()
    lost = message()
    transaction.publish(lost, [queue], True)
    queue.delete()
    commit(transaction, work, returned)
    assert (queue.ready_count, returned) == (0, [lost])


def test_transaction_is_bounded() -> None:
    """SPEC §5.3 64 MiB."""
    transaction = Transaction()
    half = message(bytes(BUFFERED_SIZE_MAX // 2 - OVERHEAD))
    transaction.publish(half, [], False)
    transaction.publish(half, [], False)
    with pytest.raises(ResourceError, match="transaction of more than 67108864 bytes"):
        transaction.settle(taken(new_queue(Work()), 1), ACKED)


def test_message_that_a_queue_refuses_makes_it_partial() -> None:
    """The rest is carried out all the same."""
    work = Work()
    queue, full, transaction = new_queue(work), new_queue(work), Transaction()
    full.apply(queue_settings_of({"x-max-length": 1, "x-overflow": "reject-publish"}, {}, {}), 0)
    entries = taken(queue, 1)
    for _ in range(2):
        transaction.publish(message(), [full, queue], False)
    transaction.settle(entries, ACKED)
    with pytest.raises(PreconditionFailed, match=r"^partial tx completion$"):
        commit(transaction, work)
    assert (full.ready_count, queue.ready_count, queue.unacked_count) == (1, 2, 0)
