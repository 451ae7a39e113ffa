"""Queues: what they are, hold and do; declaring, deleting and purging them."""

from collections.abc import Iterator

from leveret.broker.arguments import queue_type
from leveret.broker.declaration import check_access, check_home
from leveret.broker.policy import Policy
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.api.bindings import bindings_to, list_bindings
from leveret.management.api.consumers import consumers_of
from leveret.management.api.queue_state import in_state
from leveret.management.client import connection_details
from leveret.management.http.answer import Answer, bad_request, created, done
from leveret.management.http.json import JsonObject
from leveret.management.http.json_table import parse_table, to_json
from leveret.management.http.json_time import iso_time
from leveret.management.http.list_answer import answer_long_list
from leveret.management.http.list_query import select_columns
from leveret.management.http.request import Request, parse_bool
from leveret.management.http.route import ADMINISTRATOR, USER, VHOST, Route
from leveret.management.statistics.breakdown import QUEUE_PUBLISHING, channel_rows, queue_incoming
from leveret.management.statistics.queue_stats import (
    GARBAGE_COLLECTION,
    capacity,
    exclusive_tag,
    head_timestamp,
    single_tag,
    sizes,
    type_fields,
)
from leveret.management.statistics.rate import with_rates
from leveret.protocol.reply_to import NAME as REPLY_TO
from leveret.protocol.reply_to import check_reply_to
from leveret.protocol.session import Session

# What is asked for with `disable_stats`.
DEFINED = ("name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node", "state")


def queue_view(request: Request, vhost: VirtualHost, queue: Queue) -> JsonObject:
    """A queue as the API shows it."""
    node_name = request.broker.settings.node_name
    history = request.statistics.of(queue)
    messages = {
        "messages": queue.ready_count + queue.unacked_count,
        "messages_ready": queue.ready_count,
        "messages_unacknowledged": queue.unacked_count,
    }
    view: JsonObject = {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue_type(queue.arguments),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": to_json(queue.arguments),
        "node": queue.home or node_name,
        "state": "running",
        "policy": None if queue.policy is None else queue.policy.name,
        "operator_policy": None if queue.operator_policy is None else queue.operator_policy.name,
        "effective_policy_definition": effective_definition(queue.policy, queue.operator_policy),
        **with_rates(messages, history, request.query),
        **sizes(queue),
        "consumers": queue.consumer_count,
        "consumers_paused": queue.rotation.paused,
        "consumer_capacity": capacity(queue),
        "consumer_utilisation": capacity(queue),
        "exclusive_consumer_tag": exclusive_tag(queue),
        "single_active_consumer_tag": single_tag(queue),
        "head_message_timestamp": head_timestamp(queue),
        "message_stats": with_rates(queue.counters.counts(QUEUE_PUBLISHING), history, request.query),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "storage_version": 2,
        "garbage_collection": GARBAGE_COLLECTION,
        **type_fields(queue, node_name, history),
    }
    # One that storage has kept is there since the start.
    idle_since = request.statistics.idle_since(queue, max(queue.created_at, request.node.started_at))
    if idle_since is not None:
        view["idle_since"] = iso_time(idle_since)
    if isinstance(queue.owner, Session):
        view["owner_pid_details"] = connection_details(queue.owner)
    return view


def effective_definition(policy: Policy | None, operator_policy: Policy | None) -> JsonObject:
    """What both policies say together: the smaller number, else the operator's."""
    found = {} if policy is None else dict(policy.definition)
    for name, value in {} if operator_policy is None else operator_policy.definition.items():
        own = found.get(name)
        both = isinstance(own, int) and isinstance(value, int)
        found[name] = min(own, value) if both else value
    return found


def defined_view(request: Request, vhost: VirtualHost, queue: Queue, totals: bool = False) -> JsonObject:
    """A queue without statistics; with `totals` its numbers of messages. RabbitMQ: its state is live then, not running."""
    view = queue_view(request, vhost, queue)
    found = {name: view[name] for name in DEFINED}
    if view["policy"] is not None:
        found["policy"] = view["policy"]
    if view["type"] == "quorum":
        del found["node"]
        found |= {name: view[name] for name in ("leader", "members", "online")}
    if totals:
        return found | {name: view[name] for name in ("messages", "messages_ready", "messages_unacknowledged")}
    return found | {"state": "live"}


def listed_view(request: Request, vhost: VirtualHost, queue: Queue) -> JsonObject:
    """A queue in a list."""
    if request.without_stats:
        return defined_view(request, vhost, queue, request.query.get("enable_queue_totals") == "true")
    return queue_view(request, vhost, queue)


def full_view(request: Request, queue: Queue) -> JsonObject:
    """A queue with all that is only shown of one."""
    return queue_view(request, request.vhost, queue) | {
        "consumer_details": consumers_of(request, queue),
        "deliveries": channel_rows(request, request.vhost, queue.counters),
        "incoming": queue_incoming(request, request.vhost, queue),
    }


def find_queue(request: Request) -> Queue:
    """The queue that the path names, or 404."""
    return request.found(request.vhost.queues, "queue")


def queues_of(request: Request) -> Iterator[tuple[VirtualHost, Queue]]:
    """The queues of the path's vhost, or of all that the user may enter."""
    return ((vhost, queue) for vhost in request.vhosts() for queue in list(vhost.queues.values()))


async def get_queues(request: Request) -> Answer:
    """All queues, or those of a vhost; those in a `state`, as growing or stuck."""
    return await answer_long_list(
        request.query,
        in_state(request, queues_of(request)),
        lambda one: listed_view(request, *one),
        lambda one: (one[0].name, one[1].name),
    )


def get_queue(request: Request) -> JsonObject:
    """One queue."""
    queue = find_queue(request)
    return select_columns(
        request.query, defined_view(request, request.vhost, queue) if request.without_stats else full_view(request, queue)
    )


async def put_queue(request: Request) -> Answer:
    """Declare a queue."""
    name, body = request.name("queue"), request.body
    existed = name in request.vhost.queues
    request.check_body_node()
    durable = parse_bool(body.get("durable", False), "durable")
    auto_delete = parse_bool(body.get("auto_delete", False), "auto_delete")
    arguments = parse_table(body.get("arguments"))
    if name.startswith(REPLY_TO):
        check_reply_to(request.broker, request.vhost, name)
        return created(existed)
    await request.change(
        request.vhost.declare_queue,
        name,
        durable=durable,
        auto_delete=auto_delete,
        arguments=arguments,
        rights=request.rights,
    )
    return created(existed)


async def delete_queue(request: Request) -> Answer:
    """Delete a queue; with `if-empty` only if it has no messages, with `if-unused` only if it has no consumers."""
    name, if_unused, if_empty = find_queue(request).name, request.flag("if-unused"), request.flag("if-empty")
    if if_unused or if_empty:
        check_home(find_queue(request))
    await request.change(
        request.vhost.delete_queue, name, None, if_unused=if_unused, if_empty=if_empty, rights=request.rights
    )
    await request.unbound()
    return done()


async def get_queue_bindings(request: Request) -> Answer:
    """The bindings of a queue."""
    return await list_bindings(request, bindings_to(request.vhost, find_queue(request)))


async def purge_queue(request: Request) -> Answer:
    """Purge a queue: delete its ready messages."""
    queue = find_queue(request)
    request.rights.check_queue("read", queue.name)
    check_access(queue, None)
    check_home(queue)
    request.node.do(queue.purge)
    discard = queue.discard
    if discard is not None:
        await request.node.until(lambda: discard.done)
    await request.synced()
    return done()


async def act_on_queue(request: Request) -> Answer:
    """Synchronise a queue's mirrors, or cancel that; there are none, so nothing happens."""
    find_queue(request)
    (action,) = request.need("action")
    if action not in ("sync", "cancel_sync"):
        raise bad_request(f"{{unknown,{action}}}")
    return done()


ROUTES = [
    Route("GET", "/api/queues", USER, get_queues),
    Route("GET", "/api/queues/detailed", USER, get_queues),
    Route("GET", "/api/queues/{vhost}", VHOST, get_queues),
    Route("GET", "/api/queues/{vhost}/{queue}", VHOST, get_queue),
    Route("PUT", "/api/queues/{vhost}/{queue}", VHOST, put_queue),
    Route("DELETE", "/api/queues/{vhost}/{queue}", VHOST, delete_queue),
    Route("GET", "/api/queues/{vhost}/{queue}/bindings", VHOST, get_queue_bindings),
    Route("DELETE", "/api/queues/{vhost}/{queue}/contents", VHOST, purge_queue),
    Route("POST", "/api/queues/{vhost}/{queue}/actions", ADMINISTRATOR, act_on_queue),
]
