"""Brokers whose shovels are tried, from outside: over HTTP and with pika."""

from pathlib import Path
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel
from tests.management.amqp import channel_of, soon
from tests.management.support import Running

FAST = {"reconnect-delay": 0.2}


class Shovelling(Running):
    """A broker with shovels."""

    def set(self, name: str, value: dict[str, Any], vhost: str = "/") -> None:
        path = f"/api/parameters/shovel/{self.http().quoted(vhost)}/{name}"
        answer = self.http().put(path, {"value": FAST | value})
        assert answer.status in (201, 204), answer.body

    def clear(self, name: str, vhost: str = "/") -> None:
        assert self.http().delete(f"/api/parameters/shovel/{self.http().quoted(vhost)}/{name}").status == 204

    def shovel(self, name: str) -> dict[str, Any] | None:
        """What the API says of a shovel; None if there is none."""
        return next((one for one in self.http().get("/api/shovels") if one["name"] == name), None)

    def wait(self, name: str, state: str = "running") -> dict[str, Any]:
        """The shovel, when it is in this state."""

        def look() -> dict[str, Any] | None:
            found = self.shovel(name)
            return found if found is not None and found["state"] == state else None

        found: dict[str, Any] = soon(look)
        return found

    def uri(self, more: str = "") -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}{more}"


def fill(broker: Running, queue: str, bodies: list[bytes], vhost: str = "/", **options: Any) -> None:
    """Publish to a durable queue, with confirms."""
    with channel_of(broker, vhost) as channel:
        channel.queue_declare(queue, durable=True, **options)
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body)


def taken(broker: Running, queue: str, vhost: str = "/") -> list[bytes]:
    """What is in a queue; it is empty then."""
    with channel_of(broker, vhost) as channel:
        return drained(channel, queue)


def drained(channel: BlockingChannel, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        assert body is not None
        found.append(body)


def length(broker: Running, queue: str, vhost: str = "/") -> int:
    """How many messages a queue has; -1 if there is none of this name."""
    with channel_of(broker, vhost) as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).method.message_count)
        except Exception as error:
            if "NOT_FOUND" in str(error):
                return -1
            raise


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def folder(path: Path, name: str) -> Path:
    found = path / name
    found.mkdir(exist_ok=True)
    return found
