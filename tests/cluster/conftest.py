"""The cluster: what the tests share is imported as tests.cluster.support, so the root must be on the path."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster.support import Proxy, engines, one_engine

from leveret.cluster.engine import Engine
from leveret.cluster.nats import Client


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A nats-server for all tests of a module."""
    with one_engine(tmp_path_factory.mktemp("nats")) as found:
        yield found


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    """Three nats-servers, for all tests of a module."""
    with engines(tmp_path_factory.mktemp("nats")) as found:
        yield found


@pytest.fixture
def client(engine: Engine) -> Iterator[Client]:
    found = Client(engine.address)
    yield found
    found.close()


@pytest.fixture
def proxy(engine: Engine) -> Iterator[Proxy]:
    found = Proxy(engine.address)
    yield found
    found.close()
