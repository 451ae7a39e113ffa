"""From an exchange to the queues a message reaches.

Follows bindings between exchanges to any depth, each exchange and each queue at most once, so that cycles end and no
queue gets a message twice. An exchange that leads nowhere hands on to its alternate. What is deleted is passed by, also
while there still are bindings to it. All that is looked at counts in the budget of the pass. Knows nothing of what is in a
message.
"""

from leveret.broker.dispatch import push
from leveret.broker.exchange import Exchange
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.work import Work
from leveret.wire.properties import Properties

# So many exchanges, bindings or destinations looked at cost as much as one operation of a queue.
LOOKS = 8


class Router:
    """Routes within one virtual host.

    After `route`, `cacheable` says whether the result depends on the exchange and routing key alone; if it does not,
    `give_to_keepers` is to be called too.
    """

    __slots__ = ("_exchanges", "_keepers", "_stamp", "_work", "cacheable")

    def __init__(self, exchanges: dict[str, Exchange], work: Work) -> None:
        self._exchanges = exchanges
        self._work = work
        self._stamp = 0
        self._keepers: list[Queue] = []
        self.cacheable = True

    def route(self, exchange: Exchange, routing_key: str, properties: Properties | None) -> list[Queue]:
        """The queues reached, in the order of their bindings."""
        return self.route_all(exchange, [routing_key], properties)

    def route_all(self, exchange: Exchange, routing_keys: list[str], properties: Properties | None) -> list[Queue]:
        """The queues reached with any of these routing keys."""
        if len(routing_keys) > 1:
            routing_keys = list(dict.fromkeys(routing_keys))
        self._stamp += 1
        self.cacheable = True
        self._keepers = []
        queues: list[Queue] = []
        exchange.reached_in = self._stamp
        pending = [exchange]
        at = 0
        looks = 0
        while at < len(pending):
            source = pending[at]
            at += 1
            if source.varies:
                self._varies(source, properties)
            source.looks = 0
            if len(routing_keys) == 1:
                found = source.match(routing_keys[0], properties)
            else:
                found = source.match_all(routing_keys, properties)
            looks += 1 + source.looks + len(found)
            live = False
            for destination in found:
                if self._reach(destination, queues, pending):
                    live = True
            # RabbitMQ: as an alternate the default exchange leads nowhere, as nothing is bound to it.
            if not live and source.alternate:
                alternate = self._exchanges.get(source.alternate)
                if alternate is not None:
                    self._reach(alternate, queues, pending)
        self._work.budget.left -= looks // LOOKS
        return queues

    def has_keepers(self) -> bool:
        """Whether a queue on the last route keeps the message without being a destination."""
        return bool(self._keepers)

    def give_to_keepers(self, message: Message, now: int) -> None:
        """Give a message to the queues on its last route that keep it without being destinations."""
        for queue in self._keepers:
            push(queue, message, now)

    def _varies(self, source: Exchange, properties: Properties | None) -> None:
        self.cacheable = False
        keeper = source.keeper(properties)
        if isinstance(keeper, Queue):
            self._keepers.append(keeper)

    def _reach(self, destination: object, queues: list[Queue], pending: list[Exchange]) -> bool:
        """Go on to a destination; False if it is gone."""
        if isinstance(destination, Queue):
            queue = destination
            if queue.deleted:
                return False
            if queue.reached_in != self._stamp:
                queue.reached_in = self._stamp
                queues.append(queue)
        elif isinstance(destination, Exchange):
            exchange = destination
            if exchange.deleted:
                return False
            if exchange.reached_in != self._stamp:
                exchange.reached_in = self._stamp
                pending.append(exchange)
        return True
