"""The state of shovels. They are created as runtime parameters."""

from datetime import datetime

from leveret.broker.shovel import COMPONENT
from leveret.management.http.answer import Answer, done, not_found
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import MONITOR, POLICYMAKER, Result, Route
from leveret.shovel.shovel import STARTING, TERMINATED, Shovel
from leveret.shovel.supervisor import ShovelSupervisor
from leveret.uri import without_credentials

PROTOCOL = "amqp091"


def shovels_of(request: Request) -> ShovelSupervisor:
    found = request.node.shovels
    assert found is not None
    return found


def shovel_view(request: Request, shovel: Shovel) -> JsonObject:
    """A shovel's state as the API shows it, without names and passwords."""
    since = datetime.fromtimestamp(shovel.since / 1000)
    view: JsonObject = {
        "node": request.broker.settings.node_name,
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


def get_shovels(request: Request) -> Answer:
    """The state of all shovels, or of those of one vhost."""
    wanted = None if "vhost" not in request.path else request.vhost.name
    found = [
        shovel for shovel in shovels_of(request).all() if wanted in (None, shovel.vhost) and request.may_enter(shovel.vhost)
    ]
    return answer_list(
        request.query, found, lambda shovel: shovel_view(request, shovel), lambda shovel: (shovel.vhost, shovel.name)
    )


def get_shovel(request: Request) -> Result:
    """A shovel's definition, without user names and passwords."""
    name = request.path["name"]
    value = request.vhost.parameters.get((COMPONENT, name))
    if value is None or not request.may_enter(request.vhost.name):
        raise not_found()
    return select_columns(
        request.query, {"vhost": request.vhost.name, "component": COMPONENT, "name": name, "value": shown(value)}
    )


def shown(value: Json) -> Json:
    """A parameter with URIs that may be seen. RabbitMQ shows passwords here to every user with the tag monitoring."""
    if not isinstance(value, dict):
        return {}
    return {key: _shown_uris(found) if key in ("src-uri", "dest-uri") else found for key, found in value.items()}


def _shown_uris(value: Json) -> Json:
    if isinstance(value, list):
        return [_shown_uris(one) for one in value]
    return without_credentials(value) if isinstance(value, str) else ""


async def delete_shovel(request: Request) -> Result:
    """Delete a shovel; it is no error if there is none."""
    vhost, name = request.vhost, request.path["name"]
    if (COMPONENT, name) in vhost.parameters:
        await request.change(vhost.clear_parameter, COMPONENT, name)
    return done()


def restart_shovel(request: Request) -> Result:
    """Restart a shovel."""
    vhost, name = request.vhost.name, request.path["name"]
    if shovels_of(request).find(vhost, name) is None:
        raise not_found()
    shovels_of(request).restart(vhost, name)
    return done()


# RabbitMQ: monitoring is enough to delete one. Here it takes what it takes to clear the parameter.
ROUTES = [
    Route("GET", "/api/shovels", MONITOR, get_shovels),
    Route("GET", "/api/shovels/{vhost}", MONITOR, get_shovels),
    Route("GET", "/api/shovels/vhost/{vhost}/{name}", MONITOR, get_shovel),
    Route("DELETE", "/api/shovels/vhost/{vhost}/{name}", POLICYMAKER, delete_shovel),
    Route("DELETE", "/api/shovels/vhost/{vhost}/{name}/restart", POLICYMAKER, restart_shovel),
]
