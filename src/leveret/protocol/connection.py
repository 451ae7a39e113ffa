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
from functools import partial
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.login import Login
from leveret.broker.tenant_limit import check_channel_limit
from leveret.errors import (
    AccessRefused,
    AMQPError,
    ChannelError,
    ConnectionForced,
    FrameError,
    InternalError,
    MalformedString,
    NotAllowed,
    UnexpectedFrame,
)
from leveret.protocol.channel import TOPOLOGY_CLASSES, Channel
from leveret.protocol.deadlines import close_overdue, look_every_ms
from leveret.protocol.departure import Departure, end_channels
from leveret.protocol.handshake import (
    ACCEPTED_HEADERS,
    HEADER_SIZE,
    PROTOCOL_HEADER,
    TIMEOUT_MS,
    Handshake,
    header_fault,
)
from leveret.protocol.heartbeat import NEVER, Heartbeat
from leveret.protocol.incoming import Incoming
from leveret.protocol.peer import Peer
from leveret.protocol.pending import AfterLogin, Failure, abandon_pending, awaits_storage
from leveret.protocol.session import Session
from leveret.protocol.settlement import nothing
from leveret.protocol.states import CHANNEL_OPEN, CLOSED, CLOSING, HANDSHAKE, HEADER, IGNORING_INPUT, RUNNING
from leveret.wire.frames import FRAME_HEAD, HEARTBEAT, FrameReader
from leveret.wire.methods import decode_method
from leveret.wire.output import Output
from leveret.wire.spec import (
    BASIC_PUBLISH,
    FRAME_BODY,
    FRAME_HEADER,
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
# To copy as much costs more than to read twice.
LARGE_FROM = 128 * 1024
# Class, weight and body size: a header frame of less is no header frame.
CONTENT_HEAD_SIZE = 12
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
        "after_large",
        "broker",
        "channel_max",
        "client_properties",
        "connected_at",
        "ended",
        "heartbeat",
        "mechanism",
        "name",
        "on_login",
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
        self.session.address = peer.host
        self.reader = FrameReader(FRAME_MIN_SIZE)
        self.state = HEADER
        self.ended = False
        # A very large body has come last, and the next read is best a short one: it may bring another one's beginning.
        self.after_large = False
        self.connected_at = now
        self.tick_at = now + TIMEOUT_MS
        self.heartbeat = Heartbeat(now)
        self.channel_max = 0
        self.client_properties: dict[str, Any] = {}
        self.mechanism = ""
        self._handshake: Handshake | None = Handshake(broker, peer)
        # Told when a login that took its time is decided; then the connection goes on.
        self.on_login: Callable[[], None] | None = None
        self._channel: Channel | None = None
        # Whether the last pass came to its end, with nothing more that could be done.
        self._halted = False
        self._ack_check_at = NEVER

    # What the server calls

    def receive(self, data: bytes, now: int) -> None:
        """Take bytes that have arrived at `now` (ms)."""
        self.heartbeat.received_at = now
        self._set_time(now)
        if self.state == HEADER:
            data = self._on_protocol_header(data)
        if self.state == IGNORING_INPUT:
            self.reader.rest = b""
            self.session.filling = None
            return
        self.session.reads += 1
        incoming = self.session.filling
        if incoming is not None:
            data = incoming.take(data)
        self.reader.feed(data)
        self._pass()

    def receive_from(self, buffer: bytearray, size: int, now: int) -> None:
        """Take the first `size` octets of `buffer`, which begins with `reader.rest`; it is the caller's again afterwards."""
        state = self.state
        if state == HEADER or state == IGNORING_INPUT or self.session.filling is not None:  # noqa: PLR1714, SIM109 - as above
            self.receive(bytes(buffer[:size]), now)
            return
        self.heartbeat.received_at = now
        self.after_large = False
        self.session.reads += 1
        self._set_time(now)
        self.reader.read_from(buffer, size)
        self._pass()

    def room(self) -> memoryview | None:
        """Where to read the rest of a large body to, if that is what comes next."""
        incoming = self.session.filling
        if incoming is None:
            return None
        if incoming.gone or incoming.full():
            self.session.filling = None
            self.reader.rest = incoming.left_over() + self.reader.rest
            return None
        return incoming.room()

    def receive_in_place(self, size: int, now: int) -> None:
        """Take so many octets that were read to `room`."""
        incoming = self.session.filling
        if incoming is None:
            return
        incoming.filled(size)
        self.receive(b"", now)

    def seen_alive(self, now: int) -> None:
        """The client is alive, as something other than its bytes has shown."""
        self.heartbeat.received_at = now

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
        # A message that is still on its way to its queues is not confirmed.
        if self.session.confirming and self.session.pending is None:
            self.session.tell_confirms()
        self.heartbeat.sent_at = now
        return self.output.take()

    @property
    def awaiting(self) -> bool:
        """Whether it goes on only when storage has written or read something."""
        pending = self.session.pending
        if pending is None:
            return self._halted and self.session.is_waiting()
        return awaits_storage(pending)

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
            self.heartbeat.received_at = now

    def drained(self, now: int) -> None:
        """The client has read: its consumers may have more."""
        self._set_time(now)
        self.broker.work.budget.begin()
        for channel in list(self.session.channels.values()):
            channel.consumers.resume()
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
        abandon_pending(self.session)
        work.add(self._end_channels(nothing))
        work.drain()
        self.session.filling = None

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
        timeout = self.broker.settings.consumer_timeout_ms
        self._ack_check_at = now + look_every_ms(timeout)
        if self.session.is_waiting() or self.session.blocked:
            # Its acknowledgements are not read.
            return
        self._set_time(now)
        self.broker.work.budget.begin()
        close_overdue(self.session, now, timeout)
        self.broker.work.drain()

    def _tick_heartbeat(self, now: int) -> None:
        heartbeat = self.heartbeat
        if heartbeat.is_missed(now) and not self.session.is_waiting() and not self.session.blocked:
            log.error("%s: missed heartbeats from client, timeout: %ds", self.name, heartbeat.interval_ms // 1000)
            self.ended = True
        elif heartbeat.is_due(now):
            self.output.write(HEARTBEAT)
        self.tick_at = NEVER if self.ended else heartbeat.next_at(now)

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
        if self.state == IGNORING_INPUT:
            # As much as fills the buffer would leave no room to read to, and find out that the client is gone.
            self.reader.rest = b""
        if self.session.confirming:
            self.output.wake()
        work.drain()

    def _walk(self) -> None:
        """Handle frames until they, the budget or the client's turn are at an end."""
        session = self.session
        reader = self.reader
        work = self.broker.work
        if session.filling is not None and not self._fill(session.filling):
            return
        channel = self._channel
        while work.budget.left > 0 and session.pending is None:
            session.method_index = 0
            if session.answers and not self._may_go_on(reader):
                return
            if not reader.next():
                if channel is not None and channel.incoming is not None and channel.incoming.fill(reader):
                    session.filling = channel.incoming
                return
            if channel is None or reader.channel != channel.number or channel.state != CHANNEL_OPEN or self.state != RUNNING:
                channel = self._channel_of(reader)
                if channel is None:
                    continue
            channel.on_frame(reader)

    def _fill(self, incoming: Incoming) -> bool:
        """See what was read in place; True if frames are to be read now."""
        session = self.session
        channel = session.channels.get(incoming.channel)
        if channel is not None and channel.incoming is incoming and channel.state == CHANNEL_OPEN:
            session.method_index = BASIC_PUBLISH
            self.reader.channel = incoming.channel
            incoming.advance()
            if incoming.whole():
                session.filling = None
                self.after_large = incoming.size >= LARGE_FROM
                channel.finish(incoming)
                return True
            if not incoming.odd:
                return False
        session.filling = None
        self.reader.put_back(incoming.left_over())
        return True

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
        check_channel_limit(self.session.user)
        channel = Channel(number, self.session)
        channels[number] = channel
        self.broker.churn.channels_opened += 1
        return channel

    def _on_protocol_header(self, data: bytes) -> bytes:
        """Take the protocol header, which may come in pieces; return what follows it."""
        handshake = self._handshake
        assert handshake is not None
        rest = handshake.take_header(data)
        if handshake.header in ACCEPTED_HEADERS:
            self.state = HANDSHAKE
            self.output.write(handshake.start)
        elif len(handshake.header) == HEADER_SIZE:
            log.error("%s: %s", self.name, header_fault(handshake.header))
            self.state = IGNORING_INPUT
            self.ended = True
            self.output.write(PROTOCOL_HEADER)
        return rest

    # Channel 0

    def _on_channel_zero(self, reader: FrameReader) -> None:
        size = reader.stop - reader.start
        if reader.kind == FRAME_HEARTBEAT and not size:
            return
        if reader.kind != FRAME_METHOD:
            known = reader.kind == FRAME_BODY or (reader.kind == FRAME_HEADER and size >= CONTENT_HEAD_SIZE)
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
            self.session.do(self._end_channels(self._closed))
        elif isinstance(method, ConnectionUpdateSecret):
            self._update_secret(method.new_secret)
        else:
            raise ChannelError("unexpected method in connection state running")

    def _on_handshake(self, handshake: Handshake, method: Method) -> None:
        answer = handshake.on_method(method)
        if handshake.login is not None:
            handshake.login.on_done = self.on_login
            self.session.do(AfterLogin(handshake.login, self._on_logged_in))
        if answer is not None:
            self.output.write_method(0, answer)
        if handshake.state == "opening":
            self.reader.frame_max = self.output.frame_max = handshake.frame_max
        if handshake.done:
            self._begin_running(handshake)

    def _on_logged_in(self) -> None:
        """The login is decided, later than it was asked for."""
        if self._handshake is not None:
            self.output.write_method(0, self._handshake.logged_in())

    def _update_secret(self, secret: bytes) -> None:
        """The client has a newer token, and goes on with that."""
        login = Login(self.broker, "", secret, self.session.address)
        if self.session.user.by_token:
            login.begin(self.broker.now)
        else:
            # RabbitMQ: a password is good for as long as the connection lasts.
            login.done = True
            login.user = self.session.user
        login.on_done = self.on_login
        self.session.do(AfterLogin(login, partial(self._on_secret, login)))

    def _on_secret(self, login: Login) -> None:
        if login.refusal or not self.session.user.renew(login.user):
            raise NotAllowed("New secret was refused by one of the backends")
        self.broker.changed()
        self.output.write_method(0, ConnectionUpdateSecretOk())

    def _begin_running(self, handshake: Handshake) -> None:
        session = self.session
        session.enter(handshake.user, handshake.vhost, self._shut)
        session.capabilities = handshake.capabilities
        self.client_properties = handshake.client_properties
        self.mechanism = handshake.mechanism
        self.channel_max = handshake.channel_max
        self.heartbeat.interval_ms = handshake.heartbeat_s * 1000
        self.state = RUNNING
        self._handshake = None
        self._ack_check_at = session.now + look_every_ms(self.broker.settings.consumer_timeout_ms)
        self.tick_at = min(self.heartbeat.next_at(session.now), self._ack_check_at)
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
        self.tick_at = self.session.now + min(CLOSING_MS, self.heartbeat.interval_ms or CLOSING_MS)

    def _end_channels(self, done: Callable[[], None]) -> Departure:
        self._channel = None
        return end_channels(self.session, done)

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
        channel = self.session.channels.get(self.reader.channel)
        log.error("%s: channel %d: %s", self.name, self.reader.channel, error.reply_text)
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
        abandon_pending(self.session)
        departure = self._end_channels(nothing)
        self.output.write_method(0, close_method(error, self.session.method_index))
        # What is left of it is everybody's work: nobody here waits for it, and this may not be the client's own pass.
        if not departure.run(self.broker.work.budget):
            self.broker.work.add(departure)

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
        self.output.write_method(0, close_method(error, self.session.method_index))


def close_method(error: AMQPError, index: int) -> ConnectionClose:
    """The close that says this error, made by the method `index`."""
    return ConnectionClose(error.code, error.reply_text, index >> 16, index & 0xFFFF)
