"""All workers of some exchanges, run on the caller's loop.

await Runtime("amqp://127.0.0.1", exchanges).run()

`Subscriptions` makes the exchanges from decorated functions.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, Unpack

from leveret.uri import Uri, parse_uri
from leveret.work.backoff import ATTEMPTS, FailureCounts, ReconnectBackoff
from leveret.work.policy import Counters, InFlight, total
from leveret.work.subscription import Exchange, Subscription
from leveret.work.validation import check
from leveret.work.worker import Wait, Worker

GRACE_S = 30.0
URL = "amqp://guest:guest@127.0.0.1:5672/"

F = TypeVar("F", bound=Callable[..., object])

log = logging.getLogger("leveret.work")


class Runtime:
    """Runs the workers of all subscriptions. Raises BadSubscriptions if a rule is broken, BadUri if the URL is wrong."""

    def __init__(
        self,
        url: str,
        exchanges: Sequence[Exchange],
        *,
        attempts: int = ATTEMPTS,
        grace_s: float = GRACE_S,
        strict: bool = False,
        wait: Wait = asyncio.sleep,
    ) -> None:
        check(exchanges, strict)
        uri = broker_uri(url)
        self._grace_s = grace_s
        self._stop: asyncio.Event | None = None
        self._stopped = False
        self._in_flight = InFlight()
        self.workers = [
            Worker(
                uri,
                exchange,
                subscription,
                number,
                backoff=ReconnectBackoff(subscription.min_listen_time, attempts),
                in_flight=self._in_flight,
                failures=failures,
                wait=wait,
            )
            for exchange in exchanges
            for subscription in exchange.subscriptions
            for failures in [FailureCounts()]
            for number in range(1, subscription.worker_thread_count + 1)
        ]

    async def run(self) -> bool:
        """Work until `stop`, or until no worker is left; whether it was stopped."""
        self._stop = asyncio.Event()
        if self._stopped:
            self._stop.set()
        async with asyncio.TaskGroup() as group:
            for worker in self.workers:
                group.create_task(worker.run(self._stop, self._grace_s))
        return self._stop.is_set()

    def stop(self) -> None:
        """Take no new messages, finish those being handled, and end. To be called on the loop."""
        self._stopped = True
        if self._stop is not None:
            self._stop.set()

    @property
    def listening(self) -> int:
        """How many workers are connected and consuming."""
        return sum(worker.listening for worker in self.workers)

    @property
    def in_flight(self) -> int:
        """How many messages the handlers are working on."""
        return self._in_flight.count

    @property
    def finished(self) -> bool:
        """Whether all handlers were done when `run` ended; others go on in threads that end with the process."""
        return all(worker.finished for worker in self.workers)

    @property
    def counters(self) -> Counters:
        return total(worker.counters for worker in self.workers)


class RuntimeOptions(TypedDict, total=False):
    """What a Runtime can be given by name."""

    attempts: int
    grace_s: float
    strict: bool
    wait: Wait


class Subscriptions:
    """Subscriptions whose handlers are decorated functions.

    subscriptions = Subscriptions()

    @subscriptions.on("pdf_events", type="Direct", routing_key="pdf_create")
    def make_pdf(message):
        ...

    asyncio.run(subscriptions.run("amqp://127.0.0.1"))
    """

    def __init__(self) -> None:
        self._exchanges: dict[str, Exchange] = {}

    @property
    def exchanges(self) -> list[Exchange]:
        return list(self._exchanges.values())

    def on(self, exchange: str, type: str = "Fanout", durable: bool = True, **fields: Any) -> Callable[[F], F]:
        """Have a function handle messages of this exchange; `fields` are a Subscription's, its name the function's."""
        found = self._exchanges.setdefault(exchange, Exchange(exchange, type, durable))
        if (found.type, found.durable) != (type, durable):
            raise ValueError(f"exchange {exchange} is {found.type} and {'' if found.durable else 'not '}durable elsewhere")

        def subscribe(handler: F) -> F:
            subscription = Subscription(**{"name": handler.__name__, **fields, "handler": handler})
            known = self._exchanges[exchange]
            self._exchanges[exchange] = replace(known, subscriptions=(*known.subscriptions, subscription))
            return handler

        return subscribe

    async def run(self, url: str = URL, **options: Unpack[RuntimeOptions]) -> bool:
        """Work until stopped, or until no worker is left; `options` are a Runtime's."""
        return await Runtime(url, self.exchanges, **options).run()


def broker_uri(url: str) -> Uri:
    """A broker's URL with defaults filled in. As in other clients, a path of one slash is the vhost `/`."""
    uri = parse_uri(url)
    if uri.user is None:
        uri = replace(uri, user="guest", password="guest")
    return replace(uri, host=uri.host or "127.0.0.1", vhost=uri.vhost or "/")
