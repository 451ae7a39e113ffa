"""Messages of a queue through the HTTP API."""

from typing import Any

import pika
import pytest
from tests.management.support import Http, Response, Running
from tests.management.test_queues import client, path_of, publish


def get(http: Http, vhost: str, name: str, **wanted: Any) -> Response:
    given = {"ackmode": "ack_requeue_false", "count": 10, "encoding": "auto", **wanted}
    return http.post(path_of(vhost, name) + "/get", given)


def payloads(answer: Response) -> list[str]:
    assert answer.status == 200, answer.body
    return [one["payload"] for one in answer.json]


def fill(broker: Running, vhost: str, name: str, count: int, size: int = 0, mode: int = 2, **options: Any) -> None:
    """Numbered messages in a durable queue."""
    with client(broker, vhost) as connection:
        channel = connection.channel()
        channel.queue_declare(name, **{"durable": True, **options})
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=mode)
        for number in range(count):
            channel.basic_publish("", name, str(number).ljust(size, ".").encode(), properties)


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
    [{"ackmode": "maybe"}, {"ackmode": None}, {"count": "many"}, {"count": -1}, {"encoding": "rot13"}, {"truncate": "x"}],
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
