"""Patterns that others wrote: what they match, which are refused, and that none takes long."""

import time

import pytest

from leveret.broker.patterns import PATTERN_MAX, BadPattern, Pattern, escaped


@pytest.mark.parametrize(
    ("text", "name", "matches"),
    [
        # SPEC §7.2 patterns: unanchored, as RabbitMQ's
        ("b", "abc", True),
        ("^b", "abc", False),
        ("b$", "abc", False),
        ("^abc$", "abc", True),
        (".*", "", True),
        ("", "", True),
        ("", "abc", True),
        ("^(a|b)\\.[0-9]+$", "b.17", True),
        ("(?i)ABC", "abc", True),
        ("^жук", "жуки", True),
        # SPEC §7.2 patterns: the one look-ahead that people write
        ("^(?!amq\\.).*", "orders", True),
        ("^(?!amq\\.).*", "amq.direct", False),
        ("^(?!amq\\.).*", "x.amq.direct", True),
        ("^(?!amq\\.).*", "amq", True),
        ("^(?!amq\\.)[a-z]+$", "Orders", False),
        ("^(?!(amq|sys)\\.).+$", "sys.x", False),
        ("^(?!(amq|sys)\\.).+$", "system", True),
        ("^(?!((a)|(b(c))))x?", "bc", False),
        ("^(?!((a)|(b(c))))x?", "b", True),
        ("^(?!a\\)b).*", "a)b", False),
        ("^(?!a\\)b).*", "ab", True),
        ("^(?!a[)(|]b).*", "a)b", False),
        ("^(?!a[)(|]b).*", "ab", True),
        ("^(?![])]).*", ")", False),
        ("^(?![^])]).*", "]", True),
        ("^(?![^])]).*", "x", False),
        ("^(?!)x", "x", False),
        # SPEC §7.2 patterns: it belongs to the alternative it stands in
        ("^(?!a)b|c", "ac", True),
        ("^(?!a)b|c", "a", False),
        ("^(?!a)b|c", "b", True),
        ("c|^(?!a)b", "ac", True),
        ("^(?!a).b|^(?!c).d", "ab", False),
        ("^(?!a).b|^(?!c).d", "ad", True),
        ("^(?!a)(b|c)", "ac", False),
    ],
)
def test_pattern_matches(text: str, name: str, matches: bool) -> None:
    pattern = Pattern(text)
    assert (pattern.matches(name), pattern.text) == (matches, text)


def test_empty_pattern_may_mean_nothing() -> None:
    """SPEC §7.2 patterns: a right to nothing; the default exchange and the empty key are nothing."""
    pattern = Pattern("", empty_is_nothing=True)
    assert (pattern.matches("abc"), pattern.matches(""), pattern.text) == (False, True, "")


def test_name_that_is_no_text_is_matched_all_the_same() -> None:
    """SPEC §7.2 patterns: names in a basic.publish may be any octets."""
    name = b"a\xff\xfe".decode(errors="surrogateescape")
    assert Pattern("^a..$").matches(name)
    assert not Pattern("^b").matches(name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # SPEC §7.2 patterns: refused, each with its reason
        ("(a", "missing ): (a"),
        ("a)", "unexpected ): a)"),
        ("[a", "missing ]: [a"),
        ("a**", "bad repetition operator: **"),
        ("*", "no argument for repetition operator: *"),
        ("\\1", "invalid escape sequence: \\1"),
        ("(x{1000}){1000}", "invalid repetition size: {1000}"),
        ("a(?!b)", "invalid perl operator: (?!"),
        ("^(?!a", "invalid perl operator: (?!"),
        ("^(?!(a)b", "invalid perl operator: (?!"),
        ("^(?![)a", "invalid perl operator: (?!"),
        ("^(?!a\\", "invalid perl operator: (?!"),
        ("^(?!a**)b", "bad repetition operator: **"),
        ("x" * (PATTERN_MAX + 1), "a pattern of more than 4096 characters"),
        ("^(?!" + "x" * PATTERN_MAX + ")", "a pattern of more than 4096 characters"),
        ("\ud800", "it is no text"),
    ],
)
def test_bad_pattern_is_refused(text: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadPattern) as caught:
        Pattern(text)
    assert str(caught.value) == reason
    assert capfd.readouterr() == ("", ""), "the library must not write about it"


def test_longest_pattern_is_taken() -> None:
    """SPEC §7.2 patterns"""
    assert Pattern("x" * PATTERN_MAX).matches("x" * PATTERN_MAX)


@pytest.mark.parametrize("text", ["(a+)+$", "(a|aa)+$", "(.*a){20}$", "^(?!(a+)+$).*", "^(a?){200}a{200}$"])
def test_no_pattern_takes_long(text: str) -> None:
    """SPEC §7.2 patterns: linear, where Python's own would take longer than the universe has."""
    pattern = Pattern(text)
    start = time.thread_time()
    for _ in range(10):
        pattern.matches("a" * 254 + "!")
    assert time.thread_time() - start < 1


@pytest.mark.parametrize("name", [".*", "a|b", "{username}", "\\", "жук", "a\nb", "[x]", "^$", ""])
def test_escaped_name_matches_only_itself(name: str) -> None:
    """SPEC §7.2 topic permissions, the names in them"""
    pattern = Pattern(f"^{escaped(name)}$")
    assert pattern.matches(name)
    assert not pattern.matches(name + "x")
    assert not pattern.matches("anything")
