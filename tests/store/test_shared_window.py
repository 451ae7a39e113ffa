"""What queues with consumers may have in memory beyond their own windows, all of them together."""

import pytest
from tests.store.support import Rig, Taker, body, letter

from leveret.broker import relief
from leveret.broker.backlog import memory_of
from leveret.broker.consumer import Consumer, Window
from leveret.broker.dispatch import cancel, dispatch, subscribe
from leveret.broker.pages import SharedWindow, Sizes
from leveret.broker.queue import Queue

# A window of 8 messages, pages of 4, and 16 messages of 100 octets for one queue in the shared window.
SIZE = 100
SHARED = 16 * memory_of(1, SIZE)
SIZES = Sizes(8, 1 << 20, 4, 1 << 20, 2 * SHARED)


class Full(Consumer):
    """A consumer that can take nothing now."""

    def __init__(self) -> None:
        Consumer.__init__(self, "full", False, False, Window(1))
        self.window.take(0)

    def cancelled(self) -> None:
        """Nobody asks."""


def numbered(number: int) -> bytes:
    return b"%04d" % number + bytes(SIZE - 4)


def fill(rig: Rig, queue: Queue, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        rig.publish(letter(numbered(number), queue.name))


def fallen_behind(rig: Rig, name: str = "q") -> Queue:
    """A queue whose consumer takes nothing for the moment."""
    queue = rig.queue(name)
    subscribe(queue, Full())
    return queue


def test_what_fits_the_shared_window_is_not_paged_out() -> None:
    """SPEC §8.5: a consumer that falls behind for a moment does not make messages go through the disk."""
    rig = Rig(sizes=SIZES)
    queue = fallen_behind(rig)
    fill(rig, queue, 16)
    assert (queue.backlog.paged, rig.store.sizes.shared.used) == (False, SHARED)
    fill(rig, queue, 1)
    assert (queue.backlog.paged, queue.backlog.pages.count) == (True, 0)
    rig.settle_down()
    fill(rig, queue, 8)
    assert queue.backlog.pages.count == 4


def test_without_a_consumer_what_is_beyond_the_window_is_on_disk() -> None:
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    fill(rig, queue, 16)
    assert (queue.backlog.paged, rig.store.sizes.shared.used) == (True, 0)
    assert queue.backlog.pages.count + queue.backlog.back_count == 16 - 9


def test_what_is_lent_to_one_queue_another_does_not_get() -> None:
    rig = Rig(sizes=SIZES)
    one, other = fallen_behind(rig, "one"), fallen_behind(rig, "other")
    fill(rig, one, 12)
    fill(rig, other, 12)
    assert (one.backlog.paged, other.backlog.paged) == (False, True)
    assert one.backlog.granted + other.backlog.granted == rig.store.sizes.shared.used <= 2 * SHARED


def test_a_queue_that_is_paged_keeps_what_comes_in_memory_when_there_is_room_again() -> None:
    """Once paged, it need not stay so until its last message was taken: what comes behind the pages waits in memory."""
    rig = Rig(sizes=Sizes(8, 1 << 20, 4, 1 << 20, 4 * SHARED))
    queue = rig.queue("q")
    fill(rig, queue, 24)
    rig.settle_down()
    paged = queue.backlog.pages.count
    assert paged > 0
    subscribe(queue, Full())
    fill(rig, queue, 8, 24)
    assert queue.backlog.pages.count == paged
    found = []
    while queue.ready_count:
        entry = rig.take("q")
        found.append(int(body(entry.message)[:4]))
        queue.settle(entry)
        rig.settle_down()
    assert found == list(range(32))
    assert rig.store.sizes.shared.used == 0


def test_it_is_given_back_when_half_the_window_is_enough_again() -> None:
    rig = Rig(sizes=SIZES)
    queue = fallen_behind(rig)
    fill(rig, queue, 16)
    for left in range(15, 3, -1):
        assert rig.store.sizes.shared.used == SHARED
        rig.take("q")
        assert queue.ready_count == left
    assert rig.store.sizes.shared.used == 0


def test_purging_deleting_and_relieving_give_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(sizes=SIZES)
    shared = rig.store.sizes.shared
    queue = fallen_behind(rig)
    fill(rig, queue, 16)
    queue.purge()
    assert shared.used == 0
    fill(rig, queue, 16)
    rig.vhost.delete_queue("q", None)
    assert shared.used == 0
    rig.settle_down()
    queue = fallen_behind(rig)
    fill(rig, queue, 16)
    monkeypatch.setattr(relief, "WORTHWHILE_BYTES", 1)
    rig.broker.work.budget.begin()
    assert relief.Relief(rig.broker, 0, 1 << 40).run(rig.broker.work.budget)
    assert (shared.used, queue.backlog.pages.count) == (0, 15)


def test_who_left_behind_leaves_it_in_memory_until_it_is_taken() -> None:
    """A consumer that comes back finds its messages in memory, in order and once."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    full = Full()
    subscribe(queue, full)
    fill(rig, queue, 14)
    cancel(queue, full)
    fill(rig, queue, 14, 14)
    rig.settle_down()
    taker = Taker()
    subscribe(queue, taker)
    while queue.ready_count:
        rig.settle_down()
        dispatch(queue)
    assert [int(body(entry.message)[:4]) for entry in taker.taken] == list(range(28))
    assert rig.store.sizes.shared.used == 0


def test_priorities_stay_whole_in_it_too() -> None:
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q", arguments={"x-max-priority": 3})
    subscribe(queue, Full())
    fill(rig, queue, 16)
    assert queue.backlog.stub_bytes == 0
    fill(rig, queue, 6)
    assert queue.backlog.stub_bytes > 0


def test_queues_whose_consumers_have_gone_leave_something_for_others() -> None:
    rig = Rig(sizes=SIZES)
    for name in ("one", "two", "three"):
        queue = rig.queue(name)
        full = Full()
        subscribe(queue, full)
        fill(rig, queue, 16)
        cancel(queue, full)
    other = fallen_behind(rig, "other")
    other.backlog.sizes.window_count = 1
    fill(rig, other, 3)
    assert 0 < other.backlog.granted <= rig.store.sizes.shared.limit - rig.store.sizes.shared.used


def test_what_is_evicted_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relief, "WORTHWHILE_BYTES", 1)
    rig = Rig(sizes=Sizes(8, 1 << 20, 4, 1 << 20, 1 << 20))
    queue = rig.queue("q", arguments={"x-max-priority": 3})
    subscribe(queue, Full())
    for _ in range(16):
        rig.publish(letter(bytes(5000)))
    assert queue.backlog.granted >= 16 * memory_of(1, 5000)
    rig.broker.work.budget.begin()
    assert relief.Relief(rig.broker, 0, 1 << 40).run(rig.broker.work.budget)
    assert queue.backlog.granted == 16 * memory_of(1, 0)


def test_pieces_of_the_shared_window() -> None:
    """Who has something may have as much as is left for others then."""
    shared = SharedWindow(80)
    assert [shared.grant(size, granted) for size, granted in ((1, 0), (29, 10), (2, 39), (1, 39), (1, 40))] == [
        10,
        29,
        0,
        1,
        0,
    ]
    assert shared.grant(20, 0) == 20
    shared.give_back(25)
    assert shared.grant(20, 0) == 20
    assert SharedWindow(1 << 30).grant(1, 0) == 1 << 20
    assert SharedWindow(0).grant(1, 0) == 0
