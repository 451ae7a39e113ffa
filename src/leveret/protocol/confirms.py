"""Publisher confirms of one channel.

Each message published in confirm mode has a number; everything settled since the last time is told in one basic.ack
with `multiple`. A basic.return goes out before the acknowledgement of its message, since it is written at once.
"""

from leveret.wire.content import END, frame_head
from leveret.wire.output import Output
from leveret.wire.spec import BASIC_ACK, FRAME_METHOD

ACK_FIELDS = 9


class Confirms:
    """Numbers published, settled and told."""

    __slots__ = ("_frame", "published", "told")

    def __init__(self, channel: int) -> None:
        self.published = 0
        self.told = 0
        head = frame_head(FRAME_METHOD, channel, 4 + ACK_FIELDS) + BASIC_ACK.to_bytes(4, "big")
        self._frame = (head + bytes(8) + b"\x00" + END, head + bytes(8) + b"\x01" + END)

    def tell(self, output: Output) -> None:
        """Acknowledge what has been settled and not been told."""
        count = self.published - self.told
        if count > 0:
            self.told = self.published
            output.write_numbered(self._frame[count > 1], 7 + 4 + 8, self.published)
