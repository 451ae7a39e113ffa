"""RabbitMQ's own command line, rabbitmqadmin v1, against the HTTP API; skipped where it is not installed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.management.support import Running
from tests.server.support import PATIENCE

FOUND = sorted(Path("/usr/lib/rabbitmq").glob("lib/*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"))

pytestmark = pytest.mark.skipif(not FOUND, reason="rabbitmqadmin is not installed")


class Admin:
    """The program, in one vhost."""

    def __init__(self, port: int, vhost: str) -> None:
        options = ["--host", "127.0.0.1", "--port", str(port), "--vhost", vhost]
        self._command = [sys.executable, "-W", "ignore", str(FOUND[-1]), *options]

    def run(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode != 0) is fails, done
        return done.stdout + done.stderr

    def list(self, *words: str) -> Any:
        return json.loads(self.run("--format", "raw_json", "list", *words))


@pytest.fixture
def admin(broker: Running, vhost: str) -> Admin:
    return Admin(broker.http_port, vhost)


def test_objects_are_declared_listed_and_deleted(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin's declare, list and delete of queues, exchanges and bindings."""
    assert admin.run("declare", "queue", "name=q", 'arguments={"x-max-length": 5}').strip() == "queue declared"
    assert admin.run("declare", "exchange", "name=x", "type=topic").strip() == "exchange declared"
    bound = admin.run("declare", "binding", "source=x", "destination=q", "routing_key=a.#")
    assert bound.strip() == "binding declared"
    admin.run("declare", "binding", "source=x", "destination=q", 'arguments={"a": 1}')
    admin.run("declare", "binding", "source=x", "destination=x", "destination_type=exchange")
    (queue,) = admin.list("queues")
    assert (queue["name"], queue["durable"], queue["arguments"]) == ("q", True, {"x-max-length": 5})
    assert admin.list("queues", "name", "messages") == [{"name": "q", "messages": 0}]
    assert "x" in [one["name"] for one in admin.list("exchanges", "name")]
    keys = {one["properties_key"] for one in admin.list("bindings") if one["source"] == "x"}
    assert len(keys) == 3
    assert "| q    | 0" in admin.run("list", "queues")
    assert (
        admin.run("--depth", "2", "--sort", "name", "--sort-reverse", "--format", "tsv", "list", "queues").count("\n") >= 2
    )
    for key in sorted(keys - {"~"}):
        admin.run("delete", "binding", "source=x", "destination_type=queue", "destination=q", f"properties_key={key}")
    admin.run("delete", "binding", "source=x", "destination_type=exchange", "destination=x")
    assert [one["source"] for one in admin.list("bindings")] == [""]
    assert admin.run("delete", "exchange", "name=x").strip() == "exchange deleted"
    assert admin.run("delete", "queue", "name=q").strip() == "queue deleted"
    assert admin.list("queues") == []


def test_messages_are_published_got_and_purged(admin: Admin, tmp_path: Path) -> None:
    """SPEC §9.1: rabbitmqadmin's publish, get and purge."""
    admin.run("declare", "queue", "name=q", "durable=false")
    assert admin.run("publish", "routing_key=q", "payload=hello").strip() == "Message published"
    properties = 'properties={"delivery_mode": 2}'
    admin.run("publish", "exchange=amq.default", "routing_key=q", "payload=aGVsbG8=", "payload_encoding=base64", properties)
    assert admin.run("publish", "routing_key=nowhere", "payload=x").strip() == "Message published but NOT routed"
    (first,) = json.loads(admin.run("--format", "raw_json", "get", "queue=q"))
    assert (first["payload"], first["message_count"]) == ("hello", 1)
    admin.run("get", "queue=q", "ackmode=ack_requeue_false", f"payload_file={tmp_path / 'payload'}")
    assert (tmp_path / "payload").read_text() == "hello"
    assert admin.run("purge", "queue", "name=q").strip() == "queue purged"
    assert admin.list("queues", "messages") == [{"messages": 0}]


def test_faults_are_told(admin: Admin) -> None:
    """SPEC §9.1: rabbitmqadmin shows the reason of what it was refused."""
    admin.run("declare", "queue", "name=q")
    told = admin.run("declare", "queue", "name=q", "durable=false", fails=True)
    assert "inequivalent arg 'durable' for queue 'q'" in told
    assert "not found" in admin.run("delete", "queue", "name=none", fails=True).lower()
    assert "type" in admin.run("declare", "exchange", "name=x", "type=odd", fails=True)
