"""Users, their logins and their passwords."""

import base64
from typing import Any
from urllib.parse import parse_qs, quote

from leveret.broker.access import User, hash_password
from leveret.broker.logins import Attempts
from leveret.definitions.user import put_user as put
from leveret.errors import PreconditionFailed
from leveret.management.answers import Answer, bad_request, created, done, not_found
from leveret.management.asking import Ask
from leveret.management.lists import chosen, listed
from leveret.management.login import COOKIE, counted, known_user
from leveret.management.routes import ADMINISTRATOR, MONITOR, NOBODY_ASKED, Result, Route
from leveret.management.texts import text


def user_view(user: User) -> dict[str, Any]:
    """A user as the API shows it."""
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing,
        "tags": list(user.tags),
        "limits": user.limits,
    }


def get_users(ask: Ask) -> Answer:
    """All users."""
    return listed(ask.query, ask.broker.users.values(), user_view, lambda user: (user.name,))


def get_users_without_permissions(ask: Ask) -> Answer:
    """Users who may enter no vhost."""
    found = [user for user in ask.broker.users.values() if not any(rights.granted for rights in user.rights.values())]
    return listed(ask.query, found, user_view, lambda user: (user.name,))


def the_user(ask: Ask) -> User:
    """The user that the path names, or 404."""
    return ask.found(ask.broker.users, "user")


def get_user(ask: Ask) -> Result:
    """One user."""
    return chosen(ask.query, user_view(the_user(ask)))


async def put_user(ask: Ask) -> Result:
    """Make a user, or give it another password and other tags."""
    name = ask.name("user")
    existed = name in ask.broker.users
    try:
        await ask.change(put, ask.broker, name, ask.body, by=ask.user.name)
    except PreconditionFailed as error:
        raise bad_request(str(error)) from None
    return created(existed)


async def delete_user(ask: Ask) -> Result:
    """Delete a user, and end its connections."""
    await ask.change(ask.broker.delete_user, the_user(ask).name, by=ask.user.name)
    return done()


async def delete_users(ask: Ask) -> Result:
    """Delete several users; one that is not there is fine."""
    (names,) = ask.need("users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users must be a list of names")

    def delete() -> None:
        for name in names:
            if name in ask.broker.users:
                ask.broker.delete_user(name, by=ask.user.name)

    await ask.change(delete)
    return done()


def get_password_hash(ask: Ask) -> Result:
    """A password as it is kept, with a new salt."""
    return {"ok": hash_password(ask.path["password"].encode("utf-8", "surrogateescape"))}


def get_auth(ask: Ask) -> Result:
    """How a page may log in."""
    return {"oauth_enabled": False}


def post_login(ask: Ask) -> Result:
    """Log in with a form; the answer sets the page's cookie."""
    form = parse_qs(ask.body_octets.decode("utf-8", "surrogateescape"), keep_blank_values=True)
    name, password = (form.get(key, [""])[0] for key in ("username", "password"))
    with counted(ask.broker, name, ask.peer):
        known_user(ask.broker, name, password, ask.peer)
    value = base64.b64encode(f"{name}:{password}".encode("utf-8", "surrogateescape")).decode()
    cookie = f"{COOKIE}={quote(value, safe='')}; Path=/; HttpOnly; SameSite=Strict"
    return Answer("ok", headers={"Set-Cookie": cookie})


def get_attempts(ask: Ask) -> Result:
    """Logins by protocol."""
    check_node(ask)
    return [{"protocol": name, **counts(one)} for name, one in ask.broker.churn.logins.protocols.items()]


def get_attempts_by_source(ask: Ask) -> Result:
    """Logins by address, user and protocol; none unless `track_auth_attempt_source` is set."""
    check_node(ask)
    return [
        {"remote_address": address, "username": text(name), "protocol": protocol, **counts(one)}
        for (address, name, protocol), one in ask.broker.churn.logins.sources.items()
    ]


def counts(one: Attempts) -> dict[str, int]:
    return {"auth_attempts": one.total, "auth_attempts_failed": one.failed, "auth_attempts_succeeded": one.succeeded}


def delete_attempts(ask: Ask) -> Result:
    """Count logins anew, of both kinds."""
    check_node(ask)
    ask.broker.churn.logins.reset()
    return done()


def check_node(ask: Ask) -> None:
    """404 for a node that is not there."""
    if ask.path["node"] != ask.broker.settings.node_name:
        raise not_found()


ROUTES = [
    Route("GET", "/api/users", ADMINISTRATOR, get_users),
    Route("GET", "/api/users/without-permissions", ADMINISTRATOR, get_users_without_permissions),
    Route("POST", "/api/users/bulk-delete", ADMINISTRATOR, delete_users),
    Route("GET", "/api/users/{user}", ADMINISTRATOR, get_user),
    Route("PUT", "/api/users/{user}", ADMINISTRATOR, put_user),
    Route("DELETE", "/api/users/{user}", ADMINISTRATOR, delete_user),
    Route("GET", "/api/auth", NOBODY_ASKED, get_auth),
    Route("GET", "/api/auth/hash_password/{password}", ADMINISTRATOR, get_password_hash),
    Route("GET", "/api/auth/attempts/{node}", MONITOR, get_attempts),
    Route("DELETE", "/api/auth/attempts/{node}", MONITOR, delete_attempts),
    Route("GET", "/api/auth/attempts/{node}/source", MONITOR, get_attempts_by_source),
    Route("DELETE", "/api/auth/attempts/{node}/source", MONITOR, delete_attempts),
    Route("POST", "/api/login", NOBODY_ASKED, post_login),
]
