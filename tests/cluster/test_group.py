"""A group: who leads its log has all that was confirmed, and who does so no more confirms nothing."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.leader import PATIENCE_S, QUEUE_ID, SHORT_LAG_S, Leader, new_log
from tests.cluster.support import new_name
from tests.store.support import Taker

from leveret.broker.dispatch import cancel, subscribe
from leveret.broker.pages import Sizes
from leveret.cluster import stream_disk
from leveret.cluster.engine import Engine
from leveret.cluster.group import State
from leveret.cluster.nats import Client
from leveret.cluster.stream import Deposed, Lost, Stream
from leveret.cluster.stream_disk import StreamDisk
from leveret.cluster.takeover import Abandoned, Takeover
from leveret.store.opened import close_files
from leveret.wire.content import PERSISTENT

NewLeader = Callable[[str], Leader]


@pytest.fixture
def node(engine: Engine, tmp_path: Path) -> Iterator[NewLeader]:
    """Makes nodes that all have the same log."""
    name = new_name()
    new_log(engine, name)
    made: list[Leader] = []

    def new_leader(node: str) -> Leader:
        made.append(Leader(engine, name, tmp_path, node))
        return made[-1]

    yield new_leader
    for leader in made:
        leader.close()


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def test_next_leader_has_what_was_confirmed_and_not_settled(node: NewLeader) -> None:
    """SPEC §11.2 and §11.3: in order, once each, and redelivered, as nobody knows who had it."""
    first = node("n1").lead()
    first.publish(*numbered(0, 10))
    first.sync()
    assert first.confirmed == numbered(0, 10)
    for entry in first.take(3):
        first.queue.settle(entry)
    first.take(2)
    first.sync()
    second = node("n2").lead()
    assert second.group.epoch == 2
    assert all(entry.redelivered for entry in second.queue.backlog.front.entries())
    assert second.bodies() == numbered(3, 10)
    second.publish(b"more")
    second.sync()
    third = node("n3").lead()
    assert third.bodies() == [*numbered(3, 10), b"more"]
    assert third.queue.next_seq == 12


def test_deposed_leader_confirms_nothing_and_ends_alone(node: NewLeader) -> None:
    """SPEC §11.3: what it had in its hands is nowhere, and the next leader goes on."""
    first = node("n1").lead()
    first.publish(b"old")
    first.sync()
    second = node("n2").lead()
    first.publish(b"too late")
    first.sync()
    assert first.confirmed == [b"old"]
    assert [type(error) for error in first.ended] == [Deposed]
    assert (first.group.state, first.group.store) == (State.ENDED, None)
    second.publish(b"new")
    second.sync()
    assert second.confirmed == [b"new"]
    assert second.bodies() == [b"old", b"new"]


def test_who_was_deposed_may_lead_again(node: NewLeader) -> None:
    """SPEC §11.3: with what the other has added, and in a new epoch."""
    first, second = node("n1").lead(), node("n2").lead()
    second.publish(b"theirs")
    second.sync()
    first.publish(b"lost")
    first.sync()
    first.ended.clear()
    first.lead()
    assert first.group.epoch == 3
    assert first.bodies() == [b"theirs"]


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_nobody_gets_what_is_not_committed(node: NewLeader, delivery_mode: int) -> None:
    """SPEC §11.2: a message is on a majority before a consumer has it."""
    leader = node("n1").lead()
    taker = Taker(no_ack=False)
    subscribe(leader.queue, taker)
    leader.publish(b"w", delivery_mode=delivery_mode)
    assert taker.taken == []
    leader.sync()
    assert [entry.seq for entry in taker.taken] == [1]
    cancel(leader.queue, taker)
    leader.queue.settle(taker.taken[0])
    leader.publish(b"x", delivery_mode=delivery_mode)
    assert leader.queue.take(False) is None
    leader.sync()
    assert [entry.seq for entry in leader.take(1)] == [2]


@pytest.mark.parametrize("window", [4, 1000])
def test_transient_messages_are_kept_as_the_others(node: NewLeader, window: int) -> None:
    """SPEC §11.2: each message is on every node of the set; settled, given back and paged out as a persistent one."""
    first = node("n1")
    first.sizes = Sizes(window, 1 << 16, 2)
    first.lead()
    for number in range(30):
        first.publish(b"%d" % number, delivery_mode=1 + number % 2)
    first.sync()
    assert first.confirmed == numbered(0, 30)
    entries = first.take(10)
    assert [entry.message.flags & PERSISTENT != 0 for entry in entries] == [False, True] * 5
    for entry in entries[:6]:
        first.queue.settle(entry)
    first.queue.requeue(entries[6:])
    first.sync()
    assert first.store.spill.written_count == 0
    second = node("n2").lead()
    assert second.bodies() == numbered(6, 30)
    assert [entry.message.flags & PERSISTENT != 0 for entry in second.take(4)] == [False, True] * 2
    second.queue.purge()
    second.sync()
    assert node("n3").lead().bodies() == numbered(6, 10)


def test_stepping_down_writes_what_was_said(node: NewLeader) -> None:
    """SPEC §11.3: a leader that goes leaves nothing unconfirmed behind."""
    first = node("n1").lead()
    first.publish(*numbered(0, 5))
    first.step_down()
    assert first.group.state is State.ENDED
    assert node("n2").lead().bodies() == numbered(0, 5)


def test_leader_that_is_killed_leaves_what_was_confirmed(node: NewLeader) -> None:
    """SPEC §11.3: no end is needed for it."""
    first = node("n1").lead()
    first.publish(*numbered(0, 5))
    first.sync()
    first.publish(b"never said")
    first.close()
    assert node("n2").lead().bodies() == numbered(0, 5)


def test_pages_are_read_from_the_stream_and_consumed_segments_go(node: NewLeader, engine: Engine) -> None:
    """SPEC §8.5 and §11.2: a queue that is longer than its window; and what was consumed is gone from the stream."""
    leader = node("n1")
    leader.sizes = Sizes(16, 1 << 16, 8)
    leader.lead()
    for first in range(0, 2000, 50):
        leader.publish(*(b"%d:" % number + bytes(500) for number in range(first, first + 50)))
        leader.sync()
    assert leader.queue.backlog.pages.count > 1800
    assert len(leader.store.journal.segments) > 10
    seen = []
    while entries := leader.take(50):
        for entry in entries:
            seen.append(entry.seq)
            leader.queue.settle(entry)
        leader.sync()
    assert seen == list(range(1, 2001))
    while len(leader.store.journal.segments) > 5:
        leader.turn()
        leader.carry_out(wait=True)
    client = Client(engine.address)
    state = client.ask_jetstream(f"STREAM.INFO.{leader.group.place.name}").state
    assert state is not None
    assert state.first_seq > state.last_seq - 100
    client.close()
    assert node("n2").lead().bodies() == []


def test_torn_batch_is_cut_by_the_next_leader(node: NewLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §11.3: of a batch that is several appends some are there; it was never confirmed, and is no damage."""
    monkeypatch.setattr(stream_disk, "APPEND_MAX", 1000)
    first = node("n1").lead()
    first.publish(*numbered(0, 5))
    first.sync()
    first.publish(bytes(3500))
    second = node("n2")
    append = Stream.append
    appended: list[int] = []

    def append_two(stream: Stream, headers: dict[str, str], octets: bytes | memoryview) -> int:
        if len(appended) == 2:
            monkeypatch.setattr(Stream, "append", append)
            second.lead()
        appended.append(append(stream, headers, octets))
        return appended[-1]

    monkeypatch.setattr(Stream, "append", append_two)
    first.sync()
    assert len(appended) == 2
    assert [type(error) for error in first.ended] == [Deposed]
    assert first.confirmed == numbered(0, 5)
    assert second.bodies() == numbered(0, 5)
    second.publish(b"on")
    second.sync()
    third = node("n3")
    third.lead()
    assert third.bodies() == [*numbered(0, 5), b"on"]
    for leader in (second, third):
        assert leader.group._takeover is not None
        assert leader.group._takeover.recovery.damage == []


def test_log_that_grows_while_it_is_read_is_read_on(node: NewLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §11.3: EPOCH is refused until all is known; nothing that came meanwhile is missing."""
    first = node("n1").lead()
    first.publish(b"0")
    first.sync()
    begin_epoch = Stream.begin_epoch
    tries: list[bool] = []

    def begin_late(stream: Stream, who: str) -> bool:
        if len(tries) < 4:
            first.publish(b"%d" % (len(tries) + 1))
            first.sync()
        tries.append(begin_epoch(stream, who))
        return tries[-1]

    monkeypatch.setattr(Stream, "begin_epoch", begin_late)
    second = node("n2").lead()
    assert tries == [False] * 4 + [True]
    assert first.confirmed == second.bodies() == numbered(0, 5)


def test_log_of_which_the_beginning_goes_while_it_is_recovered_is_recovered_without_it(
    node: NewLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPEC §11.3: the leader before may still have removed its oldest segment."""
    first = node("n1").lead()
    for _ in range(6):
        first.publish(bytes(30_000))
        first.sync()
    first.publish(b"kept")
    first.sync()
    recover = Takeover._recover
    runs: list[int] = []

    def recover_late(takeover: Takeover) -> None:
        runs.append(takeover.disk.stream.epoch)
        if len(runs) == 1:
            disk = takeover.disk
            client = Client(takeover.place.address)
            client.ask_jetstream(f"STREAM.PURGE.{disk.stream.name}", seq=disk._runs[disk.names()[1]].first_seq)
            client.close()
        recover(takeover)

    monkeypatch.setattr(Takeover, "_recover", recover_late)
    second = node("n2").lead()
    assert second.group.epoch == 2
    assert runs == [2, 2]
    assert second.bodies()[-1] == b"kept"


@pytest.mark.parametrize("work_before", [0, 40])
def test_late_removal_of_a_deposed_leader_takes_nothing(
    node: NewLeader, monkeypatch: pytest.MonkeyPatch, work_before: int
) -> None:
    """SPEC §11.3: a node that was stopped and goes on may still remove a file; nothing in that was live, for nobody."""
    first = node("n1").lead()
    first.publish(*numbered(0, 5))
    first.sync()
    kept = first.take(5)
    reached, released, removed = threading.Event(), threading.Event(), threading.Event()
    remove = StreamDisk.remove

    def remove_late(disk: StreamDisk, name: str) -> None:
        if disk.stream.epoch > 1 or reached.is_set():
            remove(disk, name)
            return
        reached.set()
        assert released.wait(PATIENCE_S)
        remove(disk, name)
        removed.set()

    monkeypatch.setattr(StreamDisk, "remove", remove_late)
    first.publish(bytes(30_000))
    while not reached.wait(0.001):
        # Its committer does no more than that from then on, so nothing is waited for.
        first.turn()
        while first.carry_out():
            pass
        entry = first.queue.take(False)
        if entry is not None:
            first.queue.settle(entry)
            first.publish(bytes(30_000))
    assert len(kept) == 5
    second = node("n2").lead()
    expected = second.bodies()
    assert expected[:5] == numbered(0, 5)
    taken = second.take(len(expected))
    through(second, work_before)
    released.set()
    assert removed.wait(PATIENCE_S)
    through(second, 40)
    second.queue.requeue(taken)
    second.sync()
    assert second.bodies() == expected
    third = node("n3").lead()
    assert third.bodies() == expected
    assert third.group._takeover is not None
    assert third.group._takeover.recovery.damage == []


def through(leader: Leader, count: int) -> None:
    """Large messages that come and go."""
    for _ in range(count):
        leader.publish(bytes(30_000))
        leader.sync()
        (entry,) = leader.take(1)
        leader.queue.settle(entry)
        leader.turn()
        while leader.carry_out():
            pass


def test_missing_stream_is_not_led(engine: Engine, tmp_path: Path) -> None:
    """SPEC §11.3: the group stays down, and it is said what is missing."""
    leader = Leader(engine, new_name(), tmp_path, lag_s=SHORT_LAG_S)
    leader.take_over()
    leader.until(lambda: bool(leader.ended))
    assert isinstance(leader.ended[0], Lost)
    assert leader.group.state is State.ENDED
    leader.close()


def test_stream_that_was_made_anew_is_not_led(node: NewLeader, engine: Engine) -> None:
    """SPEC §11.3: this node has seen more of it."""
    leader = node("n1").lead()
    leader.publish(b"x")
    leader.sync()
    leader.step_down()
    leader.lead()
    leader.step_down()
    name = leader.group.place.name
    client = Client(engine.address)
    client.ask_jetstream(f"STREAM.DELETE.{name}")
    client.close()
    new_log(engine, name)
    leader.group.place = replace(leader.group.place, lag_s=SHORT_LAG_S)
    leader.take_over()
    leader.until(lambda: bool(leader.ended))
    assert "was seen to reach" in str(leader.ended[0])


def test_take_over_that_is_not_wanted_any_more_ends(node: NewLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §11.3: a node that stops does not wait for the log."""
    monkeypatch.setattr(Stream, "begin_epoch", lambda stream, who: False)
    leader = node("n1")
    leader.take_over()
    leader.group.join()
    leader.until(lambda: bool(leader.ended))
    assert isinstance(leader.ended[0], Abandoned)


def test_definitions_are_not_the_groups(node: NewLeader) -> None:
    """SPEC §11.1: what is defined is told elsewhere; of a queue that is gone nothing is found."""
    leader = node("n1").lead()
    leader.publish(b"x")
    leader.sync()
    assert leader.broker is not None
    leader.broker.vhosts["/"].bind("amq.fanout", leader.queue, "", {})
    position = leader.store.position()
    leader.broker.vhosts["/"].remove_queue(leader.queue)
    leader.broker.delete_vhost("/")
    assert leader.store.queues == {}
    leader.sync()
    assert leader.store.synced >= position
    assert leader.store._changes == []
    # Its id is given to another one never; a node that knows of no queue finds none.
    takeover = Takeover(leader.group.place, [QUEUE_ID + 1])
    takeover.run()
    assert [found.count for found in takeover.found.values()] == [0]
    close_files(takeover.spill)
    takeover.close()
