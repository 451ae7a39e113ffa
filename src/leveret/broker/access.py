"""Users and their passwords.

Passwords are kept as RabbitMQ keeps them, base64 of a 4-byte salt and SHA-256 of salt and password, so that definitions
move both ways. Rights, tags and limits have their place here.
"""

import base64
import hashlib
import hmac
import ipaddress
import secrets

SALT_SIZE = 4


class User:
    """Who may log in; `loopback_only` users only from this machine."""

    __slots__ = ("loopback_only", "name", "password_hash", "tags")

    def __init__(self, name: str, password_hash: str, tags: tuple[str, ...] = (), loopback_only: bool = False) -> None:
        self.name = name
        self.password_hash = password_hash
        self.tags = tags
        self.loopback_only = loopback_only

    def has_password(self, password: bytes) -> bool:
        """Whether this is the password; a blank one never is."""
        if not password or not self.password_hash:
            return False
        stored = base64.b64decode(self.password_hash)
        return hmac.compare_digest(stored[SALT_SIZE:], _digest(stored[:SALT_SIZE], password))


def hash_password(password: bytes, salt: bytes | None = None) -> str:
    """Hash a password for storing."""
    salt = secrets.token_bytes(SALT_SIZE) if salt is None else salt
    return base64.b64encode(salt + _digest(salt, password)).decode()


def is_loopback(address: str) -> bool:
    """Whether a peer's address is this machine's own."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def _digest(salt: bytes, password: bytes) -> bytes:
    return hashlib.sha256(salt + password).digest()
