"""Answers that wait for storage, and clients that do not."""

from typing import Any

import pytest
from tests.protocol.conftest import Client, Connect

from leveret.broker.broker import Broker
from leveret.broker.storage import Storage
from leveret.wire.spec import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)


class Leaving(Storage):
    """Has a queue whose dead letters are on their way."""

    def __init__(self) -> None:
        Storage.__init__(self)
        self.left = False

    def has_removed(self, queue: Any) -> bool:
        return self.left


@pytest.fixture
def storage(broker: Broker) -> Leaving:
    storage = Leaving()
    broker.storage = broker.work.storage = storage
    return storage


@pytest.fixture
def deleting(storage: Leaving, connect: Connect) -> Client:
    """A client whose durable queue is being deleted."""
    client = connect()
    assert client.say(QueueDeclare("q", durable=True)) == [QueueDeclareOk("q", 0, 0)]
    client.connection.receive(client.method(QueueDelete("q")), 0)
    return client


def test_deletion_is_answered_when_storage_has_heard_of_it(deleting: Client, storage: Leaving) -> None:
    """SPEC §8.1: not before all that the queue has dropped is where dead letters go."""
    assert deleting.connection.awaiting
    storage.left = True
    deleting.connection.go_on(0)
    assert deleting.heard() == [QueueDeleteOk(0)]


def test_deletion_whose_client_has_gone_is_waited_for_by_nobody(deleting: Client, broker: Broker) -> None:
    """SPEC §8.8: as a task on the work list it would never end, nor let another one begin."""
    deleting.connection.lost(0)
    assert broker.work.drain()
    assert not broker.work


@pytest.mark.parametrize("durable", [False, True])
def test_deletion_is_answered_before_its_consumers_hear_of_it(storage: Leaving, connect: Connect, durable: bool) -> None:
    """SPEC §6.1: as RabbitMQ tells it to the channel that deletes; what else it consumes from goes on meanwhile."""
    client, other = connect(), connect()
    client.say(QueueDeclare("q", durable=durable), QueueDeclare("r"))
    for tag, queue in (("a", "q"), ("b", "q"), ("c", "r")):
        assert client.say(BasicConsume(queue, tag)) == [BasicConsumeOk(tag)]
    assert other.say(BasicConsume("q", "o")) == [BasicConsumeOk("o")]
    client.connection.receive(client.method(QueueDelete("q")), 0)
    assert other.heard() == [BasicCancel("o", no_wait=True)]
    cancels = [BasicCancel("a", no_wait=True), BasicCancel("b", no_wait=True)]
    if durable:
        assert client.heard() == []
        other.publish("r", b"x")
        assert client.heard() == [BasicDeliver("c", 1, False, "", "r"), b"x"]
        storage.left = True
        client.connection.go_on(0)
    assert client.heard() == [QueueDeleteOk(0), *cancels]
    # From now on they are told at once.
    other.say(QueueDelete("r"))
    assert client.heard() == [BasicCancel("c", no_wait=True)]


def test_deletion_that_asks_for_no_answer_lets_consumers_hear_at_once(storage: Leaving, connect: Connect) -> None:
    client = connect()
    client.say(QueueDeclare("q", durable=True), BasicConsume("q", "a"))
    assert client.say(QueueDelete("q", no_wait=True)) == [BasicCancel("a", no_wait=True)]
