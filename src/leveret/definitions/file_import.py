"""Definitions into a broker, from RabbitMQ's file.

(1) An import is all or nothing: it is rehearsed on a copy of the broker, and then either everything wrong is told, each
    with its place in the file, or everything is made. It may be done in steps, between which others have their turn; what
    they have made impossible meanwhile is told, and the rest is made.
(2) RabbitMQ: a queue or exchange that is there already stays as it is; everything else is set as the file says.
(3) RabbitMQ: keys that are not known are passed over, since later versions add some; so are exchanges that are called
    `amq.…`, and bindings of what is not there: exclusive queues and internal exchanges are not exported, but theirs are.
(4) What RabbitMQ has and there cannot be here is a fault that says what to do, or is left out if that is wanted.
(5) Files of `rabbitmqctl export_definitions` have lists of pairs in place of some objects.
"""

import logging
from collections.abc import Iterator
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.command import NOBODY, Command, DeclareQueue, Proposed, apply
from leveret.definitions.exchange import SYSTEM_EXCHANGES
from leveret.definitions.file import BadFile, title_of
from leveret.definitions.item import Facts, Item
from leveret.definitions.kind import SECTIONS, VHOST_SECTIONS
from leveret.definitions.unsupported import lacking, objects
from leveret.errors import AMQPError, PreconditionFailed

# Where rabbitmqctl has lists of pairs in place of objects.
PAIRS = {
    "users": ("limits",),
    "vhosts": ("limits", "metadata"),
    "parameters": ("value",),
    "policies": ("definition",),
}
FAULTS_TOLD = 20

log = logging.getLogger("leveret.definitions")


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


def steps_of_import(broker: Broker, found: Facts, choices: Choices) -> Iterator[Command | None]:
    """The same a step at a time: one thing is copied or made in each. A step that is a command must be agreed on first."""
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
            flags = (queue.durable, queue.auto_delete, False)
            apply(copy, DeclareQueue(vhost.name, queue.name, *flags, queue.arguments, by=NOBODY, at=copy.now))
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

    def steps(self) -> Iterator[Command | None]:
        for kind in SECTIONS if self._choices.vhost is None else VHOST_SECTIONS:
            items = self._found.get(kind) or []
            if isinstance(items, dict) and kind == "global_parameters":
                items = [{"name": name, "value": value} for name, value in items.items()]
            if not isinstance(items, list):
                self.faults.append(f"{kind}: must be a list")
                continue
            for at, facts in enumerate(items):
                where = f"{kind}[{at}]{title_of(facts)}"
                while (command := self._try_to_make(kind, facts, where)) is not None:
                    yield command
                yield None

    def _try_to_make(self, kind: str, facts: object, where: str) -> Command | None:
        """Make one thing; in a cluster, a command that must be agreed on before, if there is one."""
        try:
            self._make(kind, self._with_objects(kind, facts), where)
        except Proposed as proposed:
            return proposed.command
        except AMQPError as error:
            self.faults.append(f"{where}: {error}")
        return None

    def _with_objects(self, kind: str, facts: Any) -> Any:
        if not isinstance(facts, dict):
            return facts
        names = self._pairs.get(kind, ())
        return {name: objects(value) if name in names else value for name, value in facts.items()}

    def _make(self, kind: str, facts: Any, where: str) -> None:
        """Make one thing. What has no counterpart of it is left out, if that is wanted."""
        read, choices = SECTIONS[kind], self._choices
        try:
            read(self._broker, Item(facts, choices.vhost, self._version))
        except AMQPError as error:
            found = lacking(kind, facts) if isinstance(facts, dict) else None
            if found is None:
                raise
            if not choices.skip_unsupported:
                raise PreconditionFailed(f"{error}: {found.advice}") from None
            choices.left_out.append(f"{where}: {error}")
            if found.left is not None:
                read(self._broker, Item(found.left, choices.vhost, self._version))
