"""Logins that have succeeded lately, so that a check which takes long is not made again for each of a client's requests.

Neither passwords nor anything that could be tried against them is kept: only a digest with a key that dies with the process.
What a check depends on beside the password, as the stored hash, is part of it; so a password that was changed is not found.
"""

import hashlib
import secrets

REMEMBERED_MAX = 10_000


class SuccessCache:
    """Digests of logins, each good until a time (s), which is given with each call."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._key = secrets.token_bytes(32)
        self._until: dict[bytes, float] = {}

    def add(self, now: float, *parts: bytes) -> None:
        """This has succeeded."""
        digest = self._digest(parts)
        self._until.pop(digest, None)
        if len(self._until) >= REMEMBERED_MAX:
            del self._until[next(iter(self._until))]
        self._until[digest] = now + self._seconds

    def knows(self, now: float, *parts: bytes) -> bool:
        """Whether it has, not long ago."""
        digest = self._digest(parts)
        until = self._until.get(digest)
        if until is not None and until <= now:
            del self._until[digest]
            until = None
        return until is not None

    def _digest(self, parts: tuple[bytes, ...]) -> bytes:
        found = hashlib.blake2b(key=self._key, digest_size=32)
        for part in parts:
            # Each with its length: no two different logins have the same octets.
            found.update(len(part).to_bytes(8, "big") + part)
        return found.digest()
