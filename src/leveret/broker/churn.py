"""What came since the start: connections, channels, queues, logins, dead letters. How many went is what is not there now."""

from leveret.broker.logins import Logins


class Churn:
    """Counters that only grow; `dead_lettered` has one for each reason."""

    __slots__ = (
        "channels_opened",
        "connections_opened",
        "dead_lettered",
        "logins",
        "queues_created",
        "queues_declared",
    )

    def __init__(self, track_auth_attempt_source: bool = False) -> None:
        self.connections_opened = 0
        self.channels_opened = 0
        self.queues_declared = 0
        self.queues_created = 0
        self.logins = Logins(track_auth_attempt_source)
        self.dead_lettered: dict[str, int] = {"expired": 0, "rejected": 0, "maxlen": 0, "delivery_limit": 0}
