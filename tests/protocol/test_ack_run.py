"""Acknowledgements that follow each other: which belong to a run, and that nobody can tell one from single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.protocol.ack_run import next_ack, settle_run
from leveret.wire.frames import FrameReader
from leveret.wire.spec import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    ChannelClose,
    Method,
    QueueDeclare,
    TxSelect,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client

calm = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])

ACK = b"\x01\x00\x07\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x01\x02\x03\x04\x00\xce"
TAG = 0x01020304


def reading(data: bytes) -> FrameReader:
    reader = FrameReader(4096)
    reader.feed(data)
    return reader


# Which frames belong to a run


def test_acknowledgement_is_found_where_the_reader_is() -> None:
    reader = reading(b"12345" + ACK + ACK)
    reader.at = 5
    assert next_ack(reader, 7) == TAG
    reader.at += len(ACK)
    assert next_ack(reader, 7) == TAG
    reader.at += len(ACK)
    assert next_ack(reader, 7) == 0


@pytest.mark.parametrize("at", [at for at in range(len(ACK)) if not 15 <= at < 19])
def test_every_octet_that_is_another_makes_it_another_frame(at: int) -> None:
    assert next_ack(reading(ACK[:at] + bytes([ACK[at] ^ 1]) + ACK[at + 1 :]), 7) == 0


def test_bits_that_mean_nothing_are_let_pass() -> None:
    assert next_ack(reading(ACK[:19] + b"\xfe\xce"), 7) == TAG


@pytest.mark.parametrize("size", range(len(ACK)))
def test_acknowledgement_must_be_whole(size: int) -> None:
    assert next_ack(reading(ACK[:size]), 7) == 0


def test_octets_behind_what_was_read_are_not_read() -> None:
    reader = reading(ACK)
    reader.size -= 1
    assert next_ack(reader, 7) == 0


def test_great_tag_is_no_negative_one() -> None:
    assert next_ack(reading(ACK[:15] + b"\xff\xff\xff\xff\x00\xce"), 7) == 2**32 - 1


# What becomes of a run


def frames(client: Client, *methods: Method, channel: int = 1) -> bytes:
    return b"".join(client.method(method, channel) for method in methods)


def delivered(client: Client, count: int, prefetch: int = 0, *, queue: str = "q") -> None:
    """A queue of so many messages, and a consumer that has as many of them as it takes."""
    client.say(QueueDeclare(queue), BasicQos(prefetch_count=prefetch))
    client.publish(queue, *(b"%d" % number for number in range(1, count + 1)))
    client.say(BasicConsume(queue, "c " + queue, no_wait=True))


def counts(client: Client, queue: str = "q") -> tuple[int, int]:
    found = client.connection.session.vhost.queues[queue]
    return found.ready_count, found.unacked_count


def test_run_is_settled_and_counted(client: Client) -> None:
    delivered(client, 10)
    client.say(*map(BasicAck, range(1, 8)))
    assert counts(client) == (0, 3)
    channel = client.connection.session.channels[1]
    assert (channel.unacked.count, channel.counters.ack) == (3, 7)
    assert channel.consumers.by_tag["c q"].counters.ack == 7
    assert client.connection.session.vhost.queues["q"].counters.ack == 7


def test_consumer_gets_as_many_as_it_has_acknowledged(client: Client) -> None:
    delivered(client, 10, prefetch=3)
    assert client.say(*map(BasicAck, (1, 2, 3)))[1::2] == [b"4", b"5", b"6"]
    assert client.say(*map(BasicAck, (6, 4)))[1::2] == [b"7", b"8"]


def test_run_ends_before_a_tag_that_is_not_known(client: Client) -> None:
    delivered(client, 5)
    *_, close = client.say(*map(BasicAck, (1, 2, 9, 3)))
    assert close == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 9", 60, 80)
    assert counts(client) == (3, 0)


def test_run_ends_before_a_tag_that_was_settled_in_it(client: Client) -> None:
    delivered(client, 5)
    *_, close = client.say(*map(BasicAck, (1, 2, 2)))
    assert close == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 2", 60, 80)
    assert counts(client) == (3, 0)


def test_tag_may_be_one_that_the_run_has_made_room_for(client: Client) -> None:
    """Who knows that it gets them in order may acknowledge ahead."""
    delivered(client, 5, prefetch=2)
    assert client.say(*map(BasicAck, (1, 2, 3, 4, 5)))[1::2] == [b"3", b"4", b"5"]
    assert counts(client) == (0, 0)


@pytest.mark.parametrize(("left", "settled"), [(1, 1), (2, 1), (3, 2), (10, 5), (77, 39), (78, 39), (2000, 39)])
def test_run_leaves_half_of_the_pass_for_deliveries(client: Client, left: int, settled: int) -> None:
    delivered(client, 100, prefetch=40)
    channel = client.connection.session.channels[1]
    consumer = channel.consumers.by_tag["c q"]
    budget = client.broker.work.budget
    reader = reading(frames(client, *map(BasicAck, range(2, 41))))
    budget.left = left
    assert settle_run(reader, 1, channel.unacked, consumer.queue, consumer, budget) == settled
    assert (budget.left, reader.at) == (left - settled, settled * len(ACK))
    assert counts(client) == (60, 40 - settled)


def test_long_run_goes_on_in_the_next_pass(client: Client) -> None:
    delivered(client, 9000, prefetch=4000)
    client.octets()
    client.connection.receive(frames(client, *map(BasicAck, range(1, 4001))), 0)
    assert client.connection.busy
    ready, unacked = counts(client)
    assert 0 < 9000 - ready - unacked < 2000
    client.finish()
    assert counts(client) == (1000, 4000)


def test_run_is_of_one_channel(client: Client) -> None:
    client.open(2)
    delivered(client, 4)
    client.say(QueueDeclare("p"), channel=2)
    client.publish("p", b"1", b"2", channel=2)
    client.say(BasicConsume("p", "c", no_wait=True), channel=2)
    client.feed(
        frames(client, BasicAck(1), BasicAck(2)) + frames(client, BasicAck(1), channel=2) + frames(client, BasicAck(3))
    )
    assert (counts(client), counts(client, "p")) == ((0, 1), (0, 1))


def test_run_in_a_transaction_is_settled_with_it(client: Client) -> None:
    delivered(client, 4)
    client.say(TxSelect(), *map(BasicAck, (1, 2, 3)))
    assert counts(client) == (0, 4)


def test_what_was_taken_by_get_is_settled_one_by_one(client: Client) -> None:
    client.say(QueueDeclare("q"))
    client.publish("q", b"1", b"2", b"3")
    client.say(*[BasicGet("q")] * 3)
    client.say(*map(BasicAck, (1, 2, 3)))
    channel = client.connection.session.channels[1]
    assert (counts(client), channel.counters.ack) == ((0, 0), 3)
    assert channel.counters.breakdown_for(client.connection.session.vhost.queues["q"].counters).ack == 3


# The same as one by one

METHODS = st.lists(
    st.one_of(
        st.integers(1, 40).map(BasicAck),
        st.integers(1, 8).map(BasicAck),
        st.tuples(st.integers(1, 30), st.booleans(), st.booleans()).map(lambda chosen: BasicNack(*chosen)),
        st.integers(1, 30).map(lambda tag: BasicAck(tag, multiple=True)),
        st.just(BasicGet("q")),
        st.just(BasicCancel("c p")),
    ),
    max_size=12,
)


@calm
@given(
    prefetch=st.integers(0, 5),
    common=st.booleans(),
    runs=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 10), METHODS), max_size=6),
    consumers=st.lists(st.tuples(st.sampled_from("qp"), st.integers(0, 1)), max_size=4),
)
def test_run_is_the_same_as_one_after_the_other(
    alone: Callable[[], Client],
    prefetch: int,
    common: bool,
    runs: list[tuple[int, int, list[Method]]],
    consumers: list[tuple[str, int]],
) -> None:
    said = []
    for whole in (True, False):
        client = alone()
        for queue in "qp":
            client.say(QueueDeclare(queue))
            client.publish(queue, *(b"%d" % number for number in range(30)))
        client.say(BasicQos(prefetch_count=prefetch, global_=common))
        for number, (queue, no_ack) in enumerate(consumers):
            client.feed(client.method(BasicConsume(queue, f"c {queue}{number}", no_ack=bool(no_ack), no_wait=True)))
        methods: list[Method] = []
        for first, count, others in runs:
            methods += [*map(BasicAck, range(first, first + count)), *others]
        data = [client.method(method) for method in methods]
        for part in [b"".join(data)] if whole else data:
            client.feed(part)
        queues = client.connection.session.vhost.queues
        said.append((client.octets(), [(queues[name].ready_count, queues[name].unacked_count) for name in "qp"]))
    assert said[0] == said[1]
