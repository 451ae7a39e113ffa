"""Each section of the specification that the source or a test names is in docs/specification.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEADING = re.compile(r"## (\d+)\. ")
ITEM = re.compile(r"(\d+)\. ")
# `SPEC §4.2`, and what follows it in one breath: `SPEC §3.6, §5`, `SPEC §2 to §7`.
NAMED = re.compile(r"SPEC §\d[\d.]*(?:(?:, | and | to )§\d[\d.]*)*")


def sections(text: str) -> set[str]:
    """`4` for each heading, `4.2` for each numbered item below it."""
    found = set[str]()
    section = ""
    for line in text.splitlines():
        if heading := HEADING.match(line):
            section = heading[1]
            found.add(section)
        elif item := ITEM.match(line):
            found.add(f"{section}.{item[1]}")
    return found


def named(root: Path) -> Iterator[tuple[str, str]]:
    """File and section, wherever one is named."""
    for path in sorted(root.rglob("*.py")):
        if path == Path(__file__):
            continue
        # A name may go over the end of a line, of a docstring or a comment.
        for reference in NAMED.findall(re.sub(r"\n\s*(# )?", " ", path.read_text())):
            yield from ((path.name, number.rstrip(".")) for number in re.findall(r"§([\d.]+)", reference))


def unknown(root: Path, known: set[str]) -> list[str]:
    return [f"{file}: SPEC §{number}" for file, number in named(root) if number not in known]


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_every_section_that_is_named_exists(folder: str) -> None:
    known = sections((ROOT / "docs/specification.md").read_text())
    # tests/structure/test_rows.py has small trees with rows of their own, all of sections that exist.
    assert unknown(ROOT / folder, known) == []


def test_sections_of_a_text() -> None:
    text = "# T\n\n## 1. One\n1. first\n   2. continued\n2. second\n\n## 10. Ten\ntext\n"
    assert sections(text) == {"1", "1.1", "1.2", "10"}


def test_unknown_section_is_found(tmp_path: Path) -> None:
    text = '"""SPEC §1.1: so. Also (SPEC §1.1,\n    §1.2), SPEC §3 to §4."""\n# SPEC\n# §5.1 it is\n'
    (tmp_path / "a.py").write_text(text)
    assert unknown(tmp_path, {"1", "1.1", "3"}) == ["a.py: SPEC §1.2", "a.py: SPEC §4", "a.py: SPEC §5.1"]
