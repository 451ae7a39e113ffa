"""The exchange types that look at each message, as a dialogue: what is confirmed, returned, remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BasicAck,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
)
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Heard

DEDUPLICATION = "x-deduplication-header"


def ready(client: Client, name: str = "q") -> int:
    return client.connection.session.vhost.queues[name].ready_count


def declare(client: Client, kind: str, arguments: Table | None = None, key: str = "") -> None:
    """An exchange x with a queue q."""
    assert client.say(ExchangeDeclare("x", kind, arguments=arguments or {})) == [ExchangeDeclareOk()]
    client.say(QueueDeclare("q"))
    assert client.say(QueueBind("q", "x", key)) == [QueueBindOk()]


def publish(client: Client, headers: Table | None = None, *, mandatory: bool = False, body: bytes = b"x") -> list[Heard]:
    properties = None if headers is None else Properties(headers=headers)
    return client.say(client.message("k", body, "x", mandatory=mandatory, properties=properties))


def names(heard: list[Heard]) -> list[str]:
    return [type(item).__name__ for item in heard if not isinstance(item, bytes | tuple)]


def test_random_choice_is_made_anew_for_each_message(client: Client) -> None:
    """SPEC §3.1 x-random: messages without properties too, though they look the same."""
    declare(client, "x-random")
    client.say(QueueDeclare("r"))
    client.say(QueueBind("r", "x", ""))
    client.say(*[client.message("k", b"x", "x") for _ in range(200)])
    assert ready(client) + ready(client, "r") == 200
    assert min(ready(client), ready(client, "r")) > 40


def test_hash_of_a_header_is_taken_of_each_message(client: Client) -> None:
    """SPEC §3.1 hash-header."""
    declare(client, "x-consistent-hash", {"hash-header": "h"}, "1")
    client.say(QueueDeclare("r"))
    client.say(QueueBind("r", "x", "1"))
    for number in range(100):
        publish(client, {"h": number})
    assert min(ready(client), ready(client, "r")) > 20
    before = ready(client)
    for _ in range(10):
        publish(client)
    assert ready(client) - before in (0, 10)


def test_delayed_message_is_confirmed_and_not_returned(client: Client) -> None:
    """SPEC §3.1 x-delayed-message: it counts as routed, even if nothing is bound when it is due."""
    declare(client, "x-delayed-message", {"x-delayed-type": "direct"}, "other key")
    assert client.say(ConfirmSelect()) == [ConfirmSelectOk()]
    assert publish(client, {"x-delay": 100}, mandatory=True) == [BasicAck(1)]
    assert names(publish(client, {"x-delay": 0}, mandatory=True)) == ["BasicReturn", "BasicAck"]


def test_duplicate_is_confirmed_and_returned_if_mandatory(client: Client) -> None:
    """SPEC §5.3 x-message-deduplication exchange."""
    declare(client, "x-message-deduplication", {"x-cache-size": 10})
    client.say(ConfirmSelect())
    assert publish(client, {DEDUPLICATION: "a"}, mandatory=True) == [BasicAck(1)]
    assert publish(client, {DEDUPLICATION: "a"}) == [BasicAck(2)]
    assert names(publish(client, {DEDUPLICATION: "a"}, mandatory=True)) == ["BasicReturn", "BasicAck"]
    assert publish(client, {DEDUPLICATION: "b", "CC": ["c"]}, mandatory=True) == [BasicAck(4)]
    assert ready(client) == 2


def test_history_is_no_destination(client: Client) -> None:
    """SPEC §3.1 x-recent-history: what only it has is returned; a queue that is bound gets it before bind-ok is read."""
    client.say(ExchangeDeclare("x", "x-recent-history"))
    published: list[tuple[bytes, Table | None]] = [(b"1", None), (b"2", {"CC": ["c"]}), (b"3", {"BCC": ["c"]})]
    for body, headers in published:
        heard = publish(client, headers, mandatory=True, body=body)
        assert isinstance(heard[0], BasicReturn)
    client.say(QueueDeclare("q"))
    assert client.say(QueueBind("q", "x", "")) == [QueueBindOk()]
    assert ready(client) == 3


def test_history_remembers_what_was_rolled_back(client: Client) -> None:
    """RabbitMQ: a message is routed, and with that kept, when it is published, and delivered when it is committed."""
    declare(client, "x-recent-history")
    client.say(TxSelect())
    publish(client)
    assert client.say(TxRollback()) == [TxRollbackOk()]
    publish(client)
    assert client.say(TxCommit()) == [TxCommitOk()]
    assert ready(client) == 1
    client.say(QueueDeclare("r"))
    client.say(QueueBind("r", "x", ""))
    assert ready(client, "r") == 2


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        ("x-delayed-message", {}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        ("x-recent-history", {"x-recent-history-length": 0}, "Invalid argument 0, 'x-recent-history-length' must be"),
        ("x-consistent-hash", {"hash-property": "app_id"}, "Unsupported property: app_id"),
        ("x-message-deduplication", {}, "Invalid argument, 'x-cache-size' must be an integer greater than 0"),
    ],
)
def test_bad_arguments_close_the_channel(client: Client, kind: str, arguments: Table, text: str) -> None:
    """SPEC §3.1: 406 and RabbitMQ's text."""
    (close,) = client.say(ExchangeDeclare("x", kind, arguments=arguments))
    assert isinstance(close, ChannelClose)
    assert (close.reply_code, close.reply_text.startswith(f"PRECONDITION_FAILED - {text}")) == (406, True)
