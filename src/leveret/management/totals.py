"""Sums: over the queues of a vhost or of all, and over the channels, those that are gone included."""

from collections.abc import Iterable

from leveret.broker.broker import Broker
from leveret.broker.queue_sums import QueueSums
from leveret.broker.tally import Tally
from leveret.broker.vhost import VirtualHost


def queue_sums(vhosts: Iterable[VirtualHost]) -> QueueSums:
    """The sums over all queues of these vhosts."""
    sums = QueueSums()
    for vhost in vhosts:
        sums.add(vhost.queues)
    return sums


def message_counts(sums: QueueSums) -> dict[str, int]:
    """How many messages there are in these queues."""
    ready, unacked = sums.ready, sums.unacked
    return {"messages": ready + unacked, "messages_ready": ready, "messages_unacknowledged": unacked}


def vhost_tally(vhost: VirtualHost) -> Tally:
    """What all channels of a vhost have done, ever."""
    total = Tally()
    total.add(vhost.tally)
    for presence in vhost.present:
        for channel in presence.channels.values():  # type: ignore[attr-defined]
            total.add(channel.tally)
    return total


def vhosts_tally(vhosts: Iterable[VirtualHost]) -> Tally:
    """What all channels of these vhosts have done, ever."""
    total = Tally()
    for vhost in vhosts:
        total.add(vhost_tally(vhost))
    return total


def broker_tally(broker: Broker) -> Tally:
    """What all channels have done, ever."""
    total = vhosts_tally(broker.vhosts.values())
    total.add(broker.tally)
    return total
