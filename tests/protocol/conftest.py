"""A client without a socket: methods go in, methods and contents come out.

What a client hears is a list: a Method for each method frame, and after those that carry content its body as bytes, or a
tuple of Properties and body if it has properties. Tests run with `--import-mode=importlib`, so nothing here can be
imported at run time: all of it comes as fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from leveret.broker.broker import Broker, default_broker
from leveret.protocol.connection import Connection
from leveret.protocol.peer import Peer
from leveret.wire.methods import decode_method, encode_method
from leveret.wire.properties import Properties, decode_properties, encode_properties
from leveret.wire.spec import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from leveret.wire.values import Table

Content: TypeAlias = "bytes | tuple[Properties, bytes]"
Heard: TypeAlias = "Method | Content | str"
Connect: TypeAlias = "Callable[..., Client]"

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT = "heartbeat"


class Client:
    """One connection, its time, and what it says and hears."""

    def __init__(self, broker: Broker, peer_host: str = "127.0.0.1", now: int = 0, peer: Peer | None = None) -> None:
        self.broker = broker
        self.now = now
        self.woken = False
        self.connection = Connection(broker, peer or Peer("client", peer_host), self._wake, now)

    def _wake(self) -> None:
        self.woken = True

    # Saying

    def feed(self, data: bytes) -> None:
        """Have bytes arrive, and go on for as long as that takes."""
        self.connection.receive(data, self.now)
        self.finish()

    def finish(self) -> None:
        """Do what the server does at the end of its turns until nothing is left."""
        while self.connection.busy or self.broker.work:
            if self.connection.busy:
                self.connection.go_on(self.now)
            else:
                self.broker.work.budget.begin()
                self.broker.work.drain()

    def frame(self, kind: int, payload: bytes, channel: int = 1) -> bytes:
        head = bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
        return head + payload + bytes([FRAME_END])

    def method(self, method: Method, channel: int = 1) -> bytes:
        return self.frame(FRAME_METHOD, encode_method(method), channel)

    def content(self, body: bytes, properties: Properties | None = None, channel: int = 1, piece: int = 131064) -> bytes:
        """A content's header and body frames."""
        header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + encode_properties(properties or Properties())
        frames = self.frame(FRAME_HEADER, header, channel)
        for at in range(0, len(body), piece):
            frames += self.frame(FRAME_BODY, body[at : at + piece], channel)
        return frames

    def message(
        self,
        routing_key: str,
        body: bytes = b"",
        exchange: str = "",
        *,
        mandatory: bool = False,
        properties: Properties | None = None,
        channel: int = 1,
        piece: int = 131064,
    ) -> bytes:
        """A basic.publish with its content."""
        publish = self.method(BasicPublish(exchange, routing_key, mandatory), channel)
        return publish + self.content(body, properties, channel, piece)

    def say(self, *items: Method | bytes, channel: int = 1) -> list[Heard]:
        """Send methods and raw bytes in one read; what is heard in answer on the same channel."""
        self.feed(b"".join(item if isinstance(item, bytes) else self.method(item, channel) for item in items))
        return self.heard(channel)

    def publish(self, routing_key: str, *bodies: bytes, channel: int = 1) -> list[Heard]:
        """Publish through the default exchange."""
        return self.say(*(self.message(routing_key, body, channel=channel) for body in bodies), channel=channel)

    # Hearing

    def octets(self) -> bytes:
        """Everything that was to be sent, as it goes over the wire."""
        woken, self.woken = self.woken, False
        data = b"".join(bytes(piece) for piece in self.connection.take_output(self.now))
        assert woken or not data, "there were bytes to send and nobody was told"
        return data

    def frames(self) -> list[tuple[int, int, bytes]]:
        """Kind, channel and payload of each frame that was to be sent."""
        return list(split(self.octets()))

    def heard(self, channel: int = 1) -> list[Heard]:
        """What was heard; all of it on one channel."""
        everything = self.heard_on_channels()
        assert {number for number, _ in everything} <= {channel}, everything
        return [item for _, item in everything]

    def heard_on_channels(self) -> list[tuple[int, Heard]]:
        """What was heard, each with its channel."""
        return list(parse(self.frames()))

    # The handshake

    def greet(self) -> ConnectionStart:
        (start,) = self.say(PROTOCOL_HEADER, channel=0)
        assert isinstance(start, ConnectionStart)
        return start

    def start_ok(
        self,
        response: bytes = b"\0guest\0guest",
        mechanism: str = "PLAIN",
        capabilities: tuple[str, ...] = ("consumer_cancel_notify", "authentication_failure_close"),
    ) -> list[Heard]:
        about: Table = {"product": "test", "capabilities": dict.fromkeys(capabilities, True)}
        return self.say(ConnectionStartOk(about, mechanism, response, "en_US"), channel=0)

    def log_in(
        self,
        *,
        frame_max: int = 131072,
        channel_max: int = 2047,
        heartbeat: int = 0,
        vhost: str = "/",
        user: str = "guest",
        capabilities: tuple[str, ...] = ("consumer_cancel_notify", "authentication_failure_close"),
    ) -> Client:
        """Go through the whole handshake."""
        self.greet()
        (tune,) = self.start_ok(f"\0{user}\0{user}".encode(), capabilities=capabilities)
        assert isinstance(tune, ConnectionTune)
        assert self.say(ConnectionTuneOk(channel_max, frame_max, heartbeat), channel=0) == []
        assert self.say(ConnectionOpen(vhost), channel=0) == [ConnectionOpenOk()]
        return self

    def open(self, *channels: int) -> Client:
        for channel in channels:
            assert self.say(ChannelOpen(), channel=channel) == [ChannelOpenOk()]
        return self


def split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The frames in these bytes, which must end with one."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 3 : at + 7], "big")
        end = at + 7 + size
        assert data[end] == FRAME_END
        yield data[at], int.from_bytes(data[at + 1 : at + 3], "big"), data[at + 7 : end]
        at = end + 1


def parse(frames: list[tuple[int, int, bytes]]) -> Iterator[tuple[int, Heard]]:
    """Methods and contents, with their channels; a content must follow its method at once and whole."""
    rest = iter(frames)
    for kind, channel, payload in rest:
        if kind == FRAME_HEARTBEAT:
            assert (channel, payload) == (0, b"")
            yield channel, HEARTBEAT
            continue
        assert kind == FRAME_METHOD
        method = decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))
        yield channel, method
        if method.CONTENT:
            yield channel, read_content(rest, channel)


def read_content(frames: Iterator[tuple[int, int, bytes]], channel: int) -> Content:
    kind, number, header = next(frames)
    assert (kind, number, header[:4]) == (FRAME_HEADER, channel, b"\x00\x3c\x00\x00")
    size = int.from_bytes(header[4:12], "big")
    properties = decode_properties(header, 12, len(header))
    body = b""
    while len(body) < size:
        kind, number, piece = next(frames)
        assert (kind, number) == (FRAME_BODY, channel)
        assert piece
        body += piece
    assert len(body) == size
    return body if properties == Properties() else (properties, body)


@pytest.fixture
def broker() -> Broker:
    """A broker as it is on first start, with a second user and a second vhost."""
    broker = default_broker()
    broker.add_user("other", "other")
    broker.add_vhost("second")
    for user in ("guest", "other"):
        for vhost in ("/", "second"):
            broker.set_permissions(user, vhost, ".*", ".*", ".*")
    return broker


@pytest.fixture
def stranger(broker: Broker) -> Client:
    """A client that has said nothing yet."""
    return Client(broker)


@pytest.fixture
def connect(broker: Broker) -> Connect:
    """Make clients that are logged in, with channel 1 open."""

    def connected(**options: object) -> Client:
        return Client(broker).log_in(**options).open(1)  # type: ignore[arg-type]

    return connected


@pytest.fixture
def client(connect: Connect) -> Client:
    """A client that is logged in, with channel 1 open."""
    return connect()


@pytest.fixture(scope="session")
def alone() -> Callable[[], Client]:
    """Make the only client of a new broker, logged in, with channel 1 open: as often as a test wants."""
    return lambda: Client(default_broker()).log_in().open(1)
