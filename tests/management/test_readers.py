"""Requests that other programs make, by their URLs, and the fields that they read, by name and type."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from tests.management.support import Http, Running

NUMBER = (int, float)


def fields(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Each field is there, with this type; a dict goes into the field."""
    for name, kind in wanted.items():
        assert name in found, name
        if isinstance(kind, dict):
            fields(found[name], kind)
        else:
            assert isinstance(found[name], kind), (name, found[name])
            assert not (kind in (int, NUMBER) and isinstance(found[name], bool)), name


@pytest.fixture
def busy(broker: Running, http: Http, vhost: str) -> Iterator[str]:
    """A vhost, quoted, with a queue `work` that has two messages ready and one unacknowledged."""
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, vhost)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("work")
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "work", body)
    channel.basic_get("work")
    yield http.quoted(vhost)
    connection.close()


def test_keda_reads_one_queue_and_pages_of_many(http: Http, busy: str) -> None:
    """SPEC §9.1: KEDA's scaler, by queue and by regular expression; it fails on a missing page object."""
    rates = {"publish_details": {"rate": NUMBER}}
    wanted = {"name": str, "messages": int, "messages_ready": int, "messages_unacknowledged": int, "message_stats": rates}
    one = http.get(f"/api/queues/{busy}/work")
    fields(one, wanted)
    assert (one["messages"], one["messages_ready"], one["messages_unacknowledged"]) == (3, 2, 1)
    page = http.get(f"/api/queues/{busy}?page=1&use_regex=true&pagination=false&name=%5Ewo&page_size=100")
    fields(
        page, {"items": list, "page_count": int, "total_count": int, "filtered_count": int, "page": int, "page_size": int}
    )
    fields(page["items"][0], wanted)
    assert http.get(f"/api/queues/{busy}?page=1&use_regex=true&pagination=false&name=%5Ex&page_size=100")["items"] == []


def test_flower_reads_the_queues_of_a_vhost(http: Http, busy: str) -> None:
    """SPEC §9.1: Flower's broker page."""
    counts = {"messages": int, "messages_ready": int, "messages_unacknowledged": int, "consumers": int}
    (queue,) = http.get(f"/api/queues/{busy}")
    fields(queue, {"name": str, "idle_since": str, **counts})


def test_telegraf_reads_overview_nodes_and_queues(http: Http, busy: str) -> None:
    """SPEC §9.1: Telegraf's input, which calls an answer wrong that lacks one of three objects."""
    overview = http.get("/api/overview")
    totals = dict.fromkeys(("channels", "connections", "consumers", "exchanges", "queues"), int)
    messages = dict.fromkeys(("messages", "messages_ready", "messages_unacknowledged"), int)
    stats = dict.fromkeys(("ack", "deliver", "publish", "deliver_get"), int)
    details = {f"{name}_details": {"rate": NUMBER} for name in stats}
    fields(overview, {"object_totals": totals, "queue_totals": messages, "message_stats": {**stats, **details}})
    fields(overview, {"listeners": list})
    for node in http.get("/api/nodes"):
        limits = dict.fromkeys(("mem_limit", "mem_used", "disk_free", "disk_free_limit", "fd_total", "fd_used"), int)
        sockets = dict.fromkeys(("sockets_total", "sockets_used", "proc_total", "proc_used", "run_queue", "uptime"), int)
        alarms = {"mem_alarm": bool, "disk_free_alarm": bool, "running": bool}
        fields(node, {"name": str, **limits, **sockets, **alarms})
        fields(node, {f"{name}_details": {"rate": NUMBER} for name in ("mem_used", "disk_free", "fd_used", "sockets_used")})
    for queue in http.get("/api/queues"):
        counts = dict.fromkeys(("messages", "messages_ready", "messages_unacknowledged", "consumers", "memory"), int)
        octets = dict.fromkeys(("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged"), int)
        names = {"name": str, "vhost": str, "node": str, "durable": bool, "auto_delete": bool}
        fields(queue, {**names, **counts, **octets, "consumer_utilisation": NUMBER})


def test_terraform_s_provider_makes_reads_and_removes(http: Http, vhost: str) -> None:
    """SPEC §9.1: the requests of rabbit-hole, on which Terraform's provider stands; it reads typed fields."""
    place = http.quoted(vhost)
    assert (
        http.put(f"/api/queues/{place}/q", {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}).status
        == 201
    )
    fields(http.get(f"/api/queues/{place}/q"), {"durable": bool, "auto_delete": bool, "arguments": {"x-max-length": int}})
    assert http.put(f"/api/exchanges/{place}/x", {"type": "topic", "durable": True, "auto_delete": False}).status == 201
    fields(http.get(f"/api/exchanges/{place}/x"), {"type": str, "durable": bool, "arguments": dict})
    bound = http.post(f"/api/bindings/{place}/e/x/q/q", {"routing_key": "a.#", "arguments": {}})
    assert bound.status == 201
    key = bound.headers["Location"].rpartition("/")[2]
    (binding,) = http.get(f"/api/bindings/{place}/e/x/q/q")
    wanted = {"source": str, "destination": str, "destination_type": str, "routing_key": str, "properties_key": str}
    fields(binding, wanted | {"arguments": dict})
    assert http.quoted(binding["properties_key"]) == key
    assert http.delete(f"/api/bindings/{place}/e/x/q/q/{key}").status == 204
    policy = {"pattern": ".*", "priority": 1, "apply-to": "queues", "definition": {"max-length": 3}}
    assert http.put(f"/api/policies/{place}/p", policy).status == 201
    fields(http.get(f"/api/policies/{place}/p"), {"pattern": str, "priority": int, "apply-to": str, "definition": dict})
    assert http.put(f"/api/operator-policies/{place}/o", {**policy, "definition": {"max-length": 9}}).status == 201
    assert http.put("/api/users/terra", {"password": "form", "tags": "management"}).status == 201
    fields(http.get("/api/users/terra"), {"name": str, "tags": list, "password_hash": str, "hashing_algorithm": str})
    assert http.put(f"/api/permissions/{place}/terra", {"configure": "", "write": ".*", "read": ".*"}).status == 201
    fields(http.get(f"/api/permissions/{place}/terra"), {"configure": str, "write": str, "read": str})
    topics = {"exchange": "x", "write": "a", "read": "b"}
    assert http.put(f"/api/topic-permissions/{place}/terra", topics).status == 201
    assert http.put(f"/api/vhost-limits/{place}/max-queues", {"value": 10}).status in (201, 204)
    assert [one["value"] for one in http.get(f"/api/vhost-limits/{place}")] == [{"max-queues": 10}]
    for path in (f"policies/{place}/p", f"operator-policies/{place}/o", f"queues/{place}/q", f"exchanges/{place}/x"):
        assert http.delete(f"/api/{path}").status == 204, path
    assert http.delete("/api/users/terra").status == 204


def test_exporter_and_datadog_read_connections(http: Http, busy: str) -> None:
    """SPEC §9.1: kbudde's exporter and Datadog, by connection."""
    counts = dict.fromkeys(("channels", "recv_oct", "recv_cnt", "send_oct", "send_cnt", "send_pend"), int)
    found = [one for one in http.get("/api/connections") if http.quoted(one["vhost"]) == busy]
    assert len(found) == 1
    fields(found[0], {**counts, "state": str, "user": str, "peer_host": str, "peer_port": int, "node": str})
