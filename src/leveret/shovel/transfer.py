"""Messages moved from a source to a destination, for as long as both are connected.

(1) on-confirm: a message is acknowledged when the destination has confirmed it, so it is never lost but may come twice.
    on-publish: when it has been sent. no-ack: the source does not expect acknowledgements.
(2) While the destination accepts no more, nothing is published and the source is not read; what was read before waits.
(3) What the destination nacks is requeued at the source, and tried again after a pause.
(4) With a number of messages to move, it ends when they are settled. What was delivered beyond that is requeued when the
    source's channel is closed; with no-ack it is moved too, as it would be lost.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from leveret.broker.shovel import NO_ACK, ON_CONFIRM, ON_PUBLISH
from leveret.client.client import Client
from leveret.client.fault import ClientFault
from leveret.client.incoming import Delivery

NACK_PAUSE_S = 0.1
POLL_S = 0.01

# Exchange, routing key and properties with which a message is published.
Address = Callable[[Delivery], tuple[str, str, bytes]]


class Transfer:
    """Moving over one pair of connections. `ended` gets a result when all is moved, and the fault if it cannot go on."""

    def __init__(self, source: Client, destination: Client, ack_mode: str, address: Address, count: int | None) -> None:
        self._source = source
        self._destination = destination
        self._mode = ack_mode
        self._address = address
        self._left = count
        self._unsent = count
        self._pending: deque[Delivery] = deque()
        self._unconfirmed: dict[int, int] = {}
        self._to_ack = 0
        self._nack_pause = False
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.moved = 0
        source.on_delivery = self._on_delivery
        source.on_cancelled = self._on_cancelled
        destination.on_confirm = self._on_confirm
        destination.on_flow = self._on_flow
        source.on_closed = destination.on_closed = self.fail
        for client in (source, destination):
            if client.fault is not None:
                raise client.fault

    @property
    def state(self) -> str:
        """RabbitMQ's names: running, or blocked or flow while the destination accepts no more."""
        if self._destination.blocked is not None:
            return "blocked"
        return "flow" if self._destination.full else "running"

    def fail(self, fault: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(fault)

    async def settle(self, consumer_tag: str) -> None:
        """Before the connections are closed: send the last acknowledgement; with no-ack, publish what was delivered."""
        self._ack()
        if self._mode == NO_ACK and self._source.fault is None:
            await self._source.cancel(consumer_tag)
            self._on_flow()
            while self._pending and self._destination.fault is None:
                await asyncio.sleep(POLL_S)

    def detach(self) -> None:
        """Ignore whatever is still delivered."""
        self._pending.clear()
        if not self.ended.cancel() and not self.ended.cancelled():
            # Else asyncio would log that its exception was never retrieved.
            self.ended.exception()

    # Callbacks of the source

    def _on_delivery(self, delivery: Delivery) -> None:
        if self._pending or self._nack_pause or self._destination.full:
            self._pending.append(delivery)
            self._source.pause()
        else:
            self._forward(delivery)

    def _on_cancelled(self, consumer_tag: str) -> None:
        self.fail(ClientFault("the consumer was cancelled: the source queue was deleted, or may no longer be read"))

    # Callbacks of the destination

    def _on_flow(self) -> None:
        while self._pending and not self._nack_pause and not self._destination.full:
            self._forward(self._pending.popleft())
        if not self._pending and not self._nack_pause and not self._destination.full:
            self._source.resume()

    def _on_confirm(self, sequence: int, multiple: bool, accepted: bool) -> None:
        tags = self._confirmed(sequence, multiple)
        if not tags:
            return
        # All before the last are settled, so one acknowledgement is enough for all.
        several = len(tags) > 1
        if accepted:
            self._source.ack(tags[-1], several)
            self._count(len(tags))
            return
        self._source.nack(tags[-1], several)
        if self._unsent is not None:
            self._unsent += len(tags)
        if not self._nack_pause:
            self._nack_pause = True
            self._source.pause()
            self._loop.call_later(NACK_PAUSE_S, self._resume)

    def _confirmed(self, sequence: int, multiple: bool) -> list[int]:
        """The source's delivery tags of the messages that this confirm is for."""
        if not multiple:
            tag = self._unconfirmed.pop(sequence, None)
            return [] if tag is None else [tag]
        numbers = []
        for number in self._unconfirmed:
            if number > sequence:
                break
            numbers.append(number)
        return [self._unconfirmed.pop(number) for number in numbers]

    def _resume(self) -> None:
        self._nack_pause = False
        self._on_flow()

    # Both

    def _forward(self, delivery: Delivery) -> None:
        if self._mode != NO_ACK and (self._unsent == 0 or self.ended.done()):
            return
        try:
            exchange, routing_key, properties = self._address(delivery)
            sequence = self._destination.publish(exchange, routing_key, properties, delivery.body)
        except (ClientFault, ValueError) as error:
            self.fail(error if isinstance(error, ClientFault) else ClientFault(f"cannot publish a message: {error}"))
            return
        if self._unsent:
            self._unsent -= 1
        if self._mode == ON_CONFIRM:
            self._unconfirmed[sequence] = delivery.tag
            return
        if self._mode == ON_PUBLISH:
            if not self._to_ack:
                self._loop.call_soon(self._ack)
            self._to_ack = delivery.tag
        self._count(1)

    def _ack(self) -> None:
        """Acknowledge all that was sent in this turn."""
        tag, self._to_ack = self._to_ack, 0
        if tag:
            self._source.ack(tag, multiple=True)

    def _count(self, count: int) -> None:
        self.moved += count
        if self._left is not None:
            self._left -= count
            if self._left <= 0 and not self.ended.done():
                self.ended.set_result(None)
