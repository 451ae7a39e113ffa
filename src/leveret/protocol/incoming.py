"""A message on its way in, when its frames did not arrive all at once.

A large one is put together where it stays: the first body frame says how the others are cut, so the place of each octet is
known, and the rest is read from the socket straight into that place (`room`), heads of frames and all. No octet is copied
but those that came with the message's beginning.

  (1) Frames are then of one size but the last, and that is no smaller than every client must take, or the whole body: so
      their heads are few octets more. What is cut otherwise is gathered and framed anew.
  (2) What is read in place are frames of this message that are well formed, until something else comes: `odd`. That, and all
      behind it, was not looked at and is for whoever reads frames (`left_over`); so are faults.
  (3) Room that is reserved is bounded for a connection, and costs memory only as the body comes.
"""

from leveret.errors import FrameError
from leveret.protocol.session import Session
from leveret.wire.content import END, body_of, content_size, frame_content, frame_head
from leveret.wire.frames import FRAME_HEAD, FRAME_OVERHEAD, FrameReader
from leveret.wire.spec import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_MIN_SIZE
from leveret.wire.unfilled import unfilled_bytes

# A smaller body is copied for less than what this takes.
IN_PLACE_FROM = 16 * 1024
# As much as any other read, so that what is left over of one fits where that goes.
ROOM_MAX = 256 * 1024
EVEN_FRAME_MIN = FRAME_MIN_SIZE - FRAME_OVERHEAD


class Incoming:
    """basic.publish and what followed it so far.

    `method` is the payload of the basic.publish, `header` that of the content header, once it is there; `received` octets of
    a body of `size` have come in whole frames of `frame_size`. `odd` says that something else was read in place, `gone` that
    its channel closes.
    """

    __slots__ = (
        "_at",
        "_body",
        "_content",
        "_filled",
        "_left",
        "_session",
        "_view",
        "channel",
        "frame_size",
        "gone",
        "header",
        "method",
        "odd",
        "received",
        "size",
    )

    def __init__(self, method: bytes, channel: int, session: Session) -> None:
        self.method = method
        self.channel = channel
        self.header: bytes | None = None
        self.size = 0
        self.received = 0
        self.frame_size = 0
        self.odd = False
        self.gone = False
        self._session = session
        # Where the next frame begins, and how far there is something.
        self._at = 0
        self._filled = 0
        self._content = b""
        self._view: memoryview | None = None
        self._left = b""
        # None while the frames are of one size.
        self._body: bytearray | None = None

    def begin(self, header: bytes, size: int) -> None:
        """The header has come; it announces `size` octets of body."""
        self.header = header
        self.size = size

    def whole(self) -> bool:
        return self.received == self.size

    # Frame by frame

    def add(self, reader: FrameReader) -> None:
        """The reader's current frame is more of the body."""
        size = reader.stop - reader.start
        if self.received + size > self.size:
            raise FrameError("content body frame exceeds remaining content size")
        if size == 0:
            return
        if self._fits(size):
            frame = memoryview(reader.data)[reader.start - FRAME_HEAD : reader.stop + 1]
            self._put(frame)
            self._at = self._filled
        else:
            self._gather()
            assert self._body is not None
            self._body += memoryview(reader.data)[reader.start : reader.stop]
        self._count(size)

    def _count(self, size: int) -> None:
        self.received += size
        self._session.count_incomplete(size)

    def _fits(self, size: int) -> bool:
        """Whether a frame of so many octets is of the size that this message's have; the first one says which."""
        if self._body is not None:
            return False
        if self.frame_size == 0:
            return self._reserve(size)
        return size == min(self.frame_size, self.size - self.received)

    def _reserve(self, frame_size: int) -> bool:
        """Make room for the whole content, cut into frames of this size."""
        if self.size < IN_PLACE_FROM or frame_size < min(EVEN_FRAME_MIN, self.size):
            return False
        header = self.header
        assert header is not None
        size = content_size(len(header), self.size, frame_size)
        if not self._session.reserve(size):
            return False
        try:
            self._content, self._view = unfilled_bytes(size)
        except MemoryError:
            # What is only announced need never come.
            self._session.unreserve(size)
            return False
        self.frame_size = frame_size
        self._put(frame_head(FRAME_HEADER, self.channel, len(header)) + header + END)
        self._at = self._filled
        return True

    def _put(self, octets: bytes | memoryview) -> None:
        assert self._view is not None
        end = self._filled + len(octets)
        self._view[self._filled : end] = octets
        self._filled = end

    def _gather(self) -> None:
        """From now on keep the body alone, as it is not cut evenly."""
        if self._body is None:
            self._body = bytearray(self._body_so_far())
            self._release()

    def _body_so_far(self) -> bytes:
        header = self.header
        assert header is not None
        return body_of(self._content, len(header), self.received, self.frame_size) if self.received else b""

    def _release(self) -> None:
        if self._view is not None:
            self._view.release()
            self._view = None
            self._session.unreserve(len(self._content))
            self._content = b""

    # In place

    def fill(self, reader: FrameReader) -> bool:
        """Go on in place with the frame at the reader's cursor, of which a part has come; False if that is not to be."""
        at = reader.at
        if self.header is None or reader.size - at < FRAME_HEAD:
            return False
        p = reader.data
        # First into its variable: compiled, an octet shifted by 24 is an int and may come out negative.
        size = p[at + 3]
        size = size << 24 | p[at + 4] << 16 | p[at + 5] << 8 | p[at + 6]
        if p[at] != FRAME_BODY or (p[at + 1] << 8 | p[at + 2]) != self.channel:
            return False
        if size == 0 or self.received + size > self.size or not self._fits(size):
            return False
        self._put(memoryview(reader.data)[at : reader.size])
        reader.at = reader.size
        return True

    def full(self) -> bool:
        """Whether there is no room any more."""
        return self._filled == len(self._content)

    def room(self) -> memoryview:
        """Where to read the next octets to."""
        assert self._view is not None
        return self._view[self._filled : self._filled + ROOM_MAX]

    def filled(self, size: int) -> None:
        """So many octets were read there."""
        self._filled += size

    def take(self, data: bytes) -> bytes:
        """Have octets that came otherwise there too; what is behind the message."""
        if self._view is None:
            self._left += data
            return b""
        size = min(len(data), len(self._content) - self._filled)
        self._put(data[:size])
        return data[size:]

    def advance(self) -> None:
        """Count the frames that are whole by now, up to what is `odd`."""
        p = self._content
        while self.received < self.size:
            at = self._at
            if self._filled - at < FRAME_HEAD:
                return
            wanted = min(self.frame_size, self.size - self.received)
            size = p[at + 3]  # as above
            size = size << 24 | p[at + 4] << 16 | p[at + 5] << 8 | p[at + 6]
            end = at + FRAME_HEAD + wanted
            if p[at] != FRAME_BODY or (p[at + 1] << 8 | p[at + 2]) != self.channel or size != wanted:
                self.odd = True
                return
            if self._filled <= end:
                return
            if p[end] != FRAME_END:
                self.odd = True
                return
            self._at = end + 1
            self._count(wanted)

    def left_over(self) -> bytes:
        """What was read in place and does not make a whole frame of this message; it is the caller's now."""
        if self._view is not None:
            self._left = bytes(self._view[self._at : self._filled])
            self._filled = self._at
            self.odd = False
        left, self._left = self._left, b""
        return left

    # The end

    def content(self, frame_max: int) -> bytes:
        """The content of the whole message, with bodies of at most `frame_max` octets if it must be framed anew."""
        self._session.count_incomplete(-self.received)
        content = self._content
        if self._view is None:
            header = self.header
            assert header is not None
            self.frame_size = min(self.size, frame_max) or 1
            return frame_content(header, self._body or b"", self.frame_size)
        self._release()
        return content

    def abandon(self) -> None:
        """It is not going to be whole: its channel closes."""
        self._session.count_incomplete(-self.received)
        self._left = self.left_over()
        self._release()
        self.gone = True
