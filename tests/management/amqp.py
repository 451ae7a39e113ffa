"""AMQP clients for the tests of the HTTP API: pika, over the network."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from tests.management.support import Running


@contextmanager
def connected(
    broker: Running, vhost: str = "/", user: str = "guest", password: str = "guest", **options: Any
) -> Iterator[pika.BlockingConnection]:
    """A connection for as long as the block lasts; it may have been closed by then."""
    credentials = pika.PlainCredentials(user, password)
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, vhost, credentials, **options)
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


@contextmanager
def channel_of(broker: Running, vhost: str = "/", **options: Any) -> Iterator[BlockingChannel]:
    with connected(broker, vhost, **options) as connection:
        yield connection.channel()


def only(found: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The one that has these values."""
    matching = [one for one in found if all(one.get(name) == value for name, value in wanted.items())]
    assert len(matching) == 1, (wanted, found)
    return matching[0]


def soon(look: Callable[[], Any], seconds: float = 15.0) -> Any:
    """What `look` finds as soon as it finds something."""
    import time

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it never came to be")
