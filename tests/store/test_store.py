"""The store: when what was said is on disk, what fails, and which ids queues have."""

import pytest
from tests.store.support import NOW, Rig, letter

from leveret.broker.counters import Counters
from leveret.protocol.confirms import Confirms
from leveret.store.ledger import ledger_of
from leveret.store.segment import HEADER_SIZE
from leveret.wire.output import Output


@pytest.fixture
def rig() -> Rig:
    """A broker with a queue q, and a committer that is held."""
    rig = Rig()
    rig.queue("q")
    rig.settle_down()
    rig.committer.held = True
    return rig


def full(errno: int = 28) -> OSError:
    return OSError(errno, "No space left on device")


def test_one_batch_at_a_time_and_the_next_one_has_all_that_came_meanwhile(rig: Rig) -> None:
    """SPEC §8.2: one sync covers everything that arrived during the last one."""
    position = []
    for number in range(3):
        rig.publish(letter(b"%d" % number))
        position.append(rig.store.position())
        rig.turn()
    assert len(rig.committer.kept) == 1
    assert position == [position[0], position[0] + 1, position[0] + 1]
    assert rig.store.synced < position[0]
    rig.committer.run(1)
    assert rig.store.synced == position[0]
    rig.turn()
    rig.committer.run(1)
    assert rig.store.synced == position[2]
    rig.turn()
    assert rig.committer.kept == []


def test_nothing_said_is_nothing_written(rig: Rig) -> None:
    """SPEC §8.2: without anything to write there is no sync."""
    rig.turn()
    assert rig.committer.kept == []
    assert rig.store.position() == rig.store.synced


def test_those_who_wait_are_told_after_each_sync(rig: Rig) -> None:
    """SPEC §8.2: whoever waits hears of it when it is on disk, not before."""
    calls = rig.progress_calls
    rig.publish(letter(b"x"))
    rig.turn()
    assert rig.progress_calls == calls
    rig.committer.run()
    assert rig.progress_calls == calls + 1


def test_definitions_alone_are_waited_for_too(rig: Rig) -> None:
    """SPEC §8.2: a durable declaration is confirmed when it is on disk."""
    rig.queue("another")
    assert rig.store.position() > rig.store.synced
    rig.turn()
    rig.committer.run()
    assert rig.store.position() == rig.store.synced
    assert "another" in rig.again().vhost.queues


@pytest.mark.parametrize("what", ["write", "sync"])
def test_failure_of_a_batch_is_said_once_and_nothing_counts_as_synced(rig: Rig, what: str) -> None:
    """SPEC §8.7: a failed write or sync never yields a false confirm."""
    fault = full()
    rig.disk.faults[what] = fault
    rig.publish(letter(b"lost"))
    position = rig.store.position()
    rig.turn()
    rig.publish(letter(b"lost too"))
    rig.committer.run()
    assert rig.failures == [fault]
    assert rig.store.failed is fault
    rig.disk.faults.clear()
    rig.turn()
    assert rig.committer.kept == []
    assert rig.store.synced < position
    assert rig.again().opened.damage == []


def test_segment_that_cannot_be_made_is_a_failure(rig: Rig) -> None:
    """SPEC §8.7: no room for another file: the batch in hand is not lost behind a later confirm."""
    fault = full()
    rig.publish(letter(bytes(1 << 17)))
    rig.turn()
    rig.committer.run()
    rig.publish(letter(b"in the next"))
    rig.disk.faults["create"] = fault
    rig.turn()
    rig.committer.run()
    assert rig.failures == [fault]
    rig.disk.faults.clear()
    rig.publish(letter(b"later"))
    rig.turn()
    rig.committer.run()
    assert rig.store.synced < rig.store.position()


def test_file_that_cannot_be_removed_is_a_failure(rig: Rig) -> None:
    """SPEC §8.7: what would come back with a file that stays is not risked."""
    fault = OSError(1, "Operation not permitted")
    rig.committer.held = False
    rig.disk.faults["remove"] = fault
    for _ in range(60):
        rig.publish(letter(bytes(8000)))
        rig.turn()
        entry = rig.vhost.queues["q"].take(False)
        if entry is not None:
            entry.queue.settle(entry)
    assert rig.failures == [fault]


def test_confirm_waits_for_the_sync_and_is_refused_when_that_fails(rig: Rig) -> None:
    """SPEC §8.2 and §8.7: a confirm is sent after the sync; if that fails, its message is refused."""
    output = Output(lambda: None)
    confirms = Confirms(1, Counters())

    def heard() -> list[tuple[int, int]]:
        data = b"".join(bytes(piece) for piece in output.take())
        return [(data[at + 10], int.from_bytes(data[at + 11 : at + 19], "big")) for at in range(0, len(data), 21)]

    for number in range(2):
        rig.publish(letter(b"%d" % number))
        confirms.published += 1
        confirms.wait_for(rig.store)
        confirms.tell(output)
        rig.turn()
    assert heard() == []
    rig.committer.run(1)
    confirms.tell(output)
    assert heard() == [(80, 1)]
    rig.disk.faults["sync"] = full()
    rig.turn()
    rig.committer.run()
    confirms.tell(output)
    assert heard() == []
    confirms.lose(output)
    assert heard() == [(120, 2)]


# Ids


def test_queue_declared_again_gets_nothing_of_the_old_one(rig: Rig) -> None:
    """SPEC §8.1: a queue's id is never used again."""
    rig.committer.held = False
    rig.publish(letter(b"old"))
    rig.settle_down()
    rig.vhost.remove_queue(rig.vhost.queues["q"])
    rig.queue("q")
    rig.settle_down()
    again = rig.again()
    assert again.bodies("q") == []
    again.publish(letter(b"new"))
    again.settle_down()
    assert again.again().bodies("q") == [b"new"]


def test_id_is_not_used_again_when_the_power_goes_between_row_and_record(rig: Rig) -> None:
    """SPEC §8.1: the row of a deleted queue is gone, its messages are still in the journal, and its id stays its own."""
    rig.committer.held = False
    rig.publish(letter(b"old"))
    rig.settle_down()
    rig.committer.held = True
    rig.vhost.remove_queue(rig.vhost.queues["q"])
    rig.turn()
    # The definitions are changed, and the batch is not written any more.
    rig.definitions.change(rig.committer.kept[0].changes)
    again = rig.again()
    assert "q" not in again.vhost.queues
    again.queue("q")
    again.settle_down()
    assert again.again().bodies("q") == []


def test_id_is_not_used_again_after_everything_of_it_is_gone(rig: Rig) -> None:
    """SPEC §8.1: ids grow, whatever is left of queues."""
    rig.committer.held = False
    first = ledger_of(rig.vhost.queues["q"]).queue_id
    rig.vhost.remove_queue(rig.vhost.queues["q"])
    rig.settle_down()
    again = rig.restarted()
    assert ledger_of(again.queue("q")).queue_id > first


def test_vhost_made_anew_keeps_its_queues_when_the_old_one_is_taken_apart(rig: Rig) -> None:
    """SPEC §8.1: what is left to remove of a deleted vhost is not removed from its namesake."""
    rig.committer.held = False
    for again in (False, True):
        if again:
            rig.broker.delete_vhost("v")
        vhost = rig.broker.add_vhost("v")
        queue = vhost.declare_queue("q", durable=True)
        vhost.declare_exchange("x", "fanout", durable=True)
        vhost.bind("x", queue, "", {})
    rig.settle_down()
    assert not rig.broker.work
    vhost = rig.again().broker.vhosts["v"]
    assert "q" in vhost.queues
    assert len(vhost.exchanges["x"].bindings) == 1


def test_forgotten_changes_are_not_written(rig: Rig) -> None:
    """SPEC §8.1: what recovery makes again is not written again."""
    again = rig.again()
    assert again.store.position() == again.store.synced
    assert again.now == NOW


# Bindings of what is deleted


def bind_many(rig: Rig, count: int) -> None:
    rig.vhost.declare_exchange("x", "direct", durable=True)
    for number in range(count):
        rig.vhost.bind("x", rig.vhost.queues["q"], f"k{number}", {})
    rig.settle_down()


def keys(rig: Rig) -> set[str]:
    return {binding.routing_key for binding in rig.vhost.exchange("x").bindings.values()}


@pytest.mark.parametrize("deleted", ["queue", "exchange"])
def test_binding_made_anew_while_the_old_ones_go_stays(rig: Rig, deleted: str) -> None:
    """SPEC §8.1: a queue or exchange with many bindings is deleted in pieces, and declared again meanwhile."""
    rig.committer.held = False
    bind_many(rig, 1000)
    rig.broker.work.budget.begin()
    if deleted == "queue":
        rig.vhost.remove_queue(rig.vhost.queues["q"])
        rig.queue("q")
    else:
        rig.vhost.delete_exchange("x")
        rig.vhost.declare_exchange("x", "direct", durable=True)
    assert rig.vhost.unbinding() is not None
    for key in ("k0", "k999", "new"):
        rig.vhost.bind("x", rig.vhost.queues["q"], key, {})
    rig.settle_down()
    assert rig.vhost.unbinding() is None
    assert keys(rig.again()) == {"k0", "k999", "new"}


def test_bindings_half_removed_are_not_found_by_another_queue(rig: Rig) -> None:
    """SPEC §8.1: after a crash in between the queue is there; nobody was told that it is gone."""
    rig.committer.held = False
    bind_many(rig, 1000)
    queue = rig.vhost.queues["q"]
    rig.broker.work.budget.begin()
    rig.vhost.remove_queue(queue)
    rig.store.flush()
    assert not rig.store.has_removed(queue)
    again = rig.again()
    assert "q" in again.vhost.queues
    assert 0 < len(keys(again)) < 1000
    rig.settle_down()
    assert rig.store.has_removed(queue)
    again = rig.again()
    again.queue("q")
    again.settle_down()
    assert keys(again.again()) == set()


def test_what_is_declared_in_a_turn_is_a_row_each_in_one_transaction(rig: Rig) -> None:
    """SPEC §8.1: with three facts for all of them, the last queue id among these."""
    rig.queue("first")
    rig.turn()
    rig.committer.run()
    for number in range(50):
        rig.queue(f"q{number}")
    rig.turn()
    (job,) = rig.committer.kept
    assert len(job.changes) == 50 + 3
    rig.committer.run()
    again = rig.again()
    assert len(again.vhost.queues) == 52
    assert ledger_of(again.queue("another")).queue_id == 53


# In the loop's own turn


@pytest.fixture
def quick(rig: Rig) -> Rig:
    """The same on a quick disk, and with something in the file already."""
    rig.publish(letter(b"first"))
    rig.turn()
    rig.committer.run()
    rig.committer.quick = True
    return rig


def test_small_batch_of_a_client_that_is_alone_needs_no_thread(quick: Rig) -> None:
    """SPEC §8.2: it is on disk when the turn goes on, and whoever waits has been told."""
    calls = quick.progress_calls
    quick.publish(letter(b"x"))
    position = quick.store.position()
    quick.store.flush(at_once=True)
    assert quick.committer.kept == []
    assert (quick.store.synced, quick.committer.durable, quick.progress_calls) == (position, position, calls + 1)
    assert quick.again().bodies("q") == [b"first", b"x"]


def test_others_have_theirs_written_beside_the_loop(quick: Rig) -> None:
    """SPEC §8.2: who is not alone is not stopped by a sync."""
    quick.publish(letter(b"x"))
    quick.store.flush()
    assert (len(quick.committer.kept), quick.committer.done_now) == (1, [])


def test_slow_disk_stops_nobody(quick: Rig) -> None:
    quick.committer.quick = False
    quick.publish(letter(b"x"))
    quick.store.flush(at_once=True)
    assert (len(quick.committer.kept), quick.committer.done_now) == (1, [])


def test_definitions_are_written_beside_the_loop(quick: Rig) -> None:
    """SPEC §8.1: SQLite takes longer, and is used by one thread."""
    quick.queue("another")
    quick.store.flush(at_once=True)
    assert (len(quick.committer.kept), quick.committer.done_now) == (1, [])


def test_file_is_made_beside_the_loop(rig: Rig) -> None:
    """SPEC §8.8: that syncs the folder too."""
    rig.committer.quick = True
    rig.store.journal.begin_anew()
    rig.publish(letter(b"x"))
    assert rig.store.journal.current is not None
    assert rig.store.journal.current.size == HEADER_SIZE
    rig.store.flush(at_once=True)
    assert (len(rig.committer.kept), rig.committer.done_now) == (1, [])


@pytest.mark.parametrize("more", [0, 1])
def test_batch_is_small_up_to_a_size(quick: Rig, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """SPEC §8.2: a larger one is checked and written for longer."""
    quick.publish(letter(b"x" * 100))
    quick.store.flush(at_once=True)
    size = len(quick.committer.done_now.pop().subject.data)  # type: ignore[union-attr]
    monkeypatch.setattr("leveret.store.store.AT_ONCE_MAX", size - more)
    quick.publish(letter(b"y" * 100))
    quick.store.flush(at_once=True)
    assert (len(quick.committer.kept), len(quick.committer.done_now)) == ((1, 0) if more else (0, 1))


def test_batch_waits_for_the_one_that_is_being_written(quick: Rig) -> None:
    """SPEC §8.2: in order, and none past one that the thread has."""
    quick.publish(letter(b"x"))
    quick.store.flush()
    quick.publish(letter(b"y"))
    quick.store.flush(at_once=True)
    assert (len(quick.committer.kept), quick.committer.done_now) == (1, [])
    quick.committer.run()
    quick.store.flush(at_once=True)
    assert len(quick.committer.done_now) == 1
    assert quick.again().bodies("q") == [b"first", b"x", b"y"]


@pytest.mark.parametrize("what", ["write", "sync"])
def test_failure_in_the_loops_turn_is_a_failure_like_any_other(quick: Rig, what: str) -> None:
    """SPEC §8.7: it is said once, nothing counts as synced, and nothing is written any more."""
    fault = full()
    quick.disk.faults[what] = fault
    quick.publish(letter(b"lost"))
    position = quick.store.position()
    calls = quick.progress_calls
    quick.store.flush(at_once=True)
    quick.disk.faults.clear()
    assert (quick.failures, quick.store.failed) == ([fault], fault)
    quick.publish(letter(b"lost too"))
    quick.store.flush(at_once=True)
    assert quick.store.synced < position
    assert quick.progress_calls == calls
    assert (quick.committer.kept, len(quick.committer.done_now)) == ([], 1)
