"""What a RabbitMQ lists of the same things is listed here too, under its names and as values of its kinds."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.bench.brokers import free_ports, rabbitmq
from tests.management.amqp import soon
from tests.management.support import Http, Running

PLUGINS = ("rabbitmq_management", "rabbitmq_prometheus")
VHOST = "fields"
QUEUES = ("new", "transient", "taken", "priorities", "single", "alone", "own", "asked", "bounded", "replicated")
LISTS = ("queues", "exchanges", "vhosts", "connections", "channels", "consumers", "parameters", "nodes")
# What RabbitMQ says of Erlang and of its own parts.
LACKING = (
    *("metrics_gc_queue_length", "cowboy_opts", "socket_opts", "binary", "log_files", "config_files", "cluster_links"),
    *("applications", "auth_mechanisms", "listeners", "contexts", "delta", "exchange_types", "enabled_plugins"),
    *("priority_lengths", "open_files", "cluster_state", "db_dir", "sample_retention_policies"),
)
# Names of metrics likewise.
LACKING_METRICS = ("reductions", "raft", "mnesia", "dead_lettered_confirmed", "_vm_", "telemetry_scrape")
# What came to a queue is known by exchange, not by channel too.
LACKING_LABELS = {"rabbitmq_queue_messages_published": {"channel"}}


class Broker:
    """One of the two, with the ports of its listeners, and how rabbitmqctl reaches it."""

    def __init__(self, port: int, http_port: int, prometheus_port: int, ctl: list[str], folder: Path) -> None:
        self.port = port
        self.http = Http(http_port)
        self.http.headers["Content-Type"] = "application/json"
        self.prometheus = Http(prometheus_port, None)
        self.ctl = ctl
        self.folder = folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("rabbitmq")
    http_port, prometheus_port, *ports = free_ports(5)
    settings = "".join(
        f"{name}.tcp.ip = 127.0.0.1\n{name}.tcp.port = {port}\n"
        for name, port in (("management", http_port), ("prometheus", prometheus_port))
    )
    ctl = ["env", f"HOME={folder}", f"ERL_EPMD_PORT={ports[2]}", "ERL_EPMD_ADDRESS=127.0.0.1"]
    ctl += ["/usr/lib/rabbitmq/bin/rabbitmqctl", "-n", f"bench-{ports[0]}@localhost"]
    with rabbitmq(PLUGINS, folder, ports, settings) as started:
        broker = Broker(started.port, http_port, prometheus_port, ctl, folder)
        with filled(broker):
            yield broker


@pytest.fixture(scope="module")
def ours(broker: Running) -> Iterator[Broker]:
    one = Broker(broker.port, broker.http_port, broker.prometheus_port, [], Path())
    try:
        with filled(one):
            yield one
    finally:
        one.http.delete(f"/api/vhosts/{VHOST}")


@contextmanager
def filled(broker: Broker) -> Iterator[None]:
    """Queues that are new, idle, in use; while this lasts, their clients are there."""
    http = broker.http
    http.put(f"/api/vhosts/{VHOST}", {"description": "fields", "tags": ["a"]})
    http.put(f"/api/permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    http.put(f"/api/vhost-limits/{VHOST}/max-queues", {"value": 100})
    bounds = {"pattern": "^bounded", "apply-to": "queues", "priority": 1}
    http.put(f"/api/policies/{VHOST}/p", {**bounds, "definition": {"max-length": 9}})
    http.put(f"/api/operator-policies/{VHOST}/o", {**bounds, "definition": {"max-length": 8}})
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, VHOST)
    connection = pika.BlockingConnection(parameters)
    try:
        _publish(connection.channel())
        _consume(connection)
        yield
    finally:
        connection.close()


def _publish(channel: Any) -> None:
    arguments = {
        "priorities": {"x-max-priority": 3},
        "single": {"x-single-active-consumer": True},
        "replicated": {"x-queue-type": "quorum"},
    }
    for name in QUEUES:
        durable = name not in ("transient", "own")
        channel.queue_declare(name, durable=durable, exclusive=name == "own", arguments=arguments.get(name))
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_bind("taken", "x", "a.#")
    stamped = pika.BasicProperties(delivery_mode=2, timestamp=1_700_000_000, expiration="600000")
    channel.confirm_delivery()
    for name in ("transient", "priorities", "own", "bounded", "replicated"):
        channel.basic_publish("", name, b"hello", stamped)
    channel.basic_publish("x", "a.b", b"hello", stamped)
    channel.basic_publish("x", "a.b", b"not persistent", pika.BasicProperties(delivery_mode=1))
    channel.basic_publish("x", "b", b"nowhere")


def _consume(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.basic_get("asked")
    channel.basic_consume("alone", print, consumer_tag="alone", exclusive=True)
    for tag in ("first", "second"):
        channel.basic_consume("single", print, consumer_tag=tag)
    connection.process_data_events(0.1)


def lacks(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """What one has, as values of which kind, and the other has not."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name, value in theirs.items():
            if name in LACKING:
                continue
            if name not in ours:
                yield f"{path}.{name}"
            else:
                yield from lacks(value, ours[name], f"{path}.{name}")
    elif isinstance(theirs, list) and isinstance(ours, list):
        for one, other in zip(theirs, ours, strict=False):
            yield from lacks(one, other, f"{path}[]")
    elif kind(theirs) != kind(ours):
        yield f"{path}: {theirs!r} / {ours!r}"


def kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def counted(broker: Broker) -> bool:
    """Whether RabbitMQ, which counts every 5 seconds, has counted all."""
    found = {one["name"]: one for one in broker.http.get(f"/api/queues/{VHOST}")}
    stats = broker.http.get("/api/overview")["message_stats"]
    settled = all(one.get("messages") is not None and "backing_queue_status" in one for one in classic(found))
    return settled and stats.get("publish", 0) >= 8 and found["bounded"]["messages"] == 1 and "get_empty" in stats


def idle(broker: Broker) -> bool:
    """Whether nothing has changed since the last samples."""
    found = [*broker.http.get(f"/api/queues/{VHOST}"), *broker.http.get(f"/api/vhosts/{VHOST}/channels")]
    return all("idle_since" in one for one in found)


def classic(found: dict[str, Any]) -> list[Any]:
    return [one for one in found.values() if one["type"] == "classic"]


@pytest.fixture(scope="module")
def both(theirs: Broker, ours: Broker) -> tuple[Broker, Broker]:
    soon(lambda: counted(theirs) and idle(ours), 60)
    return theirs, ours


@pytest.mark.parametrize("name", QUEUES)
def test_queue_has_rabbitmqs_fields(name: str, both: tuple[Broker, Broker]) -> None:
    """SPEC §9.1: a queue by itself: new, idle, with consumers, exclusive, bounded, replicated."""
    theirs, ours = (one.http.get(f"/api/queues/{VHOST}/{name}") for one in both)
    assert list(lacks(theirs, ours)) == []
    same = ("messages", "messages_ready", "messages_persistent", "message_bytes_persistent", "head_message_timestamp")
    assert {key: ours[key] for key in same if key in theirs} == {key: theirs[key] for key in same if key in theirs}
    assert {key for key in ours["message_stats"] if key in theirs.get("message_stats", {})} == ours["message_stats"].keys()


@pytest.mark.parametrize("path", [*LISTS, "overview", f"vhosts/{VHOST}", f"exchanges/{VHOST}/x", f"queues/{VHOST}"])
def test_lists_have_rabbitmqs_fields(path: str, both: tuple[Broker, Broker]) -> None:
    """SPEC §9.1: each thing of a list has what RabbitMQ's has."""
    theirs, ours = (of_vhost(one.http.get(f"/api/{path}")) for one in both)
    assert list(lacks(theirs, ours)) == []
    assert not isinstance(theirs, list) or len(theirs) == len(ours)


@pytest.mark.parametrize(
    "path", ["queues", "exchanges", "vhosts", "connections", "nodes", f"queues/{VHOST}/new", "overview"]
)
@pytest.mark.parametrize("more", ["", "&enable_queue_totals=true"])
def test_without_statistics_as_much_is_left(path: str, more: str, both: tuple[Broker, Broker]) -> None:
    """SPEC §9.1: disable_stats"""
    theirs, ours = (of_vhost(one.http.get(f"/api/{path}?disable_stats=true{more}")) for one in both)
    # RabbitMQ: with totals nobody knows of a quorum queue that it is nobody's own.
    odd = ["[].exclusive: None / False"] if path == "queues" and more else []
    assert list(lacks(theirs, ours)) == odd
    assert len([line for line in lacks(ours, theirs) if path != "overview"]) == len(odd)


@pytest.mark.parametrize("path", ["channels", "consumers", f"vhosts/{VHOST}/channels", "channels/none"])
def test_what_is_only_statistics_is_refused_without_them(path: str, both: tuple[Broker, Broker]) -> None:
    """SPEC §9.1: disable_stats"""
    theirs, ours = (one.http.ask("GET", f"/api/{path}?disable_stats=true") for one in both)
    assert (ours.status, ours.json) == (theirs.status, theirs.json)
    assert ours.status == 400


def of_vhost(found: Any) -> Any:
    """Of a list what is about the tests' vhost; all of what is about none."""
    if not isinstance(found, list):
        return found
    about = [one for one in found if VHOST in (one.get("vhost"), one.get("name"))]
    about += [one for one in found if "vhost" not in one and (one.get("queue") or {}).get("vhost") == VHOST]
    nodes = [one for one in found if "vhost" not in one and one.get("type") == "disc"]
    return sorted(
        about or nodes, key=lambda one: json.dumps([one.get("component"), one.get("name"), one.get("consumer_tag")])
    )


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object"])
def test_metrics_have_rabbitmqs_names(path: str, both: tuple[Broker, Broker]) -> None:
    """SPEC §9.3: names, kinds and labels of RabbitMQ's metrics."""
    theirs, ours = (families(one, path) for one in both)
    for name, (kind, labels) in theirs.items():
        if not any(word in name for word in LACKING_METRICS):
            assert (ours[name][0], labels - ours[name][1] - LACKING_LABELS.get(name, set())) == (kind, frozenset()), name


def families(broker: Broker, path: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Kind and labels of each; of those that have values."""
    text = broker.prometheus.ask("GET", path).body.decode()
    found = {}
    for family in text_string_to_metric_families(text):
        if family.samples and family.name.startswith(("rabbitmq_", "process_")):
            found[family.name] = (family.type, frozenset(family.samples[0].labels))
    return found


def test_file_of_rabbitmqctl_is_imported(both: tuple[Broker, Broker], tmp_path: Path) -> None:
    """SPEC §9.2: rabbitmqctl export_definitions, with bindings of an exclusive queue, which itself is not exported."""
    theirs, ours = both
    file = tmp_path / "definitions.json"
    theirs.http.post(f"/api/bindings/{VHOST}/e/x/q/own", {"routing_key": "own", "arguments": {}})
    theirs.http.put("/api/users/counted", {"password": "secret", "tags": "management"})
    theirs.http.put("/api/user-limits/counted/max-channels", {"value": 3})
    theirs.http.put("/api/global-parameters/moved", {"value": {"a": [1, {"b": 2}]}})
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RABBITMQ_")}
    done = subprocess.run(
        [*theirs.ctl, "export_definitions", str(file)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done
    found = json.loads(file.read_text())
    # Lists of pairs.
    assert [["max-queues", 100]] in [one["limits"] for one in found["vhosts"]]
    text = json.dumps(found).replace(f'"{VHOST}"', '"from ctl"')
    try:
        answer = ours.http.ask("POST", "/api/definitions", text.encode())
        assert (answer.status, answer.body) == (204, b"")
        exported = ours.http.get("/api/definitions")
        assert {"vhost": "from ctl", "value": {"max-queues": 100}} in ours.http.get("/api/vhost-limits")
        assert ours.http.get("/api/user-limits/counted") == [{"user": "counted", "value": {"max-channels": 3}}]
        assert {"name": "moved", "value": {"a": [1, {"b": 2}]}} in exported["global_parameters"]
        (operator_policy,) = ours.http.get("/api/operator-policies/from%20ctl")
        assert operator_policy["definition"] == {"max-length": 8}
        assert ours.http.ask("GET", "/api/whoami", headers=Http(0, "counted", "secret").headers).status == 200
        names = {one["name"] for one in exported["queues"] if one["vhost"] == "from ctl"}
        assert names == set(QUEUES) - {"own"}
        bindings = [one["destination"] for one in exported["bindings"] if one["vhost"] == "from ctl"]
        assert bindings == ["taken"]
    finally:
        ours.http.delete("/api/vhosts/from%20ctl")
        ours.http.delete("/api/users/counted")
        ours.http.delete("/api/global-parameters/moved")
