"""What the types leave open: what is ignored, what may be anything, and modules of the model that need each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parents[2] / "src" / "leveret"

# None of these may grow.
IGNORED_MAX = 10
ANY_MAX = 183
# Modules of the model that import each other, for their types alone too: a virtual host with all that it is made of, which
# knows its virtual host; and a queue with its parts, which know their queue. A protocol for each part would be more to read
# than the whole. Without imports for types there are no cycles at all.
CYCLES = [16, 22]


def lines_with(pattern: str, root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(pattern, line)
    ]


def imports(path: Path, package: str, typing: bool) -> Iterator[str]:
    """The modules of its own package that one imports; with `typing`, also those it has for types alone."""
    tree = ast.parse(path.read_text())
    skipped = set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not typing:
            skipped.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in skipped and node.module and node.module.startswith(package):
            rest = node.module[len(package) :].lstrip(".")
            yield from [rest] if rest else [alias.name for alias in node.names]


def cycles(folder: Path, package: str, typing: bool = True) -> list[list[str]]:
    """The groups of modules in which each leads to each other, by size."""
    graph = {path.stem: set(imports(path, package, typing)) for path in folder.glob("*.py")}
    reached = {name: reach(name, graph) for name in graph}
    groups = {tuple(sorted(other for other in reached[name] if name in reached.get(other, ()))) for name in graph}
    return sorted((list(group) for group in groups if len(group) > 1), key=len)


def reach(start: str, graph: dict[str, set[str]]) -> set[str]:
    found = set[str]()
    waiting = [start]
    while waiting:
        for name in graph.get(waiting.pop(), set()) - found:
            found.add(name)
            waiting.append(name)
    return found


def test_few_lines_are_ignored() -> None:
    assert len(lines_with("type: ignore", SOURCE)) <= IGNORED_MAX


def test_little_may_be_anything() -> None:
    assert len(lines_with(r"\bAny\b", SOURCE)) <= ANY_MAX


def test_model_has_no_more_cycles_of_types() -> None:
    found = [len(group) for group in cycles(SOURCE / "broker", "leveret.broker")]
    assert len(found) <= len(CYCLES)
    assert all(size <= limit for size, limit in zip(found, CYCLES, strict=False))


def test_model_has_no_cycles_when_it_runs() -> None:
    assert cycles(SOURCE / "broker", "leveret.broker", typing=False) == []


# The checks


def test_cycle_is_found(tmp_path: Path) -> None:
    for name, text in {
        "a": "from model.b import B\n",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from model import c\n",
        "c": "from model.a import A\nfrom other.b import B\n",
        "d": "from model.a import A\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert cycles(tmp_path, "model") == [["a", "b", "c"]]
    assert cycles(tmp_path, "model", typing=False) == []


def test_lines_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x: Any = 1\nAnyway = 2\ny = f()  # type: ignore[misc]\n")
    assert lines_with(r"\bAny\b", tmp_path) == ["a.py: x: Any = 1"]
    assert lines_with("type: ignore", tmp_path) == ["a.py: y = f()  # type: ignore[misc]"]
