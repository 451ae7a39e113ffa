"""Routes: where the messages of a channel go, remembered by the octets of their basic.publish.

A publisher sends the same few basic.publish methods again and again, and their octets are at hand: as keys they need no
decoding, no strings and no look at exchange and bindings.

  (1) A route is remembered if it depends on nothing but its method, until the broker's epoch changes: a right revoked
      between two publishes of one burst is felt by the second. It `varies` if the message's headers have a say.
  (2) It counts its messages; when it is forgotten, or somebody asks (`flush_counts`), they go to the counters' breakdowns.
"""

from leveret.broker.broker import Broker
from leveret.broker.budget import OCTETS_A_UNIT
from leveret.broker.counters import Counters
from leveret.broker.exchange import Exchange
from leveret.broker.message import Message, Origin
from leveret.broker.queue import Queue
from leveret.broker.rewrite import carbon_copies, rewritten
from leveret.broker.rights import Rights
from leveret.broker.vhost import VirtualHost
from leveret.errors import FrameError, NotImplementedFault, PreconditionFailed
from leveret.protocol.reply_to import PREFIX
from leveret.protocol.route_counts import RouteCounts
from leveret.protocol.session import Session
from leveret.wire.content import properties_of
from leveret.wire.methods import decode_method
from leveret.wire.properties import Properties
from leveret.wire.spec import BASIC_PUBLISH
from leveret.wire.values import Table, kind_of

ROUTES_MAX = 4096
TOLD_AT_ONCE = 16
MANDATORY = 1
IMMEDIATE = 2
# What a route that is looked up costs in the budget of a pass.
LOOK_UP_COST = 2
# What is published to an exchange that is not there.
NOWHERE = Counters()


class Route:
    """Where the messages of one exchange and routing key go.

    `count` are those since its count was told, of which `lost` went nowhere and `elsewhere` not to its queues.
    """

    __slots__ = ("count", "counters", "elsewhere", "lost", "mandatory", "origin", "queues", "traced", "varies")

    def __init__(self, origin: Origin, mandatory: bool) -> None:
        self.origin = origin
        self.mandatory = mandatory
        self.varies = False
        self.traced = False
        self.count = 0
        self.lost = 0
        self.elsewhere = 0
        self.queues: list[Queue] = []
        # The exchange's.
        self.counters = NOWHERE


class Routes:
    """The routes that one channel uses; `counters` is the channel's.

    `last` is the one of `last_method`, and still is if the broker's epoch is `epoch`: the channel looks before it asks.
    """

    __slots__ = ("_broker", "_routes", "_session", "_vhost", "counters", "epoch", "last", "last_method")

    def __init__(self, session: Session, counters: Counters) -> None:
        self._session = session
        self._broker: Broker = session.broker
        self._vhost: VirtualHost = session.vhost
        self.counters = counters
        self.epoch = 0
        self._routes: dict[bytes, Route] = {}
        self.last_method = b""
        self.last: Route | None = None

    def find(self, method: bytes) -> Route:
        """The route of a basic.publish, remembered or looked up."""
        if self.epoch != self._broker.epoch:
            self.flush_counts()
            self._routes = {}
            self.epoch = self._broker.epoch
            self._session.check_throttle()
        route = self._routes.get(method)
        if route is None:
            route = self._look_up(method)
        self.last_method = method
        self.last = route
        return route

    def _look_up(self, method: bytes) -> Route:
        name_end = 7 + method[6] if len(method) > 6 else len(method)
        key_end = name_end + 1 + method[name_end] if len(method) > name_end else len(method)
        if len(method) != key_end + 1:
            decode_method(BASIC_PUBLISH, method, 4, len(method))  # raises with RabbitMQ's text
            raise FrameError("cannot decode basic.publish")  # pragma: no cover - for the compiler, which checks no bounds
        if method[key_end] & IMMEDIATE:
            raise NotImplementedFault("immediate=true")
        name = method[7:name_end].decode("utf-8", "surrogateescape")
        key = method[name_end + 1 : key_end].decode("utf-8", "surrogateescape")
        rights: Rights = self._session.rights
        rights.check_exchange("write", name)
        route = Route(Origin(name, key, method[6:key_end] + b"\xce"), (method[key_end] & MANDATORY) != 0)
        route.traced = self._vhost.tracing
        exchange = self._exchange(name)
        if exchange is not None:
            route.counters = exchange.counters
        if exchange is None:
            pass
        elif not name and key.startswith(PREFIX):
            waiting = self._broker.replies.get(key)
            route.queues = [] if waiting is None else [waiting]
        else:
            exchange.check_publishable()
            if exchange.kind == "topic":
                rights.check_topic("write", name, key)
            router = self._vhost.router
            self._broker.work.budget.left -= LOOK_UP_COST
            route.queues = router.route(exchange, key, None)
            route.varies = not router.cacheable
        if len(self._routes) >= ROUTES_MAX:
            self.flush_counts()
            self._routes = {}
        self._routes[method] = route
        return route

    def flush_counts(self) -> int:
        """Add what the routes have counted to the breakdown of these counters and of the queues'; how many routes it has.

        Of routes to many queues that is left to the work list; routes to the same queues are told together.
        """
        last: RouteCounts | None = None
        for route in self._routes.values():
            if route.count:
                last = self._flush_counts_of(route, last)
        return len(self._routes)

    def _flush_counts_of(self, route: Route, last: RouteCounts | None) -> RouteCounts | None:
        part = self.counters.breakdown_for(route.counters)
        part.publish += route.count
        if route.mandatory:
            part.return_unroutable += route.lost
        else:
            part.drop_unroutable += route.lost
        straight = route.count - route.elsewhere
        route.count = route.lost = route.elsewhere = 0
        if len(route.queues) > TOLD_AT_ONCE:
            if last is not None and last.same(route.counters, route.queues):
                last.count += straight
            else:
                last = RouteCounts(route.counters, route.queues, straight)
                self._broker.work.add(last)
        elif straight:
            for queue in route.queues:
                part = queue.counters.breakdown_for(route.counters)
                part.publish += straight
        return last

    def count_elsewhere(self, route: Route, queues: list[Queue]) -> None:
        """Count a message that goes to other queues than those of its route."""
        route.elsewhere += 1
        if len(queues) > TOLD_AT_ONCE:
            self._broker.work.add(RouteCounts(route.counters, queues, 1))
            return
        for queue in queues:
            part = queue.counters.breakdown_for(route.counters)
            part.publish += 1

    def _exchange(self, name: str) -> Exchange | None:
        """The exchange to publish to; None if there is none and that is all right here."""
        if self._broker.settings.drop_to_unknown_exchange:
            return self._vhost.exchanges.get(name)
        return self._vhost.exchange(name)

    def again(self, route: Route, message: Message) -> list[Queue]:
        """The queues of one message of a route that varies."""
        properties = self.properties(message)
        router = self._vhost.router
        queues: list[Queue] = router.route(self._vhost.exchange(route.origin.exchange), route.origin.routing_key, properties)
        router.give_to_keepers(message, self._session.now)
        return queues

    def copied(self, route: Route, message: Message) -> tuple[Message, list[Queue]]:
        """A message with more routing keys in its headers CC and BCC, and its queues; nobody sees the latter header."""
        properties = self.properties(message)
        headers = properties.headers or {}
        check_copies(headers)
        keys = [route.origin.routing_key, *carbon_copies(headers, "CC"), *carbon_copies(headers, "BCC")]
        exchange = self._exchange(route.origin.exchange)
        if exchange is None:
            return message, []
        queues = self._route_copies(exchange, keys, properties)
        if "BCC" in headers:
            properties.headers = {name: value for name, value in headers.items() if name != "BCC"}
            origin = message.origin
            blind = tuple(carbon_copies(headers, "BCC"))
            message = rewritten(message, properties, Origin(origin.exchange, origin.routing_key, origin.address, blind))
        self._vhost.router.give_to_keepers(message, self._session.now)
        return message, queues

    def _route_copies(self, exchange: Exchange, keys: list[str], properties: Properties) -> list[Queue]:
        if exchange.kind == "topic":
            for key in keys:
                self._session.rights.check_topic("write", exchange.name, key)
        return self._vhost.router.route_all(exchange, keys, properties)

    def properties(self, message: Message) -> Properties:
        """The properties, decoded, which takes by their size."""
        self._broker.work.budget.left -= message.header_size // OCTETS_A_UNIT
        return properties_of(message.content, message.header_size)

    def forget(self) -> None:
        """Nothing more is published: tell what was counted."""
        self.flush_counts()
        self._routes = {}
        self.last = None


def check_copies(headers: Table) -> None:
    for name in ("CC", "BCC"):
        if name in headers and not isinstance(headers[name], list):
            raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind_of(headers[name])}}}')
