"""Regular expressions that others wrote: in rights, policies and searches.

They run on RE2, in time linear in the name, since a pattern that backtracks would stop the loop for everybody. RE2 has no
look-ahead; the one form of it that people use in policies, `^(?!amq\\.)…`, is understood here.
"""

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

    __slots__ = ("_but_not", "_regex", "text")

    def __init__(self, text: str, empty_is_nothing: bool = False) -> None:
        self.text = text
        but_not, rest = _split(text)
        self._but_not = None if but_not is None else _compile(f"^(?:{but_not})")
        # RabbitMQ: a right to nothing is written as an empty pattern.
        self._regex = _compile("^$" if empty_is_nothing and not text else rest)

    def matches(self, name: str) -> bool:
        # Names come from clients and may hold octets that are no text.
        octets = name.encode(errors="surrogateescape").decode(errors="replace")
        if self._but_not is not None and self._but_not.search(octets):
            return False
        return self._regex.search(octets) is not None


def escaped(text: str) -> str:
    """A pattern that matches exactly this."""
    return str(re2.escape(text))


def _split(text: str) -> tuple[str | None, str]:
    """What must not follow at the start, and the rest of the pattern."""
    if not text.startswith(NOT_AHEAD):
        return None, text
    depth = 1
    escaped = False
    for at in range(len(NOT_AHEAD), len(text)):
        if escaped:
            escaped = False
        elif text[at] == "\\":
            escaped = True
        elif text[at] == "(":
            depth += 1
        elif text[at] == ")":
            depth -= 1
            if not depth:
                return text[len(NOT_AHEAD) : at], "^" + text[at + 1 :]
    return None, text


def _compile(text: str) -> Any:
    if len(text) > PATTERN_MAX:
        raise BadPattern(f"a pattern of more than {PATTERN_MAX} characters")
    try:
        return re2.compile(text, options=_OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        raise BadPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
