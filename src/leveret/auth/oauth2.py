"""OAuth 2: users who show a token, signed by an issuer that the settings name.

A token is good if one of the issuer's keys has signed it, with an algorithm of `ALGORITHMS` that fits the key; if the broker
is its audience, the issuer its issuer, and it has not expired: one that never does is refused.
"""

from collections.abc import Iterator, Mapping

from leveret.auth.jwks import KeySet
from leveret.auth.oauth2_settings import ALGORITHMS, OAuth2Settings
from leveret.auth.scope import TokenUser
from leveret.broker.patterns import BadPattern

TOKEN_MAX = 65_536
NO_PACKAGE = "oauth2 needs the package pyjwt: pip install 'leveret[oauth2]'"


class BadToken(Exception):
    """A token that is not good; the text says why, for the log."""


class BadOAuth2(Exception):
    """Settings with which no token could be checked."""


def is_token(password: bytes) -> bool:
    """Whether this looks like one."""
    return password.count(b".") == 2 and password[:2] == b"ey"


class OAuth2:
    """Checks tokens."""

    def __init__(self, settings: OAuth2Settings) -> None:
        if not settings.jwks:
            raise BadOAuth2("oauth2.jwks must be set, to a URL or a file")
        try:
            import jwt  # noqa: F401, PLC0415 - an extra
        except ImportError:
            raise BadOAuth2(NO_PACKAGE) from None
        self._settings = settings
        self._keys = KeySet(settings.jwks, settings.cache, settings.retry)

    async def user(self, token: bytes) -> TokenUser:
        """Whose token it is, or BadToken."""
        import jwt  # noqa: PLC0415 - an extra

        if len(token) > TOKEN_MAX:
            raise BadToken("the token is too long")
        try:
            kid = jwt.get_unverified_header(token).get("kid")
            key = await self._keys.key(kid if isinstance(kid, str) else None)
            if key is None or key.algorithm_name not in ALGORITHMS:
                raise BadToken("signed with an unknown key")
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=self._settings.resource_server_id,
                issuer=self._settings.issuer or None,
                options={"require": ["exp", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise BadToken(str(error)) from None
        try:
            return TokenUser(self._name(claims), self._scopes(claims), int(float(claims["exp"]) * 1000))
        except BadPattern as error:
            raise BadToken(f"a scope is {error}") from None

    def _name(self, claims: Mapping[str, object]) -> str:
        for claim in self._settings.preferred_username_claims:
            name = claims.get(claim)
            if isinstance(name, str) and name:
                return name
        raise BadToken("the token names no user")

    def _scopes(self, claims: Mapping[str, object]) -> list[str]:
        """The scopes for this broker, without the prefix that says so."""
        settings = self._settings
        found = list(_texts(claims.get("scope")))
        if settings.additional_scopes_key:
            found += _texts(claims.get(settings.additional_scopes_key))
        found += [scope for alias in found for scope in settings.scope_aliases.get(alias, ())]
        return [scope.removeprefix(settings.prefix) for scope in found if scope.startswith(settings.prefix)]


def _texts(value: object) -> Iterator[str]:
    """Scopes are one text with spaces, a list, or of other resources too, a table by their ids."""
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for resource, scopes in value.items():
            yield from (f"{resource}.{scope}" for scope in _texts(scopes))
