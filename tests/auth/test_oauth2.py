"""SPEC §7.4 OAuth 2: which tokens are good, over real keys."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.auth.issuer import ID, ISSUER, Issuer, KeyServer

from leveret.auth.jwks import SIZE_MAX
from leveret.auth.oauth2 import BadOAuth2, BadToken, OAuth2, is_token
from leveret.auth.oauth2_settings import OAuth2Settings
from leveret.auth.scope import TokenUser


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def checked(place: str, token: str, **settings: object) -> TokenUser:
    options = {"resource_server_id": ID, "issuer": ISSUER, "jwks": place, **settings}
    return asyncio.run(OAuth2(OAuth2Settings(**options)).user(token.encode()))  # type: ignore[arg-type]


@pytest.fixture
def keys(issuer: Issuer, tmp_path: Path) -> str:
    (tmp_path / "keys.json").write_text(issuer.jwks)
    return str(tmp_path / "keys.json")


def test_good_token(issuer: Issuer, keys: str) -> None:
    token = issuer.token("read:*/*", "tag:management")
    assert is_token(token.encode())
    user = checked(keys, token)
    assert (user.name, user.tags, user.rights_in("/").allows("read", "q")) == ("shop", ("management",), True)
    assert not user.has_password(b"")
    assert not user.has_password(token.encode())


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "other"}, "Audience doesn't match"),
        ({"aud": None}, 'missing the "aud" claim'),
        ({"iss": "https://evil.example"}, "Invalid issuer"),
        ({"iss": None}, 'missing the "iss" claim'),
        ({"exp": 1}, "Signature has expired"),
        ({"exp": None}, 'missing the "exp" claim'),
        ({"nbf": 1 << 40}, "not yet valid"),
        ({"sub": None}, "names no user"),
        ({"sub": ""}, "names no user"),
    ],
)
def test_token_that_is_not_for_us(issuer: Issuer, keys: str, claims: dict[str, object], reason: str) -> None:
    with pytest.raises(BadToken, match=reason):
        checked(keys, issuer.token("read:*/*", **claims))  # type: ignore[arg-type]


def test_signature_of_somebody_else(issuer: Issuer, keys: str) -> None:
    """Under the issuer's key id, without a signature, and with the public key taken for a secret."""
    kid = next(iter(issuer.keys))
    claims = jwt.decode(issuer.token("tag:administrator"), options={"verify_signature": False})
    forged = [
        jwt.encode(claims, rsa.generate_private_key(65_537, 2048), algorithm="RS256", headers={"kid": kid}),
        jwt.encode(claims, "", algorithm="none", headers={"kid": kid}),
        jwt.encode(claims, "x" * 64, algorithm="HS256", headers={"kid": kid}),
        jwt.encode(claims, issuer.keys[kid], algorithm="RS256", headers={"kid": "unknown"}),
        "ey.ey.ey",
        "e30.e30.",
    ]
    for token in forged:
        with pytest.raises(BadToken):
            checked(keys, token)


def test_symmetric_key_in_the_set_signs_nothing(tmp_path: Path, issuer: Issuer) -> None:
    (tmp_path / "keys.json").write_text(
        json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0" * 8, "kid": "k", "alg": "HS256"}]})
    )
    claims = jwt.decode(issuer.token("tag:administrator"), options={"verify_signature": False})
    token = jwt.encode(claims, base64.urlsafe_b64decode("c2VjcmV0" * 8), algorithm="HS256", headers={"kid": "k"})
    with pytest.raises(BadToken, match="unknown key"):
        checked(str(tmp_path / "keys.json"), token)


@pytest.mark.parametrize(
    ("settings", "claims", "allowed"),
    [
        ({}, {"scope": ["leveret.read:*/*", "other.write:*/*"]}, {"read"}),
        ({}, {"scope": "read:*/*"}, set()),
        ({"scope_prefix": ""}, {"scope": "read:*/*"}, {"read"}),
        ({"scope_prefix": "mq:"}, {"scope": "mq:read:*/*"}, {"read"}),
        ({"additional_scopes_key": "roles"}, {"roles": {"leveret": ["write:*/*"]}}, {"write"}),
        ({"scope_aliases": {"reader": ["leveret.read:*/*"]}}, {"scope": "reader"}, {"read"}),
        ({"preferred_username_claims": ("azp",)}, {"azp": "shop", "sub": None}, set()),
    ],
)
def test_where_scopes_are(
    issuer: Issuer, keys: str, settings: dict[str, object], claims: dict[str, object], allowed: set[str]
) -> None:
    user = checked(keys, issuer.token(**claims), **settings)  # type: ignore[arg-type]
    rights = user.rights_in("/")
    assert {permission for permission in ("configure", "write", "read") if rights.allows(permission, "q")} == allowed
    assert user.name == "shop"


def run(test: Callable[[OAuth2], Awaitable[None]], place: str, **settings: float) -> None:
    async def whole() -> None:
        await test(OAuth2(OAuth2Settings(resource_server_id=ID, jwks=place, **settings)))  # type: ignore[arg-type]

    asyncio.run(whole())


def test_keys_are_kept_and_read_again_after_a_rotation() -> None:
    issuer = Issuer()
    with KeyServer(issuer) as server:

        async def test(oauth2: OAuth2) -> None:
            for _ in range(3):
                await oauth2.user(issuer.token().encode())
            assert issuer.asked == 1
            issuer.rotate()
            await asyncio.sleep(0.02)
            assert (await oauth2.user(issuer.token().encode())).name == "shop"
            assert issuer.asked == 2

        run(test, server.url, retry=0.01)


def test_unknown_keys_do_not_make_the_broker_ask_on_and_on() -> None:
    issuer, other = Issuer(), Issuer()
    with KeyServer(issuer) as server:

        async def test(oauth2: OAuth2) -> None:
            for _ in range(20):
                with pytest.raises(BadToken, match="unknown key"):
                    await oauth2.user(other.token().encode())
            assert issuer.asked == 1

        run(test, server.url, retry=1000.0)


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"keys": 5}', "x" * (SIZE_MAX + 1)])
def test_keys_that_cannot_be_read(tmp_path: Path, issuer: Issuer, caplog: pytest.LogCaptureFixture, content: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(BadToken, match="unknown key"):
        checked(str(tmp_path / "keys.json"), issuer.token())
    assert "cannot read the keys of tokens" in caplog.text


def test_without_keys_nothing_starts() -> None:
    with pytest.raises(BadOAuth2, match=r"oauth2\.jwks must be set"):
        OAuth2(OAuth2Settings(resource_server_id=ID))
