"""Who asks: a login with every request, by Basic authentication or the page's cookie; and what each level demands."""

import asyncio
import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from aiohttp import web

from leveret.broker.access import TrustedUser, User
from leveret.broker.broker import Broker
from leveret.broker.login import LOCAL_ONLY, Login
from leveret.management.http.answer import Refused
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

TAGS = {"administrator", "monitoring", "policymaker", "management"}
REALM = 'Basic realm="RabbitMQ Management"'
COOKIE = "m"
# As logins are counted.
PROTOCOL = "http"


class LocalUser(TrustedUser):
    """Whoever may open the broker's socket in its data folder: an administrator with all rights everywhere."""

    def __init__(self) -> None:
        super().__init__("leveretctl", "", ("administrator",))


async def login(broker: Broker, request: web.Request, level: str, vhost: str | None) -> User:
    """The user who asks, if that is allowed to it; or 401."""
    name, password = credentials(request)
    peer = request.remote or ""
    with counted(broker, name, peer):
        user = await known_user(broker, name, password, peer)
        check_level(level, user, vhost, vhost in broker.vhosts)
    return user


@contextmanager
def counted(broker: Broker, name: str, peer: str) -> Iterator[None]:
    """Count the login that is done in the block. RabbitMQ: one who may not ask for this counts as refused."""
    try:
        yield
    except Refused:
        broker.churn.logins.count(PROTOCOL, peer, name, succeeded=False)
        raise
    broker.churn.logins.count(PROTOCOL, peer, name, succeeded=True)


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
    if not TAGS & set(login.user.tags):
        raise Refused(401, "Not management user")
    return login.user


async def decided(login: Login) -> Login:
    """A login, when it is decided."""
    login.begin(now_ms())
    if not login.done:
        done = asyncio.Event()
        login.on_done = done.set
        await done.wait()
    return login


def credentials(request: web.Request) -> tuple[str, str]:
    """Name and password from the header, or from the cookie that the page sets."""
    kind, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "basic":
        kind, encoded = "cookie", unquote(request.cookies.get(COOKIE, ""))
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8", "surrogateescape")
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
    rights = user.rights.get(vhost or "")
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
