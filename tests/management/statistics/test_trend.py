"""What samples come to in words."""

from leveret.management.statistics.history import BASIC, History
from leveret.management.statistics.trend import grown_in, growth_of, silent_since

NAMES = ("ack", "messages_ready", "messages_unacknowledged")
STEP = 5_000


def history(*rows: tuple[int, int, int]) -> History:
    """Samples 5 seconds apart, the first at 1,000,000 ms."""
    made = History(NAMES, BASIC)
    for at, row in enumerate(rows):
        made.sample(1_000_000 + at * STEP, row)
    return made


def test_queue_grows_since_it_last_shrank() -> None:
    """SPEC §9.4: since when a queue grows, and how fast it does now"""
    flat = [(0, 100, 0)] * 12
    grows = [(0, 100 + 50 * at, 0) for at in range(13)]
    growth = growth_of(history(*flat, *grows))
    assert growth is not None
    assert growth.since == 1_000_000 + 12 * STEP
    assert growth.rate == 10.0


def test_what_is_short_or_small_is_no_growth() -> None:
    assert growth_of(None) is None
    assert growth_of(history((0, 5, 0))) is None
    assert growth_of(history(*[(0, 100 * at, 0) for at in range(6)])) is None
    assert growth_of(history(*[(0, at, 0) for at in range(40)])) is None
    assert growth_of(history(*[(0, 1_000 - at, 0) for at in range(40)])) is None


def test_growth_within_a_time_counts_from_its_beginning() -> None:
    rows = history(*[(0, 10 * at, 0) for at in range(61)])
    assert grown_in(rows, 60_000) == 120
    assert grown_in(rows, 3_600_000) == 600
    assert grown_in(history(*[(0, 100 - at, 0) for at in range(61)]), 60_000) == -12
    assert grown_in(None, 60_000) == 0


def test_consumers_are_silent_since_their_last_acknowledgement() -> None:
    """SPEC §9.4: consumers that are stuck"""
    busy = [(at, 0, 5) for at in range(10)]
    still = [(9, 0, 5)] * 15
    assert silent_since(history(*busy, *still)) == 1_000_000 + 9 * STEP
    assert silent_since(history(*busy, *still[:8])) is None
    assert silent_since(history(*busy)) is None
    assert silent_since(history(*[(0, 50, 0)] * 30)) is None
    assert silent_since(None) is None
