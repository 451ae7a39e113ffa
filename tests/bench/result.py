"""What the rounds of a workload have found, as numbers and as lines of a table."""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.workloads import FIGURES, WORKLOADS

REFERENCE = "rabbitmq"
# What is slower than the first install by more than this is said to be.
TOLERANCE = 0.03
# In each round, or only in most: that may be noise.
SLOWER = {True: " SLOWER", False: " SLOWER?"}


@dataclass(frozen=True, slots=True)
class Spread:
    """The lowest, the middle and the highest of some rounds."""

    minimum: float
    median: float
    maximum: float


def spread(values: Sequence[float]) -> Spread | None:
    return Spread(min(values), statistics.median(values), max(values)) if values else None


def times_as_good(figure: str, ours: float, theirs: float) -> float | None:
    """How many times as good a figure is as another, whether more or less of it is better."""
    better, worse = (theirs, ours) if FIGURES[figure].less else (ours, theirs)
    return better / worse if worse else None


# By round; None where a run has failed, or could not say it.
Rounds = Sequence[float | None]


@dataclass(slots=True)
class Result:
    """One figure of one broker on one workload, beside the reference's and the first install's."""

    workload: str
    broker: str
    figure: str
    rounds: Rounds
    reference: Rounds = ()
    first: Rounds = ()
    failures: list[str] = field(default_factory=list)

    @property
    def spread(self) -> Spread | None:
        return spread([value for value in self.rounds if value is not None])

    @property
    def ratio(self) -> float | None:
        """How many times as good the median is as the reference's."""
        ours, theirs = self.spread, spread([value for value in self.reference if value is not None])
        return times_as_good(self.figure, ours.median, theirs.median) if ours and theirs else None

    @property
    def to_first(self) -> Spread | None:
        """How many times as good it was as the first install in the same round."""
        pairs = zip(self.rounds, self.first, strict=False)
        ratios = [
            times_as_good(self.figure, ours, theirs) for ours, theirs in pairs if ours is not None and theirs is not None
        ]
        return spread([ratio for ratio in ratios if ratio is not None])

    @property
    def slower(self) -> bool:
        """Whether it is worse than the first install by more than the tolerance."""
        judged = FIGURES[self.figure].judged
        return judged and self.to_first is not None and self.to_first.median < 1 - TOLERANCE

    @property
    def ratio_demanded(self) -> float | None:
        return WORKLOADS[self.workload].ratios.get(self.figure, {}).get(self.broker)

    @property
    def bound(self) -> float | None:
        return WORKLOADS[self.workload].bounds.get(self.figure, {}).get(self.broker)

    @property
    def reached(self) -> bool | None:
        """Whether what is demanded was reached; None if nothing is, or it could not be told."""
        if self.ratio_demanded is not None:
            return None if self.ratio is None else self.ratio >= self.ratio_demanded
        if self.bound is None or self.spread is None:
            return None
        less = FIGURES[self.figure].less
        return self.spread.median <= self.bound if less else self.spread.median >= self.bound


def results_of(
    workload: str, runs: Mapping[str, Sequence[Mapping[str, float] | None]], first: str | None = None
) -> list[Result]:
    """Return a result for each figure of each broker, from what each has said in each round."""
    results = []
    for figure in WORKLOADS[workload].figures:
        by_broker = {broker: [None if run is None else run.get(figure) for run in said] for broker, said in runs.items()}
        for broker, rounds in by_broker.items():
            reference = () if broker == REFERENCE else by_broker.get(REFERENCE, ())
            beside = () if first is None or broker in (first, REFERENCE) else by_broker[first]
            results.append(Result(workload, broker, figure, rounds, reference, beside))
    return results


COLUMNS = "{:<27}{:<20}{:<10}{:>11}{:>11}{:>11}{:>11} {:<17}{}"


def headings(first: str | None) -> str:
    names = ("workload", "figure", "broker", "minimum", "median", "maximum", "× RabbitMQ", "demanded")
    return COLUMNS.format(*names, f"× {first} (lowest–highest)" if first else "").rstrip()


def table_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield the table's lines for the results of one workload, and what its runs died of."""
    workload = figure = ""
    for result in results:
        found = result.spread
        cells = (
            result.workload if result.workload != workload else "",
            FIGURES[result.figure].label if result.figure != figure else "",
            result.broker,
            _number(found.minimum if found else None),
            _number(found.median if found else None),
            _number(found.maximum if found else None),
            "" if result.ratio is None else f"{result.ratio:.2f}",
            _demand(result),
            _beside(result),
        )
        workload, figure = result.workload, result.figure
        yield COLUMNS.format(*cells).rstrip()
    for result in results:
        for failure in dict.fromkeys(result.failures):
            yield f"    {result.broker}: {result.failures.count(failure)} × failed: {failure}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}"


def _demand(result: Result) -> str:
    verdict = {None: "", True: "reached", False: "MISSED"}[result.reached]
    if result.ratio_demanded is not None:
        return f"≥ {result.ratio_demanded:g} × {verdict}"
    if result.bound is not None:
        return f"{'≤' if FIGURES[result.figure].less else '≥'} {result.bound:,g} {verdict}"
    return ""


def _beside(result: Result) -> str:
    ratio = result.to_first
    if ratio is None:
        return ""
    return f"{ratio.median:.2f} ({ratio.minimum:.2f}–{ratio.maximum:.2f})" + (
        SLOWER[ratio.maximum < 1] if result.slower else ""
    )
