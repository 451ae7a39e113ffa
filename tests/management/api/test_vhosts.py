"""Virtual hosts through the HTTP API, and what is the same for all resources."""

from tests.management.amqp import channel_of, soon
from tests.management.support import Http, Running


def test_vhost_is_made_listed_described_and_deleted(http: Http) -> None:
    """SPEC §9.1: PUT answers 201 and then 204, DELETE 204; names may have slashes."""
    path = f"/api/vhosts/{http.quoted('a/b')}"
    assert http.put(path, {"description": "first", "tags": "one,two"}).status == 201
    found = http.get(path)
    assert (found["name"], found["description"], found["tags"], found["tracing"]) == ("a/b", "first", ["one", "two"], False)
    assert http.put(path, {"tracing": True}).status == 204
    assert http.get(path)["tracing"] is True
    assert http.get(path)["description"] == "first"
    assert "a/b" in [vhost["name"] for vhost in http.get("/api/vhosts")]
    assert [one["user"] for one in http.get(path + "/permissions")] == ["guest"]
    assert http.delete(path).status == 204
    assert http.ask("GET", path).json == {"error": "Object Not Found", "reason": "Not Found"}
    assert http.ask("GET", path).status == 404


def test_lists_have_pages_columns_and_order(http: Http, vhost: str) -> None:
    """SPEC §9.1: paging is turned on by page alone."""
    everything = http.get("/api/vhosts?columns=name,messages&sort=name&sort_reverse=true")
    assert [set(one) for one in everything] == [{"name", "messages"}] * len(everything)
    assert [one["name"] for one in everything] == sorted((one["name"] for one in everything), reverse=True)
    page = http.get("/api/vhosts?page=1&page_size=1&pagination=false")
    assert (page["page"], page["page_size"], page["item_count"], page["total_count"]) == (1, 1, 1, len(everything))
    found = http.get(f"/api/vhosts?page=1&name={http.quoted(vhost[:20])}")
    assert [one["name"] for one in found["items"]] == [vhost]
    assert http.get("/api/vhosts?page=1&name=^%2F$&use_regex=true")["filtered_count"] == 1
    assert http.ask("GET", "/api/vhosts?page=99").json["error"] == "page_out_of_range"
    assert http.ask("GET", "/api/vhosts?page=0").status == 400


def test_faults_are_told_as_rabbitmq_tells_them(broker: Running, http: Http) -> None:
    """SPEC §9.1: status, kind and reason of each."""
    nobody = broker.http(None).ask("GET", "/api/overview")
    assert (nobody.status, nobody.headers["WWW-Authenticate"]) == (401, 'Basic realm="RabbitMQ Management"')
    assert broker.http("guest", "wrong").ask("GET", "/api/overview").status == 401
    assert http.ask("GET", "/api/no-such-thing").status == 404
    assert http.ask("POST", "/api/overview").status == 405
    for body in (b"{", b"[]", b"5", b'{"a": "\xff"}', b"[" * 100_000):
        answer = http.ask("PUT", "/api/vhosts/x", body)
        assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": "not_json"})
    assert "doubly-JSON-encoded" in http.ask("PUT", "/api/vhosts/x", b'"{}"').json["reason"]
    assert http.ask("OPTIONS", "/api/overview").headers["Allow"] == "GET, HEAD, OPTIONS"
    assert http.ask("HEAD", "/api/overview").body == b""


def test_paths_may_have_braces_and_end_with_a_slash(http: Http) -> None:
    """SPEC §9.1: any name goes into a path; amqpstorm ends some with a slash."""
    path = f"/api/vhosts/{http.quoted('{a}/')}"
    assert http.put(f"{path}/").status == 201
    assert http.get(path) == http.get(f"{path}/")
    assert http.get(path)["name"] == "{a}/"
    assert http.get("/api/whoami/") == http.get("/api/whoami")
    assert http.delete(path).status == 204


def test_overview_has_what_tools_read(http: Http) -> None:
    """SPEC §9.1: Telegraf stops without message_stats; rabbitmqadmin reads versions and totals."""
    found = http.get("/api/overview")
    assert (found["rabbitmq_version"], found["product_name"]) == ("3.13.7", "RabbitMQ")
    assert set(found["object_totals"]) == {"channels", "connections", "consumers", "exchanges", "queues"}
    assert set(found["queue_totals"]) >= {"messages", "messages_ready", "messages_unacknowledged"}
    assert found["message_stats"]["publish_details"]["rate"] >= 0.0
    assert {"amqp", "http"} <= {listener["protocol"] for listener in found["listeners"]}
    assert http.get("/api/overview?columns=queue_totals.messages") == {"queue_totals": {"messages": 0}}
    assert http.get("/api/whoami") == {"name": "guest", "tags": ["administrator"]}
    assert http.put("/api/cluster-name", {"name": "mine"}).status == 204
    assert http.get("/api/cluster-name") == {"name": "mine"}


def test_octets_of_a_vhost_stay_when_connections_go(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: recv_oct and send_oct of all connections, those that are gone included."""
    path = f"/api/vhosts/{http.quoted(vhost)}"
    assert (http.get(path)["recv_oct"], http.get(path)["send_oct"]) == (0, 0)
    with channel_of(broker, vhost) as channel:
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", bytes(10_000))
        channel.basic_get("q")
        (connection,) = http.get(f"{path}/connections")
        open_found = http.get(path)
    assert open_found["recv_oct"] >= connection["recv_oct"] > 10_000
    assert open_found["send_oct"] >= connection["send_oct"] > 10_000
    closed = soon(lambda: not http.get(f"{path}/connections") and http.get(path))
    assert closed["recv_oct"] >= open_found["recv_oct"]
    assert closed["send_oct"] >= open_found["send_oct"]
    assert closed["recv_oct_details"]["rate"] >= 0
    (listed,) = [one for one in http.get("/api/vhosts") if one["name"] == vhost]
    assert listed["recv_oct"] >= closed["recv_oct"]
