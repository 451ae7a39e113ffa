"""Who is in a cluster, and whether enough of them are heard from."""

import pytest

from leveret.cluster.members import CUT_OFF_S, HEARD_S, Member, Members, replicas_for


def member(number: int) -> Member:
    return Member(f"n{number}", f"id{number}", "127.0.0.1", number, number)


def members(count: int) -> Members:
    return Members(member(1), {f"n{number}": member(number) for number in range(1, count + 1)})


ENOUGH = [(0, 0, True), (1, 0, True), (2, 0, False), (2, 1, True), (3, 0, False), (3, 1, True), (5, 1, False), (5, 2, True)]


@pytest.mark.parametrize(("count", "heard", "enough"), ENOUGH)
def test_majority_is_more_than_half_of_all(count: int, heard: int, enough: bool) -> None:
    found = members(count)
    for number in range(2, heard + 2):
        found.heard(f"n{number}", 100.0)
    assert found.has_majority(100.0) is enough


def test_who_was_silent_for_too_long_is_missing() -> None:
    found = members(3)
    found.heard("n2", 100.0)
    found.heard("n3", 100.0)
    assert found.has_majority(100.0 + CUT_OFF_S)
    assert not found.has_majority(100.1 + CUT_OFF_S)
    assert found.heard_others(100.0 + HEARD_S) == ["n2", "n3"]
    assert found.missing(100.1 + HEARD_S) == ["n2", "n3"]
    found.heard("n2", 104.0)
    found.silent("n2")
    assert found.missing(104.0) == ["n2", "n3"]


@pytest.mark.parametrize(("count", "replicas"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5)])
def test_log_has_as_many_copies_as_can_be_of_use(count: int, replicas: int) -> None:
    assert replicas_for(count) == replicas
