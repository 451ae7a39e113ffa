"""The end of a turn of the event loop: what was interrupted goes on, and every touched connection is written once.

Whoever has something to send or to go on with says so; the first to do so in a turn has `turn` called when the loop has
run everything that was ready. Sockets are polled between two turns, so work in pieces makes nobody wait.
"""

import asyncio
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker
from leveret.server.memory import Heap

if TYPE_CHECKING:
    from leveret.server.transport import Transport

HOLD_S = 0.002


class Outbox:
    """The connections to write, the connections to go on with, and the broker's work list."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, heap: Heap) -> None:
        self._loop = loop
        self._broker = broker
        self._heap = heap
        self._woken: list[Transport] = []
        self._busy: list[Transport] = []
        self._held: list[Transport] = []
        self._scheduled = False

    def wake(self, transport: "Transport") -> None:
        """This connection has something to send."""
        self._woken.append(transport)
        self.schedule()

    def again(self, transport: "Transport") -> None:
        """This connection's pass was interrupted."""
        self._busy.append(transport)
        self.schedule()

    def hold(self, transport: "Transport") -> None:
        """This connection waits until some client has read, but not long."""
        self._held.append(transport)
        self._loop.call_later(HOLD_S, self.let_go)

    def let_go(self) -> None:
        """Let those go on that were held."""
        held, self._held = self._held, []
        for transport in held:
            transport.let_go()

    def schedule(self) -> None:
        """Have a turn ended soon."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._heap.used()
        if self._busy:
            busy, self._busy = self._busy, []
            for transport in busy:
                transport.go_on()
        if self._broker.work:
            self._drain()
        woken, self._woken = self._woken, []
        for transport in woken:
            transport.flush()

    def _drain(self) -> None:
        work = self._broker.work
        work.begin()
        if not work.drain():
            self.schedule()
