"""Rates of what is counted, as RabbitMQ's API has them: `publish` and with it `publish_details`.

(1) A rate is that of the last two samples; of something that has no history it is 0.
(2) `msg_rates_age=60&msg_rates_incr=5`, and the like for `data_rates`, `lengths` and `node_stats`, asks for samples, an
    average and an average rate: of 60 s, every 5 s.
(3) A moment before the first sample has the value of the first.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from leveret.management.http.json import JsonObject
from leveret.management.statistics.history import GLOBAL, LENGTHS, SAMPLE_MS, History
from leveret.management.statistics.node_stats import AVERAGES, NODE_NAMES, UNKNOWN
from leveret.server.clock import now_ms

SAMPLES_MAX = 1_000

NODE = frozenset({*NODE_NAMES, *UNKNOWN, *AVERAGES})
DATA = frozenset({"recv_oct", "send_oct", "recv_cnt", "send_cnt", "reductions", "disk_reads", "disk_writes"})


def with_rates(
    counts: Mapping[str, float], history: History | None = None, query: Mapping[str, str] | None = None
) -> JsonObject:
    """The counts, and for each its `_details`."""
    found: JsonObject = {}
    for name, value in counts.items():
        found[name] = value
        found[f"{name}_details"] = details(name, value, history, query)
    return found


def details(name: str, value: float, history: History | None, query: Mapping[str, str] | None) -> JsonObject:
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


def samples_of(name: str, value: float, history: History | None, age_ms: int, step_ms: int) -> list[dict[str, float]]:
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
