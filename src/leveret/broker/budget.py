"""The budget of one pass: how much it may still do, and what time it is in it.

A pass handles one read from one socket. Everything it does to a queue costs one unit of `left`, a microsecond or two, and
everything else that grows with what clients make costs by that measure: routes looked up, tables decoded, things made and
removed. When it is used up the pass stops where it is and goes on in the next turn of the loop, so that no client makes the
others wait.

Knows nothing of queues, sockets or clocks: whoever begins a pass says what time it is.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.broker.queue import Queue

PASS_BUDGET = 2000
# A table of so many octets takes as long to decode as one operation of a queue.
OCTETS_A_UNIT = 32


class Budget:
    """What is `left` of a pass. `now` is its time (ms); `flooded` is a queue that it has made, or kept, very full."""

    __slots__ = ("flooded", "left", "now")

    def __init__(self) -> None:
        self.left = PASS_BUDGET
        self.now = 0
        self.flooded: Queue | None = None

    def begin(self) -> None:
        """Start a pass with a full budget."""
        self.left = PASS_BUDGET
        self.flooded = None
