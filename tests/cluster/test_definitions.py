"""Definitions on several nodes, without sockets and servers: brokers that apply one log, at their own times."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from leveret.broker.broker import Broker
from leveret.broker.command import NOBODY, AddUser, AddVhost, Command, DeclareQueue, Proposal, Proposed
from leveret.broker.queue import Queue
from leveret.cluster.commands import EntryId, Forgotten, Started, encode_change, entries_of, message_of
from leveret.cluster.definition_log import Pending
from leveret.cluster.definitions import PATIENCE_S, Definitions, Fact
from leveret.cluster.members import HEARD_S, Member, Members
from leveret.cluster.nats import Stored
from leveret.cluster.snapshot import commands_of, digest_of
from leveret.errors import AMQPError, InternalError, NotFound, PreconditionFailed

WHO: dict[str, Any] = {"by": "u", "at": 1_700_000_000_000}

SHOVEL = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "t"}


class Shared:
    """The log that all have, and what is said between nodes; each delivers when it is told to."""

    def __init__(self, count: int = 3) -> None:
        self.now = 100.0
        self.messages: list[Stored] = []
        self.cut: set[str] = set()
        self.nodes = [Node(self, number) for number in range(1, count + 1)]
        known = {node.name: node.member for node in self.nodes}
        for node in self.nodes:
            node.definitions.members.known = dict(known)
        self.settle()

    def store(self, octets: bytes) -> None:
        self.messages.append(Stored(len(self.messages) + 1, {}, octets))

    def settle(self) -> None:
        """Until nobody has anything left to do."""
        while sum(node.step() for node in self.nodes):
            pass

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes:
            node.definitions.tick()
        self.settle()


class Node:
    """One broker and its log: entries go to the shared one when `step` is called, and come from there."""

    def __init__(self, shared: Shared, number: int, incarnation: int = 1) -> None:
        self.shared = shared
        self.name = f"n{number}"
        self.member = Member(self.name, f"id{number}", "127.0.0.1", number, number)
        self.broker = Broker()
        self.broker.settings.node_name = self.name
        self.broker.work.budget.begin()
        self.broker.work.budget.now = WHO["at"]
        self.fact = ""
        self.pending: list[Pending] = []
        self.last = 0
        self.behind = False
        self.inbox: list[tuple[str, int, bytes]] = []
        self.later: list[Callable[[], None]] = []
        self.woken = 0
        self.definitions = Definitions(
            self.broker,
            Members(self.member),
            incarnation,
            Fact(),
            self.keep,
            self.say,
            self.wake,
            self.later.append,
            self.clock,
            self,
        )

    # What the definitions ask for

    def keep(self, fact: str) -> None:
        self.fact = fact

    def wake(self) -> None:
        self.woken += 1

    def clock(self) -> float:
        return self.shared.now

    def say(self, kind: int, octets: bytes, node: str | None) -> None:
        for other in self.shared.nodes:
            if other is not self and node in (None, other.name) and not {self.name, other.name} & self.shared.cut:
                other.inbox.append((self.name, kind, octets))

    def append(self, pending: Pending) -> None:
        self.pending.append(pending)

    def want(self, seq: int) -> None:
        """Nothing need be hurried."""

    def skip_to(self, seq: int) -> None:
        self.last = max(self.last, seq)

    # What a test does

    def step(self) -> bool:
        """Do something that is there to be done; False if nothing is."""
        self.broker.work.budget.begin()
        if self.broker.work:
            self.broker.work.drain()
            return True
        if self.inbox:
            name, kind, octets = self.inbox.pop(0)
            self.definitions.members.heard(name, self.shared.now)
            self.definitions.on_record(name, kind, octets)
            return True
        if self.later:
            self.later.pop(0)()
            return True
        if self.name in self.shared.cut:
            return False
        if self.pending:
            one = self.pending.pop(0)
            if not one.given_up:
                self.shared.store(message_of(one.id, [one.octets]))
            return True
        if self.last < len(self.shared.messages):
            self.last += 1
            self.definitions.on_read([self.shared.messages[self.last - 1]])
            return True
        return False

    def ask(self, change: Callable[[], object], owner: object = None) -> Proposal:
        try:
            change()
        except Proposed as proposed:
            return self.definitions.propose(proposed.command, owner)
        raise AssertionError("nothing was proposed")

    def do(self, change: Callable[[], object]) -> object:
        """Have something changed everywhere, and return what that has returned here."""
        proposal = self.ask(change)
        self.shared.settle()
        assert is_done(proposal)
        if proposal.error is not None:
            raise proposal.error
        return proposal.result

    @property
    def vhost(self) -> Any:
        return self.broker.vhosts["/"]


@pytest.fixture
def shared() -> Shared:
    found = Shared()
    found.nodes[0].do(lambda: found.nodes[0].broker.add_vhost("/"))
    return found


class Owner:
    """A connection that has exclusive queues."""

    def __init__(self) -> None:
        self.queues: list[Queue] = []

    def own(self, queue: Queue) -> None:
        self.queues.append(queue)


def is_done(proposal: Proposal) -> bool:
    return proposal.done


def agree(shared: Shared) -> bool:
    return len({digest_of(node.broker) for node in shared.nodes}) == 1


def test_what_is_defined_on_one_is_on_all(shared: Shared) -> None:
    first, second, third = shared.nodes
    first.do(lambda: first.vhost.declare_queue("q", durable=True))
    second.do(lambda: second.vhost.declare_exchange("x", "topic"))
    third.do(lambda: third.vhost.bind("x", third.vhost.queues["q"], "k", {}))
    first.do(lambda: first.broker.add_user("u", "p"))
    assert agree(shared)
    assert len(first.vhost.exchanges["x"].bindings) == 1
    assert (first.vhost.queues["q"].away, second.vhost.queues["q"].away) == (False, True)
    assert second.vhost.queues["q"].home == "n1"


def test_nothing_is_made_before_it_is_in_the_log(shared: Shared) -> None:
    first = shared.nodes[0]
    proposal = first.ask(lambda: first.vhost.declare_queue("q"))
    assert "q" not in first.vhost.queues
    assert not is_done(proposal)
    shared.settle()
    assert is_done(proposal)
    # What is there and the same is answered.
    assert first.vhost.declare_queue("q") is first.vhost.queues["q"]


def test_done_is_what_all_have_applied_who_are_heard_from(shared: Shared) -> None:
    first, second, third = shared.nodes
    shared.pass_time(0.1)
    proposal = first.ask(lambda: first.vhost.declare_queue("q"))
    while first.step() or second.step():
        pass
    assert "q" in first.vhost.queues
    assert not is_done(proposal)
    shared.settle()
    assert is_done(proposal)
    assert first.woken
    # One that is not heard from is not waited for.
    shared.cut.add("n3")
    shared.now += HEARD_S + 1
    second.definitions.tick()
    shared.settle()
    proposal = first.ask(lambda: first.vhost.declare_queue("r"))
    shared.settle()
    assert is_done(proposal)
    assert "r" not in third.vhost.queues


def test_repeated_entry_is_applied_once(shared: Shared) -> None:
    first, second, _ = shared.nodes
    first.do(lambda: first.vhost.declare_queue("q"))
    message = shared.messages[-1].payload
    second.do(lambda: second.vhost.remove_queue(second.vhost.queues["q"]))
    shared.store(message)
    shared.settle()
    assert all("q" not in node.vhost.queues for node in shared.nodes)
    # Not so one of a later run of the node, whose numbers begin anew.
    entry_id, change = entries_of(message)[0]
    shared.store(message_of(EntryId("n1", 2, entry_id.number), [encode_change(change)]))
    shared.settle()
    assert all("q" in node.vhost.queues for node in shared.nodes)


def test_two_who_declare_the_same_have_one_and_hear_the_truth(shared: Shared) -> None:
    first, second, _ = shared.nodes
    one = first.ask(lambda: first.vhost.declare_queue("q", durable=True))
    other = second.ask(lambda: second.vhost.declare_queue("q"))
    shared.settle()
    assert one.done
    assert other.done
    assert agree(shared)
    winner, loser = (first, second) if first.vhost.queues["q"].home == "n1" else (second, first)
    assert not winner.vhost.queues["q"].away
    with pytest.raises(PreconditionFailed):
        loser.vhost.declare_queue("q", durable=loser is first)


def test_deleting_returns_the_count_of_its_home(shared: Shared) -> None:
    first = shared.nodes[0]
    first.do(lambda: first.vhost.declare_queue("q"))
    assert first.do(lambda: first.vhost.remove_queue(first.vhost.queues["q"])) == 0
    with pytest.raises(NotFound):
        first.do(lambda: first.broker.delete_vhost("none"))


def test_exchange_that_loses_its_last_binding_goes_everywhere(shared: Shared) -> None:
    first, second, _ = shared.nodes
    first.do(lambda: first.vhost.declare_exchange("x", "fanout", auto_delete=True))
    first.do(lambda: first.vhost.declare_exchange("y", "fanout", auto_delete=True))
    first.do(lambda: first.vhost.bind("y", first.vhost.exchanges["x"], "", {}))
    first.do(lambda: first.vhost.declare_queue("q"))
    first.do(lambda: first.vhost.bind("x", first.vhost.queues["q"], "", {}))
    count = len(shared.messages)
    second.do(lambda: second.vhost.remove_queue(second.vhost.queues["q"]))
    assert len(shared.messages) == count + 1
    assert all("x" not in node.vhost.exchanges and "y" not in node.vhost.exchanges for node in shared.nodes)
    assert agree(shared)


def test_unused_queue_is_deleted_by_its_home(shared: Shared) -> None:
    first, second, _ = shared.nodes
    first.do(lambda: first.vhost.declare_queue("q", auto_delete=True))
    second.broker.work.add(second.vhost.queues["q"].when_unused)
    shared.settle()
    assert "q" in first.vhost.queues
    for _ in range(2):
        first.broker.work.add(first.vhost.queues["q"].when_unused)
    count = len(shared.messages)
    shared.settle()
    assert len(shared.messages) == count + 1
    assert all("q" not in node.vhost.queues for node in shared.nodes)


def test_another_queue_of_that_name_is_not_deleted(shared: Shared) -> None:
    first, second, _ = shared.nodes
    first.do(lambda: first.vhost.declare_queue("q", auto_delete=True))
    first.broker.work.add(first.vhost.queues["q"].when_unused)
    first.step()
    entry = first.pending.pop()
    second.do(lambda: second.vhost.remove_queue(second.vhost.queues["q"]))
    second.broker.work.budget.now += 1
    second.do(lambda: second.vhost.declare_queue("q", auto_delete=True))
    first.pending.append(entry)
    shared.settle()
    assert all("q" in node.vhost.queues for node in shared.nodes)


def test_exclusive_queue_is_its_connections(shared: Shared) -> None:
    first, second, _ = shared.nodes
    owner = Owner()
    first.ask(lambda: first.vhost.declare_queue("q", owner=owner), owner)
    shared.settle()
    assert owner.queues == [first.vhost.queues["q"]]
    assert first.vhost.queue("q", owner).owner is owner
    assert second.vhost.queues["q"].owner not in (None, owner)
    first.vhost.discard_queue(owner.queues[0])
    shared.settle()
    assert all("q" not in node.vhost.queues for node in shared.nodes)


def test_exclusive_queue_whose_connection_has_ended_meanwhile_goes(shared: Shared) -> None:
    first = shared.nodes[0]
    owner = Owner()
    proposal = first.ask(lambda: first.vhost.declare_queue("q", owner=owner), owner)
    proposal.owner = None
    shared.settle()
    assert owner.queues == []
    assert all("q" not in node.vhost.queues for node in shared.nodes)


def test_queues_of_connections_go_when_their_node_starts_anew(shared: Shared) -> None:
    first, second, _ = shared.nodes
    first.do(lambda: first.vhost.declare_queue("transient"))
    first.do(lambda: first.vhost.declare_queue("durable", durable=True))
    second.do(lambda: second.vhost.declare_queue("other"))
    first.definitions.propose(Started(first.member))
    shared.settle()
    assert all(sorted(node.vhost.queues) == ["durable", "other"] for node in shared.nodes)


def test_node_that_is_forgotten_takes_its_queues_along(shared: Shared) -> None:
    first, _, third = shared.nodes
    third.do(lambda: third.vhost.declare_queue("q", durable=True))
    third.ask(lambda: third.vhost.declare_queue("e", owner=third), Owner())
    shared.settle()
    first.definitions.propose(Forgotten("n3"))
    shared.settle()
    assert all(list(node.vhost.queues) == [] for node in shared.nodes)
    assert sorted(first.definitions.members.known) == ["n1", "n2"]
    unknown = first.definitions.propose(Forgotten("n3"))
    shared.settle()
    assert isinstance(unknown.error, NotFound)


def test_without_an_answer_the_client_hears_who_is_missing(shared: Shared) -> None:
    first = shared.nodes[0]
    first.do(lambda: first.vhost.declare_queue("q"))
    shared.cut |= {"n1", "n2", "n3"}
    proposal = first.ask(lambda: first.vhost.declare_queue("r"))
    shared.pass_time(PATIENCE_S)
    assert not is_done(proposal)
    shared.pass_time(0.1)
    assert isinstance(proposal.error, InternalError)
    assert str(proposal.error).endswith("nodes missing: n2, n3")
    # What is there is answered.
    assert first.vhost.declare_queue("q").name == "q"
    # And what was given up is not made later.
    shared.cut.clear()
    shared.settle()
    assert "r" not in first.vhost.queues
    assert "r" not in first.vhost.queues


def test_late_comer_takes_what_is_there(shared: Shared) -> None:
    first = shared.nodes[0]
    fill(first)
    late = Node(shared, 4)
    late.last = len(shared.messages)
    shared.nodes.append(late)
    late.definitions.ask_snapshot("n1")
    shared.settle()
    assert agree(shared)
    assert late.definitions.applied == first.definitions.applied
    assert sorted(late.definitions.members.known) == ["n1", "n2", "n3"]
    late.do(lambda: late.vhost.declare_queue("more"))
    assert agree(shared)


def fill(node: Node) -> None:
    """Something of each kind."""
    broker, vhost = node.broker, node.vhost
    for change in (
        lambda: vhost.describe("words", ("a",)),
        lambda: vhost.set_limits({"max-queues": 100}),
        lambda: vhost.set_tracing(True),
        lambda: vhost.set_default_queue_type("classic"),
        lambda: broker.add_user("u", "p", ("monitoring",)),
        lambda: broker.set_user_limits("u", {"max-channels": 5}),
        lambda: broker.set_permissions("u", "/", "a", "b", "c"),
        lambda: broker.set_topic_permissions("u", "/", "amq.topic", "w", "r"),
        lambda: broker.set_parameter("g", {"a": 1}),
        lambda: vhost.policies.set("p", "q", {"max-length": 5}),
        lambda: vhost.operator_policies.set("o", "q", {"max-length": 5}),
        lambda: vhost.declare_exchange("x", "headers", durable=True),
        lambda: vhost.declare_queue("q", durable=True, arguments={"x-max-length": 5}),
        lambda: vhost.declare_queue("t"),
        lambda: vhost.bind("x", vhost.queues["q"], "k", {"a": 1}),
        lambda: vhost.parameters.set(
            "shovel", "s", {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "t"}
        ),
    ):
        node.do(change)


def test_snapshot_has_a_command_of_each_kind_that_defines(shared: Shared) -> None:
    fill(shared.nodes[0])
    found = {type(command).__name__ for command in commands_of(shared.nodes[0].broker)}
    assert {name for name in found if name.startswith(("Delete", "Clear", "Unbind"))} == set()
    assert len(found) == 15


def test_node_that_differs_takes_what_the_majority_has(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    first, _, third = shared.nodes
    fill(first)
    third.definitions._applying = True
    third.vhost.remove_queue(third.vhost.queues["q"])
    third.vhost.declare_queue("only here")
    third.broker.add_user("stranger", "s")
    third.broker.set_permissions("u", "/", ".*", ".*", ".*")
    third.vhost.policies.clear("p")
    third.definitions._applying = False
    assert not agree(shared)
    for node in shared.nodes:
        node.definitions.digest_every = 4
    for number in range(4):
        first.do(lambda number=number: first.vhost.declare_queue(f"more {number}"))  # type: ignore[misc]
    assert agree(shared)
    assert "definitions differ from those of the majority" in caplog.text
    assert "only here" not in third.vhost.queues
    assert len(third.vhost.exchanges["x"].bindings) == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_on_all_nodes_end_the_same(shared: Shared, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        node = chance.choice(shared.nodes)
        try:
            a_change(node, chance)()
        except Proposed as proposed:
            node.definitions.propose(proposed.command)
        except AMQPError:
            pass
        for _ in range(chance.randrange(4)):
            chance.choice(shared.nodes).step()
        node.broker.work.budget.now += 1
    shared.settle()
    assert agree(shared)
    assert not any(node.definitions.is_waiting() for node in shared.nodes)


def a_change(node: Node, chance: random.Random) -> Callable[[], object]:
    vhost = node.vhost
    name, other = f"q{chance.randrange(6)}", f"x{chance.randrange(4)}"
    queue = vhost.queues.get(name)

    def bind(unbind: bool) -> None:
        if queue is None:
            raise NotFound(name)
        if unbind:
            vhost.unbind(other, queue, "k", {}, None)
        else:
            vhost.bind(other, queue, "k", {})

    def delete() -> None:
        if queue is not None:
            vhost.remove_queue(queue)

    durable = chance.random() < 0.5
    return chance.choice(
        [
            lambda: vhost.declare_queue(name, durable=durable),
            lambda: vhost.declare_exchange(other, "topic", auto_delete=durable),
            delete,
            lambda: vhost.delete_exchange(other),
            lambda: bind(False),
            lambda: bind(True),
            lambda: node.broker.add_hashed_user(name, "", "rabbit_password_hashing_sha256", (other,)),
            lambda: node.broker.delete_user(name),
            lambda: vhost.policies.set(other, name, {"max-length": chance.randrange(5)}),
        ]
    )


def test_what_is_written_to_the_log_is_read_again() -> None:
    changes: list[Any] = [
        AddVhost("v", **WHO),
        AddUser("u\udcff", "hash", "md5", (), True, **WHO),
        DeclareQueue("v", "line\nbreak", True, False, True, {"x": 5}, "n1", **WHO),
        Started(Member("n1", "id", "host", 1, 2)),
        Forgotten("n2"),
    ]
    message = message_of(EntryId("n1", 3, 17), [encode_change(change) for change in changes])
    assert entries_of(message) == [(EntryId("n1", 3, 17 + at), change) for at, change in enumerate(changes)]


def test_fact_says_how_far_it_was_applied(shared: Shared) -> None:
    import msgspec

    first = shared.nodes[0]
    first.do(lambda: first.vhost.declare_queue("q"))
    fact = msgspec.json.decode(first.fact, type=Fact)
    assert fact.applied == len(shared.messages)
    assert fact.numbers["n1"] == (1, 2)


def test_command_nobody_can_apply_stops_nothing(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Command, frozen=True):
        def carry_out(self, broker: Broker) -> None:
            raise KeyError("broken")

    first = shared.nodes[0]
    result, error = first.definitions._make(Broken(by=NOBODY, at=1), None, False)
    assert result is None
    assert isinstance(error, InternalError)
    assert "cannot be applied" in caplog.text
    first.do(lambda: first.vhost.declare_queue("q"))
