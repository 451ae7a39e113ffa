"""Samples of what is counted, from which rates and charts are made.

A history has one ring of samples for each of its policies (every 5 s for 10 minutes, every minute for an hour, …), with
the values of one moment side by side: 8 octets each, and none before there is something to remember.
"""

from array import array
from collections.abc import Sequence

SAMPLE_MS = 5_000

# How long and how often, in seconds: what RabbitMQ keeps of the node, vhosts and totals, of other objects, and the least
# that a rate needs.
GLOBAL = ((605, 5), (3_660, 60), (29_400, 600), (86_400, 1_800))
BASIC = ((605, 5), (3_660, 60))
BRIEF = ((60, 5),)

Policies = Sequence[tuple[int, int]]

LENGTHS = frozenset({"messages", "messages_ready", "messages_unacknowledged"})
# What is not kept but summed up from what is.
SUMS = {
    "messages": ("messages_ready", "messages_unacknowledged"),
    "deliver_get": ("deliver", "deliver_no_ack", "get", "get_no_ack"),
}


class Ring:
    """Rows of `width` values, one every `interval_ms`; the oldest make room."""

    __slots__ = ("_next", "interval_ms", "size", "times", "values", "width")

    def __init__(self, age_s: int, interval_s: int, width: int) -> None:
        self.interval_ms = interval_s * 1000
        self.size = age_s // interval_s + 1
        self.width = width
        self.times = array("q")
        self.values = array("q")
        self._next = 0

    def add(self, at: int, row: "array[int]") -> None:
        if len(self.times) < self.size:
            self.times.append(at)
            self.values.extend(row)
            return
        self.times[self._next] = at
        self.values[self._next * self.width : (self._next + 1) * self.width] = row
        self._next = (self._next + 1) % self.size

    def last_at(self) -> int:
        return self.times[self._next - 1] if self.times else 0

    def series(self, columns: Sequence[int]) -> tuple[list[int], list[int]]:
        """Times and values, oldest first; the values of several columns added up."""
        order = [*range(self._next, len(self.times)), *range(self._next)]
        width, values = self.width, self.values
        return [self.times[at] for at in order], [sum(values[at * width + column] for column in columns) for at in order]

    def change(self, columns: Sequence[int]) -> tuple[int, int]:
        """By how much the last sample differs from the one before, and in how many ms."""
        count = len(self.times)
        if count < 2:
            return 0, 1
        last, before = (self._next - 1) % count, (self._next - 2) % count
        width, values = self.width, self.values
        difference = sum(values[last * width + column] - values[before * width + column] for column in columns)
        return difference, max(1, self.times[last] - self.times[before])


class History:
    """Samples of one object; `changed_at` is when a sample last differed from the one before."""

    __slots__ = ("_last", "changed_at", "names", "rings")

    def __init__(self, names: tuple[str, ...], policies: Policies) -> None:
        self.names = names
        self.changed_at = 0
        self._last = array("q")
        self.rings = [Ring(age, interval, len(names)) for age, interval in policies]

    def begin(self, at: int, values: Sequence[int]) -> None:
        """Keep a sample; before the first one, also one in which all counters are 0 and lengths are as they are now."""
        if not self.rings[0].times:
            before = [value if name in LENGTHS else 0 for name, value in zip(self.names, values, strict=True)]
            self.rings[0].add(at - SAMPLE_MS, array("q", before))
        self.sample(at, values)

    def sample(self, at: int, values: Sequence[int]) -> None:
        """Keep the values of this moment, in each ring if its time has come."""
        row = array("q", values)
        if row != self._last:
            self._last = row
            self.changed_at = at
        for ring in self.rings:
            if at - ring.last_at() >= ring.interval_ms - SAMPLE_MS // 2:
                ring.add(at, row)

    def columns(self, name: str) -> list[int]:
        """Where a value is, or those of which it is the sum; none if it is not kept."""
        if name in self.names:
            return [self.names.index(name)]
        parts = SUMS.get(name, ())
        return [self.names.index(part) for part in parts] if all(part in self.names for part in parts) else []

    def rate(self, name: str) -> float:
        """By how much a value grows in a second; a length may shrink."""
        difference, elapsed_ms = self.rings[0].change(self.columns(name))
        return difference * 1000 / elapsed_ms

    def bytes(self) -> int:
        """What its samples take."""
        return 8 * sum(len(ring.times) + len(ring.values) for ring in self.rings)

    def ring_for(self, age_ms: int) -> Ring:
        """The finest ring that goes back so far, or else the longest."""
        for ring in self.rings:
            if ring.size * ring.interval_ms >= age_ms:
                return ring
        return self.rings[-1]
