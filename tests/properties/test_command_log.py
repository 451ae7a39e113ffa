"""The log of commands: applied to an empty broker it makes the same definitions, however the changes came about.

Clients declare, bind, consume, delete and leave; operators set policies, parameters, limits, users and rights; queues expire
and what is not used goes by itself, in pieces, with other changes in between.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.properties.dialogue import EVERY_TYPE, PROTOCOL_HEADER, method

from leveret.broker.broker import Broker
from leveret.broker.command import apply, decode, encode
from leveret.broker.vhost import VirtualHost
from leveret.broker.vhost_tasks import UNBIND_PIECE
from leveret.definitions.export import export
from leveret.errors import AMQPError
from leveret.protocol.connection import Connection
from leveret.protocol.peer import Peer
from leveret.wire import spec
from leveret.wire.values import Short, Table

NOW = 1_700_000_000_000
EXPIRES_MS = 1000

names = st.sampled_from(["a", "b"])
titles = st.sampled_from(["a", "ünïcode", "no text \udcff"])
vhosts = st.sampled_from(["/", "/", "/", "/", "/", "v"])
users = st.sampled_from(["guest", "u"])
flags = st.booleans()
keys = st.sampled_from(["", "ключ"])
tables: st.SearchStrategy[Table] = st.sampled_from([{}, {"x": Short(5)}, {"x": 5}, EVERY_TYPE])
queue_arguments: st.SearchStrategy[Table] = st.sampled_from(
    [{}, {}, {"x-expires": EXPIRES_MS}, {"x-max-length": 5}, {"x-queue-type": "quorum"}, {"x-max-length": "bad"}]
)
policies = st.sampled_from([{"max-length": 5}, {"expires": EXPIRES_MS}, {"message-ttl": 7, "overflow": "reject-publish"}])


class Client:
    """A connection on which every method has a channel of its own, so that none is lost by the fault of another."""

    def __init__(self, broker: Broker, vhost: str, now: int) -> None:
        self.connection = Connection(broker, Peer("client", "127.0.0.1"), lambda: None, now)
        self.number = 0
        self.feed(PROTOCOL_HEADER, now)
        for answer in (
            spec.ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US"),
            spec.ConnectionTuneOk(2047, 131_072, 0),
            spec.ConnectionOpen(vhost),
        ):
            self.feed(method(0, answer).encode(), now)

    def say(self, said: list[spec.Method], now: int) -> None:
        self.number += 1
        for one in (spec.ChannelOpen(), *said):
            self.feed(method(self.number, one).encode(), now)

    def feed(self, data: bytes, now: int) -> None:
        self.connection.receive(data, now)
        self.connection.take_output(now)


class Changes(RuleBasedStateMachine):
    """Random changes of one broker, whose commands are kept as they would be written."""

    @initialize()
    def begin(self) -> None:
        self.now = NOW
        self.log: list[bytes] = []
        self.broker = Broker()
        self.broker.work.budget.now = self.now
        self.broker.on_command = lambda command: self.log.append(encode(command))
        for vhost in ("/", "v"):
            self.broker.add_vhost(vhost)
        self.broker.add_user("guest", "guest", ("administrator",))
        for vhost in ("/", "v"):
            self.broker.set_permissions("guest", vhost, ".*", ".*", ".*")
        self.clients: dict[str, Client] = {}

    def act(self, change: Callable[[], object]) -> None:
        """Change the model as an operator; what is refused must leave no trace."""
        work = self.broker.work
        work.budget.now = self.now
        with suppress(AMQPError, KeyError):
            change()

    def act_in(self, name: str, change: Callable[[VirtualHost], object]) -> None:
        vhost = self.broker.vhosts.get(name)
        if vhost is not None:
            self.act(lambda: change(vhost))

    def say(self, vhost: str, *said: spec.Method) -> None:
        if vhost not in self.broker.vhosts or "guest" not in self.broker.users:
            return
        client = self.clients.get(vhost)
        if client is None or client.connection.status != "running" or client.number > 2000:
            client = self.clients[vhost] = Client(self.broker, vhost, self.now)
        client.say(list(said), self.now)

    # What time and the loop do

    @rule()
    def drain(self) -> None:
        self.broker.work.budget.begin()
        self.broker.work.drain()
        for client in self.clients.values():
            while client.connection.busy:
                client.connection.go_on(self.now)

    @rule(passed=st.sampled_from([1, EXPIRES_MS // 2, EXPIRES_MS]))
    def wait(self, passed: int) -> None:
        self.now += passed
        self.broker.work.budget.now = self.now
        self.broker.work.budget.begin()
        self.broker.timers.run(self.now, 100)

    # Clients

    @rule(vhost=vhosts, name=names, durable=flags, auto_delete=flags, exclusive=flags, arguments=queue_arguments)
    def declare_queue(
        self, vhost: str, name: str, durable: bool, auto_delete: bool, exclusive: bool, arguments: Table
    ) -> None:
        self.say(
            vhost,
            spec.QueueDeclare(
                name, durable=durable, auto_delete=auto_delete, exclusive=exclusive, arguments=arguments, no_wait=False
            ),
        )

    @rule(vhost=vhosts, durable=flags, key=keys)
    def declare_and_bind_a_queue_that_the_server_names(self, vhost: str, durable: bool, key: str) -> None:
        self.say(vhost, spec.QueueDeclare("", durable=durable), spec.QueueBind("", "amq.topic", key))

    @rule(vhost=vhosts, name=names)
    def delete_queue(self, vhost: str, name: str) -> None:
        self.say(vhost, spec.QueueDelete(name))

    @rule(vhost=vhosts, name=names)
    def consume_and_cancel(self, vhost: str, name: str) -> None:
        self.say(vhost, spec.BasicConsume(name, "tag"), spec.BasicCancel("tag"))

    @rule(vhost=vhosts, name=names)
    def consume(self, vhost: str, name: str) -> None:
        self.say(vhost, spec.BasicConsume(name, "tag"))

    @rule(
        vhost=vhosts,
        name=names,
        kind=st.sampled_from(["direct", "fanout", "topic", "headers", "x-delayed-message"]),
        durable=flags,
        auto_delete=flags,
        internal=flags,
    )
    def declare_exchange(self, vhost: str, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool) -> None:
        arguments: Table = {"x-delayed-type": "direct"} if kind.startswith("x-") else {}
        self.say(vhost, spec.ExchangeDeclare(name, kind, False, durable, auto_delete, internal, False, arguments))

    @rule(vhost=vhosts, name=names)
    def delete_exchange(self, vhost: str, name: str) -> None:
        self.say(vhost, spec.ExchangeDelete(name))

    @rule(vhost=vhosts, source=names, name=names, key=keys, arguments=tables)
    def bind_queue(self, vhost: str, source: str, name: str, key: str, arguments: Table) -> None:
        self.say(vhost, spec.QueueBind(name, source, key, False, arguments))

    @rule(vhost=vhosts, source=names, name=names, key=keys, arguments=tables)
    def unbind_queue(self, vhost: str, source: str, name: str, key: str, arguments: Table) -> None:
        self.say(vhost, spec.QueueUnbind(name, source, key, arguments))

    @rule(vhost=vhosts, source=names, name=names, key=keys)
    def bind_exchange(self, vhost: str, source: str, name: str, key: str) -> None:
        self.say(vhost, spec.ExchangeBind(name, source, key))

    @rule(vhost=vhosts, source=names, name=names, key=keys)
    def unbind_exchange(self, vhost: str, source: str, name: str, key: str) -> None:
        self.say(vhost, spec.ExchangeUnbind(name, source, key))

    @rule(vhost=vhosts, source=names, name=names, other=names)
    def bind_while_a_queue_is_removed_in_pieces(self, vhost: str, source: str, name: str, other: str) -> None:
        def change(found: VirtualHost) -> None:
            queue = found.queues[name]
            for number in range(UNBIND_PIECE + 5):
                found.bind(source, queue, str(number), {})
            self.broker.work.budget.left = 0
            found.remove_queue(queue)
            found.bind(source, found.queues[other], "", {})

        self.act_in(vhost, change)

    @rule(vhost=vhosts)
    def leave(self, vhost: str) -> None:
        client = self.clients.pop(vhost, None)
        if client is not None:
            client.connection.lost(self.now)

    # Operators

    @rule(by=users)
    def add_vhost(self, by: str) -> None:
        self.act(lambda: self.broker.add_vhost("v", by=by))
        self.act(lambda: self.broker.set_permissions("guest", "v", ".*", ".*", ".*"))

    @rule(by=users)
    def delete_vhost(self, by: str) -> None:
        self.act(lambda: self.broker.delete_vhost("v", by=by))

    @rule(vhost=vhosts, text=titles, kind=st.sampled_from([None, "classic", "quorum", "stream"]))
    def describe(self, vhost: str, text: str, kind: str | None) -> None:
        self.act_in(vhost, lambda found: found.describe(text, (text, "tag")))
        self.act_in(vhost, lambda found: found.set_default_queue_type(kind))
        self.act_in(vhost, lambda found: found.set_tracing(kind is None))

    @rule(vhost=vhosts, limits=st.sampled_from([{}, {"max-queues": 2}, {"max-queues": "x"}]))
    def set_limits(self, vhost: str, limits: dict[str, Any]) -> None:
        self.act_in(vhost, lambda found: found.set_limits(limits))

    @rule(vhost=vhosts, name=titles, pattern=st.sampled_from(["", "^a", "("]), definition=policies, operator=flags)
    def set_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any], operator: bool) -> None:
        self.act_in(vhost, lambda found: found.policies_of(operator).set(name, pattern, definition, priority=len(name)))

    @rule(vhost=vhosts, name=titles, operator=flags)
    def clear_policy(self, vhost: str, name: str, operator: bool) -> None:
        self.act_in(vhost, lambda found: found.policies_of(operator).clear(name))

    @rule(vhost=vhosts, component=st.sampled_from(["shovel", "vhost-limits", "operator_policy", "x"]), name=titles)
    def set_parameter(self, vhost: str, component: str, name: str) -> None:
        values: dict[str, Any] = {
            "shovel": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://"},
            "vhost-limits": {"max-queues": 3},
            "operator_policy": {"pattern": "^b", "definition": {"max-length": 9}},
        }
        self.act_in(vhost, lambda found: found.parameters.set(component, name, values.get(component)))

    @rule(vhost=vhosts, component=st.sampled_from(["shovel", "vhost-limits", "operator_policy"]), name=titles)
    def clear_parameter(self, vhost: str, component: str, name: str) -> None:
        self.act_in(vhost, lambda found: found.parameters.clear(component, name))

    @rule(name=titles, value=st.recursive(st.none() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(), st.lists))
    def set_global_parameter(self, name: str, value: Any) -> None:
        self.act(lambda: self.broker.set_parameter(name, value))

    @rule(name=titles)
    def clear_global_parameter(self, name: str) -> None:
        self.act(lambda: self.broker.clear_parameter(name))

    @rule(name=users, password=st.sampled_from(["", "p"]), loopback_only=flags)
    def add_user(self, name: str, password: str, loopback_only: bool) -> None:
        self.act(lambda: self.broker.add_user(name, password or name, (name,), loopback_only))
        self.act(lambda: self.broker.set_loopback_only(name, loopback_only))
        self.act(lambda: self.broker.set_user_limits(name, {"max-channels": 5000}))

    @rule()
    def delete_user(self) -> None:
        self.act(lambda: self.broker.delete_user("u"))

    @rule(vhost=vhosts, pattern=st.sampled_from([".*", "^a", "("]))
    def set_permissions(self, vhost: str, pattern: str) -> None:
        self.act(lambda: self.broker.set_permissions("u", vhost, ".*", pattern, pattern))
        self.act(lambda: self.broker.set_topic_permissions("u", vhost, "amq.topic", pattern, ".*"))

    @rule(vhost=vhosts, exchange=st.sampled_from([None, "amq.topic", "x"]))
    def clear_permissions(self, vhost: str, exchange: str | None) -> None:
        self.act(lambda: self.broker.clear_permissions("u", vhost))
        self.act(lambda: self.broker.clear_topic_permissions("u", vhost, exchange))

    # And then

    def teardown(self) -> None:
        finish(self.broker)
        follower = Broker()
        follower.follows = True
        again: list[bytes] = []
        follower.on_command = lambda command: again.append(encode(command))
        for number, line in enumerate(self.log):
            apply(follower, decode(line))
            if number % 3 == 0:
                # It may do what takes long at other times than the first did.
                finish(follower)
        finish(follower)
        assert again == self.log
        assert definitions(follower) == definitions(self.broker)


def finish(broker: Broker) -> None:
    while broker.work:
        broker.work.budget.begin()
        broker.work.drain()


def definitions(broker: Broker) -> dict[str, Any]:
    """What is exported, and what no file has: exclusive queues, tracing, and users that must be on this machine."""
    found = export(broker)
    inside = [vhost for _, vhost in sorted(broker.vhosts.items())]
    queues = [((vhost.name, name), queue) for vhost in inside for name, queue in sorted(vhost.queues.items())]
    found["exclusive"] = [title for title, queue in queues if queue.owner is not None]
    found["tracing"] = [name for name, vhost in sorted(broker.vhosts.items()) if vhost.tracing]
    found["loopback_only"] = [name for name, user in sorted(broker.users.items()) if user.loopback_only]
    found["followed"] = [(title, queue.policy and queue.policy.name) for title, queue in queues]
    return found


TestChanges = pytest.mark.timeout(300)(Changes.TestCase)
TestChanges.settings = settings(max_examples=120, stateful_step_count=80, deadline=None)
