"""Queues: what they are, hold and do; declaring, deleting and purging them."""

from typing import Any

from leveret.broker.arguments import queue_type
from leveret.broker.message import is_stub
from leveret.broker.policy import Policy
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.answers import Answer, bad_request, created, done
from leveret.management.api.bindings import bindings_to, list_bindings
from leveret.management.asking import Ask, parse_bool
from leveret.management.consuming import connection_details, consumers_of
from leveret.management.direct import check_place, client_of
from leveret.management.lists import chosen
from leveret.management.memory import RECORD_BYTES, body_bytes, queue_bytes
from leveret.management.moments import moment
from leveret.management.parts import brought, by_channels
from leveret.management.pieces import listed_in_pieces
from leveret.management.rates import with_rates
from leveret.management.routes import ADMINISTRATOR, USER, VHOST, Route
from leveret.management.values import parse_table, plain
from leveret.wire.content import properties_of
from leveret.wire.properties import FLAG_TIMESTAMP
from leveret.wire.spec import QueueDeclare, QueueDelete, QueuePurge

GARBAGE_COLLECTION = {
    "fullsweep_after": -1,
    "max_heap_size": -1,
    "min_bin_vheap_size": -1,
    "min_heap_size": -1,
    "minor_gcs": -1,
}


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
        "message_stats": with_rates(queue.tally.counts(), history, ask.query),
        "reductions": 0,
        "reductions_details": {"rate": 0.0},
        "recoverable_slaves": None,
        "storage_version": 2,
        "garbage_collection": GARBAGE_COLLECTION,
    }
    idle_since = ask.statistics.idle_since(queue, ask.node.started_at)
    if idle_since is not None:
        view["idle_since"] = moment(idle_since)
    if queue_type(queue.arguments) == "quorum":
        view |= {"leader": node_name, "members": [node_name], "online": [node_name], "open_files": {node_name: 0}}
        # Dead letters are on their way in the same turn.
        view |= {"messages_dlx": 0, "message_bytes_dlx": 0}
    if queue.owner is not None:
        view["owner_pid_details"] = connection_details(queue.owner)
    return view


def sizes(queue: Queue) -> dict[str, Any]:
    """How much there is of it, where. Of durable queues all is taken for persistent: it is not counted apart."""
    paged_count, paged_bytes = queue.pages.count, queue.pages.body_bytes
    ready, unacked = queue.ready_bytes, queue.unacked_bytes
    count = queue.ready_count + queue.unacked_count
    in_memory = count - paged_count
    return {
        "memory": queue_bytes(queue) + body_bytes(queue) + paged_count * RECORD_BYTES,
        "message_bytes": ready + unacked,
        "message_bytes_ready": ready,
        "message_bytes_unacknowledged": unacked,
        "message_bytes_ram": ready + unacked - paged_bytes,
        "message_bytes_paged_out": paged_bytes,
        "message_bytes_persistent": ready + unacked if queue.durable else 0,
        "messages_ram": in_memory,
        "messages_ready_ram": queue.ready_count - paged_count,
        "messages_unacknowledged_ram": queue.unacked_count,
        "messages_paged_out": paged_count,
        "messages_persistent": count if queue.durable else 0,
        "backing_queue_status": {"mode": "default", "version": 2, "len": queue.ready_count, "next_seq_id": queue.next_seq},
    }


def capacity(queue: Queue) -> float:
    """Whether what comes can go to a consumer at once."""
    rotation = queue.rotation
    return 1.0 if rotation.everyone and (rotation.active_count or not queue.ready_count) else 0.0


def exclusive_tag(queue: Queue) -> str | None:
    everyone = queue.rotation.everyone
    return everyone[0].tag if everyone and everyone[0].exclusive else None


def single_tag(queue: Queue) -> str | None:
    return None if queue.rotation.chosen is None else queue.rotation.chosen.tag


def head_timestamp(queue: Queue) -> int | None:
    """The timestamp that the publisher of the first message has given it."""
    entry = queue.chain.first()
    if entry is None or is_stub(entry.message) or not entry.message.flags & FLAG_TIMESTAMP:
        return None
    return properties_of(entry.message.content, entry.message.header_size).timestamp


def effective_definition(policy: Policy | None, operator_policy: Policy | None) -> dict[str, Any]:
    """What both policies say together: the smaller number, else the operator's."""
    found = {} if policy is None else dict(policy.definition)
    for name, value in {} if operator_policy is None else operator_policy.definition.items():
        own = found.get(name)
        both = isinstance(own, int) and isinstance(value, int)
        found[name] = min(own, value) if both else value
    return found


def short_view(ask: Ask, vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    """A queue as lists show it. RabbitMQ: without nulls; rabbitmqadmin can write none as text."""
    return {name: value for name, value in queue_view(ask, vhost, queue).items() if value is not None}


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


async def get_queues(ask: Ask) -> Answer:
    """All queues, or those of a vhost."""
    found = [(vhost, queue) for vhost in ask.vhosts() for queue in vhost.queues.values()]
    return await listed_in_pieces(
        ask.query, found, lambda one: short_view(ask, *one), lambda one: (one[0].name, one[1].name)
    )


async def get_detailed_queues(ask: Ask) -> Answer:
    """All queues, also with what they do not have."""
    found = [(vhost, queue) for vhost in ask.vhosts() for queue in vhost.queues.values()]
    return await listed_in_pieces(
        ask.query, found, lambda one: queue_view(ask, *one), lambda one: (one[0].name, one[1].name)
    )


def get_queue(ask: Ask) -> dict[str, Any]:
    """One queue."""
    return chosen(ask.query, full_view(ask, find_queue(ask)))


async def put_queue(ask: Ask) -> Answer:
    """Declare a queue."""
    name, body = ask.name("queue"), ask.body
    existed = name in ask.vhost.queues
    check_place(ask)
    declare = QueueDeclare(
        name,
        durable=parse_bool(body.get("durable", False), "durable"),
        auto_delete=parse_bool(body.get("auto_delete", False), "auto_delete"),
        arguments=parse_table(body.get("arguments")),
        no_wait=True,
    )
    await ask.change(client_of(ask).call, declare)
    return created(existed)


async def delete_queue(ask: Ask) -> Answer:
    """Delete a queue; `if-empty` and `if-unused` are heeded."""
    queue = find_queue(ask)
    delete = QueueDelete(queue.name, if_unused=ask.flag("if-unused"), if_empty=ask.flag("if-empty"), no_wait=True)
    await ask.change(client_of(ask).call, delete)
    return done()


async def get_queue_bindings(ask: Ask) -> Answer:
    """The bindings that lead to a queue."""
    return await list_bindings(ask, bindings_to(ask.vhost, find_queue(ask)))


async def purge_queue(ask: Ask) -> Answer:
    """Drop all ready messages of a queue."""
    queue = find_queue(ask)
    ask.node.do(lambda: client_of(ask).call(QueuePurge(queue.name, no_wait=True)))
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
    Route("GET", "/api/queues/detailed", USER, get_detailed_queues),
    Route("GET", "/api/queues/{vhost}", VHOST, get_queues),
    Route("GET", "/api/queues/{vhost}/{queue}", VHOST, get_queue),
    Route("PUT", "/api/queues/{vhost}/{queue}", VHOST, put_queue),
    Route("DELETE", "/api/queues/{vhost}/{queue}", VHOST, delete_queue),
    Route("GET", "/api/queues/{vhost}/{queue}/bindings", VHOST, get_queue_bindings),
    Route("DELETE", "/api/queues/{vhost}/{queue}/contents", VHOST, purge_queue),
    Route("POST", "/api/queues/{vhost}/{queue}/actions", ADMINISTRATOR, act_on_queue),
]
