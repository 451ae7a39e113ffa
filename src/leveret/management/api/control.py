"""What leveretctl needs beyond RabbitMQ's API: stopping the broker, changing its settings, checking a password."""

import logging

from leveret.broker.login import LOCAL_ONLY, Login
from leveret.management.http.answer import bad_request, done
from leveret.management.http.login import decided
from leveret.management.http.request import Request
from leveret.management.http.route import ADMINISTRATOR, Result, Route

log = logging.getLogger("leveret.http")

LEVELS = ("debug", "info", "warning", "error", "critical", "none")


def stop(request: Request) -> Result:
    """Shut the broker down; the reason is logged."""
    (reason,) = request.need("reason")
    if request.node.on_stop is None:
        raise bad_request("this broker can only be stopped by the program that started it")
    log.info("%s stops the broker: %s", request.user.name, reason)
    request.node.on_stop()
    return done()


def put_settings(request: Request) -> Result:
    """Change memory_watermark, disk_free_limit, log_level or track_auth_attempt_source until the next restart."""
    for name, value in request.body.items():
        if name == "log_level" and value in LEVELS:
            logging.getLogger().setLevel("CRITICAL" if value == "none" else str(value).upper())
        elif name == "track_auth_attempt_source" and isinstance(value, bool):
            request.broker.churn.logins.by_source = value
        elif name in ("memory_watermark", "disk_free_limit") and isinstance(value, int | float) and value >= 0:
            request.node.set_limit(name, value)
        else:
            raise bad_request(f"bad setting {name} = {value!r}")
    return done()


async def authenticate(request: Request) -> Result:
    """Check a user's password."""
    name, password = request.need("name", "password")
    login = await decided(Login(request.broker, str(name), str(password).encode(), ""))
    return {"ok": login.refusal in ("", LOCAL_ONLY)}


ROUTES = [
    Route("POST", "/api/leveret/stop", ADMINISTRATOR, stop),
    Route("PUT", "/api/leveret/settings", ADMINISTRATOR, put_settings),
    Route("POST", "/api/leveret/authenticate", ADMINISTRATOR, authenticate),
]
