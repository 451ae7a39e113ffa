"""Prometheus' text: valid, with RabbitMQ's names and labels, and right."""

import asyncio
import http.client
import math
import time
from typing import Any

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.management.amqp import channel_of
from tests.management.support import Http, Running

from leveret.management.http.request import Request
from leveret.management.prometheus.endpoint import get_per_object
from leveret.management.statistics.sampler import Sampler
from leveret.server.clock import now_ms
from leveret.server.config import Config
from leveret.server.node import Node

# Everything that Grafana's dashboard 10991 (RabbitMQ-Overview) asks for.
DASHBOARD = """
rabbitmq_build_info rabbitmq_identity_info rabbitmq_queues rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked
rabbitmq_connections rabbitmq_channels rabbitmq_consumers rabbitmq_global_publishers
rabbitmq_global_messages_received_total rabbitmq_global_messages_received_confirm_total
rabbitmq_global_messages_confirmed_total rabbitmq_global_messages_routed_total
rabbitmq_global_messages_acknowledged_total rabbitmq_global_messages_redelivered_total
rabbitmq_global_messages_unroutable_dropped_total rabbitmq_global_messages_unroutable_returned_total
rabbitmq_global_messages_delivered_consume_auto_ack_total rabbitmq_global_messages_delivered_consume_manual_ack_total
rabbitmq_global_messages_delivered_get_auto_ack_total rabbitmq_global_messages_delivered_get_manual_ack_total
rabbitmq_global_messages_get_empty_total
rabbitmq_queues_declared_total rabbitmq_queues_created_total rabbitmq_queues_deleted_total
rabbitmq_connections_opened_total rabbitmq_connections_closed_total
rabbitmq_channels_opened_total rabbitmq_channels_closed_total
rabbitmq_process_open_fds rabbitmq_process_max_fds rabbitmq_process_open_tcp_sockets rabbitmq_process_max_tcp_sockets
rabbitmq_process_resident_memory_bytes rabbitmq_resident_memory_limit_bytes rabbitmq_disk_space_available_bytes
"""
PATHS = ["/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics", "/metrics/memory-breakdown"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(port: int, path: str) -> Samples:
    """All samples, by name and labels; each must be there once."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert (answer.status, answer.getheader("Content-Type")) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    assert text.count("# TYPE") == text.count("# HELP")
    return found


def value(samples: Samples, name: str, **labels: Any) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.mark.parametrize("path", PATHS)
def test_text_is_valid_on_both_ports_without_a_login(broker: Running, path: str) -> None:
    """SPEC §9.3: 15692, and /metrics of the HTTP API."""
    for port in (broker.http_port, broker.prometheus_port):
        assert {name for name, _ in scraped(port, path)} >= {"rabbitmq_build_info", "rabbitmq_identity_info"}


def test_the_other_port_has_nothing_else(broker: Running) -> None:
    """SPEC §9.3: no API on 15692."""
    assert Http(broker.prometheus_port).ask("GET", "/api/overview").status == 404


def test_dashboard_finds_what_it_asks_for(broker: Running) -> None:
    """SPEC §9.3: RabbitMQ's Grafana overview works unchanged; its panels are joined by node and cluster."""
    samples = scraped(broker.prometheus_port, "/metrics")
    assert set(DASHBOARD.split()) - {name for name, _ in samples} == set()
    (identity,) = [dict(labels) for name, labels in samples if name == "rabbitmq_identity_info"]
    assert set(identity) == {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id"}
    (build,) = [dict(labels) for name, labels in samples if name == "rabbitmq_build_info"]
    assert {"rabbitmq_version", "prometheus_client_version", "prometheus_plugin_version", "erlang_version"} <= set(build)


def test_sums_are_right(broker: Running, vhost: str) -> None:
    """SPEC §9.3: what a client does is in the sums."""
    before = scraped(broker.prometheus_port, "/metrics")
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "q", b"12345")
        channel.basic_publish("", "nowhere", b"x")
        channel.basic_get("q")
        channel.basic_get("q", auto_ack=True)
        channel.basic_consume("q", print, consumer_tag="c")
        channel.connection.process_data_events(0.2)
        after = scraped(broker.prometheus_port, "/metrics")

    def grown(name: str, **labels: str) -> float:
        return value(after, f"rabbitmq_{name}", **labels) - value(before, f"rabbitmq_{name}", **labels)

    for name in ("connections", "channels", "queues", "consumers", "queue_consumers", "channel_consumers"):
        assert grown(name) == 1, name
    for name in ("connections_opened_total", "channels_opened_total", "queues_created_total", "queues_declared_total"):
        assert grown(name) == 1, name
    assert (grown("queue_messages_unacked"), grown("queue_messages_ready"), grown("queue_messages")) == (2, 0, 2)
    assert grown("queue_messages_bytes") == grown("queue_messages_unacked_bytes") == 10
    assert grown("queue_messages_published_total") == 3
    amqp = {"protocol": "amqp091"}
    assert grown("global_messages_received_total", **amqp) == grown("global_messages_confirmed_total", **amqp) == 4
    assert grown("global_messages_received_confirm_total", **amqp) == 4
    assert grown("global_messages_routed_total", **amqp) == 3
    assert grown("global_messages_unroutable_dropped_total", **amqp) == 1
    assert grown("auth_attempts_succeeded_total", **amqp) == 1
    classic = {**amqp, "queue_type": "rabbit_classic_queue"}
    assert grown("global_messages_delivered_total", **classic) == 3
    for name in ("consume_manual_ack", "get_manual_ack", "get_auto_ack"):
        assert grown(f"global_messages_delivered_{name}_total", **classic) == 1
    assert grown("connection_incoming_bytes_total") > 500


def test_each_object_is_there_by_itself(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.3: /metrics/per-object; names may contain anything."""
    with channel_of(broker, vhost) as channel:
        channel.queue_declare('a"b\\c')
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"123")
        channel.queue_declare("q", passive=True)
        samples = scraped(broker.prometheus_port, "/metrics/per-object")
        assert value(samples, "rabbitmq_queue_messages_ready", vhost=vhost, queue="q") == 1
        assert value(samples, "rabbitmq_queue_messages_bytes", vhost=vhost, queue="q") == 3
        labels = {"queue_vhost": vhost, "queue": "q", "exchange_vhost": vhost, "exchange": ""}
        assert value(samples, "rabbitmq_queue_messages_published_total", **labels) == 1
        assert value(samples, "rabbitmq_queue_messages", vhost=vhost, queue='a"b\\c') == 0
        (connection,) = http.get(f"/api/vhosts/{http.quoted(vhost)}/connections")
        assert value(samples, "rabbitmq_connection_channels", channel=connection["name"]) == 1
        labels = {"channel": f"{connection['name']} (1)", "vhost": vhost, "exchange": ""}
        published = value(samples, "rabbitmq_channel_messages_published_total", **labels)
        assert published == 1


def test_detailed_has_the_families_and_vhosts_that_are_asked_for(broker: Running, vhost: str) -> None:
    """SPEC §9.3: /metrics/detailed?vhost=&family=."""
    with channel_of(broker, "/") as other, channel_of(broker, vhost) as channel:
        other.queue_declare("elsewhere", exclusive=True)
        channel.queue_declare("q")
        channel.exchange_declare("x", "topic")
        channel.queue_bind("q", "x", "#")
        ask = f"/metrics/detailed?vhost={Http.quoted(vhost)}&family=queue_coarse_metrics&family=queue_consumer_count"
        samples = scraped(broker.prometheus_port, ask)
        queues = {dict(labels)["queue"] for name, labels in samples if name == "rabbitmq_detailed_queue_messages_ready"}
        assert queues == {"q"}
        assert value(samples, "rabbitmq_detailed_queue_consumers", vhost=vhost, queue="q") == 0
        assert not [name for name, _ in samples if name == "rabbitmq_detailed_queue_messages_ram"]
        everywhere = scraped(broker.prometheus_port, "/metrics/detailed?family=queue_coarse_metrics&family=vhost_status")
        assert value(everywhere, "rabbitmq_detailed_queue_messages", vhost="/", queue="elsewhere") == 0
        assert value(everywhere, "rabbitmq_cluster_vhost_status", vhost=vhost) == 1
        exchanges = scraped(broker.prometheus_port, "/metrics/detailed?family=exchange_bindings&family=exchange_names")
        assert value(exchanges, "rabbitmq_cluster_exchange_bindings", vhost=vhost, exchange="x", type="topic") == 1
        assert value(exchanges, "rabbitmq_cluster_exchange_name", vhost=vhost, exchange="x", type="topic") == 1
        assert {name for name, _ in scraped(broker.prometheus_port, "/metrics/detailed")} == {
            "rabbitmq_build_info",
            "rabbitmq_identity_info",
        }


def test_dead_letters_are_counted(broker: Running, vhost: str) -> None:
    """SPEC §9.3: by their reason."""
    labels = {"queue_type": "rabbit_classic_queue", "dead_letter_strategy": "at_most_once"}
    name = "rabbitmq_global_messages_dead_lettered_rejected_total"
    before = value(scraped(broker.prometheus_port, "/metrics"), name, **labels)
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("dead")
        channel.queue_declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        channel.basic_publish("", "q", b"x")
        method, _, _ = channel.basic_get("q")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
        channel.queue_declare("dead", passive=True)
        assert value(scraped(broker.prometheus_port, "/metrics"), name, **labels) == before + 1


def test_ten_thousand_queues_hold_the_loop_for_a_few_milliseconds_only() -> None:
    """SPEC §9.3: each queue by itself is ten megabytes of text, which is made in pieces."""
    node = Node(Config(port=0, storage="memory"))
    for number in range(10_000):
        node.broker.find_vhost("/").declare_queue(f"q{number}")
    ask = Request(node, Sampler(node), None, {}, {})

    async def longest_wait() -> float:
        making = asyncio.ensure_future(get_per_object(ask))
        longest, start = 0.0, time.thread_time()
        while not making.done():
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - start)
            start = time.thread_time()
        assert len(making.result().octets()) > 5_000_000
        return longest

    assert min(asyncio.run(longest_wait()) for _ in range(3)) < 0.02


def test_storage_is_counted(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.3: writes, syncs, messages stored, and when the process began."""
    names = (
        "io_write_ops",
        "io_write_bytes",
        "io_write_time_seconds",
        "io_sync_ops",
        "io_sync_time_seconds",
        "msg_store_write",
    )
    before = scraped(broker.prometheus_port, "/metrics")
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q", durable=True)
        channel.queue_declare("other", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"123", pika.BasicProperties(delivery_mode=2, timestamp=1_700_000_000))
        after = scraped(broker.prometheus_port, "/metrics")
        objects = scraped(broker.prometheus_port, "/metrics/per-object")
    for name in names:
        assert value(after, f"rabbitmq_{name}_total") > value(before, f"rabbitmq_{name}_total"), name
    stored = ("queue_messages_persistent", "queue_disk_writes_total", "msg_store_write_total")
    assert [value(after, f"rabbitmq_{name}") - value(before, f"rabbitmq_{name}") for name in stored] == [1, 1, 1]
    one = {"vhost": vhost, "queue": "q"}
    assert value(objects, "rabbitmq_queue_messages_persistent", **one) == 1
    assert value(objects, "rabbitmq_queue_messages_persistent_bytes", **one) == 3
    assert value(objects, "rabbitmq_queue_head_message_timestamp", **one) == 1_700_000_000
    assert math.isnan(value(objects, "rabbitmq_queue_head_message_timestamp", vhost=vhost, queue="other"))
    assert 0 < value(after, "process_start_time_seconds") <= now_ms() / 1000
    (node,) = http.get("/api/nodes")
    assert node["io_sync_avg_time"] > 0
    assert http.get("/api/overview")["message_stats"]["disk_writes"] >= 1
