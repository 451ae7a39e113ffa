"""Each error that closes a channel or a connection: code, text, class and method, and what works afterwards.

A fault is a row: its name, the broker's words (`{q}` and `{x}` stand for a queue's and an exchange's name, unused
before) and the steps that lead to it. A step is a method of pika.spec, sent on channel 1; BasicProperties, sent as the
content header of an empty body; or bytes, sent as they are. The broker blames the last method, unless the row says so.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pika import frame
from pika.spec import Basic, BasicProperties, Channel, Confirm, Connection, Exchange, Queue, Tx

if TYPE_CHECKING:
    from tests.interop.conftest import Broker, RawClient

Q, X = "{q}", "{x}"
NOTHING = (0, 0)
CODES = {
    "ACCESS_REFUSED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_LOCKED": 405,
    "PRECONDITION_FAILED": 406,
    "FRAME_ERROR": 501,
    "COMMAND_INVALID": 503,
    "CHANNEL_ERROR": 504,
    "UNEXPECTED_FRAME": 505,
    "NOT_ALLOWED": 530,
    "NOT_IMPLEMENTED": 540,
}


class Fault(NamedTuple):
    text: str
    steps: Sequence[Any]
    blamed: tuple[int, int]
    elsewhere: Sequence[Any]  # done before on another connection, which stays open


def fault(name: str, text: str, *steps: Any, blame: Any = None, elsewhere: Sequence[Any] = ()) -> Any:
    methods = [step for step in steps if hasattr(step, "INDEX") and not isinstance(step, BasicProperties)]
    last = blame or (methods and methods[-1])
    blamed = divmod(last.INDEX, 1 << 16) if last else NOTHING
    return pytest.param(Fault(text, steps, blamed, elsewhere), id=name)


def raw_frame(kind: int, payload: bytes, channel: int = 1, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def header(class_id: int, weight: int = 0, body_size: int = 0, channel: int = 1) -> bytes:
    return raw_frame(2, struct.pack(">HHQH", class_id, weight, body_size, 0), channel)


def on_channel(number: int, method: Any) -> bytes:
    data: bytes = frame.Method(number, method).marshal()
    return data


def declare(queue: str = Q, **arguments: Any) -> Any:
    return Queue.Declare(queue=queue, **arguments)


def exchange(name: str = X, type: str = "direct", alternate: Any = None, **arguments: Any) -> Any:
    arguments["arguments"] = {} if alternate is None else {"alternate-exchange": alternate}
    return Exchange.Declare(exchange=name, type=type, **arguments)


def bind(queue: str = Q, exchange: str = X, x_match: Any = None) -> Any:
    return Queue.Bind(queue=queue, exchange=exchange, arguments={} if x_match is None else {"x-match": x_match})


def consume(queue: str = Q, **arguments: Any) -> Any:
    return Basic.Consume(queue=queue, **arguments)


DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"
EXCLUSIVE_USE = "ACCESS_REFUSED - queue '{q}' in vhost '/' in exclusive use"
QUORUM = {"x-queue-type": "quorum"}
SINGLE = {"x-single-active-consumer": True}

REFUSED = [
    fault(
        "declare of a reserved queue name",
        "ACCESS_REFUSED - queue name 'amq.interop' contains reserved prefix 'amq.*'",
        declare("amq.interop"),
    ),
    fault(
        "declare of a reserved exchange name",
        "ACCESS_REFUSED - exchange name 'amq.interop' contains reserved prefix 'amq.*'",
        exchange("amq.interop"),
    ),
    fault("declare of the default exchange", DEFAULT_EXCHANGE, exchange("")),
    fault("passive declare of the default exchange", DEFAULT_EXCHANGE, exchange("", passive=True)),
    fault("delete of the default exchange", DEFAULT_EXCHANGE, Exchange.Delete(exchange="")),
    fault("bind to the default exchange", DEFAULT_EXCHANGE, declare(), bind(exchange="")),
    fault("unbind from the default exchange", DEFAULT_EXCHANGE, declare(), Queue.Unbind(queue=Q, exchange="")),
    fault("exchange bind from the default", DEFAULT_EXCHANGE, Exchange.Bind(destination="amq.fanout", source="")),
    fault("exchange bind to the default", DEFAULT_EXCHANGE, Exchange.Bind(destination="", source="amq.fanout")),
    fault("exchange unbind from the default", DEFAULT_EXCHANGE, Exchange.Unbind(destination="amq.fanout", source="")),
    fault(
        "delete of a predeclared exchange",
        "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        Exchange.Delete(exchange="amq.direct"),
    ),
    fault(
        "delete of a reserved name that does not exist",
        "ACCESS_REFUSED - deletion of system exchange 'amq.interop' in vhost '/' not allowed",
        Exchange.Delete(exchange="amq.interop"),
    ),
    fault(  # SPEC §3.3 internal
        "publish to an internal exchange",
        "ACCESS_REFUSED - cannot publish to internal exchange '{x}' in vhost '/'",
        *(exchange(internal=True), Basic.Publish(exchange=X), BasicProperties()),
    ),
    fault("exclusive consume beside a consumer", EXCLUSIVE_USE, declare(), consume(), consume(exclusive=True)),
    fault("consume beside an exclusive consumer", EXCLUSIVE_USE, declare(), consume(exclusive=True), consume()),
    fault(
        "exclusive consume where one is active",
        EXCLUSIVE_USE,
        *(declare(arguments=SINGLE), consume(exclusive=True)),
    ),
]

NO_QUEUE = "NOT_FOUND - no queue '{q}' in vhost '/'"
NO_EXCHANGE = "NOT_FOUND - no exchange '{x}' in vhost '/'"
NONE_DECLARED = "NOT_FOUND - no previously declared queue"

MISSING = [
    fault("passive declare of no queue", NO_QUEUE, declare(passive=True)),
    fault("passive declare of a reserved name", NO_QUEUE.format(q="amq.interop"), declare("amq.interop", passive=True)),
    fault("get from no queue", NO_QUEUE, Basic.Get(queue=Q)),
    fault("consume from no queue", NO_QUEUE, consume()),
    fault("purge of no queue", NO_QUEUE, Queue.Purge(queue=Q)),
    fault("bind of no queue", NO_QUEUE, bind(exchange="amq.direct")),
    fault("bind to no exchange", NO_EXCHANGE, declare(), bind()),
    fault("bind of no queue to no exchange", NO_EXCHANGE, bind()),
    fault("passive declare of no exchange", NO_EXCHANGE, exchange(passive=True)),
    fault("publish to no exchange", NO_EXCHANGE, Basic.Publish(exchange=X), BasicProperties()),
    fault("exchange bind from no exchange", NO_EXCHANGE, Exchange.Bind(destination="amq.fanout", source=X)),
    fault("exchange bind to no exchange", NO_EXCHANGE, Exchange.Bind(destination=X, source="amq.fanout")),
    fault("get without a name", NONE_DECLARED, Basic.Get()),
    fault("consume without a name", NONE_DECLARED, Basic.Consume()),
    fault("purge without a name", NONE_DECLARED, Queue.Purge()),
    fault("delete without a name", NONE_DECLARED, Queue.Delete()),
    fault("bind without a name", NONE_DECLARED, Queue.Bind(exchange="amq.direct")),
    fault("unbind without a name", NONE_DECLARED, Queue.Unbind(exchange="amq.direct")),
    fault("text over 255 bytes", f"NOT_FOUND - no queue '{'q' * 230}...", declare("q" * 250, passive=True)),
]

LOCK = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{q}' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)
OWNED = [declare(exclusive=True), bind(exchange="amq.direct")]

LOCKED = [
    fault("declare of another's queue", LOCK, declare(exclusive=True), elsewhere=OWNED),
    fault("passive declare of another's queue", LOCK, declare(passive=True), elsewhere=OWNED),
    fault("consume from another's queue", LOCK, consume(), elsewhere=OWNED),
    fault("get from another's queue", LOCK, Basic.Get(queue=Q), elsewhere=OWNED),
    fault("bind of another's queue", LOCK, bind(exchange="amq.fanout"), elsewhere=OWNED),
    fault("unbind of another's queue", LOCK, Queue.Unbind(queue=Q, exchange="amq.direct"), elsewhere=OWNED),
    fault("purge of another's queue", LOCK, Queue.Purge(queue=Q), elsewhere=OWNED),
    fault("delete of another's queue", LOCK, Queue.Delete(queue=Q), elsewhere=OWNED),
    fault("exclusive queue redeclared without exclusive", LOCK, declare(exclusive=True), declare()),
    fault("queue redeclared with exclusive", LOCK, declare(), declare(exclusive=True)),
    fault(
        "get from a quorum queue with a single active consumer",
        "RESOURCE_LOCKED - cannot obtain access to locked queue '{q}' in vhost '/'. basic.get operations are not "
        "supported by quorum queues with single active consumer",
        *(declare(durable=True, arguments=QUORUM | SINGLE), Basic.Get(queue=Q)),
    ),
]


def inequivalent(argument: str, received: str, current: str, first: Any, second: Any) -> Any:
    kind, name = ("queue", Q) if isinstance(first, Queue.Declare) else ("exchange", first.exchange)
    text = f"inequivalent arg '{argument}' for {kind} '{name}' in vhost '/': received {received} but current is {current}"
    return fault(f"{kind} {argument} {received}", f"PRECONDITION_FAILED - {text}", first, second)


def publish_refused(name: str, text: str, **properties: Any) -> Any:
    return fault(name, f"PRECONDITION_FAILED - {text}", Basic.Publish(), BasicProperties(**properties))


UNKNOWN_TAG = "PRECONDITION_FAILED - unknown delivery tag "
A, B = "the value 'a' of type 'longstr'", "the value 'b' of type 'longstr'"

PRECONDITIONS = [
    # SPEC §4.1 equivalence check
    inequivalent("durable", "'true'", "'false'", declare(), declare(durable=True)),
    inequivalent("durable", "'false'", "'true'", declare(durable=True), declare()),
    inequivalent("auto_delete", "'true'", "'false'", declare(), declare(auto_delete=True)),
    inequivalent("type", "'topic'", "'direct'", exchange(), exchange(type="topic")),
    inequivalent("durable", "'true'", "'false'", exchange(), exchange(durable=True)),
    inequivalent("auto_delete", "'true'", "'false'", exchange(), exchange(auto_delete=True)),
    inequivalent("internal", "'true'", "'false'", exchange(), exchange(internal=True)),
    inequivalent("alternate-exchange", "'b'", "'a'", exchange(alternate="a"), exchange(alternate="b")),
    inequivalent("alternate-exchange", B, "none", exchange(), exchange(alternate="b")),
    inequivalent("alternate-exchange", "none", A, exchange(alternate="a"), exchange()),
    fault(
        "predeclared exchange of another type",
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': "
        "received 'fanout' but current is 'direct'",
        exchange("amq.direct", "fanout", durable=True),
    ),
    fault(
        "alternate exchange that is no name",
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange '{x}' in vhost '/'",
        exchange(alternate=5),
    ),
    fault("unknown exchange type", "PRECONDITION_FAILED - unknown exchange type 'interop-no'", exchange(X, "interop-no")),
    # SPEC §6.3 unknown tag
    fault("ack of an unknown tag", UNKNOWN_TAG + "7", Basic.Ack(7)),
    fault("multiple ack of an unknown tag", UNKNOWN_TAG + "7", Basic.Ack(7, multiple=True)),
    fault("single ack of tag 0", UNKNOWN_TAG + "0", Basic.Ack(0)),
    fault("ack of the largest tag", UNKNOWN_TAG + "9223372036854775807", Basic.Ack(2**63 - 1)),
    fault("nack of an unknown tag", UNKNOWN_TAG + "7", Basic.Nack(7)),
    fault("reject of an unknown tag", UNKNOWN_TAG + "7", Basic.Reject(7)),
    fault(
        "delete of a used queue if unused",
        "PRECONDITION_FAILED - queue '{q}' in vhost '/' in use",
        *(declare(), consume(), Queue.Delete(queue=Q, if_unused=True)),
    ),
    fault(
        "delete of a full queue if empty",
        "PRECONDITION_FAILED - queue '{q}' in vhost '/' not empty",
        *(declare(), Basic.Publish(routing_key=Q), BasicProperties(), Queue.Delete(queue=Q, if_empty=True)),
    ),
    fault(
        "delete of a bound exchange if unused",
        "PRECONDITION_FAILED - exchange '{x}' in vhost '/' in use",
        *(declare(), exchange(), bind(), Exchange.Delete(exchange=X, if_unused=True)),
    ),
    fault(
        "x-match of an unknown word",
        'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        *(declare(), bind(exchange="amq.headers", x_match="some")),
    ),
    fault(
        "x-match that is no word",
        "PRECONDITION_FAILED - Invalid x-match field type signedint (value 5); expected longstr",
        *(declare(), bind(exchange="amq.headers", x_match=5)),
    ),
    publish_refused("expiration that is no number", "invalid expiration 'soon': no_integer", expiration="soon"),
    publish_refused("expiration that is empty", "invalid expiration '': no_integer", expiration=""),
    publish_refused("expiration with a unit", "invalid expiration '9s': {{leftover_string,\"s\"}}", expiration="9s"),
    publish_refused("expiration below zero", "invalid expiration '-1': {{value_negative,-1}}", expiration="-1"),
    publish_refused(
        "expiration beyond ten years",
        "invalid expiration '315360000001': {{value_too_large,315360000001}}",
        expiration="315360000001",
    ),
    publish_refused(  # SPEC §2.3 user-id
        "user-id of somebody else",
        "user_id property set to 'somebody' but authenticated user was 'guest'",
        user_id="somebody",
    ),
]


def bad_argument(name: str, value: Any, why: str, **others: Any) -> Any:
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{{q}}' in vhost '/': {why}"
    return fault(f"{name} {value}", text, declare(durable=True, arguments={name: value} | others))


def inequivalent_argument(name: str, received: Any, current: Any, first: dict[str, Any], second: dict[str, Any]) -> Any:
    return inequivalent(name, received, current, declare(arguments=first), declare(arguments=second))


def not_quorum(name: str, value: Any) -> Any:
    text = f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{{q}}' in vhost '/' of queue type rabbit_quorum_queue"
    return fault(f"quorum queue with {name}", text, declare(durable=True, arguments=QUORUM | {name: value}))


# SPEC §4.2 bad values
ARGUMENTS = [
    bad_argument("x-message-ttl", "10", '"expected integer, got longstr"'),
    bad_argument("x-message-ttl", -1, "{{value_negative,-1}}"),
    bad_argument("x-message-ttl", 315360000001, "{{value_too_large,315360000001}}"),
    bad_argument("x-expires", 0, "{{value_zero,0}}"),
    bad_argument("x-expires", -1, "{{value_negative,-1}}"),
    bad_argument("x-expires", 315360000001, "{{value_too_large,315360000001}}"),
    bad_argument("x-max-length", -1, "{{value_negative,-1}}"),
    bad_argument("x-max-length", True, '"expected integer, got bool"'),
    bad_argument("x-max-length-bytes", -1, "{{value_negative,-1}}"),
    bad_argument("x-overflow", "explode", "invalid_overflow"),
    bad_argument("x-overflow", 5, "{{unacceptable_type,signedint}}"),
    bad_argument("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    bad_argument("x-dead-letter-strategy", "twice", "invalid_dlx_strategy", **QUORUM),
    bad_argument("x-max-priority", -1, "{{value_negative,-1}}"),
    bad_argument("x-max-priority", 256, "{{max_value_exceeded,256}}"),
    bad_argument("x-single-active-consumer", "true", "{{unacceptable_type,longstr}}"),
    bad_argument("x-queue-mode", "hasty", "\"unsupported queue mode 'hasty'\""),
    bad_argument("x-queue-version", 3, "\"unsupported queue version '3'\""),
    bad_argument("x-queue-type", "heap", "\"unsupported queue type 'heap'\""),
    bad_argument("x-queue-type", 1, "{{unacceptable_type,signedint}}"),
    bad_argument("x-queue-leader-locator", "nearest", "invalid_queue_locator_arg", **QUORUM),
    bad_argument("x-quorum-initial-group-size", 0, "{{value_zero,0}}", **QUORUM),
    bad_argument("x-delivery-limit", -1, "{{value_negative,-1}}", **QUORUM),
    bad_argument("x-ha-policy", "some", "invalid_ha_policy"),
    bad_argument("x-ha-nodes", "a", "{{unacceptable_type,longstr}}"),
    bad_argument("x-message-deduplication", "yes", "{{unacceptable_type,longstr}}"),
    bad_argument("x-cache-size", -1, "{{value_negative,-1}}"),
    fault(
        "x-dead-letter-exchange that is no name",
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue '{q}' in vhost '/'",
        declare(arguments={"x-dead-letter-exchange": 1}),
    ),
    not_quorum("x-max-priority", 5),
    not_quorum("x-queue-mode", "lazy"),
    fault(
        "quorum queue that is exclusive",
        "PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue '{q}' in vhost '/'",
        declare(durable=True, exclusive=True, arguments=QUORUM),
    ),
    fault(
        "quorum queue that deletes itself",
        "PRECONDITION_FAILED - invalid property 'auto-delete' for queue '{q}' in vhost '/'",
        declare(durable=True, auto_delete=True, arguments=QUORUM),
    ),
    fault(
        "quorum queue that is not durable",
        "PRECONDITION_FAILED - invalid property 'non-durable' for queue '{q}' in vhost '/'",
        declare(arguments=QUORUM),
    ),
    fault(
        "quorum queue without a name",
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue",
        declare("", durable=True, arguments=QUORUM),
    ),
    inequivalent_argument("x-message-ttl", "'20'", "'10'", {"x-message-ttl": 10}, {"x-message-ttl": 20}),
    inequivalent_argument(
        "x-message-ttl", "none", "the value '10' of type 'signedint'", {"x-message-ttl": 10}, {"x-max-length": 5}
    ),
    inequivalent_argument("x-expires", "the value '60000' of type 'signedint'", "none", {}, {"x-expires": 60000}),
    inequivalent_argument("x-queue-type", "'quorum'", "'classic'", {"x-queue-type": "classic"}, QUORUM),
]

REPLY_TO = "amq.rabbitmq.reply-to"
FULL = {"x-max-length": 0, "x-overflow": "reject-publish"}

MODES = [
    fault(
        "transaction after confirms",
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
        *(Confirm.Select(), Tx.Select()),
    ),
    fault(
        "confirms after a transaction",
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
        *(Tx.Select(), Confirm.Select()),
    ),
    fault("commit of nothing", "PRECONDITION_FAILED - channel is not transactional", Tx.Commit()),
    fault("rollback of nothing", "PRECONDITION_FAILED - channel is not transactional", Tx.Rollback()),
    fault(
        "commit that a queue refuses",
        "PRECONDITION_FAILED - partial tx completion",
        *(declare(arguments=FULL), Tx.Select(), Basic.Publish(routing_key=Q), BasicProperties(), Tx.Commit()),
    ),
    publish_refused("question without a consumer", "fast reply consumer does not exist", reply_to=REPLY_TO),
    fault(
        "consumer of answers that acknowledges",
        "PRECONDITION_FAILED - reply consumer cannot acknowledge",
        consume(REPLY_TO),
    ),
    fault(
        "second consumer of answers",
        "PRECONDITION_FAILED - reply consumer already set",
        *(consume(REPLY_TO, no_ack=True), consume(REPLY_TO, no_ack=True)),
    ),
    fault(
        "consumer with a priority that is none",
        "PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{q}' in vhost '/': \"expected integer, got longstr\"",
        *(declare(), consume(arguments={"x-priority": "high"})),
    ),
]

FRAME_ERRORS = [
    fault(
        "frame that ends wrongly",
        "FRAME_ERROR - type 1, all octets = <<0,20,0,10,0>>: {{invalid_frame_end_marker,0}}",
        raw_frame(1, b"\x00\x14\x00\x0a\x00", end=b"\x00"),
    ),
    fault(
        "frame over frame-max",
        "FRAME_ERROR - type 3, all octets = <<>>: {{frame_too_large,131073,131064}}",
        struct.pack(">BHI", 3, 1, 131073),
    ),
    fault("frame of an unknown type", "FRAME_ERROR - type 4, all octets = <<>>: unknown_frame", raw_frame(4, b"")),
    fault(
        "frame of an unknown type on channel 0",
        'FRAME_ERROR - type 5, all octets = <<"hello">>: unknown_frame',
        raw_frame(5, b"hello", channel=0),
    ),
    fault(
        "heartbeat with a payload",
        'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame',
        raw_frame(8, b"x", channel=0),
    ),
    fault(
        "method cut short",
        "FRAME_ERROR - cannot decode <<0,0,5,97>>",
        raw_frame(1, b"\x00\x32\x00\x0a\x00\x00\x05a"),
        blame=Queue.Declare,
    ),
    fault(
        "name that is no UTF-8",
        "FRAME_ERROR - Malformed UTF-8 in shortstr",
        raw_frame(1, b"\x00\x32\x00\x0a\x00\x00\x01\xff\x00\x00\x00\x00\x00"),
    ),
    fault(
        "body longer than announced",
        "FRAME_ERROR - content body frame exceeds remaining content size",
        *(Basic.Publish(), header(60, body_size=3), raw_frame(3, b"four")),
    ),
]

UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"
NOT_OPEN = "CHANNEL_ERROR - expected 'channel.open'"
RUNNING = "CHANNEL_ERROR - unexpected method in connection state running"

OUT_OF_PLACE = [
    fault("queue.declare-ok from a client", UNIMPLEMENTED, Queue.DeclareOk("q", 0, 0)),
    fault("basic.get-empty from a client", UNIMPLEMENTED, Basic.GetEmpty()),
    fault("channel.open-ok from a client", UNIMPLEMENTED, Channel.OpenOk()),
    fault("connection.close on a channel", UNIMPLEMENTED, Connection.Close(200, "", 0, 0)),
    fault("method on a channel not open", NOT_OPEN, on_channel(2, Basic.Qos()), blame=Basic.Qos),
    fault("close of a channel not open", NOT_OPEN, on_channel(2, Channel.Close(200, "", 0, 0)), blame=Channel.Close),
    fault("channel opened twice", "CHANNEL_ERROR - second 'channel.open' seen", Channel.Open()),
    fault("queue.declare on channel 0", RUNNING, on_channel(0, Queue.Declare()), blame=Queue.Declare),
    fault("channel.open on channel 0", RUNNING, on_channel(0, Channel.Open()), blame=Channel.Open),
    fault("second tune-ok", RUNNING, on_channel(0, Connection.TuneOk()), blame=Connection.TuneOk),
    fault("second connection.open", RUNNING, on_channel(0, Connection.Open()), blame=Connection.Open),
]

NO_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
NO_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"

UNEXPECTED_FRAMES = [
    fault("heartbeat on a channel", "UNEXPECTED_FRAME - type 8, all octets = <<>>", raw_frame(8, b"")),
    fault(
        "content header on channel 0",
        "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>",
        header(60, channel=0),
    ),
    fault(
        "body on channel 0",
        'UNEXPECTED_FRAME - type 3, first 16 octets = <<"0123456789abcdef">>',
        raw_frame(3, b"0123456789abcdefg", channel=0),
    ),
    fault("content header without publish", NO_METHOD, header(60)),
    fault("body without publish", NO_METHOD, raw_frame(3, b"body")),
    fault("publish followed by a method", NO_HEADER, Basic.Publish(), Basic.Qos(), blame=Basic.Publish),
    fault("publish followed by a body", NO_HEADER, Basic.Publish(), raw_frame(3, b"body")),
    fault("content header with a weight", NO_HEADER, Basic.Publish(), header(60, weight=1)),
    fault(
        "content header of another class",
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        *(Basic.Publish(), header(50)),
    ),
    fault("body cut off by a method", NO_BODY, Basic.Publish(), header(60, body_size=5), Basic.Qos(), blame=Basic.Publish),
    fault("body cut off by a header", NO_BODY, Basic.Publish(), header(60, body_size=5), raw_frame(3, b"abc"), header(60)),
]

NOT_OFFERED = [
    fault(
        "consumer tag used twice",
        "NOT_ALLOWED - attempt to reuse consumer tag 'twice'",
        *(declare(), consume(consumer_tag="twice"), consume(consumer_tag="twice")),
    ),
    fault(  # SPEC §5.1 immediate
        "publish with immediate",
        "NOT_IMPLEMENTED - immediate=true",
        *(Basic.Publish(immediate=True), BasicProperties()),
    ),
    fault("flow off", "NOT_IMPLEMENTED - active=false", Channel.Flow(False)),
    fault("recover without requeue", "NOT_IMPLEMENTED - requeue=false", Basic.Recover(False)),
    fault("recover-async without requeue", "NOT_IMPLEMENTED - requeue=false", Basic.RecoverAsync(False)),
    fault(
        "delete of a quorum queue if unused",
        "NOT_IMPLEMENTED - cannot delete queue '{q}' in vhost '/'. queue.delete operations with if-unused flag set are "
        "not supported by quorum queues",
        *(declare(durable=True, arguments=QUORUM), Queue.Delete(queue=Q, if_unused=True)),
    ),
    fault(
        "delete of a quorum queue if empty",
        "NOT_IMPLEMENTED - cannot delete queue '{q}' in vhost '/'. queue.delete operations with if-empty flag set are "
        "not supported by quorum queues",
        *(declare(durable=True, arguments=QUORUM), Queue.Delete(queue=Q, if_empty=True)),
    ),
    fault(
        "global prefetch for a quorum queue",
        "NOT_IMPLEMENTED - queue '{q}' in vhost '/' does not support global qos",
        *(declare(durable=True, arguments=QUORUM), Basic.Qos(prefetch_count=1, global_qos=True), consume()),
    ),
]


def take(client: RawClient, step: Any, names: dict[str, str]) -> None:
    """Do a step, waiting for the reply if the method has one."""
    if isinstance(step, bytes):
        client.send(step)
    elif isinstance(step, BasicProperties):
        client.send(frame.Header(1, 0, step).marshal())
    elif step.synchronous:
        client.call(filled(step, names))
    else:
        client.send_method(filled(step, names))


def filled(method: Any, names: dict[str, str]) -> Any:
    """Return the method with names in place of {q} and {x}."""
    method = copy(method)
    vars(method).update({key: names.get(value, value) for key, value in vars(method).items() if isinstance(value, str)})
    return method


def cut(text: str) -> str:
    return text if len(text) <= 255 else text[:252] + "..."


def provoke(fault: Fault, broker: Broker, client: RawClient, unique: Callable[[], str]) -> None:
    """Take the steps of a fault and check that the broker closes with its words."""
    names = {Q: unique(), X: unique()}
    with broker.login() as other:
        for step in fault.elsewhere:
            take(other, step, names)
        *before, last = fault.steps
        for step in before:
            take(client, step, names)
        if getattr(last, "synchronous", False):
            client.send_method(filled(last, names))
        else:
            take(client, last, names)
        text = cut(fault.text.format(q=names[Q], x=names[X]))
        assert client.read_close() == (CODES[text.split(" ")[0]], text, *fault.blamed)


@pytest.fixture(autouse=True)
def _others_are_not_disturbed(broker: Broker) -> Iterator[None]:
    yield
    broker.check_alive()


@pytest.mark.parametrize("fault", REFUSED + MISSING + LOCKED + PRECONDITIONS + ARGUMENTS + MODES)
def test_fault_closes_only_its_channel(broker: Broker, unique: Callable[[], str], fault: Fault) -> None:
    with broker.login() as client:
        provoke(fault, broker, client, unique)
        client.call(Channel.Open(), channel=2)
        client.call(Channel.Open(), channel=1)


@pytest.mark.parametrize("fault", FRAME_ERRORS + OUT_OF_PLACE + UNEXPECTED_FRAMES + NOT_OFFERED)
def test_fault_closes_its_connection(broker: Broker, unique: Callable[[], str], fault: Fault) -> None:
    with broker.login() as client:
        provoke(fault, broker, client, unique)
        with pytest.raises(EOFError):
            client.read()


def test_channel_beyond_channel_max_closes_the_connection(broker: Broker) -> None:
    with broker.login(channel_max=1) as client:
        client.send_method(Channel.Open(), channel=2)
        text = "NOT_ALLOWED - number of channels opened (1) has reached the negotiated channel_max (1)"
        assert client.read_close() == (530, text, 0, 0)


def test_channel_errors_on_two_channels_are_independent(broker: Broker, unique: Callable[[], str]) -> None:
    with broker.login() as client:
        client.call(Channel.Open(), channel=2)
        name = unique()
        client.send_method(Queue.Declare(queue=name, passive=True), channel=1)
        assert client.read_close().code == 404
        assert client.call(Queue.Declare(queue=name), channel=2).queue == name


def test_what_follows_a_fault_is_ignored_until_close_ok(broker: Broker, unique: Callable[[], str]) -> None:
    name = unique()
    with broker.login() as client:
        client.send(on_channel(1, Queue.Declare(queue=name, passive=True)) + on_channel(1, Queue.Declare(queue=name)))
        assert client.read_close().code == 404
        client.call(Channel.Open())
        client.send_method(Queue.Declare(queue=name, passive=True))
        assert client.read_close().code == 404


def await_end(client: RawClient) -> None:
    """Read until the broker has hung up, agreeing to a close if it sends one."""
    with suppress(EOFError):
        while True:
            client.read_close()


@pytest.mark.parametrize(("channel", "ids"), [(1, b"\x00\x63\x00\x0a"), (1, b"\x00\x32\x00\x63"), (0, b"\x00\x63\x00\x0a")])
def test_unknown_class_or_method_ends_the_connection(broker: Broker, channel: int, ids: bytes) -> None:
    # RabbitMQ: its reader crashes, so the socket closes without connection.close.
    with broker.login() as client:
        client.send(raw_frame(1, ids, channel))
        await_end(client)


@pytest.mark.parametrize(
    "opening", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x02", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"]
)
def test_wrong_protocol_header_is_answered_with_the_right_one(broker: Broker, opening: bytes) -> None:
    with broker.connect() as client:
        client.send(opening)
        assert client.receive_all() == b"AMQP\x00\x00\x09\x01"


def tuned(client: RawClient) -> None:
    client.start()
    client.start_ok()
    client.expect(Connection.Tune)
    client.tune_ok()


@pytest.mark.parametrize(
    ("step", "close"),
    [
        (Connection.Open("interop-no-such"), (530, "NOT_ALLOWED - vhost interop-no-such not found", 10, 40)),
        (Connection.TuneOk(), (504, "CHANNEL_ERROR - unexpected method in connection state opening", 10, 31)),
        (
            raw_frame(1, b"\x00\x14\x00\x0a\x00"),
            (505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", 0, 0),
        ),
    ],
    ids=["unknown vhost", "second tune-ok", "channel.open before connection.open"],
)
def test_fault_after_tune_ok_closes_with_a_reason(broker: Broker, step: Any, close: tuple[Any, ...]) -> None:
    with broker.connect() as client:
        tuned(client)
        client.send(step if isinstance(step, bytes) else on_channel(0, step))
        assert client.read_close() == close


def test_refused_login_is_explained_to_a_client_that_understands(broker: Broker) -> None:
    with broker.connect() as client:
        client.start()
        client.start_ok(response="\0guest\0wrong", capabilities=("authentication_failure_close",))
        text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
        assert client.read_close() == (403, text, 0, 0)


def started(**start_ok: Any) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        client.start()
        client.start_ok(**start_ok)

    return run


def answering_tune(*methods: Any) -> Callable[[RawClient], None]:
    def run(client: RawClient) -> None:
        started()(client)
        client.expect(Connection.Tune)
        for method in methods:
            client.send_method(method, channel=0)

    return run


def oversized_start_ok(client: RawClient) -> None:
    client.start()
    client.send(struct.pack(">BHI", 1, 0, 4097))


SILENT = {
    "wrong password": started(response="\0guest\0wrong"),
    "unknown user": started(response="\0nobody\0guest"),
    "malformed login": started(response="guest"),
    "unknown mechanism": started(mechanism="INTEROP", capabilities=("authentication_failure_close",)),
    "frame over 4096 bytes before tune-ok": oversized_start_ok,
    "connection.open before tune-ok": answering_tune(Connection.Open("/")),
    "connection.close before tune-ok": answering_tune(Connection.Close(200, "", 0, 0)),
    "frame-max below 4096": answering_tune(Connection.TuneOk(2047, 4095, 0)),
    "frame-max above the broker's": answering_tune(Connection.TuneOk(2047, 131073, 0)),
    "frame-max unlimited": answering_tune(Connection.TuneOk(2047, 0, 0)),
    "channel-max above the broker's": answering_tune(Connection.TuneOk(2048, 131072, 0)),
    "channel-max unlimited": answering_tune(Connection.TuneOk(0, 131072, 0)),
}


@pytest.fixture(scope="module")
def silent_ends(broker: Broker) -> Iterator[dict[str, Future[str]]]:
    """Commit all the faults of SILENT at once, since the broker takes seconds to answer each."""

    def commit(handshake: Callable[[RawClient], None]) -> str:
        with broker.connect() as client:
            handshake(client)
            try:
                return f"answered: {client.read()}"
            except EOFError:
                return "closed"

    with ThreadPoolExecutor(len(SILENT)) as pool:
        yield {name: pool.submit(commit, handshake) for name, handshake in SILENT.items()}


@pytest.mark.parametrize("name", SILENT)
def test_fault_before_tune_ok_is_accepted_closes_without_a_word(silent_ends: dict[str, Future[str]], name: str) -> None:
    assert silent_ends[name].result() == "closed"
