"""Why a socket is not read now, so that TCP stops its client.

Several reasons can hold at once; the socket is read again when none is left.
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


class Backpressure:
    """The reasons for which one socket is not read now."""

    __slots__ = ("_socket", "reasons")

    def __init__(self, socket: asyncio.Transport) -> None:
        self._socket = socket
        self.reasons = 0

    def pause(self, reason: int) -> None:
        if not self.reasons:
            self._socket.pause_reading()
        self.reasons |= reason

    def resume(self, reasons: int) -> None:
        """These reasons are gone; what is left of a socket that closes is not read."""
        if self.reasons and not self._socket.is_closing():
            self.reasons &= ~reasons
            if not self.reasons:
                self._socket.resume_reading()
