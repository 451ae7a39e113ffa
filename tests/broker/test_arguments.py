"""Queue arguments: the values they take, the texts of refusals, and what they say together with policies."""

from __future__ import annotations

import re
from typing import Any

import pytest

from leveret.broker.arguments import (
    CHECKS,
    EXPIRY_MAX_MS,
    ONLY_CLASSIC,
    ONLY_QUORUM,
    QueueSettings,
    check_queue_arguments,
    check_quorum_properties,
    queue_settings_of,
    queue_type,
)
from leveret.errors import NotImplementedFault, PreconditionFailed
from leveret.wire.values import Byte, Short, SignedInt, Table, Timestamp, UnsignedByte, UnsignedInt, UnsignedShort, Value

TITLE = "queue 'q' in vhost '/'"


def check(arguments: Table) -> None:
    check_queue_arguments(arguments, TITLE)


def refused(name: str, fault: str) -> Any:
    return pytest.raises(PreconditionFailed, match=re.escape(f"invalid arg '{name}' for {TITLE}: {fault}") + "$")


GOOD: list[tuple[str, Value]] = [
    ("x-expires", 1),
    ("x-expires", EXPIRY_MAX_MS),
    ("x-message-ttl", 0),
    ("x-message-ttl", EXPIRY_MAX_MS),
    ("x-dead-letter-exchange", ""),
    ("x-dead-letter-strategy", "at-most-once"),
    ("x-dead-letter-strategy", "at-least-once"),
    ("x-max-length", 0),
    ("x-max-length-bytes", 2**40),
    ("x-max-priority", 0),
    ("x-max-priority", 255),
    ("x-overflow", "drop-head"),
    ("x-overflow", "reject-publish"),
    ("x-overflow", "reject-publish-dlx"),
    ("x-queue-mode", "default"),
    ("x-queue-mode", "lazy"),
    ("x-queue-version", 1),
    ("x-queue-version", 2),
    ("x-single-active-consumer", True),
    ("x-single-active-consumer", False),
    ("x-queue-type", "classic"),
    ("x-queue-type", "quorum"),
    ("x-queue-leader-locator", "client-local"),
    ("x-queue-leader-locator", "balanced"),
    ("x-queue-master-locator", "min-masters"),
    ("x-delivery-limit", 0),
    ("x-message-deduplication", True),
    ("x-cache-size", 10),
    ("x-cache-ttl", 1000),
    ("x-ha-policy", "all"),
    ("x-ha-policy", "nodes"),
    ("x-ha-nodes", ["a", "b"]),
    ("x-nobody-knows", -1),
    ("x-nobody-knows", None),
]


@pytest.mark.parametrize(("name", "value"), GOOD)
def test_value_is_taken(name: str, value: Value) -> None:
    check({name: value})


@pytest.mark.parametrize("kind", [int, Byte, UnsignedByte, Short, UnsignedShort, SignedInt, UnsignedInt])
def test_integers_of_every_width_are_taken(kind: type[int]) -> None:
    check({"x-max-length": kind(10)})


@pytest.mark.parametrize(
    ("value", "kind"),
    [("10", "longstr"), (True, "bool"), (1.5, "double"), (None, "void"), (Timestamp(5), "timestamp"), ([1], "array")],
)
@pytest.mark.parametrize(
    "name", ["x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-delivery-limit"]
)
def test_number_must_be_an_integer(name: str, value: Value, kind: str) -> None:
    with refused(name, f'"expected integer, got {kind}"'):
        check({name: value})


@pytest.mark.parametrize(
    "name",
    [
        "x-expires",
        "x-message-ttl",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-max-priority",
        "x-queue-version",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-cache-size",
        "x-cache-ttl",
    ],
)
def test_number_must_not_be_negative(name: str) -> None:
    with refused(name, "{value_negative,-1}"):
        check({name: -1})


@pytest.mark.parametrize("name", ["x-expires", "x-message-ttl", "x-cache-ttl"])
def test_time_has_a_bound(name: str) -> None:
    with refused(name, "{value_too_large,315360000001}"):
        check({name: EXPIRY_MAX_MS + 1})


BAD: list[tuple[str, Value, str]] = [
    ("x-expires", 0, "{value_zero,0}"),
    ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
    ("x-max-priority", 256, "{max_value_exceeded,256}"),
    ("x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("x-queue-version", "2", '"expected integer, got longstr"'),
    ("x-single-active-consumer", 1, "{unacceptable_type,long}"),
    ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
    ("x-message-deduplication", "yes", "{unacceptable_type,longstr}"),
    ("x-dead-letter-exchange", 1, "{unacceptable_type,long}"),
    ("x-dead-letter-strategy", "twice", "invalid_dlx_strategy"),
    ("x-overflow", "explode", "invalid_overflow"),
    ("x-overflow", 5, "{unacceptable_type,long}"),
    ("x-queue-mode", "hasty", "\"unsupported queue mode 'hasty'\""),
    ("x-queue-type", "heap", "\"unsupported queue type 'heap'\""),
    ("x-queue-type", 1, "{unacceptable_type,long}"),
    ("x-queue-leader-locator", "nearest", "invalid_queue_locator_arg"),
    ("x-queue-master-locator", 1, "{unacceptable_type,long}"),
    ("x-ha-policy", "some", "invalid_ha_policy"),
    ("x-ha-nodes", "a", "{unacceptable_type,longstr}"),
    ("x-ha-nodes", ["a", 1], "{unacceptable_type,array}"),
    ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("x-dead-letter-routing-key", 1, "{unacceptable_type,long}"),
]


@pytest.mark.parametrize(("name", "value", "fault"), BAD)
def test_value_is_refused(name: str, value: Value, fault: str) -> None:
    with refused(name, fault):
        check({name: value})


def test_dead_letter_key_needs_its_exchange() -> None:
    check({"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"})
    with refused("x-dead-letter-routing-key", "{unacceptable_type,long}"):
        check({"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": 1})


def test_every_argument_is_tried_here() -> None:
    assert set(CHECKS) == {name for name, _ in GOOD if name != "x-nobody-knows"} | {name for name, *_ in BAD} | set(
        ONLY_QUORUM
    )


def test_streams_are_not_there() -> None:
    with pytest.raises(NotImplementedFault, match=r"^stream queues$"):
        check({"x-queue-type": "stream", "x-max-length": "bad"})


@pytest.mark.parametrize("name", ONLY_QUORUM)
def test_only_quorum_queues_have_it(name: str) -> None:
    check({"x-queue-type": "quorum", name: 5})
    with pytest.raises(PreconditionFailed, match=f"^invalid arg '{name}' for {TITLE} of queue type rabbit_classic_queue$"):
        check({name: 5})


@pytest.mark.parametrize("name", ONLY_CLASSIC)
def test_only_classic_queues_have_it(name: str) -> None:
    value: Value = {"x-queue-mode": "lazy", "x-queue-master-locator": "random"}.get(name, 2)
    check({name: value})
    with pytest.raises(PreconditionFailed, match=f"^invalid arg '{name}' for {TITLE} of queue type rabbit_quorum_queue$"):
        check({"x-queue-type": "quorum", name: value})


@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "name"),
    [(False, False, False, "non-durable"), (True, True, False, "exclusive-owner"), (True, False, True, "auto-delete")],
)
def test_quorum_queue_is_durable_and_for_all(durable: bool, exclusive: bool, auto_delete: bool, name: str) -> None:
    check_quorum_properties(TITLE, durable=True, exclusive=False, auto_delete=False)
    with pytest.raises(PreconditionFailed, match=f"^invalid property '{name}' for {TITLE}$"):
        check_quorum_properties(TITLE, durable, exclusive, auto_delete)


def test_queue_is_classic_unless_it_says_otherwise() -> None:
    assert queue_type({}) == "classic"
    assert queue_type({"x-queue-type": "quorum"}) == "quorum"


# QueueSettings


def said(settings: QueueSettings) -> dict[str, Any]:
    """What differs from a queue without arguments."""
    plain = QueueSettings()
    return {
        name: getattr(settings, name) for name in QueueSettings.__slots__ if getattr(settings, name) != getattr(plain, name)
    }


def test_no_arguments_say_nothing() -> None:
    assert said(queue_settings_of({}, {}, {})) == {}
    assert queue_settings_of({}, {}, {}).overflow == "drop-head"


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("x-message-ttl", 0, "message_ttl_ms"),
        ("x-expires", 5, "expires_ms"),
        ("x-max-length", 0, "max_length"),
        ("x-max-length-bytes", 7, "max_bytes"),
        ("x-delivery-limit", 3, "delivery_limit"),
        ("x-dead-letter-exchange", "", "dead_letter_exchange"),
        ("x-dead-letter-routing-key", "k", "dead_letter_routing_key"),
        ("x-overflow", "reject-publish", "overflow"),
        ("x-max-priority", 9, "max_priority"),
        ("x-single-active-consumer", True, "single_active_consumer"),
        ("x-message-deduplication", True, "deduplicates"),
    ],
)
def test_argument_says_one_thing(name: str, value: Value, field: str) -> None:
    found = said(queue_settings_of({name: value}, {}, {}))
    # A queue that limits deliveries also tells of them.
    assert found.pop("counts_deliveries", None) is (True if field == "delivery_limit" else None)
    assert found == {field: value}


NUMBERS = [
    ("message-ttl", "message_ttl_ms"),
    ("expires", "expires_ms"),
    ("max-length", "max_length"),
    ("max-length-bytes", "max_bytes"),
    ("delivery-limit", "delivery_limit"),
]


@pytest.mark.parametrize(("key", "field"), NUMBERS)
@pytest.mark.parametrize("values", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_smallest_number_counts(key: str, field: str, values: tuple[int, int, int]) -> None:
    argument, policy, operator = values
    assert getattr(queue_settings_of({f"x-{key}": argument}, {key: policy}, {key: operator}), field) == 1
    assert getattr(queue_settings_of({}, {key: policy}, {}), field) == policy
    assert getattr(queue_settings_of({}, {}, {key: operator}), field) == operator


def test_deliveries_are_counted_where_they_are_limited_or_the_queue_is_a_quorum() -> None:
    assert queue_settings_of({"x-queue-type": "quorum"}, {}, {}).counts_deliveries
    assert queue_settings_of({"x-delivery-limit": 3}, {}, {}).counts_deliveries
    assert queue_settings_of({}, {"delivery-limit": 3}, {}).counts_deliveries
    assert not queue_settings_of({}, {}, {}).counts_deliveries


@pytest.mark.parametrize(
    ("key", "field"),
    [("dead-letter-exchange", "dead_letter_exchange"), ("dead-letter-routing-key", "dead_letter_routing_key")],
)
def test_argument_goes_before_policy(key: str, field: str) -> None:
    assert said(queue_settings_of({f"x-{key}": "a"}, {key: "b"}, {key: "c"})) == {field: "a"}
    assert said(queue_settings_of({}, {key: "b"}, {key: "c"})) == {field: "b"}


@pytest.mark.parametrize(
    ("kind", "argument", "policy", "operator", "overflow"),
    [
        # SPEC §7.6 policies, overflow: a classic queue's argument goes first, then the operator's policy.
        ("classic", "reject-publish", "drop-head", None, "reject-publish"),
        ("classic", "reject-publish", "drop-head", "reject-publish-dlx", "reject-publish"),
        ("classic", None, "drop-head", "reject-publish", "reject-publish"),
        ("classic", None, "reject-publish-dlx", None, "reject-publish-dlx"),
        ("classic", None, None, None, "drop-head"),
        # A quorum queue's argument goes behind both.
        ("quorum", "reject-publish", "drop-head", None, "drop-head"),
        ("quorum", "drop-head", "drop-head", "reject-publish", "reject-publish"),
        ("quorum", "reject-publish", None, None, "reject-publish"),
    ],
)
def test_who_goes_first_for_overflow(
    kind: str, argument: str | None, policy: str | None, operator: str | None, overflow: str
) -> None:
    arguments: Table = {"x-queue-type": kind}
    if argument is not None:
        arguments = {**arguments, "x-overflow": argument}
    by_policy: Table = {} if policy is None else {"overflow": policy}
    by_operator: Table = {} if operator is None else {"overflow": operator}
    assert queue_settings_of(arguments, by_policy, by_operator).overflow == overflow
