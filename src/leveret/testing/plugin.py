"""Fixtures for pytest, which finds them by the entry point in pyproject.toml.

Every run of pytest where Leveret is installed loads this module: it imports nothing that pytest has not.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leveret.testing.broker import Broker

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def amqp_broker() -> "Iterator[Broker]":
    """The real AMQP 0-9-1 broker Leveret in this process, in memory: one for the run, with pytest-xdist one for each worker.

    For one with other settings, define a fixture of this name in conftest.py around `leveret.testing.Broker`.
    """
    from leveret.testing.broker import Broker  # noqa: PLC0415

    with Broker() as broker:
        yield broker


@pytest.fixture
def amqp_url(amqp_broker: "Broker") -> Iterator[str]:
    """AMQP URL of a fresh virtual host of `amqp_broker`, which is deleted with everything in it after the test."""
    name = f"test-{next(numbers)}"
    amqp_broker.add_vhost(name)
    yield amqp_broker.vhost_url(name)
    amqp_broker.delete_vhost(name)


@pytest.fixture(scope="session")
def amqp_management_url(amqp_broker: "Broker") -> str:
    """URL of the HTTP API of `amqp_broker`, as RabbitMQ's management plug-in has it; it is started on first need."""
    return amqp_broker.start_management()
