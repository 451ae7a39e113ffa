"""Dead letters: messages a queue dropped, published again to its dead-letter exchange with the story of their deaths.

  x-death: newest first, one table for each queue and reason: count, reason, queue, time (of the first), exchange,
  routing-keys, and original-expiration where a message had a time to live of its own.

A message that would come again to a queue in which it has died, with no rejection by a client since, is dropped for
that queue: it would go round for ever.
"""

import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

from leveret.broker.budget import OCTETS_A_UNIT, Budget
from leveret.broker.dispatch import push, push_for_later
from leveret.broker.message import Entry, Message, Origin, is_stub
from leveret.broker.queue import Queue
from leveret.broker.rewrite import carbon_copies, make_origin, rewritten
from leveret.broker.storage import Damaged
from leveret.broker.work import Task
from leveret.wire.content import properties_of
from leveret.wire.values import Table, Timestamp

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost

COUNT_MAX = (1 << 63) - 2
# A message that is decoded and written anew takes as long as so many that are passed on.
REWRITE_COST = 8
WARNED_MAX = 1000

# What a death must say to count as one, and what it may say.
DEATH_TYPES = {"reason": str, "queue": str}
DETAIL_TYPES = {"count": int, "time": int, "exchange": str, "routing-keys": list}

log = logging.getLogger("leveret.queue")


class DeadLetterTask(Task):
    """Publishes what one queue has dropped, some at a time. What is only in storage is read first, not in the loop.

    `_fetched` says how many of the first ones have been.
    """

    __slots__ = ("_fetched", "_queue", "_vhost", "_warned")

    def __init__(self, vhost: "VirtualHost", queue: Queue) -> None:
        self._vhost = vhost
        self._queue = queue
        self._fetched = 0
        self._warned: set[str] = set()

    def run(self, budget: Budget) -> bool:
        dead = self._queue.dead
        while dead and budget.left > 0:
            if self._fetched == 0 and is_stub(dead[0][0].message):
                self._fetch()
                return True
            self._fetched = max(0, self._fetched - 1)
            self.route(*dead.popleft(), budget)
        return not dead

    def _fetch(self) -> None:
        """Have the next ones read; it goes on then."""
        sizes = self._queue.backlog.sizes
        stubs = []
        count = body_bytes = 0
        for entry, _ in islice(self._queue.dead, sizes.page_count):
            count += 1
            body_bytes += entry.message.body_size
            if is_stub(entry.message):
                stubs.append(entry)
            if body_bytes >= sizes.page_bytes:
                break

        def fetched() -> None:
            # One that is a stub still is damaged.
            self._fetched = count
            self._queue.work.add(self)

        self._queue.storage.fetch_all(self._queue, stubs, fetched)

    def route(self, entry: Entry, reason: str, budget: Budget, later: list[Queue] | None = None) -> None:
        """Publish one of them, and have storage forget it here. Queues that may wait for `dispatch` are left in `later`."""
        budget.left -= REWRITE_COST
        try:
            message = self._queue.storage.fetch(entry)
            budget.left -= message.header_size // OCTETS_A_UNIT
            self._route(message, reason, budget.now, later)
        except (ValueError, Damaged) as error:
            # Such as a routing key that no message can carry; those behind it must still be published.
            log.error("%s: a dead letter was dropped: %s", self._queue.title, error)
        except OSError:
            raise
        except Exception:
            log.exception("%s: a dead letter was dropped", self._queue.title)
        # Now, and not before: both are in one batch, or none.
        self._queue.dead_letter_published(entry)

    def _route(self, message: Message, reason: str, now: int, later: list[Queue] | None) -> None:
        settings = self._queue.settings
        exchange = self._vhost.exchanges.get(settings.dead_letter_exchange or "")
        if settings.dead_letter_exchange is None or exchange is None:
            return
        counts = self._vhost.churn.dead_lettered
        counts[reason] = counts.get(reason, 0) + 1
        dead, keys = as_dead_letter(message, reason, self._queue.name, exchange.name, settings.dead_letter_routing_key, now)
        properties = properties_of(dead.content, dead.header_size)
        router = self._vhost.router
        queues = router.route_all(exchange, keys, properties)
        router.give_to_keepers(dead, now)
        for queue in queues:
            if reason != "rejected" and not queue.hidden and is_cycle(queue.name, properties.headers or {}):
                self._warn(queue.title)
            elif later is None:
                push(queue, dead, now)
            elif push_for_later(queue, dead, now):
                later.append(queue)

    def _warn(self, title: str) -> None:
        if title not in self._warned and len(self._warned) < WARNED_MAX:
            self._warned.add(title)
            log.warning("%s: dead letters of %s would go round for ever and are dropped", title, self._queue.title)


def as_dead_letter(
    message: Message, reason: str, queue_name: str, exchange: str, routing_key: str | None, now: int
) -> tuple[Message, list[str]]:
    """The message to publish to `exchange` in place of one that died, and its routing keys."""
    properties = properties_of(message.content, message.header_size)
    origin = message.origin
    copies = carbon_copies(properties.headers or {}, "CC")
    headers = dict(properties.headers or {})
    # RabbitMQ: how often it was given back is said to who gets it again, and is not part of the message.
    headers.pop("x-delivery-count", None)
    record_death(headers, reason, queue_name, origin, copies, properties.expiration, now)
    if routing_key is not None:
        # RabbitMQ: with a routing key of its own a dead letter goes nowhere else.
        headers.pop("CC", None)
    properties.headers = headers
    properties.expiration = None
    key, blind = (origin.routing_key, origin.blind) if routing_key is None else (routing_key, ())
    keys = [key, *copies, *blind] if routing_key is None else [key]
    return rewritten(message, properties, make_origin(exchange, key, blind)), keys


def record_death(
    headers: dict[str, Any], reason: str, queue_name: str, origin: Origin, copies: list[str], ttl: str | None, now: int
) -> None:
    """Write a death into a message's headers."""
    # RabbitMQ: who says that it has died before, is not told of a first death.
    first = "x-death" not in headers
    deaths = known_deaths(headers.get("x-death"))
    same = deaths.pop((queue_name, reason), None)
    if same is not None:
        death = {**same, "count": min(int(same["count"]), COUNT_MAX) + 1}
    else:
        death = {
            "count": 1,
            "reason": reason,
            "queue": queue_name,
            "time": Timestamp(now // 1000),
            "exchange": origin.exchange,
            "routing-keys": [origin.routing_key, *copies],
        }
        if ttl is not None:
            death["original-expiration"] = ttl
    headers["x-death"] = [death, *deaths.values()]
    facts = {"reason": reason, "queue": queue_name, "exchange": origin.exchange}
    for name, fact in facts.items():
        if first:
            headers[f"x-first-death-{name}"] = fact
        headers[f"x-last-death-{name}"] = fact


def known_deaths(said: object) -> dict[tuple[str, str], dict[str, Any]]:
    """The deaths a message tells of, by queue and reason. A client may have written anything there.

    RabbitMQ: those from before there was a count are counted.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for death in said if isinstance(said, list) else []:
        if is_death(death):
            found.setdefault((death["queue"], death["reason"]), []).append(death)
    return {key: {"count": len(same), **same[0]} for key, same in found.items()}


def is_death(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(value.get(name), kind) for name, kind in DEATH_TYPES.items()):
        return False
    return all(isinstance(value[name], kind) for name, kind in DETAIL_TYPES.items() if name in value)


def is_cycle(queue_name: str, headers: Table) -> bool:
    """Whether a message has died in this queue and no client has rejected it since."""
    deaths = headers.get("x-death")
    for death in deaths if isinstance(deaths, list) else []:
        if not isinstance(death, dict) or death.get("reason") == "rejected":
            return False
        if death.get("queue") == queue_name:
            return True
    return False
