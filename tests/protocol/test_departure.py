"""The end of channels and connections, and of what is large: in pieces, in order, and answered when all of it is done."""

from tests.protocol.conftest import Client, Connect

from leveret.broker.broker import Broker
from leveret.broker.vhost import VirtualHost
from leveret.wire.spec import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueueUnbind,
    QueueUnbindOk,
)

MANY = 1000


def vhost_of(client: Client) -> VirtualHost:
    return client.connection.session.vhost


def bind_many(client: Client, queue: str, exchange: str) -> None:
    client.say(*(QueueBind(queue, exchange, f"k{n}", no_wait=True) for n in range(MANY)))


def passes(client: Client, data: bytes) -> int:
    """How many passes these bytes take."""
    client.connection.receive(data, client.now)
    count = 1
    while client.connection.busy:
        client.connection.go_on(client.now)
        count += 1
    return count


def test_methods_that_make_things_count(client: Client) -> None:
    """A hundred declarations to a pass, about; small requests cost less, large tables more."""
    declares = b"".join(client.method(QueueDeclare(f"q{n}", no_wait=True)) for n in range(MANY))
    assert 5 <= passes(client, declares) <= 20
    assert passes(client, client.method(BasicQos()) * MANY) <= 3
    assert client.heard() == [BasicQosOk()] * MANY
    table = {f"a{n}": "v" for n in range(5000)}
    large = b"".join(client.method(QueueDeclare(f"t{n}", no_wait=True, arguments=table)) for n in range(6))  # type: ignore[arg-type]
    assert passes(client, large) >= 3


def test_large_queue_is_deleted_in_pieces_and_then_answered(client: Client) -> None:
    """RabbitMQ: an auto-delete exchange is gone with the last binding, before the next method."""
    client.say(QueueDeclare("q"), ExchangeDeclare("x", "direct", auto_delete=True))
    bind_many(client, "q", "x")
    client.heard()
    client.connection.receive(
        client.method(QueueDelete("q")) + client.method(ExchangeDeclare("x", "fanout", passive=True)), 0
    )
    assert client.heard() == [QueueDeleteOk(0)]
    assert client.connection.busy
    assert vhost_of(client).unbinding() is not None
    client.finish()
    assert "x" not in vhost_of(client).exchanges
    (closed,) = client.heard()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 404


def test_large_exchange_is_deleted_in_pieces_and_then_answered(client: Client) -> None:
    client.say(QueueDeclare("q"), ExchangeDeclare("x", "direct"))
    bind_many(client, "q", "x")
    client.connection.receive(client.method(ExchangeDelete("x")), 0)
    assert client.heard() == []
    client.finish()
    assert client.heard() == [ExchangeDeleteOk()]
    assert vhost_of(client).queues["q"].bindings == {}


def test_last_unbind_takes_what_leads_to_an_auto_delete_exchange_with_it(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueDeclare("other"), ExchangeDeclare("x", "direct", auto_delete=True))
    client.say(QueueBind("q", "x", "k"))
    assert client.say(QueueUnbind("q", "x", "k")) == [QueueUnbindOk()]
    assert "x" not in vhost_of(client).exchanges


def test_client_that_leaves_while_bindings_go_is_waited_for_by_nobody(client: Client, broker: Broker) -> None:
    client.say(QueueDeclare("q"), ExchangeDeclare("x", "direct"))
    bind_many(client, "q", "x")
    client.connection.receive(client.method(ExchangeDelete("x")), 0)
    client.connection.lost(0)
    while broker.work:
        broker.work.budget.begin()
        broker.work.drain()
    assert broker.vhosts["/"].queues["q"].bindings == {}


def test_consumers_of_a_deleted_queue_are_told_in_pieces(connect: Connect) -> None:
    client = connect(capabilities={"consumer_cancel_notify": True})
    client.say(QueueDeclare("q"), *(BasicConsume("q", f"c{n}", no_wait=True) for n in range(MANY)))
    client.connection.receive(client.method(QueueDelete("q")), 0)
    told = client.heard()
    assert told[0] == QueueDeleteOk(0)
    assert 1 < len(told) < MANY
    # One of those who have not heard yet is cancelled by the client itself, and is not told.
    last = f"c{MANY - 1}"
    assert client.say(BasicCancel(last))[0] == BasicCancelOk(last)
    told += client.heard()
    assert not client.connection.session.channels[1].consumers.by_tag


def test_auto_delete_queue_is_gone_for_the_next_method_whatever_the_budget(client: Client) -> None:
    """RabbitMQ: before its last consumer hears cancel-ok."""
    for n in range(300):
        client.say(QueueDeclare("q", auto_delete=True), BasicConsume("q", "c", no_wait=True))
        heard = client.say(*[BasicQos()] * n, BasicCancel("c"), QueueDeclare("q", auto_delete=False), QueueDelete("q"))
        assert heard[n:] == [BasicCancelOk("c"), QueueDeclareOk("q", 0, 0), QueueDeleteOk(0)], n


def test_channel_with_many_consumers_closes_in_pieces_and_gets_nothing_meanwhile(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("q"), *(BasicConsume("q", f"c{n}", no_ack=True, no_wait=True) for n in range(MANY)))
    client.connection.receive(client.method(ChannelClose(200, "", 0, 0)), 0)
    assert client.connection.busy
    other = connect()
    other.publish("q", b"x")
    assert not any(isinstance(item, BasicDeliver) for item in client.heard())
    client.finish()
    assert client.heard() == [ChannelCloseOk()]
    assert other.say(QueueDeclare("q", passive=True)) == [QueueDeclareOk("q", 1, 0)]


def test_exclusive_queues_are_gone_before_close_ok(client: Client, connect: Connect) -> None:
    client.say(*(QueueDeclare(f"q{n}", exclusive=True, no_wait=True) for n in range(MANY)))
    client.connection.receive(client.method(ConnectionClose(200, "", 0, 0), 0), 0)
    assert client.connection.busy
    assert 0 < len(vhost_of(client).queues) < MANY
    client.finish()
    assert client.heard(0) == [ConnectionCloseOk()]
    assert not vhost_of(client).queues
    assert connect().say(QueueDeclare("q0")) == [QueueDeclareOk("q0", 0, 0)]
