"""The answers decode by the types of rabbit-hole, on which Terraform's provider and many operators stand."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.management.amqp import connected
from tests.management.support import Http, Running
from tests.management.typed import (
    Kind,
    anything,
    faults,
    flag,
    integer,
    number,
    port,
    rated,
    table,
    table_of,
    text,
    unsigned,
)

# Only with TLS, while blocked, of an idle thing, in a cluster, when asked for, or in versions of long ago.
MAY_LACK = {
    *("samples", "idle_since", "last_blocked_by", "last_blocked_age", "ssl_protocol", "ssl_key_exchange", "ssl_cipher"),
    *("ssl_hash", "peer_cert_subject", "peer_cert_validity", "peer_cert_issuer", "client_flow_blocked", "ignore_in_use"),
    *("statistics_level", "statistics_db_node", "auth_backend", "active_status", "active_consumers", "reason"),
    *("io_file_handle_open_attempt_count", "queue_index_journal_write_count"),
    *("io_file_handle_open_attempt_count_details", "queue_index_journal_write_count_details"),
    *("owner_pid_details", "leader", "members", "online", "consumer_details", "policy", "exclusive_consumer_tag"),
    *("recv_oct", "send_oct", "recv_cnt", "send_cnt", "send_pend", "recv_oct_details", "send_oct_details"),
    *("message_stats", "connection_closed", "channel_closed", "consumer_deleted", "exchange_deleted", "queue_deleted"),
    *("vhost_deleted", "node_node_deleted", "channel_consumer_deleted", "port", "missing", "ports", "protocols", "alarms"),
}
MESSAGES = ("messages", "messages_ready", "messages_unacknowledged")
STATS = rated(
    integer,
    "publish",
    "deliver",
    "deliver_get",
    "redeliver",
    "get",
    "get_no_ack",
    "ack",
    "return_unroutable",
    "drop_unroutable",
)
NAMED = {"name": text, "description": text}
CONTEXT = {"node": text, "description": text, "path": text, "port": port, "ignore_in_use": flag}
OVERVIEW = {
    **dict.fromkeys(("management_version", "rabbitmq_version", "erlang_version", "erlang_full_version", "node"), text),
    **dict.fromkeys(("statistics_level", "statistics_db_node"), text),
    "exchange_types": [{**NAMED, "enabled": flag}],
    "message_stats": STATS,
    "queue_totals": rated(integer, *MESSAGES),
    "object_totals": dict.fromkeys(("consumers", "queues", "exchanges", "connections", "channels"), integer),
    "listeners": [{"node": text, "protocol": text, "ip_address": text, "port": port}],
    "contexts": [CONTEXT],
}
NODE = {
    **dict.fromkeys(("name", "type", "os_pid"), text),
    **dict.fromkeys(("running", "mem_alarm", "disk_free_alarm"), flag),
    **dict.fromkeys(("fd_total", "proc_total", "mem_limit", "disk_free_limit"), integer),
    **rated(integer, "fd_used", "proc_used", "mem_used", "disk_free"),
    **rated(unsigned, "gc_num", "gc_bytes_reclaimed", "context_switches", "connection_created", "connection_closed"),
    **rated(unsigned, "channel_created", "channel_closed", "queue_declared", "queue_created", "queue_deleted"),
    **rated(unsigned, "io_read_count", "io_read_bytes", "io_write_count", "io_write_bytes", "io_sync_count"),
    **rated(unsigned, "io_seek_count", "io_reopen_count", "io_file_handle_open_attempt_count", "mnesia_ram_tx_count"),
    **rated(unsigned, "mnesia_disk_tx_count", "msg_store_read_count", "msg_store_write_count", "queue_index_read_count"),
    **rated(unsigned, "queue_index_write_count", "queue_index_journal_write_count"),
    **rated(number, "io_read_avg_time", "io_write_avg_time", "io_sync_avg_time", "io_seek_avg_time"),
    **dict.fromkeys(("run_queue", "processors", "uptime"), unsigned),
    "exchange_types": [{**NAMED, "enabled": flag}],
    "auth_mechanisms": [{**NAMED, "enabled": flag}],
    "applications": [{**NAMED, "version": text}],
    "contexts": [{name: kind for name, kind in CONTEXT.items() if name != "node"}],
    "partitions": [text],
    "cluster_links": [table],
    "metrics_gc_queue_length": table_of(integer),
}
CONNECTION = {
    **dict.fromkeys(("name", "node", "state", "type", "host", "peer_host", "protocol", "user", "vhost"), text),
    **dict.fromkeys(("last_blocked_by", "last_blocked_age", "ssl_protocol", "ssl_cipher", "ssl_hash"), text),
    **dict.fromkeys(("channels", "timeout", "frame_max"), integer),
    **dict.fromkeys(("port", "peer_port"), port),
    "ssl": flag,
    "client_properties": table,
    **dict.fromkeys(("recv_cnt", "send_cnt", "send_pend", "connected_at"), unsigned),
    **rated(unsigned, "recv_oct", "send_oct"),
}
BRIEF = {"name": text, "peer_port": port, "peer_host": text}
CHANNEL = {
    **dict.fromkeys(("name", "user", "vhost", "node", "idle_since"), text),
    **dict.fromkeys(("number", "prefetch_count", "consumer_count", "messages_unacknowledged"), integer),
    **dict.fromkeys(("messages_unconfirmed", "messages_uncommitted", "acks_uncommitted"), integer),
    **dict.fromkeys(("confirm", "transactional", "client_flow_blocked"), flag),
    "connection_details": BRIEF,
}
CONSUMER = {
    "arguments": table,
    **dict.fromkeys(("ack_required", "exclusive", "active"), flag),
    **dict.fromkeys(("consumer_tag", "active_status"), text),
    "prefetch_count": unsigned,
    "queue": {"name": text, "vhost": text},
    "channel_details": {**BRIEF, "connection_name": text, "node": text, "number": unsigned, "user": text},
}
DECLARED_QUEUE = {"name": text, "vhost": text, "durable": flag, "auto_delete": flag, "arguments": table}
QUEUE = {
    **DECLARED_QUEUE,
    **dict.fromkeys(("type", "node", "state", "leader", "exclusive_consumer_tag", "policy"), text),
    "exclusive": flag,
    "members": [text],
    "online": [text],
    **dict.fromkeys(("memory", "consumers", "messages_persistent", "messages_ram", "active_consumers"), integer),
    **dict.fromkeys(("message_bytes", "message_bytes_persistent", "message_bytes_ram", "message_bytes_ready"), integer),
    "message_bytes_unacknowledged": integer,
    "consumer_utilisation": number,
    "consumer_details": [CONSUMER],
    "garbage_collection": table_of(integer),
    **rated(integer, *MESSAGES),
    "message_stats": table,
    "owner_pid_details": BRIEF,
    "backing_queue_status": {"len": integer},
}
DECLARED_EXCHANGE = {**DECLARED_QUEUE, "type": text, "internal": flag}
EXCHANGE = {**DECLARED_EXCHANGE, "message_stats": table}
BINDING = dict.fromkeys(("source", "vhost", "destination", "destination_type", "routing_key"), text) | {"arguments": table}
USER = {"name": text, "password_hash": text, "hashing_algorithm": text, "tags": [text]}
VHOST = {
    **dict.fromkeys(("name", "description", "default_queue_type"), text),
    "tags": [text],
    "tracing": flag,
    **rated(integer, *MESSAGES),
    **rated(unsigned, "recv_oct", "send_oct"),
    "cluster_state": table_of(text),
}
PERMISSION = dict.fromkeys(("user", "vhost", "configure", "write", "read"), text)
TOPIC_PERMISSION = dict.fromkeys(("user", "vhost", "exchange", "write", "read"), text)
POLICY = dict.fromkeys(("vhost", "pattern", "apply-to", "name"), text) | {"priority": integer, "definition": table}
PARAMETER = dict.fromkeys(("name", "vhost", "component"), text) | {"value": anything}
HEALTH = {"status": text, "reason": text, "missing": anything, "port": unsigned, "ports": [unsigned], "protocols": [text]}
DEFINITIONS: dict[str, Kind] = {
    **dict.fromkeys(("rabbit_version", "rabbitmq_version", "product_name", "product_version"), text),
    "users": [USER],
    "vhosts": [{"name": text, "description": text, "tags": [text]}],
    "permissions": [PERMISSION],
    "topic_permissions": [TOPIC_PERMISSION],
    "parameters": [PARAMETER],
    "global_parameters": [{"name": text, "value": anything}],
    "policies": [POLICY],
    "queues": [DECLARED_QUEUE],
    "exchanges": [DECLARED_EXCHANGE],
    "bindings": [BINDING],
}
SAMPLES = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5&data_rates_age=60&data_rates_incr=5"

# By path; `V` is the vhost, `C` the connection, `H` the channel, `N` the node.
ANSWERS: dict[str, Kind] = {
    "overview": OVERVIEW,
    f"overview?{SAMPLES}": OVERVIEW,
    "whoami": {"name": text, "tags": [text]},
    "cluster-name": {"name": text},
    "nodes": [NODE],
    "nodes/N": NODE,
    "nodes/N?node_stats_age=60&node_stats_incr=5": NODE,
    "connections": [CONNECTION],
    f"connections/C?{SAMPLES}": CONNECTION,
    "connections/username/guest": [{"name": text, "node": text, "user": text, "vhost": text}],
    "vhosts/V/connections": [CONNECTION],
    "connections/C/channels": [CHANNEL],
    "channels": [CHANNEL],
    "channels/H": CHANNEL,
    "vhosts/V/channels": [CHANNEL],
    "consumers": [CONSUMER],
    "consumers/V": [CONSUMER],
    "queues": [QUEUE],
    "queues/V": [QUEUE],
    f"queues/V/jobs?{SAMPLES}": QUEUE,
    "queues/V/own": QUEUE,
    "queues/V/replicated": QUEUE,
    "exchanges": [EXCHANGE],
    "exchanges/V": [EXCHANGE],
    "exchanges/V/amq.fanout": EXCHANGE | {"incoming": [table], "outgoing": [table]},
    "bindings": [BINDING | {"properties_key": text}],
    "bindings/V": [BINDING | {"properties_key": text}],
    "queues/V/jobs/bindings": [BINDING],
    "exchanges/V/amq.fanout/bindings/source": [BINDING],
    "users": [USER],
    "users/guest": USER,
    "users/without-permissions": [USER],
    "vhosts": [VHOST],
    "vhosts/V": VHOST,
    "permissions": [PERMISSION],
    "permissions/V/guest": PERMISSION,
    "users/guest/permissions": [PERMISSION],
    "topic-permissions": [TOPIC_PERMISSION],
    "topic-permissions/V/guest": [TOPIC_PERMISSION],
    "policies": [POLICY],
    "policies/V": [POLICY],
    "policies/V/p": POLICY,
    "operator-policies": [POLICY],
    "operator-policies/V/o": POLICY,
    "parameters": [PARAMETER],
    "parameters/shovel/V/s": PARAMETER,
    "global-parameters": [{"name": text, "value": anything}],
    "global-parameters/typed": {"name": text, "value": anything},
    "vhost-limits": [{"vhost": text, "value": table_of(integer)}],
    "vhost-limits/V": [{"vhost": text, "value": table_of(integer)}],
    "user-limits": [{"user": text, "value": table_of(integer)}],
    "user-limits/guest": [{"user": text, "value": table_of(integer)}],
    "feature-flags": [dict.fromkeys(("name", "desc", "doc_url", "state", "stability", "provided_by"), text)],
    "deprecated-features": [{"name": text, "desc": text, "deprecation_phase": text, "doc_url": text, "provided_by": text}],
    "aliveness-test/V": {"status": text},
    "health/checks/alarms": HEALTH | {"alarms": [{"node": text, "resource": text}]},
    "health/checks/local-alarms": HEALTH | {"alarms": [{"node": text, "resource": text}]},
    "health/checks/certificate-expiration/1/days": HEALTH,
    "health/checks/port-listener/1": HEALTH | {"missing": unsigned},
    "health/checks/protocol-listener/amqp": HEALTH,
    "health/checks/protocol-listener/mqtt": HEALTH | {"missing": text},
    "health/checks/virtual-hosts": HEALTH,
    "health/checks/node-is-mirror-sync-critical": HEALTH,
    "health/checks/node-is-quorum-critical": HEALTH,
    "definitions": DEFINITIONS,
    "definitions/V": {
        kind: [{name: what for name, what in shape[0].items() if name != "vhost"}]
        for kind, shape in DEFINITIONS.items()
        if kind in ("parameters", "policies", "queues", "exchanges", "bindings")
    },
}
PAGED = {"queues": QUEUE, "connections": CONNECTION}
PAGE = dict.fromkeys(("page", "page_count", "page_size", "filtered_count", "item_count", "total_count"), integer)


@pytest.fixture(scope="module")
def names(broker: Running) -> Iterator[dict[str, str]]:
    """A vhost with one of everything, and what it is called."""
    http, vhost = broker.http(), "typed/vhost"
    place = http.quoted(vhost)
    make_vhost(http, place)
    with connected(broker, vhost) as connection:
        channel = connection.channel()
        channel.queue_declare("jobs", durable=True)
        channel.queue_declare("own", exclusive=True)
        channel.queue_declare("replicated", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_bind("jobs", "amq.fanout", "key", {"a": 1})
        for _ in range(3):
            channel.basic_publish("amq.fanout", "", b"x")
        channel.basic_get("jobs")
        channel.basic_qos(prefetch_count=5)
        channel.basic_consume("own", print, arguments={"x-priority": 3})
        (found,) = (one["name"] for one in http.get("/api/connections") if one["vhost"] == vhost)
        name = http.quoted(found)
        yield {"V": place, "C": name, "H": name + "%20%281%29", "N": http.get("/api/overview")["node"]}
    http.delete(f"/api/vhosts/{place}")
    http.delete("/api/users/typed")
    http.delete("/api/global-parameters/typed")
    http.delete("/api/user-limits/guest/max-channels")


def make_vhost(http: Http, place: str) -> None:
    shovel = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    policy = {"pattern": "^work", "definition": {"max-length": 100}, "priority": 1, "apply-to": "queues"}
    for path, body in {
        f"vhosts/{place}": {"description": "d", "tags": "a,b", "default_queue_type": "classic"},
        "users/typed": {"password": "x", "tags": "management"},
        "global-parameters/typed": {"value": {"a": [1]}},
        "user-limits/guest/max-channels": {"value": 100_000},
        f"topic-permissions/{place}/guest": {"exchange": "amq.topic", "write": ".*", "read": ".*"},
        f"policies/{place}/p": policy,
        f"operator-policies/{place}/o": policy,
        f"parameters/shovel/{place}/s": {"value": shovel},
        f"vhost-limits/{place}/max-queues": {"value": 100},
    }.items():
        answer = http.put(f"/api/{path}", body)
        assert answer.status in (201, 204), (path, answer.body)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"a": 1.0}, {"a": integer}),
        ({"a": "1"}, {"a": integer}),
        ({"a": True}, {"a": number}),
        ({"a": -1}, {"a": unsigned}),
        ({"a": 0}, {"a": flag}),
        ({"a": 70_000}, {"a": port}),
        ({"a": []}, {"a": table}),
        ({"a": {"b": "1"}}, {"a": table_of(integer)}),
        ({"a": {}}, {"a": [text]}),
        ({"a": [[1]]}, {"a": [{"b": integer}]}),
        ({}, {"a": text}),
    ],
    ids=str,
)
def test_other_types_are_found(value: Any, kind: Kind) -> None:
    """What the tests below rest on."""
    assert faults(value, kind, set())


@pytest.mark.parametrize("path", ANSWERS)
def test_answers_decode_by_rabbit_hole_s_types(path: str, http: Http, names: dict[str, str]) -> None:
    """SPEC §9.1: Terraform's provider library fails on a field of another type; those that it reads are there."""
    before, mark, query = path.partition("?")
    asked = "/".join(names.get(part, part) for part in before.split("/"))
    answer = http.ask("GET", f"/api/{asked}{mark}{query}")
    assert answer.status == (503 if path.endswith(("port-listener/1", "mqtt")) else 200), answer.body
    assert faults(answer.json, ANSWERS[path], MAY_LACK) == []
    # Nothing was compared in an empty list.
    assert answer.json or path in ("deprecated-features",)


@pytest.mark.parametrize("kind", PAGED)
def test_pages_decode_by_rabbit_hole_s_types(kind: str, http: Http, names: dict[str, str]) -> None:
    """SPEC §9.1: pages, as it asks for them"""
    found = http.get(f"/api/{kind}?page=1&page_size=10&{SAMPLES}")
    assert faults(found, PAGE | {"items": [PAGED[kind]]}, MAY_LACK) == []
    assert found["items"]


def test_message_stats_decode_by_rabbit_hole_s_types(http: Http, names: dict[str, str]) -> None:
    """SPEC §9.1: counters are whole numbers and rates are objects, wherever they are."""
    stats = STATS | rated(integer, "publish_in", "publish_out", "confirm", "deliver_no_ack", "get_empty")
    for path in ("queues/V/jobs", "exchanges/V/amq.fanout", "channels/H", "vhosts/V"):
        asked = "/".join(names.get(part, part) for part in path.split("/"))
        for query in ("", f"?{SAMPLES}"):
            found: dict[str, Any] = http.get(f"/api/{asked}{query}")["message_stats"]
            assert faults(found, stats, {*stats, "samples"}) == []
            assert any(name in found for name in ("publish", "publish_in")), path


def test_objects_that_are_not_there_are_told_as_rabbit_hole_expects(http: Http) -> None:
    """SPEC §9.1: it compares the three parts of an answer with 404."""
    for path in (
        "queues/%2F/none",
        "exchanges/%2F/none",
        "vhosts/none",
        "users/none",
        "policies/%2F/none",
        "connections/none",
    ):
        answer = http.ask("GET", f"/api/{path}")
        assert (answer.status, answer.json) == (404, {"error": "Object Not Found", "reason": "Not Found"})
