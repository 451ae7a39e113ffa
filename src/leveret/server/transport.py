"""One socket: asyncio's callbacks on one side, a Connection on the other.

Reads are paused while a pass is interrupted, too much waits to be sent, or the client publishes and publishers are stopped;
an exception of ours becomes a 541 on this connection and a traceback in the log, and never reaches the loop.
"""

import asyncio
import logging
from typing import Any, cast

from leveret.broker.access import User
from leveret.broker.broker import Broker
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.protocol.connection import NEVER, Connection
from leveret.server.alarms import Alarms
from leveret.server.clock import now_ms
from leveret.server.inbox import Inbox
from leveret.server.outbox import Outbox
from leveret.server.pace import Pace

# The socket counts as full above the first, as free again below the second.
WRITE_HIGH = 512 * 1024
WRITE_LOW = 128 * 1024
# A client that has not read this much is not heard either.
UNREAD_MAX = 8 << 20
LINGER_S = 10.0
LOOPBACK = "127.0.0.1"

# Why a client is not heard: its pass was interrupted; it does not read; both, so that its pass waits for that; it waits
# for readers, or for others; it publishes, and publishers are stopped.
BUSY, UNREAD, STALLED, FLOW, STOPPED = 1, 2, 4, 8, 16

log = logging.getLogger("leveret.connection")


class Link:
    """A client within this process: what its connection is called, and who it is if no password is asked for.

    Only who makes a pair of sockets can make one: what comes from a listener has none.
    """

    __slots__ = ("name", "user")

    def __init__(self, name: str, user: User | None) -> None:
        self.name = name
        self.user = user


class Transport(asyncio.BufferedProtocol):
    """The owner of one client's socket."""

    __slots__ = (
        "_alarms",
        "_broker",
        "_inbox",
        "_link",
        "_loop",
        "_outbox",
        "_pace",
        "_paused",
        "_peers",
        "_socket",
        "_tick_at",
        "_timer",
        "_unsent",
        "connection",
        "local",
        "peer",
        "received_bytes",
        "received_count",
        "sent_bytes",
        "sent_count",
    )

    _socket: asyncio.Transport

    def __init__(
        self,
        broker: Broker,
        inbox: Inbox,
        outbox: Outbox,
        alarms: Alarms,
        peers: "set[Transport]",
        loop: asyncio.AbstractEventLoop,
        link: "Link | None" = None,
    ) -> None:
        self._link = link
        self._broker = broker
        self._inbox = inbox
        self._outbox = outbox
        self._alarms = alarms
        self._peers = peers
        self._loop = loop
        self._paused = 0
        self._pace = Pace()
        self._unsent = 0
        self._tick_at = NEVER
        self._timer: asyncio.TimerHandle | None = None
        self.connection: Connection | None = None
        # Host and port of both ends, and what went over it: bytes, reads and writes.
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.received_bytes = 0
        self.received_count = 0
        self.sent_bytes = 0
        self.sent_count = 0

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        if self._link is None:
            peer = transport.get_extra_info("peername")
            local = transport.get_extra_info("sockname")
            name, known = f"{address(peer)} -> {address(local)}", None
            self.peer, self.local = host_and_port(peer), host_and_port(local)
        else:
            name, known = self._link.name, self._link.user
            self.peer = self.local = (LOOPBACK, 0)
        self.connection = Connection(self._broker, name, self.peer[0], self._wake, now_ms(), known)
        self._peers.add(self)
        self._set_timer(self.connection)
        log.debug("%s: accepted", name)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room(b"" if self.connection is None else self.connection.reader.rest)

    def buffer_updated(self, nbytes: int) -> None:
        connection = self.connection
        if connection is None:
            return
        self.received_bytes += nbytes
        self.received_count += 1
        self._outbox.company.heard(self, self._loop.time())
        unsynced = self._broker.storage.unsynced_size()
        try:
            connection.receive_from(self._inbox.buffer, len(connection.reader.rest) + nbytes, now_ms())
        except Exception:
            self._crash(connection)
        self._count_given(unsynced)
        self._alarms.read(nbytes)
        self._after(connection)

    def pause_writing(self) -> None:
        if self.connection is not None:
            self.connection.output.blocked = True
            self.connection.output.blocked_at = now_ms()

    def resume_writing(self) -> None:
        connection = self.connection
        if connection is None:
            return
        connection.output.blocked = False
        if self._paused & STALLED:
            self._outbox.again(self)
        self._resume(UNREAD | STALLED)
        self._drained(connection)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        connection = self.connection
        self._peers.discard(self)
        self._alarms.gone(self)
        self._cancel_timer()
        if connection is None:
            return
        self.connection = None
        self._leave_counts(connection)
        log.debug("%s: gone%s", connection.name, f": {exc}" if exc else "")
        try:
            connection.lost(now_ms())
        except Exception:
            log.exception("%s: while giving back what it held", connection.name)
        self._outbox.schedule()

    def _leave_counts(self, connection: Connection) -> None:
        """What went over it stays counted in its vhost."""
        vhost = vhost_of(connection)
        if vhost is not None:
            vhost.received_bytes += self.received_bytes
            vhost.sent_bytes += self.sent_bytes

    # The outbox's calls

    def go_on(self) -> None:
        """Go on with an interrupted pass."""
        connection = self.connection
        if connection is None:
            return
        if self._paused & UNREAD and connection.session.pending is None:
            # It has not read the answers to what it asked before.
            self._paused |= STALLED
            return
        unsynced = self._broker.storage.unsynced_size()
        try:
            connection.go_on(now_ms())
        except Exception:
            self._crash(connection)
        self._count_given(unsynced)
        self._resume(BUSY)
        self._after(connection)

    def on_synced(self) -> None:
        """Storage has synced: tell what was confirmed, and go on with what waited for it."""
        connection = self.connection
        if connection is None:
            return
        if connection.session.confirming:
            connection.output.wake()
        if connection.awaiting:
            self._outbox.again(self)

    def flush(self) -> None:
        """Write everything gathered."""
        connection = self.connection
        if connection is None:
            return
        output = connection.output
        was_full = output.full()
        pieces = connection.take_output(now_ms())
        if connection.session.confirming:
            self._outbox.when_synced(self)
        if len(pieces) == 1:
            self.sent_bytes += len(pieces[0])
            self.sent_count += 1
            self._socket.write(pieces[0])
        elif pieces:
            self.sent_bytes += sum(map(len, pieces))
            self.sent_count += 1
            self._socket.writelines(pieces)
        if connection.ended:
            self._end()
            return
        if connection.tick_at != self._tick_at:
            # The model has ended it, outside of its own pass.
            self._set_timer(connection)
            self._hear(connection)
        self._stop_or_hear(connection)
        if output.blocked:
            unsent = self._socket.get_write_buffer_size()
            if unsent > UNREAD_MAX:
                self._unsent = unsent
                self._pause(UNREAD)
        elif was_full:
            self._drained(connection)

    def _count_given(self, unsynced: int) -> None:
        given = self._broker.storage.unsynced_size() - unsynced
        if given > 0:
            self._alarms.gave(self, given)
            self._alarms.look_at_storage()
            self._outbox.schedule()
            self._keep_pace(given)

    def _keep_pace(self, given: int) -> None:
        """Hear a client that gives storage much a little later, if others are at work."""
        now = self._loop.time()
        if not self._paused and self._outbox.company.present(now):
            ahead_s = self._pace.ahead_s(given, now)
            if ahead_s > 0:
                self._pause(FLOW)
                self._loop.call_later(ahead_s, self.let_go)

    # The alarms' calls

    def hold_back(self) -> None:
        """Storage is behind, and this client gives it much: hear no more of it until `throttle_changed`."""
        connection = self.connection
        if connection is not None and not connection.session.blocked and connection.session.pending is None:
            connection.session.blocked = True
            self._stop_or_hear(connection)

    def throttle_changed(self) -> None:
        """Publishers are stopped for another reason, or no longer."""
        connection = self.connection
        if connection is not None:
            connection.throttle_changed(now_ms())
            self._stop_or_hear(connection)

    @property
    def direct(self) -> bool:
        """Whether the client is within this process."""
        return self._link is not None

    # The node's calls

    def shut(self, reason: str) -> None:
        """Close because the broker stops."""
        if self.connection is not None:
            self.connection.shut(reason, now_ms())
            self._hear(self.connection)
            self._after(self.connection)

    def unsent_bytes(self) -> int:
        """What waits for the client to read."""
        return self._socket.get_write_buffer_size()

    def lose_confirms(self) -> None:
        """Storage has failed: refuse what waits for it."""
        if self.connection is not None:
            self.connection.lose_confirms()

    def abort(self) -> None:
        """End the socket now."""
        self._socket.abort()

    def _wake(self) -> None:
        self._outbox.wake(self)

    def _after(self, connection: Connection) -> None:
        if connection.busy:
            self._pause(BUSY)
            if connection.awaiting:
                self._outbox.when_synced(self)
            else:
                self._outbox.again(self)
        self._stop_or_hear(connection)
        if self._broker.work.flooded is not None:
            self._wait_for_readers(self._broker.work.flooded)
        storage = self._broker.storage
        if self._broker.work or storage.position() > storage.synced:
            self._outbox.schedule()
        self._outbox.arm()
        if connection.ended:
            connection.output.wake()
        if connection.tick_at != self._tick_at:
            self._set_timer(connection)

    def _stop_or_hear(self, connection: Connection) -> None:
        """Stop reading from a client that may not publish now; go on when it may, with what it had sent first."""
        stopped = self._paused & STOPPED != 0
        if connection.session.blocked == stopped:
            return
        if stopped:
            self._alarms.let_go(self)
            self._pause(BUSY)
            self._resume(STOPPED)
            self._outbox.again(self)
        else:
            self._alarms.stop(self)
            self._pause(STOPPED)

    def _wait_for_readers(self, queue: Queue) -> None:
        """Give the consumers of a queue that this client fills a moment to read: what piles up is slower to handle."""
        self._broker.work.flooded = None
        if not self._paused and queue.rotation.hurrying(now_ms()):
            self._pause(FLOW)
            self._outbox.hold(self)

    def let_go(self) -> None:
        """Go on reading after such a moment."""
        if self.connection is not None:
            self._resume(FLOW)

    def _drained(self, connection: Connection) -> None:
        self._outbox.let_go()
        try:
            connection.drained(now_ms())
        except Exception:
            self._crash(connection)
        self._after(connection)

    def _crash(self, connection: Connection) -> None:
        log.exception("%s: internal error", connection.name)
        connection.crash(now_ms())

    def _end(self) -> None:
        self._cancel_timer()
        self._socket.close()
        # A client that never reads would keep the socket for ever.
        self._timer = self._loop.call_later(LINGER_S, self._socket.abort)

    def _pause(self, reason: int) -> None:
        if not self._paused:
            self._socket.pause_reading()
        self._paused |= reason

    def _resume(self, reason: int) -> None:
        if self._paused and not self._socket.is_closing():
            self._paused &= ~reason
            if not self._paused:
                self._socket.resume_reading()

    def _hear(self, connection: Connection) -> None:
        """Hear a client again that waited for storage, as it must answer a close now."""
        if not connection.busy:
            self._resume(BUSY)

    def _set_timer(self, connection: Connection) -> None:
        self._cancel_timer()
        self._tick_at = connection.tick_at
        if self._tick_at != NEVER:
            delay = max(0, self._tick_at - now_ms()) / 1000
            self._timer = self._loop.call_later(delay, self._tick)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        connection = self.connection
        if connection is None:
            return
        if self._paused & UNREAD:
            # Its heartbeats are not heard, but whoever reads is alive.
            unsent = self._socket.get_write_buffer_size()
            if unsent < self._unsent:
                connection.heard(now_ms())
            self._unsent = unsent
        try:
            connection.tick(max(now_ms(), self._tick_at))
        except Exception:
            self._crash(connection)
        self._after(connection)


def address(name: Any) -> str:
    """A socket's name as RabbitMQ writes it."""
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)


def host_and_port(name: Any) -> tuple[str, int]:
    """Both parts of a socket's name; nothing for one that has none."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else ("", 0)


def vhost_of(connection: Connection) -> VirtualHost | None:
    """Where a client has logged in, also if it has left since."""
    # Without a default in plain Python, None compiled.
    return getattr(connection.session, "vhost", None)
