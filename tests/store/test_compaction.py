"""Compaction: disk space comes back while the broker runs, and nothing that counts goes with it."""

import logging
import random

import pytest
from tests.store.support import Rig, letter

from leveret.broker.budget import Budget
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.work import Task
from leveret.store.compaction import Clean

SIZE = 1 << 16
FILLER = 8000
SIZES = Sizes(8, 1 << 16, 4, 2048)


def settle_first(queue: Queue, count: int = 1) -> None:
    for _ in range(count):
        entry = queue.take(False)
        assert entry is not None
        queue.settle(entry)


def through(rig: Rig, count: int, name: str = "q", size: int = FILLER) -> None:
    """Messages that come and go, each in a turn of its own."""
    for _ in range(count):
        rig.publish(letter(bytes(size), name))
        rig.turn()
        queue = rig.vhost.queues[name]
        entry = queue.take(False)
        assert entry is not None
        queue.settle(entry)
        rig.settle_down()


def segments(rig: Rig) -> list[int]:
    return sorted(rig.store.journal.segments)


def size_on_disk(rig: Rig) -> int:
    return sum(len(content.now) for name, content in rig.disk.files.items() if name.startswith("journal"))


@pytest.fixture
def rig() -> Rig:
    rig = Rig(segment_size=SIZE)
    for name in ("q", "old"):
        rig.queue(name)
    rig.settle_down()
    return rig


def test_space_comes_back_behind_one_old_message(rig: Rig) -> None:
    """SPEC §8.4: one message that nobody takes does not keep the files of all after it."""
    rig.publish(letter(b"old", "old"))
    through(rig, 100)
    assert size_on_disk(rig) < 5 * SIZE
    assert segments(rig)[0] > 1
    for again in (rig.again(), rig.restarted()):
        assert again.bodies("old") == [b"old"]
        assert again.bodies("q") == []


def test_space_stays_within_twice_what_is_live_and_some_segments(rig: Rig) -> None:
    """SPEC §8.4: files take at most twice what is live, and four segments."""
    for number in range(60):
        rig.publish(letter(bytes(FILLER), "old"))
        through(rig, 3)
        live = (number + 1) * (FILLER + 200)
        assert size_on_disk(rig) <= 2 * live + 4 * SIZE + FILLER


def test_space_stays_within_that_though_the_thread_that_reads_gets_no_processor() -> None:
    """SPEC §8.4: once compaction is late, nothing is written until it has read."""
    rig = Rig(segment_size=SIZE, apart=True)
    rig.queue("q")
    old = rig.queue("old")
    rig.settle_down()
    largest = 0
    for number in range(400):
        rig.publish(letter(bytes(FILLER)))
        # What waits until that is read is one batch then.
        largest = max(largest, len(rig.store.journal.out))
        rig.turn()
        settle_first(rig.vhost.queues["q"])
        if number % 7 == 0:
            rig.publish(letter(bytes(FILLER), "old"))
        if number % 7 == 0 and old.ready_count > 5:
            settle_first(old)
        if number % 6 == 0:
            rig.spiller.run(1)
        rig.turn()
        assert size_on_disk(rig) <= 2 * old.ready_count * (FILLER + 200) + 4 * SIZE + largest, number
    assert len(rig.again().bodies("old")) == 5


@pytest.mark.parametrize("paged", [False, True])
def test_small_messages_that_stay_do_not_keep_the_space_of_large_ones_that_went(paged: bool) -> None:
    """SPEC §8.4: twice what is live, by octets: every second message is small and stays."""
    rig = Rig(segment_size=SIZE, sizes=SIZES if paged else None)
    rig.queue("q")
    old = rig.queue("old")
    for _ in range(200):
        rig.publish(letter(b"old", "old"))
        through(rig, 1)
        assert size_on_disk(rig) <= 2 * old.ready_count * 200 + 4 * SIZE + FILLER
    again = rig.restarted()
    assert len(again.bodies("old")) == 200
    again.check([])


def test_all_dead_segments_go_without_more_traffic(rig: Rig) -> None:
    """SPEC §8.4: when a long queue has been emptied its space comes back, though nothing is written any more."""
    for _ in range(100):
        rig.publish(letter(bytes(FILLER)))
        rig.settle_down()
    assert size_on_disk(rig) > 12 * SIZE
    settle_first(rig.vhost.queues["q"], 100)
    rig.settle_down()
    rig.drain()
    rig.committer.run()
    assert size_on_disk(rig) <= 4 * SIZE + FILLER


def test_moved_message_is_gone_when_it_is_settled(rig: Rig) -> None:
    """SPEC §8.3: a message that compaction has moved, once or several times, does not come back."""
    rig.publish(letter(b"old", "old"))
    entry = rig.take("old")
    through(rig, 100)
    assert entry.location >> 32 == 1
    assert segments(rig)[0] > 1
    rig.vhost.queues["old"].settle(entry)
    rig.settle_down()
    assert rig.again().bodies("old") == []
    through(rig, 100)
    assert rig.again().bodies("old") == []


def test_purge_of_what_is_moved_meanwhile_holds(rig: Rig) -> None:
    """SPEC §8.1: purged messages that compaction copied before they were freed do not come back later."""
    for number in range(6):
        rig.publish(letter(b"%d" % number, "old"))
    rig.settle_down()
    through(rig, 15)
    # The pieces of the purge wait; meanwhile the oldest segment, with what was purged, is copied, behind the purge.
    rig.vhost.queues["old"].purge()
    rig.publish(letter(bytes(SIZE)))
    rig.store.flush()
    oldest = rig.store.journal.segments[segments(rig)[0]]
    clean = Clean(rig.store, rig.store.journal, oldest)
    rig.broker.work.budget.begin()
    assert clean.run(rig.broker.work.budget)
    rig.settle_down()
    settle_first(rig.vhost.queues["q"])
    for _ in range(40):
        through(rig, 2)
        assert rig.again().bodies("old") == []


def test_delivery_counts_survive_compaction(rig: Rig) -> None:
    """SPEC §8.3: how often a message was given back is copied with it, and after it."""
    rig.publish(letter(b"old", "old"))
    rig.settle_down()
    for count in range(1, 4):
        entry = rig.take("old")
        entry.queue.requeue([entry])
        through(rig, 40)
        (stored,) = rig.again().vhost.queues["old"].backlog.front.entries()
        assert stored.delivery_count == count


def test_message_that_is_given_back_for_ever_takes_no_more_space(rig: Rig) -> None:
    """SPEC §8.4: how often it was is kept once, not each time that was said, and compaction comes to its end."""
    rig.publish(letter(b"old", "old"))
    rig.settle_down()
    for _ in range(300):
        for _ in range(50):
            entry = rig.take("old")
            entry.queue.requeue([entry])
        rig.settle_down()
        assert size_on_disk(rig) < 5 * SIZE
    before = rig.store.journal.batch
    for _ in range(20):
        rig.settle_down()
    assert rig.store.journal.batch == before
    (stored,) = rig.again().vhost.queues["old"].backlog.front.entries()
    assert stored.delivery_count == 15_000


def test_nothing_is_removed_while_a_transaction_is_being_committed(rig: Rig) -> None:
    """SPEC §8.1: what a transaction acknowledges is not removed before the transaction counts."""
    for _ in range(20):
        rig.publish(letter(bytes(FILLER), "old"))
        rig.settle_down()
    entries = [rig.take("old") for _ in range(20)]
    group = rig.store.begin_group()
    rig.store.set_group(group)
    for entry in entries:
        entry.queue.settle(entry)
    rig.store.set_group(0)
    before = segments(rig)
    through(rig, 30)
    assert segments(rig)[0] == before[0]
    again = rig.again()
    assert len(again.bodies("old")) == 20
    rig.store.commit(group)
    rig.settle_down()
    through(rig, 1)
    assert segments(rig)[0] > before[0]
    assert rig.again().bodies("old") == []


def test_others_on_the_work_list_do_not_wait_for_compaction(rig: Rig) -> None:
    """SPEC §8.8: dead letters, expiry and deliveries go on while a segment is cleaned."""
    for number in range(3000):
        rig.publish(letter(b"%d" % number, "old"))
    rig.settle_down()
    through(rig, 12)
    rig.committer.held = True
    rig.publish(letter(bytes(40 * SIZE)))
    settle_first(rig.vhost.queues["q"])
    rig.turn()
    rig.committer.run(1)
    assert rig.broker.work, "compaction has not begun"
    done: list[str] = []

    class Other(Task):
        def run(self, budget: Budget) -> bool:
            done.append("other")
            return True

    segments = len(rig.store.journal.segments)
    rig.broker.work.add(Other())
    rig.broker.work.budget.begin()
    rig.broker.work.drain()
    # Compaction waits for a batch, or goes on behind the other.
    assert rig.broker.work or rig.spiller.kept, "compaction is over already"
    rig.broker.work.budget.begin()
    rig.broker.work.drain()
    assert done
    assert len(rig.store.journal.segments) >= segments


def test_compaction_waits_for_a_commit_that_stands_behind_it_on_the_list(rig: Rig) -> None:
    """SPEC §8.8: a transaction of a client that has gone is finished, though compaction waits for it."""
    through(rig, 20)
    group = rig.store.begin_group()
    for _ in range(5):
        rig.publish(letter(bytes(SIZE)))
        settle_first(rig.vhost.queues["q"])
        rig.store.flush()
    rig.committer.run()

    class Late(Task):
        def run(self, budget: Budget) -> bool:
            rig.store.commit(group)
            return True

    rig.broker.work.add(Late())
    rig.broker.work.budget.begin()
    assert rig.broker.work.drain()
    assert not rig.store.open_groups


def test_file_found_damaged_while_it_is_cleaned_is_kept_aside(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.1: what cannot be copied because it is damaged is said, and its file is kept."""
    rig.publish(letter(b"old", "old"))
    rig.settle_down()
    rig.disk.damage("journal-00000001.log", rig.disk.files["journal-00000001.log"].now.index(b"old"))
    with caplog.at_level(logging.ERROR):
        through(rig, 60)
    assert "journal-00000001.log: 1 messages are damaged and could not be copied" in caplog.text
    assert "damaged-journal-00000001.log" in rig.disk.files
    assert rig.bodies("old") == [b"old"]


def test_places_of_deleted_queues_go_with_their_segments(rig: Rig) -> None:
    """SPEC §8.4: what a deleted queue had does not keep files."""
    for _ in range(30):
        rig.publish(letter(bytes(FILLER), "old"))
        rig.settle_down()
    rig.vhost.remove_queue(rig.vhost.queues["old"])
    rig.settle_down()
    through(rig, 10)
    assert size_on_disk(rig) <= 4 * SIZE + FILLER


def test_file_that_cannot_be_read_is_said_and_kept_and_others_are_cleaned(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """SPEC §8.4: a part of a file that cannot be read costs what is live in it and no other space."""
    rig.publish(letter(b"unreadable", "old"))
    rig.settle_down()
    rig.publish(letter(b"readable", "old"))
    rig.settle_down()
    at = rig.disk.files["journal-00000001.log"].now.index(b"unreadable")
    rig.disk.unreadable["journal-00000001.log"] = [(at, at + 1)]
    with caplog.at_level(logging.ERROR):
        through(rig, 200)
    texts = [record.getMessage() for record in caplog.records]
    assert [text.split(" at ")[0] for text in texts] == [
        "journal-00000001.log: cannot be read",
        "journal-00000001.log: 1 messages are damaged and could not be copied",
    ]
    assert texts[0].endswith("Input/output error")
    assert "damaged-journal-00000001.log" in rig.disk.files
    assert size_on_disk(rig) < 5 * SIZE
    assert not rig.failures
    # Here it is still in memory; what was copied is there after another start, and nothing that was settled.
    assert rig.bodies("old") == [b"unreadable", b"readable"]
    assert rig.again().bodies("old") == [b"readable"]
    settle_first(rig.vhost.queues["old"], 2)
    rig.settle_down()
    assert rig.again().bodies("old") == []


def test_what_was_moved_and_then_cannot_be_read_can_be_settled(rig: Rig) -> None:
    """SPEC §8.4: a message that was moved to a segment of which nothing can be read, then settled, harms nobody."""
    rig.publish(letter(b"old", "old"))
    entry = rig.take("old")
    through(rig, 60)
    segment, offset = rig.store.journal.place_of(entry.location)
    assert segment.number > 1
    rig.disk.unreadable[segment.name] = [(offset, offset + 8)]
    through(rig, 60)
    assert segment.aside
    assert rig.store.journal.place_of(entry.location) == (segment, offset)
    rig.vhost.queues["old"].settle(entry)
    through(rig, 60)
    assert size_on_disk(rig) < 5 * SIZE
    assert not rig.failures


def test_copies_are_synced_before_the_file_goes_also_without_syncing_batches() -> None:
    """SPEC §8.2: with `sync = "os"` compaction does not put what the system had written long ago at risk."""
    rig = Rig(segment_size=SIZE, sync=False)
    for name in ("q", "old"):
        rig.queue(name)
    rig.settle_down()
    rig.publish(letter(b"old", "old"))
    rig.settle_down()
    for segment in rig.store.journal.segments.values():
        segment.file.sync()
    rig.disk.sync_folder()
    choice = random.Random(1)
    for _ in range(100):
        through(rig, 2)
        assert rig.after_power_cut(choice).bodies("old") == [b"old"]
    assert segments(rig)[0] > 1


def test_missing_file_that_is_to_be_removed_is_said(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §8.7: the broker goes on, as it needs nothing of it."""
    for _ in range(10):
        rig.publish(letter(bytes(FILLER)))
        rig.settle_down()
    number = segments(rig)[0]
    assert number != segments(rig)[-1]
    rig.disk.remove(f"journal-{number:08d}.log")
    settle_first(rig.vhost.queues["q"], 10)
    rig.settle_down()
    assert rig.failures == []
    assert number not in segments(rig)
    assert f"journal-{number:08d}.log was removed by another program" in caplog.text
