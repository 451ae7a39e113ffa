"""A restart: everything durable is there again as it was, and nothing else."""

from typing import Any

import pytest
from tests.properties.dialogue import EVERY_TYPE
from tests.store.support import NOW, Rig, Taker, body, letter

from leveret.broker.broker import add_guest
from leveret.broker.dispatch import subscribe
from leveret.broker.message import Entry, is_stub
from leveret.broker.rewrite import make_origin
from leveret.broker.vhost import VirtualHost
from leveret.wire.content import properties_of
from leveret.wire.values import kind_of

ODD = ["with space", "ünï", "a\0b", "\udcff\udcfe", "caf\udce9", "'quoted'", "a\tb", "%2F", "x" * 255]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def headers(entry: Entry) -> dict[str, Any]:
    return dict(properties_of(entry.message.content, entry.message.header_size).headers or {})


def ready(rig: Rig, name: str) -> list[Entry]:
    return rig.vhost.queues[name].backlog.front.entries()


# Definitions


def test_vhosts_users_rights_and_parameters_are_back(rig: Rig) -> None:
    """SPEC §8.1: users, rights, limits and parameters survive a restart."""
    broker = rig.broker
    vhost = broker.add_vhost("v")
    vhost.describe("of its own", ("a", "b"))
    vhost.set_default_queue_type("quorum")
    vhost.set_tracing(True)
    vhost.parameters.set("vhost-limits", "limits", {"max-queues": 5, "max-connections": 7})
    broker.add_user("u", "secret", ("management",), loopback_only=True)
    broker.set_user_limits("u", {"max-channels": 3})
    broker.set_permissions("u", "v", "^c", "^w", "^r")
    broker.set_topic_permissions("u", "v", "amq.topic", "^a", "^b")
    broker.set_parameter("cluster_name", "leveret")
    broker.add_user("gone", "gone")
    broker.set_permissions("gone", "v", "", "", "")
    broker.set_topic_permissions("gone", "v", "amq.topic", "", "")
    broker.delete_user("gone")
    again = rig.restarted().broker
    assert again.vhosts.keys() == {"/", "v"}
    vhost = again.vhosts["v"]
    assert (vhost.description, vhost.tags, vhost.default_queue_type, vhost.tracing) == (
        "of its own",
        ("a", "b"),
        "quorum",
        True,
    )
    assert vhost.limits == {"max-queues": 5, "max-connections": 7}
    assert vhost.parameters.all() == {("vhost-limits", "limits"): {"max-queues": 5, "max-connections": 7}}
    assert vhost.parameters.values == {}
    assert again.users.keys() == {"u"}
    user = again.users["u"]
    assert user.has_password(b"secret")
    assert (user.tags, user.loopback_only, user.limits) == (("management",), True, {"max-channels": 3})
    rights = user.rights["v"]
    assert [rights.pattern(name) for name in ("configure", "write", "read")] == ["^c", "^w", "^r"]
    assert rights.topics == {"amq.topic": ("^a", "^b")}
    assert again.parameters == {"cluster_name": "leveret"}


def test_what_was_removed_stays_removed(rig: Rig) -> None:
    """SPEC §8.1: what was deleted before the end is not back."""
    vhost, broker = rig.vhost, rig.broker
    broker.add_vhost("v").declare_queue("q", durable=True)
    add_guest(broker)
    vhost.declare_exchange("x", "fanout", durable=True)
    vhost.bind("x", rig.queue("q"), "", {})
    vhost.policies.set("p", ".*", {"max-length": 5})
    vhost.operator_policies.set("o", ".*", {"max-length": 5})
    vhost.parameters.set("shovel", "s", {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://"})
    broker.set_parameter("g", 1)
    rig.settle_down()
    broker.delete_vhost("v")
    broker.delete_user("guest")
    vhost.unbind("x", vhost.queues["q"], "", {}, None)
    vhost.delete_exchange("x")
    vhost.delete_queue("q", None)
    vhost.policies.clear("p")
    vhost.operator_policies.clear("o")
    vhost.parameters.clear("shovel", "s")
    broker.clear_parameter("g")
    again = rig.restarted()
    assert [(kind, vhost) for kind, vhost, _, _ in again.definitions.rows()] == [("vhost", "/")]
    assert again.vhost.queues == {}
    assert not again.opened.fresh


def test_policies_are_followed_again(rig: Rig) -> None:
    """SPEC §8.1: policies survive a restart, and count for what was there."""
    rig.queue("q")
    rig.vhost.policies.set("low", ".*", {"max-length": 9}, priority=1, apply_to="queues")
    rig.vhost.policies.set("high", "^q", {"max-length": 3, "overflow": "reject-publish"}, priority=2)
    rig.vhost.operator_policies.set("operator", ".*", {"max-length": 2})
    again = rig.restarted()
    queue = again.vhost.queues["q"]
    assert queue.policy is not None
    assert queue.operator_policy is not None
    assert (queue.policy.name, queue.operator_policy.name) == ("high", "operator")
    assert (queue.settings.max_length, queue.settings.overflow) == (2, "reject-publish")


def test_exchanges_queues_and_bindings_are_back_with_their_types(rig: Rig) -> None:
    """SPEC §8.1: durable exchanges, queues and bindings survive with all their arguments as they were."""
    vhost = rig.vhost
    arguments = {"x-message-ttl": 5000, "x-expires": 60_000, **EVERY_TYPE}
    queue = rig.queue("q", arguments=arguments, auto_delete=True)
    vhost.declare_exchange("in", "topic", durable=True, arguments={"alternate-exchange": "out", **EVERY_TYPE})
    vhost.declare_exchange("out", "headers", durable=True, auto_delete=True, internal=True)
    vhost.bind("in", queue, "a.#", EVERY_TYPE)
    vhost.bind("in", queue, "a.#", {})
    vhost.bind("amq.direct", queue, "key", {})
    vhost.bind("in", vhost.exchanges["out"], "b", {})
    vhost.bind("out", queue, "", {"x-match": "all", **EVERY_TYPE})
    again = rig.restarted().vhost
    found = again.queues["q"]
    assert (found.durable, found.auto_delete, found.owner, found.arguments) == (True, True, None, arguments)
    assert [kind_of(value) for value in found.arguments.values()] == [kind_of(value) for value in arguments.values()]
    assert found.queue_expiry is not None
    exchange = again.exchanges["out"]
    assert (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal) == ("headers", True, True, True)
    assert again.exchanges["in"].arguments["alternate-exchange"] == "out"

    def bindings(vhost: VirtualHost) -> list[str]:
        return sorted(
            repr((name, binding.destination.name, binding.routing_key, binding.arguments))
            for name, exchange in vhost.exchanges.items()
            for binding in exchange.bindings.values()
        )

    assert bindings(again) == bindings(vhost)
    assert len(found.bindings) == 4


def test_transient_and_exclusive_things_are_gone(rig: Rig) -> None:
    """SPEC §8.1: transient queues, exchanges, bindings and messages do not survive; nor does what is exclusive."""
    vhost = rig.vhost
    rig.queue("transient", durable=False)
    rig.queue("exclusive", durable=True, owner=object())
    rig.queue("durable")
    vhost.declare_exchange("x", "fanout")
    vhost.declare_exchange("y", "fanout", durable=True)
    vhost.bind("x", vhost.queues["durable"], "", {})
    vhost.bind("y", vhost.queues["transient"], "", {})
    for mode in (1, 2):
        rig.publish(letter(b"%d" % mode, "durable", delivery_mode=mode))
        rig.publish(letter(b"%d" % mode, "transient", delivery_mode=mode))
    again = rig.restarted()
    assert list(again.vhost.queues) == ["durable"]
    assert "x" not in again.vhost.exchanges
    assert again.vhost.exchanges["y"].bindings == {}
    assert again.vhost.queues["durable"].bindings == {}
    assert again.bodies("durable") == [b"2"]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_survive(rig: Rig, name: str) -> None:
    """SPEC §8.1: names of any octets survive: of queues, exchanges, keys and vhosts."""
    queue = rig.queue(name)
    rig.vhost.declare_exchange(name, "direct", durable=True)
    rig.vhost.bind(name, queue, name, {name[:200]: name})
    rig.publish(letter(b"x", name, name))
    rig.broker.add_vhost(name).declare_queue(name, durable=True)
    rig.broker.add_user(name, "secret")
    rig.broker.set_permissions(name, name, "", "", "")
    again = rig.restarted()
    (entry,) = ready(again, name)
    assert (entry.message.origin.exchange, entry.message.origin.routing_key) == (name, name)
    again.publish(letter(b"y", name, name))
    assert again.bodies(name) == [b"x", b"y"]
    assert name in again.broker.vhosts[name].queues
    again.vhost.unbind(name, again.vhost.queues[name], name, {name[:200]: name}, None)
    again.vhost.delete_queue(name, None)
    last = again.restarted()
    assert name not in last.vhost.queues
    assert last.vhost.exchanges[name].bindings == {}


def test_bindings_whose_names_run_together_are_told_apart(rig: Rig) -> None:
    """SPEC §8.1: two bindings are two, however their names are made."""
    for name in ("a", "a\0queue\0b", "b"):
        rig.vhost.declare_exchange(name, "direct", durable=True)
        rig.queue(name)
    rig.vhost.bind("a", rig.vhost.queues["b"], "b\0k", {})
    rig.vhost.bind("a\0queue\0b", rig.vhost.queues["b"], "k", {})
    again = rig.restarted().vhost
    assert [len(again.exchanges[name].bindings) for name in ("a", "a\0queue\0b")] == [1, 1]


def test_server_named_queue_survives(rig: Rig) -> None:
    """SPEC §8.1: a durable queue that the broker has named is back by that name."""
    name = rig.queue("").name
    rig.publish(letter(b"x", name))
    assert rig.restarted().bodies(name) == [b"x"]


def test_limit_that_is_exceeded_already_does_not_keep_queues_away(rig: Rig) -> None:
    """SPEC §7: what is there when a limit is set stays, after a restart too."""
    for number in range(3):
        rig.queue(str(number))
    rig.vhost.set_limits({"max-queues": 1})
    assert len(rig.restarted().vhost.queues) == 3


def test_guest_is_not_made_again(rig: Rig) -> None:
    """SPEC §7: who was deleted is not back after a restart."""
    add_guest(rig.broker)
    rig.broker.add_user("other", "other")
    rig.settle_down()
    rig.broker.delete_user("guest")
    again = rig.restarted()
    assert not again.opened.fresh
    assert list(again.broker.users) == ["other"]


# Messages


def test_messages_are_back_in_order_with_all_they_had(rig: Rig) -> None:
    """SPEC §8.1: persistent messages on durable queues survive in order, content and properties unchanged."""
    rig.queue("q")
    messages = [
        letter(b"%d" % number, headers=EVERY_TYPE, priority=number % 256, message_id=str(number)) for number in range(50)
    ]
    for message in messages:
        rig.publish(message)
    again = rig.restarted()
    assert [entry.message.content for entry in ready(again, "q")] == [message.content for message in messages]
    assert not any(entry.redelivered for entry in ready(again, "q"))


def test_large_message_survives(rig: Rig) -> None:
    """SPEC §8.1: a message larger than a segment is like any other."""
    rig.queue("q")
    large = bytes(range(256)) * 1024
    rig.publish(letter(large))
    rig.publish(letter(b"behind"))
    assert rig.restarted().bodies("q") == [large, b"behind"]


def test_priorities_are_kept(rig: Rig) -> None:
    """SPEC §8.1: messages come in the order of their priorities, and as they came within one."""
    rig.queue("q", arguments={"x-max-priority": 5})
    for number in range(12):
        rig.publish(letter(b"%d" % number, priority=number % 3))
    before = rig.bodies("q")
    assert rig.restarted().bodies("q") == before


def test_unacknowledged_are_back_where_they_were(rig: Rig) -> None:
    """SPEC §8.3: what was delivered and not acknowledged is back in its place, with its count."""
    rig.queue("q", arguments={"x-queue-type": "quorum"})
    for number in range(4):
        rig.publish(letter(b"%d" % number))
    taken = [rig.take("q") for _ in range(3)]
    rig.vhost.queues["q"].settle(taken[1])
    rig.vhost.queues["q"].requeue([taken[2]])
    rig.settle_down()
    again = rig.again()
    assert again.bodies("q") == [b"0", b"2", b"3"]
    assert [entry.delivery_count for entry in ready(again, "q")] == [0, 1, 0]
    assert headers(ready(again, "q")[1]) == {"x-delivery-count": 1}


def test_time_to_live_goes_on_while_the_broker_is_down(rig: Rig) -> None:
    """SPEC §8.1: what is left of a message's time is counted by the clock, not by the broker's days."""
    rig.queue("grave")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    rig.queue("q", arguments={"x-message-ttl": 10_000, **dead_letters})
    rig.queue("own", arguments=dead_letters)
    rig.broker.work.budget.now = NOW
    rig.publish(letter(b"first"))
    rig.publish(letter(b"own", "own", expiration="4000"))
    rig.publish(letter(b"later", "own", expiration="20000"))
    rig.broker.work.budget.now = NOW + 3000
    rig.publish(letter(b"second"))
    again = rig.restarted(now=NOW + 10_500)
    again.later(NOW + 10_500)
    assert again.bodies("q") == [b"second"]
    assert again.bodies("own") == [b"later"]
    assert sorted(again.bodies("grave")) == [b"first", b"own"]
    again.later(NOW + 13_000)
    assert again.bodies("q") == []
    again.later(NOW + 20_000)
    assert again.bodies("own") == []
    last = again.restarted(now=NOW + 20_000)
    deaths = {body(entry.message): headers(entry)["x-death"] for entry in ready(last, "grave")}
    assert {content: (death["queue"], death["reason"], death["count"]) for content, (death,) in deaths.items()} == {
        b"first": ("q", "expired", 1),
        b"second": ("q", "expired", 1),
        b"own": ("own", "expired", 1),
        b"later": ("own", "expired", 1),
    }


def test_time_that_a_policy_gave_still_counts(rig: Rig) -> None:
    """SPEC §8.1: messages that a policy has given a time to live do not stay for ever after a restart."""
    rig.queue("q")
    rig.publish(letter(b"x"))
    rig.settle_down()
    rig.vhost.policies.set("p", ".*", {"message-ttl": 5000})
    again = rig.restarted(now=NOW + 1000)
    again.later(NOW + 1000)
    assert again.bodies("q") == [b"x"]
    again.later(NOW + 6000)
    assert again.vhost.queues["q"].ready_count == 0


def test_deaths_go_on_being_counted(rig: Rig) -> None:
    """SPEC §8.1: x-death is there after a restart, and grows."""
    rig.queue("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    rig.publish(letter(b"x"))
    for count in range(1, 4):
        entry = rig.take("q")
        rig.vhost.queues["q"].reject(entry)
        rig = rig.restarted()
        (entry,) = ready(rig, "q")
        assert [(death["reason"], death["count"]) for death in headers(entry)["x-death"]] == [("rejected", count)]


def test_delayed_messages_wait_on(rig: Rig) -> None:
    """SPEC §8.1: what a durable delayed exchange holds comes when it is due, down or not."""
    rig.vhost.declare_exchange("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    rig.vhost.bind("later", rig.queue("q"), "q", {})
    for number, delay in enumerate((9000, 3000, 5000)):
        rig.publish(letter(b"%d" % number, "q", "later", headers={"x-delay": delay}))
    again = rig.restarted(now=NOW + 4000)
    again.later(NOW + 4000)
    assert again.bodies("q") == [b"1"]
    again = again.restarted(now=NOW + 4500)
    again.later(NOW + 5000)
    assert again.bodies("q") == [b"1", b"2"]
    again.later(NOW + 9000)
    last = again.restarted(now=NOW + 9000)
    assert last.bodies("q") == [b"1", b"2", b"0"]
    assert [headers(entry)["x-delay"] for entry in ready(last, "q")] == [-3000, -5000, -9000]
    last.vhost.delete_exchange("later")
    assert "later" not in last.restarted().vhost.exchanges


def test_what_is_there_is_still_told_apart(rig: Rig) -> None:
    """SPEC §8.1: a queue that deduplicates knows the keys of what it has."""
    rig.queue("q", arguments={"x-message-deduplication": True})
    rig.publish(letter(b"one", headers={"x-deduplication-header": "key"}))
    again = rig.restarted()
    again.publish(letter(b"two", headers={"x-deduplication-header": "key"}))
    assert again.bodies("q") == [b"one"]
    entry = again.take("q")
    again.vhost.queues["q"].settle(entry)
    again.publish(letter(b"three", headers={"x-deduplication-header": "key"}))
    assert again.bodies("q") == [b"three"]


def test_queue_deleted_and_declared_again_is_empty(rig: Rig) -> None:
    """SPEC §8.1: a queue made anew gets nothing of its namesake, nor after many restarts."""
    for number in range(4):
        rig.queue("q")
        rig.publish(letter(b"%d" % number))
        rig.publish(letter(b"unacknowledged"))
        rig.take("q")
        rig.settle_down()
        rig.vhost.delete_queue("q", None)
        rig.queue("q")
        rig = rig.restarted()
        assert rig.bodies("q") == []


def test_length_limits_count_what_is_back(rig: Rig) -> None:
    """SPEC §8.1: counts and sizes are right after a restart, and limits are kept."""
    rig.queue("q", arguments={"x-max-length": 3})
    for number in range(5):
        rig.publish(letter(b"%d" % number))
    again = rig.restarted()
    queue = again.vhost.queues["q"]
    assert (queue.ready_count, queue.ready_bytes, again.bodies("q")) == (3, 3, [b"2", b"3", b"4"])
    again.publish(letter(b"5"))
    assert again.bodies("q") == [b"3", b"4", b"5"]


def test_consumer_gets_what_is_back(rig: Rig) -> None:
    """SPEC §8.1: recovered messages are delivered in order, before new ones."""
    rig.queue("q")
    for number in range(3):
        rig.publish(letter(b"%d" % number))
    again = rig.restarted()
    taker = Taker()
    subscribe(again.vhost.queues["q"], taker)
    again.publish(letter(b"new"))
    assert [body(entry.message) for entry in taker.taken] == [b"0", b"1", b"2", b"new"]
    assert again.restarted().bodies("q") == []


def test_what_a_client_gave_back_to_a_quorum_queue_stays_at_its_end(rig: Rig) -> None:
    """SPEC §4.3, §8.1: in its new place, once, with its count and the rest of its time, also if that has been copied."""
    rig.queue("q", arguments={"x-queue-type": "quorum", "x-message-ttl": 60_000})
    rig.broker.work.budget.now = NOW
    for number in range(4):
        rig.publish(letter(b"%d" % number, delivery_mode=2))
    queue = rig.vhost.queues["q"]
    for _ in range(2):
        queue.requeue([rig.take("q"), rig.take("q")], True)
        rig.settle_down()
    queue.requeue([rig.take("q")], True)
    expected = [(b"1", 1, NOW + 60_000), (b"2", 1, NOW + 60_000), (b"3", 1, NOW + 60_000), (b"0", 2, NOW + 60_000)]
    rig.settle_down()
    for again in (rig, rig.again(), rig.restarted()):
        found = [(body(entry.message), entry.delivery_count, entry.expires_at) for entry in ready(again, "q")]
        assert found == expected
        assert again.vhost.queues["q"].next_seq == 10


def test_stub_that_is_given_back_to_a_quorum_queue_goes_to_its_end(rig: Rig) -> None:
    """SPEC §8.5: of what is unacknowledged beyond the window the content is read again for that."""
    rig.queue("q", arguments={"x-queue-type": "quorum"})
    for number in range(3):
        rig.publish(letter(b"%d" % number))
    rig.settle_down()
    queue, entry = rig.vhost.queues["q"], rig.take("q")
    rig.store.evict(queue, [entry])
    rig.settle_down()
    assert is_stub(entry.message)
    queue.requeue([entry], True)
    rig.settle_down()
    assert rig.again().bodies("q") == [b"1", b"2", b"0"]


def test_blind_copies_are_kept(rig: Rig) -> None:
    """SPEC §3.6 BCC, §8.1: a dead letter goes by these keys after a restart too, however long they are."""
    rig.queue("q")
    message = letter(b"x")
    message.origin = make_origin("", "q", ("b", "", "long" * 1000))
    rig.publish(message)
    again = rig.restarted()
    (entry,) = ready(again, "q")
    assert entry.message.origin.blind == message.origin.blind
    assert (entry.message.origin.routing_key, entry.message.origin.address) == ("q", message.origin.address)
