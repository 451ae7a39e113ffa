"""Rates and samples of what is counted, as RabbitMQ's API has them: `publish` and with it `publish_details`.

A history has one ring of samples for each of its policies (every 5 s for 10 minutes, every minute for an hour, …), with
the values of one moment side by side: 8 octets each, and none before there is something to remember.

  (1) A rate is that of the last two samples; of something that has no history it is 0.
  (2) `msg_rates_age=60&msg_rates_incr=5`, and the like for `data_rates`, `lengths` and `node_stats`, asks for samples, an
      average and an average rate: of 60 s, every 5 s.
  (3) A moment before the first sample has the value of the first.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from leveret.management.figures import AVERAGES, NODE_NAMES, UNKNOWN
from leveret.server.clock import now_ms

SAMPLE_MS = 5_000

# How long and how often, in seconds: what RabbitMQ keeps of the node, vhosts and totals, of other objects, and the least
# that a rate needs.
GLOBAL = ((605, 5), (3_660, 60), (29_400, 600), (86_400, 1_800))
BASIC = ((605, 5), (3_660, 60))
BRIEF = ((60, 5),)
SAMPLES_MAX = 1_000

Policies = Sequence[tuple[int, int]]

NODE = frozenset({*NODE_NAMES, *UNKNOWN, *AVERAGES})

LENGTHS = frozenset({"messages", "messages_ready", "messages_unacknowledged"})
DATA = frozenset({"recv_oct", "send_oct", "recv_cnt", "send_cnt", "reductions", "disk_reads", "disk_writes"})
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
        """What the last sample has more than the one before, and in how many ms."""
        count = len(self.times)
        if count < 2:
            return 0, 1
        last, before = (self._next - 1) % count, (self._next - 2) % count
        width, values = self.width, self.values
        difference = sum(values[last * width + column] - values[before * width + column] for column in columns)
        return difference, max(1, self.times[last] - self.times[before])


class History:
    """Samples of one object under the names that its kind has; `changed_at` is when the last was not as the one before."""

    __slots__ = ("_last", "changed_at", "names", "rings")

    def __init__(self, names: tuple[str, ...], policies: Policies) -> None:
        self.names = names
        self.changed_at = 0
        self._last = array("q")
        self.rings = [Ring(age, interval, len(names)) for age, interval in policies]

    def begin(self, at: int, values: Sequence[int]) -> None:
        """The first sample, and before it one of when nothing had been counted: what is a length was as long as now."""
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
        """The finest that goes back so far, or else the longest."""
        for ring in self.rings:
            if ring.size * ring.interval_ms >= age_ms:
                return ring
        return self.rings[-1]


def with_rates(
    counts: Mapping[str, float], history: History | None = None, query: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The counts, and for each its `_details`."""
    found: dict[str, Any] = {}
    for name, value in counts.items():
        found[name] = value
        found[f"{name}_details"] = details(name, value, history, query)
    return found


def details(name: str, value: float, history: History | None, query: Mapping[str, str] | None) -> dict[str, Any]:
    """How one value changes; with its samples if the query asks for them."""
    rate = 0.0 if history is None else history.rate(name)
    span = asked_span(query, group_of(name)) if query else None
    if span is None:
        return {"rate": rate}
    samples = samples_of(name, value, history, *span)
    newest, oldest = samples[0], samples[-1]
    elapsed_ms = max(1, newest["timestamp"] - oldest["timestamp"])
    return {
        "avg": sum(sample["sample"] for sample in samples) / len(samples),
        "avg_rate": (newest["sample"] - oldest["sample"]) * 1000 / elapsed_ms,
        "rate": rate,
        "samples": samples,
    }


def group_of(name: str) -> str:
    """Which words of a query ask for samples of this."""
    if name in LENGTHS:
        return "lengths"
    if name in DATA:
        return "data_rates"
    return "node_stats" if name in NODE else "msg_rates"


def asked_span(query: Mapping[str, str], group: str) -> tuple[int, int] | None:
    """Age and step in ms, if both are asked for."""
    age, step = query.get(f"{group}_age", ""), query.get(f"{group}_incr", "")
    if not (age.isascii() and age.isdigit() and step.isascii() and step.isdigit()) or not int(age) or not int(step):
        return None
    age_ms = min(int(age), GLOBAL[-1][0]) * 1000
    return age_ms, max(int(step) * 1000, age_ms // SAMPLES_MAX, 1)


def samples_of(name: str, value: float, history: History | None, age_ms: int, step_ms: int) -> list[dict[str, Any]]:
    """The value at each step, newest first."""
    end = -(-now_ms() // SAMPLE_MS) * SAMPLE_MS
    moments = range(end, end - age_ms - 1, -step_ms)
    columns = [] if history is None else history.columns(name)
    times: Sequence[int]
    values: Sequence[float]
    times, values = ([], []) if history is None or not columns else history.ring_for(age_ms).series(columns)
    if not times:
        times, values = [0], [value]
    return [{"sample": values[max(0, bisect_right(times, at) - 1)], "timestamp": at} for at in moments]
