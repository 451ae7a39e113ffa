"""Regular expressions that others wrote: in rights, policies and searches.

They run on RE2, in time linear in the name, since a pattern that backtracks would stop the loop for everybody. RE2 has no
look-ahead; the one form of it that people use in policies, `^(?!amq\\.)…`, is understood here.
"""

from collections.abc import Iterator
from typing import Any

import re2

PATTERN_MAX = 4096

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

NOT_AHEAD = "^(?!"


class BadPattern(ValueError):
    """A pattern that cannot be used; the text says why."""


class Pattern:
    """A pattern, unanchored as RabbitMQ's are; an empty one matches nothing if `empty_is_nothing`."""

    __slots__ = ("_alternatives", "text")

    def __init__(self, text: str, empty_is_nothing: bool = False) -> None:
        if len(text) > PATTERN_MAX:
            raise BadPattern(f"a pattern of more than {PATTERN_MAX} characters")
        self.text = text
        # RabbitMQ: a right to nothing is written as an empty pattern.
        alternatives = _split("^$" if empty_is_nothing and not text else text)
        self._alternatives = [
            (None if but_not is None else _compile(f"^(?:{but_not})"), _compile(rest)) for but_not, rest in alternatives
        ]

    def matches(self, name: str) -> bool:
        octets = _as_text(name)
        for but_not, regex in self._alternatives:
            if (but_not is None or not but_not.search(octets)) and regex.search(octets):
                return True
        return False


def escaped(text: str) -> str:
    """A pattern that matches exactly this."""
    return str(re2.escape(_as_text(text)))


def _as_text(name: str) -> str:
    """A name as patterns see it: names come from clients and may hold octets that are no text."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _split(text: str) -> list[tuple[str | None, str]]:
    """The alternatives of a pattern: what must not follow at the start of each, and the rest of it."""
    if NOT_AHEAD not in text:
        return [(None, text)]
    bars = [at for at, mark, depth in _marks(text) if mark == "|" and not depth]
    starts, ends = [0, *(at + 1 for at in bars)], [*bars, len(text)]
    return [_not_ahead(text[start:end]) for start, end in zip(starts, ends, strict=True)]


def _not_ahead(text: str) -> tuple[str | None, str]:
    if text.startswith(NOT_AHEAD):
        for at, mark, depth in _marks(text):
            if mark == ")" and not depth:
                return text[len(NOT_AHEAD) : at], "^" + text[at + 1 :]
    return None, text


def _marks(text: str) -> Iterator[tuple[int, str, int]]:
    """The parentheses and bars that mean something, and how many parentheses are open after each."""
    depth = 0
    literal = False
    class_from = 0
    for at, char in enumerate(text):
        if literal:
            literal = False
        elif char == "\\":
            literal = True
        elif class_from:
            # A bracket that stands first in its class does not end it.
            if char == "]" and at > class_from:
                class_from = 0
        elif char == "[":
            class_from = at + 2 if text[at + 1 : at + 2] == "^" else at + 1
        elif char in "()|":
            depth += (char == "(") - (char == ")")
            yield at, char, depth


def _compile(text: str) -> Any:
    try:
        return re2.compile(text, options=_OPTIONS)
    except UnicodeEncodeError:
        raise BadPattern("it is no text") from None
    except re2.error as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
