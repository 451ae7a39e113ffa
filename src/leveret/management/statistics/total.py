"""Sums over the queues and channels of a vhost or of all vhosts; closed channels are included."""

from collections.abc import Iterable

from leveret.broker.broker import Broker
from leveret.broker.counters import Counters
from leveret.broker.queue_sums import QueueSums
from leveret.broker.vhost import VirtualHost
from leveret.management.client import channels_in
from leveret.server.transport import Transport, vhost_of


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


def octets_by_vhost(transports: Iterable[Transport], vhosts: Iterable[VirtualHost]) -> dict[VirtualHost, dict[str, int]]:
    """Octets that came and went, by vhost; those of connections that are gone included."""
    found = {vhost: {"recv_oct": vhost.received_bytes, "send_oct": vhost.sent_bytes} for vhost in vhosts}
    for transport in transports:
        vhost = None if transport.connection is None else vhost_of(transport.connection)
        counts = None if vhost is None else found.get(vhost)
        if counts is not None:
            counts["recv_oct"] += transport.received_bytes
            counts["send_oct"] += transport.sent_bytes
    return found


def vhost_counters(vhost: VirtualHost) -> Counters:
    """What all channels of a vhost have done, ever."""
    total = Counters()
    total.add(vhost.counters)
    for channel in channels_in(vhost):
        total.add(channel.counters)
    return total


def vhosts_counters(vhosts: Iterable[VirtualHost]) -> Counters:
    """What all channels of these vhosts have done, ever."""
    total = Counters()
    for vhost in vhosts:
        total.add(vhost_counters(vhost))
    return total


def broker_counters(broker: Broker) -> Counters:
    """What all channels have done, ever."""
    total = vhosts_counters(broker.vhosts.values())
    total.add(broker.counters)
    return total
