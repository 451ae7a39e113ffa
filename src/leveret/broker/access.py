"""Users: their passwords, tags, limits and rights.

Passwords are kept as RabbitMQ keeps them, base64 of a 4-byte salt and a digest of salt and password, so that definitions
move both ways. Knows no protocol: who is logged in is a `ConnectedClient`.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from leveret.broker.rights import Rights
from leveret.errors import PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Sized

    from leveret.broker.vhost import VirtualHost

SALT_SIZE = 4
SHA256 = "rabbit_password_hashing_sha256"
DIGESTS = {
    SHA256: hashlib.sha256,
    "rabbit_password_hashing_sha512": hashlib.sha512,
    # Only for users that come from an old RabbitMQ.
    "rabbit_password_hashing_md5": hashlib.md5,
}

# Of so many addresses it is remembered whether they are this machine's own.
ADDRESSES_MAX = 1000


class ConnectedClient(Protocol):
    """A connection that is logged in, as the model sees it."""

    vhost: "VirtualHost"

    @property
    def channels(self) -> "Sized": ...

    def shut(self, reason: str) -> None:
        """End it with 320 and this reason."""

    def recheck(self) -> None:
        """Rights have changed: end what is no longer allowed."""


class User:
    """Who may log in; `loopback_only` users only from this machine. `clients` are its connections."""

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
        if not password or not self.password_hash:
            return False
        stored = base64.b64decode(self.password_hash)
        return hmac.compare_digest(stored[SALT_SIZE:], _digest(stored[:SALT_SIZE], password, self.hashing))

    def rights_in(self, vhost_name: str) -> Rights:
        """The rights in a vhost; none are granted at first."""
        rights = self.rights.get(vhost_name)
        if rights is None:
            rights = self.rights[vhost_name] = Rights(self.name, vhost_name)
        return rights

    def channel_count(self) -> int:
        return sum(len(client.channels) for client in self.clients)


class TrustedUser(User):
    """One who has come in where no password is asked for, and may do everything in every vhost; nobody can log in as it."""

    def rights_in(self, vhost_name: str) -> Rights:
        rights = super().rights_in(vhost_name)
        if not rights.granted:
            rights.grant(".*", ".*", ".*")
        return rights


def hash_password(password: bytes, salt: bytes | None = None, hashing: str = SHA256) -> str:
    """Hash a password for storing."""
    salt = secrets.token_bytes(SALT_SIZE) if salt is None else salt
    return base64.b64encode(salt + _digest(salt, password, hashing)).decode()


def check_password_hash(password_hash: str, hashing: str) -> None:
    """Refuse a stored password that nobody could log in with."""
    if hashing not in DIGESTS:
        raise PreconditionFailed(f"unknown password hashing algorithm '{hashing}'")
    try:
        stored = base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        raise PreconditionFailed("password_hash is not base64") from None
    # RabbitMQ: a user may have no password, and then cannot log in with one.
    if stored and len(stored) != SALT_SIZE + DIGESTS[hashing]().digest_size:
        raise PreconditionFailed(f"password_hash has not the length of {hashing}")


@lru_cache(ADDRESSES_MAX)
def is_loopback(address: str) -> bool:
    """Whether a peer's address is this machine's own."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def _digest(salt: bytes, password: bytes, hashing: str) -> bytes:
    return DIGESTS[hashing](salt + password).digest()
