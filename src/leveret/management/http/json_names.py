"""Names as JSON can say them: on the wire they are any octets, and those that are no UTF-8 are surrogate escapes here."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

# Stands for octets that are no text.
REPLACEMENT = "\ufffd"


def as_text(name: str) -> str:
    """A name as text."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def all_as_text(value: object) -> object:
    """A whole answer with only text in it."""
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, dict):
        return {all_as_text(name): all_as_text(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [all_as_text(item) for item in value]
    return value


def find(found: Mapping[str, T], name: str) -> T | None:
    """What has this name; or the only one that is shown under it, since whoever asks has been shown no other."""
    one = found.get(name)
    if one is not None or REPLACEMENT not in name:
        return one
    shown = [other for other in found if as_text(other) == name]
    return found[shown[0]] if len(shown) == 1 else None
