"""Prometheus' text format: a page that grows in slices of `SLICE_S`, between which the loop does its other work."""

import asyncio
import time
from collections.abc import Sequence

from leveret.management.answers import Answer
from leveret.management.families import Metric

SLICE_S = 0.002
# So much is done before the clock is looked at.
GROUP = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NAN = "NaN"
PREFIX, DETAILED, CLUSTER = "rabbitmq_", "rabbitmq_detailed_", "rabbitmq_cluster_"

Row = tuple[str, Sequence[float | str]]


class Page:
    """The text as it grows."""

    __slots__ = ("_end", "_lines", "prefix")

    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix
        self._lines: list[str] = []
        self._end = time.perf_counter() + SLICE_S

    async def rest(self) -> None:
        """Let the loop do something else, if it is time."""
        if time.perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + SLICE_S

    def head(self, metric: Metric) -> str:
        name = self.prefix + metric.name
        self._lines.append(f"# TYPE {name} {metric.kind}\n# HELP {name} {metric.help}\n")
        return name

    def add(self, metrics: Sequence[Metric], values: Sequence[float], labels: str = "") -> None:
        """One value for each metric."""
        braced = f"{{{labels}}}" if labels else ""
        for metric, value in zip(metrics, values, strict=True):
            self._lines.append(f"{self.head(metric)}{braced} {value}\n")

    async def add_rows(self, metrics: Sequence[Metric], rows: Sequence[Row]) -> None:
        """For each metric the values of all objects, as the format wants it."""
        lines = self._lines
        for at, metric in enumerate(metrics):
            name = self.head(metric)
            for start in range(0, len(rows), GROUP):
                lines.append(
                    "".join([f"{name}{{{labels}}} {values[at]}\n" for labels, values in rows[start : start + GROUP]])
                )
                await self.rest()

    async def answer(self) -> Answer:
        pieces = []
        for start in range(0, len(self._lines), GROUP):
            pieces.append("".join(self._lines[start : start + GROUP]).encode("utf-8", "replace"))
            await self.rest()
        return Answer(b"".join(pieces), content_type=CONTENT_TYPE)


def label(**values: str) -> str:
    """Labels with their values, which may contain anything."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())


def escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value
