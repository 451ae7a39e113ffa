"""Memory by its parts, under the names that RabbitMQ has for its own.

(1) The parts add up to what the process has in memory; what nothing is known of is in `other_system`.
(2) A part is what is counted (octets of bodies, of what waits for clients, of samples), or a number of objects times what
    one of them takes; never a share of what is left.
(3) A body that is in several queues is counted in each. If then there is more than the process has, the parts named
    later are cut.
"""

from typing import Any

from leveret.broker.message import Entry, Message
from leveret.broker.queue import Queue
from leveret.management.asking import Ask
from leveret.management.totals import queue_sums
from leveret.server.process_memory import mapped_bytes, resident_bytes

MEMORY_PARTS = (
    "connection_readers",
    "connection_writers",
    "connection_channels",
    "connection_other",
    "queue_procs",
    "queue_slave_procs",
    "quorum_queue_procs",
    "quorum_queue_dlx_procs",
    "stream_queue_procs",
    "stream_queue_replica_reader_procs",
    "stream_queue_coordinator_procs",
    "plugins",
    "metadata_store",
    "other_proc",
    "metrics",
    "mgmt_db",
    "mnesia",
    "quorum_ets",
    "metadata_store_ets",
    "other_ets",
    "binary",
    "msg_index",
    "code",
    "atom",
    "other_system",
    "allocated_unused",
    "reserved_unallocated",
)

# What an idle one takes, measured with thousands of them.
CONNECTION_BYTES = 4096
CHANNEL_BYTES = 1024
QUEUE_BYTES = 3072
# A place in a page, of what is only on disk.
RECORD_BYTES = 24
# A body is an object too.
ENTRY_BYTES = Entry.__basicsize__ + Message.__basicsize__ + bytes.__basicsize__


def body_bytes(queue: Queue) -> int:
    """Octets of the bodies that a queue has in memory."""
    return queue.ready_bytes + queue.unacked_bytes - queue.pages.body_bytes - queue.shelved_bytes


def queue_bytes(queue: Queue) -> int:
    """What a queue and the places of its messages take in memory besides bodies and pages."""
    return QUEUE_BYTES + (queue.ready_count + queue.unacked_count - queue.pages.count) * ENTRY_BYTES


def counted_parts(ask: Ask) -> dict[str, int]:
    """What is known, in the order in which it is believed."""
    sums = queue_sums(ask.broker.vhosts.values())
    in_memory = sums.ready + sums.unacked - sums.paged
    connections = [(one, one.connection) for one in ask.node.transports]
    sessions = [(one, connection.session) for one, connection in connections if connection is not None]
    return {
        "code": mapped_bytes(),
        "mgmt_db": ask.statistics.history_bytes(),
        "msg_index": sums.paged * RECORD_BYTES,
        "connection_other": len(connections) * CONNECTION_BYTES,
        "connection_channels": sum(len(session.channels) for _, session in sessions) * CHANNEL_BYTES,
        "connection_readers": sum(session.incomplete_size for _, session in sessions),
        "connection_writers": sum(one.unsent_bytes() + session.output.size() for one, session in sessions),
        "queue_procs": sums.queues * QUEUE_BYTES + in_memory * ENTRY_BYTES,
        "allocated_unused": ask.statistics.heap_use.free_bytes(),
        "binary": sums.ready_bytes + sums.unacked_bytes - sums.paged_bytes,
    }


def memory_view(ask: Ask) -> dict[str, Any]:
    """Memory by parts."""
    return ask.statistics.recent(("memory",), lambda: _memory_view(ask))


def _memory_view(ask: Ask) -> dict[str, Any]:
    resident = left = resident_bytes()
    parts: dict[str, Any] = dict.fromkeys(MEMORY_PARTS, 0)
    for name, size in counted_parts(ask).items():
        parts[name] = min(size, left)
        left -= parts[name]
    parts["other_system"] = left
    used = resident - parts["allocated_unused"]
    return {**parts, "strategy": "rss", "total": {"erlang": used, "rss": resident, "allocated": resident}}
