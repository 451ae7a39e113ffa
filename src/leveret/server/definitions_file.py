"""RabbitMQ's definitions file: what is defined in one broker as JSON, to be defined in another.

(1) Exported are vhosts, users, rights, policies, parameters, exchanges, queues and bindings; not what belongs to a
    connection, and not what every vhost has.
(2) An import is all or nothing: it is rehearsed on a copy of the broker, and then either everything wrong is told, each
    with its place in the file, or everything is made. It may be done in steps, between which others have their turn; what
    they have made impossible meanwhile is told, and the rest is made.
(3) RabbitMQ: a queue or exchange that is there already stays as it is; everything else is set as the file says.
(4) RabbitMQ: keys that are not known are passed over, since later versions add some; so are exchanges that are called
    `amq.…`, and bindings of what is not there: exclusive queues and internal exchanges are not exported, but theirs are.
(5) What RabbitMQ has and there cannot be here is a fault that says what to do, or is left out if that is wanted.
(6) Files of `rabbitmqctl export_definitions` have lists of pairs in place of some objects.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from leveret.broker.access import SHA256, USER_LIMITS, check_limits
from leveret.broker.arguments import check_queue_arguments
from leveret.broker.binding import Binding
from leveret.broker.broker import Broker
from leveret.broker.exchange import Exchange
from leveret.broker.policy import Policy
from leveret.broker.queue import Queue
from leveret.broker.vhost import PREDECLARED, VirtualHost, name_of
from leveret.errors import AMQPError, PreconditionFailed
from leveret.protocol.handshake import SERVER_PROPERTIES
from leveret.server.counterparts import lacking, objects, plain_type
from leveret.server.from_json import check_values, checked_name, checked_table
from leveret.wire.values import Table

Facts = dict[str, Any]

SYSTEM_EXCHANGES = {"", *(name for name, _, _ in PREDECLARED)}
# RabbitMQ: may log in only from the machine itself, whoever makes it.
LOCAL_USER = "guest"
UNDEFINED = (None, "", "undefined", "null")
# Where rabbitmqctl has lists of pairs in place of objects.
PAIRS = {
    "users": ("limits",),
    "vhosts": ("limits", "metadata"),
    "parameters": ("value",),
    "policies": ("definition",),
}
FAULTS_TOLD = 20
# What files begin with that rabbitmqctl writes with --format erlang.
ERLANG_TERM = b"\x83"

log = logging.getLogger("leveret.definitions")


class BadFile(Exception):
    """A file that cannot be imported; the text says why, for each thing that is wrong."""


# Out


class Section(NamedTuple):
    """Things of one kind, how they are sorted, and what the file says of one."""

    things: Iterable[Any]
    key: Callable[[Any], Any]
    facts: Callable[[Any], Facts]


def export(broker: Broker) -> Facts:
    """Everything defined in a broker."""
    found = export_head(broker)
    for _, vhost in sorted(broker.vhosts.items()):
        for kind, items in _inside(vhost).items():
            found.setdefault(kind, []).extend({"vhost": vhost.name, **item} for item in items)
    return said(found)


def export_head(broker: Broker) -> Facts:
    """What is defined in a broker besides what is in its vhosts."""
    version = str(SERVER_PROPERTIES["version"])
    vhosts = [vhost for _, vhost in sorted(broker.vhosts.items())]
    users = [user for _, user in sorted(broker.users.items())]
    all_rights = [rights for user in users for _, rights in sorted(user.rights.items())]
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "RabbitMQ",
        "product_version": version,
        "users": [
            {
                "name": user.name,
                "password_hash": user.password_hash,
                "hashing_algorithm": user.hashing,
                "tags": list(user.tags),
                "limits": user.limits,
            }
            for user in users
        ],
        "vhosts": [vhost_facts(vhost) for vhost in vhosts],
        "permissions": [
            {
                "user": rights.user_name,
                "vhost": rights.vhost_name,
                **{name: rights.pattern(name) for name in ("configure", "write", "read")},
            }
            for rights in all_rights
            if rights.granted
        ],
        "topic_permissions": [
            {"user": rights.user_name, "vhost": rights.vhost_name, "exchange": exchange, "write": write, "read": read}
            for rights in all_rights
            for exchange, (write, read) in sorted(rights.topics.items())
        ],
        "global_parameters": [{"name": name, "value": value} for name, value in sorted(broker.parameters.items())],
    }


def export_vhost(vhost: VirtualHost) -> Facts:
    """What is defined in a vhost, to be imported into any."""
    return said({**export_vhost_head(), **_inside(vhost)})


def export_vhost_head() -> Facts:
    return {"rabbit_version": str(SERVER_PROPERTIES["version"])}


def _inside(vhost: VirtualHost) -> dict[str, list[Facts]]:
    return {
        kind: [section.facts(thing) for thing in sorted(section.things, key=section.key)]
        for kind, section in sections(vhost).items()
    }


def sections(vhost: VirtualHost) -> dict[str, Section]:
    """What is in a vhost. Things may be taken one by one while the vhost changes: bindings last, and only between those that
    were there for both.
    """
    parameters, policies = list(vhost.all_parameters().items()), list(vhost.policies.by_name.values())
    exchanges, queues = list(vhost.exchanges.values()), list(vhost.queues.values())
    return {
        "parameters": Section(parameters, itemgetter(0), _parameter_facts),
        "policies": Section(policies, attrgetter("name"), policy_facts),
        "queues": Section(
            (queue for queue in queues if queue.owner is None), attrgetter("name"), partial(_queue_facts, vhost)
        ),
        "exchanges": Section(
            (exchange for exchange in exchanges if exchange.name not in SYSTEM_EXCHANGES),
            attrgetter("name"),
            _exchange_facts,
        ),
        "bindings": Section(_bindings_between(exchanges, queues), _binding_order, _binding_facts),
    }


def _bindings_between(exchanges: list[Exchange], queues: list[Queue]) -> Iterator[Binding]:
    known: set[object] = {*exchanges, *(queue for queue in queues if queue.owner is None)}
    for source in exchanges:
        for binding in list(source.bindings.values()):
            if binding.destination in known:
                yield binding


def _binding_order(binding: Binding) -> tuple[str, str]:
    return binding.source.name, name_of(binding)


def _parameter_facts(parameter: tuple[tuple[str, str], Any]) -> Facts:
    (component, name), value = parameter
    return {"component": component, "name": name, "value": value}


def vhost_facts(vhost: VirtualHost) -> Facts:
    facts: Facts = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        facts["default_queue_type"] = vhost.default_queue_type
    return {"name": vhost.name, **facts, "metadata": facts}


def policy_facts(policy: Policy) -> Facts:
    return {
        "name": policy.name,
        "pattern": policy.pattern.text,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def _queue_facts(vhost: VirtualHost, queue: Queue) -> Facts:
    arguments = json_value(queue.arguments)
    if vhost.default_queue_type is not None and "x-queue-type" not in arguments:
        # Made before the vhost had such a default, or not durable.
        arguments["x-queue-type"] = "classic"
    return {"name": queue.name, "durable": queue.durable, "auto_delete": queue.auto_delete, "arguments": arguments}


def _exchange_facts(exchange: Exchange) -> Facts:
    return {
        "name": exchange.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": json_value(exchange.arguments),
    }


def _binding_facts(binding: Binding) -> Facts:
    return {
        "source": binding.source.name,
        "destination": binding.destination.name,
        "destination_type": "queue" if isinstance(binding.destination, Queue) else "exchange",
        "routing_key": binding.routing_key,
        "arguments": json_value(binding.arguments),
    }


def json_value(value: Any) -> Any:
    """A value of a field table as JSON has it."""
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, bool | str) or value is None:
        return value
    # Numbers remember how wide they were on the wire.
    return int(value) if isinstance(value, int) else float(value)


def said(found: Facts) -> Facts:
    """Without what has octets in its names that are no text, which JSON cannot say."""
    for kind, items in found.items():
        if isinstance(items, list) and not is_sayable(items):
            found[kind] = [item for item in items if is_sayable(item)]
            warn_left_out(kind, [item for item in items if not is_sayable(item)])
    return found


def warn_left_out(kind: str, items: list[Facts]) -> None:
    """Say what is not in the file, since a name in it is no text."""
    # Only names: users have passwords.
    titles = ", ".join(ascii(kind + _title(item)) for item in items)
    log.warning("not exported, since a name in it is no text: %s", titles)


def is_sayable(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


# In


def read_file(path: str) -> Facts:
    """The definitions in a JSON file, or BadFile."""
    try:
        return parse(Path(path).read_bytes())
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from None
    except BadFile as error:
        raise BadFile(f"{path} is no definitions file: {error}") from None


def parse(data: bytes) -> Facts:
    """The definitions in a JSON text, or BadFile."""
    if data.startswith(ERLANG_TERM):
        raise BadFile("it is in Erlang's own format, not JSON: export it with --format json")
    try:
        found = msgspec.json.decode(data) if data.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadFile("failed_to_parse_json") from None
    if not isinstance(found, dict):
        raise BadFile("not an object")
    return found


class Choices:
    """How a file is imported: into one `vhost`, if it is named, and whether what has no counterpart here is left out.

    `left_out` says then what that is, and why.
    """

    __slots__ = ("left_out", "skip_unsupported", "vhost")

    def __init__(self, vhost: str | None = None, skip_unsupported: bool = False) -> None:
        self.vhost = vhost
        self.skip_unsupported = skip_unsupported
        self.left_out: list[str] = []


def import_definitions(broker: Broker, found: Facts, choices: Choices | None = None) -> None:
    """Make what a file defines; or raise BadFile and make nothing."""
    for _ in steps_of_import(broker, found, choices or Choices()):
        pass


def steps_of_import(broker: Broker, found: Facts, choices: Choices) -> Iterator[None]:
    """The same a step at a time: one thing is copied or made in each."""
    copy = Broker(broker.settings)
    yield from _rehearse(broker, copy)
    for one in (copy, broker):
        choices.left_out = []
        work = Import(one, found, choices)
        yield from work.steps()
        faults = work.faults
        if faults:
            more = f"; and {len(faults) - FAULTS_TOLD} more" if len(faults) > FAULTS_TOLD else ""
            raise BadFile("; ".join(faults[:FAULTS_TOLD]) + more)
    for line in choices.left_out:
        log.warning("left out, since it has no counterpart here: %s", line)


def _rehearse(broker: Broker, copy: Broker) -> Iterator[None]:
    """Give a broker that keeps nothing as much of this one as decides what can be imported."""
    for user in list(broker.users.values()):
        copy.add_hashed_user(user.name, user.password_hash, user.hashing)
        yield
    for vhost in list(broker.vhosts.values()):
        twin = copy.add_vhost(vhost.name)
        for exchange in list(vhost.exchanges.values()):
            if exchange.name not in SYSTEM_EXCHANGES:
                twin.declare_exchange(exchange.name, exchange.kind, arguments=exchange.arguments)
                yield
        for queue in list(vhost.queues.values()):
            twin.restore_queue(queue.name, queue.auto_delete, queue.arguments, queue.durable)
            yield
        twin.set_default_queue_type(vhost.default_queue_type)
        twin.set_limits(vhost.limits)


class Import:
    """A file on its way into a broker: everything is made in the order in which one needs the other.

    What cannot be, and why, is in `faults`.
    """

    __slots__ = ("_broker", "_choices", "_found", "_pairs", "_version", "faults")

    def __init__(self, broker: Broker, found: Facts, choices: Choices) -> None:
        self._broker = broker
        self._found = found
        self._choices = choices
        self._version = str(found.get("rabbit_version") or found.get("rabbitmq_version") or "")
        # RabbitMQ: rabbitmqctl does not name the product. In other files a list of pairs may be one.
        self._pairs = PAIRS if "product_name" in found else {**PAIRS, "global_parameters": ("value",)}
        self.faults: list[str] = []

    def steps(self) -> Iterator[None]:
        for kind in MAKERS if self._choices.vhost is None else VHOST_MAKERS:
            items = self._found.get(kind) or []
            if isinstance(items, dict) and kind == "global_parameters":
                items = [{"name": name, "value": value} for name, value in items.items()]
            if not isinstance(items, list):
                self.faults.append(f"{kind}: must be a list")
                continue
            for at, facts in enumerate(items):
                where = f"{kind}[{at}]{_title(facts)}"
                try:
                    self._make(kind, self._with_objects(kind, facts), where)
                except AMQPError as error:
                    self.faults.append(f"{where}: {error}")
                yield

    def _with_objects(self, kind: str, facts: Any) -> Any:
        if not isinstance(facts, dict):
            return facts
        names = self._pairs.get(kind, ())
        return {name: objects(value) if name in names else value for name, value in facts.items()}

    def _make(self, kind: str, facts: Any, where: str) -> None:
        """Make one thing. What has no counterpart of it is left out, if that is wanted."""
        make, choices = MAKERS[kind], self._choices
        try:
            make(self._broker, Item(facts, choices.vhost, self._version))
        except AMQPError as error:
            found = lacking(kind, facts) if isinstance(facts, dict) else None
            if found is None:
                raise
            if not choices.skip_unsupported:
                raise PreconditionFailed(f"{error}: {found.advice}") from None
            choices.left_out.append(f"{where}: {error}")
            if found.left is not None:
                make(self._broker, Item(found.left, choices.vhost, self._version))


def _title(facts: Any) -> str:
    if not isinstance(facts, dict):
        return ""
    name = facts.get("name") or facts.get("user") or facts.get("source")
    vhost = facts.get("vhost")
    return f" ({name}{f' in {vhost}' if vhost else ''})" if name else ""


class Item:
    """One entry of the file. What it lacks, or has of a wrong kind, is a fault."""

    __slots__ = ("_facts", "_vhost", "version")

    def __init__(self, facts: Any, vhost: str | None, version: str) -> None:
        if not isinstance(facts, dict):
            raise PreconditionFailed("must be an object")
        check_values(facts, "it")
        self._facts = facts
        self._vhost = vhost
        self.version = version

    def get(self, key: str, default: Any = None) -> Any:
        return self._facts.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._facts

    def need(self, key: str) -> Any:
        if key not in self._facts:
            raise PreconditionFailed(f"{key} is missing")
        return self._facts[key]

    def text(self, key: str) -> str:
        found = self.need(key)
        if not isinstance(found, str):
            raise PreconditionFailed(f"{key} must be text")
        return found

    def name(self, key: str) -> str:
        """A text that clients can be told of."""
        return checked_name(self.text(key), key)

    def flag(self, key: str) -> bool:
        found = self.get(key, False)
        if found not in (True, False, "true", "false"):
            raise PreconditionFailed(f"{key} must be true or false")
        return found in (True, "true")

    def table(self, key: str) -> Table:
        # RabbitMQ: old versions wrote a table without entries as a list.
        found = {} if self.get(key) in UNDEFINED else self.get(key) or {}
        if not isinstance(found, dict):
            raise PreconditionFailed(f"{key} must be an object")
        return checked_table(found, key)

    def vhost(self, broker: Broker) -> VirtualHost:
        return broker.find_vhost(self.text("vhost") if self._vhost is None else self._vhost)


def tags_of(tags: Any) -> tuple[str, ...]:
    """Tags as a list, or as text with commas."""
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise PreconditionFailed("tags must be a list or comma-separated text")
    return tuple(tag.strip() for tag in tags if tag.strip())


def put_user(broker: Broker, name: str, facts: Facts | Item, version: str = "") -> None:
    """Make or change a user as RabbitMQ does. Without a password and a hash it can no longer log in with one.

    Rights and limits that are not named stay; `permissions`, by vhost, are for a new user only.
    """
    if "tags" in facts:
        tags = tags_of(facts.get("tags"))
    elif "administrator" in facts:
        tags = ("administrator",) if facts.get("administrator") in (True, "true") else ()
    else:
        raise PreconditionFailed("tags_not_present")
    if "password" in facts and "password_hash" in facts:
        raise PreconditionFailed("both_password_and_password_hash_are_provided")
    limits = facts.get("limits") or {}
    check_limits(limits, USER_LIMITS, "user-limits")
    rights = {} if name in broker.users else permissions_of(broker, facts.get("permissions") or {})
    if name in broker.users and "password" not in facts and "password_hash" not in facts:
        # RabbitMQ: this clears the password and sets tags, and looks at nothing else.
        limits = {}
    local = name == LOCAL_USER
    if "password_hash" in facts:
        hashing = str(facts.get("hashing_algorithm") or _hashing_of(version))
        broker.add_hashed_user(name, str(facts.get("password_hash")), hashing, tags, local)
    else:
        broker.add_user(name, str(facts.get("password") or ""), tags, local)
    if limits:
        broker.set_user_limits(name, {**broker.users[name].limits, **limits})
    for vhost, patterns in rights.items():
        broker.set_permissions(name, vhost, *patterns)


def permissions_of(broker: Broker, found: Any) -> dict[str, list[str]]:
    """A new user's rights by vhost, each of which must be there."""
    if not isinstance(found, dict):
        raise PreconditionFailed("permissions must be an object")
    granted = {}
    for vhost, facts in found.items():
        item = Item(facts, vhost, "")
        granted[item.vhost(broker).name] = [item.text(key) for key in ("configure", "write", "read")]
    return granted


def _hashing_of(version: str) -> str:
    """RabbitMQ: until 3.6 there was one way to hash passwords, and files did not name it."""
    old = version.startswith(("1.", "2.", "3.0", "3.1.", "3.2.", "3.3.", "3.4.", "3.5."))
    return "rabbit_password_hashing_md5" if old else SHA256


def _make_user(broker: Broker, item: Item) -> None:
    put_user(broker, item.name("name"), item, item.version)


def _make_vhost(broker: Broker, item: Item) -> None:
    vhost = broker.add_vhost(item.name("name"))
    facts: Facts = {**item.table("metadata")}
    facts |= {key: item.get(key) for key in ("description", "tags", "default_queue_type") if key in item}
    if "description" in facts or "tags" in facts:
        vhost.describe(str(facts.get("description") or ""), tags_of(facts.get("tags") or []))
    kind = plain_type(facts.get("default_queue_type"))
    if kind is not None:
        vhost.set_default_queue_type(kind)
    if item.get("limits") and item.get("limits") not in UNDEFINED:
        vhost.set_limits(item.get("limits"))
    if item.flag("tracing") != vhost.tracing and "tracing" in item:
        vhost.set_tracing(item.flag("tracing"))


def _make_permission(broker: Broker, item: Item) -> None:
    patterns = [item.text(key) for key in ("configure", "write", "read")]
    broker.set_permissions(item.name("user"), item.vhost(broker).name, *patterns)


def _make_topic_permission(broker: Broker, item: Item) -> None:
    exchange, write, read = item.name("exchange"), item.text("write"), item.text("read")
    broker.set_topic_permissions(item.name("user"), item.vhost(broker).name, exchange, write, read)


def _make_global_parameter(broker: Broker, item: Item) -> None:
    broker.set_parameter(item.name("name"), item.need("value"))


def _make_parameter(broker: Broker, item: Item) -> None:
    item.vhost(broker).set_parameter(item.text("component"), item.name("name"), item.need("value"))


def _make_policy(broker: Broker, item: Item) -> None:
    item.vhost(broker).set_policy(
        item.name("name"),
        item.text("pattern"),
        item.need("definition"),
        priority=item.get("priority", 0),
        apply_to=item.get("apply-to", "all"),
    )


def _make_exchange(broker: Broker, item: Item) -> None:
    vhost = item.vhost(broker)
    name = item.name("name")
    if name in vhost.exchanges or name.startswith("amq."):
        return
    vhost.declare_exchange(
        name,
        item.text("type"),
        durable=item.flag("durable"),
        auto_delete=item.flag("auto_delete"),
        internal=item.flag("internal"),
        arguments=item.table("arguments"),
    )


def _make_queue(broker: Broker, item: Item) -> None:
    vhost = item.vhost(broker)
    name = item.name("name")
    durable, auto_delete = item.flag("durable"), item.flag("auto_delete")
    if not name:
        raise PreconditionFailed("name must not be empty")
    if name in vhost.queues:
        return
    arguments = item.table("arguments")
    kind = plain_type(item.get("type"))
    if kind is not None and "x-queue-type" not in arguments and (kind != "classic" or vhost.default_queue_type):
        arguments = {**arguments, "x-queue-type": kind}
    if not name.startswith("amq."):
        vhost.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)
        return
    check_queue_arguments(arguments, vhost.queue_title(name))
    vhost.restore_queue(name, auto_delete, arguments, durable)


def _make_binding(broker: Broker, item: Item) -> None:
    vhost = item.vhost(broker)
    source, name = item.name("source"), item.name("destination")
    if not source:
        # Every queue has this one.
        return
    kind = item.get("destination_type", "queue")
    if kind not in ("queue", "exchange"):
        raise PreconditionFailed("destination_type must be queue or exchange")
    key, arguments = item.name("routing_key"), item.table("arguments")
    destination = vhost.exchanges.get(name) if kind == "exchange" else vhost.queues.get(name)
    if destination is None or source not in vhost.exchanges:
        log.info(
            "a binding from '%s' to %s '%s' in vhost '%s' is passed over: one is not there", source, kind, name, vhost.name
        )
        return
    vhost.bind(source, destination, key, arguments)


Maker = Callable[[Broker, Item], None]
# What is inside of a vhost, and everything; in the order in which one needs the other.
VHOST_MAKERS: dict[str, Maker] = {
    "parameters": _make_parameter,
    "policies": _make_policy,
    "exchanges": _make_exchange,
    "queues": _make_queue,
    "bindings": _make_binding,
}
MAKERS: dict[str, Maker] = {
    "vhosts": _make_vhost,
    "users": _make_user,
    "permissions": _make_permission,
    "topic_permissions": _make_topic_permission,
    "global_parameters": _make_global_parameter,
    **VHOST_MAKERS,
}
