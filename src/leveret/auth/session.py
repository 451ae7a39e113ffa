"""Logins of the web page: a cookie that says nothing, and who it stands for.

A session ends after eight hours, when it is ended, and when its user is deleted, made anew or given another password. With
somebody who keeps them they outlive the broker: a page that is open while it is restarted goes on. What is kept opens
nothing: of cookies and passwords' hashes there are digests only.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable

import msgspec

from leveret.broker.access import User

LIFETIME_MS = 8 * 60 * 60 * 1000
SESSIONS_MAX = 10_000

log = logging.getLogger("leveret.audit")


class Session(msgspec.Struct):
    """One login of a user with this password, as a digest, and until when it is good (ms)."""

    user: str
    password: str
    until: int


class Sessions:
    """All of them; of more than the limit the oldest end. `keep` is given what is to be `kept` whenever that changes."""

    def __init__(self, kept: str = "", keep: Callable[[str], None] | None = None) -> None:
        self._sessions: dict[str, Session] = {}
        # Whose they are, as far as that was seen in this life: another user of the same name is another one.
        self._users: dict[str, User] = {}
        self._keep = keep
        try:
            self._sessions = msgspec.json.decode(kept, type=dict[str, Session]) if kept else {}
        except msgspec.MsgspecError as error:
            log.warning("the web page's sessions cannot be read, everybody logs in again: %s", error)

    def begin(self, user: User, now: int) -> str:
        """What the cookie is to hold."""
        self._sessions = {digest: one for digest, one in self._sessions.items() if now < one.until}
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        value = secrets.token_urlsafe(32)
        self._sessions[_digest(value)] = Session(user.name, _digest(user.password_hash), now + LIFETIME_MS)
        self._users = {digest: one for digest, one in self._users.items() if digest in self._sessions}
        self._users[_digest(value)] = user
        self._changed()
        return value

    def _changed(self) -> None:
        if self._keep is not None:
            self._keep(msgspec.json.encode(self._sessions).decode())

    def find(self, value: str, users: dict[str, User], now: int) -> User | None:
        """Whose session it is, if it is still good."""
        session = self._sessions.get(_digest(value))
        if session is None:
            return None
        user = users.get(session.user)
        if user is None or _digest(user.password_hash) != session.password or now >= session.until:
            self.end(value)
            return None
        if self._users.setdefault(_digest(value), user) is user:
            return user
        self.end(value)
        return None

    def end(self, value: str) -> None:
        """Whoever has it logs out."""
        if self._sessions.pop(_digest(value), None) is not None:
            self._changed()

    def __len__(self) -> int:
        return len(self._sessions)


def _digest(value: str) -> str:
    # Looked up by its digest: how long that takes says nothing of the value.
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
