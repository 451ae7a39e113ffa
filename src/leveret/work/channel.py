"""The channel a message came through, as handlers use it from other threads.

(1) What the handler's thread sends is queued here and written by the loop's thread, many frames at once.
(2) Once the connection has ended nothing is sent: the broker has requeued everything and will deliver it again. A message is
    settled on the channel it came through, never on the next one, where its delivery tag would be another message's.
(3) Reading stops while `_read_ahead_max` messages wait, for the handler or to be requeued, until only half of them do; and
    while the broker does not read what we send, so that acknowledgements do not pile up here.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

from leveret.client.client import CHANNEL, Client
from leveret.client.fault import ClientFault
from leveret.wire.methods import write_method
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.spec import BasicAck, BasicReject, Method

READ_AHEAD_MAX = 1000
POLL_S = 0.05

log = logging.getLogger("leveret.work")


class Channel(Protocol):
    """What a message needs of its channel. May be used from any thread, and does nothing once the connection has ended."""

    def ack(self, tag: int) -> None: ...

    def reject(self, tag: int, requeue: bool, after_s: float = 0.0) -> None: ...

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool: ...

    def wait_until_sent(self) -> bool: ...

    def leave_unacked(self, size: int) -> None: ...

    @property
    def left_count(self) -> int: ...

    @property
    def left_bytes(self) -> int: ...


class WorkerChannel:
    """The channel of a worker's client. With a prefetch count above READ_AHEAD_MAX the broker limits what is read ahead."""

    def __init__(self, client: Client, prefetch_count: int = 0) -> None:
        self._client = client
        self._read_ahead_max = max(READ_AHEAD_MAX, prefetch_count)
        self._loop = asyncio.get_running_loop()
        self._outgoing: deque[Method | Callable[[], object]] = deque()
        self._flush_scheduled = False
        # Each is changed by one thread only.
        self._received = self._taken = self._delayed = 0
        self._paused = False
        self.left_count = self.left_bytes = 0
        self.closed = False
        client.on_flow = self._pause_or_resume

    # From any thread

    def ack(self, tag: int) -> None:
        self._send(BasicAck(tag))

    def reject(self, tag: int, requeue: bool, after_s: float = 0.0) -> None:
        """Reject a message; if `after_s` is given only after that time, during which it stays unacknowledged."""
        self._send(partial(self._reject_later, tag, requeue, after_s) if after_s else BasicReject(tag, requeue))

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        """Publish; False if the connection has ended. ValueError for properties that cannot be encoded."""
        octets = encode_properties(properties)
        return self._send(lambda: self._client.publish(exchange, routing_key, octets, body))

    def wait_until_sent(self) -> bool:
        """Wait until all that was queued is sent; False if it was not because the connection has ended."""
        sent = threading.Event()
        self._send(sent.set)
        while not sent.wait(POLL_S):
            if self.closed:
                return sent.is_set()
        return True

    # From the handler's thread

    def count_taken(self) -> None:
        """The handler has taken one of the messages that wait."""
        self._taken += 1
        if self._paused and 2 * self._waiting_count() <= self._read_ahead_max:
            self._send(self._pause_or_resume)

    def leave_unacked(self, size: int) -> None:
        """A message of `size` bytes stays unacknowledged."""
        self.left_count += 1
        self.left_bytes += size

    def _send(self, what: Method | Callable[[], object]) -> bool:
        if self.closed:
            return False
        self._outgoing.append(what)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            # The loop may be closed by now, and the channel with it.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.flush)
        return True

    # From the loop's thread

    def count_received(self) -> None:
        """A message was passed to the handler's thread."""
        self._received += 1
        if not self._paused and self._waiting_count() >= self._read_ahead_max:
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        """Stop reading or go on, depending on how many messages wait."""
        if self._client.socket_full or self._waiting_count() >= self._read_ahead_max:
            self._paused = True
            self._client.pause()
        # Looked at again: the handler may have taken all of them before it could see that we pause.
        if self._paused and not self._client.socket_full and 2 * self._waiting_count() <= self._read_ahead_max:
            self._paused = False
            self._client.resume()

    def _waiting_count(self) -> int:
        """How many messages are here that no handler is working on."""
        return self._received - self._taken + self._delayed

    def _reject_later(self, tag: int, requeue: bool, after_s: float) -> None:
        self._delayed += 1
        self._loop.call_later(after_s, self._reject_delayed, tag, requeue)
        self._pause_or_resume()

    def _reject_delayed(self, tag: int, requeue: bool) -> None:
        self._delayed -= 1
        if not self.closed:
            self._send(BasicReject(tag, requeue))
            self._pause_or_resume()

    def flush(self) -> None:
        """Send what is queued, in order."""
        # Before anything is taken: whoever queues more from now on schedules another flush.
        self._flush_scheduled = False
        out = bytearray()
        while self._outgoing and not self.closed:
            what = self._outgoing.popleft()
            if isinstance(what, Method):
                write_method(out, CHANNEL, what)
                continue
            if out:
                self._client.send(bytes(out))
                out.clear()
            try:
                what()
            except ClientFault:
                pass  # the worker is told of it by `on_closed`
            except Exception:
                log.exception("cannot send to the broker")
        if out and not self.closed:
            self._client.send(bytes(out))

    def close(self) -> None:
        """The connection has ended: send nothing more."""
        self.closed = True
        self._outgoing.clear()
