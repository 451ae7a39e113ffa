"""Policies: which one counts, what it says together with arguments, and how what is there follows a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.dispatch import cancel, push, subscribe
from leveret.broker.policy import OPERATOR_SETTINGS, SETTINGS, Policies, Policy
from leveret.broker.queue import Queue
from leveret.broker.timers import NEVER
from leveret.broker.upkeep import REAPPLY_PIECE, Reapply
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import PASS_BUDGET
from leveret.errors import NotFound, PreconditionFailed
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter, NewListener, NewMessage, Routes

NOW = 1_700_000_000_000


def lengths(*limits: int) -> Policies:
    """Policies for everything, each with its priority and a limit."""
    policies = Policies()
    for priority, limit in enumerate(limits):
        policies.set(Policy(f"p{limit}", "", {"max-length": limit}, priority))
    return policies


def ready(queue: Queue) -> list[int]:
    seqs = [entry.seq for entry in queue.backlog.front.entries()]
    assert len(seqs) == queue.ready_count
    return seqs


def fill(queue: Queue, letter: NewLetter, count: int, now: int = NOW) -> None:
    for _ in range(count):
        assert push(queue, letter(), now)


def following(queue: Queue) -> Policy | None:
    return queue.policy


@pytest.fixture
def queue(vhost: VirtualHost, broker: Broker) -> Queue:
    broker.work.now = NOW
    return vhost.declare_queue("q")


# Which one counts


def test_highest_priority_counts() -> None:
    """SPEC §7.6 priorities: of the policies that fit"""
    policies = lengths(1, 2, 3)
    policies.set(Policy("elsewhere", "^x", {"max-length": 4}, 9))
    found = policies.best("classic", "q")
    assert found is not None
    assert found.name == "p3"
    policies.clear("p3")
    found = policies.best("classic", "q")
    assert found is not None
    assert found.name == "p2"


def test_policy_takes_the_place_of_the_one_with_its_name() -> None:
    """SPEC §7.6 policies"""
    policies = lengths(1, 2)
    policies.set(Policy("p2", "^x", {"max-length": 5}))
    found = policies.best("classic", "q")
    assert found is not None
    assert (found.name, len(policies.by_name)) == ("p1", 2)
    assert Policies().best("classic", "q") is None


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        # SPEC §7.6 policies, apply-to
        ("all", ["exchange", "classic", "quorum"]),
        ("exchanges", ["exchange"]),
        ("queues", ["classic", "quorum"]),
        ("classic_queues", ["classic"]),
        ("quorum_queues", ["quorum"]),
        ("streams", []),
    ],
)
def test_policy_is_for_some_kinds(apply_to: str, kinds: list[str]) -> None:
    policy = Policy("p", "^a", {"max-length": 1}, apply_to=apply_to)
    assert [kind for kind in ("exchange", "classic", "quorum") if policy.fits(kind, "abc")] == kinds
    assert not any(policy.fits(kind, "bac") for kind in ("exchange", "classic", "quorum"))


@pytest.mark.parametrize(
    ("setting", "value", "kinds"),
    [
        # SPEC §7.6 policies, applicability: with a setting that a type of queue does not have, none of it is for that type
        ("ha-mode", "all", ["classic"]),
        ("ha-params", 2, ["classic"]),
        ("ha-sync-mode", "manual", ["classic"]),
        ("ha-promote-on-shutdown", "always", ["classic"]),
        ("ha-promote-on-failure", "always", ["classic"]),
        ("queue-master-locator", "min-masters", ["classic"]),
        ("queue-mode", "lazy", ["classic"]),
        ("queue-version", 2, ["classic", "quorum"]),
        ("dead-letter-strategy", "at-most-once", ["quorum"]),
        ("max-in-memory-length", 1, ["quorum"]),
        ("max-in-memory-bytes", 1, ["quorum"]),
        ("queue-leader-locator", "balanced", ["quorum"]),
        ("initial-cluster-size", 3, []),
        ("delivery-limit", 3, ["classic", "quorum"]),
        ("message-ttl", 3, ["classic", "quorum"]),
    ],
)
def test_policy_is_not_for_a_queue_that_has_no_such_thing(setting: str, value: Any, kinds: list[str]) -> None:
    policy = Policy("p", "", {setting: value, "max-length": 1})
    assert [kind for kind in ("classic", "quorum") if policy.fits(kind, "q")] == kinds
    assert policy.fits("exchange", "x")


# What is refused


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        # SPEC §7.6 policies, definition: RabbitMQ's texts
        ({}, "no policy provided"),
        ([], "no policy provided"),
        (["max-length"], 'definition must be a dictionary: [<<"max-length">>]'),
        ({"max-lenght": 5}, '[{<<"max-lenght">>,5}] are not recognised policy settings'),
        ({"max-length": 5, "a": "b"}, '[{<<"a">>,<<"b">>}] are not recognised policy settings'),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": "5"}, '<<"5">> is not a valid maximum length'),
        ({"max-length": True}, "true is not a valid maximum length"),
        ({"max-length": 1.5}, "1.5 is not a valid maximum length"),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"expires": "x"}, '<<"x">> is not a valid queue expiry'),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
        ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": 1}, "1 is not a valid dead letter routing key"),
        ({"dead-letter-strategy": "never"}, '<<"never">> is not a valid dead letter strategy'),
        ({"overflow": "burst"}, '<<"burst">> is not a valid overflow value'),
        ({"queue-mode": "eager"}, '<<"eager">> is not a valid queue-mode value'),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"queue-version": True}, "true is not a valid queue-version value"),
        ({"queue-leader-locator": "here"}, '<<"here">> is not a valid queue leader locator value'),
        ({"initial-cluster-size": -1}, "-1 is not a valid cluster size"),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"max-in-memory-bytes": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"ha-mode": "some"}, '<<"some">> is not a valid ha-mode value'),
    ],
)
def test_bad_definition_is_refused(vhost: VirtualHost, definition: Any, text: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        vhost.set_policy("p", "", definition)
    assert str(caught.value) == text
    assert vhost.policies.by_name == {}


GOOD: dict[str, list[Any]] = {
    # SPEC §7.6 policies, definition: every setting, with values it takes; SPEC §4.2 kept by policy
    "alternate-exchange": ["ae", ""],
    "consumer-timeout": [0, 1000],
    "dead-letter-exchange": ["dlx", ""],
    "dead-letter-routing-key": ["k", ""],
    "dead-letter-strategy": ["at-most-once", "at-least-once"],
    "delivery-limit": [0, 5],
    "expires": [1],
    "initial-cluster-size": [3],
    "max-in-memory-bytes": [0],
    "max-in-memory-length": [0],
    "max-length": [0, 1 << 40],
    "max-length-bytes": [0],
    "message-ttl": [0, 1000],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx"],
    "queue-leader-locator": ["client-local", "balanced", "random", "least-leaders"],
    "queue-master-locator": ["min-masters"],
    "queue-mode": ["default", "lazy"],
    "queue-version": [1, 2],
    "ha-mode": ["all", "exactly", "nodes"],
    "ha-params": [2, ["one@host"]],
    "ha-sync-mode": ["manual", "automatic"],
    "ha-sync-batch-size": [1],
    "ha-promote-on-shutdown": ["when-synced", "always"],
    "ha-promote-on-failure": ["when-synced", "always"],
}


def test_every_setting_is_tried_here() -> None:
    """SPEC §7.6 policies, definition"""
    assert set(GOOD) == set(SETTINGS)


@pytest.mark.parametrize("setting", GOOD)
def test_good_definition_is_taken(vhost: VirtualHost, setting: str) -> None:
    """SPEC §7.6 policies, definition"""
    for value in GOOD[setting]:
        vhost.set_policy("p", "", {setting: value})
        assert vhost.policies.by_name["p"].definition == {setting: value}
        if setting in OPERATOR_SETTINGS:
            vhost.set_operator_policy("o", "", {setting: value})
            assert vhost.operator_policies.by_name["o"].definition == {setting: value}


@pytest.mark.parametrize("setting", sorted(set(SETTINGS) - set(OPERATOR_SETTINGS)))
def test_operator_may_set_only_what_bounds(vhost: VirtualHost, setting: str) -> None:
    """SPEC §7.6 operator policies"""
    with pytest.raises(PreconditionFailed, match=r"are not recognised policy settings$"):
        vhost.set_operator_policy("p", "", {setting: "x"})
    assert vhost.operator_policies.by_name == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        # SPEC §7.6 policies: RabbitMQ's texts
        ({"pattern": "(a"}, "pattern should be regular expression but is invalid: missing ): (a"),
        ({"priority": "high"}, 'priority should be a number, actually was <<"high">>'),
        ({"priority": True}, "priority should be a number, actually was true"),
        (
            {"apply_to": "all_queues"},
            "apply-to 'all_queues' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', "
            "'streams', 'exchanges', or 'all'",
        ),
    ],
)
def test_bad_policy_is_refused(vhost: VirtualHost, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        vhost.set_policy(**{"name": "p", "pattern": "", "definition": {"max-length": 1}, **arguments})
    assert str(caught.value) == text


def test_clearing_what_is_not_there_is_refused(vhost: VirtualHost) -> None:
    """SPEC §7.6 policies"""
    for clear in (vhost.clear_policy, vhost.clear_operator_policy):
        with pytest.raises(NotFound, match=r"^policy 'p' not found$"):
            clear("p")


# Queues and exchanges follow


def test_queue_follows_and_is_restored(vhost: VirtualHost) -> None:
    """SPEC §7.6 policies: live queues, those of another name and the cleared policy"""
    queue = vhost.declare_queue("a.1", arguments={"x-max-length": 5})
    other = vhost.declare_queue("b.1")
    vhost.set_policy("p", "^a", {"max-length": 3, "dead-letter-exchange": "dlx"})
    assert (queue.traits.max_length, queue.traits.dead_letter_exchange) == (3, "dlx")
    assert following(queue) is vhost.policies.by_name["p"]
    assert (other.policy, other.traits.max_length, other.special) == (None, None, False)
    vhost.set_policy("p", "^a", {"max-length": 4})
    assert (queue.traits.max_length, queue.traits.dead_letter_exchange) == (4, None)
    vhost.clear_policy("p")
    assert following(queue) is None
    assert (queue.traits.max_length, queue.traits.dead_letter_exchange) == (5, None)


def test_cleared_policy_leaves_nothing_to_pay_for(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §7.6 policies"""
    vhost.set_policy("p", "", {"max-length": 1, "message-ttl": 1000})
    specials = [queue.special]
    vhost.clear_policy("p")
    assert [*specials, queue.special] == [True, False]
    fill(queue, letter, 3)
    assert [entry.expires_at for entry in queue.backlog.front.entries()] == [0, 0, 0]


def test_new_queue_and_exchange_follow_at_once(vhost: VirtualHost) -> None:
    """SPEC §7.6 policies: what is made later"""
    vhost.set_policy("p", "^a", {"max-length": 3, "alternate-exchange": "ae"})
    vhost.set_operator_policy("o", "^a", {"max-length": 2})
    queue = vhost.declare_queue("a")
    assert (queue.traits.max_length, queue.policy, queue.operator_policy) == (
        2,
        vhost.policies.by_name["p"],
        vhost.operator_policies.by_name["o"],
    )
    assert vhost.declare_exchange("a", "direct").alternate == "ae"
    assert vhost.declare_queue("b").traits.max_length is None


def test_operators_bound_is_not_exceeded(vhost: VirtualHost) -> None:
    """SPEC §7.6 operator policies: the smallest of argument, policy and operator's policy"""
    queue = vhost.declare_queue("q", arguments={"x-max-length": 10})
    vhost.set_operator_policy("o", "", {"max-length": 5})
    assert queue.traits.max_length == 5
    vhost.set_policy("p", "", {"max-length": 3})
    assert queue.traits.max_length == 3
    vhost.set_policy("p", "", {"max-length": 7})
    assert queue.traits.max_length == 5
    vhost.clear_operator_policy("o")
    assert queue.traits.max_length == 7


def test_arguments_go_before_policy_for_dead_letters(vhost: VirtualHost) -> None:
    """SPEC §4.2 dead-letter-exchange by policy and SPEC §4.2 dead-letter-routing-key by policy"""
    arguments: Table = {"x-dead-letter-exchange": "mine", "x-dead-letter-routing-key": "my key"}
    queue, other = vhost.declare_queue("q", arguments=arguments), vhost.declare_queue("other")
    vhost.set_policy("p", "", {"dead-letter-exchange": "dlx", "dead-letter-routing-key": "key"})
    assert (queue.traits.dead_letter_exchange, queue.traits.dead_letter_routing_key) == ("mine", "my key")
    assert (other.traits.dead_letter_exchange, other.traits.dead_letter_routing_key) == ("dlx", "key")


def test_overflow_changes_on_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §4.2 overflow by policy"""
    vhost.set_policy("p", "", {"max-length": 1, "overflow": "reject-publish"})
    fill(queue, letter, 1)
    assert not push(queue, letter(), NOW)
    vhost.set_policy("p", "", {"max-length": 1})
    fill(queue, letter, 1)
    assert ready(queue) == [2]


def test_delivery_limit_on_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §4.2 delivery-limit by policy"""
    fill(queue, letter, 1)
    vhost.set_policy("p", "", {"delivery-limit": 1})
    for left in (1, 0):
        entry = queue.take(False)
        assert entry is not None
        queue.requeue([entry])
        assert queue.ready_count == left


def test_alternate_exchange_by_policy(vhost: VirtualHost, broker: Broker, routes: Routes) -> None:
    """SPEC §3.3 alternate-exchange by policy, SPEC §7.6 live exchanges: arguments go before it, routes are forgotten."""
    vhost.declare_exchange("x", "direct")
    vhost.declare_exchange("own", "direct", arguments={"alternate-exchange": "amq.fanout"})
    vhost.bind("amq.topic", vhost.declare_queue("policy's"), "#", {})
    vhost.bind("amq.fanout", vhost.declare_queue("own"), "", {})
    assert routes("x") == []
    epoch = broker.epoch
    vhost.set_policy("p", "^(x|own)$", {"alternate-exchange": "amq.topic"}, apply_to="exchanges")
    assert (routes("x"), routes("own")) == (["policy's"], ["own"])
    assert broker.epoch > epoch
    vhost.clear_policy("p")
    assert (routes("x"), routes("own")) == ([], ["own"])


def test_default_exchange_has_no_alternate(vhost: VirtualHost, routes: Routes) -> None:
    """RabbitMQ 3.10.8: not even by a policy for everything."""
    vhost.bind("amq.fanout", vhost.declare_queue("q"), "", {})
    vhost.set_policy("p", "", {"alternate-exchange": "amq.fanout"})
    assert (routes("", "nowhere"), routes("amq.direct", "nowhere")) == ([], ["q"])


# Times to live


def test_waiting_messages_expire_a_ttl_after_the_change(
    vhost: VirtualHost, queue: Queue, broker: Broker, letter: NewLetter, later: Later
) -> None:
    """SPEC §4.2 message-ttl by policy, SPEC §7.6 live queues"""
    fill(queue, letter, 3)
    later(NOW + 5000)
    vhost.set_policy("p", "", {"message-ttl": 100})
    fill(queue, letter, 1, NOW + 5050)
    later(NOW + 5099)
    assert ready(queue) == [1, 2, 3, 4]
    later(NOW + 5100)
    assert ready(queue) == [4]
    later(NOW + 5150)
    assert (ready(queue), broker.timers.next_at()) == ([], NEVER)


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}])
@pytest.mark.parametrize("back_at", [50, 150])
def test_unacknowledged_messages_expire_too_when_they_come_back(
    vhost: VirtualHost, broker: Broker, letter: NewLetter, later: Later, arguments: Table, back_at: int
) -> None:
    """SPEC §7.6 policies, message-ttl: in time, though nobody asks for them"""
    later(NOW)
    queue = vhost.declare_queue("mortal", arguments=arguments)
    fill(queue, letter, 3)
    entries = [entry for entry in (queue.take(False), queue.take(False)) if entry is not None]
    vhost.set_policy("p", "", {"message-ttl": 100})
    later(NOW + back_at)
    queue.requeue(entries)
    fill(queue, letter, 1, NOW + back_at)
    later(max(NOW + 100, NOW + back_at))
    assert ready(queue) == [4]
    later(NOW + back_at + 100)
    assert (ready(queue), broker.timers.next_at()) == ([], NEVER)


def test_expired_message_is_not_given_to_a_consumer(
    vhost: VirtualHost, queue: Queue, letter: NewLetter, new_listener: NewListener, broker: Broker
) -> None:
    """SPEC §4.4 never to a consumer: expired messages, by policy either; no timer has run."""
    fill(queue, letter, 2)
    vhost.set_policy("p", "", {"message-ttl": 100})
    fill(queue, letter, 1, NOW + 50)
    broker.work.now = NOW + 100
    listener = new_listener()
    subscribe(queue, listener)
    assert listener.seqs == [3]


def test_longer_ttl_does_not_extend(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies, message-ttl: nor does its end; but the shorter counts."""
    fill(queue, letter, 2)
    vhost.set_policy("p", "", {"message-ttl": 100})
    later(NOW + 10)
    vhost.set_policy("p", "", {"message-ttl": 1000})
    fill(queue, letter, 1, NOW + 10)
    later(NOW + 100)
    assert ready(queue) == [3]
    vhost.set_policy("p", "", {"message-ttl": 50})
    vhost.clear_policy("p")
    fill(queue, letter, 1, NOW + 100)
    later(NOW + 150)
    assert ready(queue) == [4]
    later(NOW + 100_000)
    assert ready(queue) == [4]


def test_message_that_came_later_is_not_cut_by_what_was_before(
    vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later
) -> None:
    """SPEC §7.6 policies, message-ttl: each change is for what was there; one holds a message all the while."""
    fill(queue, letter, 2)
    held = queue.take(False)
    assert held is not None
    vhost.set_policy("p", "", {"message-ttl": 100})
    vhost.clear_policy("p")
    fill(queue, letter, 2)
    later(NOW + 100)
    assert ready(queue) == [3, 4]
    vhost.set_policy("p", "", {"message-ttl": 1000})
    fill(queue, letter, 1, NOW + 100)
    later(NOW + 1099)
    assert ready(queue) == [3, 4, 5]
    later(NOW + 1100)
    assert ready(queue) == []
    queue.requeue([held])
    later(NOW + 1100)
    assert (ready(queue), queue.ready_count) == ([], 0)


def test_time_of_its_own_counts_if_it_is_shorter(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies, message-ttl and expiration"""
    for expiration in ("50", "500"):
        push(queue, letter(expiration=expiration), NOW)
    vhost.set_policy("p", "", {"message-ttl": 100})
    later(NOW + 50)
    assert ready(queue) == [2]
    later(NOW + 100)
    assert ready(queue) == []


def test_ttl_of_zero_drops_what_waits(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies, message-ttl"""
    fill(queue, letter, 5)
    vhost.set_policy("p", "", {"message-ttl": 0})
    later(NOW)
    assert queue.ready_count == 0


def test_endless_times_are_ten_years(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies: numbers of any size, in both builds"""
    fill(queue, letter, 1)
    vhost.set_policy(
        "p", "", {"message-ttl": 1 << 80, "expires": 1 << 80, "max-length": 1 << 80, "max-length-bytes": 1 << 80}
    )
    fill(queue, letter, 1)
    later(NOW + 315_359_999_999)
    assert ready(queue) == [1, 2]
    later(NOW + 315_360_000_000)
    assert queue.deleted


def test_ttl_costs_nothing_by_how_many_wait(vhost: VirtualHost, queue: Queue, broker: Broker, message: NewMessage) -> None:
    """SPEC §8.8 nobody is starved: the change is one step, and the dropping keeps to the budget."""
    one = message()
    for _ in range(10_000):
        push(queue, one, NOW)
    broker.work.begin()
    vhost.set_policy("p", "", {"message-ttl": 100})
    assert broker.work.left > PASS_BUDGET - 200
    broker.work.now = NOW + 100
    broker.work.begin()
    broker.timers.run(NOW + 100, 1000)
    assert 10_000 - PASS_BUDGET <= queue.ready_count < 10_000


def test_expired_by_policy_is_dead_lettered(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §4.5: dead-lettering, all of it by policy"""
    grave = vhost.declare_queue("grave")
    vhost.bind("amq.fanout", grave, "", {})
    fill(queue, letter, 3)
    vhost.set_policy("p", "^q$", {"message-ttl": 100, "dead-letter-exchange": "amq.fanout"})
    later(NOW + 100)
    assert (queue.ready_count, grave.ready_count) == (0, 3)


# Lengths


def test_length_trims_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §4.2 max-length by policy: oldest first, and to the dead letters"""
    grave = vhost.declare_queue("grave")
    vhost.bind("amq.fanout", grave, "", {})
    fill(queue, letter, 5)
    vhost.set_policy("p", "^q$", {"max-length": 2, "dead-letter-exchange": "amq.fanout"})
    assert ready(queue) == [4, 5]
    later(NOW)
    assert grave.ready_count == 3


def test_bytes_trim_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §4.2 max-length-bytes by policy"""
    for size in (5, 5, 5):
        push(queue, letter(bytes(size)), NOW)
    vhost.set_policy("p", "", {"max-length-bytes": 11})
    assert (ready(queue), queue.ready_bytes) == ([2, 3], 10)


def test_a_queue_that_refuses_is_not_trimmed(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §7.6 policies, overflow: what is there stays."""
    fill(queue, letter, 5)
    vhost.set_policy("p", "", {"max-length": 2, "overflow": "reject-publish"})
    assert (queue.ready_count, push(queue, letter(), NOW)) == (5, False)


def test_million_messages_are_trimmed_in_pieces(
    vhost: VirtualHost, queue: Queue, broker: Broker, message: NewMessage
) -> None:
    """SPEC §8.8 nobody is starved: no pass drops more than its budget, and what comes meanwhile makes nothing grow."""
    one = message()
    for _ in range(1_000_000):
        push(queue, one, NOW)
    broker.work.begin()
    vhost.set_policy("p", "^q$", {"max-length": 10})
    count = queue.ready_count
    assert 1_000_000 - PASS_BUDGET <= count < 1_000_000
    for _ in range(5):
        broker.work.begin()
        broker.work.left = 0
        for _ in range(100):
            push(queue, one, NOW)
        assert queue.ready_count <= count
        broker.work.begin()
        assert not broker.work.drain()
        assert count - PASS_BUDGET - 1 <= queue.ready_count < count
        count = queue.ready_count
    while not broker.work.drain():
        broker.work.begin()
    assert queue.ready_count == 10
    push(queue, one, NOW)
    assert queue.ready_count == 10


# Leases


def test_expires_on_a_live_queue(vhost: VirtualHost, queue: Queue, later: Later) -> None:
    """SPEC §4.2 expires by policy: from the change on"""
    vhost.set_policy("p", "", {"expires": 100})
    later(NOW + 99)
    assert "q" in vhost.queues
    later(NOW + 100)
    assert "q" not in vhost.queues
    assert queue.deleted


def test_expires_that_is_cleared_or_changed_in_time(vhost: VirtualHost, queue: Queue, later: Later) -> None:
    """SPEC §7.6 policies, expires"""
    vhost.set_policy("p", "", {"expires": 100})
    later(NOW + 50)
    vhost.set_policy("p", "", {"expires": 1000})
    later(NOW + 1049)
    assert not queue.deleted
    vhost.clear_policy("p")
    later(NOW + 100_000)
    assert not queue.deleted
    vhost.set_policy("p", "", {"expires": 10})
    later(NOW + 100_010)
    assert queue.deleted


def test_queue_in_use_does_not_expire(vhost: VirtualHost, queue: Queue, later: Later, new_listener: NewListener) -> None:
    """SPEC §7.6 policies, expires: from the last consumer's end on"""
    listener = new_listener()
    subscribe(queue, listener)
    vhost.set_policy("p", "", {"expires": 100})
    later(NOW + 1000)
    assert not queue.deleted
    cancel(queue, listener)
    later(NOW + 1100)
    assert queue.deleted


# Many


def test_policy_reaches_ten_thousand_queues_in_pieces(vhost: VirtualHost, broker: Broker) -> None:
    """SPEC §8.8 nobody is starved: a piece of a policy is for so many queues and no more."""
    for number in range(10_000):
        vhost.declare_queue(str(number))
    broker.work.begin()

    def done() -> int:
        return sum(queue.policy is not None for queue in vhost.queues.values())

    vhost.set_policy("p", "", {"max-length": 5}, apply_to="queues")
    assert 0 < done() <= REAPPLY_PIECE
    new = vhost.declare_queue("new")
    assert new.traits.max_length == 5
    before = done()
    broker.work.begin()
    assert not broker.work.drain()
    assert before < done() <= before + REAPPLY_PIECE
    vhost.delete_queue("0", None)
    while not broker.work.drain():
        broker.work.begin()
    assert done() == len(vhost.queues) == 10_000
    assert all(queue.traits.max_length == 5 for queue in vhost.queues.values())


def test_policy_that_is_cleared_on_its_way_leaves_nothing(vhost: VirtualHost, broker: Broker) -> None:
    """SPEC §7.6 policies: the last word counts, however the pieces fall."""
    for number in range(1000):
        vhost.declare_queue(str(number))
    vhost.set_policy("p", "", {"max-length": 5})
    vhost.set_policy("p", "", {"max-length": 6})
    vhost.clear_policy("p")
    while not broker.work.drain():
        broker.work.begin()
    assert {queue.traits.max_length for queue in vhost.queues.values()} == {None}


def test_what_is_gone_meanwhile_follows_nothing(vhost: VirtualHost, broker: Broker) -> None:
    """SPEC §7.6 policies"""
    queue = vhost.declare_queue("q")
    task = Reapply(vhost)
    vhost.delete_queue("q", None)
    vhost.policies.set(Policy("p", "", {"max-length": 5}))
    assert task.run(broker.work)
    assert queue.policy is None
