"""Who did what, from where, and what came of it: a line in the log for each, and a message where that is set.

(1) Logins and refusals, over AMQP and HTTP, and whatever is changed through the HTTP API. What clients declare over AMQP is
    not here: the log of connections and the command log have it.
(2) A line is one JSON object, in the log's category `leveret.audit`. The names of events are RabbitMQ's.
(3) Over HTTP each request is a login: those that succeed are of the level debug, all others info.
(4) No secret is in it: of a command only what is named here is said, so neither passwords, hashes nor what is in parameters,
    as the URIs of shovels.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from leveret.broker.broker import Broker
from leveret.broker.command import Command
from leveret.broker.event_exchange import VHOST, PublishEvent, declare_event_exchange, event_table

HTTP = "http"
# How RabbitMQ calls it, for each command.
EVENTS = {
    "AddVhost": "vhost.created",
    "DeleteVhost": "vhost.deleted",
    "DescribeVhost": "vhost.description.set",
    "SetDefaultQueueType": "vhost.default_queue_type.set",
    "SetLimits": "vhost.limits.set",
    "SetTracing": "vhost.tracing.set",
    "AddUser": "user.created",
    "DeleteUser": "user.deleted",
    "AddToken": "token.created",
    "DeleteToken": "token.deleted",
    "SetLoopbackOnly": "user.loopback_only.set",
    "SetUserLimits": "user.limits.set",
    "SetPermissions": "permission.created",
    "ClearPermissions": "permission.deleted",
    "SetTopicPermissions": "topic.permission.created",
    "ClearTopicPermissions": "topic.permission.deleted",
    "SetGlobalParameter": "parameter.set",
    "ClearGlobalParameter": "parameter.cleared",
    "SetParameter": "parameter.set",
    "ClearParameter": "parameter.cleared",
    "SetPolicy": "policy.set",
    "ClearPolicy": "policy.cleared",
    "DeclareExchange": "exchange.created",
    "DeleteExchange": "exchange.deleted",
    "DeclareQueue": "queue.created",
    "DeleteQueue": "queue.deleted",
    "Bind": "binding.created",
    "Unbind": "binding.deleted",
}
# What of a command is said. A field that is in none of these two may be a secret, and is not.
SAID = {
    *("vhost", "user", "id", "name", "tags", "scopes", "expires_at", "limits", "loopback_only", "operator"),
    *("exchange", "component", "pattern", "priority", "apply_to", "durable", "auto_delete", "exclusive", "kind"),
    *("configure", "write", "read", "internal", "source", "destination", "to_queue", "routing_key"),
    *("description", "tracing", "home"),
}
NOT_SAID = {"by", "at", "password_hash", "hashing", "digest", "created_at", "made_at", "value", "definition", "arguments"}

T = TypeVar("T")

log = logging.getLogger("leveret.audit")


class Audit:
    """What is said of a broker."""

    def __init__(self, broker: Broker, publish: bool = False) -> None:
        self._broker = broker
        self._publish = publish
        # User and address, while a request changes something.
        self._origin: tuple[str, str] | None = None
        self._next: Callable[[Command], None] | None = None
        broker.churn.logins.on_attempt = self._on_attempt
        if publish:
            declare_event_exchange(broker)

    @contextmanager
    def origin(self, user: str, address: str) -> Iterator[None]:
        """What is changed in this block is changed by this user, from there."""
        # Otherwise nobody is called, and no values are made of the many bindings of clients.
        self._origin, self._next = (user, address), self._broker.on_command
        self._broker.on_command = self._on_command
        try:
            yield
        finally:
            self._broker.on_command, self._origin = self._next, None

    def call(self, function: Callable[[], T], user: str, address: str) -> T:
        """Call a function; what it changes is changed by this user, from there."""
        with self.origin(user, address):
            return function()

    def say(self, event: str, result: str, level: int = logging.INFO, **facts: object) -> None:
        """Something has happened."""
        if log.isEnabledFor(level):
            log.log(level, "%s", json.dumps({"event": event, "result": result, **facts}, ensure_ascii=True))
        vhost = self._broker.vhosts.get(VHOST) if self._publish else None
        if vhost is not None:
            self._broker.work.add(PublishEvent(vhost, event, event_table({"result": result, **facts})))

    def _on_command(self, command: Command) -> None:
        if self._next is not None:
            self._next(command)
        if self._origin is not None:
            by, address = self._origin
            facts = {name: getattr(command, name) for name in command.__struct_fields__ if name in SAID}
            self.say(EVENTS[type(command).__name__], "ok", by=by, address=address, **facts)

    def _on_attempt(self, protocol: str, address: str, user: str, succeeded: bool) -> None:
        kind = "success" if succeeded else "failure"
        level = logging.DEBUG if succeeded and protocol == HTTP else logging.INFO
        result = "ok" if succeeded else "refused"
        self.say(f"user.authentication.{kind}", result, level, name=user, address=address, protocol=protocol)
