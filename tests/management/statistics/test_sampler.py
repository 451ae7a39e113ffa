"""Samples of all objects: what has a history, for how long, and what it costs."""

import itertools
import time

import pytest
from tests.management.amqp import channel_of, soon
from tests.management.support import Http, Running

from leveret.management.statistics import sampler as sampling
from leveret.management.statistics.history import BASIC, BRIEF
from leveret.management.statistics.sampler import SLICE_S, Sampler
from leveret.server.clock import now_ms
from leveret.server.config import Config
from leveret.server.node import Node


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


def round_of(sampler: Sampler) -> float:
    """One whole round; the longest slice in seconds of processor time."""
    longest = 0.0
    going = sampler._sample_all()
    while True:
        start = time.thread_time()
        end = start + SLICE_S
        for _ in going:
            if time.thread_time() >= end:
                break
        else:
            return max(longest, time.thread_time() - start)
        longest = max(longest, time.thread_time() - start)


def test_only_what_is_active_has_a_history_and_only_as_long_as_it_is_there(node: Node) -> None:
    """SPEC §9.1: nothing is allocated for a queue that nobody uses, and nothing is left of one that is gone."""
    vhost = node.broker.find_vhost("/")
    sampler = Sampler(node)
    idle, busy = vhost.declare_queue("idle"), vhost.declare_queue("busy")
    busy.counters.publish = 10
    vhost.exchanges["amq.fanout"].counters.publish_in = 5
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
    monkeypatch.setattr(sampling, "FULL_MAX", 3)
    sampler = Sampler(node)
    queues = [node.broker.find_vhost("/").declare_queue(f"q{number}") for number in range(5)]
    for queue in queues:
        queue.counters.publish = 1
    round_of(sampler)
    kept = [len(found.rings) for queue in queues if (found := sampler.of(queue)) is not None]
    assert kept == [len(BASIC)] * 3 + [len(BRIEF)] * 2


def test_ten_thousand_queues_hold_the_loop_for_a_few_milliseconds_only(node: Node) -> None:
    """SPEC §9.1: sampling is spread."""
    vhost = node.broker.find_vhost("/")
    for number in range(10_000):
        vhost.declare_queue(f"q{number}").counters.publish = number
    sampler = Sampler(node)
    round_of(sampler)
    assert min(round_of(sampler) for _ in range(3)) < 0.01


def test_idle_since_is_when_something_changed_last(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §9.1: an object that does something is not idle."""
    sampler = Sampler(node)
    queue = node.broker.find_vhost("/").declare_queue("q")
    assert sampler.idle_since(queue, 42) == 42
    queue.counters.publish = 1
    start = now_ms()
    round_of(sampler)
    assert sampler.idle_since(queue, 42) is None
    monkeypatch.setattr(sampling, "now_ms", lambda: start + 60_000)
    assert start <= (sampler.idle_since(queue, 42) or 0) < start + 10_000
