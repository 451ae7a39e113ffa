"""One connection to a broker, with one channel.

(1) Methods that have an answer are awaited, one at a time (`call`); everything else is sent and returns at once.
(2) What the broker sends unasked goes to the `on_…` callbacks, from within the socket's own callback: no task reads.
(3) While `full`, nothing should be published: the socket's buffer is full, or the broker has sent connection.blocked.
    Whoever receives faster than it can process stops reading (`pause`), so nothing piles up here.
(4) After a fault the connection cannot be used: the fault is kept in `fault` and raised to whoever waits for an answer, or
    else passed to `on_closed`. Only after ChannelClosed may another channel be opened.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from leveret import __version__
from leveret.client.fault import ChannelClosed, ClientFault, Disconnected
from leveret.client.incoming import Delivery, Incoming
from leveret.client.tls import context_for, fault_text, server_name
from leveret.errors import AMQPError
from leveret.uri import Uri
from leveret.wire.content import END, frame_head
from leveret.wire.frames import FRAME_OVERHEAD, HEARTBEAT, FrameReader
from leveret.wire.methods import decode_method, write_method
from leveret.wire.spec import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.values import Table, encode_table

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_MAX = 131_072
CHANNEL = 1
CLOSE_S = 1.0
WRITE_HIGH = 512 * 1024
WRITE_LOW = 128 * 1024
CONTENT_HEADER = b"\x00\x3c\x00\x00"
CAPABILITIES = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "publisher_confirms",
)

M = TypeVar("M", bound=Method)

log = logging.getLogger("leveret.client")


class Client(asyncio.Protocol):
    """A connection; `connect` makes one."""

    def __init__(self, uri: Uri, name: str) -> None:
        self._uri = uri
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(FRAME_MAX)
        self._frame_max = FRAME_MAX
        self._waiting: tuple[type[Method], asyncio.Future[Method]] | None = None
        self._incoming: Incoming | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        self._paused = False
        self._published = 0
        self._confirming = False
        self._heartbeat_s = 0
        self._beat: asyncio.TimerHandle | None = None
        self._received = self._sent = False
        self._silent_beats = 0
        self.socket_full = False
        # The reason of connection.blocked; None if the broker is not blocking.
        self.blocked: str | None = None
        self.fault: ClientFault | None = None
        self.on_delivery: Callable[[Delivery], None] = ignore
        self.on_confirm: Callable[[int, bool, bool], None] = ignore  # sequence number, multiple, accepted
        self.on_cancelled: Callable[[str], None] = ignore  # consumer tag
        self.on_flow: Callable[[], None] = ignore  # `full` may have changed
        self.on_closed: Callable[[ClientFault], None] = ignore

    # Methods

    async def call(self, method: Method, reply: type[M], channel: int = CHANNEL) -> M:
        """Send a method and return the answer."""
        if self.fault is not None:
            raise self.fault
        self._send(channel, method)
        return await self._expect(reply)

    async def open_channel(self) -> None:
        """Open the channel; again after a ChannelClosed."""
        if isinstance(self.fault, ChannelClosed):
            self.fault = None
        self._incoming = None
        self._confirming = False
        self._published = 0
        await self.call(ChannelOpen(), ChannelOpenOk)

    async def declare_queue(
        self,
        queue: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> QueueDeclareOk:
        method = QueueDeclare(queue, passive=passive, durable=durable, exclusive=exclusive, arguments=arguments or {})
        return await self.call(method, QueueDeclareOk)

    async def bind_queue(self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None) -> None:
        await self.call(QueueBind(queue, exchange, routing_key, arguments=arguments or {}), QueueBindOk)

    async def qos(self, prefetch_count: int) -> None:
        await self.call(BasicQos(prefetch_count=prefetch_count), BasicQosOk)

    async def consume(self, queue: str, no_ack: bool = False, arguments: Table | None = None) -> str:
        """Have messages delivered to `on_delivery`; the consumer's tag."""
        method = BasicConsume(queue, no_ack=no_ack, arguments=arguments or {})
        return (await self.call(method, BasicConsumeOk)).consumer_tag

    async def cancel(self, consumer_tag: str) -> None:
        """Cancel the consumer; messages on their way are delivered before this returns."""
        self.resume()
        await self.call(BasicCancel(consumer_tag), BasicCancelOk)

    async def confirm(self) -> None:
        """Turn on publisher confirms, which go to `on_confirm`."""
        await self.call(ConfirmSelect(), ConfirmSelectOk)
        self._confirming = True

    def ack(self, tag: int, multiple: bool = False) -> None:
        """Acknowledge. Does nothing on a closed channel: its messages are requeued already."""
        if self.fault is None:
            self._send(CHANNEL, BasicAck(tag, multiple))

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        if self.fault is None:
            self._send(CHANNEL, BasicNack(tag, multiple, requeue))

    def send(self, frames: bytes) -> None:
        """Send encoded frames. Does nothing on a closed channel."""
        if self.fault is None:
            self._write(frames)

    def publish(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> int:
        """Publish; its sequence number with publisher confirms, else 0. `properties` are encoded, from the flags on."""
        if self.fault is not None:
            raise self.fault
        out = bytearray()
        write_method(out, CHANNEL, BasicPublish(exchange, routing_key))
        header = CONTENT_HEADER + len(body).to_bytes(8, "big") + properties
        piece = self._frame_max - FRAME_OVERHEAD
        if len(header) > piece:
            raise ValueError(f"properties of {len(properties)} bytes do not fit a frame of {self._frame_max}")
        out += frame_head(FRAME_HEADER, CHANNEL, len(header)) + header + END
        for at in range(0, len(body), piece):
            part = body[at : at + piece]
            out += frame_head(FRAME_BODY, CHANNEL, len(part)) + part + END
        self._write(bytes(out))
        if self._confirming:
            self._published += 1
        return self._published

    # Flow control

    @property
    def full(self) -> bool:
        """Whether publishing should wait until `on_flow`."""
        return self.socket_full or self.blocked is not None

    def pause(self) -> None:
        """Stop reading; frames that have been read already wait, too."""
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()
            # Later, as the caller does not expect a delivery before this returns.
            self._loop.call_soon(self._read, b"")

    # Closing

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Close the connection; the socket too if there is no answer in time."""
        self._closing = True
        self._waiting = None
        try:
            async with asyncio.timeout(timeout_s):
                if not isinstance(self.fault, Disconnected):
                    self.fault = None
                    self.resume()
                    await self.call(ConnectionClose(200, "Goodbye"), ConnectionCloseOk, 0)
                if self._transport is not None:
                    self._transport.close()
                    await asyncio.shield(self._gone)
        except (ClientFault, TimeoutError):
            pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the socket now."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # Handshake

    async def begin(self) -> None:
        """Log in and open the channel; the socket is connected."""
        self._write(PROTOCOL_HEADER)
        await self._expect(ConnectionStart)
        properties: Table = {
            "product": "Leveret",
            "version": __version__,
            "platform": "Python",
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "connection_name": self._name,
        }
        mechanism, response = login_of(self._uri)
        tune = await self.call(ConnectionStartOk(properties, mechanism, response, "en_US"), ConnectionTune, 0)
        self._frame_max = min(tune.frame_max or FRAME_MAX, FRAME_MAX)
        self._reader.frame_max = self._frame_max
        heartbeat_s = self._uri.heartbeat_s
        self._heartbeat_s = min(tune.heartbeat, heartbeat_s) if tune.heartbeat and heartbeat_s else heartbeat_s
        self._send(0, ConnectionTuneOk(tune.channel_max, self._frame_max, self._heartbeat_s))
        self._schedule_beat()
        await self.call(ConnectionOpen(self._uri.vhost), ConnectionOpenOk, 0)
        await self.open_channel()

    # Callbacks of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)

    def data_received(self, data: bytes) -> None:
        self._received = True
        self._read(data)

    def _read(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while not self._paused and not isinstance(self.fault, Disconnected) and self._reader.next():
                self._on_frame()
        except AMQPError as error:
            self._break(Disconnected(f"the broker sent invalid AMQP: {error}", error.code))
        except Exception as error:
            log.exception("%s: internal error", self._name)
            self._break(Disconnected(f"internal error: {error}"))
        self._reader.keep_rest()

    def pause_writing(self) -> None:
        self.socket_full = True
        self.on_flow()

    def resume_writing(self) -> None:
        self.socket_full = False
        self.on_flow()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if not self._gone.done():
            self._gone.set_result(None)
        self._fail(Disconnected(f"the connection was lost: {exc or 'the broker closed the socket'}"))

    # Frames

    def _on_frame(self) -> None:
        kind, payload = self._reader.kind, self._reader.payload()
        if kind == FRAME_METHOD:
            method = decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))
            if self._reader.channel:
                self._on_channel_method(method)
            else:
                self._on_connection_method(method)
        elif kind == FRAME_HEARTBEAT:
            pass
        elif self._incoming is not None:
            whole = self._incoming.header(payload) if kind == FRAME_HEADER else self._incoming.part(payload)
            if whole:
                self._on_message()

    def _on_message(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None and isinstance(incoming.method, BasicDeliver) and not self._closing:
            self.on_delivery(incoming.delivery())

    def _on_channel_method(self, method: Method) -> None:
        if isinstance(method, BasicDeliver | BasicReturn):
            self._incoming = Incoming(method)
        elif isinstance(method, BasicAck):
            self.on_confirm(method.delivery_tag, method.multiple, True)
        elif isinstance(method, BasicNack):
            self.on_confirm(method.delivery_tag, method.multiple, False)
        elif isinstance(method, BasicCancel):
            self.on_cancelled(method.consumer_tag)
        elif isinstance(method, ChannelClose):
            self._send(CHANNEL, ChannelCloseOk())
            self._incoming = None
            self._fail(ChannelClosed(method.reply_text, method.reply_code))
        else:
            self._answered(method)

    def _on_connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionBlocked):
            self.blocked = method.reason
            self.on_flow()
        elif isinstance(method, ConnectionUnblocked):
            self.blocked = None
            self.on_flow()
        elif isinstance(method, ConnectionClose):
            self._send(0, ConnectionCloseOk())
            self._fail(Disconnected(method.reply_text, method.reply_code))
            if self._transport is not None:
                self._transport.close()
        else:
            self._answered(method)

    def _answered(self, method: Method) -> None:
        if self._waiting is not None and isinstance(method, self._waiting[0]):
            _, future = self._waiting
            self._waiting = None
            if not future.done():
                future.set_result(method)

    async def _expect(self, reply: type[M]) -> M:
        if self._waiting is not None and not self._waiting[1].done():
            raise RuntimeError(f"cannot wait for {reply.NAME} while waiting for {self._waiting[0].NAME}")
        future: asyncio.Future[Method] = self._loop.create_future()
        self._waiting = (reply, future)
        if self.fault is not None:
            self._waiting = None
            raise self.fault
        answer = await future
        assert isinstance(answer, reply)
        return answer

    def _send(self, channel: int, method: Method) -> None:
        out = bytearray()
        write_method(out, channel, method)
        self._write(bytes(out))

    def _write(self, octets: bytes) -> None:
        self._sent = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(octets)

    # Faults

    def _break(self, fault: Disconnected) -> None:
        self._fail(fault)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, fault: ClientFault) -> None:
        if isinstance(self.fault, Disconnected):
            return
        self.fault = fault
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting[1].done():
            waiting[1].set_exception(fault)
        elif not self._closing:
            self.on_closed(fault)

    # Heartbeats

    def _schedule_beat(self) -> None:
        if self._heartbeat_s:
            self._beat = self._loop.call_later(self._heartbeat_s / 2, self._on_beat)

    def _on_beat(self) -> None:
        """Twice per interval: send a heartbeat if nothing else was sent; fail if nothing was received for two intervals."""
        # While paused we do not read the broker's heartbeats.
        self._silent_beats = 0 if self._received or self._paused else self._silent_beats + 1
        if self._silent_beats >= 4:
            self._break(Disconnected(f"missed heartbeats from the broker, timeout: {self._heartbeat_s}s"))
            return
        if not self._sent:
            self._write(HEARTBEAT)
        self._received = self._sent = False
        self._schedule_beat()


async def connect(uri: Uri, name: str, sock: socket.socket | None = None) -> Client:
    """A connection with its channel open, over `sock` if that is given; raises ClientFault."""
    client = Client(uri, name)
    loop = asyncio.get_running_loop()
    host = uri.host or ""
    try:
        async with asyncio.timeout(uri.timeout_s):
            if sock is not None:
                await uninterrupted(loop.create_unix_connection(lambda: client, sock=sock))
            elif uri.scheme == "amqps":
                context = await context_for(uri)
                name = server_name(uri.tls, host)
                await loop.create_connection(lambda: client, host, uri.port, ssl=context, server_hostname=name)
            else:
                await loop.create_connection(lambda: client, host, uri.port)
            await client.begin()
    except TimeoutError:
        client.abort()
        raise Disconnected(f"no answer in {uri.timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        client.abort()
        raise Disconnected(f"cannot connect: {fault_text(error)}") from None
    except BaseException:
        client.abort()
        raise
    return client


async def uninterrupted(step: Awaitable[object]) -> None:
    """Await a short step to its end even if cancelled meanwhile, and raise only then: half a step would leak a socket."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def login_of(uri: Uri) -> tuple[str, bytes]:
    """The SASL mechanism and its response."""
    if uri.mechanism == "external" or (uri.local and uri.password is None):
        return "EXTERNAL", b""
    if uri.mechanism == "amqplain":
        return "AMQPLAIN", encode_table({"LOGIN": uri.user or "", "PASSWORD": uri.password or ""})[4:]
    return "PLAIN", f"\0{uri.user or ''}\0{uri.password or ''}".encode()


def ignore(*_: object) -> None:
    """The callback of a client that has set none."""
