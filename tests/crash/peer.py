"""A client that notes in the books what it sends and what it is told.

A `Channel` is one opening of a channel: a confirm is for what was published on it since, and for nothing else, whatever its
number was used for before.
"""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.crash.books import Books, Copy, body_of
from tests.properties.dialogue import Frame, method, publish
from tests.server.support import Client, Event

from leveret.wire import spec
from leveret.wire.properties import Properties

T = TypeVar("T", bound=spec.Method)
COUNT_MAX = 1 << 31


class Stopped(Exception):
    """The broker has said that it ends."""


@dataclass(slots=True, eq=False)
class Channel:
    """A channel from its opening to its end."""

    peer: "Peer"
    number: int
    published: int = 0
    unconfirmed: dict[int, list[Copy]] = field(default_factory=dict)
    # What was delivered and is not settled, by delivery tag.
    held: dict[int, Copy] = field(default_factory=dict)
    # What was settled for good, and how much had been published then.
    settled: list[tuple[int, Copy]] = field(default_factory=list)

    @property
    def books(self) -> Books:
        return self.peer.books

    # Requests

    def call(self, request: spec.Method, reply: type[T]) -> T:
        self.send(method(self.number, request))
        return self.expect(reply)

    def expect(self, reply: type[T]) -> T:
        """Wait for an answer; confirms and deliveries that come before are noted."""
        found = self.peer.answer()
        assert found.channel == self.number, found
        assert isinstance(found.method, reply), found.method
        return found.method

    def send(self, *frames: Frame) -> None:
        self.peer.send(*frames)

    def declare(self, queue: str, **options: Any) -> int:
        """Declare a queue; how many messages are ready."""
        found = self.call(spec.QueueDeclare(queue, **options), spec.QueueDeclareOk)
        assert found.message_count < COUNT_MAX, f"{queue}: a negative count"
        return found.message_count

    def close(self) -> None:
        """Close it; what was not confirmed by then never is."""
        self.call(spec.ChannelClose(200, "enough"), spec.ChannelCloseOk)
        del self.peer.channels[self.number]

    # Publishing

    def publish(self, copies: list[Copy], exchange: str = "", key: str = "", expiration: str | None = None) -> list[Frame]:
        """The frames of one message, noted as sent."""
        first = copies[0]
        self.published += 1
        self.unconfirmed[self.published] = copies
        mode = 1 if first.transient else 2
        properties = Properties(delivery_mode=mode, message_id=first.id, expiration=expiration)
        return publish(self.number, key, body_of(first.id), properties, exchange)

    def on_confirm(self, tag: int, multiple: bool) -> None:
        assert tag <= self.published, f"a confirm for number {tag}, and {self.published} were published since the opening"
        shown = 0
        for number, copies in self._take_unconfirmed(tag, multiple).items():
            for copy in copies:
                copy.confirmed = True
            # A transient one is confirmed without the disk, and says nothing of what was settled before.
            if not copies[0].transient:
                shown = max(shown, number)
        for _, copy in [one for one in self.settled if one[0] < shown]:
            copy.gone = True
        self.settled = [one for one in self.settled if one[0] >= shown]

    def on_refused(self, tag: int, multiple: bool) -> None:
        self._take_unconfirmed(tag, multiple)

    def _take_unconfirmed(self, tag: int, multiple: bool) -> dict[int, list[Copy]]:
        tags = [one for one in self.unconfirmed if one <= tag] if multiple else [tag]
        assert tag in self.unconfirmed, f"a second confirm for number {tag}"
        return {one: self.unconfirmed.pop(one) for one in tags}

    def wait_for_confirms(self, outstanding: int = 0) -> None:
        """Read until no more than so many are outstanding."""
        while len(self.unconfirmed) > outstanding:
            self.peer.step()

    # Consuming

    def consume(self, queue: str, prefetch: int) -> None:
        self.call(spec.BasicQos(prefetch_count=prefetch), spec.BasicQosOk)
        self.call(spec.BasicConsume(queue, queue), spec.BasicConsumeOk)

    def get(self, queue: str, count: int, no_ack: bool = False) -> list[int]:
        """Ask for messages in one write; the tags of those that were there."""
        # Any of them may be the one that is sent and never read.
        doubted = self.books.by_queue[queue].begin_emptying() if no_ack else []
        self.send(*[method(self.number, spec.BasicGet(queue, no_ack=no_ack)) for _ in range(count)])
        tags = []
        for _ in range(count):
            found = self.peer.answer()
            if isinstance(found.method, spec.BasicGetEmpty):
                continue
            assert isinstance(found.method, spec.BasicGetOk), found.method
            self.hold(queue, found, found.method.delivery_tag, found.method.redelivered)
            self.held[found.method.delivery_tag].may_go = no_ack
            tags.append(found.method.delivery_tag)
        if no_ack:
            taken = [self.held.pop(tag) for tag in tags]
            self.settled += [(self.published, copy) for copy in taken]
            self.books.by_queue[queue].end_emptying(set(doubted) - set(taken))
        return tags

    def hold(self, queue: str, event: Event, tag: int, redelivered: bool) -> None:
        self.held[tag] = self.books.take(queue, event.message_id, event.body, redelivered)

    def ack(self, tag: int, multiple: bool = False) -> Frame:
        """The acknowledgement of what was delivered, noted as sent."""
        tags = [one for one in self.held if one <= tag] if multiple else [tag]
        for one in tags:
            copy = self.held.pop(one)
            copy.may_go = True
            self.settled.append((self.published, copy))
        return method(self.number, spec.BasicAck(tag, multiple))

    def requeue(self, tag: int) -> Frame:
        del self.held[tag]
        return method(self.number, spec.BasicNack(tag, requeue=True))

    def reject(self, tag: int) -> Frame:
        """The rejection of what was delivered, noted as sent: it becomes a dead letter."""
        self.held.pop(tag).reject()
        return method(self.number, spec.BasicReject(tag, requeue=False))


class Peer(Client):
    """Channels on a connection; `told` gets what the broker refuses, and what it says when it ends."""

    def __init__(self, port: int, books: Books, told: list[spec.Method] | None = None) -> None:
        super().__init__(port)
        self.books = books
        self.told = [] if told is None else told
        self.channels: dict[int, Channel] = {}

    def channel(self, number: int = 2, confirms: bool = True) -> Channel:
        """Open a channel; 1 is the login's."""
        found = self.channels[number] = Channel(self, number)
        found.call(spec.ChannelOpen(), spec.ChannelOpenOk)
        if confirms:
            found.call(spec.ConfirmSelect(), spec.ConfirmSelectOk)
        return found

    def end(self) -> None:
        """Close the connection in order: what it held is back in its queues then."""
        self.send(method(0, spec.ConnectionClose(200, "enough")))
        while not isinstance(super().read(), spec.ConnectionCloseOk):
            pass

    def step(self) -> Event | None:
        """Read one event; what is a confirm, a delivery or the end is noted, what is an answer is returned."""
        found = self.event()
        what = found.method
        if isinstance(what, spec.ConnectionClose):
            self.told.append(what)
            self.send(method(0, spec.ConnectionCloseOk()))
            raise Stopped(what)
        if isinstance(what, spec.BasicAck | spec.BasicNack | spec.BasicDeliver):
            assert found.channel in self.channels, f"{what} on a channel that is not open"
        if isinstance(what, spec.BasicAck):
            self.channels[found.channel].on_confirm(what.delivery_tag, what.multiple)
        elif isinstance(what, spec.BasicNack):
            self.told.append(what)
            self.channels[found.channel].on_refused(what.delivery_tag, what.multiple)
        elif isinstance(what, spec.BasicDeliver):
            # A consumer's tag is its queue's name.
            self.channels[found.channel].hold(what.consumer_tag, found, what.delivery_tag, what.redelivered)
        else:
            return found
        return None

    def answer(self) -> Event:
        """Read until something comes that is an answer."""
        while True:
            found = self.step()
            if found is not None:
                return found
