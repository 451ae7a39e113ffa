"""One worker: a connection of its own, a consumer, and a thread that handles what comes.

  connect, declare, consume, listen until the connection ends, wait, and again

(1) Listening that ended before MinListenTime counts as a network failure; after too many in a row the worker ends.
(2) What waiting cannot mend ends it at once: a login or a declaration that is refused.
(3) Stopping cancels the consumer, finishes the work in hand, and leaves the rest to the broker, which gives it to others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from leveret.client.client import Client, connect
from leveret.client.faults import ClientFault
from leveret.client.incoming import Delivery
from leveret.uri import Uri
from leveret.work.counters import Counters
from leveret.work.handlers import handle_of
from leveret.work.handling import Handling
from leveret.work.hands import hands_for
from leveret.work.line import OpenLine
from leveret.work.load import InFlight
from leveret.work.metadata import Exchange, Subscription
from leveret.work.retry import Retry
from leveret.work.topology import consume, declare

NOT_IMPLEMENTED = 540
# Refused logins and rights, declarations that differ, what the broker does not know.
LASTING = (403, 406, 530, 503)

log = logging.getLogger("leveret.work")

Wait = Callable[[float], Awaitable[None]]


class Worker:
    """One of a subscription's threads."""

    def __init__(
        self,
        uri: Uri,
        exchange: Exchange,
        subscription: Subscription,
        number: int,
        *,
        retry: Retry,
        in_flight: InFlight,
        wait: Wait,
    ) -> None:
        self._uri = uri
        self._exchange = exchange
        self._subscription = subscription
        self._retry = retry
        self._wait = wait
        self._by_size = subscription.prefetch_size > 0
        self._warned = False
        self.title = f"{exchange.queue_of(subscription)}/{number}"
        self.counters = Counters()
        self.listening = False
        self._handling = Handling(subscription, self.counters, in_flight)
        handle = handle_of(subscription.handler, subscription.handler_time_limit)
        self._hands = hands_for(handle, self._handling, subscription.consumer_id, f"leveret-work {self.title}")

    async def run(self, stop: asyncio.Event, grace_s: float) -> bool:
        """Work until told to stop, or until there is no use; whether it was told to."""
        self._hands.start()
        try:
            while not stop.is_set():
                delay_s = await self._listen(stop, grace_s)
                if delay_s is None:
                    return False
                if delay_s and not stop.is_set():
                    log.info("%s: trying again in %.1f s", self.title, delay_s)
                    await self._rest(delay_s, stop)
            return True
        finally:
            if not await self._hands.finish(grace_s):
                log.warning("%s: a handler was still at work after %g s; its message goes to others", self.title, grace_s)

    async def _rest(self, delay_s: float, stop: asyncio.Event) -> None:
        waiting = [asyncio.ensure_future(self._wait(delay_s)), asyncio.ensure_future(stop.wait())]
        _, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    async def _listen(self, stop: asyncio.Event, grace_s: float) -> float | None:
        """One connection, from its beginning to its end; then how long to wait, or None to give up."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        client: Client | None = None
        try:
            client = await connect(self._uri, f"leveret work {self.title}")
            since = loop.time()
            await self._serve(client, stop, grace_s)
            return 0.0
        except ClientFault as fault:
            if fault.code == NOT_IMPLEMENTED and self._by_size:
                log.warning("%s: this broker has no prefetch-size; going on with the count alone", self.title)
                self._by_size = False
                return 0.0
            self.counters.disconnects += 1
            listened_s = loop.time() - since if self.listening else 0.0
            return self._after(fault, listened_s)
        finally:
            self.listening = False
            if client is not None:
                await client.close()

    def _after(self, fault: ClientFault, listened_s: float) -> float | None:
        if fault.code in LASTING:
            log.error("%s: %s; this worker ends", self.title, fault)
            return None
        delay_s = self._retry.delay_s(listened_s)
        if delay_s is None:
            log.error("%s: %s; that was failure %d in a row, this worker ends", self.title, fault, self._retry.failures)
        else:
            log.warning("%s: %s", self.title, fault)
        return delay_s

    async def _serve(self, client: Client, stop: asyncio.Event, grace_s: float) -> None:
        """Take messages until the connection fails, or we are to stop."""
        line = OpenLine(client)
        ended: asyncio.Future[ClientFault] = asyncio.get_running_loop().create_future()

        def on_end(fault: ClientFault) -> None:
            line.cut_off()
            if not ended.done():
                ended.set_result(fault)

        client.on_closed = on_end
        client.on_cancelled = lambda tag: on_end(ClientFault("the queue was deleted"))
        client.on_delivery = lambda delivery: self._came(delivery, line)
        try:
            queue = await declare(client, self._exchange, self._subscription)
            tag = await consume(client, self._subscription, queue, self._by_size)
            self.listening = True
            log.info("%s: listening", self.title)
            stopping = asyncio.ensure_future(stop.wait())
            either: list[asyncio.Future[Any]] = [stopping, ended]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if ended.done():
                raise ended.result()
            client.on_delivery = lambda delivery: None
            await client.cancel(tag)
            await self._hands.finish(grace_s)
            line.flush()
        finally:
            line.cut_off()

    def _came(self, delivery: Delivery, line: OpenLine) -> None:
        self._hands.give(delivery, line)
        count = self._subscription.prefetch_count
        if count and not self._warned and self.counters.unacknowledged >= count:
            self._warned = True
            log.warning("%s: all %d messages of the prefetch have failed and stay unacknowledged", self.title, count)
