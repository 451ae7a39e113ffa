"""Moving messages from a queue to where they should be: to another queue, to an exchange, or back to where they died.

(1) Each message is placed and settled in one group of the journal: after a crash it is in one place, and only there.
(2) They go in order. What cannot be placed stays, and is where it was when all is done, marked as delivered before.
"""

from collections.abc import Callable
from typing import NamedTuple

from leveret.broker.dead_letter import is_death
from leveret.broker.dispatch import push
from leveret.broker.exchange import Exchange
from leveret.broker.message import Entry, Message, Origin, new_message
from leveret.broker.queue import Queue
from leveret.broker.rewrite import carbon_copies, make_origin, rewritten
from leveret.broker.rights import Rights
from leveret.broker.vhost import VirtualHost
from leveret.errors import AccessRefused
from leveret.management.messages.take import PIECE, settle_all, take_all
from leveret.protocol.settlement import REQUEUED
from leveret.server.node import Node
from leveret.wire.content import properties_of

# What became of a message: it is placed, or not, or nor would others be.
PLACED, LEFT, REFUSED = 0, 1, 2

Place = Callable[[Message, int], int]


class Move:
    """Up to `count` messages on their way out of a queue, of which no more than `most` are placed; `left` are the others."""

    def __init__(self, node: Node, queue: Queue, count: int, place: Place, most: int | None = None) -> None:
        self._node = node
        self._queue = queue
        self._count = min(count, queue.ready_count)
        self._most = self._count if most is None else most
        self._place = place
        self._refused = False
        self.moved = 0
        self.left: list[Entry] = []

    async def run(self) -> dict[str, int]:
        """Move them, and return when that is on disk."""
        try:
            await take_all(self._node, self._queue, self._move_some)
        finally:
            await settle_all(self._node, self.left, REQUEUED)
        return {"moved": self.moved, "left": len(self.left)}

    def _move_some(self) -> bool:
        work = self._node.broker.work
        work.storage.write_places()
        group = work.storage.begin_group()
        work.storage.set_group(group)
        try:
            return self._move_piece()
        finally:
            work.storage.write_places()
            work.storage.set_group(0)
            work.storage.commit(group)

    def _move_piece(self) -> bool:
        queue = self._queue
        for _ in range(PIECE):
            if self._refused or self.moved >= self._most or self.moved + len(self.left) >= self._count:
                return True
            entry = queue.take(no_ack=False)
            if entry is None:
                return False
            self.left.append(entry)
            became = self._place(self._message(entry), self._node.broker.now)
            self._refused = became == REFUSED
            if became == PLACED:
                self.left.pop()
                queue.settle(entry)
                self.moved += 1
        return False

    def _message(self, entry: Entry) -> Message:
        """The message without what only its queue says of it."""
        if not self._queue.settings.counts_deliveries or not entry.delivery_count:
            return entry.message
        properties = properties_of(entry.message.content, entry.message.header_size)
        headers = properties.headers or {}
        properties.headers = {name: value for name, value in headers.items() if name != "x-delivery-count"}
        return rewritten(entry.message, properties, entry.message.origin)


def to_queue(target: Queue) -> Place:
    """Into a queue, as they are."""

    def place(message: Message, now: int) -> int:
        return PLACED if not target.deleted and push(target, message, now) else REFUSED

    return place


def to_exchange(vhost: VirtualHost, rights: Rights, exchange: Exchange, routing_key: str | None) -> Place:
    """To wherever an exchange leads, with another routing key or their own."""

    def place(message: Message, now: int) -> int:
        if exchange.deleted:
            return REFUSED
        key = message.origin.routing_key if routing_key is None else routing_key
        properties = properties_of(message.content, message.header_size)
        keys = [key, *carbon_copies(properties.headers or {}, "CC")]
        try:
            for one in keys if exchange.kind == "topic" else []:
                rights.check_topic("write", exchange.name, one)
        except AccessRefused:
            return LEFT
        queues = vhost.router.route_all(exchange, keys, properties)
        if not queues and not vhost.router.has_keepers():
            return LEFT
        anew = readdressed(message, make_origin(exchange.name, key))
        exchange.counters.publish_in += 1
        exchange.counters.publish_out += len(queues)
        vhost.router.give_to_keepers(anew, now)
        for queue in queues:
            queue.counters.breakdown_for(exchange.counters).publish += 1
        taken = [push(queue, anew, now) for queue in queues]
        return PLACED if any(taken) or not queues else REFUSED

    return place


def to_where_they_died(vhost: VirtualHost, chosen: "Chosen") -> Place:
    """Back into the queues in which they died last, addressed as they were; those that are chosen."""

    def place(message: Message, now: int) -> int:
        death = last_death(message)
        if death is None or not chosen(death):
            return LEFT
        target = vhost.queues.get(death.queue)
        if target is None:
            return LEFT
        anew = readdressed(message, make_origin(death.exchange, death.routing_key))
        return PLACED if push(target, anew, now) else LEFT

    return place


class Death(NamedTuple):
    """In which queue a message died and of what, how it was addressed then, and when (ms) that happened first."""

    queue: str
    reason: str
    exchange: str
    routing_key: str
    time: int | None


# Which of them are meant.
Chosen = Callable[[Death], bool]


def last_death(message: Message) -> Death | None:
    """What the newest entry of x-death says, if there is one that says it all: clients may write it too."""
    headers = properties_of(message.content, message.header_size).headers or {}
    deaths = headers.get("x-death")
    death = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(death, dict) or not is_death(death):
        return None
    queue, exchange, keys = death["queue"], death.get("exchange"), death.get("routing-keys")
    key = next((key for key in keys if isinstance(key, str)), None) if isinstance(keys, list) else None
    if not isinstance(queue, str) or not isinstance(exchange, str) or key is None:
        return None
    time = death.get("time")
    return Death(queue, str(death["reason"]), exchange, key, time * 1000 if isinstance(time, int) else None)


def readdressed(message: Message, origin: Origin) -> Message:
    """The same message as if published elsewhere."""
    anew = new_message(origin, message.content, message.header_size, message.body_size, message.frame_size, message.flags)
    anew.ttl_ms = message.ttl_ms
    return anew
