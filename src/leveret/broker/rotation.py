"""The turn that a queue's consumers take: who gets its messages next. Knows nothing of messages but their size.

(1) Of the consumers with the highest priority that can take a message, each takes one in turn.
(2) A consumer found unable to take one leaves the rotation; whoever gives it room again must `activate` it. One that has
    room, but not for so large a message, is in `oversized` and is revived when another message comes first.
(3) While it is `paused` nobody is in the rotation.
(4) Who comes, or comes back, stands behind all others of its priority, whoever had the last message.
"""

from leveret.broker.consumer import Consumer
from leveret.errors import AccessRefused

# How many of a queue's consumers are looked at.
HURRYING_LOOKS = 8
OCTETS_LOOKS = 8


class Level:
    """The active consumers of one priority, and whose turn it is."""

    __slots__ = ("active", "priority", "turn")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.active: list[Consumer] = []
        self.turn = 0


class Rotation:
    """The consumers of one queue; with `single` only one of them is active, the `chosen`.

    Its successor is the first of those with the highest priority; with `in_order`, the first of all.
    """

    __slots__ = ("active_count", "chosen", "everyone", "in_order", "levels", "oversized", "paused", "single")

    def __init__(self) -> None:
        self.everyone: list[Consumer] = []
        self.levels: list[Level] = []
        self.oversized: list[Consumer] = []
        self.active_count = 0
        self.single = False
        self.in_order = False
        self.chosen: Consumer | None = None
        self.paused = False

    def check_new(self, consumer: Consumer, title: str) -> None:
        """Refuse a consumer that wants its queue, called `title`, for itself, or that another has for itself."""
        taken = self.everyone and (consumer.exclusive or self.everyone[0].exclusive)
        if taken or (consumer.exclusive and self.single):
            raise AccessRefused(f"{title} in exclusive use")

    def hurrying(self, now: int) -> bool:
        """Whether a consumer is taking messages as fast as its client can read."""
        return any(consumer.hurrying(now) for consumer in self.everyone[:HURRYING_LOOKS])

    def takes_octets(self) -> bool:
        """Whether all take messages as the octets they are; of many, nobody asks."""
        if not 0 < len(self.everyone) <= OCTETS_LOOKS:
            return False
        for consumer in self.everyone:  # noqa: SIM110 - compiled, no generator
            if not consumer.takes_octets():
                return False
        return True

    def add(self, consumer: Consumer) -> None:
        self.everyone.append(consumer)
        consumer.subscribed = True
        if self.single and self.chosen is None:
            self.chosen = consumer
        self.activate(consumer)

    def remove(self, consumer: Consumer) -> None:
        self.everyone.remove(consumer)
        consumer.subscribed = False
        if consumer.active:
            self._deactivate(self._level(consumer.priority), consumer)
        if consumer is self.chosen:
            self.chosen = self._successor()
            if self.chosen is not None:
                self.activate(self.chosen)

    def _successor(self) -> Consumer | None:
        if self.in_order or not self.everyone:
            return self.everyone[0] if self.everyone else None
        return max(self.everyone, key=_priority)

    def empty(self) -> list[Consumer]:
        """Remove all consumers, and return them."""
        everyone = self.everyone
        for consumer in everyone:
            consumer.subscribed = False
            consumer.active = False
        self.everyone = []
        self.levels = []
        self.oversized = []
        self.active_count = 0
        return everyone

    def activate(self, consumer: Consumer) -> None:
        """Put a consumer that has room again at the end of the turn."""
        if consumer.active or not consumer.subscribed or self.paused:
            return
        if self.single and consumer is not self.chosen:
            return
        consumer.active = True
        self.active_count += 1
        level = self._level(consumer.priority)
        # Behind the one that had its turn last; who is next stays so.
        level.active.insert(level.turn, consumer)
        level.turn += 1

    def next(self, size: int) -> Consumer | None:
        """The consumer whose turn it is to take a body of `size` bytes, if any can."""
        for level in self.levels:
            active = level.active
            while active:
                if level.turn >= len(active):
                    level.turn = 0
                consumer = active[level.turn]
                if consumer.can_take(size):
                    level.turn += 1
                    if self.oversized:
                        self.revive()
                    return consumer
                self._deactivate(level, consumer)
                if consumer.can_take(0) and consumer not in self.oversized:
                    self.oversized.append(consumer)
        return None

    def revive(self) -> None:
        """Count in again those for whom only the first message was too large: it goes, or another comes before it."""
        waiting = self.oversized
        self.oversized = []
        for consumer in waiting:
            self.activate(consumer)

    def pause(self) -> None:
        """Give nobody anything until `unpause`."""
        self.paused = True
        for level in self.levels:
            for consumer in list(level.active):
                self._deactivate(level, consumer)

    def unpause(self) -> None:
        """Count all in again; the queue's `dispatch` must follow."""
        self.paused = False
        for consumer in self.everyone:
            self.activate(consumer)

    def _level(self, priority: int) -> Level:
        for at, level in enumerate(self.levels):
            if level.priority == priority:
                return level
            if level.priority < priority:
                self.levels.insert(at, Level(priority))
                return self.levels[at]
        self.levels.append(Level(priority))
        return self.levels[len(self.levels) - 1]

    def _deactivate(self, level: Level, consumer: Consumer) -> None:
        at = level.active.index(consumer)
        del level.active[at]
        if at < level.turn:
            level.turn -= 1
        consumer.active = False
        self.active_count -= 1


def _priority(consumer: Consumer) -> int:
    return consumer.priority
