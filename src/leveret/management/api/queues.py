"""Queues: what they are, hold and do; declaring, deleting and purging them."""

from collections.abc import Iterator
from typing import Any

from leveret.broker.arguments import queue_type
from leveret.broker.declaration import check_access
from leveret.broker.policy import Policy
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.answers import Answer, bad_request, created, done
from leveret.management.api.bindings import bindings_to, list_bindings
from leveret.management.asking import Ask, parse_bool
from leveret.management.backlog import (
    GARBAGE_COLLECTION,
    capacity,
    exclusive_tag,
    head_timestamp,
    of_its_type,
    single_tag,
    sizes,
)
from leveret.management.consuming import connection_details, consumers_of
from leveret.management.direct import check_place, unbound
from leveret.management.lists import chosen
from leveret.management.moments import moment
from leveret.management.parts import QUEUE_PUBLISHING, brought, by_channels
from leveret.management.pieces import listed_in_pieces
from leveret.management.rates import with_rates
from leveret.management.routes import ADMINISTRATOR, USER, VHOST, Route
from leveret.management.values import parse_table, plain
from leveret.protocol.reply_to import NAME as REPLY_TO
from leveret.protocol.reply_to import check_reply_to

# What is asked for with `disable_stats`.
DEFINED = ("name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node", "state")


def queue_view(ask: Ask, vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    """A queue as the API shows it."""
    node_name = ask.broker.settings.node_name
    history = ask.statistics.of(queue)
    messages = {
        "messages": queue.ready_count + queue.unacked_count,
        "messages_ready": queue.ready_count,
        "messages_unacknowledged": queue.unacked_count,
    }
    view = {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue_type(queue.arguments),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": plain(queue.arguments),
        "node": node_name,
        "state": "running",
        "policy": None if queue.policy is None else queue.policy.name,
        "operator_policy": None if queue.operator_policy is None else queue.operator_policy.name,
        "effective_policy_definition": effective_definition(queue.policy, queue.operator_policy),
        **with_rates(messages, history, ask.query),
        **sizes(queue),
        "consumers": queue.consumer_count,
        "consumers_paused": queue.rotation.paused,
        "consumer_capacity": capacity(queue),
        "consumer_utilisation": capacity(queue),
        "exclusive_consumer_tag": exclusive_tag(queue),
        "single_active_consumer_tag": single_tag(queue),
        "head_message_timestamp": head_timestamp(queue),
        "message_stats": with_rates(queue.tally.counts(QUEUE_PUBLISHING), history, ask.query),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "storage_version": 2,
        "garbage_collection": GARBAGE_COLLECTION,
        **of_its_type(queue, node_name, history),
    }
    # One that storage has kept is there since the start.
    idle_since = ask.statistics.idle_since(queue, max(queue.created_at, ask.node.started_at))
    if idle_since is not None:
        view["idle_since"] = moment(idle_since)
    if queue.owner is not None:
        view["owner_pid_details"] = connection_details(queue.owner)
    return view


def effective_definition(policy: Policy | None, operator_policy: Policy | None) -> dict[str, Any]:
    """What both policies say together: the smaller number, else the operator's."""
    found = {} if policy is None else dict(policy.definition)
    for name, value in {} if operator_policy is None else operator_policy.definition.items():
        own = found.get(name)
        both = isinstance(own, int) and isinstance(value, int)
        found[name] = min(own, value) if both else value
    return found


def defined_view(ask: Ask, vhost: VirtualHost, queue: Queue, totals: bool = False) -> dict[str, Any]:
    """RabbitMQ: a queue without what is counted, and then it is live, not running; with `totals`, how much is in it."""
    view = queue_view(ask, vhost, queue)
    found = {name: view[name] for name in DEFINED}
    if view["policy"] is not None:
        found["policy"] = view["policy"]
    if view["type"] == "quorum":
        del found["node"]
        found |= {name: view[name] for name in ("leader", "members", "online")}
    if totals:
        return found | {name: view[name] for name in ("messages", "messages_ready", "messages_unacknowledged")}
    return found | {"state": "live"}


def listed_view(ask: Ask, vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    """A queue in a list."""
    if ask.without_stats:
        return defined_view(ask, vhost, queue, ask.query.get("enable_queue_totals") == "true")
    return queue_view(ask, vhost, queue)


def full_view(ask: Ask, queue: Queue) -> dict[str, Any]:
    """A queue with all that is only shown of one."""
    return queue_view(ask, ask.vhost, queue) | {
        "consumer_details": consumers_of(ask, queue),
        "deliveries": by_channels(ask, ask.vhost, queue.tally),
        "incoming": brought(ask, ask.vhost, queue),
    }


def find_queue(ask: Ask) -> Queue:
    """The queue that the path names, or 404."""
    return ask.found(ask.vhost.queues, "queue")


def queues_of(ask: Ask) -> Iterator[tuple[VirtualHost, Queue]]:
    """The queues of the path's vhost, or of all that the user may enter."""
    return ((vhost, queue) for vhost in ask.vhosts() for queue in list(vhost.queues.values()))


async def get_queues(ask: Ask) -> Answer:
    """All queues, or those of a vhost."""
    return await listed_in_pieces(
        ask.query, queues_of(ask), lambda one: listed_view(ask, *one), lambda one: (one[0].name, one[1].name)
    )


def get_queue(ask: Ask) -> dict[str, Any]:
    """One queue."""
    queue = find_queue(ask)
    return chosen(ask.query, defined_view(ask, ask.vhost, queue) if ask.without_stats else full_view(ask, queue))


async def put_queue(ask: Ask) -> Answer:
    """Declare a queue."""
    name, body = ask.name("queue"), ask.body
    existed = name in ask.vhost.queues
    check_place(ask)
    durable = parse_bool(body.get("durable", False), "durable")
    auto_delete = parse_bool(body.get("auto_delete", False), "auto_delete")
    arguments = parse_table(body.get("arguments"))
    if name.startswith(REPLY_TO):
        check_reply_to(ask.broker, ask.vhost, name)
        return created(existed)
    await ask.change(
        ask.vhost.declare_queue,
        name,
        durable=durable,
        auto_delete=auto_delete,
        arguments=arguments,
        rights=ask.rights,
    )
    return created(existed)


async def delete_queue(ask: Ask) -> Answer:
    """Delete a queue; `if-empty` and `if-unused` are heeded."""
    name, if_unused, if_empty = find_queue(ask).name, ask.flag("if-unused"), ask.flag("if-empty")
    await ask.change(ask.vhost.delete_queue, name, None, if_unused=if_unused, if_empty=if_empty, rights=ask.rights)
    await unbound(ask)
    return done()


async def get_queue_bindings(ask: Ask) -> Answer:
    """The bindings that lead to a queue."""
    return await list_bindings(ask, bindings_to(ask.vhost, find_queue(ask)))


async def purge_queue(ask: Ask) -> Answer:
    """Drop all ready messages of a queue."""
    queue = find_queue(ask)
    ask.rights.check_queue("read", queue.name)
    check_access(queue, None)
    ask.node.do(queue.purge)
    discard = queue.discard
    if discard is not None:
        await ask.node.until(lambda: discard.done)
    await ask.change(lambda: None)
    return done()


async def act_on_queue(ask: Ask) -> Answer:
    """Synchronise mirrors, or stop that; there is nothing to synchronise."""
    find_queue(ask)
    (action,) = ask.need("action")
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
