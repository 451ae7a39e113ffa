"""Statistics of the process and the machine: memory, disk, files, sockets, garbage collection."""

import gc
import os
import resource
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.broker.storage import Traffic
from leveret.server.alarms import free_bytes
from leveret.server.process_memory import resident_bytes, usable_bytes

if TYPE_CHECKING:
    from leveret.server.node import Node

# RabbitMQ's Erlang machine has a limit of processes; here are threads.
THREADS_MAX = 32_768
# What storage does.
IO_NAMES = (
    "io_read_count",
    "io_read_bytes",
    "io_write_count",
    "io_write_bytes",
    "io_sync_count",
    "mnesia_disk_tx_count",
    "msg_store_read_count",
    "msg_store_write_count",
)
# What is sampled of the node; the rest of RabbitMQ's figures have no meaning here and stay 0.
NODE_NAMES = (
    "mem_used",
    "fd_used",
    "sockets_used",
    "proc_used",
    "disk_free",
    "gc_num",
    "gc_bytes_reclaimed",
    "context_switches",
    *IO_NAMES,
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
# What RabbitMQ counts of its own files and tables, and nothing here is like.
UNKNOWN = (
    "io_seek_count",
    "io_reopen_count",
    "mnesia_ram_tx_count",
    "queue_index_read_count",
    "queue_index_write_count",
)
AVERAGES = ("io_read_avg_time", "io_write_avg_time", "io_sync_avg_time", "io_seek_avg_time")


def churn_counts(node: "Node") -> dict[str, int]:
    """What came and went since the start."""
    churn = node.broker.churn
    vhosts = node.broker.vhosts.values()
    sessions = [client for vhost in vhosts for client in vhost.clients]
    channels = sum(len(session.channels) for session in sessions)
    queues = sum(len(vhost.queues) for vhost in vhosts)
    return {
        "connection_created": churn.connections_opened,
        "connection_closed": churn.connections_opened - len(sessions),
        "channel_created": churn.channels_opened,
        "channel_closed": churn.channels_opened - channels,
        "queue_declared": churn.queues_declared,
        "queue_created": churn.queues_created,
        "queue_deleted": churn.queues_created - queues,
    }


def node_counts(node: "Node") -> dict[str, int]:
    """The figures of NODE_NAMES as they are now."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    collections = gc.get_stats()
    return {
        "mem_used": resident_bytes(),
        "fd_used": open_files(),
        "sockets_used": len(node.transports),
        "proc_used": threading.active_count(),
        "disk_free": disk_free(node),
        "gc_num": sum(one["collections"] for one in collections),
        "gc_bytes_reclaimed": 0,
        "context_switches": usage.ru_nvcsw + usage.ru_nivcsw,
        **io_counts(node.broker.storage.traffic()),
        **churn_counts(node),
    }


def disk_free(node: "Node") -> int:
    """Free space where data is kept, or would be."""
    folder = Path(node.config.data_dir)
    return free_bytes(folder if node.config.storage == "disk" else Path())


def open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def memory_limit(node: "Node") -> int:
    return next((alarm.limit for alarm in node.alarms if "memory" in alarm.reason), usable_bytes())


def disk_limit(node: "Node") -> int:
    return next((alarm.limit for alarm in node.alarms if "disk" in alarm.reason), 0)


def alarm_set(node: "Node", word: str) -> bool:
    return any(alarm.is_set for alarm in node.alarms if word in alarm.reason)


def io_counts(traffic: Traffic) -> dict[str, int]:
    """What storage has read and written; its definitions are what RabbitMQ has in Mnesia."""
    return {
        "io_read_count": traffic.read_count,
        "io_read_bytes": traffic.read_bytes,
        "io_write_count": traffic.write_count,
        "io_write_bytes": traffic.write_bytes,
        "io_sync_count": traffic.sync_count,
        "mnesia_disk_tx_count": traffic.change_count,
        "msg_store_read_count": traffic.messages_read,
        "msg_store_write_count": traffic.messages_written,
    }


def io_averages(traffic: Traffic) -> dict[str, float]:
    """How long one of them has taken, in ms."""
    pairs = (
        (traffic.read_s, traffic.read_count),
        (traffic.write_s, traffic.write_count),
        (traffic.sync_s, traffic.sync_count),
        (0.0, 0),
    )
    return {name: 1000 * seconds / max(1, count) for name, (seconds, count) in zip(AVERAGES, pairs, strict=True)}
