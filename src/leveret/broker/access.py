"""Users: their tags, limits and rights. Knows no protocol: who is logged in is a `ConnectedClient`."""

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from leveret.broker.password import SHA256, is_password
from leveret.broker.rights import Rights

if TYPE_CHECKING:
    from collections.abc import Sized

# Of so many addresses it is remembered whether they are this machine's own.
ADDRESSES_MAX = 1000


class Place(Protocol):
    """A virtual host, of which here only the name matters."""

    @property
    def name(self) -> str: ...


class ConnectedClient(Protocol):
    """A connection that is logged in, as the model sees it."""

    @property
    def vhost(self) -> Place: ...

    @property
    def channels(self) -> "Sized": ...

    def shut(self, reason: str) -> None:
        """End it with 320 and this reason."""

    def recheck(self) -> None:
        """Rights have changed: end what is no longer allowed."""


class User:
    """Who may log in; `loopback_only` users only from this machine. `clients` are its connections."""

    # Whether it is one as long as its token is good, and may renew that.
    by_token = False

    __slots__ = ("clients", "hashing", "limits", "loopback_only", "name", "password_hash", "rights", "tags")

    def __init__(
        self,
        name: str,
        password_hash: str,
        tags: tuple[str, ...] = (),
        loopback_only: bool = False,
        hashing: str = SHA256,
    ) -> None:
        self.name = name
        self.password_hash = password_hash
        self.hashing = hashing
        self.tags = tags
        self.loopback_only = loopback_only
        self.limits: dict[str, int] = {}
        self.rights: dict[str, Rights] = {}
        self.clients: dict[ConnectedClient, None] = {}

    def has_password(self, password: bytes) -> bool:
        """Whether this is the password; a blank one never is."""
        return is_password(password, self.password_hash, self.hashing)

    def is_good(self, now: int) -> bool:
        """Whether what it has logged in with still lets it in (ms); who has a password has that as long as it is there."""
        return True

    def renew(self, token: "User") -> bool:
        """Go on as this one, who has logged in anew; whoever has a password goes on anyway."""
        return True

    def rights_in(self, vhost_name: str) -> Rights:
        """The rights in a vhost; none are granted at first."""
        rights = self.rights.get(vhost_name)
        if rights is None:
            rights = self.rights[vhost_name] = Rights(self.name, vhost_name)
        return rights

    def channel_count(self) -> int:
        return sum(len(client.channels) for client in self.clients)


class LimitedUser(User):
    """One with fewer tags than it has: what a key of its own lets it do. Rights, limits and connections are the user's."""

    def __init__(
        self, user: User, tags: tuple[str, ...], only_reads: bool, is_good: Callable[[int], bool] = lambda now: True
    ) -> None:
        super().__init__(user.name, "", tags, user.loopback_only, user.hashing)
        self.limits = user.limits
        self.rights = user.rights
        self.clients = user.clients
        self.only_reads = only_reads
        self._is_good = is_good

    def is_good(self, now: int) -> bool:
        return self._is_good(now)


class TrustedUser(User):
    """One who has come in where no password is asked for, and may do everything in every vhost; nobody can log in as it."""

    def rights_in(self, vhost_name: str) -> Rights:
        rights = super().rights_in(vhost_name)
        if not rights.granted:
            rights.grant(".*", ".*", ".*")
        return rights


@lru_cache(ADDRESSES_MAX)
def is_loopback(address: str) -> bool:
    """Whether a peer's address is this machine's own."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
