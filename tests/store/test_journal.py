"""The journal: what it is told in a turn, as octets of a batch, and which places are live."""

import pytest
from tests.store.simulated_disk import SimulatedDisk
from tests.store.support import Rig, Taker, letter

from leveret.broker.dispatch import subscribe
from leveret.store.batch import BATCH_HEAD_SIZE
from leveret.store.journal import LOOK_EVERY, Journal
from leveret.store.layout import COMMIT, MARK, MESSAGE, PURGE, REQUEUE, SETTLE
from leveret.store.ledger import merged
from leveret.store.records import read_head, read_numbers, read_place
from leveret.store.segment import HEADER_SIZE

KINDS = {MESSAGE: "message", SETTLE: "settle", PURGE: "purge", REQUEUE: "requeue", COMMIT: "commit"}


def said(out: bytes) -> list[tuple[object, ...]]:
    """The records of a batch but for its marks: kind and what matters of it."""
    found: list[tuple[object, ...]] = []
    at = BATCH_HEAD_SIZE
    while at < len(out):
        length, kind, count, group, queue = read_head(out, at)
        if kind == MESSAGE:
            places = [read_place(out, at + 48 + 24 * number) for number in range(count)]
            found.append(("message", group, *((place.queue, place.seq) for place in places)))
        elif kind != MARK:
            found.append((KINDS[kind], group, queue, *read_numbers(out, at)))
        at += length
    return found


@pytest.fixture
def rig() -> Rig:
    """A broker with queues a and b, whose ids are 1 and 2, and nothing to write."""
    rig = Rig(held=True)
    for name in ("a", "b"):
        rig.vhost.bind("amq.fanout", rig.queue(name), "", {})
    rig.settle_down()
    return rig


def taken(rig: Rig) -> list[tuple[object, ...]]:
    """What the next batch says; it is written."""
    rig.store.position()
    batch = rig.store.journal.take()
    found = said(bytes(batch.data[: batch.end]))
    batch.write()
    batch.sync()
    rig.store.journal.committed(batch)
    return found


def test_message_is_written_once_with_all_its_places(rig: Rig) -> None:
    """SPEC §8.1: a fanout costs one message on disk."""
    rig.publish(letter(b"x", "", "amq.fanout"))
    rig.publish(letter(b"y", "a"))
    assert taken(rig) == [("message", 0, (1, 1), (2, 1)), ("message", 0, (1, 2))]


def test_location_is_where_the_place_stands_in_the_file(rig: Rig) -> None:
    """SPEC §8.1: a place is known by its segment and offset."""
    rig.publish(letter(b"x", "", "amq.fanout"))
    taken(rig)
    entry = rig.take("b")
    segment, offset = rig.store.journal.place_of(entry.location)
    place = read_place(segment.file.read(offset, 24), 0)
    assert (place.queue, place.seq, place.number) == (2, 1, 1)


def test_transient_messages_and_queues_are_not_written(rig: Rig) -> None:
    """SPEC §8.1: transient ones do not survive, and cost nothing on disk."""
    rig.queue("t", durable=False)
    rig.publish(letter(b"x", "a", delivery_mode=1))
    rig.publish(letter(b"x", "t"))
    assert rig.store.position() == rig.store.journal.batch - 1


@pytest.mark.parametrize(
    ("order", "runs"),
    [
        ([0, 1, 2, 3, 4], [(1, 5)]),
        ([4, 3, 2, 1, 0], [(1, 5)]),
        ([0, 2, 4], [(1, 1), (3, 3), (5, 5)]),
        ([3, 0, 1, 4], [(1, 2), (4, 5)]),
        ([2], [(3, 3)]),
    ],
)
def test_settlements_are_gathered_as_runs(rig: Rig, order: list[int], runs: list[tuple[int, int]]) -> None:
    """SPEC §8.3: acknowledgements of a turn are as few records as can be."""
    for _ in range(5):
        rig.publish(letter(b"x", "a"))
    taken(rig)
    entries = [rig.take("a") for _ in range(5)]
    for at in order:
        entries[at].queue.settle(entries[at])
    assert taken(rig) == [("settle", 0, 1, first, last) for first, last in runs]
    rig.publish(letter(b"x", "a"))
    assert taken(rig) == [("message", 0, (1, 6))]


def test_many_runs_out_of_order_are_merged() -> None:
    """SPEC §8.3: runs are merged whatever order they came in."""
    assert merged([]) == []
    assert merged([(5, 5)]) == [(5, 5)]
    assert merged([(7, 9), (1, 3), (4, 6), (20, 20), (11, 12)]) == [(1, 9), (11, 12), (20, 20)]
    runs = [(2 * number, 2 * number) for number in range(5000)]
    assert merged(runs[::-1]) == runs


def test_given_back_is_said_with_the_count(rig: Rig) -> None:
    """SPEC §8.3: delivery counts survive."""
    rig.publish(letter(b"x", "a"))
    taken(rig)
    for count in (1, 2):
        entry = rig.take("a")
        entry.queue.requeue([entry])
        assert taken(rig) == [("requeue", 0, 1, 1, count)]


def test_given_back_before_it_was_written_is_written_with_its_count(rig: Rig) -> None:
    """SPEC §8.3: delivery counts survive, also of what came and went back within a turn."""
    rig.publish(letter(b"x", "a"))
    entry = rig.take("a")
    entry.queue.requeue([entry])
    taken(rig)
    segment, offset = rig.store.journal.place_of(entry.location)
    assert read_place(segment.file.read(offset, 24), 0).delivery_count == 1


def test_purge_of_a_queue_where_nothing_stays_is_one_record(rig: Rig) -> None:
    """SPEC §8.1: a purge costs nothing by the length of the queue."""
    for _ in range(3):
        rig.publish(letter(b"x", "a"))
    rig.vhost.queues["a"].purge()
    rig.drain()
    assert taken(rig)[3:] == [("purge", 0, 1, 0, 3)]
    assert [segment.live_count for segment in rig.store.journal.segments.values()] == [0]


def test_purge_spares_what_is_unacknowledged(rig: Rig) -> None:
    """SPEC §8.1: what a purge does not concern is not said to be gone."""
    for _ in range(3):
        rig.publish(letter(b"x", "a"))
    kept = rig.take("a")
    rig.vhost.queues["a"].purge()
    rig.drain()
    assert taken(rig)[3:] == [("settle", 0, 1, 2, 3)]
    assert kept.location


def test_group_is_in_its_records_and_ends_with_a_commit(rig: Rig) -> None:
    """SPEC §8.1: what belongs to a transaction counts as a whole."""
    rig.publish(letter(b"x", "a"))
    entry = rig.take("a")
    taken(rig)
    group = rig.store.begin_group()
    rig.store.set_group(group)
    rig.publish(letter(b"y", "b"))
    entry.queue.settle(entry)
    rig.broker.storage.write_places()
    rig.store.set_group(0)
    rig.store.commit(group)
    assert taken(rig) == [("settle", group, 1, 1, 1), ("message", group, (2, 1)), ("commit", group, 0, 0, 0)]


def test_batch_that_fills_a_segment_is_its_last() -> None:
    """SPEC §8.4: a batch is in one segment; the next one begins another, and syncs the folder."""
    disk = SimulatedDisk()
    journal = Journal(disk, 200)  # type: ignore[arg-type]
    journal.begin(1, 1)
    journal.commit(7)
    first = journal.take()
    journal.commit(8)
    second = journal.take()
    journal.commit(9)
    third = journal.take()
    assert [batch.segment.number for batch in (first, second, third)] == [1, 1, 2]
    for batch, safe in ((first, True), (second, True), (third, True)):
        batch.write()
        batch.sync()
        assert (batch.segment.name in disk.worst().files) == safe
    assert [batch.number for batch in (first, second, third)] == [1, 2, 3]


def test_position_is_the_batch_to_wait_for() -> None:
    """SPEC §8.2: what was said is on disk when its batch is."""
    journal = Journal(SimulatedDisk())  # type: ignore[arg-type]
    journal.begin(1, 10)
    assert (journal.position(), journal.synced) == (9, 9)
    journal.commit(1)
    assert journal.position() == 10
    batch = journal.take()
    assert (journal.position(), journal.synced) == (10, 9)
    journal.committed(batch)
    assert (journal.position(), journal.synced) == (10, 10)
    assert journal.current is not None
    assert journal.current.written == journal.current.size == HEADER_SIZE + len(batch.data)


def test_without_consumers_acknowledging_nothing_of_it_stays_on_disk(rig: Rig) -> None:
    """SPEC §8.3: a message given to a consumer without acknowledgement in the turn it came does not come back."""
    rig.publish(letter(b"x", "a"))
    taker = Taker()
    subscribe(rig.vhost.queues["a"], taker)
    assert [entry.seq for entry in taker.taken] == [1]
    rig.settle_down()
    assert rig.again().bodies("a") == []


def test_message_in_more_queues_than_fit_a_record_is_written_in_pieces(rig: Rig) -> None:
    """SPEC §8.1: a fanout may be of any width."""
    for number in range(2200):
        rig.vhost.bind("amq.fanout", rig.queue(f"q{number}"), "", {})
    rig.settle_down()
    rig.publish(letter(b"x", "", "amq.fanout"))
    pieces = [len(record) - 2 for record in taken(rig)]
    assert len(pieces) > 1
    assert sum(pieces) == 2202


@pytest.mark.files_only("a stream has no files that another program could remove")
def test_file_that_was_removed_is_written_again(caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.2: what is confirmed later is in a file that has a name, with all that was in it before."""
    rig = Rig()
    rig.queue("q")
    for number in range(3):
        rig.publish(letter(b"%d" % number))
        rig.settle_down()
    assert rig.store.journal.current is not None
    name = rig.store.journal.current.name
    rig.disk.remove(name)
    # It is looked for now and then, and then all is there that was written meanwhile.
    for number in range(3, 3 + LOOK_EVERY):
        rig.publish(letter(b"%d" % number))
        rig.settle_down()
    assert rig.failures == []
    assert f"{name} was removed by another program; it is written again" in caplog.text
    assert rig.again().bodies("q") == [b"%d" % number for number in range(3 + LOOK_EVERY)]
