"""Just enough of an AMQP 0-9-1 client to load a broker: blocking sockets, frames encoded by hand.

It speaks on channel 1 alone and knows nothing of any broker's code, so that the same bytes reach each broker that is
measured.  Sockets block, with the kernel's own timeout: a broker that falls silent ends a run with an error, and a call
costs no more than its system call (Python's own timeouts would add a poll to each).
"""

import socket
import ssl
import struct
from collections.abc import Iterable

METHOD, HEADER, BODY = 1, 2, 3
FRAME_END = b"\xce"
FRAME_HEAD = 7
FRAME_OVERHEAD = 8
FRAME_MAX = 131072
EMPTY_TABLE = b"\0\0\0\0"
NO_WAIT_BIND = 0x01
SILENCE_SECONDS = 300

CONNECTION_CLOSE, CHANNEL_CLOSE = (10, 50), (20, 40)


class BrokerClosed(Exception):
    """The broker closed the connection or the channel; the message holds what it said."""


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> bytes:
    return frame(METHOD, struct.pack(">HH", class_id, method_id) + arguments, channel)


def shortstr(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def longstr(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def string_table(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encode a field table whose values are all long strings."""
    return longstr(b"".join(shortstr(name) + b"S" + longstr(value.encode()) for name, value in fields))


def publish_frames(exchange: str, routing_key: str, body: bytes, flags: int = 0, properties: bytes = b"") -> bytes:
    """Encode one basic.publish with its header and body; `properties` are the bytes that `flags` announce."""
    piece = FRAME_MAX - FRAME_OVERHEAD
    return b"".join(
        (
            method(60, 40, b"\0\0" + shortstr(exchange) + shortstr(routing_key) + b"\0"),
            frame(HEADER, struct.pack(">HHQH", 60, 0, len(body), flags) + properties),
            *(frame(BODY, body[start : start + piece]) for start in range(0, len(body), piece)),
        )
    )


def bind_frame(queue: str, exchange: str, routing_key: str, flags: int = 0) -> bytes:
    names = shortstr(queue) + shortstr(exchange) + shortstr(routing_key)
    return method(50, 20, b"\0\0" + names + bytes([flags]) + EMPTY_TABLE)


class Client:
    """One connection with one channel.  Made by `connect`, or many at a time by `connect_many`."""

    def __init__(self, port: int, tls: bool = False) -> None:
        self.frame_max = FRAME_MAX
        self.buffer = bytearray()
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_SECONDS)
        self.sock.settimeout(None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, direction, struct.pack("ll", SILENCE_SECONDS, 0))
        if tls:
            # Whose certificate it is does not matter for how fast it is.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.sock = context.wrap_socket(self.sock)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def read_frame(self) -> tuple[int, bytes]:
        """Return the next frame's type and payload."""
        buffer = self.buffer
        while True:
            if len(buffer) >= 7:
                kind, _, size = struct.unpack_from(">BHI", buffer)
                if len(buffer) >= size + FRAME_OVERHEAD:
                    payload = bytes(buffer[7 : 7 + size])
                    del buffer[: size + FRAME_OVERHEAD]
                    return kind, payload
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                raise TimeoutError(f"the broker was silent for {SILENCE_SECONDS} s") from None
            if not data:
                raise BrokerClosed("the broker hung up")
            buffer += data

    def expect(self, class_id: int, method_id: int) -> bytes:
        """Read on until this method and return its arguments; a close raises BrokerClosed."""
        while True:
            kind, payload = self.read_frame()
            if kind != METHOD:
                continue
            got = struct.unpack_from(">HH", payload)
            if got == (class_id, method_id):
                return payload[4:]
            if got in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                code, size = struct.unpack_from(">HB", payload, 4)
                raise BrokerClosed(f"{code} {payload[7 : 7 + size].decode(errors='replace')}")

    def call(self, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
        """Send a method and return its -ok's arguments."""
        self.sock.sendall(method(class_id, method_id, arguments))
        return self.expect(class_id, method_id + 1)

    def declare_queue(self, queue: str, durable: bool = False) -> None:
        self.call(50, 10, b"\0\0" + shortstr(queue) + bytes([2 if durable else 0]) + EMPTY_TABLE)

    def message_count(self, queue: str) -> int:
        """Return how many messages are ready in a queue, by a passive queue.declare."""
        answer = self.call(50, 10, b"\0\0" + shortstr(queue) + b"\1" + EMPTY_TABLE)
        return int.from_bytes(answer[-8:-4], "big")

    def declare_exchange(self, exchange: str, kind: str) -> None:
        self.call(40, 10, b"\0\0" + shortstr(exchange) + shortstr(kind) + b"\0" + EMPTY_TABLE)

    def bind(self, queue: str, exchange: str, routing_key: str) -> None:
        self.sock.sendall(bind_frame(queue, exchange, routing_key))
        self.expect(50, 21)

    def bind_all(self, queue: str, exchange: str, routing_keys: Iterable[str]) -> None:
        """Bind with no-wait, as fast as the broker reads, and return when all is bound."""
        self.sock.sendall(b"".join(bind_frame(queue, exchange, key, NO_WAIT_BIND) for key in routing_keys))
        self.settle()

    def delete_queue(self, queue: str) -> None:
        self.call(50, 40, b"\0\0" + shortstr(queue) + b"\0")

    def delete_exchange(self, exchange: str) -> None:
        self.call(40, 20, b"\0\0" + shortstr(exchange) + b"\0")

    def prefetch(self, count: int) -> None:
        self.call(60, 10, struct.pack(">IHB", 0, count, 0))

    def settle(self) -> None:
        """Return once the broker has dealt with all that was sent so far on the channel."""
        self.prefetch(0)


def connect(port: int, vhost: str = "/", tls: bool = False) -> Client:
    return connect_many(port, 1, vhost, tls=tls)[0]


def connect_many(port: int, count: int, vhost: str = "/", channels: bool = True, tls: bool = False) -> list[Client]:
    """Open `count` connections with a channel each, taking each step of the handshake on all of them at once."""
    clients: list[Client] = []
    try:
        clients.extend(Client(port, tls) for _ in range(count))
        _shake_hands(clients, vhost)
        if channels:
            _open_channels(clients)
    except BaseException:
        for client in clients:
            client.sock.close()
        raise
    return clients


def _shake_hands(clients: list[Client], vhost: str) -> None:
    login = longstr(b"\0guest\0guest")
    start_ok = method(10, 11, EMPTY_TABLE + shortstr("PLAIN") + login + shortstr("en_US"), channel=0)
    open_vhost = method(10, 40, shortstr(vhost) + shortstr("") + b"\0", channel=0)

    for client in clients:
        client.sock.sendall(b"AMQP\x00\x00\x09\x01")
    for client in clients:
        client.expect(10, 10)
        client.sock.sendall(start_ok)
    for client in clients:
        channel_max, frame_max = struct.unpack_from(">HI", client.expect(10, 30))
        client.frame_max = frame_max or FRAME_MAX
        tune_ok = struct.pack(">HIH", channel_max, client.frame_max, 0)  # no heartbeats: they would be counted as bytes
        client.sock.sendall(method(10, 31, tune_ok, channel=0) + open_vhost)
    for client in clients:
        client.expect(10, 41)


def _open_channels(clients: list[Client]) -> None:
    open_channel = method(20, 10, shortstr(""))
    for client in clients:
        client.sock.sendall(open_channel)
    for client in clients:
        client.expect(20, 11)
