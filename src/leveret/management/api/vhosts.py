"""Virtual hosts."""

from leveret.broker.vhost import VirtualHost
from leveret.definitions.item import tags_of
from leveret.management.api.cluster import is_running, node_names
from leveret.management.http.answer import Answer, bad_request, created, done
from leveret.management.http.json import JsonObject
from leveret.management.http.list_answer import answer_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request, parse_bool
from leveret.management.http.route import ADMINISTRATOR, USER, VHOST, Result, Route
from leveret.management.statistics.rate import with_rates
from leveret.management.statistics.total import message_counts, octets_by_vhost, queue_sums, vhost_counters


def vhost_view(request: Request, vhost: VirtualHost, octets: dict[str, int]) -> JsonObject:
    """A vhost as the API shows it; `octets` came and went."""
    metadata: JsonObject = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    view: JsonObject = {
        "name": vhost.name,
        "description": vhost.description,
        "tags": list(vhost.tags),
        "default_queue_type": vhost.default_queue_type or "undefined",
        "metadata": metadata,
        "tracing": vhost.tracing,
        "cluster_state": {name: "running" if is_running(request, name) else "down" for name in node_names(request)},
    }
    if request.without_stats:
        return view
    history = request.statistics.of(vhost)
    return {
        **view,
        **with_rates(message_counts(queue_sums([vhost])), history, request.query),
        **with_rates(octets, history, request.query),
        "message_stats": with_rates(vhost_counters(vhost).counts(), history, request.query),
    }


def get_vhosts(request: Request) -> Answer:
    """All vhosts that the user may see."""
    vhosts = request.vhosts(visible=True)
    octets = octets_by_vhost(request.node.transports, vhosts)
    return answer_list(
        request.query, vhosts, lambda vhost: vhost_view(request, vhost, octets[vhost]), lambda vhost: (vhost.name,)
    )


def get_vhost(request: Request) -> Result:
    """One vhost."""
    octets = octets_by_vhost(request.node.transports, [request.vhost])
    return select_columns(request.query, vhost_view(request, request.vhost, octets[request.vhost]))


async def put_vhost(request: Request) -> Result:
    """Create a vhost, or change its description and tags."""
    name = request.name("vhost")
    body = request.body
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    description = str(body.get("description", metadata.get("description", "")))
    tags = tags_of(body.get("tags", metadata.get("tags", [])))
    kind = body.get("default_queue_type", metadata.get("default_queue_type"))
    tracing = parse_bool(body["tracing"], "tracing") if "tracing" in body else None
    existed = name in request.broker.vhosts

    def make() -> None:
        vhost = request.broker.add_vhost(name, by=request.user.name)
        if not existed or "description" in body or "tags" in body or metadata:
            vhost.describe(description, tags, by=request.user.name)
        if kind not in (None, "undefined", "null", ""):
            vhost.set_default_queue_type(str(kind), by=request.user.name)
        if tracing is not None and tracing != vhost.tracing:
            vhost.set_tracing(tracing, by=request.user.name)
        if not existed and request.user.name in request.broker.users:
            # RabbitMQ: whoever makes a vhost through the API may use it.
            request.broker.set_permissions(request.user.name, name, ".*", ".*", ".*", by=request.user.name)

    await request.change(make)
    return created(existed)


async def delete_vhost(request: Request) -> Result:
    """Delete a vhost with everything in it."""
    await request.change(request.broker.delete_vhost, request.vhost.name, by=request.user.name)
    return done()


async def start_vhost(request: Request) -> Result:
    """Start a vhost; here none ever stops by itself."""
    _ = request.vhost
    return done()


ROUTES = [
    Route("GET", "/api/vhosts", USER, get_vhosts),
    Route("GET", "/api/vhosts/{vhost}", VHOST, get_vhost),
    Route("PUT", "/api/vhosts/{vhost}", ADMINISTRATOR, put_vhost),
    Route("DELETE", "/api/vhosts/{vhost}", ADMINISTRATOR, delete_vhost),
    Route("POST", "/api/vhosts/{vhost}/start/{node}", ADMINISTRATOR, start_vhost),
]
