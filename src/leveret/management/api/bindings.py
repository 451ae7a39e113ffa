"""Bindings, those from the default exchange included, which nobody has made."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote_plus

from leveret.broker.binding import Binding
from leveret.broker.declaration import check_may_bind
from leveret.broker.exchange import Exchange
from leveret.broker.name import stripped
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.answers import Answer, done, not_found
from leveret.management.asking import Ask
from leveret.management.direct import unbound
from leveret.management.pieces import listed_in_pieces
from leveret.management.properties_key import EMPTY, arguments_hash, properties_key, unquoted
from leveret.management.routes import USER, VHOST, Route
from leveret.management.texts import find, text
from leveret.management.values import parse_key, parse_table, plain
from leveret.wire.values import Table

Found = tuple[str, Binding]


def binding_view(vhost_name: str, binding: Binding) -> dict[str, Any]:
    """A binding as the API shows it."""
    return {
        "source": binding.source.name,
        "vhost": vhost_name,
        "destination": binding.destination.name,
        "destination_type": "queue" if isinstance(binding.destination, Queue) else "exchange",
        "routing_key": text(binding.routing_key),
        "arguments": plain(binding.arguments),
        "properties_key": properties_key(binding.routing_key, binding.arguments),
    }


async def list_bindings(ask: Ask, bindings: Iterable[Binding]) -> Answer:
    """Bindings of the path's vhost as a list."""
    return await answer_list(ask, ((ask.vhost.name, binding) for binding in bindings))


async def answer_list(ask: Ask, found: Iterable[Found]) -> Answer:
    return await listed_in_pieces(ask.query, found, lambda one: binding_view(*one), _order)


def _order(found: Found) -> tuple[str, ...]:
    vhost_name, binding = found
    return (vhost_name, binding.source.name, binding.destination.name, binding.routing_key)


def implicit(vhost: VirtualHost, queue: Queue) -> Binding:
    """The binding from the default exchange that every queue has."""
    return Binding(vhost.exchanges[""], queue, queue.name, {})


def bindings_to(vhost: VirtualHost, destination: Queue | Exchange) -> list[Binding]:
    """What leads to a queue or exchange."""
    if isinstance(destination, Queue):
        return [implicit(vhost, destination), *destination.bindings.values()]  # type: ignore[list-item]
    return list(destination.inbound.values())


def bindings_from(vhost: VirtualHost, source: Exchange) -> Iterable[Binding]:
    """What leads from an exchange now."""
    if not source.name:
        return (implicit(vhost, queue) for queue in list(vhost.queues.values()))
    return list(source.bindings.values())


async def get_bindings(ask: Ask) -> Answer:
    """All bindings, or those of a vhost."""
    return await answer_list(
        ask,
        (
            (vhost.name, binding)
            for vhost in ask.vhosts()
            for exchange in list(vhost.exchanges.values())
            for binding in bindings_from(vhost, exchange)
        ),
    )


def between(ask: Ask) -> list[Binding]:
    """The bindings between the path's ends."""
    vhost = ask.vhost
    source = find(vhost.exchanges, ask.path["source"])
    destination = find(destinations(ask), ask.path["destination"])
    if source is None or destination is None:
        return []
    return [binding for binding in bindings_to(vhost, destination) if binding.source is source]


def destinations(ask: Ask) -> dict[str, Any]:
    """Whatever may be called what the path calls the destination."""
    kind = ask.path["kind"]
    if kind == "q":
        return ask.vhost.queues
    if kind == "e":
        return ask.vhost.exchanges
    raise not_found()


async def get_bindings_between(ask: Ask) -> Answer:
    """The bindings between an exchange and a queue or another exchange."""
    return await list_bindings(ask, between(ask))


async def post_binding(ask: Ask) -> Answer:
    """Bind; the answer says by which key the binding is found."""
    destinations(ask)
    key = parse_key(ask.body.get("routing_key"))
    arguments = parse_table(ask.body.get("arguments"))
    await ask.change(bind, ask, key, arguments)
    found = properties_key(key, arguments)
    # RabbitMQ: relative to the path that was asked for.
    return Answer(
        None, 201, {"Location": f"{quote_plus(ask.path['destination'], errors='surrogateescape')}/{quote_plus(found)}"}
    )


def bind(ask: Ask, routing_key: str, arguments: Table) -> None:
    vhost, to_queue = ask.vhost, ask.path["kind"] == "q"
    source, name = stripped(ask.path["source"]), stripped(ask.path["destination"])
    check_may_bind(vhost, ask.rights, to_queue, name, source, routing_key)
    vhost.exchange(source)
    destination = vhost.queue(name, None) if to_queue else vhost.exchange(name)
    vhost.bind(source, destination, routing_key, arguments, by=ask.user.name)


def unbind(ask: Ask, binding: Binding) -> None:
    vhost, source, destination, key = ask.vhost, binding.source.name, binding.destination, binding.routing_key
    check_may_bind(vhost, ask.rights, destination.is_queue, destination.name, source, key)
    vhost.unbind(source, destination, key, binding.arguments, None, by=ask.user.name)


def find_binding(ask: Ask) -> Binding:
    """The binding that the path's key names, or 404."""
    parts = ask.path["props"].split("~")
    if ask.path["props"] == EMPTY:
        key, hashed = "", ""
    elif len(parts) <= 2:
        key, hashed = unquoted(parts[0]), unquoted(parts[1]) if len(parts) == 2 else ""
    else:
        raise not_found()
    for binding in between(ask):
        if binding.routing_key == key and (arguments_hash(binding.arguments) if binding.arguments else "") == hashed:
            return binding
    raise not_found()


def get_binding(ask: Ask) -> dict[str, Any]:
    """One binding."""
    return binding_view(ask.vhost.name, find_binding(ask))


async def delete_binding(ask: Ask) -> Answer:
    """Unbind."""
    await ask.change(unbind, ask, find_binding(ask))
    await unbound(ask)
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
