"""Shovels as their users see them: what moves from where to where, when it is acknowledged, and when it ends."""

import time
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest
from tests.management.amqp import channel_of, connected, soon
from tests.shovel.support import Shovelling, bodies, drained, fill, length, taken

from leveret.server.clock import now_ms

LOCAL = {"src-uri": "amqp://", "dest-uri": "amqp://"}


def arrived(broker: Shovelling, queue: str, count: int) -> None:
    soon(lambda: length(broker, queue) == count)


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish", "no-ack"])
@pytest.mark.parametrize("way", ["local", "network", "remote"])
def test_queue_to_queue(here: Shovelling, there: Shovelling, name: str, way: str, mode: str) -> None:
    """SPEC §9.8: all in order, in each acknowledgement mode; both queues are made if they are not there."""
    uris = {
        "local": ("amqp://", "amqp:///%2F"),
        "network": (here.uri(), here.uri("/%2F?heartbeat=5")),
        "remote": ("amqp://", there.uri()),
    }[way]
    target = there if way == "remote" else here
    here.set(
        name,
        {"src-uri": uris[0], "src-queue": f"{name}.a", "dest-uri": uris[1], "dest-queue": f"{name}.b", "ack-mode": mode},
    )
    here.wait(name)
    for queue, broker in ((f"{name}.a", here), (f"{name}.b", target)):
        assert broker.http().get(f"/api/queues/%2F/{queue}")["durable"] is True
    fill(here, f"{name}.a", bodies(2500))
    arrived(target, f"{name}.b", 2500)
    assert taken(target, f"{name}.b") == bodies(2500)
    soon(lambda: here.http().get(f"/api/queues/%2F/{name}.a")["messages"] == 0)


def test_messages_come_as_they_were(here: Shovelling, there: Shovelling, name: str) -> None:
    """SPEC §9.8: properties, headers and bodies of any size pass unchanged."""
    import pika

    here.set(name, {"src-uri": "amqp://", "src-queue": f"{name}.a", "dest-uri": there.uri(), "dest-queue": f"{name}.b"})
    here.wait(name)
    properties = pika.BasicProperties(
        content_type="text/plain",
        headers={"a": [1, {"b": None}], "é": b"\xff"},
        delivery_mode=2,
        priority=5,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=9,
        type="t",
        user_id="guest",
        app_id="app",
    )
    sent = [b"", b"x", b"y" * 131_072, b"z" * 3_000_000]
    with channel_of(here) as channel:
        for body in sent:
            channel.basic_publish("", f"{name}.a", body, properties)
    arrived(there, f"{name}.b", 4)
    with channel_of(there) as channel:
        for body in sent:
            _, found, came = channel.basic_get(f"{name}.b", auto_ack=True)
            assert came == body
            assert found == properties


def test_exchange_to_exchange(here: Shovelling, there: Shovelling, name: str) -> None:
    """SPEC §9.8: from an exchange by its key, to one that is named; the routing key goes along."""
    value = {"src-exchange": "amq.topic", "src-exchange-key": f"{name}.#", "dest-exchange": "amq.direct"}
    here.set(name, {"src-uri": "amqp://", "dest-uri": there.uri(), **value})
    found = here.wait(name)
    assert (found["src_exchange"], found["src_exchange_key"], found["dest_exchange"]) == (
        "amq.topic", f"{name}.#", "amq.direct",
    )  # fmt: skip
    with channel_of(there) as channel, channel_of(here) as source:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.direct", f"{name}.k")
        source.basic_publish("amq.topic", f"{name}.k", b"1")
        source.basic_publish("amq.topic", "other", b"2")
        source.basic_publish("amq.topic", f"{name}.other", b"3")
        source.basic_publish("amq.topic", f"{name}.k", b"4")
        found_bodies: list[bytes] = []
        soon(lambda: found_bodies.extend(drained(channel, queue)) or len(found_bodies) == 2)  # type: ignore[func-returns-value]
        assert found_bodies == [b"1", b"4"]
    here.clear(name)
    # Its own queue is gone with it.
    soon(lambda: not [one for one in here.http().get("/api/queues") if one["name"].startswith("amq.gen")])


def test_queue_to_exchange_with_a_key(here: Shovelling, name: str) -> None:
    """SPEC §9.8: dest-exchange and dest-exchange-key."""
    with channel_of(here) as channel:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.topic", f"{name}.key")
        value = {"src-queue": f"{name}.a", "dest-exchange": "amq.topic", "dest-exchange-key": f"{name}.key"}
        here.set(name, LOCAL | value)
        here.wait(name)
        fill(here, f"{name}.a", [b"1"])
        assert soon(lambda: drained(channel, queue)) == [b"1"]


def test_without_a_destination_messages_keep_exchange_and_key(here: Shovelling, there: Shovelling, name: str) -> None:
    """SPEC §9.8: neither dest-queue nor dest-exchange."""
    with channel_of(there) as channel, channel_of(here) as source:
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.direct", f"{name}.k")
        source.queue_declare(f"{name}.a", durable=True)
        source.queue_bind(f"{name}.a", "amq.direct", f"{name}.k")
        here.set(name, {"src-uri": "amqp://", "src-queue": f"{name}.a", "dest-uri": there.uri()})
        here.wait(name)
        source.basic_publish("amq.direct", f"{name}.k", b"1")
        assert soon(lambda: drained(channel, queue)) == [b"1"]


def test_other_vhosts(here: Shovelling, name: str) -> None:
    """SPEC §9.8: local URIs with a vhost, as nobody and as a user with a password and without."""
    vhost = f"{name}/v"
    assert here.http().put(f"/api/vhosts/{quote(vhost, safe='')}").status == 201
    for user in ("", "guest@", "guest:guest@"):
        uri = f"amqp://{user}/{quote(vhost, safe='')}"
        here.set(name, {"src-uri": uri, "src-queue": "a", "dest-uri": "amqp://", "dest-queue": f"{name}.b"})
        here.wait(name)
        fill(here, "a", [user.encode()], vhost)
        assert soon(lambda: taken(here, f"{name}.b")) == [user.encode()]
    here.http().delete(f"/api/vhosts/{quote(vhost, safe='')}")
    assert here.wait(name, "terminated")["reason"] != ""


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        ("guest:wrong@", "amqp:///%2F: 403: ACCESS_REFUSED"),
        ("nobody@", "amqp:///%2F: no user 'nobody'"),
        ("nobody:p@", "amqp:///%2F: 403: ACCESS_REFUSED"),
    ],
)
def test_local_user_that_cannot_log_in(here: Shovelling, name: str, user: str, reason: str) -> None:
    """SPEC §9.8: a local URI with a name is no more than that user; passwords are in no reason."""
    here.set(name, {"src-uri": f"amqp://{user}/%2F", "src-queue": f"{name}.a", "dest-uri": "amqp://"})
    found = here.wait(name, "terminated")
    assert found["reason"].startswith(reason)
    assert "wrong" not in found["reason"]


def test_local_user_has_only_its_rights(here: Shovelling, name: str) -> None:
    """SPEC §9.8: with a user's name, that user's rights."""
    http = here.http()
    assert http.put("/api/users/poor", {"password": "p", "tags": ""}).status in (201, 204)
    rights = {"configure": "", "write": "", "read": "^readable"}
    assert http.put("/api/permissions/%2F/poor", rights).status in (201, 204)
    here.set(name, {"src-uri": "amqp://poor@", "src-queue": f"{name}.a", "dest-uri": "amqp://"})
    assert "403: ACCESS_REFUSED" in here.wait(name, "terminated")["reason"]
    http.delete("/api/users/poor")


# What is said in messages


def test_headers_and_properties(here: Shovelling, there: Shovelling, name: str) -> None:
    """SPEC §9.8: dest-add-forward-headers, dest-add-timestamp-header, dest-publish-properties; a second pass comes first."""
    more = {"dest-add-forward-headers": True, "dest-add-timestamp-header": True}
    properties = {"delivery_mode": 1, "content_type": "text/x", "app_id": "shovel"}
    value = {"src-uri": "amqp://", "src-queue": f"{name}.a", "dest-uri": there.uri(), "dest-queue": f"{name}.b"}
    here.set(name, {**value, **more, "dest-publish-properties": properties})
    here.wait(name)
    before = now_ms() // 1000
    fill(here, f"{name}.a", [b"1"])
    arrived(there, f"{name}.b", 1)
    with channel_of(there) as channel:
        _, found, _ = channel.basic_get(f"{name}.b", auto_ack=True)
    assert (found.delivery_mode, found.content_type, found.app_id) == (1, "text/x", "shovel")
    assert before <= found.headers["x-shovelled-timestamp"] <= now_ms() / 1000
    assert found.headers["x-shovelled"] == [
        {
            "shovelled-by": here.http().get("/api/cluster-name")["name"],
            "shovel-type": "dynamic",
            "shovel-name": name,
            "shovel-vhost": "/",
            "src-uri": "amqp://",
            "dest-uri": f"amqp://127.0.0.1:{there.port}",
            "src-queue": f"{name}.a",
            "dest-queue": f"{name}.b",
        }
    ]
    here.set(name, {**LOCAL, **more, "src-queue": f"{name}.a", "dest-queue": f"{name}.c"})
    here.wait(name)
    with channel_of(here) as channel:
        channel.basic_publish("", f"{name}.a", b"2", found)
    arrived(here, f"{name}.c", 1)
    with channel_of(here) as channel:
        _, twice, _ = channel.basic_get(f"{name}.c", auto_ack=True)
    assert [one["dest-queue"] for one in twice.headers["x-shovelled"]] == [f"{name}.c", f"{name}.b"]


def test_circle_does_not_grow_its_messages(here: Shovelling, name: str) -> None:
    """SPEC §9.8: the header of those that a message has passed is bounded."""
    more = {"dest-add-forward-headers": True}
    here.set(name, LOCAL | more | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    here.set(f"{name}.back", LOCAL | more | {"src-queue": f"{name}.b", "dest-queue": f"{name}.a"})
    here.wait(name)
    here.wait(f"{name}.back")
    fill(here, f"{name}.a", [b"1"])
    soon(lambda: here.http().get(f"/api/queues/%2F/{name}.a").get("message_stats", {}).get("publish", 0) > 100)
    here.clear(f"{name}.back")
    arrived(here, f"{name}.b", 1)
    with channel_of(here) as channel:
        _, found, _ = channel.basic_get(f"{name}.b", auto_ack=True)
    assert len(found.headers["x-shovelled"]) == 64


# When it ends


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish", "no-ack"])
def test_ends_after_what_was_in_the_queue(here: Shovelling, name: str, mode: str) -> None:
    """SPEC §9.8: src-delete-after queue-length, and then its parameter is gone; what comes later is not lost."""
    fill(here, f"{name}.a", bodies(500))
    more = {"src-delete-after": "queue-length", "src-prefetch-count": 50}
    here.set(name, LOCAL | more | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b", "ack-mode": mode})
    soon(lambda: not here.http().get("/api/parameters/shovel/%2F"))
    assert here.shovel(name) is None
    fill(here, f"{name}.a", bodies(100, 500))
    found = taken(here, f"{name}.b") + taken(here, f"{name}.a")
    assert found == bodies(600)


@pytest.mark.parametrize(("key", "mode"), [("src-delete-after", "on-confirm"), ("delete-after", "on-publish")])
def test_ends_after_a_number(here: Shovelling, name: str, key: str, mode: str) -> None:
    """SPEC §9.8: src-delete-after N; the rest stays where it is, in order."""
    fill(here, f"{name}.a", bodies(20))
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b", key: 7, "ack-mode": mode})
    soon(lambda: here.shovel(name) is None)
    arrived(here, f"{name}.b", 7)
    assert taken(here, f"{name}.b") == bodies(7)
    soon(lambda: length(here, f"{name}.a") == 13)
    assert taken(here, f"{name}.a") == bodies(13, 7)
    assert here.http().ask("GET", f"/api/parameters/shovel/%2F/{name}").status == 404


def test_nothing_to_move(here: Shovelling, name: str) -> None:
    """SPEC §9.8: an empty queue, and a number of 0."""
    for after in ("queue-length", 0):
        here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b", "src-delete-after": after})
        soon(lambda: not here.http().get("/api/parameters/shovel/%2F"))


# Changes


def test_changed_and_cleared(here: Shovelling, name: str) -> None:
    """SPEC §9.8: a new value counts at once, the same one changes nothing, none ends it."""
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    here.wait(name)
    links = sorted(one["name"] for one in here.http().get("/api/connections"))
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    assert sorted(one["name"] for one in here.http().get("/api/connections")) == links
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.c"})
    soon(lambda: (here.shovel(name) or {}).get("dest_queue") == f"{name}.c")
    fill(here, f"{name}.a", [b"1"])
    arrived(here, f"{name}.c", 1)
    assert length(here, f"{name}.b") == 0
    here.clear(name)
    assert here.shovel(name) is None
    soon(lambda: not [one for one in here.http().get("/api/connections") if one["user_provided_name"] == f"Shovel {name}"])
    fill(here, f"{name}.a", [b"2"])
    time.sleep(0.2)
    assert length(here, f"{name}.a") == 1


def test_restart(here: Shovelling, name: str) -> None:
    """SPEC §9.8: DELETE …/restart begins it anew."""
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    here.wait(name)

    def links() -> set[str]:
        found = here.http().get("/api/connections")
        return {one["name"] for one in found if one["user_provided_name"] == f"Shovel {name}"}

    before = links()
    assert len(before) == 2
    assert here.http().delete(f"/api/shovels/vhost/%2F/{name}/restart").status == 204
    soon(lambda: len(links()) == 2 and not links() & before)
    fill(here, f"{name}.a", [b"1"])
    arrived(here, f"{name}.b", 1)


def test_deleted_vhost_ends_its_shovels(here: Shovelling, name: str) -> None:
    """SPEC §9.8: those whose parameter is in it."""
    assert here.http().put(f"/api/vhosts/{name}").status == 201
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"}, name)
    here.wait(name)
    assert here.http().delete(f"/api/vhosts/{name}").status == 204
    assert here.shovel(name) is None
    soon(lambda: not [one for one in here.http().get("/api/connections") if one["user_provided_name"] == f"Shovel {name}"])


def test_import_starts_what_it_brings(here: Shovelling, name: str) -> None:
    """SPEC §9.8: definitions; SPEC §9.2: what is wrong in one is told, and nothing is made."""
    value: dict[str, Any] = LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"}
    parameter = {"vhost": "/", "component": "shovel", "name": name, "value": value}
    answer = here.http().post("/api/definitions", {"parameters": [parameter | {"value": value | {"ack-mode": "x"}}]})
    assert (answer.status, "ack-mode should be one of" in answer.json["reason"]) == (400, True)
    assert here.shovel(name) is None
    assert here.http().post("/api/definitions", {"parameters": [parameter]}).status == 204
    here.wait(name)
    exported = here.http().get("/api/definitions")["parameters"]
    assert parameter in exported


# Faults


def test_queue_that_is_deleted_is_made_again(here: Shovelling, name: str) -> None:
    """SPEC §9.8: the source's consumer is cancelled; after reconnect-delay it begins anew."""
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    here.wait(name)
    with channel_of(here) as channel:
        channel.queue_delete(f"{name}.a")
    soon(lambda: length(here, f"{name}.a") == 0)
    here.wait(name)
    fill(here, f"{name}.a", [b"1"])
    arrived(here, f"{name}.b", 1)


def test_missing_exchange_is_told(here: Shovelling, name: str) -> None:
    """SPEC §9.8: terminated, with the broker's reason; messages stay."""
    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-exchange": f"{name}.x"})
    here.wait(name)
    fill(here, f"{name}.a", [b"1"])
    reason = here.wait(name, "terminated")["reason"]
    assert reason == f"404: NOT_FOUND - no exchange '{name}.x' in vhost '/'"
    here.clear(name)
    soon(lambda: length(here, f"{name}.a") == 1)


def test_without_a_delay_it_does_not_try_again(here: Shovelling, name: str) -> None:
    """SPEC §9.8: reconnect-delay 0."""
    value = {"src-uri": "amqp://127.0.0.1:1", "src-queue": "a", "dest-uri": "amqp://", "reconnect-delay": 0}
    here.set(name, value)
    first = here.wait(name, "terminated")
    assert first["reason"].startswith("amqp://127.0.0.1:1: cannot connect: ")
    time.sleep(1.1)
    assert here.shovel(name) == first
    assert here.http().delete(f"/api/shovels/vhost/%2F/{name}").status == 204
    assert here.shovel(name) is None


def test_first_uri_that_works(here: Shovelling, name: str) -> None:
    """SPEC §9.8: several URIs."""
    uris = ["amqp://127.0.0.1:1", "amqp://guest:wrong@127.0.0.1:2", "amqp://"]
    here.set(name, {"src-uri": uris, "src-queue": f"{name}.a", "dest-uri": uris, "dest-queue": f"{name}.b"})
    found = here.wait(name)
    assert (found["src_uri"], found["dest_uri"]) == ("amqp://", "amqp://")


def test_refused_messages_stay_and_are_tried_again(here: Shovelling, name: str) -> None:
    """SPEC §9.8: a full queue that rejects gives a nack; when it has room, the rest comes. Nothing is lost or counted."""
    with channel_of(here) as channel:
        channel.queue_declare(f"{name}.b", durable=True, arguments={"x-max-length": 5, "x-overflow": "reject-publish"})
    fill(here, f"{name}.a", bodies(12))
    more = {"src-delete-after": 12}
    here.set(name, LOCAL | more | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    found: list[bytes] = []
    for _ in range(100):
        if len(found) == 12:
            break
        found += taken(here, f"{name}.b")
        time.sleep(0.1)
    assert sorted(found, key=int) == bodies(12)
    soon(lambda: here.shovel(name) is None)


def test_alarm_at_the_destination_stops_it(here: Shovelling, there: Shovelling, name: str) -> None:
    """SPEC §9.8: connection.blocked is respected, shown as blocked, and nothing is lost."""
    here.set(name, {"src-uri": "amqp://", "src-queue": f"{name}.a", "dest-uri": there.uri(), "dest-queue": f"{name}.b"})
    here.wait(name)
    settings = "/api/leveret/settings"
    assert there.http().put(settings, {"memory_watermark": 2000}).status == 204
    try:
        fill(here, f"{name}.a", bodies(3000))
        found = here.wait(name, "blocked")
        assert found["blocked_status"] == "blocked"
        # As many as its prefetch are on their way, and no more.
        soon(lambda: here.http().get(f"/api/queues/%2F/{name}.a")["messages_unacknowledged"] == 1000)
    finally:
        assert there.http().put(settings, {"memory_watermark": 0.6}).status == 204
    arrived(there, f"{name}.b", 3000)
    assert taken(there, f"{name}.b") == bodies(3000)


def test_trust_is_not_to_be_had_from_outside(here: Shovelling, name: str) -> None:
    """SPEC §9.8: the user of local links is none that could log in, whatever is said."""
    from tests.properties.dialogue import PROTOCOL_HEADER, method

    from leveret.wire import spec

    here.set(name, LOCAL | {"src-queue": f"{name}.a", "dest-queue": f"{name}.b"})
    here.wait(name)
    links = [one for one in here.http().get("/api/connections") if one["type"] == "direct"]
    assert {one["user"] for one in links} == {"none"}
    assert "none" not in [one["name"] for one in here.http().get("/api/users")]
    with ExitStack() as stack:
        clients = []
        for mechanism, response in (
            ("EXTERNAL", b""),
            ("EXTERNAL", b"none"),
            ("PLAIN", b"\0none\0"),
            ("PLAIN", b"\0\0"),
            ("ANONYMOUS", b""),
        ):
            client = stack.enter_context(here.connect())
            client.socket.sendall(PROTOCOL_HEADER)
            client.expect(spec.ConnectionStart)
            client.send(method(0, spec.ConnectionStartOk({}, mechanism, response, "en_US")))
            client.send(method(0, spec.ConnectionTuneOk(10, 131_072, 0)), method(0, spec.ConnectionOpen("/")))
            clients.append(client)
        for client in clients:
            assert client.at_end()
    with pytest.raises(Exception, match=r"ACCESS_REFUSED"):
        connected(here, user="none", password="").__enter__()
