"""The buffer that all sockets are read into: one for the event loop, used for one read after the other.

A read is handled before the next one begins, so nothing is kept here. What a connection has left over of a frame is
put before its next read, so that a frame lies in one piece. Only the rest of a large body is read
elsewhere: to where it stays.
"""

READ_SIZE = 256 * 1024


class ReadBuffer:
    """Room for one read, and for what is left over of the last one."""

    def __init__(self, frame_max: int) -> None:
        # RabbitMQ: eight octets over frame_max are let pass.
        self.buffer = bytearray(frame_max + 8 + 8 + READ_SIZE)
        self._view = memoryview(self.buffer)

    def room(self, rest: bytes) -> memoryview:
        """Where to read to, behind what is left over."""
        size = len(rest)
        if size:
            self._view[:size] = rest
        return self._view[size:]
