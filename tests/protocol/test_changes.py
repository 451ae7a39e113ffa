"""Changes that all nodes of a cluster must agree on: a method waits for that, and what comes behind it waits with it."""

import pytest
from tests.protocol.conftest import Client, Connect, Heard

from leveret.broker.broker import Broker
from leveret.broker.command import Command, DeclareQueue, DeleteQueue, Proposal, Proposed, apply
from leveret.errors import InternalError
from leveret.wire.spec import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    ChannelClose,
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
    QueueUnbind,
    QueueUnbindOk,
)


class Nodes:
    """What the others would do: proposals wait here until a test has them made."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.proposals: list[Proposal] = []
        self.unneeded: list[DeleteQueue] = []
        self._applying = False
        broker.on_command = self.record
        broker.propose = self.propose
        broker.on_unneeded = self.unneeded.append

    def record(self, command: Command) -> None:
        if not self._applying:
            raise Proposed(command)

    def propose(self, command: Command, owner: object) -> Proposal:
        self.proposals.append(Proposal(command, owner))
        return self.proposals[-1]

    def apply(self, command: Command) -> object:
        self._applying = True
        try:
            return apply(self.broker, command)
        finally:
            self._applying = False

    def make(self) -> Proposal:
        """Make what was proposed first."""
        proposal = self.proposals.pop(0)
        assert isinstance(proposal.command, Command)
        proposal.result = self.apply(proposal.command)
        proposal.done = True
        return proposal


class Asking:
    """A client that does not wait for its answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def ask(self, *methods: Method | bytes) -> list[Heard]:
        data = b"".join(one if isinstance(one, bytes) else self.client.method(one) for one in methods)
        self.client.connection.receive(data, self.client.now)
        return self.client.heard()

    def go_on(self) -> list[Heard]:
        self.client.connection.go_on(self.client.now)
        return self.client.heard()


@pytest.fixture
def nodes(broker: Broker) -> Nodes:
    return Nodes(broker)


@pytest.fixture
def asking(client: Client, nodes: Nodes) -> Asking:
    return Asking(client)


CHANGES = [
    (ExchangeDeclare("x", "topic"), ExchangeDeclareOk()),
    (ExchangeDeclare("y", "topic"), ExchangeDeclareOk()),
    (QueueDeclare("q"), QueueDeclareOk("q", 0, 0)),
    (QueueBind("q", "x", "k"), QueueBindOk()),
    (ExchangeBind("y", "x", "k"), ExchangeBindOk()),
    (ExchangeUnbind("y", "x", "k"), ExchangeUnbindOk()),
    (QueueUnbind("q", "x", "k"), QueueUnbindOk()),
    (ExchangeDelete("x"), ExchangeDeleteOk()),
    (QueueDelete("q"), QueueDeleteOk(0)),
]


def test_each_change_is_answered_when_it_is_made(nodes: Nodes, asking: Asking) -> None:
    for method, answer in CHANGES:
        assert asking.ask(method) == []
        assert asking.go_on() == []
        nodes.make()
        assert asking.go_on() == [answer]
        assert nodes.proposals == []


def test_what_is_there_and_the_same_is_answered_at_once(nodes: Nodes, asking: Asking) -> None:
    for method, _ in CHANGES[:4]:
        asking.ask(method)
        nodes.make()
        asking.go_on()
    for method, answer in CHANGES[:4]:
        assert asking.ask(method) == [answer]


def test_what_comes_behind_waits(nodes: Nodes, asking: Asking) -> None:
    assert asking.ask(QueueDeclare("q"), asking.client.message("q", b"m"), BasicGet("q", True)) == []
    nodes.make()
    assert asking.go_on() == [QueueDeclareOk("q", 0, 0), BasicGetOk(1, False, "", "q", 0), b"m"]


def test_name_that_the_server_gave_is_answered(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare(""))
    command = nodes.make().command
    assert isinstance(command, DeclareQueue)
    assert asking.go_on() == [QueueDeclareOk(command.name, 0, 0)]
    # It is the last one declared, too.
    assert asking.ask(QueueDelete("")) == []
    assert isinstance(nodes.proposals[0].command, DeleteQueue)
    assert nodes.proposals[0].command.name == command.name


def test_deleting_tells_the_count_and_then_the_consumers(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare("q"))
    nodes.make()
    asking.go_on()
    asking.ask(BasicConsume("q", "tag", no_ack=True))
    asking.ask(asking.client.message("none", b""))
    assert asking.ask(QueueDelete("q")) == []
    nodes.make()
    assert asking.go_on() == [QueueDeleteOk(0), BasicCancel("tag", True)]


def test_auto_delete_queue_goes_with_its_last_consumer(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare("q", auto_delete=True))
    nodes.make()
    asking.go_on()
    assert asking.ask(BasicConsume("q", "tag")) == [BasicConsumeOk("tag")]
    assert asking.ask(BasicCancel("tag")) == []
    nodes.make()
    assert asking.go_on() == [BasicCancelOk("tag")]
    assert "q" not in nodes.broker.vhosts["/"].queues


def test_change_that_cannot_be_made_ends_the_connection(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare("q"))
    nodes.proposals[0].error = InternalError("nodes missing: n2")
    nodes.proposals[0].done = True
    asking.client.connection.go_on(0)
    ((channel, closed),) = asking.client.heard_on_channels()
    assert channel == 0
    assert isinstance(closed, ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (541, "INTERNAL_ERROR - nodes missing: n2")


def test_whoever_was_second_hears_what_is_there(nodes: Nodes, asking: Asking, connect: Connect) -> None:
    asking.ask(QueueDeclare("q"))
    other = Asking(connect())
    other.ask(QueueDeclare("q", durable=True))
    nodes.make()
    assert asking.go_on() == [QueueDeclareOk("q", 0, 0)]
    nodes.proposals[0].done = True
    (closed,) = other.go_on()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_code == 406


def test_something_that_has_gone_meanwhile_is_asked_for_again(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare("q"))
    nodes.make()
    vhost = nodes.broker.vhosts["/"]
    nodes.apply(DeleteQueue("/", "q", by="", at=0))
    assert asking.go_on() == []
    nodes.make()
    assert asking.go_on() == [QueueDeclareOk("q", 0, 0)]
    assert "q" in vhost.queues


def test_exclusive_queue_goes_with_its_connection(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare("q", exclusive=True))
    session = asking.client.connection.session
    proposal = nodes.make()
    assert proposal.owner is session
    queue = nodes.broker.vhosts["/"].queues["q"]
    queue.owner = session
    session.own(queue)
    assert asking.go_on() == [QueueDeclareOk("q", 0, 0)]
    asking.client.connection.lost(0)
    assert [command.name for command in nodes.unneeded] == ["q"]
    assert nodes.unneeded[0].made_at == queue.created_at
    assert not queue.deleted


def test_connection_that_ends_meanwhile_owns_nothing(nodes: Nodes, asking: Asking) -> None:
    asking.ask(QueueDeclare("q", exclusive=True))
    asking.client.connection.lost(0)
    assert nodes.proposals[0].owner is None


@pytest.mark.parametrize("method", [BasicGet("q"), BasicConsume("q")], ids=lambda method: type(method).__name__)
def test_messages_of_another_node_cannot_be_had(nodes: Nodes, asking: Asking, method: Method) -> None:
    nodes.apply(DeclareQueue("/", "q", True, False, False, {}, "elsewhere", by="", at=1))
    (closed,) = asking.ask(method)
    assert isinstance(closed, ChannelClose)
    text = "NOT_FOUND - home node 'elsewhere' of durable queue 'q' in vhost '/' is down or inaccessible"
    assert (closed.reply_code, closed.reply_text) == (404, text)
