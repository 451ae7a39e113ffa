"""Answers that wait for storage while later methods go on, and everything in the order in which it was asked."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.protocol.conftest import Client, Connect

from leveret.broker.broker import Broker
from leveret.broker.storage import Storage
from leveret.protocol import connection as connection_module
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    FRAME_METHOD,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConnectionClose,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)


class SlowStorage(Storage):
    """Counts what is said of definitions; a test says how much of it is on disk."""

    def __init__(self) -> None:
        Storage.__init__(self)
        self.said = 0

    def position(self) -> int:
        return self.said

    def put(self, kind: str, vhost: str, name: str, value: dict[str, Any]) -> None:
        self.said += 1

    def remove(self, kind: str, vhost: str, name: str) -> None:
        self.said += 1

    def add_queue(self, queue: Any, vhost: str, kind: str, value: dict[str, Any]) -> None:
        self.said += 1

    def remove_queue(self, queue: Any, vhost: str, kind: str) -> None:
        self.said += 1


@pytest.fixture
def storage(broker: Broker) -> SlowStorage:
    storage = SlowStorage()
    broker.storage = broker.work.storage = storage
    return storage


@pytest.fixture
def client(storage: SlowStorage, connect: Connect) -> Client:
    return connect()


def declare(name: str, durable: bool = True) -> QueueDeclare:
    return QueueDeclare(name, durable=durable)


def send(client: Client, *items: Method | bytes) -> None:
    """All in one read."""
    data = b"".join(item if isinstance(item, bytes) else client.method(item) for item in items)
    client.connection.receive(data, 0)


def sync(client: Client, storage: SlowStorage, position: int | None = None) -> list[Any]:
    """All that was said up to there is on disk now; what is heard then."""
    storage.synced = storage.said if position is None else position
    client.connection.go_on(0)
    return client.heard()


def test_declares_go_on_while_earlier_answers_wait(client: Client, storage: SlowStorage) -> None:
    """SPEC §8.1: none is answered before it is on disk, and all that wait are on disk with one sync."""
    send(client, declare("a"), declare("b"), declare("c"))
    assert set(client.broker.vhosts["/"].queues) == {"a", "b", "c"}
    assert client.heard() == []
    assert client.connection.awaiting
    assert sync(client, storage, 1) == [QueueDeclareOk("a", 0, 0)]
    assert client.connection.awaiting
    assert sync(client, storage) == [QueueDeclareOk("b", 0, 0), QueueDeclareOk("c", 0, 0)]
    assert not client.connection.busy


def test_every_change_of_what_is_defined_goes_on(client: Client, storage: SlowStorage) -> None:
    """SPEC §8.1: exchanges, queues and bindings, made and removed; and the answers are in order."""
    steps: list[tuple[Method, Method]] = [
        (ExchangeDeclare("x", "fanout", durable=True), ExchangeDeclareOk()),
        (ExchangeDeclare("y", "fanout", durable=True), ExchangeDeclareOk()),
        (ExchangeBind("y", "x"), ExchangeBindOk()),
        (declare("q"), QueueDeclareOk("q", 0, 0)),
        (QueueBind("q", "y"), QueueBindOk()),
        (QueuePurge("q"), QueuePurgeOk(0)),
        (QueueUnbind("q", "y"), QueueUnbindOk()),
        (ExchangeUnbind("y", "x"), ExchangeUnbindOk()),
        (QueueDelete("q"), QueueDeleteOk(0)),
        (ExchangeDelete("y"), ExchangeDeleteOk()),
        (ExchangeDelete("x"), ExchangeDeleteOk()),
    ]
    send(client, *[step for step, _ in steps])
    assert client.heard() == []
    assert sync(client, storage) == [answer for _, answer in steps]
    assert not client.connection.busy


def test_answer_that_need_not_wait_does_not_overtake(client: Client, storage: SlowStorage) -> None:
    """SPEC §1: a channel's answers come in the order of its methods, also those about what is not durable."""
    send(client, declare("a"), declare("t", durable=False), QueueDeclare("a", passive=True), QueueDelete("t"))
    assert client.heard() == []
    answers = [QueueDeclareOk("a", 0, 0), QueueDeclareOk("t", 0, 0), QueueDeclareOk("a", 0, 0), QueueDeleteOk(0)]
    assert sync(client, storage) == answers


def test_what_asks_for_no_answer_gets_none(client: Client, storage: SlowStorage) -> None:
    send(client, declare("a"), QueueDeclare("b", durable=True, no_wait=True), declare("c"))
    assert sync(client, storage) == [QueueDeclareOk("a", 0, 0), QueueDeclareOk("c", 0, 0)]


@pytest.mark.parametrize(
    "late",
    [
        lambda client: client.method(BasicGet("a")),
        lambda client: client.method(BasicConsume("a", "t")),
        lambda client: client.method(ConfirmSelect()),
        lambda client: client.message("nowhere", b"x", mandatory=True, properties=Properties()),
        lambda client: client.method(ChannelClose()),
    ],
    ids=["get", "consume", "confirm.select", "publish", "close"],
)
def test_other_frames_wait(client: Client, storage: SlowStorage, late: Callable[[Client], bytes]) -> None:
    """SPEC §1: what they are answered, or cause, comes after the answers before."""
    send(client, declare("a"), late(client))
    assert client.heard() == []
    client.connection.go_on(0)
    assert client.heard() == []
    assert client.connection.awaiting
    heard = sync(client, storage)
    assert heard[0] == QueueDeclareOk("a", 0, 0)
    assert len(heard) > 1


def test_methods_of_other_channels_go_on_too(client: Client, storage: SlowStorage) -> None:
    client.open(2)
    client.connection.receive(client.method(declare("a")) + client.method(declare("b"), 2) + client.method(declare("c")), 0)
    storage.synced = storage.said
    client.connection.go_on(0)
    answers = [(1, QueueDeclareOk("a", 0, 0)), (2, QueueDeclareOk("b", 0, 0)), (1, QueueDeclareOk("c", 0, 0))]
    assert client.heard_on_channels() == answers


def test_soft_error_closes_at_its_place(client: Client, storage: SlowStorage) -> None:
    """SPEC §1: the answers before it come first, and what is behind it is not done."""
    send(client, declare("a"), QueueDeclare("missing", passive=True), declare("b"))
    assert client.heard() == []
    assert client.connection.awaiting
    answer, close = sync(client, storage)
    assert answer == QueueDeclareOk("a", 0, 0)
    assert isinstance(close, ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (404, 50, 10)
    assert set(client.broker.vhosts["/"].queues) == {"a"}
    assert client.say(ChannelCloseOk()) == []


def test_hard_error_closes_at_its_place(client: Client, storage: SlowStorage) -> None:
    unknown = client.frame(FRAME_METHOD, (50 << 16 | 99).to_bytes(4, "big"))
    send(client, declare("a"), unknown, declare("b"))
    assert client.heard() == []
    storage.synced = storage.said
    client.connection.go_on(0)
    (first, answer), (zero, close) = client.heard_on_channels()
    assert (first, answer, zero) == (1, QueueDeclareOk("a", 0, 0), 0)
    assert isinstance(close, ConnectionClose)
    assert (close.class_id, close.method_id) == (50, 99)
    assert set(client.broker.vhosts["/"].queues) == {"a"}


def test_broken_frame_is_told_behind_the_answers(client: Client, storage: SlowStorage) -> None:
    broken = client.method(declare("b"))[:-1] + b"\x00"
    send(client, declare("a"), broken)
    assert client.heard() == []
    storage.synced = storage.said
    client.connection.go_on(0)
    (_, answer), (_, close) = client.heard_on_channels()
    assert answer == QueueDeclareOk("a", 0, 0)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 501


@pytest.mark.parametrize("durable", [True, False])
def test_deletion_with_consumers_is_answered_in_order_and_before_they_hear(
    client: Client, storage: SlowStorage, durable: bool
) -> None:
    """SPEC §6.1: the cancel of a consumer comes behind delete-ok, and that behind the answers before it."""
    storage.synced = 1 << 40
    assert client.say(declare("q", durable), BasicConsume("q", "c")) == [QueueDeclareOk("q", 0, 0), BasicConsumeOk("c")]
    storage.synced = 0
    send(client, declare("a"), QueueDelete("q"), declare("b"))
    assert client.heard() == []
    heard = sync(client, storage)
    if durable:
        heard += sync(client, storage)
    heard += sync(client, storage)
    cancel = BasicCancel("c", no_wait=True)
    assert heard == [QueueDeclareOk("a", 0, 0), QueueDeleteOk(0), cancel, QueueDeclareOk("b", 0, 0)]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_so_many_answers_may_wait(client: Client, storage: SlowStorage, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPEC §10: the rest is done when there is room again."""
    monkeypatch.setattr(connection_module, "ANSWERS_MAX", limit)
    send(client, *[declare(name) for name in "abc"])
    assert len(client.broker.vhosts["/"].queues) == limit
    assert len(client.connection.session.answers) == limit
    heard = sync(client, storage)
    while client.connection.busy:
        heard += sync(client, storage)
    assert heard == [QueueDeclareOk(name, 0, 0) for name in "abc"]


def test_spent_budget_is_not_taken_for_the_disk(client: Client, storage: SlowStorage) -> None:
    """SPEC §10: methods that are left over go on next turn, and do not wait for the sync of those before."""
    send(client, *[declare(f"q{number}") for number in range(250)])
    turns = 1
    while not client.connection.awaiting:
        assert client.connection.busy
        client.connection.go_on(0)
        turns += 1
    assert len(client.broker.vhosts["/"].queues) == 250
    assert turns == 3
    assert len(sync(client, storage)) == 250


def test_half_a_frame_is_waited_for_by_nobody(client: Client, storage: SlowStorage) -> None:
    """SPEC §10: it comes when the client is read again; going on with it each turn would be all that the broker does."""
    frame = client.method(declare("b"))
    send(client, declare("a"), frame[:-1])
    assert client.connection.awaiting
    assert sync(client, storage) == [QueueDeclareOk("a", 0, 0)]
    assert not client.connection.busy
    send(client, frame[-1:])
    assert sync(client, storage) == [QueueDeclareOk("b", 0, 0)]


@pytest.mark.parametrize("end", ["lost", "shut"])
def test_answers_of_a_connection_that_ends_are_given_to_nobody(client: Client, storage: SlowStorage, end: str) -> None:
    send(client, declare("a"), declare("b"))
    if end == "lost":
        client.connection.lost(0)
    else:
        client.connection.shut("the end", 0)
        ((number, close),) = client.heard_on_channels()
        assert (number, isinstance(close, ConnectionClose)) == (0, True)
    assert client.connection.session.answers == []
    assert not client.connection.busy
    assert sync(client, storage) == []


def test_client_whose_answers_wait_is_alive(client: Client, storage: SlowStorage) -> None:
    """SPEC §1: its heartbeats are not read meanwhile."""
    client.connection.heartbeat.interval_ms = 1000
    send(client, declare("a"))
    client.connection.tick(10_000)
    assert not client.connection.ended
    assert client.heard_on_channels() == [(0, "heartbeat")]
    assert sync(client, storage) == [QueueDeclareOk("a", 0, 0)]


def test_get_behind_an_answer_finds_what_the_method_before_it_left(client: Client, storage: SlowStorage) -> None:
    send(client, declare("a"), BasicGet("a"))
    assert sync(client, storage) == [QueueDeclareOk("a", 0, 0), BasicGetEmpty()]
