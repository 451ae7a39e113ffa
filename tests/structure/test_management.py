"""The packages of the management layer: imports point from what is asked for to what every route needs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.structure.test_structure import SOURCE, imports

# package -> those of the others it may import; a module that is in none is named by itself
ALLOWED = {
    "http": set[str](),
    "client": {"http"},
    "api_channel": {"http"},
    "statistics": {"http", "client"},
    "messages": {"http", "api_channel"},
    "prometheus": {"http", "client", "statistics"},
    "tls_view": set[str](),
    "api": {"http", "client", "api_channel", "statistics", "messages", "tls_view"},
    "server": {"http", "statistics", "prometheus", "api"},
}


def faults(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        package = path.relative_to(root).with_suffix("").parts[0]
        for name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["leveret", "management"] and parts[2] not in {package, *ALLOWED.get(package, ())}:
                yield f"{path.relative_to(root)} must not import {name}"


def only_for_types(path: Path) -> set[str]:
    """What a module imports for its annotations only."""
    blocks = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If)]
    return {
        f"{node.module}.{alias.name}"
        for block in blocks
        if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_packages_import_only_downwards() -> None:
    """A request has the statistics with it, by name only."""
    root = SOURCE / "management"
    types = {
        f"{path.relative_to(root)} must not import {name}" for path in root.rglob("*.py") for name in only_for_types(path)
    }
    assert [fault for fault in faults(root) if fault not in types] == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("http/a.py", "from leveret.management.api.queues import find_queue\n", 1),
        ("statistics/a.py", "import leveret.management.prometheus.node\n", 1),
        ("prometheus/a.py", "from leveret.management import api\n", 1),
        ("api/a.py", "from leveret.management.http.json import Json\n", 0),
        ("unknown.py", "from leveret.management.http.json import Json\n", 1),
    ],
)
def test_import_upwards_is_found(tmp_path: Path, name: str, text: str, count: int) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert len(list(faults(tmp_path))) == count
