"""What is read of queues, channels and connections: the values of the metrics in `family.py`, in the same order.

Everything shown of queues is made from their facts, so that the facts of many queues can be added up first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leveret.broker.counters import Counters
from leveret.broker.queue import Queue
from leveret.management.client import Client
from leveret.management.statistics.queue_stats import disk_writes, persistent
from leveret.protocol.channel import Channel

if TYPE_CHECKING:
    pass


def queue_facts(queue: Queue) -> tuple[int, ...]:
    pages, rotation = queue.backlog.pages, queue.rotation
    return (
        queue.ready_count,
        queue.unacked_count,
        queue.ready_bytes,
        queue.unacked_bytes,
        len(rotation.everyone),
        1 if rotation.active_count else 0,
        pages.count,
        pages.body_bytes,
        *persistent(queue),
        pages.read_count,
        disk_writes(queue),
        queue.counters.publish,
    )


def queue_coarse_values(facts: Sequence[int]) -> tuple[int, ...]:
    ready, unacked = facts[0], facts[1]
    return ready, unacked, ready + unacked


def queue_values(facts: Sequence[int]) -> tuple[int, ...]:
    ready, unacked, ready_bytes, unacked_bytes, consumers, active, paged, paged_bytes, *stored, _ = facts
    stored_count, stored_bytes, reads, writes = stored
    held_bytes = ready_bytes + unacked_bytes - paged_bytes
    counts = (ready + unacked - paged, held_bytes, ready - paged, unacked, stored_count, stored_bytes)
    sizes = (ready_bytes + unacked_bytes, ready_bytes, unacked_bytes, paged, paged_bytes)
    return (consumers, active, active, held_bytes, *counts, *sizes, reads, writes)


def channel_values(channel: Channel) -> tuple[int, ...]:
    transaction, confirms = channel.transaction, channel.confirms
    return (
        len(channel.consumers),
        channel.unacked.count,
        0 if confirms is None else confirms.published - confirms.told,
        0 if transaction is None else len(transaction.publishes),
        0 if transaction is None else len(transaction.entries()),
        channel.consumers.prefetch.count_limit,
        channel.channel_window.count_limit,
    )


def published_values(counters: Counters) -> tuple[int, ...]:
    return counters.publish, counters.confirm, counters.return_unroutable, counters.drop_unroutable


def delivered_values(counters: Counters) -> tuple[int, ...]:
    handed_out = (counters.get, counters.get_no_ack, counters.deliver, counters.deliver_no_ack)
    return (*handed_out, counters.redeliver, counters.ack, counters.get_empty)


def connection_values(client: Client) -> tuple[int, ...]:
    transport = client.transport
    return transport.received_count, transport.sent_count, transport.unsent_bytes(), len(client.channels)
