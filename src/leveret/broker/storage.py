"""What the model asks of durable storage. This one keeps nothing: the broker in memory.

Definitions are told as they change, messages as they take places in durable queues and leave them. What was said is on
disk once `synced` has reached the `position` of that moment; here that is always so.

Knows nothing of files; a real one overrides all of it.
"""

from collections.abc import Callable
from typing import Any

from leveret.broker.message import Entry, Message
from leveret.broker.pages import Page, Sizes
from leveret.wire.content import PERSISTENT

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


class Storage:
    """Nothing survives."""

    __slots__ = ("damaged_count", "pages", "sizes", "synced")

    def __init__(self, sizes: Sizes | None = None) -> None:
        self.synced = 0
        self.sizes = sizes or Sizes()
        # Messages that could not be had when they were wanted again.
        self.damaged_count = 0
        # Whether queues may page out what is beyond their window.
        self.pages = False

    def position(self) -> int:
        """What `synced` must reach for everything said so far to be on disk."""
        return 0

    def append(self, message: Message, placed: list[Any]) -> None:
        """A message took places: queue, entry, queue, entry…"""

    def page_out(self, queue: Any) -> None:
        """Keep the content of a queue's oldest messages in `back`, and make them a page."""

    def page_out_all(self, queue: Any) -> None:
        """Do that with all that is ready, but for what was taken before, or one message."""

    def load(self, queue: Any, page: Page) -> None:
        """Bring back what was paged out; `queue.loaded` is called with it, later."""

    def evict(self, queue: Any, entries: list[Entry]) -> None:
        """Keep the content of messages, and leave stubs."""

    def load_stubs(self, queue: Any, entries: list[Entry]) -> None:
        """Bring the content of stubs back; `queue.filled` is called with it, later."""

    def fetch(self, entry: Entry) -> Message:
        """The message of a stub, at once."""
        return entry.message

    def fetch_all(self, queue: Any, stubs: list[Entry], done: Callable[[], None]) -> None:
        """Have the messages of stubs read that have left their queue; `done` is called, later. What is damaged stays one."""

    def is_fetching(self) -> bool:
        """Whether something is being read for `fetch_all`."""
        return False

    def stub(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> Entry:
        """The entry of a message that is paged out, without its content."""
        raise NotImplementedError

    def lose(self, queue: Any, location: int, body_size: int) -> None:
        """The message of a queue that was kept there is damaged and belongs to it no more."""

    def release(self, entry: Entry) -> None:
        """What was kept of an entry that no ledger knows is of no use any more."""

    def peek(self, queue: Any, page: Page, done: Callable[[list[Entry] | None], None]) -> None:
        """Read what is paged out and leave it there; `done` gets it, later, or None if it has gone meanwhile."""

    def forget(self, page: Page, ledger: Any) -> None:
        """Messages that are paged out are gone."""

    def forget_entry(self, entry: Entry, ledger: Any) -> None:
        """A message that was ready is gone; `ledger` is told if it is in the journal."""

    def put(self, kind: str, vhost: str, name: str, value: dict[str, Any]) -> None:
        """Something was defined, or is defined anew."""

    def remove(self, kind: str, vhost: str, name: str) -> None:
        """Something is defined no more."""

    def remove_vhost(self, vhost: str) -> None:
        """Nothing in a vhost is defined any more."""

    def adopt(self, queue: Any, vhost: str, kind: str, value: dict[str, Any]) -> None:
        """A durable queue was made: give it its ledger."""

    def abandon(self, queue: Any, vhost: str, kind: str) -> None:
        """A durable queue is gone."""

    def has_left(self, queue: Any) -> bool:
        """Whether that has been said; not before all that it has dropped is where dead letters go."""
        return True

    def has_open_groups(self) -> bool:
        """Whether something is being said that is to count as a whole, and does not yet."""
        return False

    def fail(self, error: BaseException) -> None:
        """Something in storage went wrong: nothing may be promised any more."""

    def traffic(self) -> Traffic:
        """What has gone to files and come from them since the start."""
        return Traffic()

    def unsynced_size(self) -> int:
        """About how many bytes were said and are not on disk yet."""
        return 0

    def flush(self) -> None:
        """A turn is over: what was said may be written."""

    def tidy(self, short: bool) -> None:
        """Nothing much happens: free space that is of no use; `short` says that there is little of it."""

    def begin_group(self) -> int:
        """A number for what is to count as a whole."""
        return 0

    def enter(self, group: int) -> None:
        """What is said from now on belongs to this group; 0 to none."""

    def commit(self, group: int) -> None:
        """The group is complete and counts."""

    def abort(self, group: int) -> None:
        """The group will never be complete."""
