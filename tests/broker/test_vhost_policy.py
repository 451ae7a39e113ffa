"""Policies of a vhost: how what is there follows a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.broker.budget import PASS_BUDGET
from leveret.broker.dispatch import cancel, push, subscribe
from leveret.broker.policy import Policy
from leveret.broker.queue import Queue
from leveret.broker.timers import NEVER
from leveret.broker.vhost import VirtualHost
from leveret.broker.vhost_policy import REAPPLY_PIECE, Reapply
from leveret.wire.values import Table

if TYPE_CHECKING:
    from tests.broker.conftest import Later, NewLetter, NewListener, NewMessage, Routes

NOW = 1_700_000_000_000


def ready(queue: Queue) -> list[int]:
    seqs = [entry.seq for entry in queue.backlog.front.entries()]
    assert len(seqs) == queue.ready_count
    return seqs


def fill(queue: Queue, letter: NewLetter, count: int, now: int = NOW) -> None:
    for _ in range(count):
        assert push(queue, letter(), now)


def following(queue: Queue) -> Policy | None:
    return queue.policy


@pytest.fixture
def queue(vhost: VirtualHost, broker: Broker) -> Queue:
    broker.work.budget.now = NOW
    return vhost.declare_queue("q")


def test_queue_follows_and_is_restored(vhost: VirtualHost) -> None:
    """SPEC §7.6 policies: live queues, those of another name and the cleared policy"""
    queue = vhost.declare_queue("a.1", arguments={"x-max-length": 5})
    other = vhost.declare_queue("b.1")
    vhost.policies.set("p", "^a", {"max-length": 3, "dead-letter-exchange": "dlx"})
    assert (queue.settings.max_length, queue.settings.dead_letter_exchange) == (3, "dlx")
    assert following(queue) is vhost.policies.by_name["p"]
    assert (other.policy, other.settings.max_length, other.needs_checks) == (None, None, False)
    vhost.policies.set("p", "^a", {"max-length": 4})
    assert (queue.settings.max_length, queue.settings.dead_letter_exchange) == (4, None)
    vhost.policies.clear("p")
    assert following(queue) is None
    assert (queue.settings.max_length, queue.settings.dead_letter_exchange) == (5, None)


def test_cleared_policy_leaves_nothing_to_pay_for(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §7.6 policies"""
    vhost.policies.set("p", "", {"max-length": 1, "message-ttl": 1000})
    specials = [queue.needs_checks]
    vhost.policies.clear("p")
    assert [*specials, queue.needs_checks] == [True, False]
    fill(queue, letter, 3)
    assert [entry.expires_at for entry in queue.backlog.front.entries()] == [0, 0, 0]


def test_new_queue_and_exchange_follow_at_once(vhost: VirtualHost) -> None:
    """SPEC §7.6 policies: what is made later"""
    vhost.policies.set("p", "^a", {"max-length": 3, "alternate-exchange": "ae"})
    vhost.operator_policies.set("o", "^a", {"max-length": 2})
    queue = vhost.declare_queue("a")
    assert (queue.settings.max_length, queue.policy, queue.operator_policy) == (
        2,
        vhost.policies.by_name["p"],
        vhost.operator_policies.by_name["o"],
    )
    assert vhost.declare_exchange("a", "direct").alternate == "ae"
    assert vhost.declare_queue("b").settings.max_length is None


def test_operators_bound_is_not_exceeded(vhost: VirtualHost) -> None:
    """SPEC §7.6 operator policies: the smallest of argument, policy and operator's policy"""
    queue = vhost.declare_queue("q", arguments={"x-max-length": 10})
    vhost.operator_policies.set("o", "", {"max-length": 5})
    assert queue.settings.max_length == 5
    vhost.policies.set("p", "", {"max-length": 3})
    assert queue.settings.max_length == 3
    vhost.policies.set("p", "", {"max-length": 7})
    assert queue.settings.max_length == 5
    vhost.operator_policies.clear("o")
    assert queue.settings.max_length == 7


def test_arguments_go_before_policy_for_dead_letters(vhost: VirtualHost) -> None:
    """SPEC §4.2 dead-letter-exchange by policy and SPEC §4.2 dead-letter-routing-key by policy"""
    arguments: Table = {"x-dead-letter-exchange": "mine", "x-dead-letter-routing-key": "my key"}
    queue, other = vhost.declare_queue("q", arguments=arguments), vhost.declare_queue("other")
    vhost.policies.set("p", "", {"dead-letter-exchange": "dlx", "dead-letter-routing-key": "key"})
    assert (queue.settings.dead_letter_exchange, queue.settings.dead_letter_routing_key) == ("mine", "my key")
    assert (other.settings.dead_letter_exchange, other.settings.dead_letter_routing_key) == ("dlx", "key")


def test_overflow_changes_on_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §4.2 overflow by policy"""
    vhost.policies.set("p", "", {"max-length": 1, "overflow": "reject-publish"})
    fill(queue, letter, 1)
    assert not push(queue, letter(), NOW)
    vhost.policies.set("p", "", {"max-length": 1})
    fill(queue, letter, 1)
    assert ready(queue) == [2]


def test_delivery_limit_on_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §4.2 delivery-limit by policy"""
    fill(queue, letter, 1)
    vhost.policies.set("p", "", {"delivery-limit": 1})
    for left in (1, 0):
        entry = queue.take(False)
        assert entry is not None
        queue.requeue([entry])
        assert queue.ready_count == left


def test_alternate_exchange_by_policy(vhost: VirtualHost, broker: Broker, routes: Routes) -> None:
    """SPEC §3.3 alternate-exchange by policy, SPEC §7.6 live exchanges: arguments go before it, routes are forgotten."""
    vhost.declare_exchange("x", "direct")
    vhost.declare_exchange("own", "direct", arguments={"alternate-exchange": "amq.fanout"})
    vhost.bind("amq.topic", vhost.declare_queue("policy's"), "#", {})
    vhost.bind("amq.fanout", vhost.declare_queue("own"), "", {})
    assert routes("x") == []
    epoch = broker.epoch
    vhost.policies.set("p", "^(x|own)$", {"alternate-exchange": "amq.topic"}, apply_to="exchanges")
    assert (routes("x"), routes("own")) == (["policy's"], ["own"])
    assert broker.epoch > epoch
    vhost.policies.clear("p")
    assert (routes("x"), routes("own")) == ([], ["own"])


def test_default_exchange_has_no_alternate(vhost: VirtualHost, routes: Routes) -> None:
    """RabbitMQ 3.10.8: not even by a policy for everything."""
    vhost.bind("amq.fanout", vhost.declare_queue("q"), "", {})
    vhost.policies.set("p", "", {"alternate-exchange": "amq.fanout"})
    assert (routes("", "nowhere"), routes("amq.direct", "nowhere")) == ([], ["q"])


# Times to live


def test_waiting_messages_expire_a_ttl_after_the_change(
    vhost: VirtualHost, queue: Queue, broker: Broker, letter: NewLetter, later: Later
) -> None:
    """SPEC §4.2 message-ttl by policy, SPEC §7.6 live queues"""
    fill(queue, letter, 3)
    later(NOW + 5000)
    vhost.policies.set("p", "", {"message-ttl": 100})
    fill(queue, letter, 1, NOW + 5050)
    later(NOW + 5099)
    assert ready(queue) == [1, 2, 3, 4]
    later(NOW + 5100)
    assert ready(queue) == [4]
    later(NOW + 5150)
    assert (ready(queue), broker.timers.next_at()) == ([], NEVER)


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}])
@pytest.mark.parametrize("back_at", [50, 150])
def test_unacknowledged_messages_expire_too_when_they_come_back(
    vhost: VirtualHost, broker: Broker, letter: NewLetter, later: Later, arguments: Table, back_at: int
) -> None:
    """SPEC §7.6 policies, message-ttl: in time, though nobody asks for them"""
    later(NOW)
    queue = vhost.declare_queue("mortal", arguments=arguments)
    fill(queue, letter, 3)
    entries = [entry for entry in (queue.take(False), queue.take(False)) if entry is not None]
    vhost.policies.set("p", "", {"message-ttl": 100})
    later(NOW + back_at)
    queue.requeue(entries)
    fill(queue, letter, 1, NOW + back_at)
    later(max(NOW + 100, NOW + back_at))
    assert ready(queue) == [4]
    later(NOW + back_at + 100)
    assert (ready(queue), broker.timers.next_at()) == ([], NEVER)


def test_expired_message_is_not_given_to_a_consumer(
    vhost: VirtualHost, queue: Queue, letter: NewLetter, new_listener: NewListener, broker: Broker
) -> None:
    """SPEC §4.4 never to a consumer: expired messages, by policy either; no timer has run."""
    fill(queue, letter, 2)
    vhost.policies.set("p", "", {"message-ttl": 100})
    fill(queue, letter, 1, NOW + 50)
    broker.work.budget.now = NOW + 100
    listener = new_listener()
    subscribe(queue, listener)
    assert listener.seqs == [3]


def test_longer_ttl_does_not_extend(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies, message-ttl: nor does its end; but the shorter counts."""
    fill(queue, letter, 2)
    vhost.policies.set("p", "", {"message-ttl": 100})
    later(NOW + 10)
    vhost.policies.set("p", "", {"message-ttl": 1000})
    fill(queue, letter, 1, NOW + 10)
    later(NOW + 100)
    assert ready(queue) == [3]
    vhost.policies.set("p", "", {"message-ttl": 50})
    vhost.policies.clear("p")
    fill(queue, letter, 1, NOW + 100)
    later(NOW + 150)
    assert ready(queue) == [4]
    later(NOW + 100_000)
    assert ready(queue) == [4]


def test_message_that_came_later_is_not_cut_by_what_was_before(
    vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later
) -> None:
    """SPEC §7.6 policies, message-ttl: each change is for what was there; one holds a message all the while."""
    fill(queue, letter, 2)
    held = queue.take(False)
    assert held is not None
    vhost.policies.set("p", "", {"message-ttl": 100})
    vhost.policies.clear("p")
    fill(queue, letter, 2)
    later(NOW + 100)
    assert ready(queue) == [3, 4]
    vhost.policies.set("p", "", {"message-ttl": 1000})
    fill(queue, letter, 1, NOW + 100)
    later(NOW + 1099)
    assert ready(queue) == [3, 4, 5]
    later(NOW + 1100)
    assert ready(queue) == []
    queue.requeue([held])
    later(NOW + 1100)
    assert (ready(queue), queue.ready_count) == ([], 0)


def test_time_of_its_own_counts_if_it_is_shorter(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies, message-ttl and expiration"""
    for expiration in ("50", "500"):
        push(queue, letter(expiration=expiration), NOW)
    vhost.policies.set("p", "", {"message-ttl": 100})
    later(NOW + 50)
    assert ready(queue) == [2]
    later(NOW + 100)
    assert ready(queue) == []


def test_ttl_of_zero_drops_what_waits(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies, message-ttl"""
    fill(queue, letter, 5)
    vhost.policies.set("p", "", {"message-ttl": 0})
    later(NOW)
    assert queue.ready_count == 0


def test_endless_times_are_ten_years(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §7.6 policies: numbers of any size, in both builds"""
    fill(queue, letter, 1)
    vhost.policies.set(
        "p", "", {"message-ttl": 1 << 80, "expires": 1 << 80, "max-length": 1 << 80, "max-length-bytes": 1 << 80}
    )
    fill(queue, letter, 1)
    later(NOW + 315_359_999_999)
    assert ready(queue) == [1, 2]
    later(NOW + 315_360_000_000)
    assert queue.deleted


def test_ttl_costs_nothing_by_how_many_wait(vhost: VirtualHost, queue: Queue, broker: Broker, message: NewMessage) -> None:
    """SPEC §8.8 nobody is starved: the change is one step, and the dropping keeps to the budget."""
    one = message()
    for _ in range(10_000):
        push(queue, one, NOW)
    broker.work.budget.begin()
    vhost.policies.set("p", "", {"message-ttl": 100})
    assert broker.work.budget.left > PASS_BUDGET - 200
    broker.work.budget.now = NOW + 100
    broker.work.budget.begin()
    broker.timers.run(NOW + 100, 1000)
    assert 10_000 - PASS_BUDGET <= queue.ready_count < 10_000


def test_expired_by_policy_is_dead_lettered(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §4.5: dead-lettering, all of it by policy"""
    grave = vhost.declare_queue("grave")
    vhost.bind("amq.fanout", grave, "", {})
    fill(queue, letter, 3)
    vhost.policies.set("p", "^q$", {"message-ttl": 100, "dead-letter-exchange": "amq.fanout"})
    later(NOW + 100)
    assert (queue.ready_count, grave.ready_count) == (0, 3)


# Lengths


def test_length_trims_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter, later: Later) -> None:
    """SPEC §4.2 max-length by policy: oldest first, and to the dead letters"""
    grave = vhost.declare_queue("grave")
    vhost.bind("amq.fanout", grave, "", {})
    fill(queue, letter, 5)
    vhost.policies.set("p", "^q$", {"max-length": 2, "dead-letter-exchange": "amq.fanout"})
    assert ready(queue) == [4, 5]
    later(NOW)
    assert grave.ready_count == 3


def test_bytes_trim_a_live_queue(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §4.2 max-length-bytes by policy"""
    for size in (5, 5, 5):
        push(queue, letter(bytes(size)), NOW)
    vhost.policies.set("p", "", {"max-length-bytes": 11})
    assert (ready(queue), queue.ready_bytes) == ([2, 3], 10)


def test_a_queue_that_refuses_is_not_trimmed(vhost: VirtualHost, queue: Queue, letter: NewLetter) -> None:
    """SPEC §7.6 policies, overflow: what is there stays."""
    fill(queue, letter, 5)
    vhost.policies.set("p", "", {"max-length": 2, "overflow": "reject-publish"})
    assert (queue.ready_count, push(queue, letter(), NOW)) == (5, False)


def test_million_messages_are_trimmed_in_pieces(
    vhost: VirtualHost, queue: Queue, broker: Broker, message: NewMessage
) -> None:
    """SPEC §8.8 nobody is starved: no pass drops more than its budget, and what comes meanwhile makes nothing grow."""
    one = message()
    for _ in range(1_000_000):
        push(queue, one, NOW)
    broker.work.budget.begin()
    vhost.policies.set("p", "^q$", {"max-length": 10})
    count = queue.ready_count
    assert 1_000_000 - PASS_BUDGET <= count < 1_000_000
    for _ in range(5):
        broker.work.budget.begin()
        broker.work.budget.left = 0
        for _ in range(100):
            push(queue, one, NOW)
        assert queue.ready_count <= count
        broker.work.budget.begin()
        assert not broker.work.drain()
        assert count - PASS_BUDGET - 1 <= queue.ready_count < count
        count = queue.ready_count
    while not broker.work.drain():
        broker.work.budget.begin()
    assert queue.ready_count == 10
    push(queue, one, NOW)
    assert queue.ready_count == 10


# Leases


def test_expires_on_a_live_queue(vhost: VirtualHost, queue: Queue, later: Later) -> None:
    """SPEC §4.2 expires by policy: from the change on"""
    vhost.policies.set("p", "", {"expires": 100})
    later(NOW + 99)
    assert "q" in vhost.queues
    later(NOW + 100)
    assert "q" not in vhost.queues
    assert queue.deleted


def test_expires_that_is_cleared_or_changed_in_time(vhost: VirtualHost, queue: Queue, later: Later) -> None:
    """SPEC §7.6 policies, expires"""
    vhost.policies.set("p", "", {"expires": 100})
    later(NOW + 50)
    vhost.policies.set("p", "", {"expires": 1000})
    later(NOW + 1049)
    assert not queue.deleted
    vhost.policies.clear("p")
    later(NOW + 100_000)
    assert not queue.deleted
    vhost.policies.set("p", "", {"expires": 10})
    later(NOW + 100_010)
    assert queue.deleted


def test_queue_in_use_does_not_expire(vhost: VirtualHost, queue: Queue, later: Later, new_listener: NewListener) -> None:
    """SPEC §7.6 policies, expires: from the last consumer's end on"""
    listener = new_listener()
    subscribe(queue, listener)
    vhost.policies.set("p", "", {"expires": 100})
    later(NOW + 1000)
    assert not queue.deleted
    cancel(queue, listener)
    later(NOW + 1100)
    assert queue.deleted


# Many


def test_policy_reaches_ten_thousand_queues_in_pieces(vhost: VirtualHost, broker: Broker) -> None:
    """SPEC §8.8 nobody is starved: a piece of a policy is for so many queues and no more."""
    for number in range(10_000):
        vhost.declare_queue(str(number))
    broker.work.budget.begin()

    def done() -> int:
        return sum(queue.policy is not None for queue in vhost.queues.values())

    vhost.policies.set("p", "", {"max-length": 5}, apply_to="queues")
    assert 0 < done() <= REAPPLY_PIECE
    new = vhost.declare_queue("new")
    assert new.settings.max_length == 5
    before = done()
    broker.work.budget.begin()
    assert not broker.work.drain()
    assert before < done() <= before + REAPPLY_PIECE
    vhost.delete_queue("0", None)
    while not broker.work.drain():
        broker.work.budget.begin()
    assert done() == len(vhost.queues) == 10_000
    assert all(queue.settings.max_length == 5 for queue in vhost.queues.values())


def test_policy_that_is_cleared_on_its_way_leaves_nothing(vhost: VirtualHost, broker: Broker) -> None:
    """SPEC §7.6 policies: the last word counts, however the pieces fall."""
    for number in range(1000):
        vhost.declare_queue(str(number))
    vhost.policies.set("p", "", {"max-length": 5})
    vhost.policies.set("p", "", {"max-length": 6})
    vhost.policies.clear("p")
    while not broker.work.drain():
        broker.work.budget.begin()
    assert {queue.settings.max_length for queue in vhost.queues.values()} == {None}


def test_what_is_gone_meanwhile_follows_nothing(vhost: VirtualHost, broker: Broker) -> None:
    """SPEC §7.6 policies"""
    queue = vhost.declare_queue("q")
    task = Reapply(vhost)
    vhost.delete_queue("q", None)
    vhost.policies.put(Policy("p", "", {"max-length": 5}))
    assert task.run(broker.work.budget)
    assert queue.policy is None
