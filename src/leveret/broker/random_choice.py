"""The random exchange: each message to one destination, by chance.

RabbitMQ: one of the bindings is drawn, so a destination that is bound twice is drawn twice as often.
"""

from random import choice
from typing import TYPE_CHECKING

from leveret.broker.binding import Binding
from leveret.broker.exchange import Exchange
from leveret.wire.properties import Properties
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.binding import Destination


class RandomExchange(Exchange):
    """To one destination, whatever the routing key."""

    __slots__ = ("_drawn_from",)

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        self.varies = True
        self._drawn_from: list[Destination] | None = []

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        # Made anew after a change, not at it: binding a thousand queues must not copy a thousand lists.
        if self._drawn_from is None:
            self._drawn_from = [binding.destination for binding in self.bindings.values()]
        if not self._drawn_from:
            return []
        drawn = choice(self._drawn_from)
        if not drawn.deleted:
            return [drawn]
        # It loses its bindings some at a time; the others take over at once.
        self.looks += len(self._drawn_from)
        live = [destination for destination in self._drawn_from if not destination.deleted]
        return [choice(live)] if live else []

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        return self.match("", properties)

    def _add(self, binding: Binding) -> None:
        self._drawn_from = None

    def _remove(self, binding: Binding) -> None:
        self._drawn_from = None
