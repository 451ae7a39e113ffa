"""Shovels: what they do. They are made as parameters."""

from datetime import datetime
from typing import Any

from leveret.broker.shovel import COMPONENT
from leveret.management.answers import Answer, done, not_found
from leveret.management.asking import Ask
from leveret.management.lists import chosen, listed
from leveret.management.routes import MONITOR, POLICYMAKER, Result, Route
from leveret.shovel.shovel import STARTING, TERMINATED, Shovel
from leveret.shovel.shovels import Shovels
from leveret.uri import without_credentials

PROTOCOL = "amqp091"


def shovels_of(ask: Ask) -> Shovels:
    found = ask.node.shovels
    assert found is not None
    return found


def shovel_view(ask: Ask, shovel: Shovel) -> dict[str, Any]:
    """A shovel's state as the API shows it, without names and passwords."""
    since = datetime.fromtimestamp(shovel.since / 1000)
    view = {
        "node": ask.broker.settings.node_name,
        # RabbitMQ: hours have no leading zero.
        "timestamp": f"{since:%Y-%m-%d} {since.hour}:{since:%M:%S}",
        "name": shovel.name,
        "vhost": shovel.vhost,
        "type": "dynamic",
        "state": shovel.state,
    }
    if shovel.state == TERMINATED:
        view["reason"] = shovel.reason
    elif shovel.state != STARTING:
        view |= running_view(shovel)
    return view


def running_view(shovel: Shovel) -> dict[str, str]:
    """Both ends of a shovel that runs."""
    source, destination = shovel.definition.source, shovel.definition.destination
    found = {
        "src_uri": shovel.uris[0],
        "src_protocol": PROTOCOL,
        "dest_protocol": PROTOCOL,
        "dest_uri": shovel.uris[1],
        "src_queue": source.queue,
        "src_exchange": source.exchange,
        "src_exchange_key": source.routing_key if source.queue is None else None,
        "dest_exchange": destination.exchange,
        "dest_exchange_key": destination.routing_key,
        "dest_queue": destination.queue,
        "blocked_status": shovel.state,
    }
    return {key: value for key, value in found.items() if value is not None}


def get_shovels(ask: Ask) -> Answer:
    """What the shovels do, of all vhosts that the user may enter or of one."""
    wanted = None if "vhost" not in ask.path else ask.vhost.name
    found = [shovel for shovel in shovels_of(ask).all() if wanted in (None, shovel.vhost) and ask.may_enter(shovel.vhost)]
    return listed(ask.query, found, lambda shovel: shovel_view(ask, shovel), lambda shovel: (shovel.vhost, shovel.name))


def get_shovel(ask: Ask) -> Result:
    """How a shovel is set up, without names and passwords."""
    name = ask.path["name"]
    value = ask.vhost.parameters.values.get((COMPONENT, name))
    if value is None or not ask.may_enter(ask.vhost.name):
        raise not_found()
    return chosen(ask.query, {"vhost": ask.vhost.name, "component": COMPONENT, "name": name, "value": shown(value)})


def shown(value: Any) -> Any:
    """A parameter with URIs that may be seen. RabbitMQ shows passwords here to whoever may look at figures."""
    if not isinstance(value, dict):
        return {}
    return {key: _shown_uris(found) if key in ("src-uri", "dest-uri") else found for key, found in value.items()}


def _shown_uris(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown_uris(one) for one in value]
    return without_credentials(value) if isinstance(value, str) else ""


async def delete_shovel(ask: Ask) -> Result:
    """End a shovel for good, by clearing its parameter; one that is not there is no fault."""
    vhost, name = ask.vhost, ask.path["name"]
    if (COMPONENT, name) in vhost.parameters.values:
        await ask.change(vhost.parameters.clear, COMPONENT, name, by=ask.user.name)
    return done()


def restart_shovel(ask: Ask) -> Result:
    """End a shovel and begin it anew."""
    vhost, name = ask.vhost.name, ask.path["name"]
    if shovels_of(ask).find(vhost, name) is None:
        raise not_found()
    shovels_of(ask).begin_anew(vhost, name)
    return done()


# RabbitMQ: monitoring is enough to delete one. Here it takes what it takes to clear the parameter.
ROUTES = [
    Route("GET", "/api/shovels", MONITOR, get_shovels),
    Route("GET", "/api/shovels/{vhost}", MONITOR, get_shovels),
    Route("GET", "/api/shovels/vhost/{vhost}/{name}", MONITOR, get_shovel),
    Route("DELETE", "/api/shovels/vhost/{vhost}/{name}", POLICYMAKER, delete_shovel),
    Route("DELETE", "/api/shovels/vhost/{vhost}/{name}/restart", POLICYMAKER, restart_shovel),
]
