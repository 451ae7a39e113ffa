"""What clients rely on without showing it: the handshake, the order of frames, and bytes that must not change."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pika import frame
from pika.spec import Access, Basic, BasicProperties, Channel, Confirm, Connection, Exchange, Queue

if TYPE_CHECKING:
    from tests.interop.conftest import Broker, RawClient

Unique = Callable[[], str]

CAPABILITIES = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
]


@pytest.fixture
def client(broker: Broker, unique: Unique) -> Iterator[RawClient]:
    with broker.login() as client:
        yield client


@pytest.fixture
def queue(client: RawClient, unique: Unique) -> str:
    name: str = client.call(Queue.Declare(queue=unique())).queue
    return name


# The handshake


def test_broker_introduces_itself_as_rabbitmq(broker: Broker) -> None:
    with broker.connect() as client:
        start = client.start()
        assert (start.version_major, start.version_minor, start.locales) == (0, 9, b"en_US")
        assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split(b" "))
        properties = start.server_properties
        assert properties["product"] == "RabbitMQ"
        assert properties["capabilities"] == dict.fromkeys(CAPABILITIES, True)
        assert {"cluster_name", "copyright", "information", "platform"} <= properties.keys()


def test_broker_says_its_version_and_that_it_is_leveret(broker: Broker) -> None:
    with broker.connect() as client:
        properties = client.start().server_properties
        assert properties["version"] == "3.13.7"
        assert properties["leveret"]


def test_broker_offers_its_limits(broker: Broker) -> None:
    """SPEC §1.3, and SPEC §7.4 PLAIN: the login was accepted."""
    with broker.connect() as client:
        client.start()
        client.start_ok()
        tune = client.expect(Connection.Tune)
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_amqplain_login_is_accepted(broker: Broker) -> None:
    """SPEC §7.4 AMQPLAIN."""
    with broker.connect() as client:
        client.start()
        login = b"\x05LOGINS" + long_string(broker.username) + b"\x08PASSWORDS" + long_string(broker.password)
        client.start_ok("AMQPLAIN", login.decode())
        client.expect(Connection.Tune)


def long_string(text: str) -> bytes:
    return struct.pack(">I", len(text)) + text.encode()


def test_heartbeat_is_sent_before_the_client_gives_up(broker: Broker) -> None:
    with broker.login(heartbeat=1) as client:
        client.socket.settimeout(2)
        assert client.read_raw() == b"\x08\x00\x00\x00\x00\x00\x00\xce"


def test_exclusive_queue_is_gone_when_close_ok_arrives(broker: Broker, client: RawClient, unique: Unique) -> None:
    name = unique()
    with broker.login() as owner:
        owner.call(Queue.Declare(queue=name, exclusive=True))
        owner.call(Connection.Close(200, "", 0, 0), channel=0)
        client.send_method(Queue.Declare(queue=name, passive=True))
        assert client.read_close().code == 404


# The order of frames


def test_return_precedes_the_confirm(client: RawClient, unique: Unique) -> None:
    """SPEC §5.1 before the confirm."""
    name = unique()
    client.call(Confirm.Select())
    client.publish("", name, b"body", mandatory=True, message_id="id")
    returned = client.expect(Basic.Return)
    assert (returned.reply_code, returned.reply_text, returned.exchange) == (312, "NO_ROUTE", "")
    assert returned.routing_key == name
    properties, body = client.read_content()
    assert (properties.message_id, body) == ("id", b"body")
    ack = client.expect(Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (1, False)


def test_confirms_count_from_confirm_select(client: RawClient, queue: str) -> None:
    client.publish("", queue, b"before")
    client.call(Confirm.Select())
    confirmed = 0
    for _ in range(100):
        client.publish("", queue, b"m")
    while confirmed < 100:
        ack = client.expect(Basic.Ack)
        assert ack.delivery_tag == confirmed + 1 or ack.multiple
        confirmed = ack.delivery_tag
    assert confirmed == 100


def test_consume_ok_precedes_the_deliveries(client: RawClient, queue: str) -> None:
    client.publish("", queue, b"m")
    client.call(Basic.Consume(queue=queue, consumer_tag="tag"))
    assert client.expect(Basic.Deliver).consumer_tag == "tag"
    assert client.read_content()[1] == b"m"


def test_broker_cancels_with_no_wait(client: RawClient, queue: str) -> None:
    """SPEC §6.1 cancel by the broker."""
    with client.broker.login(capabilities=("consumer_cancel_notify",)) as other:
        other.call(Basic.Consume(queue=queue, consumer_tag="tag"))
        client.call(Queue.Delete(queue=queue))
        cancel = other.expect(Basic.Cancel)
        assert (cancel.consumer_tag, cancel.nowait) == ("tag", True)


def test_client_without_the_capability_is_not_told_of_the_cancel(client: RawClient, queue: str) -> None:
    client.call(Basic.Consume(queue=queue))
    client.call(Queue.Delete(queue=queue))
    client.call(Basic.Qos())


def test_delivery_tags_are_shared_by_get_and_consume(client: RawClient, queue: str) -> None:
    client.publish("", queue, b"a")
    client.publish("", queue, b"b")
    assert client.call(Basic.Get(queue=queue)).delivery_tag == 1
    client.read_content()
    client.call(Basic.Consume(queue=queue))
    assert client.expect(Basic.Deliver).delivery_tag == 2


@pytest.mark.parametrize(
    "method",
    [
        Queue.Declare(queue="{q}", nowait=True),
        Queue.Bind(queue="{q}", exchange="amq.fanout", nowait=True),
        Queue.Purge(queue="{q}", nowait=True),
        Queue.Delete(queue="{q}", nowait=True),
        Exchange.Declare(exchange="{q}", nowait=True),
        Exchange.Bind(destination="amq.fanout", source="amq.direct", routing_key="{q}", nowait=True),
        Exchange.Unbind(destination="amq.fanout", source="amq.direct", routing_key="{q}", nowait=True),
        Exchange.Delete(exchange="{q}", nowait=True),
        Basic.Consume(queue="{q}", consumer_tag="tag", nowait=True),
        Basic.Cancel(consumer_tag="tag", nowait=True),
        Confirm.Select(nowait=True),
    ],
    ids=lambda method: method.NAME,
)
def test_no_wait_is_not_answered(client: RawClient, queue: str, method: Any) -> None:
    for name, value in vars(method).items():
        if value == "{q}":
            setattr(method, name, queue)
    client.send_method(method)
    client.call(Basic.Qos())
    client.call(Exchange.Unbind(destination="amq.fanout", source="amq.direct", routing_key=queue))


def test_methods_that_do_nothing_are_answered(client: RawClient) -> None:
    assert client.call(Access.Request()).ticket == 1
    assert client.call(Channel.Flow(True)).active is True
    assert client.call(Basic.Cancel(consumer_tag="unknown")).consumer_tag == "unknown"
    client.call(Basic.Recover(True))
    client.send_method(Basic.Ack(0, multiple=True))
    client.call(Queue.Unbind(queue="interop-no-such", exchange="amq.direct"))
    client.call(Exchange.Unbind(destination="interop-no-such", source="amq.direct"))


def test_recover_async_requeues_without_an_answer(client: RawClient, queue: str) -> None:
    client.publish("", queue, b"a")
    client.call(Basic.Get(queue=queue))
    client.read_content()
    client.send_method(Basic.RecoverAsync(True))
    assert client.call(Basic.Get(queue=queue)).redelivered is True


# Bytes


def test_line_ends_are_stripped_from_names(client: RawClient, unique: Unique) -> None:
    name = unique()
    assert client.call(Queue.Declare(queue=f"{name[:8]}\r\n{name[8:]}\n")).queue == name
    client.call(Exchange.Declare(exchange=f"{name}\r\n"))
    client.call(Exchange.Declare(exchange=name, passive=True))


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 8176, 8177])
def test_body_is_split_to_the_negotiated_frame_size(broker: Broker, unique: Unique, size: int) -> None:
    with broker.login(frame_max=4096) as client:
        name = client.call(Queue.Declare(queue=unique())).queue
        client.send_method(Basic.Publish(routing_key=name))
        client.send(frame.Header(1, size, BasicProperties()).marshal())
        for at in range(0, size, 1000):
            client.send(frame.Body(1, b"x" * min(1000, size - at)).marshal())
        client.call(Basic.Get(queue=name))
        assert client.read().body_size == size
        sizes: list[int] = []
        while sum(sizes) < size:
            sizes.append(len(client.read().fragment))
        assert sizes == [4088] * (size // 4088) + [size % 4088] * (size % 4088 > 0)


def test_frame_may_exceed_its_limit_by_eight_bytes(client: RawClient, queue: str) -> None:
    # RabbitMQ: some clients count the frame's own eight bytes wrongly, and are forgiven.
    client.send_method(Basic.Publish(routing_key=queue))
    client.send(frame.Header(1, 131072, BasicProperties()).marshal())
    client.send(frame.Body(1, bytes(131072)).marshal())
    client.call(Basic.Get(queue=queue))
    assert len(client.read_content()[1]) == 131072


def test_frames_may_arrive_byte_by_byte(client: RawClient, queue: str) -> None:
    for byte in frame.Method(1, Basic.Get(queue=queue)).marshal():
        client.send(bytes([byte]))
    client.expect(Basic.GetEmpty)


# A value of each field type (SPEC §2.2).
FIELDS = {
    b"t": b"\x01",  # SPEC §2.2 t
    b"b": b"\xff",  # SPEC §2.2 b
    b"B": b"\xff",  # SPEC §2.2 B
    b"s": b"\xff\xfe",  # SPEC §2.2 s
    b"u": b"\xff\xfe",  # SPEC §2.2 u
    b"I": b"\xff\xff\xff\xfd",  # SPEC §2.2 I
    b"i": b"\xff\xff\xff\xfd",  # SPEC §2.2 i
    b"l": b"\x80\x00\x00\x00\x00\x00\x00\x00",  # SPEC §2.2 l
    b"L": b"\x7f\xff\xff\xff\xff\xff\xff\xff",  # SPEC §2.2 L
    b"f": b"\x3f\x00\x00\x00",  # SPEC §2.2 f
    b"d": b"\x3f\xb9\x99\x99\x99\x99\x99\x9a",  # SPEC §2.2 d
    b"D": b"\x02\x00\x00\x04\xd2",  # SPEC §2.2 D
    b"S": b"\x00\x00\x00\x03\x00\xff\xfe",  # SPEC §2.2 S
    b"x": b"\x00\x00\x00\x02\x00\xff",  # SPEC §2.2 x
    b"T": b"\x00\x00\x00\x00\x65\x53\xf1\x00",  # SPEC §2.2 T
    b"V": b"",  # SPEC §2.2 V
    b"A": b"\x00\x00\x00\x01V",  # SPEC §2.2 A
    b"F": b"\x00\x00\x00\x00",  # SPEC §2.2 F
}


@pytest.mark.parametrize("kind", [kind.decode() for kind in FIELDS])
def test_header_of_each_type_keeps_its_bytes(client: RawClient, queue: str, kind: str) -> None:
    """SPEC §2.2 nested, and SPEC §2.1 byte for byte."""
    value = kind.encode() + FIELDS[kind.encode()]
    table = sized(b"\x05arrayA" + sized(value + value) + b"\x05plain" + value + b"\x05tableF" + sized(b"\x03key" + value))
    header = struct.pack(">HHQH", 60, 0, 0, 1 << 13) + table
    client.send_method(Basic.Publish(routing_key=queue))
    client.send(struct.pack(">BHI", 2, 1, len(header)) + header + b"\xce")
    client.call(Basic.Get(queue=queue))
    assert client.read_raw()[7:-1] == header


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
