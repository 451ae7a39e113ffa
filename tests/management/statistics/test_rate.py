"""Rates and samples: how they are kept, and how they are shown."""

import itertools
import sys
from typing import Any

import pytest

from leveret.management.statistics import rate
from leveret.management.statistics.history import BASIC, GLOBAL, SAMPLE_MS, History
from leveret.management.statistics.rate import with_rates

NAMES = ("publish", "messages_ready", "messages_unacknowledged")


def sampled(count: int, policies: tuple[tuple[int, int], ...] = BASIC, end: int = 10_000_000) -> History:
    """A history of so many samples, the last at `end`: 50 messages more with each, and always 7 in the queue."""
    history = History(NAMES, policies)
    for at in range(count):
        history.sample(end - (count - 1 - at) * SAMPLE_MS, (at * 50, 4, 3))
    return history


def test_rate_is_that_of_the_last_two_samples() -> None:
    """SPEC §9.1: `publish_details: {rate}`; lengths have rates too, and sums of what is kept."""
    found = with_rates({"publish": 100, "messages": 7}, sampled(3))
    assert found == {"publish": 100, "publish_details": {"rate": 10.0}, "messages": 7, "messages_details": {"rate": 0.0}}
    assert with_rates({"publish": 5, "unknown": 1}, sampled(1)) == {
        "publish": 5,
        "publish_details": {"rate": 0.0},
        "unknown": 1,
        "unknown_details": {"rate": 0.0},
    }
    assert with_rates({"publish": 5}) == {"publish": 5, "publish_details": {"rate": 0.0}}


def test_first_sample_is_a_rate_already() -> None:
    """SPEC §9.1: five seconds before, nothing had been counted; but the queue was as long as it is."""
    history = History(NAMES, BASIC)
    history.begin(100_000, (50, 4, 3))
    assert (history.rate("publish"), history.rate("messages_ready")) == (10.0, 0.0)


def test_samples_are_told_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §9.1: age and step choose the ring; avg, avg_rate and samples are added; before the first stands the first."""
    monkeypatch.setattr(rate, "now_ms", lambda: 9_998_766)
    query = {"msg_rates_age": "20", "msg_rates_incr": "10", "lengths_age": "5", "lengths_incr": "5"}
    found: dict[str, Any] = with_rates({"publish": 100, "messages": 7}, sampled(3), query)
    assert found["publish_details"] == {
        "avg": 100 / 3,
        "avg_rate": 5.0,
        "rate": 10.0,
        "samples": [
            {"sample": 100, "timestamp": 10_000_000},
            {"sample": 0, "timestamp": 9_990_000},
            {"sample": 0, "timestamp": 9_980_000},
        ],
    }
    assert [one["sample"] for one in found["messages_details"]["samples"]] == [7, 7]
    flat: dict[str, Any] = with_rates({"publish": 9}, None, query)
    assert [one["sample"] for one in flat["publish_details"]["samples"]] == [9, 9, 9]


@pytest.mark.parametrize(
    "query", [{"msg_rates_age": "60"}, {"msg_rates_age": "x", "msg_rates_incr": "5"}, {"lengths_age": "0"}]
)
def test_without_age_and_step_there_are_no_samples(query: dict[str, str]) -> None:
    """SPEC §9.1: both are needed."""
    assert with_rates({"publish": 1}, sampled(3), query)["publish_details"] == {"rate": 10.0}


def test_a_day_of_samples_is_kept_in_fixed_memory() -> None:
    """SPEC §9.1: 5 s for 10 minutes, a minute for an hour, 10 minutes for 8 hours, half an hour for a day."""
    history = sampled(2 * 17_280, GLOBAL, 200_000_000)
    assert [(ring.interval_ms, len(ring.times)) for ring in history.rings] == [
        (5_000, 122),
        (60_000, 62),
        (600_000, 50),
        (1_800_000, 49),
    ]
    for ring in history.rings:
        times, values = ring.series([0])
        assert times == sorted(times)
        assert {after - before for before, after in itertools.pairwise(times)} == {ring.interval_ms}
        assert values == sorted(values)
    assert history.ring_for(60_000).interval_ms == 5_000
    assert history.ring_for(3_600_000).interval_ms == 60_000
    assert history.ring_for(86_400_000).interval_ms == 1_800_000
    size = sum(sys.getsizeof(ring.values) + sys.getsizeof(ring.times) for ring in history.rings)
    assert size < 20_000
