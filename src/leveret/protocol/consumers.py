"""The consumers of a channel: which there are, the window they share, and who is told of their end.

Those that share a limited window take turns: whoever goes on first when there is room in it is another one each time.
"""

from functools import partial
from typing import TYPE_CHECKING

from leveret.broker.consumer import Window
from leveret.broker.dispatch import cancel, dispatch
from leveret.protocol.session import Session
from leveret.protocol.subscriber import Subscriber
from leveret.protocol.trace import trace_delivery
from leveret.wire.spec import BasicCancel, Method

if TYPE_CHECKING:
    from collections.abc import Callable

    from leveret.broker.message import Message
    from leveret.protocol.channel import Channel


class Consumers:
    """The consumers of one channel, by their tags.

    `prefetch` is the window of those that are started from now on, `channel_window` the one that all share. `for_replies` is
    not one of the others: RabbitMQ lets one of those have its tag. `held_cancels` is what is said of those that were
    cancelled, when an answer that goes first has gone; None if nothing has to wait.
    """

    __slots__ = ("_number", "_session", "_turn", "by_tag", "channel_window", "for_replies", "held_cancels", "prefetch")

    def __init__(self, number: int, session: Session) -> None:
        self._number = number
        self._session = session
        self._turn = 0
        self.by_tag: dict[str, Subscriber] = {}
        self.for_replies: Subscriber | None = None
        self.held_cancels: list[Method] | None = None
        self.prefetch = Window()
        self.channel_window = Window()

    def __len__(self) -> int:
        return len(self.by_tag)

    def everyone(self) -> list[Subscriber]:
        """All of them, the one for replies too."""
        consumers = list(self.by_tag.values())
        if self.for_replies is not None:
            consumers.append(self.for_replies)
        return consumers

    def resume(self) -> None:
        """Count in again every consumer that may have room, beginning with another one each time."""
        consumers = self.everyone()
        if not consumers:
            return
        self._turn += 1
        first = self._turn % len(consumers)
        waiting = [consumer for consumer in consumers[first:] + consumers[:first] if not consumer.active]
        for consumer in waiting:
            consumer.queue.rotation.activate(consumer)
        for consumer in waiting:
            dispatch(consumer.queue)

    def hold(self) -> None:
        """Give them nothing more: there is no room in the window that they share.

        That window is looked at before each delivery anyway; a flag would have to be, too.
        """
        self.channel_window.count_limit = 1
        self.channel_window.count += 1

    def recheck(self, channel: "Channel") -> None:
        """Rights, or whether the vhost is traced, have changed."""
        for consumer in self.everyone():
            queue = consumer.queue
            consumer.trace = tracer(channel)
            if consumer is not self.for_replies and not self._session.rights.allows("read", queue.name):
                cancel(queue, consumer)
                self.on_cancelled(consumer)

    def on_cancelled(self, consumer: Subscriber) -> None:
        """A consumer's queue is gone, or the right to read it."""
        if self.by_tag.get(consumer.tag) is not consumer:
            # It was cancelled, or its channel closed, before this could be said.
            return
        del self.by_tag[consumer.tag]
        if not self._session.capable("consumer_cancel_notify"):
            return
        told = BasicCancel(consumer.tag, no_wait=True)
        if self.held_cancels is not None:
            self.held_cancels.append(told)
        else:
            self._session.output.write_method(self._number, told)

    def answer_before_cancels(self, answer: Method | None) -> None:
        """Answer, and then tell of those that were cancelled since `held_cancels` was set."""
        output = self._session.output
        if answer is not None:
            output.write_method(self._number, answer)
        for told in self.held_cancels or ():
            output.write_method(self._number, told)
        self.held_cancels = None
        output.wake()

    def take_all(self) -> list[Subscriber]:
        """Remove and return all but the one for replies: the channel ends, and they must be unsubscribed."""
        consumers = list(self.by_tag.values())
        self.by_tag = {}
        return consumers


def tracer(channel: "Channel") -> "Callable[[Message, str, bool], None] | None":
    """What a delivery is shown to; None if the vhost is not traced."""
    return partial(trace_delivery, channel) if channel.vhost.tracing else None
