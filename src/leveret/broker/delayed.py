"""The delayed message exchange: a message with a header x-delay is routed that many milliseconds later.

An inner exchange of the type `x-delayed-type` chooses and checks bindings. What is delayed waits in a hidden queue, where
it expires when it is due; what that queue drops is routed by `DelayedRelease`, by the bindings of that moment. So a hundred
thousand messages that wait are one timer. Knows no clock.

  (1) Delayed is what has an x-delay of 1 to 2**32 - 1; everything else is routed at once.
  (2) A delayed message counts as routed: it is confirmed and never returned. Where it leads nowhere when it is due, the
      alternate exchange has it, or nobody.
  (3) It comes out as it went in, but for x-delay, which is negative now: it is not delayed again. Its own time to live
      begins when it comes out.
  (4) With the exchange goes what waits.
"""

from typing import TYPE_CHECKING

from leveret.broker.arguments import INTEGERS, QueueSettings
from leveret.broker.binding import Binding
from leveret.broker.dead_letter import DeadLetterTask
from leveret.broker.exchange import Exchange
from leveret.broker.exchange_types import INNER_TYPES
from leveret.broker.hidden_queue import make_hidden_queue, remove_hidden_queue
from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.broker.rewrite import rewritten
from leveret.errors import PreconditionFailed
from leveret.wire.content import properties_of
from leveret.wire.properties import Properties
from leveret.wire.values import SignedInt, Table, kind_of

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost

DELAY_MAX_MS = (1 << 32) - 1
DIGITS_MAX = 10
SIGNED_INT_MAX = (1 << 31) - 1


class DelayedRelease(DeadLetterTask):
    """Routes what has waited long enough, some at a time."""

    __slots__ = ("_exchange",)

    def __init__(self, vhost: "VirtualHost", queue: Queue, exchange: Exchange) -> None:
        DeadLetterTask.__init__(self, vhost, queue)
        self._exchange = exchange

    def _route(self, message: Message, reason: str, now: int, later: list[Queue] | None) -> None:
        self._vhost.publish(self._exchange, undelayed(message), now)


class DelayedExchange(Exchange):
    """To its hidden queue what is to wait, the rest where the inner exchange says."""

    __slots__ = ("_inner", "_vhost", "_waiting")

    _vhost: "VirtualHost"
    _waiting: Queue

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        Exchange.__init__(self, name, title, kind, arguments)
        inner = str(arguments["x-delayed-type"])
        self._inner = INNER_TYPES[inner](name, title, inner, arguments)
        self.varies = True

    @staticmethod
    def check_arguments(arguments: Table) -> None:
        inner = arguments.get("x-delayed-type")
        if not isinstance(inner, str) or inner not in INNER_TYPES:
            raise PreconditionFailed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
        INNER_TYPES[inner].check_arguments(arguments)

    def open(self, vhost: "VirtualHost") -> None:
        self._inner.open(vhost)
        self._vhost = vhost
        self._waiting = make_hidden_queue(vhost, self.name, f"messages delayed by {self.title}", self.durable)
        self._waiting.dead_letter_task = DelayedRelease(vhost, self._waiting, self)
        settings = QueueSettings()
        settings.stay_of = delay_of
        settings.dead_letter_exchange = self.name
        self._waiting.apply(settings, vhost.now)

    def close(self) -> None:
        self._inner.close()
        remove_hidden_queue(self._vhost, self._waiting)

    def match(self, routing_key: str, properties: Properties | None) -> list[object]:
        return self.match_all([routing_key], properties)

    def match_all(self, routing_keys: list[str], properties: Properties | None) -> list[object]:
        if delay_in(properties) > 0:
            return [self._waiting]
        inner = self._inner
        inner.looks = 0
        one = len(routing_keys) == 1
        found = inner.match(routing_keys[0], properties) if one else inner.match_all(routing_keys, properties)
        self.looks += inner.looks
        return found

    def keeper(self, properties: Properties | None) -> object:
        return None if delay_in(properties) > 0 else self._inner.keeper(properties)

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        self._inner.check_binding(routing_key, arguments)

    def _add(self, binding: Binding) -> None:
        self._inner.bind(binding)

    def _remove(self, binding: Binding) -> None:
        self._inner.unbind(binding)


def delay_in(properties: Properties | None) -> int:
    """The delay that is asked for (ms), or 0."""
    value = None if properties is None or properties.headers is None else properties.headers.get("x-delay")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= DIGITS_MAX:
        value = int(value)
    if not isinstance(value, int) or kind_of(value) not in INTEGERS:
        return 0
    return int(value) if 0 < value <= DELAY_MAX_MS else 0


def delay_of(message: Message) -> int:
    """How long a message waits (ms)."""
    return delay_in(properties_of(message.content, message.header_size))


def undelayed(message: Message) -> Message:
    """The message as it comes out."""
    properties = properties_of(message.content, message.header_size)
    delay_ms = delay_in(properties)
    # RabbitMQ: a 32-bit integer, whatever the publisher sent; longer delays do not fit one.
    negative = SignedInt(-delay_ms) if delay_ms <= SIGNED_INT_MAX else -delay_ms
    properties.headers = {**(properties.headers or {}), "x-delay": negative}
    return rewritten(message, properties, message.origin)
