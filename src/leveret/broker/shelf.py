"""The shelf: messages of which only the place is in memory, their content in storage.

Where messages go in the order they came, what is beyond the window is paged out, place and all (`pages.py`). Where they do
not, as with priorities, deduplication and delays, or where somebody gave them back, the place stays in the queue's chain
and its message is a stub: what has come to the front is brought back, some at a time.
"""

from typing import TYPE_CHECKING

from leveret.broker.deduplication import key_of
from leveret.broker.message import Entry, is_stub

if TYPE_CHECKING:
    from leveret.broker.queue import Queue

# One message may stay in memory where all others leave it, but not one as large as that.
LARGE_BYTES = 4096


class Shelf:
    """What of one queue goes there next, a page at a time."""

    __slots__ = ("_going", "_going_bytes")

    def __init__(self) -> None:
        self._going: list[Entry] = []
        self._going_bytes = 0

    def add(self, queue: "Queue", entry: Entry) -> None:
        """A message beyond the window has come."""
        sizes = queue.sizes
        self._going.append(entry)
        self._going_bytes += entry.message.body_size
        if len(self._going) > sizes.page_count or self._going_bytes > sizes.page_bytes:
            # Not this one: it has still to be looked at.
            going = self._going[:-1]
            self._going = [entry]
            self._going_bytes = entry.message.body_size
            put(queue, going)


def put(queue: "Queue", entries: list[Entry]) -> None:
    """Leave only the places of those that are ready in memory."""
    ready = [entry for entry in entries if entry.waiting and not is_stub(entry.message)]
    for entry in ready:
        if queue.deduplication is not None:
            queue.deduplication.note(entry.seq, key_of(entry.message))
        queue.shelved_bytes += entry.message.body_size
    queue.work.storage.strip(queue, ready)


def put_rest(queue: "Queue", entries: list[Entry]) -> None:
    """All others are paged out; a single small one may stay."""
    if len(entries) > 1 or (entries and entries[0].message.body_size >= LARGE_BYTES):
        put(queue, entries)
