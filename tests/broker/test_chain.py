"""Chains of ready entries: their order, what is given back, and what is removed from the middle."""

from __future__ import annotations

import pytest

from leveret.broker.chain import Chain, Priorities, unchain
from leveret.broker.message import Entry, Origin, new_entry, new_message

ORIGIN = Origin("", "q", b"")


def entry(seq: int, priority: int = 0) -> Entry:
    return new_entry(new_message(ORIGIN, b"", 14, 1, 1, priority << 24), seq)


def filled(chain: Chain, *priorities: int) -> list[Entry]:
    """Append entries of these priorities; their seqs are 1, 2, 3, …"""
    entries = [entry(at + 1, priority) for at, priority in enumerate(priorities)]
    for one in entries:
        chain.append(one)
    return entries


def take(chain: Chain) -> Entry:
    first = chain.first()
    assert first is not None
    chain.remove(first)
    return first


def seqs(chain: Chain) -> list[int]:
    """The order in which they go; the chain is empty then."""
    shown = [one.seq for one in chain.entries()]
    found = []
    while chain.first() is not None:
        found.append(take(chain).seq)
    assert shown == found
    return found


@pytest.fixture(params=[0, 1, 255])
def chain(request: pytest.FixtureRequest) -> Chain:
    """A chain, and those of a queue with priorities in which all have the same."""
    return Priorities(request.param) if request.param else Chain()


def test_empty(chain: Chain) -> None:
    assert chain.first() is None
    assert chain.entries() == []
    assert chain.detach() == []


def test_first_in_first_out(chain: Chain) -> None:
    entries = filled(chain, 0, 0, 0)
    assert all(one.waiting for one in entries)
    assert seqs(chain) == [1, 2, 3]
    assert not any(one.waiting or one.next for one in entries)
    filled(chain, 0)
    assert seqs(chain) == [1]


def test_given_back_stand_where_they_were(chain: Chain) -> None:
    filled(chain, *[0] * 8)
    taken = [take(chain) for _ in range(6)]
    chain.put_back([taken[3]])
    chain.put_back([taken[1]])
    chain.put_back([taken[5], taken[4]])
    chain.put_back([taken[2], taken[0]])
    assert all(one.waiting for one in taken)
    assert seqs(chain) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_given_back_in_pieces_oldest_first(chain: Chain) -> None:
    filled(chain, *[0] * 6)
    taken = [take(chain) for _ in range(6)]
    chain.put_back(taken[:2])
    chain.put_back(taken[2:4])
    chain.put_back(taken[4:])
    assert seqs(chain) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_entry_is_removed_from_anywhere(chain: Chain, at: int) -> None:
    entries = filled(chain, 0, 0, 0)
    chain.forget(entries[at], 2)
    assert not entries[at].waiting
    assert seqs(chain) == [seq for seq in (1, 2, 3) if seq != at + 1]
    chain.append(entry(4))
    assert seqs(chain) == [4]


def test_all_are_removed_and_others_come(chain: Chain) -> None:
    entries = filled(chain, 0, 0, 0)
    for left, one in zip((2, 1, 0), reversed(entries), strict=True):
        chain.forget(one, left)
    assert chain.first() is None
    chain.append(entry(9))
    assert seqs(chain) == [9]


def test_entry_is_appended_behind_one_that_was_removed(chain: Chain) -> None:
    entries = filled(chain, 0, 0)
    chain.forget(entries[1], 1)
    chain.append(entry(3))
    assert seqs(chain) == [1, 3]


@pytest.mark.parametrize("at", [0, 1])
def test_entry_that_was_given_back_is_removed(chain: Chain, at: int) -> None:
    filled(chain, 0, 0, 0)
    taken = [take(chain), take(chain)]
    chain.put_back(taken)
    chain.forget(taken[at], 2)
    assert seqs(chain) == [2 - at, 3]


def test_all_that_were_given_back_are_removed(chain: Chain) -> None:
    entries = filled(chain, 0, 0, 0, 0)
    taken = [take(chain), take(chain)]
    chain.put_back(taken)
    for left, one in ((3, taken[0]), (2, taken[1]), (1, entries[2])):
        chain.forget(one, left)
    assert seqs(chain) == [4]


def test_many_removed_are_swept_out(chain: Chain) -> None:
    entries = filled(chain, *[0] * 3000)
    taken = [take(chain), take(chain), take(chain)]
    chain.put_back(taken)
    for at in range(1, 2501):
        chain.forget(entries[at], 3000 - at)
    assert entries[1400].next is None, "a tombstone still holds what follows"
    assert seqs(chain) == [1, *range(2502, 3001)]
    chain.append(entry(3001))
    assert seqs(chain) == [3001]


def test_detached_chain_is_empty_and_goes_on(chain: Chain) -> None:
    entries = filled(chain, 0, 0, 0, 0)
    back = take(chain)
    chain.put_back([back])
    chain.forget(entries[3], 3)
    *_, head = chain.detach()
    assert head is entries[1]
    assert chain.first() is None
    unchain(head)
    assert [one.next for one in entries] == [None] * 4
    chain.append(entry(5))
    assert seqs(chain) == [5]


def test_long_chain_is_let_go_without_overflowing_the_stack(chain: Chain) -> None:
    filled(chain, *[0] * 200_000)
    del chain


# Priorities


def test_highest_goes_first() -> None:
    chain = Priorities(10)
    filled(chain, 0, 5, 10, 5, 0, 10)
    assert seqs(chain) == [3, 6, 2, 4, 1, 5]


def test_more_than_the_limit_is_the_limit() -> None:
    chain = Priorities(2)
    filled(chain, 0, 2, 255, 1)
    assert seqs(chain) == [2, 3, 4, 1]


def test_higher_one_comes_while_others_wait() -> None:
    chain = Priorities(5)
    filled(chain, 1, 1)
    assert take(chain).seq == 1
    chain.append(entry(3, 4))
    assert seqs(chain) == [3, 2]


def test_given_back_go_to_their_level() -> None:
    chain = Priorities(5)
    filled(chain, 0, 5, 0, 5)
    taken = [take(chain) for _ in range(3)]
    assert [one.seq for one in taken] == [2, 4, 1]
    chain.put_back(taken)
    assert seqs(chain) == [2, 4, 1, 3]


def test_removed_from_a_level() -> None:
    chain = Priorities(5)
    entries = filled(chain, 0, 5, 0, 5)
    chain.forget(entries[2], 3)
    chain.forget(entries[1], 2)
    assert seqs(chain) == [4, 1]


def test_each_level_is_detached() -> None:
    chain = Priorities(5)
    entries = filled(chain, 0, 5, 0, 5)
    assert chain.detach() == [entries[0], entries[1]]
    assert chain.first() is None


def test_part_of_it_is_shown(chain: Chain) -> None:
    """SPEC §9.4: a peek shows some of what waits, and leaves it."""
    filled(chain, 0, 0, 0, 0, 0, 0)
    first, second = take(chain), take(chain)
    chain.put_back([first, second])
    third = chain.entries()[2]
    chain.forget(third, 5)
    assert [one.seq for one in chain.span(0, 3)] == [1, 2, 4]
    assert [one.seq for one in chain.span(1, 2)] == [2, 4]
    assert [one.seq for one in chain.span(0, 1)] == [1]
    assert [one.seq for one in chain.span(3, 10)] == [5, 6]
    assert chain.span(5, 1) == chain.span(0, 0) == []
    assert seqs(chain) == [1, 2, 4, 5, 6]


def test_highest_priority_is_shown_first() -> None:
    """SPEC §9.4, §4.3."""
    chain = Priorities(2)
    filled(chain, 0, 2, 1, 2)
    assert [one.seq for one in chain.span(1, 2)] == [4, 3]
