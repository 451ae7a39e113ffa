"""Random dialogues of three clients with a broker, against a naive broker in plain lists and dictionaries.

Each step is a command of one client, a burst of publishes or acknowledgements, the end of a connection, or time that
passes; after each of them everything is compared (see `twins`). A difference comes with all steps that led to it.

The suite takes a little more than 10,000 steps, always the same. MODEL_STEPS=1000000 takes so many, with a new seed each
time; MODEL_SEED takes one again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from tests.properties.naive import Content
from tests.properties.naive_topology import Thing, Where
from tests.properties.twins import SLOTS, Command, Mishaps, Twins

from leveret.wire import spec
from leveret.wire.properties import Properties

STEPS = 10_000
SEED = 2
STEPS_A_DIALOGUE = 100
# With more, hypothesis goes on with variations of what it has tried already.
DIALOGUES_A_SEED = 10

QUEUES = ("a", "b", "c", "d")
EXCHANGES = ("x", "y", "z")
EVERY_EXCHANGE = (*EXCHANGES, "amq.direct", "amq.fanout", "amq.topic", "amq.headers")
KEYS = ("k", "k.l", "a", "b", "")
PATTERNS = (*KEYS, "#", "*", "k.#", "#.l", "*.l")
KINDS = ("direct", "fanout", "topic", "headers")
ALTERNATES: list[dict[str, Any]] = [
    {},
    *({"alternate-exchange": name} for name in ("y", "z", "amq.fanout", "amq.topic", "nowhere", "")),
]

Pairs = list[tuple[str, Any]]
# What a queue may have, some of it together, as it makes sense only so.
DEAD_LETTERS: list[Thing] = [
    *({"x-dead-letter-exchange": name} for name in ("", "x", "amq.fanout", "amq.topic", "nowhere")),
    *({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key} for key in ("a", "b", "c", "d")),
    {"x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "k.l"},
]
TRAITS: list[Thing] = [
    *({"x-message-ttl": life} for life in (0, 10, 30, 30, 100)),
    *({"x-max-length": length} for length in (0, 1, 2, 4)),
    *({"x-max-length-bytes": size} for size in (5, 30)),
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-max-length": 3, "x-overflow": "reject-publish"},
    {"x-max-length": 2, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": ""},
    {"x-max-length-bytes": 20, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "amq.fanout"},
    *({"x-max-priority": highest} for highest in (1, 5, 5)),
    *({"x-delivery-limit": limit} for limit in (0, 1, 1, 2)),
    {"x-delivery-limit": 0, "x-dead-letter-exchange": "amq.fanout"},
    *({"x-delivery-limit": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": key} for key in ("a", "d")),
    {"x-message-deduplication": True},
    *({"x-message-deduplication": True, "x-cache-size": size} for size in (0, 1, 2)),
    {"x-message-deduplication": True, "x-cache-ttl": 50},
    {"x-message-deduplication": True, "x-cache-ttl": 50, "x-cache-size": 1},
    *({"x-single-active-consumer": True},) * 3,
    *({"x-expires": time} for time in (40, 40, 300)),
]
DEFINITIONS: list[Thing] = [
    {"message-ttl": 0},
    {"message-ttl": 20},
    {"message-ttl": 60},
    {"max-length": 0},
    {"max-length": 2},
    {"max-length-bytes": 12},
    {"max-length": 1, "overflow": "reject-publish"},
    {"max-length": 3, "overflow": "reject-publish-dlx"},
    {"overflow": "drop-head"},
    {"delivery-limit": 1},
    {"expires": 50},
    {"dead-letter-exchange": ""},
    {"dead-letter-exchange": "amq.fanout"},
    {"dead-letter-exchange": "", "dead-letter-routing-key": "b"},
    {"dead-letter-routing-key": "c"},
    {"alternate-exchange": "amq.fanout"},
    {"alternate-exchange": "y"},
]
# An operator may say no more than how much there may be, and for how long.
NOT_FOR_OPERATORS = {"dead-letter-exchange", "dead-letter-routing-key", "alternate-exchange"}
OPERATOR_DEFINITIONS = [definition for definition in DEFINITIONS if not NOT_FOR_OPERATORS & set(definition)]
MATCHED = ("", "^a$", "a|b", "[cd]", "^[x-z]", "amq", "nothing")
CHANGES: Pairs = [("x-message-ttl", 31), ("x-max-length", 3), ("x-max-priority", 4), ("x-dead-letter-exchange", "z")]
INVALID: Pairs = [
    ("x-max-length", -1),
    ("x-expires", 0),
    ("x-overflow", "drop-tail"),
    ("x-dead-letter-routing-key", "k"),
]
HEADERS: Pairs = [
    *(("x-deduplication-header", key) for key in ("one", "one", "two", "two", "three", 4)),
    *(("CC", keys) for keys in (["a"], ["b", "k.l"])),
    *(("BCC", keys) for keys in (["c"], ["a", "k"])),
    *(("h", value) for value in (1, 2)),
    ("g", "text"),
    ("x-h", True),
]
MATCHES: Pairs = [
    *(("x-match", form) for form in ("all", "any", "all-with-x", "any-with-x")),
    *(("h", value) for value in (1, 2, None)),
    ("g", "text"),
    ("x-h", True),
]
FAULTY = (Properties(expiration="soon"), Properties(user_id="somebody"), Properties(headers={"CC": "a"}))


def some(pairs: Pairs, count: int) -> st.SearchStrategy[Thing]:
    return st.lists(st.sampled_from(pairs), max_size=count).map(dict)


def mixed(plainest: Any, make: Callable[[random.Random], Any]) -> st.SearchStrategy[Any]:
    """Some of the many things that can be made, always the same ones: a draw for each detail would take too long."""
    dice = random.Random(0)
    return st.sampled_from([plainest, *(make(dice) for _ in range(250))])


def together(settings: list[Thing]) -> Thing:
    return {name: value for trait in settings for name, value in trait.items()}


wheres = st.sampled_from([(slot, number) for slot in range(SLOTS) for number in (1, 2)])
queues = st.sampled_from(QUEUES)
exchanges = st.sampled_from([*EXCHANGES, *EVERY_EXCHANGE])
flags = st.booleans()
# What ends much of what the others build up must not happen at every other step.
rarely = st.integers(0, 7).map(lambda number: number == 7)
queue_arguments = mixed(
    {},
    lambda dice: together(dice.choices(TRAITS, k=dice.randint(0, 2)) + dice.choices(DEAD_LETTERS, k=dice.randint(0, 1))),
)
counts = st.sampled_from([0, 0, 1, 2, 4])
sizes = st.sampled_from([0, 0, 0, 10, 25])
messages = mixed(
    (Properties(), 0, False),
    lambda dice: (
        Properties(
            headers=dict(dice.choices(HEADERS, k=dice.randint(0, 2))) or None,
            delivery_mode=dice.choice([None, 2]),
            priority=dice.choice([None, None, 0, 1, 3, 9]),
            expiration=dice.choice([None, None, None, "0", "10", "30", "100"]),
        ),
        dice.choice([0, 0, 1, 6, 20]),
        dice.choice([False, True]),
    ),
)
bursts = mixed(["a"], lambda dice: dice.choices(QUEUES, k=dice.randint(1, 4)))
key_bursts = mixed(["k"], lambda dice: dice.choices(KEYS, k=dice.randint(1, 3)))
patterns = st.sampled_from(PATTERNS)
tags = st.sampled_from("stuv")
# How many octets of a burst come in the first read.
cuts = st.sampled_from([1.0, 1.0, 0.3, 0.7, 0.95])


def weighted(**weights: int) -> st.SearchStrategy[str]:
    """The names of some methods, each as often as its number says."""
    return st.sampled_from([name for name, weight in weights.items() for _ in range(weight)])


class BrokerMachine(RuleBasedStateMachine):
    """What can be done to the twins; `seen` counts what all runs together have met with.

    What happens often is a rule of its own; the others are drawn by their weights, so that what ends much of what has been
    built up happens less often.
    """

    seen: ClassVar[Counter[str]] = Counter()
    mishaps: ClassVar[Mishaps] = Mishaps()

    @initialize(
        declared=st.lists(queue_arguments, min_size=2, max_size=4),
        kinds=st.lists(st.tuples(st.sampled_from(KINDS), flags, st.sampled_from(ALTERNATES)), max_size=2),
        bindings=st.lists(st.tuples(queues, exchanges, patterns), max_size=4),
        modes=st.lists(st.tuples(wheres, st.sampled_from([spec.ConfirmSelect(), spec.TxSelect()])), max_size=2),
        consumers=st.lists(st.tuples(wheres, queues, counts, sizes, rarely), min_size=1, max_size=4),
    )
    def begin(
        self,
        declared: list[Thing],
        kinds: list[tuple[str, bool, Thing]],
        bindings: list[tuple[str, str, str]],
        modes: list[tuple[Where, spec.Method]],
        consumers: list[tuple[Where, str, int, int, bool]],
    ) -> None:
        self.twins = Twins(self.seen, self.mishaps)
        self.bodies = 0
        for name, arguments in zip(QUEUES, declared, strict=False):
            self.tell((0, 1), spec.QueueDeclare(name, arguments=arguments))
        for exchange, (kind, auto_delete, arguments) in zip(EXCHANGES, kinds, strict=False):
            self.tell((0, 1), spec.ExchangeDeclare(exchange, kind, auto_delete=auto_delete, arguments=arguments))
        for name, exchange, pattern in bindings:
            if name in self.naive.queues and exchange in self.naive.exchanges:
                self.tell((0, 1), spec.QueueBind(name, exchange, pattern))
        for where, mode in modes:
            self.tell(where, mode)
        for tag, (where, name, count, size, shared) in zip("vwxy", consumers, strict=False):
            if name in self.naive.queues:
                self.tell(where, spec.BasicQos(size, count, shared))
                self.tell(where, spec.BasicConsume(name, tag))

    @property
    def naive(self) -> Any:
        return self.twins.naive

    def there(self, name: str) -> str:
        """This queue, or another one if it is not there."""
        return name if name in self.naive.queues else min(self.naive.queues, default=name)

    def tell(self, where: Where, *commands: Command, cut: float = 1.0) -> None:
        self.twins.tell(self.twins.channel(*where), *commands, cut=cut)

    # Publishing

    def content(self, properties: Properties, padding: int) -> Content:
        self.bodies += 1
        return properties, b"%d" % self.bodies + b"." * padding

    def publish(
        self, where: Where, places: list[tuple[str, str]], message: tuple[Properties, int, bool], cut: float
    ) -> None:
        """One or more messages in one read, or in two."""
        properties, padding, mandatory = message
        commands: list[Command] = [
            (spec.BasicPublish(exchange, key, mandatory), self.content(properties, padding)) for exchange, key in places
        ]
        self.tell(where, *commands, cut=cut)

    @rule(where=wheres, names=bursts, message=messages, cut=cuts)
    def publish_by_name(self, where: Where, names: list[str], message: tuple[Properties, int, bool], cut: float) -> None:
        self.publish(where, [("", name) for name in names], message, cut)

    @rule(where=wheres, name=queues, count=st.integers(1, 6))
    def publish_plainly(self, where: Where, name: str, count: int) -> None:
        self.publish(where, [("", self.there(name))] * count, (Properties(), 0, False), 1.0)

    @rule(where=wheres, exchange=exchanges, some=key_bursts, message=messages, odd=rarely)
    def publish_by_exchange(
        self, where: Where, exchange: str, some: list[str], message: tuple[Properties, int, bool], odd: bool
    ) -> None:
        there = self.naive.exchanges.get(exchange)
        if there is None or there["internal"]:
            exchange = exchange if odd else "amq.topic"
        self.publish(where, [(exchange, key) for key in some], message, 1.0)

    # Consuming

    @rule(where=wheres, name=queues, no_ack=flags, odd=rarely)
    def get(self, where: Where, name: str, no_ack: bool, odd: bool) -> None:
        """Mostly from a queue with something in it."""
        full = [queue["name"] for queue in self.naive.queues.values() if queue["ready"]]
        self.tell(where, spec.BasicGet(name if odd or name in full or not full else full[0], no_ack))

    @rule(
        where=wheres,
        name=queues,
        tag=tags,
        details=st.sampled_from([*[(False, False)] * 5, *[(True, False)] * 2, (False, True)]),
        priority=st.sampled_from([0, 0, 1, -1]),
        odd=rarely,
    )
    def consume(self, where: Where, name: str, tag: str, details: tuple[bool, bool], priority: int, odd: bool) -> None:
        at = self.twins.channel(*where)
        used = [consumer["tag"] for consumer in self.naive.consumers if consumer["where"] == at]
        if not odd:
            name, tag = self.there(name), tag if tag not in used else f"{tag}{len(used)}"
        arguments: Thing = {"x-priority": priority} if priority else {}
        self.tell(where, spec.BasicConsume(name, tag, False, *details, False, arguments))

    @precondition(lambda self: self.naive.unacked)
    @rule(data=st.data(), acts=st.lists(weighted(ack=2, nack=2, reject=1), min_size=1, max_size=4), requeue=flags)
    def settle(self, data: st.DataObject, acts: list[str], requeue: bool) -> None:
        """Settle some of a channel's deliveries in one read, rarely several at once."""
        at = data.draw(st.sampled_from(self.naive.unacked))["where"]
        tags = [one["tag"] for one in self.naive.outstanding(at)]
        commands: list[Command] = []
        for act in acts:
            multiple = act != "reject" and data.draw(rarely)
            if tags:
                tag = data.draw(st.sampled_from([0, *tags] if multiple else tags))
                commands.append(settlement(act, tag, multiple, requeue))
                tags = [one for one in tags if one != tag and not (multiple and (one < tag or tag == 0))]
        if commands:
            self.twins.tell(at, *commands)

    @precondition(lambda self: self.naive.unacked)
    @rule(first=flags, how=weighted(ack=1, nack=3), requeue=st.sampled_from([True, True, False]))
    def settle_everything(self, first: bool, how: str, requeue: bool) -> None:
        """Of the channel that has the oldest unacknowledged message, or the newest."""
        held = self.naive.unacked[0 if first else -1]
        self.twins.tell(held["where"], settlement(how, 0, True, requeue))

    @rule(
        data=st.data(),
        what=weighted(
            qos=5,
            cancel=4,
            recover=2,
            select=2,
            end_transaction=6,
            settle_unknown=1,
            publish_wrongly=1,
            close_channel=2,
            close=1,
            lose=1,
            shut=1,
        ),
    )
    def do_on_channel(self, data: st.DataObject, what: str) -> None:
        getattr(self, what)(data, data.draw(wheres))

    def qos(self, data: st.DataObject, where: Where) -> None:
        self.tell(where, spec.BasicQos(data.draw(sizes), data.draw(counts), data.draw(flags)))

    def cancel(self, data: st.DataObject, where: Where) -> None:
        consumers = [(consumer["where"], consumer["tag"]) for consumer in self.naive.consumers]
        if consumers and not data.draw(rarely):
            at, tag = data.draw(st.sampled_from(consumers))
            self.twins.tell(at, spec.BasicCancel(tag))
        else:
            self.tell(where, spec.BasicCancel(data.draw(tags)))

    def recover(self, data: st.DataObject, where: Where) -> None:
        self.tell(where, spec.BasicRecover(requeue=True))

    def settle_unknown(self, data: st.DataObject, where: Where) -> None:
        self.tell(where, spec.BasicAck(data.draw(st.sampled_from([0, 1, 99]))))

    def select(self, data: st.DataObject, where: Where) -> None:
        self.tell(where, data.draw(st.sampled_from([spec.ConfirmSelect(), spec.TxSelect()])))

    def end_transaction(self, data: st.DataObject, where: Where) -> None:
        """One that was begun, mostly."""
        begun = [at for at, channel in self.naive.channels.items() if channel["transaction"]]
        method = data.draw(st.sampled_from([spec.TxCommit(), spec.TxCommit(), spec.TxRollback()]))
        if begun:
            self.twins.tell(data.draw(st.sampled_from(begun)), method)
        elif data.draw(rarely):
            self.tell(where, method)

    # Time, and the ends of channels and connections

    @rule(time=st.sampled_from([1, 9, 10, 25, 25]), late=rarely)
    def wait(self, time: int, late: bool) -> None:
        self.twins.wait(time, late)

    @rule(time=st.sampled_from([39, 50, 60, 300, 1500]), late=rarely)
    def wait_long(self, time: int, late: bool) -> None:
        self.twins.wait(time, late)

    def close_channel(self, data: st.DataObject, where: Where) -> None:
        self.tell(where, spec.ChannelClose(200, "enough"))

    def close(self, data: st.DataObject, where: Where) -> None:
        self.twins.close(where[0])

    def lose(self, data: st.DataObject, where: Where) -> None:
        self.twins.lose(where[0])

    def shut(self, data: st.DataObject, where: Where) -> None:
        self.twins.shut(where[0])

    def publish_wrongly(self, data: st.DataObject, where: Where) -> None:
        properties = data.draw(st.sampled_from(FAULTY))
        self.publish(where, [("", data.draw(queues))] * 2, (properties, 0, False), 1.0)

    # Queues, exchanges and bindings

    @rule(
        data=st.data(),
        what=weighted(
            declare=6,
            declare_again=3,
            declare_nameless=1,
            declare_wrongly=1,
            purge=3,
            delete=3,
            declare_exchange=3,
            declare_exchange_again=1,
            delete_exchange=1,
            bind=6,
            bind_exchange=3,
            unbind=2,
            set_policy=6,
            clear_policy=3,
        ),
    )
    def change(self, data: st.DataObject, what: str) -> None:
        getattr(self, what)(data, data.draw(wheres))

    def declare(self, data: st.DataObject, where: Where) -> None:
        """Mostly a queue that is not there: another declaration of one that is there is refused."""
        missing = [name for name in QUEUES if name not in self.naive.queues]
        if missing != [] or data.draw(rarely):
            name = data.draw(st.sampled_from(missing or QUEUES))
            details = data.draw(st.tuples(flags, rarely, rarely))
            self.tell(where, spec.QueueDeclare(name, False, *details, False, data.draw(queue_arguments)))

    def declare_again(self, data: st.DataObject, where: Where) -> None:
        """With the same details, or with one argument changed."""
        queue = self.naive.queues.get(data.draw(queues))
        if queue is not None:
            changed = data.draw(st.sampled_from([*[None] * 9, *CHANGES]))
            arguments = queue["arguments"] if changed is None else dict([*queue["arguments"].items(), changed])
            details = (queue["durable"], queue["owner"] is not None, queue["auto_delete"])
            self.tell(where, spec.QueueDeclare(queue["name"], data.draw(flags), *details, False, arguments))

    def declare_nameless(self, data: st.DataObject, where: Where) -> None:
        """A name made by the server, bound as the last one declared."""
        exchange = data.draw(exchanges)
        if len(self.naive.queues) < 6 and exchange in self.naive.exchanges:
            self.tell(where, spec.QueueDeclare(exclusive=data.draw(flags), arguments={"x-expires": 200}))
            self.tell(where, spec.QueueBind("", exchange, data.draw(patterns)))

    def declare_wrongly(self, data: st.DataObject, where: Where) -> None:
        name, wrong = data.draw(st.sampled_from(["new", "amq.new"])), data.draw(st.sampled_from(INVALID))
        self.tell(where, spec.QueueDeclare(name, arguments=dict([wrong])))

    def delete(self, data: st.DataObject, where: Where) -> None:
        name = data.draw(queues) if data.draw(rarely) else self.there(data.draw(queues))
        self.tell(where, spec.QueueDelete(name, data.draw(rarely), data.draw(rarely)))

    def purge(self, data: st.DataObject, where: Where) -> None:
        name = data.draw(queues) if data.draw(rarely) else self.there(data.draw(queues))
        self.tell(where, spec.QueuePurge(name))

    def declare_exchange(self, data: st.DataObject, where: Where) -> None:
        missing = [name for name in EXCHANGES if name not in self.naive.exchanges]
        if missing != [] or data.draw(rarely):
            name, kind = data.draw(st.sampled_from(missing or EXCHANGES)), data.draw(st.sampled_from(KINDS))
            details, arguments = data.draw(st.tuples(rarely, flags, rarely)), data.draw(st.sampled_from(ALTERNATES))
            self.tell(where, spec.ExchangeDeclare(name, kind, False, *details, False, arguments))

    def declare_exchange_again(self, data: st.DataObject, where: Where) -> None:
        exchange = self.naive.exchanges.get(data.draw(exchanges))
        if exchange is not None:
            durable, auto_delete, internal = (exchange[field] for field in ("durable", "auto_delete", "internal"))
            names, arguments = (exchange["name"], exchange["kind"], data.draw(flags)), exchange["arguments"]
            self.tell(where, spec.ExchangeDeclare(*names, durable, auto_delete, internal, False, arguments))

    def delete_exchange(self, data: st.DataObject, where: Where) -> None:
        name = data.draw(st.sampled_from([*EXCHANGES, *EXCHANGES, "amq.topic", ""]))
        self.tell(where, spec.ExchangeDelete(name, data.draw(flags)))

    def bind(self, data: st.DataObject, where: Where) -> None:
        """Ends that are there, mostly."""
        name, source = data.draw(queues), data.draw(exchanges)
        if (name in self.naive.queues and source in self.naive.exchanges) or data.draw(rarely):
            arguments = self.binding_arguments(data, source)
            self.tell(where, spec.QueueBind(name, source, data.draw(patterns), False, arguments))

    def bind_exchange(self, data: st.DataObject, where: Where) -> None:
        name, source = data.draw(exchanges), data.draw(exchanges)
        if (name in self.naive.exchanges and source in self.naive.exchanges) or data.draw(rarely):
            arguments = self.binding_arguments(data, source)
            self.tell(where, spec.ExchangeBind(name, source, data.draw(patterns), False, arguments))

    def binding_arguments(self, data: st.DataObject, source: str) -> Thing:
        headers = source in self.naive.exchanges and self.naive.exchanges[source]["kind"] == "headers"
        return data.draw(some(MATCHES, 3)) if headers else {}

    def unbind(self, data: st.DataObject, where: Where) -> None:
        if self.naive.bindings:
            binding = data.draw(st.sampled_from(self.naive.bindings))
            name, source, arguments = binding["destination"], binding["source"], binding["arguments"]
            key = "another" if data.draw(rarely) else binding["key"]
            if binding["kind"] == "queue":
                self.tell(where, spec.QueueUnbind(name, source, key, arguments))
            else:
                self.tell(where, spec.ExchangeUnbind(name, source, key, False, arguments))

    def set_policy(self, data: st.DataObject, where: Where) -> None:
        """One of two names for each kind; their priorities are never the same."""
        operator, first = data.draw(flags), data.draw(flags)
        definitions = st.lists(st.sampled_from(OPERATOR_DEFINITIONS if operator else DEFINITIONS), min_size=1, max_size=2)
        policy = {
            "pattern": data.draw(st.sampled_from(MATCHED)),
            "definition": together(data.draw(definitions)),
            "priority": 2 * data.draw(st.integers(0, 2)) + first,
            "apply_to": data.draw(st.sampled_from(["queues"] if operator else ["all", "queues", "exchanges"])),
        }
        self.twins.set_policy(operator, "first" if first else "second", policy)

    def clear_policy(self, data: st.DataObject, where: Where) -> None:
        if self.naive.policies:
            operator, name = data.draw(st.sampled_from(sorted(self.naive.policies)))
            self.twins.set_policy(operator, name, None)


def settlement(act: str, tag: int, multiple: bool, requeue: bool) -> Command:
    if act == "ack":
        return spec.BasicAck(tag, multiple)
    return spec.BasicNack(tag, multiple, requeue) if act == "nack" else spec.BasicReject(tag, requeue)


def run(number: int) -> None:
    """Take some dialogues, always the same for one number."""
    calm = settings(
        max_examples=DIALOGUES_A_SEED,
        stateful_step_count=STEPS_A_DIALOGUE,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    machine = seed(number)(type("BrokerMachine", (BrokerMachine,), {}))
    with BrokerMachine.mishaps.noted():
        try:
            run_state_machine_as_test(machine, settings=calm)
        except AssertionError as error:
            error.add_note(f"with MODEL_SEED={number}")
            raise


# A model that meets with nothing agrees with everything.
LEAST = {
    "acked": 100,
    "alternate": 100,
    "another policy": 80,
    "closed with 403": 30,
    "closed with 404": 50,
    "closed with 405": 1,
    "closed with 406": 50,
    "closed with 530": 1,
    "committed": 2,
    "confirmed": 50,
    "cycle": 20,
    "dead: delivery_limit": 1,
    "dead: expired": 50,
    "dead: maxlen": 50,
    "dead: rejected": 50,
    "deduplicated": 20,
    "delivered": 700,
    "exchange auto-deleted": 1,
    "got": 80,
    "queue deleted by itself": 5,
    "redelivered": 200,
    "refused": 1,
    "reject-publish": 20,
    "reject-publish-dlx": 10,
    "rejected": 50,
    "requeued": 80,
    "returned": 200,
    "rolled back": 1,
}


def test_random_dialogues() -> None:
    seen = BrokerMachine.seen
    seen.clear()
    wanted = max(STEPS, int(os.environ.get("MODEL_STEPS", STEPS)))
    number = int(os.environ.get("MODEL_SEED", random.SystemRandom().randrange(1 << 32) if wanted > STEPS else SEED))
    while seen["steps"] < wanted:
        run(number)
        number += 1
    assert seen["steps"] >= STEPS
    assert {name: seen[name] for name in LEAST if seen[name] < LEAST[name]} == {}
