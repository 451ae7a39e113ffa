"""Bindings, with those of the default exchange, which nobody has created."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote_plus

from leveret.broker.binding import Binding
from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.api.properties_key import EMPTY, arguments_hash, properties_key, unquoted
from leveret.management.direct import client_of
from leveret.management.http.answer import Answer, done, not_found
from leveret.management.http.json import JsonObject
from leveret.management.http.json_names import as_text, find
from leveret.management.http.json_table import parse_key, parse_table, to_json
from leveret.management.http.list_answer import answer_long_list
from leveret.management.http.request import Request
from leveret.management.http.route import USER, VHOST, Route
from leveret.wire.spec import ExchangeBind, ExchangeUnbind, Method, QueueBind, QueueUnbind
from leveret.wire.values import Table

Found = tuple[str, Binding]


def binding_view(vhost_name: str, binding: Binding) -> JsonObject:
    """A binding as the API shows it."""
    return {
        "source": binding.source.name,
        "vhost": vhost_name,
        "destination": binding.destination.name,
        "destination_type": "queue" if isinstance(binding.destination, Queue) else "exchange",
        "routing_key": as_text(binding.routing_key),
        "arguments": to_json(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


async def list_bindings(request: Request, bindings: Iterable[Binding]) -> Answer:
    """Bindings of the path's vhost as a list."""
    return await _answer_list(request, ((request.vhost.name, binding) for binding in bindings))


async def _answer_list(request: Request, found: Iterable[Found]) -> Answer:
    return await answer_long_list(request.query, found, lambda one: binding_view(*one), _order)


def _order(found: Found) -> tuple[str, ...]:
    vhost_name, binding = found
    return (vhost_name, binding.source.name, binding.destination.name, binding.routing_key)


def implicit(vhost: VirtualHost, queue: Queue) -> Binding:
    """The binding from the default exchange that every queue has."""
    return Binding(vhost.exchanges[""], queue, queue.name, {})


def bindings_to(vhost: VirtualHost, destination: Queue | Exchange) -> list[Binding]:
    """What leads to a queue or exchange."""
    if isinstance(destination, Queue):
        made = (binding for binding in destination.bindings.values() if isinstance(binding, Binding))
        return [implicit(vhost, destination), *made]
    return list(destination.inbound.values())


def bindings_from(vhost: VirtualHost, source: Exchange) -> Iterable[Binding]:
    """What leads from an exchange now."""
    if not source.name:
        return (implicit(vhost, queue) for queue in list(vhost.queues.values()))
    return list(source.bindings.values())


async def get_bindings(request: Request) -> Answer:
    """All bindings, or those of a vhost."""
    return await _answer_list(
        request,
        (
            (vhost.name, binding)
            for vhost in request.vhosts()
            for exchange in list(vhost.exchanges.values())
            for binding in bindings_from(vhost, exchange)
        ),
    )


def between(request: Request) -> list[Binding]:
    """The bindings between the path's ends."""
    vhost = request.vhost
    source = find(vhost.exchanges, request.path["source"])
    destination = find(destinations(request), request.path["destination"])
    if source is None or destination is None:
        return []
    return [binding for binding in bindings_to(vhost, destination) if binding.source is source]


def destinations(request: Request) -> Mapping[str, Queue | Exchange]:
    """The queues or the exchanges, whichever the path's destination is one of."""
    kind = request.path["kind"]
    if kind == "q":
        return request.vhost.queues
    if kind == "e":
        return request.vhost.exchanges
    raise not_found()


async def get_bindings_between(request: Request) -> Answer:
    """The bindings between an exchange and a queue or another exchange."""
    return await list_bindings(request, between(request))


async def post_binding(request: Request) -> Answer:
    """Create a binding; the Location of the answer is its address."""
    destinations(request)
    key = parse_key(request.body.get("routing_key"))
    arguments = parse_table(request.body.get("arguments"))
    await request.change(client_of(request).call, bind_method(request, key, arguments))
    found = properties_key(key, arguments)
    # RabbitMQ: relative to the path that was asked for.
    return Answer(
        None, 201, {"Location": f"{quote_plus(request.path['destination'], errors='surrogateescape')}/{quote_plus(found)}"}
    )


def bind_method(request: Request, routing_key: str, arguments: Table) -> Method:
    source, destination = request.path["source"], request.path["destination"]
    if request.path["kind"] == "q":
        return QueueBind(destination, source, routing_key, no_wait=True, arguments=arguments)
    return ExchangeBind(destination, source, routing_key, no_wait=True, arguments=arguments)


def unbind_method(request: Request, binding: Binding) -> Method:
    source, destination = binding.source.name, binding.destination.name
    if request.path["kind"] == "q":
        return QueueUnbind(destination, source, binding.routing_key, arguments=binding.arguments)
    return ExchangeUnbind(destination, source, binding.routing_key, no_wait=True, arguments=binding.arguments)


def find_binding(request: Request) -> Binding:
    """The binding that the path's key names, or 404."""
    parts = request.path["props"].split("~")
    if request.path["props"] == EMPTY:
        key, hashed = "", ""
    elif len(parts) <= 2:
        key, hashed = unquoted(parts[0]), unquoted(parts[1]) if len(parts) == 2 else ""
    else:
        raise not_found()
    for binding in between(request):
        if binding.routing_key == key and (arguments_hash(binding.arguments) if binding.arguments else "") == hashed:
            return binding
    raise not_found()


def get_binding(request: Request) -> JsonObject:
    """One binding."""
    return binding_view(request.vhost.name, find_binding(request))


async def delete_binding(request: Request) -> Answer:
    """Delete a binding."""
    await request.change(client_of(request).call, unbind_method(request, find_binding(request)))
    await request.unbound()
    return done()


ONE = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}"

ROUTES = [
    Route("GET", "/api/bindings", USER, get_bindings),
    Route("GET", "/api/bindings/{vhost}", VHOST, get_bindings),
    Route("GET", ONE, VHOST, get_bindings_between),
    Route("POST", ONE, VHOST, post_binding),
    Route("GET", ONE + "/{props}", VHOST, get_binding),
    Route("DELETE", ONE + "/{props}", VHOST, delete_binding),
]
