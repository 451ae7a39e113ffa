"""What a quorum queue refuses that a classic one allows, with RabbitMQ's texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.wire.spec import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.wire.values import Table, Value

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Heard

Q = "queue 'q' in vhost '/'"


def declared(client: Client, kind: str, **arguments: Value) -> None:
    """Declare `q`, of this type."""
    table: Table = {"x-queue-type": kind, **{name.replace("_", "-"): value for name, value in arguments.items()}}
    assert client.say(QueueDeclare("q", durable=True, arguments=table)) == [QueueDeclareOk("q", 0, 0)]


def channel_close(method: Method, code: int, text: str) -> ChannelClose:
    return ChannelClose(code, text, method.INDEX >> 16, method.INDEX & 0xFFFF)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        # SPEC §4.2 x-queue-type quorum with RabbitMQ's restrictions: deletion
        (
            QueueDelete("q", if_unused=True),
            f"cannot delete {Q}. queue.delete operations with if-unused flag set are not supported by quorum queues",
        ),
        (
            QueueDelete("q", if_empty=True),
            f"cannot delete {Q}. queue.delete operations with if-empty flag set are not supported by quorum queues",
        ),
    ],
)
def test_deletion_with_conditions(client: Client, method: Method, text: str) -> None:
    declared(client, "quorum")
    close = ConnectionClose(540, f"NOT_IMPLEMENTED - {text}", 50, 40)
    assert client.say(client.method(method), channel=0) == [close]


def test_plain_deletion(client: Client) -> None:
    """SPEC §4.2 x-queue-type quorum with RabbitMQ's restrictions"""
    declared(client, "quorum")
    assert client.say(QueueDelete("q")) == [QueueDeleteOk(0)]
    declared(client, "classic")
    assert client.say(QueueDelete("q", if_unused=True, if_empty=True)) == [QueueDeleteOk(0)]


@pytest.mark.parametrize("qos", [BasicQos(0, 1, True), BasicQos(1, 0, True)], ids=["count", "size"])
def test_global_prefetch(client: Client, qos: BasicQos) -> None:
    """SPEC §4.2 x-queue-type quorum with RabbitMQ's restrictions: global qos"""
    declared(client, "quorum")
    assert client.say(qos) == [BasicQosOk()]
    close = ConnectionClose(540, f"NOT_IMPLEMENTED - {Q} does not support global qos", 60, 20)
    assert client.say(client.method(BasicConsume("q")), channel=0) == [close]


def test_prefetch_of_a_consumer(client: Client) -> None:
    """SPEC §4.2 x-queue-type quorum with RabbitMQ's restrictions: qos for each consumer is fine, and lifts the channel's."""
    declared(client, "quorum")
    assert client.say(BasicQos(0, 1, True), BasicQos(0, 1)) == [BasicQosOk()] * 2
    assert client.say(BasicConsume("q", "c")) == [BasicConsumeOk("c")]


def test_get_with_single_active_consumer(client: Client) -> None:
    """SPEC §4.2 x-queue-type quorum with RabbitMQ's restrictions: basic.get"""
    declared(client, "quorum", x_single_active_consumer=True)
    text = (
        f"RESOURCE_LOCKED - cannot obtain access to locked {Q}. basic.get operations are not supported by quorum queues "
        "with single active consumer"
    )
    method = BasicGet("q")
    assert client.say(method) == [channel_close(method, 405, text)]


@pytest.mark.parametrize(
    ("kind", "single"), [("quorum", False), ("classic", True)], ids=["quorum", "classic with single active consumer"]
)
def test_get_otherwise(client: Client, kind: str, single: bool) -> None:
    """SPEC §4.2 x-queue-type quorum with RabbitMQ's restrictions: basic.get"""
    declared(client, kind, x_single_active_consumer=single)
    assert client.say(BasicGet("q")) == [BasicGetEmpty()]


@pytest.mark.parametrize(
    ("kind", "arguments", "fault"),
    [
        # SPEC §6.1 consumer arguments: of the wrong type, or of another type of queue
        ("classic", {"x-priority": "high"}, ': "expected integer, got longstr"'),
        ("classic", {"x-priority": True}, ': "expected integer, got bool"'),
        ("classic", {"x-cancel-on-ha-failover": 1}, ": {unacceptable_type,long}"),
        ("classic", {"x-stream-offset": "first"}, " of queue type rabbit_classic_queue"),
        ("quorum", {"x-priority": "high"}, ': "expected integer, got longstr"'),
        ("quorum", {"x-cancel-on-ha-failover": True}, " of queue type rabbit_quorum_queue"),
        ("quorum", {"x-stream-offset": "first"}, " of queue type rabbit_quorum_queue"),
    ],
)
def test_bad_consumer_arguments(client: Client, kind: str, arguments: Table, fault: str) -> None:
    declared(client, kind)
    method = BasicConsume("q", "c", arguments=arguments)
    (name,) = arguments
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for {Q}{fault}"
    assert client.say(method) == [channel_close(method, 406, text)]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("classic", {"x-priority": -5, "x-cancel-on-ha-failover": True, "unknown": "kept"}),
        ("quorum", {"x-priority": 5, "unknown": None}),
    ],
)
def test_good_consumer_arguments(client: Client, kind: str, arguments: Table) -> None:
    """SPEC §6.1 consumer arguments: those nobody knows are kept and ignored."""
    declared(client, kind)
    assert client.say(BasicConsume("q", "c", arguments=arguments)) == [BasicConsumeOk("c")]


def got(client: Client, count: int, channel: int = 1) -> list[bytes]:
    """The bodies that so many basic.get bring."""
    heard = [client.say(BasicGet("q"), channel=channel) for _ in range(count)]
    return [body_of(content) for _, content in heard]


def body_of(content: Heard) -> bytes:
    """The body of a message, with properties or without."""
    assert isinstance(content, bytes | tuple)
    return content if isinstance(content, bytes) else content[1]


@pytest.mark.parametrize(
    ("kind", "limit", "order"), [("quorum", None, b"cdab"), ("quorum", 20, b"abcd"), ("classic", None, b"abcd")]
)
@pytest.mark.parametrize(
    "back", [(BasicNack(2, True, True),), (BasicReject(1, True), BasicReject(2, True)), (BasicRecover(True),)]
)
def test_what_a_client_gives_back(
    client: Client, kind: str, limit: int | None, order: bytes, back: tuple[Method, ...]
) -> None:
    """SPEC §4.3: RabbitMQ's quorum queues without a delivery limit take it as if it had just come."""
    arguments: dict[str, Value] = {} if limit is None else {"x-delivery-limit": limit}
    declared(client, kind, **arguments)
    client.publish("q", b"a", b"b", b"c", b"d")
    assert got(client, 2) == [b"a", b"b"]
    client.say(*back)
    match client.say(BasicGet("q")):
        case [BasicGetOk() as ok, content]:
            assert (ok.redelivered, body_of(content)) == (order[:1] == b"a", order[:1])
        case heard:
            pytest.fail(f"nothing there: {heard}")
    assert b"".join(got(client, 3)) == order[1:]


def test_what_a_channel_had_comes_back_to_the_front(client: Client) -> None:
    """SPEC §4.3: at the end of a channel a quorum queue has it at its front, with a limit or without."""
    client.open(2)
    declared(client, "quorum")
    client.publish("q", b"a", b"b", b"c")
    assert got(client, 2, channel=2) == [b"a", b"b"]
    assert client.say(ChannelClose(200, ""), channel=2) == [ChannelCloseOk()]
    assert got(client, 3) == [b"a", b"b", b"c"]


def test_what_comes_back_to_the_front_stands_as_it_came_back(client: Client) -> None:
    """SPEC §4.3: RabbitMQ's quorum queues put it behind what came back before."""
    declared(client, "quorum", x_delivery_limit=20)
    client.publish("q", b"a", b"b", b"c")
    assert got(client, 2) == [b"a", b"b"]
    client.say(BasicReject(2, True), BasicReject(1, True))
    assert got(client, 3) == [b"b", b"a", b"c"]


def test_consumers_give_back_one_after_the_other(client: Client) -> None:
    """SPEC §4.3: first what was taken by basic.get, then by consumers' tags"""
    declared(client, "quorum", x_delivery_limit=20)
    client.say(BasicQos(0, 1))
    for tag in "zy":
        client.say(BasicConsume("q", tag))
    client.publish("q", b"a", b"b", b"c", b"d")
    assert got(client, 1) == [b"c"]
    client.open(2)
    client.say(QueueDeclare("other"), channel=2)
    assert client.say(ChannelClose(200, "")) == [ChannelCloseOk()]
    assert got(client, 4, channel=2) == [b"c", b"b", b"a", b"d"]


@pytest.mark.parametrize("single", [False, True])
def test_exclusive_consumers_are_as_any_other(client: Client, single: bool) -> None:
    """SPEC §4.2 x-queue-type quorum: RabbitMQ does not look at the flag there."""
    declared(client, "quorum", x_single_active_consumer=single)
    for tag, exclusive in (("a", True), ("b", False), ("c", True)):
        assert client.say(BasicConsume("q", tag, exclusive=exclusive)) == [BasicConsumeOk(tag)]
