"""RabbitMQ's metrics: their families, names, kinds and descriptions. The values are in metrics.py, in the same order.

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
    _counter("connections_opened_total", "Connections that have logged in"),
    _counter("connections_closed_total", "Connections that have ended"),
    _counter("channels_opened_total", "Channels that were opened"),
    _counter("channels_closed_total", "Channels that have ended"),
    _counter("queues_declared_total", "Declarations of queues, new or not"),
    _counter("queues_created_total", "Queues made"),
    _counter("queues_deleted_total", "Queues removed"),
]
NODE_COARSE = [
    _gauge("process_open_fds", "Files and sockets in use"),
    _gauge("process_open_tcp_sockets", "Sockets in use"),
    _gauge("process_resident_memory_bytes", "Resident memory of the process"),
    _gauge("disk_space_available_bytes", "Free space where the data folder is"),
    _gauge("erlang_processes_used", "Threads of the process"),
    _counter("erlang_gc_runs_total", "Runs of Python's garbage collector"),
    _counter("erlang_gc_reclaimed_bytes_total", "Not known here: 0"),
    _counter("erlang_scheduler_context_switches_total", "How often the process was switched away from"),
]
NODE = [
    _gauge("process_max_fds", "How many files and sockets it may have"),
    _gauge("process_max_tcp_sockets", "How many sockets it may have"),
    _gauge("resident_memory_limit_bytes", "Memory above which publishers are stopped"),
    _gauge("disk_space_available_limit_bytes", "Free space below which publishers are stopped"),
    _gauge("erlang_processes_limit", "How many threads there may be"),
    _gauge("erlang_scheduler_run_queue", "Not known here: 0"),
    _gauge("erlang_net_ticktime_seconds", "Not used here"),
    _gauge("erlang_uptime_seconds", "Seconds since the broker started"),
]
PERSISTER = [
    _counter("messages_damaged_total", "Messages that could not be read again and were left out"),
    _counter("io_read_ops_total", "Reads of pages of messages"),
    _counter("io_read_bytes_total", "Octets of them"),
    _counter("io_write_ops_total", "Batches written to the journal or the spill"),
    _counter("io_write_bytes_total", "Octets of them"),
    _counter("io_sync_ops_total", "Batches synced, and files removed"),
    _counter("schema_db_disk_tx_total", "Transactions of definitions"),
    _counter("msg_store_read_total", "Messages read again"),
    _counter("msg_store_write_total", "Messages written to the journal or the spill"),
    _counter("io_read_time_seconds_total", "Time that reads took"),
    _counter("io_write_time_seconds_total", "Time that writes took"),
    _counter("io_sync_time_seconds_total", "Time that syncs took"),
    # Of these there are none.
    _counter("io_seek_ops_total", "Not done here: 0"),
    _counter("io_reopen_ops_total", "Not done here: 0"),
    _counter("schema_db_ram_tx_total", "Not done here: 0"),
    _counter("queue_index_read_ops_total", "Not done here: 0"),
    _counter("queue_index_write_ops_total", "Not done here: 0"),
    _counter("io_seek_time_seconds_total", "Not done here: 0"),
]
PROCESS_START = _gauge("process_start_time_seconds", "When the process was started, as Unix time")
LOGINS = [
    _counter("auth_attempts_total", "Logins tried"),
    _counter("auth_attempts_succeeded_total", "Logins that were granted"),
    _counter("auth_attempts_failed_total", "Logins that were refused"),
]
LOGIN_SOURCES = [
    _counter("auth_attempts_detailed_total", "Logins tried, by address and user"),
    _counter("auth_attempts_detailed_succeeded_total", "Logins that were granted, by address and user"),
    _counter("auth_attempts_detailed_failed_total", "Logins that were refused, by address and user"),
]

# Of queues.
QUEUE_COARSE = [
    _gauge("queue_messages_ready", "Messages that wait for a consumer"),
    _gauge("queue_messages_unacked", "Messages that a consumer has and has not settled"),
    _gauge("queue_messages", "All messages in queues"),
]
QUEUE_CONSUMERS = [_gauge("queue_consumers", "Consumers of queues")]
QUEUE = [
    *QUEUE_CONSUMERS,
    _gauge("queue_consumer_capacity", "1 if consumers keep up, else 0"),
    _gauge("queue_consumer_utilisation", "The same under its old name"),
    _gauge("queue_process_memory_bytes", "Memory of a queue, about"),
    _gauge("queue_messages_ram", "Messages whose content is in memory"),
    _gauge("queue_messages_ram_bytes", "Octets of their bodies"),
    _gauge("queue_messages_ready_ram", "Of those, the ones that wait"),
    _gauge("queue_messages_unacked_ram", "Of those, the ones that are not settled"),
    _gauge("queue_messages_persistent", "Messages that survive"),
    _gauge("queue_messages_persistent_bytes", "Octets of their bodies"),
    _gauge("queue_messages_bytes", "Octets of the bodies of all messages"),
    _gauge("queue_messages_ready_bytes", "Octets of bodies that wait"),
    _gauge("queue_messages_unacked_bytes", "Octets of bodies that are not settled"),
    _gauge("queue_messages_paged_out", "Messages whose content is only on disk"),
    _gauge("queue_messages_paged_out_bytes", "Octets of their bodies"),
    _counter("queue_disk_reads_total", "Messages of queues that were read again"),
    _counter("queue_disk_writes_total", "Messages of queues that were written, to survive or to be out of memory"),
]
QUEUE_HEAD = [_gauge("queue_head_message_timestamp", "What the publisher of the first message has given as its time")]
QUEUE_PUBLISHED = [_counter("queue_messages_published_total", "Messages that queues have taken")]

# Of channels.
CHANNEL = [
    _gauge("channel_consumers", "Consumers of a channel"),
    _gauge("channel_messages_unacked", "What a channel was given and has not settled"),
    _gauge("channel_messages_unconfirmed", "What a channel published and has no confirm for"),
    _gauge("channel_messages_uncommitted", "Messages of an open transaction"),
    _gauge("channel_acks_uncommitted", "Settlements of an open transaction"),
    _gauge("consumer_prefetch", "Prefetch of each new consumer"),
    _gauge("channel_prefetch", "Prefetch of the whole channel"),
]
CHANNEL_EXCHANGE = [
    _counter("channel_messages_published_total", "Messages that came on a channel"),
    _counter("channel_messages_confirmed_total", "Confirms sent on a channel"),
    _counter("channel_messages_unroutable_returned_total", "Mandatory messages that reached no queue and went back"),
    _counter("channel_messages_unroutable_dropped_total", "Messages that reached no queue and are gone"),
]
CHANNEL_QUEUE = [
    _counter("channel_get_ack_total", "basic.get answered, to be acknowledged"),
    _counter("channel_get_total", "basic.get answered with no-ack"),
    _counter("channel_messages_delivered_ack_total", "Deliveries to be acknowledged"),
    _counter("channel_messages_delivered_total", "Deliveries with no-ack"),
    _counter("channel_messages_redelivered_total", "Deliveries that were not the first"),
    _counter("channel_messages_acked_total", "Acknowledgements"),
    _counter("channel_get_empty_total", "basic.get that found nothing"),
]

# Of connections.
CONNECTION_COARSE = [
    _counter("connection_incoming_bytes_total", "Octets that came"),
    _counter("connection_outgoing_bytes_total", "Octets that went"),
]
CONNECTION = [
    _counter("connection_incoming_packets_total", "Reads from the socket"),
    _counter("connection_outgoing_packets_total", "Writes to the socket"),
    _gauge("connection_pending_packets", "Octets that the client has not taken yet"),
    _gauge("connection_channels", "Channels of a connection"),
]

# Only in /metrics/detailed.
VHOST_STATUS = [_gauge("vhost_status", "1 if a vhost is there")]
EXCHANGE_BINDINGS = [_gauge("exchange_bindings", "Bindings that lead from an exchange")]
EXCHANGE_NAMES = [_gauge("exchange_name", "1 for each exchange")]

# Of everything, since the start.
GLOBAL = [
    _counter("global_messages_received_total", "Messages published"),
    _counter("global_messages_received_confirm_total", "Messages published in confirm mode"),
    _counter("global_messages_routed_total", "Places that messages took in queues"),
    _counter("global_messages_unroutable_dropped_total", "Messages that reached no queue and are gone"),
    _counter("global_messages_unroutable_returned_total", "Mandatory messages that reached no queue and went back"),
    _counter("global_messages_confirmed_total", "Confirms sent"),
    _gauge("global_publishers", "Channels that have published"),
    _gauge("global_consumers", "Consumers"),
]
GLOBAL_QUEUE = [
    _counter("global_messages_delivered_total", "Messages handed out"),
    _counter("global_messages_delivered_consume_manual_ack_total", "Deliveries to consumers that acknowledge"),
    _counter("global_messages_delivered_consume_auto_ack_total", "Deliveries to consumers that do not"),
    _counter("global_messages_delivered_get_manual_ack_total", "basic.get answered, to be acknowledged"),
    _counter("global_messages_delivered_get_auto_ack_total", "basic.get answered with no-ack"),
    _counter("global_messages_get_empty_total", "basic.get that found nothing"),
    _counter("global_messages_redelivered_total", "Messages handed out again"),
    _counter("global_messages_acknowledged_total", "Acknowledgements"),
]
GLOBAL_DEAD = [
    _counter("global_messages_dead_lettered_maxlen_total", "Dead letters of queues that were full"),
    _counter("global_messages_dead_lettered_expired_total", "Dead letters whose time was over"),
    _counter("global_messages_dead_lettered_rejected_total", "Dead letters that a consumer did not want"),
    _counter("global_messages_dead_lettered_delivery_limit_total", "Dead letters that were given back too often"),
]
TOTALS = [
    _gauge("connections", "Connections"),
    _gauge("channels", "Channels"),
    _gauge("consumers", "Consumers"),
    _gauge("queues", "Queues"),
]
ALARMS = [
    Metric("alarms_file_descriptor_limit", "untyped", "1 while files run low"),
    Metric("alarms_free_disk_space_watermark", "untyped", "1 while disk space runs low"),
    Metric("alarms_memory_used_watermark", "untyped", "1 while memory runs low"),
]
PEERS = [_gauge("unreachable_cluster_peers_count", "Nodes that do not answer")]
BUILD = Metric("build_info", "untyped", "Versions")
IDENTITY = Metric("identity_info", "untyped", "Names of node and cluster")
