"""Where a message would go, without publishing it: each binding on its way, and whether it fits.

A binding is asked alone, in an exchange of its own of the same type, so it is the broker's own matching that answers and
nothing is remembered. What depends on more than the message is said: one of an x-random's bindings is drawn when a message
comes, and an x-message-deduplication drops those that it knows. A delay is no matter for where a message goes in the end.
"""

from typing import NamedTuple

from leveret.broker.binding import Binding
from leveret.broker.exchange import DefaultExchange, Exchange
from leveret.broker.exchange_types import INNER_TYPES
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.wire.properties import Properties

# Of more bindings the rest is not looked at.
STEPS_MAX = 10_000
HASH, RANDOM, DELAYED = "x-consistent-hash", "x-random", "x-delayed-message"


class Step(NamedTuple):
    """A binding that was looked at; going on to an alternate exchange has none. `depth` counts the exchanges before it."""

    source: Exchange
    destination: Exchange | Queue
    binding: Binding | None
    fits: bool
    depth: int


class Trial:
    """The way of one message: its steps, in the order in which exchanges are reached, and the queues at its end."""

    def __init__(self, vhost: VirtualHost, routing_key: str, properties: Properties) -> None:
        self._vhost = vhost
        self._key = routing_key
        self._properties = properties
        self._reached: set[Exchange | Queue] = set()
        self.steps: list[Step] = []
        self.queues: list[Queue] = []
        # Whether chance decides about some of it.
        self.random = False
        self.complete = True

    def run(self, exchange: Exchange) -> None:
        """Follow a message from here, to any depth, through each exchange once."""
        pending = [(exchange, 0)]
        self._reached.add(exchange)
        while pending:
            source, depth = pending.pop(0)
            before = len(self.steps)
            self._try(source, depth)
            led = [step for step in self.steps[before:] if step.fits]
            if not led and source.alternate:
                led = self._alternate(source, depth)
            for step in led:
                if step.destination in self._reached:
                    continue
                self._reached.add(step.destination)
                if isinstance(step.destination, Queue):
                    self.queues.append(step.destination)
                else:
                    pending.append((step.destination, depth + 1))

    def _try(self, source: Exchange, depth: int) -> None:
        if isinstance(source, DefaultExchange):
            queue = self._vhost.queues.get(self._key)
            if queue is not None:
                self._add(Step(source, queue, Binding(source, queue, self._key, {}), True, depth))
            return
        kind = str(source.arguments.get("x-delayed-type", "")) if source.kind == DELAYED else source.kind
        self.random = self.random or kind == RANDOM
        chosen = source.match(self._key, self._properties) if source.kind == HASH else []
        for binding in list(source.bindings.values()):
            destination = binding.destination
            if not destination.deleted:
                fits = destination in chosen if kind == HASH else self._fits(kind, source, binding)
                self._add(Step(source, destination, binding, fits, depth))

    def _fits(self, kind: str, source: Exchange, binding: Binding) -> bool:
        # What these take in does not depend on the binding, and asking would be remembered.
        if kind in (RANDOM, "x-message-deduplication"):
            return True
        alone = INNER_TYPES[kind](source.name, source.title, kind, {})
        alone.bind(binding)
        return bool(alone.match(self._key, self._properties))

    def _alternate(self, source: Exchange, depth: int) -> list[Step]:
        exchange = self._vhost.exchanges.get(source.alternate or "")
        if exchange is None or isinstance(exchange, DefaultExchange):
            return []
        step = Step(source, exchange, None, True, depth)
        self._add(step)
        return [step]

    def _add(self, step: Step) -> None:
        if len(self.steps) >= STEPS_MAX:
            self.complete = False
        else:
            self.steps.append(step)
