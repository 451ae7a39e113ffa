"""The consistent hash exchange: shares by weight, and keys that stay where they are."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from leveret.broker.consistent_hash import WEIGHT_MAX, ConsistentHashExchange, Share, choose, hash_of
from leveret.broker.exchange import Exchange
from leveret.broker.vhost import VirtualHost
from leveret.errors import PreconditionFailed
from leveret.wire.properties import Properties
from leveret.wire.values import Byte, Float32, LongString, SignedInt, Table, Timestamp, UnsignedInt, Value

if TYPE_CHECKING:
    from tests.broker.conftest import Routes

WEIGHTS = (1, 2, 3, 4, 1, 2, 3, 4, 1, 2)
KEYS = [f"key.{number}" for number in range(100_000)]
VECTOR_HASHES = [16317348638040016837, 10745230369811173706, 14233423998853646453, 15403000786109957297]
VECTOR_CHOICES = "1787992393351573667601113656377767396943"
VECTOR_ENDS = (9, 1)


def hashing(vhost: VirtualHost, weights: tuple[int, ...] = WEIGHTS, **arguments: Value) -> Exchange:
    """An exchange with a queue for each weight: q0, q1 and so on."""
    table: Table = {name.replace("_", "-"): value for name, value in arguments.items()}
    exchange = vhost.declare_exchange("x", "x-consistent-hash", arguments=table)
    for number, weight in enumerate(weights):
        vhost.bind("x", vhost.declare_queue(f"q{number}"), str(weight), {})
    return exchange


def placed(exchange: Exchange, keys: list[str]) -> dict[str, str]:
    """The name of each key's queue."""
    return {key: exchange.match(key, None)[0].name for key in keys}  # type: ignore[attr-defined]


# Shares


def test_spread_is_within_five_percent_of_the_weights(vhost: VirtualHost) -> None:
    """SPEC §3.1 x-consistent-hash: 10 queues of weight 1 to 4, 100,000 keys."""
    counts = Counter(placed(hashing(vhost), KEYS).values())
    for number, weight in enumerate(WEIGHTS):
        assert counts[f"q{number}"] == pytest.approx(len(KEYS) * weight / sum(WEIGHTS), rel=0.05)


def test_every_key_has_exactly_one_queue(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.1 x-consistent-hash."""
    hashing(vhost)
    for key in ("", "a", "ż", "\udcff", "a" * 255):
        assert len(routes("x", key)) == 1
        assert routes("x", key) == routes("x", key)


def test_only_keys_of_a_queue_that_goes_move(vhost: VirtualHost) -> None:
    """SPEC §3.1 x-consistent-hash."""
    exchange, keys = hashing(vhost), KEYS[:20_000]
    before = placed(exchange, keys)
    vhost.remove_queue(vhost.queues["q3"])
    after = placed(exchange, keys)
    assert {key for key in keys if before[key] != after[key]} == {key for key in keys if before[key] == "q3"}


def test_keys_move_only_to_a_queue_that_comes(vhost: VirtualHost) -> None:
    """SPEC §3.1 x-consistent-hash."""
    exchange, keys = hashing(vhost), KEYS[:20_000]
    before = placed(exchange, keys)
    vhost.bind("x", vhost.declare_queue("new"), "3", {})
    after = placed(exchange, keys)
    moved = {key for key in keys if before[key] != after[key]}
    assert {after[key] for key in moved} == {"new"}
    assert len(moved) == pytest.approx(len(keys) * 3 / (sum(WEIGHTS) + 3), rel=0.1)
    vhost.remove_queue(vhost.queues["new"])
    assert placed(exchange, keys) == before, "and back again"


def test_more_weight_only_gains(vhost: VirtualHost) -> None:
    """SPEC §3.1 x-consistent-hash: a second binding of more weight takes keys from others and gives none away."""
    exchange, keys = hashing(vhost), KEYS[:20_000]
    before = placed(exchange, keys)
    vhost.bind("x", vhost.queues["q0"], "5", {})
    after = placed(exchange, keys)
    assert {after[key] for key in keys if before[key] != after[key]} == {"q0"}
    assert Counter(after.values())["q0"] == pytest.approx(len(keys) * 5 / (sum(WEIGHTS) + 4), rel=0.1)
    vhost.unbind("x", vhost.queues["q0"], "1", {}, None)
    assert placed(exchange, keys) == after


def test_order_of_binding_does_not_matter(vhost: VirtualHost) -> None:
    exchange, keys = hashing(vhost), KEYS[:5_000]
    before = placed(exchange, keys)
    for number, weight in reversed(list(enumerate(WEIGHTS))):
        vhost.unbind("x", vhost.queues[f"q{number}"], str(weight), {}, None)
        vhost.bind("x", vhost.queues[f"q{number}"], str(weight), {})
    assert placed(exchange, keys) == before


def test_both_builds_choose_the_same() -> None:
    """The vector: whoever changes it moves every key of everybody's."""
    assert [hash_of(value) for value in ("", "a", None, 1)] == VECTOR_HASHES
    shares = [Share(number, hash_of(["queue", f"q{number}"]), weight) for number, weight in enumerate(WEIGHTS)]
    chosen = [choose(hash_of(key), shares).destination for key in KEYS[:40]]
    assert "".join(str(number) for number in chosen) == VECTOR_CHOICES
    assert choose(0, shares).destination == VECTOR_ENDS[0]
    assert choose(0xFFFFFFFFFFFFFFFF, shares).destination == VECTOR_ENDS[1]


def test_scores_at_both_ends_are_numbers() -> None:
    """All 64 bits 0 or 1 after mixing: neither ln(0) nor ln(1)."""
    low = Share("low", 0, 1)
    assert choose(0, [low]) is low
    high = Share("high", 0, 1)
    assert choose(unmixed(0xFFFFFFFFFFFFFFFF), [high]) is high


def unmixed(value: int) -> int:
    """What `choose` mixes into this value."""
    mask = 0xFFFFFFFFFFFFFFFF
    value ^= value >> 31 ^ value >> 62
    value = value * pow(0x94D049BB133111EB, -1, 1 << 64) & mask
    value ^= value >> 27 ^ value >> 54
    value = value * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & mask
    return value ^ value >> 30 ^ value >> 60


# What is hashed


def test_route_by_routing_key_may_be_remembered(vhost: VirtualHost) -> None:
    assert not hashing(vhost).varies
    assert vhost.declare_exchange("h", "x-consistent-hash", arguments={"hash-header": "h"}).varies
    assert vhost.declare_exchange("p", "x-consistent-hash", arguments={"hash-property": "timestamp"}).varies


VALUES: list[Value] = [
    1, Byte(-1), UnsignedInt(7), True, 1.5, Float32(0.5), Decimal("1.5"), "text", LongString(b"\xff"), b"octets", None,
    Timestamp(5), [], [1, [2]], {}, {"a": {"b": 1}},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_header_of_any_type_is_hashed(vhost: VirtualHost, routes: Routes, value: Value) -> None:
    """SPEC §3.1 hash-header."""
    hashing(vhost, hash_header="h")
    found = routes("x", "a", {"h": value})
    assert len(found) == 1
    assert all(routes("x", key, {"h": value, "other": key}) == found for key in KEYS[:50]), "the routing key does not count"


def test_headers_are_spread(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.1 hash-header."""
    hashing(vhost, hash_header="h")
    assert len({routes("x", "a", {"h": number})[0] for number in range(500)}) == 10
    assert all(routes("x", "a", {"h": number}) == routes("x", "a", {"h": SignedInt(number)}) for number in range(50))


def test_messages_without_the_header_stay_together(vhost: VirtualHost, routes: Routes) -> None:
    hashing(vhost, hash_header="h")
    assert len({routes("x", key, headers)[0] for key in KEYS[:50] for headers in (None, {}, {"i": 1})}) == 1
    assert [queue.name for queue in vhost.route(vhost.exchange("x"), "", None)] == routes("x")


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_property_is_hashed(vhost: VirtualHost, name: str) -> None:
    """SPEC §3.1 hash-property."""
    exchange = hashing(vhost, hash_property=name)
    values = range(300) if name == "timestamp" else KEYS[:300]
    found = [exchange.match("a", Properties(**{name: value})) for value in values]  # type: ignore[arg-type]
    assert len({queue for (queue,) in found}) == 10
    assert found == [exchange.match("b", Properties(**{name: value})) for value in values]  # type: ignore[arg-type]
    assert exchange.match("a", Properties()) == exchange.match("b", None)


def test_first_of_several_routing_keys_decides(vhost: VirtualHost) -> None:
    hashing(vhost)
    assert vhost.router.route_all(vhost.exchange("x"), KEYS[:20], None) == vhost.route(vhost.exchange("x"), KEYS[0], None)


def test_exchanges_are_destinations_too(vhost: VirtualHost, routes: Routes) -> None:
    """SPEC §3.1 x-consistent-hash, to queues through another exchange."""
    vhost.declare_exchange("x", "x-consistent-hash")
    vhost.declare_exchange("q", "fanout")
    for name in ("q", "r"):
        vhost.declare_queue(name)
    vhost.bind("x", vhost.exchange("q"), "1", {})
    vhost.bind("x", vhost.queues["q"], "1", {})
    vhost.bind("q", vhost.queues["r"], "", {})
    assert {routes("x", key)[0] for key in KEYS[:50]} == {"q", "r"}, "queue and exchange of one name are told apart"


def test_without_bindings_it_leads_nowhere(vhost: VirtualHost, routes: Routes) -> None:
    hashing(vhost, ())
    assert routes("x", "a") == []


# Refusals


@pytest.mark.parametrize("key", ["1", "+1", "007", str(WEIGHT_MAX)])
def test_weight_is_a_whole_number(vhost: VirtualHost, routes: Routes, key: str) -> None:
    hashing(vhost, ())
    vhost.bind("x", vhost.declare_queue("q"), key, {})
    assert routes("x", "a") == ["q"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("a", 'The binding key must be an integer: <<"a">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("1\n", 'The binding key must be an integer: <<"1\\n">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("2147483649", "The binding key must not be greater than 2147483648"),
        ("9" * 255, "The binding key must not be greater than 2147483648"),
    ],
)
def test_other_weights_are_refused(vhost: VirtualHost, key: str, text: str) -> None:
    exchange = hashing(vhost, ())
    with pytest.raises(PreconditionFailed) as caught:
        vhost.bind("x", vhost.declare_queue("q"), key, {})
    assert str(caught.value) == text
    assert not exchange.bindings


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "h", "hash-property": "timestamp"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "user_id"}, "Unsupported property: user_id"),
        ({"hash-property": "headers"}, "Unsupported property: headers"),
        ({"hash-property": 1}, "Invalid argument, 'hash-property' must be a string"),
        ({"hash-header": []}, "Invalid argument, 'hash-header' must be a string"),
    ],
)
def test_other_arguments_are_refused(vhost: VirtualHost, arguments: Table, text: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        vhost.declare_exchange("x", "x-consistent-hash", arguments=arguments)
    assert str(caught.value) == text
    assert "x" not in vhost.exchanges


def test_exchange_alone_knows_its_arguments() -> None:
    assert ConsistentHashExchange("x", "", "x-consistent-hash", {"kept": 1}).arguments == {"kept": 1}
