"""One worker: a connection of its own, a consumer, and a thread that handles what comes.

  connect, declare, consume, listen until the connection ends, wait, and again

(1) Listening that ended before MinListenTime counts as a network failure; after too many in a row the worker ends.
(2) What waiting cannot mend ends it at once: a login or a declaration that is refused, before it has listened.
(3) Stopping cancels the consumer, finishes the work in hand, and leaves the rest to the broker, which gives it to others.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from leveret.client.client import Client, connect
from leveret.client.faults import ClientFault, Disconnected
from leveret.uri import Uri
from leveret.work.counters import Counters
from leveret.work.failures import Failures
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

T = TypeVar("T")
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
        failures: Failures,
        wait: Wait,
    ) -> None:
        self._uri = uri
        self._exchange = exchange
        self._subscription = subscription
        self._retry = retry
        self._wait = wait
        self._by_size = subscription.prefetch_size > 0
        self._client: Client | None = None
        self._listened_s = 0.0
        self.title = f"{exchange.queue_of(subscription)}/{number}"
        self.counters = Counters()
        self.listening = False
        self.finished = True
        handling = Handling(subscription, self.counters, in_flight, failures)
        handle = handle_of(subscription.handler, subscription.handler_time_limit)
        self._hands = hands_for(handle, handling, subscription.consumer_id, f"leveret-work {self.title}")

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
                    await unless(stop, self._wait(delay_s))
            return True
        finally:
            self.finished = await self._hands.finish(grace_s)
            if not self.finished:
                log.warning("%s: a handler was still at work after %g s; its message goes to others", self.title, grace_s)
                self._hands.give_up()

    async def _listen(self, stop: asyncio.Event, grace_s: float) -> float | None:
        """One connection, from its beginning to its end; then how long to wait, or None to give up."""
        self._listened_s = 0.0
        try:
            await unless(stop, self._connect())
            if self._client is not None:
                await self._serve(self._client, stop, grace_s)
            return 0.0
        except ClientFault as fault:
            return self._after(fault)
        except Exception as error:
            log.exception("%s: internal error", self.title)
            return self._after(ClientFault(f"internal error: {error}"))
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.close()

    async def _connect(self) -> None:
        # Kept at once: who is told to stop meanwhile has to close it.
        self._client = await connect(self._uri, f"leveret work {self.title}")

    def _after(self, fault: ClientFault) -> float | None:
        if fault.code == NOT_IMPLEMENTED and self._by_size:
            log.warning("%s: this broker has no prefetch-size; going on with the count alone", self.title)
            self._by_size = False
            return 0.0
        self.counters.disconnects += 1
        # Once it has listened they mean something else: 406 ends a channel with a message that was kept for too long.
        if fault.code in LASTING and not self._listened_s:
            log.error("%s: %s; this worker ends", self.title, fault)
            return None
        delay_s = self._retry.delay_s(self._listened_s)
        if delay_s is None:
            log.error("%s: %s; that was failure %d in a row, this worker ends", self.title, fault, self._retry.failures)
        else:
            log.warning("%s: %s", self.title, fault)
        return delay_s

    async def _serve(self, client: Client, stop: asyncio.Event, grace_s: float) -> None:
        """Take messages until the connection fails, or we are to stop."""
        line = OpenLine(client, self._subscription.prefetch_count)
        ended: asyncio.Future[ClientFault] = asyncio.get_running_loop().create_future()

        def on_end(fault: ClientFault) -> None:
            line.cut_off()
            if not ended.done():
                ended.set_result(fault)

        client.on_closed = on_end
        client.on_cancelled = lambda tag: on_end(ClientFault("the consumer was cancelled: the queue was deleted"))
        client.on_delivery = lambda delivery: self._hands.give(delivery, line)
        try:
            tag = await unless(stop, self._set_up(client))
            if tag is None:
                return
            fault = await self._until_ended(ended, stop)
            if fault is not None:
                raise fault
            await self._leave(client, tag, grace_s)
            line.flush()
        finally:
            line.cut_off()
            self._hands.forget()

    async def _set_up(self, client: Client) -> str:
        """Declare, and consume; the consumer's tag."""
        try:
            async with asyncio.timeout(self._uri.timeout_s):
                queue = await declare(client, self._exchange, self._subscription)
                return await consume(client, self._subscription, queue, self._by_size)
        except TimeoutError:
            raise Disconnected(f"no answer in {self._uri.timeout_s:g} s") from None

    async def _until_ended(self, ended: "asyncio.Future[ClientFault]", stop: asyncio.Event) -> ClientFault | None:
        """What has ended the connection; None if we are to stop."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        self.listening = True
        log.info("%s: listening", self.title)
        try:
            return await unless(stop, ended)
        finally:
            self.listening = False
            # Never nothing: whatever comes now comes after listening.
            self._listened_s = max(loop.time() - since, 1e-9)

    async def _leave(self, client: Client, tag: str, grace_s: float) -> None:
        """Take no more, and finish the work in hand; both within the time there is."""
        client.on_delivery = lambda delivery: None
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await client.cancel(tag)
        await self._hands.finish(max(0.0, until - loop.time()))


async def unless(stop: asyncio.Event, doing: Awaitable[T]) -> T | None:
    """Wait for this unless we are to stop; then it is broken off."""
    task = asyncio.ensure_future(doing)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
