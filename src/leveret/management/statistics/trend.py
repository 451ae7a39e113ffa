"""What the samples of a queue say in a sentence: since when it grows, since when its consumers are silent.

A moment's rate says little: a queue that grows by 3 and shrinks by 2 grows. So samples are looked at in steps of `STEP_MS`,
and a time ends at the first step back that is against it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from leveret.management.statistics.history import History

STEP_MS = 15_000
# What is shorter or smaller is no growth, only work in progress.
GROWS_MS = 30_000
GROWS_BY = 50
SILENT_MS = 60_000


class Growth(NamedTuple):
    """By how much it grows in a second, and since when (ms)."""

    rate: float
    since: int


def back_in_time(history: History, name: str) -> Iterator[tuple[int, int]]:
    """Moments and values, the newest first, about `STEP_MS` apart; further back than the first ring goes, a minute."""
    columns = history.columns(name)
    last = 0
    for ring in history.rings:
        times, values = ring.series(columns)
        for at, value in zip(reversed(times), reversed(values), strict=True):
            if not last or last - at >= STEP_MS:
                yield at, value
                last = at


def growth_of(history: History | None) -> Growth | None:
    """How a queue's ready messages grow, if they do and have for some time."""
    if history is None:
        return None
    steps = back_in_time(history, "messages_ready")
    newest = next(steps, None)
    if newest is None:
        return None
    now, high = newest
    since, low = now, high
    recent = (now, high)
    for at, value in steps:
        if value >= low:
            break
        since, low = at, value
        if now - at <= 4 * STEP_MS:
            recent = (at, value)
    if now - since < GROWS_MS or high - low < GROWS_BY:
        return None
    return Growth((high - recent[1]) * 1000 / max(1, now - recent[0]), since)


def grown_in(history: History | None, age_ms: int) -> int:
    """By how many ready messages a queue has grown in this time; below 0 if it has shrunk."""
    if history is None:
        return 0
    found = list(back_in_time(history, "messages_ready"))
    if not found:
        return 0
    now, newest = found[0]
    return newest - next((value for at, value in found if now - at >= age_ms), found[-1][1])


def silent_since(history: History | None) -> int | None:
    """Since when (ms) a queue's consumers hold messages and acknowledge none; None while they do, or hold none."""
    if history is None:
        return None
    acks = list(back_in_time(history, "ack"))
    held = dict(back_in_time(history, "messages_unacknowledged"))
    since = now = acks[0][0] if acks else 0
    for at, count in acks:
        if count != acks[0][1] or not held.get(at):
            break
        since = at
    return since if now - since >= SILENT_MS else None
