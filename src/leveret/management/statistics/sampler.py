"""Samples of everything, every 5 seconds: what rates and charts are made from.

(1) The node, vhosts and totals are remembered for a day, other objects for an hour; of more than `FULL_MAX` other objects
    the rest for a minute, which is enough for rates. So memory is bounded.
    Of breakdowns (what a channel did with a queue, …) `BREAKDOWN_MAX` are remembered, for a minute.
(2) An object that has done nothing has no history, and one that is gone has none from the next round on.
(3) A round is done in slices of at most `SLICE_S`, so that 10,000 queues hold nobody up.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from leveret.broker.counters import NAMES, Counters
from leveret.broker.exchange import Exchange
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.client import sessions_in
from leveret.management.http.json import JsonObject
from leveret.management.statistics.history import BASIC, BRIEF, GLOBAL, SAMPLE_MS, History, Policies
from leveret.management.statistics.log_lines import LogLines
from leveret.management.statistics.node_stats import NODE_NAMES, node_counts
from leveret.management.statistics.total import octets_by_vhost
from leveret.protocol.channel import Channel
from leveret.server.clock import now_ms
from leveret.server.process_memory import HeapUse
from leveret.server.transport import Transport

if TYPE_CHECKING:
    from leveret.management.statistics.memory import MemoryParts
    from leveret.server.node import Node

FULL_MAX = 2_000
BREAKDOWN_MAX = 2_000
SLICE_S = 0.001
# So much is looked at before the clock is.
GROUP = 20
PAUSE_S = 0.01
RECENT_MS = 500

T = TypeVar("T")

LENGTHS = ("messages_ready", "messages_unacknowledged")
CHANNEL_NAMES = tuple(name for name in NAMES if name not in ("publish_in", "publish_out"))
TOTAL_NAMES = (*CHANNEL_NAMES, *LENGTHS)
BROKER_NAMES = (*TOTAL_NAMES, "disk_reads", "disk_writes")
VHOST_NAMES = (*TOTAL_NAMES, "recv_oct", "send_oct")
QUEUE_NAMES = (
    "publish",
    "deliver",
    "deliver_no_ack",
    "redeliver",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    *LENGTHS,
)
EXCHANGE_NAMES = ("publish_in", "publish_out")
PUBLISH_NAMES = ("publish",)
CONNECTION_NAMES = ("recv_oct", "send_oct", "recv_cnt", "send_cnt")

log = logging.getLogger("leveret.statistics")


class Recent(Generic[T]):
    """What was made lately, by what it was made of: many may want the same at once."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], T] = {}
        self._since = 0

    def get(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What was made of this lately, or is made now."""
        now = now_ms()
        if now - self._since > RECENT_MS:
            self._made = {}
            self._since = now
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


class Sampler:
    """All histories, and the round that samples them. `node_counts` are the node's statistics of the last round."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._histories: dict[object, History] = {}
        self._next: dict[object, History] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._round: Iterator[None] | None = None
        self._began_at = 0
        self._part_count = 0
        self.total = History(BROKER_NAMES, GLOBAL)
        self.node = History(NODE_NAMES, GLOBAL)
        self.vhosts: dict[object, History] = {}
        self.heap_use = HeapUse()
        self.log_lines = LogLines()
        # What others have made of all this.
        self.recent_counters: Recent[JsonObject] = Recent()
        self.recent_memory: Recent[MemoryParts] = Recent()
        self.node_counts: dict[str, int] = dict.fromkeys(NODE_NAMES, 0)

    def start(self) -> None:
        """Sample from now on."""
        self._loop = asyncio.get_running_loop()
        if not self._node.is_guest:
            self.log_lines.open()
        for _ in self._sample_all():
            pass
        self._rest(self._loop)

    def close(self) -> None:
        self.log_lines.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def of(self, subject: object) -> History | None:
        """The history of a queue, exchange, channel, connection (its Transport) or vhost, if it has one."""
        return self._histories.get(subject) or self.vhosts.get(subject)

    def history_bytes(self) -> int:
        """What all samples take."""
        histories = [self.total, self.node, *self.vhosts.values(), *self._histories.values()]
        return sum(history.bytes() for history in histories)

    def idle_since(self, subject: object, otherwise: int) -> int | None:
        """Since when (ms) an object has done nothing; `otherwise` if it never did. None while it does something."""
        history = self._histories.get(subject)
        if history is None:
            return otherwise
        return history.changed_at if now_ms() - history.changed_at > SAMPLE_MS + SAMPLE_MS // 2 else None

    # The round

    def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until the next round is due."""
        self._round = None
        delay_ms = max(0, SAMPLE_MS - (now_ms() - self._began_at))
        self._timer = loop.call_later(delay_ms / 1000, self._go_on, loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """One slice."""
        try:
            if self._round is None:
                self._round = self._sample_all()
            end = time.perf_counter() + SLICE_S
            for _ in self._round:
                if time.perf_counter() >= end:
                    self._timer = loop.call_later(PAUSE_S, self._go_on, loop)
                    return
        except Exception:
            log.exception("a round of samples failed")
        self._rest(loop)

    def _sample_all(self) -> Iterator[None]:
        self._began_at = now = now_ms()
        self._next = {}
        self._part_count = 0
        broker = self._node.broker
        self.node_counts = node_counts(self._node)
        self.node.begin(now, list(self.node_counts.values()))
        yield
        total = Counters()
        total.add(broker.counters)
        ready = unacked = 0
        vhosts = list(broker.vhosts.values())
        self.vhosts = {vhost: self.vhosts.get(vhost) or History(VHOST_NAMES, GLOBAL) for vhost in vhosts}
        octets = yield from self._sample_connections(vhosts)
        for vhost in vhosts:
            counters, vhost_ready, vhost_unacked = Counters(), 0, 0
            counters.add(vhost.counters)
            for at, queue in enumerate(list(vhost.queues.values())):
                vhost_ready += queue.ready_count
                vhost_unacked += queue.unacked_count
                self._sample_queue(queue)
                if at % GROUP == 0:
                    yield
            for session in list(sessions_in(vhost)):
                for channel in list(session.channels.values()):
                    counters.add(channel.counters)
                    self._sample_channel(channel)
                yield
            for at, exchange in enumerate(list(vhost.exchanges.values())):
                self._sample_exchange(exchange)
                if at % GROUP == 0:
                    yield
            self._sample_total(self.vhosts.get(vhost), counters, vhost_ready, vhost_unacked, *octets[vhost].values())
            total.add(counters)
            ready += vhost_ready
            unacked += vhost_unacked
        traffic = broker.storage.traffic()
        self._sample_total(self.total, total, ready, unacked, traffic.messages_read, traffic.messages_written)
        self._histories = self._next

    def _sample_connections(self, vhosts: list[VirtualHost]) -> Generator[None, None, dict[VirtualHost, dict[str, int]]]:
        """Sample each, and return what went over them by vhost, as it is when all are sampled."""
        for at, transport in enumerate(list(self._node.transports)):
            self._sample_connection(transport)
            if at % GROUP == 0:
                yield
        return octets_by_vhost(self._node.transports, vhosts)

    def _sample_total(self, history: History | None, counters: Counters, *more: int) -> None:
        if history is not None:
            history.begin(now_ms(), (*channel_values(counters), *more))

    def _sample_queue(self, queue: Queue) -> None:
        t = queue.counters
        if t.publish or t.deliver or t.deliver_no_ack or t.get or t.get_no_ack or t.get_empty:
            lengths = (queue.ready_count, queue.unacked_count)
            values = (t.publish, t.deliver, t.deliver_no_ack, t.redeliver, t.get, t.get_no_ack, t.get_empty, t.ack, *lengths)
            self._keep(queue, QUEUE_NAMES, values)
            self._sample_breakdown(t, PUBLISH_NAMES, published_values)

    def _sample_channel(self, channel: Channel) -> None:
        values = channel_values(channel.counters)
        if any(values):
            self._node.do(channel.routes.flush_counts)
            self._keep(channel, CHANNEL_NAMES, values)
            self._sample_breakdown(channel.counters, CHANNEL_NAMES, channel_values)

    def _sample_breakdown(
        self, counters: Counters, names: tuple[str, ...], values: Callable[[Counters], tuple[int, ...]]
    ) -> None:
        parts = () if counters.breakdown is None else list(counters.breakdown.values())
        for part in parts[: BREAKDOWN_MAX - self._part_count]:
            self._part_count += 1
            self._keep(part, names, values(part), BRIEF)

    def _sample_exchange(self, exchange: Exchange) -> None:
        counters = exchange.counters
        if counters.publish_in or counters.publish_out:
            self._keep(exchange, EXCHANGE_NAMES, (counters.publish_in, counters.publish_out))

    def _sample_connection(self, transport: Transport) -> None:
        if transport.connection is not None:
            self._keep(transport, CONNECTION_NAMES, connection_values(transport))

    def _keep(self, subject: object, names: tuple[str, ...], values: tuple[int, ...], most: Policies = BASIC) -> None:
        history = self._histories.get(subject)
        if history is None:
            policies = most if len(self._histories) < FULL_MAX else BRIEF
            history = self._histories[subject] = History(names, policies)
        self._next[subject] = history
        history.begin(now_ms(), values)


def channel_values(t: Counters) -> tuple[int, ...]:
    """The counters of CHANNEL_NAMES."""
    published = (t.publish, t.confirm, t.return_unroutable, t.drop_unroutable)
    return (*published, t.deliver, t.deliver_no_ack, t.redeliver, t.get, t.get_no_ack, t.get_empty, t.ack)


def published_values(counters: Counters) -> tuple[int]:
    """The counters of PUBLISH_NAMES."""
    return (counters.publish,)


def connection_values(transport: Transport) -> tuple[int, int, int, int]:
    """The counters of CONNECTION_NAMES."""
    return transport.received_bytes, transport.sent_bytes, transport.received_count, transport.sent_count
