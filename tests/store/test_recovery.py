"""Recovery: what is read of a journal that is whole, torn or damaged."""

import logging
import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.store.simulated_disk import Content, SimulatedDisk
from tests.store.support import Rig, letter

from leveret.broker.pages import Pages, Sizes
from leveret.store.batch import BATCH_HEAD_SIZE, table_size
from leveret.store.found import Found, Gone
from leveret.store.journal import Journal
from leveret.store.layout import OFFSET_MASK
from leveret.store.segment import FILE_MAGIC, HEADER_SIZE, ROOM_MAX

FIRST = "journal-00000001.log"


def rig_with(*batches: int) -> Rig:
    """A broker with a queue q that has so many messages of each batch, named by batch and number."""
    rig = Rig()
    rig.queue("q")
    rig.settle_down()
    for at, count in enumerate(batches):
        for number in range(count):
            rig.publish(letter(b"%d.%d" % (at, number)))
        rig.settle_down()
    return rig


def batch_offsets(disk: SimulatedDisk, name: str = FIRST) -> list[int]:
    """Where the batches of a file begin, and its end."""
    content = disk.files[name].now
    offsets = [HEADER_SIZE]
    while offsets[-1] < len(content):
        at = offsets[-1]
        offsets.append(at + BATCH_HEAD_SIZE + int.from_bytes(content[at + 32 : at + 36], "little"))
    return offsets


def found(rig: Rig, disk: SimulatedDisk) -> Rig:
    return Rig(disk, rig.definitions.history)


def damaged(rig: Rig, at: int, name: str = FIRST) -> SimulatedDisk:
    """The disk as it is, with one octet changed."""
    disk = rig.disk.best()
    disk.files[name].now[at] ^= 0x40
    return disk


def test_torn_end_is_cut_and_not_called_damage(caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: a torn last write loses nothing that was promised, and is taken off the file."""
    rig = rig_with(2, 2)
    end = batch_offsets(rig.disk)[-2]
    disk = rig.disk.best()
    del disk.files[FIRST].now[end + 50 :]
    with caplog.at_level(logging.WARNING):
        again = found(rig, disk)
    assert again.bodies("q") == [b"0.0", b"0.1"]
    assert again.opened.damage == []
    assert f"{FIRST}: cut 50 octets of an unfinished write at {end}" in caplog.text
    # The batch before it is written again elsewhere: nothing says that it was synced.
    end = batch_offsets(rig.disk)[-3]
    assert len(disk.files[FIRST].now) == len(disk.worst().files[FIRST].now) == end


def test_torn_end_is_cut_once_and_is_no_damage_later() -> None:
    """SPEC §8.1: what follows a torn write is in another file, whose marks do not make it damage."""
    rig = rig_with(2, 2)
    disk = rig.disk.best()
    del disk.files[FIRST].now[-20:]
    for body in (b"a", b"b"):
        rig = found(rig, disk)
        rig.publish(letter(body))
        rig.settle_down()
        disk = rig.disk.best()
    again = found(rig, disk)
    assert again.bodies("q") == [b"0.0", b"0.1", b"a", b"b"]
    assert again.opened.damage == []


def rig_with_room(*batches: int, segment_size: int = 1 << 20) -> Rig:
    """As `rig_with`, on a disk that makes room behind the last batch."""
    rig = Rig(SimulatedDisk(makes_room=True), segment_size=segment_size)
    rig.queue("q")
    rig.settle_down()
    for at, count in enumerate(batches):
        for number in range(count):
            rig.publish(letter(b"%d.%d" % (at, number)))
        rig.settle_down()
    return rig


def zeros_behind(content: Content) -> int:
    return len(content.now) - len(content.now.rstrip(b"\0"))


@pytest.mark.parametrize("cut", [False, True])
def test_room_that_a_killed_broker_has_left_is_given_back_and_is_no_damage(
    cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """SPEC §8.1: zeros behind the last batch are room that was not needed; nothing was lost there."""
    rig = rig_with_room(2, 2)
    assert zeros_behind(rig.disk.files[FIRST]) > ROOM_MAX // 2
    assert len(rig.disk.files[FIRST].now) <= ROOM_MAX + HEADER_SIZE + 2000
    disk = rig.disk.worst() if cut else rig.disk.best()
    with caplog.at_level(logging.WARNING):
        again = found(rig, disk)
    assert again.bodies("q") == [b"0.0", b"0.1", b"1.0", b"1.1"]
    assert again.opened.damage == []
    assert caplog.text == ""
    assert zeros_behind(disk.files[FIRST]) < 8


def test_room_goes_when_the_next_file_begins_and_at_a_clean_end() -> None:
    """SPEC §8.1: only the file that is being written has room."""
    rig = rig_with_room(*[20] * 30, segment_size=1 << 14)
    current = rig.store.journal.current
    assert current is not None
    finished = [content for name, content in rig.disk.files.items() if name != current.name]
    assert len(finished) > 2
    assert all(zeros_behind(content) < 8 for content in finished)
    assert zeros_behind(rig.disk.files[current.name]) > 8
    rig.close()
    assert all(zeros_behind(content) < 8 for content in rig.disk.files.values())


def test_room_in_a_file_that_others_follow_is_no_damage() -> None:
    """SPEC §8.1: a broker may be killed after the next file has begun and before the one before was cut."""
    rig = rig_with_room(*[20] * 30, segment_size=1 << 14)
    disk = rig.disk.best()
    disk.files[FIRST].now += bytes(1000)
    again = found(rig, disk)
    assert len(again.bodies("q")) == 600
    assert again.opened.damage == []


def test_zeros_in_place_of_a_batch_that_was_promised_are_missed() -> None:
    """SPEC §8.1: what looks like room may have been a batch: their numbers have no gaps."""
    rig = rig_with_room(*[20] * 30, segment_size=1 << 14)
    disk = rig.disk.best()
    offsets = batch_offsets(disk)
    content = disk.files[FIRST].now
    size = offsets[-1] - offsets[-2]
    content[offsets[-2] : offsets[-1]] = bytes(size)
    again = found(rig, disk)
    assert len(again.bodies("q")) == 580
    assert len(again.opened.damage) == 1
    assert " is missing: messages published in them are gone" in again.opened.damage[0]


@pytest.mark.parametrize("more", [0, 1])
def test_more_zeros_than_there_can_be_room_are_a_torn_end(more: int, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: there is a limit to the room; what is longer was something else."""
    rig = rig_with(2)
    disk = rig.disk.best()
    disk.files[FIRST].now += bytes(ROOM_MAX + more)
    with caplog.at_level(logging.WARNING):
        again = found(rig, disk)
    assert again.bodies("q") == [b"0.0", b"0.1"]
    assert ("unfinished write" in caplog.text) == (more == 1)


def test_damage_before_whole_batches_is_reported_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: what is damaged is said with its place, and everything else is there."""
    rig = rig_with(2, 2, 2)
    offsets = batch_offsets(rig.disk)
    again = found(rig, damaged(rig, offsets[-3] + 60))
    assert again.bodies("q") == [b"0.0", b"0.1", b"2.0", b"2.1"]
    size = offsets[-2] - offsets[-3]
    text = f"{FIRST}: {size} octets at {offsets[-3]} are damaged; what they said is lost"
    assert again.opened.damage == [text]
    assert text in caplog.text


def test_damaged_end_that_a_later_segment_proves_synced_is_damage() -> None:
    """SPEC §8.1: the last batch of a file that later marks prove synced is damaged, not torn, and is not cut."""
    rig = rig_with(2, 2)
    later = rig.again()
    later.publish(letter(b"later"))
    later.settle_down()
    end = batch_offsets(later.disk)[-2]
    disk = damaged(later, end + 60)
    size = len(disk.files[FIRST].now)
    again = found(later, disk)
    # The last one was written again by the later start, in another file.
    assert again.bodies("q") == [b"1.0", b"1.1", b"later"]
    assert again.opened.damage == [f"{FIRST}: {size - end} octets at {end} are damaged; what they said is lost"]
    assert len(disk.files[FIRST].now) == size


def test_damaged_end_after_a_clean_end_is_damage() -> None:
    """SPEC §8.1: after a clean end everything was synced, so nothing is torn."""
    rig = rig_with(2, 2)
    rig.close()
    again = found(rig, damaged(rig, batch_offsets(rig.disk)[-2] + 60))
    assert again.bodies("q") == [b"0.0", b"0.1"]
    assert len(again.opened.damage) == 1


def test_damaged_file_is_kept_aside_when_it_has_had_its_time() -> None:
    """SPEC §8.1: a damaged file is not removed: somebody may want to look at it."""
    rig = rig_with(3, 3)
    rig.publish(letter(b"behind"))
    rig.settle_down()
    again = found(rig, damaged(rig, batch_offsets(rig.disk)[2] + 60))
    assert again.opened.damage
    for _ in range(20):
        again.publish(letter(bytes(30_000)))
        entry = again.vhost.queues["q"].take(False)
        assert entry is not None
        again.vhost.queues["q"].settle(entry)
        again.settle_down()
    assert FIRST not in again.disk.files
    assert f"damaged-{FIRST}" in again.disk.files
    assert again.again().opened.damage == []


@pytest.mark.parametrize("at", [3, 11, 17])
def test_damaged_header_of_a_file_loses_nothing(at: int) -> None:
    """SPEC §8.1: a file whose first octets are damaged is read all the same."""
    rig = rig_with(2, 2)
    again = found(rig, damaged(rig, at))
    assert again.bodies("q") == [b"0.0", b"0.1", b"1.0", b"1.1"]
    assert again.opened.damage == [f"{FIRST}: {HEADER_SIZE} octets at 0 are damaged; what they said is lost"]


def test_file_of_which_the_first_sector_was_never_written_is_torn() -> None:
    """SPEC §8.1: a new file of which a power cut has left zeros is no damage."""
    rig = rig_with(1)
    disk = rig.disk.best()
    octets = bytes(4096)
    disk.files["journal-00000002.log"] = Content(bytearray(octets), octets)
    again = found(rig, disk)
    assert again.opened.damage == []
    assert again.bodies("q") == [b"0.0"]
    assert disk.files["journal-00000002.log"].now[:8] == FILE_MAGIC


def test_files_without_batches_do_not_pile_up() -> None:
    """SPEC §8.4: starting often leaves no files behind."""
    rig = rig_with(1)
    for _ in range(5):
        rig = rig.again()
    assert len([name for name in rig.disk.files if name.startswith("journal")]) == 2
    assert rig.bodies("q") == [b"0.0"]


def test_files_of_others_are_left_alone() -> None:
    """SPEC §8.1: what is not named like a segment is none."""
    rig = rig_with(1)
    disk = rig.disk.best()
    for name in ("journal-x.log", "journal-00000009.log.old", "damaged-journal-00000001.log"):
        disk.files[name] = Content(bytearray(b"something"), b"something")
    again = found(rig, disk)
    assert again.bodies("q") == [b"0.0"]
    assert disk.files["journal-x.log"].now == b"something"


def test_what_was_read_is_synced_before_it_counts_as_such() -> None:
    """SPEC §8.1: a batch found after a kill, which was never synced, does not go with a later power cut."""
    rig = rig_with(1)
    rig.committer.held = True
    rig.publish(letter(b"unsynced"))
    rig.store.flush()
    (work,) = rig.committer.kept
    work.subject.write()  # type: ignore[union-attr]
    # The process is killed here; its writes are in the files, but not on disk.
    again = Rig(rig.disk, rig.definitions.history)
    assert again.bodies("q") == [b"0.0", b"unsynced"]
    again.publish(letter(b"later"))
    again.settle_down()
    last = found(again, again.disk.worst())
    assert last.bodies("q") == [b"0.0", b"unsynced", b"later"]
    assert last.opened.damage == []


def test_group_without_its_commit_does_not_count() -> None:
    """SPEC §8.1: of a transaction that was not committed nothing is there, and nothing is gone."""
    rig = rig_with(1)
    entry = rig.take("q")
    group = rig.store.begin_group()
    rig.store.set_group(group)
    rig.publish(letter(b"in it"))
    entry.queue.settle(entry)
    rig.broker.storage.write_places()
    rig.store.set_group(0)
    rig.settle_down()
    assert rig.again().bodies("q") == [b"0.0"]
    rig.store.commit(group)
    rig.settle_down()
    again = rig.again()
    assert again.bodies("q") == [b"in it"]
    assert again.store.begin_group() > group


def test_seqs_are_never_used_again() -> None:
    """SPEC §8.3: what is said of a message that is gone is not taken for said of another."""
    rig = rig_with(5)
    for _ in range(5):
        entry = rig.take("q")
        entry.queue.settle(entry)
    rig.settle_down()
    again = rig.again()
    again.publish(letter(b"new"))
    again.settle_down()
    assert again.again().contents() == {1: [(6, b"new", 0, 0)]}


def test_after_an_unclean_end_all_are_redelivered_and_after_a_clean_one_those_that_were() -> None:
    """SPEC §8.3: flags are exact after a clean end, and careful after another."""
    rig = rig_with(3)
    entry = rig.take("q")
    entry.queue.requeue([entry])
    rig.settle_down()

    def flags(rig: Rig) -> list[tuple[bool, int]]:
        return [(entry.redelivered, entry.delivery_count) for entry in rig.vhost.queues["q"].backlog.front.entries()]

    assert flags(rig.again()) == [(True, 1), (True, 0), (True, 0)]
    assert flags(rig.restarted()) == [(True, 1), (False, 0), (False, 0)]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), hits=st.integers(1, 3))
@example(427, 3)
@example(12741792, 3)
def test_damage_anywhere_loses_only_what_it_hits(seed: int, hits: int) -> None:
    """SPEC §8.1: whatever octets are broken, what is undamaged is there, nothing is invented, and it is said where.

    A head or a table alone costs nothing, if it is known where its batch ends.
    """
    choice = random.Random(seed)
    rig = rig_with(*(choice.randint(1, 4) for _ in range(6)))
    later = rig.again()
    later.publish(letter(b"proof"))
    later.settle_down()
    offsets = batch_offsets(later.disk)
    disk = later.disk.best()
    places = [choice.randrange(HEADER_SIZE, offsets[-1]) for _ in range(hits)]
    for at in set(places):
        disk.files[FIRST].now[at] ^= choice.randrange(1, 256)
    hit = {number for number in range(len(offsets) - 1) for at in places if offsets[number] <= at < offsets[number + 1]}
    again = found(later, disk)
    row = table_size(BATCH_HEAD_SIZE + 1, 0)
    heads = {number for number in hit for at in places if 0 <= at - offsets[number] < BATCH_HEAD_SIZE}
    tables = {number for number in hit for at in places if 0 <= offsets[number + 1] - 1 - at < row}
    in_records = {
        number for number in hit for at in places if offsets[number] + BATCH_HEAD_SIZE <= at < offsets[number + 1] - row
    }
    # The last of those with messages was written again, in another file.
    first = len(offsets) - 1 - 5
    # Behind one without a head, nothing says where others that are damaged begin.
    known = set(range(len(offsets)))
    for number in sorted(hit):
        if number - 1 in hit and (number - 1 in heads or number - 1 not in known):
            known.discard(number)
    alone = {number for number in (hit - in_records - (heads & tables)) & known if number + 1 not in hit}
    bodies = [(int(body.split(b".")[0]) + first, body) for body in rig.bodies("q")]
    there = again.bodies("q")
    assert there == [body for _, body in bodies if body in there] + [b"proof"]
    assert {body for number, body in bodies if number not in hit or number in alone} <= set(there)
    assert not {body for number, body in bodies if number in in_records} & set(there)
    reported = [re.split(r" at (\d+) ", line)[1] for line in again.opened.damage if re.search(r" at \d+ (are|is)", line)]
    runs = {offsets[number] for number in hit if number - 1 not in hit}
    assert runs <= {int(at) for at in reported} <= {offsets[number] for number in hit}


# The parts


def test_gone_has_runs_purges_and_counts() -> None:
    """SPEC §8.3: what has left a queue, in whatever order it was said."""
    gone = Gone()
    gone.settle(10, 12)
    gone.settle(13, 13)
    gone.settle(20, 20)
    gone.settle(11, 15)
    gone.purge(3)
    gone.purge(2)
    gone.requeue(30, 2)
    gone.requeue(30, 1)
    gone.sort()
    assert [seq for seq in range(40) if gone.has(seq)] == [0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 20]
    assert (gone.highest, gone.counts) == (30, {30: 2})


def test_found_are_in_order_and_of_two_the_later() -> None:
    """SPEC §8.4: what compaction has copied is there once, where it was written last."""

    journal = Journal(SimulatedDisk())  # type: ignore[arg-type]
    journal.begin(1, 1)
    segment = journal.segments[1]
    places = Found()
    for seq, number in ((5, 50), (6, 60), (3, 31), (5, 51), (3, 32), (9, 90)):
        places.add(seq, 1 << 32 | number * 16, 1, 0)
        segment.live_count += 1
    pages = Pages(Sizes())
    assert places.fill(pages, {6: 2, 7: 1}, journal, True) == {6: 2}
    page = pages.take()
    found = [(page.seq(at), (page.location(at) & OFFSET_MASK) // 16, page.redelivered(at)) for at in range(page.count)]
    assert found == [(3, 32, False), (5, 51, False), (6, 60, True), (9, 90, False)]
    assert [number for number in (31, 32, 50, 51, 60, 90) if segment.is_dead(number * 16)] == [31, 50]


def test_long_recovery_tells_how_far_it_is(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §8.3: whoever waits sees that something happens."""
    now = 0.0

    def later() -> float:
        nonlocal now
        now += 2.5
        return now

    monkeypatch.setattr("leveret.store.recovery.monotonic", later)
    rig = rig_with(3, 3)
    caplog.set_level(logging.INFO)
    rig.again()
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("recovering")]
    assert (told[0], told[-1]) == ("recovering: 50 % of 0 MB", "recovering: 100 % of 0 MB")
