"""How the log is written: a line for each record, whatever names, properties and paths clients have put into it.

What a terminal would obey, and what would pass for the end of a line, is shown as `\\x1b` and the like.
"""

import logging
import sys
import unicodedata
from types import TracebackType

# Line and paragraph separators, besides control characters and those that turn the direction of writing.
UNSEEN = ("Cc", "Cf", "Zl", "Zp")
SHOWN = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def start_log(level: str, form: str) -> None:
    """Write what is logged to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class OneLine(logging.Formatter):
    """A line for each record; of a traceback's lines each begins with a space, so that none passes for a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:
        text = super().formatException(ei)
        return "\n".join(f" {visible(line)}" for line in text.split("\n"))


def visible(text: str) -> str:
    """A text without what cannot be seen."""
    if text.isprintable():
        return text
    return "".join(escaped(one) if unicodedata.category(one) in UNSEEN else one for one in text)


def escaped(one: str) -> str:
    return SHOWN.get(one) or one.encode("unicode_escape").decode()
