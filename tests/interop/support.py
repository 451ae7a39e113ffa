"""What tests with pika's BlockingConnection do over and over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pika.exceptions import ChannelClosedByBroker

PATIENCE = 60.0


def fill(channel: Any, queue: str, *bodies: str) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body.encode())


def get(channel: Any, queue: str) -> tuple[str, bool] | None:
    """Take a message and return its body and whether it was redelivered."""
    method, _, body = channel.basic_get(queue, auto_ack=True)
    return method and (body.decode(), method.redelivered)


def get_all(channel: Any, queue: str) -> list[tuple[str, bool]]:
    return list(iter(lambda: get(channel, queue), None))


def ready_count(channel: Any, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


class Inbox(list[Any]):
    """Deliveries of one consumer, as (method, body)."""

    def __init__(self, channel: Any, queue: str, **arguments: Any) -> None:
        self.channel = channel
        self.tag = channel.basic_consume(queue, self._on_message, **arguments)

    def _on_message(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.append((method, body.decode()))

    def wait(self, count: int) -> list[str]:
        """Wait for so many deliveries and return their bodies."""
        run_until(self.channel, lambda: len(self) >= count)
        return [body for _, body in self]


def run_until(channel: Any, check: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < deadline, "not delivered in time"
        channel.connection.process_data_events(0.05)


def is_missing(connection: Any, queue: str) -> bool:
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except ChannelClosedByBroker as error:
        return bool(error.reply_code == 404)
    channel.close()
    return False
