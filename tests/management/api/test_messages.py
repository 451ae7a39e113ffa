"""Messages of a queue through the HTTP API."""

import contextlib
import http.client as client_module
import threading
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from tests.management.api.test_queues import client, path_of, publish
from tests.management.support import Http, Response, Running
from tests.server.support import PATIENCE


def get(http: Http, vhost: str, name: str, **wanted: Any) -> Response:
    given = {"ackmode": "ack_requeue_false", "count": 10, "encoding": "auto", **wanted}
    return http.post(path_of(vhost, name) + "/get", given)


def without_rates(value: Any) -> Any:
    """What the API says of something, but for what a sample taken meanwhile may change."""
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if not name.endswith("_details") and not name.startswith("avg_")}
        return {name: without_rates(one) for name, one in kept.items()}
    return [without_rates(one) for one in value] if isinstance(value, list) else value


def payloads(answer: Response) -> list[str]:
    assert answer.status == 200, answer.body
    return [one["payload"] for one in answer.json]


def fill(broker: Running, vhost: str, name: str, count: int, size: int = 0, mode: int = 2, **options: Any) -> None:
    """Numbered messages in a durable queue."""
    with client(broker, vhost) as connection:
        channel = connection.channel()
        channel.queue_declare(name, **{"durable": True, **options})
        properties = pika.BasicProperties(delivery_mode=mode)
        for number in range(count):
            channel.basic_publish("", name, str(number).ljust(size, ".").encode(), properties)
        channel.queue_declare(name, passive=True)


def test_messages_are_got(http: Http, vhost: str) -> None:
    """SPEC §9.1: the eight keys of a message, and how many are behind it."""
    http.put(path_of(vhost, "q"))
    publish(http, vhost, "q", "one", "two", content_type="text/plain")
    first, second = get(http, vhost, "q").json
    assert first == {
        "payload_bytes": 3,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
        "message_count": 1,
        "properties": {"content_type": "text/plain"},
        "payload": "one",
        "payload_encoding": "string",
    }
    assert (second["payload"], second["message_count"]) == ("two", 0)
    assert get(http, vhost, "q").json == []


@pytest.mark.parametrize("mode", ["ack_requeue_true", "reject_requeue_true"])
def test_what_is_got_goes_back(http: Http, vhost: str, mode: str) -> None:
    """SPEC §9.1: with requeue they are where they were, marked as delivered."""
    http.put(path_of(vhost, "q"))
    publish(http, vhost, "q", "one", "two", "three")
    assert payloads(get(http, vhost, "q", ackmode=mode, count="2")) == ["one", "two"]
    assert [(one["payload"], one["redelivered"]) for one in get(http, vhost, "q").json] == [
        ("one", True),
        ("two", True),
        ("three", False),
    ]


def test_what_is_rejected_is_dead_lettered(http: Http, vhost: str) -> None:
    """SPEC §9.1: reject_requeue_false, and the old clients' requeue."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    http.put(path_of(vhost, "q"), {"arguments": arguments})
    http.put(path_of(vhost, "dead"))
    publish(http, vhost, "q", "one")
    assert payloads(get(http, vhost, "q", ackmode="reject_requeue_false")) == ["one"]
    (dead,) = http.post(path_of(vhost, "dead") + "/get", {"requeue": "true", "count": 1, "encoding": "auto"}).json
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"
    assert len(http.post(path_of(vhost, "dead") + "/get", {"requeue": False, "count": 1, "encoding": "auto"}).json) == 1
    assert http.get(path_of(vhost, "dead"))["messages"] == 0


def test_bodies_are_shown_as_asked(http: Http, vhost: str) -> None:
    """SPEC §9.1: truncate and encoding."""
    http.put(path_of(vhost, "q"))
    publish(http, vhost, "q", "abcdef")
    (found,) = get(http, vhost, "q", ackmode="ack_requeue_true", truncate=3).json
    assert (found["payload"], found["payload_bytes"]) == ("abc", 6)
    (found,) = get(http, vhost, "q", encoding="base64").json
    assert (found["payload"], found["payload_encoding"]) == ("YWJjZGVm", "base64")


@pytest.mark.parametrize(
    "wanted",
    [
        {"ackmode": "maybe"},
        {"ackmode": None},
        {"ackmode": ["x"]},
        {"count": "many"},
        {"count": -1},
        {"encoding": "rot13"},
        {"truncate": "x"},
    ],
)
def test_bad_get_is_refused(http: Http, vhost: str, wanted: dict[str, Any]) -> None:
    """SPEC §9.1: 400 for what is wrong."""
    http.put(path_of(vhost, "q"))
    assert get(http, vhost, "q", **wanted).status == 400


def test_get_needs_queue_and_right(limited: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: 404 and 401."""
    assert get(http, vhost, "none").status == 404
    assert http.post(path_of(vhost, "none") + "/get", {}).status == 404
    limited.http().put(path_of("/", "unreadable"))
    refused = get(limited.http("some", "some"), "/", "unreadable")
    assert (refused.status, refused.json["reason"][:22]) == (401, "ACCESS_REFUSED - read ")


@pytest.mark.parametrize("mode", [1, 2])
def test_paged_out_messages_are_got(broker: Running, http: Http, vhost: str, mode: int) -> None:
    """SPEC §9.1, §8.5: what is only on disk is waited for, transient or persistent."""
    fill(broker, vhost, "q", 300, size=200_000, mode=mode)
    assert http.get(path_of(vhost, "q"))["messages_paged_out"] > 0
    found = payloads(get(http, vhost, "q", count=300, truncate=5, ackmode="ack_requeue_true"))
    assert found == [str(number).ljust(5, ".") for number in range(300)]
    assert payloads(get(http, vhost, "q", count=300, truncate=3)) == [one[:3] for one in found]
    assert http.get(path_of(vhost, "q"))["messages"] == 0


# Beyond RabbitMQ


def peek(http: Http, vhost: str, name: str, query: str = "") -> list[dict[str, Any]]:
    found = http.get(path_of(vhost, name) + f"/messages?{query}")
    assert isinstance(found, list)
    return found


def test_peek_changes_nothing(http: Http, vhost: str) -> None:
    """SPEC §9.4: messages are shown and stay as they are."""
    http.put(path_of(vhost, "q"))
    publish(http, vhost, "q", "one", "two", "three", priority=1)
    before = http.get(path_of(vhost, "q"))
    assert [(one["payload"], one["position"], one["message_count"]) for one in peek(http, vhost, "q")] == [
        ("one", 0, 2),
        ("two", 1, 1),
        ("three", 2, 0),
    ]
    (found,) = peek(http, vhost, "q", "offset=1&count=1&truncate=2&encoding=base64")
    assert (found["payload"], found["payload_bytes"], found["properties"]) == ("dHc=", 3, {"priority": 1})
    assert peek(http, vhost, "q", "offset=3") == []
    assert without_rates(http.get(path_of(vhost, "q"))) == without_rates(before)
    assert not any(one["redelivered"] for one in get(http, vhost, "q").json)


def test_peek_is_for_those_who_may_read(limited: Running, http: Http, vhost: str) -> None:
    """SPEC §9.4: 401 without the right, 404 without the queue, 400 for what is no number."""
    limited.http().put(path_of("/", "hidden"))
    assert limited.http("some", "some").ask("GET", path_of("/", "hidden") + "/messages").status == 401
    assert http.ask("GET", path_of(vhost, "none") + "/messages").status == 404
    http.put(path_of(vhost, "q"))
    assert http.ask("GET", path_of(vhost, "q") + "/messages?offset=x").status == 400
    assert http.ask("GET", path_of(vhost, "q") + "/messages?count=-1").status == 400


@pytest.mark.parametrize("mode", [1, 2])
def test_peek_reads_what_is_paged_out(broker: Running, http: Http, vhost: str, mode: int) -> None:
    """SPEC §9.4, §8.5: front, pages and back of a queue, transient or persistent, each where it stands."""
    fill(broker, vhost, "q", 400, size=100_000, mode=mode)
    before = http.get(path_of(vhost, "q"))
    assert before["messages_paged_out"] > 100
    for offset in range(0, 400, 40):
        found = peek(http, vhost, "q", f"offset={offset}&count=40&truncate=4")
        assert [one["payload"].rstrip(".") for one in found] == [str(offset + at) for at in range(40)]
    # No answer reads more than 16 MiB of bodies.
    assert len(peek(http, vhost, "q", "count=400&truncate=1")) == (16 << 20) // 100_000
    assert without_rates(http.get(path_of(vhost, "q"))) == without_rates(before)
    assert payloads(get(http, vhost, "q", count=400, truncate=3)) == [str(n).ljust(3, ".") for n in range(400)]


def test_messages_are_moved_to_a_queue(http: Http, vhost: str) -> None:
    """SPEC §9.4: in order, as many as are wanted, as they are."""
    http.put(path_of(vhost, "from"))
    http.put(path_of(vhost, "to"), {"durable": True})
    publish(http, vhost, "from", *"abcde", delivery_mode=2)
    move = path_of(vhost, "from") + "/move"
    assert http.post(move, {"queue": "to", "count": "2"}).json == {"moved": 2, "left": 0}
    assert [one["payload"] for one in peek(http, vhost, "to")] == ["a", "b"]
    assert [one["payload"] for one in peek(http, vhost, "from")] == ["c", "d", "e"]
    assert http.post(move, {"queue": "to"}).json == {"moved": 3, "left": 0}
    found = peek(http, vhost, "to")
    assert [(one["payload"], one["routing_key"], one["redelivered"]) for one in found] == [
        (letter, "from", False) for letter in "abcde"
    ]
    assert http.get(path_of(vhost, "from"))["messages"] == 0
    assert http.post(path_of(vhost, "to") + "/move", {"queue": "to"}).json == {"moved": 5, "left": 0}
    assert [one["payload"] for one in peek(http, vhost, "to")] == list("abcde")


def test_messages_are_moved_to_an_exchange(http: Http, vhost: str) -> None:
    """SPEC §9.4: what is routed nowhere stays where it was."""
    quoted = http.quoted(vhost)
    for name in ("from", "one", "other"):
        http.put(path_of(vhost, name))
    http.post(f"/api/bindings/{quoted}/e/amq.topic/q/one", {"routing_key": "from"})
    http.post(f"/api/bindings/{quoted}/e/amq.topic/q/other", {"routing_key": "k"})
    publish(http, vhost, "from", "a", "b")
    move = path_of(vhost, "from") + "/move"
    assert http.post(move, {"exchange": "amq.topic", "routing_key": "nowhere"}).json == {"moved": 0, "left": 2}
    assert http.post(move, {"exchange": "amq.topic", "routing_key": "k", "count": 1}).json == {"moved": 1, "left": 0}
    assert http.post(move, {"exchange": "amq.topic"}).json == {"moved": 1, "left": 0}
    (other,) = peek(http, vhost, "other")
    assert (other["payload"], other["exchange"], other["routing_key"]) == ("a", "amq.topic", "k")
    (one,) = peek(http, vhost, "one")
    assert (one["payload"], one["exchange"], one["routing_key"]) == ("b", "amq.topic", "from")
    assert http.post(path_of(vhost, "one") + "/move", {"exchange": "amq.default", "routing_key": "other"}).json["moved"] == 1


def test_messages_are_moved_to_where_they_wait(http: Http, vhost: str) -> None:
    """SPEC §9.4, §3: an exchange that keeps a message for a while has taken it."""
    quoted = http.quoted(vhost)
    delayed = {"type": "x-delayed-message", "arguments": {"x-delayed-type": "fanout"}}
    assert http.put(f"/api/exchanges/{quoted}/later", delayed).status == 201
    http.put(path_of(vhost, "from"))
    http.put(path_of(vhost, "to"))
    http.post(f"/api/bindings/{quoted}/e/later/q/to")
    publish(http, vhost, "from", "a", headers={"x-delay": 50})
    assert http.post(path_of(vhost, "from") + "/move", {"exchange": "later"}).json == {"moved": 1, "left": 0}
    deadline = time.monotonic() + PATIENCE
    while not (found := peek(http, vhost, "to")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [one["payload"] for one in found] == ["a"]


def test_single_active_consumer_is_not_gone_around(http: Http, vhost: str) -> None:
    """SPEC §9.4, §7.2: single active consumers of quorum queues have their queue for themselves."""
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    assert http.put(path_of(vhost, "q"), {"durable": True, "arguments": arguments}).status == 201
    for act, body in (("move", {"queue": "q"}), ("replay", {}), ("get", {"ackmode": "ack_requeue_true"})):
        answer = http.post(path_of(vhost, "q") + f"/{act}", {"count": 1, "encoding": "auto", **body})
        assert (answer.status, answer.json["reason"][:15]) == (400, "RESOURCE_LOCKED")


def test_topics_that_are_not_allowed_are_left(limited: Running) -> None:
    """SPEC §9.4, §7.2: a message whose routing key the user may not write stays."""
    guest, some = limited.http(), limited.http("some", "some")
    guest.put(path_of("/", "readable.topics"))
    guest.put(path_of("/", "all"))
    guest.post("/api/bindings/%2F/e/amq.topic/q/all", {"routing_key": "#"})
    publish(guest, "/", "readable.topics", "a")
    move = path_of("/", "readable.topics") + "/move"
    assert some.post(move, {"exchange": "amq.topic"}).json == {"moved": 0, "left": 1}
    assert some.post(move, {"exchange": "amq.topic", "routing_key": "ok"}).json == {"moved": 1, "left": 0}


def test_move_stops_at_a_full_queue(http: Http, vhost: str) -> None:
    """SPEC §9.4: what is refused is not lost."""
    http.put(path_of(vhost, "from"))
    http.put(path_of(vhost, "to"), {"arguments": {"x-max-length": 2, "x-overflow": "reject-publish"}})
    publish(http, vhost, "from", *"abcd")
    assert http.post(path_of(vhost, "from") + "/move", {"queue": "to"}).json == {"moved": 2, "left": 1}
    assert [one["payload"] for one in peek(http, vhost, "to")] == ["a", "b"]
    assert [one["payload"] for one in peek(http, vhost, "from")] == ["c", "d"]


def test_bad_move_is_refused(limited: Running, http: Http, vhost: str) -> None:
    """SPEC §9.4: 400 without a destination, 404 without the queue, 401 without the right."""
    http.put(path_of(vhost, "from"))
    move = path_of(vhost, "from") + "/move"
    assert http.post(move).status == 400
    assert http.post(move, {"queue": "a", "exchange": "b"}).status == 400
    assert http.post(move, {"queue": "none"}).status == 404
    assert http.post(move, {"exchange": "none"}).status == 404
    assert http.post(move, {"exchange": "amq.rabbitmq.trace"}).status == 401
    assert http.post(move, {"exchange": "amq.topic", "routing_key": "k" * 256}).status == 400
    assert http.post(path_of(vhost, "none") + "/move", {"queue": "from"}).status == 404
    for name in ("readable", "mine"):
        limited.http().put(path_of("/", name))
    some = limited.http("some", "some")
    assert some.post(path_of("/", "mine") + "/move", {"queue": "mine"}).status == 401
    assert some.post(path_of("/", "readable") + "/move", {"exchange": "amq.fanout"}).status == 401
    assert some.post(path_of("/", "readable") + "/move", {"queue": "mine"}).json == {"moved": 0, "left": 0}


@pytest.mark.parametrize("mode", [1, 2])
def test_paged_out_messages_are_moved(broker: Running, http: Http, vhost: str, mode: int) -> None:
    """SPEC §9.4, §8.5: all of a queue that is mostly on disk, in order."""
    fill(broker, vhost, "from", 300, size=100_000, mode=mode)
    http.put(path_of(vhost, "to"), {"durable": True})
    assert http.post(path_of(vhost, "from") + "/move", {"queue": "to"}).json == {"moved": 300, "left": 0}
    assert payloads(get(http, vhost, "to", count=300, truncate=3)) == [str(n).ljust(3, ".") for n in range(300)]


def test_delivery_count_is_not_moved(http: Http, vhost: str) -> None:
    """SPEC §9.4: how often its queue gave it back is not part of a message."""
    http.put(path_of(vhost, "from"), {"arguments": {"x-delivery-limit": 5}})
    http.put(path_of(vhost, "to"))
    publish(http, vhost, "from", "a")
    get(http, vhost, "from", ackmode="ack_requeue_true")
    assert peek(http, vhost, "from")[0]["properties"]["headers"] == {"x-delivery-count": 1}
    http.post(path_of(vhost, "from") + "/move", {"queue": "to"})
    assert peek(http, vhost, "to")[0]["properties"].get("headers", {}) == {}


def test_dead_letters_go_back_to_where_they_died(http: Http, vhost: str) -> None:
    """SPEC §9.4: replay, by x-death, with exchange and routing key as they were."""
    quoted = http.quoted(vhost)
    arguments = {"x-dead-letter-exchange": "amq.fanout"}
    for name in ("work", "more", "gone"):
        http.put(path_of(vhost, name), {"arguments": arguments})
        http.post(f"/api/bindings/{quoted}/e/amq.topic/q/{name}", {"routing_key": f"do.{name}"})
    http.put(path_of(vhost, "dead"))
    http.post(f"/api/bindings/{quoted}/e/amq.fanout/q/dead")
    for name in ("work", "more", "gone", "work"):
        message = {"routing_key": f"do.{name}", "properties": {}, "payload": name, "payload_encoding": "string"}
        http.post(f"/api/exchanges/{quoted}/amq.topic/publish", message)
        get(http, vhost, name, ackmode="reject_requeue_false")
    publish(http, vhost, "dead", "no letter")
    http.delete(path_of(vhost, "gone"))
    replay = path_of(vhost, "dead") + "/replay"
    assert http.post(replay, {"queue": "more"}).json == {"moved": 1, "left": 4}
    assert http.post(replay, {"count": 1}).json == {"moved": 1, "left": 0}
    assert http.post(replay).json == {"moved": 1, "left": 2}
    assert [one["payload"] for one in peek(http, vhost, "dead")] == ["gone", "no letter"]
    first, _ = peek(http, vhost, "work")
    assert (first["payload"], first["exchange"], first["routing_key"]) == ("work", "amq.topic", "do.work")
    assert first["properties"]["headers"]["x-death"][0]["queue"] == "work"
    assert [one["payload"] for one in peek(http, vhost, "more")] == ["more"]


@pytest.mark.parametrize("missing", ["exchange", "routing-keys"])
def test_half_a_death_is_left_where_it_is(http: Http, vhost: str, missing: str) -> None:
    """SPEC §9.4: a client may have written x-death, and not all of it."""
    death = {"reason": "rejected", "queue": "work", "count": 1, "exchange": "", "routing-keys": ["work"]}
    for name in ("work", "dead"):
        http.put(path_of(vhost, name))
    del death[missing]
    headers = {"x-death": [death]}
    message = {"routing_key": "dead", "properties": {"headers": headers}, "payload": "", "payload_encoding": "string"}
    assert http.post(f"/api/exchanges/{http.quoted(vhost)}/amq.default/publish", message).json == {"routed": True}
    answer = http.post(path_of(vhost, "dead") + "/replay")
    assert (answer.status, answer.json) == (200, {"moved": 0, "left": 1})


def test_consumers_are_paused_and_resumed(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.4: nothing is delivered meanwhile; getting goes on."""
    http.put(path_of(vhost, "q"))
    with client(broker, vhost) as connection:
        channel = connection.channel()
        got: list[bytes] = []
        channel.basic_consume("q", lambda *one: got.append(one[3]), auto_ack=True)
        assert http.post(path_of(vhost, "q") + "/pause").status == 204
        assert http.get(path_of(vhost, "q"))["consumers_paused"] is True
        publish(http, vhost, "q", "one", "two")
        connection.process_data_events(0.05)
        assert (got, http.get(path_of(vhost, "q"))["messages_ready"]) == ([], 2)
        assert payloads(get(http, vhost, "q", count=1)) == ["one"]
        assert http.post(path_of(vhost, "q") + "/resume").status == 204
        while not got:
            connection.process_data_events(1)
        assert got == [b"two"]
        assert http.get(path_of(vhost, "q"))["consumers_paused"] is False
    assert http.post(path_of(vhost, "none") + "/pause").status == 404


def test_killed_move_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """SPEC §9.4, §8.1: each message is in one of the two queues after a SIGKILL in the middle."""
    count = 20_000
    with Running(tmp_path) as running:
        fill(running, "/", "from", count)
        running.http().put(path_of("/", "to"), {"durable": True})
    killed_within = 0
    for _ in range(3):
        running = Running(tmp_path)
        running.__enter__()
        http = running.http()
        before = http.get(path_of("/", "to"))["messages"]
        mover = threading.Thread(target=try_to_move, args=[http])
        mover.start()
        while mover.is_alive() and http.get(path_of("/", "to"))["messages"] < before + count // 10:
            pass
        killed_within += mover.is_alive()
        running.kill()
        mover.join()
    assert killed_within
    with Running(tmp_path) as running:
        moved = payloads(get(running.http(), "/", "to", count=count))
        left = payloads(get(running.http(), "/", "from", count=count))
        assert moved + left == [str(number) for number in range(count)]


def try_to_move(http: Http) -> None:
    with contextlib.suppress(OSError, client_module.HTTPException):
        http.post(path_of("/", "from") + "/move", {"queue": "to"})


EXCLUSIVE = [
    ("POST", "/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("GET", "/messages", None),
    ("GET", "/messages?count=1&offset=0", None),
    ("POST", "/move", {"queue": "other"}),
    ("POST", "/replay", {}),
    ("POST", "/pause", {}),
    ("POST", "/resume", {}),
    ("DELETE", "/contents", None),
]


@pytest.mark.parametrize(("method", "path", "body"), EXCLUSIVE, ids=[path for _, path, _ in EXCLUSIVE])
def test_queue_that_a_connection_has_for_itself_is_left_alone(
    broker: Running, http: Http, vhost: str, method: str, path: str, body: Any
) -> None:
    """SPEC §9.1: looking into it is refused as getting from it is."""
    http.put(path_of(vhost, "other"))
    with client(broker, vhost) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"private")
        assert channel.queue_declare(queue, passive=True).method.message_count == 1
        answer = http.ask(method, path_of(vhost, queue) + path, body)
        assert answer.status == 400
        assert "RESOURCE_LOCKED" in answer.json["reason"]
        assert channel.queue_declare(queue, passive=True).method.message_count == 1
