"""A virtual host: its exchanges, queues and bindings, and the rules for making and removing them.

Checks stand in a column and then the thing is done. Where a right must be checked between two others it is given as
`rights`; else whoever asks has checked it already. Every change raises the broker's epoch, which drops remembered
routes. Knows no channel or connection: an exclusive queue's owner is any object.

  (1) A binding is known to both its ends; removing an end removes its bindings.
  (2) An auto-delete exchange goes with the last binding that leads from it, an auto-delete queue with its last consumer.
"""

import secrets
from typing import TYPE_CHECKING, Any

from leveret.broker.access import ConnectedClient, User, check_limits, reached
from leveret.broker.arguments import CHECKS, check_queue_arguments, check_quorum_properties, queue_type, traits_of
from leveret.broker.binding import Binding, frozen
from leveret.broker.dead_letter import Burial
from leveret.broker.delayed import DelayedExchange
from leveret.broker.dispatch import push
from leveret.broker.equivalence import check_same, check_same_argument
from leveret.broker.exchange import NOBODY, DefaultExchange, Exchange
from leveret.broker.exchange_types import PLAIN_TYPES
from leveret.broker.message import Message
from leveret.broker.policy import Policies, Policy
from leveret.broker.queue import Queue
from leveret.broker.rewriting import carbon_copies
from leveret.broker.rights import Rights
from leveret.broker.router import Router
from leveret.broker.shovel import COMPONENT as SHOVEL_COMPONENT
from leveret.broker.shovel import SHOVELS_MAX, check_shovel
from leveret.broker.tally import Tally
from leveret.broker.upkeep import DeleteUnused, Demolish, Reapply, Unbind
from leveret.errors import AccessRefused, NotFound, NotImplementedFault, PreconditionFailed, ResourceLocked
from leveret.terms import term
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties
from leveret.wire.values import Table, kind_of

if TYPE_CHECKING:
    from leveret.broker.binding import Destination
    from leveret.broker.broker import Broker

EXCHANGE_TYPES: dict[str, type[Exchange]] = {**PLAIN_TYPES, "x-delayed-message": DelayedExchange}

PREDECLARED = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)

# So many policies cost as much to compare with a name as one operation of a queue.
POLICIES_A_UNIT = 2

Facts = dict[str, Any]

LIMITS = ("max-connections", "max-queues")
LIMITS_COMPONENT = "vhost-limits"
OPERATOR_COMPONENT = "operator_policy"


class VirtualHost:
    """One tenant's exchanges, queues, bindings and policies. `clients` are the connections to it."""

    def __init__(self, name: str, broker: "Broker") -> None:
        self.name = name
        self.description = ""
        self.tags: tuple[str, ...] = ()
        self.default_queue_type: str | None = None
        self.limits: dict[str, int] = {}
        self.parameters: dict[tuple[str, str], Any] = {}
        self.tracing = False
        self.deleted = False
        self.clients: dict[ConnectedClient, None] = {}
        self.policies = Policies()
        self.operator_policies = Policies(operator=True)
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        # Those of exchanges that keep messages.
        self.hidden: dict[Queue, None] = {}
        self.work = broker.work
        self.router = Router(self.exchanges, self.work)
        # What is left of removing the bindings of something large; None if nothing is.
        self._unbinding: Unbind | None = None
        # Of channels that are closed, and octets of connections that are gone.
        self.tally = Tally()
        self.received_bytes = 0
        self.sent_bytes = 0
        self.churn = broker.churn
        self._events = broker.events
        self._broker = broker
        self._predeclare()

    def _predeclare(self) -> None:
        self.exchanges[""] = DefaultExchange(self.exchange_title(""), self.queues)  # type: ignore[arg-type]
        for name, kind, internal in PREDECLARED:
            exchange = EXCHANGE_TYPES[kind](name, self.exchange_title(name), kind, {})
            exchange.durable = True
            exchange.internal = internal
            self.exchanges[name] = exchange

    def _happened(self, kind: str, name: str) -> None:
        self._events.add(kind, self.name, name)

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
        made_by: str = NOBODY,
    ) -> Exchange:
        """Make an exchange, or check that the one there is the same; who has `rights` made it, else `made_by`."""
        arguments = arguments or {}
        if kind not in EXCHANGE_TYPES:
            raise PreconditionFailed(f"unknown exchange type '{kind}'")
        name = stripped(name)
        check_not_default(name)
        if rights is not None:
            rights.check_exchange("configure", name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            exchange = self._make_exchange(name, kind, arguments, rights)
            exchange.durable = durable
            exchange.auto_delete = auto_delete
            exchange.internal = internal
            exchange.made_by = made_by if rights is None else rights.user_name
            exchange.open(self)
            self.exchanges[name] = exchange
            self.follow(exchange)
            self._broker.changed()
            self._happened("exchange.created", name)
            if durable:
                facts: Facts = {"type": kind, "auto_delete": auto_delete, "internal": internal, "arguments": arguments}
                facts["made_by"] = exchange.made_by
                self._broker.storage.put("exchange", self.name, name, facts)
            return exchange
        check_same("type", exchange.title, kind, exchange.kind)
        check_same("durable", exchange.title, durable, exchange.durable)
        check_same("auto_delete", exchange.title, auto_delete, exchange.auto_delete)
        check_same("internal", exchange.title, internal, exchange.internal)
        check_same_argument("alternate-exchange", exchange.title, arguments, exchange.arguments)
        return exchange

    def _make_exchange(self, name: str, kind: str, arguments: Table, rights: Rights | None) -> Exchange:
        check_unreserved("exchange", name)
        title = self.exchange_title(name)
        check_name_argument(arguments, "alternate-exchange", title)
        if rights is not None and "alternate-exchange" in arguments:
            rights.check_exchange("read", name)
            rights.check_exchange("write", str(arguments["alternate-exchange"]))
        EXCHANGE_TYPES[kind].check_arguments(arguments)
        return EXCHANGE_TYPES[kind](name, title, kind, arguments)

    def find_exchange(self, name: str) -> Exchange:
        """Declare passively: the exchange must be there and not be the default one."""
        name = stripped(name)
        check_not_default(name)
        return self.exchange(name)

    def delete_exchange(self, name: str, if_unused: bool = False, rights: Rights | None = None) -> None:
        """Delete an exchange and its bindings; one that is not there is fine."""
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
        self._remove_exchange(exchange)

    def _remove_exchange(self, exchange: Exchange) -> None:
        del self.exchanges[exchange.name]
        exchange.deleted = True
        exchange.close()
        self._broker.changed()
        self._unbind_all([*exchange.inbound.values(), *exchange.bindings.values()], exchange)

    def forget_exchange(self, exchange: Exchange) -> None:
        """An exchange is gone with all its bindings."""
        self._happened("exchange.deleted", exchange.name)
        anew = self.exchanges.get(exchange.name)
        if exchange.durable and not self.deleted and not (anew and anew.durable):
            self._broker.storage.remove("exchange", self.name, exchange.name)

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
    ) -> Queue:
        """Make a queue, or check that the one there is the same; `owner` is set for an exclusive one."""
        self.churn.queues_declared += 1
        name = stripped(name)
        arguments = self._with_default_type(arguments or {}, durable, auto_delete, owner)
        if name:
            check_unreserved("queue", name)
        elif queue_type(arguments) == "quorum":
            raise PreconditionFailed("Cannot declare a server-named queue for type rabbit_quorum_queue")
        else:
            name = f"amq.gen-{secrets.token_urlsafe(16)}"
        if rights is not None:
            rights.check_queue("configure", name)
        queue = self.queues.get(name)
        # RabbitMQ: an exclusive queue is never durable, whatever was asked.
        durable = durable and owner is None
        if queue is None:
            self._check_dead_letters(name, arguments, rights)
            self._check_new_queue(name, durable, auto_delete, owner, arguments)
            return self._make_queue(name, durable, auto_delete, owner, arguments)
        if queue.owner is not owner:
            raise locked(queue)
        check_same("durable", queue.title, durable, queue.durable)
        check_same("auto_delete", queue.title, auto_delete, queue.auto_delete)
        for key in CHECKS:
            check_same_argument(key, queue.title, arguments, queue.arguments)
        queue.used(self._broker.work.now)
        return queue

    def _with_default_type(self, arguments: Table, durable: bool, auto_delete: bool, owner: object) -> Table:
        """RabbitMQ: the vhost's type of queue is for those that could be of any type."""
        if self.default_queue_type is None or "x-queue-type" in arguments or not durable or auto_delete or owner is not None:
            return arguments
        return {**arguments, "x-queue-type": self.default_queue_type}

    def _check_dead_letters(self, name: str, arguments: Table, rights: Rights | None) -> None:
        check_name_argument(arguments, "x-dead-letter-exchange", self.queue_title(name))
        if rights is not None and "x-dead-letter-exchange" in arguments:
            rights.check_queue("read", name)
            rights.check_exchange("write", str(arguments["x-dead-letter-exchange"]))

    def _check_new_queue(self, name: str, durable: bool, auto_delete: bool, owner: object, arguments: Table) -> None:
        title = self.queue_title(name)
        check_queue_arguments(arguments, title)
        limit = self.limits.get("max-queues")
        if reached(limit, len(self.queues)):
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is reached"
            )
        if queue_type(arguments) == "quorum":
            check_quorum_properties(title, durable, owner is not None, auto_delete)

    def _make_queue(self, name: str, durable: bool, auto_delete: bool, owner: object, arguments: Table) -> Queue:
        title = self.queue_title(name)
        queue = Queue(name, title, self._broker.work, arguments, self._broker.timers)
        queue.durable = durable
        queue.auto_delete = auto_delete
        queue.owner = owner
        queue.expired = DeleteUnused(self, queue)
        if auto_delete:
            queue.unused = queue.expired
        queue.burial = Burial(self, queue)
        if arguments:
            queue.apply(traits_of(arguments, {}, {}), self._broker.work.now)
        self.follow(queue)
        self.queues[name] = queue
        self.churn.queues_created += 1
        self._happened("queue.created", name)
        self._broker.changed()
        if durable:
            facts = {"auto_delete": auto_delete, "arguments": arguments}
            self._broker.storage.adopt(queue, self.name, "queue", facts)
        return queue

    def restore_queue(self, name: str, auto_delete: bool, arguments: Table, durable: bool = True) -> None:
        """Make a queue that storage, or a file of definitions, has kept; its name may be one that the server gave."""
        self._make_queue(name, durable, auto_delete, None, arguments)

    def make_hidden_queue(self, name: str, title: str, durable: bool = False) -> Queue:
        """A queue for an exchange that keeps messages; no client can reach it."""
        queue = Queue(name, title, self._broker.work, {}, self._broker.timers)
        queue.hidden = True
        queue.durable = durable
        self.hidden[queue] = None
        if durable:
            self._broker.storage.adopt(queue, self.name, "hidden", {})
        return queue

    def remove_hidden_queue(self, queue: Queue) -> None:
        """Remove such a queue with its messages."""
        self.hidden.pop(queue, None)
        if queue.durable:
            self._broker.storage.abandon(queue, self.name, "hidden")
        queue.delete()
        queue.dead.clear()

    def delete_queue(self, name: str, owner: object, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue and return how many messages were ready; one that is not there is fine."""
        queue = self.deletable_queue(name, owner, if_unused=if_unused, if_empty=if_empty)
        return 0 if queue is None else self.remove_queue(queue)

    def deletable_queue(self, name: str, owner: object, *, if_unused: bool = False, if_empty: bool = False) -> Queue | None:
        """The queue of that name if it may be deleted so; None if there is none."""
        name = stripped(name)
        if name not in self.queues:
            return None
        queue = self.queue(name, owner)
        if queue_type(queue.arguments) == "quorum":
            for flag, wanted in (("if-unused", if_unused), ("if-empty", if_empty)):
                if wanted:
                    raise NotImplementedFault(
                        f"cannot delete {queue.title}. queue.delete operations with {flag} flag set are not supported "
                        "by quorum queues"
                    )
        if if_empty and queue.ready_count:
            raise PreconditionFailed(f"{queue.title} not empty")
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"{queue.title} in use")
        return queue

    def remove_queue(self, queue: Queue) -> int:
        """Remove a queue with its bindings and messages."""
        del self.queues[queue.name]
        self._unbind_all(list(queue.bindings.values()))  # type: ignore[arg-type]
        if queue.durable:
            self._broker.storage.abandon(queue, self.name, "queue")
        self._broker.changed()
        self._happened("queue.deleted", queue.name)
        count = queue.delete()
        # They know the queue: it is free now, and not when the garbage collector looks at what is old.
        queue.expired = queue.unused = queue.burial = queue.lease = None
        return count

    # Bindings

    def bind(self, source: str, destination: "Destination", routing_key: str, arguments: Table) -> None:
        """Bind; doing it twice changes nothing."""
        exchange = self.exchange(source)
        exchange.check_binding(routing_key, arguments)
        binding = Binding(exchange, destination, routing_key, arguments)
        if binding.key in exchange.bindings:
            return
        exchange.bind(binding)
        inbound(destination)[binding.key] = binding
        self._broker.changed()
        self._happened("binding.created", exchange.name)
        if exchange.durable and destination.durable:
            self._broker.storage.put("binding", self.name, name_of(binding), {"arguments": arguments})

    def unbind(self, source: str, destination: "Destination", routing_key: str, arguments: Table, owner: object) -> None:
        """Unbind for connection `owner`; what is not there is fine."""
        exchange = self.exchanges.get(source)
        if exchange is None:
            return
        binding = exchange.bindings.get(Binding(exchange, destination, routing_key, arguments).key)
        if binding is None:
            return
        if isinstance(destination, Queue):
            check_access(destination, owner)
        self._broker.changed()
        self._unbind_all([binding])

    def unbinding(self) -> Unbind | None:
        """What is left to do of the last removal, if it was a large one."""
        return None if self._unbinding is None or self._unbinding.done else self._unbinding

    def _unbind_all(self, bindings: list[Binding], exchange: Exchange | None = None) -> None:
        task = Unbind(self, bindings, exchange)
        if not task.run(self.work):
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
        if source.auto_delete and not source.bindings and not source.deleted:
            source.deleted = True
            source.close()
            del self.exchanges[source.name]
            self._broker.changed()
            self.forget_exchange(source)
            pending.extend(source.inbound.values())

    def _forget_binding(self, binding: Binding) -> None:
        self._happened("binding.deleted", binding.source.name)
        stored = binding.source.durable and binding.destination.durable and not self.deleted
        if stored and not self._is_made_anew(binding):
            self._broker.storage.remove("binding", self.name, name_of(binding))

    def _is_made_anew(self, binding: Binding) -> bool:
        """Whether the same binding is there between others of the same names: an end was deleted and declared again."""
        source, destination = binding.source, binding.destination
        things: dict[str, Any] = self.queues if isinstance(destination, Queue) else self.exchanges
        new_source, new_destination = self.exchanges.get(source.name), things.get(destination.name)
        if new_source is None or new_destination is None or (new_source is source and new_destination is destination):
            return False
        if not new_source.durable or not new_destination.durable:
            return False
        return Binding(new_source, new_destination, binding.routing_key, binding.arguments).key in new_source.bindings

    # Policies, limits and tracing

    def set_policy(
        self, name: str, pattern: str, definition: dict[str, Any], *, priority: int = 0, apply_to: str = "all"
    ) -> None:
        """Set a policy; what it matches follows it from now on."""
        self.policies.set(Policy(name, pattern, definition, priority, apply_to))
        facts = {"pattern": pattern, "definition": definition, "priority": priority, "apply_to": apply_to}
        self._broker.storage.put("policy", self.name, name, facts)
        self._happened("policy.set", name)
        self._reapply()

    def clear_policy(self, name: str) -> None:
        self.policies.clear(name)
        self._broker.storage.remove("policy", self.name, name)
        self._happened("policy.cleared", name)
        self._reapply()

    def set_operator_policy(
        self, name: str, pattern: str, definition: dict[str, Any], *, priority: int = 0, apply_to: str = "all"
    ) -> None:
        """Set an operator's policy, which a user's policy and arguments cannot exceed."""
        self.operator_policies.set(Policy(name, pattern, definition, priority, apply_to))
        facts = {"pattern": pattern, "definition": definition, "priority": priority, "apply_to": apply_to}
        self._broker.storage.put("operator_policy", self.name, name, facts)
        self._happened("operator_policy.set", name)
        self._reapply()

    def clear_operator_policy(self, name: str) -> None:
        self.operator_policies.clear(name)
        self._broker.storage.remove("operator_policy", self.name, name)
        self._happened("operator_policy.cleared", name)
        self._reapply()

    def _reapply(self) -> None:
        # A piece at once, so that whoever set it sees it done where there is little to do.
        task = Reapply(self)
        if not task.run(self._broker.work):
            self._broker.work.add(task)

    def follow(self, subject: Queue | Exchange) -> None:
        """Have a queue or exchange follow the policies that are for it now."""
        self.work.left -= (len(self.policies.by_name) + len(self.operator_policies.by_name)) // POLICIES_A_UNIT
        kind = queue_type(subject.arguments) if isinstance(subject, Queue) else "exchange"
        policy = self.policies.best(kind, subject.name)
        operator_policy = self.operator_policies.best(kind, subject.name)
        if policy is subject.policy and operator_policy is subject.operator_policy:
            return
        subject.policy = policy
        subject.operator_policy = operator_policy
        definition = {} if policy is None else policy.definition
        if isinstance(subject, Queue):
            limits = {} if operator_policy is None else operator_policy.definition
            subject.apply(traits_of(subject.arguments, definition, limits), self._broker.work.now)
        else:
            subject.follow(definition)
            self._broker.changed()

    def set_default_queue_type(self, kind: str | None) -> None:
        """The type of queues that are declared without one."""
        if kind not in (None, "classic", "quorum"):
            raise PreconditionFailed(f"unsupported queue type '{kind}'")
        self.default_queue_type = kind
        self.store()

    def set_limits(self, limits: dict[str, int]) -> None:
        """Bound the connections and queues; what is there already stays."""
        check_limits(limits, LIMITS, "limits")
        self.limits = dict(limits)
        self.store()

    def describe(self, description: str, tags: tuple[str, ...]) -> None:
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
        self._broker.storage.put("vhost", self.name, "", facts)

    def set_parameter(self, component: str, name: str, value: Any, user: User | None = None) -> None:
        """Set a runtime parameter, for this user. RabbitMQ: limits and the operator's policies can be set as such too."""
        if component == LIMITS_COMPONENT:
            # RabbitMQ: no limits are written as a list.
            self.set_limits({} if value == [] else value)
        elif component == OPERATOR_COMPONENT:
            self.set_operator_policy(name, **_policy_facts(value))
        elif component == "policy":
            raise PreconditionFailed("policies may not be set using this method")
        elif component == SHOVEL_COMPONENT:
            self._set_shovel(name, value, user)
        else:
            raise PreconditionFailed(f"component {component} not found")

    def _set_shovel(self, name: str, value: Any, user: User | None) -> None:
        check_shovel(name, value, None if user is None else lambda vhost_name: self._broker.why_not(user, vhost_name))
        key = (SHOVEL_COMPONENT, name)
        if key not in self.parameters and self._broker.shovel_count() >= SHOVELS_MAX:
            raise PreconditionFailed(f"component {SHOVEL_COMPONENT} is limited to {SHOVELS_MAX} per node")
        if self.parameters.get(key) == value:
            return
        self.parameters[key] = value
        self._broker.storage.put("parameter", self.name, f"{SHOVEL_COMPONENT}\0{name}", {"value": value})
        self._broker.shovel_changed(self.name, name)

    def clear_parameter(self, component: str, name: str) -> None:
        if (component, name) not in self.all_parameters():
            raise NotFound(f"parameter '{name}' of component '{component}' not found")
        if component == LIMITS_COMPONENT:
            self.set_limits({})
        elif component == OPERATOR_COMPONENT:
            self.clear_operator_policy(name)
        else:
            del self.parameters[component, name]
            self._broker.storage.remove("parameter", self.name, f"{component}\0{name}")
            self._broker.shovel_changed(self.name, name)

    def all_parameters(self) -> dict[tuple[str, str], Any]:
        """The runtime parameters by component and name, limits and the operator's policies among them."""
        found = dict(self.parameters)
        if self.limits:
            found[LIMITS_COMPONENT, "limits"] = self.limits
        for policy in self.operator_policies.by_name.values():
            found[OPERATOR_COMPONENT, policy.name] = {
                "pattern": policy.pattern.text,
                "definition": policy.definition,
                "priority": policy.priority,
                "apply-to": policy.apply_to,
            }
        return found

    def set_tracing(self, tracing: bool) -> None:
        """Copy every message published or delivered to amq.rabbitmq.trace, or stop that."""
        self.tracing = tracing
        self.store()
        self._broker.changed()
        for client in self.clients:
            client.recheck()

    def close(self) -> None:
        """It is deleted: end its connections, and remove everything."""
        # Storage has heard of it; another one of this name may be there before everything is removed.
        self.deleted = True
        for _, name in self.parameters:
            self._broker.shovel_changed(self.name, name)
        for client in list(self.clients):
            client.shut(f"vhost '{self.name}' is deleted")
        self._broker.work.add(Demolish(self))

    def route(self, exchange: Exchange, routing_key: str, properties: Properties | None) -> list[Queue]:
        """The queues a message reaches."""
        return self.router.route(exchange, routing_key, properties)

    def publish(self, exchange: Exchange, message: Message, now: int) -> None:
        """Route a message anew that a client has published before, and give it to the queues it reaches."""
        properties = properties_of(message.content, message.header_size)
        keys = [message.origin.routing_key, *carbon_copies(properties.headers or {}, "CC"), *message.origin.blind]
        queues = self.router.route_all(exchange, keys, properties)
        self.router.keep(message, now)
        for queue in queues:
            push(queue, message, now)


def _policy_facts(value: Any) -> dict[str, Any]:
    """A policy that is written as a parameter."""
    if not isinstance(value, dict):
        raise PreconditionFailed(f"policy should be an object, actually was {term(value)}")
    for key in ("pattern", "definition"):
        if key not in value:
            raise PreconditionFailed(f'Key "{key}" not found in policy')
    return {
        "pattern": value["pattern"],
        "definition": value["definition"],
        "priority": value.get("priority", 0),
        "apply_to": value.get("apply-to", "all"),
    }


def inbound(destination: "Destination") -> dict[object, object]:
    """The bindings that lead to a queue or exchange."""
    if isinstance(destination, Queue):
        return destination.bindings
    return destination.inbound  # type: ignore[return-value]


def name_of(binding: Binding) -> str:
    """A binding's own name: source, kind and name of the destination, routing key and arguments."""
    kind = "queue" if isinstance(binding.destination, Queue) else "exchange"
    arguments = repr(frozen(binding.arguments))
    # Written as Python writes it: names may contain anything.
    return repr((binding.source.name, kind, binding.destination.name, binding.routing_key, arguments))


def check_access(queue: Queue, owner: object) -> None:
    """Refuse a queue that is exclusive to another connection."""
    if queue.owner is not None and queue.owner is not owner:
        raise locked(queue)


def locked(queue: Queue) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {queue.title}. It could be originally declared on another "
        "connection or the exclusive property value does not match that of the original declaration."
    )


def stripped(name: str) -> str:
    # RabbitMQ: line ends are taken out of names.
    return name.replace("\n", "").replace("\r", "")


def check_not_default(name: str) -> None:
    if not name:
        raise AccessRefused("operation not permitted on the default exchange")


def check_unreserved(kind: str, name: str) -> None:
    if name.startswith("amq."):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_name_argument(arguments: Table, key: str, title: str) -> None:
    if key in arguments and not isinstance(arguments[key], str):
        raise PreconditionFailed(f"invalid type '{kind_of(arguments[key])}' for arg '{key}' in {title}")
