"""What a reading of the store found: each test is a way in which a promise was broken, or a broker stopped, once."""

import errno
import random
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.store.support import RealDisk, Rig, StandIn, Taker, body, letter

from leveret.broker.dispatch import subscribe
from leveret.broker.message import Entry, is_stub
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.storage import Traffic
from leveret.protocol.settlement import ACKED, REJECTED
from leveret.protocol.transaction import Commit, Transaction
from leveret.store.committer import Job, carry_out
from leveret.store.ledger import ledger_of
from leveret.store.rows import DefinitionsFile, put
from leveret.wire.values import Table

SEGMENT_SIZE = 1 << 16
TINY = Sizes(8, 65536, 4, 2048)
GRAVE = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}


def turn(rig: Rig, budget: int = 2000) -> None:
    """A turn of the server: one budget, then what has gathered is written."""
    rig.broker.work.budget.left = budget
    if budget > 0:
        rig.broker.work.drain()
    rig.flush()
    rig.committer.run()


def taken(queue: Queue) -> Iterator[Entry]:
    while (entry := queue.take(False)) is not None:
        yield entry


def settle_all(queue: Queue) -> None:
    for entry in taken(queue):
        queue.settle(entry)


def counts(rig: Rig) -> dict[str, int]:
    return {name: queue.ready_count for name, queue in rig.vhost.queues.items()}


def commit_of(rig: Rig, transaction: Transaction) -> Commit:
    return Commit(transaction, rig.store, rig.now, lambda message: None, lambda: None)


# Compaction


def test_copies_in_a_segment_that_is_not_made_yet_need_no_sync() -> None:
    """SPEC §8.4, sync = "os": a segment that no batch has begun has no file, and the broker must not stop for that."""
    rig = Rig(segment_size=SEGMENT_SIZE, sync=False)
    rig.queue("q")
    rig.queue("keep")
    turn(rig)
    for number in range(30):
        rig.publish(letter(b"%d" % number + b"x" * 1500, "keep"))
    turn(rig)
    # Many small batches, so that the copies of the first segment take more than one pass.
    while len(rig.store.journal.segments) < 2:
        rig.publish(letter(b"d" * 20))
        turn(rig)
    while len(rig.store.journal.segments) < 9:
        rig.publish(letter(b"d" * 1000))
        turn(rig)
    current = rig.store.journal.current
    assert current is not None
    while current.size < 40_000:
        rig.publish(letter(b"d" * 1000))
        turn(rig)
    settle_all(rig.vhost.queues["q"])
    for _ in range(12):
        turn(rig)
    assert rig.failures == []
    assert len(rig.again(segment_size=SEGMENT_SIZE).bodies("keep")) == 30


def test_purged_messages_that_were_copied_before_a_crash_stay_away() -> None:
    """SPEC §8.3: a copy that only the purge's record says is gone must not outlive the segment of that record."""
    rig = Rig(segment_size=SEGMENT_SIZE)
    rig.queue("q")
    rig.queue("other")
    rig.settle_down()
    for number in range(20):
        rig.publish(letter(b"purged %d" % number))
    turn(rig)
    while len(rig.store.journal.segments) < 7:
        rig.publish(letter(b"x" * 2000, "other"))
        turn(rig)
    settle_all(rig.vhost.queues["other"])
    # Synced, and compaction of the first segment is on the work list.
    turn(rig, 0)
    rig.publish(letter(b"y" * 70_000, "other"))
    rig.vhost.queues["q"].purge()
    turn(rig, 0)
    current = rig.store.journal.current
    assert current is not None
    # Compaction has a piece and copies; what the purge has left to do does not have its turn.
    turn(rig, 55)
    rig = rig.again(segment_size=SEGMENT_SIZE)
    assert rig.bodies("q") == []
    settle_all(rig.vhost.queues["other"])
    for _ in range(90):
        rig.publish(letter(b"z" * 2000, "other"))
        settle_all(rig.vhost.queues["other"])
        turn(rig)
        assert rig.again(segment_size=SEGMENT_SIZE).bodies("q") == []
    assert min(rig.store.journal.segments) >= current.number
    assert rig.restarted(segment_size=SEGMENT_SIZE).bodies("q") == []


class Stopped:
    """Stubs in the oldest segment and in a spill that is not written yet are asked for; compaction removes the segment."""

    def __init__(self, disk: RealDisk | None = None) -> None:
        self.rig = rig = Rig(disk, segment_size=SEGMENT_SIZE, apart=True)
        for name in ("q", "other", "n", "w"):
            rig.queue(name)
        turn(rig)
        self.expected = [b"%c-%d".ljust(1000, b".") % (kind, number) for kind in b"AT" for number in range(8)]
        for text in self.expected:
            rig.publish(letter(text, delivery_mode=2 if text.startswith(b"A") else 1))
        turn(rig)
        while len(rig.store.journal.segments) < 8:
            rig.publish(letter(b"O".ljust(1000, b"."), "other"))
            turn(rig)
        queue = rig.vhost.queues["q"]
        entries = list(taken(queue))
        rig.store.evict(queue, entries)
        rig.flush()
        queue.requeue(entries)
        assert all(is_stub(entry.message) for entry in queue.backlog.front.entries())
        self.consumer = Taker(no_ack=True)
        subscribe(queue, self.consumer)
        assert self.consumer.taken == []
        rig.vhost.queues["other"].purge()
        for _ in range(6):
            turn(rig)

    def written(self) -> list[bytes]:
        """The spill is written at last: what was delivered then."""
        self.rig.spiller.run()
        turn(self.rig)
        self.rig.settle_down()
        assert self.rig.failures == []
        return [body(entry.message) for entry in self.consumer.taken]


def test_segment_is_not_removed_before_it_is_read() -> None:
    """SPEC §8.4: what is being read may wait for the spill; compaction waits for it, or it is read from where it is."""
    stopped = Stopped()
    assert stopped.written() == stopped.expected


def test_descriptor_of_a_removed_segment_is_not_taken_for_another(tmp_path: Path) -> None:
    """SPEC §8.4: on a real disk the new segment has the old one's descriptor, and other messages at the same offsets."""
    disk = RealDisk(tmp_path)
    assert disk.lock()
    stopped = Stopped(disk)
    rig = stopped.rig
    current = rig.store.journal.current
    assert current is not None
    # As the first segment began: a definition, then messages of this size.
    while rig.store.journal.current is current:
        rig.publish(letter(b"F".ljust(1000, b"."), "other"))
        turn(rig)
    rig.queue("new")
    turn(rig)
    for name in ("w", "n"):
        for number in range(8):
            rig.publish(letter(b"N-%d".ljust(1000, b".") % number, name))
    turn(rig)
    assert stopped.written() == stopped.expected
    disk.unlock()


# Paging


def test_get_never_answers_with_a_stub() -> None:
    """SPEC §8.5: a message that is got and given back again and again is beyond the window each time."""
    rig = Rig(sizes=TINY)
    queue = rig.queue("q")
    for number in range(20):
        rig.publish(letter(b"%d" % number))
    rig.settle_down()
    held = list(taken(queue))
    while len(held) < 20:
        rig.settle_down()
        held += taken(queue)
    rig.publish(letter(b"the one behind"))
    for _ in range(3 * TINY.page_count):
        entry = queue.take(False)
        assert entry is not None
        assert body(entry.message) == b"the one behind"
        queue.requeue([entry])
        rig.settle_down()


@pytest.mark.parametrize("arguments", [{}, {"x-message-ttl": 60_000}])
def test_message_that_expires_can_be_paged_out_and_come_back(arguments: Table) -> None:
    """SPEC §8.5: it is watched when it comes and watched again when it is read, and is not the same entry then."""
    rig = Rig(sizes=TINY)
    queue = rig.queue("q", arguments=arguments)
    for number in range(40):
        rig.publish(letter(b"%d" % number, expiration="5000"))
    rig.settle_down()
    assert queue.backlog.pages.count > 10
    for number in range(20):
        entry = rig.take("q")
        assert body(entry.message) == b"%d" % number
        queue.settle(entry)
        rig.settle_down()
    rig.later(rig.now + 4999)
    assert queue.ready_count == 20
    rig.later(rig.now + 1)
    for _ in range(20):
        # What is paged out expires when it is read.
        assert queue.take(False) is None
        rig.settle_down()
    assert queue.ready_count == 0


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_stubs_that_are_purged_leave_the_spill(durable: bool, deleted: bool) -> None:
    """SPEC §8.4: what was unacknowledged beyond the window, given back and purged takes no space any more."""
    rig = Rig(sizes=TINY)
    queue = rig.queue("q", durable=durable)
    for number in range(40):
        rig.publish(letter(b"%d" % number, delivery_mode=1))
    entries: list[Entry] = []
    while len(entries) < 40:
        rig.settle_down()
        entries += taken(queue)
    queue.requeue(entries)
    assert any(is_stub(entry.message) for entry in queue.backlog.front.entries())
    rig.check([])
    if deleted:
        rig.vhost.remove_queue(queue)
    else:
        queue.purge()
    rig.settle_down()
    rig.check([])


def test_purge_that_was_answered_includes_the_page_that_was_being_read() -> None:
    """SPEC §8.2: purge-ok is sent when storage has been told of each message, of those on their way from the disk too."""
    rig = Rig(sizes=TINY)
    queue = rig.queue("q")
    for number in range(40):
        rig.publish(letter(b"%d" % number))
    rig.settle_down()
    assert queue.backlog.paged
    rig.committer.held = True
    while queue.backlog.loading is None:
        entry = queue.take(False)
        assert entry is not None
        queue.settle(entry)
    kept = queue.take(False)
    assert kept is not None
    queue.purge()
    # As purge-ok is sent: when all is told, and what was told is synced.
    for _ in range(20):
        rig.turn()
        if queue.discard is None or queue.discard.done:
            break
        rig.committer.run(1)
    assert queue.discard is None or queue.discard.done
    position = rig.store.position()
    rig.flush()
    while rig.store.synced < position:
        rig.committer.run(1)
    assert rig.again(sizes=TINY).bodies("q") == [body(kept.message)]


# Transactions


@pytest.mark.parametrize("budget", [10, 60, 101, 110])
def test_purge_between_two_pieces_of_a_commit_takes_no_part_of_it(budget: int) -> None:
    """SPEC §8.3: what a transaction acknowledges is there until it is committed, whoever purges meanwhile."""
    rig = Rig(segment_size=1 << 22)
    for name in ("in", "out", "x"):
        rig.queue(name)
    for number in range(50):
        rig.publish(letter(b"%d" % number, "in"))
    rig.publish(letter(b"x", "x"))
    rig.settle_down()
    inward, outward, other = (rig.vhost.queues[name] for name in ("in", "out", "x"))
    transaction = Transaction()
    # The budget is looked at after each: the first may be spent when all of `in` is settled.
    transaction.settle(list(taken(inward)), ACKED)
    transaction.settle(list(taken(other)), ACKED)
    for number in range(50):
        transaction.publish(letter(b"%d" % number, "out"), [outward], False)
    commit = commit_of(rig, transaction)
    rig.broker.work.budget.left = budget
    done = commit.run(rig.broker.work.budget)
    inward.purge()
    rig.turn()
    expected = {"in": 0, "out": 50, "x": 0} if done else {"in": 50, "out": 0, "x": 1}
    assert counts(rig.again()) == expected
    while not done:
        rig.broker.work.budget.begin()
        done = commit.run(rig.broker.work.budget)
    rig.settle_down()
    assert counts(rig.again()) == {"in": 0, "out": 50, "x": 0}


def test_held_message_of_a_transaction_waits_for_its_commit() -> None:
    """SPEC §12 deliver = "synced": a message that is on disk without its COMMIT would never have been after a crash."""
    rig = Rig(segment_size=1 << 22, held=True)
    rig.store.delivers_synced = True
    out = rig.queue("out")
    rig.settle_down()
    taker = Taker()
    subscribe(out, taker)
    transaction = Transaction()
    for number in range(50):
        transaction.publish(letter(b"%d" % number, "out"), [out], False)
    commit = commit_of(rig, transaction)
    rig.broker.work.budget.left = 20
    assert not commit.run(rig.broker.work.budget)
    for _ in range(3):
        rig.turn()
        rig.committer.run()
    assert taker.taken == []
    assert counts(rig.again()) == {"out": 0}
    while not commit.run(rig.broker.work.budget):
        rig.broker.work.budget.begin()
    assert taker.taken == []
    rig.settle_down()
    assert [body(entry.message) for entry in taker.taken] == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("rejected", [1, 30])
def test_rejected_in_a_transaction_is_a_dead_letter_with_its_commit(rejected: int) -> None:
    """SPEC §8.3: before the COMMIT the message is where it was, after it at the dead letters, never at both."""
    rig = Rig(segment_size=1 << 22)
    for name in ("q", "x"):
        rig.queue(name, arguments=GRAVE)
    rig.queue("grave")
    for number in range(rejected):
        rig.publish(letter(b"%d" % number))
    rig.publish(letter(b"x", "x"))
    rig.settle_down()
    transaction = Transaction()
    transaction.settle(list(taken(rig.vhost.queues["q"])), REJECTED)
    transaction.settle(list(taken(rig.vhost.queues["x"])), REJECTED)
    commit = commit_of(rig, transaction)
    done = False
    while not done:
        rig.broker.work.budget.left = 1
        done = commit.run(rig.broker.work.budget)
        # Whatever the others do meanwhile is written.
        rig.turn()
        found = counts(rig.again())
        before = {"q": rejected, "x": 1, "grave": 0}
        assert found == ({"q": 0, "x": 0, "grave": rejected + 1} if done else before)


def test_dead_letter_of_a_transaction_is_in_the_batch_of_its_commit() -> None:
    """SPEC §5.3: when commit-ok is promised nothing of the transaction is left to be said."""
    rig = Rig(held=True)
    rig.queue("q", arguments=GRAVE)
    rig.queue("grave")
    rig.publish(letter(b"one"))
    rig.settle_down()
    transaction = Transaction()
    transaction.settle(list(taken(rig.vhost.queues["q"])), REJECTED)
    assert commit_of(rig, transaction).run(rig.broker.work.budget)
    # The end of the pass, without what is on the work list.
    position = rig.store.position()
    rig.store.flush()
    rig.committer.run()
    assert rig.store.synced >= position
    found = counts(rig.again())
    assert found in ({"q": 0, "grave": 1}, {"q": 1, "grave": 0})
    rig.settle_down()
    assert counts(rig.again()) == {"q": 0, "grave": 1}


@pytest.mark.parametrize("last", [(1 << 32) - 2, (1 << 32) - 1, (1 << 32) + 4, (1 << 33) + 4])
def test_numbers_of_groups_have_no_end(last: int) -> None:
    """SPEC §5.3: a transaction is never taken for one of long ago, nor for no transaction."""
    rig = Rig(segment_size=1 << 22)
    out = rig.queue("out")
    rig.settle_down()
    rig.store._next_group = 4
    early = Transaction()
    early.publish(letter(b"early", "out"), [out], False)
    assert commit_of(rig, early).run(rig.broker.work.budget)
    rig.settle_down()
    rig.store._next_group = last
    for number in range(3):
        transaction = Transaction()
        for _ in range(2):
            transaction.publish(letter(b"late", "out"), [out], False)
        commit = commit_of(rig, transaction)
        rig.broker.work.budget.left = 1
        assert not commit.run(rig.broker.work.budget)
        rig.turn()
        assert len(rig.again().bodies("out")) == 1 + 2 * number
        while not commit.run(rig.broker.work.budget):
            rig.broker.work.budget.begin()
        rig.settle_down()
        assert len(rig.again().bodies("out")) == 3 + 2 * number


# Definitions and messages


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("drained", [True, False])
def test_message_is_at_the_dead_letters_before_its_queue_is_gone(drained: bool, anew: bool) -> None:
    """SPEC §8.3: rejected, its queue deleted, all in one turn: after a crash at any moment a confirmed message is there."""
    rig = Rig(held=True)
    rig.queue("q", arguments=GRAVE)
    rig.queue("grave")
    rig.publish(letter(b"confirmed"))
    rig.settle_down()
    entry = rig.take("q")
    entry.queue.reject(entry)
    if drained:
        rig.drain()
    rig.vhost.delete_queue("q", None)
    if anew:
        # Under the same name, so that its row takes the place of the other's.
        rig.queue("q", arguments=GRAVE)
    rig.drain()
    for _ in range(4):
        rig.flush()
        for work in list(rig.committer.kept):
            # The rows are committed, and here the process may end.
            rig.definitions.change(work.changes)
            work.changes = []
            after = rig.again()
            assert [text for name in after.vhost.queues for text in after.bodies(name)] == [b"confirmed"]
        rig.committer.run(1)
    rig.settle_down()
    again = rig.again()
    assert again.bodies("grave") == [b"confirmed"]
    assert sorted(again.vhost.queues) == (["grave", "q"] if anew else ["grave"])


@pytest.mark.parametrize("way", ["rejected", "delayed"])
def test_message_that_moves_to_a_queue_declared_beside_a_deletion_is_in_one_of_them(way: str) -> None:
    """SPEC §8.3: rows wait one batch behind a deletion; what leaves a queue for such a new one must not be nowhere."""
    rig = Rig(held=True)
    rig.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    rig.queue("q", arguments=GRAVE)
    rig.queue("x")
    rig.settle_down()
    if way == "rejected":
        rig.publish(letter(b"confirmed"))
    else:
        rig.publish(letter(b"confirmed", "grave", "later", headers={"x-delay": 1000}))
    rig.settle_down()
    rig.vhost.delete_queue("x", None)
    rig.vhost.bind("later", rig.queue("grave"), "grave", {})
    if way == "rejected":
        entry = rig.take("q")
        entry.queue.reject(entry)
    else:
        rig.later(rig.now + 1000)
    rig.drain()
    for _ in range(4):
        rig.flush()
        rig.committer.run(1)
        assert [text for entries in rig.again().contents().values() for _, text, _, _ in entries] == [b"confirmed"]
    rig.settle_down()
    assert rig.again().bodies("grave") == [b"confirmed"]


class Locked(sqlite3.Connection):
    """A file that somebody else has locked for so many tries, as sqlite says it when its own time is over."""

    busy = 0
    tries = 0

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement.startswith("BEGIN"):
            self.tries += 1
            if self.tries <= self.busy:
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
        return super().execute(statement, *values)


def test_lock_on_the_definitions_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.1: who copies or looks into the file may hold it for longer than sqlite waits; that is no failed disk."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Locked))
    definitions = DefinitionsFile(tmp_path)
    connection = definitions._db
    assert isinstance(connection, Locked)
    connection.busy = connection.tries + 20
    rig = Rig(held=True)
    rig.queue("q")
    rig.flush()
    (work,) = rig.committer.kept
    heard: list[BaseException | None] = []
    StandIn(definitions).put(Job(work.subject, [put("queue", "/", "q", {"id": 1})], heard.append))
    assert heard == [None]
    assert connection.tries > connection.busy
    assert [name for kind, _, name, _ in definitions.rows() if kind == "queue"] == ["q"]
    definitions.close()


def test_any_other_fault_of_the_definitions_is_one(tmp_path: Path) -> None:
    """SPEC §8.7: what is not a lock is not waited for."""
    definitions = DefinitionsFile(tmp_path)
    rig = Rig(held=True)
    rig.queue("q")
    rig.flush()
    (work,) = rig.committer.kept
    work.changes = [("INSERT INTO nowhere VALUES (?)", (1,))]
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        carry_out(work, definitions, True, Traffic())
    definitions.close()


# Ends and failures


def test_clean_end_syncs_everything_with_sync_os() -> None:
    """SPEC §8.2, sync = "os": what a clean end says is there is there after a power cut, in all segments."""
    rig = Rig(segment_size=SEGMENT_SIZE, sync=False)
    rig.queue("q")
    rig.settle_down()
    for _ in range(300):
        rig.publish(letter(b"x" * 1000))
        rig.settle_down()
    assert len(rig.store.journal.segments) > 3
    rig.close()
    for disk in (rig.disk.worst(), rig.disk.after(random.Random(1))):
        after = Rig(disk, rig.definitions.history, segment_size=SEGMENT_SIZE)
        assert after.opened.damage == []
        assert counts(after) == {"q": 300}
        assert not any(entry.redelivered for entry in after.ready(after.vhost.queues["q"]))


def test_clean_end_after_a_crash_syncs_what_the_crash_left_with_sync_os() -> None:
    """SPEC §8.2, sync = "os": also what an earlier process wrote, and nobody has synced since."""
    rig = Rig(segment_size=SEGMENT_SIZE, sync=False)
    rig.queue("q")
    rig.settle_down()
    for _ in range(300):
        rig.publish(letter(b"x" * 1000))
        rig.settle_down()
    rig = rig.again(segment_size=SEGMENT_SIZE, sync=False)
    rig.close()
    after = Rig(rig.disk.worst(), rig.definitions.history, segment_size=SEGMENT_SIZE)
    assert after.opened.damage == []
    assert counts(after) == {"q": 300}


@pytest.mark.parametrize("sizes", [None, TINY])
def test_message_that_was_delivered_stays_redelivered(sizes: Sizes | None) -> None:
    """SPEC §8.3: delivered, crash, clean end: the next delivery is not the first."""
    rig = Rig(sizes=sizes)
    rig.queue("q")
    for number in range(30):
        rig.publish(letter(b"%d" % number))
    rig.settle_down()
    rig.take("q")
    rig.settle_down()
    rig = rig.again(sizes=sizes)
    for _ in range(2):
        assert all(entry.redelivered for entry in rig.ready(rig.vhost.queues["q"]))
        rig = rig.restarted(sizes=sizes)
        assert rig.take("q").redelivered
        rig.vhost.queues["q"].requeue([rig.take("q")])
    rig.publish(letter(b"new"))
    assert not rig.ready(rig.vhost.queues["q"])[-1].redelivered


@pytest.mark.parametrize("restarts", [1, 2])
def test_what_a_failed_sync_left_in_the_cache_is_not_taken_for_safe(restarts: int) -> None:
    """SPEC §8.7: after a failed fsync Linux shows what was written and will not write it again; the next start must."""
    rig = Rig(segment_size=SEGMENT_SIZE)
    rig.queue("keep")
    rig.queue("q")
    turn(rig)
    for number in range(20):
        rig.publish(letter(b"confirmed %d" % number, "keep"))
    turn(rig)
    while len(rig.store.journal.segments) < 6:
        rig.publish(letter(b"x" * 2000))
        turn(rig)
    settle_all(rig.vhost.queues["q"])
    turn(rig)
    # What compaction copies is gathered now, and its sync fails.
    rig.drain()
    rig.disk.faults["sync"] = OSError(errno.EIO, "Input/output error")
    rig.flush()
    rig.committer.run()
    assert rig.store.failed is not None
    for _ in range(restarts):
        rig = rig.again(segment_size=SEGMENT_SIZE)
    assert len(rig.bodies("keep")) == 20
    for _ in range(40):
        rig.publish(letter(b"x" * 2000))
        settle_all(rig.vhost.queues["q"])
        turn(rig)
    after = Rig(rig.disk.worst(), rig.definitions.history, segment_size=SEGMENT_SIZE)
    assert after.opened.damage == []
    assert sorted(after.bodies("keep")) == sorted(b"confirmed %d" % number for number in range(20))


@pytest.mark.parametrize("kept", [True, False])
def test_what_is_confirmed_after_a_failed_sync_is_safe(kept: bool) -> None:
    """SPEC §8.7: the batch that was not synced, if the next start finds it, is safe from then on; so is the next one."""
    rig = Rig(segment_size=SEGMENT_SIZE)
    rig.queue("q")
    rig.publish(letter(b"before"))
    turn(rig)
    rig.publish(letter(b"not confirmed"))
    rig.disk.faults["sync"] = OSError(errno.EIO, "Input/output error")
    turn(rig)
    assert rig.store.failed is not None
    rig = rig.again(segment_size=SEGMENT_SIZE)
    found = rig.bodies("q")
    assert found in ([b"before"], [b"before", b"not confirmed"])
    if kept:
        rig.publish(letter(b"after"))
        found.append(b"after")
    rig.settle_down()
    after = Rig(rig.disk.worst(), rig.definitions.history, segment_size=SEGMENT_SIZE)
    assert after.opened.damage == []
    assert after.bodies("q") == found


@pytest.mark.parametrize("again", [False, True])
def test_message_that_is_paged_out_expires_in_time(again: bool) -> None:
    """SPEC §4.4: beyond the window, too, and after another start; what has no time of its own stays."""
    sizes = Sizes(4, 1 << 16, 2, 1 << 12)
    rig = Rig(sizes=sizes)
    rig.queue("q", arguments=GRAVE)
    rig.queue("grave")
    for number in range(20):
        rig.publish(letter(b"stays %d" % number))
        rig.publish(letter(b"%d" % number, expiration="300"))
    rig.settle_down()
    if again:
        rig = rig.again(sizes=sizes)
    queue = rig.vhost.queues["q"]
    assert queue.backlog.pages.count > 20
    rig.later(rig.now + 299)
    assert (queue.ready_count, rig.vhost.queues["grave"].ready_count) == (40, 0)
    rig.later(rig.now + 1)
    rig.settle_down()
    assert (queue.ready_count, rig.vhost.queues["grave"].ready_count) == (20, 20)
    assert queue.ready_bytes == sum(len(b"stays %d" % number) for number in range(20))
    rig = rig.restarted(sizes=sizes)
    assert counts(rig) == {"q": 20, "grave": 20}


def test_stub_that_is_damaged_is_said_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.5: of what was unacknowledged beyond the window and given back, too."""
    rig = Rig(segment_size=1 << 20)
    queue = rig.queue("q")
    for number in range(3):
        rig.publish(letter(b"%d" % number * 40_000))
        rig.settle_down()
    entries = list(taken(queue))
    rig.store.evict(queue, entries)
    queue.requeue(entries)
    (file,) = (content for name, content in rig.disk.files.items() if name.startswith("journal"))
    file.now[len(file.now) // 2] ^= 1
    taker = Taker(no_ack=True)
    subscribe(queue, taker)
    rig.settle_down()
    assert [body(entry.message)[:1] for entry in taker.taken] == [b"0", b"2"]
    assert (queue.ready_count, queue.ready_bytes, rig.store.damaged_count) == (0, 0, 1)
    assert "journal-00000001.log: message 2 of queue 'q' in vhost '/'" in caplog.text


def test_two_purges_in_a_row_count_each_message_once() -> None:
    """SPEC §8.1: what the first one has still to settle is not gone by the second one's word as well."""
    rig = Rig()
    queue = rig.queue("q")
    for number in range(4):
        rig.publish(letter(b"%d" % number))
    taken = rig.take("q")
    assert queue.purge() == 3
    queue.settle(taken)
    rig.publish(letter(b"4"))
    assert queue.purge() == 1
    rig.publish(letter(b"5"))
    rig.settle_down()
    assert (ledger_of(queue).live_count, ledger_of(queue).live_bytes) == (1, 1)
    rig.check([])
    assert rig.again().bodies("q") == [b"5"]
