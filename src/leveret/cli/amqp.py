"""Just enough of an AMQP client for `leveret bench`: one blocking socket, one channel, frames made by `wire`."""

import socket
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from leveret.client.tls import fault_text, server_name, tls_context
from leveret.errors import FrameError
from leveret.uri import PORTS, BadUri, parse_uri
from leveret.wire.frames import HEARTBEAT
from leveret.wire.methods import decode_method, write_method
from leveret.wire.spec import (
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
TIMEOUT_S = 30.0
FRAME_HEAD = 7
METHOD_FRAME = 1

M = TypeVar("M", bound=Method)


class Closed(Exception):
    """The broker has closed the connection or the channel; the text says why."""


class Client:
    """A connection with channel 1 open. `url` is amqp://name:password@host:port/vhost, or amqps://…?cacertfile=…"""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._buffer = bytearray()
        # Of the last method's frame.
        self.last_size = 0
        host, port = parts.hostname or "127.0.0.1", parts.port or PORTS.get(parts.scheme, PORTS["amqp"])
        self.socket = socket.create_connection((host, port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "amqps":
            self._begin_tls(url, host)
        name, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        vhost = unquote(parts.path[1:]) or "/"
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect(ConnectionStart)
        self.send(0, ConnectionStartOk({}, "PLAIN", f"\0{name}\0{password}".encode(), "en_US"))
        tune = self.expect(ConnectionTune)
        self.frame_max = tune.frame_max or 131_072
        self.send(0, ConnectionTuneOk(tune.channel_max, self.frame_max, 0))
        self.send(0, ConnectionOpen(vhost))
        self.expect(ConnectionOpenOk)
        self.call(ChannelOpen(), ChannelOpenOk)

    def _begin_tls(self, url: str, host: str) -> None:
        try:
            uri = parse_uri(url)
            context = tls_context(uri.tls, uri.shown)
            self.socket = context.wrap_socket(self.socket, server_hostname=server_name(uri.tls, host))
        except BadUri as error:
            self.socket.close()
            raise Closed(f"not an AMQP URI: {error}") from None
        except (OSError, ValueError) as error:
            self.socket.close()
            raise Closed(fault_text(error)) from None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, channel: int, method: Method) -> None:
        out = bytearray()
        write_method(out, channel, method)
        self.socket.sendall(out)

    def call(self, method: Method, reply: type[M]) -> M:
        self.send(1, method)
        return self.expect(reply)

    def frame(self) -> tuple[int, bytes]:
        """The next frame's kind and payload; heartbeats are passed over."""
        while True:
            if len(self._buffer) >= FRAME_HEAD:
                end = FRAME_HEAD + int.from_bytes(self._buffer[3:7], "big")
                if len(self._buffer) > end:
                    kind, payload = self._buffer[0], bytes(self._buffer[FRAME_HEAD:end])
                    del self._buffer[: end + 1]
                    if kind == METHOD_FRAME:
                        self.last_size = end + 1
                    if kind != HEARTBEAT[0]:
                        return kind, payload
                    continue
            data = self.socket.recv(1 << 18)
            if not data:
                raise Closed("the broker has hung up")
            self._buffer += data

    def rest(self) -> bytearray:
        """What was received and not looked at; the caller's from now on."""
        found, self._buffer = self._buffer, bytearray()
        return found

    def method(self) -> Method | None:
        """The next frame's method; None if it is content."""
        kind, payload = self.frame()
        if kind != METHOD_FRAME:
            return None
        try:
            found = decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))
        except FrameError as error:
            raise Closed(str(error)) from None
        if isinstance(found, ConnectionClose | ChannelClose):
            raise Closed(f"{found.reply_code} {found.reply_text}")
        return found

    def expect(self, kind: type[M]) -> M:
        while True:
            found = self.method()
            if isinstance(found, kind):
                return found
