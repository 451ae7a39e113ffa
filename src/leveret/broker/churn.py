"""What came since the start: connections, channels, queues, logins, dead letters. How many went is what is not there now."""


class Churn:
    """Counters that only grow; `dead_lettered` has one for each reason."""

    __slots__ = (
        "channels_opened",
        "connections_opened",
        "dead_lettered",
        "logins_failed",
        "logins_succeeded",
        "queues_created",
        "queues_declared",
    )

    def __init__(self) -> None:
        self.connections_opened = 0
        self.channels_opened = 0
        self.queues_declared = 0
        self.queues_created = 0
        self.logins_succeeded = 0
        self.logins_failed = 0
        self.dead_lettered: dict[str, int] = {"expired": 0, "rejected": 0, "maxlen": 0, "delivery_limit": 0}
