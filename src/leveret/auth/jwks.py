"""The keys with which tokens are signed: a JSON Web Key Set from a URL or a file.

(1) Keys are kept for a while, and read again then. A key that is not known, as after a rotation, has them read at once, but
    not more often than `retry` lets: nobody makes the broker ask on and on by naming keys that are not there.
(2) If they cannot be read, those that were read before stay in use, and the log says why.
(3) The set has a limit of size, the request one of time, and a URL is not left for another one.
"""

import asyncio
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import ClientError, ClientSession, ClientTimeout

if TYPE_CHECKING:
    from jwt import PyJWK

SIZE_MAX = 1 << 20
TIMEOUT_S = 5.0

log = logging.getLogger("leveret.auth")


class BadKeys(Exception):
    """There is no key set, or it cannot be read."""


class KeySet:
    """The keys, by their ids."""

    def __init__(self, place: str, cache_s: float, retry_s: float) -> None:
        self._place = place
        self._cache_s = cache_s
        self._retry_s = retry_s
        self._keys: dict[str | None, PyJWK] = {}
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    async def key(self, kid: str | None) -> "PyJWK | None":
        """The key of this id; a token that names none has the only one."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            age = now - self._read_at
            if age >= self._cache_s or (self._find(kid) is None and age >= self._retry_s):
                self._read_at = now
                await self._read()
        return self._find(kid)

    def _find(self, kid: str | None) -> "PyJWK | None":
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    async def _read(self) -> None:
        from jwt import PyJWKSet  # noqa: PLC0415 - an extra
        from jwt.exceptions import PyJWTError  # noqa: PLC0415

        try:
            found = json.loads(await self._octets())
            keys = PyJWKSet.from_dict(found).keys
        except (BadKeys, OSError, ClientError, TimeoutError, ValueError, TypeError, AttributeError, PyJWTError) as error:
            log.error("cannot read the keys of tokens at %s: %s", self._place, error or type(error).__name__)
            return
        self._keys = {key.key_id: key for key in keys}

    async def _octets(self) -> bytes:
        if not self._place.startswith(("https://", "http://")):
            return Path(self._place).read_bytes()
        async with (
            ClientSession(timeout=ClientTimeout(TIMEOUT_S)) as session,
            session.get(self._place, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise BadKeys(f"status {answer.status}")
            data = await answer.content.read(SIZE_MAX + 1)
            while len(data) <= SIZE_MAX and (more := await answer.content.read(SIZE_MAX)):
                data += more
        if len(data) > SIZE_MAX:
            raise BadKeys(f"more than {SIZE_MAX} octets")
        return data
