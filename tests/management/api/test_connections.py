"""Connections through the HTTP API: what is told of them, who sees them, and how they are ended."""

from collections.abc import Iterator

import pika
import pytest
from tests.management.amqp import channel_of, connected, only, soon
from tests.management.support import Http, Running

from leveret.server.clock import now_ms

NUMBERS = [
    "channels",
    "channel_max",
    "frame_max",
    "timeout",
    "connected_at",
    "port",
    "peer_port",
    "recv_oct",
    "recv_cnt",
    "send_oct",
    "send_cnt",
    "send_pend",
]


SETTINGS = """
users = [
  {name = "boss", password = "secret", tags = ["administrator"]},
  {name = "plain", password = "secret", tags = ["management"]},
]
permissions = [
  {user = "boss", configure = ".*", write = ".*", read = ".*"},
  {user = "plain", configure = ".*", write = ".*", read = ".*"},
]
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with a user who may see everything and one with no more than `management`."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "leveret.toml").write_text(SETTINGS)
    with Running(folder, "--config", str(folder / "leveret.toml")) as running:
        yield running


def test_connection_has_what_tools_read(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin, both, and the exporters read these; no number is null."""
    before = now_ms()
    properties = {"connection_name": "mine", "app": {"nested": [1, "two"]}}
    with channel_of(broker, vhost, client_properties=properties, heartbeat=30, frame_max=8192, channel_max=9):
        found = only(http.get(f"/api/vhosts/{http.quoted(vhost)}/connections"), vhost=vhost)
        assert set(found) == set(only(http.get("/api/connections"), name=found["name"]))
        one = http.get(f"/api/connections/{http.quoted(found['name'])}")
        assert set(one) == set(found)
        assert all(isinstance(found[name], int) for name in NUMBERS)
        assert (found["user"], found["user_who_performed_action"], found["vhost"]) == ("guest", "guest", vhost)
        assert (found["protocol"], found["type"], found["ssl"]) == ("AMQP 0-9-1", "network", False)
        assert (found["channels"], found["channel_max"], found["frame_max"], found["timeout"]) == (1, 9, 8192, 30)
        assert (found["state"], found["auth_mechanism"]) == ("running", "PLAIN")
        assert (found["host"], found["port"], found["peer_host"]) == ("127.0.0.1", broker.port, "127.0.0.1")
        assert found["name"] == f"127.0.0.1:{found['peer_port']} -> 127.0.0.1:{broker.port}"
        assert before - 1000 <= found["connected_at"] <= before + 60_000
        assert found["client_properties"]["connection_name"] == "mine"
        assert found["client_properties"]["app"] == {"nested": [1, "two"]}
        assert found["user_provided_name"] == "mine"
        assert found["recv_oct"] > 100
        assert found["send_oct"] > 100
        assert found["recv_oct_details"]["rate"] >= 0.0
        assert found["node"] == http.get("/api/overview")["node"]
    assert http.get(f"/api/vhosts/{http.quoted(vhost)}/connections") == []


def test_bytes_and_reads_are_counted(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: recv_oct and send_oct grow with what goes over the socket, recv_cnt and send_cnt with reads and writes."""
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        path = f"/api/vhosts/{http.quoted(vhost)}/connections"
        before = http.get(path)[0]
        channel.basic_publish("", "q", bytes(100_000))
        channel.queue_declare("q", passive=True)
        channel.basic_get("q")
        after = http.get(path)[0]
        for name in ("recv_oct", "send_oct"):
            assert 100_000 <= after[name] - before[name] < 101_000
        for name in ("recv_cnt", "send_cnt"):
            assert 2 <= after[name] - before[name] < 100


def test_connection_is_ended_with_the_reason_given(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: DELETE sends 320 with X-Reason; the second time it is 404."""
    with connected(broker, vhost) as connection:
        name = http.get(f"/api/vhosts/{http.quoted(vhost)}/connections")[0]["name"]
        path = f"/api/connections/{http.quoted(name)}"
        assert http.ask("DELETE", path, headers={"X-Reason": "time to go"}).status == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(5)
        assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - time to go")
        assert http.ask("DELETE", path).status == 404
        assert http.ask("GET", path).status == 404


def test_all_connections_of_a_user_are_ended(shared: Running) -> None:
    """SPEC §9.1: /api/connections/username/{user}."""
    http = shared.http("boss", "secret")
    path = "/api/connections/username/plain"
    with connected(shared, "/", "plain", "secret") as one, connected(shared, "/", "plain", "secret") as two:
        assert [found["user"] for found in http.get(path)] == ["plain"] * 2
        assert {"name", "node", "user", "vhost"} <= set(http.get(path)[0])
        assert http.delete(path).status == 204
        for connection in (one, two):
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="Closed via management plugin"):
                connection.process_data_events(5)
    assert http.get(path) == []
    assert http.delete(path).status == 204


def test_without_monitoring_a_user_sees_only_its_own(shared: Running) -> None:
    """SPEC §9.1: lists leave the others out, and their own paths are refused with 401."""
    http, mine = shared.http("boss", "secret"), shared.http("plain", "secret")
    with connected(shared, "/", "boss", "secret") as other, connected(shared, "/", "plain", "secret") as own:
        other.channel().queue_declare("q", exclusive=True)
        own.channel()
        everyones = http.get("/api/vhosts/%2F/connections")
        assert {found["user"] for found in everyones} == {"boss", "plain"}
        assert [found["user"] for found in mine.get("/api/connections")] == ["plain"]
        assert [found["user"] for found in mine.get("/api/vhosts/%2F/channels")] == ["plain"]
        assert [found["user"] for found in mine.get("/api/channels")] == ["plain"]
        name = only(everyones, user="boss")["name"]
        path = f"/api/connections/{http.quoted(name)}"
        assert mine.ask("GET", path).status == 401
        assert mine.ask("DELETE", path).status == 401
        assert mine.ask("GET", f"/api/channels/{http.quoted(name + ' (1)')}").status == 401
        assert mine.ask("GET", "/api/connections/username/boss").status == 401


def test_rates_follow_traffic(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: recv_oct_details has the rate of the last samples."""
    with channel_of(broker, vhost) as channel:
        path = f"/api/vhosts/{http.quoted(vhost)}/connections"

        def rate() -> float:
            channel.basic_publish("", "nowhere", bytes(10_000))
            return float(http.get(path)[0]["recv_oct_details"]["rate"])

        assert soon(lambda: rate() > 5_000)
