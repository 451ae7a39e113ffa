"""What a consumer's client is sent: of a page that is octets exactly what it would be sent of entries."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from leveret.broker.message import Entry
from leveret.broker.open_page import OpenPage
from leveret.protocol.subscriber import COMPILED, Subscriber
from leveret.wire.output import is_copied
from leveret.wire.spec import BasicConsume, QueueDeclare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.protocol.conftest import Client

COPIED_BODY_MAX = 4088
SIZES = [0, 1, 100, COPIED_BODY_MAX - 1, COPIED_BODY_MAX, COPIED_BODY_MAX + 1, 20_000, 300_000]


def filled(client: Client, sizes: list[int]) -> list[Entry]:
    """The messages of a queue, some with another key than their neighbours."""
    client.say(QueueDeclare("q"), QueueDeclare("other"))
    for number, size in enumerate(sizes):
        client.publish("other" if number % 5 == 4 else "q", bytes([number & 255]) * size)
    queues = client.connection.session.vhost.queues
    return sorted(
        [*queues["q"].backlog.front.entries(), *queues["other"].backlog.front.entries()],
        key=lambda entry: (entry.seq, entry.message.origin.routing_key),
    )


def page_of(entries: list[Entry]) -> OpenPage:
    """The same as octets: each content behind its address."""
    data = bytearray()
    at = []
    for entry in entries:
        address = entry.message.origin.address
        at.append((len(data), len(address)))
        data += address + entry.message.content
    page = OpenPage(bytes(data), len(entries))
    for entry, (start, size) in zip(entries, at, strict=True):
        message = entry.message
        if page.count == 0 or not page.has_address(start, size):
            page.add_origin(message.origin, start, size)
        page.add(entry.seq, 0, start + size, len(message.content), message.flags)
        page.add_sizes(message.header_size, message.body_size, message.frame_size)
    return page


def subscribed(client: Client, channel: int, no_ack: bool = True) -> Subscriber:
    client.say(BasicConsume("", "c", no_ack=no_ack, no_wait=True), channel=channel)
    return client.connection.session.channels[channel].consumers.by_tag["c"]


def drink(subscriber: Subscriber, page: OpenPage, limit: int) -> list[Entry]:
    """Have it take a run of the first messages of this page; what it may acknowledge of them."""
    first, end = page.at, subscriber.run_end(page, limit)
    assert 1 <= end - first <= limit
    entries = [] if subscriber.no_ack else page.stubs(end)
    page.at = end
    subscriber.deliver_octets(page, first, end, entries)
    return entries


@pytest.mark.parametrize("no_ack", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_octets_are_sent_as_entries_are(seed: int, no_ack: bool, alone: Callable[[], Client]) -> None:
    choice = random.Random(seed)
    sizes = [choice.choice(SIZES[: choice.choice([3, 6, 8])]) for _ in range(60)]
    sizes[30] = 20_000_000 if seed == 0 else 0
    sent = []
    counted = []
    for octets in (False, True):
        client = alone()
        entries = filled(client, sizes)
        client.open(300)
        client.say(QueueDeclare("mine"), channel=300)
        subscriber = subscribed(client, 300, no_ack)
        if octets:
            page = page_of(entries)
            assert page.count == 60
            stubs = []
            while page.at < page.count:
                stubs += drink(subscriber, page, choice.choice([1, 2, 7, 1000]))
            unacked = client.connection.session.channels[300].unacked
            assert [entry.seq for entry in unacked.take_all()] == [entry.seq for entry in stubs]
            assert [entry.tag for entry in stubs] == ([] if no_ack else list(range(1, 61)))
        else:
            for entry in entries:
                subscriber.deliver(entry)
        sent.append(client.octets())
        counted.append((subscriber.counters.deliver_no_ack, subscriber.counters.deliver))
    assert sent[0] == sent[1]
    assert len(sent[0]) > sum(sizes)
    assert counted == [(60, 0) if no_ack else (0, 60)] * 2


def test_no_more_is_copied_at_once_than_a_part_of_what_a_client_may_have(alone: Callable[[], Client]) -> None:
    """It is asked again whether the client has enough."""
    client = alone()
    entries = [entry for entry in filled(client, [COPIED_BODY_MAX] * 60) if entry.message.origin.routing_key == "q"]
    subscriber = subscribed(client, 1)
    drink(subscriber, page_of(entries), 1000)
    assert 64 << 10 <= len(client.octets()) < (64 << 10) + 2 * COPIED_BODY_MAX
    assert is_copied(COPIED_BODY_MAX)
    assert not is_copied(COPIED_BODY_MAX + 1)


def test_who_is_traced_takes_no_octets(client: Client) -> None:
    client.say(QueueDeclare("q"), BasicConsume("q", "acks", no_wait=True))
    client.say(BasicConsume("q", "not", no_ack=True, no_wait=True))
    consumers = client.connection.session.channels[1].consumers.by_tag
    for tag in ("acks", "not"):
        assert consumers[tag].takes_octets() == COMPILED
        consumers[tag].trace = lambda message, queue, redelivered: None
        assert not consumers[tag].takes_octets()
