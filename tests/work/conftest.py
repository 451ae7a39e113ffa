"""Brokers for the workers: a Leveret and a real RabbitMQ, each one process for the whole run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.brokers import rabbitmq
from tests.server.support import Process
from tests.work.support import Place


@pytest.fixture(scope="session")
def leveret_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Process(Path(tmp_path_factory.mktemp("work"))) as broker:
        yield Place(broker.port)


@pytest.fixture(scope="session")
def rabbitmq_place() -> Iterator[Place]:
    with rabbitmq() as broker:
        yield Place(broker.port)


@pytest.fixture
def place(leveret_place: Place) -> Place:
    return leveret_place
