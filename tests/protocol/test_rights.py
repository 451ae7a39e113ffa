"""Rights, limits and what their loss ends, as a dialogue: each operation with each right it needs, and without.

`guest` may do everything and has made what is there; `u` has the rights that a test gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest

from leveret.broker.broker import Broker
from leveret.wire.properties import Properties
from leveret.wire.spec import (
    BASIC_PUBLISH,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from leveret.wire.values import Table, Value

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect

Said: TypeAlias = "Method | Callable[[Client], bytes]"
# Permission, kind of thing, its name; for a topic its routing key on the exchange `t`.
Right: TypeAlias = "tuple[str, str, str]"


def published(exchange: str, key: str = "k", **headers: Value) -> Callable[[Client], bytes]:
    properties = Properties(headers=dict(headers)) if headers else None
    return lambda client: client.message(key, exchange=exchange, properties=properties)


ALTERNATE: Table = {"alternate-exchange": "ae"}
DEAD: Table = {"x-dead-letter-exchange": "dlx"}

# SPEC §7.2 permissions: what is said, and every right it needs. Each is tried without one of them, and with exactly these.
OPERATIONS: dict[str, tuple[Said, list[Right]]] = {
    "exchange.declare": (ExchangeDeclare("new", "direct"), [("configure", "exchange", "new")]),
    "exchange.declare, it is there": (ExchangeDeclare("x", "direct"), [("configure", "exchange", "x")]),
    "exchange.declare, alternate": (
        ExchangeDeclare("new", "direct", arguments=ALTERNATE),
        [("configure", "exchange", "new"), ("read", "exchange", "new"), ("write", "exchange", "ae")],
    ),
    "exchange.declare, alternate is the default exchange": (
        ExchangeDeclare("new", "direct", arguments={"alternate-exchange": ""}),
        [("configure", "exchange", "new"), ("read", "exchange", "new"), ("write", "exchange", "amq.default")],
    ),
    "exchange.declare, alternate, it is there": (
        ExchangeDeclare("xa", "direct", arguments=ALTERNATE),
        [("configure", "exchange", "xa")],
    ),
    "exchange.delete": (ExchangeDelete("x"), [("configure", "exchange", "x")]),
    "exchange.delete, it is not there": (ExchangeDelete("none"), [("configure", "exchange", "none")]),
    "exchange.bind": (ExchangeBind("y", "x", "k"), [("write", "exchange", "y"), ("read", "exchange", "x")]),
    "exchange.bind, topic": (
        ExchangeBind("y", "t", "a.#"),
        [("write", "exchange", "y"), ("read", "exchange", "t"), ("read", "topic", "a.#")],
    ),
    "exchange.unbind": (ExchangeUnbind("y", "x", "k"), [("write", "exchange", "y"), ("read", "exchange", "x")]),
    "exchange.unbind, topic": (
        ExchangeUnbind("y", "t", "a.#"),
        [("write", "exchange", "y"), ("read", "exchange", "t"), ("read", "topic", "a.#")],
    ),
    "queue.declare": (QueueDeclare("new"), [("configure", "queue", "new")]),
    "queue.declare, it is there": (QueueDeclare("q"), [("configure", "queue", "q")]),
    "queue.declare, dead letters": (
        QueueDeclare("new", arguments=DEAD),
        [("configure", "queue", "new"), ("read", "queue", "new"), ("write", "exchange", "dlx")],
    ),
    "queue.declare, dead letters to the default exchange": (
        QueueDeclare("new", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"}),
        [("configure", "queue", "new"), ("read", "queue", "new"), ("write", "exchange", "amq.default")],
    ),
    "queue.declare, dead letters, it is there": (QueueDeclare("qd", arguments=DEAD), [("configure", "queue", "qd")]),
    "queue.delete": (QueueDelete("q"), [("configure", "queue", "q")]),
    "queue.delete, it is not there": (QueueDelete("none"), [("configure", "queue", "none")]),
    "queue.purge": (QueuePurge("q"), [("read", "queue", "q")]),
    "queue.bind": (QueueBind("q", "x", "k"), [("write", "queue", "q"), ("read", "exchange", "x")]),
    "queue.bind, topic": (
        QueueBind("q", "t", "a.*"),
        [("write", "queue", "q"), ("read", "exchange", "t"), ("read", "topic", "a.*")],
    ),
    "queue.unbind": (QueueUnbind("q", "x", "k"), [("write", "queue", "q"), ("read", "exchange", "x")]),
    "queue.unbind, topic": (
        QueueUnbind("q", "t", "a.*"),
        [("write", "queue", "q"), ("read", "exchange", "t"), ("read", "topic", "a.*")],
    ),
    "basic.publish": (published("x"), [("write", "exchange", "x")]),
    "basic.publish, default exchange": (published("", "q"), [("write", "exchange", "amq.default")]),
    "basic.publish, predeclared exchange": (published("amq.fanout"), [("write", "exchange", "amq.fanout")]),
    "basic.publish, topic": (published("t", "a.b"), [("write", "exchange", "t"), ("write", "topic", "a.b")]),
    "basic.publish, topic and CC": (
        published("t", "a.b", CC=["c.d", "e"]),
        [("write", "exchange", "t"), ("write", "topic", "a.b"), ("write", "topic", "c.d"), ("write", "topic", "e")],
    ),
    "basic.publish, topic and BCC": (
        published("t", "a.b", BCC=["c.d"]),
        [("write", "exchange", "t"), ("write", "topic", "a.b"), ("write", "topic", "c.d")],
    ),
    "basic.publish, CC elsewhere": (published("x", "k", CC=["c.d"], BCC=["e"]), [("write", "exchange", "x")]),
    "basic.get": (BasicGet("q"), [("read", "queue", "q")]),
    "basic.consume": (BasicConsume("q", "c"), [("read", "queue", "q")]),
}


@pytest.fixture
def world(broker: Broker) -> Broker:
    """Exchanges, queues, and a user `u` who may do nothing with them."""
    vhost = broker.vhosts["/"]
    for name in ("x", "y"):
        vhost.declare_exchange(name, "direct")
    vhost.declare_exchange("t", "topic")
    vhost.declare_exchange("xa", "direct", arguments=ALTERNATE)
    vhost.declare_exchange("inner", "direct", internal=True)
    vhost.declare_queue("q")
    vhost.declare_queue("qd", arguments=DEAD)
    for exchange in ("x", "t"):
        vhost.bind(exchange, vhost.queues["q"], "k", {})
    broker.add_user("u", "u")
    broker.set_permissions("u", "/", "", "", "")
    return broker


def grant(broker: Broker, rights: list[Right]) -> None:
    """Give `u` exactly these; topics are bounded on the topic exchange, and in vain on a direct one."""

    def names(permission: str, topics: bool) -> str:
        found = [name for one, kind, name in rights if one == permission and (kind == "topic") == topics]
        return "^(" + "|".join("[" + "][".join(name) + "]" for name in found) + ")$" if found else ""

    broker.set_permissions("u", "/", names("configure", False), names("write", False), names("read", False))
    for exchange in ("t", "x"):
        broker.set_topic_permissions("u", "/", exchange, names("write", True), names("read", True))


def close(text: str, said: Said | int) -> ChannelClose:
    index = said if isinstance(said, int) else BASIC_PUBLISH if callable(said) else said.INDEX
    return ChannelClose(403, f"ACCESS_REFUSED - {text}", index >> 16, index & 0xFFFF)


def refusal(right: Right, said: Said | int) -> ChannelClose:
    permission, kind, name = right
    what = f"topic '{name}' in exchange 't'" if kind == "topic" else f"{kind} '{name}'"
    return close(f"{permission} access to {what} in vhost '/' refused for user 'u'", said)


def answer(client: Client, said: Said) -> Method | None:
    """The first thing heard in answer, if any."""
    heard = client.say(said if isinstance(said, Method) else said(client))
    assert not heard or isinstance(heard[0], Method)
    return heard[0] if heard and isinstance(heard[0], Method) else None


@pytest.mark.parametrize(
    ("name", "missing"), [(name, at) for name, (_, rights) in OPERATIONS.items() for at in range(len(rights))]
)
def test_operation_without_one_of_its_rights(world: Broker, connect: Connect, name: str, missing: int) -> None:
    """SPEC §7.2 permissions: refused with RabbitMQ's text, and nothing is done"""
    said, rights = OPERATIONS[name]
    grant(world, rights[:missing] + rights[missing + 1 :])
    client = connect(user="u")
    before = set(world.vhosts["/"].queues), set(world.vhosts["/"].exchanges)
    assert answer(client, said) == refusal(rights[missing], said)
    assert (set(world.vhosts["/"].queues), set(world.vhosts["/"].exchanges)) == before
    assert client.say(ChannelCloseOk(), ChannelOpen()) == [ChannelOpenOk()]


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_with_just_its_rights(world: Broker, connect: Connect, name: str) -> None:
    """SPEC §7.2 permissions: no others are needed"""
    said, rights = OPERATIONS[name]
    grant(world, rights)
    client = connect(user="u")
    assert not isinstance(answer(client, said), ChannelClose)
    queue = world.vhosts["/"].queues.get("q")
    if name in ("basic.publish", "basic.publish, default exchange", "basic.publish, CC elsewhere"):
        assert queue is not None
        assert queue.ready_count == 1


@pytest.mark.parametrize("permission", ["configure", "write", "read"])
@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [(QueueDeclare("q", passive=True), "queue", "q"), (ExchangeDeclare("x", passive=True), "exchange", "x")],
)
def test_any_right_is_enough_to_ask_whether_it_is_there(
    world: Broker, connect: Connect, method: Method, kind: str, name: str, permission: str
) -> None:
    """SPEC §7.2 permissions, passive declare"""
    client = connect(user="u")
    assert answer(client, method) == close(f"access to {kind} '{name}' in vhost '/' refused for user 'u'", method)
    grant(world, [(permission, kind, name)])
    client.say(ChannelCloseOk(), ChannelOpen())
    assert isinstance(answer(client, method), QueueDeclareOk | ExchangeDeclareOk)


def test_name_that_the_server_makes_must_be_allowed_too(world: Broker, connect: Connect) -> None:
    """SPEC §7.2 permissions, server-named queue"""
    client = connect(user="u")
    refused = answer(client, QueueDeclare(""))
    assert isinstance(refused, ChannelClose)
    assert refused.reply_text.startswith("ACCESS_REFUSED - configure access to queue 'amq.gen-")
    world.set_permissions("u", "/", r"^amq\.gen-", "", "")
    client.say(ChannelCloseOk(), ChannelOpen())
    assert isinstance(answer(client, QueueDeclare("")), QueueDeclareOk)


def test_internal_exchange_is_nobodys_to_publish_to(world: Broker, connect: Connect) -> None:
    """SPEC §7.2 permissions, internal exchange: first the right, then what it is."""
    client = connect(user="u")
    said = published("inner")
    assert answer(client, said) == refusal(("write", "exchange", "inner"), said)
    grant(world, [("write", "exchange", "inner")])
    client.say(ChannelCloseOk(), ChannelOpen())
    assert answer(client, said) == close("cannot publish to internal exchange 'inner' in vhost '/'", said)


def test_right_is_asked_before_whether_it_is_there(world: Broker, connect: Connect) -> None:
    """SPEC §7.2 permissions: who may not, does not learn what there is."""
    client = connect(user="u")
    for said, right in (
        (BasicGet("none"), ("read", "queue", "none")),
        (BasicConsume("none"), ("read", "queue", "none")),
        (QueuePurge("none"), ("read", "queue", "none")),
        (QueueBind("none", "x"), ("write", "queue", "none")),
        (published("none"), ("write", "exchange", "none")),
    ):
        assert answer(client, said) == refusal(right, said)
        client.say(ChannelCloseOk(), ChannelOpen())


def test_messages_in_hand_may_always_be_settled(world: Broker, connect: Connect, client: Client) -> None:
    """SPEC §7.5 revoking: the right to read is not needed to give back."""
    grant(world, [("read", "queue", "q")])
    reader = connect(user="u")
    client.publish("q", b"1")
    assert isinstance(answer(reader, BasicGet("q")), BasicGetOk)
    grant(world, [])
    reader.say(reader.method(ChannelClose(200, "")))
    assert isinstance(answer(client, BasicGet("q")), BasicGetOk)


# Topics


@pytest.mark.parametrize(
    ("user", "pattern", "key", "allowed"),
    [
        # SPEC §7.2 username and vhost in topic permissions
        ("u", "^{username}\\.", "u.1", True),
        ("u", "^{username}\\.", "v.1", False),
        ("u", "^{vhost}-{username}$", "/-u", True),
        ("u", "^{vhost}-{username}$", "x-u", False),
        # SPEC §7.2 topic permissions: names are names, whatever characters they have
        (".*", "^{username}$", "anything", False),
        (".*", "^{username}$", ".*", True),
        ("a|b", "^{username}$", "a", False),
        ("a|b", "^{username}$", "a|b", True),
        ("(", "^{username}$", "(", True),
        ("{vhost}", "^{username}$", "{vhost}", True),
        ("{vhost}", "^{username}$", "/", False),
        ("жук", "^{username}$", "жук", True),
        # SPEC §7.2 topic permissions: unanchored, and nothing is allowed by an empty one
        ("u", "b", "abc", True),
        ("u", "", "k", False),
        ("u", "", "", True),
    ],
)
def test_topic_pattern(world: Broker, connect: Connect, user: str, pattern: str, key: str, allowed: bool) -> None:
    world.add_user(user, user)
    world.set_permissions(user, "/", "", ".*", ".*")
    world.set_topic_permissions(user, "/", "t", pattern, pattern)
    for said, permission in ((published("t", key), "write"), (QueueBind("q", "t", key), "read")):
        heard = answer(connect(user=user), said)
        if allowed:
            assert not isinstance(heard, ChannelClose)
        else:
            text = f"{permission} access to topic '{key}' in exchange 't' in vhost '/' refused for user '{user}'"
            assert heard == close(text, said)


def test_topics_are_free_where_nothing_is_said_of_them(world: Broker, connect: Connect) -> None:
    """SPEC §7.2 topic permissions: for each exchange and vhost, and gone when cleared"""
    world.set_permissions("u", "/", "", ".*", ".*")
    world.set_topic_permissions("u", "/", "t", "^a", "^a")
    client = connect(user="u")
    assert answer(client, published("amq.topic", "b")) is None
    assert isinstance(answer(client, published("t", "b")), ChannelClose)
    world.clear_topic_permissions("u", "/")
    client.say(ChannelCloseOk(), ChannelOpen())
    assert answer(client, published("t", "b")) is None


# Revoking


def test_revoked_right_is_felt_by_the_next_publish_of_a_burst(world: Broker, connect: Connect) -> None:
    """SPEC §7.5 revoking: the route was remembered, and half of the second message has already come."""
    grant(world, [("write", "exchange", "x")])
    client = connect(user="u")
    burst = client.message("k", b"1", "x") * 2
    client.feed(burst[: len(burst) // 2 + 20])
    assert world.vhosts["/"].queues["q"].ready_count == 1
    grant(world, [])
    assert client.say(burst[len(burst) // 2 + 20 :]) == [refusal(("write", "exchange", "x"), BASIC_PUBLISH)]
    assert world.vhosts["/"].queues["q"].ready_count == 1


def test_revoked_topic_is_felt_by_the_next_publish(world: Broker, connect: Connect) -> None:
    """SPEC §7.5 revoking"""
    topic = ("write", "topic", "k")
    grant(world, [("write", "exchange", "t"), topic])
    client = connect(user="u")
    assert client.say(client.message("k", b"1", "t")) == []
    grant(world, [("write", "exchange", "t")])
    assert client.say(client.message("k", b"1", "t")) == [refusal(topic, BASIC_PUBLISH)]


def test_granted_right_is_felt_at_once(world: Broker, connect: Connect) -> None:
    """SPEC §7.5 revoking, and its opposite"""
    client = connect(user="u")
    assert isinstance(answer(client, published("x")), ChannelClose)
    grant(world, [("write", "exchange", "x")])
    client.say(ChannelCloseOk(), ChannelOpen())
    assert answer(client, published("x")) is None


@pytest.mark.parametrize("capabilities", [(), ("consumer_cancel_notify",)])
def test_revoked_read_right_ends_the_consumer(
    world: Broker, connect: Connect, client: Client, capabilities: tuple[str, ...]
) -> None:
    """SPEC §7.5 revoking: only this user's, only on this queue; what it holds it may still acknowledge."""
    grant(world, [("read", "queue", "q"), ("read", "queue", "qd")])
    reader = connect(user="u", capabilities=capabilities)
    reader.say(BasicConsume("q", "mine"), BasicConsume("qd", "also mine"))
    client.publish("q", b"1")
    assert [type(item) for item in reader.heard()] == [BasicDeliver, bytes]
    assert client.say(BasicConsume("q", "other", no_ack=True)) == [BasicConsumeOk("other")]
    grant(world, [("read", "queue", "qd")])
    assert reader.heard() == ([BasicCancel("mine", no_wait=True)] if capabilities else [])
    assert world.vhosts["/"].queues["q"].consumer_count == 1
    assert [type(item) for item in client.publish("q", b"2", b"3")] == [BasicDeliver, bytes] * 2
    client.publish("qd", b"4")
    assert [type(item) for item in reader.heard()] == [BasicDeliver, bytes]
    assert world.vhosts["/"].queues["q"].unacked_count == 1


def test_revoking_one_users_right_leaves_the_others(world: Broker, connect: Connect, client: Client) -> None:
    """SPEC §7.5 revoking: neither another user nor another vhost notices."""
    world.set_permissions("u", "second", ".*", ".*", ".*")
    elsewhere = connect(user="u", vhost="second")
    elsewhere.say(QueueDeclare("q"), BasicConsume("q", "c"))
    client.say(BasicConsume("q", "c"))
    world.clear_permissions("u", "/")
    assert (client.heard(), elsewhere.heard()) == ([], [])
    assert world.vhosts["/"].queues["q"].consumer_count == world.vhosts["second"].queues["q"].consumer_count == 1


def test_auto_delete_queue_goes_with_the_right_of_its_last_consumer(world: Broker, connect: Connect) -> None:
    """SPEC §7.5 revoking"""
    world.set_permissions("u", "/", ".*", ".*", ".*")
    reader = connect(user="u")
    reader.say(QueueDeclare("temporary", auto_delete=True), BasicConsume("temporary", "c"))
    world.set_permissions("u", "/", ".*", ".*", "")
    reader.finish()
    assert reader.heard() == [BasicCancel("c", no_wait=True)]
    assert "temporary" not in world.vhosts["/"].queues


def test_direct_reply_to_needs_no_right(world: Broker, connect: Connect) -> None:
    """SPEC §6.5 direct reply-to: its consumer stays whatever is revoked."""
    client = connect(user="u")
    assert client.say(BasicConsume("amq.rabbitmq.reply-to", "c", no_ack=True)) == [BasicConsumeOk("c")]
    grant(world, [("write", "exchange", "x")])
    assert client.heard() == []


# Virtual hosts


def opening(client: Client, user: str, vhost: str) -> list[object]:
    """What is heard when this user opens a connection to this vhost."""
    client.greet()
    client.start_ok(f"\0{user}\0{user}".encode())
    return list(client.say(ConnectionTuneOk(2047, 131072, 0), ConnectionOpen(vhost), channel=0))


def not_allowed(text: str, method: type[Method] | None = ConnectionOpen) -> ConnectionClose:
    index = 0 if method is None else method.INDEX
    return ConnectionClose(530, f"NOT_ALLOWED - {text}", index >> 16, index & 0xFFFF)


def test_vhost_without_rights_is_closed(world: Broker, stranger: Client) -> None:
    """SPEC §7.1 virtual hosts"""
    assert opening(stranger, "u", "second") == [not_allowed("access to vhost 'second' refused for user 'u'")]


def test_vhost_whose_rights_are_cleared_is_closed(world: Broker, stranger: Client) -> None:
    """SPEC §7.1 virtual hosts: empty rights let in, cleared ones do not."""
    world.clear_permissions("u", "/")
    assert opening(stranger, "u", "/") == [not_allowed("access to vhost '/' refused for user 'u'")]


def test_vhosts_are_wholly_separate(world: Broker, connect: Connect) -> None:
    """SPEC §7.1 virtual hosts: the same names are other things."""
    one, two = connect(), connect(vhost="second")
    two.say(QueueDeclare("q"), ExchangeDeclare("x", "fanout"), QueueBind("q", "x"))
    one.say(one.message("k", b"one", "x"))
    two.say(two.message("anything", b"two", "x"))
    for client, body in ((one, b"one"), (two, b"two")):
        assert client.say(BasicGet("q", no_ack=True))[1] == body
        assert client.say(BasicGet("q")) == [BasicGetEmpty()]


@pytest.mark.parametrize(
    ("of", "text"),
    [
        # SPEC §7.1 max-connections and SPEC §7.2 user limits
        ("vhost", "access to vhost '/' refused for user 'u': connection limit ({}) is reached"),
        ("user", "connection refused for user 'u': user connection limit ({}) is reached"),
    ],
)
def test_connection_limit(world: Broker, connect: Connect, of: str, text: str) -> None:
    def limit(count: int) -> None:
        if of == "vhost":
            world.vhosts["/"].set_limits({"max-connections": count})
        else:
            world.set_user_limits("u", {"max-connections": count})

    def attempt() -> list[object]:
        return opening(type(first)(world), "u", "/")

    first = connect(user="u")
    limit(0)
    assert attempt() == [not_allowed(text.format(0))]
    limit(1)
    assert attempt() == [not_allowed(text.format(1))]
    limit(2)
    assert attempt() == [ConnectionOpenOk()]
    assert attempt() == [not_allowed(text.format(2))]
    first.connection.lost(first.now)
    assert attempt() == [ConnectionOpenOk()]
    limit(-1)
    assert attempt() == [ConnectionOpenOk()]


def test_limits_are_looked_at_before_rights(world: Broker, stranger: Client) -> None:
    """SPEC §7.1 vhost limits: RabbitMQ's order"""
    world.vhosts["second"].set_limits({"max-connections": 0})
    text = "access to vhost 'second' refused for user 'u': connection limit (0) is reached"
    assert opening(stranger, "u", "second") == [not_allowed(text)]


def test_connections_that_close_are_not_counted(world: Broker, connect: Connect) -> None:
    """SPEC §7.2 user limits"""
    world.set_user_limits("u", {"max-connections": 1})
    for _ in range(3):
        client = connect(user="u")
        assert client.say(ConnectionClose(200, ""), channel=0) == [ConnectionCloseOk()]
    assert not world.users["u"].clients


def test_channel_limit_of_a_user(world: Broker, connect: Connect) -> None:
    """SPEC §7.2 user limits: channels of all its connections"""
    world.set_user_limits("u", {"max-channels": 2})
    one, two = connect(user="u"), connect(user="u")
    text = "number of channels opened for user 'u' has reached the maximum allowed user limit of (2)"
    assert one.say(one.method(ChannelOpen(), 2), channel=0) == [not_allowed(text, None)]
    assert two.say(ChannelOpen(), channel=2) == [ChannelOpenOk()]


def test_queue_limit_of_a_vhost(world: Broker, client: Client) -> None:
    """SPEC §7.1 max-queues: what is there stays and may be declared again; bad arguments are refused first."""
    world.vhosts["/"].set_limits({"max-queues": 2})
    assert client.say(QueueDeclare("q")) == [QueueDeclareOk("q", 0, 0)]
    text = "PRECONDITION_FAILED - cannot declare queue 'new': queue limit in vhost '/' (2) is reached"
    assert client.say(QueueDeclare("new")) == [ChannelClose(406, text, 50, 10)]
    client.say(ChannelCloseOk(), ChannelOpen())
    bad = answer(client, QueueDeclare("new", arguments={"x-max-length": "x"}))
    assert isinstance(bad, ChannelClose)
    assert "invalid arg 'x-max-length'" in bad.reply_text
    client.say(ChannelCloseOk(), ChannelOpen(), QueueDelete("q"))
    assert client.say(QueueDeclare("new")) == [QueueDeclareOk("new", 0, 0)]


# Default queue type


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        # SPEC §7.1 default queue type: only for what could be of that type
        (QueueDeclare("new", durable=True), "quorum"),
        (QueueDeclare("new", durable=True, arguments={"x-queue-type": "classic"}), "classic"),
        (QueueDeclare("new"), None),
        (QueueDeclare("new", durable=True, exclusive=True), None),
        (QueueDeclare("new", durable=True, auto_delete=True), None),
    ],
)
def test_default_queue_type(world: Broker, client: Client, method: Method, kind: str | None) -> None:
    world.vhosts["/"].set_default_queue_type("quorum")
    assert client.say(method, method) == [QueueDeclareOk("new", 0, 0)] * 2
    assert world.vhosts["/"].queues["new"].arguments.get("x-queue-type") == kind


# Deleting


FORCED = "CONNECTION_FORCED - "


def test_deleting_a_user_ends_its_connections(world: Broker, connect: Connect, client: Client) -> None:
    """SPEC §7.5 deleting a user: its connections end, what they held goes back, others go on."""
    grant(world, [("read", "queue", "q")])
    one, two = connect(user="u"), connect(user="u")
    client.publish("q", b"1")
    assert isinstance(answer(one, BasicGet("q")), BasicGetOk)
    world.delete_user("u")
    for gone in (one, two):
        assert gone.heard(0) == [ConnectionClose(320, FORCED + "user 'u' is deleted", 0, 0)]
        assert gone.say(gone.message("q", b"ignored"), gone.method(ConnectionCloseOk(), 0)) == []
        assert gone.connection.ended
    assert client.say(BasicGet("q"))[1] == b"1"
    assert not world.vhosts["/"].queues["q"].rotation.everyone
    assert len(world.vhosts["/"].clients) == 1


def test_user_that_is_deleted_while_it_logs_in_does_not_get_in(world: Broker, stranger: Client) -> None:
    """SPEC §7.5 deleting a user"""
    stranger.greet()
    stranger.start_ok(b"\0u\0u")
    stranger.say(ConnectionTuneOk(2047, 131072, 0), channel=0)
    world.delete_user("u")
    refused = not_allowed("access to vhost '/' refused for user 'u'")
    assert stranger.say(ConnectionOpen("/"), channel=0) == [refused]


def test_deleting_a_vhost_ends_its_connections_and_empties_it(world: Broker, connect: Connect, client: Client) -> None:
    """SPEC §7.1 deleting a virtual host: everything in it goes, everything else stays."""
    inside = connect(vhost="second")
    inside.say(QueueDeclare("q"), QueueDeclare("mine", exclusive=True), ExchangeDeclare("x", "direct"))
    inside.say(QueueBind("q", "x", "k"), BasicConsume("q", "c"))
    inside.publish("mine", b"1")
    vhost, queue = world.vhosts["second"], world.vhosts["second"].queues["q"]
    world.delete_vhost("second")
    assert inside.heard(0) == [ConnectionClose(320, FORCED + "vhost 'second' is deleted", 0, 0)]
    inside.finish()
    assert (vhost.queues, queue.deleted, vhost.clients) == ({}, True, {})
    assert "second" not in world.users["guest"].rights
    assert client.say(QueueDeclare("q", passive=True)) == [QueueDeclareOk("q", 0, 0)]
    again = type(client)(world)
    assert opening(again, "guest", "second") == [not_allowed("vhost second not found")]


def test_vhost_that_is_made_again_is_empty_and_closed(world: Broker, connect: Connect) -> None:
    """SPEC §7.1 deleting a virtual host"""
    connect(vhost="second").say(QueueDeclare("q"))
    world.delete_vhost("second")
    world.add_vhost("second")
    refused = not_allowed("access to vhost 'second' refused for user 'guest'")
    assert opening(type(connect())(world), "guest", "second") == [refused]
    world.set_permissions("guest", "second", ".*", ".*", ".*")
    client = connect(vhost="second")
    assert client.say(QueueDeclare("q")) == [QueueDeclareOk("q", 0, 0)]


def test_many_queues_of_a_deleted_vhost_go_in_pieces(world: Broker) -> None:
    """SPEC §7.1 deleting a virtual host: no pass does it all."""
    vhost = world.vhosts["second"]
    for number in range(1000):
        vhost.declare_queue(str(number))
    world.delete_vhost("second")
    world.work.budget.begin()
    assert not world.work.drain()
    assert 0 < len(vhost.queues) < 1000
    while not world.work.drain():
        world.work.budget.begin()
    assert vhost.queues == {}
