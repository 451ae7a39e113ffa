"""One broker with its HTTP API for the whole suite; each test has a vhost of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.management.support import Http, Running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(Path(tmp_path_factory.mktemp("management"))) as running:
        yield running


@pytest.fixture
def http(broker: Running) -> Http:
    """guest, an administrator."""
    return broker.http()


@pytest.fixture
def vhost(http: Http, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh vhost for the test; its name has a slash in it."""
    name = f"/{request.node.name[:60]}"
    assert http.put(f"/api/vhosts/{http.quoted(name)}").status == 201
    yield name
    http.delete(f"/api/vhosts/{http.quoted(name)}")
