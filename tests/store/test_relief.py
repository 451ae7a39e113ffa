"""What leaves memory when that runs low, and what does beyond the window of queues that have no order."""

from typing import Any

import pytest
from tests.store.support import Rig, body, letter

from leveret.broker.backlog import memory_of
from leveret.broker.deduplication import HEADER
from leveret.broker.message import is_stub
from leveret.broker.pages import Sizes
from leveret.broker.queue import Queue
from leveret.broker.relief import WORTHWHILE_BYTES, Relief, held_bytes
from leveret.wire.values import Table

SIZES = Sizes(16, 1 << 16, 4, 1 << 14)
PLENTY = 1 << 40
ENTRY_BYTES = memory_of(1, 0)
SIZE = 8000


def numbered(number: int) -> bytes:
    return b"%06d" % number + bytes(SIZE - 6)


def relieve(rig: Rig, goal: int = 0, room: int = PLENTY) -> Relief:
    relief = Relief(rig.broker, goal, room)
    rig.broker.work.budget.begin()
    while not relief.run(rig.broker.work.budget):
        rig.broker.work.budget.begin()
    return relief


def take_all(rig: Rig, queue: Queue) -> list[int]:
    found = []
    while queue.ready_count:
        entry = queue.take(False)
        if entry is not None:
            found.append(int(body(entry.message)[:6]))
            queue.settle(entry)
        rig.settle_down()
    return found


def test_queues_that_were_unused_for_longest_leave_memory_first() -> None:
    """SPEC §8.5: only as many as are needed do, and what they have comes back in order."""
    rig = Rig()
    names = ["second", "third", "first"]
    for name in names:
        rig.queue(name)
    for name in sorted(names):
        rig.broker.work.budget.now += 1000
        for number in range(10):
            rig.publish(letter(numbered(number), name))
    rig.settle_down()
    held = held_bytes(rig.vhost.queues["first"])
    assert held >= 10 * SIZE
    relief = relieve(rig, 2 * held + ENTRY_BYTES)
    assert (relief.done, relief.helped) == (True, True)
    assert [rig.vhost.queues[name].backlog.pages.count for name in ("first", "second", "third")] == [9, 0, 0]
    relieve(rig, held + 2 * ENTRY_BYTES)
    assert [rig.vhost.queues[name].backlog.pages.count for name in ("first", "second", "third")] == [9, 9, 0]
    assert not relieve(rig, held + 2 * ENTRY_BYTES).helped
    rig.settle_down()
    rig.check([])
    for name in names:
        assert take_all(rig, rig.vhost.queues[name]) == list(range(10))
    rig.check([])


def test_nothing_is_added_to_much_that_waits_for_the_disk() -> None:
    """SPEC §8.6: what is on its way to the disk is in memory too."""
    rig = Rig(held=True)
    for name in ("a", "b"):
        rig.queue(name)
        for number in range(10):
            rig.publish(letter(numbered(number), name, delivery_mode=1))
    rig.flush()
    relief = relieve(rig, 0, 0)
    assert (relief.paused, relief.done, relief.helped) == (True, False, False)
    relief = relieve(rig, 0, rig.store.unsynced_size() + 1)
    assert (relief.paused, relief.done, relief.helped) == (True, False, True)
    assert sorted(rig.vhost.queues[name].backlog.pages.count for name in ("a", "b")) == [0, 9]
    rig.committer.held = False
    rig.settle_down()
    assert relief.run(rig.broker.work.budget)
    assert relief.done
    assert sorted(rig.vhost.queues[name].backlog.pages.count for name in ("a", "b")) == [9, 9]


def test_little_and_what_is_being_brought_back_is_left_alone() -> None:
    """SPEC §8.5: relief takes what gives something."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    rig.publish(letter(b"little"))
    assert not relieve(rig).helped
    for number in range(40):
        rig.publish(letter(numbered(number)))
    rig.settle_down()
    rig.committer.held = True
    while queue.backlog.loading is None:
        assert queue.take(True) is not None
    assert not relieve(rig).helped


@pytest.mark.parametrize("persistent", [True, False])
def test_what_expires_with_its_queue_does_so_in_time(persistent: bool) -> None:
    """SPEC §4.4: nobody asks for it, and it is only in storage."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue(
        "q", arguments={"x-message-ttl": 60_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    dead = rig.queue("dead")
    for number in range(10):
        rig.publish(letter(numbered(number), delivery_mode=2 if persistent else 1))
    rig.settle_down()
    assert relieve(rig).helped
    rig.settle_down()
    rig.later(rig.now + 59_999)
    rig.settle_down()
    assert queue.ready_count == 10
    for _ in range(10):
        rig.later(rig.now + 1)
        rig.settle_down()
    assert (queue.ready_count, dead.ready_count) == (0, 10)
    assert take_all(rig, dead) == list(range(10))


def test_what_was_given_back_keeps_its_place() -> None:
    """SPEC §4.3: what others still have may come to stand between."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q")
    for number in range(12):
        rig.publish(letter(numbered(number)))
    taken = [rig.take("q") for _ in range(6)]
    queue.requeue([taken[1], taken[4]])
    relieve(rig)
    queue.requeue([taken[2], taken[5], taken[0], taken[3]])
    relieve(rig)
    rig.settle_down()
    assert take_all(rig, queue) == list(range(12))
    rig.check([])


UNORDERED: list[Table] = [{"x-max-priority": 5}, {"x-message-deduplication": True}]


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("arguments", UNORDERED)
def test_beyond_the_window_only_places_stay(arguments: Table, persistent: bool) -> None:
    """SPEC §8.5: with priorities, and where messages are told apart; after a restart too."""
    rig = Rig(sizes=SIZES)
    queue = rig.queue("q", arguments=arguments)
    count = 60
    for number in range(count):
        properties: dict[str, Any] = {"priority": number % 3, "headers": {HEADER: number}}
        rig.publish(letter(numbered(number), delivery_mode=2 if persistent else 1, **properties))
    assert in_memory(queue) <= SIZES.window_bytes // SIZE + SIZES.page_count + 1
    assert queue.backlog.stub_bytes == (count - in_memory(queue)) * SIZE
    rig.settle_down()
    if persistent:
        rig = rig.restarted(sizes=SIZES)
        queue = rig.vhost.queues["q"]
        assert in_memory(queue) <= SIZES.window_bytes // SIZE + SIZES.page_count + 1
    relieve(rig)
    assert in_memory(queue) == 0
    # It is still known what is here.
    rig.publish(letter(numbered(59), headers={HEADER: 59}, priority=0, delivery_mode=2 if persistent else 1))
    assert queue.ready_count == count + (0 if "x-message-deduplication" in arguments else 1)
    ranked = [*sorted(range(count), key=lambda number: -(number % 3)), 59]
    assert take_all(rig, queue) == (ranked if "x-max-priority" in arguments else list(range(count)))
    assert queue.backlog.stub_bytes == 0
    # And no longer, when it has gone.
    rig.publish(letter(numbered(59), headers={HEADER: 59}))
    assert queue.ready_count == 1
    rig.check([])


def in_memory(queue: Queue) -> int:
    return len([entry for entry in queue.backlog.front.entries() if not is_stub(entry.message)])


@pytest.mark.parametrize("persistent", [True, False])
def test_what_is_delayed_leaves_memory_and_comes_out_in_time(persistent: bool) -> None:
    """SPEC §8.5 and §3.1: masses that wait take little memory."""
    rig = Rig(sizes=SIZES)
    rig.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    out = rig.queue("out")
    rig.vhost.bind("later", out, "", {})
    (waiting,) = rig.vhost.hidden
    start = rig.now
    for number in range(60):
        delay = 100_000 - 1000 * number
        rig.publish(
            letter(numbered(number), exchange="later", headers={"x-delay": delay}, delivery_mode=2 if persistent else 1)
        )
    assert in_memory(waiting) <= SIZES.window_bytes // SIZE + SIZES.page_count + 1
    rig.settle_down()
    relieve(rig)
    assert in_memory(waiting) == 0
    rig.settle_down()
    rig.later(start + 40_999)
    rig.settle_down()
    assert out.ready_count == 0
    for second in range(41, 101):
        rig.later(start + 1000 * second)
        rig.settle_down()
        assert out.ready_count == second - 40
    assert waiting.backlog.stub_bytes == 0
    assert take_all(rig, out) == list(reversed(range(60)))


def new_history(rig: Rig, count: int, length: int) -> tuple[Queue, list[int]]:
    """An exchange of which only the last messages are known, and which those are."""
    rig.vhost.declare_exchange("x", "x-recent-history", arguments={"x-recent-history-length": length})
    for number in range(count):
        rig.publish(letter(numbered(number), exchange="x", delivery_mode=1 + number % 2))
    (history,) = rig.vhost.hidden
    return history, list(range(count - length, count))


def test_history_that_has_left_memory_is_read_for_those_who_come_later() -> None:
    """SPEC §8.5 and §3.1 x-recent-history: what is given is whole, in order, and the history keeps what it has."""
    rig = Rig(sizes=SIZES)
    history, numbers = new_history(rig, 60, 40)
    relieve(rig)
    stub_bytes = history.backlog.stub_bytes
    assert in_memory(history) * SIZE == 40 * SIZE - stub_bytes < WORTHWHILE_BYTES
    for name in ("early", "late"):
        queue = rig.queue(name)
        rig.vhost.bind("x", queue, "", {})
        rig.settle_down()
        assert take_all(rig, queue) == numbers
        assert (history.ready_count, history.backlog.stub_bytes) == (40, stub_bytes)
        rig.check([])


def test_history_is_not_read_in_the_loop() -> None:
    """SPEC §8.5: a page at a time; what leaves the history before its turn is not given, what was being read is."""
    rig = Rig(sizes=SIZES, held=True)
    _, numbers = new_history(rig, 40, 40)
    relieve(rig)
    queue = rig.queue("q")
    rig.vhost.bind("x", queue, "", {})
    rig.turn()
    assert (queue.ready_count, rig.store.is_fetching()) == (0, True)
    for number in range(40, 50):
        rig.publish(letter(numbered(number), exchange="x"))
    rig.committer.held = False
    rig.settle_down()
    found = take_all(rig, queue)
    assert found[:10] == list(range(40, 50)), "what was published meanwhile"
    read = found[10:]
    assert read[-30:] == numbers[-30:]
    assert 0 < len(read) - 30 <= SIZES.page_count
    assert read[: len(read) - 30] == numbers[: len(read) - 30], "what was being read"
    rig.check([])


def test_history_may_leave_memory_while_it_is_given() -> None:
    """SPEC §8.5 and §3.1 x-recent-history: what was there when the first ones were read is given all the same."""
    rig = Rig(sizes=SIZES, held=True)
    history, numbers = new_history(rig, 5, 5)
    history.backlog.evict(history, history.backlog.front.entries()[:2])
    queue = rig.queue("q")
    rig.vhost.bind("x", queue, "", {})
    rig.turn()
    assert rig.store.is_fetching()
    history.backlog.evict(history, history.backlog.front.entries())
    rig.committer.held = False
    rig.settle_down()
    assert in_memory(history) == 0
    assert take_all(rig, queue) == numbers
    rig.check([])


def test_delayed_messages_and_histories_are_relieved() -> None:
    """SPEC §8.5: queues that exchanges have are among those that leave memory."""
    rig = Rig()
    history, _ = new_history(rig, 20, 20)
    assert relieve(rig).helped
    assert in_memory(history) == 0
    rig.vhost.delete_exchange("x")
    rig.settle_down()
    assert rig.vhost.hidden == {}
    rig.check([])
