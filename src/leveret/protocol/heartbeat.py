"""Heartbeats: when the client was heard and spoken to last, and what follows.

Whatever comes shows that it is alive, and whatever is sent shows it that the broker is; so a heartbeat goes only into half
an interval of silence. After two intervals without a sign of the client it counts as gone.
"""

NEVER = 1 << 62


class Heartbeat:
    """The heartbeat of one connection; with an interval of 0 there is none."""

    __slots__ = ("interval_ms", "received_at", "sent_at")

    def __init__(self, now: int) -> None:
        self.interval_ms = 0
        self.received_at = now
        self.sent_at = now

    def is_missed(self, now: int) -> bool:
        """Whether nothing has come for so long that the client is gone."""
        return self.interval_ms != 0 and now - self.received_at >= 2 * self.interval_ms

    def is_due(self, now: int) -> bool:
        """Whether the client must be sent something now."""
        return self.interval_ms != 0 and now - self.sent_at >= self.interval_ms // 2

    def next_at(self, now: int) -> int:
        """When to look again."""
        return now + self.interval_ms // 2 if self.interval_ms else NEVER
