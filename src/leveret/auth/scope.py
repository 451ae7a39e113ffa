"""What a token lets its user do: scopes in RabbitMQ's format, and the rights that they come to.

  <permission>:<vhost>/<name>[/<routing key>]     permission is configure, write or read; `*` stands for anything
  tag:<tag>                                       administrator, monitoring, policymaker, management

Parts are percent-decoded. Whoever has any scope for a vhost may enter it. What is no scope grants nothing.
"""

from collections.abc import Iterable
from urllib.parse import unquote

from leveret.broker.access import User
from leveret.broker.patterns import Pattern, escaped
from leveret.broker.rights import PERMISSIONS, Rights
from leveret.errors import AccessRefused

SCOPES_MAX = 1000


class Scope:
    """One of those with a permission."""

    __slots__ = ("_name", "_routing_key", "_vhost", "permission", "text")

    def __init__(self, text: str, permission: str, vhost: str, name: str, routing_key: str) -> None:
        self.text = text
        self.permission = permission
        self._vhost = _wildcards(vhost)
        self._name = _wildcards(name)
        self._routing_key = _wildcards(routing_key)

    def is_for(self, vhost: str) -> bool:
        return self._vhost.matches(vhost)

    def allows(self, permission: str, name: str) -> bool:
        return self.permission == permission and self._name.matches(name)

    def allows_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        return self.allows(permission, exchange) and self._routing_key.matches(routing_key)


def parse_scopes(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[Scope, ...]]:
    """The tags, and the scopes with permissions, that these are."""
    tags: list[str] = []
    scopes: list[Scope] = []
    for text in list(texts)[:SCOPES_MAX]:
        kind, colon, rest = text.partition(":")
        parts = rest.split("/")
        if not colon:
            continue
        if kind == "tag":
            tags.append(rest)
        elif kind in PERMISSIONS and len(parts) in (2, 3):
            vhost, name, *key = (unquote(part) for part in parts)
            scopes.append(Scope(text, kind, vhost, name, key[0] if key else "*"))
    return tuple(tags), tuple(scopes)


def _wildcards(text: str) -> Pattern:
    """A pattern in which a star stands for anything."""
    return Pattern("(?s)^" + ".*".join(escaped(part) for part in text.split("*")) + "$")


class ScopeRights(Rights):
    """The rights of a token in one vhost; they change when the token is renewed, and end with it."""

    __slots__ = ("_scopes",)

    def __init__(self, user_name: str, vhost_name: str, scopes: tuple[Scope, ...]) -> None:
        super().__init__(user_name, vhost_name)
        self._scopes: tuple[Scope, ...] = ()
        self.renew(scopes)

    def renew(self, scopes: tuple[Scope, ...]) -> None:
        """Allow what these say from now on."""
        self._scopes = tuple(scope for scope in scopes if scope.is_for(self.vhost_name))
        self.granted = bool(self._scopes)

    def revoke(self) -> None:
        self.renew(())

    def pattern(self, permission: str) -> str:
        return " ".join(scope.text for scope in self._scopes if scope.permission == permission)

    def allows(self, permission: str, name: str) -> bool:
        return any(scope.allows(permission, name) for scope in self._scopes)

    def check_topic(self, permission: str, exchange: str, routing_key: str) -> None:
        if not any(scope.allows_topic(permission, exchange, routing_key) for scope in self._scopes):
            raise AccessRefused(
                f"{permission} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{self.vhost_name}' "
                f"refused for user '{self.user_name}'"
            )


class TokenUser(User):
    """Whoever has shown a token: a user as long as the token is good, known by no password. `expires_at` is in ms."""

    by_token = True

    __slots__ = ("_scopes", "expires_at")

    def __init__(self, name: str, scopes: Iterable[str], expires_at: int) -> None:
        tags, self._scopes = parse_scopes(scopes)
        super().__init__(name, "", tags)
        self.expires_at = expires_at

    def rights_in(self, vhost_name: str) -> Rights:
        rights = self.rights.get(vhost_name)
        if rights is None:
            rights = self.rights[vhost_name] = ScopeRights(self.name, vhost_name, self._scopes)
        return rights

    def is_good(self, now: int) -> bool:
        return now < self.expires_at

    def renew(self, token: User) -> bool:
        """Go on with a newer token of the same user; whoever looks after connections has them rechecked."""
        if not isinstance(token, TokenUser) or token.name != self.name:
            return False
        self._scopes, self.tags, self.expires_at = token._scopes, token.tags, token.expires_at
        for rights in self.rights.values():
            if isinstance(rights, ScopeRights):
                rights.renew(self._scopes)
        for client in list(self.clients):
            client.recheck()
        return True

    def end(self) -> None:
        """The token is not good any more: nothing is allowed, and connections are closed."""
        self._scopes = ()
        for rights in self.rights.values():
            rights.revoke()
        for client in list(self.clients):
            client.shut(f"token of user '{self.name}' has expired")
