"""Policies: which one counts, and what it says together with arguments."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.broker.policy import OPERATOR_POLICY_KEYS, POLICY_KEYS, Policies, Policy
from leveret.broker.vhost import VirtualHost
from leveret.errors import NotFound, PreconditionFailed


def lengths(*limits: int) -> Policies:
    """Policies for everything, each with its priority and a limit."""
    policies = Policies()
    for priority, limit in enumerate(limits):
        policies.put(Policy(f"p{limit}", "", {"max-length": limit}, priority))
    return policies


# Which one counts


def test_highest_priority_counts() -> None:
    """SPEC §7.6 priorities: of the policies that fit"""
    policies = lengths(1, 2, 3)
    policies.put(Policy("elsewhere", "^x", {"max-length": 4}, 9))
    found = policies.best("classic", "q")
    assert found is not None
    assert found.name == "p3"
    policies.remove("p3")
    found = policies.best("classic", "q")
    assert found is not None
    assert found.name == "p2"


def test_policy_takes_the_place_of_the_one_with_its_name() -> None:
    """SPEC §7.6 policies"""
    policies = lengths(1, 2)
    policies.put(Policy("p2", "^x", {"max-length": 5}))
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
        vhost.policies.set("p", "", definition)
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
    assert set(GOOD) == set(POLICY_KEYS)


@pytest.mark.parametrize("setting", GOOD)
def test_good_definition_is_taken(vhost: VirtualHost, setting: str) -> None:
    """SPEC §7.6 policies, definition"""
    for value in GOOD[setting]:
        vhost.policies.set("p", "", {setting: value})
        assert vhost.policies.by_name["p"].definition == {setting: value}
        if setting in OPERATOR_POLICY_KEYS:
            vhost.operator_policies.set("o", "", {setting: value})
            assert vhost.operator_policies.by_name["o"].definition == {setting: value}


@pytest.mark.parametrize("setting", sorted(set(POLICY_KEYS) - set(OPERATOR_POLICY_KEYS)))
def test_operator_may_set_only_what_bounds(vhost: VirtualHost, setting: str) -> None:
    """SPEC §7.6 operator policies"""
    with pytest.raises(PreconditionFailed, match=r"are not recognised policy settings$"):
        vhost.operator_policies.set("p", "", {setting: "x"})
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
        vhost.policies.set(**{"name": "p", "pattern": "", "definition": {"max-length": 1}, **arguments})
    assert str(caught.value) == text


def test_clearing_what_is_not_there_is_refused(vhost: VirtualHost) -> None:
    """SPEC §7.6 policies"""
    for clear in (vhost.policies.clear, vhost.operator_policies.clear):
        with pytest.raises(NotFound, match=r"^policy 'p' not found$"):
            clear("p")
