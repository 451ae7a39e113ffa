"""How fast one client may fill storage: alone as it likes, in company by a pace that leaves the others their part."""

import pytest

from leveret.server.pace import AT_ONCE_S, COMPANY_S, FASTEST, Company, Pace


def heard_by_turns(clients: list[str], count: int) -> bool:
    """Let them be heard one after the other; whether there is company in the end."""
    company = Company()
    for moment in range(count):
        company.heard(clients[moment % len(clients)], moment * COMPANY_S / 4)
    return company.present(count * COMPANY_S / 4)


def test_company() -> None:
    """One alone has none, and a publisher with its consumer has none either."""
    assert not heard_by_turns(["one"], 20)
    assert not heard_by_turns(["one", "two"], 20)
    assert heard_by_turns(["one", "two", "three"], 20)


def test_company_leaves() -> None:
    company = Company()
    for client in ("one", "two", "three"):
        company.heard(client, 1.0)
    assert company.present(1.0)
    company.heard("three", 1.0 + COMPANY_S)
    assert not company.present(1.0 + COMPANY_S)


def test_within_the_pace() -> None:
    """A client that gives less than it may is never early."""
    pace = Pace()
    for moment in range(1000):
        assert pace.ahead_s(int(FASTEST * 0.0009), 1.0 + moment * 0.001) <= 0


def test_beyond_the_pace() -> None:
    """One that waits as long as it is early gives what it may, whatever the size of its pieces."""
    for size in (1000, 400_000, 5_000_000):
        pace = Pace()
        now = 1.0
        for _ in range(100):
            now += max(0.0, pace.ahead_s(size, now))
        assert 100 * size / FASTEST == pytest.approx(now - 1.0 + AT_ONCE_S, abs=AT_ONCE_S)


def test_nothing_is_saved_up() -> None:
    """A client that was idle has the same burst as any other."""
    pace = Pace()
    pace.ahead_s(1, 1.0)
    assert pace.ahead_s(int(FASTEST), 1000.0) == pytest.approx(1.0 - AT_ONCE_S)
