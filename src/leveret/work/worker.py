"""One worker: a connection of its own, a consumer, and a thread that handles its messages.

  connect, declare, consume, listen until the connection ends, wait, and again

(1) A connection that ends before MinListenTime counts as a network failure; after too many in a row the worker ends.
(2) Errors that waiting cannot mend end it at once: a refused login or declaration, before it has listened.
(3) When stopped it cancels the consumer and finishes the messages being handled; the broker requeues the rest.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from leveret.client.client import Client, connect
from leveret.client.fault import ClientFault, Disconnected
from leveret.uri import Uri
from leveret.work.backoff import FailureCounts, ReconnectBackoff
from leveret.work.channel import WorkerChannel
from leveret.work.handler import message_handler
from leveret.work.handler_thread import handler_thread
from leveret.work.policy import Counters, InFlight, MessagePolicy
from leveret.work.subscription import Exchange, Subscription
from leveret.work.topology import consume, declare

NOT_IMPLEMENTED = 540
# Refused logins and permissions, declarations that differ, commands the broker does not know.
PERMANENT = (403, 406, 530, 503)

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
        backoff: ReconnectBackoff,
        in_flight: InFlight,
        failures: FailureCounts,
        wait: Wait,
    ) -> None:
        self._uri = uri
        self._exchange = exchange
        self._subscription = subscription
        self._backoff = backoff
        self._wait = wait
        self._size_limited = subscription.prefetch_size > 0
        self._client: Client | None = None
        self._listened_s = 0.0
        self.title = f"{exchange.queue_of(subscription)}/{number}"
        self.counters = Counters()
        self.listening = False
        self.finished = True
        policy = MessagePolicy(subscription, self.counters, in_flight, failures)
        handler = message_handler(subscription.handler, subscription.handler_time_limit)
        self._thread = handler_thread(handler, policy, subscription.consumer_id, f"leveret-work {self.title}")

    async def run(self, stop: asyncio.Event, grace_s: float) -> bool:
        """Work until told to stop, or until it gives up; whether it was told to stop."""
        self._thread.start()
        try:
            while not stop.is_set():
                delay_s = await self._listen(stop, grace_s)
                if delay_s is None:
                    return False
                if delay_s and not stop.is_set():
                    log.info("%s: trying again in %.1f s", self.title, delay_s)
                    await unless_stopped(stop, self._wait(delay_s))
            return True
        finally:
            self.finished = await self._thread.finish(grace_s)
            if not self.finished:
                log.warning("%s: a handler was still running after %g s; its message is requeued", self.title, grace_s)
                self._thread.abandon()

    async def _listen(self, stop: asyncio.Event, grace_s: float) -> float | None:
        """One connection from start to end; returns how long to wait then, or None to give up."""
        self._listened_s = 0.0
        try:
            await unless_stopped(stop, self._connect())
            if self._client is not None:
                await self._serve(self._client, stop, grace_s)
            return 0.0
        except ClientFault as fault:
            return self._delay_after(fault)
        except Exception as error:
            log.exception("%s: internal error", self.title)
            return self._delay_after(ClientFault(f"internal error: {error}"))
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.close()

    async def _connect(self) -> None:
        # Kept at once: if we are stopped meanwhile it has to be closed.
        self._client = await connect(self._uri, f"leveret work {self.title}")

    def _delay_after(self, fault: ClientFault) -> float | None:
        """How long to wait before the next connection; None to give up."""
        if fault.code == NOT_IMPLEMENTED and self._size_limited:
            log.warning("%s: this broker does not support prefetch-size; using only the count", self.title)
            self._size_limited = False
            return 0.0
        self.counters.disconnects += 1
        # Once it has listened they mean something else: 406 is then the acknowledgement timeout.
        if fault.code in PERMANENT and not self._listened_s:
            log.error("%s: %s; this worker ends", self.title, fault)
            return None
        delay_s = self._backoff.delay_s(self._listened_s)
        if delay_s is None:
            log.error("%s: %s; that was failure %d in a row, this worker ends", self.title, fault, self._backoff.failures)
        else:
            log.warning("%s: %s", self.title, fault)
        return delay_s

    async def _serve(self, client: Client, stop: asyncio.Event, grace_s: float) -> None:
        """Consume until the connection fails, or we are to stop."""
        channel = WorkerChannel(client, self._subscription.prefetch_count)
        ended: asyncio.Future[ClientFault] = asyncio.get_running_loop().create_future()

        def on_end(fault: ClientFault) -> None:
            channel.close()
            if not ended.done():
                ended.set_result(fault)

        client.on_closed = on_end
        client.on_cancelled = lambda tag: on_end(ClientFault("the consumer was cancelled: the queue was deleted"))
        client.on_delivery = lambda delivery: self._thread.submit(delivery, channel)
        try:
            tag = await unless_stopped(stop, self._set_up(client))
            if tag is None:
                return
            fault = await self._until_ended(ended, stop)
            if fault is not None:
                raise fault
            await self._stop_consuming(client, tag, grace_s)
            channel.flush()
        finally:
            channel.close()
            self._thread.discard_waiting()

    async def _set_up(self, client: Client) -> str:
        """Declare and consume; the consumer's tag."""
        try:
            async with asyncio.timeout(self._uri.timeout_s):
                queue = await declare(client, self._exchange, self._subscription)
                return await consume(client, self._subscription, queue, self._size_limited)
        except TimeoutError:
            raise Disconnected(f"no answer in {self._uri.timeout_s:g} s") from None

    async def _until_ended(self, ended: "asyncio.Future[ClientFault]", stop: asyncio.Event) -> ClientFault | None:
        """What ended the connection; None if we are to stop."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        self.listening = True
        log.info("%s: listening", self.title)
        try:
            return await unless_stopped(stop, ended)
        finally:
            self.listening = False
            # Never zero, which would mean that it has not listened.
            self._listened_s = max(loop.time() - since, 1e-9)

    async def _stop_consuming(self, client: Client, tag: str, grace_s: float) -> None:
        """Cancel the consumer, and finish the messages being handled, all within `grace_s`."""
        client.on_delivery = lambda delivery: None
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await client.cancel(tag)
        await self._thread.finish(max(0.0, until - loop.time()))


async def unless_stopped(stop: asyncio.Event, awaitable: Awaitable[T]) -> T | None:
    """Await this; if we are to stop meanwhile, cancel it and return None."""
    task = asyncio.ensure_future(awaitable)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
