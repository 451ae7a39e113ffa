"""Consumers and their prefetch windows.

A consumer is told of a delivery through `deliver`, which the protocol's own kind of consumer overrides; the queue itself
never learns who listens. One without acknowledgement uses no window, but waits while its channel's count is used up.
"""

from typing import TYPE_CHECKING

from leveret.broker.counters import Counters
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.message import Entry
    from leveret.broker.open_page import OpenPage
    from leveret.broker.queue import Queue


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

    `window` is its own prefetch window, `channel_window` its channel's; `counters` say what it was given and has
    acknowledged, perhaps with others of its channel and queue.
    """

    __slots__ = (
        "active",
        "arguments",
        "channel_window",
        "counters",
        "exclusive",
        "no_ack",
        "priority",
        "queue",
        "subscribed",
        "tag",
        "window",
    )

    queue: "Queue"

    def __init__(
        self,
        tag: str,
        no_ack: bool = False,
        exclusive: bool = False,
        window: Window | None = None,
        channel_window: Window | None = None,
        arguments: Table | None = None,
        priority: int = 0,
        counters: Counters | None = None,
    ) -> None:
        self.tag = tag
        self.counters = counters or Counters()
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.window = window or Window()
        self.channel_window = channel_window or Window()
        self.arguments = arguments or {}
        self.priority = priority
        self.active = False
        self.subscribed = False

    def can_take(self, size: int) -> bool:
        """Whether a message of `size` bytes may be delivered to it now."""
        if self.no_ack:
            # RabbitMQ: a channel's limit holds back those without acknowledgement too, though they use none of it.
            return self.channel_window.counts()
        return self.window.fits(size) and self.channel_window.fits(size)

    def hurrying(self, now: int) -> bool:
        """Whether its client is reading, and has not yet read all that was sent."""
        return False

    def takes_octets(self) -> bool:
        """Whether it takes messages as the octets they are."""
        return False

    def run_end(self, page: "OpenPage", limit: int) -> int:
        """Up to where it takes the first messages of this page at once, if it has room: one at least, `limit` at most."""
        raise NotImplementedError

    def deliver_octets(self, page: "OpenPage", first: int, end: int, entries: "list[Entry]") -> None:
        """Send the messages of this page from `first` to `end`, a run, to the client. Must not call the queue.

        If it acknowledges, `entries` are they, as stubs.
        """
        raise NotImplementedError

    def deliver(self, entry: "Entry") -> None:
        """Send this entry to the client. Must not call the queue."""
        raise NotImplementedError

    def cancelled(self) -> None:
        """Tell the client that its queue is gone."""
        raise NotImplementedError
