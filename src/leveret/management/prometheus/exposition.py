"""Prometheus' text format, written in pieces so that the loop can do its other work in between."""

from collections.abc import Sequence

from leveret.management.http.answer import Answer, Body, LargeAnswer
from leveret.management.http.pause import Pause
from leveret.management.prometheus.family import Metric

# So much is done before the clock is looked at.
GROUP = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NAN = "NaN"
PREFIX, DETAILED, CLUSTER = "rabbitmq_", "rabbitmq_detailed_", "rabbitmq_cluster_"

Row = tuple[str, Sequence[float | str]]


class Page(Pause):
    """The text as it grows."""

    __slots__ = ("_lines", "prefix")

    def __init__(self, prefix: str = PREFIX) -> None:
        super().__init__()
        self.prefix = prefix
        self._lines: list[str] = []

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
        body = Body()
        async for lines in self.groups(self._lines):
            body.add("".join(lines).encode("utf-8", "replace"))
        return LargeAnswer(body.pieces, content_type=CONTENT_TYPE)


def label(**values: str) -> str:
    """Labels with their values, which may contain anything."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())


def escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value
