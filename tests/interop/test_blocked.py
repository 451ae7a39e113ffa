"""connection.blocked and connection.unblocked, as pika hears them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest
from pika.exceptions import ConnectionBlockedTimeout

if TYPE_CHECKING:
    from tests.interop.conftest import Broker

    OwnBroker = Callable[..., tuple[Broker, int]]

PATIENCE = 60.0
MIB = 1 << 20


@pytest.fixture
def connect() -> Iterator[Callable[..., Any]]:
    connections = []

    def open_connection(broker: Broker, **parameters: Any) -> Any:
        url = pika.URLParameters(broker.url)
        for name, value in parameters.items():
            setattr(url, name, value)
        connections.append(pika.BlockingConnection(url))
        return connections[-1]

    yield open_connection
    for connection in connections:
        if connection.is_open:
            connection.close()


class Notices(list[str]):
    """What a connection was told of alarms."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        connection.add_on_connection_blocked_callback(lambda _, frame: self.append(frame.method.reason))
        connection.add_on_connection_unblocked_callback(lambda _, frame: self.append("unblocked"))

    def wait(self, count: int) -> list[str]:
        deadline = time.monotonic() + PATIENCE
        while len(self) < count:
            assert time.monotonic() < deadline, self
            self._connection.process_data_events(0.05)
        return list(self)


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_publisher_hears_of_low_disk(own_broker: OwnBroker, connect: Callable[..., Any]) -> None:
    """SPEC §8.6 pika's blocked callback gets the reason, after a publish and not before; a consumer is not told.

    The publisher's patience, blocked_connection_timeout, ends as pika means it to.
    """
    broker, _ = own_broker(disk_free_limit=1 << 50)
    publisher, consumer = connect(broker, blocked_connection_timeout=2), connect(broker)
    told, not_told = Notices(publisher), Notices(consumer)
    channel = publisher.channel()
    channel.queue_declare("q")
    publisher.process_data_events(0.3)
    assert told == []
    channel.basic_publish("", "q", b"the last")
    assert told.wait(1) == ["low on disk"]
    reader = consumer.channel()
    # If its body came in a packet of its own, that is not read any more.
    assert reader.basic_get("q", auto_ack=True)[2] in (b"the last", None)
    consumer.process_data_events(0.3)
    assert not_told == []
    with pytest.raises(ConnectionBlockedTimeout):
        publisher.process_data_events(PATIENCE)
    assert told == ["low on disk"]
    assert reader.basic_get("q", auto_ack=True)[0] is None


def test_publisher_goes_on_when_memory_is_free_again(own_broker: OwnBroker, connect: Callable[..., Any]) -> None:
    """SPEC §8.6 pika hears blocked at the watermark and unblocked when the queue was emptied, and publishes again."""
    watermark = resident(own_broker()[1]) + 40 * MIB
    broker, _ = own_broker(memory_watermark=watermark, storage="memory")
    publisher, consumer = connect(broker), connect(broker)
    notices = Notices(publisher)
    channel = publisher.channel()
    channel.queue_declare("q")
    sent = 0
    while not notices:
        assert sent < 200 * MIB
        channel.basic_publish("", "q", bytes(100_000))
        sent += 100_000
        publisher.process_data_events(0)
    assert notices == ["low on memory"]
    assert 20 * MIB < sent < 80 * MIB
    consumer.channel().queue_purge("q")
    assert notices.wait(2) == ["low on memory", "unblocked"]
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"again")
    assert len(notices) % 2 == 0
