"""How many connections, channels and queues vhosts and users may have."""

from typing import Any

from leveret.errors import PreconditionFailed
from leveret.management.api.policies import invalid, number, vhost_to_change
from leveret.management.api.users import find_user
from leveret.management.http.answer import Answer, bad_request, done
from leveret.management.http.json import JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, VISIBLE, Result, Route

Limits = tuple[str, dict[str, int]]


def get_vhost_limits(request: Request) -> Answer:
    """The limits of vhosts."""
    found = [(vhost.name, vhost.limits) for vhost in request.vhosts(visible=True) if vhost.limits]
    return listed_limits(request, found, "vhost")


def get_user_limits(request: Request) -> Answer:
    """The limits of users."""
    users = [find_user(request)] if "user" in request.path else request.broker.users.values()
    return listed_limits(request, [(user.name, user.limits) for user in users if user.limits], "user")


def listed_limits(request: Request, found: list[Limits], whose: str) -> Answer:
    def view(limits: Limits) -> JsonObject:
        name, value = limits
        return {whose: name, "value": value}

    return answer_list(request.query, found, view, lambda limits: (limits[0],))


async def put_vhost_limit(request: Request) -> Result:
    """Set a limit of a vhost; a negative number means no limit."""
    vhost = vhost_to_change(request)
    limits = {**vhost.limits, **body_limit(request)}
    try:
        await request.change(vhost.set_limits, limits)
    except PreconditionFailed as error:
        raise invalid(error) from None
    return done()


async def delete_vhost_limit(request: Request) -> Result:
    """Clear a limit of a vhost."""
    vhost = vhost_to_change(request)
    await request.change(vhost.set_limits, without(vhost.limits, request.path["name"]))
    return done()


async def put_user_limit(request: Request) -> Result:
    """Set a limit of a user; a negative number means no limit."""
    user = request.broker.users.get(request.path["user"])
    if user is None:
        raise bad_request("no_such_user")
    try:
        await request.change(request.broker.set_user_limits, user.name, {**user.limits, **body_limit(request)})
    except PreconditionFailed as error:
        raise bad_request(str(error)) from None
    return done()


async def delete_user_limit(request: Request) -> Result:
    """Clear a limit of a user."""
    user = find_user(request)
    await request.change(request.broker.set_user_limits, user.name, without(user.limits, request.path["name"]))
    return done()


def body_limit(request: Request) -> dict[str, Any]:
    """The limit that a request sets; the model refuses what is no number."""
    (value,) = request.need("value")
    # rabbitmqadmin writes numbers as text.
    return {request.path["name"]: number(value)}


def without(limits: dict[str, int], name: str) -> dict[str, int]:
    return {key: value for key, value in limits.items() if key != name}


ROUTES = [
    Route("GET", "/api/vhost-limits", VISIBLE, get_vhost_limits),
    Route("GET", "/api/vhost-limits/{vhost}", VISIBLE, get_vhost_limits),
    Route("PUT", "/api/vhost-limits/{vhost}/{name}", ADMINISTRATOR, put_vhost_limit),
    Route("DELETE", "/api/vhost-limits/{vhost}/{name}", ADMINISTRATOR, delete_vhost_limit),
    Route("GET", "/api/user-limits", VISIBLE, get_user_limits),
    Route("GET", "/api/user-limits/{user}", VISIBLE, get_user_limits),
    Route("PUT", "/api/user-limits/{user}/{name}", ADMINISTRATOR, put_user_limit),
    Route("DELETE", "/api/user-limits/{user}/{name}", ADMINISTRATOR, delete_user_limit),
]
