"""A message on its way in, when its frames did not arrive all at once."""

from leveret.errors import FrameError


class Incoming:
    """basic.publish and what followed it so far.

    `method` is the payload of the basic.publish, `header` that of the content header, once it is there. Nothing is
    allocated from the announced size: the body grows as it comes.
    """

    __slots__ = ("body", "header", "method", "size")

    def __init__(self, method: bytes) -> None:
        self.method = method
        self.header: bytes | None = None
        self.size = 0
        self.body = bytearray()

    def begin(self, header: bytes, size: int) -> None:
        """The header has come; it announces `size` octets of body."""
        self.header = header
        self.size = size

    def add(self, piece: bytes) -> None:
        """More of the body."""
        if len(self.body) + len(piece) > self.size:
            raise FrameError("content body frame exceeds remaining content size")
        self.body += piece

    def whole(self) -> bool:
        return len(self.body) == self.size
