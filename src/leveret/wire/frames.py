"""Frames in the bytes that arrive.

  frame := kind u8 | channel u16 | size u32 | payload | 206

A FrameReader is a cursor over the received bytes: it copies nothing and makes nothing, it says where the next payload
lies. Half a frame is simply kept. What frames mean is not known here.
"""

from leveret.errors import FrameError
from leveret.terms import term
from leveret.wire.spec import FRAME_END

FRAME_HEAD = 7
FRAME_OVERHEAD = 8
HEARTBEAT = b"\x08\x00\x00\x00\x00\x00\x00\xce"
SHOWN_OCTETS = 16


class FrameReader:
    """Finds one frame after the other; `data[start:stop]` is the payload of the current one.

    `broken` is set when what follows can no longer be told apart into frames.
    """

    __slots__ = ("at", "broken", "channel", "data", "frame_max", "kind", "size", "start", "stop")

    def __init__(self, frame_max: int) -> None:
        self.frame_max = frame_max
        self.data = b""
        self.size = 0
        self.at = 0
        self.broken = False
        self.kind = 0
        self.channel = 0
        self.start = 0
        self.stop = 0

    def feed(self, data: bytes) -> None:
        """Add what has arrived to what is left."""
        if self.at < self.size:
            data = self.data[self.at : self.size] + data
        self.data = data
        self.size = len(data)
        self.at = 0

    def next(self) -> bool:
        """Move to the next whole frame; False if there is none yet. A broken one raises FrameError."""
        at = self.at
        if self.size - at < FRAME_HEAD:
            return self._keep_rest()
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
            return self._keep_rest()
        self.kind = p[at]
        self.channel = p[at + 1] << 8 | p[at + 2]
        self.start = at + 7
        self.stop = stop
        if p[stop] != FRAME_END:
            self.broken = True
            raise FrameError(f"{self.describe()}: {{invalid_frame_end_marker,{p[stop]}}}")
        self.at = stop + 1
        return True

    def skip_to(self, at: int) -> None:
        """Go on at `at`: the frames before it were handled together with the current one."""
        self.at = at

    def describe(self) -> str:
        """The current frame as RabbitMQ's error texts show it."""
        payload = self.data[self.start : self.stop]
        if len(payload) <= SHOWN_OCTETS:
            return f"type {self.kind}, all octets = {term(payload)}"
        return f"type {self.kind}, first {SHOWN_OCTETS} octets = {term(payload[:SHOWN_OCTETS])}"

    def _keep_rest(self) -> bool:
        if self.at == self.size:
            # Nothing is left: let go of what was handled, an idle connection must hold no buffer.
            self.data = b""
            self.size = 0
            self.at = 0
        elif self.at != 0:
            self.data = self.data[self.at : self.size]
            self.size -= self.at
            self.at = 0
        return False
