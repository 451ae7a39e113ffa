"""requirements-dev.lock has all that pyproject.toml asks for, by name, version and hash, and no address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PINNED = re.compile(r"([a-z0-9-]+)==([\w.]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")

LOCK = (ROOT / "requirements-dev.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins() -> dict[str, Version]:
    return {name: Version(version) for name, version, _ in PINNED.findall(LOCK)}


def asked_for() -> list[Requirement]:
    groups = [*PROJECT["dependency-groups"].values(), *PROJECT["project"]["optional-dependencies"].values()]
    texts = [*PROJECT["project"]["dependencies"], *(one for group in groups for one in group if isinstance(one, str))]
    return [Requirement(text) for text in texts]


def test_lock_has_what_is_asked_for() -> None:
    found = pins()
    for requirement in asked_for():
        name = canonicalize_name(requirement.name)
        assert name in found, f"{name} is not locked: make lock"
        assert found[name] in requirement.specifier, f"{name} {found[name]} is locked, {requirement} is asked for"


def test_lock_has_names_versions_and_hashes_only() -> None:
    assert re.sub(r"^#.*\n", "", PINNED.sub("", LOCK)) == ""
    assert "/" not in re.sub(r"^#.*\n", "", LOCK)


def test_group_for_development_has_all_others() -> None:
    groups = PROJECT["dependency-groups"]
    assert {one["include-group"] for one in groups["dev"]} == set(groups) - {"dev"}
