"""Commands: every change of what a broker is made of, as a value that can be written to a log and applied again.

(1) A method of the model that changes something checks it first; then it says what it does as a command (`Broker.record`),
    and then does it. What is refused, or changes nothing, is no command.
(2) All that a change depends on besides the model is in its command: who made it and when, names that the server gives,
    hashes of passwords. So the same commands make the same model, wherever they are applied. What only the connection
    decides, rights and whose an exclusive queue is, was decided before.
(3) What the model does by itself is a command too: a queue that is not used any more, and an exchange that has lost its last
    binding, are deleted by the broker. A broker that `follows` another's commands does not do it, it is told; so it does not
    matter when each of them gets to what they do in pieces.
(4) In a cluster a change is made when all nodes have agreed on its command: `Broker.record` raises Proposed before it is
    made, and whoever called the model has the command proposed (`Broker.propose`), waits, and then asks the model again.
    Since what is there and the same is no change, that comes to an end; what is gone is done with.
(5) Written, a command is JSON: its class's name, and its fields. Tables are base64 of their wire form, since the width of a
    number on the wire is part of it. Names may be of any octets; those that are no text are escaped.
"""

import base64
import json
from typing import TYPE_CHECKING, Any

import msgspec

from leveret.broker.token import Token
from leveret.wire.values import Table, decode_table, encode_table

if TYPE_CHECKING:
    from leveret.broker.binding import Destination
    from leveret.broker.broker import Broker
    from leveret.broker.vhost import VirtualHost
    from leveret.errors import AMQPError

# RabbitMQ: the user of what no user has done.
NOBODY = "rmq-internal"
# The owner of an exclusive queue whose connection another broker has.
ELSEWHERE = object()


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A change. `by` is the user who made it, `at` when, in milliseconds."""

    by: str
    at: int

    def carry_out(self, broker: "Broker") -> object:
        """Make the change in a broker, which has the time of the command; an AMQPError if it cannot be made there.

        What is returned is for whoever has proposed it, if that is this broker.
        """
        raise NotImplementedError


class Proposed(Exception):
    """A change is not made, since all nodes of the cluster must agree on its command before."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.command = command


class Proposal:
    """A command on its way to all nodes. `owner` is the connection that an exclusive queue is to be of, while there is one.

    Once it is `done`, `result` is what carrying it out has returned here, or `error` says why it was not.
    """

    __slots__ = ("command", "done", "error", "owner", "result")

    def __init__(self, command: object, owner: object = None) -> None:
        self.command = command
        self.owner = owner
        self.done = False
        self.result: object = None
        self.error: AMQPError | None = None


class VhostCommand(Command, frozen=True):
    """A change in a vhost."""

    vhost: str

    def within(self, broker: "Broker") -> "VirtualHost":
        return broker.find_vhost(self.vhost)


# Vhosts


class AddVhost(VhostCommand, frozen=True):
    def carry_out(self, broker: "Broker") -> None:
        broker.add_vhost(self.vhost, by=self.by)


class DeleteVhost(VhostCommand, frozen=True):
    def carry_out(self, broker: "Broker") -> None:
        broker.delete_vhost(self.vhost, by=self.by)


class DescribeVhost(VhostCommand, frozen=True):
    description: str
    tags: tuple[str, ...]

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).describe(self.description, self.tags, by=self.by)


class SetDefaultQueueType(VhostCommand, frozen=True):
    kind: str | None

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).set_default_queue_type(self.kind, by=self.by)


class SetLimits(VhostCommand, frozen=True):
    limits: dict[str, int]

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).set_limits(self.limits, by=self.by)


class SetTracing(VhostCommand, frozen=True):
    tracing: bool

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).set_tracing(self.tracing, by=self.by)


# Users and rights


class UserCommand(Command, frozen=True):
    """A change of a user."""

    user: str


class AddUser(UserCommand, frozen=True):
    password_hash: str
    hashing: str
    tags: tuple[str, ...]
    loopback_only: bool

    def carry_out(self, broker: "Broker") -> None:
        broker.add_hashed_user(self.user, self.password_hash, self.hashing, self.tags, self.loopback_only, by=self.by)


class AddToken(UserCommand, frozen=True):
    id: str
    digest: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int

    def carry_out(self, broker: "Broker") -> None:
        token = Token(self.id, self.user, self.digest, self.scopes, self.created_at, self.expires_at)
        broker.add_token(token, by=self.by)


class DeleteToken(Command, frozen=True):
    id: str

    def carry_out(self, broker: "Broker") -> None:
        broker.delete_token(self.id, by=self.by)


class DeleteUser(UserCommand, frozen=True):
    def carry_out(self, broker: "Broker") -> None:
        broker.delete_user(self.user, by=self.by)


class SetLoopbackOnly(UserCommand, frozen=True):
    loopback_only: bool

    def carry_out(self, broker: "Broker") -> None:
        broker.set_loopback_only(self.user, self.loopback_only, by=self.by)


class SetUserLimits(UserCommand, frozen=True):
    limits: dict[str, int]

    def carry_out(self, broker: "Broker") -> None:
        broker.set_user_limits(self.user, self.limits, by=self.by)


class SetPermissions(UserCommand, frozen=True):
    vhost: str
    configure: str
    write: str
    read: str

    def carry_out(self, broker: "Broker") -> None:
        broker.set_permissions(self.user, self.vhost, self.configure, self.write, self.read, by=self.by)


class ClearPermissions(UserCommand, frozen=True):
    vhost: str

    def carry_out(self, broker: "Broker") -> None:
        broker.clear_permissions(self.user, self.vhost, by=self.by)


class SetTopicPermissions(UserCommand, frozen=True):
    vhost: str
    exchange: str
    write: str
    read: str

    def carry_out(self, broker: "Broker") -> None:
        broker.set_topic_permissions(self.user, self.vhost, self.exchange, self.write, self.read, by=self.by)


class ClearTopicPermissions(UserCommand, frozen=True):
    vhost: str
    # None is for all.
    exchange: str | None

    def carry_out(self, broker: "Broker") -> None:
        broker.clear_topic_permissions(self.user, self.vhost, self.exchange, by=self.by)


# Parameters and policies


class SetGlobalParameter(Command, frozen=True):
    name: str
    value: Any

    def carry_out(self, broker: "Broker") -> None:
        broker.set_parameter(self.name, self.value, by=self.by)


class ClearGlobalParameter(Command, frozen=True):
    name: str

    def carry_out(self, broker: "Broker") -> None:
        broker.clear_parameter(self.name, by=self.by)


class SetParameter(VhostCommand, frozen=True):
    component: str
    name: str
    value: Any

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).parameters.set(self.component, self.name, self.value, by=self.by)


class ClearParameter(VhostCommand, frozen=True):
    component: str
    name: str

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).parameters.clear(self.component, self.name, by=self.by)


class SetPolicy(VhostCommand, frozen=True):
    name: str
    pattern: str
    definition: dict[str, Any]
    priority: int
    apply_to: str
    operator: bool

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).policies_of(self.operator).set(
            self.name, self.pattern, self.definition, priority=self.priority, apply_to=self.apply_to, by=self.by
        )


class ClearPolicy(VhostCommand, frozen=True):
    name: str
    operator: bool

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).policies_of(self.operator).clear(self.name, by=self.by)


# Exchanges, queues and bindings


class DeclareExchange(VhostCommand, frozen=True):
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Table

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).make_exchange(self)


class DeleteExchange(VhostCommand, frozen=True):
    name: str

    def carry_out(self, broker: "Broker") -> None:
        self.within(broker).delete_exchange(self.name, by=self.by)


class DeclareQueue(VhostCommand, frozen=True):
    name: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Table
    # The node that has its messages, in a cluster.
    home: str = ""

    def carry_out(self, broker: "Broker") -> object:
        # Whose it is only the broker knows that has the connection.
        return self.within(broker).make_queue(self, ELSEWHERE if self.exclusive else None)


class DeleteQueue(VhostCommand, frozen=True):
    name: str
    # Not another one of this name: the one that was made at this time.
    made_at: int = 0

    def carry_out(self, broker: "Broker") -> int:
        vhost = self.within(broker)
        queue = vhost.queues.get(self.name)
        if queue is None or self.made_at not in (0, queue.created_at):
            return 0
        return vhost.remove_queue(queue, by=self.by)


class BindingCommand(VhostCommand, frozen=True):
    """A change of the binding between these, with this routing key and these arguments."""

    source: str
    destination: str
    to_queue: bool
    routing_key: str
    arguments: Table

    def destination_in(self, vhost: "VirtualHost") -> "Destination":
        return vhost.queue_there(self.destination) if self.to_queue else vhost.exchange(self.destination)


class Bind(BindingCommand, frozen=True):
    def carry_out(self, broker: "Broker") -> None:
        vhost = self.within(broker)
        vhost.bind(self.source, self.destination_in(vhost), self.routing_key, self.arguments, by=self.by)


class Unbind(BindingCommand, frozen=True):
    def carry_out(self, broker: "Broker") -> None:
        vhost = self.within(broker)
        destination = self.destination_in(vhost)
        owner = getattr(destination, "owner", None)
        vhost.unbind(self.source, destination, self.routing_key, self.arguments, owner, by=self.by)


COMMANDS: dict[str, type[Command]] = {
    kind.__name__: kind
    for kind in (
        AddVhost,
        DeleteVhost,
        DescribeVhost,
        SetDefaultQueueType,
        SetLimits,
        SetTracing,
        AddUser,
        DeleteUser,
        AddToken,
        DeleteToken,
        SetLoopbackOnly,
        SetUserLimits,
        SetPermissions,
        ClearPermissions,
        SetTopicPermissions,
        ClearTopicPermissions,
        SetGlobalParameter,
        ClearGlobalParameter,
        SetParameter,
        ClearParameter,
        SetPolicy,
        ClearPolicy,
        DeclareExchange,
        DeleteExchange,
        DeclareQueue,
        DeleteQueue,
        Bind,
        Unbind,
    )
}


def apply(broker: "Broker", command: Command) -> object:
    """Make a change that was made in another broker, or in this one before."""
    broker.work.budget.now = command.at
    return command.carry_out(broker)


def encode(command: Command) -> bytes:
    """A command as it stands in a log."""
    fields: dict[str, Any] = {name: getattr(command, name) for name in command.__struct_fields__}
    if "arguments" in fields:
        fields["arguments"] = base64.b64encode(encode_table(fields["arguments"])).decode()
    return json.dumps({"command": type(command).__name__, **fields}).encode()


def decode(data: bytes) -> Command:
    """The command that was written so."""
    fields = json.loads(data)
    kind = COMMANDS[fields.pop("command")]
    if "arguments" in fields:
        table = base64.b64decode(fields["arguments"])
        fields["arguments"] = decode_table(table, 4, len(table))
    for name in ("tags", "scopes"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return kind(**fields)
