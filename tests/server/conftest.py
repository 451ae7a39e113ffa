"""Real sockets. What the tests share is in `support`, imported as tests.server.support: the root must be on the path."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.server.support import InProcess, Process


@pytest.fixture
def node() -> Iterator[InProcess]:
    """A node in a thread of this process; fails if an exception reached its loop."""
    with InProcess() as node:
        yield node


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A broker in a process of its own, for a whole file; fails if it logged a traceback."""
    with Process(tmp_path_factory.mktemp("leveret")) as process:
        yield process


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Process]:
    """A broker in a process of its own, for one test."""
    with Process(tmp_path) as process:
        yield process
