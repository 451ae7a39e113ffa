"""Consuming, getting, prefetch, recovering and the rest of the basic class, as a dialogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from leveret.broker.broker import Broker
from leveret.protocol.basic import priority_of
from leveret.wire.spec import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.values import SignedInt, Table, Timestamp

if TYPE_CHECKING:
    from tests.protocol.conftest import Client, Connect, Heard


def refused(client: Client, method: Method, code: int, text: str) -> None:
    """This method closes the channel with this code and text, and is itself blamed."""
    assert client.say(method) == [ChannelClose(code, text, method.INDEX >> 16, method.INDEX & 0xFFFF)]
    assert client.say(ChannelCloseOk(), ChannelOpen()) == [ChannelOpenOk()]


def ended(client: Client, method: Method, code: int, text: str) -> None:
    """This method closes the connection with this code and text, and is itself blamed."""
    client.feed(client.method(method))
    assert client.heard(0) == [ConnectionClose(code, text, method.INDEX >> 16, method.INDEX & 0xFFFF)]


def bodies(heard: list[Heard]) -> list[Heard]:
    """The contents of what must be deliveries only."""
    assert all(isinstance(item, BasicDeliver) for item in heard[0::2])
    return heard[1::2]


def counts(client: Client, name: str = "q") -> tuple[int, int]:
    queue = client.connection.session.vhost.queues[name]
    return queue.ready_count, queue.unacked_count


# Consuming


def test_messages_are_delivered_as_they_come(client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(BasicConsume("q", "c")) == [BasicConsumeOk("c")]
    assert client.publish("q", b"1", b"2") == [
        BasicDeliver("c", 1, False, "", "q"),
        b"1",
        BasicDeliver("c", 2, False, "", "q"),
        b"2",
    ]
    assert counts(client) == (0, 2)


def test_waiting_messages_come_after_consume_ok(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    assert client.say(BasicConsume("q", "c")) == [BasicConsumeOk("c"), BasicDeliver("c", 1, False, "", "q"), b"1"]


def test_consuming_without_waiting_and_without_acknowledgement(client: Client) -> None:
    client.say(QueueDeclare("q"))
    assert client.say(BasicConsume("q", "c", no_ack=True, no_wait=True)) == []
    assert client.publish("q", b"1") == [BasicDeliver("c", 1, False, "", "q"), b"1"]
    assert counts(client) == (0, 0)


def test_deliveries_name_where_their_message_was_published(client: Client) -> None:
    from leveret.wire.spec import QueueBind

    client.say(QueueDeclare("q"), QueueBind("q", "amq.fanout"), BasicConsume("q", "c"))
    heard = client.say(
        client.message("k", b"1", "amq.fanout"),
        client.message("longer key", b"2", "amq.fanout"),
        client.message("q", b"3"),
        client.message("q", b"4"),
    )
    assert [(m.exchange, m.routing_key, m.delivery_tag) for m in heard if isinstance(m, BasicDeliver)] == [
        ("amq.fanout", "k", 1),
        ("amq.fanout", "longer key", 2),
        ("", "q", 3),
        ("", "q", 4),
    ]


def test_consumer_is_named_by_the_broker(client: Client) -> None:
    client.say(QueueDeclare("q"))
    (one, two) = client.say(BasicConsume("q"), BasicConsume("q"))
    assert isinstance(one, BasicConsumeOk)
    assert isinstance(two, BasicConsumeOk)
    assert one != two
    assert one.consumer_tag.startswith("amq.ctag-")
    assert len(one.consumer_tag) == len("amq.ctag-") + 22


def test_no_queue_means_the_last_one_declared(client: Client) -> None:
    refused(client, BasicConsume(), 404, "NOT_FOUND - no previously declared queue")
    refused(client, BasicGet(), 404, "NOT_FOUND - no previously declared queue")
    client.say(QueueDeclare("q"))
    client.publish("q", b"1")
    assert client.say(BasicGet()) == [BasicGetOk(1, False, "", "q", 0), b"1"]
    assert client.say(BasicConsume("", "c")) == [BasicConsumeOk("c")]


def test_unknown_queue_is_refused(client: Client) -> None:
    refused(client, BasicConsume("q"), 404, "NOT_FOUND - no queue 'q' in vhost '/'")
    refused(client, BasicGet("q"), 404, "NOT_FOUND - no queue 'q' in vhost '/'")


def test_consumer_tag_is_used_once(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    ended(client, BasicConsume("q", "c"), 530, "NOT_ALLOWED - attempt to reuse consumer tag 'c'")


def test_consumer_tags_belong_to_a_channel(client: Client) -> None:
    client.open(2)
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    assert client.say(BasicConsume("q", "c"), channel=2) == [BasicConsumeOk("c")]


def test_consumer_tag_may_be_used_again_after_cancelling(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"), BasicCancel("c"))
    assert client.say(BasicConsume("q", "c")) == [BasicConsumeOk("c")]


def test_exclusive_consumer_is_alone(client: Client) -> None:
    in_use = "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    client.open(2)
    client.say(QueueDeclare("q"), BasicConsume("q", "c", exclusive=True), channel=2)
    refused(client, BasicConsume("q"), 403, in_use)
    refused(client, BasicConsume("q", exclusive=True), 403, in_use)
    client.say(BasicCancel("c"), BasicConsume("q", "d"), channel=2)
    refused(client, BasicConsume("q", exclusive=True), 403, in_use)


def test_consumers_take_turns(client: Client) -> None:
    client.say(QueueDeclare("q"), *(BasicConsume("q", tag, no_wait=True) for tag in "abc"))
    heard = client.publish("q", *(b"%d" % n for n in range(7)))
    assert [m.consumer_tag for m in heard if isinstance(m, BasicDeliver)] == list("abcabca")


def test_consumers_of_higher_priority_come_first(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=2))
    priorities: list[Table] = [{}, {"x-priority": SignedInt(10)}, {"x-priority": -1}]
    for tag, arguments in zip("abc", priorities, strict=True):
        client.say(BasicConsume("q", tag, arguments=arguments, no_wait=True))
    heard = client.publish("q", *(b"%d" % n for n in range(7)))
    assert [m.consumer_tag for m in heard if isinstance(m, BasicDeliver)] == list("bbaacc")


@pytest.mark.parametrize(
    ("value", "kind"), [("1", "longstr"), (True, "bool"), (1.0, "double"), (None, "void"), (Timestamp(5), "timestamp")]
)
def test_priority_must_be_an_integer(client: Client, value: str | bool | float | None, kind: str) -> None:
    client.say(QueueDeclare("q"))
    text = f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': \"expected integer, got {kind}\""
    refused(client, BasicConsume("q", arguments={"x-priority": value}), 406, text)


def test_priority_is_zero_unless_given() -> None:
    assert priority_of({}) == 0
    assert priority_of({"x-priority": SignedInt(-5)}) == -5


# Cancelling


def test_cancelled_consumer_gets_no_more_and_keeps_what_it_has(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    client.publish("q", b"1")
    assert client.say(BasicCancel("c")) == [BasicCancelOk("c")]
    assert client.publish("q", b"2") == []
    assert counts(client) == (1, 1)
    assert client.say(BasicAck(1)) == []
    assert counts(client) == (1, 0)


def test_unknown_consumer_may_be_cancelled(client: Client) -> None:
    assert client.say(BasicCancel("nobody")) == [BasicCancelOk("nobody")]
    assert client.say(BasicCancel("nobody", no_wait=True)) == []


def test_auto_delete_queue_goes_with_its_last_consumer(client: Client) -> None:
    client.say(QueueDeclare("q", auto_delete=True), BasicConsume("q", "a"), BasicConsume("q", "b"))
    client.say(BasicCancel("a"))
    assert client.say(QueueDeclare("q", passive=True)) == [QueueDeclareOk("q", 0, 1)]
    client.say(BasicCancel("b"))
    refused(client, QueueDeclare("q", passive=True), 404, "NOT_FOUND - no queue 'q' in vhost '/'")


def test_auto_delete_queue_stays_until_it_has_had_a_consumer(client: Client) -> None:
    client.say(QueueDeclare("q", auto_delete=True), BasicGet("q"))
    client.say(ChannelClose())
    client.open(1)
    assert client.say(QueueDeclare("q", passive=True)) == [QueueDeclareOk("q", 0, 0)]


@pytest.mark.parametrize("how", [ChannelClose(), ConnectionClose()], ids=repr)
def test_auto_delete_queue_goes_with_the_channel(client: Client, connect: Connect, how: Method) -> None:
    client.say(QueueDeclare("q", auto_delete=True), BasicConsume("q", "a"))
    client.say(how, channel=1 if isinstance(how, ChannelClose) else 0)
    refused(connect(), QueueDeclare("q", passive=True), 404, "NOT_FOUND - no queue 'q' in vhost '/'")


def test_client_is_told_when_its_queue_is_gone(client: Client, connect: Connect) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    connect().say(QueueDelete("q"))
    assert client.heard() == [BasicCancel("c", no_wait=True)]
    assert client.say(BasicCancel("c")) == [BasicCancelOk("c")]


def test_client_that_cannot_be_told_is_not(connect: Connect) -> None:
    client = connect(capabilities=())
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    assert client.say(QueueDelete("q")) == [QueueDeleteOk(0)]
    client.say(QueueDeclare("q"))
    assert client.say(BasicConsume("q", "c")) == [BasicConsumeOk("c")]


def test_messages_of_a_deleted_queue_can_still_be_settled(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    client.publish("q", b"1", b"2", b"3")
    client.say(QueueDelete("q"))
    assert client.say(BasicAck(1), BasicNack(2, requeue=True), BasicReject(3)) == []
    assert client.say(QueueDeclare("q")) == [QueueDeclareOk("q", 0, 0)]


# Prefetch


def test_prefetch_count_bounds_each_consumer_started_afterwards(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "free", no_wait=True))
    assert client.say(BasicQos(prefetch_count=1)) == [BasicQosOk()]
    client.say(BasicConsume("q", "one", no_wait=True), BasicQos(prefetch_count=2), BasicConsume("q", "two", no_wait=True))
    heard = client.publish("q", *(b"%d" % n for n in range(10)))
    taken = [m.consumer_tag for m in heard if isinstance(m, BasicDeliver)]
    assert (taken.count("one"), taken.count("two"), taken.count("free")) == (1, 2, 7)


def test_settling_makes_room(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=2), BasicConsume("q", "c", no_wait=True))
    assert bodies(client.publish("q", b"1", b"2", b"3", b"4", b"5")) == [b"1", b"2"]
    assert bodies(client.say(BasicAck(2))) == [b"3"]
    assert bodies(client.say(BasicReject(3))) == [b"4"]
    assert client.say(BasicNack(1, requeue=True)) == [BasicDeliver("c", 5, True, "", "q"), b"1"]


def test_prefetch_does_not_bound_consumers_without_acknowledgement(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=1), BasicConsume("q", "c", no_ack=True, no_wait=True))
    assert len(bodies(client.publish("q", b"1", b"2", b"3"))) == 3


def test_global_prefetch_is_shared_by_the_consumers_of_a_channel(client: Client) -> None:
    client.say(
        QueueDeclare("a"), QueueDeclare("b"), BasicConsume("a", "a", no_wait=True), BasicConsume("b", "b", no_wait=True)
    )
    assert client.say(BasicQos(prefetch_count=3, global_=True)) == [BasicQosOk()]
    assert len(bodies(client.publish("a", b"1", b"2"))) == 2
    assert len(bodies(client.publish("b", b"3", b"4"))) == 1
    assert bodies(client.say(BasicAck(1))) == [b"4"]
    client.publish("a", b"5", b"6", b"7")
    assert len(bodies(client.say(BasicAck(0, multiple=True)))) == 3


def test_both_prefetch_counts_hold(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=2), BasicQos(prefetch_count=3, global_=True))
    client.say(BasicConsume("q", "a", no_wait=True), BasicConsume("q", "b", no_wait=True))
    heard = client.publish("q", *(b"%d" % n for n in range(6)))
    assert [m.consumer_tag for m in heard if isinstance(m, BasicDeliver)] == ["a", "b", "a"]


def test_prefetch_without_global_lifts_the_global_one(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=1, global_=True), BasicConsume("q", "c", no_wait=True))
    assert bodies(client.publish("q", b"1", b"2")) == [b"1"]
    assert client.say(BasicQos(prefetch_count=5)) == [BasicQosOk(), BasicDeliver("c", 2, False, "", "q"), b"2"]


def test_raising_the_global_prefetch_delivers_more_after_the_answer(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=1, global_=True), BasicConsume("q", "c", no_wait=True))
    client.publish("q", b"1", b"2", b"3", b"4")
    heard = client.say(BasicQos(prefetch_count=2, global_=True))
    assert heard == [BasicQosOk(), BasicDeliver("c", 2, False, "", "q"), b"2"]
    assert len(client.say(BasicQos(prefetch_count=0, global_=True))) == 1 + 2 * 2


def test_lowering_the_global_prefetch_holds_back(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c", no_wait=True))
    client.publish("q", b"1", b"2", b"3")
    client.say(BasicQos(prefetch_count=2, global_=True))
    assert client.publish("q", b"4") == []
    assert client.say(BasicAck(1)) == []
    assert bodies(client.say(BasicAck(2))) == [b"4"]


def test_prefetch_size_bounds_the_bytes_of_a_consumer(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_size=10), BasicConsume("q", "c", no_wait=True))
    assert bodies(client.publish("q", b"1234", b"5678", b"90A")) == [b"1234", b"5678"]
    assert bodies(client.say(BasicAck(1))) == [b"90A"]


def test_message_larger_than_the_window_is_delivered_alone(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_size=10), BasicConsume("q", "c", no_wait=True))
    assert bodies(client.publish("q", b"1", b"x" * 20, b"2")) == [b"1"]
    assert bodies(client.say(BasicAck(1))) == [b"x" * 20]
    assert bodies(client.say(BasicAck(2))) == [b"2"]


def test_consumers_that_share_a_prefetch_go_by_their_priority(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=1, global_=True), BasicConsume("q", "a"))
    client.say(BasicConsume("q", "b", arguments={"x-priority": 1}))
    client.publish("q", *[b"x"] * 5)
    for tag in range(1, 5):
        assert client.say(BasicAck(tag)) == [BasicDeliver("b", tag + 1, False, "", "q"), b"x"]


def test_global_prefetch_size_is_shared(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_size=6, global_=True))
    client.say(BasicConsume("q", "a", no_wait=True), BasicConsume("q", "b", no_wait=True))
    assert len(bodies(client.publish("q", b"123", b"456", b"789"))) == 2
    assert bodies(client.say(BasicAck(2, multiple=True))) == [b"789"]


def test_prefetch_size_may_be_refused_as_rabbitmq_does(broker: Broker, client: Client) -> None:
    """SPEC §6.2 refuse."""
    broker.settings.refuse_prefetch_size = True
    assert client.say(BasicQos(prefetch_count=5)) == [BasicQosOk()]
    ended(client, BasicQos(prefetch_size=10), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)")


def test_global_prefetch_is_free_again_after_cancelling_and_settling(client: Client) -> None:
    client.say(QueueDeclare("a"), QueueDeclare("b"), BasicQos(prefetch_count=1, global_=True))
    client.say(BasicConsume("a", "a", no_wait=True), BasicConsume("b", "b", no_wait=True))
    client.publish("a", b"1")
    assert client.publish("b", b"2") == []
    client.say(BasicCancel("a", no_wait=True))
    assert bodies(client.say(BasicAck(1))) == [b"2"]


@pytest.mark.parametrize("method", [BasicRecover(True), BasicRecoverAsync(True), BasicNack(1, requeue=True)], ids=repr)
def test_global_prefetch_is_free_again_after_giving_back(client: Client, method: Method) -> None:
    client.say(QueueDeclare("a"), QueueDeclare("b"), BasicQos(prefetch_count=1, global_=True))
    client.say(BasicConsume("a", "a", no_wait=True), BasicConsume("b", "b", no_wait=True))
    client.publish("a", b"1")
    client.publish("b", b"2")
    client.say(BasicCancel("a", no_wait=True))
    assert client.say(method)[-1] == b"2"
    assert (counts(client, "a"), counts(client, "b")) == ((1, 0), (0, 1))


# Getting


def test_getting_counts_what_is_left(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2")
    assert client.say(BasicGet("q")) == [BasicGetOk(1, False, "", "q", 1), b"1"]
    assert client.say(BasicGet("q", no_ack=True)) == [BasicGetOk(2, False, "", "q", 0), b"2"]
    assert client.say(BasicGet("q")) == [BasicGetEmpty()]
    assert counts(client) == (0, 1)
    assert client.say(BasicAck(1)) == []
    assert counts(client) == (0, 0)


def test_getting_shares_the_tags_with_consuming(client: Client) -> None:
    client.say(QueueDeclare("q"), QueueDeclare("r"), BasicConsume("q", "c"))
    client.publish("r", b"r")
    client.publish("q", b"1")
    assert client.say(BasicGet("r")) == [BasicGetOk(2, False, "", "r", 0), b"r"]
    assert client.publish("q", b"2") == [BasicDeliver("c", 3, False, "", "q"), b"2"]


def test_getting_is_not_bounded_by_prefetch(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_count=1, global_=True), BasicQos(prefetch_count=1))
    client.publish("q", b"1", b"2")
    assert [len(client.say(BasicGet("q"))) for _ in range(2)] == [2, 2]


def test_given_back_message_goes_first_and_is_marked(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2", b"3")
    client.say(BasicGet("q"), BasicGet("q"))
    client.say(BasicReject(2, requeue=True), BasicReject(1, requeue=True))
    assert [client.say(BasicGet("q", no_ack=True)) for _ in range(3)] == [
        [BasicGetOk(3, True, "", "q", 2), b"1"],
        [BasicGetOk(4, True, "", "q", 1), b"2"],
        [BasicGetOk(5, False, "", "q", 0), b"3"],
    ]


# Recovering, flow, modes


def test_recovering_gives_everything_back(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2")
    client.say(BasicGet("q"), BasicGet("q"))
    assert client.say(BasicRecover(requeue=True)) == [BasicRecoverOk()]
    assert counts(client) == (2, 0)
    assert client.say(BasicGet("q")) == [BasicGetOk(3, True, "", "q", 1), b"1"]
    assert client.say(BasicRecoverAsync(requeue=True)) == []
    assert counts(client) == (2, 0)


def test_recovered_messages_come_after_the_answer(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "c"))
    client.publish("q", b"1")
    assert client.say(BasicRecover(requeue=True)) == [BasicRecoverOk(), BasicDeliver("c", 2, True, "", "q"), b"1"]


@pytest.mark.parametrize("method", [BasicRecover(False), BasicRecoverAsync(False)], ids=repr)
def test_recovering_to_the_same_consumer_is_not_implemented(client: Client, method: Method) -> None:
    ended(client, method, 540, "NOT_IMPLEMENTED - requeue=false")


def test_flow_is_always_on(client: Client) -> None:
    assert client.say(ChannelFlow(active=True)) == [ChannelFlowOk(active=True)]
    ended(client, ChannelFlow(active=False), 540, "NOT_IMPLEMENTED - active=false")


def test_confirm_mode_without_waiting(client: Client) -> None:
    assert client.say(ConfirmSelect(no_wait=True)) == []
    assert client.publish("nowhere", b"1") == [BasicAck(1)]


def test_confirm_mode_and_transactions_exclude_each_other(client: Client) -> None:
    client.say(ConfirmSelect())
    refused(client, TxSelect(), 406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode")
    assert client.say(TxSelect(), TxSelect()) == [TxSelectOk(), TxSelectOk()]
    refused(client, ConfirmSelect(), 406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
    assert client.say(ConfirmSelect()) == [ConfirmSelectOk()]


@pytest.mark.parametrize("method", [TxCommit(), TxRollback()], ids=repr)
def test_transaction_must_be_selected_first(client: Client, method: Method) -> None:
    refused(client, method, 406, "PRECONDITION_FAILED - channel is not transactional")


def test_messages_of_a_transaction_wait_for_its_commit(client: Client) -> None:
    client.say(QueueDeclare("q"), TxSelect())
    back = client.message("nowhere", b"back", mandatory=True)
    assert client.say(client.message("q", b"1"), back, client.message("q", b"2")) == []
    assert counts(client) == (0, 0)
    assert client.say(TxCommit()) == [BasicReturn(312, "NO_ROUTE", "", "nowhere"), b"back", TxCommitOk()]
    assert counts(client) == (2, 0)


def test_messages_of_a_transaction_are_dropped_by_its_rollback(client: Client) -> None:
    client.say(QueueDeclare("q"), TxSelect(), client.message("q", b"1"))
    assert client.say(TxRollback()) == [TxRollbackOk()]
    assert client.say(TxCommit()) == [TxCommitOk()]
    assert counts(client) == (0, 0)


def test_acknowledgements_of_a_transaction_wait_for_its_commit(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", *(b"%d" % n for n in range(1, 6)))
    client.say(TxSelect(), *(BasicGet("q") for _ in range(5)))
    assert client.say(BasicAck(1), BasicAck(3, multiple=True), BasicNack(4, requeue=True), BasicReject(5)) == []
    assert counts(client) == (0, 5)
    assert client.say(TxCommit()) == [TxCommitOk()]
    assert counts(client) == (1, 0)
    assert client.say(BasicGet("q")) == [BasicGetOk(6, True, "", "q", 0), b"4"]


def test_acknowledgements_of_a_transaction_are_undone_by_its_rollback(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2", b"3")
    client.say(TxSelect(), *(BasicGet("q") for _ in range(3)), BasicAck(2))
    assert client.say(TxRollback()) == [TxRollbackOk()]
    assert client.say(BasicAck(3, multiple=True), TxCommit()) == [TxCommitOk()]
    assert counts(client) == (0, 0)


def test_acknowledgement_is_checked_when_it_is_made(client: Client) -> None:
    client.say(QueueDeclare("q"), client.message("q", b"1"), TxSelect(), BasicGet("q"), BasicAck(1))
    refused(client, BasicAck(1), 406, "PRECONDITION_FAILED - unknown delivery tag 1")
    assert counts(client) == (1, 0)


def test_open_transaction_ends_with_its_channel(client: Client) -> None:
    client.say(
        QueueDeclare("q"), client.message("q", b"1"), TxSelect(), BasicGet("q"), BasicAck(1), client.message("q", b"2")
    )
    assert client.say(ChannelClose()) == [ChannelCloseOk()]
    assert counts(client) == (1, 0)


def test_message_too_large_for_a_window_does_not_keep_smaller_ones_from_it_once_it_is_gone(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_size=10), BasicConsume("q", "c", no_wait=True))
    assert bodies(client.publish("q", b"12345", b"x" * 12)) == [b"12345"]
    client.say(QueuePurge("q"))
    assert bodies(client.publish("q", b"6")) == [b"6"]


def test_getting_a_message_too_large_for_a_window_lets_those_behind_it_go(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicQos(prefetch_size=10), BasicConsume("q", "c", no_wait=True))
    assert bodies(client.publish("q", b"12345", b"x" * 12, b"6")) == [b"12345"]
    assert client.say(BasicGet("q")) == [
        BasicGetOk(2, False, "", "q", 1),
        b"x" * 12,
        BasicDeliver("c", 3, False, "", "q"),
        b"6",
    ]


def test_message_too_large_for_one_consumer_goes_to_another_and_the_next_to_the_first(
    client: Client, connect: Connect
) -> None:
    other = connect()
    client.say(QueueDeclare("q"), BasicQos(prefetch_size=10), BasicConsume("q", "small", no_wait=True))
    assert bodies(client.publish("q", b"12345", b"x" * 12, b"6")) == [b"12345"]
    assert other.say(BasicQos(prefetch_count=1), BasicConsume("q", "large"))[-1] == b"x" * 12
    assert bodies(client.heard()) == [b"6"]


FULL: Table = {"x-max-length": 1, "x-overflow": "reject-publish"}


@pytest.mark.parametrize("count", [2, 5000])
def test_transaction_with_a_refused_message_closes_the_channel(client: Client, count: int) -> None:
    """It is blamed once, however many pieces it took, and what was acknowledged stays so."""
    client.say(QueueDeclare("q", arguments=FULL), QueueDeclare("other"))
    client.publish("other", b"1")
    client.say(TxSelect(), BasicGet("other"), BasicAck(1), *[client.message("q", b"x")] * count)
    refused(client, TxCommit(), 406, "PRECONDITION_FAILED - partial tx completion")
    assert not client.connection.busy
    assert counts(client) == (1, 0)
    other = client.connection.session.vhost.queues["other"]
    assert (other.ready_count, other.unacked_count) == (0, 0)
    assert client.say(BasicGet("q")) == [BasicGetOk(1, False, "", "q", 0), b"x"]


def test_get_renews_the_lease_of_a_queue(client: Client, broker: Broker) -> None:
    client.say(QueueDeclare("q", arguments={"x-expires": 100}))
    client.now = 60
    assert client.say(BasicGet("q")) == [BasicGetEmpty()]
    broker.timers.run(100, 10)
    assert broker.timers.next_at() == 160
    client.finish()
    assert client.say(QueueDeclare("q", passive=True)) == [QueueDeclareOk("q", 0, 0)]


def test_queue_that_nobody_uses_is_gone(client: Client, broker: Broker) -> None:
    client.say(QueueDeclare("q", arguments={"x-expires": 100}))
    broker.timers.run(100, 10)
    client.finish()
    assert "q" not in client.connection.session.vhost.queues
    refused(client, BasicGet("q"), 404, "NOT_FOUND - no queue 'q' in vhost '/'")


def test_second_consumer_of_a_queue_with_a_single_active_one_waits(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-single-active-consumer": True}))
    client.say(BasicConsume("q", "a"), BasicConsume("q", "b"))
    assert client.publish("q", b"1") == [BasicDeliver("a", 1, False, "", "q"), b"1"]
    assert client.say(BasicCancel("a")) == [BasicCancelOk("a")]
    assert client.publish("q", b"2") == [BasicDeliver("b", 2, False, "", "q"), b"2"]
    refused(client, BasicConsume("q", "c", exclusive=True), 403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


@pytest.mark.parametrize("how", ["channel closed", "channel failed", "connection closed", "connection lost"])
def test_next_single_active_consumer_gets_first_what_is_given_back(client: Client, connect: Connect, how: str) -> None:
    """RabbitMQ 3.10.8: in order, and a consumer that goes in the same moment is not the next one."""
    other = connect()
    client.say(QueueDeclare("q", arguments={"x-single-active-consumer": True}), BasicQos(prefetch_count=2))
    client.say(BasicConsume("q", "a"), BasicConsume("q", "b"))
    client.open(2).say(BasicConsume("q", "c"), channel=2)
    other.say(BasicConsume("q", "d"))
    client.publish("q", b"1", b"2", b"3")
    if how == "channel closed":
        client.say(ChannelClose(), channel=2)
        assert client.say(ChannelClose()) == [ChannelCloseOk()]
    elif how == "channel failed":
        client.say(ChannelClose(), channel=2)
        (close,) = client.say(BasicAck(99))
        assert isinstance(close, ChannelClose)
    elif how == "connection closed":
        assert client.say(client.method(ConnectionClose(), 0), channel=0) == [ConnectionCloseOk()]
    else:
        client.connection.lost(client.now)
        assert client.octets() == b""
    deliveries = other.heard()
    assert deliveries[::2] == [BasicDeliver("d", tag, tag < 3, "", "q") for tag in (1, 2, 3)]
    assert deliveries[1::2] == [b"1", b"2", b"3"]


def test_message_given_back_too_often_is_dropped(client: Client) -> None:
    client.say(QueueDeclare("q", arguments={"x-delivery-limit": 1}))
    client.publish("q", b"1")
    client.say(BasicGet("q"), BasicNack(1, requeue=True), BasicGet("q"), BasicReject(2, requeue=True))
    assert counts(client) == (0, 0)
