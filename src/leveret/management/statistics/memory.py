"""The memory breakdown, under RabbitMQ's names.

(1) The parts add up to what the process has in memory; what nothing is known of is in `other_system`.
(2) A part is what is counted (octets of bodies, of what waits for clients, of samples), or a number of objects times what
    one of them takes; never a share of what is left.
(3) A body that is in several queues is counted in each. If then there is more than the process has, the parts named
    later are cut.
"""

from leveret.broker.message import Entry, Message
from leveret.broker.queue import Queue
from leveret.management.http.json import JsonObject
from leveret.management.http.request import Request
from leveret.management.statistics.total import queue_sums
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
    return queue.ready_bytes + queue.unacked_bytes - queue.backlog.pages.body_bytes - queue.backlog.stub_bytes


def queue_bytes(queue: Queue) -> int:
    """What a queue and the places of its messages take in memory besides bodies and pages."""
    return QUEUE_BYTES + (queue.ready_count + queue.unacked_count - queue.backlog.pages.count) * ENTRY_BYTES


def counted_parts(request: Request) -> dict[str, int]:
    """The parts that are known, the most certain first."""
    sums = queue_sums(request.broker.vhosts.values())
    in_memory = sums.ready + sums.unacked - sums.paged
    connections = [(one, one.connection) for one in request.node.transports]
    sessions = [(one, connection.session) for one, connection in connections if connection is not None]
    return {
        "code": mapped_bytes(),
        "mgmt_db": request.statistics.history_bytes(),
        "msg_index": sums.paged * RECORD_BYTES,
        "connection_other": len(connections) * CONNECTION_BYTES,
        "connection_channels": sum(len(session.channels) for _, session in sessions) * CHANNEL_BYTES,
        "connection_readers": sum(session.incomplete_size for _, session in sessions),
        "connection_writers": sum(one.unsent_bytes() + session.output.size() for one, session in sessions),
        "queue_procs": sums.queues * QUEUE_BYTES + in_memory * ENTRY_BYTES,
        "allocated_unused": request.statistics.heap_use.free_bytes(),
        "binary": sums.ready_bytes + sums.unacked_bytes - sums.paged_bytes,
    }


class MemoryParts:
    """Octets of each part, and of all together."""

    __slots__ = ("parts", "resident")

    def __init__(self, parts: dict[str, int], resident: int) -> None:
        self.parts = parts
        self.resident = resident

    def view(self) -> JsonObject:
        """As the API shows them."""
        used = self.resident - self.parts["allocated_unused"]
        total = {"erlang": used, "rss": self.resident, "allocated": self.resident}
        return {**self.parts, "strategy": "rss", "total": total}


def memory_parts(request: Request) -> MemoryParts:
    """Memory by parts, as it is or was a moment ago."""
    return request.statistics.recent_memory.get((), lambda: _measured(request))


def _measured(request: Request) -> MemoryParts:
    resident = left = resident_bytes()
    parts = dict.fromkeys(MEMORY_PARTS, 0)
    for name, size in counted_parts(request).items():
        parts[name] = min(size, left)
        left -= parts[name]
    parts["other_system"] = left
    return MemoryParts(parts, resident)
