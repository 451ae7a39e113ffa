"""Passwords that an HTTP server knows, asked as RabbitMQ's rabbitmq_auth_backend_http asks it (`user_path`).

The server is sent `username` and `password`, and answers 200 with `allow`, and perhaps tags behind it, or `deny`. It says
who somebody is; what they may do is the broker's own matter: its user of that name, who needs no password here. (RabbitMQ:
`authn` is http then, `authz` internal.)
A login that was allowed is known for a while. Where the server does not answer, or not so, the login is refused.
"""

import asyncio
import logging
from typing import Annotated, Literal

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from leveret.auth.success_cache import SuccessCache

ANSWER_MAX = 4096

log = logging.getLogger("leveret.auth")


class HttpBackendSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The table `[auth_http]`; there is such a back end if `user_path` is set. `cache` and `timeout` are in seconds."""

    user_path: str = ""
    http_method: Literal["get", "post"] = "post"
    cache: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 15.0
    timeout: Annotated[float, msgspec.Meta(ge=0.1, le=10)] = 5.0

    @property
    def wanted(self) -> bool:
        return bool(self.user_path)


class HttpBackend:
    """Asks the server."""

    def __init__(self, settings: HttpBackendSettings) -> None:
        self._settings = settings
        self._cache = SuccessCache(settings.cache)

    async def allows(self, name: str, password: bytes) -> bool:
        """Whether this is somebody with this password."""
        known = (name.encode(errors="surrogateescape"), password)
        time = asyncio.get_running_loop().time
        if self._cache.knows(time(), *known):
            return True
        try:
            allowed = await self._ask(name, password)
        except (ClientError, TimeoutError, OSError) as error:
            # Not the error's text: with GET the password is in the URL.
            log.error("the HTTP back end for logins does not answer: %s", type(error).__name__)
            return False
        if allowed:
            self._cache.add(time(), *known)
        return allowed

    async def _ask(self, name: str, password: bytes) -> bool:
        fields = {"username": name.encode(errors="replace").decode(), "password": password.decode(errors="replace")}
        settings = self._settings
        query, form = (fields, None) if settings.http_method == "get" else (None, fields)
        async with (
            ClientSession(timeout=ClientTimeout(settings.timeout)) as session,
            session.request(
                settings.http_method, settings.user_path, allow_redirects=False, params=query, data=form
            ) as answer,
        ):
            text = (await answer.content.read(ANSWER_MAX)).decode(errors="replace")
            return answer.status in (200, 201) and text.strip().lower().split(" ")[0] == "allow"
