"""Virtual hosts."""

from typing import Any

from leveret.broker.vhost import VirtualHost
from leveret.definitions.item import tags_of
from leveret.management.answers import Answer, bad_request, created, done
from leveret.management.asking import Ask, parse_bool
from leveret.management.lists import chosen, listed
from leveret.management.rates import with_rates
from leveret.management.routes import ADMINISTRATOR, USER, VHOST, Result, Route
from leveret.management.totals import message_counts, octets_by_vhost, queue_sums, vhost_tally


def vhost_view(ask: Ask, vhost: VirtualHost, octets: dict[str, int]) -> dict[str, Any]:
    """A vhost as the API shows it; `octets` came and went."""
    metadata: dict[str, Any] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    view = {
        "name": vhost.name,
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type or "undefined",
        "metadata": metadata,
        "tracing": vhost.tracing,
        "cluster_state": {ask.broker.settings.node_name: "running"},
    }
    if ask.without_stats:
        return view
    history = ask.statistics.of(vhost)
    return {
        **view,
        **with_rates(message_counts(queue_sums([vhost])), history, ask.query),
        **with_rates(octets, history, ask.query),
        "message_stats": with_rates(vhost_tally(vhost).counts(), history, ask.query),
    }


def get_vhosts(ask: Ask) -> Answer:
    """All vhosts that the user may enter or look at."""
    vhosts = ask.vhosts(visible=True)
    octets = octets_by_vhost(ask.node.transports, vhosts)
    return listed(ask.query, vhosts, lambda vhost: vhost_view(ask, vhost, octets[vhost]), lambda vhost: (vhost.name,))


def get_vhost(ask: Ask) -> Result:
    """One vhost."""
    octets = octets_by_vhost(ask.node.transports, [ask.vhost])
    return chosen(ask.query, vhost_view(ask, ask.vhost, octets[ask.vhost]))


async def put_vhost(ask: Ask) -> Result:
    """Make a vhost, or describe it anew."""
    name = ask.name("vhost")
    body = ask.body
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    description = str(body.get("description", metadata.get("description", "")))
    tags = tags_of(body.get("tags", metadata.get("tags", [])))
    kind = body.get("default_queue_type", metadata.get("default_queue_type"))
    tracing = parse_bool(body["tracing"], "tracing") if "tracing" in body else None
    existed = name in ask.broker.vhosts

    def make() -> None:
        vhost = ask.broker.add_vhost(name, by=ask.user.name)
        if not existed or "description" in body or "tags" in body or metadata:
            vhost.describe(description, tags, by=ask.user.name)
        if kind not in (None, "undefined", "null", ""):
            vhost.set_default_queue_type(str(kind), by=ask.user.name)
        if tracing is not None and tracing != vhost.tracing:
            vhost.set_tracing(tracing, by=ask.user.name)
        if not existed and ask.user.name in ask.broker.users:
            # RabbitMQ: whoever makes a vhost through the API may use it.
            ask.broker.set_permissions(ask.user.name, name, ".*", ".*", ".*", by=ask.user.name)

    await ask.change(make)
    return created(existed)


async def delete_vhost(ask: Ask) -> Result:
    """Delete a vhost with everything in it."""
    await ask.change(ask.broker.delete_vhost, ask.vhost.name, by=ask.user.name)
    return done()


async def start_vhost(ask: Ask) -> Result:
    """A vhost here never stops by itself."""
    _ = ask.vhost
    return done()


ROUTES = [
    Route("GET", "/api/vhosts", USER, get_vhosts),
    Route("GET", "/api/vhosts/{vhost}", VHOST, get_vhost),
    Route("PUT", "/api/vhosts/{vhost}", ADMINISTRATOR, put_vhost),
    Route("DELETE", "/api/vhosts/{vhost}", ADMINISTRATOR, delete_vhost),
    Route("POST", "/api/vhosts/{vhost}/start/{node}", ADMINISTRATOR, start_vhost),
]
