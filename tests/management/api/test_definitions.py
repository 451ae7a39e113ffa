"""Definitions through the HTTP API: RabbitMQ's files come in, and ours go into a RabbitMQ."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.bench.brokers import free_ports, rabbitmq
from tests.management.support import Http, Running
from tests.server.support import PATIENCE

from leveret.broker.password import hash_password
from leveret.wire import spec


def definitions(vhost: str) -> dict[str, Any]:
    """Some of everything that both brokers know, as they show it."""
    rights = {"user": "mover", "vhost": vhost, "configure": "^a", "write": ".*", "read": ""}
    plain = {"auto_delete": False, "vhost": vhost}
    exchange = {"durable": True, "internal": False, "arguments": {}, **plain}
    binding = {"source": "mover.x", "vhost": vhost, "routing_key": "a.#", "arguments": {}}
    headers = {"x-match": "all", "n": 5, "t": "text", "b": True}
    return {
        "users": [
            {
                "name": "mover",
                "password_hash": hash_password(b"secret", b"salt"),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["management", "policymaker"],
                "limits": {"max-channels": 100},
            }
        ],
        "vhosts": [{"name": vhost}],
        "permissions": [rights],
        "topic_permissions": [{"user": "mover", "vhost": vhost, "exchange": "amq.topic", "write": "^w", "read": "^r"}],
        "parameters": [
            {"vhost": vhost, "component": "vhost-limits", "name": "limits", "value": {"max-queues": 50}},
            {
                "vhost": vhost,
                "component": "operator_policy",
                "name": "bounded",
                "value": {"apply-to": "queues", "definition": {"max-length": 9}, "pattern": "^b", "priority": 1},
            },
        ],
        "global_parameters": [{"name": "mover", "value": {"a": [1, "b"]}}],
        "policies": [
            {
                "vhost": vhost,
                "name": "dead",
                "pattern": "^mover",
                "apply-to": "queues",
                "definition": {"dead-letter-exchange": "mover.dead", "message-ttl": 60000},
                "priority": 3,
            }
        ],
        "queues": [
            {
                "name": "mover.classic",
                "durable": True,
                "arguments": {"x-max-length": 10, "x-overflow": "drop-head"},
                **plain,
            },
            {"name": "mover.quorum", "durable": True, "arguments": {"x-queue-type": "quorum"}, **plain},
            {"name": "mover.transient", "durable": False, "arguments": {"x-max-priority": 5}, **plain},
        ],
        "exchanges": [
            {"name": "mover.dead", "type": "fanout", **exchange},
            {"name": "mover.h", "type": "headers", **exchange},
            {"name": "mover.x", "type": "topic", **exchange, "arguments": {"alternate-exchange": "mover.dead"}},
        ],
        "bindings": [
            {**binding, "destination": "mover.classic", "destination_type": "queue"},
            {**binding, "destination": "mover.dead", "destination_type": "exchange"},
            {
                **binding,
                "source": "mover.h",
                "destination": "mover.quorum",
                "destination_type": "queue",
                "arguments": headers,
            },
        ],
    }


def about(found: dict[str, Any], vhost: str) -> dict[str, Any]:
    """What of a broker's definitions is about that vhost and the test's user."""
    kept: dict[str, Any] = {}
    for kind in definitions(vhost):
        items = [
            item for item in found[kind] if vhost in (item.get("vhost"), item.get("name")) or item.get("name") == "mover"
        ]
        if kind == "vhosts":
            items = [{"name": item["name"]} for item in items]
        # RabbitMQ gives whoever makes a vhost rights in it.
        items = [item for item in items if item.get("user") != "guest"]
        kept[kind] = sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    return kept


def in_order(found: dict[str, Any]) -> dict[str, Any]:
    return {kind: sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) for kind, items in found.items()}


@pytest.fixture
def clean(http: Http) -> Iterator[None]:
    """Afterwards the test's user is gone."""
    yield
    http.delete("/api/users/mover")
    http.delete("/api/global-parameters/mover")


@pytest.mark.usefixtures("clean")
def test_definitions_come_in_and_go_out(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.2: import and export, as JSON and as a form"""
    found = definitions(vhost)
    assert http.post("/api/definitions", found).status == 204
    exported = http.get("/api/definitions")
    assert (exported["rabbit_version"], exported["product_name"]) == ("3.13.7", "RabbitMQ")
    assert about(exported, vhost) == in_order(found)
    assert http.get("/api/all-configuration") == exported
    assert broker.http("mover", "secret").get("/api/whoami")["tags"] == ["management", "policymaker"]
    assert http.delete(f"/api/vhosts/{http.quoted(vhost)}").status == 204
    for path in ("/api/definitions", "/api/all-configuration"):
        answer = http.ask("POST", path, *form({"file": json.dumps(exported).encode()}))
        assert (answer.status, answer.body) == (204, b"")
        assert about(http.get("/api/definitions"), vhost) == in_order(found)


def form(fields: dict[str, bytes]) -> tuple[bytes, dict[str, str]]:
    parts = [
        b'--limit\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in fields.items()
    ]
    return b"".join(parts) + b"--limit--\r\n", {"Content-Type": "multipart/form-data; boundary=limit"}


@pytest.mark.usefixtures("clean")
def test_vhost_definitions_come_in_and_go_out(http: Http, vhost: str) -> None:
    """SPEC §9.2: definitions of one vhost"""
    path = f"/api/definitions/{http.quoted(vhost)}"
    http.post("/api/definitions", definitions(vhost))
    exported = http.get(path)
    assert exported.keys() == {"rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings"}
    http.put("/api/vhosts/copy")
    assert http.post("/api/definitions/copy", exported).status == 204
    assert http.get("/api/definitions/copy") == exported
    http.delete("/api/vhosts/copy")
    assert http.ask("GET", "/api/definitions/copy").json == {"error": "bad_request", "reason": "vhost_not_found"}
    assert http.post("/api/definitions/copy", exported).status == 404


def test_definitions_are_saved_by_a_browser_and_uploaded_by_its_form(http: Http) -> None:
    """SPEC §9.2: download and redirect"""
    answer = http.ask("GET", "/api/definitions?download=a%22b%0D%0A.json")
    assert answer.headers["Content-Disposition"] == "attachment; filename=ab.json"
    for wanted, given in (("/#/import", "/#/import"), ("//evil.example", "/"), ("https://evil.example", "/")):
        answer = http.ask("POST", "/api/definitions", *form({"file": b"{}", "redirect": wanted.encode()}))
        assert (answer.status, answer.headers["Location"]) == (303, given)
    assert http.ask("POST", "/api/definitions", b"x", {"Content-Type": "multipart/form-data; boundary=b"}).status == 400


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "failed_to_parse_json"),
        (b"[]", "not an object"),
        (b'{"queues": [{"name": "q", "vhost": "no"}]}', "queues[0] (q in no): vhost 'no' not found"),
    ],
)
def test_bad_definitions_are_refused(body: bytes, reason: str, http: Http) -> None:
    """SPEC §9.2: nothing of a bad file is imported."""
    before = http.get("/api/definitions")
    answer = http.ask("POST", "/api/definitions", body)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})
    assert http.get("/api/definitions") == before


def test_what_has_no_counterpart_is_left_out_if_wanted(http: Http, vhost: str) -> None:
    """SPEC §9.2: ?skip_unsupported=true answers with what was left out; without it all is refused."""
    rest = {"vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}}
    exchanges = [{"name": "x", "type": "fanout", **rest}, {"name": "modulus", "type": "x-modulus-hash", **rest}]
    refused = http.post("/api/definitions", {"exchanges": exchanges})
    assert refused.status == 400
    assert "?skip_unsupported=true" in refused.json["reason"]
    path = f"/api/exchanges/{http.quoted(vhost)}/x"
    assert http.ask("GET", path).status == 404
    answer = http.post("/api/definitions?skip_unsupported=true", {"exchanges": exchanges})
    left_out = [f"exchanges[1] (modulus in {vhost}): unknown exchange type 'x-modulus-hash'"]
    assert (answer.status, answer.json) == (200, {"left_out": left_out})
    assert http.get(path)["type"] == "fanout"


def test_imported_definitions_survive_a_kill(tmp_path: Path) -> None:
    """SPEC §9.2: what was imported is on disk when the answer comes; SPEC §8.1"""
    found = definitions("v")
    broker = Running(tmp_path, "--management-port", "0").__enter__()
    try:
        assert broker.http().post("/api/definitions", found).status == 204
        before = broker.http().get("/api/definitions")
    finally:
        broker.kill()
    with Running(tmp_path, "--management-port", "0") as again:
        after = again.http().get("/api/definitions")
    transient = [queue for queue in before["queues"] if not queue["durable"]]
    assert [queue["name"] for queue in transient] == ["mover.transient"]
    assert after == {**before, "queues": [queue for queue in before["queues"] if queue["durable"]]}


def test_file_is_loaded_at_start(tmp_path: Path) -> None:
    """SPEC §9.2: load at start, and again at each; a bad file stops it."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({**definitions("v"), "users": [{"name": "root", "password": "x", "tags": "administrator"}]}))
    environment = {"LEVERET_LOAD_DEFINITIONS": str(file)}
    file.write_text(file.read_text().replace('"user": "mover"', '"user": "root"'))
    for _ in range(2):
        with Running(tmp_path, "--management-port", "0", environment=environment) as broker:
            assert broker.http().ask("GET", "/api/whoami").status == 401
            http = broker.http("root", "x")
            assert [user["name"] for user in http.get("/api/users")] == ["root"]
            assert about(http.get("/api/definitions"), "v")["bindings"] == in_order(definitions("v"))["bindings"]
    file.write_text('{"queues": [{"name": "q", "vhost": "no"}]}')
    broken = Running(tmp_path, "--management-port", "0", environment=environment)
    status = broken.popen.wait(PATIENCE)
    broken.kill()
    assert status == 2
    assert broken.log.endswith(f"leveret: cannot import {file}: queues[0] (q in no): vhost 'no' not found\n")


@pytest.mark.usefixtures("clean")
def test_definitions_move_to_rabbitmq_and_back(http: Http, vhost: str) -> None:
    """SPEC §9.2: our file goes into a RabbitMQ, and RabbitMQ's into ours; nothing is lost on the way."""
    found = definitions(vhost)
    assert http.post("/api/definitions", found).status == 204
    port, *ports = free_ports(4)
    settings = f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {port}\n"
    with rabbitmq(plugins=["rabbitmq_management"], ports=ports, settings=settings):
        other = Http(port)
        ours = http.get("/api/definitions")
        # Other tests may have left something in other vhosts that RabbitMQ has not.
        vhosts = [one for one in ours["vhosts"] if one["name"] == vhost]
        moved = {**ours, **about(ours, vhost), "vhosts": vhosts}
        answer = other.ask("POST", "/api/definitions", moved, {"Content-Type": "application/json"})
        assert answer.status == 204, answer.body
        exported = other.get("/api/definitions")
    assert about(exported, vhost) == in_order(found)
    http.delete("/api/users/mover")
    http.delete(f"/api/vhosts/{http.quoted(vhost)}")
    answer = http.post("/api/definitions", exported)
    assert answer.status == 204, answer.body
    assert about(http.get("/api/definitions"), vhost) == in_order(found)


def test_large_import_keeps_nobody_waiting(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.2: others have their turn while very many things are imported, and see each of them come."""
    queues = [{"name": f"q{at}", "durable": True, "auto_delete": False, "arguments": {}} for at in range(10_000)]
    path = f"/api/definitions/{http.quoted(vhost)}"
    with broker.login() as other:
        other.call(spec.QueueDeclare("ping", exclusive=True), spec.QueueDeclareOk)
        waits: list[float] = []
        started = other.clock()
        with ThreadPoolExecutor(1) as pool:
            importing = pool.submit(http.post, path, {"queues": queues})
            while not importing.done():
                waits.append(other.ping())
        took = other.clock() - started
    assert importing.result().status == 204
    assert http.get(f"/api/queues/{http.quoted(vhost)}?page=1&page_size=1")["total_count"] == 10_000
    # In one go, one of them would have waited for nearly all of it.
    assert max(waits) < took / 4
    assert len(waits) > 100
