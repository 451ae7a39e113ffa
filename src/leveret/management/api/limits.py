"""How many connections, channels and queues vhosts and users may have."""

from typing import Any

from leveret.errors import PreconditionFailed
from leveret.management.answers import Answer, bad_request, done
from leveret.management.api.policies import invalid, number, vhost_to_change
from leveret.management.api.users import the_user
from leveret.management.asking import Ask
from leveret.management.lists import listed
from leveret.management.routes import ADMINISTRATOR, VISIBLE, Result, Route

Limits = tuple[str, dict[str, int]]


def get_vhost_limits(ask: Ask) -> Answer:
    """The limits of vhosts that have any."""
    found = [(vhost.name, vhost.limits) for vhost in ask.vhosts(visible=True) if vhost.limits]
    return listed_limits(ask, found, "vhost")


def get_user_limits(ask: Ask) -> Answer:
    """The limits of users who have any."""
    users = [the_user(ask)] if "user" in ask.path else ask.broker.users.values()
    return listed_limits(ask, [(user.name, user.limits) for user in users if user.limits], "user")


def listed_limits(ask: Ask, found: list[Limits], whose: str) -> Answer:
    def view(limits: Limits) -> dict[str, Any]:
        name, value = limits
        return {whose: name, "value": value}

    return listed(ask.query, found, view, lambda limits: (limits[0],))


async def put_vhost_limit(ask: Ask) -> Result:
    """Set one limit of a vhost; less than 0 is none."""
    vhost = vhost_to_change(ask)
    limits = {**vhost.limits, **the_limit(ask)}
    try:
        await ask.change(vhost.set_limits, limits, by=ask.user.name)
    except PreconditionFailed as error:
        raise invalid(error) from None
    return done()


async def delete_vhost_limit(ask: Ask) -> Result:
    """Clear one limit of a vhost."""
    vhost = vhost_to_change(ask)
    await ask.change(vhost.set_limits, without(vhost.limits, ask.path["name"]), by=ask.user.name)
    return done()


async def put_user_limit(ask: Ask) -> Result:
    """Set one limit of a user; less than 0 is none."""
    user = ask.broker.users.get(ask.path["user"])
    if user is None:
        raise bad_request("no_such_user")
    try:
        await ask.change(ask.broker.set_user_limits, user.name, {**user.limits, **the_limit(ask)}, by=ask.user.name)
    except PreconditionFailed as error:
        raise bad_request(str(error)) from None
    return done()


async def delete_user_limit(ask: Ask) -> Result:
    """Clear one limit of a user."""
    user = the_user(ask)
    await ask.change(ask.broker.set_user_limits, user.name, without(user.limits, ask.path["name"]), by=ask.user.name)
    return done()


def the_limit(ask: Ask) -> dict[str, Any]:
    (value,) = ask.need("value")
    # rabbitmqadmin writes numbers as text.
    return {ask.path["name"]: number(value)}


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
