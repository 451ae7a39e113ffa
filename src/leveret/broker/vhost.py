"""A virtual host: its exchanges, queues and bindings, and the rules for making and removing them.

Checks stand in a column, then the change is said as a command (`broker/command.py`), and then it is made. Where a right must
be checked between two others it is given as `rights`; else whoever asks has checked it already. Every change raises the
broker's epoch, which drops remembered routes. Knows no channel or connection: an exclusive queue's owner is any object.

  (1) A binding is known to both its ends; removing an end removes its bindings.
  (2) An auto-delete exchange goes with the last binding that leads from it, an auto-delete queue with its last consumer.
"""

import secrets
from typing import TYPE_CHECKING, Any

from leveret.broker.access import ConnectedClient
from leveret.broker.arguments import queue_settings_of, queue_type
from leveret.broker.binding import Binding, inbound, name_of
from leveret.broker.command import (
    NOBODY,
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DescribeVhost,
    SetDefaultQueueType,
    SetLimits,
    SetTracing,
    Unbind,
)
from leveret.broker.counters import Counters
from leveret.broker.dead_letter import DeadLetterTask
from leveret.broker.declaration import (
    EXCHANGE_TYPES,
    check_access,
    check_dead_letters,
    check_deletable,
    check_new_exchange,
    check_new_queue,
    check_same_exchange,
    check_same_queue,
    with_default_type,
)
from leveret.broker.dispatch import push
from leveret.broker.exchange import DefaultExchange, Exchange
from leveret.broker.message import Message
from leveret.broker.name import check_not_default, check_unreserved, stripped
from leveret.broker.node_limit import check_binding_count
from leveret.broker.parameter import Parameters
from leveret.broker.queue import Queue
from leveret.broker.rewrite import carbon_copies
from leveret.broker.rights import Rights
from leveret.broker.router import Router
from leveret.broker.tenant_limit import VHOST_LIMITS, check_limits
from leveret.broker.vhost_policy import VhostPolicies, follow_policies
from leveret.broker.vhost_tasks import DeleteUnused, Demolish, UnbindTask
from leveret.errors import AccessRefused, NotFound, PreconditionFailed
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.binding import Destination
    from leveret.broker.broker import Broker

PREDECLARED = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)

Facts = dict[str, Any]


class VirtualHost:
    """One tenant's exchanges, queues, bindings and policies. `clients` are the connections to it."""

    def __init__(self, name: str, broker: "Broker") -> None:
        self.name = name
        self.description = ""
        self.tags: tuple[str, ...] = ()
        self.default_queue_type: str | None = None
        self.limits: dict[str, int] = {}
        self.parameters = Parameters(self)
        self.tracing = False
        self.deleted = False
        self.clients: dict[ConnectedClient, None] = {}
        self.policies = VhostPolicies(self)
        self.operator_policies = VhostPolicies(self, operator=True)
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        # Those of exchanges that keep messages.
        self.hidden: dict[Queue, None] = {}
        self.work = broker.work
        self.router = Router(self.exchanges, self.work)
        # What is left of removing the bindings of something large; None if nothing is.
        self._unbinding: UnbindTask | None = None
        # Of channels that are closed, and octets of connections that are gone.
        self.counters = Counters()
        self.received_bytes = 0
        self.sent_bytes = 0
        self.churn = broker.churn
        self._events = broker.events
        self.broker = broker
        self._predeclare()

    def _predeclare(self) -> None:
        self.exchanges[""] = DefaultExchange(self.exchange_title(""), self.queues)  # type: ignore[arg-type]
        for name, kind, internal in PREDECLARED:
            exchange = EXCHANGE_TYPES[kind](name, self.exchange_title(name), kind, {})
            exchange.durable = True
            exchange.internal = internal
            self.exchanges[name] = exchange

    def policies_of(self, operator: bool) -> VhostPolicies:
        return self.operator_policies if operator else self.policies

    def _record(self, command: Command) -> None:
        # What is still removed of a vhost that is gone is a part of deleting it; another of its name may be there.
        if not self.deleted:
            self.broker.record(command)

    def _happened(self, kind: str, name: str) -> None:
        self._events.add(kind, self.name, name)

    @property
    def now(self) -> int:
        """The time of this pass (ms)."""
        return self.work.budget.now

    # Names

    def exchange_title(self, name: str) -> str:
        return f"exchange '{name}' in vhost '{self.name}'"

    def queue_title(self, name: str) -> str:
        return f"queue '{name}' in vhost '{self.name}'"

    def exchange(self, name: str) -> Exchange:
        """The exchange of that name, or NotFound."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no {self.exchange_title(name)}")
        return exchange

    def queue(self, name: str, owner: object) -> Queue:
        """The queue of that name as far as connection `owner` may use it, or NotFound, or ResourceLocked."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no {self.queue_title(name)}")
        check_access(queue, owner)
        return queue

    def queue_there(self, name: str) -> Queue:
        """The queue of that name, or NotFound; for those who may use any."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no {self.queue_title(name)}")
        return queue

    # Exchanges

    def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
        rights: Rights | None = None,
        by: str = NOBODY,
    ) -> Exchange:
        """Make an exchange, or check that the one there is the same; who has `rights` makes it, else `by`."""
        arguments = arguments or {}
        if kind not in EXCHANGE_TYPES:
            raise PreconditionFailed(f"unknown exchange type '{kind}'")
        name = stripped(name)
        check_not_default(name)
        if rights is not None:
            rights.check_exchange("configure", name)
            by = rights.user_name
        exchange = self.exchanges.get(name)
        if exchange is not None:
            check_same_exchange(exchange, kind, durable, auto_delete, internal, arguments)
            return exchange
        check_new_exchange(self, name, kind, arguments, rights)
        command = DeclareExchange(self.name, name, kind, durable, auto_delete, internal, arguments, by=by, at=self.now)
        return self.make_exchange(command)

    def make_exchange(self, command: DeclareExchange) -> Exchange:
        """Make an exchange that is not there yet."""
        self._record(command)
        name, kind = command.name, command.kind
        exchange = EXCHANGE_TYPES[kind](name, self.exchange_title(name), kind, command.arguments)
        exchange.durable = command.durable
        exchange.auto_delete = command.auto_delete
        exchange.internal = command.internal
        exchange.made_by = command.by
        exchange.open(self)
        self.exchanges[name] = exchange
        follow_policies(self, exchange)
        self.broker.changed()
        self._happened("exchange.created", name)
        if self.is_kept(command.durable):
            facts: Facts = {"type": kind, "auto_delete": command.auto_delete, "internal": command.internal}
            facts |= {"arguments": command.arguments, "made_by": command.by}
            if not command.durable:
                facts["durable"] = False
            self.broker.storage.put("exchange", self.name, name, facts)
        return exchange

    def find_exchange(self, name: str) -> Exchange:
        """Declare passively: the exchange must be there and not be the default one."""
        name = stripped(name)
        check_not_default(name)
        return self.exchange(name)

    def delete_exchange(self, name: str, if_unused: bool = False, rights: Rights | None = None, by: str = NOBODY) -> None:
        """Delete an exchange and its bindings; one that is not there is fine. Who has `rights` does it, else `by`."""
        name = stripped(name)
        check_not_default(name)
        if name.startswith("amq."):
            raise AccessRefused(f"deletion of system {self.exchange_title(name)} not allowed")
        if rights is not None:
            rights.check_exchange("configure", name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"{exchange.title} in use")
        self._record(DeleteExchange(self.name, name, by=by if rights is None else rights.user_name, at=self.now))
        del self.exchanges[name]
        exchange.deleted = True
        exchange.close()
        self.broker.changed()
        self._unbind_all([*exchange.inbound.values(), *exchange.bindings.values()], exchange)

    def forget_exchange(self, exchange: Exchange) -> None:
        """An exchange is gone with all its bindings."""
        self._happened("exchange.deleted", exchange.name)
        anew = self.exchanges.get(exchange.name)
        if self.is_kept(exchange.durable) and not self.deleted and not (anew and self.is_kept(anew.durable)):
            self.broker.storage.remove("exchange", self.name, exchange.name)

    # Queues

    def declare_queue(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object = None,
        arguments: Table | None = None,
        rights: Rights | None = None,
        by: str = NOBODY,
    ) -> Queue:
        """Make a queue, or check that the one there is the same; `owner` is set for an exclusive one.

        Who has `rights` makes it, else `by`.
        """
        self.churn.queues_declared += 1
        name = stripped(name)
        arguments = with_default_type(arguments or {}, self.default_queue_type, durable, auto_delete, owner)
        if name:
            check_unreserved("queue", name)
        elif queue_type(arguments) == "quorum":
            raise PreconditionFailed("Cannot declare a server-named queue for type rabbit_quorum_queue")
        else:
            name = f"amq.gen-{secrets.token_urlsafe(16)}"
        if rights is not None:
            rights.check_queue("configure", name)
            by = rights.user_name
        # RabbitMQ: an exclusive queue is never durable, whatever was asked.
        durable = durable and owner is None
        queue = self.queues.get(name)
        if queue is not None:
            check_same_queue(queue, durable, auto_delete, owner, arguments)
            queue.renew_expiry(self.now)
            return queue
        check_dead_letters(self, name, arguments, rights)
        check_new_queue(self, name, durable, auto_delete, owner, arguments)
        exclusive = owner is not None
        command = DeclareQueue(self.name, name, durable, auto_delete, exclusive, arguments, by=by, at=self.now)
        return self.make_queue(command, owner)

    def make_queue(self, command: DeclareQueue, owner: object) -> Queue:
        """Make a queue that is not there yet, with a name that the server may have given."""
        self._record(command)
        name, arguments = command.name, command.arguments
        queue = Queue(name, self.queue_title(name), self.work, arguments, self.broker.timers)
        queue.durable = command.durable
        queue.auto_delete = command.auto_delete
        queue.owner = owner
        if command.home not in ("", self.broker.settings.node_name):
            queue.away = queue.needs_checks = True
        queue.home = command.home
        queue.when_expired = DeleteUnused(self, queue)
        if command.auto_delete:
            queue.when_unused = queue.when_expired
        queue.dead_letter_task = DeadLetterTask(self, queue)
        if arguments:
            queue.apply(queue_settings_of(arguments, {}, {}), self.now)
        follow_policies(self, queue)
        self.queues[name] = queue
        self.churn.queues_created += 1
        self._happened("queue.created", name)
        self.broker.changed()
        if command.durable:
            facts = {"auto_delete": command.auto_delete, "arguments": arguments}
            if command.home:
                facts |= {"home": command.home, "at": command.at}
            self.broker.storage.add_queue(queue, self.name, "queue", facts)
        elif self.broker.clustered:
            facts = {"auto_delete": command.auto_delete, "exclusive": command.exclusive, "arguments": arguments}
            facts |= {"home": command.home, "at": command.at}
            self.broker.storage.put("transient_queue", self.name, name, facts)
        return queue

    def is_kept(self, durable: bool) -> bool:
        """Whether it is stored that there is such a thing: in a cluster of all, which last while some other node is up."""
        return durable or self.broker.clustered

    def delete_queue(
        self, name: str, owner: object, *, if_unused: bool = False, if_empty: bool = False, rights: Rights | None = None
    ) -> int:
        """Delete a queue and return how many messages were ready; one that is not there is fine."""
        if rights is not None:
            rights.check_queue("configure", stripped(name))
        queue = self.deletable_queue(name, owner, if_unused=if_unused, if_empty=if_empty)
        if queue is None:
            return 0
        return self.remove_queue(queue, by=NOBODY if rights is None else rights.user_name)

    def deletable_queue(self, name: str, owner: object, *, if_unused: bool = False, if_empty: bool = False) -> Queue | None:
        """The queue of that name if it may be deleted so; None if there is none."""
        name = stripped(name)
        if name not in self.queues:
            return None
        queue = self.queue(name, owner)
        check_deletable(queue, if_unused, if_empty)
        return queue

    def remove_queue(self, queue: Queue, by: str = NOBODY) -> int:
        """Remove a queue with its bindings and messages."""
        self._record(DeleteQueue(self.name, queue.name, by=by, at=self.now))
        del self.queues[queue.name]
        self._unbind_all(list(queue.bindings.values()))  # type: ignore[arg-type]
        if queue.durable:
            self.broker.storage.remove_queue(queue, self.name, "queue")
        elif self.broker.clustered and not self.deleted:
            self.broker.storage.remove("transient_queue", self.name, queue.name)
        self.broker.changed()
        self._happened("queue.deleted", queue.name)
        count = queue.delete()
        # They know the queue: it is free now, and not when the garbage collector looks at what is old.
        queue.when_expired = queue.when_unused = queue.dead_letter_task = queue.queue_expiry = None
        return count

    def discard_queue(self, queue: Queue) -> None:
        """Have a queue removed that nobody needs any more: at once, or in a cluster when all have heard of it."""
        on_unneeded = self.broker.on_unneeded
        if on_unneeded is None or self.deleted:
            self.remove_queue(queue)
        elif not queue.away:
            on_unneeded(DeleteQueue(self.name, queue.name, queue.created_at, by=NOBODY, at=self.now))

    # Bindings

    def bind(self, source: str, destination: "Destination", routing_key: str, arguments: Table, by: str = NOBODY) -> None:
        """Bind; doing it twice changes nothing."""
        exchange = self.exchange(source)
        exchange.check_binding(routing_key, arguments)
        binding = Binding(exchange, destination, routing_key, arguments)
        if binding.key in exchange.bindings:
            return
        check_binding_count(self.broker.settings.limits, len(exchange.bindings), exchange.title)
        if self.broker.on_command is not None:
            # Bindings are many: no value is made of one that nobody reads.
            ends = (source, destination.name, destination.is_queue)
            self._record(Bind(self.name, *ends, routing_key, arguments, by=by, at=self.now))
        exchange.bind(binding)
        inbound(destination)[binding.key] = binding
        self.broker.changed()
        self._happened("binding.created", exchange.name)
        if self.is_kept(exchange.durable and destination.durable):
            self.broker.storage.put("binding", self.name, name_of(binding), {"arguments": arguments})

    def unbind(
        self, source: str, destination: "Destination", routing_key: str, arguments: Table, owner: object, by: str = NOBODY
    ) -> None:
        """Unbind for connection `owner`; what is not there is fine."""
        exchange = self.exchanges.get(source)
        if exchange is None:
            return
        binding = exchange.bindings.get(Binding(exchange, destination, routing_key, arguments).key)
        if binding is None:
            return
        if isinstance(destination, Queue):
            check_access(destination, owner)
        if self.broker.on_command is not None:
            ends = (source, destination.name, destination.is_queue)
            self._record(Unbind(self.name, *ends, routing_key, arguments, by=by, at=self.now))
        self.broker.changed()
        self._unbind_all([binding])

    def unbinding(self) -> UnbindTask | None:
        """What is left to do of the last removal, if it was a large one."""
        return None if self._unbinding is None or self._unbinding.done else self._unbinding

    def _unbind_all(self, bindings: list[Binding], exchange: Exchange | None = None) -> None:
        task = UnbindTask(self, bindings, exchange)
        if not task.run(self.work.budget):
            self.work.add(task)
            self._unbinding = task

    def remove_binding(self, binding: Binding, pending: list[Binding]) -> None:
        """Remove a binding that may be gone; what must go with its source is added to `pending`."""
        source = binding.source
        if binding.key not in source.bindings:
            return
        source.unbind(binding)
        del inbound(binding.destination)[binding.key]
        self._forget_binding(binding)
        if source.auto_delete and not source.bindings and not source.deleted and not self.broker.follows:
            if not self.broker.clustered:
                # In a cluster it follows from what all have done.
                self._record(DeleteExchange(self.name, source.name, by=NOBODY, at=self.now))
            source.deleted = True
            source.close()
            del self.exchanges[source.name]
            self.broker.changed()
            self.forget_exchange(source)
            pending.extend(source.inbound.values())

    def _forget_binding(self, binding: Binding) -> None:
        self._happened("binding.deleted", binding.source.name)
        stored = self.is_kept(binding.source.durable and binding.destination.durable) and not self.deleted
        if stored and not is_made_anew(self, binding):
            self.broker.storage.remove("binding", self.name, name_of(binding))

    # What is known of the vhost itself

    def set_default_queue_type(self, kind: str | None, by: str = NOBODY) -> None:
        """The type of queues that are declared without one."""
        if kind not in (None, "classic", "quorum"):
            raise PreconditionFailed(f"unsupported queue type '{kind}'")
        if kind == self.default_queue_type:
            return
        self._record(SetDefaultQueueType(self.name, kind, by=by, at=self.now))
        self.default_queue_type = kind
        self.store()

    def set_limits(self, limits: dict[str, int], by: str = NOBODY) -> None:
        """Bound the connections and queues; what is there already stays."""
        check_limits(limits, VHOST_LIMITS, "limits")
        if limits == self.limits:
            return
        self._record(SetLimits(self.name, dict(limits), by=by, at=self.now))
        self.limits = dict(limits)
        self.store()

    def describe(self, description: str, tags: tuple[str, ...], by: str = NOBODY) -> None:
        if (description, tags) == (self.description, self.tags):
            return
        self._record(DescribeVhost(self.name, description, tags, by=by, at=self.now))
        self.description = description
        self.tags = tags
        self.store()

    def store(self) -> None:
        """Have what is known of the vhost itself kept."""
        facts = {
            "description": self.description,
            "tags": self.tags,
            "default_queue_type": self.default_queue_type,
            "limits": self.limits,
            "tracing": self.tracing,
        }
        self.broker.storage.put("vhost", self.name, "", facts)

    def set_tracing(self, tracing: bool, by: str = NOBODY) -> None:
        """Copy every message published or delivered to amq.rabbitmq.trace, or stop that."""
        if tracing == self.tracing:
            return
        self._record(SetTracing(self.name, tracing, by=by, at=self.now))
        self.tracing = tracing
        self.store()
        self.broker.changed()
        for client in self.clients:
            client.recheck()

    def close(self) -> None:
        """It is deleted: end its connections, and remove everything."""
        # Storage has heard of it; another one of this name may be there before everything is removed.
        self.deleted = True
        self.parameters.close()
        for client in list(self.clients):
            client.shut(f"vhost '{self.name}' is deleted")
        self.broker.work.add(Demolish(self))

    def route(self, exchange: Exchange, routing_key: str, properties: Properties | None) -> list[Queue]:
        """The queues a message reaches."""
        return self.router.route(exchange, routing_key, properties)

    def publish(self, exchange: Exchange, message: Message, now: int) -> None:
        """Route a message anew that a client has published before, and give it to the queues it reaches."""
        properties = properties_of(message.content, message.header_size)
        keys = [message.origin.routing_key, *carbon_copies(properties.headers or {}, "CC"), *message.origin.blind]
        queues = self.router.route_all(exchange, keys, properties)
        self.router.give_to_keepers(message, now)
        for queue in queues:
            push(queue, message, now)


def is_made_anew(vhost: VirtualHost, binding: Binding) -> bool:
    """Whether the same binding is there between others of the same names: an end was deleted and declared again."""
    source, destination = binding.source, binding.destination
    things: dict[str, Any] = vhost.queues if isinstance(destination, Queue) else vhost.exchanges
    new_source, new_destination = vhost.exchanges.get(source.name), things.get(destination.name)
    if new_source is None or new_destination is None or (new_source is source and new_destination is destination):
        return False
    if not vhost.is_kept(new_source.durable and new_destination.durable):
        return False
    return Binding(new_source, new_destination, binding.routing_key, binding.arguments).key in new_source.bindings
