"""The firehose: what is copied to amq.rabbitmq.trace, with which key and headers, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker.broker import Broker
from leveret.protocol.trace import table_of
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxRollback,
    TxSelect,
)
from leveret.wire.values import Timestamp

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

TRACE = "amq.rabbitmq.trace"


@pytest.fixture
def spy(broker: Broker, client: Client) -> Client:
    """A client whose queue `seen` gets all copies, in a vhost that is traced."""
    client.say(QueueDeclare("seen"), QueueBind("seen", TRACE, "#"), QueueDeclare("q"))
    broker.vhosts["/"].set_tracing(True)
    return client


def seen(client: Client) -> list[tuple[str, dict[str, Any], bytes]]:
    """Routing key, headers and body of each copy since the last look."""
    found = []
    while True:
        match client.say(BasicGet("seen", no_ack=True)):
            case [BasicGetOk() as got, (properties, body)]:
                assert got.exchange == TRACE
                assert properties == Properties(headers=properties.headers)
                found.append((got.routing_key, dict(properties.headers or {}), body))
            case [BasicGetEmpty()]:
                return found


def keys(client: Client) -> list[str]:
    return [key for key, _, _ in seen(client)]


def test_publish_is_copied(spy: Client, broker: Broker) -> None:
    """SPEC §9.6 firehose, publish"""
    broker.vhosts["/"].bind("amq.fanout", broker.vhosts["/"].queues["q"], "", {})
    properties = Properties(content_type="text/plain", delivery_mode=2, timestamp=17, headers={"a": 1})
    spy.say(spy.message("key", b"body", "amq.fanout", properties=properties))
    ((key, headers, body),) = seen(spy)
    assert (key, body) == ("publish.amq.fanout", b"body")
    assert headers == {
        "exchange_name": "amq.fanout",
        "routing_keys": ["key"],
        "properties": {
            "content_type": "text/plain",
            "delivery_mode": 2,
            "timestamp": Timestamp(17),
            "headers": {"a": 1},
        },
        "node": broker.settings.node_name,
        "vhost": "/",
        "connection": "client",
        "channel": 1,
        "user": "guest",
        "routed_queues": ["q"],
    }


def test_delivery_is_copied(spy: Client, connect: Connect) -> None:
    """SPEC §9.6 firehose, deliver"""
    reader = connect()
    reader.say(BasicConsume("q", "c"))
    spy.publish("q", b"body")
    publish, deliver = seen(spy)
    assert (publish[0], deliver[0], deliver[2]) == ("publish.", "deliver.q", b"body")
    assert publish[1]["routed_queues"] == ["q"]
    assert deliver[1] == {
        "exchange_name": "",
        "routing_keys": ["q"],
        "properties": {},
        "node": "leveret@localhost",
        "vhost": "/",
        "connection": "client",
        "channel": 1,
        "user": "guest",
        "redelivered": 0,
    }
    reader.say(BasicNack(1, requeue=True))
    assert [(key, headers["redelivered"]) for key, headers, _ in seen(spy)] == [("deliver.q", 1)]


def test_get_is_copied(spy: Client) -> None:
    """SPEC §9.6 firehose, basic.get; of an empty queue nothing"""
    spy.publish("q", b"body")
    assert keys(spy) == ["publish."]
    spy.say(BasicGet("q", no_ack=True), BasicGet("q", no_ack=True))
    ((key, headers, body),) = seen(spy)
    assert (key, headers["redelivered"], headers["routing_keys"], body) == ("deliver.q", 0, ["q"], b"body")


def test_copies_are_not_traced(spy: Client, connect: Connect) -> None:
    """SPEC §9.6 firehose: what goes through the trace exchange, by whatever way it is read"""
    watcher = connect()
    watcher.say(QueueDeclare("live", exclusive=True), QueueBind("live", TRACE, "#"), BasicConsume("live", "c", no_ack=True))
    spy.publish("q", b"body")
    assert [type(item) for item in watcher.heard()] == [BasicDeliver, tuple]
    assert keys(spy) == ["publish."]
    assert keys(spy) == []


def test_unroutable_message_is_copied_too(spy: Client) -> None:
    """SPEC §9.6 firehose"""
    spy.publish("nowhere", b"lost")
    ((key, headers, body),) = seen(spy)
    assert (key, headers["routed_queues"], body) == ("publish.", [], b"lost")


def test_routing_keys_are_those_one_may_see(spy: Client) -> None:
    """SPEC §9.6 firehose, routing keys: CC is told, BCC is not."""
    spy.say(QueueDeclare("other"))
    headers: Any = {"CC": ["other"], "BCC": ["q"]}
    spy.say(spy.message("nowhere", b"x", properties=Properties(headers=headers)))
    ((_, facts, _),) = seen(spy)
    assert facts["routing_keys"] == ["nowhere", "other"]
    assert facts["properties"] == {"headers": {"CC": ["other"]}}
    assert facts["routed_queues"] == ["other", "q"]


def test_bindings_choose_what_is_seen(spy: Client) -> None:
    """SPEC §9.6 firehose: it is a topic exchange"""
    spy.say(QueueDeclare("few"), QueueBind("few", TRACE, "deliver.q"))
    spy.publish("q", b"1", b"2")
    spy.say(BasicGet("q", no_ack=True))
    assert spy.say(QueueDeclare("few", passive=True)) == [QueueDeclareOk("few", 1, 0)]


def test_live_channels_are_switched_on_and_off(broker: Broker, client: Client, connect: Connect) -> None:
    """SPEC §9.6 firehose: a remembered route and a running consumer"""
    vhost = broker.vhosts["/"]
    reader = connect()
    client.say(QueueDeclare("seen"), QueueBind("seen", TRACE, "#"), QueueDeclare("q"))
    reader.say(BasicConsume("q", "c", no_ack=True))
    client.publish("q", b"1")
    assert keys(client) == []
    vhost.set_tracing(True)
    client.publish("q", b"2")
    assert keys(client) == ["publish.", "deliver.q"]
    vhost.set_tracing(False)
    client.publish("q", b"3")
    assert keys(client) == []
    assert len(reader.heard()) == 6
    assert reader.say(BasicCancel("c")) == [BasicCancelOk("c")]


def test_other_vhosts_are_not_traced(spy: Client, connect: Connect) -> None:
    """SPEC §9.6 firehose: one vhost"""
    elsewhere = connect(vhost="second")
    elsewhere.say(QueueDeclare("q"))
    elsewhere.publish("q", b"1")
    elsewhere.say(BasicGet("q", no_ack=True))
    assert keys(spy) == []


def test_transaction_is_traced_as_it_is_published(spy: Client) -> None:
    """SPEC §9.6 firehose: as RabbitMQ, even what is rolled back"""
    spy.say(TxSelect())
    spy.publish("q", b"1")
    spy.say(TxRollback())
    spy.publish("q", b"2")
    spy.say(TxCommit())
    assert [body for _, _, body in seen(spy)] == [b"1", b"2"]


def test_long_names_are_cut(spy: Client, broker: Broker) -> None:
    """SPEC §9.6 firehose: a routing key has 255 octets at most, and no half characters."""
    name = "ж" * 127
    spy.say(ExchangeDeclare(name, "fanout"))
    spy.say(spy.message("k", b"1", name))
    ((key, headers, _),) = seen(spy)
    assert (key, headers["exchange_name"]) == ("publish." + "ж" * 123, name)


def test_key_that_is_no_text_is_traced(spy: Client) -> None:
    """SPEC §9.6 firehose: routing keys may be any octets."""
    publish = spy.method(BasicPublish("amq.fanout", "K")).replace(b"\x01K", b"\x01\xff")
    spy.say(publish + spy.content(b"x"))
    ((key, headers, _),) = seen(spy)
    assert (key, headers["routing_keys"]) == ("publish.amq.fanout", [b"\xff"])


def test_table_has_every_property() -> None:
    """SPEC §9.6 firehose, properties"""
    properties = Properties(
        content_type="a",
        content_encoding="b",
        headers={"c": 1},
        delivery_mode=2,
        priority=3,
        correlation_id="d",
        reply_to="e",
        expiration="4",
        message_id="f",
        timestamp=5,
        type="g",
        user_id="h",
        app_id="i",
        cluster_id="j",
    )
    table = table_of(properties)
    assert (len(table), type(table["timestamp"])) == (14, Timestamp)
    assert table_of(Properties()) == {}


def test_headers_too_deep_for_a_copy_are_left_out(spy: Client, caplog: pytest.LogCaptureFixture) -> None:
    """SPEC §9.6 firehose, §2.2 depth cap: the message is seen all the same."""
    headers: Any = {}
    for _ in range(31):
        headers = {"deeper": headers}
    properties = Properties(headers=headers, type="deep")
    assert spy.say(spy.message("q", b"body", properties=properties)) == []
    ((key, facts, body),) = seen(spy)
    assert (key, facts["properties"], body) == ("publish.", {"type": "deep"}, b"body")
    assert spy.say(BasicGet("q"))[1] == (properties, b"body")
    assert caplog.records == []
