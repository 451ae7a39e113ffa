"""What the model asks of durable storage, by whom it serves. `Storage` keeps nothing: the broker in memory.

  DefinitionStore   what is defined, told as it changes                            serves the broker and its vhosts
  MessageLog        messages that take places in durable queues, and groups        serves queues, confirms and answers
  Ledger            those that leave a durable queue again, or are given back      serves that queue
  Pager             content that is not in memory                                  serves backlogs and dead letters
  SyncBarrier       which messages nobody may have before they are on disk         serves queues with `deliver = "synced"`

What was said to a log is on disk once its `synced` has reached its `position` of that moment; in memory that is always so.
A queue has its own `storage`: a confirm waits for those of the queues that the message went to, and for no other.

Knows nothing of files; a real one overrides all of it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from leveret.broker.message import Entry, Message
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import Page, Sizes
from leveret.wire.content import PERSISTENT

if TYPE_CHECKING:
    from leveret.broker.queue import Queue

# Two for each place; a message in more queues is stored in pieces.
PLACED_MAX = 2000

# The flags of a stub in whose place there was a message that survives.
STORED = PERSISTENT


class Damaged(Exception):
    """A message cannot be had: what is read is not what was written."""


class Traffic:
    """What was read from files and written to them: how often, how many octets, in how many seconds.

    `change_count` are the transactions of definitions, `messages_read` and `messages_written` the messages in all that.
    """

    __slots__ = (
        "change_count",
        "messages_read",
        "messages_written",
        "read_bytes",
        "read_count",
        "read_s",
        "sync_count",
        "sync_s",
        "write_bytes",
        "write_count",
        "write_s",
    )

    def __init__(self) -> None:
        self.change_count = self.messages_read = self.messages_written = 0
        self.read_count = self.read_bytes = self.write_count = self.write_bytes = self.sync_count = 0
        self.read_s = self.write_s = self.sync_s = 0.0

    def add(self, other: "Traffic") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Settler(Protocol):
    """Hears of stored messages that are gone."""

    def settle(self, entry: Entry) -> None: ...


class Ledger(Settler, Protocol):
    """What storage keeps of one durable queue.

    `live_count` messages with `live_bytes` of bodies are stored and not settled; `written_count` were stored since the
    start. `locations` gives places free without a word of it: a purge has said so of all.
    """

    @property
    def queue_id(self) -> int: ...
    @property
    def live_count(self) -> int: ...
    @property
    def live_bytes(self) -> int: ...
    @property
    def written_count(self) -> int: ...
    @property
    def locations(self) -> Settler: ...

    def settle_octets(self, page: OpenPage, first: int) -> None:
        """The messages of a page from `first` to where it is now are gone."""

    def requeue(self, entry: Entry) -> None:
        """A stored message was given back."""

    def purge(self, last: int) -> None:
        """Everything up to this seq is gone."""

    def moved(self) -> None:
        """A message goes where dead letters go; that and its settlement count together."""


class SyncBarrier(Protocol):
    """Which messages of one queue are not on disk yet."""

    def note(self, seq: int) -> None:
        """This message is about to be."""

    def blocks(self, seq: int) -> bool: ...


class DefinitionStore(Protocol):
    """Where definitions are kept, by kind, vhost and name."""

    def put(self, kind: str, vhost: str, name: str, value: dict[str, Any]) -> None: ...
    def remove(self, kind: str, vhost: str, name: str) -> None: ...
    def remove_vhost(self, vhost: str) -> None: ...
    def add_queue(self, queue: "Queue", vhost: str, kind: str, value: dict[str, Any]) -> None: ...
    def remove_queue(self, queue: "Queue", vhost: str, kind: str) -> None: ...
    def has_removed(self, queue: "Queue") -> bool: ...


class MessageLog(Protocol):
    """Where messages are durable."""

    synced: int

    def position(self) -> int: ...
    def place(self, message: Message, queue: "Queue", entry: Entry) -> None: ...
    def write_places(self) -> None: ...
    def begin_group(self) -> int: ...
    def set_group(self, group: int) -> None: ...
    def commit(self, group: int) -> None: ...
    def abort(self, group: int) -> None: ...
    def has_open_groups(self) -> bool: ...


class Pager(Protocol):
    """Where the content of messages is that is not in memory."""

    sizes: Sizes
    can_page: bool

    def page_out(self, queue: "Queue") -> None: ...
    def page_out_all(self, queue: "Queue") -> None: ...
    def load(self, queue: "Queue", page: Page) -> None: ...
    def evict(self, queue: "Queue", entries: list[Entry]) -> None: ...
    def load_stubs(self, queue: "Queue", entries: list[Entry]) -> None: ...
    def fetch(self, entry: Entry) -> Message: ...
    def fetch_all(self, queue: "Queue", stubs: list[Entry], done: Callable[[], None]) -> None: ...
    def stub(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> Entry: ...
    def lose(self, queue: "Queue", location: int, body_size: int) -> None: ...
    def release(self, entry: Entry) -> None: ...
    def release_octets(self, page: OpenPage, first: int) -> None: ...
    def forget(self, page: Page, settler: Settler | None) -> None: ...
    def forget_entry(self, entry: Entry, settler: Settler | None) -> None: ...


class Log:
    """Where messages are written: compiled, a call for each of them, so it is asked for directly and not through a store."""

    __slots__ = ()

    def append(self, message: Message, placed: list[Any]) -> None:
        """A message took places: queue, entry, queue, entry…"""
        raise NotImplementedError

    def forget(self, entry: Entry) -> None:
        """What was kept of this one is of no use any more."""
        raise NotImplementedError


class Storage:
    """Nothing survives. `_placing` is the message that took places in durable queues last, and `_placed` are they.

    `log` is where those are written, `spill` where all others are that are not in memory.
    """

    __slots__ = ("_log", "_placed", "_placing", "_spill", "can_page", "damaged_count", "sizes", "synced")

    def __init__(self, sizes: Sizes | None = None, log: Log | None = None, spill: Log | None = None) -> None:
        self.synced = 0
        self.sizes = sizes or Sizes()
        # Messages that could not be had when they were wanted again.
        self.damaged_count = 0
        # Whether queues may page out what is beyond their window.
        self.can_page = False
        self._log = log
        self._spill = spill
        self._placing: Message | None = None
        self._placed: list[Any] = []

    # A message log

    def position(self) -> int:
        """What `synced` must reach for everything said so far to be on disk; writes the places taken so far."""
        return 0

    def place(self, message: Message, queue: "Queue", entry: Entry) -> None:
        """A message took a place that must be stored; it is written with all its places when another one comes."""
        if self._placing is not message or len(self._placed) >= PLACED_MAX:
            self.write_places()
            self._placing = message
        self._placed.append(queue)
        self._placed.append(entry)

    def write_places(self) -> None:
        """Write the places taken so far."""
        if self._placing is not None:
            if self._log is not None:
                self._log.append(self._placing, self._placed)
            self._placing = None
            self._placed = []

    # A pager

    def page_out(self, queue: "Queue") -> None:
        """Keep the content of a queue's oldest messages in `back`, and make them a page."""

    def page_out_all(self, queue: "Queue") -> None:
        """Do that with all that is ready, but for what was taken before, or one message."""

    def load(self, queue: "Queue", page: Page) -> None:
        """Bring back what was paged out; `queue.loaded` is called with it, later."""

    def evict(self, queue: "Queue", entries: list[Entry]) -> None:
        """Keep the content of messages, and leave stubs."""

    def load_stubs(self, queue: "Queue", entries: list[Entry]) -> None:
        """Bring the content of stubs back; `queue.filled` is called with it, later."""

    def fetch(self, entry: Entry) -> Message:
        """The message of a stub, at once."""
        return entry.message

    def fetch_all(self, queue: "Queue", stubs: list[Entry], done: Callable[[], None]) -> None:
        """Have the messages of stubs read that have left their queue, or of copies; `done` is called, later.

        What is damaged stays a stub.
        """

    def is_fetching(self) -> bool:
        """Whether something is being read for `fetch_all`."""
        return False

    def stub(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> Entry:
        """The entry of a message that is paged out, without its content."""
        raise NotImplementedError

    def lose(self, queue: "Queue", location: int, body_size: int) -> None:
        """The message of a queue that was kept there is damaged and belongs to it no more."""

    def release(self, entry: Entry) -> None:
        """What was kept of an entry that no ledger knows is of no use any more."""
        if self._spill is not None:
            self._spill.forget(entry)

    def release_octets(self, page: OpenPage, first: int) -> None:
        """The same of the messages of a page from `first` to where it is now."""

    def peek(self, queue: "Queue", page: Page, done: Callable[[list[Entry] | None], None]) -> None:
        """Read what is paged out and leave it there; `done` gets it, later, or None if it has gone meanwhile."""

    def forget(self, page: Page, settler: Settler | None) -> None:
        """Messages that are paged out are gone."""

    def forget_entry(self, entry: Entry, settler: Settler | None) -> None:
        """A message that was ready is gone; `settler` is told if it is in the journal."""

    # A store of definitions

    def put(self, kind: str, vhost: str, name: str, value: dict[str, Any]) -> None:
        """Something was defined, or is defined anew."""

    def remove(self, kind: str, vhost: str, name: str) -> None:
        """Something is defined no more."""

    def remove_vhost(self, vhost: str) -> None:
        """Nothing in a vhost is defined any more."""

    def add_queue(self, queue: "Queue", vhost: str, kind: str, value: dict[str, Any]) -> None:
        """A durable queue was made: give it its ledger, and keep what defines it."""

    def remove_queue(self, queue: "Queue", vhost: str, kind: str) -> None:
        """A durable queue is gone: forget what defines it, once all that it has dropped is where dead letters go."""

    def has_removed(self, queue: "Queue") -> bool:
        """Whether that is done."""
        return True

    def has_open_groups(self) -> bool:
        """Whether something is being said that is to count as a whole, and does not yet."""
        return False

    # The end of a turn, and of everything

    def fail(self, error: BaseException) -> None:
        """Something in storage went wrong: nothing may be promised any more."""

    def traffic(self) -> Traffic:
        """What has gone to files and come from them since the start."""
        return Traffic()

    def unsynced_size(self) -> int:
        """About how many bytes were said and are not on disk yet."""
        return 0

    def flush(self, at_once: bool = False) -> None:
        """A turn is over: what was said may be written; `at_once` says that the one client there is waits for it."""

    def tidy(self, space_is_low: bool) -> None:
        """Nothing much happens: give space free that is of no use, and more if little is left on the disk."""

    def begin_group(self) -> int:
        """A number for what is to count as a whole."""
        return 0

    def set_group(self, group: int) -> None:
        """What is said from now on belongs to this group; 0 to none."""

    def commit(self, group: int) -> None:
        """The group is complete and counts."""

    def abort(self, group: int) -> None:
        """The group will never be complete."""
