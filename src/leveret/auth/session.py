"""Logins of the web page: a cookie that says nothing, and who it stands for.

A session ends after eight hours, when it is ended, and when its user is deleted, made anew or given another password. It is
in memory only: whoever starts the broker anew has everybody log in again.
"""

import hashlib
import secrets

from leveret.broker.access import User

LIFETIME_MS = 8 * 60 * 60 * 1000
SESSIONS_MAX = 10_000


class Session:
    """One login, and until when it is good (ms)."""

    __slots__ = ("password_hash", "until", "user")

    def __init__(self, user: User, until: int) -> None:
        self.user = user
        self.password_hash = user.password_hash
        self.until = until


class Sessions:
    """All of them; of more than the limit the oldest end."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, Session] = {}

    def begin(self, user: User, now: int) -> str:
        """What the cookie is to hold."""
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = Session(user, now + LIFETIME_MS)
        return value

    def find(self, value: str, users: dict[str, User], now: int) -> User | None:
        """Whose session it is, if it is still good."""
        session = self._sessions.get(_digest(value))
        if session is None:
            return None
        user = users.get(session.user.name)
        if user is session.user and user.password_hash == session.password_hash and now < session.until:
            return user
        self.end(value)
        return None

    def end(self, value: str) -> None:
        """Whoever has it logs out."""
        self._sessions.pop(_digest(value), None)

    def __len__(self) -> int:
        return len(self._sessions)


def _digest(value: str) -> bytes:
    # Looked up by its digest: how long that takes says nothing of the value.
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()
