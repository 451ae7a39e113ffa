"""Stopped publishers: who publishes while something runs low, or storage is behind, is heard no more until that is over."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.wire.spec import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

LISTENS = ("connection.blocked",)
MEMORY = "low on memory"
BOTH = "low on memory & low on disk"


@pytest.fixture
def publisher(connect: Connect) -> Client:
    """A client that wants to be told, with a queue q in which one message waits."""
    client = connect(capabilities=LISTENS, heartbeat=10)
    assert client.say(QueueDeclare("q")) == [QueueDeclareOk("q", 0, 0)]
    assert client.publish("q", b"before") == []
    return client


def ready(broker: Broker) -> int:
    count: int = broker.vhosts["/"].queues["q"].ready_count
    return count


def stopped(client: Client) -> bool:
    """Whether its frames wait."""
    return client.connection.session.blocked


def throttle(broker: Broker, *clients: Client, alarm: str = "", flow: bool = False) -> None:
    """As the server does it: the model first, then whoever is stopped."""
    broker.throttle(alarm, flow)
    for client in clients:
        client.connection.throttle_changed(client.now)
        if not stopped(client):
            client.connection.go_on(client.now)
            client.finish()


def test_publisher_is_stopped_and_told_once(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 the first publish since the alarm is taken, those behind it wait, and connection.blocked says why."""
    broker.throttle(MEMORY, False)
    assert publisher.heard() == []
    assert not stopped(publisher)
    publisher.feed(publisher.message("q", b"1") * 5)
    assert publisher.heard_on_channels() == [(0, ConnectionBlocked(MEMORY))]
    assert stopped(publisher)
    assert not publisher.connection.busy
    assert ready(broker) == 2
    throttle(broker, publisher, alarm=BOTH)
    throttle(broker, publisher, alarm="low on disk")
    assert publisher.octets() == b""
    assert ready(broker) == 2


def test_publisher_goes_on_where_it_was(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 when all alarms are over connection.unblocked is said and everything sent meanwhile is taken, in order."""
    broker.throttle(BOTH, False)
    publisher.feed(b"".join(publisher.message("q", b"%d" % n) for n in range(10)))
    assert publisher.heard_on_channels() == [(0, ConnectionBlocked(BOTH))]
    throttle(broker, publisher, alarm="low on disk")
    assert stopped(publisher)
    throttle(broker, publisher)
    assert publisher.heard_on_channels() == [(0, ConnectionUnblocked())]
    assert ready(broker) == 11
    assert publisher.say(BasicGet("q", no_ack=True))[1] == b"before"
    for number in range(10):
        assert publisher.say(BasicGet("q", no_ack=True))[1] == b"%d" % number


def test_each_alarm_is_told(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 an alarm that is set again stops and tells again, whatever routes are remembered."""
    for count in (2, 3, 4):
        throttle(broker, publisher, alarm=MEMORY)
        publisher.feed(publisher.message("q"))
        throttle(broker, publisher)
        assert publisher.heard_on_channels() == [(0, ConnectionBlocked(MEMORY)), (0, ConnectionUnblocked())]
        assert ready(broker) == count


def test_who_does_not_listen_is_not_told(broker: Broker, connect: Connect, publisher: Client) -> None:
    """SPEC §8.6 without the capability connection.blocked a client is stopped all the same, and hears nothing."""
    other = connect(capabilities=())
    broker.throttle(MEMORY, False)
    other.feed(other.message("q") * 3)
    assert ready(broker) == 2
    throttle(broker, other)
    assert ready(broker) == 4
    assert other.octets() == b""


def test_every_channel_of_the_connection_waits(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 what is stopped is the connection: its other channels are not heard either."""
    publisher.open(2)
    assert publisher.publish("q", b"x", channel=2) == []
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q") + publisher.message("q", channel=2) + publisher.method(QueueDeclare("q"), 2))
    assert publisher.heard_on_channels() == [(0, ConnectionBlocked(MEMORY))]
    throttle(broker, publisher)
    assert publisher.heard_on_channels() == [(0, ConnectionUnblocked()), (2, QueueDeclareOk("q", 4, 0))]


def test_bytes_that_come_while_stopped_are_kept(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 a read that was under way when the client was stopped is not lost, nor looked at."""
    broker.throttle(MEMORY, False)
    message = publisher.message("q", b"abc")
    publisher.feed(message + message[:10])
    publisher.feed(message[10:20])
    publisher.feed(message[20:] + message)
    assert ready(broker) == 2
    throttle(broker, publisher)
    assert ready(broker) == 4


def test_large_message_waits_before_its_body(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 a publish that begins under an alarm is stopped at its method; one that had begun is finished."""
    whole = publisher.message("q", bytes(1000), piece=100)
    method = publisher.method(BasicPublish("", "q"))
    publisher.feed(whole[: len(whole) // 2])
    broker.throttle(MEMORY, False)
    publisher.feed(whole[len(whole) // 2 :])
    assert publisher.heard_on_channels() == [(0, ConnectionBlocked(MEMORY))]
    assert ready(broker) == 2
    throttle(broker, publisher)
    throttle(broker, publisher, alarm=MEMORY)
    publisher.octets()
    publisher.feed(method)
    assert publisher.heard_on_channels() == [(0, ConnectionBlocked(MEMORY))]
    publisher.feed(whole[len(method) :])
    assert publisher.connection.session.incomplete_size == 0
    throttle(broker, publisher)
    assert ready(broker) == 3


def test_who_only_consumes_goes_on(broker: Broker, publisher: Client, connect: Connect) -> None:
    """SPEC §8.6 consumers get messages and their acknowledgements are heard; new ones may log in."""
    assert publisher.publish("q", b"second") == []
    broker.throttle(MEMORY, False)
    consumer = connect(capabilities=LISTENS)
    heard = consumer.say(BasicConsume("q", "c"))
    assert heard == [
        BasicConsumeOk("c"),
        BasicDeliver("c", 1, False, "", "q"),
        b"before",
        BasicDeliver("c", 2, False, "", "q"),
        b"second",
    ]
    assert consumer.say(BasicAck(2, multiple=True)) == []
    assert broker.vhosts["/"].queues["q"].unacked_count == 0
    assert consumer.say(BasicGet("q")) == [BasicGetEmpty()]
    assert consumer.connection.status == "blocking"


def test_consumers_of_a_stopped_connection_are_served(broker: Broker, publisher: Client, connect: Connect) -> None:
    """SPEC §8.6 a connection that is stopped is still sent to: deliveries and confirms."""
    assert publisher.say(ConfirmSelect(), BasicConsume("q", "c", no_ack=True))[:2] == [
        ConfirmSelectOk(),
        BasicConsumeOk("c"),
    ]
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q", b"mine") * 2)
    assert publisher.heard_on_channels() == [
        (0, ConnectionBlocked(MEMORY)),
        (1, BasicDeliver("c", 2, False, "", "q")),
        (1, b"mine"),
        (1, BasicAck(1)),
    ]
    other = connect()
    other.feed(other.message("q", b"other"))
    assert publisher.heard() == [BasicDeliver("c", 3, False, "", "q"), b"other"]


def test_heartbeats_of_a_stopped_client_do_not_count(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 its heartbeats are not read, so it is not dropped for want of them; ours go on; later they count again."""
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q"))
    publisher.octets()
    for now in range(5_000, 100_001, 5_000):
        publisher.now = now
        publisher.connection.tick(now)
        assert publisher.heard(0) == ["heartbeat"]
    assert not publisher.connection.ended
    throttle(broker, publisher)
    publisher.octets()
    for now in (105_000, 110_000, 115_000):
        publisher.connection.tick(now)
        assert not publisher.connection.ended
    publisher.connection.tick(120_000)
    assert publisher.connection.ended


def test_deliveries_of_a_stopped_client_do_not_time_out(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 a client whose acknowledgements are not read is not closed for want of them."""
    assert len(publisher.say(BasicGet("q"))) == 2
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q") + publisher.method(BasicAck(1)))
    publisher.octets()
    timeout = broker.settings.consumer_timeout_ms
    for now in range(60_000, 2 * timeout, 60_000):
        publisher.now = now
        publisher.connection.tick(now)
    assert publisher.frames() == [(8, 0, b"")] * (len(range(60_000, 2 * timeout, 60_000)))
    throttle(broker, publisher)
    publisher.connection.tick(publisher.now + 60_000)
    assert (0, ConnectionUnblocked()) in publisher.heard_on_channels()
    assert broker.vhosts["/"].queues["q"].unacked_count == 0


def test_flow_is_not_told(broker: Broker, publisher: Client) -> None:
    """SPEC §8.8 while storage is behind publishers wait without a notice."""
    broker.throttle("", True)
    publisher.feed(publisher.message("q") * 3)
    assert publisher.connection.status == "flow"
    assert ready(broker) == 2
    throttle(broker, publisher)
    assert ready(broker) == 4
    assert publisher.octets() == b""


def test_alarm_while_storage_is_behind(broker: Broker, publisher: Client) -> None:
    """SPEC §8.8 who is stopped for flow is told of an alarm, and of its end though flow goes on."""
    broker.throttle("", True)
    publisher.feed(publisher.message("q") * 3)
    throttle(broker, publisher, alarm=MEMORY, flow=True)
    assert publisher.heard(0) == [ConnectionBlocked(MEMORY)]
    assert publisher.connection.status == "blocked"
    throttle(broker, publisher, flow=True)
    assert publisher.heard(0) == [ConnectionUnblocked()]
    assert publisher.connection.status == "flow"
    assert ready(broker) == 2
    throttle(broker, publisher)
    assert ready(broker) == 4
    assert publisher.octets() == b""
    assert publisher.connection.status == "running"


def test_wide_fanout_is_finished(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 a message on its way to very many queues gets to all of them, and its confirm waits for that."""
    vhost = broker.vhosts["/"]
    for number in range(3000):
        vhost.bind("amq.fanout", vhost.declare_queue(f"q{number}"), "", {})
    assert publisher.say(ConfirmSelect()) == [ConfirmSelectOk()]
    broker.throttle(MEMORY, False)
    publisher.connection.receive(publisher.message("", b"x", "amq.fanout") * 2, 0)
    assert publisher.connection.busy
    assert publisher.heard_on_channels() == [(0, ConnectionBlocked(MEMORY))]
    publisher.finish()
    assert publisher.heard() == [BasicAck(1)]
    assert {vhost.queues[f"q{number}"].ready_count for number in range(3000)} == {1}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_out_of_order(broker: Broker, publisher: Client, seed: int) -> None:
    """SPEC §8.6 however the bytes are cut and whenever publishers are stopped, all messages come once and in order."""
    chance = random.Random(seed)
    sizes = [chance.choice((0, 1, 100, 5000)) for _ in range(200)]
    data = b"".join(publisher.message("q", b"%d " % n + bytes(size), piece=1000) for n, size in enumerate(sizes))
    at = 0
    while at < len(data) or stopped(publisher):
        if not stopped(publisher):
            size = chance.choice((1, 50, 1000, 20_000))
            publisher.feed(data[at : at + size])
            at += size
        alarm, flow = chance.choice(("", MEMORY, BOTH)), chance.random() < 0.3
        throttle(broker, publisher, alarm=alarm, flow=flow)
    throttle(broker, publisher)
    told = [type(item) for _, item in publisher.heard_on_channels()]
    assert told == [ConnectionBlocked, ConnectionUnblocked] * (len(told) // 2)
    assert publisher.say(BasicGet("q", no_ack=True))[1] == b"before"
    for number in range(200):
        body = publisher.say(BasicGet("q", no_ack=True))[1]
        assert isinstance(body, bytes)
        assert int(body.split(b" ")[0]) == number
    assert publisher.say(BasicGet("q")) == [BasicGetEmpty()]


def test_failing_publish_stops_too(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 a publish to an exchange that is not there closes its channel, and the connection is stopped."""
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q", exchange="missing") + publisher.message("q"))
    told, close = publisher.heard_on_channels()
    assert told == (0, ConnectionBlocked(MEMORY))
    assert isinstance(close[1], ChannelClose)
    assert stopped(publisher)
    assert not publisher.connection.busy


def test_transaction_is_stopped_at_its_publish(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 publishes of a transaction count as publishes; a commit alone does not."""
    assert publisher.say(TxSelect()) == [TxSelectOk()]
    assert publisher.publish("q", b"in tx") == []
    broker.throttle(MEMORY, False)
    assert publisher.say(TxCommit()) == [TxCommitOk()]
    publisher.feed(publisher.message("q") + publisher.method(TxCommit()))
    assert publisher.heard(0) == [ConnectionBlocked(MEMORY)]
    throttle(broker, publisher)
    assert publisher.heard_on_channels() == [(0, ConnectionUnblocked()), (1, TxCommitOk())]


def test_stopped_client_can_be_closed(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 when the broker closes a connection that is stopped, its close-ok is heard."""
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q") * 3)
    publisher.octets()
    publisher.connection.shut("going", publisher.now)
    assert not stopped(publisher)
    (close,) = publisher.heard(0)
    assert isinstance(close, ConnectionClose)
    throttle(broker, publisher)
    assert publisher.octets() == b""
    publisher.feed(publisher.method(ConnectionCloseOk(), 0))
    assert publisher.connection.ended
    assert ready(broker) == 2


def test_stopped_client_may_go(broker: Broker, publisher: Client) -> None:
    """SPEC §8.6 a stopped client whose socket is gone leaves nothing behind."""
    assert publisher.say(BasicGet("q"))[0] == BasicGetOk(1, False, "", "q", 0)
    broker.throttle(MEMORY, False)
    publisher.feed(publisher.message("q") * 3)
    publisher.connection.lost(0)
    assert ready(broker) == 2
    assert not stopped(publisher)


def test_status_of_the_other_states(stranger: Client, publisher: Client) -> None:
    """SPEC §8.8 the state as the API names it."""
    assert stranger.connection.status == "starting"
    stranger.greet()
    assert stranger.connection.status == "starting"
    assert publisher.connection.status == "running"
    publisher.connection.shut("going", 0)
    assert publisher.connection.status == "closing"
