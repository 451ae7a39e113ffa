"""Frames in the bytes that arrive.

  frame := kind u8 | channel u16 | size u32 | payload | 206

A FrameReader is a cursor over the received bytes: it copies nothing and makes nothing, it says where the next payload
lies. Half a frame is simply kept. What frames mean is not known here.
"""

from typing import Any

from leveret.errors import FrameError
from leveret.terms import term
from leveret.wire.spec import FRAME_END

FRAME_HEAD = 7
FRAME_OVERHEAD = 8
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
SHOWN_OCTETS = 16


# Compiled, frames are read where the socket put them; in plain Python slices must be bytes, so what came is copied once.
COMPILED = not __file__.endswith(".py")


class FrameReader:
    """Finds one frame after the other; the current one's payload lies in `data` from `start` to `stop`.

    `size` octets of `data` count, those before `at` are done; who handles several frames at once moves it on. Between two
    passes `data` is somebody else's, and what is left over is in `rest`. `broken` is set when what follows can no longer
    be told apart into frames.
    """

    __slots__ = ("at", "broken", "channel", "data", "frame_max", "kind", "rest", "size", "start", "stop")

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self.data: Any = held(b"")
        self.rest = b""
        self.size = 0
        self.at = 0
        self.broken = False
        self.kind = 0
        self.channel = 0
        self.start = 0
        self.stop = 0

    def feed(self, data: bytes) -> None:
        """Add what has arrived to what is left."""
        self.data = held(self.rest + data if self.rest else data)
        self.size = len(self.data)
        self.at = 0

    def read_from(self, buffer: bytearray, size: int) -> None:
        """Read the first `size` octets of `buffer`, which begins with what was left."""
        self.data = buffer if COMPILED else bytes(buffer[:size])
        self.size = size
        self.at = 0

    def keep_rest(self) -> None:
        """Put aside what is left; an idle connection holds no buffer."""
        self.rest = self._unread()
        self.data = NOTHING
        self.size = 0
        self.at = 0

    def put_back(self, data: bytes) -> None:
        """Read this first, which was taken for something else."""
        self.data = held(data + self._unread())
        self.size = len(self.data)
        self.at = 0

    def _unread(self) -> bytes:
        p = self.data
        return p[self.at : self.size] if self.at < self.size else b""

    def payload(self) -> bytes:
        """The current frame's payload."""
        p = self.data
        return p[self.start : self.stop]  # type: ignore[no-any-return]

    def next(self) -> bool:
        """Move to the next whole frame; False if there is none yet. A broken one raises FrameError."""
        at = self.at
        if self.size - at < FRAME_HEAD:
            return False
        p = self.data
        # First into its variable: compiled, an octet shifted by 24 is an int and may come out negative.
        size = p[at + 3]
        size = size << 24 | p[at + 4] << 16 | p[at + 5] << 8 | p[at + 6]
        # RabbitMQ: eight octets more than frame_max are let pass, since many clients count wrongly.
        if size > self.frame_max:
            self.broken = True
            self.channel = 0
            raise FrameError(
                f"type {p[at]}, all octets = <<>>: {{frame_too_large,{size},{self.frame_max - FRAME_OVERHEAD}}}"
            )
        stop = at + 7 + size
        if stop >= self.size:
            return False
        self.kind = p[at]
        self.channel = p[at + 1] << 8 | p[at + 2]
        self.start = at + 7
        self.stop = stop
        if p[stop] != FRAME_END:
            self.broken = True
            raise FrameError(f"{self.describe()}: {{invalid_frame_end_marker,{p[stop]}}}")
        self.at = stop + 1
        return True

    def describe(self) -> str:
        """The current frame as RabbitMQ's error texts show it."""
        payload = self.payload()
        if len(payload) <= SHOWN_OCTETS:
            return f"type {self.kind}, all octets = {term(payload)}"
        return f"type {self.kind}, first {SHOWN_OCTETS} octets = {term(payload[:SHOWN_OCTETS])}"


def held(data: bytes) -> Any:
    """Bytes as a reader reads them."""
    return bytearray(data) if COMPILED else data


NOTHING = held(b"")
