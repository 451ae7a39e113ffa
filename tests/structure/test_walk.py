"""The walks that ARCHITECTURE.md draws are what happens: each is run in plain Python, where every call can be seen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {"wire": 0, "broker": 1, "definitions": 1, "store": 1, "protocol": 2, "auth": 1, "server": 3, "management": 4}
LAYERS |= {"testing": 4}
# How many files a drawing may name: what a reader has to open. And in how many some function runs, which is more: counters,
# clocks, octets and such are in no drawing.
WALKS = {"transient": (9, 30), "lost": (17, 52), "persistent": (16, 50), "declare": (11, 66)}

Row = tuple[str, str, str, str]
"""File and function of a call, and of where it came from."""


class Step(NamedTuple):
    path: str
    name: str
    up: bool


def drawings(text: str) -> list[list[Step]]:
    """The drawn walks, in order: blocks of numbered lines with file and function."""
    found = []
    for block in re.findall(r"```\n(.*?)```", text, flags=re.DOTALL):
        lines = re.findall(r"^ *\d+ +([\w/]+\.py) +(\w+)(.*)$", block, flags=re.MULTILINE)
        if lines:
            found.append([Step(path, name, rest.endswith("[up]")) for path, name, rest in lines])
    return found


def order_faults(steps: Iterable[Step], rows: list[Row]) -> Iterator[str]:
    """Steps that are not taken, or not after the one before."""
    at = 0
    for step in steps:
        found = next((index for index in range(at, len(rows)) if rows[index][:2] == step[:2]), None)
        if found is None:
            yield f"{step.path} {step.name} is not called behind what is drawn before it"
        else:
            at = found + 1


def is_up(row: Row) -> bool:
    """Whether a function of a higher layer is called."""
    called, caller = (LAYERS.get(path.split("/")[0], 0) for path in (row[0], row[2]))
    return row[2] != "" and caller < called


def up_faults(steps: Iterable[Step], rows: list[Row]) -> Iterator[str]:
    """Upward calls that are not marked, and marks without one."""
    marked = {step[:2] for step in steps if step.up}
    seen = {row[:2] for row in rows if is_up(row)}
    yield from (f"{path} {name} is called from below" for path, name in sorted(seen - marked))
    yield from (f"{path} {name} is not called from below" for path, name in sorted(marked - seen))


@cache
def recorded(name: str) -> list[Row]:
    program = [sys.executable, "tests/structure/record_walk.py", name]
    result = subprocess.run(program, cwd=ROOT, env={**os.environ, "LEVERET_PURE": "1"}, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return [tuple(row) for row in json.loads(result.stdout)]


@cache
def drawn(name: str) -> list[Step]:
    found = drawings((ROOT / "ARCHITECTURE.md").read_text())
    assert len(found) == len(WALKS)
    return found[list(WALKS).index(name)]


@pytest.mark.parametrize("name", WALKS)
def test_walk_goes_as_it_is_drawn(name: str) -> None:
    assert list(order_faults(drawn(name), recorded(name))) == []


@pytest.mark.parametrize("name", WALKS)
def test_each_call_upwards_is_marked(name: str) -> None:
    assert list(up_faults(drawn(name), recorded(name))) == []


@pytest.mark.parametrize("name", WALKS)
def test_walk_is_through_few_files(name: str) -> None:
    to_open, to_run = WALKS[name]
    assert len({step.path for step in drawn(name)}) <= to_open
    assert len({row[0] for row in recorded(name)}) <= to_run


# The checks


def test_drawing_is_read() -> None:
    text = "```\n 1 broker/a.py  push  to whom  [up]\n10 store/b.py  place\n```\nand\n```\nno walk\n```\n"
    assert drawings(text) == [[Step("broker/a.py", "push", True), Step("store/b.py", "place", False)]]


def test_step_that_comes_too_early_or_never_is_found() -> None:
    steps = [Step("broker/a.py", name, False) for name in ("one", "two", "three")]
    rows: list[Row] = [("broker/a.py", name, "", "") for name in ("two", "one", "three", "one")]
    assert list(order_faults(steps, rows)) == ["broker/a.py two is not called behind what is drawn before it"]


def test_call_upwards_without_mark_and_mark_without_call_are_found() -> None:
    steps = [Step("server/a.py", "wake", False), Step("broker/b.py", "push", True)]
    rows: list[Row] = [("server/a.py", "wake", "wire/o.py", "wake"), ("broker/b.py", "push", "protocol/c.py", "publish")]
    assert list(up_faults(steps, rows)) == [
        "server/a.py wake is called from below",
        "broker/b.py push is not called from below",
    ]
