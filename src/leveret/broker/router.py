"""From an exchange to the queues a message reaches.

Follows bindings between exchanges to any depth, each exchange and each queue at most once, so that cycles end and no
queue gets a message twice. An exchange that leads nowhere hands on to its alternate. Knows nothing of what is in a message.
"""

from leveret.broker.exchange import Exchange
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.wire.properties import Properties


class Router:
    """Routes within one virtual host.

    After `route`, `cacheable` says whether the result depends on the exchange and routing key alone; if it does not, `keep`
    is to be called too.
    """

    __slots__ = ("_exchanges", "_keepers", "_stamp", "cacheable")

    def __init__(self, exchanges: dict[str, Exchange]) -> None:
        self._exchanges = exchanges
        self._stamp = 0
        self._keepers: list[Queue] = []
        self.cacheable = True

    def route(self, exchange: Exchange, routing_key: str, properties: Properties | None) -> list[Queue]:
        """The queues reached, in the order of their bindings."""
        return self.route_all(exchange, [routing_key], properties)

    def route_all(self, exchange: Exchange, routing_keys: list[str], properties: Properties | None) -> list[Queue]:
        """The queues reached with any of these routing keys."""
        self._stamp += 1
        self.cacheable = True
        self._keepers = []
        queues: list[Queue] = []
        exchange.mark = self._stamp
        pending = [exchange]
        at = 0
        while at < len(pending):
            source = pending[at]
            at += 1
            if source.varies:
                self._varies(source, properties)
            if len(routing_keys) == 1:
                found = source.match(routing_keys[0], properties)
            else:
                found = source.match_all(routing_keys, properties)
            if not found and source.alternate is not None:
                found = self._alternate(source)
            for destination in found:
                self._reach(destination, queues, pending)
        return queues

    def keeps(self) -> bool:
        """Whether a queue on the last route keeps the message without being a destination."""
        return bool(self._keepers)

    def keep(self, message: Message, now: int) -> None:
        """Give a message to the queues on its last route that keep it without being destinations."""
        for queue in self._keepers:
            queue.accept(message, now)

    def _varies(self, source: Exchange, properties: Properties | None) -> None:
        self.cacheable = False
        keeper = source.keeper(properties)
        if isinstance(keeper, Queue):
            self._keepers.append(keeper)

    def _reach(self, destination: object, queues: list[Queue], pending: list[Exchange]) -> None:
        if isinstance(destination, Queue):
            if destination.mark != self._stamp:
                destination.mark = self._stamp
                queues.append(destination)
        elif isinstance(destination, Exchange) and destination.mark != self._stamp:
            destination.mark = self._stamp
            pending.append(destination)

    def _alternate(self, source: Exchange) -> list[object]:
        # RabbitMQ: as an alternate the default exchange leads nowhere, as nothing is bound to it.
        alternate = self._exchanges.get(source.alternate) if source.alternate else None
        return [] if alternate is None else [alternate]
