"""The store: what the tests share is imported as tests.store.support, so the root must be on the path.

Suites of what is written to the journal and read from it run twice: on a simulated folder, and on a stream of a real
nats-server. A test that is about files alone says so: `files_only`.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster.support import one_engine
from tests.store.stream_power import PowerStreamDisk, Streams
from tests.store.support import Rig

from leveret.cluster.engine import ENVIRONMENT, Engine

ON_STREAMS = {
    "test_compaction",
    "test_journal",
    "test_open_page",
    "test_page_transfer",
    "test_peek",
    "test_power_cut",
    "test_recovery",
    "test_relief",
    "test_shared_window",
    "test_store",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in ON_STREAMS:
        files_only = metafunc.definition.get_closest_marker("files_only")
        metafunc.parametrize("any_disk", ["files"] if files_only else ["files", "stream"], indirect=True)


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A nats-server with room for many streams in memory, where they need not be synced."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(ENVIRONMENT, "GOMEMLIMIT", "2GiB")
            engine = stack.enter_context(one_engine(tmp_path_factory.mktemp("nats")))
        yield engine


@pytest.fixture(autouse=True)
def any_disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is below the brokers of a test."""
    if getattr(request, "param", "files") == "files":
        yield
        return
    streams = Streams(request.getfixturevalue("nats").address, tmp_path / "aside")
    monkeypatch.setattr(Rig, "new_disk", lambda: PowerStreamDisk(streams))
    yield
    streams.close()
