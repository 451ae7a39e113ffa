"""Runtime parameters of vhosts, and those of the whole broker."""

from leveret.broker.shovel import COMPONENT
from leveret.errors import PreconditionFailed
from leveret.management.api.policies import invalid, vhost_to_change
from leveret.management.http.answer import Answer, created, done, not_found
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request
from leveret.management.http.route import GLOBAL_POLICYMAKER, POLICYMAKER, Result, Route
from leveret.uri import without_credentials

Parameter = tuple[str, str, str, Json]
URIS = ("src-uri", "dest-uri")


def parameter_view(request: Request, parameter: Parameter) -> JsonObject:
    """A parameter as the API shows it: names and passwords of a shovel's URIs to administrators only."""
    vhost, component, name, value = parameter
    if component == COMPONENT and not request.has_tag("administrator"):
        value = shown_definition(value)
    return {"vhost": vhost, "component": component, "name": name, "value": value}


def shown_definition(value: Json) -> Json:
    """A shovel's definition without names and passwords."""
    if not isinstance(value, dict):
        return value
    return {key: shown_uris(found) if key in URIS else found for key, found in value.items()}


def shown_uris(found: Json) -> Json:
    if isinstance(found, list):
        return [shown_uris(one) for one in found]
    return without_credentials(found) if isinstance(found, str) else found


def get_parameters(request: Request) -> Answer:
    """All runtime parameters that the user may see, or those of one component."""
    wanted = request.path.get("component")
    found = [
        (vhost.name, component, name, value)
        for vhost in request.vhosts()
        for (component, name), value in vhost.parameters.all().items()
        if wanted in (None, component)
    ]
    return answer_list(
        request.query, found, lambda parameter: parameter_view(request, parameter), lambda parameter: parameter[:3]
    )


def find_parameter(request: Request) -> Parameter:
    """The parameter that the path names, or 404."""
    component, name = request.path["component"], request.path["name"]
    vhost = request.vhost
    found = vhost.parameters.all()
    if (component, name) not in found:
        raise not_found()
    return vhost.name, component, name, found[component, name]


def get_parameter(request: Request) -> Result:
    """One runtime parameter."""
    return select_columns(request.query, parameter_view(request, find_parameter(request)))


async def put_parameter(request: Request) -> Result:
    """Set a runtime parameter."""
    vhost = vhost_to_change(request)
    (value,) = request.need("value")
    component, name = request.path["component"], request.name("name")
    existed = (component, name) in vhost.parameters.all()
    try:
        await request.change(vhost.parameters.set, component, name, value, request.user)
    except PreconditionFailed as error:
        raise invalid(error) from None
    return created(existed)


async def delete_parameter(request: Request) -> Result:
    """Clear a runtime parameter."""
    _, component, name, _ = find_parameter(request)
    await request.change(request.vhost.parameters.clear, component, name, by=request.user.name)
    return done()


def global_view(parameter: tuple[str, Json]) -> JsonObject:
    """A parameter of the whole broker."""
    name, value = parameter
    return {"name": name, "value": value}


def get_global_parameters(request: Request) -> Answer:
    """All global parameters."""
    return answer_list(request.query, request.broker.parameters.items(), global_view, lambda parameter: (parameter[0],))


def find_global_parameter(request: Request) -> tuple[str, Json]:
    name = request.path["name"]
    if name not in request.broker.parameters:
        raise not_found()
    return name, request.broker.parameters[name]


def get_global_parameter(request: Request) -> Result:
    """One global parameter."""
    return select_columns(request.query, global_view(find_global_parameter(request)))


async def put_global_parameter(request: Request) -> Result:
    """Set a global parameter."""
    (value,) = request.need("value")
    name = request.name("name")
    existed = name in request.broker.parameters
    await request.change(request.broker.set_parameter, name, value, by=request.user.name)
    return created(existed)


async def delete_global_parameter(request: Request) -> Result:
    """Clear a global parameter."""
    await request.change(request.broker.clear_parameter, find_global_parameter(request)[0], by=request.user.name)
    return done()


ROUTES = [
    Route("GET", "/api/parameters", POLICYMAKER, get_parameters),
    Route("GET", "/api/parameters/{component}", POLICYMAKER, get_parameters),
    Route("GET", "/api/parameters/{component}/{vhost}", POLICYMAKER, get_parameters),
    Route("GET", "/api/parameters/{component}/{vhost}/{name}", POLICYMAKER, get_parameter),
    Route("PUT", "/api/parameters/{component}/{vhost}/{name}", POLICYMAKER, put_parameter),
    Route("DELETE", "/api/parameters/{component}/{vhost}/{name}", POLICYMAKER, delete_parameter),
    Route("GET", "/api/global-parameters", GLOBAL_POLICYMAKER, get_global_parameters),
    Route("GET", "/api/global-parameters/{name}", GLOBAL_POLICYMAKER, get_global_parameter),
    Route("PUT", "/api/global-parameters/{name}", GLOBAL_POLICYMAKER, put_global_parameter),
    Route("DELETE", "/api/global-parameters/{name}", GLOBAL_POLICYMAKER, delete_global_parameter),
]
