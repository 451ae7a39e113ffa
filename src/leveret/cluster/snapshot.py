"""All that is defined, as the commands that make it: for who comes in late, and to compare nodes with each other.

The order in which things were defined, and who has done it, is no part of it. What is only a node's own, such as the numbers
of its queues on disk, is not in it either.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import TypedDict

import msgspec

from leveret.broker.binding import Binding
from leveret.broker.broker import Broker
from leveret.broker.command import (
    NOBODY,
    AddUser,
    AddVhost,
    Bind,
    ClearGlobalParameter,
    ClearParameter,
    ClearPermissions,
    ClearPolicy,
    ClearTopicPermissions,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    DescribeVhost,
    SetDefaultQueueType,
    SetGlobalParameter,
    SetLimits,
    SetParameter,
    SetPermissions,
    SetPolicy,
    SetTopicPermissions,
    SetTracing,
    SetUserLimits,
    Unbind,
    decode,
    encode,
)
from leveret.broker.queue import Queue
from leveret.broker.rights import PERMISSIONS
from leveret.broker.vhost import PREDECLARED, VirtualHost
from leveret.cluster.members import Member

SYSTEM_EXCHANGES = {"", *(name for name, _, _ in PREDECLARED)}


class Anonymous(TypedDict):
    """By whom and when: nobody's concern."""

    by: str
    at: int


NEVER: Anonymous = {"by": NOBODY, "at": 0}


class Snapshot(msgspec.Struct):
    """What was defined when so many commands were applied, and which ones of each node."""

    applied: int
    numbers: dict[str, tuple[int, int]]
    members: list[Member]
    commands: list[bytes]


def pack(snapshot: Snapshot) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(snapshot))


def unpack(octets: bytes) -> Snapshot:
    return msgspec.msgpack.decode(zlib.decompress(octets), type=Snapshot)


def commands_of(broker: Broker) -> Iterator[Command]:
    """What makes another broker the same, in the order in which one needs the other."""
    for user in broker.users.values():
        yield AddUser(user.name, user.password_hash, user.hashing, user.tags, user.loopback_only, **NEVER)
        if user.limits:
            yield SetUserLimits(user.name, user.limits, **NEVER)
    for name, value in broker.parameters.items():
        yield SetGlobalParameter(name, value, **NEVER)
    for vhost in broker.vhosts.values():
        yield from _of_vhost(vhost)
    for user in broker.users.values():
        for rights in user.rights.values():
            if rights.granted:
                patterns = [rights.pattern(permission) for permission in PERMISSIONS]
                yield SetPermissions(user.name, rights.vhost_name, *patterns, **NEVER)
            for exchange, (write, read) in rights.topics.items():
                yield SetTopicPermissions(user.name, rights.vhost_name, exchange, write, read, **NEVER)


def _of_vhost(vhost: VirtualHost) -> Iterator[Command]:
    name = vhost.name
    yield AddVhost(name, **NEVER)
    if vhost.description or vhost.tags:
        yield DescribeVhost(name, vhost.description, vhost.tags, **NEVER)
    if vhost.default_queue_type is not None:
        yield SetDefaultQueueType(name, vhost.default_queue_type, **NEVER)
    if vhost.limits:
        yield SetLimits(name, vhost.limits, **NEVER)
    if vhost.tracing:
        yield SetTracing(name, True, **NEVER)
    for operator in (False, True):
        for policy in vhost.policies_of(operator).by_name.values():
            facts = (policy.name, policy.pattern.text, policy.definition, policy.priority, policy.apply_to, operator)
            yield SetPolicy(name, *facts, **NEVER)
    for exchange in vhost.exchanges.values():
        if exchange.name not in SYSTEM_EXCHANGES:
            flags = (exchange.durable, exchange.auto_delete, exchange.internal)
            yield DeclareExchange(name, exchange.name, exchange.kind, *flags, exchange.arguments, by=exchange.made_by, at=0)
    for queue in vhost.queues.values():
        more = (queue.durable, queue.auto_delete, queue.owner is not None, queue.arguments, queue.home)
        yield DeclareQueue(name, queue.name, *more, by=NOBODY, at=queue.created_at)
    for exchange in vhost.exchanges.values():
        for binding in exchange.bindings.values():
            yield _bind(vhost, binding)
    for (component, parameter), value in vhost.parameters.values.items():
        yield SetParameter(name, component, parameter, value, **NEVER)


def _bind(vhost: VirtualHost, binding: Binding) -> Bind:
    ends = (binding.source.name, binding.destination.name, isinstance(binding.destination, Queue))
    return Bind(vhost.name, *ends, binding.routing_key, binding.arguments, **NEVER)


def digest_of(broker: Broker) -> str:
    """What is the same wherever the same is defined."""
    total = 0
    for command in commands_of(broker):
        total += int.from_bytes(hashlib.sha256(encode(command)).digest()[:16], "big")
    return f"{total % (1 << 128):032x}"


def differences(broker: Broker, commands: list[bytes]) -> list[Command]:
    """What makes a broker the same as one of which these are the commands: first what must go, then all that must be there.

    What is there already is no change; but it may have gone with something else that must.
    """
    wanted = {octets: decode(octets) for octets in commands}
    users = {command.user for command in wanted.values() if isinstance(command, AddUser)}
    gone = []
    for command in commands_of(broker):
        if encode(command) in wanted or (isinstance(command, AddUser) and command.user in users):
            continue
        undone = _undo(command)
        if undone is not None:
            gone.append(undone)
    return [*reversed(gone), *wanted.values()]


def _undo(command: Command) -> Command | None:
    """What takes back a command; None if nothing does."""
    for kind, undo in UNDO.items():
        if isinstance(command, kind):
            return undo(command)
    return None


UNDO: dict[type[Command], Callable[..., Command]] = {
    AddVhost: lambda c: DeleteVhost(c.vhost, **NEVER),
    DescribeVhost: lambda c: DescribeVhost(c.vhost, "", (), **NEVER),
    SetDefaultQueueType: lambda c: SetDefaultQueueType(c.vhost, None, **NEVER),
    SetLimits: lambda c: SetLimits(c.vhost, {}, **NEVER),
    SetTracing: lambda c: SetTracing(c.vhost, False, **NEVER),
    AddUser: lambda c: DeleteUser(c.user, **NEVER),
    SetUserLimits: lambda c: SetUserLimits(c.user, {}, **NEVER),
    SetPermissions: lambda c: ClearPermissions(c.user, c.vhost, **NEVER),
    SetTopicPermissions: lambda c: ClearTopicPermissions(c.user, c.vhost, c.exchange, **NEVER),
    SetGlobalParameter: lambda c: ClearGlobalParameter(c.name, **NEVER),
    SetParameter: lambda c: ClearParameter(c.vhost, c.component, c.name, **NEVER),
    SetPolicy: lambda c: ClearPolicy(c.vhost, c.name, c.operator, **NEVER),
    DeclareExchange: lambda c: DeleteExchange(c.vhost, c.name, **NEVER),
    DeclareQueue: lambda c: DeleteQueue(c.vhost, c.name, **NEVER),
    Bind: lambda c: Unbind(c.vhost, c.source, c.destination, c.to_queue, c.routing_key, c.arguments, **NEVER),
}
