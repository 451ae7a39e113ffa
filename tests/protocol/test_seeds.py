"""Where the requirements and RabbitMQ differ: the settings with which those of the requirements hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from leveret.broker.broker import Broker
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxSelect,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Heard

# A time in seconds, and the same in ms.
SECONDS = 1_700_000_000
NOW = SECONDS * 1000


# An exchange that is not there


@pytest.fixture
def dropping(broker: Broker, client: Client) -> Client:
    """A client of a broker that drops what is published to an exchange that is not there."""
    broker.settings.drop_to_unknown_exchange = True
    return client


def test_by_default_an_unknown_exchange_is_refused(client: Client) -> None:
    """SPEC §12 publishing to a missing exchange: as RabbitMQ"""
    text = "NOT_FOUND - no exchange 'none' in vhost '/'"
    assert client.say(client.message("k", b"1", "none")) == [ChannelClose(404, text, 60, 40)]


def test_message_to_an_unknown_exchange_is_dropped(dropping: Client) -> None:
    """SPEC §12 publishing to a missing exchange: unknown_exchange = drop; it is confirmed, the channel goes on."""
    assert dropping.say(ConfirmSelect()) == [ConfirmSelectOk()]
    assert dropping.say(dropping.message("k", b"1", "none") * 2) == [BasicAck(2, multiple=True)]
    headers: Any = {"CC": ["k"], "BCC": ["k"]}
    assert dropping.say(dropping.message("k", b"1", "none", properties=Properties(headers=headers))) == [BasicAck(3)]


def test_mandatory_message_to_an_unknown_exchange_is_returned(dropping: Client) -> None:
    """SPEC §12 publishing to a missing exchange, mandatory: the client asked to be told."""
    assert dropping.say(dropping.message("k", b"1", "none", mandatory=True)) == [
        BasicReturn(312, "NO_ROUTE", "none", "k"),
        b"1",
    ]
    dropping.say(TxSelect())
    dropping.say(dropping.message("k", b"2", "none", mandatory=True))
    assert dropping.say(TxCommit()) == [BasicReturn(312, "NO_ROUTE", "none", "k"), b"2", TxCommitOk()]


def test_exchange_that_comes_and_goes(dropping: Client) -> None:
    """SPEC §12 publishing to a missing exchange: a route that is remembered ends when there is one."""
    dropping.say(QueueDeclare("q"))
    dropping.say(dropping.message("k", b"1", "x"))
    dropping.say(ExchangeDeclare("x", "headers"), QueueBind("q", "x"))
    dropping.say(dropping.message("k", b"2", "x"))
    assert dropping.say(BasicGet("q")) == [BasicGetOk(1, False, "x", "k", 0), b"2"]


def test_right_to_write_is_needed_all_the_same(dropping: Client, broker: Broker) -> None:
    """SPEC §12 publishing to a missing exchange, §7.2 permissions"""
    broker.set_permissions("guest", "/", ".*", "^x$", ".*")
    text = "ACCESS_REFUSED - write access to exchange 'none' in vhost '/' refused for user 'guest'"
    assert dropping.say(dropping.message("k", b"1", "none")) == [ChannelClose(403, text, 60, 40)]


# Expiration as a time


@pytest.fixture
def epochal(broker: Broker, client: Client) -> Client:
    """A client of a broker that reads expiration as a Unix time; a queue `q`."""
    broker.settings.epoch_expiration = True
    client.now = NOW
    client.say(QueueDeclare("q"))
    return client


def published(client: Client, expiration: str, *, mandatory: bool = False, **headers: Any) -> list[Heard]:
    properties = Properties(expiration=expiration, headers=headers or None)
    return client.say(client.message("q", b"1", mandatory=mandatory, properties=properties))


def get(client: Client, now: int) -> type[object]:
    """What basic.get is answered at that time."""
    client.now = now
    answer = client.say(BasicGet("q", no_ack=True))[0]
    return type(answer)


def test_message_expires_at_its_time(epochal: Client) -> None:
    """SPEC §12 expiration = epoch: in seconds, carried through as it is"""
    assert published(epochal, str(SECONDS + 10)) == published(epochal, str(SECONDS + 10)) == []
    epochal.now = NOW + 9_999
    assert epochal.say(BasicGet("q"))[1] == (Properties(expiration=str(SECONDS + 10)), b"1")
    assert get(epochal, NOW + 10_000) is BasicGetEmpty


def test_message_expires_in_its_queue_in_time(epochal: Client, broker: Broker) -> None:
    """SPEC §12 expiration = epoch: though nobody asks"""
    published(epochal, str(SECONDS + 10))
    assert broker.timers.next_at() == NOW + 10_000


@pytest.mark.parametrize("expiration", [str(SECONDS), str(SECONDS - 1), "0", "60000"])
def test_message_whose_time_is_past_is_not_routed(epochal: Client, broker: Broker, expiration: str) -> None:
    """SPEC §12 expiration = epoch, already past: returned if mandatory, and confirmed; dead letters have no part in it."""
    epochal.say(QueueDeclare("q2", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}))
    assert published(epochal, expiration) == []
    assert published(epochal, expiration, CC=["q2"], BCC=["q2"]) == []
    assert [queue.next_seq for queue in broker.vhosts["/"].queues.values()] == [1, 1]
    assert published(epochal, expiration, mandatory=True) == [
        BasicReturn(312, "NO_ROUTE", "", "q"),
        (Properties(expiration=expiration), b"1"),
    ]
    epochal.say(ConfirmSelect())
    assert published(epochal, expiration) == [BasicAck(1)]


@pytest.mark.parametrize("expiration", ["", "x", "-1", "+1700000010", "1.5", " 1700000010", "1700000010 ", "١٧"])
def test_bad_time_is_refused(epochal: Client, expiration: str) -> None:
    """SPEC §12 expiration = epoch, bad value"""
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': no_integer"
    assert published(epochal, expiration) == [ChannelClose(406, text, 60, 40)]
    epochal.say(ChannelCloseOk(), ChannelOpen())


def test_time_far_away_is_taken(epochal: Client) -> None:
    """SPEC §12 expiration = epoch: as ten years"""
    assert published(epochal, "9" * 30) == []
    assert get(epochal, NOW + 1) is BasicGetOk


def test_copies_expire_too(epochal: Client) -> None:
    """SPEC §12 expiration = epoch, §3.6 CC and BCC: though the message is written anew"""
    epochal.say(QueueDeclare("q2"))
    published(epochal, str(SECONDS + 10), BCC=["q2"])
    epochal.now = NOW + 10_000
    assert epochal.say(BasicGet("q"), BasicGet("q2")) == [BasicGetEmpty()] * 2


def test_by_default_expiration_is_a_time_to_live(client: Client) -> None:
    """SPEC §12 expiration: as RabbitMQ"""
    client.now = NOW
    client.say(QueueDeclare("q"))
    published(client, "1000")
    assert get(client, NOW + 999) is BasicGetOk
    published(client, "1000")
    assert get(client, NOW + 1999) is BasicGetEmpty
