"""Nodes and the overview through the HTTP API."""

import os
from pathlib import Path

from tests.management.amqp import channel_of, soon
from tests.management.support import Http, Running

NUMBERS = [
    "uptime",
    "run_queue",
    "processors",
    "fd_used",
    "fd_total",
    "sockets_used",
    "sockets_total",
    "proc_used",
    "proc_total",
    "mem_used",
    "mem_limit",
    "disk_free",
    "disk_free_limit",
]


def test_node_has_what_tools_read(broker: Running, http: Http, tmp_path: Path) -> None:
    """SPEC §9.1: Telegraf, the exporters and rabbitmqadmin-ng read these, and they are this process's."""
    (found,) = http.get("/api/nodes")
    assert http.get(f"/api/nodes/{found['name']}")["name"] == found["name"] == http.get("/api/overview")["node"]
    assert all(type(found[name]) is int for name in NUMBERS)
    assert found["os_pid"] == str(broker.popen.pid)
    assert abs(found["mem_used"] - broker.resident) < 20 << 20
    assert 0 < found["mem_used"] < found["mem_limit"]
    assert (found["mem_alarm"], found["disk_free_alarm"], found["being_drained"]) == (False, False, False)
    space = os.statvfs(tmp_path)
    assert abs(found["disk_free"] - space.f_bavail * space.f_frsize) < 2 << 30
    assert 5 < found["fd_used"] < found["fd_total"]
    assert found["processors"] == os.cpu_count()
    assert (found["partitions"], found["rates_mode"], found["running"], found["type"]) == ([], "basic", True, "disc")
    assert "rabbitmq_management" in found["enabled_plugins"]
    assert {"name", "description", "version"} == set(found["applications"][0])
    assert str(broker.http_port) in [context["port"] for context in found["contexts"]]
    assert isinstance(found["mem_used_details"]["rate"], float)
    assert http.ask("GET", "/api/nodes/rabbit@elsewhere").status == 404
    assert set(http.get("/api/nodes?columns=name,mem_used")[0]) == {"name", "mem_used"}


def test_memory_has_what_is_there(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: bodies that are held, channels, code, samples; what is given back is gone from it."""
    name = http.get("/api/nodes?columns=name")[0]["name"]
    path = f"/api/nodes/{name}/memory"
    before = http.get(path)["memory"]
    assert all(before[part] > 0 for part in ("code", "mgmt_db", "other_system"))
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        for _ in range(100):
            channel.basic_publish("", "q", bytes(100_000))
        channel.queue_declare("q", passive=True)
        held = soon(lambda: [one for one in (http.get(path)["memory"],) if one["binary"] >= before["binary"] + 10_000_000])
        assert held[0]["connection_channels"] > before["connection_channels"]
        assert held[0]["binary"] < held[0]["total"]["rss"]
        channel.queue_purge("q")
        soon(lambda: http.get(path)["memory"]["binary"] <= before["binary"])


def test_memory_adds_up(http: Http) -> None:
    """SPEC §9.1: rabbitmqadmin-ng reads 25 parts, the strategy and the total."""
    name = http.get("/api/nodes?columns=name")[0]["name"]
    memory = http.get(f"/api/nodes/{name}/memory")["memory"]
    parts = {part: size for part, size in memory.items() if part not in ("strategy", "total")}
    assert len(parts) >= 25
    assert sum(parts.values()) == memory["total"]["rss"] > 0
    assert {"rss", "allocated", "erlang"} == set(memory["total"])
    shares = http.get(f"/api/nodes/{name}/memory/relative")["memory"]
    assert shares.pop("total") == 100
    # What is not nothing is at least 1.
    assert 99 <= sum(shares.values()) <= 101 + sum(1 for share in shares.values() if share == 1)
    assert "memory" not in http.get(f"/api/nodes/{name}")
    whole = http.get(f"/api/nodes/{name}?memory=true&binary=true")
    assert {"memory", "binary"} <= set(whole)


def test_overview_is_complete(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: totals and churn have rates; listeners, contexts and how long samples are kept are told."""
    before = http.get("/api/overview")
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        channel.queue_declare("q", passive=True)
        found = http.get("/api/overview")
        for name in ("connections", "channels", "queues"):
            assert found["object_totals"][name] == before["object_totals"][name] + 1
        assert found["queue_totals"]["messages"] == before["queue_totals"]["messages"] + 1
        assert "rate" in found["queue_totals"]["messages_details"]
        assert found["message_stats"]["publish"] == before["message_stats"]["publish"] + 1
        names = [name for name in before["churn_rates"] if "_details" not in name]
        churn = {name: found["churn_rates"][name] - before["churn_rates"][name] for name in names}
        opened = {"connection_created": 1, "channel_created": 1, "queue_created": 1, "queue_declared": 1}
        assert churn == {**dict.fromkeys(churn, 0), **opened}
        channel.queue_delete("q")
    churn_rates = soon(lambda: _when_closed(http, before))
    assert churn_rates["queue_deleted"] == before["churn_rates"]["queue_deleted"] + 1
    assert churn_rates["channel_closed"] == before["churn_rates"]["channel_closed"] + 1
    assert "rate" in churn_rates["connection_created_details"]
    assert found["sample_retention_policies"]["global"] == [600, 3600, 28800, 86400]
    assert {"node", "protocol", "ip_address", "port", "socket_opts"} == set(found["listeners"][0])
    assert "RabbitMQ Management" in [context["description"] for context in found["contexts"]]


def _when_closed(http: Http, before: dict[str, dict[str, int]]) -> dict[str, int] | None:
    churn: dict[str, int] = http.get("/api/overview")["churn_rates"]
    return churn if churn["connection_closed"] > before["churn_rates"]["connection_closed"] else None
