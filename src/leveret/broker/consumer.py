"""Consumers, their prefetch windows, and the turn they take: who gets a queue's messages next.

Knows nothing of messages but their size. A consumer is told of a delivery through `deliver`, which the protocol's own
kind of consumer overrides; the queue itself never learns who listens.

  (1) Of the consumers with the highest priority that can take a message, each takes one in turn.
  (2) A consumer found unable to take one leaves the rotation; whoever gives it room again must `activate` it. One that has
      room, but not for so large a message, is in `oversized` and is revived when another message comes first.
  (3) A consumer without acknowledgement uses no window, but waits while its channel's count is used up.
  (4) While it is `paused` nobody is in the rotation.
  (5) Who comes, or comes back, stands behind all others of its priority, whoever had the last message.
"""

from typing import TYPE_CHECKING

from leveret.broker.tally import Tally
from leveret.errors import AccessRefused
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.message import Entry
    from leveret.broker.queue import Queue


# How many of a queue's consumers are looked at.
HURRYING_LOOKS = 8


class Window:
    """How many messages and body bytes may be unacknowledged at once; 0 is no limit."""

    __slots__ = ("count", "count_limit", "size", "size_limit")

    def __init__(self, count_limit: int = 0, size_limit: int = 0) -> None:
        self.count_limit = count_limit
        self.size_limit = size_limit
        self.count = 0
        self.size = 0

    def fits(self, size: int) -> bool:
        """Whether a body of `size` bytes may be sent; one larger than the window may when nothing is outstanding."""
        if self.count_limit and self.count >= self.count_limit:
            return False
        return self.size_limit == 0 or self.count == 0 or self.size + size <= self.size_limit

    def counts(self) -> bool:
        """Whether one more message may be sent, whatever its size."""
        return self.count_limit == 0 or self.count < self.count_limit

    def limited(self) -> bool:
        return self.count_limit != 0 or self.size_limit != 0

    def take(self, size: int) -> None:
        self.count += 1
        self.size += size

    def free(self, size: int) -> None:
        self.count -= 1
        self.size -= size


class Consumer:
    """A basic.consume on one queue.

    `window` is its own prefetch, `shared` its channel's; `tally` counts what it was given and has acknowledged, perhaps with
    others of its channel and queue.
    """

    __slots__ = (
        "active",
        "arguments",
        "exclusive",
        "no_ack",
        "priority",
        "queue",
        "shared",
        "subscribed",
        "tag",
        "tally",
        "window",
    )

    queue: "Queue"

    def __init__(
        self,
        tag: str,
        no_ack: bool = False,
        exclusive: bool = False,
        window: Window | None = None,
        shared: Window | None = None,
        arguments: Table | None = None,
        priority: int = 0,
        tally: Tally | None = None,
    ) -> None:
        self.tag = tag
        self.tally = tally or Tally()
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.window = window or Window()
        self.shared = shared or Window()
        self.arguments = arguments or {}
        self.priority = priority
        self.active = False
        self.subscribed = False

    def can_take(self, size: int) -> bool:
        """Whether a message of `size` bytes may be delivered to it now."""
        if self.no_ack:
            # RabbitMQ: a channel's limit holds back those without acknowledgement too, though they use none of it.
            return self.shared.counts()
        return self.window.fits(size) and self.shared.fits(size)

    def hurrying(self, now: int) -> bool:
        """Whether its client is reading, and has not yet read all that was sent."""
        return False

    def deliver(self, entry: "Entry") -> None:
        """Send this entry to the client. Must not call the queue."""
        raise NotImplementedError

    def cancelled(self) -> None:
        """Tell the client that its queue is gone."""
        raise NotImplementedError


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
