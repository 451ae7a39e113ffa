"""The end of a turn of the event loop: what was interrupted goes on, and every touched connection is written once.

Whoever has something to send or to go on with says so; the first to do so in a turn has `_turn` called when the loop has
run everything that was ready. Sockets are polled between two turns, so work in pieces makes nobody wait.

  the loop polls the sockets
    │
    │  for each that has bytes, one pass: Transport.buffer_updated → Connection.receive_from
    │      frames are parsed, routed, queued and delivered, until the pass's budget is spent. What is left over:
    │      bytes to send ── wake ──► _woken      the rest of the frames ── again ──► _busy      tasks ──► Work
    ▼
  _turn
    1  _busy          Transport.go_on         interrupted passes, each with a budget of its own
    2  Work           drain                   purges, fanouts, dead letters … as far as one more budget goes
    3  timers         arm                     the next expiry wakes the loop
    4  storage        flush ─────────────────────────────────────────────► committer's thread: write, sync
    │                                         (a client that is alone is better served here: `_flush_storage`)
    5  alarms, waiters                        publishers blocked or not; HTTP requests that waited     │
    6  _woken         Transport.flush         one write for each socket                                │
    │                                                                                                  │
    └─ something left? once more, after the sockets were polled          on_progress ◄─────────────────┘
                                                                         confirms and answers that waited: wake, again

Storage is flushed (4) before sockets are written (6), so that the disk is at work while they are. What must not be said
before it is on disk is not in the output yet: `on_progress` brings it into a later turn.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from leveret.broker.broker import Broker
from leveret.broker.relief import Relief
from leveret.broker.timers import NEVER
from leveret.server.alarms import Alarms
from leveret.server.clock import now_ms
from leveret.server.process_memory import Heap
from leveret.server.rate_limit import ActiveClients

if TYPE_CHECKING:
    from leveret.server.transport import Transport

T = TypeVar("T")

log = logging.getLogger("leveret.server")

HOLD_S = 0.002
# What part of the memory's limit queues may have in memory under pressure; and a rest where that did not help.
QUEUES_PART = 4
REST_MS = 1000
TIMERS_A_TURN = 1000


class Outbox:
    """The connections to write, the connections to go on with, and the broker's work list."""

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, heap: Heap, alarms: Alarms) -> None:
        self._loop = loop
        self._broker = broker
        self._heap = heap
        self._alarms = alarms
        self.active_clients = ActiveClients()
        self._woken: list[Transport] = []
        self._busy: list[Transport] = []
        self._held: list[Transport] = []
        self._scheduled = False
        # What storage has synced while it is flushed is told in this turn.
        self._flushing = False
        self._closed = False
        self._armed_at = NEVER
        self._relief: Relief | None = None
        self._relieved_at = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._unsynced: list[Transport] = []
        self._synced_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def wake(self, transport: "Transport") -> None:
        """This connection has something to send."""
        self._woken.append(transport)
        self.schedule()

    def again(self, transport: "Transport") -> None:
        """This connection's pass was interrupted."""
        self._busy.append(transport)
        self.schedule()

    def when_synced(self, transport: "Transport") -> None:
        """This connection has something to say, or to go on with, when storage has written or read something."""
        self._unsynced.append(transport)

    def on_progress(self) -> None:
        """Storage has synced, or has written or read something for which nothing is synced."""
        unsynced, self._unsynced = self._unsynced, []
        for transport in unsynced:
            self._have(transport, transport.on_progress)
        self._tell_waiters()
        if self._relief is not None and self._relief.paused:
            self._relief.paused = False
            self._broker.work.add(self._relief)
        storage = self._broker.storage
        if not self._flushing or self._busy or storage.position() > storage.synced:
            self.schedule()

    async def change(self, function: Callable[[], T]) -> T:
        """Change the model from outside of any connection's pass, and return when what changed is on disk."""
        result = self.do(function)
        position = self._broker.storage.position()
        if position > self._broker.storage.synced:
            done = self._loop.create_future()
            self._synced_waiters.append((position, done))
            await done
        return result

    def do(self, function: Callable[[], T]) -> T:
        """Change the model from outside of any connection's pass."""
        work = self._broker.work
        work.budget.now = now_ms()
        work.budget.begin()
        try:
            return function()
        finally:
            self.schedule()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when this is so; it is looked at when a turn ends."""
        if not condition():
            done = self._loop.create_future()
            self._waiters.append((condition, done))
            await done

    def _look_for_waiters(self) -> None:
        waiting, self._waiters = self._waiters, []
        for condition, done in waiting:
            if done.done():
                continue
            try:
                met = condition()
            except Exception as error:  # whoever waits is told, and the turn goes on
                done.set_exception(error)
                continue
            if met:
                done.set_result(None)
            else:
                self._waiters.append((condition, done))

    def _tell_waiters(self) -> None:
        synced = self._broker.storage.synced
        waiting, self._synced_waiters = self._synced_waiters, []
        for position, done in waiting:
            if position > synced:
                self._synced_waiters.append((position, done))
            elif not done.done():
                done.set_result(None)

    def on_failed(self, error: BaseException) -> None:
        """Storage has failed: whoever waits outside of a connection is told."""
        waiting = [done for _, done in self._synced_waiters] + [done for _, done in self._waiters]
        self._synced_waiters = []
        self._waiters = []
        for done in waiting:
            if not done.done():
                done.set_exception(error)

    def hold(self, transport: "Transport") -> None:
        """This connection waits until some client has read, but not long."""
        self._held.append(transport)
        self._loop.call_later(HOLD_S, self.resume_held)

    def resume_held(self) -> None:
        """Let those go on that were held."""
        held, self._held = self._held, []
        for transport in held:
            self._have(transport, transport.resume)

    def schedule(self) -> None:
        """Have a turn ended soon."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        self._heap.used()
        if self._busy:
            busy, self._busy = self._busy, []
            for transport in busy:
                self._have(transport, transport.go_on)
        if self._broker.work:
            self._drain()
        self.arm()
        self._flush_storage()
        if self._broker.work:
            self.schedule()
        self._alarms.end_turn()
        if self._waiters:
            self._look_for_waiters()
        woken, self._woken = self._woken, []
        for transport in woken:
            self._have(transport, transport.flush)

    def _flush_storage(self) -> None:
        """Have what was said written, and at once if nobody but the one who waits for it is there to be stopped by that."""
        at_once = self.active_clients.only_one(self._loop.time()) and self._is_awaited()
        self._flushing = True
        try:
            self._broker.storage.flush(at_once)
        finally:
            self._flushing = False

    def _is_awaited(self) -> bool:
        """Whether some client waits for storage, for a confirm mostly."""
        return bool(self._unsynced) or any(transport.confirming for transport in self._woken)

    def _have(self, transport: "Transport", act: Callable[[], None]) -> None:
        """Have a connection do its part; if that fails, it is the only one that ends."""
        try:
            act()
        except Exception:
            log.exception("internal error: a connection is closed")
            transport.abort()

    def tidy(self, space_is_low: bool) -> None:
        """Nothing much happens: have storage free what is of no use."""
        storage = self._broker.storage
        storage.tidy(space_is_low)
        if self._broker.work or storage.position() > storage.synced:
            self.schedule()

    def relieve(self, memory_limit: int, room: int) -> None:
        """Memory is under pressure: have queues leave to storage what they can, `room` octets at a time."""
        relief = self._relief
        if relief is not None and (not relief.done or (not relief.helped and now_ms() < self._relieved_at + REST_MS)):
            return
        if self._broker.storage.can_page:
            self._relief = Relief(self._broker, memory_limit // QUEUES_PART, room)
            self._relieved_at = now_ms()
            self._broker.work.add(self._relief)
            self.schedule()

    def arm(self) -> None:
        """Have the broker's timers looked at when the next one is due."""
        at = self._broker.timers.next_at()
        if at >= self._armed_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._armed_at = at
        self._alarm = self._loop.call_later(max(0, at - now_ms()) / 1000, self._on_alarm)

    def _on_alarm(self) -> None:
        self._armed_at = NEVER
        self._alarm = None
        now = now_ms()
        work = self._broker.work
        work.budget.now = now
        work.budget.begin()
        self._broker.timers.run(now, TIMERS_A_TURN)
        self.schedule()

    def _drain(self) -> None:
        work = self._broker.work
        work.budget.now = now_ms()
        work.budget.begin()
        if not work.drain():
            self.schedule()

    def close(self) -> None:
        """There are no more turns: storage's files are about to be closed."""
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
