"""One broker with its HTTP API for the whole suite; each test has a vhost of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.management.support import Http, Running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(Path(tmp_path_factory.mktemp("management"))) as running:
        yield running


LIMITED = """
users = [
    {name = "guest", password = "guest", tags = ["administrator"]},
    {name = "some", password = "some", tags = ["management"]},
]
permissions = [
    {user = "guest", configure = ".*", write = ".*", read = ".*"},
    {user = "guest", vhost = "other", configure = ".*", write = ".*", read = ".*"},
    {user = "some", configure = "^mine", write = "^(mine|amq.topic|amq\\\\.default)", read = "^readable"},
]
topic_permissions = [{user = "some", exchange = "amq.topic", write = "^ok", read = ".*"}]
vhosts = [{name = "/"}, {name = "other"}]
policies = [
    {name = "users", vhost = "other", pattern = "^q", definition = {max-length = 10, message-ttl = 1000}},
]
operator_policies = [
    {name = "operators", vhost = "other", pattern = "", apply-to = "queues", definition = {max-length = 5, expires = 60000}},
]
"""


@pytest.fixture(scope="session")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with a user who may do little, and with policies in the vhost `other`."""
    folder = Path(tmp_path_factory.mktemp("limited"))
    (folder / "leveret.toml").write_text(LIMITED)
    with Running(folder, "--config", str(folder / "leveret.toml")) as running:
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
