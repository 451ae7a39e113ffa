"""The end of channels, of one or of all of a connection: in pieces that keep to the budget.

(1) From the beginning nothing more is delivered to them.
(2) Their consumers are unsubscribed, then the connection's exclusive queues are deleted, and then what was unacknowledged
    is given back: who consumes from those queues next must not get what came later before.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.budget import Budget
from leveret.broker.dispatch import unsubscribe
from leveret.broker.queue import Queue
from leveret.broker.work import Task
from leveret.protocol.settlement import Requeue
from leveret.protocol.subscriber import Subscriber

if TYPE_CHECKING:
    from leveret.broker.vhost import VirtualHost
    from leveret.protocol.channel import Channel
    from leveret.protocol.session import Session

# What these cost in the budget of a pass.
CHANNEL_COST = 20
CONSUMER_COST = 5
QUEUE_COST = 20


class Departure(Task):
    """Ends these channels, and deletes these queues; `done` is called when all of it is done."""

    __slots__ = ("_channels", "_consumers", "_queues", "_requeue", "_unsubscribed_from", "_vhost")

    def __init__(
        self, vhost: "VirtualHost | None", channels: list["Channel"], queues: list[Queue], done: Callable[[], None]
    ) -> None:
        self._vhost = vhost
        self._channels = channels[::-1]
        self._queues = queues[::-1]
        self._requeue = Requeue([], done)
        # Those of the channel in hand that are still subscribed, and the queues of those that no longer are.
        self._consumers: list[Subscriber] | None = None
        self._unsubscribed_from: list[Queue] = []
        for channel in channels:
            channel.consumers.hold()

    def run(self, budget: Budget) -> bool:
        while self._channels:
            if not self._end(self._channels[-1], budget):
                return False
            self._channels.pop()
        while self._queues:
            if budget.left <= 0:
                return False
            queue = self._queues.pop()
            if not queue.deleted and self._vhost is not None:
                budget.left -= QUEUE_COST
                self._vhost.discard_queue(queue)
        return self._requeue.run(budget)

    def _end(self, channel: "Channel", budget: Budget) -> bool:
        if self._consumers is None:
            budget.left -= CHANNEL_COST
            self._consumers = channel.stop()[::-1]
        while self._consumers:
            if budget.left <= 0:
                return False
            consumer = self._consumers.pop()
            budget.left -= CONSUMER_COST
            unsubscribe(consumer.queue, consumer)
            self._unsubscribed_from.append(consumer.queue)
        self._requeue.add(channel.unacked.take_all(), self._unsubscribed_from)
        self._consumers = None
        self._unsubscribed_from = []
        return True


def end_channels(session: "Session", done: Callable[[], None]) -> Departure:
    """Have nothing more to do with a connection's channels and exclusive queues; the task that ends them."""
    vhost = None if session.on_shut is None else session.vhost
    departure = Departure(vhost, list(session.channels.values()), session.exclusive_queues, done)
    session.channels = {}
    session.confirming = []
    # It has to be read, if only for its close-ok.
    session.blocked = False
    session.exclusive_queues = []
    session.leave()
    return departure
