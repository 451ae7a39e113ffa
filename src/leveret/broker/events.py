"""What was made, changed and removed lately, for whoever watches. Named as RabbitMQ's events are: `queue.created`."""

from collections import deque
from typing import NamedTuple

EVENTS_MAX = 1000


class Event(NamedTuple):
    """One thing that happened, the `number`th; `vhost` is None for what is in none."""

    number: int
    kind: str
    vhost: str | None
    name: str


class Events:
    """The last `EVENTS_MAX` events. Nobody is called: whoever watches asks for what came since it last did."""

    __slots__ = ("_kept", "count")

    def __init__(self) -> None:
        self.count = 0
        self._kept: deque[Event] = deque(maxlen=EVENTS_MAX)

    def add(self, kind: str, vhost: str | None, name: str) -> None:
        self.count += 1
        self._kept.append(Event(self.count, kind, vhost, name))

    def since(self, number: int) -> list[Event] | None:
        """Those after this one; None if some of them are forgotten."""
        missing = self.count - number
        if missing > len(self._kept):
            return None
        return list(self._kept)[-missing:] if missing > 0 else []
