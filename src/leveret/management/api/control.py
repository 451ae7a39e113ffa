"""What leveretctl needs beyond RabbitMQ's API: stopping, settings of the running broker, trying a password."""

import logging

from leveret.management.answers import bad_request, done
from leveret.management.asking import Ask
from leveret.management.routes import ADMINISTRATOR, Result, Route

log = logging.getLogger("leveret.http")

LEVELS = ("debug", "info", "warning", "error", "critical", "none")


def stop(ask: Ask) -> Result:
    """Stop the broker, in order; the reason goes to the log."""
    (reason,) = ask.need("reason")
    if ask.node.on_stop is None:
        raise bad_request("this broker is stopped by whoever started it")
    log.info("%s stops the broker: %s", ask.user.name, reason)
    ask.node.on_stop()
    return done()


def put_settings(ask: Ask) -> Result:
    """Set memory_watermark, disk_free_limit, log_level or track_auth_attempt_source until the next start."""
    for name, value in ask.body.items():
        if name == "log_level" and value in LEVELS:
            logging.getLogger().setLevel("CRITICAL" if value == "none" else str(value).upper())
        elif name == "track_auth_attempt_source" and isinstance(value, bool):
            ask.broker.churn.logins.by_source = value
        elif name in ("memory_watermark", "disk_free_limit") and isinstance(value, int | float) and value >= 0:
            ask.node.set_limit(name, value)
        else:
            raise bad_request(f"bad setting {name} = {value!r}")
    return done()


def authenticate(ask: Ask) -> Result:
    """Whether this is a user's password."""
    name, password = ask.need("name", "password")
    user = ask.broker.users.get(str(name))
    return {"ok": user is not None and user.has_password(str(password).encode())}


ROUTES = [
    Route("POST", "/api/leveret/stop", ADMINISTRATOR, stop),
    Route("PUT", "/api/leveret/settings", ADMINISTRATOR, put_settings),
    Route("POST", "/api/leveret/authenticate", ADMINISTRATOR, authenticate),
]
