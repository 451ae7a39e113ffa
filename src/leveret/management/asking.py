"""One request as the routes see it: who asks, for what, with which body; and the model to ask."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.rights import Rights
from leveret.broker.vhost import VirtualHost
from leveret.definitions.from_json import check_values, checked_name
from leveret.errors import PreconditionFailed
from leveret.management.answers import bad_request, not_found
from leveret.management.texts import find

if TYPE_CHECKING:
    from leveret.management.statistics import Statistics
    from leveret.server.node import Node

T = TypeVar("T")

DOUBLY = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
TRUE = ("true", "1", "")
_decode = msgspec.json.Decoder().decode


class Ask:
    """A request of a user who may make it. `path` has the parts of the path that have names, `query` what follows it."""

    __slots__ = ("_body", "body_octets", "broker", "headers", "node", "path", "peer", "query", "statistics", "user")

    def __init__(self, node: "Node", user: User, path: Mapping[str, str], query: Mapping[str, str]) -> None:
        self.node = node
        self.broker: Broker = node.broker
        self.user = user
        self.path = path
        self.query = query
        # Set by the server before any route sees it.
        self.statistics: Statistics
        self.headers: Mapping[str, str] = {}
        # The address from which it comes.
        self.peer = ""
        self.body_octets = b""
        self._body: Any = None

    # What is asked for

    @property
    def vhost(self) -> VirtualHost:
        """The vhost that the path names, or 404."""
        return self.found(self.broker.vhosts, "vhost")

    def found(self, things: Mapping[str, T], part: str) -> T:
        """What this part of the path names, or 404."""
        found = find(things, self.path[part])
        if found is None:
            raise not_found()
        return found

    def name(self, part: str) -> str:
        """A name of the path for something to make, or 400."""
        try:
            return checked_name(self.path[part], part)
        except PreconditionFailed as error:
            raise bad_request(str(error)) from None

    def vhosts(self, visible: bool = False) -> list[VirtualHost]:
        """The vhost of the path, or all that this user may enter; `visible`: or at least look at."""
        if "vhost" in self.path:
            return [self.vhost]
        return [vhost for vhost in self.broker.vhosts.values() if self.may_enter(vhost.name, visible)]

    def may_enter(self, vhost_name: str, visible: bool = False) -> bool:
        if visible and self.has_tag("monitoring"):
            return True
        return self.user.rights_in(vhost_name).granted

    def has_tag(self, tag: str) -> bool:
        return "administrator" in self.user.tags or tag in self.user.tags

    @property
    def rights(self) -> Rights:
        """What the user may do in the path's vhost."""
        return self.user.rights_in(self.vhost.name)

    def flag(self, name: str) -> bool:
        """Whether the query has this, not as false."""
        return name in self.query and self.query[name].lower() in TRUE

    @property
    def without_stats(self) -> bool:
        """RabbitMQ: whether only what is defined is asked for, not what is counted; exactly `true` says so."""
        return self.query.get("disable_stats") == "true"

    # The body

    @property
    def body(self) -> dict[str, Any]:
        """The body as an object: nothing and null are empty ones; anything else is refused."""
        if self._body is None:
            try:
                found = _decode(self.body_octets) if self.body_octets.strip() else {}
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise bad_request("not_json") from None
            if found is None or found == "":
                found = {}
            if isinstance(found, str):
                raise bad_request(DOUBLY)
            if not isinstance(found, dict):
                raise bad_request("not_json")
            try:
                check_values(found, "the body")
            except PreconditionFailed as error:
                raise bad_request(str(error)) from None
            self._body = found
        return self._body  # type: ignore[no-any-return]

    def need(self, *keys: str) -> list[Any]:
        """Those values of the body, each of which must be there."""
        missing = [key for key in keys if key not in self.body]
        if missing:
            raise bad_request(f"[{','.join(f'{{key_missing,{key}}}' for key in missing)}]")
        return [self.body[key] for key in keys]

    # Doing

    async def change(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Call what changes the model; return when that is on disk."""
        return await self.node.change(lambda: function(*arguments, **options))


def parse_bool(value: Any, name: str) -> bool:
    """A boolean, also as rabbitmqadmin writes it."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(f"[{name}] not_a_boolean: {value}")


def parse_int(value: Any, name: str) -> int:
    """An integer, also as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise bad_request(f"[{name}] not_an_integer: {value}")
