"""Who asks: a login with every request, by password, API key or the page's cookie; and what each level demands."""

import asyncio
import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from leveret.auth.oauth2 import is_token
from leveret.broker.access import LimitedUser, TrustedUser, User, is_loopback
from leveret.broker.broker import Broker
from leveret.broker.login import LOCAL_ONLY, Login
from leveret.broker.token import READ
from leveret.management.http.answer import Refused
from leveret.management.http.origin import LOOKING, check_origin
from leveret.management.http.route import (
    ADMINISTRATOR,
    GLOBAL_POLICYMAKER,
    MONITOR,
    POLICYMAKER,
    USER,
    VHOST,
    VISIBLE,
)
from leveret.server.clock import now_ms

if TYPE_CHECKING:
    from leveret.server.node import Node

TAGS = {"administrator", "monitoring", "policymaker", "management"}
REALM = 'Basic realm="RabbitMQ Management"'
COOKIE = "m"
# How one shows who one is.
BASIC, BEARER, BY_COOKIE = "basic", "bearer", "cookie"
# As logins are counted.
PROTOCOL = "http"


class LocalUser(TrustedUser):
    """Whoever may open the broker's socket in its data folder: an administrator with all rights everywhere."""

    def __init__(self) -> None:
        super().__init__("leveretctl", "", ("administrator",))


async def login(node: "Node", request: web.Request, level: str, vhost: str | None) -> User:
    """The user who asks, if that is allowed to it; or 401."""
    broker, peer = node.broker, request.remote or ""
    kind, credential = credentials(request)
    check_origin(request.method, request.headers, kind == BY_COOKIE, node.config.cors_origins)
    if kind == BASIC:
        name, password = name_and_password(credential)
        with counted(broker, name, peer):
            user = await known_user(broker, name, password, peer)
            check_level(level, user, vhost, vhost in broker.vhosts)
        return user
    if not credential:
        # Nothing was tried.
        raise Refused(401, "Login failed", "not_authorised")
    with counted(broker, "", peer) as attempt:
        user = await user_of_token(broker, credential, peer) if kind == BEARER else user_of_cookie(node, credential)
        attempt.name = user.name
        check_user(user, peer)
        if isinstance(user, LimitedUser) and user.only_reads and request.method not in LOOKING:
            raise Refused(401, "This token may only read")
        check_level(level, user, vhost, vhost in broker.vhosts)
    return user


async def user_of_token(broker: Broker, key: str, peer: str) -> User:
    """Whose API key this is, with the tags that it is for, or whose token of OAuth 2; or 401."""
    if is_token(key.encode("utf-8", "surrogateescape")):
        return await known_user(broker, "", key, peer)
    token = broker.tokens.find(key, now_ms())
    user = None if token is None else broker.users.get(token.user_name)
    if token is None or user is None:
        raise Refused(401, "Not_Authorized", "not_authorized")
    by_id = broker.tokens.by_id
    return LimitedUser(
        user, token.tags(user.tags), READ in token.scopes, lambda now: by_id.get(token.id) is token and token.is_valid(now)
    )


def user_of_cookie(node: "Node", value: str) -> User:
    """Who has logged in on the page, or 401."""
    user = node.sessions.find(value, node.broker.users, now_ms())
    if user is None:
        raise Refused(401, "Login failed", "not_authorised")
    return user


class Attempt:
    """Who tries, as far as that is known."""

    def __init__(self, name: str) -> None:
        self.name = name


@contextmanager
def counted(broker: Broker, name: str, peer: str) -> Iterator[Attempt]:
    """Count the login that is done in the block. RabbitMQ: one who may not ask for this counts as refused."""
    attempt = Attempt(name)
    try:
        yield attempt
    except Refused:
        broker.churn.logins.count(PROTOCOL, peer, attempt.name, succeeded=False)
        raise
    broker.churn.logins.count(PROTOCOL, peer, attempt.name, succeeded=True)


async def known_user(broker: Broker, name: str, password: str, peer: str) -> User:
    """The user with this name and password if it may ask from there, or 401; 429 after too many failures."""
    login = await decided(Login(broker, name, password.encode("utf-8", "surrogateescape"), peer))
    if login.wait_ms:
        wait_s = -(-login.wait_ms // 1000)
        raise Refused(429, f"Too many failed logins, try again in {wait_s} s", headers={"Retry-After": str(wait_s)})
    if login.refusal == LOCAL_ONLY:
        raise Refused(401, "User can only log in via localhost")
    if login.refusal:
        raise Refused(401, "Not_Authorized", "not_authorized")
    check_user(login.user, peer)
    return login.user


def check_user(user: User, peer: str) -> None:
    """Refuse who may not ask from there, or not at all."""
    if user.loopback_only and not is_loopback(peer):
        raise Refused(401, "User can only log in via localhost")
    if not TAGS & set(user.tags):
        raise Refused(401, "Not management user")


async def decided(login: Login) -> Login:
    """A login, when it is decided."""
    login.begin(now_ms())
    if not login.done:
        done = asyncio.Event()
        login.on_done = done.set
        await done.wait()
    return login


def credentials(request: web.Request) -> tuple[str, str]:
    """What is shown, and which kind of it: by the header or, without one, by the cookie that the page has."""
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() in (BASIC, BEARER):
        return kind.lower(), credential.strip()
    return BY_COOKIE, request.cookies.get(COOKIE, "")


def name_and_password(encoded: str) -> tuple[str, str]:
    """Both, from what Basic authentication sends."""
    try:
        text = base64.b64decode(encoded, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        text = ""
    name, colon, password = text.partition(":")
    if not colon:
        raise Refused(401, "Login failed", "not_authorised")
    return name, password


def check_level(level: str, user: User, vhost: str | None, vhost_exists: bool) -> None:
    """Refuse a user who may not ask for this. A vhost that is not there is for the route to tell."""
    tags = set(user.tags)
    if level == USER or "administrator" in tags:
        return
    rights = user.rights_in(vhost) if vhost is not None and vhost_exists else None
    enters = vhost is None or not vhost_exists or (rights is not None and rights.granted)
    if level == VHOST and enters:
        return
    if level == VISIBLE and (enters or "monitoring" in tags):
        return
    if level == MONITOR and "monitoring" in tags:
        return
    if level == POLICYMAKER and "policymaker" in tags and enters:
        return
    if level == GLOBAL_POLICYMAKER and "policymaker" in tags:
        return
    raise Refused(401, REASONS[level])


REASONS = {
    ADMINISTRATOR: "Not administrator user",
    MONITOR: "Not monitor user",
    POLICYMAKER: "User not authorised to access object",
    GLOBAL_POLICYMAKER: "User not authorised to access object",
    VHOST: "User not authorised to access virtual host",
    VISIBLE: "User not authorised to access virtual host",
}
