"""RabbitMQ's metrics: names, kinds and descriptions, by family. `value.py` and `node.py` give the values in the same order.

What counts Erlang's own things (reductions, tables, Raft) is left out where nothing here is like it.
"""

from typing import NamedTuple


class Metric(NamedTuple):
    """One name."""

    name: str
    kind: str
    help: str


def _gauge(name: str, text: str) -> Metric:
    return Metric(name, "gauge", text)


def _counter(name: str, text: str) -> Metric:
    return Metric(name, "counter", text)


# Of the node.
CHURN = [
    _counter("connections_opened_total", "Connections opened"),
    _counter("connections_closed_total", "Connections closed"),
    _counter("channels_opened_total", "Channels opened"),
    _counter("channels_closed_total", "Channels closed"),
    _counter("queues_declared_total", "Queue declarations, of new and of existing queues"),
    _counter("queues_created_total", "Queues created"),
    _counter("queues_deleted_total", "Queues deleted"),
]
NODE_COARSE = [
    _gauge("process_open_fds", "Open file descriptors"),
    _gauge("process_open_tcp_sockets", "Open sockets"),
    _gauge("process_resident_memory_bytes", "Resident memory of the process, in bytes"),
    _gauge("disk_space_available_bytes", "Free disk space at the data folder, in bytes"),
    _gauge("erlang_processes_used", "Threads of the process"),
    _counter("erlang_gc_runs_total", "Runs of Python's garbage collector"),
    _counter("erlang_gc_reclaimed_bytes_total", "Not known here: 0"),
    _counter("erlang_scheduler_context_switches_total", "Context switches of the process"),
]
NODE = [
    _gauge("process_max_fds", "Limit of open file descriptors"),
    _gauge("process_max_tcp_sockets", "Limit of open sockets"),
    _gauge("resident_memory_limit_bytes", "Memory above which publishers are blocked"),
    _gauge("disk_space_available_limit_bytes", "Free disk space below which publishers are blocked"),
    _gauge("erlang_processes_limit", "Limit of threads"),
    _gauge("erlang_scheduler_run_queue", "Not known here: 0"),
    _gauge("erlang_net_ticktime_seconds", "Not used here"),
    _gauge("erlang_uptime_seconds", "Seconds since the broker started"),
]
PERSISTER = [
    _counter("messages_damaged_total", "Messages on disk that were damaged and not delivered"),
    _counter("io_read_ops_total", "Reads of paged out messages"),
    _counter("io_read_bytes_total", "Bytes of paged out messages read"),
    _counter("io_write_ops_total", "Batches written to the journal or the spill"),
    _counter("io_write_bytes_total", "Bytes written to the journal or the spill"),
    _counter("io_sync_ops_total", "Syncs of batches, and files removed"),
    _counter("schema_db_disk_tx_total", "Transactions that changed definitions"),
    _counter("msg_store_read_total", "Messages read from disk"),
    _counter("msg_store_write_total", "Messages written to the journal or the spill"),
    _counter("io_read_time_seconds_total", "Time spent reading, in seconds"),
    _counter("io_write_time_seconds_total", "Time spent writing, in seconds"),
    _counter("io_sync_time_seconds_total", "Time spent syncing, in seconds"),
    # Of these there are none.
    _counter("io_seek_ops_total", "Not done here: 0"),
    _counter("io_reopen_ops_total", "Not done here: 0"),
    _counter("schema_db_ram_tx_total", "Not done here: 0"),
    _counter("queue_index_read_ops_total", "Not done here: 0"),
    _counter("queue_index_write_ops_total", "Not done here: 0"),
    _counter("io_seek_time_seconds_total", "Not done here: 0"),
]
PROCESS_START = _gauge("process_start_time_seconds", "Start of the process, as Unix time")
LOGINS = [
    _counter("auth_attempts_total", "Login attempts"),
    _counter("auth_attempts_succeeded_total", "Successful login attempts"),
    _counter("auth_attempts_failed_total", "Failed login attempts"),
]
LOGIN_SOURCES = [
    _counter("auth_attempts_detailed_total", "Login attempts by address and user"),
    _counter("auth_attempts_detailed_succeeded_total", "Successful login attempts by address and user"),
    _counter("auth_attempts_detailed_failed_total", "Failed login attempts by address and user"),
]

# Of queues.
QUEUE_COARSE = [
    _gauge("queue_messages_ready", "Messages ready for delivery"),
    _gauge("queue_messages_unacked", "Messages delivered and not yet acknowledged"),
    _gauge("queue_messages", "Messages in queues, ready and unacknowledged"),
]
QUEUE_CONSUMERS = [_gauge("queue_consumers", "Consumers of queues")]
QUEUE = [
    *QUEUE_CONSUMERS,
    _gauge("queue_consumer_capacity", "1 if a consumer can take messages, else 0"),
    _gauge("queue_consumer_utilisation", "queue_consumer_capacity under its old name"),
    _gauge("queue_process_memory_bytes", "Memory of message bodies, in bytes"),
    _gauge("queue_messages_ram", "Messages in memory"),
    _gauge("queue_messages_ram_bytes", "Bytes of message bodies in memory"),
    _gauge("queue_messages_ready_ram", "Ready messages in memory"),
    _gauge("queue_messages_unacked_ram", "Unacknowledged messages in memory"),
    _gauge("queue_messages_persistent", "Persistent messages"),
    _gauge("queue_messages_persistent_bytes", "Bytes of persistent message bodies"),
    _gauge("queue_messages_bytes", "Bytes of message bodies"),
    _gauge("queue_messages_ready_bytes", "Bytes of ready message bodies"),
    _gauge("queue_messages_unacked_bytes", "Bytes of unacknowledged message bodies"),
    _gauge("queue_messages_paged_out", "Messages paged out to disk"),
    _gauge("queue_messages_paged_out_bytes", "Bytes of paged out message bodies"),
    _counter("queue_disk_reads_total", "Messages of queues read from disk"),
    _counter("queue_disk_writes_total", "Messages of queues written to disk, because they are persistent or paged out"),
]
QUEUE_HEAD = [_gauge("queue_head_message_timestamp", "Timestamp property of the first message")]
QUEUE_PUBLISHED = [_counter("queue_messages_published_total", "Messages published to queues")]

# Of channels.
CHANNEL = [
    _gauge("channel_consumers", "Consumers of a channel"),
    _gauge("channel_messages_unacked", "Messages delivered on a channel and not yet acknowledged"),
    _gauge("channel_messages_unconfirmed", "Messages published on a channel and not yet confirmed"),
    _gauge("channel_messages_uncommitted", "Messages published in an open transaction"),
    _gauge("channel_acks_uncommitted", "Acknowledgements in an open transaction"),
    _gauge("consumer_prefetch", "Prefetch count of new consumers"),
    _gauge("channel_prefetch", "Prefetch count of the whole channel"),
]
CHANNEL_EXCHANGE = [
    _counter("channel_messages_published_total", "Messages published on a channel"),
    _counter("channel_messages_confirmed_total", "Messages confirmed on a channel"),
    _counter("channel_messages_unroutable_returned_total", "Mandatory messages returned as unroutable"),
    _counter("channel_messages_unroutable_dropped_total", "Messages dropped as unroutable"),
]
CHANNEL_QUEUE = [
    _counter("channel_get_ack_total", "Messages delivered by basic.get that need an acknowledgement"),
    _counter("channel_get_total", "Messages delivered by basic.get without acknowledgement"),
    _counter("channel_messages_delivered_ack_total", "Messages delivered to consumers that need an acknowledgement"),
    _counter("channel_messages_delivered_total", "Messages delivered to consumers without acknowledgement"),
    _counter("channel_messages_redelivered_total", "Messages redelivered"),
    _counter("channel_messages_acked_total", "Acknowledgements"),
    _counter("channel_get_empty_total", "basic.get on an empty queue"),
]

# Of connections.
CONNECTION_COARSE = [
    _counter("connection_incoming_bytes_total", "Bytes received"),
    _counter("connection_outgoing_bytes_total", "Bytes sent"),
]
CONNECTION = [
    _counter("connection_incoming_packets_total", "Reads from the socket"),
    _counter("connection_outgoing_packets_total", "Writes to the socket"),
    _gauge("connection_pending_packets", "Bytes waiting to be sent to the client"),
    _gauge("connection_channels", "Channels of a connection"),
]

# Only in /metrics/detailed.
VHOST_STATUS = [_gauge("vhost_status", "1 for each vhost that is up")]
EXCHANGE_BINDINGS = [_gauge("exchange_bindings", "Bindings of which an exchange is the source")]
EXCHANGE_NAMES = [_gauge("exchange_name", "1 for each exchange")]

# Of everything, since the start.
GLOBAL = [
    _counter("global_messages_received_total", "Messages published"),
    _counter("global_messages_received_confirm_total", "Messages published in confirm mode"),
    _counter("global_messages_routed_total", "Messages routed to at least one queue"),
    _counter("global_messages_unroutable_dropped_total", "Messages dropped as unroutable"),
    _counter("global_messages_unroutable_returned_total", "Mandatory messages returned as unroutable"),
    _counter("global_messages_confirmed_total", "Messages confirmed"),
    _gauge("global_publishers", "Channels that have published"),
    _gauge("global_consumers", "Consumers"),
]
GLOBAL_QUEUE = [
    _counter("global_messages_delivered_total", "Messages delivered"),
    _counter("global_messages_delivered_consume_manual_ack_total", "Messages delivered to consumers with acknowledgement"),
    _counter("global_messages_delivered_consume_auto_ack_total", "Messages delivered to consumers without acknowledgement"),
    _counter(
        "global_messages_delivered_get_manual_ack_total", "Messages delivered by basic.get that need an acknowledgement"
    ),
    _counter("global_messages_delivered_get_auto_ack_total", "Messages delivered by basic.get without acknowledgement"),
    _counter("global_messages_get_empty_total", "basic.get on an empty queue"),
    _counter("global_messages_redelivered_total", "Messages redelivered"),
    _counter("global_messages_acknowledged_total", "Acknowledgements"),
]
GLOBAL_DEAD = [
    _counter("global_messages_dead_lettered_maxlen_total", "Messages dead-lettered because their queue was full"),
    _counter("global_messages_dead_lettered_expired_total", "Messages dead-lettered because they expired"),
    _counter("global_messages_dead_lettered_rejected_total", "Messages dead-lettered because they were rejected"),
    _counter(
        "global_messages_dead_lettered_delivery_limit_total",
        "Messages dead-lettered because they reached the delivery limit",
    ),
]
TOTALS = [
    _gauge("connections", "Connections"),
    _gauge("channels", "Channels"),
    _gauge("consumers", "Consumers"),
    _gauge("queues", "Queues"),
]
ALARMS = [
    Metric("alarms_file_descriptor_limit", "untyped", "1 while file descriptors run low"),
    Metric("alarms_free_disk_space_watermark", "untyped", "1 while the disk alarm is in effect"),
    Metric("alarms_memory_used_watermark", "untyped", "1 while the memory alarm is in effect"),
]
PEERS = [_gauge("unreachable_cluster_peers_count", "Unreachable nodes of the cluster")]
BUILD = Metric("build_info", "untyped", "Versions of the broker and of what it runs on")
IDENTITY = Metric("identity_info", "untyped", "Names of node and cluster")
