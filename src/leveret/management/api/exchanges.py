"""Exchanges: what they are and do; declaring and deleting them, and publishing to one."""

import asyncio
import base64
import binascii
from typing import Any

from leveret.broker.exchange import Exchange
from leveret.broker.tally import PASSING
from leveret.broker.vhost import VirtualHost
from leveret.management.answers import Answer, Refused, bad_request, created, done
from leveret.management.api.bindings import bindings_from, bindings_to, list_bindings
from leveret.management.asking import Ask, parse_bool
from leveret.management.direct import Direct, check_place, client_of, unbound
from leveret.management.lists import chosen
from leveret.management.parts import by_channels, sent_on
from leveret.management.pieces import listed_in_pieces
from leveret.management.rates import with_rates
from leveret.management.routes import USER, VHOST, Route
from leveret.management.values import parse_key, parse_properties, parse_table, plain
from leveret.wire.properties import Properties


def exchange_view(ask: Ask, vhost: VirtualHost, exchange: Exchange) -> dict[str, Any]:
    """An exchange as the API shows it."""
    counts = {name: value for name, value in exchange.tally.counts().items() if name in PASSING}
    view = {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
        "user_who_performed_action": exchange.made_by,
    }
    if exchange.policy is not None:
        view["policy"] = exchange.policy.name
    if counts:
        view["message_stats"] = with_rates(counts, ask.statistics.of(exchange), ask.query)
    return view


def listed_view(ask: Ask, vhost: VirtualHost, exchange: Exchange) -> dict[str, Any]:
    """An exchange in a list. RabbitMQ: only there it can be without what is counted."""
    view = exchange_view(ask, vhost, exchange)
    return {name: value for name, value in view.items() if name != "message_stats"} if ask.without_stats else view


def find_exchange(ask: Ask) -> Exchange:
    """The exchange that the path names, or 404."""
    return ask.found(ask.vhost.exchanges, "exchange")


async def get_exchanges(ask: Ask) -> Answer:
    """All exchanges, or those of a vhost."""
    found = ((vhost, exchange) for vhost in ask.vhosts() for exchange in list(vhost.exchanges.values()))
    return await listed_in_pieces(
        ask.query, found, lambda one: listed_view(ask, *one), lambda one: (one[0].name, one[1].name)
    )


async def get_exchange(ask: Ask) -> dict[str, Any]:
    """One exchange."""
    exchange = find_exchange(ask)
    view = exchange_view(ask, ask.vhost, exchange)
    # First what tells the parts.
    outgoing = await sent_on(ask, ask.vhost, exchange)
    incoming = by_channels(ask, ask.vhost, exchange.tally)
    return chosen(ask.query, view | {"incoming": incoming, "outgoing": outgoing})


async def put_exchange(ask: Ask) -> Answer:
    """Declare an exchange."""
    name, body = ask.name("exchange"), ask.body
    existed = name in ask.vhost.exchanges
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request("type must be text")
    check_place(ask)
    await ask.change(
        ask.vhost.declare_exchange,
        name,
        kind,
        durable=parse_bool(body.get("durable", False), "durable"),
        auto_delete=parse_bool(body.get("auto_delete", False), "auto_delete"),
        internal=parse_bool(body.get("internal", False), "internal"),
        arguments=parse_table(body.get("arguments")),
        rights=ask.rights,
    )
    return created(existed)


async def delete_exchange(ask: Ask) -> Answer:
    """Delete an exchange; `if-unused` is heeded."""
    await ask.change(ask.vhost.delete_exchange, find_exchange(ask).name, ask.flag("if-unused"), ask.rights)
    await unbound(ask)
    return done()


async def get_bindings_from(ask: Ask) -> Answer:
    """The bindings that lead from an exchange."""
    return await list_bindings(ask, bindings_from(ask.vhost, find_exchange(ask)))


async def get_bindings_to(ask: Ask) -> Answer:
    """The bindings that lead to an exchange."""
    return await list_bindings(ask, bindings_to(ask.vhost, find_exchange(ask)))


# Publishing


async def publish(ask: Ask) -> dict[str, Any]:
    """Publish a message, and say whether it reached a queue; a persistent one is on disk then."""
    exchange = find_exchange(ask)
    routing_key, properties, payload, encoding = ask.need("routing_key", "properties", "payload", "payload_encoding")
    key = parse_key(routing_key)
    body = parse_payload(payload, encoding)
    if ask.broker.alarm:
        raise Refused(503, ask.broker.alarm)
    client = client_of(ask)
    try:
        return await publish_as(ask, client, (exchange.name, key), parse_properties(properties), body)
    finally:
        client.close()


async def publish_as(
    ask: Ask, client: Direct, address: tuple[str, str], properties: Properties, body: bytes
) -> dict[str, Any]:
    ask.node.do(lambda: client.publish(*address, properties, body))
    while client.session.pending is not None:
        # To very many queues, in pieces.
        await asyncio.sleep(0)
        ask.node.do(client.session.go_on)
    await ask.change(lambda: None)
    if client.refused:
        raise bad_request("rejected Unable to publish message. Check queue limits.")
    return {"routed": client.routed}


def parse_payload(payload: Any, encoding: Any) -> bytes:
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
