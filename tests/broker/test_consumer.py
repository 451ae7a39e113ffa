"""Windows, consumers, and whose turn it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.consumer import Consumer, Window
from leveret.broker.message import Origin, new_entry, new_message
from leveret.broker.rotation import Rotation

if TYPE_CHECKING:
    from tests.broker.conftest import NewListener


def test_window_without_limits_fits_everything() -> None:
    window = Window()
    for _ in range(100):
        assert window.fits(10**9)
        window.take(10**9)
    assert window.counts()
    assert not window.limited()


def test_window_counts() -> None:
    window = Window(count_limit=2)
    assert window.limited()
    for _ in range(2):
        assert window.fits(1)
        assert window.counts()
        window.take(1)
    assert not window.fits(0)
    assert not window.counts()
    window.free(1)
    assert window.fits(0)


def test_window_bounds_bytes() -> None:
    window = Window(size_limit=10)
    assert window.limited()
    window.take(6)
    assert window.fits(4)
    assert not window.fits(5)
    assert window.counts()
    window.free(6)
    assert (window.count, window.size) == (0, 0)


def test_message_larger_than_the_window_fits_when_nothing_is_outstanding() -> None:
    window = Window(size_limit=10)
    assert window.fits(11)
    window.take(11)
    assert not window.fits(0)
    window.free(11)
    window.take(0)
    assert not window.fits(11)


def test_consumer_needs_room_in_both_windows(new_listener: NewListener) -> None:
    shared = Window(count_limit=2)
    consumer = new_listener(count=1, shared=shared)
    assert consumer.can_take(1)
    consumer.window.take(1)
    assert not consumer.can_take(1)
    consumer.window.free(1)
    shared.take(1)
    shared.take(1)
    assert not consumer.can_take(1)


def test_consumer_without_acknowledgement_waits_only_for_the_shared_count(new_listener: NewListener) -> None:
    shared = Window(count_limit=1, size_limit=5)
    consumer = new_listener(no_ack=True, count=1, shared=shared)
    consumer.window.take(1)
    assert consumer.can_take(10**6)
    shared.take(1)
    assert not consumer.can_take(1)


def test_plain_consumer_cannot_deliver() -> None:
    consumer = Consumer("c")
    assert (consumer.tag, consumer.no_ack, consumer.exclusive, consumer.priority) == ("c", False, False, 0)
    assert (consumer.arguments, consumer.active, consumer.subscribed) == ({}, False, False)
    with pytest.raises(NotImplementedError):
        consumer.deliver(new_entry(new_message(Origin("", "", b""), b"", 14, 0, 1, False), 1))
    with pytest.raises(NotImplementedError):
        consumer.cancelled()


def tags(rotation: Rotation, count: int, size: int = 1) -> list[str]:
    """Who is next, so many times; each takes what it gets."""
    found = []
    for _ in range(count):
        consumer = rotation.next(size)
        if consumer is None:
            found.append("-")
            continue
        consumer.window.take(size)
        found.append(consumer.tag)
    return found


def test_nobody_is_next_when_nobody_is_there() -> None:
    assert Rotation().next(1) is None


def test_each_takes_one_in_turn(new_listener: NewListener) -> None:
    rotation = Rotation()
    for tag in "abc":
        rotation.add(new_listener(tag))
    assert "".join(tags(rotation, 7)) == "abcabca"
    assert rotation.active_count == 3


def test_new_consumer_joins_at_the_end_of_the_turn(new_listener: NewListener) -> None:
    rotation = Rotation()
    rotation.add(new_listener("a"))
    rotation.add(new_listener("b"))
    tags(rotation, 1)
    rotation.add(new_listener("c"))
    assert "".join(tags(rotation, 4)) == "bacb"


def test_new_consumer_waits_for_the_only_other_one(new_listener: NewListener) -> None:
    """SPEC §6.1 round-robin: as on RabbitMQ who has just had a message stands before who comes only now."""
    rotation = Rotation()
    rotation.add(new_listener("a"))
    tags(rotation, 1)
    rotation.add(new_listener("b"))
    assert "".join(tags(rotation, 4)) == "abab"


@pytest.mark.parametrize(
    ("leaving", "taken", "then"), [("a", 1, "bcb"), ("b", 1, "cac"), ("c", 1, "bab"), ("a", 2, "cbc"), ("c", 3, "aba")]
)
def test_leaving_does_not_skip_anybody(new_listener: NewListener, leaving: str, taken: int, then: str) -> None:
    rotation = Rotation()
    consumers = {tag: new_listener(tag) for tag in "abc"}
    for consumer in consumers.values():
        rotation.add(consumer)
    tags(rotation, taken)
    rotation.remove(consumers[leaving])
    assert "".join(tags(rotation, 3)) == then
    assert (consumers[leaving].active, consumers[leaving].subscribed) == (False, False)
    assert (rotation.active_count, len(rotation.everyone)) == (2, 2)


def test_full_consumer_leaves_the_rotation_until_it_is_activated(new_listener: NewListener) -> None:
    rotation = Rotation()
    small, large = new_listener("s", count=1), new_listener("l")
    rotation.add(small)
    rotation.add(large)
    assert "".join(tags(rotation, 4)) == "slll"
    assert (small.active, rotation.active_count) == (False, 1)
    small.window.free(1)
    assert "".join(tags(rotation, 2)) == "ll"
    rotation.activate(small)
    rotation.activate(small)
    assert rotation.active_count == 2
    assert "".join(tags(rotation, 3)) == "lsl"


def test_higher_priority_comes_first_while_it_can(new_listener: NewListener) -> None:
    rotation = Rotation()
    for tag, priority in (("m", 0), ("l", -1), ("h", 5), ("H", 5), ("n", 0)):
        rotation.add(new_listener(tag, priority=priority, count=2))
    assert "".join(tags(rotation, 11)) == "hHhHmnmnll-"
    assert [level.priority for level in rotation.levels] == [5, 0, -1]


def test_consumer_that_left_is_not_activated(new_listener: NewListener) -> None:
    rotation, consumer = Rotation(), new_listener()
    rotation.add(consumer)
    rotation.remove(consumer)
    rotation.activate(consumer)
    assert (consumer.active, rotation.active_count, rotation.next(1)) == (False, 0, None)


def test_full_consumer_may_leave(new_listener: NewListener) -> None:
    rotation, consumer = Rotation(), new_listener(count=1)
    rotation.add(consumer)
    assert "".join(tags(rotation, 2)) == "c-"
    rotation.remove(consumer)
    assert (rotation.everyone, rotation.active_count) == ([], 0)


def test_one_with_room_for_less_is_revived_when_another_takes_the_large_one(new_listener: NewListener) -> None:
    rotation = Rotation()
    small, large = new_listener("s", size=10), new_listener("l", count=1)
    rotation.add(small)
    rotation.add(large)
    small.window.take(5)
    assert tags(rotation, 1, size=12) == ["l"]
    assert (small.active, rotation.oversized) == (True, [])
    assert tags(rotation, 2, size=5) == ["s", "-"]


def test_one_with_room_for_less_waits_while_the_large_one_is_first(new_listener: NewListener) -> None:
    rotation, small = Rotation(), new_listener(size=10)
    rotation.add(small)
    small.window.take(5)
    for _ in range(3):
        rotation.activate(small)
        assert rotation.next(12) is None
    assert (small.active, rotation.oversized) == (False, [small])
    rotation.revive()
    assert (small.active, rotation.oversized, rotation.active_count) == (True, [], 1)


def test_one_that_left_is_not_revived(new_listener: NewListener) -> None:
    rotation, small = Rotation(), new_listener(size=10)
    rotation.add(small)
    small.window.take(5)
    assert rotation.next(12) is None
    rotation.remove(small)
    rotation.revive()
    assert (small.active, rotation.active_count) == (False, 0)


def test_nobody_is_next_while_it_is_paused(new_listener: NewListener) -> None:
    """SPEC §9.4: a queue's consumers can be paused; those that come or have room meanwhile wait too."""
    rotation = Rotation()
    first, second, third = new_listener("a"), new_listener("b"), new_listener("c")
    rotation.add(first)
    rotation.add(second)
    rotation.next(1)
    rotation.pause()
    rotation.add(third)
    rotation.activate(first)
    assert rotation.next(1) is None
    assert rotation.active_count == 0
    rotation.remove(second)
    rotation.unpause()
    assert tags(rotation, 2) == ["a", "c"]


def test_only_the_single_active_one_goes_on_after_a_pause(new_listener: NewListener) -> None:
    """SPEC §9.4, §6.1."""
    rotation = Rotation()
    rotation.single = True
    rotation.add(new_listener("a"))
    rotation.add(new_listener("b"))
    rotation.pause()
    rotation.unpause()
    assert tags(rotation, 2) == ["a", "a"]
