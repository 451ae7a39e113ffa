"""Passwords as they are kept: in RabbitMQ's formats, base64 of a 4-byte salt and a digest of both, or as argon2id.

RabbitMQ's digests are quick to compute, for who guesses too; argon2id takes some twenty milliseconds and 19 MiB each time,
so whoever checks one on a loop does it elsewhere (`is_slow`). It needs the package argon2-cffi, and no RabbitMQ can read it.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

from leveret.errors import PreconditionFailed

SALT_SIZE = 4
SHA256 = "rabbit_password_hashing_sha256"
SHA512 = "rabbit_password_hashing_sha512"
ARGON2ID = "leveret_password_hashing_argon2id"
DIGESTS = {
    SHA256: hashlib.sha256,
    SHA512: hashlib.sha512,
    # Only for users that come from an old RabbitMQ.
    "rabbit_password_hashing_md5": hashlib.md5,
}

# What OWASP advises for argon2id at least: 19 MiB, two passes, one lane.
MEMORY_KIB, PASSES, LANES = 19_456, 2, 1
# Of a hash that comes from elsewhere: it must not be able to ask for more than this.
MEMORY_KIB_MAX, PASSES_MAX, LANES_MAX = 1 << 18, 32, 16

NO_ARGON2 = "argon2id needs the package argon2-cffi: pip install 'leveret[argon2]'"


class NoArgon2(PreconditionFailed):
    """The package for argon2id is not installed."""


def is_slow(hashing: str) -> bool:
    """Whether checking such a password takes so long that a loop must not do it."""
    return hashing == ARGON2ID


def hash_password(password: bytes, salt: bytes | None = None, hashing: str = SHA256) -> str:
    """Hash a password for storing."""
    if hashing == ARGON2ID:
        return _argon2_hash(password)
    salt = secrets.token_bytes(SALT_SIZE) if salt is None else salt
    return base64.b64encode(salt + _digest(salt, password, hashing)).decode()


def is_password(password: bytes, password_hash: str, hashing: str) -> bool:
    """Whether this is the password; a blank one never is."""
    if not password or not password_hash:
        return False
    if hashing == ARGON2ID:
        return _argon2_fits(password, password_hash)
    stored = base64.b64decode(password_hash)
    return hmac.compare_digest(stored[SALT_SIZE:], _digest(stored[:SALT_SIZE], password, hashing))


def check_password_hash(password_hash: str, hashing: str) -> None:
    """Refuse a stored password that nobody could log in with."""
    if hashing == ARGON2ID:
        _check_argon2_hash(password_hash)
        return
    if hashing not in DIGESTS:
        raise PreconditionFailed(f"unknown password hashing algorithm '{hashing}'")
    try:
        stored = base64.b64decode(password_hash, validate=True)
    except (binascii.Error, ValueError):
        raise PreconditionFailed("password_hash is not base64") from None
    # RabbitMQ: a user may have no password, and then cannot log in with one.
    if stored and len(stored) != SALT_SIZE + DIGESTS[hashing]().digest_size:
        raise PreconditionFailed(f"password_hash has not the length of {hashing}")


def check_password_length(password: str, least: int) -> None:
    """Refuse a password that is too short; with none at all, nobody can log in."""
    if password and len(password) < least:
        # RabbitMQ: what its validator `min_length` says.
        raise PreconditionFailed(f"minimum required password length: {least}")


def check_hashing(hashing: str) -> None:
    """NoArgon2 if passwords cannot be hashed so here."""
    if hashing == ARGON2ID:
        try:
            import argon2  # noqa: F401, PLC0415 - an extra
        except ImportError:
            raise NoArgon2(NO_ARGON2) from None


def _digest(salt: bytes, password: bytes, hashing: str) -> bytes:
    return DIGESTS[hashing](salt + password).digest()


def _argon2_hash(password: bytes) -> str:
    check_hashing(ARGON2ID)
    from argon2 import PasswordHasher  # noqa: PLC0415 - an extra

    return PasswordHasher(PASSES, MEMORY_KIB, LANES).hash(password)


def _argon2_fits(password: bytes, password_hash: str) -> bool:
    check_hashing(ARGON2ID)
    from argon2.exceptions import Argon2Error, InvalidHashError  # noqa: PLC0415 - an extra
    from argon2.low_level import Type, verify_secret  # noqa: PLC0415

    try:
        return verify_secret(password_hash.encode(), password, Type.ID)
    except (Argon2Error, InvalidHashError):
        return False


def _check_argon2_hash(password_hash: str) -> None:
    check_hashing(ARGON2ID)
    if not password_hash:
        return
    from argon2 import Type, extract_parameters  # noqa: PLC0415 - an extra
    from argon2.exceptions import InvalidHashError  # noqa: PLC0415

    try:
        found = extract_parameters(password_hash)
    except (InvalidHashError, ValueError):
        raise PreconditionFailed("password_hash is no argon2id hash") from None
    if found.type is not Type.ID:
        raise PreconditionFailed("password_hash is no argon2id hash")
    if found.memory_cost > MEMORY_KIB_MAX or found.time_cost > PASSES_MAX or found.parallelism > LANES_MAX:
        raise PreconditionFailed("password_hash would take too much memory or time to check")
