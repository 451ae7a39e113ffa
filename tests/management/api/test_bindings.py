"""Bindings through the HTTP API."""

from tests.management.support import Http, Running


def between(vhost: str, source: str, kind: str, destination: str) -> str:
    return f"/api/bindings/{Http.quoted(vhost)}/e/{Http.quoted(source)}/{kind}/{Http.quoted(destination)}"


def make(http: Http, vhost: str) -> None:
    quoted = http.quoted(vhost)
    assert http.put(f"/api/queues/{quoted}/q", {"durable": True}).status == 201
    assert http.put(f"/api/exchanges/{quoted}/x", {"type": "headers", "durable": True}).status == 201
    assert http.put(f"/api/exchanges/{quoted}/y", {"type": "topic"}).status == 201


def test_binding_is_made_found_and_removed(http: Http, vhost: str) -> None:
    """SPEC §9.1: POST answers 201 with the place of the binding, relative to the path asked."""
    make(http, vhost)
    path = between(vhost, "y", "q", "q")
    assert http.get(path) == []
    answer = http.post(path, {"routing_key": "a.*", "arguments": {}})
    assert (answer.status, answer.headers["Location"]) == (201, "q/a.%252A")
    (found,) = http.get(path)
    assert found == {
        "source": "y",
        "vhost": vhost,
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "a.*",
        "arguments": {},
        "properties_key": "a.%2A",
    }
    one = f"{path}/{http.quoted(found['properties_key'])}"
    assert http.get(one) == found
    assert http.delete(one).status == 204
    assert http.ask("GET", one).status == 404
    assert http.delete(one).status == 404
    assert http.get(path) == []


def test_arguments_are_in_the_key(http: Http, vhost: str) -> None:
    """SPEC §9.1: a binding with arguments is named by routing key and hash, one without anything by ~."""
    make(http, vhost)
    path = between(vhost, "x", "e", "y")
    assert http.post(path, {"arguments": {"x-match": "all"}}).headers["Location"] == "y/~3ujGfg"
    assert http.post(path).headers["Location"] == "y/~"
    assert [one["properties_key"] for one in http.get(path)] == ["~3ujGfg", "~"]
    assert http.get(path + "/~3ujGfg")["arguments"] == {"x-match": "all"}
    assert http.get(path + "/~")["arguments"] == {}
    assert http.delete(path + "/~3ujGfg").status == 204
    assert http.ask("GET", path + "/a~b~c").status == 404
    assert [one["properties_key"] for one in http.get(path)] == ["~"]


def test_lists_have_both_ends(http: Http, vhost: str) -> None:
    """SPEC §9.1: all bindings of a vhost, of an exchange as source and as destination, the default exchange by its alias."""
    make(http, vhost)
    quoted = http.quoted(vhost)
    http.post(between(vhost, "x", "e", "y"))
    http.post(between(vhost, "y", "q", "q"), {"routing_key": "k"})
    found = http.get(f"/api/bindings/{quoted}")
    assert [(one["source"], one["destination_type"], one["destination"]) for one in found] == [
        ("", "queue", "q"),
        ("x", "exchange", "y"),
        ("y", "queue", "q"),
    ]
    assert [one for one in http.get("/api/bindings") if one["vhost"] == vhost] == found
    exchanges = f"/api/exchanges/{quoted}"
    assert http.get(f"{exchanges}/amq.default/bindings/source") == found[:1]
    assert http.get(f"{exchanges}/x/bindings/source") == http.get(f"{exchanges}/y/bindings/destination") == found[1:2]
    assert http.get(f"{exchanges}/y/bindings/source") == found[2:]
    assert http.get(f"/api/queues/{quoted}/q/bindings") == [found[0], found[2]]
    assert http.get(between(vhost, "amq.default", "q", "q")) == found[:1]


def test_what_cannot_be_bound_is_refused(limited: Running, http: Http, vhost: str) -> None:
    """SPEC §9.1: 404 for what is not there, 401 for what is not allowed, 400 for what is wrong."""
    make(http, vhost)
    assert http.post(between(vhost, "none", "q", "q")).status == 404
    assert http.post(between(vhost, "x", "q", "none")).status == 404
    assert http.post(between(vhost, "x", "z", "q")).status == 404
    assert http.post(between(vhost, "amq.default", "q", "q")).status == 401
    assert http.post(between(vhost, "y", "q", "q"), {"routing_key": 5}).status == 400
    assert http.post(between(vhost, "y", "q", "q"), {"arguments": []}).status == 201
    refused = limited.http("some", "some").post(between("/", "amq.topic", "q", "theirs"))
    assert (refused.status, refused.json["reason"][:20]) == (401, "ACCESS_REFUSED - wri")
