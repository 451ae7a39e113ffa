"""Commands: what is said of a change, how it is written, and what applying it makes."""

from typing import Any

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.broker.command import (
    COMMANDS,
    NOBODY,
    AddUser,
    AddVhost,
    Bind,
    ClearPermissions,
    ClearTopicPermissions,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DescribeVhost,
    SetGlobalParameter,
    SetLimits,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    Unbind,
    apply,
    decode,
    encode,
)
from leveret.broker.vhost_tasks import UNBIND_PIECE
from leveret.errors import AMQPError
from leveret.wire.values import Short

NOW = 1_700_000_000_000
WHO: dict[str, Any] = {"by": "u", "at": NOW}


@pytest.fixture
def log(broker: Broker) -> list[Command]:
    found: list[Command] = []
    broker.work.budget.now = NOW
    broker.on_command = found.append
    return found


def follower() -> Broker:
    found = default_broker()
    found.follows = True
    return found


def finish(broker: Broker) -> None:
    while broker.work:
        broker.work.budget.begin()
        broker.work.drain()


@pytest.mark.parametrize(
    "command",
    [
        AddVhost("v", **WHO),
        DescribeVhost("v", "ü", ("a", "b"), **WHO),
        SetLimits("v", {"max-queues": 5}, **WHO),
        AddUser("u", "hash", "md5", (), True, **WHO),
        ClearTopicPermissions("u", "v", None, **WHO),
        SetGlobalParameter("g", {"a": [1, None, 2.5, "\udcff"]}, **WHO),
        SetPolicy("v", "p", "^q", {"max-length": 5}, -1, "queues", True, **WHO),
        DeclareQueue("v", "no text \udcff", True, False, True, {"x": Short(5), "y": b"\xff", "z": {"a": [1]}}, **WHO),
        Bind("v", "x", "q", True, "", {}, **WHO),
    ],
    ids=lambda command: type(command).__name__,
)
def test_command_is_read_as_it_was_written(command: Command) -> None:
    found = decode(encode(command))
    assert found == command
    # A number's width on the wire is part of a binding.
    assert repr(found) == repr(command)


def test_every_command_can_be_written() -> None:
    known: set[type[Command]] = set()
    left: list[type[Command]] = [Command]
    while left:
        kinds = left.pop().__subclasses__()
        known |= {kind for kind in kinds if not kind.__subclasses__()}
        left += kinds
    assert known == set(COMMANDS.values())


def test_change_is_said_with_who_and_when(broker: Broker, log: list[Command]) -> None:
    vhost, rights = broker.vhosts["/"], broker.users["guest"].rights_in("/")
    queue = vhost.declare_queue("q", durable=True, rights=rights)
    vhost.bind("amq.topic", queue, "k", {}, by="u")
    vhost.unbind("amq.topic", queue, "k", {}, None, by="u")
    vhost.remove_queue(queue, by="u")
    who: dict[str, Any] = {"by": "u", "at": NOW}
    assert log == [
        DeclareQueue("/", "q", True, False, False, {}, by="guest", at=NOW),
        Bind("/", "amq.topic", "q", True, "k", {}, **who),
        Unbind("/", "amq.topic", "q", True, "k", {}, **who),
        DeleteQueue("/", "q", **who),
    ]


def test_what_changes_nothing_or_is_refused_is_no_command(broker: Broker, log: list[Command]) -> None:
    vhost = broker.vhosts["/"]
    queue = vhost.declare_queue("q")
    vhost.bind("amq.topic", queue, "", {})
    del log[:]
    vhost.declare_queue("q")
    vhost.bind("amq.topic", queue, "", {})
    vhost.unbind("amq.topic", queue, "other", {}, None)
    vhost.delete_exchange("none")
    vhost.delete_queue("none", None)
    broker.add_vhost("/")
    for refused in (
        lambda: vhost.declare_queue("q", durable=True),
        lambda: vhost.declare_queue("amq.q"),
        lambda: vhost.declare_exchange("x", "none"),
        lambda: vhost.policies.set("p", "(", {"max-length": 1}),
        lambda: vhost.policies.set("p", "", {}),
        lambda: vhost.policies.clear("p"),
        lambda: vhost.parameters.set("shovel", "s", {}),
        lambda: vhost.set_limits({"x": 1}),
        lambda: broker.set_permissions("guest", "/", "(", "", ""),
        lambda: broker.set_topic_permissions("guest", "/", "x", "(", ""),
        lambda: broker.set_permissions("nobody", "/", "", "", ""),
        lambda: broker.add_hashed_user("u", "x", "none"),
        lambda: broker.delete_user("u"),
        lambda: broker.clear_parameter("g"),
    ):
        with pytest.raises(AMQPError):
            refused()
    assert log == []


def test_name_that_the_server_gave_is_in_the_command(broker: Broker, log: list[Command]) -> None:
    name = broker.vhosts["/"].declare_queue("").name
    again = follower()
    apply(again, log[0])
    assert list(again.vhosts["/"].queues) == [name]


def test_applied_queue_has_the_time_of_its_command_and_an_owner(broker: Broker) -> None:
    apply(broker, DeclareQueue("/", "q", False, False, True, {"x-expires": 1000}, **WHO))
    queue = broker.vhosts["/"].queues["q"]
    assert (queue.created_at, queue.owner is not None) == (NOW, True)


def test_what_goes_by_itself_is_deleted_by_the_broker(broker: Broker, log: list[Command]) -> None:
    vhost = broker.vhosts["/"]
    vhost.declare_exchange("x", "direct", auto_delete=True)
    queue = vhost.declare_queue("q", arguments={"x-expires": 1000})
    vhost.bind("x", queue, "", {})
    del log[:]
    broker.work.budget.now = NOW + 1000
    broker.timers.run(broker.work.budget.now, 10)
    finish(broker)
    own: dict[str, Any] = {"by": NOBODY, "at": NOW + 1000}
    assert log == [DeleteQueue("/", "q", **own), DeleteExchange("/", "x", **own)]


def test_follower_deletes_nothing_by_itself(broker: Broker, log: list[Command]) -> None:
    """What one broker does in pieces, with other changes in between, the other may have done at once."""
    vhost = broker.vhosts["/"]
    vhost.declare_exchange("x", "direct", auto_delete=True)
    queue, other = vhost.declare_queue("q", arguments={"x-expires": 1000}), vhost.declare_queue("other")
    for number in range(UNBIND_PIECE + 1):
        vhost.bind("x", queue, str(number), {})
    broker.work.budget.left = 0
    vhost.remove_queue(queue)
    vhost.bind("x", other, "", {})
    finish(broker)
    assert [binding.destination for binding in vhost.exchanges["x"].bindings.values()] == [other]
    again = follower()
    for command in log:
        apply(again, command)
        finish(again)
    again.work.budget.now = NOW + 5000
    again.timers.run(again.work.budget.now, 10)
    finish(again)
    assert [binding.destination.name for binding in again.vhosts["/"].exchanges["x"].bindings.values()] == ["other"]


def test_what_is_removed_with_a_vhost_is_no_command_of_its_own(broker: Broker, log: list[Command]) -> None:
    vhost = broker.add_vhost("v")
    vhost.declare_exchange("x", "direct", auto_delete=True)
    vhost.bind("x", vhost.declare_queue("q"), "", {})
    del log[:]
    broker.delete_vhost("v")
    broker.add_vhost("v").declare_queue("q")
    finish(broker)
    assert [type(command).__name__ for command in log] == ["DeleteVhost", "AddVhost", "DeclareQueue"]


def test_rights_are_applied(broker: Broker) -> None:
    apply(broker, AddUser("u", "", "rabbit_password_hashing_sha256", ("management",), True, **WHO))
    apply(broker, SetPermissions("u", "/", "a", "b", "c", **WHO))
    apply(broker, SetTopicPermissions("u", "/", "amq.topic", "d", "e", **WHO))
    user = broker.users["u"]
    assert (user.tags, user.loopback_only, user.rights["/"].topics) == (("management",), True, {"amq.topic": ("d", "e")})
    apply(broker, ClearPermissions("u", "/", **WHO))
    assert not user.rights["/"].granted


def test_applied_exchange_is_made_by_who_declared_it(broker: Broker) -> None:
    apply(broker, DeclareExchange("/", "x", "topic", True, False, True, {}, **WHO))
    exchange = broker.vhosts["/"].exchanges["x"]
    assert (exchange.kind, exchange.made_by, exchange.durable, exchange.internal) == ("topic", "u", True, True)


def test_what_a_command_does_is_said_by_its_kind() -> None:
    with pytest.raises(NotImplementedError):
        Command(by="me", at=1).carry_out(default_broker())
