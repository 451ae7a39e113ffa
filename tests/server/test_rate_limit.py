"""How fast one client may fill storage: alone as it likes, among others at a rate that leaves them their part."""

import pytest

from leveret.server.rate_limit import ACTIVE_S, BURST_S, BYTES_A_SECOND, ActiveClients, RateLimit


def active_by_turns(clients: list[str], count: int) -> bool:
    """Let them send one after the other; whether more than two are active in the end."""
    active = ActiveClients()
    for moment in range(count):
        active.note(clients[moment % len(clients)], moment * ACTIVE_S / 4)
    return active.more_than_two(count * ACTIVE_S / 4)


def test_three_clients_are_more_than_two() -> None:
    """One alone is not limited, nor is a publisher with its consumer."""
    assert not active_by_turns(["one"], 20)
    assert not active_by_turns(["one", "two"], 20)
    assert active_by_turns(["one", "two", "three"], 20)


def test_third_client_leaves() -> None:
    active = ActiveClients()
    for client in ("one", "two", "three"):
        active.note(client, 1.0)
    assert active.more_than_two(1.0)
    active.note("three", 1.0 + ACTIVE_S)
    assert not active.more_than_two(1.0 + ACTIVE_S)


def test_within_the_rate() -> None:
    """A client that gives less than it may is never early."""
    limit = RateLimit()
    for moment in range(1000):
        assert limit.ahead_s(int(BYTES_A_SECOND * 0.0009), 1.0 + moment * 0.001) <= 0


def test_beyond_the_rate() -> None:
    """One that waits as long as it is early gives what it may, whatever the size of its pieces."""
    for size in (1000, 400_000, 5_000_000):
        limit = RateLimit()
        now = 1.0
        for _ in range(100):
            now += max(0.0, limit.ahead_s(size, now))
        assert 100 * size / BYTES_A_SECOND == pytest.approx(now - 1.0 + BURST_S, abs=BURST_S)


def test_nothing_is_saved_up() -> None:
    """A client that was idle has the same burst as any other."""
    limit = RateLimit()
    limit.ahead_s(1, 1.0)
    assert limit.ahead_s(int(BYTES_A_SECOND), 1000.0) == pytest.approx(1.0 - BURST_S)


def test_one_is_alone_when_nobody_else_was_read_for_a_while() -> None:
    active = ActiveClients()
    active.note("one", 1.0)
    assert not active.only_one(1.0 + ACTIVE_S * 0.9)
    active.note("one", 1.0 + ACTIVE_S)
    assert active.only_one(1.0 + ACTIVE_S)
    active.note("two", 1.1)
    active.note("one", 1.1 + ACTIVE_S)
    assert not active.only_one(1.1 + 2 * ACTIVE_S * 0.99)
    assert active.only_one(1.1 + 2 * ACTIVE_S)
