"""One connection as the worker's thread uses it: what it says is sent by the loop's thread, many at once.

(1) Once the connection is cut nothing is sent: the broker has taken everything back, and will deliver it again. What is
    said of a message goes to the line it came through, never to the next one, where its tag would be another message's.
(2) A reader that is faster than the handler is stopped when `ahead_max` messages wait, for the handler or to be given back,
    until half of them do; and while
    the broker does not read what is said, so that answers do not pile up here.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from leveret.client.client import CHANNEL, Client
from leveret.client.faults import ClientFault
from leveret.wire.methods import write_method
from leveret.wire.properties import Properties, encode_properties
from leveret.wire.spec import BasicAck, BasicReject, Method

AHEAD_MAX = 1000
LOOK_S = 0.05

log = logging.getLogger("leveret.work")


class OpenLine:
    """A line over one client. With a prefetch of more than AHEAD_MAX the broker is the one who bounds what comes."""

    def __init__(self, client: Client, prefetch_count: int = 0) -> None:
        self._client = client
        self._ahead_max = max(AHEAD_MAX, prefetch_count)
        self._loop = asyncio.get_running_loop()
        self._said: deque[Method | Callable[[], object]] = deque()
        self._flushing = False
        # Each is changed by one thread only.
        self._came = self._taken = self._kept = 0
        self._stopped = False
        self.left_count = self.left_bytes = 0
        self.cut = False
        client.on_flow = self._steer

    # From any thread

    def ack(self, tag: int) -> None:
        self._say(BasicAck(tag))

    def reject(self, tag: int, requeue: bool, after_s: float = 0.0) -> None:
        """Give a message back; after some time, in which the broker keeps it for us."""
        self._say(partial(self._keep, tag, requeue, after_s) if after_s else BasicReject(tag, requeue))

    def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        """Publish; False if the connection is cut. ValueError for properties that do not fit the wire."""
        octets = encode_properties(properties)
        return self._say(lambda: self._client.publish(exchange, routing_key, octets, body))

    def sent(self) -> bool:
        """Wait until everything that was said is sent; False if it was not, as the connection is cut."""
        sent = threading.Event()
        self._say(sent.set)
        while not sent.wait(LOOK_S):
            if self.cut:
                return sent.is_set()
        return True

    # From the handler's thread

    def taken(self) -> None:
        """The handler has taken one of those that wait."""
        self._taken += 1
        if self._stopped and 2 * self._ahead() <= self._ahead_max:
            self._say(self._steer)

    def leave(self, size: int) -> None:
        """A message of so many bytes stays unacknowledged."""
        self.left_count += 1
        self.left_bytes += size

    def _say(self, what: Method | Callable[[], object]) -> bool:
        if self.cut:
            return False
        self._said.append(what)
        if not self._flushing:
            self._flushing = True
            # The loop may be closed by now, and the line with it.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.flush)
        return True

    # From the loop's thread

    def came(self) -> None:
        """A message was handed to the handler's thread."""
        self._came += 1
        if not self._stopped and self._ahead() >= self._ahead_max:
            self._steer()

    def _steer(self) -> None:
        """Read on, or do not, as things are now."""
        if self._client.socket_full or self._ahead() >= self._ahead_max:
            self._stopped = True
            self._client.pause()
        # Looked at again: the handler may have taken all of them before it could see that we stop.
        if self._stopped and not self._client.socket_full and 2 * self._ahead() <= self._ahead_max:
            self._stopped = False
            self._client.resume()

    def _ahead(self) -> int:
        """How many messages are here that no handler is at work on."""
        return self._came - self._taken + self._kept

    def _keep(self, tag: int, requeue: bool, after_s: float) -> None:
        self._kept += 1
        self._loop.call_later(after_s, self._give_back, tag, requeue)
        self._steer()

    def _give_back(self, tag: int, requeue: bool) -> None:
        self._kept -= 1
        if not self.cut:
            self._say(BasicReject(tag, requeue))
            self._steer()

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
            try:
                what()
            except ClientFault:
                pass  # whoever listens to the connection knows
            except Exception:
                log.exception("what was to be sent cannot be")
        if out and not self.cut:
            self._client.send(bytes(out))

    def cut_off(self) -> None:
        """The connection is gone."""
        self.cut = True
        self._said.clear()
