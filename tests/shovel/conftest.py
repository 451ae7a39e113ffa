"""A broker with shovels, another as its remote, and for each test a name for what is its own."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shovel.support import Shovelling


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shovelling]:
    with Shovelling(Path(tmp_path_factory.mktemp("here"))) as running:
        yield running


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shovelling]:
    with Shovelling(Path(tmp_path_factory.mktemp("there"))) as running:
        yield running


@pytest.fixture
def name(here: Shovelling, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a shovel, which is cleared afterwards, and for its queues."""
    found = re.sub(r"\W+", "-", request.node.name)[:60]
    yield found
    here.http().delete(f"/api/parameters/shovel/%2F/{found}")
