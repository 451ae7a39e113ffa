"""What there is, as the naive broker knows it: exchanges, queues, bindings and policies, in lists and dictionaries.

A queue, an exchange, a binding or a message is a dictionary; a route is found by trying every binding, and what a queue's
policies are by trying every policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from leveret.wire import spec

# A queue, exchange, binding, consumer, channel, message, or a message's place in a queue.
Thing = dict[str, Any]
Where = tuple[int, int]

SMALLEST = ("message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit")
KNOWN = (
    *(f"x-{key}" for key in SMALLEST),
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-single-active-consumer",
    "x-message-deduplication",
    "x-cache-size",
    "x-cache-ttl",
)
PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}
NO_POLICY: Thing = {"number": 0, "definition": {}}


class Fault(Exception):
    """Closes the channel, or from 500 on the connection; the explanation begins with one of `texts`."""

    def __init__(self, code: int, *texts: str) -> None:
        self.code = code
        self.texts = texts


class Topology:
    """Exchanges, queues, bindings and policies, and what is said about them."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.queues: dict[str, Thing] = {}
        self.exchanges = {
            name: new_exchange(name, kind, internal=name.endswith("trace")) for name, kind in PREDECLARED.items()
        }
        self.bindings: list[Thing] = []
        self.consumers: list[Thing] = []
        self.unacked: list[Thing] = []
        self.channels: dict[Where, Thing] = {}
        self.policies: dict[tuple[bool, str], Thing] = {}
        self.later: list[tuple[str, Thing]] = []
        self.number = 0
        self.reads = 0
        self.said: dict[Where, list[Any]] = {}
        self.seen: list[str] = []
        self.names: list[str] = []

    def say(self, channel: Thing, *items: Any) -> None:
        self.said.setdefault(channel["where"], []).extend(items)

    def answer(self, channel: Thing, asked: Any, item: Any) -> None:
        if not getattr(asked, "no_wait", False):
            self.say(channel, item)

    # Exchanges

    def find_exchange(self, name: str) -> Thing:
        if name not in self.exchanges:
            raise Fault(404, f"no exchange '{name}' in vhost '/'")
        return self.exchanges[name]

    def on_exchange_declare(self, channel: Thing, m: spec.ExchangeDeclare) -> None:
        if not m.exchange:
            raise Fault(403, "operation not permitted on the default exchange")
        if m.passive:
            self.find_exchange(m.exchange)
        elif m.exchange in self.exchanges:
            there = self.exchanges[m.exchange]
            title = f"exchange '{m.exchange}' in vhost '/'"
            texts = [
                f"inequivalent arg '{name}' for {title}: received '{shown(new)}' but current is '{shown(old)}'"
                for name, new, old in (
                    ("type", m.type, there["kind"]),
                    ("durable", m.durable, there["durable"]),
                    ("auto_delete", m.auto_delete, there["auto_delete"]),
                    ("internal", m.internal, there["internal"]),
                )
                if new != old
            ]
            texts += inequivalent(title, m.arguments, there["arguments"])
            if texts:
                raise Fault(406, *texts)
        elif m.exchange.startswith("amq."):
            raise Fault(403, f"exchange name '{m.exchange}' contains reserved prefix 'amq.*'")
        else:
            made = new_exchange(m.exchange, m.type, m.durable, m.auto_delete, m.internal, m.arguments)
            self.exchanges[m.exchange] = made
        self.answer(channel, m, spec.ExchangeDeclareOk())

    def on_exchange_delete(self, channel: Thing, m: spec.ExchangeDelete) -> None:
        if not m.exchange:
            raise Fault(403, "operation not permitted on the default exchange")
        if m.exchange.startswith("amq."):
            raise Fault(403, f"deletion of system exchange '{m.exchange}' in vhost '/' not allowed")
        if m.if_unused and any(binding["source"] == m.exchange for binding in self.bindings):
            raise Fault(406, f"exchange '{m.exchange}' in vhost '/' in use")
        if self.exchanges.pop(m.exchange, None) is not None:
            self.bindings = [binding for binding in self.bindings if binding["source"] != m.exchange]
            self.unbind(lambda binding: (binding["kind"], binding["destination"]) == ("exchange", m.exchange))
        self.answer(channel, m, spec.ExchangeDeleteOk())

    # Bindings

    def unbind(self, chosen: Callable[[Thing], bool]) -> None:
        """Remove bindings, and with the last one its source, if that is how it was declared."""
        gone = [binding for binding in self.bindings if chosen(binding)]
        self.bindings = [binding for binding in self.bindings if binding not in gone]
        for name in dict.fromkeys(binding["source"] for binding in gone):
            leading = [binding for binding in self.bindings if binding["source"] == name]
            if name in self.exchanges and self.exchanges[name]["auto_delete"] and not leading:
                del self.exchanges[name]
                self.seen.append("exchange auto-deleted")
                self.unbind(lambda binding, name=name: (binding["kind"], binding["destination"]) == ("exchange", name))  # type: ignore[misc]

    def add_binding(self, source: str, kind: str, destination: str, key: str, arguments: Thing) -> None:
        binding = {"source": source, "kind": kind, "destination": destination, "key": key, "arguments": arguments}
        if binding not in self.bindings:
            self.bindings.append(binding)

    def on_exchange_bind(self, channel: Thing, m: spec.ExchangeBind) -> None:
        self.find_exchange(m.source)
        self.find_exchange(m.destination)
        self.add_binding(m.source, "exchange", m.destination, m.routing_key, m.arguments)
        self.answer(channel, m, spec.ExchangeBindOk())

    def on_exchange_unbind(self, channel: Thing, m: spec.ExchangeUnbind) -> None:
        binding = {"source": m.source, "kind": "exchange", "destination": m.destination}
        self.unbind(lambda one: one == {**binding, "key": m.routing_key, "arguments": m.arguments})
        self.answer(channel, m, spec.ExchangeUnbindOk())

    def on_queue_bind(self, channel: Thing, m: spec.QueueBind) -> None:
        if not m.exchange:
            raise Fault(403, "operation not permitted on the default exchange")
        self.find_exchange(m.exchange)
        queue = self.find_queue(channel, m.queue)
        key = m.routing_key or ("" if m.queue else queue["name"])
        self.add_binding(m.exchange, "queue", queue["name"], key, m.arguments)
        self.answer(channel, m, spec.QueueBindOk())

    def on_queue_unbind(self, channel: Thing, m: spec.QueueUnbind) -> None:
        binding = {"source": m.exchange, "kind": "queue", "destination": m.queue}
        wanted = {**binding, "key": m.routing_key, "arguments": m.arguments}
        if wanted in self.bindings:
            self.find_queue(channel, m.queue)
        self.unbind(lambda one: one == wanted)
        self.say(channel, spec.QueueUnbindOk())

    def routed(self, name: str, keys: list[str], headers: Thing) -> list[Thing]:
        """The queues a message reaches, each once."""
        found: list[str] = []
        seen: list[str] = []
        pending = [name]
        while pending:
            name = pending.pop(0)
            if name in seen or name not in self.exchanges:
                continue
            seen.append(name)
            exchange = self.exchanges[name]
            leading = [
                binding
                for binding in self.bindings
                if binding["source"] == name and any(leads_on(exchange, binding, key, headers) for key in keys)
            ]
            found += [binding["destination"] for binding in leading if binding["kind"] == "queue"]
            pending += [binding["destination"] for binding in leading if binding["kind"] == "exchange"]
            if not name:
                found += [key for key in keys if key in self.queues]
            alternate = self.alternate_of(exchange)
            if alternate and not leading:
                self.seen.append("alternate")
                pending.append(alternate)
        return [self.queues[name] for name in dict.fromkeys(found)]

    def alternate_of(self, exchange: Thing) -> str | None:
        """Where what an exchange cannot route goes; the default one has no such."""
        policy = self.best_policy("exchanges", exchange["name"], False) if exchange["name"] else NO_POLICY
        found = {**policy["definition"], **exchange["arguments"]}
        return found.get("alternate-exchange")

    # Queues

    def consumers_of(self, queue: Thing) -> list[Thing]:
        return [consumer for consumer in self.consumers if consumer["queue"] is queue]

    def find_queue(self, channel: Thing, name: str) -> Thing:
        name = name or channel["last_queue"]
        if not name:
            raise Fault(404, "no previously declared queue")
        if name not in self.queues:
            raise Fault(404, f"no queue '{name}' in vhost '/'")
        queue = self.queues[name]
        if queue["owner"] not in (None, channel["where"][0]):
            raise Fault(405, f"cannot obtain exclusive access to locked queue '{name}' in vhost '/'")
        return queue

    def on_queue_declare(self, channel: Thing, m: spec.QueueDeclare) -> None:
        queue = self.find_queue(channel, m.queue) if m.passive else self.declared(channel, m)
        queue["used_at"] = self.now
        channel["last_queue"] = queue["name"]
        count = len(self.consumers_of(queue))
        self.answer(channel, m, spec.QueueDeclareOk(queue["name"], len(queue["ready"]), count))

    def declared(self, channel: Thing, m: spec.QueueDeclare) -> Thing:
        if m.queue.startswith("amq."):
            raise Fault(403, f"queue name '{m.queue}' contains reserved prefix 'amq.*'")
        name = m.queue or self.names.pop(0)
        title = f"queue '{name}' in vhost '/'"
        owner = channel["where"][0] if m.exclusive else None
        durable = m.durable and not m.exclusive
        if name not in self.queues:
            wrong = invalid(m.arguments)
            if wrong:
                raise Fault(406, *(f"invalid arg '{argument}' for {title}: " for argument in wrong))
            self.queues[name] = new_queue(name, owner, durable, m.auto_delete, m.arguments)
            self.follow(self.queues[name])
            return self.queues[name]
        there = self.queues[name]
        if there["owner"] != owner:
            raise Fault(405, f"cannot obtain exclusive access to locked {title}")
        for field, new in (("durable", durable), ("auto_delete", m.auto_delete)):
            if there[field] != new:
                text = f"received '{shown(new)}' but current is '{shown(there[field])}'"
                raise Fault(406, f"inequivalent arg '{field}' for {title}: {text}")
        texts = inequivalent(title, m.arguments, there["arguments"])
        if texts:
            raise Fault(406, *texts)
        return there

    def on_queue_delete(self, channel: Thing, m: spec.QueueDelete) -> None:
        if (m.queue or channel["last_queue"]) not in self.queues:
            self.answer(channel, m, spec.QueueDeleteOk(0))
            return
        queue = self.find_queue(channel, m.queue)
        if m.if_empty and queue["ready"]:
            raise Fault(406, f"queue '{queue['name']}' in vhost '/' not empty")
        if m.if_unused and self.consumers_of(queue):
            raise Fault(406, f"queue '{queue['name']}' in vhost '/' in use")
        self.answer(channel, m, spec.QueueDeleteOk(len(queue["ready"])))
        self.remove_queue(queue)

    def remove_queue(self, queue: Thing) -> None:
        """A queue goes with its messages; its consumers are told, if they can be."""
        del self.queues[queue["name"]]
        queue["deleted"] = True
        queue["ready"] = []
        self.unbind(lambda binding: (binding["kind"], binding["destination"]) == ("queue", queue["name"]))
        for consumer in self.consumers_of(queue):
            channel = self.channels.get(consumer["where"])
            if channel is not None and consumer["notified"]:
                self.say(channel, spec.BasicCancel(consumer["tag"], no_wait=True))
        self.consumers = [consumer for consumer in self.consumers if consumer["queue"] is not queue]

    def on_queue_purge(self, channel: Thing, m: spec.QueuePurge) -> None:
        queue = self.find_queue(channel, m.queue)
        self.answer(channel, m, spec.QueuePurgeOk(len(queue["ready"])))
        queue["ready"] = []

    # Policies

    def follow(self, queue: Thing) -> None:
        """Find the policies that are for a queue; other ones than before begin to count now."""
        before = queue["policies"]
        queue["policies"] = [self.best_policy("queues", queue["name"], operator) for operator in (False, True)]
        if before == queue["policies"]:
            return
        self.seen.append("another policy")
        queue["used_at"] = self.now
        life = self.setting(queue, "message-ttl")
        for place in queue["ready"] + [held["place"] for held in self.unacked if held["queue"] is queue]:
            if life is not None and (place["expires_at"] is None or place["expires_at"] > self.now + life):
                place["expires_at"] = self.now + life

    def best_policy(self, kind: str, name: str, operator: bool) -> Thing:
        fitting = [
            policy
            for (by_operator, _), policy in self.policies.items()
            if by_operator == operator and policy["apply_to"] in ("all", kind) and re.search(policy["pattern"], name)
        ]
        return max(fitting, key=lambda policy: policy["priority"], default=NO_POLICY)

    def setting(self, queue: Thing, key: str) -> Any:
        """What a queue's arguments and policies say together."""
        policy, operator = (policy["definition"] for policy in queue["policies"])
        given = [queue["arguments"].get(f"x-{key}"), operator.get(key), policy.get(key)]
        known = [value for value in given if value is not None]
        if key in SMALLEST:
            return min(known, default=None)
        return known[0] if known else {"overflow": "drop-head"}.get(key)


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def fits_topic(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(fits_topic(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and fits_topic(pattern[1:], words[1:])


def fits_headers(arguments: Thing, headers: Thing) -> bool:
    form = arguments.get("x-match", "all")
    wanted = [name for name in arguments if name != "x-match" and ("with-x" in form or not name.startswith("x-"))]
    found = [name in headers and arguments[name] in (None, headers[name]) for name in wanted]
    return any(found) if form.startswith("any") else all(found)


def leads_on(exchange: Thing, binding: Thing, key: str, headers: Thing) -> bool:
    if exchange["kind"] == "topic":
        return fits_topic(words_of(binding["key"]), words_of(key))
    if exchange["kind"] == "headers":
        return fits_headers(binding["arguments"], headers)
    return bool(exchange["kind"] == "fanout" or binding["key"] == key)


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def described(arguments: Thing, name: str) -> str:
    if name not in arguments:
        return "none"
    kind = {bool: "bool", int: "long", str: "longstr"}[type(arguments[name])]
    return f"the value '{shown(arguments[name])}' of type '{kind}'"


def inequivalent(title: str, received: Thing, current: Thing) -> list[str]:
    """What a second declaration is refused with, one text for each argument that differs."""
    texts = []
    for name in sorted({*received, *current} & {*KNOWN, "alternate-exchange"}):
        if received.get(name) != current.get(name):
            if name in received and name in current:
                text = f"received '{shown(received[name])}' but current is '{shown(current[name])}'"
            else:
                text = f"received {described(received, name)} but current is {described(current, name)}"
            texts.append(f"inequivalent arg '{name}' for {title}: {text}")
    return texts


def invalid(arguments: Thing) -> list[str]:
    """The arguments that no queue can have."""
    found = [name for name in KNOWN if isinstance(arguments.get(name), int) and arguments[name] < 0]
    if arguments.get("x-expires") == 0:
        found.append("x-expires")
    if arguments.get("x-overflow", "drop-head") not in ("drop-head", "reject-publish", "reject-publish-dlx"):
        found.append("x-overflow")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        found.append("x-dead-letter-routing-key")
    return found


def new_exchange(
    name: str,
    kind: str,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: Thing | None = None,
) -> Thing:
    return {
        "name": name,
        "kind": kind,
        "durable": durable,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": arguments or {},
    }


def new_queue(name: str, owner: int | None, durable: bool, auto_delete: bool, arguments: Thing) -> Thing:
    """A queue; `served` had the last message, `waiting` had room for it too, `remembered` are keys that have left."""
    return {
        "name": name,
        "owner": owner,
        "durable": durable,
        "auto_delete": auto_delete,
        "arguments": arguments,
        "policies": [NO_POLICY, NO_POLICY],
        "deleted": False,
        "ready": [],
        "dead": [],
        "remembered": [],
        "used_at": 0,
        "served": None,
        "waiting": [],
    }
