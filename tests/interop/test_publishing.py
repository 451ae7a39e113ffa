"""Copies, transactions and confirms (SPEC §3.6, §5), with the raw client, which shows the order of what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pika.spec import Basic, Confirm, Exchange, Queue, Tx

if TYPE_CHECKING:
    from tests.interop.conftest import Broker, RawClient

Unique = Callable[[], str]


@pytest.fixture
def client(broker: Broker, unique: Unique) -> Iterator[RawClient]:
    with broker.login() as client:
        yield client


@pytest.fixture
def other(broker: Broker, unique: Unique) -> Iterator[RawClient]:
    with broker.login() as client:
        yield client


@pytest.fixture
def queues(client: RawClient, unique: Unique) -> list[str]:
    return [client.call(Queue.Declare(queue=unique())).queue for _ in range(3)]


def get_all(client: RawClient, queue: str) -> list[tuple[Any, str]]:
    """Properties and body of what is ready."""
    found = []
    while isinstance(client.call(Basic.Get(queue=queue, no_ack=True)), Basic.GetOk):
        properties, body = client.read_content()
        found.append((properties, body.decode()))
    return found


def bodies(client: RawClient, queue: str) -> list[str]:
    return [body for _, body in get_all(client, queue)]


def settle(client: RawClient, count: int) -> None:
    """Wait until so many messages are confirmed."""
    while client.expect(Basic.Ack).delivery_tag < count:
        pass


# Copies


def test_copies_go_to_more_queues(client: RawClient, queues: list[str]) -> None:
    """SPEC §3.6 CC, which stays, and SPEC §3.6 BCC, which does not; SPEC §2.3 headers."""
    client.call(Confirm.Select())
    client.publish("", queues[0], b"m", headers={"CC": [queues[1], queues[0]], "BCC": [queues[2]], "mine": 1})
    settle(client, 1)
    for queue in queues:
        ((properties, body),) = get_all(client, queue)
        assert body == "m"
        assert properties.headers == {"CC": [queues[1], queues[0]], "mine": 1}


def test_copies_are_routed_by_the_exchange(client: RawClient, queues: list[str], unique: Unique) -> None:
    """SPEC §3.6 CC: a routing key like the message's own, and each queue has it once (SPEC §3.4 at most once)."""
    name = unique()
    client.call(Exchange.Declare(exchange=name, type="topic"))
    for queue, pattern in zip(queues, ("a.#", "#.b", "c"), strict=True):
        client.call(Queue.Bind(queue=queue, exchange=name, routing_key=pattern))
    client.call(Confirm.Select())
    client.publish(name, "nowhere", b"m", mandatory=True, headers={"CC": ["a.b", "a.c"]})
    settle(client, 1)
    assert [bodies(client, queue) for queue in queues] == [["m"], ["m"], []]


# Returns


def test_return_is_told_in_each_mode(client: RawClient, unique: Unique) -> None:
    """SPEC §5.1 mandatory: 312 NO_ROUTE with the message, without confirms and transactions too."""
    name = unique()
    client.publish("", name, b"body", mandatory=True, message_id="id")
    returned = client.expect(Basic.Return)
    assert (returned.reply_code, returned.reply_text, returned.exchange, returned.routing_key) == (312, "NO_ROUTE", "", name)
    properties, body = client.read_content()
    assert (properties.message_id, body) == ("id", b"body")


def test_message_that_is_routed_is_not_returned(client: RawClient, queues: list[str], unique: Unique) -> None:
    """SPEC §5.1 mandatory, and SPEC §3.3 no return when the alternate exchange routes it."""
    first, second = unique(), unique()
    client.call(Exchange.Declare(exchange=second, type="direct"))
    client.call(Exchange.Declare(exchange=first, type="direct", arguments={"alternate-exchange": second}))
    client.call(Queue.Bind(queue=queues[0], exchange=second, routing_key="key"))
    client.call(Confirm.Select())
    client.publish("", queues[1], b"queue", mandatory=True)
    client.publish(first, "key", b"alternate", mandatory=True)
    settle(client, 2)
    client.publish(first, "another", b"neither", mandatory=True)
    assert client.expect(Basic.Return).routing_key == "another"
    client.read_content()
    assert client.expect(Basic.Ack).delivery_tag == 3
    assert bodies(client, queues[0]) == ["alternate"]


# Confirms


def confirmed(client: RawClient, count: int) -> dict[int, type[Any]]:
    """Read until so many messages are acked or nacked; which was what. None may be told twice."""
    told: dict[int, type[Any]] = {}
    while len(told) < count:
        confirm = client.expect(Basic.Ack, Basic.Nack)
        tags = range(1, confirm.delivery_tag + 1) if confirm.multiple else [confirm.delivery_tag]
        new = dict.fromkeys([tag for tag in tags if tag not in told], type(confirm))
        assert new, confirm
        told |= new
    return told


def test_each_message_is_confirmed_once(client: RawClient, queues: list[str]) -> None:
    """SPEC §5.2 one ack for each message, however they are told together."""
    client.call(Confirm.Select())
    count = 500
    for number in range(count):
        client.publish("", queues[number % 3], b"m")
    assert confirmed(client, count) == dict.fromkeys(range(1, count + 1), Basic.Ack)
    assert sum(len(bodies(client, queue)) for queue in queues) == count


def test_refused_message_is_nacked(client: RawClient, unique: Unique) -> None:
    """SPEC §5.2 nack: of the messages that were refused, and no other."""
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    name = client.call(Queue.Declare(queue=unique(), arguments=arguments)).queue
    client.call(Confirm.Select())
    client.publish("", name, b"a")
    client.publish("", name, b"b")
    client.publish("", name, b"c")
    assert confirmed(client, 3) == {1: Basic.Ack, 2: Basic.Ack, 3: Basic.Nack}
    assert bodies(client, name) == ["a", "b"]


# Transactions


def test_publishes_wait_for_the_commit(client: RawClient, other: RawClient, queues: list[str]) -> None:
    """SPEC §5.3 publishes wait for tx.commit."""
    client.call(Tx.Select())
    client.publish("", queues[0], b"a")
    client.publish("", queues[1], b"b")
    client.call(Basic.Qos())
    assert [bodies(other, queue) for queue in queues] == [[], [], []]
    client.call(Tx.Commit())
    assert [bodies(other, queue) for queue in queues] == [["a"], ["b"], []]


def test_acknowledgements_wait_for_the_commit(client: RawClient, other: RawClient, queues: list[str]) -> None:
    """SPEC §5.3 acknowledgements wait for tx.commit: without it they never were."""
    for body in (b"acked", b"rejected", b"given back"):
        client.publish("", queues[0], body)
    client.call(Tx.Select())
    take(client, queues[0], 3)
    client.send_method(Basic.Ack(1))
    client.send_method(Basic.Reject(2, requeue=False))
    client.send_method(Basic.Reject(3, requeue=True))
    client.call(Basic.Qos())
    assert bodies(other, queues[0]) == []
    client.call(Tx.Commit())
    assert bodies(other, queues[0]) == ["given back"]
    client.call(Tx.Commit())


def take(client: RawClient, queue: str, count: int) -> None:
    for _ in range(count):
        assert isinstance(client.call(Basic.Get(queue=queue)), Basic.GetOk)
        client.read_content()


def test_rollback_undoes_both(client: RawClient, other: RawClient, queues: list[str]) -> None:
    """SPEC §5.3 rollback: what was published is dropped, what was acknowledged can be acknowledged again."""
    client.publish("", queues[0], b"a")
    client.call(Tx.Select())
    take(client, queues[0], 1)
    client.publish("", queues[1], b"b")
    client.send_method(Basic.Ack(1))
    client.call(Tx.Rollback())
    assert bodies(other, queues[1]) == []
    client.send_method(Basic.Reject(1, requeue=True))
    client.call(Tx.Commit())
    assert bodies(other, queues[0]) == ["a"]


def test_returns_precede_commit_ok(client: RawClient, queues: list[str], unique: Unique) -> None:
    """SPEC §5.3 returns precede commit-ok."""
    client.call(Tx.Select())
    client.publish("", unique(), b"nowhere", mandatory=True)
    client.publish("", queues[0], b"a", mandatory=True)
    client.call(Basic.Qos())
    client.send_method(Tx.Commit())
    assert client.expect(Basic.Return).reply_code == 312
    assert client.read_content()[1] == b"nowhere"
    client.expect(Tx.CommitOk)
    assert bodies(client, queues[0]) == ["a"]


def test_transaction_that_is_left_is_nothing(broker: Broker, client: RawClient, queues: list[str]) -> None:
    """SPEC §5.3 rollback: a connection that ends commits nothing."""
    with broker.login() as leaving:
        leaving.call(Tx.Select())
        leaving.publish("", queues[0], b"a")
        leaving.call(Basic.Qos())
    assert bodies(client, queues[0]) == []
