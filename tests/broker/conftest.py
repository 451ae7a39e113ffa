"""Queues, consumers that are lists, and vhosts, as fixtures: tests run with `--import-mode=importlib`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.consumer import Consumer, Window
from leveret.broker.dispatch import push
from leveret.broker.exchange import Exchange
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.rewrite import make_origin
from leveret.broker.vhost import VirtualHost
from leveret.broker.work import Work
from leveret.wire.content import check_properties, frame_content
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.values import Table

NewMessage: TypeAlias = Callable[..., Message]
NewQueue: TypeAlias = Callable[..., Queue]
NewListener: TypeAlias = "Callable[..., Listener]"
Routes: TypeAlias = Callable[..., list[str]]
NewLetter: TypeAlias = Callable[..., Message]
Later: TypeAlias = Callable[[int], None]


class Listener(Consumer):
    """A consumer whose deliveries are a list."""

    def __init__(
        self,
        tag: str = "c",
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        count: int = 0,
        size: int = 0,
        shared: Window | None = None,
        priority: int = 0,
    ) -> None:
        Consumer.__init__(self, tag, no_ack, exclusive, Window(count, size), shared, None, priority)
        self.delivered: list[Entry] = []
        self.told: list[str] = []

    def deliver(self, entry: Entry) -> None:
        self.delivered.append(entry)

    def cancelled(self) -> None:
        self.told.append("cancelled")

    @property
    def seqs(self) -> list[int]:
        return [entry.seq for entry in self.delivered]


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def new_listener() -> NewListener:
    return Listener


@pytest.fixture
def message() -> NewMessage:
    """Make a message with a body of this size."""

    def made(size: int = 1, routing_key: str = "q") -> Message:
        return new_message(Origin("", routing_key, b""), b"", 14, size, max(size, 1), False)

    return made


@pytest.fixture
def queue_with(work: Work, message: NewMessage) -> NewQueue:
    """Make a queue with so many messages, or with bodies of these sizes."""

    def made(count: int = 0, sizes: tuple[int, ...] = ()) -> Queue:
        queue = Queue("q", "queue 'q' in vhost '/'", work, {})
        for size in sizes or [1] * count:
            assert push(queue, message(size), 0)
        work.budget.begin()
        return queue

    return made


@pytest.fixture
def broker() -> Broker:
    return default_broker()


@pytest.fixture
def vhost(broker: Broker) -> VirtualHost:
    return broker.vhosts["/"]


@pytest.fixture
def routes(vhost: VirtualHost) -> Routes:
    """The names of the queues a message reaches."""

    def routed(exchange: str | Exchange, routing_key: str = "", headers: Table | None = None) -> list[str]:
        source = vhost.exchange(exchange) if isinstance(exchange, str) else exchange
        return [queue.name for queue in vhost.route(source, routing_key, Properties(headers=headers))]

    return routed


@pytest.fixture
def letter() -> NewLetter:
    """Make a message that has properties and a body, as a channel does."""

    def made(body: bytes = b"x", routing_key: str = "q", exchange: str = "", **properties: Any) -> Message:
        header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties(Properties(**properties))
        content = frame_content(header, body, max(len(body), 1))
        flags = check_properties(content, len(header))
        message = new_message(make_origin(exchange, routing_key), content, len(header), len(body), len(body), flags)
        if "expiration" in properties:
            message.ttl_ms = int(properties["expiration"])
        return message

    return made


@pytest.fixture
def later(broker: Broker) -> Later:
    """Let it be that time, and do what is due and what that causes."""

    def passed(now: int) -> None:
        work = broker.work
        work.budget.now = now
        work.budget.begin()
        while not broker.timers.run(now, 1000) or work:
            work.budget.begin()
            work.drain()

    return passed
