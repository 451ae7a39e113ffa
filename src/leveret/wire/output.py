"""What is to be sent to one client, gathered until the end of the turn.

Small things are copied into one buffer; bodies of more than a few KiB are kept by reference, between pieces of it. Knows
frames, not what they mean, and no socket: whoever flushes calls `take`, and is told by `wake` that there is something.
"""

from collections.abc import Callable, Iterator

from leveret.wire.content import END, frame_head
from leveret.wire.frames import FRAME_OVERHEAD
from leveret.wire.methods import write_method
from leveret.wire.spec import FRAME_BODY, FRAME_MIN_SIZE, Method

# A body of this size fits one frame whatever was negotiated; larger ones are sent by reference.
COPIED_BODY_MAX = FRAME_MIN_SIZE - FRAME_OVERHEAD

# Beyond this no more messages are given to the client until it has read some.
FULL_SIZE = 1 << 20

# A client whose socket has taken nothing for so long is not waited for.
STALLED_MS = 20


class Output:
    """Bytes on their way out.

    `blocked` is set while the socket takes no more, since `blocked_at` (ms); `frame_max` is the negotiated one.
    """

    __slots__ = ("_awake", "_pieces", "_pieces_size", "_wake", "blocked", "blocked_at", "buffer", "frame_max")

    def __init__(self, wake: Callable[[], None]) -> None:
        self.buffer = bytearray()
        self.frame_max = FRAME_MIN_SIZE
        self.blocked = False
        self.blocked_at = 0
        self._wake = wake
        self._awake = False
        self._pieces: list[bytearray | memoryview] = []
        self._pieces_size = 0

    def size(self) -> int:
        """How many bytes are gathered."""
        return len(self.buffer) + self._pieces_size

    def full(self) -> bool:
        """Whether the client has enough to read for now."""
        return self.blocked or len(self.buffer) + self._pieces_size > FULL_SIZE

    def hurrying(self, now: int) -> bool:
        """Whether the client is reading, and has not yet read all; one that has not read for a while is not hurrying."""
        return self.full() and (not self.blocked or now - self.blocked_at < STALLED_MS)

    def wake(self) -> None:
        """Say, once until the next `take`, that there is something to send."""
        if not self._awake:
            self._awake = True
            self._wake()

    def take(self) -> list[bytearray | memoryview]:
        """Everything gathered, which is the caller's from now on."""
        self._awake = False
        pieces = self._pieces
        if len(self.buffer) != 0:
            pieces.append(self.buffer)
            self.buffer = bytearray()
        if pieces:
            self._pieces = []
            self._pieces_size = 0
        return pieces

    def write(self, data: bytes) -> None:
        self.buffer += data
        self.wake()

    def write_method(self, channel: int, method: Method) -> None:
        write_method(self.buffer, channel, method)
        self.wake()

    def grow(self, size: int) -> int:
        """Make room for so many octets in the buffer, which the caller fills; where they begin."""
        at = len(self.buffer)
        self.buffer += bytes(size)
        return at

    def write_numbered(self, frame: bytes, at: int, number: int) -> None:
        """Append a frame with `number` put into the zero octets that end before `at`."""
        buffer = self.buffer
        last = len(buffer) + at - 1
        buffer += frame
        p = buffer
        while number != 0:
            p[last] = number & 255
            number >>= 8
            last -= 1

    def write_content(self, channel: int, content: bytes, header_size: int, body_size: int, frame_size: int) -> None:
        """Append a content's frames for this channel."""
        if not is_copied(body_size):
            self._refer(channel, content, header_size, body_size, frame_size)
            return
        buffer = self.buffer
        at = len(buffer)
        buffer += content
        p = buffer
        p[at + 1] = channel >> 8
        p[at + 2] = channel & 255
        if body_size != 0:
            at += header_size + FRAME_OVERHEAD
            p[at + 1] = channel >> 8
            p[at + 2] = channel & 255

    def _refer(self, channel: int, content: bytes, header_size: int, body_size: int, frame_size: int) -> None:
        p = content
        end = header_size + FRAME_OVERHEAD
        is_of_channel = (p[1] << 8 | p[2]) == channel and (p[end + 1] << 8 | p[end + 2]) == channel
        if is_of_channel and min(frame_size, body_size) <= self.frame_max - FRAME_OVERHEAD:
            # Its publisher's channel had the same number: nothing is to be overwritten.
            self._pieces.append(self.buffer)
            self._pieces.append(memoryview(content))
            self._pieces_size += len(self.buffer) + len(content)
            self.buffer = bytearray()
            return
        at = len(self.buffer)
        self.buffer += content[:end]
        self.buffer[at + 1] = channel >> 8
        self.buffer[at + 2] = channel & 255
        view = memoryview(content)
        for start, stop in body_spans(end, body_size, frame_size, self.frame_max - FRAME_OVERHEAD):
            self.buffer += frame_head(FRAME_BODY, channel, stop - start)
            self._pieces.append(self.buffer)
            self._pieces.append(view[start:stop])
            self._pieces_size += len(self.buffer) + stop - start
            self.buffer = bytearray(END)


def is_copied(body_size: int) -> bool:
    """Whether a body of this size goes into the buffer, and not by reference."""
    return body_size <= COPIED_BODY_MAX


def body_spans(at: int, body_size: int, frame_size: int, limit: int) -> Iterator[tuple[int, int]]:
    """Where the pieces of a body lie in a content whose body frames begin at `at`, none longer than `limit`."""
    while body_size > 0:
        size = min(body_size, frame_size)
        start = at + 7
        while start < at + 7 + size:
            stop = min(start + limit, at + 7 + size)
            yield start, stop
            start = stop
        at += size + FRAME_OVERHEAD
        body_size -= size


def copy(p: bytearray, at: int, data: bytes, start: int, size: int) -> None:
    """Copy so many octets of `data` to `at`."""
    # Not a slice: compiled, that would be an object, and this is a loop that the C compiler makes vectors of.
    for index in range(size):
        p[at + index] = data[start + index]
