"""Channels and consumers through the HTTP API."""

from tests.management.amqp import channel_of, connected, only, soon
from tests.management.support import Http, Running

from leveret.broker.counters import PUBLISHING, TAKING


def test_channel_has_rabbitmqs_name_and_state(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: `peer:port -> host:port (id)`; limits, and message_stats with what was done."""
    with connected(broker, vhost) as connection:
        channel = connection.channel(7)
        channel.queue_declare("q")
        channel.basic_qos(prefetch_count=5)
        for _ in range(3):
            channel.basic_publish("", "q", b"x")
        channel.queue_declare("q", passive=True)
        channel.basic_get("q")
        channel.basic_qos(prefetch_count=40, global_qos=True)
        (parent,) = http.get(f"/api/vhosts/{http.quoted(vhost)}/connections")
        name = f"{parent['name']} (7)"
        found = http.get(f"/api/channels/{http.quoted(name)}")
        assert (found["name"], found["number"], found["vhost"], found["user"]) == (name, 7, vhost, "guest")
        peer = {"name": parent["name"], "peer_host": "127.0.0.1", "peer_port": parent["peer_port"]}
        assert found["connection_details"] == peer
        assert (found["prefetch_count"], found["global_prefetch_count"]) == (5, 40)
        assert (found["messages_unacknowledged"], found["consumer_count"]) == (1, 0)
        assert (found["confirm"], found["transactional"], found["state"]) == (False, False, "running")
        stats = {key: value for key, value in found["message_stats"].items() if not key.endswith("_details")}
        assert {key: value for key, value in stats.items() if value} == {"publish": 3, "get": 1, "deliver_get": 1}
        # RabbitMQ: of publishing and of taking all or none.
        assert set(stats) == {*PUBLISHING, *TAKING, "deliver_get"}
        assert {found["message_stats"][f"{key}_details"]["rate"] >= 0 for key in stats} == {True}
        assert found["consumer_details"] == []
        assert [one["name"] for one in http.get(f"/api/connections/{http.quoted(parent['name'])}/channels")] == [name]
        assert [one["name"] for one in http.get(f"/api/vhosts/{http.quoted(vhost)}/channels")] == [name]
        assert only(http.get("/api/channels?columns=name,number"), name=name) == {"name": name, "number": 7}
    assert http.ask("GET", f"/api/channels/{http.quoted(name)}").status == 404


def test_channels_stand_in_the_order_of_their_numbers(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: 2 before 10."""
    with connected(broker, vhost) as connection:
        for number in (10, 2, 1):
            connection.channel(number)
        found = http.get(f"/api/vhosts/{http.quoted(vhost)}/channels")
        assert [one["number"] for one in found] == [1, 2, 10]


def test_transactions_and_confirms_are_told(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: messages_uncommitted, acks_uncommitted, messages_unconfirmed."""
    with connected(broker, vhost) as connection:
        careful, bulk = connection.channel(1), connection.channel(2)
        careful.queue_declare("q")
        careful.basic_publish("", "q", b"0")
        careful.queue_declare("q", passive=True)
        careful.tx_select()
        careful.basic_publish("", "q", b"1")
        careful.basic_publish("", "q", b"2")
        method, _, _ = careful.basic_get("q")
        assert method is not None
        careful.basic_ack(method.delivery_tag)
        careful.queue_declare("q", passive=True)
        bulk.confirm_delivery()
        bulk.basic_publish("", "q", b"3")
        one, two = http.get(f"/api/vhosts/{http.quoted(vhost)}/channels")
        assert (one["transactional"], one["messages_uncommitted"], one["acks_uncommitted"]) == (True, 2, 1)
        assert (two["confirm"], two["messages_unconfirmed"], two["message_stats"]["confirm"]) == (True, 0, 1)


def test_consumer_has_what_tools_read(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: rabbitmqadmin-ng stops without consumer_timeout; who waits for replies is not listed."""
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        channel.queue_declare("one", arguments={"x-single-active-consumer": True})
        channel.basic_qos(prefetch_count=10)
        channel.basic_consume("q", print, auto_ack=True, exclusive=True, consumer_tag="a", arguments={"x-priority": 3})
        channel.basic_consume("one", print, consumer_tag="b")
        channel.basic_consume("one", print, consumer_tag="c")
        channel.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True, consumer_tag="d")
        found = http.get(f"/api/consumers/{http.quoted(vhost)}")
        a, b, c = sorted(found, key=lambda one: str(one["consumer_tag"]))
        assert (a["consumer_tag"], a["queue"]) == ("a", {"name": "q", "vhost": vhost})
        assert (a["ack_required"], a["exclusive"], a["prefetch_count"], a["arguments"]) == (
            False,
            True,
            10,
            {"x-priority": 3},
        )
        assert (a["active"], a["activity_status"]) == (True, "up")
        assert a["consumer_timeout"] == 1_800_000
        assert (b["active"], b["activity_status"], b["ack_required"]) == (True, "single_active", True)
        assert (c["active"], c["activity_status"]) == (False, "waiting")
        details = a["channel_details"]
        assert details["name"].endswith(" (1)")
        assert (details["number"], details["user"], details["peer_host"]) == (1, "guest", "127.0.0.1")
        assert details["connection_name"] + " (1)" == details["name"]
        everyones = http.get("/api/consumers")
        assert {"a", "b", "c"} == {one["consumer_tag"] for one in everyones if one["queue"]["vhost"] == vhost}
        whole = http.get(f"/api/channels/{http.quoted(details['name'])}")
        # As on RabbitMQ the one for direct replies is not counted. The others are the same wherever they are shown.
        assert whole["consumer_count"] == 3
        assert whole["consumer_details"] == [a, b, c]
        assert http.get(f"/api/queues/{http.quoted(vhost)}/one")["consumer_details"] == [b, c]
    assert http.get(f"/api/consumers/{http.quoted(vhost)}") == []
    assert http.ask("GET", "/api/consumers/nowhere").status == 404


def test_a_quiet_channel_is_idle(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: idle_since is there until something is done."""
    with channel_of(broker, vhost) as channel:
        path = f"/api/vhosts/{http.quoted(vhost)}/channels"
        assert http.get(path)[0]["idle_since"].endswith("+00:00")

        def busy() -> bool:
            channel.basic_publish("", "nowhere", b"x")
            return "idle_since" not in http.get(path)[0]

        assert soon(busy)
