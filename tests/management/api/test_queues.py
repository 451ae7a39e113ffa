"""Queues through the HTTP API."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pika
from tests.management.support import Http, Running

# What rabbitmqadmin-ng refuses to do without, or as null.
MANDATORY = {"name": str, "vhost": str, "type": str, "durable": bool, "auto_delete": bool, "exclusive": bool}
NEVER_NULL = {
    "node": str,
    "state": str,
    "memory": int,
    "consumers": int,
    "consumer_utilisation": float,
    "messages": int,
    "messages_ready": int,
    "messages_unacknowledged": int,
    "messages_persistent": int,
    "messages_ram": int,
    "message_bytes": int,
    "message_bytes_ready": int,
    "message_bytes_unacknowledged": int,
    "message_bytes_persistent": int,
    "message_bytes_ram": int,
}


def path_of(vhost: str, name: str = "") -> str:
    return f"/api/queues/{Http.quoted(vhost)}" + (f"/{Http.quoted(name)}" if name else "")


def publish(http: Http, vhost: str, name: str, *bodies: str, **properties: object) -> None:
    for body in bodies:
        message = {"routing_key": name, "properties": properties, "payload": body, "payload_encoding": "string"}
        answer = http.post(f"/api/exchanges/{http.quoted(vhost)}/amq.default/publish", message)
        assert (answer.status, answer.body) == (200, b'{"routed":true}')


def client(broker: Running, vhost: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, vhost))


def test_queue_is_declared_seen_and_deleted(http: Http, vhost: str) -> None:
    """SPEC §9.1: PUT answers 201, then 204; DELETE 204, then 404; other arguments are refused with 400."""
    path = path_of(vhost, "a/b")
    wanted = {"durable": "true", "auto_delete": False, "arguments": {"x-max-length": 10}}
    assert http.put(path, wanted).status == 201
    assert http.put(path, wanted).status == 204
    found = http.get(path)
    assert (found["name"], found["vhost"], found["durable"], found["auto_delete"]) == ("a/b", vhost, True, False)
    assert found["arguments"] == {"x-max-length": 10}
    other = http.put(path, {"durable": False})
    assert other.status == 400
    assert other.json["reason"].startswith("PRECONDITION_FAILED - inequivalent arg 'durable'")
    assert http.put(path_of(vhost, "q" * 256)).status == 400
    assert http.put(path_of(vhost, "x"), {"arguments": 5}).status == 400
    assert http.put(path_of(vhost, "x"), {"durable": "maybe"}).status == 400
    assert http.put(path_of(vhost, "amq.mine")).status == 401
    assert http.delete(path).status == 204
    assert http.delete(path).status == 404
    assert http.ask("GET", path).json == {"error": "Object Not Found", "reason": "Not Found"}
    assert http.put(path_of("no such vhost", "x")).status == 404


def test_queue_view_has_what_tools_read(http: Http, vhost: str) -> None:
    """SPEC §9.1: every key that rabbitmqadmin, KEDA, Flower, Telegraf and exporters read, numbers never null."""
    http.put(path_of(vhost, "q"), {"durable": True})
    publish(http, vhost, "q", "one", "three", timestamp=1_700_000_000, delivery_mode=2)
    for found in (http.get(path_of(vhost, "q")), *http.get(path_of(vhost)), *http.get(path_of(vhost) + "?page=1")["items"]):
        for key, kind in {**MANDATORY, **NEVER_NULL}.items():
            assert type(found[key]) is kind, key
        assert (found["messages"], found["messages_ready"], found["message_bytes"]) == (2, 2, 8)
        assert found["messages_details"] == found["messages_ready_details"] == {"rate": 0.0}
        assert found["message_stats"]["publish"] == 2
        assert found["message_stats"]["publish_details"] == {"rate": 0.0}
        assert found["head_message_timestamp"] == 1_700_000_000
        assert (found.get("policy"), found.get("operator_policy")) == (None, None)
        assert found["effective_policy_definition"] == {}
        assert set(found["garbage_collection"]) >= {"minor_gcs"}
        assert found["backing_queue_status"]["len"] == 2
        nulls = {"policy", "operator_policy", "recoverable_slaves", "exclusive_consumer_tag", "single_active_consumer_tag"}
        assert {key for key, value in found.items() if value is None} == nulls
    (detailed,) = [one for one in http.get("/api/queues/detailed") if one["vhost"] == vhost]
    assert (detailed["name"], detailed["policy"]) == ("q", None)
    assert http.get(path_of(vhost) + "?columns=name,messages") == [{"name": "q", "messages": 2}]
    assert http.ask("GET", path_of("no such vhost")).status == 404


def test_new_queue_is_idle_since_it_was_made(http: Http, vhost: str) -> None:
    """SPEC §9.1: idle_since of a queue that nobody has used is its creation, not the broker's start."""
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    http.put(path_of(vhost, "q"))
    after = datetime.now(UTC)
    assert before <= datetime.fromisoformat(http.get(path_of(vhost, "q"))["idle_since"]) <= after


def test_messages_that_survive_are_counted_apart(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: messages_persistent, ready and unacknowledged, and the octets of their bodies."""
    http.put(path_of(vhost, "q"), {"durable": True})
    http.put(path_of(vhost, "t"))
    for name in "qt":
        publish(http, vhost, name, "one", "three", delivery_mode=2)
        publish(http, vhost, name, "transient", delivery_mode=1)

    def persistent(name: str) -> tuple[int, int]:
        found = http.get(path_of(vhost, name))
        return found["messages_persistent"], found["message_bytes_persistent"]

    assert (persistent("q"), persistent("t")) == ((2, 8), (0, 0))
    with client(broker, vhost) as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get("q")
        assert method is not None
        assert persistent("q") == (2, 8)
        channel.basic_ack(method.delivery_tag)
        channel.queue_declare("q", passive=True)
        assert persistent("q") == (1, 5)
        channel.queue_purge("q")
        assert persistent("q") == (0, 0)
    assert http.get(path_of(vhost, "q"))["disk_writes"] == 2


def test_exclusive_queue_and_consumers_are_told(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: owner_pid_details and consumer_details name connections and channels as RabbitMQ does."""
    with client(broker, vhost) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7)
        channel.queue_declare("mine", exclusive=True)
        channel.basic_consume("mine", lambda *_: None, consumer_tag="c", arguments={"x-priority": 3})
        found = http.get(path_of(vhost, "mine"))
        assert (found["exclusive"], found["consumers"], found["consumer_utilisation"]) == (True, 1, 1.0)
        name = found["owner_pid_details"]["name"]
        assert name.endswith(f" -> 127.0.0.1:{broker.port}")
        assert found["owner_pid_details"]["peer_host"] == "127.0.0.1"
        (consumer,) = found["consumer_details"]
        assert (consumer["consumer_tag"], consumer["ack_required"], consumer["prefetch_count"]) == ("c", True, 7)
        assert (consumer["queue"], consumer["arguments"]) == ({"name": "mine", "vhost": vhost}, {"x-priority": 3})
        assert consumer["channel_details"]["name"] == f"{name} (1)"
        assert consumer["channel_details"]["user"] == "guest"
        locked = http.delete(path_of(vhost, "mine"))
        assert (locked.status, locked.json["reason"][:15]) == (400, "RESOURCE_LOCKED")


def test_delete_heeds_its_conditions(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: if-empty and if-unused."""
    path = path_of(vhost, "q")
    http.put(path)
    publish(http, vhost, "q", "x")
    assert http.delete(path + "?if-empty=true").json["reason"].endswith("not empty")
    with client(broker, vhost) as connection:
        channel = connection.channel()
        channel.basic_consume("q", lambda *_: None)
        assert http.delete(path + "?if-unused=true").status == 400
        assert http.delete(path + "?if-unused=false").status == 204


def test_purge_empties_a_queue(http: Http, vhost: str) -> None:
    """SPEC §9.1: DELETE …/contents, answered when it is on disk."""
    path = path_of(vhost, "q")
    http.put(path, {"durable": True})
    publish(http, vhost, "q", "one", "two", delivery_mode=2)
    assert http.delete(path + "/contents").status == 204
    assert http.get(path)["messages"] == 0
    assert http.delete(path_of(vhost, "none") + "/contents").status == 404


def test_actions_are_accepted(http: Http, vhost: str) -> None:
    """SPEC §9.1: sync and cancel_sync, and 400 for what is neither."""
    http.put(path_of(vhost, "q"))
    actions = path_of(vhost, "q") + "/actions"
    assert http.post(actions, {"action": "sync"}).status == 204
    assert http.post(actions, {"action": "cancel_sync"}).status == 204
    assert http.post(actions, {"action": "dance"}).status == 400
    assert http.post(actions).status == 400


def test_rights_of_the_user_count(limited: Running) -> None:
    """SPEC §9.1: objects are made with the rights of whoever asks; refused is 401 with the reason."""
    http = limited.http("some", "some")
    assert http.put(path_of("/", "mine.too")).status == 201
    assert ("/", "mine.too") in [(one["vhost"], one["name"]) for one in http.get("/api/queues")]
    assert "other" not in [one["vhost"] for one in http.get("/api/queues")]
    refused = http.put(path_of("/", "yours"))
    assert (refused.status, refused.json["error"]) == (401, "not_authorised")
    assert (
        refused.json["reason"] == "ACCESS_REFUSED - configure access to queue 'yours' in vhost '/' refused for user 'some'"
    )
    assert http.ask("GET", path_of("other")).status == 401
    assert http.ask("DELETE", path_of("/", "mine.too") + "/contents").json["reason"].startswith("ACCESS_REFUSED - read")
    assert http.post(path_of("/", "mine.too") + "/actions", {"action": "sync"}).status == 401
    assert http.delete(path_of("/", "mine.too")).status == 204


def test_policies_show_in_the_queue(limited: Running) -> None:
    """SPEC §9.1: policy, operator_policy, and what both say together: the smaller number."""
    http = limited.http()
    http.put(path_of("other", "q"))
    found = http.get(path_of("other", "q"))
    assert (found["policy"], found["operator_policy"]) == ("users", "operators")
    assert found["effective_policy_definition"] == {"max-length": 5, "message-ttl": 1000, "expires": 60000}


def test_bindings_of_a_queue_begin_with_the_default_one(http: Http, vhost: str) -> None:
    """SPEC §9.1: …/bindings of a queue, the one from the default exchange included."""
    http.put(path_of(vhost, "q"))
    (found,) = http.get(path_of(vhost, "q") + "/bindings")
    assert found == {
        "source": "",
        "vhost": vhost,
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "q",
        "arguments": {},
        "properties_key": "q",
    }


def test_page_of_many_queues_is_cheap(http: Http, vhost: str) -> None:
    """SPEC §9.1: a page costs its own views, and finds by pattern as KEDA asks."""
    with ThreadPoolExecutor(4) as pool:
        assert {one.status for one in pool.map(lambda n: http.put(path_of(vhost, f"q{n:03}")), range(120))} == {201}
    page = http.get(path_of(vhost) + "?page=2&page_size=50&pagination=false")
    assert (page["filtered_count"], page["item_count"], page["page_count"]) == (120, 50, 3)
    assert [one["name"] for one in page["items"]] == [f"q{n:03}" for n in range(50, 100)]
    found = http.get(path_of(vhost) + "?page=1&use_regex=true&pagination=false&name=%5Eq00&page_size=100")
    assert [one["name"] for one in found["items"]] == [f"q00{n}" for n in range(10)]


def test_quorum_queues_have_one_replica(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: its leader and members, its status, and the routes of replicas."""
    place = http.quoted(vhost)
    node = http.get("/api/overview")["node"]
    arguments = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    assert http.put(f"/api/queues/{place}/q", arguments).status == 201
    assert http.put(f"/api/queues/{place}/classic", {"durable": True}).status == 201
    found = http.get(f"/api/queues/{place}/q")
    assert (found["type"], found["leader"], found["members"], found["online"]) == ("quorum", node, [node], [node])
    assert (found["open_files"], found["messages_dlx"]) == ({node: 0}, 0)
    body = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
    assert http.post(f"/api/exchanges/{place}/amq.default/publish", body).json == {"routed": True}
    (status,) = http.get(f"/api/queues/quorum/{place}/q/status")
    assert set(status) == {
        *("Node Name", "Raft State", "Membership", "Last Log Index", "Last Written", "Last Applied"),
        *("Commit Index", "Snapshot Index", "Term", "Machine Version"),
    }
    assert (status["Node Name"], status["Raft State"], status["Membership"]) == (node, "leader", "voter")
    assert status["Commit Index"] == status["Last Log Index"] > 0
    refused = http.ask("GET", f"/api/queues/quorum/{place}/classic/status")
    assert (refused.status, refused.json) == (503, {"status": "failed", "reason": "classic_queue_not_supported"})
    assert http.ask("GET", f"/api/queues/quorum/{place}/missing/status").status == 404
    replicas = f"/api/queues/quorum/{place}/q/replicas"
    assert http.post(f"{replicas}/add", {"node": node}).status == 204
    assert http.post(f"{replicas}/add", {"node": "rabbit@elsewhere"}).json["reason"] == "node_not_running"
    assert http.post(f"{replicas}/add", {}).status == 400
    assert http.ask("DELETE", f"{replicas}/delete", {"node": node}).json["reason"] == "last_node"
    assert http.ask("DELETE", f"{replicas}/delete", {"node": "rabbit@elsewhere"}).status == 202
    everything = {"vhost_pattern": ".*", "queue_pattern": ".*", "strategy": "all"}
    assert http.post(f"/api/queues/quorum/replicas/on/{node}/grow", everything).status == 204
    assert http.post("/api/queues/quorum/replicas/on/rabbit@elsewhere/grow", everything).status == 404
    assert http.delete(f"/api/queues/quorum/replicas/on/{node}/shrink").status == 202
    assert http.get(f"/api/queues/{place}/q")["messages"] == 1
