"""Commands of RabbitMQ's tools that are not supported, and why: who runs one is told so, and exits with 69."""

ERLANG = "Leveret does not run on Erlang"
ONE_NODE = "there are no clusters yet; a broker is a single node"
RESET = "stop the broker and start it on another data folder (--data-dir)"
LOG = "the broker logs to standard error; the log is kept by whatever started it"
TLS = "see the setting tls.certificate, and 'openssl x509'"
CIPHERS = "those of TLS 1.3, and of 1.2 the ones with ECDHE and AES-GCM or ChaCha20"
MIRRORS = "there are no mirrored queues"
REPLICAS = "every queue has a single replica, on this node"
SETTINGS = "settings are not encrypted"
METADATA = "definitions are kept in SQLite; see 'leveret store'"

UNSUPPORTED: dict[str, str] = {
    "activate_free_disk_space_monitoring": "free disk space is always monitored; see set_disk_free_limit",
    "add_member": REPLICAS,
    "await_online_quorum_plus_one": REPLICAS,
    "await_online_synchronized_mirror": MIRRORS,
    "certificates": TLS,
    "change_cluster_node_type": ONE_NODE,
    "check_if_cluster_has_classic_queue_mirroring_policy": MIRRORS,
    "check_if_new_quorum_queue_replicas_have_finished_initial_sync": REPLICAS,
    "cipher_suites": CIPHERS,
    "command_line_arguments": ERLANG,
    "consume_event_stream": "see GET /api/stream",
    "deactivate_free_disk_space_monitoring": "free disk space is always monitored; see set_disk_free_limit",
    "decode": SETTINGS,
    "delete_member": REPLICAS,
    "discover_peers": ONE_NODE,
    "drain": ONE_NODE,
    "encode": SETTINGS,
    "erlang_cookie_hash": ERLANG,
    "erlang_cookie_sources": ERLANG,
    "eval": ERLANG,
    "eval_file": ERLANG,
    "exec": ERLANG,
    "force_boot": ONE_NODE,
    "force_gc": "unused memory is returned to the system when the broker is idle",
    "force_reset": RESET,
    "force_standalone_khepri_boot": METADATA,
    "grow": REPLICAS,
    "hipe_compile": ERLANG,
    "join_cluster": ONE_NODE,
    "list_ciphers": SETTINGS,
    "list_hashes": SETTINGS,
    "list_network_interfaces": "use the operating system's own tools",
    "list_operator_policies_with_classic_queue_mirroring": MIRRORS,
    "list_policies_with_classic_queue_mirroring": MIRRORS,
    "log_tail": LOG,
    "log_tail_stream": LOG,
    "maybe_stuck": ERLANG,
    "metadata_store_status": METADATA,
    "observer": ERLANG,
    "os_env": "environment variables are not shown; see environment for the broker's settings",
    "post_upgrade": ONE_NODE,
    "reclaim_quorum_memory": REPLICAS,
    "remote_shell": ERLANG,
    "remove_classic_queue_mirroring_from_policies": MIRRORS,
    "rename_cluster_node": ONE_NODE,
    "reset": RESET,
    "resolver_info": ERLANG,
    "resume_listeners": "listeners cannot be suspended",
    "revive": ONE_NODE,
    "rotate_logs": LOG,
    "runtime_thread_stats": ERLANG,
    "schema_info": METADATA,
    "shrink": REPLICAS,
    "stop_app": "the broker cannot be stopped without its process; see stop",
    "suspend_listeners": "listeners cannot be suspended",
    "update_cluster_nodes": ONE_NODE,
}
