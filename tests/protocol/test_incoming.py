"""A message on its way in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.errors import FrameError
from leveret.protocol import incoming as incoming_module
from leveret.protocol import session as session_module
from leveret.protocol.connection import LARGE_FROM
from leveret.protocol.incoming import IN_PLACE_FROM, ROOM_MAX, Incoming
from leveret.protocol.session import Session
from leveret.wire.content import body_of
from leveret.wire.frames import FrameReader
from leveret.wire.spec import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    QueueDeclare,
)

if TYPE_CHECKING:
    from tests.protocol.conftest import Client

HEADER = b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"
calm = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example]
)


def octets(size: int) -> bytes:
    """A body in which no two places look alike for long."""
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4 + 1))[:size]


@pytest.fixture
def session(client: Client) -> Session:
    return client.connection.session


def frame(payload: bytes, kind: int = 3, channel: int = 1, end: bytes = b"\xce") -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + end


def begun(session: Session, size: int) -> Incoming:
    incoming = Incoming(b"method", 1, session)
    incoming.begin(HEADER, size)
    return incoming


def add(incoming: Incoming, *payloads: bytes) -> None:
    """These frames of the body come whole."""
    for payload in payloads:
        reader = FrameReader(1 << 20)
        reader.feed(frame(payload))
        assert reader.next()
        incoming.add(reader)


def reading(data: bytes) -> FrameReader:
    reader = FrameReader(1 << 20)
    reader.feed(data)
    return reader


def body(incoming: Incoming) -> bytes:
    content = incoming.content(131064)
    assert content[7 : 7 + len(HEADER)] == HEADER
    return body_of(content, len(HEADER), incoming.size, incoming.frame_size)


# Frame by frame


def test_message_is_whole_when_its_body_is(session: Session) -> None:
    incoming = Incoming(b"method", 1, session)
    assert incoming.header is None
    incoming.begin(HEADER, 5)
    add(incoming, b"ab", b"")
    assert not incoming.whole()
    add(incoming, b"cde")
    assert incoming.whole()
    assert session.incomplete_size == 5
    assert (incoming.method, body(incoming)) == (b"method", b"abcde")
    assert session.incomplete_size == 0


def test_empty_message_is_whole_at_once(session: Session) -> None:
    incoming = begun(session, 0)
    assert incoming.whole()
    assert incoming.content(100) == frame(HEADER, 2, 0)


@pytest.mark.parametrize("size", [2, 100_000])
def test_more_than_was_announced_is_refused(session: Session, size: int) -> None:
    incoming = begun(session, size)
    add(incoming, bytes(size - 1))
    with pytest.raises(FrameError, match="content body frame exceeds remaining content size"):
        add(incoming, b"bc")


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ([100_000], 100_000),
        ([50_000, 50_000], 50_000),
        ([4088] * 24 + [1888], 4088),
        ([0, 60_000, 0, 40_000, 0], 60_000),
        # Uneven, or too small.
        ([40_000, 60_000], 65_536),
        ([60_000, 20_000, 20_000], 65_536),
        ([4087] * 24 + [1912], 65_536),
        ([50_000, 49_999, 1], 65_536),
    ],
)
def test_frames_are_kept_if_they_are_even_and_not_small(session: Session, sizes: list[int], kept: int) -> None:
    whole = octets(100_000)
    incoming = begun(session, len(whole))
    at = 0
    for size in sizes:
        add(incoming, whole[at : at + size])
        at += size
    assert incoming.whole()
    content = incoming.content(65_536)
    assert incoming.frame_size == kept
    assert body_of(content, len(HEADER), len(whole), kept) == whole
    assert (session.incomplete_size, session.reserved_size) == (0, 0)


@pytest.mark.parametrize(("size", "reserved"), [(IN_PLACE_FROM - 1, False), (IN_PLACE_FROM, True)])
def test_room_is_reserved_for_large_bodies(session: Session, size: int, reserved: bool) -> None:
    incoming = begun(session, size)
    add(incoming, bytes(5000))
    assert (session.reserved_size > 0) is reserved
    add(incoming, bytes(5000), bytes(size - 10_000))
    assert body(incoming) == bytes(size)
    assert session.reserved_size == 0


def test_room_is_reserved_up_to_a_limit(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    exactly = 8 + len(HEADER) + 50_000 + 16
    for beside in (0, 1):
        session.reserved_size = 0
        session.reserve(session_module.RESERVED_SIZE_MAX - exactly + beside)
        before = session.reserved_size
        incoming = begun(session, 50_000)
        add(incoming, octets(25_000))
        assert session.reserved_size == before + (0 if beside else exactly)
        add(incoming, octets(50_000)[25_000:])
        assert body(incoming) == octets(50_000)
        assert session.reserved_size == before


def test_room_of_all_clients_together_has_a_limit(session: Session) -> None:
    """What is only announced takes memory from the heap that could not be given back."""
    exactly = 8 + len(HEADER) + 50_000 + 16
    session.broker.settings.reserved_size_max = 2 * exactly
    other = Session(session.broker, session.output)
    assert other.reserve(exactly + 1)
    incoming = begun(session, 50_000)
    add(incoming, octets(25_000))
    assert (session.reserved_size, session.broker.reserved_size) == (0, exactly + 1)
    other.unreserve(1)
    second = begun(session, 50_000)
    add(second, octets(25_000))
    assert (session.reserved_size, session.broker.reserved_size) == (exactly, 2 * exactly)
    for message in (incoming, second):
        add(message, octets(50_000)[25_000:])
        assert body(message) == octets(50_000)
    assert session.broker.reserved_size == exactly


def test_where_there_is_no_memory_for_it_a_body_is_gathered(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(size: int) -> tuple[bytes, memoryview]:
        raise MemoryError

    monkeypatch.setattr(incoming_module, "unfilled_bytes", none)
    incoming = begun(session, 50_000)
    add(incoming, octets(25_000), octets(50_000)[25_000:])
    assert body(incoming) == octets(50_000)
    assert (session.reserved_size, session.broker.reserved_size) == (0, 0)


# In place


def test_rest_of_a_frame_is_read_in_place(session: Session) -> None:
    whole = octets(100_000)
    incoming = begun(session, len(whole))
    data = frame(whole[:60_000]) + frame(whole[60_000:])
    reader = reading(data[:1000])
    assert not reader.next()
    assert incoming.fill(reader)
    assert reader.at == reader.size == 1000
    at = 1000
    while not incoming.whole():
        room = incoming.room()
        size = min(len(room), 30_000)
        room[:size] = data[at : at + size]
        at += size
        incoming.filled(size)
        incoming.advance()
        assert incoming.received == (100_000 if at == len(data) else 60_000 if at >= 60_008 else 0)
    assert at == len(data)
    assert incoming.full()
    assert body(incoming) == whole
    assert incoming.frame_size == 60_000


def test_room_ends_with_the_message(session: Session) -> None:
    incoming = begun(session, 2 * ROOM_MAX)
    data = frame(bytes(2 * ROOM_MAX))
    assert incoming.fill(reading(data[:8]))
    assert len(incoming.room()) == ROOM_MAX
    incoming.filled(ROOM_MAX + 1)
    assert len(incoming.room()) == ROOM_MAX - 1
    incoming.filled(ROOM_MAX - 2)
    assert len(incoming.room()) == 1
    assert not incoming.full()


@pytest.mark.parametrize(
    "data",
    [
        frame(bytes(50_000))[:6],
        frame(bytes(50_000), kind=2),
        frame(bytes(50_000), channel=2),
        frame(bytes(50_000), channel=257),
        frame(bytes(100_001)),
        frame(b""),
        frame(bytes(4087)),
    ],
)
def test_what_is_not_the_next_of_its_frames_is_not_read_in_place(session: Session, data: bytes) -> None:
    reader = reading(data[:100])
    assert not begun(session, 100_000).fill(reader)
    assert reader.at == 0


def test_nothing_is_read_in_place_before_its_header(session: Session) -> None:
    assert not Incoming(b"method", 1, session).fill(reading(frame(bytes(50_000))[:100]))


@pytest.mark.parametrize(
    "odd",
    [
        frame(bytes(40_000), kind=2),
        frame(bytes(40_000), kind=8),
        frame(bytes(40_000), channel=3),
        frame(bytes(39_999)),
        frame(bytes(40_001)),
        frame(bytes(40_000), end=b"\x00"),
        frame(b"", kind=8, channel=0),
    ],
)
def test_what_is_odd_is_left_to_others(session: Session, odd: bytes) -> None:
    incoming = begun(session, 100_000)
    assert incoming.fill(reading(frame(bytes(60_000))[:50_000]))
    assert incoming.take(frame(bytes(60_000))[50_000:]) == b""
    incoming.advance()
    behind = incoming.take(odd)
    assert not incoming.odd
    incoming.advance()
    assert bool(incoming.odd) is True
    assert incoming.left_over() + behind == odd
    assert incoming.left_over() == b""
    assert incoming.received == 60_000
    add(incoming, bytes(40_000))
    assert body(incoming) == bytes(100_000)


def test_message_that_leaves_gives_back_what_it_had(session: Session) -> None:
    incoming = begun(session, 100_000)
    add(incoming, bytes(30_000))
    assert incoming.fill(reading(frame(bytes(30_000))[:50]))
    incoming.abandon()
    assert incoming.gone
    assert (session.incomplete_size, session.reserved_size) == (0, 0)
    assert incoming.take(b"more") == b""
    assert incoming.left_over() == frame(bytes(30_000))[:50] + b"more"


# As the server does it


def feed(client: Client, data: bytes, cuts: list[int], in_place: bool) -> None:
    """Octets arrive in these pieces: each read as the server does it, or as bytes."""
    connection = client.connection
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        at = start
        while at < stop:
            room = connection.room() if in_place else None
            if room is None:
                connection.receive(data[at:stop], 0)
                at = stop
            else:
                size = min(len(room), stop - at)
                room[:size] = data[at : at + size]
                connection.receive_in_place(size, 0)
                at += size
            client.finish()


def test_body_is_read_in_place(client: Client) -> None:
    client.say(QueueDeclare("q"))
    whole = octets(300_000)
    data = client.message("q", whole)
    assert client.connection.room() is None
    feed(client, data, [100], True)
    assert client.connection.session.filling is None
    feed(client, data[:100], [], True)
    room = client.connection.room()
    assert room is not None
    client.connection.receive(data[100:], 0)
    assert client.say(BasicGet("q", no_ack=True))[1] == whole
    assert client.say(BasicGet("q", no_ack=True))[1] == whole


@pytest.mark.parametrize(("size", "large"), [(LARGE_FROM - 1, False), (LARGE_FROM, True)])
def test_read_behind_a_very_large_body_is_to_be_a_short_one(client: Client, size: int, large: bool) -> None:
    connection = client.connection
    data = client.message("q", bytes(size))
    feed(client, data[:5000], [], True)
    assert connection.after_large is False
    feed(client, data[5000:], [], True)
    assert connection.after_large is large
    buffer = bytearray(client.message("q", b"small"))
    connection.receive_from(buffer, len(buffer), 0)
    assert connection.after_large is False


def test_announced_body_costs_no_memory_before_it_comes(client: Client) -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    size = 120 << 20
    head = client.message("q", b"")[:-1]
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x00\x00"
    del head
    before = resident()
    client.feed(client.method(BasicPublish("", "q")) + frame(header, 2) + frame(bytes(131_064))[:50_000])
    assert client.connection.room() is not None
    assert client.connection.session.reserved_size > size
    assert resident() - before < 4 << 20
    client.say(ConnectionClose(), channel=0)


def test_channel_that_closes_amid_a_body_stays_in_step(client: Client) -> None:
    client.open(2)
    data = client.message("q", octets(200_000))
    feed(client, data[:150_000], [], True)
    channel = client.connection.session.channels[1]
    channel.fail(FrameError("some reason"), 0)
    client.finish()
    assert isinstance(client.heard()[0], ChannelClose)
    assert (client.connection.session.incomplete_size, client.connection.session.reserved_size) == (0, 0)
    feed(client, data[150_000:] + client.method(ChannelCloseOk()) + client.method(ChannelOpen()), [60_000], True)
    assert client.connection.session.filling is None
    assert len(client.heard()) == 1
    assert client.say(QueueDeclare("other"), channel=2)


def test_connection_that_closes_amid_a_body_hears_the_close(client: Client) -> None:
    data = client.message("q", octets(200_000))
    feed(client, data[:150_000], [], True)
    client.connection.shut("reason", 0)
    client.finish()
    assert isinstance(client.heard(0)[0], ConnectionClose)
    feed(client, data[150_000:] + client.method(ConnectionClose(), 0), [10], True)
    assert client.connection.session.filling is None
    assert len(client.heard(0)) == 1


PIECES = st.sampled_from([4087, 4088, 10_000, 16_383, 16_384, 65_536, 131_063, 131_064])
SIZES = st.one_of(
    st.sampled_from([0, 1, 4088, 16_383, 16_384, 16_385, 131_063, 131_064, 131_065, 262_128, 262_129, 400_000]),
    st.integers(0, 300_000),
)
HARM = st.one_of(st.none(), st.tuples(st.floats(0, 1), st.integers(1, 255)))


@calm
@given(
    messages=st.lists(st.tuples(SIZES, PIECES, st.integers(1, 2)), min_size=1, max_size=4),
    cuts=st.lists(st.floats(0, 1), max_size=8),
    between=st.sampled_from([b"", frame(b"", 8, 0)]),
    harm=HARM,
)
def test_it_is_the_same_however_it_comes(
    alone: Callable[[], Client],
    messages: list[tuple[int, int, int]],
    cuts: list[float],
    between: bytes,
    harm: tuple[float, int] | None,
) -> None:
    """Messages on two channels, with heartbeats between them, whole or harmed at one octet; in one read or cut anywhere."""
    said = []
    for in_place in (None, False, True):
        client = alone()
        client.open(2)
        client.say(QueueDeclare("q"))
        client.say(ConfirmSelect())
        data = b"".join(client.message("q", octets(size), piece=piece, channel=on) + between for size, piece, on in messages)
        if harm is not None:
            at = min(int(harm[0] * len(data)), len(data) - 1)
            data = data[:at] + bytes([data[at] ^ harm[1]]) + data[at + 1 :]
        places = [] if in_place is None else sorted(int(cut * len(data)) for cut in cuts)
        feed(client, data, places, bool(in_place))
        octets_said = [entry for entry in client.heard_on_channels() if not isinstance(entry[1], BasicAck)]
        session = client.connection.session
        state = (session.incomplete_size, client.connection.state, sorted(session.channels))
        taken = []
        if client.connection.state == 2 and harm is None:
            while isinstance((got := client.say(BasicGet("q", no_ack=True), channel=2))[0], BasicGetOk):
                taken.append(got[1])
            assert taken == [octets(size) for size, _, _ in messages]
        assert session.reserved_size == 0 or state[0] > 0 or session.filling is not None
        said.append((octets_said, state, taken))
    assert said[0] == said[1]
    assert said[1] == said[2]


def test_body_of_many_megabytes_comes_through(client: Client) -> None:
    client.say(QueueDeclare("q"))
    whole = octets(20_000_000)
    data = client.message("q", whole)
    feed(client, data, list(range(70, len(data), 262_144)), True)
    assert client.say(BasicGet("q", no_ack=True))[1] == whole
