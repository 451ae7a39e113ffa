"""SPEC §1.5: who guesses is slowed, who knows the password is not."""

import pytest

from leveret.broker.login_guard import REMEMBERED_MAX, LoginGuard, network

HERE, THERE = "192.0.2.1", "198.51.100.7"


def fail(guard: LoginGuard, times: int, address: str = HERE, name: str = "shop", now: int = 0) -> None:
    for _ in range(times):
        guard.count(address, name, False, now)


def test_up_to_the_limit_nothing_is_slowed() -> None:
    guard = LoginGuard(3)
    fail(guard, 2)
    assert guard.wait_ms(HERE, "shop", 0) == 0
    fail(guard, 1)
    assert guard.wait_ms(HERE, "shop", 0) == 1001
    assert guard.refused == 1


def test_the_smallest_limit_is_one() -> None:
    guard = LoginGuard(1)
    assert guard.wait_ms(HERE, "shop", 0) == 0
    fail(guard, 1)
    assert guard.wait_ms(HERE, "shop", 0) > 0


def test_without_a_limit_nothing_is_remembered() -> None:
    guard = LoginGuard(0)
    fail(guard, 1000)
    assert (guard.wait_ms(HERE, "shop", 0), guard.refused) == (0, 0)


def test_a_failure_is_forgotten_after_a_second() -> None:
    guard = LoginGuard(2)
    fail(guard, 2)
    assert guard.wait_ms(HERE, "shop", 999) > 0
    assert guard.wait_ms(HERE, "shop", 1000) == 0
    fail(guard, 1, now=1000)
    assert guard.wait_ms(HERE, "shop", 1000) > 0


def test_what_was_refused_unread_is_no_failure() -> None:
    """However often a client tries meanwhile, it does not wait the longer."""
    guard = LoginGuard(1)
    fail(guard, 1)
    waits = {guard.wait_ms(HERE, "shop", 0) for _ in range(100)}
    assert len(waits) == 1


def test_an_address_is_slowed_whatever_names_it_tries() -> None:
    guard = LoginGuard(3)
    for number in range(3):
        fail(guard, 1, name=f"user-{number}")
    assert guard.wait_ms(HERE, "another", 0) > 0
    assert guard.wait_ms(THERE, "another", 0) == 0


def test_a_name_is_slowed_from_wherever_it_is_tried() -> None:
    """With five times as many failures: one address alone cannot keep a user out."""
    guard = LoginGuard(3)
    for number in range(14):
        fail(guard, 1, address=f"192.0.2.{number}")
    assert guard.wait_ms(THERE, "shop", 0) == 0
    fail(guard, 1, address="192.0.2.99")
    assert guard.wait_ms(THERE, "shop", 0) > 0
    assert guard.wait_ms(THERE, "another", 0) == 0


def test_who_has_logged_in_there_is_not_slowed_by_others() -> None:
    """Behind one address, and under one name."""
    guard = LoginGuard(3)
    guard.count(HERE, "good", True, 0)
    fail(guard, 3, name="bad")
    assert guard.wait_ms(HERE, "bad", 0) > 0
    assert guard.wait_ms(HERE, "good", 0) == 0
    for number in range(20):
        fail(guard, 1, address=f"198.51.100.{number}", name="good")
    assert guard.wait_ms(THERE, "good", 0) > 0
    assert guard.wait_ms(HERE, "good", 0) == 0


def test_who_has_logged_in_there_is_slowed_by_its_own_failures() -> None:
    guard = LoginGuard(3)
    guard.count(HERE, "good", True, 0)
    fail(guard, 3, name="good")
    assert guard.wait_ms(HERE, "good", 0) > 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "", True),
        ("no address", "no address", True),
    ],
)
def test_which_addresses_count_as_one(one: str, other: str, same: bool) -> None:
    assert (network(one) == network(other)) is same


def test_not_more_is_remembered_than_the_limit() -> None:
    """Whoever tries ever new names and addresses does not fill the memory, and does not wash away who tries on."""
    guard = LoginGuard(1)
    for number in range(REMEMBERED_MAX):
        fail(guard, 1, address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", name=str(number))
        fail(guard, 1)
    assert len(guard._failures) == REMEMBERED_MAX
    assert guard.wait_ms(HERE, "shop", 0) > 0
