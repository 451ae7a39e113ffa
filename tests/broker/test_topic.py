"""Topic matching: a table, hostile patterns, and random ones against a naive matcher."""

from __future__ import annotations

import timeit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.broker.binding import Binding
from leveret.broker.queue import Queue
from leveret.broker.topic import Node, TopicExchange, words_of
from leveret.broker.work import Work

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def topic() -> TopicExchange:
    return TopicExchange("x", "exchange 'x' in vhost '/'", "topic", {})


def new_queue(name: str) -> Queue:
    return Queue(name, f"queue '{name}' in vhost '/'", Work(), {})


def bound(*patterns: str) -> TopicExchange:
    """An exchange with a queue for each pattern, named after it."""
    exchange = topic()
    for pattern in patterns:
        exchange.bind(Binding(exchange, new_queue(pattern), pattern, {}))
    return exchange


def matched(exchange: TopicExchange, key: str) -> list[str]:
    found = exchange.match(key, None)
    return sorted(queue.name for queue in found if isinstance(queue, Queue))


def matches(pattern: str, key: str) -> bool:
    return matched(bound(pattern), key) == [pattern]


def split(key: str) -> list[str]:
    return key.split(".") if key else []


def naive(pattern: list[str], key: list[str]) -> bool:
    """The definition, tried out recursively."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(naive(pattern[1:], key[at:]) for at in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and naive(pattern[1:], key[1:])


TABLE = [
    # RabbitMQ's fifth tutorial
    ("*.orange.*", "quick.orange.rabbit", True),
    ("*.*.rabbit", "quick.orange.rabbit", True),
    ("lazy.#", "quick.orange.rabbit", False),
    ("*.orange.*", "lazy.orange.elephant", True),
    ("lazy.#", "lazy.orange.elephant", True),
    ("*.orange.*", "quick.orange.fox", True),
    ("lazy.#", "lazy.brown.fox", True),
    ("*.*.rabbit", "lazy.pink.rabbit", True),
    ("*.orange.*", "quick.brown.fox", False),
    ("*.orange.*", "orange", False),
    ("*.orange.*", "quick.orange.new.rabbit", False),
    ("lazy.#", "lazy.orange.new.rabbit", True),
    ("lazy.#", "lazy", True),
    # RabbitMQ's bindings documentation and its tests of the topic exchange
    ("regions.na.cities.*", "regions.na.cities.toronto", True),
    ("regions.na.cities.*", "regions.na.cities", False),
    ("audit.events.#", "audit.events.users.signup", True),
    ("audit.events.#", "audit.events", True),
    ("a.b.c", "a.b.c", True),
    ("a.*.c", "a.b.c", True),
    ("a.#.b", "a.b", True),
    ("a.b.b.c", "a.b.b.c", True),
    ("", "", True),
    ("a.*", "a.b", True),
    ("*.*", "a.b", True),
    ("a.#", "a", True),
    ("a.#.#", "a", True),
    ("*.#", "a", True),
    ("*.#", "", False),
    ("#.a", "a", True),
    ("#.#.a", "b.a", True),
    ("#.*.#", "a", True),
    ("#.#.#", "", True),
    ("*.a.b.c.d", "a.b.c.d", False),
    ("#.b", "a.b", True),
    ("a.*.b.*", "a.c.b.d", True),
    ("a.b.c", "a.b", False),
    ("*.*.*", "a.b", False),
    # `#` alone
    ("#", "a", True),
    ("#", "a.b.c", True),
    ("#", ".", True),
    ("*", "a", True),
    ("*", "a.b", False),
    # an empty key has no word, but empty words are words
    ("*", "", False),
    ("#.*", "", False),
    ("#", "", True),
    ("", "a", False),
    ("a", "", False),
    ("*.*", ".", True),
    ("a.*", "a.", True),
    ("a.", "a.", True),
    ("a.", "a", False),
    (".a", ".a", True),
    ("a..b", "a..b", True),
    ("a.*.b", "a..b", True),
    ("a..b", "a.x.b", False),
    ("a.#", "a.", True),
    (".", "", False),
    # adjacent hashes
    ("a.#.#.b", "a.b", True),
    ("a.#.#.b", "a.x.b", True),
    ("a.#.#.b", "a.x.y.z.b", True),
    ("a.#.#.b", "a.b.c", False),
    ("a.#.*.b", "a.b", False),
    ("a.#.*.b", "a.x.b", True),
    ("a.*.#.b", "a.x.b", True),
    ("#.*.#.*.#", "a", False),
    ("#.*.#.*.#", "a.b", True),
    # wildcards are whole words only
    ("a*", "ab", False),
    ("a#", "a.b", False),
    ("a*", "a*", True),
    ("#b.c", "b.c", False),
    # wildcards in a key are plain words
    ("a.*", "a.*", True),
    ("a.b", "a.*", False),
    ("a.b", "#", False),
    ("*", "#", True),
    # longest repetitions
    ("#.a.b", "a.b.a.b", True),
    ("#.a.b", "a.b.a", False),
    ("a.#.a", "a", False),
    ("a.#.a", "a.a", True),
    ("Ж.*", "Ж.щ", True),
]


@pytest.mark.parametrize(("pattern", "key", "fits"), TABLE)
def test_pattern_and_key(pattern: str, key: str, fits: bool) -> None:
    assert matches(pattern, key) is fits


def test_table_agrees_with_the_naive_matcher() -> None:
    for pattern, key, fits in TABLE:
        assert naive(split(pattern), split(key)) is fits, (pattern, key)


def test_all_patterns_of_the_table_at_once() -> None:
    patterns = sorted({pattern for pattern, _, _ in TABLE})
    exchange = bound(*patterns)
    for key in {key for _, key, _ in TABLE}:
        assert matched(exchange, key) == [p for p in patterns if naive(split(p), split(key))]


def test_adjacent_hashes_are_stored_as_one() -> None:
    """SPEC §3.5 adjacent hashes."""
    assert words_of("a.#.#.#.b.#") == ["a", "#", "b", "#"]
    assert words_of("#.#") == ["#"]
    assert words_of("") == []
    assert words_of(".") == ["", ""]
    assert words_of("#.*.#") == ["#", "*", "#"]


def test_destination_is_reached_once_by_a_pattern_bound_twice() -> None:
    exchange, queue = topic(), new_queue("q")
    bindings = [Binding(exchange, queue, "a.#", {"n": number}) for number in (1, 2)]
    for binding in bindings:
        exchange.bind(binding)
    assert exchange.match("a.b", None) == [queue]
    exchange.unbind(bindings[0])
    assert exchange.match("a.b", None) == [queue]
    exchange.unbind(bindings[1])
    assert exchange.match("a.b", None) == []


def test_patterns_of_adjacent_hashes_do_not_take_each_other_away() -> None:
    exchange, queue = topic(), new_queue("q")
    one, two = Binding(exchange, queue, "a.#", {}), Binding(exchange, queue, "a.#.#", {})
    exchange.bind(one)
    exchange.bind(two)
    exchange.unbind(one)
    assert exchange.match("a", None) == [queue]
    exchange.unbind(two)
    assert exchange.match("a", None) == []


def test_unbound_patterns_leave_nothing_behind() -> None:
    exchange = bound("a.b.c", "a.b", "a.*", "a.#", "#", "*.b", "a.#.c")
    for binding in list(exchange.bindings.values()):
        exchange.unbind(binding)
    for pattern in ("a.b", "", "a", "a.b.c"):
        assert exchange.match(pattern, None) == []
    exchange.bind(Binding(exchange, new_queue("again"), "a.b", {}))
    assert matched(exchange, "a.b") == ["again"]


def test_nodes_grow_and_are_cut() -> None:
    root = Node()
    assert root.empty
    for word in ("a", "*", "#"):
        assert root.child(word) is None
        node = root.grow(word)
        assert root.grow(word) is node is root.child(word)
        assert node.is_hash is (word == "#")
        states = [root.empty]
        root.cut(word)
        states.append(root.empty)
        assert states == [False, True]


def test_hostile_patterns_are_matched() -> None:
    """SPEC §3.5 never exponential: tried out naively, each of these takes time exponential in its number of hashes."""
    hashes, pairs, stars, missing = (
        "a" + ".#" * 60 + ".b",
        "a" + ".#.a" * 20 + ".b",
        "*.#" + ".*.#" * 20,
        "#.a" * 30 + ".#.z",
    )
    exchange = bound(hashes, pairs, stars, missing)
    key = ".".join(["a"] * 127)
    assert matched(exchange, key + ".c") == [stars]
    assert matched(exchange, key + ".b") == sorted([hashes, pairs, stars])


def cost(pattern: str, key: str) -> float:
    """Seconds to match, the least of a few tries."""
    exchange = bound(pattern)
    return min(timeit.repeat(lambda: exchange.match(key, None), number=3, repeat=5))


@pytest.mark.parametrize("repeated", ["#.a.", "*.#.", "#.a.*."])
def test_cost_grows_with_the_pattern_and_not_faster(repeated: str) -> None:
    """SPEC §3.5 never exponential: four times the pattern, about four times the nodes for each of the key's words."""
    key = ".".join(["a"] * 128 + ["b"])
    assert cost(repeated * 24 + "#.c", key) < 40 * cost(repeated * 6 + "#.c", key)


word = st.sampled_from(["a", "b", "c", ""])
keys = st.lists(word, min_size=1, max_size=7).map(".".join)
patterns = st.lists(st.one_of(word, st.sampled_from(["*", "#"])), min_size=1, max_size=6).map(".".join)


@calm
@given(st.lists(patterns, min_size=1, max_size=12, unique=True), st.lists(keys, min_size=1, max_size=8), st.data())
def test_random_patterns_against_the_naive_matcher(bindings: list[str], some_keys: list[str], data: st.DataObject) -> None:
    exchange = bound(*bindings)
    left = list(bindings)
    for key in some_keys:
        assert matched(exchange, key) == sorted(p for p in left if naive(split(p), split(key)))
        take_away: bool = data.draw(st.booleans())
        if left and take_away:
            gone = left.pop(data.draw(st.integers(0, len(left) - 1)))
            exchange.unbind(next(b for b in exchange.bindings.values() if b.routing_key == gone))
