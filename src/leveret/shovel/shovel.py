"""One shovel: connects to both ends, declares what is missing, moves messages, and reconnects when something breaks."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from leveret.broker.shovel import NO_ACK, ON_CONFIRM, QUEUE_LENGTH, ShovelDefinition
from leveret.client.client import CLOSE_S, Client
from leveret.client.fault import ChannelClosed, ClientFault
from leveret.client.incoming import Delivery
from leveret.shovel.rewrite import Rewrite, hop_of
from leveret.shovel.transfer import Address, Transfer
from leveret.uri import Uri
from leveret.wire.values import Table

NOT_FOUND = 404
DELAY_MIN_S = 0.1
DELAY_MAX_S = 86_400.0
# Of a reason's text, which may be another broker's.
REASON_MAX = 500

STARTING, RUNNING, TERMINATED = "starting", "running", "terminated"

log = logging.getLogger("leveret.shovel")


@dataclass(frozen=True, slots=True)
class ShovelEnvironment:
    """What a shovel needs of its broker: connections, the time, and the cluster's name."""

    connect: Callable[[Uri, str], Awaitable[Client]]
    now_ms: Callable[[], int]
    cluster_name: Callable[[], str]


class Shovel:
    """A shovel. `since` is when its state last changed."""

    def __init__(self, vhost: str, name: str, definition: ShovelDefinition, environment: ShovelEnvironment) -> None:
        self.vhost = vhost
        self.name = name
        self.definition = definition
        self._environment = environment
        self._state = STARTING
        self.reason = ""
        self.since = environment.now_ms()
        # Where it is connected to, without passwords.
        self.uris = ("", "")
        self._transfer: Transfer | None = None
        self._moved = 0

    @property
    def state(self) -> str:
        if self._state == RUNNING and self._transfer is not None:
            return self._transfer.state
        return self._state

    async def run(self) -> bool:
        """Run until cancelled, or until it has moved all it was to move (True), or is not to reconnect (False)."""
        delay_s = self.definition.reconnect_delay_s
        while True:
            self._set_state(STARTING)
            try:
                await self._move()
            except ClientFault as fault:
                self._set_state(TERMINATED, str(fault))
                log.warning("shovel '%s' in vhost '%s': %s", self.name, self.vhost, fault)
            except Exception as error:
                self._set_state(TERMINATED, f"internal error: {error}")
                log.exception("shovel '%s' in vhost '%s' failed", self.name, self.vhost)
            else:
                return True
            if not delay_s:
                return False
            await asyncio.sleep(min(max(delay_s, DELAY_MIN_S), DELAY_MAX_S))

    def _set_state(self, state: str, reason: str = "") -> None:
        self._state = state
        self.reason = reason[:REASON_MAX]
        self.since = self._environment.now_ms()

    async def _move(self) -> None:
        """Connect and move; return when all is moved."""
        clients: list[Client] = []
        consumer_tag = ""
        try:
            source, source_uri = await self._connect(self.definition.source.uris, clients)
            destination, destination_uri = await self._connect(self.definition.destination.uris, clients)
            self.uris = (source_uri.shown, destination_uri.shown)
            await self._prepare_destination(destination)
            queue = await self._prepare_source(source)
            count = await self._count(source, queue)
            if count == 0:
                return
            mode = self.definition.ack_mode
            transfer = self._transfer = Transfer(source, destination, mode, self._address(), count)
            consumer_tag = await source.consume(queue, mode == NO_ACK, self.definition.source.consumer_arguments)
            self._set_state(RUNNING)
            log.info("shovel '%s' in vhost '%s' is running", self.name, self.vhost)
            await transfer.ended
        finally:
            await self._leave(consumer_tag, clients)

    async def _leave(self, consumer_tag: str, clients: list[Client]) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            with suppress(ClientFault, TimeoutError):
                async with asyncio.timeout(CLOSE_S / 2):
                    await transfer.settle(consumer_tag)
            self._moved += transfer.moved
            transfer.detach()
        await asyncio.gather(*(client.close(CLOSE_S / 2) for client in clients))

    async def _connect(self, uris: tuple[Uri, ...], clients: list[Client]) -> tuple[Client, Uri]:
        """The first that can be reached, in any order."""
        faults = []
        for uri in random.sample(uris, len(uris)):
            try:
                client = await self._environment.connect(uri, f"Shovel {self.name}")
            except ClientFault as fault:
                faults.append(f"{uri.shown}: {fault}")
            else:
                clients.append(client)
                return client, uri
        raise ClientFault("; ".join(faults))

    async def _prepare_destination(self, client: Client) -> None:
        wanted = self.definition.destination
        if wanted.queue is not None:
            await ensure_queue(client, wanted.queue, wanted.queue_arguments)
        if self.definition.ack_mode == ON_CONFIRM:
            await client.confirm()

    async def _prepare_source(self, client: Client) -> str:
        """The queue to consume from."""
        wanted = self.definition.source
        if wanted.queue is not None:
            queue = wanted.queue
            await ensure_queue(client, queue, wanted.queue_arguments)
        else:
            queue = (await client.declare_queue(exclusive=True)).queue
            await client.bind_queue(queue, wanted.exchange or "", wanted.routing_key)
        if self.definition.ack_mode != NO_ACK:
            await client.qos(wanted.prefetch_count)
        return queue

    async def _count(self, client: Client, queue: str) -> int | None:
        """How many messages are to be moved; None if there is no end to it."""
        after = self.definition.source.delete_after
        if after == QUEUE_LENGTH:
            return (await client.declare_queue(queue, passive=True)).message_count
        return max(0, after - self._moved) if isinstance(after, int) else None

    def _address(self) -> Address:
        definition, destination = self.definition, self.definition.destination
        hop = hop_of(definition, self.vhost, self.name, self._environment.cluster_name(), self.uris)
        rewrite = Rewrite(definition, hop, self._environment.now_ms)
        to_exchange, to_key = destination.exchange, destination.routing_key
        if destination.queue is not None:
            to_exchange, to_key = "", destination.queue

        def address(delivery: Delivery) -> tuple[str, str, bytes]:
            exchange = delivery.exchange if to_exchange is None else to_exchange
            routing_key = delivery.routing_key if to_key is None else to_key
            return exchange, routing_key, rewrite.properties(delivery)

        return address


async def ensure_queue(client: Client, queue: str, arguments: Table) -> None:
    """Make a durable queue if there is none of this name; one that is there stays as it is."""
    try:
        await client.declare_queue(queue, passive=True)
    except ChannelClosed as fault:
        if fault.code != NOT_FOUND:
            raise
        await client.open_channel()
        await client.declare_queue(queue, durable=True, arguments=arguments)
