"""Exchanges: what they are and do; declaring and deleting them, and publishing to one."""

import asyncio
import base64
import binascii

from leveret.broker.counters import PASSING
from leveret.broker.exchange import Exchange
from leveret.broker.vhost import VirtualHost
from leveret.management.api.bindings import bindings_from, bindings_to, list_bindings
from leveret.management.api_channel import ApiChannel, client_of
from leveret.management.http.answer import Answer, Refused, bad_request, created, done
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.json_table import parse_key, parse_properties, parse_table, to_json
from leveret.management.http.list_answer import answer_long_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request, parse_bool
from leveret.management.http.route import USER, VHOST, Route
from leveret.management.statistics.breakdown import channel_rows, exchange_outgoing
from leveret.management.statistics.rate import with_rates
from leveret.wire.properties import Properties


def exchange_view(request: Request, vhost: VirtualHost, exchange: Exchange) -> JsonObject:
    """An exchange as the API shows it."""
    counts = {name: value for name, value in exchange.counters.counts().items() if name in PASSING}
    view: JsonObject = {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": to_json(exchange.arguments),
        "user_who_performed_action": exchange.made_by,
    }
    if exchange.policy is not None:
        view["policy"] = exchange.policy.name
    if counts:
        view["message_stats"] = with_rates(counts, request.statistics.of(exchange), request.query)
    return view


def listed_view(request: Request, vhost: VirtualHost, exchange: Exchange) -> JsonObject:
    """An exchange in a list. RabbitMQ: only lists can leave out statistics."""
    view = exchange_view(request, vhost, exchange)
    return {name: value for name, value in view.items() if name != "message_stats"} if request.without_stats else view


def find_exchange(request: Request) -> Exchange:
    """The exchange that the path names, or 404."""
    return request.found(request.vhost.exchanges, "exchange")


async def get_exchanges(request: Request) -> Answer:
    """All exchanges, or those of a vhost."""
    found = ((vhost, exchange) for vhost in request.vhosts() for exchange in list(vhost.exchanges.values()))
    return await answer_long_list(
        request.query, found, lambda one: listed_view(request, *one), lambda one: (one[0].name, one[1].name)
    )


async def get_exchange(request: Request) -> JsonObject:
    """One exchange."""
    exchange = find_exchange(request)
    view = exchange_view(request, request.vhost, exchange)
    # First what tells the parts.
    outgoing = await exchange_outgoing(request, request.vhost, exchange)
    incoming = channel_rows(request, request.vhost, exchange.counters)
    return select_columns(request.query, view | {"incoming": incoming, "outgoing": outgoing})


async def put_exchange(request: Request) -> Answer:
    """Declare an exchange."""
    name, body = request.name("exchange"), request.body
    existed = name in request.vhost.exchanges
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request("type must be text")
    request.check_body_node()
    await request.change(
        request.vhost.declare_exchange,
        name,
        kind,
        durable=parse_bool(body.get("durable", False), "durable"),
        auto_delete=parse_bool(body.get("auto_delete", False), "auto_delete"),
        internal=parse_bool(body.get("internal", False), "internal"),
        arguments=parse_table(body.get("arguments")),
        rights=request.rights,
    )
    return created(existed)


async def delete_exchange(request: Request) -> Answer:
    """Delete an exchange; with `if-unused` only if it has no bindings."""
    name, if_unused = find_exchange(request).name, request.flag("if-unused")
    await request.change(request.vhost.delete_exchange, name, if_unused, request.rights)
    await request.unbound()
    return done()


async def get_bindings_from(request: Request) -> Answer:
    """The bindings of which an exchange is the source."""
    return await list_bindings(request, bindings_from(request.vhost, find_exchange(request)))


async def get_bindings_to(request: Request) -> Answer:
    """The bindings of which an exchange is the destination."""
    return await list_bindings(request, bindings_to(request.vhost, find_exchange(request)))


# Publishing


async def publish(request: Request) -> JsonObject:
    """Publish a message and tell whether it was routed; a persistent message is on disk by then."""
    exchange = find_exchange(request)
    routing_key, properties, payload, encoding = request.need("routing_key", "properties", "payload", "payload_encoding")
    key = parse_key(routing_key)
    body = parse_payload(payload, encoding)
    if request.broker.alarm:
        raise Refused(503, request.broker.alarm)
    client = client_of(request)
    try:
        return await publish_as(request, client, (exchange.name, key), parse_properties(properties), body)
    finally:
        client.close()


async def publish_as(
    request: Request, client: ApiChannel, address: tuple[str, str], properties: Properties, body: bytes
) -> JsonObject:
    request.node.do(lambda: client.publish(*address, properties, body))
    while client.session.pending is not None:
        # To very many queues, in pieces.
        await asyncio.sleep(0)
        request.node.do(client.session.go_on)
    await request.synced()
    if client.refused:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return {"routed": client.routed}


def parse_payload(payload: Json, encoding: Json) -> bytes:
    """A body as text or base64."""
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode()
    if encoding == "base64":
        try:
            return base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            raise bad_request(f"{{not_base64,{payload[:100]}}}") from None
    raise bad_request(f"{{unsupported_encoding,{encoding}}}")


ROUTES = [
    Route("GET", "/api/exchanges", USER, get_exchanges),
    Route("GET", "/api/exchanges/{vhost}", VHOST, get_exchanges),
    Route("GET", "/api/exchanges/{vhost}/{exchange}", VHOST, get_exchange),
    Route("PUT", "/api/exchanges/{vhost}/{exchange}", VHOST, put_exchange),
    Route("DELETE", "/api/exchanges/{vhost}/{exchange}", VHOST, delete_exchange),
    Route("GET", "/api/exchanges/{vhost}/{exchange}/bindings/source", VHOST, get_bindings_from),
    Route("GET", "/api/exchanges/{vhost}/{exchange}/bindings/destination", VHOST, get_bindings_to),
    Route("POST", "/api/exchanges/{vhost}/{exchange}/publish", VHOST, publish),
]
