"""How long is waited before a connection is tried again, and when it is given up; time is a number here."""

import pytest

from leveret.work.retry import Pause, Retry


def test_delays_double_up_to_five_minutes() -> None:
    """SPEC §10: 2 s up to 300 s; without an end if that is asked for."""
    retry = Retry(120_000, attempts=0, chance=lambda: 0.0)
    delays = [retry.delay_s(0.0) for _ in range(2000)]
    assert delays[:9] == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(delays[9:]) == {300}


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.999])
def test_jitter_adds_a_fifth_at_most(chance: float) -> None:
    retry = Retry(120_000, attempts=0, chance=lambda: chance)
    for wanted in (2, 4, 8, 16, 32, 64, 128):
        delay_s = retry.delay_s(0.0)
        assert delay_s == pytest.approx(wanted * (1 + 0.2 * chance))
        assert delay_s is not None
        assert wanted <= delay_s <= 1.2 * wanted


def test_jitter_differs_by_itself() -> None:
    assert len({Retry(1000).delay_s(0.0) for _ in range(20)}) > 1


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_so_many_failures_in_a_row_are_the_end(attempts: int) -> None:
    """SPEC §10: after 5 in a row, a setting, the thread ends."""
    retry = Retry(120_000, attempts, chance=lambda: 0.0)
    delays = [retry.delay_s(0.0) for _ in range(attempts)]
    assert delays == [2.0 * 2**n for n in range(attempts - 1)] + [None]


def test_five_is_the_default() -> None:
    retry = Retry(120_000)
    assert [retry.delay_s(0.0) is None for _ in range(5)] == [False] * 4 + [True]


def test_longer_listening_is_no_failure_and_counts_anew() -> None:
    """SPEC §10: MinListenTime; what ended sooner is a failure."""
    retry = Retry(120_000, chance=lambda: 0.0)
    assert [retry.delay_s(119.9) for _ in range(4)] == [2, 4, 8, 16]
    assert retry.delay_s(120.0) == 0
    assert retry.failures == 0
    assert [retry.delay_s(1.0) for _ in range(5)] == [2, 4, 8, 16, None]


def test_pauses_double_from_100_ms_to_5_s() -> None:
    """SPEC §10: after refusing for load."""
    pause = Pause()
    assert [round(pause.after_refusal(), 3) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    pause.over()
    assert pause.after_refusal() == 0.1
