"""One connection as the worker's thread uses it: what it says is sent by the loop's thread, many at once.

(1) Once the connection is cut nothing is sent: the broker has taken everything back, and will deliver it again.
(2) A reader that is faster than the handler is stopped when `AHEAD_MAX` messages wait, until half of them do.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from leveret.client.client import CHANNEL, Client
from leveret.client.faults import ClientFault
from leveret.wire.methods import write_method
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.spec import BasicAck, BasicReject, Method

AHEAD_MAX = 1000


class OpenLine:
    """A line over one client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._said: deque[Method | Callable[[], object]] = deque()
        self._flushing = False
        # Each is changed by one thread only.
        self._came = self._taken = 0
        self._stopped = False
        self.cut = False

    # From any thread

    def ack(self, tag: int) -> None:
        self._say(BasicAck(tag))

    def reject(self, tag: int, requeue: bool) -> None:
        self._say(BasicReject(tag, requeue))

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> None:
        """Publish; ValueError for properties that do not fit the wire."""
        octets = encode_properties(properties)
        self._say(lambda: self._client.publish(exchange, routing_key, octets, body))

    def taken(self) -> None:
        """The handler has taken one of those that wait."""
        self._taken += 1
        if self._stopped and self._came - self._taken <= AHEAD_MAX // 2:
            self._stopped = False
            self._say(self._client.resume)

    def _say(self, what: Method | Callable[[], object]) -> None:
        if self.cut:
            return
        self._said.append(what)
        if not self._flushing:
            self._flushing = True
            # The loop may be closed by now, and the line with it.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.flush)

    # From the loop's thread

    def came(self) -> None:
        """A message was handed to the handler's thread."""
        self._came += 1
        if self._came - self._taken >= AHEAD_MAX and not self._stopped:
            self._stopped = True
            self._client.pause()

    def flush(self) -> None:
        """Send what was said, in order."""
        # Before anything is taken: whoever says more from now on has this called again.
        self._flushing = False
        out = bytearray()
        while self._said and not self.cut:
            what = self._said.popleft()
            if isinstance(what, Method):
                write_method(out, CHANNEL, what)
                continue
            if out:
                self._client.send(bytes(out))
                out.clear()
            with suppress(ClientFault, ValueError):
                what()
        if out and not self.cut:
            self._client.send(bytes(out))

    def cut_off(self) -> None:
        """The connection is gone."""
        self.cut = True
        self._said.clear()
