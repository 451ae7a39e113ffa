"""Who had which part in what was counted: by exchange, by queue, by channel."""

from typing import Any

import pika
from tests.management.amqp import channel_of, connected, only, soon
from tests.management.support import Http, Running


def counts(row: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in row["stats"].items() if value and not name.endswith("_details")}


def by(rows: list[dict[str, Any]], kind: str) -> dict[str, dict[str, int]]:
    return {row[kind]["name"]: counts(row) for row in rows}


def test_publishes_are_told_by_exchange_and_queue(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: `publishes` of a channel, `incoming` and `outgoing` of exchanges and queues."""
    place = http.quoted(vhost)
    with connected(broker, vhost) as connection:
        channel = connection.channel(3)
        channel.queue_declare("a")
        channel.queue_declare("b")
        for queue in ("a", "b"):
            channel.queue_bind(queue, "amq.fanout")
        channel.queue_bind("b", "amq.headers", arguments={"x-match": "all", "kind": "b"})
        for _ in range(3):
            channel.basic_publish("", "a", b"x")
        for _ in range(2):
            channel.basic_publish("amq.fanout", "", b"x")
        channel.basic_publish("amq.direct", "nowhere", b"x")
        channel.basic_publish("amq.headers", "", b"x", pika.BasicProperties(headers={"kind": "b"}))
        channel.basic_publish("", "a", b"x", pika.BasicProperties(headers={"CC": ["b"]}))
        channel.queue_declare("a", passive=True)
        name = only(http.get(f"/api/vhosts/{place}/channels"), number=3)["name"]

        found = http.get(f"/api/channels/{http.quoted(name)}")
        assert by(found["publishes"], "exchange") == {
            "": {"publish": 4},
            "amq.fanout": {"publish": 2},
            "amq.headers": {"publish": 1},
            "amq.direct": {"publish": 1, "drop_unroutable": 1},
        }
        assert {row["exchange"]["vhost"] for row in found["publishes"]} == {vhost}
        assert all(row["stats"]["publish_details"]["rate"] >= 0 for row in found["publishes"])

        a, b = (http.get(f"/api/queues/{place}/{queue}") for queue in ("a", "b"))
        assert by(a["incoming"], "exchange") == {"": {"publish": 4}, "amq.fanout": {"publish": 2}}
        expected = {"": {"publish": 1}, "amq.fanout": {"publish": 2}, "amq.headers": {"publish": 1}}
        assert by(b["incoming"], "exchange") == expected
        assert (a["message_stats"]["publish"], b["message_stats"]["publish"]) == (6, 4)

        fanout = http.get(f"/api/exchanges/{place}/amq.fanout")
        assert by(fanout["outgoing"], "queue") == {"a": {"publish": 2}, "b": {"publish": 2}}
        assert by(fanout["incoming"], "channel_details") == {name: {"publish": 2}}
        details = fanout["incoming"][0]["channel_details"]
        assert (details["number"], details["user"], details["peer_host"]) == (3, "guest", "127.0.0.1")
    # The channel is gone and what it brought is not.
    fanout = http.get(f"/api/exchanges/{place}/amq.fanout")
    assert (fanout["incoming"], len(fanout["outgoing"])) == ([], 2)
    assert http.get(f"/api/exchanges/{place}/amq.topic")["outgoing"] == []


def test_deliveries_are_told_by_queue_and_channel(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: `deliveries` of a channel and of a queue, with acks, gets and redeliveries."""
    place = http.quoted(vhost)
    with connected(broker, vhost) as connection:
        channel = connection.channel(4)
        for queue in ("acked", "taken", "got", "unused"):
            channel.queue_declare(queue)
            for _ in range(5):
                channel.basic_publish("", queue, b"x")
        first, _, _ = channel.basic_get("got")
        assert first is not None
        channel.basic_nack(first.delivery_tag)
        tags = []
        for _ in range(3):
            method, _, _ = channel.basic_get("got")
            assert method is not None
            tags.append(method.delivery_tag)
        channel.basic_ack(tags[0])
        channel.basic_ack(tags[2], multiple=True)
        channel.basic_get("got", auto_ack=True)
        channel.basic_consume("acked", lambda _c, m, _p, _b: channel.basic_ack(m.delivery_tag))
        channel.basic_consume("taken", lambda *_: None, auto_ack=True)
        connection.process_data_events(0.3)
        name = only(http.get(f"/api/vhosts/{place}/channels"), number=4)["name"]
        found = by(http.get(f"/api/channels/{http.quoted(name)}")["deliveries"], "queue")
        assert found["acked"] == {"deliver": 5, "deliver_get": 5, "ack": 5}
        assert found["taken"] == {"deliver_no_ack": 5, "deliver_get": 5}
        assert found["got"] == {"get": 4, "get_no_ack": 1, "deliver_get": 5, "redeliver": 1, "ack": 3}
        queue = http.get(f"/api/queues/{place}/acked")
        assert by(queue["deliveries"], "channel_details") == {name: found["acked"]}


def test_acks_of_transactions_count_when_they_are_committed(broker: Running, http: Http, vhost: str) -> None:
    place = http.quoted(vhost)
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        for _ in range(2):
            channel.basic_publish("", "q", b"x")
        channel.tx_select()
        for _ in range(2):
            method, _, _ = channel.basic_get("q")
            assert method is not None
            channel.basic_ack(method.delivery_tag)
        path = f"/api/channels/{http.quoted(http.get(f'/api/vhosts/{place}/channels')[0]['name'])}"
        assert http.get(path)["message_stats"]["ack"] == 0
        channel.tx_commit()
        found = http.get(path)
        assert found["message_stats"]["ack"] == 2
        assert by(found["deliveries"], "queue")["q"]["ack"] == 2


def test_confirms_are_told_by_exchange_while_there_is_one(broker: Running, http: Http, vhost: str) -> None:
    place = http.quoted(vhost)
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "q", b"x")
        path = f"/api/channels/{http.quoted(http.get(f'/api/vhosts/{place}/channels')[0]['name'])}"
        assert by(http.get(path)["publishes"], "exchange") == {"": {"publish": 3, "confirm": 3}}
        channel.basic_publish("amq.fanout", "", b"x")
        expected = {"": {"publish": 3}, "amq.fanout": {"publish": 1, "drop_unroutable": 1}}
        assert by(http.get(path)["publishes"], "exchange") == expected


def test_a_queue_made_anew_has_nothing_of_the_old(broker: Running, http: Http, vhost: str) -> None:
    place = http.quoted(vhost)
    with channel_of(broker, vhost) as channel:
        for count in (3, 1):
            channel.queue_declare("q")
            for _ in range(count):
                channel.basic_publish("", "q", b"x")
            channel.queue_declare("q", passive=True)
            assert by(http.get(f"/api/queues/{place}/q")["incoming"], "exchange") == {"": {"publish": count}}
            channel.basic_get("q", auto_ack=True)
            (delivery,) = http.get(f"/api/queues/{place}/q")["deliveries"]
            assert counts(delivery) == {"get_no_ack": 1, "deliver_get": 1}
            channel.queue_delete("q")


def test_parts_have_rates(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: within two samples."""
    place = http.quoted(vhost)
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")

        def rated() -> bool:
            for _ in range(20):
                channel.basic_publish("", "q", b"x")
            (incoming,) = http.get(f"/api/queues/{place}/q?msg_rates_age=60&msg_rates_incr=5")["incoming"]
            details = incoming["stats"]["publish_details"]
            return details["rate"] > 0 and len(details["samples"]) == 13

        soon(rated)


def test_metrics_name_exchange_and_queue(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.3: in /metrics/per-object, as RabbitMQ labels them."""
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q")
        channel.queue_bind("q", "amq.topic", "k")
        channel.basic_publish("amq.topic", "k", b"x")
        channel.basic_get("q", auto_ack=True)
        families = "family=channel_exchange_metrics&family=channel_queue_metrics&family=channel_queue_exchange_metrics"
        page = Http(broker.prometheus_port).ask("GET", f"/metrics/detailed?{families}").body.decode()
    exchange, queue = f'vhost="{vhost}",exchange="amq.topic"', f'vhost="{vhost}",queue="q"'
    lines = page.splitlines()
    assert [one for one in lines if "channel_messages_published_total{channel=" in one and one.endswith(exchange + "} 1")]
    assert [one for one in lines if "channel_get_total{channel=" in one and one.endswith(queue + "} 1")]
    both = f'queue_vhost="{vhost}",queue="q",exchange_vhost="{vhost}",exchange="amq.topic"'
    assert [one for one in lines if one.endswith(f"queue_messages_published_total{{{both}}} 1")]


def test_wide_routes_are_told_too(broker: Running, http: Http, vhost: str) -> None:
    """To more queues than are told at once, with as many keys as there are messages."""
    place = http.quoted(vhost)
    with channel_of(broker, vhost) as channel:
        for number in range(40):
            channel.queue_declare(f"q{number}")
            channel.queue_bind(f"q{number}", "amq.fanout")
        for number in range(25):
            channel.basic_publish("amq.fanout", f"key {number}", b"x")
        channel.queue_declare("q0", passive=True)
        assert by(http.get(f"/api/queues/{place}/q39")["incoming"], "exchange") == {"amq.fanout": {"publish": 25}}
        channel.basic_publish("amq.fanout", "", b"x")
        # What was bound since has the routes looked up anew.
        channel.queue_declare("late")
        outgoing = by(http.get(f"/api/exchanges/{place}/amq.fanout")["outgoing"], "queue")
        assert outgoing == {f"q{number}": {"publish": 26} for number in range(40)}
