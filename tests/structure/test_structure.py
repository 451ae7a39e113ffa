"""The structure of the source: layers, sizes, each .pxd with its .py, and the names ARCHITECTURE.md speaks of.

Each check is a function over a tree, and is itself tried on a small tree with a planted fault: one that looks at nothing
finds nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "leveret"

# layer -> what it may import of ours; a module can be named where not all of its layer is open
ALLOWED = {
    "errors": set[str](),
    "terms": set[str](),
    "octets": set[str](),
    "uri": set[str](),
    "wire": {"errors", "terms"},
    # What a message carries: headers and properties. Frames and methods are the protocol's.
    "broker": {"errors", "terms", "octets", "uri", "wire.values", "wire.content", "wire.properties"},
    # What the model is made of, as files, rows and settings have it.
    "definitions": {"errors", "wire.values", "broker"},
    # What it keeps of the model: messages, and what is defined.
    "store": {"errors", "terms", "octets", "wire.values", "broker", "definitions"},
    "protocol": {"errors", "terms", "wire", "broker"},
    # A client of any broker: it knows nothing of this one.
    "client": {"errors", "uri", "wire"},
    # What they are is the model's, how they are run is theirs.
    "shovel": {"errors", "uri", "wire", "broker", "client"},
    # A replicated queue's log is a store on a stream.
    "cluster": {"errors", "wire.content", "broker", "store", "server.cluster_settings"},
    # Who decides logins.
    "auth": {"errors", "broker"},
    "server": {
        "errors",
        "terms",
        "uri",
        "wire",
        "broker",
        "auth",
        "definitions",
        "protocol",
        "store",
        "cluster",
        "client",
        "shovel",
    },
    "management": {
        "errors",
        "terms",
        "uri",
        "wire",
        "broker",
        "auth",
        "definitions",
        "protocol",
        "server",
        "shovel",
        "store",
    },
    # A user of any broker, too.
    "work": {"errors", "uri", "wire", "client"},
    "cli": {
        *("errors", "terms", "uri", "wire", "broker", "definitions", "protocol", "server", "store", "client", "management"),
        *("work", "auth"),
    },
    "testing": {"server", "management", "work"},
}
NO_IO = {"errors", "terms", "octets", "uri", "wire", "broker", "definitions", "protocol"}
IO_MODULES = {"asyncio", "socket", "ssl", "time", "threading"}
LINES_MAX = 800
GENERATED = {"wire/spec.py"}


def modules(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """The modules a file imports, `from a import b` as a.b too, as b may be a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_faults(root: Path) -> Iterator[str]:
    for path in modules(root):
        layer = path.relative_to(root).with_suffix("").parts[0]
        for name in imports(path) if layer in ALLOWED else ():
            top, *rest = name.split(".")
            if top in IO_MODULES and layer in NO_IO:
                yield f"{layer} must stay free of {top} ({path.name})"
            if top == root.name and rest and rest[0] in ALLOWED and not allowed(layer, rest):
                yield f"{layer} must not import {name} ({path.name})"


def allowed(layer: str, rest: list[str]) -> bool:
    return rest[0] == layer or rest[0] in ALLOWED[layer] or ".".join(rest[:2]) in ALLOWED[layer]


def optional_faults(root: Path) -> Iterator[str]:
    """One node needs nothing of cluster/: others may import it in a function only, when a cluster is asked for."""
    for path in modules(root):
        if path.relative_to(root).parts[0] == "cluster":
            continue
        for node in at_import(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(name.split(".")[:2] == [root.name, "cluster"] for name in names):
                yield f"{path.name}:{node.lineno} imports cluster/ when it is imported itself"


def at_import(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that are carried out with a module's own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import(child)


def test_a_broker_that_is_alone_imports_nothing_of_the_cluster() -> None:
    """Not even when it starts: what is only for a cluster is imported where one is asked for."""
    program = """
import asyncio, sys
from leveret.server.config import Config
from leveret.server.node import Node

async def run():
    node = Node(Config(port=0, storage="memory"))
    await node.start()
    await node.stop()

asyncio.run(run())
sys.exit(any(name.startswith("leveret.cluster") for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def size_faults(root: Path) -> Iterator[str]:
    for path in modules(root):
        count = len(path.read_text().splitlines())
        if count > LINES_MAX and str(path.relative_to(root)) not in GENERATED:
            yield f"{path.name} has {count} lines"


def call_faults(root: Path) -> Iterator[str]:
    for path in modules(root):
        if any(name.split(".")[0] == "cython" for name in imports(path)):
            yield f"{path.name} imports cython: types belong in its .pxd"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                yield f"{path.name} prints"


def index_faults(root: Path) -> Iterator[str]:
    """Compiled without `wraparound`, an index below 0 reads what stands before the list."""
    for path in modules(root):
        if not path.with_suffix(".pxd").exists():
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.slice, ast.UnaryOp)
                and isinstance(node.slice.op, ast.USub)
            ):
                yield f"{path.name}:{node.lineno} counts from the end"


def declared(pxd: Path) -> Iterator[tuple[str, str]]:
    """Class ("" outside of any) and name of every class, function, method and attribute a .pxd declares."""
    owner = ""
    for line in pxd.read_text().splitlines():
        if found := re.match(r"(?:cdef|cpdef) class (\w+)", line):
            owner = found[1]
            yield "", owner
        elif found := re.match(r"(\s*)c(?:p?)def\s(?!class)[^(]*?(\w+)\(", line):
            yield (owner if found[1] else ""), found[2]
        elif found := re.match(r"(\s*)cdef\s(?:public\s)?[\w ]+?\s?\b(\w+(?:, *\w+)*)$", line.split("#")[0].rstrip()):
            for name in found[2].split(","):
                yield (owner if found[1] else ""), name.strip()


def defined(path: Path) -> set[tuple[str, str]]:
    """The same of a .py; an attribute is what is in __slots__ or is annotated or assigned to self."""
    found = set[tuple[str, str]]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.add(("", node.name))
            found |= {(node.name, name) for name in members(node)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(("", node.name))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found |= {("", alias.asname or alias.name) for alias in node.names}
        else:
            found |= {("", name.id) for name in ast.walk(node) if isinstance(name, ast.Name)}
    return found


def members(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield part.name
        elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            yield part.attr
        elif isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) for t in part.targets):
            yield from (target.id for target in part.targets if isinstance(target, ast.Name))
            if any(isinstance(t, ast.Name) and t.id == "__slots__" for t in part.targets):
                yield from (
                    c.value for c in ast.walk(part.value) if isinstance(c, ast.Constant) and isinstance(c.value, str)
                )


def pairing_faults(root: Path) -> Iterator[str]:
    for pxd in sorted(root.rglob("*.pxd")):
        path = pxd.with_suffix(".py")
        if not path.exists():
            yield f"{pxd.name} has no .py beside it"
            continue
        known = defined(path)
        for owner, name in declared(pxd):
            if (owner, name) not in known:
                yield f"{pxd.name} declares {owner}{'.' if owner else ''}{name}, which {path.name} has not"


def spoken_of(text: str) -> Iterator[str]:
    """What stands in backticks, code blocks left out."""
    without_blocks = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", without_blocks)


def name_faults(text: str, root: Path, repository: Path) -> Iterator[str]:
    classes: dict[str, set[str]] = {}
    functions: dict[str, set[str]] = {}
    for path in modules(root):
        for owner, name in defined(path):
            functions.setdefault(path.stem, set()).add(name)
            if owner:
                classes.setdefault(owner, set()).add(name)
            elif name[:1].isupper():
                classes.setdefault(name, set())
    methods = protocol_methods(root)
    for name in spoken_of(text):
        if re.fullmatch(r"[\w-]+(/[\w.-]*)+|[\w-]+\.(py|pxd|toml|md)", name):
            if not any((folder / name).exists() for folder in (repository, root, root.parent)):
                yield f"no file {name}"
        elif found := re.fullmatch(r"([A-Z]\w+)(?:\.(\w+))?", name):
            if found[1] not in classes or (found[2] and found[2] not in classes[found[1]]):
                yield f"no class or member {name}"
        elif (found := re.fullmatch(r"(\w+)\.(\w+)", name)) and found[1] in functions and name not in methods:
            if found[2] not in functions[found[1]]:
                yield f"no {name}"
        elif re.fullmatch(r"[a-z]+_[a-z_]+", name) and not any(name in known for known in functions.values()):
            yield f"nothing is called {name}"


def walk_faults(text: str, root: Path) -> Iterator[str]:
    """Lines of drawn walks, `1 server/transport.py  buffer_updated  …`, whose file or function is not there."""
    for path, name in re.findall(r"^ *\d+ +([\w/]+\.py) +(\w+)", text, flags=re.MULTILINE):
        if not (root / path).exists():
            yield f"no file {path}"
        elif name not in {found for _, found in defined(root / path)}:
            yield f"no {name} in {path}"


def protocol_methods(root: Path) -> set[str]:
    """basic.publish and the like, which only look like a module's names."""
    spec = root / "wire" / "spec.py"
    return set(re.findall(r'NAME: ClassVar\[str\] = "([\w.-]+)"', spec.read_text())) if spec.exists() else set()


# The source


def test_layers_import_only_downwards() -> None:
    assert list(layer_faults(SOURCE)) == []


def test_nothing_imports_the_cluster_but_functions() -> None:
    """SPEC §11.4: one node needs none of it."""
    assert list(optional_faults(SOURCE)) == []


def test_every_layer_is_known() -> None:
    found = {path.relative_to(SOURCE).with_suffix("").parts[0] for path in modules(SOURCE)}
    assert found - {"__init__", "__main__"} == set(ALLOWED)


def test_modules_are_small() -> None:
    assert list(size_faults(SOURCE)) == []


def test_source_neither_prints_nor_imports_cython() -> None:
    assert list(call_faults(SOURCE)) == []


def test_compiled_modules_do_not_count_from_the_end() -> None:
    assert list(index_faults(SOURCE)) == []


def test_every_pxd_declares_what_its_module_has() -> None:
    assert list(pairing_faults(SOURCE)) == []


def test_architecture_speaks_of_what_there_is() -> None:
    assert list(name_faults((ROOT / "ARCHITECTURE.md").read_text(), SOURCE, ROOT)) == []


def test_drawn_walks_are_true() -> None:
    assert list(walk_faults((ROOT / "ARCHITECTURE.md").read_text(), SOURCE)) == []


def test_where_to_add_speaks_of_what_there_is() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert list(name_faults(text[text.index("## Where to add") :], SOURCE, ROOT)) == []


# The checks


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small sound tree."""
    root = tmp_path / "leveret"
    for name, text in {
        "errors.py": "class Fault(Exception):\n    pass\n",
        "wire/values.py": "from leveret.errors import Fault\n",
        "wire/frames.py": "class Reader:\n    __slots__ = ('at', '_rest')\n    def next(self):\n        return True\n",
        "wire/frames.pxd": "cdef class Reader:\n    cdef public int at\n    cdef bytes _rest\n    cpdef bint next(self)\n",
        "broker/queue.py": "from leveret.wire.values import Fault\nLIMIT = 5\ndef new_queue() -> int:\n    return LIMIT\n",
        "broker/queue.pxd": "cdef int LIMIT\ncpdef int new_queue()\n",
        "server/node.py": "import asyncio\nfrom leveret.broker.queue import new_queue\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_sound_tree_has_no_faults(tree: Path) -> None:
    for faults in (layer_faults, size_faults, call_faults, index_faults, pairing_faults):
        assert list(faults(tree)) == []


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("wire/a.py", "from leveret.broker import queue\n", "wire must not import leveret.broker.queue (a.py)"),
        (
            "broker/a.py",
            "from leveret.wire.frames import Reader\n",
            "broker must not import leveret.wire.frames.Reader (a.py)",
        ),
        ("broker/a.py", "import leveret.protocol\n", "broker must not import leveret.protocol (a.py)"),
        ("protocol/a.py", "from leveret.server.node import x\n", "protocol must not import leveret.server.node.x (a.py)"),
        ("broker/a.py", "import time\n", "broker must stay free of time (a.py)"),
        ("protocol/a.py", "def f():\n    import asyncio.events\n", "protocol must stay free of asyncio (a.py)"),
        ("wire/a.py", "from socket import socket\n", "wire must stay free of socket (a.py)"),
    ],
)
def test_import_upwards_is_found(tree: Path, name: str, text: str, fault: str) -> None:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text(text)
    assert list(layer_faults(tree)) == [fault]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from leveret.cluster.engine import Engine\n", True),
        ("import leveret.cluster\n", True),
        ("from leveret.cluster import engine\n", True),
        ("try:\n    import leveret.cluster.nats\nexcept ImportError:\n    pass\n", True),
        ("class A:\n    from leveret.cluster import nats\n", True),
        ("def f():\n    from leveret.cluster import nats\n", False),
        ("if TYPE_CHECKING:\n    from leveret.cluster import nats\n", False),
        ("import leveret.clusters\n", False),
    ],
)
def test_import_of_the_cluster_is_found(tree: Path, text: str, fault: bool) -> None:
    (tree / "server/a.py").write_text(text)
    assert bool(list(optional_faults(tree))) == fault


def test_long_module_is_found(tree: Path) -> None:
    (tree / "broker/long.py").write_text("x = 1\n" * 801)
    (tree / "wire/spec.py").write_text("x = 1\n" * 2000)
    assert list(size_faults(tree)) == ["long.py has 801 lines"]


def test_print_and_cython_are_found(tree: Path) -> None:
    (tree / "broker/a.py").write_text("import cython\nprint('x')\n")
    assert list(call_faults(tree)) == ["a.py imports cython: types belong in its .pxd", "a.py prints"]


def test_count_from_the_end_is_found_where_it_is_compiled(tree: Path) -> None:
    for name in ("wire/frames.py", "wire/values.py"):
        with (tree / name).open("a") as module:
            module.write("last = [1, 2][-1]\n")
    assert list(index_faults(tree)) == ["frames.py:5 counts from the end"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("    cdef public int missing\n", "frames.pxd declares Reader.missing, which frames.py has not"),
        ("    cdef list _missing\n", "frames.pxd declares Reader._missing, which frames.py has not"),
        ("    cpdef missing(self, int x)\n", "frames.pxd declares Reader.missing, which frames.py has not"),
        ("    cdef bint _missing(self) except -1\n", "frames.pxd declares Reader._missing, which frames.py has not"),
        ("cdef class Missing:\n", "frames.pxd declares Missing, which frames.py has not"),
        ("cpdef long missing(bytes x) except -1\n", "frames.pxd declares missing, which frames.py has not"),
        ("cdef int MISSING\n", "frames.pxd declares MISSING, which frames.py has not"),
    ],
)
def test_declaration_without_its_like_is_found(tree: Path, line: str, fault: str) -> None:
    with (tree / "wire/frames.pxd").open("a") as pxd:
        pxd.write(line)
    assert list(pairing_faults(tree)) == [fault]


def test_pxd_without_a_module_is_found(tree: Path) -> None:
    (tree / "wire/alone.pxd").write_text("")
    assert list(pairing_faults(tree)) == ["alone.pxd has no .py beside it"]


@pytest.mark.parametrize(
    "name", ["wire/frames.py", "broker/", "Reader", "Reader.next", "Reader.at", "queue.new_queue", "new_queue"]
)
def test_name_that_is_there_is_no_fault(tree: Path, name: str) -> None:
    assert list(name_faults(f"See `{name}`.", tree, tree)) == []


@pytest.mark.parametrize("name", ["wire/gone.py", "gone/", "Gone", "Reader.gone", "queue.gone", "new_gone"])
def test_name_that_is_not_there_is_found(tree: Path, name: str) -> None:
    assert len(list(name_faults(f"See `{name}`.", tree, tree))) == 1


def test_code_blocks_and_other_words_are_left_alone(tree: Path) -> None:
    assert list(name_faults("```\n`Gone.gone`\n```\nand `p = data`, `p[a:b]`, `x-match`, `basic.publish`", tree, tree)) == []


def test_step_of_a_walk_that_is_not_there_is_found(tree: Path) -> None:
    steps = (" 1 broker/queue.py  new_queue  so", "10 wire/frames.py next", " 2 broker/queue.py gone", " 3 wire/gone.py x")
    walk = "\n".join(("```", *steps, "```"))
    assert list(walk_faults(walk, tree)) == ["no gone in broker/queue.py", "no file wire/gone.py"]
