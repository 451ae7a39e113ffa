"""Users, their logins and their passwords."""

from urllib.parse import parse_qs

from leveret.auth.session import LIFETIME_MS
from leveret.broker.access import User
from leveret.broker.logins import Attempts
from leveret.broker.password import check_password_length, hash_password, is_slow
from leveret.definitions.user import put_user as put
from leveret.errors import PreconditionFailed
from leveret.management.http.answer import Answer, bad_request, created, done
from leveret.management.http.json import JsonObject
from leveret.management.http.json_names import as_text
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.login import COOKIE, counted, known_user
from leveret.management.http.origin import check_origin
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, ANYONE, MONITOR, Result, Route
from leveret.server.clock import now_ms


def user_view(user: User) -> JsonObject:
    """A user as the API shows it."""
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing,
        "tags": list(user.tags),
        "limits": user.limits,
    }


def get_users(request: Request) -> Answer:
    """All users."""
    return answer_list(request.query, request.broker.users.values(), user_view, lambda user: (user.name,))


def get_users_without_permissions(request: Request) -> Answer:
    """Users without permissions in any vhost."""
    found = [user for user in request.broker.users.values() if not any(rights.granted for rights in user.rights.values())]
    return answer_list(request.query, found, user_view, lambda user: (user.name,))


def find_user(request: Request) -> User:
    """The user that the path names, or 404."""
    return request.found(request.broker.users, "user")


def get_user(request: Request) -> Result:
    """One user."""
    return select_columns(request.query, user_view(find_user(request)))


async def put_user(request: Request) -> Result:
    """Create a user, or change its password and tags."""
    name = request.name("user")
    existed = name in request.broker.users
    try:
        found = await hashed_elsewhere(request, request.body)
        await request.change(put, request.broker, name, found, by=request.user.name)
    except PreconditionFailed as error:
        raise bad_request(str(error)) from None
    return created(existed)


async def hashed_elsewhere(request: Request, body: JsonObject) -> JsonObject:
    """What is said of a user, with its password hashed already if that takes long."""
    settings, password = request.broker.settings, body.get("password")
    if not is_slow(settings.password_hashing) or not password or "password_hash" in body or request.node.logins is None:
        return body
    check_password_length(str(password), settings.password_length_min)
    hashed = await request.node.logins.slow_check.hash(str(password))
    found = {key: value for key, value in body.items() if key != "password"}
    return found | {"password_hash": hashed, "hashing_algorithm": settings.password_hashing}


async def delete_user(request: Request) -> Result:
    """Delete a user and close its connections."""
    await request.change(request.broker.delete_user, find_user(request).name, by=request.user.name)
    return done()


async def delete_users(request: Request) -> Result:
    """Delete several users; those that do not exist are skipped."""
    (names,) = request.need("users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request("users must be a list of names")

    def delete() -> None:
        for name in names:
            if name in request.broker.users:
                request.broker.delete_user(name, by=request.user.name)

    await request.change(delete)
    return done()


def get_password_hash(request: Request) -> Result:
    """The hash of a password, with a new salt."""
    return {"ok": hash_password(request.path["password"].encode("utf-8", "surrogateescape"))}


def get_auth(request: Request) -> Result:
    """How the web page logs in."""
    return {"oauth_enabled": False}


async def post_login(request: Request) -> Result:
    """Log in with a form; the answer sets the web page's cookie."""
    check_origin("POST", request.headers, False, ())
    form = parse_qs(request.body_octets.decode("utf-8", "surrogateescape"), keep_blank_values=True)
    name, password = (form.get(key, [""])[0] for key in ("username", "password"))
    with counted(request.broker, name, request.peer):
        user = await known_user(request.broker, name, password, request.peer)
    secure = "; Secure" if request.secure else ""
    value = request.node.sessions.begin(user, now_ms())
    request.node.audit.say("session.created", "ok", name=name, address=request.peer)
    cookie = f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={LIFETIME_MS // 1000}{secure}"
    return Answer("ok", headers={"Set-Cookie": cookie})


def get_attempts(request: Request) -> Result:
    """Login attempts by protocol."""
    request.check_node()
    return [{"protocol": name, **counts(one)} for name, one in request.broker.churn.logins.protocols.items()]


def get_attempts_by_source(request: Request) -> Result:
    """Login attempts by address, user and protocol; empty unless `track_auth_attempt_source` is set."""
    request.check_node()
    return [
        {"remote_address": address, "username": as_text(name), "protocol": protocol, **counts(one)}
        for (address, name, protocol), one in request.broker.churn.logins.sources.items()
    ]


def counts(one: Attempts) -> dict[str, int]:
    return {"auth_attempts": one.total, "auth_attempts_failed": one.failed, "auth_attempts_succeeded": one.succeeded}


def delete_attempts(request: Request) -> Result:
    """Reset the counters of login attempts."""
    request.check_node()
    request.broker.churn.logins.reset()
    return done()


ROUTES = [
    Route("GET", "/api/users", ADMINISTRATOR, get_users),
    Route("GET", "/api/users/without-permissions", ADMINISTRATOR, get_users_without_permissions),
    Route("POST", "/api/users/bulk-delete", ADMINISTRATOR, delete_users),
    Route("GET", "/api/users/{user}", ADMINISTRATOR, get_user),
    Route("PUT", "/api/users/{user}", ADMINISTRATOR, put_user),
    Route("DELETE", "/api/users/{user}", ADMINISTRATOR, delete_user),
    Route("GET", "/api/auth", ANYONE, get_auth),
    Route("GET", "/api/auth/hash_password/{password}", ADMINISTRATOR, get_password_hash),
    Route("GET", "/api/auth/attempts/{node}", MONITOR, get_attempts),
    Route("DELETE", "/api/auth/attempts/{node}", MONITOR, delete_attempts),
    Route("GET", "/api/auth/attempts/{node}/source", MONITOR, get_attempts_by_source),
    Route("DELETE", "/api/auth/attempts/{node}/source", MONITOR, delete_attempts),
    Route("POST", "/api/login", ANYONE, post_login),
]
