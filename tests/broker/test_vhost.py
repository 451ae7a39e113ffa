"""A virtual host: declaring, deleting and binding, with what each does to the others."""

from __future__ import annotations

import gc
import itertools
from typing import TYPE_CHECKING, Any, cast

import pytest

from leveret.broker.broker import Broker
from leveret.broker.dispatch import cancel, push, subscribe
from leveret.broker.equivalence import check_same_argument, described, plain
from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.errors import AccessRefused, AMQPError, NotFound, PreconditionFailed, ResourceLocked
from leveret.wire.values import Short, Table

if TYPE_CHECKING:
    from tests.broker.conftest import NewListener, Routes


def own(vhost: VirtualHost) -> list[str]:
    """The exchanges that were not there from the beginning."""
    return [name for name in vhost.exchanges if name and not name.startswith("amq.")]


def finish(vhost: VirtualHost) -> None:
    """Do what is left to do."""
    vhost.work.budget.begin()
    while not vhost.work.drain():
        vhost.work.budget.begin()


def refused(error: type[AMQPError], text: str) -> pytest.RaisesExc[AMQPError]:
    return pytest.raises(error, check=lambda raised: str(raised) == text)


# Exchanges


def test_predeclared_exchanges(vhost: VirtualHost) -> None:
    found = {name: (x.kind, x.durable, x.auto_delete, x.internal) for name, x in vhost.exchanges.items()}
    assert found == {
        "": ("direct", True, False, False),
        "amq.direct": ("direct", True, False, False),
        "amq.fanout": ("fanout", True, False, False),
        "amq.topic": ("topic", True, False, False),
        "amq.headers": ("headers", True, False, False),
        "amq.match": ("headers", True, False, False),
        "amq.rabbitmq.trace": ("topic", True, False, True),
    }


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_exchange_is_made_once(vhost: VirtualHost, kind: str) -> None:
    made = vhost.declare_exchange("x", kind, durable=True, auto_delete=True, internal=True, arguments={"a": 1})
    again = vhost.declare_exchange("x", kind, durable=True, auto_delete=True, internal=True, arguments={"b": 1})
    assert again is made is vhost.exchange("x") is vhost.find_exchange("x\n")
    assert (made.kind, made.title, made.arguments) == (kind, "exchange 'x' in vhost '/'", {"a": 1})


def test_titles_name_the_vhost(broker: Broker) -> None:
    vhost = broker.add_vhost("v")
    assert vhost.exchange_title("x") == "exchange 'x' in vhost 'v'"
    assert vhost.queue_title("q") == "queue 'q' in vhost 'v'"


def test_exchange_names_that_are_refused(vhost: VirtualHost) -> None:
    with refused(PreconditionFailed, "unknown exchange type 'odd'"):
        vhost.declare_exchange("", "odd")
    with refused(AccessRefused, "operation not permitted on the default exchange"):
        vhost.declare_exchange("\r\n", "direct")
    with refused(AccessRefused, "exchange name 'amq.x' contains reserved prefix 'amq.*'"):
        vhost.declare_exchange("amq.x", "direct")
    with refused(PreconditionFailed, "invalid type 'bool' for arg 'alternate-exchange' in exchange 'x' in vhost '/'"):
        vhost.declare_exchange("x", "direct", arguments={"alternate-exchange": True})
    with refused(NotFound, "no exchange 'x' in vhost '/'"):
        vhost.find_exchange("x")
    with refused(AccessRefused, "operation not permitted on the default exchange"):
        vhost.find_exchange("")
    with refused(NotFound, "no exchange 'x' in vhost '/'"):
        vhost.exchange("x")
    assert own(vhost) == []


@pytest.mark.parametrize("field", ["durable", "auto_delete", "internal"])
@pytest.mark.parametrize("value", [True, False])
def test_exchange_fields_must_stay_the_same(vhost: VirtualHost, field: str, value: bool) -> None:
    fields: dict[str, Any] = {"durable": False, "auto_delete": False, "internal": False, field: value}
    vhost.declare_exchange("x", "direct", **fields)
    text = (
        f"inequivalent arg '{field}' for exchange 'x' in vhost '/': "
        f"received '{str(not value).lower()}' but current is '{str(value).lower()}'"
    )
    with refused(PreconditionFailed, text):
        vhost.declare_exchange("x", "direct", **{**fields, field: not value})


def test_exchange_type_must_stay_the_same(vhost: VirtualHost) -> None:
    with refused(
        PreconditionFailed,
        "inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received 'direct' but current is 'topic'",
    ):
        vhost.declare_exchange("amq.topic", "direct", durable=True)


@pytest.mark.parametrize(
    ("received", "current", "words"),
    [
        ({"a": 1}, {"a": 2}, "received '1' but current is '2'"),
        ({"a": "x"}, {"a": "y"}, "received 'x' but current is 'y'"),
        ({"a": "10"}, {"a": 10}, "received '10' but current is '10'"),
        ({}, {"a": 10}, "received none but current is the value '10' of type 'long'"),
        ({"a": True}, {}, "received the value 'true' of type 'bool' but current is none"),
    ],
)
def test_arguments_that_differ(received: Table, current: Table, words: str) -> None:
    with refused(PreconditionFailed, f"inequivalent arg 'a' for queue 'q': {words}"):
        check_same_argument("a", "queue 'q'", received, current)


def test_arguments_that_do_not_differ() -> None:
    check_same_argument("a", "", {}, {})
    check_same_argument("a", "", {"a": 1, "b": 2}, {"a": 1})
    assert described({}, "a") == "none"
    assert (plain(True), plain(5), plain("Text")) == ("true", "5", "Text")


def test_deleted_exchange_takes_its_bindings_along(vhost: VirtualHost) -> None:
    exchange = vhost.declare_exchange("x", "direct")
    queue = vhost.declare_queue("q")
    vhost.bind("x", queue, "k", {})
    vhost.bind("amq.direct", exchange, "k", {})
    vhost.bind("x", exchange, "self", {})
    vhost.delete_exchange("x")
    assert (exchange.deleted, exchange.bindings, exchange.inbound, queue.bindings) == (True, {}, {}, {})
    assert vhost.exchanges["amq.direct"].bindings == {}


def test_exchanges_that_are_not_deleted(vhost: VirtualHost) -> None:
    vhost.delete_exchange("nowhere")
    with refused(AccessRefused, "operation not permitted on the default exchange"):
        vhost.delete_exchange("")
    with refused(AccessRefused, "deletion of system exchange 'amq.direct' in vhost '/' not allowed"):
        vhost.delete_exchange("amq.direct")
    exchange = vhost.declare_exchange("x", "direct")
    vhost.bind("x", vhost.declare_queue("q"), "k", {})
    with refused(PreconditionFailed, "exchange 'x' in vhost '/' in use"):
        vhost.delete_exchange("x", if_unused=True)
    assert not exchange.deleted


def test_exchange_that_is_only_bound_to_is_unused(vhost: VirtualHost) -> None:
    vhost.bind("amq.direct", vhost.declare_exchange("x", "direct"), "k", {})
    vhost.delete_exchange("x", if_unused=True)
    assert own(vhost) == []


# Queues


def test_queue_is_made_once(vhost: VirtualHost) -> None:
    made = vhost.declare_queue("q", durable=True, auto_delete=True, arguments={"a": 1})
    assert vhost.declare_queue("q\r\n", durable=True, auto_delete=True) is made is vhost.queue("q", None)
    assert (made.name, made.title, made.arguments) == ("q", "queue 'q' in vhost '/'", {"a": 1})


def test_queues_are_named_by_the_broker(vhost: VirtualHost) -> None:
    names = {vhost.declare_queue("").name for _ in range(50)}
    assert len(names) == 50
    assert all(name.startswith("amq.gen-") for name in names)
    assert set(vhost.queues) == names


def test_queue_names_that_are_refused(vhost: VirtualHost) -> None:
    with refused(AccessRefused, "queue name 'amq.q' contains reserved prefix 'amq.*'"):
        vhost.declare_queue("amq.q")
    with refused(NotFound, "no queue 'q' in vhost '/'"):
        vhost.queue("q", None)


@pytest.mark.parametrize("field", ["durable", "auto_delete"])
def test_queue_fields_must_stay_the_same(vhost: VirtualHost, field: str) -> None:
    vhost.declare_queue("q")
    with refused(
        PreconditionFailed, f"inequivalent arg '{field}' for queue 'q' in vhost '/': received 'true' but current is 'false'"
    ):
        vhost.declare_queue("q", **cast("dict[str, Any]", {field: True}))


LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)


def test_exclusive_queue_is_its_owners(vhost: VirtualHost) -> None:
    me, other = object(), object()
    queue = vhost.declare_queue("q", durable=True, owner=me)
    assert (queue.owner, queue.durable) == (me, False)
    assert vhost.declare_queue("q", durable=True, owner=me) is queue is vhost.queue("q", me)
    for somebody in (other, None):
        with refused(ResourceLocked, LOCKED):
            vhost.declare_queue("q", owner=somebody)
        with refused(ResourceLocked, LOCKED):
            vhost.queue("q", somebody)
        with refused(ResourceLocked, LOCKED):
            vhost.delete_queue("q", somebody)


def test_shared_queue_cannot_become_exclusive(vhost: VirtualHost) -> None:
    vhost.declare_queue("q")
    with refused(ResourceLocked, LOCKED):
        vhost.declare_queue("q", owner=object())
    assert vhost.queue("q", object()).owner is None


def test_deleted_queue_takes_its_bindings_along(vhost: VirtualHost, routes: Routes) -> None:
    queue = vhost.declare_queue("q")
    vhost.bind("amq.direct", queue, "k", {})
    vhost.bind("amq.topic", queue, "#", {})
    assert vhost.delete_queue("q\n", None) == 0
    assert (queue.deleted, queue.bindings, vhost.queues) == (True, {}, {})
    assert routes("amq.direct", "k") == routes("amq.topic", "k") == routes("", "q") == []
    assert vhost.delete_queue("q", None) == 0


def test_queues_that_are_not_deleted(vhost: VirtualHost, new_listener: NewListener) -> None:
    from leveret.broker.message import Origin, new_message

    queue = vhost.declare_queue("q")
    push(queue, new_message(Origin("", "q", b""), b"", 14, 0, 1, False), 0)
    listener = new_listener(count=1)
    push(queue, new_message(Origin("", "q", b""), b"", 14, 0, 1, False), 0)
    subscribe(queue, listener)
    with refused(PreconditionFailed, "queue 'q' in vhost '/' not empty"):
        vhost.delete_queue("q", None, if_unused=True, if_empty=True)
    with refused(PreconditionFailed, "queue 'q' in vhost '/' in use"):
        vhost.delete_queue("q", None, if_unused=True)
    assert vhost.delete_queue("q", None) == 1


def test_auto_delete_queue_goes_with_its_last_consumer(
    broker: Broker, vhost: VirtualHost, new_listener: NewListener
) -> None:
    queue = vhost.declare_queue("q", auto_delete=True)
    listener = new_listener()
    subscribe(queue, listener)
    cancel(queue, listener)
    assert broker.work.drain()
    assert vhost.queues == {}


def test_auto_delete_queue_stays_if_somebody_came_in_time(
    broker: Broker, vhost: VirtualHost, new_listener: NewListener
) -> None:
    queue = vhost.declare_queue("q", auto_delete=True)
    first, second = new_listener("a"), new_listener("b")
    subscribe(queue, first)
    cancel(queue, first)
    subscribe(queue, second)
    assert broker.work.drain()
    assert list(vhost.queues) == ["q"]


def test_auto_delete_queue_may_be_deleted_in_between(broker: Broker, vhost: VirtualHost, new_listener: NewListener) -> None:
    queue = vhost.declare_queue("q", auto_delete=True)
    listener = new_listener()
    subscribe(queue, listener)
    cancel(queue, listener)
    vhost.delete_queue("q", None)
    again = vhost.declare_queue("q")
    assert broker.work.drain()
    assert vhost.queues == {"q": again}


# Bindings


def test_binding_twice_is_binding_once(vhost: VirtualHost, routes: Routes) -> None:
    queue = vhost.declare_queue("q")
    for _ in range(2):
        vhost.bind("amq.direct", queue, "k", {"a": 1})
    vhost.bind("amq.direct", queue, "k", {"a": 2})
    assert len(queue.bindings) == len(vhost.exchanges["amq.direct"].bindings) == 2
    vhost.unbind("amq.direct", queue, "k", {"a": 1}, None)
    assert routes("amq.direct", "k") == ["q"]
    vhost.unbind("amq.direct", queue, "k", {"a": 2}, None)
    assert (routes("amq.direct", "k"), queue.bindings) == ([], {})


def test_binding_to_what_is_not_there(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q")
    with refused(NotFound, "no exchange 'x' in vhost '/'"):
        vhost.bind("x", queue, "k", {})
    vhost.unbind("x", queue, "k", {}, None)
    vhost.unbind("amq.direct", queue, "k", {}, None)


def test_binding_is_checked_by_the_exchange(vhost: VirtualHost) -> None:
    with pytest.raises(PreconditionFailed, match="Invalid x-match"):
        vhost.bind("amq.headers", vhost.declare_queue("q"), "", {"x-match": "odd"})
    assert vhost.exchanges["amq.headers"].bindings == {}


def test_unbinding_an_exclusive_queue_is_its_owners(vhost: VirtualHost) -> None:
    me = object()
    queue = vhost.declare_queue("q", owner=me)
    vhost.bind("amq.direct", queue, "k", {})
    vhost.unbind("amq.direct", queue, "not bound", {}, None)
    with refused(ResourceLocked, LOCKED):
        vhost.unbind("amq.direct", queue, "k", {}, object())
    vhost.unbind("amq.direct", queue, "k", {}, me)
    assert queue.bindings == {}


def test_auto_delete_exchange_goes_with_the_last_binding_from_it(vhost: VirtualHost) -> None:
    exchange = vhost.declare_exchange("x", "direct", auto_delete=True)
    queue = vhost.declare_queue("q")
    vhost.bind("amq.direct", exchange, "in", {})
    vhost.unbind("amq.direct", exchange, "in", {}, None)
    assert own(vhost) == ["x"]
    vhost.bind("x", queue, "a", {})
    vhost.bind("x", queue, "b", {})
    vhost.unbind("x", queue, "a", {}, None)
    assert own(vhost) == ["x"]
    vhost.delete_queue("q", None)
    assert (own(vhost), exchange.deleted) == ([], True)


def test_auto_delete_exchanges_in_a_chain_all_go(vhost: VirtualHost) -> None:
    chain: list[Exchange] = [vhost.declare_exchange(f"x{n}", "fanout", auto_delete=True) for n in range(2000)]
    for source, destination in itertools.pairwise(chain):
        vhost.bind(source.name, destination, "", {})
    vhost.bind(chain[-1].name, vhost.declare_queue("q"), "", {})
    vhost.delete_queue("q", None)
    assert vhost.unbinding() is not None
    finish(vhost)
    assert own(vhost) == []


def test_auto_delete_exchange_bound_to_itself(vhost: VirtualHost) -> None:
    exchange = vhost.declare_exchange("x", "fanout", auto_delete=True)
    vhost.bind("x", exchange, "", {})
    vhost.unbind("x", exchange, "", {}, None)
    assert own(vhost) == []


def test_deleting_an_exchange_takes_auto_delete_sources_along(vhost: VirtualHost) -> None:
    vhost.declare_exchange("source", "fanout", auto_delete=True)
    vhost.bind("source", vhost.declare_exchange("x", "fanout"), "", {})
    vhost.delete_exchange("x")
    assert own(vhost) == []


def test_auto_delete_exchanges_in_a_ring_go_together(vhost: VirtualHost) -> None:
    names = ("a", "b", "c")
    rings = {name: vhost.declare_exchange(name, "fanout", auto_delete=True) for name in names}
    for name, following in zip(names, ("b", "c", "a"), strict=True):
        vhost.bind(name, rings[following], "", {})
    vhost.unbind("a", rings["b"], "", {}, None)
    assert own(vhost) == []


def test_queue_without_a_type_is_a_classic_one(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q", arguments={"x-queue-type": "classic"})
    assert vhost.declare_queue("q") is queue
    other = vhost.declare_queue("other")
    assert vhost.declare_queue("other", arguments={"x-queue-type": "classic"}) is other
    text = "inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'"
    with refused(PreconditionFailed, text):
        vhost.declare_queue("q", arguments={"x-queue-type": "quorum"})


def test_quorum_queue_has_a_name_and_is_durable(vhost: VirtualHost) -> None:
    arguments: Table = {"x-queue-type": "quorum"}
    with refused(PreconditionFailed, "Cannot declare a server-named queue for type rabbit_quorum_queue"):
        vhost.declare_queue("", durable=True, arguments=arguments)
    with refused(PreconditionFailed, "invalid property 'non-durable' for queue 'q' in vhost '/'"):
        vhost.declare_queue("q", arguments=arguments)
    assert vhost.queues == {}
    assert vhost.declare_queue("q", durable=True, arguments=arguments).durable


def test_arguments_that_nobody_knows_may_differ(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q", arguments={"x-mine": 1})
    assert vhost.declare_queue("q", arguments={"x-mine": 2}) is queue
    assert queue.arguments == {"x-mine": 1}


def test_integers_of_any_width_are_the_same_argument(vhost: VirtualHost) -> None:
    queue = vhost.declare_queue("q", arguments={"x-message-ttl": 10})
    assert vhost.declare_queue("q", arguments={"x-message-ttl": Short(10)}) is queue
    text = "inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '20' but current is '10'"
    with refused(PreconditionFailed, text):
        vhost.declare_queue("q", arguments={"x-message-ttl": 20})


def test_bad_argument_leaves_no_queue(vhost: VirtualHost) -> None:
    with refused(PreconditionFailed, "invalid arg 'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}"):
        vhost.declare_queue("q", arguments={"x-max-length": -1})
    with refused(PreconditionFailed, "invalid type 'long' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"):
        vhost.declare_queue("q", arguments={"x-dead-letter-exchange": 1})
    assert vhost.queues == {}


# Many at once


def live_queues() -> int:
    return sum(isinstance(one, Queue) for one in gc.get_objects())


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-message-ttl": 1000, "x-dead-letter-exchange": "amq.fanout"},
        {"x-max-priority": 4, "x-max-length": 1},
        {"x-message-deduplication": True},
    ],
)
def test_deleted_queues_are_freed_at_once(vhost: VirtualHost, arguments: Table) -> None:
    """The garbage collector looks at what is old about never."""
    gc.collect()
    gc.disable()
    try:
        before = live_queues()
        for number in range(10):
            queue = vhost.declare_queue(f"q{number}", arguments=arguments, auto_delete=number % 2 == 1)
            vhost.bind("amq.direct", queue, "k", {})
            vhost.bind("amq.headers", queue, "k", {"a": number})
            del queue
            vhost.delete_queue(f"q{number}", None)
            finish(vhost)
        assert live_queues() == before
    finally:
        gc.enable()


def bind_many(vhost: VirtualHost, queue: Queue, source: str, count: int) -> None:
    for number in range(count):
        vhost.bind(source, queue, f"k{number}", {})


def test_bindings_of_a_large_queue_go_in_pieces(vhost: VirtualHost, routes: Routes) -> None:
    """Meanwhile the queue gets nothing more, and what would have gone there goes to the alternate exchange."""
    vhost.declare_exchange("other", "fanout")
    vhost.declare_exchange("x", "direct", auto_delete=True, arguments={"alternate-exchange": "other"})
    queue, spare = vhost.declare_queue("q"), vhost.declare_queue("spare")
    vhost.bind("other", spare, "", {})
    bind_many(vhost, queue, "x", 1000)
    vhost.work.budget.begin()
    vhost.delete_queue("q", None)
    assert queue.deleted
    assert "q" not in vhost.queues
    assert vhost.unbinding() is not None
    exchange = vhost.exchange("x")
    assert 0 < len(exchange.bindings) == len(queue.bindings) < 1000
    assert {vhost.route(exchange, f"k{number}", None)[0].name for number in range(1000)} == {"spare"}
    finish(vhost)
    assert vhost.unbinding() is None
    assert not queue.bindings
    assert own(vhost) == ["other"]


def test_bindings_of_a_large_exchange_go_in_pieces(vhost: VirtualHost) -> None:
    vhost.declare_exchange("first", "fanout")
    middle = vhost.declare_exchange("middle", "direct")
    queue = vhost.declare_queue("q")
    vhost.bind("first", middle, "", {})
    bind_many(vhost, queue, "middle", 1000)
    vhost.work.budget.begin()
    vhost.delete_exchange("middle")
    assert own(vhost) == ["first"]
    assert vhost.unbinding() is not None
    assert vhost.route(vhost.exchange("first"), "k1", None) == []
    finish(vhost)
    assert not queue.bindings
    assert not vhost.exchange("first").bindings


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-random"])
def test_what_chooses_one_chooses_none_that_is_deleted(vhost: VirtualHost, kind: str) -> None:
    exchange = vhost.declare_exchange("x", kind)
    queue = vhost.declare_queue("q")
    for number in range(1, 1001):
        vhost.bind("x", queue, str(number), {})
    vhost.work.budget.begin()
    vhost.delete_queue("q", None)
    assert vhost.route(exchange, "k", None) == []
    other = vhost.declare_queue("other")
    vhost.bind("x", other, "1", {})
    assert vhost.unbinding() is not None
    assert {queue.name for n in range(50) for queue in vhost.route(exchange, f"k{n}", None)} == {"other"}
