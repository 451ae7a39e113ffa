"""ARCHITECTURE's map of the layers: each module it names is there, and each module is on it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "leveret"
# One module for each resource, exchange argument or noun: the map says so instead of naming them.
BY_THE_FOLDER = ("management/api", "cli")
FOLDER = re.compile(r"^ {2}(\w+)/|^ {17}(\w+)/")
MODULE = re.compile(r"(?<![/\w])(\w+)\.py\b")


def drawn(text: str) -> dict[str, set[str]]:
    """Folder to the modules that the map has in it."""
    block = text.split("## Layers", 1)[1].split("```")[1]
    found: dict[str, set[str]] = {}
    layer = folder = ""
    for line in block.splitlines():
        named = FOLDER.match(line)
        if named is not None and named[1]:
            layer = folder = named[1]
        elif named is not None:
            folder = f"{layer}/{named[2]}"
        found.setdefault(folder, set()).update(MODULE.findall(line))
    return found


def there() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            folder = path.parent.relative_to(SOURCE).as_posix()
            found.setdefault("" if folder == "." else folder, set()).add(path.stem)
    return found


def map_faults(text: str) -> list[str]:
    on_map, real = drawn(text), there()
    named = {(folder, name) for folder, names in on_map.items() for name in names}
    faults = [f"{folder}/{name}.py is on the map only" for folder, name in sorted(named) if name not in real.get(folder, ())]
    for folder, names in sorted(real.items()):
        if folder not in BY_THE_FOLDER:
            faults += [f"{folder}/{name}.py is not on the map" for name in sorted(names - on_map.get(folder, set()))]
    return faults


def test_map_of_the_layers_is_true() -> None:
    assert map_faults((ROOT / "ARCHITECTURE.md").read_text()) == []


@pytest.mark.parametrize(
    ("text", "other", "fault"),
    [
        ("queue.py      Queue", "queues.py     Queue", "broker/queues.py is on the map only"),
        ("committer.py  the thread", "the thread", "store/committer.py is not on the map"),
    ],
)
def test_map_that_is_wrong_is_found(text: str, other: str, fault: str) -> None:
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    assert fault in map_faults(architecture.replace(text, other, 1))
