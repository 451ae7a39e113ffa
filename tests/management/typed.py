"""What readers in typed languages decode: a field of another type than they expect is an error for them.

(1) A shape is a dict of fields, each with a kind; a dict in it is a shape, a list of one kind a list of these.
(2) Go takes null and a missing field for the zero value, so both are fine for it; `may_lack` names those that are missing at
    times, and all others must be there.
"""

from collections.abc import Callable
from typing import Any

Kind = Any


def integer(value: Any) -> bool:
    """Go's int: a number that is written without a point."""
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def unsigned(value: Any) -> bool:
    return integer(value) and value >= 0


def number(value: Any) -> bool:
    return isinstance(value, float) or integer(value)


def text(value: Any) -> bool:
    return isinstance(value, str)


def flag(value: Any) -> bool:
    return isinstance(value, bool)


def port(value: Any) -> bool:
    """A number, or the same as text."""
    return (unsigned(value) and value < 65_536) or (text(value) and (value.isdigit() or value == "undefined"))


def anything(value: Any) -> bool:
    return True


def table(value: Any) -> bool:
    return isinstance(value, dict)


def table_of(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(kind(item) for item in value.values())


RATE = {"rate": number, "samples": [{"sample": integer, "timestamp": integer}]}


def rated(kind: Kind, *names: str) -> dict[str, Kind]:
    """Numbers, each with its rate."""
    return dict.fromkeys(names, kind) | {f"{name}_details": RATE for name in names}


def faults(value: Any, kind: Kind, may_lack: set[str], place: str = "") -> list[str]:
    """Where a value is not of its kind."""
    if value is None:
        return []
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{place}: no list, {value!r}"]
        return [fault for at, item in enumerate(value) for fault in faults(item, kind[0], may_lack, f"{place}[{at}]")]
    if not isinstance(kind, dict):
        return [] if kind(value) else [f"{place}: {value!r}"]
    if not isinstance(value, dict):
        return [f"{place}: no object, {value!r}"]
    missing = [f"{place}.{name} is missing" for name in kind if name not in value and name not in may_lack]
    return missing + [
        fault
        for name, wanted in kind.items()
        if name in value
        for fault in faults(value[name], wanted, may_lack, f"{place}.{name}")
    ]
