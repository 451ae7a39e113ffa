"""All workers of some exchanges, run on the caller's loop.

await Runtime("amqp://127.0.0.1", exchanges).run()
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from leveret.uri import Uri, parse_uri
from leveret.work.checking import check
from leveret.work.counters import Counters, total
from leveret.work.failures import Failures
from leveret.work.load import InFlight
from leveret.work.metadata import Exchange
from leveret.work.retry import ATTEMPTS, Retry
from leveret.work.worker import Wait, Worker

GRACE_S = 30.0
URL = "amqp://guest:guest@127.0.0.1:5672/"

log = logging.getLogger("leveret.work")


class Runtime:
    """Subscriptions at work. BadSubscriptions if they are not as they should be, BadUri if the URL is not."""

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
        uri = broker_at(url)
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
                retry=Retry(subscription.min_listen_time, attempts),
                in_flight=self._in_flight,
                failures=failures,
                wait=wait,
            )
            for exchange in exchanges
            for subscription in exchange.subscriptions
            for failures in [Failures()]
            for number in range(1, subscription.worker_thread_count + 1)
        ]

    async def run(self) -> bool:
        """Work until `stop`, or until no worker is left; whether it was told to stop."""
        self._stop = asyncio.Event()
        if self._stopped:
            self._stop.set()
        async with asyncio.TaskGroup() as group:
            for worker in self.workers:
                group.create_task(worker.run(self._stop, self._grace_s))
        return self._stop.is_set()

    def stop(self) -> None:
        """Take no new messages, finish the work in hand, and end. To be called on the loop."""
        self._stopped = True
        if self._stop is not None:
            self._stop.set()

    @property
    def listening(self) -> int:
        """How many workers are connected and wait for messages."""
        return sum(worker.listening for worker in self.workers)

    @property
    def in_flight(self) -> int:
        """How many messages the handlers are at work on."""
        return self._in_flight.count

    @property
    def finished(self) -> bool:
        """Whether all work in hand was done when it ended; what was not runs on in threads that end with the process."""
        return all(worker.finished for worker in self.workers)

    @property
    def counters(self) -> Counters:
        return total(worker.counters for worker in self.workers)


def broker_at(url: str) -> Uri:
    """Where the broker is. As other clients have it, a path of one slash is the vhost `/`."""
    uri = parse_uri(url)
    if uri.user is None:
        uri = replace(uri, user="guest", password="guest")
    return replace(uri, host=uri.host or "127.0.0.1", vhost=uri.vhost or "/")
