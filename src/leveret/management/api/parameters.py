"""Runtime parameters of vhosts, and those of the whole broker."""

from typing import Any

from leveret.errors import PreconditionFailed
from leveret.management.answers import Answer, created, done, not_found
from leveret.management.api.policies import invalid, vhost_to_change
from leveret.management.asking import Ask
from leveret.management.lists import chosen, listed
from leveret.management.routes import GLOBAL_POLICYMAKER, POLICYMAKER, Result, Route

Parameter = tuple[str, str, str, Any]


def parameter_view(parameter: Parameter) -> dict[str, Any]:
    """A parameter as the API shows it."""
    vhost, component, name, value = parameter
    return {"vhost": vhost, "component": component, "name": name, "value": value}


def get_parameters(ask: Ask) -> Answer:
    """All parameters that the user may see, of one component perhaps."""
    wanted = ask.path.get("component")
    found = [
        (vhost.name, component, name, value)
        for vhost in ask.vhosts()
        for (component, name), value in vhost.parameters.all().items()
        if wanted in (None, component)
    ]
    return listed(ask.query, found, parameter_view, lambda parameter: parameter[:3])


def the_parameter(ask: Ask) -> Parameter:
    """The parameter that the path names, or 404."""
    component, name = ask.path["component"], ask.path["name"]
    vhost = ask.vhost
    found = vhost.parameters.all()
    if (component, name) not in found:
        raise not_found()
    return vhost.name, component, name, found[component, name]


def get_parameter(ask: Ask) -> Result:
    """One parameter."""
    return chosen(ask.query, parameter_view(the_parameter(ask)))


async def put_parameter(ask: Ask) -> Result:
    """Set a parameter."""
    vhost = vhost_to_change(ask)
    (value,) = ask.need("value")
    component, name = ask.path["component"], ask.name("name")
    existed = (component, name) in vhost.parameters.all()
    try:
        await ask.change(vhost.parameters.set, component, name, value, ask.user)
    except PreconditionFailed as error:
        raise invalid(error) from None
    return created(existed)


async def delete_parameter(ask: Ask) -> Result:
    """Clear a parameter."""
    _, component, name, _ = the_parameter(ask)
    await ask.change(ask.vhost.parameters.clear, component, name, by=ask.user.name)
    return done()


def global_view(parameter: tuple[str, Any]) -> dict[str, Any]:
    """A parameter of the whole broker."""
    name, value = parameter
    return {"name": name, "value": value}


def get_global_parameters(ask: Ask) -> Answer:
    """All parameters of the whole broker."""
    return listed(ask.query, ask.broker.parameters.items(), global_view, lambda parameter: (parameter[0],))


def the_global_parameter(ask: Ask) -> tuple[str, Any]:
    name = ask.path["name"]
    if name not in ask.broker.parameters:
        raise not_found()
    return name, ask.broker.parameters[name]


def get_global_parameter(ask: Ask) -> Result:
    """One parameter of the whole broker."""
    return chosen(ask.query, global_view(the_global_parameter(ask)))


async def put_global_parameter(ask: Ask) -> Result:
    """Set a parameter of the whole broker."""
    (value,) = ask.need("value")
    name = ask.name("name")
    existed = name in ask.broker.parameters
    await ask.change(ask.broker.set_parameter, name, value, by=ask.user.name)
    return created(existed)


async def delete_global_parameter(ask: Ask) -> Result:
    """Clear a parameter of the whole broker."""
    await ask.change(ask.broker.clear_parameter, the_global_parameter(ask)[0], by=ask.user.name)
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
