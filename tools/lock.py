"""Write requirements-dev.lock: what pyproject.toml's dependencies and groups come to, each with its version and hashes.

lock.py INDEX     INDEX is the address of a package index (`make lock INDEX=https://…/simple`)

The lock names no address: pip finds the files wherever it is set up to look, and takes none whose hash is not here. It has
the hashes of the source archives, and of the wheels for the Pythons and machines below; other machines build from source.
"""

import json
import re
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-dev.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = ("linux", "darwin")
MACHINES = re.compile(r"any|(manylinux|musllinux|macosx)_.*_(x86_64|aarch64|arm64|universal2)")
ANCHOR = re.compile(r'<a\b[^>]*href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')

HEAD = """\
# What `make test` installs. Made by tools/lock.py from pyproject.toml; do not edit.
"""


def wanted(project: dict[str, Any]) -> Iterator[str]:
    """What pyproject.toml asks for: to run, to run fast, and in all groups."""
    yield from project["project"]["dependencies"]
    for extra in project["project"]["optional-dependencies"].values():
        yield from extra
    for group in project["dependency-groups"].values():
        yield from (one for one in group if isinstance(one, str))


def resolve(requirements: list[str]) -> dict[str, dict[str, Any]]:
    """Metadata of each package that pip would install, by name."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    found = subprocess.run([*command, *requirements], stdout=subprocess.PIPE, check=True).stdout
    packages = [one["metadata"] for one in json.loads(found)["install"]]
    return {canonicalize_name(package["name"]): package for package in packages}


def left_out(packages: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What these need on another Python or system than this one."""
    for package in packages.values():
        for text in package.get("requires_dist", ()):
            requirement = Requirement(text)
            if canonicalize_name(requirement.name) not in packages and applies(requirement.marker):
                requirement.marker = None
                yield str(requirement)


def applies(marker: Marker | None) -> bool:
    """Whether a dependency, without its extras, is one somewhere."""
    return marker is None or any(
        marker.evaluate(
            {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": system, "extra": ""}
        )
        for python in PYTHONS
        for system in SYSTEMS
    )


def hashes(index: str, name: str, version: str) -> list[str]:
    """Hashes of a version's files, sorted."""
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as answer:
        page = answer.read().decode()
    return sorted({digest for file, digest in ANCHOR.findall(page) if fits(urllib.parse.unquote(file), name, version)})


def fits(file: str, name: str, version: str) -> bool:
    if not file.endswith(".whl"):
        archive = re.fullmatch(rf"(.+)-{re.escape(version)}\.(tar\.gz|zip)", file)
        return archive is not None and canonicalize_name(archive[1]) == name
    _, found, _, tags = parse_wheel_filename(file)
    return str(found) == version and any(
        MACHINES.fullmatch(tag.platform) and fits_python(tag.interpreter, tag.abi) for tag in tags
    )


def fits_python(interpreter: str, abi: str) -> bool:
    # A stable ABI is that of a Python and of all later ones; ours are none the worse for one that is too late.
    ours = {f"cp{python.replace('.', '')}" for python in PYTHONS}
    return interpreter.startswith("py3") or abi == "abi3" or (interpreter == abi and interpreter in ours)


def main() -> None:
    index = sys.argv[1]
    requirements = sorted(set(wanted(tomllib.loads((ROOT / "pyproject.toml").read_text()))))
    packages = resolve(requirements)
    while others := sorted(set(left_out(packages))):
        requirements += others
        packages = resolve(requirements)
    lines = []
    for name, package in sorted(packages.items()):
        found = hashes(index, name, package["version"])
        if not found:
            sys.exit(f"the index has no file of {name} {package['version']} with a hash")
        lines.append(" \\\n".join([f"{name}=={package['version']}", *(f"    --hash=sha256:{one}" for one in found)]))
    LOCK.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{LOCK.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
