"""Rates and samples: how they are kept, how they are told, and what it costs."""

import itertools
import sys
import time

import pytest
from tests.management.amqp import channel_of, soon
from tests.management.support import Http, Running

from leveret.management import rates, statistics
from leveret.management.rates import BASIC, BRIEF, GLOBAL, SAMPLE_MS, History, with_rates
from leveret.management.statistics import Statistics
from leveret.server.clock import now_ms
from leveret.server.config import Config
from leveret.server.node import Node

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
    monkeypatch.setattr(rates, "now_ms", lambda: 9_998_766)
    query = {"msg_rates_age": "20", "msg_rates_incr": "10", "lengths_age": "5", "lengths_incr": "5"}
    found = with_rates({"publish": 100, "messages": 7}, sampled(3), query)
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
    flat = with_rates({"publish": 9}, None, query)["publish_details"]
    assert [one["sample"] for one in flat["samples"]] == [9, 9, 9]


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


def test_rates_and_samples_of_a_vhost(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: what is published shows in the rates of its vhost and of the whole, and in the samples."""
    path = f"/api/vhosts/{http.quoted(vhost)}"
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")

        def busy() -> bool:
            channel.basic_publish("", "q", b"x")
            return bool(http.get(path)["message_stats"].get("publish_details", {"rate": 0})["rate"] > 0)

        assert soon(busy)
        assert http.get("/api/overview")["message_stats"]["publish_details"]["rate"] > 0
        found = http.get(f"{path}?msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5")
        details = found["message_stats"]["publish_details"]
        assert len(details["samples"]) == 13
        assert details["samples"][0]["sample"] > details["samples"][-1]["sample"]
        assert {before["timestamp"] - after["timestamp"] for before, after in _pairs(details["samples"])} == {5_000}
        assert set(details) == {"avg", "avg_rate", "rate", "samples"}
        assert len(found["messages_details"]["samples"]) == 13


def _pairs(samples: list[dict[str, int]]) -> list[tuple[dict[str, int], dict[str, int]]]:
    return list(itertools.pairwise(samples))


@pytest.fixture
def node() -> Node:
    return Node(Config(port=0, storage="memory"))


def round_of(sampler: Statistics) -> float:
    """One whole round; the longest slice in seconds of processor time."""
    longest = 0.0
    going = sampler._sample_all()
    while True:
        start = time.thread_time()
        end = start + statistics.SLICE_S
        for _ in going:
            if time.thread_time() >= end:
                break
        else:
            return max(longest, time.thread_time() - start)
        longest = max(longest, time.thread_time() - start)


def test_only_what_is_active_has_a_history_and_only_as_long_as_it_is_there(node: Node) -> None:
    """SPEC §9.1: nothing is allocated for a queue that nobody uses, and nothing is left of one that is gone."""
    vhost = node.broker.find_vhost("/")
    sampler = Statistics(node)
    idle, busy = vhost.declare_queue("idle"), vhost.declare_queue("busy")
    busy.tally.publish = 10
    vhost.exchanges["amq.fanout"].tally.publish_in = 5
    round_of(sampler)
    assert sampler.of(idle) is None
    history = sampler.of(busy)
    assert history is not None
    assert history.rate("publish") == 2.0
    assert sampler.of(vhost.exchanges["amq.fanout"]) is not None
    assert sampler.of(vhost.exchanges["amq.direct"]) is None
    vhost.delete_queue("busy", None)
    round_of(sampler)
    assert sampler.of(busy) is None


def test_of_very_many_objects_only_a_minute_is_kept(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §9.1: memory is bounded."""
    monkeypatch.setattr(statistics, "FULL_MAX", 3)
    sampler = Statistics(node)
    queues = [node.broker.find_vhost("/").declare_queue(f"q{number}") for number in range(5)]
    for queue in queues:
        queue.tally.publish = 1
    round_of(sampler)
    kept = [len(found.rings) for queue in queues if (found := sampler.of(queue)) is not None]
    assert kept == [len(BASIC)] * 3 + [len(BRIEF)] * 2


def test_ten_thousand_queues_hold_the_loop_for_a_few_milliseconds_only(node: Node) -> None:
    """SPEC §9.1: sampling is spread."""
    vhost = node.broker.find_vhost("/")
    for number in range(10_000):
        vhost.declare_queue(f"q{number}").tally.publish = number
    sampler = Statistics(node)
    round_of(sampler)
    assert min(round_of(sampler) for _ in range(3)) < 0.01


def test_idle_since_is_when_something_changed_last(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §9.1: an object that does something is not idle."""
    sampler = Statistics(node)
    queue = node.broker.find_vhost("/").declare_queue("q")
    assert sampler.idle_since(queue, 42) == 42
    queue.tally.publish = 1
    start = now_ms()
    round_of(sampler)
    assert sampler.idle_since(queue, 42) is None
    monkeypatch.setattr(statistics, "now_ms", lambda: start + 60_000)
    assert start <= (sampler.idle_since(queue, 42) or 0) < start + 10_000
