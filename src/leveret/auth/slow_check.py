"""Passwords whose check takes long are checked in a thread of their own, one after the other.

One thread: each check takes some 20 MiB and a core for a while, and who tries passwords must not take more of either. Of
those that wait there are no more than `WAITING_MAX`; beyond that a login is refused without being looked at.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from leveret.auth.success_cache import SuccessCache
from leveret.broker.access import User
from leveret.broker.login import Login
from leveret.broker.password import ARGON2ID, hash_password, is_password

WAITING_MAX = 200
CACHED_S = 60.0
BUSY = "- too many logins are being checked"

log = logging.getLogger("leveret.auth")


class SlowCheck:
    """The thread, and what it is asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "passwords")
        self._cache = SuccessCache(CACHED_S)
        self._waiting = 0
        # So that a name which nobody has takes as long as one with another password.
        self._nobodys_hash = ""

    def decide(self, login: Login, user: User | None) -> None:
        """Decide by this user's password, at once if it is known, else later."""
        password = login.password
        known = None if user is None else (user.name.encode(errors="surrogateescape"), user.password_hash.encode(), password)
        if known is not None and user is not None and self._cache.knows(self._loop.time(), *known):
            login.accept(user)
            return
        if self._waiting >= WAITING_MAX:
            login.refuse(BUSY)
            return

        def decided(fits: bool) -> None:
            if fits and known is not None and user is not None:
                self._cache.add(self._loop.time(), *known)
                login.accept(user)
            else:
                login.refuse()

        stored = user.password_hash if user is not None else ""
        self._ask(lambda: self._fits(password, stored), decided)

    def _fits(self, password: bytes, stored: str) -> bool:
        """In the thread."""
        if not stored:
            if not self._nobodys_hash:
                self._nobodys_hash = hash_password(b"nobody", hashing=ARGON2ID)
            is_password(password, self._nobodys_hash, ARGON2ID)
            return False
        return is_password(password, stored, ARGON2ID)

    def _ask(self, function: Callable[[], bool], decided: Callable[[bool], None]) -> None:
        self._waiting += 1

        def tell(future: Future[bool]) -> None:
            self._waiting -= 1
            error = future.exception()
            if error is not None:
                log.error("a password could not be checked: %s", error)
            decided(error is None and future.result())

        self._thread.submit(function).add_done_callback(lambda future: self._loop.call_soon_threadsafe(tell, future))

    async def hash(self, password: str) -> str:
        """Hash a new password."""
        return await self._loop.run_in_executor(self._thread, lambda: hash_password(password.encode(), hashing=ARGON2ID))

    def close(self) -> None:
        """Check nothing more. What is being checked is not waited for; nobody hears of it."""
        self._thread.shutdown(wait=True, cancel_futures=True)
