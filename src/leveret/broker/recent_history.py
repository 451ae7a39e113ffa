"""The recent history exchange: a fanout whose last messages are given to each new destination as well.

The history is a hidden queue that no message reaches as a destination: it is neither a reason not to return a message nor
one to pass the alternate exchange by. Times to live do not count there, but begin when a message is given on.
"""

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from leveret.broker.arguments import QueueSettings
from leveret.broker.binding import Binding
from leveret.broker.budget import Budget
from leveret.broker.dispatch import push
from leveret.broker.exchange import FanoutExchange
from leveret.broker.hidden_queue import make_hidden_queue, remove_hidden_queue
from leveret.broker.message import Entry, Message, is_stub, new_entry
from leveret.broker.queue import Queue
from leveret.broker.work import Task
from leveret.errors import PreconditionFailed
from leveret.terms import term
from leveret.wire.properties import Properties
from leveret.wire.values import Table, kind_of

if TYPE_CHECKING:
    from leveret.broker.binding import Destination
    from leveret.broker.vhost import VirtualHost

LENGTH = "x-recent-history-length"
NO_STORE = "x-recent-history-no-store"
LENGTH_DEFAULT = 20
# RabbitMQ: the unsigned ones are not taken.
INTEGERS = ("byte", "short", "signedint", "long")


class Replay(Task):
    """Gives a history to one new destination, oldest first, some at a time.

    What is only in storage is read first, not in the loop: `_fetched` says how many of the next ones have been. What is not
    in memory and leaves the history before it is read is not given any more.
    """

    __slots__ = ("_destination", "_entries", "_fetched", "_history", "_vhost")

    def __init__(self, vhost: "VirtualHost", history: Queue, destination: "Destination") -> None:
        self._vhost = vhost
        self._history = history
        self._destination = destination
        self._entries = deque(history.backlog.front.entries())
        self._fetched = 0

    def run(self, budget: Budget) -> bool:
        while self._entries and budget.left > 0:
            # It may have gone since the last piece.
            if self._destination.deleted:
                return True
            if self._fetched == 0 and is_in_storage(self._entries[0]):
                self._fetch()
                return True
            self._fetched = max(0, self._fetched - 1)
            message = self._entries.popleft().message
            budget.left -= 1
            # One that is a stub still has left the history, or is damaged.
            if not is_stub(message):
                self._give(message, budget.now)
        return not self._entries

    def _fetch(self) -> None:
        """Have the next ones read; it goes on then."""
        sizes = self._history.backlog.sizes
        stubs = []
        count = body_bytes = 0
        for entry in list(islice(self._entries, sizes.page_count)):
            # Copies have the content: in the history these stay stubs, or become some meanwhile.
            copy = new_entry(entry.message, entry.seq)
            copy.location = entry.location
            self._entries[count] = copy
            if is_in_storage(copy):
                stubs.append(copy)
            count += 1
            body_bytes += entry.message.body_size
            if body_bytes >= sizes.page_bytes:
                break

        def fetched() -> None:
            self._fetched = count
            self._history.work.add(self)

        self._history.storage.fetch_all(self._history, stubs, fetched)

    def _give(self, message: Message, now: int) -> None:
        if isinstance(self._destination, Queue):
            push(self._destination, message, now)
        else:
            self._vhost.publish(self._destination, message, now)


class RecentHistoryExchange(FanoutExchange):
    """To every destination, and once more to those that come later."""

    __slots__ = ("_history", "_vhost")

    _history: Queue
    _vhost: "VirtualHost"

    def __init__(self, name: str, title: str, kind: str, arguments: Table) -> None:
        FanoutExchange.__init__(self, name, title, kind, arguments)
        self.varies = True

    @staticmethod
    def check_arguments(arguments: Table) -> None:
        length = arguments.get(LENGTH, LENGTH_DEFAULT)
        if not isinstance(length, int) or kind_of(length) not in INTEGERS or length < 1:
            raise PreconditionFailed(f"Invalid argument {term(length)}, '{LENGTH}' must be a positive integer")

    def open(self, vhost: "VirtualHost") -> None:
        self._vhost = vhost
        self._history = make_hidden_queue(vhost, self.name, f"history of {self.title}")
        settings = QueueSettings()
        length = self.arguments.get(LENGTH, LENGTH_DEFAULT)
        assert isinstance(length, int)
        settings.max_length = int(length)
        settings.stay_of = for_ever
        self._history.apply(settings, vhost.now)

    def close(self) -> None:
        remove_hidden_queue(self._vhost, self._history)

    def keeper(self, properties: Properties | None) -> object:
        headers = (properties and properties.headers) or {}
        return None if headers.get(NO_STORE) is True else self._history

    def _add(self, binding: Binding) -> None:
        FanoutExchange._add(self, binding)
        if self._history.backlog.count:
            self._vhost.work.add(Replay(self._vhost, self._history, binding.destination))


def is_in_storage(entry: Entry) -> bool:
    """Whether a message has to be read."""
    return is_stub(entry.message) and entry.location != 0


def for_ever(message: Message) -> int:
    """History knows no time."""
    return -1
