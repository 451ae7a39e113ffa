"""What a queue holds, and where: counts and bytes in memory, on disk and persistent; and its first message's timestamp.

All of it is read from what the queue and its storage know anyway, when somebody asks.
"""

from leveret.broker.arguments import queue_type
from leveret.broker.message import is_stub
from leveret.broker.queue import Queue
from leveret.management.http.json import JsonObject
from leveret.management.statistics.history import History
from leveret.management.statistics.memory import RECORD_BYTES, body_bytes, queue_bytes
from leveret.wire.content import properties_of
from leveret.wire.properties import FLAG_TIMESTAMP

# Of Erlang's processes; here are none.
GARBAGE_COLLECTION = {
    "fullsweep_after": -1,
    "max_heap_size": -1,
    "min_bin_vheap_size": -1,
    "min_heap_size": -1,
    "minor_gcs": -1,
}


def sizes(queue: Queue) -> JsonObject:
    """How much there is of it, and where."""
    paged_count, paged_bytes = queue.backlog.pages.count, queue.backlog.pages.body_bytes + queue.backlog.stub_bytes
    ready, unacked = queue.ready_bytes, queue.unacked_bytes
    persistent_count, persistent_bytes = persistent(queue)
    return {
        "memory": queue_bytes(queue) + body_bytes(queue) + paged_count * RECORD_BYTES,
        "message_bytes": ready + unacked,
        "message_bytes_ready": ready,
        "message_bytes_unacknowledged": unacked,
        "message_bytes_ram": ready + unacked - paged_bytes,
        "message_bytes_paged_out": paged_bytes,
        "message_bytes_persistent": persistent_bytes,
        "messages_ram": queue.ready_count + queue.unacked_count - paged_count,
        "messages_ready_ram": queue.ready_count - paged_count,
        "messages_unacknowledged_ram": queue.unacked_count,
        "messages_paged_out": paged_count,
        "messages_persistent": persistent_count,
        "disk_reads": queue.backlog.pages.read_count,
        "disk_writes": disk_writes(queue),
    }


def persistent(queue: Queue) -> tuple[int, int]:
    """How many of its messages survive, and the octets of their bodies; none where nothing is stored."""
    ledger = queue.ledger
    return (0, 0) if ledger is None else (ledger.live_count, ledger.live_bytes)


def disk_writes(queue: Queue) -> int:
    """How many of its messages were written to disk, to survive or to be out of memory."""
    ledger = queue.ledger
    return queue.backlog.pages.spilled_count + (0 if ledger is None else ledger.written_count)


def backing_queue_status(queue: Queue, history: History | None) -> JsonObject:
    """RabbitMQ: the parts of a classic queue, in order q4, q3, delta, q2, q1; only delta is on disk.

    Here the front is q4, pages are the delta, and what has come behind them is q1. Seqs count from 0 there.
    """
    pages = queue.backlog.pages
    mode = queue.arguments.get("x-queue-mode")
    first = queue.backlog.head()
    next_seq_id = queue.next_seq - 1
    taken = 0.0 if history is None else sum(history.rate(name) for name in ("deliver", "get"))
    rates = {name: 0.0 if history is None else history.rate(name) for name in ("publish", "deliver_get", "ack")}
    return {
        "mode": mode if isinstance(mode, str) else "default",
        "version": 2,
        "len": queue.ready_count,
        "q1": queue.backlog.back_count,
        "q2": 0,
        "delta": delta(queue),
        "q3": 0,
        "q4": queue.ready_count - pages.count - queue.backlog.back_count,
        "target_ram_count": "infinity",
        "next_seq_id": next_seq_id,
        "next_deliver_seq_id": next_seq_id if first is None else first.seq - 1,
        "avg_ingress_rate": rates["publish"],
        "avg_egress_rate": rates["deliver_get"],
        "avg_ack_ingress_rate": taken,
        "avg_ack_egress_rate": rates["ack"],
    }


def delta(queue: Queue) -> list[str | int]:
    """RabbitMQ: first seq, number of messages and of those that do not survive, and the seq behind them."""
    pages = queue.backlog.pages
    if not pages.count:
        return ["delta", "undefined", 0, 0, "undefined"]
    transient = 0 if queue.durable else pages.count
    return ["delta", pages.first_seq() - 1, pages.count, transient, queue.backlog.back_seq - 1]


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
    entry = queue.backlog.head()
    if entry is None or is_stub(entry.message) or not entry.message.flags & FLAG_TIMESTAMP:
        return None
    return properties_of(entry.message.content, entry.message.header_size).timestamp


def type_fields(queue: Queue, node_name: str, history: History | None) -> JsonObject:
    """What RabbitMQ shows of queues of one type only; parts of the queue here of all, since readers' types have them."""
    status = {"backing_queue_status": backing_queue_status(queue, history)}
    if queue_type(queue.arguments) != "quorum":
        return {**status, "recoverable_slaves": None}
    return {
        **status,
        "leader": node_name,
        "members": [node_name],
        "online": [node_name],
        "open_files": {node_name: 0},
        # Dead letters are on their way in the same turn.
        "messages_dlx": 0,
        "message_bytes_dlx": 0,
        "single_active_consumer_ctag": single_tag(queue),
    }
