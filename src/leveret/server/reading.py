"""Whether a socket is read, and why not.

Several reasons can hold at once; the socket is read again when none is left. While it is not read, TCP stops the client.
"""

import asyncio

# The connection's pass was interrupted and goes on first.
MID_PASS = 1
# The client does not read what it is sent.
NOT_DRAINING = 2
# Both, so that the pass waits too, until the client has read.
STALLED = 4
# It waits a moment for consumers to read, or because it fills storage faster than its share.
FLOW = 8
# It publishes, and publishers are stopped.
BLOCKED = 16


class Reading:
    """The reasons for which one socket is not read now."""

    __slots__ = ("_socket", "paused_for")

    def __init__(self, socket: asyncio.Transport) -> None:
        self._socket = socket
        self.paused_for = 0

    def pause(self, reason: int) -> None:
        if not self.paused_for:
            self._socket.pause_reading()
        self.paused_for |= reason

    def resume(self, reasons: int) -> None:
        """These reasons are gone; what is left of a socket that closes is not read."""
        if self.paused_for and not self._socket.is_closing():
            self.paused_for &= ~reasons
            if not self.paused_for:
                self._socket.resume_reading()
