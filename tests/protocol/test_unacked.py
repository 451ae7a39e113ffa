"""Unacknowledged deliveries: random tags against a dictionary, and the long runs that make it tidy up."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry, Message, Origin, new_entry, new_message
from leveret.protocol.unacked import Unacked

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

MESSAGE: Message = new_message(Origin("", "q", b""), b"", 14, 0, 0, False)
SOMEBODY = Consumer("tag")


def entry(seq: int = 1) -> Entry:
    return new_entry(MESSAGE, seq)


def recorded(count: int) -> Unacked:
    """`count` deliveries, whose seq is their tag."""
    unacked = Unacked()
    for tag in range(1, count + 1):
        assert unacked.record(entry(tag)) == tag
    return unacked


def seqs(entries: list[Entry] | None) -> list[int] | None:
    return None if entries is None else [entry.seq for entry in entries]


def test_tags_count_every_delivery() -> None:
    unacked = Unacked()
    assert [unacked.record(entry()), unacked.skip(), unacked.skip(), unacked.record(entry())] == [1, 2, 3, 4]
    assert (unacked.count, unacked.next_tag) == (2, 5)


def test_tag_is_taken_once() -> None:
    unacked = recorded(3)
    taken = unacked.take(2)
    assert taken is not None
    assert taken.seq == 2
    assert unacked.take(2) is None
    assert unacked.count == 2


def test_unknown_tags_are_not_taken() -> None:
    unacked = recorded(3)
    for tag in (0, 4, 2**40):
        assert unacked.take(tag) is None
    assert unacked.take_up_to(4, 1) is None
    assert unacked.count == 3


def test_tag_of_one_consumer_is_taken_once() -> None:
    unacked = recorded(3)
    unacked.entry(2).consumer = SOMEBODY
    for tag in (0, 1, 3, 4, 2**40):
        assert unacked.take_of(SOMEBODY, tag) is None
    taken = unacked.take_of(SOMEBODY, 2)
    assert taken is not None
    assert taken.seq == 2
    assert unacked.take_of(SOMEBODY, 2) is None
    assert unacked.count == 2
    assert seqs(unacked.take_up_to(0, 1)) == [1, 3]


def test_tag_that_was_set_aside_is_taken_only_by_itself() -> None:
    unacked = recorded(2)
    unacked.entry(2).consumer = SOMEBODY
    unacked.skip()
    unacked.record(entry(4))
    assert unacked.take_of(SOMEBODY, 2) is None
    assert seqs(unacked.take_up_to(2, 1)) == [1, 2]


def test_taking_up_to_a_tag_takes_what_is_before_it_in_order() -> None:
    unacked = recorded(6)
    unacked.take(2)
    assert seqs(unacked.take_up_to(4, 1)) == [1, 3, 4]
    assert unacked.take_up_to(4, 1) is None
    assert seqs(unacked.take_up_to(0, 1)) == [5, 6]
    assert seqs(unacked.take_up_to(0, 1)) == []
    assert unacked.count == 0


def test_taking_up_to_a_settled_tag_takes_nothing() -> None:
    unacked = recorded(3)
    unacked.take(2)
    assert unacked.take_up_to(2, 1) is None
    assert unacked.count == 2


def test_skipped_tags_leave_the_others_in_order() -> None:
    unacked = recorded(2)
    unacked.skip()
    for seq in (4, 5):
        unacked.record(entry(seq))
    assert unacked.take(3) is None
    assert seqs(unacked.take_up_to(5, 1)) == [1, 2, 4, 5]


def test_taking_up_to_a_tag_that_was_set_aside() -> None:
    unacked = recorded(3)
    unacked.skip()
    unacked.record(entry(5))
    assert seqs(unacked.take_up_to(2, 1)) == [1, 2]
    assert seqs(unacked.take_all()) == [3, 5]


def test_one_old_message_among_many_settled_ones() -> None:
    unacked = recorded(1)
    for tag in range(2, 20_000):
        unacked.record(entry(tag))
        taken = unacked.take(tag)
        assert taken is not None
        assert taken.seq == tag
    assert unacked.count == 1
    assert seqs(unacked.take_all()) == [1]


def test_many_settled_in_order_with_a_window_open() -> None:
    unacked = recorded(500)
    for tag in range(501, 10_000):
        taken = unacked.take(tag - 500)
        assert taken is not None
        assert taken.seq == tag - 500
        unacked.record(entry(tag))
    assert unacked.count == 500
    assert seqs(unacked.take_up_to(9_999, 1)) == list(range(9_500, 10_000))


def test_many_never_settled() -> None:
    unacked = recorded(5_000)
    assert unacked.count == 5_000
    assert seqs(unacked.take_up_to(2_500, 1)) == list(range(1, 2_501))
    assert seqs(unacked.take_all()) == list(range(2_501, 5_001))


def test_everything_is_taken_and_the_tags_go_on() -> None:
    unacked = recorded(3)
    assert seqs(unacked.take_all()) == [1, 2, 3]
    assert (unacked.record(entry(4)), unacked.count) == (4, 1)
    assert seqs(unacked.take_up_to(4, 1)) == [4]


def test_restored_entries_have_their_tags_again() -> None:
    unacked = recorded(5)
    taken = unacked.take_up_to(3, 1)
    assert taken is not None
    fifth = unacked.take(5)
    assert fifth is not None
    unacked.restore([fifth, *taken])
    assert unacked.count == 5
    unacked.record(entry(6))
    assert seqs(unacked.take_up_to(2, 1)) == [1, 2]
    assert seqs(unacked.take_up_to(0, 1)) == [3, 4, 5, 6]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(1, 40)),
        st.tuples(st.just("skip"), st.integers(1, 3)),
        st.tuples(st.just("take"), st.floats(0, 1)),
        st.tuples(st.just("take newest"), st.integers(1, 40)),
        st.tuples(st.just("up to"), st.floats(0, 1)),
        st.tuples(st.just("all"), st.none()),
        st.tuples(st.just("restore"), st.integers(0, 20)),
    ),
    max_size=60,
)


@calm
@given(steps, st.booleans())
def test_random_tags_against_a_dictionary(commands: list[tuple[str, float]], many: bool) -> None:
    """`many` records a hundred times as much, so that lists are long enough to be tidied."""
    unacked, model, gone = Unacked(), dict[int, Entry](), list[Entry]()
    last = 0

    def record(count: int) -> None:
        nonlocal last
        for _ in range(count * (100 if many else 1)):
            last += 1
            model[last] = entry(last)
            assert unacked.record(model[last]) == last

    def skip(count: int) -> None:
        nonlocal last
        for _ in range(count):
            last += 1
            assert unacked.skip() == last

    def take(tag: int) -> None:
        expected = model.pop(tag, None)
        assert unacked.take(tag) is expected
        if expected is not None:
            gone.append(expected)

    def take_newest(count: int) -> None:
        for tag in range(last, last - count * (20 if many else 1), -1):
            take(tag)

    def up_to(tag: int) -> None:
        if tag != 0 and tag not in model:
            assert unacked.take_up_to(tag, 1) is None
            return
        expected = [model.pop(known) for known in sorted(model) if tag in (0, known) or known < tag]
        assert unacked.take_up_to(tag, 1) == expected
        gone.extend(expected)

    def restore(count: int) -> None:
        back = gone[len(gone) - min(count, len(gone)) :]
        del gone[len(gone) - len(back) :]
        unacked.restore(back)
        model.update({known.tag: known for known in back})

    acts: dict[str, Callable[[float], None]] = {
        "record": lambda count: record(int(count)),
        "skip": lambda count: skip(int(count)),
        "take": lambda part: take(round(part * (last + 1))),
        "take newest": lambda count: take_newest(int(count)),
        "up to": lambda part: up_to(round(part * (last + 1))),
        "all": lambda _: up_to(0),
        "restore": lambda count: restore(int(count)),
    }
    for act, value in commands:
        acts[act](value)
        assert unacked.count == len(model)
        assert unacked.next_tag == last + 1
    assert unacked.take_all() == [model[tag] for tag in sorted(model)]


def test_first_tag_is_the_oldest_outstanding() -> None:
    """SPEC §6.5 acknowledgement timeout"""
    unacked = Unacked()
    assert unacked.first_tag() == 0
    unacked.skip()
    for seq in range(1, 4):
        unacked.record(new_entry(None, seq))  # type: ignore[arg-type]
    assert unacked.first_tag() == 2
    unacked.take(3)
    assert unacked.first_tag() == 2
    unacked.take(2)
    assert unacked.first_tag() == 4
    unacked.skip()
    unacked.record(new_entry(None, 4))  # type: ignore[arg-type]
    assert unacked.first_tag() == 4
    unacked.take_all()
    assert unacked.first_tag() == 0


def test_everything_is_what_the_client_can_know_of() -> None:
    """Not what was pushed since its octets were read: it has not seen that, and would lose it. What it got, it asked for."""
    unacked = Unacked()
    for seq, reads, consumer in ((1, 1, True), (2, 2, True), (3, 2, False), (4, 2, True)):
        held = entry(seq)
        held.consumer = SOMEBODY if consumer else None
        unacked.push(held, reads) if consumer else unacked.record(held)
    assert seqs(unacked.take_up_to(0, 2)) == [1, 3]
    assert seqs(unacked.take_up_to(0, 2)) == []
    assert unacked.count == 2
    assert seqs(unacked.take_up_to(0, 3)) == [2, 4]
    assert unacked.count == 0
