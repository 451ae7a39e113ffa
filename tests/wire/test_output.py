"""What is gathered to be sent: copied or by reference, and woken for once."""

import pytest

from leveret.wire.content import END, frame_content, frame_head
from leveret.wire.methods import encode_method
from leveret.wire.output import Output, body_spans
from leveret.wire.spec import BasicAck, ChannelCloseOk

Frame = tuple[int, int, bytes]


class Client:
    """An output and how often it woke its owner."""

    def __init__(self, frame_max: int = 4096) -> None:
        self.wakes = 0
        self.output = Output(self.wake)
        self.output.frame_max = frame_max

    def wake(self) -> None:
        self.wakes += 1

    def sent(self) -> bytes:
        return b"".join(bytes(piece) for piece in self.output.take())


def frames(data: bytes) -> list[Frame]:
    found, at = [], 0
    while at < len(data):
        end = at + 7 + int.from_bytes(data[at + 3 : at + 7], "big")
        assert data[end] == 0xCE
        found.append((data[at], int.from_bytes(data[at + 1 : at + 3], "big"), data[at + 7 : end]))
        at = end + 1
    return found


def content(body: bytes, frame_size: int) -> tuple[bytes, int]:
    """A content and the size of its header."""
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    return frame_content(header, body, frame_size), len(header)


def test_nothing_is_gathered_at_first() -> None:
    client = Client()
    assert (client.output.size(), client.output.full(), client.output.take(), client.wakes) == (0, False, [], 0)


def test_bytes_and_methods_are_sent_in_order() -> None:
    client = Client()
    client.output.write(b"first")
    client.output.write_method(258, ChannelCloseOk())
    assert client.output.size() == 5 + 12
    assert client.sent() == b"first\x01\x01\x02\x00\x00\x00\x04\x00\x14\x00\x29\xce"
    assert client.output.size() == 0


def test_owner_is_woken_once_until_it_takes() -> None:
    client = Client()
    client.output.write(b"a")
    client.output.write(b"b")
    client.output.wake()
    assert client.wakes == 1
    client.output.take()
    client.output.write(b"c")
    assert client.wakes == 2


def test_what_was_taken_is_the_callers() -> None:
    client = Client()
    client.output.write(b"a")
    taken = client.output.take()
    client.output.write(b"b")
    assert [bytes(piece) for piece in taken] == [b"a"]
    assert client.sent() == b"b"


@pytest.mark.parametrize("number", [0, 1, 255, 256, 2**32, 2**40 + 7, 2**62])
def test_number_is_put_into_a_frame(number: int) -> None:
    client = Client()
    empty = encode_method(BasicAck(0, multiple=True))
    client.output.write(b"before")
    client.output.write_numbered(empty, 4 + 8, number)
    assert client.sent() == b"before" + encode_method(BasicAck(number, multiple=True))


@pytest.mark.parametrize("channel", [0, 1, 255, 256, 65535])
@pytest.mark.parametrize("size", [0, 1, 4088])
def test_small_content_is_copied_for_its_channel(channel: int, size: int) -> None:
    client = Client()
    data, header_size = content(bytes(size), max(size, 1))
    client.output.write_content(channel, data, header_size, size, max(size, 1))
    pieces = client.output.take()
    assert len(pieces) == 1
    expected = [(2, channel, data[7 : 7 + header_size])] + ([(3, channel, bytes(size))] if size else [])
    assert frames(bytes(pieces[0])) == expected


@pytest.mark.parametrize("channel", [1, 300])
@pytest.mark.parametrize("frame_max", [4096, 5000, 131072])
@pytest.mark.parametrize("frame_size", [4089, 5000, 20_000, 131_072])
@pytest.mark.parametrize("size", [4089, 8176, 20_000, 131_072])
def test_large_content_is_sent_in_frames_that_fit(channel: int, frame_max: int, frame_size: int, size: int) -> None:
    client = Client(frame_max)
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    data, header_size = content(body, min(frame_size, size))
    client.output.write(b"")
    client.output.write_content(channel, data, header_size, size, min(frame_size, size))
    client.output.write_content(channel, data, header_size, size, min(frame_size, size))
    assert client.output.size() > 2 * size
    first, *rest = frames(client.sent())
    assert first == (2, channel, data[7 : 7 + header_size])
    assert all(number == channel and len(payload) <= frame_max - 8 for _, number, payload in rest)
    assert b"".join(payload for kind, _, payload in rest if kind == 3) == body * 2
    assert client.output.size() == 0


def for_channel(data: bytes, channel: int) -> bytes:
    """A content as a publisher on this channel sends it."""
    found = bytearray()
    for kind, _, payload in frames(data):
        found += frame_head(kind, channel, len(payload)) + payload + END
    return bytes(found)


@pytest.mark.parametrize("channel", [1, 300])
@pytest.mark.parametrize(("frame_size", "whole"), [(20_000, True), (131_064, True), (131_065, False)])
def test_content_of_the_same_channel_is_sent_as_it_is(channel: int, frame_size: int, whole: bool) -> None:
    client = Client(131_072)
    body = bytes(range(251)) * 700
    data, header_size = content(body, frame_size)
    mine = for_channel(data, channel)
    client.output.write(b"before")
    client.output.write_content(channel, mine, header_size, len(body), frame_size)
    client.output.write(b"behind")
    assert client.output.size() >= 12 + len(mine)
    pieces = client.output.take()
    assert (len(pieces) == 3) is whole
    sent = b"".join(bytes(piece) for piece in pieces)
    assert (sent[:6], sent[len(sent) - 6 :]) == (b"before", b"behind")
    if whole:
        assert sent[6 : len(sent) - 6] == mine
    for other in (channel ^ 1, channel ^ 256):
        client.output.write_content(other, mine, header_size, len(body), frame_size)
        assert {number for _, number, _ in frames(client.sent())} == {other}


def test_large_body_is_not_copied() -> None:
    client = Client(131072)
    data, header_size = content(bytes(100_000), 100_000)
    client.output.write_content(1, data, header_size, 100_000, 100_000)
    pieces = client.output.take()
    assert [type(piece) for piece in pieces] == [bytearray, memoryview, bytearray]
    assert isinstance(pieces[1], memoryview)
    assert pieces[1].obj is data


def test_small_things_after_a_large_body_follow_it() -> None:
    client = Client(131072)
    data, header_size = content(bytes(5000), 5000)
    client.output.write_content(1, data, header_size, 5000, 5000)
    client.output.write_method(1, ChannelCloseOk())
    assert [kind for kind, _, _ in frames(client.sent())] == [2, 3, 1]


def test_output_is_full_when_the_client_has_a_megabyte_to_read() -> None:
    client = Client()
    client.output.write(bytes(1 << 20))
    assert not client.output.full()
    client.output.write(b"x")
    assert client.output.full()
    client.output.take()
    assert not client.output.full()
    client.output.blocked = True
    assert client.output.full()


def test_bodies_by_reference_count_too() -> None:
    client = Client(131072)
    data, header_size = content(bytes(100_000), 100_000)
    for _ in range(11):
        client.output.write_content(1, data, header_size, 100_000, 100_000)
    assert client.output.full()


@pytest.mark.parametrize(
    ("size", "frame_size", "limit", "spans"),
    [
        (0, 5, 5, []),
        (5, 5, 5, [(7, 12)]),
        (5, 5, 3, [(7, 10), (10, 12)]),
        (5, 3, 10, [(7, 10), (18, 20)]),
        (7, 5, 2, [(7, 9), (9, 11), (11, 12), (20, 22)]),
    ],
)
def test_spans_of_a_body(size: int, frame_size: int, limit: int, spans: list[tuple[int, int]]) -> None:
    assert list(body_spans(0, size, frame_size, limit)) == spans
