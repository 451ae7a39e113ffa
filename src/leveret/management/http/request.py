"""One request as the routes see it: who makes it, for what, with which body; and the broker it is made to."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import msgspec

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.rights import Rights
from leveret.broker.vhost import VirtualHost
from leveret.definitions.from_json import check_values, checked_name
from leveret.errors import PreconditionFailed
from leveret.management.http.answer import bad_request, not_found
from leveret.management.http.json import Json
from leveret.management.http.json_names import find

if TYPE_CHECKING:
    from leveret.management.statistics.sampler import Sampler
    from leveret.server.node import Node

T = TypeVar("T")
P = ParamSpec("P")

DOUBLY = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
NO_HEADERS: Mapping[str, str] = {}
TRUE = ("true", "1", "")
_decode = msgspec.json.Decoder().decode


class Request:
    """A request of a user who may make it. `path` has the parts of the path that have names, `query` what follows it."""

    __slots__ = (
        "_body",
        "_user",
        "body_octets",
        "broker",
        "headers",
        "node",
        "path",
        "peer",
        "query",
        "secure",
        "statistics",
    )

    def __init__(
        self,
        node: "Node",
        statistics: "Sampler",
        user: User | None,
        path: Mapping[str, str],
        query: Mapping[str, str],
        headers: Mapping[str, str] = NO_HEADERS,
        peer: str = "",
        secure: bool = False,
    ) -> None:
        self.node = node
        self.broker: Broker = node.broker
        self.statistics = statistics
        self._user = user
        self.path = path
        self.query = query
        self.headers = headers
        # The address from which it comes.
        self.peer = peer
        # Whether it came in TLS.
        self.secure = secure
        self.body_octets = b""
        self._body: dict[str, Json] | None = None

    @property
    def user(self) -> User:
        """Who makes the request. Routes for anyone (`ANYONE`) must not ask."""
        assert self._user is not None
        return self._user

    # What it is about

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
        """The name in the path of something to create, or 400."""
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
        """Whether the query has this flag, and not as false."""
        return name in self.query and self.query[name].lower() in TRUE

    @property
    def without_stats(self) -> bool:
        """Whether statistics are to be left out. RabbitMQ: only `disable_stats=true` says so."""
        return self.query.get("disable_stats") == "true"

    # The body

    @property
    def body(self) -> dict[str, Json]:
        """The body as an object; an empty body and null are empty objects, anything else is refused."""
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
        return self._body

    def need(self, *keys: str) -> list[Json]:
        """Those values of the body, each of which must be there."""
        missing = [key for key in keys if key not in self.body]
        if missing:
            raise bad_request(f"[{','.join(f'{{key_missing,{key}}}' for key in missing)}]")
        return [self.body[key] for key in keys]

    # Nodes

    def check_node(self) -> None:
        """404 if the path names a node that is not there."""
        if self.path["node"] != self.broker.settings.node_name:
            raise not_found()

    def check_body_node(self) -> None:
        """Refuse to make something on a node that is not there; a body may name one."""
        wanted = self.body.get("node")
        name = self.broker.settings.node_name
        if wanted is not None and wanted not in (name, name.partition("@")[0]):
            raise bad_request(f"Node {wanted} could not be contacted")

    # Doing

    async def change(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call what changes the model; return when that is on disk."""
        return await self.node.change(self.attributed(lambda: function(*arguments, **options)))

    def attributed(self, function: Callable[[], T]) -> Callable[[], T]:
        """The same function; what it changes is done by who makes this request."""

        by = "" if self._user is None else self._user.name
        return partial(self.node.audit.call, function, by, self.peer or "local")

    async def synced(self) -> None:
        """Return when all that was changed is on disk."""
        await self.node.change(lambda: None)

    async def unbound(self) -> None:
        """Return when what was removed has lost all its bindings, and that is on disk."""
        task = self.vhost.unbinding()
        if task is not None:
            await self.node.until(lambda: task.done)
            await self.synced()


def parse_bool(value: Json, name: str) -> bool:
    """A boolean, also as rabbitmqadmin writes it."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(f"[{name}] not_a_boolean: {value}")


def parse_int(value: Json, name: str) -> int:
    """An integer, also as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise bad_request(f"[{name}] not_an_integer: {value}")
