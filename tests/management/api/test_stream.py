"""GET /api/stream: counters and changes as server-sent events, for as long as the client listens."""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.management.support import Http, Running
from tests.server.support import PATIENCE, eventually


class Event(NamedTuple):
    """One event as it came."""

    id: str
    kind: str
    data: Any


class Stream:
    """A client that listens."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def next(self) -> Event | None:
        """The next event, or None if there are no more."""
        fields: dict[str, str] = {}
        while line := self._answer.readline():
            if line == b"\n":
                return Event(fields["id"], fields["event"], json.loads(fields["data"]))
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
        return None

    def until(self, kind: str) -> Event:
        """Read on to one of this kind."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            event = self.next()
            assert event is not None, f"the stream ended before {kind}"
            if event.kind == kind:
                return event
        raise AssertionError(f"no {kind} came")


@contextmanager
def listening(client: Http, query: str = "", headers: Mapping[str, str] | None = None) -> Iterator[Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=PATIENCE)
    connection.request("GET", f"/api/stream{query}", None, {**client.headers, **(headers or {})})
    answer = connection.getresponse()
    try:
        assert answer.status == 200, answer.read()
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield Stream(answer)
    finally:
        answer.close()
        connection.close()


def test_counters_and_changes(broker: Running) -> None:
    """SPEC §9.1: what is in the overview, again and again, and what is made and removed meanwhile."""
    client = broker.http()
    with listening(client) as stream:
        before = stream.until("counters").data
        assert client.put("/api/queues/%2F/streamed").status == 201
        made = stream.until("queue.created")
        assert made.data == {"vhost": "/", "name": "streamed"}
        assert client.post("/api/exchanges/%2F/amq.default/publish", publication("streamed")).json == {"routed": True}
        after = stream.until("counters").data
        while after["queue_totals"]["messages"] == before["queue_totals"]["messages"]:
            after = stream.until("counters").data
        assert after["object_totals"]["queues"] == before["object_totals"]["queues"] + 1
        assert after["time"] > before["time"]
        assert after["node"]["mem_used"] > 0
        assert after["alarms"] == []
        assert client.delete("/api/queues/%2F/streamed").status == 204
        assert stream.until("queue.deleted").data == made.data


def publication(key: str) -> dict[str, Any]:
    return {"routing_key": key, "payload": "x", "payload_encoding": "string", "properties": {}}


def test_goes_on_where_it_left_off(broker: Running) -> None:
    client = broker.http()
    with listening(client, "?count=1") as stream:
        last = stream.until("counters")
        assert stream.next() is None
    client.put("/api/queues/%2F/between")
    with listening(client, "?count=1", {"Last-Event-ID": last.id}) as stream:
        assert stream.until("queue.created").data["name"] == "between"
    client.delete("/api/queues/%2F/between")


def test_missed(broker: Running) -> None:
    """Whoever was away for too long, or since before a restart, is told to look anew."""
    with listening(broker.http(), "?count=1", {"Last-Event-ID": "1-5"}) as stream:
        first = stream.next()
        assert first is not None
        assert first.kind == "missed"


def test_only_what_a_user_may_see(broker: Running) -> None:
    """SPEC §7.2: a user of one vhost hears nothing of the others."""
    admin = broker.http()
    admin.put("/api/users/watcher", {"password": "p", "tags": "management"})
    admin.put("/api/vhosts/watched")
    admin.put("/api/permissions/watched/watcher", {"configure": "", "write": "", "read": ""})
    with listening(broker.http("watcher", "p")) as stream:
        first = stream.until("counters").data
        assert first["object_totals"]["queues"] == 0
        assert "node" not in first
        admin.put("/api/queues/%2F/unseen")
        admin.put("/api/users/unseen", {"password": "p", "tags": ""})
        admin.put("/api/queues/watched/seen")
        event = stream.next()
        while event is not None and event.kind == "counters":
            event = stream.next()
        assert event is not None
        assert (event.kind, event.data) == ("queue.created", {"vhost": "watched", "name": "seen"})
        # A user who is no more is not served on.
        admin.delete("/api/users/watcher")
        while event is not None:
            event = stream.next()
    for path in ("/api/vhosts/watched", "/api/queues/%2F/unseen", "/api/users/unseen"):
        admin.delete(path)


def test_bad_query(broker: Running) -> None:
    client = broker.http()
    for query in ("interval=0", "interval=61", "interval=x", "count=-1", "count=1000001"):
        assert client.ask("GET", f"/api/stream?{query}").status == 400
    assert client.ask("HEAD", "/api/stream").status == 200


def test_limit_and_stop(tmp_path: Path) -> None:
    """At most a hundred; and none of them holds up the end of the broker."""
    with ExitStack() as streams, Running(tmp_path) as running:
        client = running.http()
        for _ in range(99):
            streams.enter_context(listening(client)).until("counters")
        with listening(client):
            assert client.ask("GET", "/api/stream").status == 503
        # That it is gone is noticed with the next event.
        eventually(lambda: client.ask("GET", "/api/stream?count=1").status == 200)
