"""What the API has for the web page: trials and previews that change nothing, searches, groups of dead letters, the log."""

from typing import Any

import pytest
from tests.management.api.test_messages import fill, get, payloads, peek
from tests.management.api.test_queues import path_of, publish
from tests.management.support import Http, Running


def die(http: Http, vhost: str, *names: str) -> None:
    """One message dies in each of these queues, and goes to `dead`."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    http.put(path_of(vhost, "dead"))
    for name in names:
        http.put(path_of(vhost, name), {"arguments": arguments})
        publish(http, vhost, name, name, headers={"error": f"{name} is broken"})
        get(http, vhost, name, ackmode="reject_requeue_false")


def test_message_is_tried_and_not_published(http: Http, vhost: str) -> None:
    """SPEC §9.4: where would this key and these headers go"""
    quoted = http.quoted(vhost)
    for name, key in (("eu", "order.*.eu"), ("all", "#")):
        http.put(path_of(vhost, name))
        http.post(f"/api/bindings/{quoted}/e/amq.topic/q/{name}", {"routing_key": key})
    answer = http.post(f"/api/exchanges/{quoted}/amq.topic/route", {"routing_key": "order.paid.us"}).json
    assert [queue["name"] for queue in answer["queues"]] == ["all"]
    assert [(hit["destination"], hit["routing_key"]) for hit in answer["hits"]] == [("all", "#")]
    assert [(miss["destination"], miss["routing_key"]) for miss in answer["misses"]] == [("eu", "order.*.eu")]
    assert http.get(path_of(vhost, "all"))["messages"] == 0
    headers = {"region": "eu"}
    http.post(f"/api/bindings/{quoted}/e/amq.headers/q/eu", {"arguments": {"region": "eu"}})
    assert http.post(f"/api/exchanges/{quoted}/amq.headers/route", {"headers": headers}).json["queues"][0]["name"] == "eu"
    assert http.post(f"/api/exchanges/{quoted}/amq.headers/route", {"headers": 5}).status == 400
    assert http.post(f"/api/exchanges/{quoted}/none/route").status == 404


def test_policy_is_previewed_and_not_set(http: Http, vhost: str) -> None:
    """SPEC §9.4: what it matches, who wins, what is gained and lost; by the broker's own patterns"""
    base = f"/api/policies/{http.quoted(vhost)}"
    for name in ("invoices.render", "invoices.archive", "invoices.dlq", "other"):
        http.put(path_of(vhost, name), {"durable": True})
    http.put(f"{base}/all-ttl", {"pattern": "archive", "definition": {"message-ttl": 7}, "apply-to": "queues"})
    http.put(f"{base}/keep", {"pattern": "dlq$", "definition": {"message-ttl": 9}, "priority": 20, "apply-to": "queues"})
    body = {"pattern": r"^invoices\.", "definition": {"max-length": 5}, "priority": 10, "apply-to": "queues"}
    found = http.post(f"{base}/limit/preview", body).json
    assert (found["matched"], found["changed"]) == (3, 2)
    by_name = {item["name"]: item for item in found["items"]}
    assert [(name, by_name[name]["wins"]) for name in sorted(by_name)] == [
        ("invoices.archive", True),
        ("invoices.dlq", False),
        ("invoices.render", True),
    ]
    assert (by_name["invoices.archive"]["before"], by_name["invoices.archive"]["after"]) == (
        {"message-ttl": 7},
        {"max-length": 5},
    )
    assert by_name["invoices.dlq"]["then"] == {"name": "keep", "priority": 20}
    assert http.ask("GET", f"{base}/limit").status == 404
    # A policy that is there and matches less than it did.
    http.put(f"{base}/limit", body)
    found = http.post(f"{base}/limit/preview", {**body, "pattern": "render"}).json
    assert [(item["name"], item["matches"]) for item in found["items"] if item["changes"]] == [("invoices.archive", False)]
    bad = http.post(f"{base}/limit/preview", {**body, "pattern": "("})
    assert (bad.status, "pattern should be regular expression" in bad.json["reason"]) == (400, True)
    operator = f"/api/operator-policies/{http.quoted(vhost)}/o/preview"
    assert http.post(operator, {"pattern": "other", "definition": {"max-length": 1}}).json["changed"] == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("text=needle", ["needle 1", "a needle"]),
        ("text=NEEDLE", ["needle 1", "a needle"]),
        ("text=%5Eneedle%20%5Cd&use_regex=true", []),
        ("text=needle%20%5Cd&use_regex=true", ["needle 1"]),
        ("text=in-a-header", ["plain"]),
        ("text=nothing", []),
        ("text=needle&most=1", ["needle 1"]),
        ("text=needle&offset=2", ["a needle"]),
    ],
)
def test_bodies_and_headers_are_searched(http: Http, vhost: str, query: str, found: list[str]) -> None:
    """SPEC §9.4: a search through bodies and headers, which touches no message"""
    http.put(path_of(vhost, "q"))
    publish(http, vhost, "q", "needle 1", "hay")
    publish(http, vhost, "q", "plain", headers={"h": "in-a-header"})
    publish(http, vhost, "q", "a needle")
    answer = http.get(path_of(vhost, "q") + f"/search?{query}")
    assert [one["payload"] for one in answer["messages"]] == found
    assert [one["redelivered"] for one in peek(http, vhost, "q")] == [False] * 4


def test_search_says_how_far_it_has_come(broker: Running, http: Http, vhost: str) -> None:
    """SPEC §9.4: so many are searched, and where to go on; also what is on disk"""
    fill(broker, vhost, "q", 250, size=100_000)
    first = http.get(path_of(vhost, "q") + "/search?text=9.&count=100&truncate=3")
    assert (first["searched"], first["next"]) == (100, 100)
    assert [one["position"] for one in first["messages"]] == list(range(9, 100, 10))
    last = http.get(path_of(vhost, "q") + "/search?text=9.&count=1000&offset=200&truncate=3")
    assert (last["searched"], last["next"], len(last["messages"])) == (50, None, 5)
    assert http.ask("GET", path_of(vhost, "q") + "/search?text=(&use_regex=true").status == 400


def groups_of(found: dict[str, Any]) -> list[tuple[str, str, int, str]]:
    return [(one["reason"], one["queue"], one["count"], one["error"]) for one in found["groups"]]


def test_dead_letters_are_grouped_by_reason_and_origin(http: Http, vhost: str) -> None:
    """SPEC §9.4: grouped by reason and origin of x-death"""
    die(http, vhost, "work", "more", "work")
    publish(http, vhost, "dead", "no letter")
    found = http.get(path_of(vhost, "dead") + "/deaths")
    assert (found["searched"], found["others"], found["ready"]) == (4, 1, 4)
    assert groups_of(found) == [("rejected", "work", 2, "work is broken"), ("rejected", "more", 1, "more is broken")]
    assert found["groups"][0]["routing_keys"] == ["work"]
    assert found["groups"][0]["last"] > 1_600_000_000_000
    assert [one["redelivered"] for one in peek(http, vhost, "dead")] == [False] * 4


def test_groups_are_replayed_after_a_rehearsal(http: Http, vhost: str) -> None:
    """SPEC §9.4: replay by reason and origin, with a dry run"""
    die(http, vhost, "more", "work", "work", "work")
    replay = path_of(vhost, "dead") + "/replay"
    wanted = {"groups": [{"reason": "rejected", "queue": "work"}]}
    rehearsed = http.post(replay, {**wanted, "dry_run": True}).json
    assert rehearsed == {"moved": 3, "left": 1, "to": {"work": 3}, "searched": 4}
    assert [one["redelivered"] for one in peek(http, vhost, "dead")] == [False] * 4
    assert http.post(replay, {**wanted, "count": 2, "dry_run": True}).json["moved"] == 2
    # So many of the group, although another stands before them.
    assert http.post(replay, {**wanted, "count": 2}).json["moved"] == 2
    assert http.post(replay, {"groups": [{"reason": "expired"}]}).json["moved"] == 0
    assert http.post(replay, wanted).json["moved"] == 1
    assert payloads(get(http, vhost, "work")) == ["work"] * 3
    assert [one["payload"] for one in peek(http, vhost, "dead")] == ["more"]
    wrong: list[Any] = ["x", [5], [{}]]
    for bad in wrong:
        assert http.post(replay, {"groups": bad}).status == 400


def test_last_lines_of_the_log(http: Http, vhost: str) -> None:
    """SPEC §9.4: the live log"""
    last = http.get("/api/log")["last"]
    with pytest.raises(AssertionError):
        http.get("/api/log?level=loud")
    http.delete(f"/api/vhosts/{http.quoted(vhost)}")
    found = http.get("/api/log?text=vhost.deleted")
    assert {"number", "time", "level", "logger", "text"} == set(found["lines"][0])
    assert any(vhost in line["text"] for line in found["lines"])
    assert http.get("/api/log?level=error&text=vhost.deleted")["lines"] == []
    assert [line for line in http.get(f"/api/log?since={last}")["lines"] if line["number"] <= last] == []


def test_attention_and_states(http: Http, vhost: str) -> None:
    """SPEC §9.4: what needs attention, and queues by their state"""
    die(http, vhost, "work")
    publish(http, vhost, "work", "unattended")
    found = http.get(f"/api/attention?vhost={http.quoted(vhost)}")
    assert (found["states"]["no_consumers"], found["states"]["dead_letters"], found["dead_letters"]) == (2, 1, 1)
    names = {state: names_in(http, vhost, state) for state in ("no_consumers", "dead_letters", "paused", "growing", "stuck")}
    assert names == {"no_consumers": ["dead", "work"], "dead_letters": ["dead"], "paused": [], "growing": [], "stuck": []}
    http.post(path_of(vhost, "work") + "/pause")
    assert names_in(http, vhost, "paused") == ["work"]
    assert http.ask("GET", path_of(vhost) + "?state=odd").status == 400
    assert http.ask("GET", "/api/attention?vhost=none").status == 404


def names_in(http: Http, vhost: str, state: str) -> list[str]:
    return [one["name"] for one in http.get(path_of(vhost) + f"?state={state}")]
