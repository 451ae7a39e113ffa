"""What does not fit AMQP is refused however it comes as JSON; what is odd but fits is kept, shown and found again."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.management.support import Http, Running
from tests.properties.dialogue import publish

from leveret.wire import spec
from leveret.wire.properties import Properties
from leveret.wire.values import TABLE_DEPTH_MAX, LongString, Table

LONG = "é" * 128  # 256 octets
FITS = "é" * 127 + "x"  # 255 octets


def nested(levels: int) -> Any:
    """A table in a table in a table."""
    found: Any = {}
    for _ in range(levels):
        found = {"a": found}
    return found


# Arguments and headers, and what is said of them.
BAD_TABLES: dict[str, tuple[Any, str]] = {
    "deep": (
        nested(TABLE_DEPTH_MAX),
        f"cannot be written as a table: tables and arrays nested deeper than {TABLE_DEPTH_MAX}",
    ),
    "deeper": (nested(100), "the body is nested deeper than 64 levels"),
    "long key": ({LONG: 1}, "cannot be written as a table: short string of 256 octets, 255 are possible"),
    "wide": ({"a": 1 << 63}, "the body has an integer of more than 64 bits"),
    "wide in a list": ({"a": [-(1 << 64)]}, "the body has an integer of more than 64 bits"),
    "large": ({"a": "x" * 140_000}, "octets, 131072 are possible"),
    "no object": ([1], "must be an object"),
}
# Written as they are, since Python's JSON knows more than JSON does.
BAD_TEXTS = {
    "lone surrogate": rb'{"a": "\ud800"}',
    "lone low surrogate": rb'{"a": "\udc80"}',
    "surrogate in a key": rb'{"\ud800": 1}',
    "encoded surrogate": b'{"a": "\xed\xa0\x80"}',
    "no UTF-8": b'{"a": "\xff"}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": Infinity}',
    "too large for a float": b'{"a": 1e999}',
    "many digits": b'{"a": ' + b"1" * 5000 + b"}",
}
# Where tables go, and what is around them.
PLACES: dict[str, tuple[str, str, bytes]] = {
    "queue": ("PUT", "/api/queues/{vhost}/made", b'{"durable": true, "arguments": TABLE}'),
    "exchange": ("PUT", "/api/exchanges/{vhost}/made", b'{"type": "direct", "durable": true, "arguments": TABLE}'),
    "binding": ("POST", "/api/bindings/{vhost}/e/amq.headers/q/target", b'{"routing_key": "", "arguments": TABLE}'),
    "headers": (
        "POST",
        "/api/exchanges/{vhost}/amq.default/publish",
        b'{"routing_key": "target", "properties": {"headers": TABLE}, "payload": "", "payload_encoding": "string"}',
    ),
}
# What has a name that is too long.
BAD_NAMES: dict[str, tuple[str, str, Any]] = {
    "queue": ("PUT", f"/api/queues/{{vhost}}/{LONG}", {}),
    "exchange": ("PUT", f"/api/exchanges/{{vhost}}/{LONG}", {"type": "direct"}),
    "vhost": ("PUT", f"/api/vhosts/{LONG}", {}),
    "user": ("PUT", f"/api/users/{LONG}", {"password": "x", "tags": ""}),
    "policy": ("PUT", f"/api/policies/{{vhost}}/{LONG}", {"pattern": "", "definition": {"max-length": 1}}),
    "operator policy": ("PUT", f"/api/operator-policies/{{vhost}}/{LONG}", {"pattern": "", "definition": {"max-length": 1}}),
    "parameter": ("PUT", f"/api/parameters/shovel/{{vhost}}/{LONG}", {"value": {}}),
    "global parameter": ("PUT", f"/api/global-parameters/{LONG}", {"value": 1}),
    "topic permission": ("PUT", "/api/topic-permissions/{vhost}/guest", {"exchange": LONG, "write": "", "read": ""}),
    "cluster name": ("PUT", "/api/cluster-name", {"name": LONG}),
    "routing key of a binding": ("POST", "/api/bindings/{vhost}/e/amq.direct/q/target", {"routing_key": LONG}),
    "routing key of a message": (
        "POST",
        "/api/exchanges/{vhost}/amq.default/publish",
        {"routing_key": LONG, "properties": {}, "payload": "", "payload_encoding": "string"},
    ),
    "routing key of a move": (
        "POST",
        "/api/queues/{vhost}/target/move",
        {"exchange": "amq.direct", "routing_key": LONG},
    ),
}
# Values that are none of AMQP's.
BAD_VALUES: dict[str, tuple[str, Any]] = {
    "policy": ("/api/policies/{vhost}/p", {"pattern": "", "definition": {"max-length": 1 << 63}}),
    "priority": ("/api/policies/{vhost}/p", {"pattern": "", "definition": {"max-length": 1}, "priority": 1 << 70}),
    "limit": ("/api/vhost-limits/{vhost}/max-queues", {"value": 1 << 70}),
    "parameter": ("/api/global-parameters/p", {"value": nested(70)}),
    "tags": ("/api/users/tagged", {"password": "x", "tags": [{"a": 1}]}),
    "metadata": ("/api/vhosts/made", {"metadata": [1]}),
}


class Place:
    """A vhost with a queue `target`."""

    def __init__(self, http: Http, vhost: str) -> None:
        self.http = http
        self.vhost = http.quoted(vhost)

    def refuses(self, method: str, path: str, body: Any, reason: str) -> None:
        """The request is answered with 400 and this reason, and has changed nothing."""
        before = self.state()
        quoted = "/".join(self.vhost if part == "{vhost}" else self.http.quoted(part) for part in path.split("/"))
        answer = self.http.ask(method, quoted, body)
        assert (answer.status, answer.json["error"]) == (400, "bad_request"), (path, answer.body)
        assert reason in answer.json["reason"]
        assert self.state() == before

    def state(self) -> Any:
        return self.http.get("/api/definitions"), self.http.get(f"/api/queues/{self.vhost}/target?columns=messages")


@pytest.fixture
def place(http: Http, vhost: str) -> Place:
    assert http.put(f"/api/queues/{http.quoted(vhost)}/target", {"durable": True}).status == 201
    return Place(http, vhost)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("how", BAD_TABLES)
def test_bad_tables_are_refused(where: str, how: str, place: Place) -> None:
    """SPEC §9.1: arguments and headers fit AMQP's tables, or are refused with 400 and the reason."""
    method, path, around = PLACES[where]
    table, reason = BAD_TABLES[how]
    place.refuses(method, path, around.replace(b"TABLE", json.dumps(table).encode()), reason)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("how", BAD_TEXTS)
def test_what_is_no_json_is_refused(where: str, how: str, place: Place) -> None:
    """SPEC §9.1: half characters, other encodings and numbers that are none"""
    method, path, around = PLACES[where]
    place.refuses(method, path, around.replace(b"TABLE", BAD_TEXTS[how]), "not_json")


@pytest.mark.parametrize("what", BAD_NAMES)
def test_long_names_are_refused(what: str, place: Place) -> None:
    """SPEC §9.1: names and routing keys have 255 octets at most."""
    method, path, body = BAD_NAMES[what]
    place.refuses(method, path, body, "should be less than 255 bytes, actually was 256")


@pytest.mark.parametrize("what", BAD_VALUES)
def test_bad_values_are_refused(what: str, place: Place) -> None:
    """SPEC §9.1: what is kept as JSON is bounded too."""
    path, body = BAD_VALUES[what]
    place.refuses("PUT", path, body, "")


@pytest.mark.parametrize("kind", ["queues", "exchanges", "bindings"])
def test_bad_tables_are_refused_in_definitions(kind: str, place: Place, vhost: str) -> None:
    """SPEC §9.2: the same holds for a file of definitions."""
    facts: dict[str, dict[str, Any]] = {
        "queues": {"name": "made", "vhost": vhost, "durable": True},
        "exchanges": {"name": "made", "vhost": vhost, "type": "direct", "durable": True},
        "bindings": {"source": "amq.headers", "vhost": vhost, "destination": "target", "routing_key": ""},
    }
    for table, reason in BAD_TABLES.values():
        body = {kind: [{**facts[kind], "arguments": table}]}
        place.refuses("POST", "/api/definitions", body, reason.replace("the body", "it"))


@pytest.mark.parametrize(
    "item",
    [
        {"policies": [{"name": LONG, "vhost": "/", "pattern": "", "definition": {"max-length": 1}}]},
        {"policies": [{"name": "p", "vhost": "/", "pattern": "", "definition": {"max-length": 1 << 63}}]},
        {"parameters": [{"component": "shovel", "name": "p", "vhost": "/", "value": nested(70)}]},
        {"global_parameters": [{"name": LONG, "value": 1}]},
        {"users": [{"name": LONG, "password": "x", "tags": ""}]},
        {"users": [{"name": "tagged", "password": "x", "tags": [[]]}]},
        {"vhosts": [{"name": LONG}]},
    ],
    ids=str,
)
def test_bad_items_are_refused_in_definitions(item: Any, place: Place) -> None:
    """SPEC §9.2: names and values in a file of definitions"""
    place.refuses("POST", "/api/definitions", item, "[0]")


def odd_things(broker: Running) -> None:
    """Make what is odd but allowed: names of any octets, through AMQP and through the API, and what just fits."""
    http = broker.http()
    # AMQP's names are UTF-8, as RabbitMQ demands, but names in tables and routing keys of messages are any octets.
    with broker.login() as client:
        arguments: Table = {"k\udcff": LongString(b"\xff"), "b": b"\xff", "d": Decimal("1.5")}
        client.call(spec.QueueDeclare("amqp\0", durable=True, arguments=arguments), spec.QueueDeclareOk)
        client.call(spec.QueueBind("amqp\0", "amq.fanout"), spec.QueueBindOk)
        client.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        client.send(*publish(1, "r\udcff", b"hello", Properties(delivery_mode=2), "amq.fanout"))
        client.expect(spec.BasicAck)
        # Its client's properties have a value of each type.
        assert [one["client_properties"]["product"] for one in http.get("/api/connections")] == ["fuzz"]
    fitting = http.quoted(FITS)
    for path, body in {
        "queues/%2F/q%FF": {"durable": True},
        f"queues/%2F/{fitting}": {"durable": True, "arguments": nested(TABLE_DEPTH_MAX - 1)},
        "queues/%2F/wide": {"durable": True, "arguments": {"a": (1 << 63) - 1, "b": -(1 << 63), "x" * 255: 1.5}},
        "exchanges/%2F/x%FF": {"type": "topic", "durable": True},
        f"exchanges/%2F/{fitting}": {"type": "direct", "durable": True, "arguments": {"a": nested(TABLE_DEPTH_MAX - 2)}},
        "vhosts/v%FF": {"description": "\u0000\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")},
        f"vhosts/{fitting}": {},
        "users/u%FF": {"password": "secret", "tags": "administrator"},
        f"users/{fitting}": {"password": "secret", "tags": ""},
        "permissions/v%FF/u%FF": {"configure": "", "write": ".*", "read": ".*"},
        "topic-permissions/v%FF/u%FF": {"exchange": "x", "write": "^{username}{vhost}", "read": ""},
        "policies/%2F/p%FF": {"pattern": "^q", "definition": {"max-length": (1 << 63) - 1}, "priority": -(1 << 63)},
        "global-parameters/g%FF": {"value": nested(60)},
        "vhost-limits/%2F/max-queues": {"value": (1 << 63) - 1},
    }.items():
        answer = http.put(f"/api/{path}", body)
        assert answer.status in (201, 204), (path, answer.body)
    bound = http.post("/api/bindings/%2F/e/x%FF/q/q%FF", {"routing_key": FITS, "arguments": {"a": [None, True, 1.5]}})
    assert bound.headers["Location"].startswith("q%FF/")


READ = """
    queues queues/%2F/amqp%00 queues/%2F/q%FF queues/%2F/q%EF%BF%BD queues/%2F/q%FF/bindings exchanges exchanges/%2F/x%FF
    exchanges/%2F/x%EF%BF%BD exchanges/%2F/x%FF/bindings/source bindings bindings/%2F/e/x%FF/q/q%FF vhosts vhosts/v%FF
    vhosts/v%EF%BF%BD users users/u%FF permissions permissions/v%FF/u%FF topic-permissions policies policies/%2F/p%FF
    parameters global-parameters global-parameters/g%FF vhost-limits overview definitions definitions/%2F
"""
COLUMNS = "?columns=name,vhost,arguments,routing_key,value"


def test_odd_names_are_kept_shown_and_found(tmp_path: Path) -> None:
    """SPEC §9.1: names are any octets; the API shows them as text, and finds them by either; after a kill too."""
    broker = Running(tmp_path, "--management-port", "0").__enter__()
    try:
        odd_things(broker)
        before = {path: broker.http().get(f"/api/{path}{COLUMNS}") for path in READ.split()}
    finally:
        broker.kill()
    assert "Traceback" not in broker.log
    with Running(tmp_path, "--management-port", "0") as again:
        http = again.http()
        assert {path: http.get(f"/api/{path}{COLUMNS}") for path in READ.split()} == before
        assert http.get("/api/queues/%2F/q%FF")["name"] == http.get("/api/queues/%2F/q%EF%BF%BD")["name"] == "q\ufffd"
        assert http.get(f"/api/queues/%2F/{http.quoted(FITS)}")["arguments"] == nested(TABLE_DEPTH_MAX - 1)
        # Two that are shown alike are told apart by their octets only.
        assert http.put("/api/queues/%2F/q%FE").status == 201
        assert http.ask("GET", "/api/queues/%2F/q%EF%BF%BD").status == 404
        assert http.delete("/api/queues/%2F/q%FE").status == 204
        message = {"routing_key": FITS, "properties": {}, "payload": "hello", "payload_encoding": "string"}
        assert http.post("/api/exchanges/%2F/x%FF/publish", message).json == {"routed": True}
        assert http.get("/api/queues/%2F/amqp%00")["arguments"] == {"k\ufffd": "\ufffd", "b": "\ufffd", "d": 1.5}
        (peeked,) = http.get("/api/queues/%2F/amqp%00/messages")
        assert (peeked["routing_key"], peeked["payload"]) == ("r\ufffd", "hello")
        got = http.post("/api/queues/%2F/q%FF/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}).json
        assert [(one["exchange"], one["routing_key"], one["payload"]) for one in got] == [("x\ufffd", FITS, "hello")]
        assert http.get("/api/bindings/%2F/e/x%FF/q/q%FF")[0]["routing_key"] == FITS
        for path in ("queues/%2F/q%EF%BF%BD", "exchanges/%2F/x%FF", "vhosts/v%FF", "users/u%FF", "policies/%2F/p%FF"):
            assert http.delete(f"/api/{path}").status == 204, path
        for path in ("/metrics", "/metrics/per-object"):
            assert http.ask("GET", path).status == 200


def test_nothing_that_is_refused_stops_the_next_start(tmp_path: Path) -> None:
    """SPEC §9.1: after all that is bad has come, a kill and a start find what was there before."""
    broker = Running(tmp_path, "--management-port", "0").__enter__()
    try:
        assert broker.http().put("/api/queues/%2F/target", {"durable": True}).status == 201
        place = Place(broker.http(), "/")
        before = place.state()
        tables = [json.dumps(table).encode() for table, _ in BAD_TABLES.values()] + list(BAD_TEXTS.values())
        for method, path, around in PLACES.values():
            for table in tables:
                assert (
                    broker.http().ask(method, path.replace("{vhost}", "%2F"), around.replace(b"TABLE", table)).status == 400
                )
        for path, body in BAD_VALUES.values():
            assert broker.http().put(path.replace("{vhost}", "%2F"), body).status == 400
    finally:
        broker.kill()
    assert "Traceback" not in broker.log
    with Running(tmp_path, "--management-port", "0") as again:
        assert Place(again.http(), "/").state() == before


ODD_VALUES: tuple[Any, ...] = (None, True, -1, 1.5, "x", ["x"], [[]], {"a": {}})
# Bodies that are right but for one value; the paths are in a vhost that has the queue `q`.
BODIES: dict[str, dict[str, Any]] = {
    "PUT /api/queues/{vhost}/new": {"durable": True, "auto_delete": False, "arguments": {}, "node": "x"},
    "PUT /api/exchanges/{vhost}/new": {"type": "direct", "durable": True, "internal": False, "arguments": {}},
    "POST /api/bindings/{vhost}/e/amq.topic/q/q": {"routing_key": "k", "arguments": {}},
    "POST /api/exchanges/{vhost}/amq.default/publish": {
        "routing_key": "q",
        "properties": {},
        "payload": "x",
        "payload_encoding": "string",
    },
    "POST /api/queues/{vhost}/q/get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 5},
    "POST /api/queues/{vhost}/q/move": {"exchange": "amq.topic", "routing_key": "k", "count": 1},
    "POST /api/queues/{vhost}/q/replay": {"queue": "q", "count": 1},
    "POST /api/queues/{vhost}/q/actions": {"action": "sync"},
    "PUT /api/policies/{vhost}/p": {"pattern": "", "definition": {"max-length": 5}, "priority": 0, "apply-to": "all"},
    "PUT /api/vhost-limits/{vhost}/max-queues": {"value": 100},
    "PUT /api/parameters/shovel/{vhost}/s": {"value": {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "q"}},
    "PUT /api/vhosts/{vhost}": {"description": "", "tags": "", "default_queue_type": "classic", "metadata": {}},
    "PUT /api/permissions/{vhost}/guest": {"configure": "", "write": "", "read": ""},
    "PUT /api/topic-permissions/{vhost}/guest": {"exchange": "amq.topic", "write": "", "read": ""},
    "POST /api/users/bulk-delete": {"users": ["none"]},
    "POST /api/leveret/authenticate": {"name": "guest", "password": "guest"},
}


@pytest.mark.parametrize(("route", "body"), BODIES.items(), ids=list(BODIES))
def test_value_of_another_type_is_refused_or_taken(route: str, body: dict[str, Any], http: Http, vhost: str) -> None:
    """SPEC §9.1: whatever stands in a body, the broker does not fail on it."""
    method, path = route.format(vhost=http.quoted(vhost)).split(" ")
    http.put(f"/api/queues/{http.quoted(vhost)}/q")
    for name in body:
        for odd in ODD_VALUES:
            answer = http.ask(method, path, {**body, name: odd})
            assert answer.status < 500, (name, odd, answer.body)
