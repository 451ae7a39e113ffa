"""What is kept of a commit's figures, and what is said to have fallen."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.bench.compare import add_to_history, commit_of, parse, show_history
from tests.bench.history import Entry, NotRecorded, clean_commit, falls, machine
from tests.bench.result import results_of
from tests.bench.test_compare import AUTOACK, INSTALLED, rates
from tests.bench.workloads import CPU


def entry(commit: str, rate: float, cpu: float = 1.0, on: str = "2 × Xeon", workload: str = AUTOACK) -> Entry:
    def spread(value: float) -> Any:
        return {"min": value, "median": value, "max": value}

    figures = {"rate": spread(rate), CPU: spread(cpu)}
    brokers = {"leveret": figures, "rabbitmq": {"rate": spread(rate)}}
    return Entry(commit=commit, date="2030-01-01", machine=on, rounds=3, workloads={workload: brokers})


def test_falls_are_of_the_same_machine_against_the_last_time_it_was_measured() -> None:
    entries = [
        entry("a", 1000),
        entry("b", 1000, workload="declares"),
        entry("c", 5000, on="8 × Ryzen"),
        entry("d", 900),
    ]
    (fell,) = falls(entries, entries[-1])
    assert str(fell) == f"{AUTOACK}, leveret, a second: 900, was 1,000 at a"
    assert all(falls(entries, one) == [] for one in entries[:-1])


@pytest.mark.parametrize(
    ("rate", "cpu", "fallen"),
    [(970, 1.0, []), (969, 1.0, ["rate"]), (1000, 1.03, []), (1000, 1.04, [CPU]), (2000, 0.5, [])],
)
def test_fall_is_more_than_three_percent_of_a_rate_or_of_a_time(rate: float, cpu: float, fallen: list[str]) -> None:
    entries = [entry("a", 1000, 1.0), entry("b", rate, cpu)]
    assert [fall.figure for fall in falls(entries, entries[-1])] == fallen


def test_extremes_and_the_disk_alone_do_not_fall() -> None:
    names = ("p50_ms", "p99_ms", "disk_p50_ms")
    entries = []
    for value in (1.0, 2.0):
        recorded: Any = {name: {"median": value} for name in names}
        entries.append(entry("a", 1) | {"workloads": {"serial-confirms": {"leveret": recorded}}})
    assert [fall.figure for fall in falls(entries, entries[-1])] == ["p50_ms"]


def test_history_is_appended_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.json"
    assert not show_history(file)
    options = parse(["--leveret", f"before={INSTALLED}"])
    for commit, rate in (("a", 6000.0), ("b", 5000.0)):
        said = {"before": rates(1), "leveret": rates(rate, 2 * rate, 3 * rate), "rabbitmq": rates(1000, 1000, 1000)}
        add_to_history(results_of(AUTOACK, said, first="before"), options, commit, file)
    first, second = json.loads(file.read_text())
    assert (first["commit"], second["commit"], first["machine"], first["rounds"]) == ("a", "b", machine(), 3)
    assert first["workloads"][AUTOACK]["leveret"]["rate"] == {"min": 6000, "median": 12000, "max": 18000, "ratio": 12}
    assert set(first["workloads"][AUTOACK]) == {"leveret", "rabbitmq"}
    assert [line.partition(":")[0].strip() for line in file.read_text().splitlines() if AUTOACK in line] == [
        f'"{AUTOACK}"'
    ] * 2
    capsys.readouterr()
    assert show_history(file)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("b of ")
    assert lines[1:] == [
        f"  {AUTOACK}, leveret, a second: 10,000, was 12,000 at a",
        f"  {AUTOACK}, leveret, cpu µs: 100, was 83.3333 at a",
    ]


def test_run_that_found_nothing_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(NotRecorded, match="no run"):
        add_to_history(results_of(AUTOACK, {"leveret": rates(None)}), parse([]), "a", tmp_path / "history.json")
    assert not list(tmp_path.iterdir())


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_only_a_tree_without_changes_has_a_commit_to_record(tmp_path: Path) -> None:
    file = tmp_path / "bench" / "history.json"
    file.parent.mkdir()
    git(tmp_path, "init")
    (tmp_path / "code").write_text("1")
    file.write_text("[]")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    file.write_text("[1]")
    commit = clean_commit(tmp_path, file)
    assert len(commit) == 12
    for changed in ("code", "new", "history.json"):
        (tmp_path / changed).write_text("2")
        with pytest.raises(NotRecorded, match=f"the tree has changes .*{changed}"):
            clean_commit(tmp_path, file)
        git(tmp_path, "add", changed)
        git(tmp_path, "commit", "-m", "more")
    assert clean_commit(tmp_path, file) != commit


def test_without_a_repository_or_with_fewer_messages_nothing_is_recorded(tmp_path: Path) -> None:
    with pytest.raises(NotRecorded, match="no git repository"):
        clean_commit(tmp_path)
    with pytest.raises(NotRecorded, match="--scale"):
        commit_of(parse(["--scale", "0.1"]))


def test_machine_is_named_by_its_cores_and_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert machine("model name\t: Some  CPU @ 2 GHz\nmodel name\t: Some  CPU @ 2 GHz\n") == "2 × Some CPU @ 2 GHz"
    assert machine("") == f"2 × {os.uname().machine}"
