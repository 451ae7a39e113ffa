"""AMQP for one client: bytes and a time go in, bytes come out.

Walks the frames, hands each to its channel, and is the one place where an error becomes a channel.close or a
connection.close. Knows no socket, loop or clock: whoever owns those calls `receive`, `go_on`, `tick` and `lost`, sends
what `take_output` returns, and ends the socket once `ended` is set.

  (1) A pass stops when the broker's budget is spent or a task is in hand; `busy` says that it must go on next turn.
  (2) While the connection closes, only connection.close and connection.close-ok are handled; after a broken frame, nothing.
      Who has closed it may still be writing, and would take an end of the socket for a failure: so after close-ok what the
      client sends is read and ignored, until it ends the socket itself or some time has passed.
  (3) Every deadline is in `tick_at`; `tick` moves it on.
  (4) While publishers are stopped, whoever publishes is not read (`Session.blocked`): its pass ends with that frame, and
      whoever owns the socket reads no more of it until `throttle_changed` has cleared it. It is still sent to.
  (5) While answers wait for storage, frames about exchanges, queues and bindings are handled, and their answers wait behind;
      any other frame waits, and so does an error: all is said in the order in which it was asked.
"""

import logging
from collections.abc import Callable
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.tenant_limit import reached
from leveret.errors import (
    AccessRefused,
    AMQPError,
    ChannelError,
    ConnectionForced,
    FrameError,
    InternalError,
    MalformedString,
    NotAllowed,
    PreconditionFailed,
    UnexpectedFrame,
)
from leveret.protocol.channel import TOPOLOGY_CLASSES, Channel
from leveret.protocol.deadlines import look_every_ms
from leveret.protocol.departure import Departure
from leveret.protocol.handshake import ACCEPTED_HEADERS, HEADER_SIZE, PROTOCOL_HEADER, START, TIMEOUT_MS, Handshake
from leveret.protocol.peer import Peer
from leveret.protocol.pending import AfterAnswers, AfterPage, AfterRemoval, AfterSync, AfterTask, Failure
from leveret.protocol.session import Session
from leveret.protocol.settlement import nothing
from leveret.protocol.states import CHANNEL_OPEN, CLOSED, CLOSING, HANDSHAKE, HEADER, IGNORING_INPUT, RUNNING
from leveret.wire.frames import FRAME_HEAD, HEARTBEAT, FrameReader
from leveret.wire.methods import decode_method
from leveret.wire.output import Output
from leveret.wire.spec import (
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_MIN_SIZE,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)

# RabbitMQ: who is not trusted yet, or has lost step, waits this long for the end of the connection.
SILENT_CLOSE_MS = 3000
CLOSING_MS = 30_000
NEVER = 1 << 62
# So many answers may wait for storage.
ANSWERS_MAX = 1000

log = logging.getLogger("leveret.connection")


class Connection:
    """One client's connection."""

    __slots__ = (
        "_ack_check_at",
        "_channel",
        "_halted",
        "_handshake",
        "_header",
        "_received_at",
        "_sent_at",
        "broker",
        "channel_max",
        "client_properties",
        "connected_at",
        "ended",
        "heartbeat_ms",
        "mechanism",
        "name",
        "output",
        "reader",
        "session",
        "state",
        "tick_at",
    )

    def __init__(self, broker: Broker, peer: Peer, wake: Callable[[], None], now: int) -> None:
        self.broker = broker
        self.name = peer.name
        self.output = Output(wake)
        self.session = Session(broker, self.output)
        self.session.connection_name = peer.name
        self.reader = FrameReader(FRAME_MIN_SIZE)
        self.state = HEADER
        self.ended = False
        self.connected_at = now
        self.tick_at = now + TIMEOUT_MS
        self.heartbeat_ms = 0
        self.channel_max = 0
        self.client_properties: dict[str, Any] = {}
        self.mechanism = ""
        self._handshake: Handshake | None = Handshake(broker, peer)
        self._header = b""
        self._channel: Channel | None = None
        # Whether the last pass came to its end, with nothing more that could be done.
        self._halted = False
        self._received_at = now
        self._sent_at = now
        self._ack_check_at = NEVER

    # What the server calls

    def receive(self, data: bytes, now: int) -> None:
        """Take bytes that have arrived at `now` (ms)."""
        self._received_at = now
        self._set_time(now)
        if self.state == HEADER:
            data = self._on_protocol_header(data)
        if self.state == IGNORING_INPUT:
            self.reader.rest = b""
            return
        self.session.reads += 1
        self.reader.feed(data)
        self._pass()

    def receive_from(self, buffer: bytearray, size: int, now: int) -> None:
        """Take the first `size` octets of `buffer`, which begins with `reader.rest`; it is the caller's again afterwards."""
        if self.state == HEADER or self.state == IGNORING_INPUT:  # noqa: PLR1714 - compiled, two comparisons of integers
            self.receive(bytes(buffer[:size]), now)
            return
        self._received_at = now
        self.session.reads += 1
        self._set_time(now)
        self.reader.read_from(buffer, size)
        self._pass()

    def seen_alive(self, now: int) -> None:
        """The client is alive, as something other than its bytes has shown."""
        self._received_at = now

    def go_on(self, now: int) -> None:
        """Go on where a spent budget stopped."""
        self._set_time(now)
        self.reader.feed(b"")
        self._pass()

    def _set_time(self, now: int) -> None:
        self.session.now = now
        self.broker.work.budget.now = now

    @property
    def busy(self) -> bool:
        """Whether there is more to do with what has already arrived."""
        if self.session.is_waiting():
            return True
        if self.session.blocked:
            return False
        return self.broker.work.budget.left <= 0 and len(self.reader.rest) != 0

    def take_output(self, now: int) -> list[bytearray | memoryview]:
        """Everything to be sent, confirms included; the caller's from now on."""
        confirming = self.session.confirming
        # A message that is still on its way to its queues is not confirmed.
        if confirming and self.session.pending is None:
            self.session.confirming = []
            for channel in confirming:
                if channel.confirms is not None:
                    channel.confirms.tell(self.output)
                    if channel.confirms.told != channel.confirms.published:
                        self.session.confirming.append(channel)
        self._sent_at = now
        return self.output.take()

    def lose_confirms(self) -> None:
        """Storage has failed: refuse what waits for it."""
        for channel in self.session.confirming:
            if channel.confirms is not None:
                channel.confirms.lose(self.output)
        self.session.confirming = []
        self.output.wake()

    @property
    def awaiting(self) -> bool:
        """Whether it goes on only when storage has written or read something."""
        pending = self.session.pending
        if pending is None:
            return self._halted and self.session.is_waiting()
        return isinstance(pending, AfterSync | AfterPage | AfterRemoval | AfterAnswers | Failure)

    @property
    def status(self) -> str:
        """The state, under the name that RabbitMQ's API has for it."""
        if self.state != RUNNING:
            return "closing" if self.state > RUNNING else "starting"
        if not self.session.blocked:
            return "blocking" if self.broker.alarm else "running"
        return "blocked" if self.broker.alarm else "flow"

    def throttle_changed(self, now: int) -> None:
        """What stops publishers has changed: tell a client that is stopped, and read it again if nothing does any more."""
        if not self.session.blocked:
            return
        self.session.tell_alarm()
        if not self.broker.throttled:
            self.session.blocked = False
            # Its heartbeats were not read meanwhile.
            self._received_at = now

    def drained(self, now: int) -> None:
        """The client has read: its consumers may have more."""
        self._set_time(now)
        self.broker.work.budget.begin()
        for channel in list(self.session.channels.values()):
            channel.resume_consumers()
        self.broker.work.drain()

    def lost(self, now: int) -> None:
        """The socket is gone: give everything back."""
        self._set_time(now)
        self.ended = True
        self.state = IGNORING_INPUT
        self.tick_at = NEVER
        self._handshake = None
        work = self.broker.work
        work.budget.begin()
        self._leave_pending()
        work.add(self._release(nothing))
        work.drain()

    def shut(self, reason: str, now: int) -> None:
        """Close because the broker says so."""
        if self.state == RUNNING:
            self._set_time(now)
            self._shut(reason)
        elif self.state != CLOSING:
            self.ended = True

    def _shut(self, reason: str) -> None:
        self.session.now = self.broker.work.budget.now
        self.session.method_index = 0
        log.error("%s: closed: %s", self.name, reason)
        self._close(ConnectionForced(reason))

    def crash(self, now: int) -> None:
        """Close because of a fault of our own."""
        self._set_time(now)
        self.session.method_index = 0
        if self.state == RUNNING:
            self._close(InternalError())
            self._ignore_input()
        else:
            self.ended = True

    def tick(self, now: int) -> None:
        """Do what is due, and set `tick_at` to when there may be something next."""
        if self.state != RUNNING:
            if self._handshake is not None:
                log.warning("%s: handshake not finished in time", self.name)
            self.ended = True
            self.tick_at = NEVER
        else:
            self._tick_heartbeat(now)
            if self.ended:
                return
            if now >= self._ack_check_at:
                self._check_acks(now)
            self.tick_at = min(self.tick_at, self._ack_check_at)

    def _check_acks(self, now: int) -> None:
        """Close the channels of a client that keeps a delivery for too long."""
        timeout = self.broker.settings.ack_timeout_ms
        self._ack_check_at = now + look_every_ms(timeout)
        if self.session.is_waiting() or self.session.blocked:
            # Its acknowledgements are not read.
            return
        self._set_time(now)
        self.broker.work.budget.begin()
        for channel in list(self.session.channels.values()):
            overdue = channel.deadlines.overdue(channel.unacked, now, timeout)
            if overdue is not None and channel.state == CHANNEL_OPEN:
                error = PreconditionFailed(
                    f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {overdue} ms. "
                    "This timeout value can be configured, see consumers doc guide to learn more"
                )
                log.error("%s: channel %d: %s", self.name, channel.number, error.reply_text)
                channel.fail(error, 0)
                if self.busy:
                    break
        self.broker.work.drain()

    def _tick_heartbeat(self, now: int) -> None:
        interval = self.heartbeat_ms
        if not interval:
            self.tick_at = NEVER
        elif now - self._received_at >= 2 * interval and not self.session.is_waiting() and not self.session.blocked:
            log.error("%s: missed heartbeats from client, timeout: %ds", self.name, interval // 1000)
            self.ended = True
            self.tick_at = NEVER
        else:
            if now - self._sent_at >= interval // 2:
                self.output.write(HEARTBEAT)
            self.tick_at = now + interval // 2

    # The pass

    def _pass(self) -> None:
        work = self.broker.work
        work.budget.begin()
        while True:
            try:
                # A task in hand is finished even when nothing more is read.
                done = not self.session.is_waiting() or self.session.go_on()
                if done and self.state != IGNORING_INPUT and not self.session.blocked:
                    self._walk()
                break
            except AMQPError as error:
                if self.session.answers:
                    self.session.pending = Failure(self.session, error)
                else:
                    self._fail(error)
        self._halted = work.budget.left > 0
        self.reader.keep_rest()
        if self.session.confirming:
            self.output.wake()
        work.drain()

    def _walk(self) -> None:
        """Handle frames until they, the budget or the client's turn are at an end."""
        session = self.session
        reader = self.reader
        work = self.broker.work
        channel = self._channel
        while work.budget.left > 0 and session.pending is None:
            session.method_index = 0
            if session.answers and not self._may_go_on(reader):
                return
            if not reader.next():
                return
            if channel is None or reader.channel != channel.number or channel.state != CHANNEL_OPEN or self.state != RUNNING:
                channel = self._channel_of(reader)
                if channel is None:
                    continue
            channel.on_frame(reader)

    def _may_go_on(self, reader: FrameReader) -> bool:
        """Whether the next frame may be handled while answers wait."""
        p = reader.data
        at = reader.at
        if len(self.session.answers) >= ANSWERS_MAX or reader.size - at < FRAME_HEAD + 2 or p[at] != FRAME_METHOD:
            return False
        return (p[at + FRAME_HEAD] << 8 | p[at + FRAME_HEAD + 1]) in TOPOLOGY_CLASSES

    def _channel_of(self, reader: FrameReader) -> Channel | None:
        """The channel this frame is for; None if it has been dealt with."""
        self._channel = None
        number = reader.channel
        if self.state >= CLOSING:
            self._on_frame_while_closing(reader)
            return None
        if number == 0:
            self._on_channel_zero(reader)
            return None
        if self.state != RUNNING:
            raise UnexpectedFrame(reader.describe())
        channel = self.session.channels.get(number)
        if channel is None:
            channel = self._open(number)
        self._channel = channel
        return channel

    def _open(self, number: int) -> Channel:
        channels = self.session.channels
        if len(channels) >= self.channel_max:
            raise NotAllowed(
                f"number of channels opened ({len(channels)}) has reached the negotiated channel_max ({self.channel_max})"
            )
        user = self.session.user
        limit = user.limits.get("max-channels")
        if limit is not None and reached(limit, user.channel_count()):
            raise NotAllowed(
                f"number of channels opened for user '{user.name}' has reached the maximum allowed user limit of ({limit})"
            )
        channel = Channel(number, self.session)
        channels[number] = channel
        self.broker.churn.channels_opened += 1
        return channel

    def _on_protocol_header(self, data: bytes) -> bytes:
        """Take the protocol header, which may come in pieces; return what follows it."""
        missing = HEADER_SIZE - len(self._header)
        self._header += data[:missing]
        if len(self._header) < HEADER_SIZE:
            return b""
        if self._header in ACCEPTED_HEADERS:
            self.state = HANDSHAKE
            self.output.write(START)
        else:
            log.error("%s: bad protocol header %r", self.name, self._header)
            self.state = IGNORING_INPUT
            self.ended = True
            self.output.write(PROTOCOL_HEADER)
        self._header = b""
        return data[missing:]

    # Channel 0

    def _on_channel_zero(self, reader: FrameReader) -> None:
        size = reader.stop - reader.start
        if reader.kind == FRAME_HEARTBEAT and not size:
            return
        if reader.kind != FRAME_METHOD:
            known = (reader.kind == 2 and size >= 12) or reader.kind == 3
            raise UnexpectedFrame(reader.describe()) if known else FrameError(f"{reader.describe()}: unknown_frame")
        if size < 4:
            raise FrameError(f"{reader.describe()}: unknown_frame")
        payload = reader.payload()
        index = int.from_bytes(payload[:4], "big")
        self.session.method_index = index
        method = decode_method(index, payload, 4, size)
        if self._handshake is not None:
            self._on_handshake(self._handshake, method)
        elif isinstance(method, ConnectionClose):
            self.state = CLOSING
            self.tick_at = self.session.now + CLOSING_MS
            self.session.do(self._release(self._closed))
        elif isinstance(method, ConnectionUpdateSecret):
            self.output.write_method(0, ConnectionUpdateSecretOk())
        else:
            raise ChannelError("unexpected method in connection state running")

    def _on_handshake(self, handshake: Handshake, method: Method) -> None:
        answer = handshake.on_method(method)
        if answer is not None:
            self.output.write_method(0, answer)
        if handshake.state == "opening":
            self.reader.frame_max = self.output.frame_max = handshake.frame_max
        if handshake.done:
            self._begin_running(handshake)

    def _begin_running(self, handshake: Handshake) -> None:
        session = self.session
        session.enter(handshake.user, handshake.vhost, self._shut)
        session.capabilities = handshake.capabilities
        self.client_properties = handshake.client_properties
        self.mechanism = handshake.mechanism
        self.channel_max = handshake.channel_max
        self.heartbeat_ms = handshake.heartbeat_s * 1000
        self.state = RUNNING
        self._handshake = None
        self.tick_at = session.now + self.heartbeat_ms // 2 if self.heartbeat_ms else NEVER
        self._ack_check_at = session.now + look_every_ms(self.broker.settings.ack_timeout_ms)
        self.tick_at = min(self.tick_at, self._ack_check_at)
        self.output.write_method(0, ConnectionOpenOk())
        log.info("%s: user '%s' granted access to vhost '%s'", self.name, session.user.name, session.vhost.name)

    def _on_frame_while_closing(self, reader: FrameReader) -> None:
        if reader.channel or reader.kind != FRAME_METHOD or reader.stop - reader.start < 4:
            return
        index = int.from_bytes(reader.payload()[:4], "big")
        if index == ConnectionCloseOk.INDEX:
            self.ended = True
        elif index == ConnectionClose.INDEX:
            self.output.write_method(0, ConnectionCloseOk())

    def _closed(self) -> None:
        self.output.write_method(0, ConnectionCloseOk())
        self.state = CLOSED
        # RabbitMQ: as long as a client may be silent, if that is less.
        self.tick_at = self.session.now + min(CLOSING_MS, self.heartbeat_ms or CLOSING_MS)

    # Errors

    def _fail(self, error: AMQPError) -> None:
        """Turn an error into a close: the channel's for a soft one, the connection's for a hard one."""
        if self._handshake is not None:
            self._fail_handshake(self._handshake, error)
            return
        if self.state >= CLOSING:
            # RabbitMQ: a close has been said already, there is no second one.
            self._ignore_input()
            return
        number = self.reader.channel
        channel = self.session.channels.get(number)
        log.error("%s: channel %d: %s", self.name, number, error.reply_text)
        if isinstance(error, MalformedString):
            self.session.method_index = 0
        if channel is not None and not error.hard:
            channel.fail(error, self.session.method_index)
            return
        self._close(error)
        if self.reader.broken:
            self._ignore_input()

    def _close(self, error: AMQPError) -> None:
        self.state = CLOSING
        self.tick_at = self.session.now + CLOSING_MS
        self._leave_pending()
        leave = self._release(nothing)
        self.output.write_method(0, self._close_method(error))
        # What is left of it is everybody's work: nobody here waits for it, and this may not be the client's own pass.
        if not leave.run(self.broker.work.budget):
            self.broker.work.add(leave)

    def _close_method(self, error: AMQPError) -> ConnectionClose:
        index = self.session.method_index
        return ConnectionClose(error.code, error.reply_text, index >> 16, index & 0xFFFF)

    def _ignore_input(self) -> None:
        """Read no more, and end soon: time enough for the client to read why."""
        self.state = IGNORING_INPUT
        self.tick_at = self.session.now + SILENT_CLOSE_MS

    def _fail_handshake(self, handshake: Handshake, error: AMQPError) -> None:
        # The client is not told why its login was refused, the log is.
        log.error("%s: in connection state %s: %s", self.name, handshake.state, error.__cause__ or error.reply_text)
        self._ignore_input()
        self._handshake = None
        if not handshake.answers(error):
            return
        if isinstance(error, AccessRefused):
            # RabbitMQ: no method is blamed; the answer comes at once, and the socket is held: guessing must take its time.
            self.session.method_index = 0
        self.output.write_method(0, self._close_method(error))

    def _leave_pending(self) -> None:
        """Have the task in hand finished as everybody's work, unless it only waits: nobody here does any more."""
        pending = self.session.pending
        if pending is not None and not self.awaiting and not isinstance(pending, AfterTask):
            self.broker.work.add(pending)
        self.session.pending = None
        self.session.answers = []

    def _release(self, done: Callable[[], None]) -> Departure:
        """Have nothing more to do with channels and exclusive queues; the task that ends them."""
        session = self.session
        vhost = None if session.on_shut is None else session.vhost
        leave = Departure(vhost, list(session.channels.values()), session.exclusive_queues, done)
        session.channels = {}
        session.confirming = []
        # It has to be read, if only for its close-ok.
        session.blocked = False
        self._channel = None
        session.exclusive_queues = []
        session.leave()
        return leave
