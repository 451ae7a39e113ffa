"""The recent history exchange: a fanout whose last messages are given to each new destination as well.

The history is a hidden queue that no message reaches as a destination: it is neither a reason not to return a message nor
one to pass the alternate exchange by. Times to live do not count there, but begin when a message is given on.
"""

from typing import TYPE_CHECKING

from leveret.broker.arguments import QueueSettings
from leveret.broker.binding import Binding
from leveret.broker.budget import Budget
from leveret.broker.dispatch import push
from leveret.broker.exchange import FanoutExchange
from leveret.broker.hidden_queue import make_hidden_queue
from leveret.broker.message import Message
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
    """Gives a history to one new destination, oldest first, some at a time."""

    __slots__ = ("_at", "_destination", "_messages", "_vhost")

    def __init__(self, vhost: "VirtualHost", messages: list[Message], destination: "Destination") -> None:
        self._vhost = vhost
        self._messages = messages
        self._destination = destination
        self._at = 0

    def run(self, budget: Budget) -> bool:
        while self._at < len(self._messages) and budget.left > 0:
            # It may have gone since the last piece.
            if self._destination.deleted:
                return True
            self._give(self._messages[self._at], budget.now)
            self._at += 1
            budget.left -= 1
        return self._at == len(self._messages)

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
        self._history.delete()

    def keeper(self, properties: Properties | None) -> object:
        headers = (properties and properties.headers) or {}
        return None if headers.get(NO_STORE) is True else self._history

    def _add(self, binding: Binding) -> None:
        FanoutExchange._add(self, binding)
        messages = [entry.message for entry in self._history.backlog.front.entries()]
        if messages:
            self._vhost.work.add(Replay(self._vhost, messages, binding.destination))


def for_ever(message: Message) -> int:
    """History knows no time."""
    return -1
