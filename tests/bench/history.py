"""The figures of commits, in history.json beside this file: a list of entries, the newest last.

    {"commit": …, "date": …, "machine": "2 × Xeon …", "rounds": 3,
     "workloads": {workload: {broker: {figure: {"min": …, "median": …, "max": …, "ratio": …}}}}}

`ratio` is the one to RabbitMQ in the same run, above 1 where the broker is better.  (1) An entry says what a commit does:
there is none for a tree with changes, nor for a run with fewer messages.  (2) Figures are compared on the same machine
only, each with the last one before it: an entry may have some workloads and not others.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.result import REFERENCE, TOLERANCE, Result, times_as_good
from tests.bench.workloads import FIGURES

FILE = Path(__file__).with_name("history.json")


class NotRecorded(Exception):
    """Why a run has no place in the history."""


class Recorded(TypedDict, total=False):
    """A figure's rounds, and its ratio to RabbitMQ's."""

    min: float
    median: float
    max: float
    ratio: float


# By workload, broker and figure.
Figures = Mapping[str, Mapping[str, Mapping[str, Recorded]]]


class Entry(TypedDict):
    """The figures of one commit on one machine."""

    commit: str
    date: str
    machine: str
    rounds: int
    workloads: Figures


@dataclass(frozen=True, slots=True)
class Fall:
    """A figure whose median is worse than it was."""

    workload: str
    broker: str
    figure: str
    before: float
    now: float
    commit_before: str

    def __str__(self) -> str:
        label = FIGURES[self.figure].label
        return f"{self.workload}, {self.broker}, {label}: {self.now:,g}, was {self.before:,g} at {self.commit_before}"


def read(file: Path = FILE) -> list[Entry]:
    if not file.exists():
        return []
    entries: list[Entry] = json.loads(file.read_text())
    return entries


def clean_commit(folder: Path, file: Path = FILE) -> str:
    """Return the commit that is checked out, if nothing but the history has changes."""
    changes = _git(folder, "status", "--porcelain", "--untracked-files=normal").splitlines()
    changed = [line for line in changes if folder / line[3:] != file]
    if changed:
        raise NotRecorded(f"the tree has changes ({changed[0].strip()})")
    return _git(folder, "rev-parse", "--short=12", "HEAD").strip()


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise NotRecorded("there is no git repository") from None


def machine(processors: str | None = None) -> str:
    """Name the machine by its cores and their model."""
    if processors is None:
        processors = Path("/proc/cpuinfo").read_text()
    models = [line.partition(":")[2] for line in processors.splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} × {' '.join(models[0].split()) if models else os.uname().machine}"


def record(results: Sequence[Result], commit: str, rounds: int, file: Path = FILE) -> Entry:
    """Append an entry and return it."""
    workloads: dict[str, dict[str, dict[str, Recorded]]] = {}
    for result in results:
        found = result.spread
        if found is None:
            continue
        recorded: Recorded = {"min": found.minimum, "median": found.median, "max": found.maximum}
        if result.ratio is not None:
            recorded["ratio"] = round(result.ratio, 3)
        workloads.setdefault(result.workload, {}).setdefault(result.broker, {})[result.figure] = recorded
    if not workloads:
        raise NotRecorded("no run has come to its end")
    date = datetime.now(UTC).isoformat(timespec="seconds")
    entry = Entry(commit=commit, date=date, machine=machine(), rounds=rounds, workloads=workloads)
    entries = [*read(file), entry]
    beside = file.with_suffix(".new")
    beside.write_text("[\n" + ",\n".join(map(_written, entries)) + "\n]\n")
    beside.replace(file)
    return entry


def _written(entry: Entry) -> str:
    """Write an entry as JSON, with a line for each workload."""
    about = {name: value for name, value in entry.items() if name != "workloads"}
    lines = [f"  {json.dumps(name)}: {json.dumps(brokers)}" for name, brokers in entry["workloads"].items()]
    return json.dumps(about, ensure_ascii=False)[:-1] + ', "workloads": {\n' + ",\n".join(lines) + "\n}}"


def newest(entries: Sequence[Entry]) -> list[Entry]:
    """Return the last entry of each machine."""
    return list({entry["machine"]: entry for entry in entries}.values())


def falls(entries: Sequence[Entry], entry: Entry) -> list[Fall]:
    """Return what fell by more than the tolerance from the last time it was measured on the same machine."""
    at = max(number for number, one in enumerate(entries) if one is entry)
    older = [one for one in entries[:at] if one["machine"] == entry["machine"]]
    return list(_falls(older, entry))


def _falls(older: Sequence[Entry], entry: Entry) -> Iterator[Fall]:
    for workload, brokers in entry["workloads"].items():
        for broker, figures in brokers.items():
            for figure, recorded in figures.items():
                before = _last(older, workload, broker, figure)
                if broker == REFERENCE or figure not in FIGURES or not FIGURES[figure].judged or before is None:
                    continue
                commit, median = before
                ratio = times_as_good(figure, recorded["median"], median)
                if ratio is not None and ratio < 1 - TOLERANCE:
                    yield Fall(workload, broker, figure, median, recorded["median"], commit)


def _last(entries: Sequence[Entry], workload: str, broker: str, figure: str) -> tuple[str, float] | None:
    for entry in reversed(entries):
        recorded = entry["workloads"].get(workload, {}).get(broker, {}).get(figure)
        if recorded is not None:
            return entry["commit"], recorded["median"]
    return None
