"""The acknowledgement timeout: who keeps a delivery too long loses its channel, and gives everything back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.protocol.deadlines import Deadlines, look_every_ms
from leveret.wire.spec import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeclare,
    TxRollback,
    TxSelect,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

TIMEOUT = 1_800_000
LOOK = 60_000


def timed_out(channel: int = 1, timeout: int = TIMEOUT) -> ChannelClose:
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel} timed out. Timeout value used: {timeout} ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    return ChannelClose(406, text, 0, 0)


def wait(client: Client, until: int) -> None:
    """Let time pass as the server does: a tick whenever the connection wants one."""
    while client.connection.tick_at <= until:
        client.now = max(client.now, client.connection.tick_at)
        client.connection.tick(client.now)
        client.finish()
    client.now = until


@pytest.fixture
def holder(client: Client) -> Client:
    """A client with one delivery in its hands."""
    client.say(QueueDeclare("q"), BasicConsume("q", "c", no_wait=True))
    client.publish("q", b"1")
    return client


def test_delivery_that_is_kept_too_long_closes_the_channel(holder: Client, connect: Connect) -> None:
    """SPEC §6.5 acknowledgement timeout: with RabbitMQ's text, blaming no method; found out within a minute"""
    wait(holder, TIMEOUT)
    assert holder.heard() == []
    wait(holder, TIMEOUT + LOOK)
    assert holder.heard() == [timed_out()]
    other = connect()
    match other.say(BasicGet("q")):
        case [BasicGetOk() as got, b"1"]:
            assert got.redelivered
        case heard:
            pytest.fail(f"it was not given back: {heard}")
    assert holder.say(ChannelCloseOk(), ChannelOpen()) == [ChannelOpenOk()]


@pytest.mark.parametrize("at", [0, TIMEOUT // 2, TIMEOUT])
def test_delivery_that_is_acknowledged_in_time_is_fine(holder: Client, at: int) -> None:
    """SPEC §6.5 acknowledgement timeout"""
    wait(holder, at)
    assert holder.say(BasicAck(1)) == []
    wait(holder, 10 * TIMEOUT)
    assert holder.heard() == []


def test_each_delivery_has_its_own_time(holder: Client) -> None:
    """SPEC §6.5 acknowledgement timeout: one given back begins anew, and so does the next."""
    wait(holder, TIMEOUT - LOOK)
    assert [type(item) for item in holder.say(BasicNack(1, requeue=True))] == [BasicDeliver, bytes]
    wait(holder, 2 * TIMEOUT - LOOK)
    assert holder.heard() == []
    wait(holder, 2 * TIMEOUT + LOOK)
    assert holder.heard() == [timed_out()]


def test_busy_channel_is_closed_for_one_old_delivery(holder: Client) -> None:
    """SPEC §6.5 acknowledgement timeout: whatever it acknowledges besides"""
    tag = 1
    for now in range(0, TIMEOUT + 1, LOOK // 2):
        wait(holder, now)
        assert [type(item) for item in holder.publish("q", b"2")] == [BasicDeliver, bytes]
        tag += 1
        assert holder.say(BasicAck(tag)) == []
    wait(holder, TIMEOUT + LOOK)
    assert holder.heard() == [timed_out()]


def test_busy_channel_that_acknowledges_everything_is_fine(client: Client) -> None:
    """SPEC §6.5 acknowledgement timeout: there is always something outstanding, never for long."""
    client.say(QueueDeclare("q"), BasicConsume("q", "c", no_wait=True))
    client.publish("q", b"1")
    tag = 1
    for now in range(0, 3 * TIMEOUT, LOOK):
        wait(client, now)
        client.publish("q", b"2")
        assert client.say(BasicAck(tag)) == []
        tag += 1
    assert client.heard() == []


def test_message_that_was_got_counts_too(client: Client) -> None:
    """SPEC §6.5 acknowledgement timeout, basic.get"""
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    client.say(BasicGet("q"))
    wait(client, TIMEOUT + LOOK)
    assert client.heard() == [timed_out()]


def test_what_needs_no_acknowledgement_has_no_deadline(client: Client) -> None:
    """SPEC §6.5 acknowledgement timeout, no-ack"""
    client.say(QueueDeclare("q"), BasicConsume("q", "c", no_ack=True, no_wait=True))
    client.publish("q", b"1", b"2")
    wait(client, 3 * TIMEOUT)
    assert client.heard() == []


def test_acknowledgement_that_is_rolled_back_does_not_count(holder: Client) -> None:
    """SPEC §6.5 acknowledgement timeout, transactions"""
    holder.say(TxSelect(), BasicAck(1))
    wait(holder, LOOK)
    holder.say(TxRollback())
    wait(holder, TIMEOUT + 3 * LOOK)
    assert holder.heard() == [timed_out()]


def test_every_channel_that_is_late_is_closed(client: Client) -> None:
    """SPEC §6.5 acknowledgement timeout: in one look, and no other"""
    client.open(2, 3)
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2")
    for channel in (1, 2):
        client.say(BasicGet("q"), channel=channel)
    wait(client, TIMEOUT + LOOK)
    assert client.heard_on_channels() == [(1, timed_out(1)), (2, timed_out(2))]
    assert client.say(QueueDeclare("q", passive=True, no_wait=True), channel=3) == []


def test_many_messages_come_back_in_pieces(broker: Broker, connect: Connect) -> None:
    """SPEC §8.8 nobody is starved: the next late channel waits until the first has given everything back."""
    broker.settings.consumer_timeout_ms = 1000
    client = connect().open(2)
    queue = broker.vhosts["/"].declare_queue("q")
    client.publish("q", *[b"x"] * 3000)
    client.say(BasicGet("q"), channel=2)
    client.say(BasicConsume("q", "c", no_wait=True))
    wait(client, 1249)
    for now in (1250, 1500):
        client.now = now
        client.connection.tick(now)
        assert client.connection.busy
        assert queue.unacked_count == 2000
    assert client.heard() == [timed_out(1, 1000)]
    client.finish()
    assert queue.unacked_count == 1
    wait(client, 1750)
    assert client.heard(2) == [timed_out(2, 1000)]
    assert queue.ready_count == 3000


@pytest.mark.parametrize("timeout", [1, 10, 1000])
def test_timeout_is_a_setting(broker: Broker, connect: Connect, timeout: int) -> None:
    """SPEC §6.5 acknowledgement timeout, configurable: found out within a quarter of it"""
    broker.settings.consumer_timeout_ms = timeout
    client = connect()
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    client.say(BasicGet("q"))
    wait(client, timeout - 1)
    assert client.heard() == []
    wait(client, timeout + 2 * look_every_ms(timeout))
    assert client.heard() == [timed_out(timeout=timeout)]


def test_timeout_of_zero_is_for_ever(broker: Broker, connect: Connect) -> None:
    """SPEC §6.5 acknowledgement timeout, switched off"""
    broker.settings.consumer_timeout_ms = 0
    client = connect()
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    client.say(BasicGet("q"))
    wait(client, 100 * TIMEOUT)
    assert client.heard() == []


def test_heartbeats_go_on_besides(connect: Connect) -> None:
    """SPEC §6.5 acknowledgement timeout, §1.4 heartbeats"""
    client = connect(heartbeat=600)
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    client.say(BasicGet("q"))
    for now in range(0, TIMEOUT, 300_000):
        wait(client, now)
        client.connection.seen_alive(now)
    wait(client, TIMEOUT + LOOK)
    heard = [item for _, item in client.heard_on_channels()]
    assert heard[-1] == timed_out()
    assert set(heard[:-1]) == {"heartbeat"}


@pytest.mark.parametrize(("timeout", "every"), [(TIMEOUT, LOOK), (1 << 40, LOOK), (1000, 250), (4, 1), (1, 1)])
def test_how_often_one_looks(timeout: int, every: int) -> None:
    """SPEC §6.5 acknowledgement timeout"""
    assert look_every_ms(timeout) == every


def test_notes_do_not_pile_up(holder: Client) -> None:
    """SPEC §8.8 bounded: one note a look, and none where nothing is new"""
    unacked = holder.connection.session.channels[1].unacked
    deadlines = Deadlines()
    for now in range(0, TIMEOUT, LOOK):
        assert not deadlines.overdue(unacked, now, TIMEOUT)
    assert len(deadlines._noted) == 1
    assert deadlines.overdue(unacked, TIMEOUT, TIMEOUT)
    unacked.take_all()
    assert not deadlines.overdue(unacked, 2 * TIMEOUT, TIMEOUT)
    assert deadlines._noted == []


@pytest.mark.parametrize("everyones", [0, TIMEOUT])
@pytest.mark.parametrize(("argument", "policy"), [(None, 90_000), (90_000, None), (90_000, 10**9), (10**9, 90_000)])
def test_queue_may_have_a_timeout_of_its_own(
    broker: Broker, connect: Connect, everyones: int, argument: int | None, policy: int | None
) -> None:
    """SPEC §6.5 acknowledgement timeout, §7.6 policies: consumer-timeout, also where the broker has none"""
    broker.settings.consumer_timeout_ms = everyones
    client = connect()
    client.say(QueueDeclare("q", arguments={} if argument is None else {"x-consumer-timeout": argument}))
    if policy is not None:
        broker.vhosts["/"].policies.set("p", "^q$", {"consumer-timeout": policy})
    client.publish("q", b"1")
    client.say(BasicGet("q"))
    wait(client, 90_000)
    assert client.heard() == []
    wait(client, 90_000 + 2 * LOOK)
    assert client.heard() == [timed_out(timeout=90_000)]


def test_timeout_of_a_queue_may_be_longer(broker: Broker, holder: Client) -> None:
    broker.vhosts["/"].policies.set("p", "^q$", {"consumer-timeout": 3 * TIMEOUT})
    wait(holder, 2 * TIMEOUT)
    assert holder.heard() == []
    broker.vhosts["/"].policies.clear("p")
    wait(holder, 2 * TIMEOUT + LOOK)
    assert holder.heard() == [timed_out()]


def test_only_the_oldest_delivery_is_looked_at(broker: Broker, holder: Client) -> None:
    """SPEC §6.5 acknowledgement timeout: RabbitMQ finds the next one out when that is acknowledged."""
    holder.say(QueueDeclare("hasty"))
    broker.vhosts["/"].policies.set("p", "^hasty$", {"consumer-timeout": 1000})
    holder.publish("hasty", b"2")
    holder.say(BasicGet("hasty"))
    wait(holder, 5 * LOOK)
    assert holder.heard() == []
    assert holder.say(BasicAck(1)) == []
    wait(holder, 6 * LOOK)
    assert holder.heard() == [timed_out(timeout=1000)]


def test_notes_are_thinned_out(client: Client) -> None:
    """SPEC §8.8 bounded: whoever never acknowledges one, and has no timeout"""
    client.say(QueueDeclare("q"), BasicConsume("q", "c", no_wait=True))
    client.publish("q", b"1")
    unacked, deadlines = client.connection.session.channels[1].unacked, Deadlines()
    for now in range(0, 3000 * LOOK, LOOK):
        assert deadlines.overdue(unacked, now, 0) is None
        client.publish("q", b"2")
    assert len(deadlines._noted) <= 1024
    assert deadlines.overdue(unacked, 3000 * LOOK, 3000 * LOOK) == 3000 * LOOK
