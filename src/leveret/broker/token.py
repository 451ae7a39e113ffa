"""API keys: what scripts log in with on HTTP, in place of their user's password.

(1) A key is made of chance, and shown once; kept is its SHA-256, which nobody can go back from: it is no word to be guessed.
(2) It is good for what its user may do, or for less: its scopes are tags, of which the user's others do not count, and
    `read`, with which nothing is changed.
(3) It ends when it expires, when it is deleted, and with its user.
"""

import hashlib
import secrets
from dataclasses import dataclass

from leveret.errors import PreconditionFailed

PREFIX = "leveret_"
READ = "read"
TAGS = ("administrator", "monitoring", "policymaker", "management")
SCOPES = (*TAGS, READ)
TOKENS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of one; `expires_at` is in ms, 0 if it does not expire."""

    id: str
    user_name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: int
    expires_at: int

    def is_valid(self, now: int) -> bool:
        return not self.expires_at or now < self.expires_at

    def tags(self, of_user: tuple[str, ...]) -> tuple[str, ...]:
        """The tags that its user has with it."""
        wanted = [scope for scope in self.scopes if scope != READ]
        return of_user if not wanted else tuple(tag for tag in of_user if tag in wanted) + self._lower(of_user, wanted)

    def _lower(self, of_user: tuple[str, ...], wanted: list[str]) -> tuple[str, ...]:
        """An administrator may do what the others may."""
        return tuple(tag for tag in wanted if tag not in of_user) if "administrator" in of_user else ()


class Tokens:
    """All of a broker's, by what they are found by, and by what they are called."""

    __slots__ = ("_by_digest", "by_id")

    def __init__(self) -> None:
        self._by_digest: dict[str, Token] = {}
        self.by_id: dict[str, Token] = {}

    def check(self, scopes: tuple[str, ...]) -> None:
        """Refuse one more with these scopes, if there cannot be such a one."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown:
            raise PreconditionFailed(f"unknown scope '{unknown[0]}': it is one of {', '.join(SCOPES)}")
        if len(self.by_id) >= TOKENS_MAX:
            raise PreconditionFailed(f"token limit ({TOKENS_MAX}) is reached")

    def add(self, token: Token) -> None:
        self._by_digest[token.digest] = self.by_id[token.id] = token

    def remove(self, token: Token) -> None:
        del self.by_id[token.id]
        del self._by_digest[token.digest]

    def find(self, key: str, now: int) -> Token | None:
        """The one with this key, if it is still good."""
        token = self._by_digest.get(digest_of(key))
        return token if token is not None and token.is_valid(now) else None

    def of_user(self, user_name: str) -> list[Token]:
        return [token for token in self.by_id.values() if token.user_name == user_name]


def new_key() -> tuple[str, str]:
    """What a new one is called, and its key."""
    return secrets.token_hex(4), PREFIX + secrets.token_urlsafe(32)


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
