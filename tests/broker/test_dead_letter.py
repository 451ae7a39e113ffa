"""Dead letters: where they go, and the story of their deaths that goes with them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.dead_letter import as_dead_letter, is_cycle, record_death
from leveret.broker.dispatch import push
from leveret.broker.message import Entry, Message
from leveret.broker.queue import Queue
from leveret.broker.rewrite import carbon_copies, make_origin, rewritten
from leveret.broker.vhost import VirtualHost
from leveret.wire.content import body_of, properties_of
from leveret.wire.properties import Properties
from leveret.wire.values import Table, Timestamp, Value, kind_of

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter

NOW = 1_700_000_000_123


def take(queue: Queue) -> Entry:
    entry = queue.take(False)
    assert entry is not None
    return entry


def properties(message: Message) -> Properties:
    return properties_of(message.content, message.header_size)


def headers(message: Message) -> dict[str, Any]:
    return dict(properties(message).headers or {})


def body(message: Message) -> bytes:
    return body_of(message.content, message.header_size, message.body_size, message.frame_size)


def deaths(message: Message) -> list[tuple[str, str, int]]:
    return [(death["queue"], death["reason"], death["count"]) for death in headers(message)["x-death"]]


@pytest.fixture
def grave(vhost: VirtualHost) -> Queue:
    """A queue bound to the exchange `dlx` with any key."""
    vhost.declare_exchange("dlx", "fanout")
    queue = vhost.declare_queue("grave")
    vhost.bind("dlx", queue, "", {})
    return queue


def mortal(vhost: VirtualHost, name: str = "q", **more: Value) -> Queue:
    """A queue with that dead-letter exchange."""
    arguments: Table = {"x-dead-letter-exchange": "dlx", **{name.replace("_", "-"): value for name, value in more.items()}}
    return vhost.declare_queue(name, arguments=arguments)


# The four reasons


def test_rejected(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost)
    push(queue, letter(b"body", "key", "ex", content_type="text/plain", delivery_mode=2), NOW)
    later(NOW)
    queue.reject(take(queue))
    later(NOW)
    message = take(grave).message
    assert body(message) == b"body"
    assert (message.origin.exchange, message.origin.routing_key) == ("dlx", "key")
    assert message.origin.address == b"\x03dlx\x03key\xce"
    assert properties(message) == Properties(
        content_type="text/plain",
        delivery_mode=2,
        headers={
            "x-death": [
                {
                    "count": 1,
                    "reason": "rejected",
                    "queue": "q",
                    "time": Timestamp(1_700_000_000),
                    "exchange": "ex",
                    "routing-keys": ["key"],
                }
            ],
            "x-first-death-reason": "rejected",
            "x-first-death-queue": "q",
            "x-first-death-exchange": "ex",
            "x-last-death-reason": "rejected",
            "x-last-death-queue": "q",
            "x-last-death-exchange": "ex",
        },
    )
    (death,) = headers(message)["x-death"]
    assert {name: kind_of(value) for name, value in death.items()} == {
        "count": "long",
        "reason": "longstr",
        "queue": "longstr",
        "time": "timestamp",
        "exchange": "longstr",
        "routing-keys": "array",
    }


def test_expired(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost, x_message_ttl=100)
    push(queue, letter(), NOW)
    later(NOW + 100)
    message = take(grave).message
    assert deaths(message) == [("q", "expired", 1)]
    assert "original-expiration" not in headers(message)["x-death"][0]


def test_expired_by_its_own_time(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    """It must not expire again where it goes."""
    queue = mortal(vhost)
    push(queue, letter(), NOW)
    push(queue, letter(expiration="100"), NOW)
    later(NOW + 100)
    message = take(grave).message
    assert deaths(message) == [("q", "expired", 1)]
    assert headers(message)["x-death"][0]["original-expiration"] == "100"
    assert (properties(message).expiration, message.ttl_ms, queue.ready_count) == (None, -1, 1)


def test_expired_at_once(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    push(mortal(vhost, x_message_ttl=0), letter(), NOW)
    later(NOW)
    assert deaths(take(grave).message) == [("q", "expired", 1)]


def test_maxlen(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost, x_max_length=1)
    push(queue, letter(b"1"), NOW)
    push(queue, letter(b"2"), NOW)
    later(NOW)
    message = take(grave).message
    assert (body(message), deaths(message)) == (b"1", [("q", "maxlen", 1)])


def test_refused_by_a_full_queue(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost, x_max_length=1, x_overflow="reject-publish-dlx")
    assert push(queue, letter(b"1"), NOW)
    assert not push(queue, letter(b"2"), NOW)
    later(NOW)
    message = take(grave).message
    assert (body(message), deaths(message)) == (b"2", [("q", "maxlen", 1)])


def test_refused_and_not_dead_lettered(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost, x_max_length=0, x_overflow="reject-publish")
    assert not push(queue, letter(), NOW)
    later(NOW)
    assert grave.ready_count == 0


def test_delivery_limit(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost, x_delivery_limit=1)
    push(queue, letter(), NOW)
    queue.requeue([take(queue)])
    assert queue.ready_count == 1
    queue.requeue([take(queue)])
    later(NOW)
    assert (queue.ready_count, queue.unacked_count) == (0, 0)
    assert deaths(take(grave).message) == [("q", "delivery_limit", 1)]


def test_dead_letter_does_not_tell_how_often_it_was_given_back(
    vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later
) -> None:
    """RabbitMQ 3.10.8, from a quorum queue."""
    queue = mortal(vhost, x_delivery_limit=1)
    push(queue, letter(headers={"a": 1}), NOW)
    queue.requeue([take(queue)])
    entry = take(queue)
    assert headers(entry.message) == {"a": 1, "x-delivery-count": 1}
    queue.requeue([entry])
    later(NOW)
    dead = headers(take(grave).message)
    assert (dead["a"], "x-delivery-count" in dead) == (1, False)


def test_acknowledged_purged_and_deleted_messages_are_not_dead(
    vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later
) -> None:
    queue = mortal(vhost)
    for _ in range(3):
        push(queue, letter(), NOW)
    queue.settle(take(queue))
    held = take(queue)
    vhost.remove_queue(queue)
    queue.reject(held)
    later(NOW)
    assert grave.ready_count == 0


def test_many_go_in_pieces_and_in_order(vhost: VirtualHost, broker: Broker, grave: Queue, letter: NewLetter) -> None:
    queue = mortal(vhost, x_message_ttl=100)
    for number in range(3000):
        push(queue, letter(b"%d" % number), NOW)
    work = broker.work
    work.budget.now = NOW + 100
    work.budget.begin()
    broker.timers.run(work.budget.now, 10)
    count = 0
    while work:
        work.budget.begin()
        work.drain()
        count += 1
    assert count >= 3
    assert [body(entry.message) for entry in grave.backlog.front.entries()] == [b"%d" % number for number in range(3000)]


# Where they go


def test_no_exchange_of_that_name_loses_it(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost)
    push(queue, letter(), NOW)
    queue.reject(take(queue))
    later(NOW)
    assert (queue.ready_count, queue.unacked_count, len(queue.dead)) == (0, 0, 0)


def test_queue_without_dead_letter_exchange_drops(vhost: VirtualHost, broker: Broker, letter: NewLetter) -> None:
    queue = vhost.declare_queue("q")
    push(queue, letter(), NOW)
    queue.reject(take(queue))
    assert not broker.work
    assert len(queue.dead) == 0


def test_policy_removed_in_the_meantime_drops(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    queue = mortal(vhost)
    push(queue, letter(), NOW)
    queue.reject(take(queue))
    queue.settings.dead_letter_exchange = None
    later(NOW)
    assert grave.ready_count == 0


def test_default_exchange_with_a_new_key(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"}
    queue, other = vhost.declare_queue("q", arguments=arguments), vhost.declare_queue("other")
    push(queue, letter(headers={"CC": ["q2"]}), NOW)
    vhost.declare_queue("q2")
    queue.reject(take(queue))
    later(NOW)
    message = take(other).message
    assert (message.origin.exchange, message.origin.routing_key) == ("", "other")
    assert headers(message)["x-death"][0]["routing-keys"] == ["q", "q2"]
    assert "CC" not in headers(message)
    assert vhost.queues["q2"].ready_count == 0


def test_key_and_copies_are_kept(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    vhost.declare_exchange("dlx", "direct")
    for name in ("one", "two"):
        vhost.bind("dlx", vhost.declare_queue(name), name, {})
    queue = mortal(vhost)
    push(queue, letter(b"x", "one", "ex", headers={"CC": ["two"]}), NOW)
    queue.reject(take(queue))
    later(NOW)
    for name in ("one", "two"):
        message = take(vhost.queues[name]).message
        assert (message.origin.routing_key, headers(message)["CC"]) == ("one", ["two"])
        assert headers(message)["x-death"][0]["routing-keys"] == ["one", "two"]


def test_headers_exchange_sees_the_death(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    vhost.declare_exchange("dlx", "headers")
    queue, found = mortal(vhost), vhost.declare_queue("found")
    vhost.bind("dlx", found, "", {"x-match": "all-with-x", "x-first-death-reason": "rejected"})
    push(queue, letter(), NOW)
    queue.reject(take(queue))
    later(NOW)
    assert found.ready_count == 1


def test_key_that_no_message_can_carry_loses_it_and_no_other(
    vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later, caplog: pytest.LogCaptureFixture
) -> None:
    queue = mortal(vhost, x_dead_letter_routing_key="k" * 256)
    for _ in range(2):
        push(queue, letter(), NOW)
        queue.reject(take(queue))
    later(NOW)
    assert (grave.ready_count, len(queue.dead)) == (0, 0)
    assert "queue 'q' in vhost '/': a dead letter was dropped: short string of 256 octets" in caplog.text
    queue.settings.dead_letter_routing_key = "k" * 255
    push(queue, letter(), NOW)
    queue.reject(take(queue))
    later(NOW)
    assert grave.ready_count == 1


# Again and again


def test_second_death_in_the_same_queue_is_counted(
    vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later
) -> None:
    queue = mortal(vhost)
    push(queue, letter(), NOW)
    for passed in (0, 5000):
        later(NOW + passed)
        queue.reject(take(queue))
        later(NOW + passed)
        push(queue, take(grave).message, NOW)
    message = take(queue).message
    assert deaths(message) == [("q", "rejected", 2)]
    assert headers(message)["x-death"][0]["time"] == NOW // 1000


def test_newest_death_is_first(vhost: VirtualHost, grave: Queue, letter: NewLetter, later: Later) -> None:
    one, two = mortal(vhost, "one"), mortal(vhost, "two", x_message_ttl=10)
    push(one, letter(b"x", "k", "ex"), NOW)
    one.reject(take(one))
    later(NOW)
    push(two, take(grave).message, NOW)
    later(NOW + 10)
    message = take(grave).message
    assert deaths(message) == [("two", "expired", 1), ("one", "rejected", 1)]
    story = headers(message)
    assert [story[f"x-first-death-{fact}"] for fact in ("queue", "reason", "exchange")] == ["one", "rejected", "ex"]
    assert [story[f"x-last-death-{fact}"] for fact in ("queue", "reason", "exchange")] == ["two", "expired", "dlx"]
    push(one, message, NOW)
    one.reject(take(one))
    later(NOW + 10)
    assert deaths(take(grave).message) == [("one", "rejected", 2), ("two", "expired", 1)]


def test_message_does_not_go_round_by_itself(
    vhost: VirtualHost, letter: NewLetter, later: Later, caplog: pytest.LogCaptureFixture
) -> None:
    arguments: Table = {"x-dead-letter-exchange": "", "x-message-ttl": 10}
    queue = vhost.declare_queue("q", arguments=arguments)
    push(queue, letter(), NOW)
    with caplog.at_level(logging.WARNING):
        later(NOW + 10)
    assert queue.ready_count == 0
    push(queue, letter(), NOW)
    later(NOW + 20)
    # Said once, not for each message.
    assert [record.getMessage() for record in caplog.records] == [
        "queue 'q' in vhost '/': dead letters of queue 'q' in vhost '/' would go round for ever and are dropped"
    ]


WHOLE: dict[str, Any] = {
    "count": 4,
    "reason": "expired",
    "queue": "q",
    "time": Timestamp(5),
    "exchange": "",
    "routing-keys": ["q"],
}


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 5),
        ({"reason": None}, 1),
        ({"queue": 5}, 1),
        ({"exchange": 5}, 1),
        ({"time": "now"}, 1),
        ({"routing-keys": "q"}, 1),
    ],
)
def test_story_from_elsewhere(letter: NewLetter, change: dict[str, Any], count: int) -> None:
    """What is no death is left out."""
    message, _ = as_dead_letter(letter(headers={"x-death": [{**WHOLE, **change}]}), "expired", "q", "dlx", None, NOW)
    assert deaths(message) == [("q", "expired", count)]


def test_story_from_before_there_was_a_count(letter: NewLetter) -> None:
    """RabbitMQ's old versions wrote each death; they are counted."""
    old = {name: value for name, value in WHOLE.items() if name not in ("count", "time")}
    story: Value = [old, {**old, "queue": "p"}, old, old]
    message, _ = as_dead_letter(letter(headers={"x-death": story}), "expired", "q", "dlx", None, NOW)
    assert deaths(message) == [("q", "expired", 4), ("p", "expired", 1)]


def test_message_goes_round_two_queues_once(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    def arguments(other: str) -> Table:
        return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": other, "x-message-ttl": 10}

    one = vhost.declare_queue("one", arguments=arguments("two"))
    two = vhost.declare_queue("two", arguments=arguments("one"))
    push(one, letter(), NOW)
    later(NOW + 10)
    assert (one.ready_count, two.ready_count) == (0, 1)
    later(NOW + 20)
    assert (one.ready_count, two.ready_count) == (0, 0)


def test_rejected_message_may_come_back(vhost: VirtualHost, letter: NewLetter, later: Later) -> None:
    queue = vhost.declare_queue("q", arguments={"x-dead-letter-exchange": ""})
    push(queue, letter(), NOW)
    for count in (1, 2):
        queue.reject(take(queue))
        later(NOW)
        assert deaths(queue.backlog.front.entries()[0].message) == [("q", "rejected", count)]


@pytest.mark.parametrize(
    ("story", "cycle"),
    [
        ([], False),
        ([("other", "expired")], False),
        ([("q", "expired")], True),
        ([("q", "maxlen")], True),
        ([("q", "rejected")], False),
        ([("other", "expired"), ("q", "expired")], True),
        ([("other", "rejected"), ("q", "expired")], False),
        ([("q", "expired"), ("other", "rejected")], True),
    ],
)
def test_cycle_has_no_rejection_in_it(story: list[tuple[str, str]], cycle: bool) -> None:
    assert is_cycle("q", {"x-death": [{"queue": queue, "reason": reason} for queue, reason in story]}) is cycle


@pytest.mark.parametrize("headers", [{}, {"x-death": 5}, {"x-death": ["q"]}, {"x-death": None}])
def test_odd_stories_are_no_cycle(headers: Table) -> None:
    assert not is_cycle("q", headers)


# What clients may have written


@pytest.mark.parametrize("story", [5, "q", None, ["q", 5], {"queue": "q"}, 1.5])
def test_odd_story_is_replaced(story: Value) -> None:
    told: dict[str, Any] = {"x-death": story}
    record_death(told, "expired", "q", make_origin("ex", "k"), [], None, NOW)
    assert [(death["queue"], death["count"]) for death in told["x-death"]] == [("q", 1)]


@pytest.mark.parametrize(("count", "after"), [(4, 5), ("many", 1), (None, 1), (2**63 - 1, 2**63 - 1)])
def test_odd_count(letter: NewLetter, count: Value, after: int) -> None:
    whole: dict[str, Any] = {"time": Timestamp(5), "exchange": "", "routing-keys": ["q"]}
    story: Value = [{"queue": "q", "reason": "expired", "count": count, **whole}]
    message, _ = as_dead_letter(letter(headers={"x-death": story}), "expired", "q", "dlx", None, NOW)
    assert deaths(message) == [("q", "expired", after)]


def test_first_death_stays_as_it_was() -> None:
    told: dict[str, Any] = {}
    record_death(told, "expired", "q", make_origin("ex", "k"), [], "30", NOW)
    record_death(told, "rejected", "r", make_origin("", "r"), [], None, NOW)
    assert (told["x-first-death-queue"], told["x-last-death-queue"]) == ("q", "r")
    assert (told["x-first-death-reason"], told["x-first-death-exchange"]) == ("expired", "ex")


@pytest.mark.parametrize("deaths", [[], "none", 5, [{"queue": "q", "reason": "expired", "count": 2}]])
def test_first_death_of_what_says_that_it_has_died_is_not_told(deaths: Value) -> None:
    """SPEC §4.5 x-first-death: as on RabbitMQ only where there was no x-death, whatever it says."""
    told: dict[str, Any] = {"x-death": deaths}
    record_death(told, "expired", "q", make_origin("ex", "k"), [], None, NOW)
    assert [name for name in told if name.startswith("x-first-death")] == []
    assert told["x-death"][0]["queue"] == "q"


def test_first_death_that_a_client_has_written_is_overwritten() -> None:
    told: dict[str, Any] = {"x-first-death-queue": "far away"}
    record_death(told, "expired", "q", make_origin("ex", "k"), [], None, NOW)
    assert told["x-first-death-queue"] == "q"


def test_blind_copies_are_routed_again_and_again(letter: NewLetter) -> None:
    """SPEC §3.6 BCC: dead letters go by these keys too, unless their queue has one for them; nobody is told of them."""
    message = letter(b"")
    message.origin = make_origin("", "q", ("b", "c"))
    dead, keys = as_dead_letter(message, "rejected", "q", "dlx", None, NOW)
    assert (keys, dead.origin.blind) == (["q", "b", "c"], ("b", "c"))
    assert headers(dead)["x-death"][0]["routing-keys"] == ["q"]
    again, keys = as_dead_letter(dead, "expired", "r", "dlx", "own", NOW)
    assert (keys, again.origin.blind) == (["own"], ())


@pytest.mark.parametrize(
    ("headers", "keys"), [({}, []), ({"CC": ["a", "b"]}, ["a", "b"]), ({"CC": ["a", 5]}, ["a"]), ({"CC": "a"}, [])]
)
def test_copies_are_strings_in_a_list(headers: Table, keys: list[str]) -> None:
    assert carbon_copies(headers, "CC") == keys
    assert carbon_copies(headers, "BCC") == []


@pytest.mark.parametrize(("size", "frame_size"), [(0, 0), (0, 1), (5, 5), (5, 2)])
def test_message_is_written_anew(letter: NewLetter, size: int, frame_size: int) -> None:
    message = letter(b"", priority=7, headers={"a": 1}, expiration="5")
    message.body_size, message.frame_size = size, frame_size
    pieces = [b"abcde"[at : min(at + frame_size, size)] for at in range(0, size, frame_size or 1)]
    head = message.content[: message.header_size + 8]
    message.content = head + b"".join(b"\x03\0\0" + len(one).to_bytes(4, "big") + one + b"\xce" for one in pieces)
    again = rewritten(message, Properties(priority=9, type="t"), message.origin)
    assert (body(again), again.body_size, again.ttl_ms) == (b"abcde"[:size], size, -1)
    assert (properties(again), again.flags >> 24) == (Properties(priority=9, type="t"), 9)
