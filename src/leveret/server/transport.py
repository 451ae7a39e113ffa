"""One socket: asyncio's callbacks on one side, a Connection on the other.

Reads are paused while a pass is interrupted, too much waits to be sent, or the client publishes and publishers are stopped;
an exception of ours becomes a 541 on this connection and a traceback in the log, and never reaches the loop.
"""

import asyncio
import logging
import ssl
from typing import Any, cast

from leveret.broker.broker import Broker
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.protocol.connection import Connection
from leveret.protocol.heartbeat import NEVER
from leveret.protocol.peer import Peer
from leveret.server.alarms import Alarms
from leveret.server.backpressure import BLOCKED, FLOW, MID_PASS, NOT_DRAINING, STALLED, Backpressure
from leveret.server.clock import now_ms
from leveret.server.endpoint import Endpoint
from leveret.server.outbox import Outbox
from leveret.server.rate_limit import RateLimit
from leveret.server.read_buffer import ReadBuffer

# The socket counts as full above the first, as free again below the second.
WRITE_HIGH = 512 * 1024
WRITE_LOW = 128 * 1024
# A client that has not read this much is not read either.
UNREAD_MAX = 8 << 20
# With the beginning of a body that is copied.
SHORT_READ = 16 * 1024
LINGER_S = 10.0
LOOPBACK = "127.0.0.1"

log = logging.getLogger("leveret.connection")


class Transport(asyncio.BufferedProtocol):
    """The owner of one client's socket."""

    __slots__ = (
        "_alarms",
        "_all",
        "_backpressure",
        "_broker",
        "_buffer",
        "_inner",
        "_loop",
        "_outbox",
        "_rate_limit",
        "_socket",
        "_tick_at",
        "_timer",
        "_unsent",
        "connection",
        "endpoint",
        "local",
        "peer",
        "received_bytes",
        "received_count",
        "sent_bytes",
        "sent_count",
    )

    _socket: asyncio.Transport
    _backpressure: Backpressure

    def __init__(
        self,
        broker: Broker,
        buffer: ReadBuffer,
        outbox: Outbox,
        alarms: Alarms,
        all_transports: "set[Transport]",
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint | None = None,
        inner: Peer | None = None,
    ) -> None:
        # Where the client came in; None for one within this process.
        self.endpoint = endpoint
        # A client within this process, to which the broker has made the socket itself.
        self._inner = inner
        self._broker = broker
        self._buffer = buffer
        self._outbox = outbox
        self._alarms = alarms
        self._all = all_transports
        self._loop = loop
        # None until it gives storage something while others are active.
        self._rate_limit: RateLimit | None = None
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
        self._backpressure = Backpressure(self._socket)
        peer = self._inner
        if peer is None:
            peer = peer_of(transport)
            self.peer = host_and_port(transport.get_extra_info("peername"))
            self.local = host_and_port(transport.get_extra_info("sockname"))
        else:
            self.peer = self.local = (peer.host, 0)
        self.connection = Connection(self._broker, peer, self._wake, now_ms())
        self.connection.on_login = self._logged_in
        self._all.add(self)
        self._set_timer(self.connection)
        log.debug("%s: accepted", peer.name)

    def get_buffer(self, sizehint: int) -> memoryview:
        connection = self.connection
        if connection is None:
            return self._buffer.room(b"")
        room = connection.room()
        if room is None:
            room = self._buffer.room(connection.reader.rest)
            if connection.after_large:
                room = room[:SHORT_READ]
        return room

    def buffer_updated(self, nbytes: int) -> None:
        connection = self.connection
        if connection is None:
            return
        self.received_bytes += nbytes
        self.received_count += 1
        self._outbox.active_clients.note(self, self._loop.time())
        # What the pass gives storage to write is the difference: when it falls behind, whoever gave most waits.
        unsynced = self._broker.storage.unsynced_size()
        try:
            if connection.session.filling is None:
                connection.receive_from(self._buffer.buffer, len(connection.reader.rest) + nbytes, now_ms())
            else:
                connection.receive_in_place(nbytes, now_ms())
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
        if self._backpressure.reasons & STALLED:
            self._outbox.again(self)
        self._backpressure.resume(NOT_DRAINING | STALLED)
        self._drained(connection)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        connection = self.connection
        self._all.discard(self)
        self._alarms.gone(self)
        self._cancel_timer()
        if connection is None:
            return
        self.connection = None
        self._leave_counts(connection)
        log.debug("%s: disconnected%s", connection.name, f": {exc}" if exc else "")
        try:
            connection.lost(now_ms())
        except Exception:
            log.exception("%s: internal error while requeueing its unacknowledged messages", connection.name)
        self._outbox.schedule()

    def _leave_counts(self, connection: Connection) -> None:
        """What went over it stays counted in its vhost."""
        vhost = vhost_of(connection)
        if vhost is not None:
            vhost.received_bytes += self.received_bytes
            vhost.sent_bytes += self.sent_bytes

    def _logged_in(self) -> None:
        """A login that took its time is decided."""
        self._outbox.again(self)

    # The outbox's calls

    def go_on(self) -> None:
        """Go on with an interrupted pass."""
        connection = self.connection
        if connection is None:
            return
        if self._backpressure.reasons & NOT_DRAINING and connection.session.pending is None:
            # It has not read the answers to what it asked before.
            self._backpressure.pause(STALLED)
            return
        unsynced = self._broker.storage.unsynced_size()
        try:
            connection.go_on(now_ms())
        except Exception:
            self._crash(connection)
        self._count_given(unsynced)
        self._backpressure.resume(MID_PASS)
        self._after(connection)

    def on_progress(self) -> None:
        """Storage has synced or read something: tell what was confirmed, and go on with what waited for it."""
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
        # Asked before it is taken: consumers that were passed over for it have their turn again when the socket took it.
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
            self._read_unless_busy(connection)
        self._block_or_resume(connection)
        if output.blocked:
            unsent = self._socket.get_write_buffer_size()
            if unsent > UNREAD_MAX:
                self._unsent = unsent
                self._backpressure.pause(NOT_DRAINING)
        elif was_full:
            self._drained(connection)

    def _count_given(self, unsynced: int) -> None:
        given = self._broker.storage.unsynced_size() - unsynced
        if given > 0:
            self._alarms.gave(self, given)
            self._alarms.look_at_storage()
            self._outbox.schedule()
            self._limit_rate(given)

    def _limit_rate(self, given: int) -> None:
        """Read from a client that gives storage much a little later, if others are active."""
        now = self._loop.time()
        if not self._backpressure.reasons and self._outbox.active_clients.more_than_two(now):
            if self._rate_limit is None:
                self._rate_limit = RateLimit()
            ahead_s = self._rate_limit.ahead_s(given, now)
            if ahead_s > 0:
                self._backpressure.pause(FLOW)
                self._loop.call_later(ahead_s, self.resume)

    # The alarms' calls

    def hold_back(self) -> None:
        """Storage is behind, and this client gives it much: read no more from it until `throttle_changed`."""
        connection = self.connection
        if connection is not None and not connection.session.blocked and not connection.session.is_waiting():
            connection.session.blocked = True
            self._block_or_resume(connection)

    def throttle_changed(self) -> None:
        """Publishers are stopped for another reason, or no longer."""
        connection = self.connection
        if connection is not None:
            connection.throttle_changed(now_ms())
            self._block_or_resume(connection)

    @property
    def confirming(self) -> bool:
        """Whether the client waits for confirms."""
        return self.connection is not None and bool(self.connection.session.confirming)

    @property
    def tls(self) -> ssl.SSLObject | None:
        """What TLS knows of the client."""
        found: ssl.SSLObject | None = self._socket.get_extra_info("ssl_object")
        return found

    @property
    def direct(self) -> bool:
        """Whether the client is within this process."""
        return self._inner is not None

    # The node's calls

    def shut(self, reason: str) -> None:
        """Close because the broker stops."""
        if self.connection is not None:
            self.connection.shut(reason, now_ms())
            self._read_unless_busy(self.connection)
            self._after(self.connection)

    def unsent_bytes(self) -> int:
        """What waits for the client to read."""
        return self._socket.get_write_buffer_size()

    def lose_confirms(self) -> None:
        """Storage has failed: refuse what waits for it."""
        if self.connection is not None:
            self.connection.session.lose_confirms()

    def abort(self) -> None:
        """End the socket now."""
        self._socket.abort()

    def _wake(self) -> None:
        self._outbox.wake(self)

    def _after(self, connection: Connection) -> None:
        if connection.busy:
            self._backpressure.pause(MID_PASS)
            if connection.awaiting:
                self._outbox.when_synced(self)
            else:
                self._outbox.again(self)
        self._block_or_resume(connection)
        if self._broker.work.budget.flooded is not None:
            self._wait_for_readers(self._broker.work.budget.flooded)
        storage = self._broker.storage
        if self._broker.work or storage.position() > storage.synced:
            self._outbox.schedule()
        self._outbox.arm()
        if connection.ended:
            connection.output.wake()
        if connection.tick_at != self._tick_at:
            self._set_timer(connection)

    def _block_or_resume(self, connection: Connection) -> None:
        """Stop reading from a client that may not publish now; go on when it may, with what it had sent first."""
        blocked = self._backpressure.reasons & BLOCKED != 0
        if connection.session.blocked == blocked:
            return
        if blocked:
            self._alarms.unblocked(self)
            self._backpressure.pause(MID_PASS)
            self._backpressure.resume(BLOCKED)
            self._outbox.again(self)
        else:
            self._alarms.blocked(self)
            self._backpressure.pause(BLOCKED)

    def _wait_for_readers(self, queue: Queue) -> None:
        """Give the consumers of a queue that this client fills a moment to read: what piles up is slower to handle."""
        self._broker.work.budget.flooded = None
        if not self._backpressure.reasons and queue.rotation.hurrying(now_ms()):
            self._backpressure.pause(FLOW)
            self._outbox.hold(self)

    def resume(self) -> None:
        """Go on reading after such a moment."""
        if self.connection is not None:
            self._backpressure.resume(FLOW)

    def _drained(self, connection: Connection) -> None:
        self._outbox.resume_held()
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

    def _read_unless_busy(self, connection: Connection) -> None:
        """Read again from a client that waited for storage, as it must answer a close now."""
        if not connection.busy:
            self._backpressure.resume(MID_PASS)

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
        if self._backpressure.reasons & NOT_DRAINING:
            # Its heartbeats are not read, but whoever reads is alive.
            unsent = self._socket.get_write_buffer_size()
            if unsent < self._unsent:
                connection.seen_alive(now_ms())
            self._unsent = unsent
        try:
            connection.tick(max(now_ms(), self._tick_at))
        except Exception:
            self._crash(connection)
        self._after(connection)


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Who has connected, as the socket knows it."""
    remote, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    # Of a client that has shown none, TLS has an empty one.
    certificate = transport.get_extra_info("peercert") or None
    tls = transport.get_extra_info("sslcontext") is not None
    return Peer(f"{address(remote)} -> {address(local)}", host_and_port(remote)[0], certificate=certificate, tls=tls)


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
