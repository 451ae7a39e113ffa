"""What a queue has ready, and how much of it is in memory.

  [front, in memory] [opened, octets in memory] [pages, in storage] [back, in memory until it makes a page]

What is beyond the window is paged out, entry and all, where messages go in the order they came (`pages.py`). Where they do
not, as with priorities, deduplication and delays, or where somebody gave them back, the entry stays in the front and its
message is a stub: one whose content is in storage alone. Out, whole pages are paged out and single messages evicted; back,
pages are loaded and stubs filled. Knows nothing of consumers, limits or times to live.

  (1) Unless it is `paged`, everything is in the front. While it is, every seq in the front is below every seq in the
      pages, and those are below every seq in the back, which begins with `back_seq`.
      What is `opened` stands between front and pages: pages that were read, of which no entries were made yet
      (`open_page.py`). Whoever needs entries calls `unfold`.
  (2) At most one thing is `loading`: a page, which is then in no other place, or some stubs of the front.
  (3) Nothing is paged out while it fits what the broker lends (`SharedWindow`) to queues that have consumers: `granted`
      octets, by `memory_of`. They are given back when it fits half the window again.
  (4) A persistent message of a durable queue is in the log before it comes here: what has no place there when it is paged
      out would be lost with the process.

The queue is handed in where storage may be asked: storage needs to know whose messages these are.
"""

from typing import TYPE_CHECKING

from leveret.broker.chain import Chain, chain_for
from leveret.broker.deduplication import key_of
from leveret.broker.message import Entry, is_stub
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import Page, Pages, Sizes

if TYPE_CHECKING:
    from leveret.broker.arguments import QueueSettings
    from leveret.broker.queue import Queue

# One message may stay in memory where all others leave it, but not one as large as that.
LARGE_BYTES = 4096
# About what a ready message takes in memory besides its body.
ENTRY_BYTES = 400


class Backlog:
    """The ready messages of one queue: `count` of them, with `body_bytes` in their bodies, `stub_bytes` of that in stubs.

    It also takes the content of unacknowledged messages out of memory when there are many (`evict_unacked`).
    """

    __slots__ = (
        "_can_page",
        "_evictable_ready",
        "_evictable_ready_bytes",
        "_evictable_unacked",
        "back",
        "back_bytes",
        "back_count",
        "back_seq",
        "body_bytes",
        "count",
        "front",
        "granted",
        "loading",
        "opened",
        "paged",
        "pages",
        "sizes",
        "stub_bytes",
    )

    def __init__(self, sizes: Sizes, can_page: bool = True) -> None:
        self.sizes = sizes
        # Whether there is a storage for what is beyond the window; if not, all of it stays.
        self._can_page = can_page
        self.count = 0
        self.body_bytes = 0
        self.stub_bytes = 0
        self.front = Chain()
        self.opened: list[OpenPage] = []
        self.paged = False
        self.pages = Pages(sizes)
        self.back: Chain | None = None
        self.back_count = 0
        self.back_bytes = 0
        self.back_seq = 0
        self.loading: Page | list[Entry] | None = None
        # What the shared window has lent it.
        self.granted = 0
        # Messages beyond the window that become stubs when there is a page of them: those that are unacknowledged, and those
        # that are ready.
        self._evictable_unacked: list[Entry] | None = None
        self._evictable_ready: list[Entry] | None = None
        self._evictable_ready_bytes = 0

    def suit(self, settings: "QueueSettings") -> None:
        """Order messages as such a queue does: by priority, or as they came. Only an empty backlog can change that."""
        self.front = chain_for(self.front, settings)

    # Coming and going

    def add(self, queue: "Queue", entry: Entry) -> None:
        """A message has come."""
        if self.paged:
            self._add_behind(queue, entry)
        else:
            self.front.append(entry)
        self.count += 1
        self.body_bytes += entry.message.body_size
        if self._can_page and not self.paged and self._exceeds_window():
            self._overflow(queue, entry)

    def bring(self, queue: "Queue") -> Entry | None:
        """The first message if it can be had at once; else None, and reading it has begun."""
        if self.opened:
            self.unfold()
        entry = self.front.first()
        if entry is None and self.paged and self.loading is None:
            self.load(queue)
            entry = self.front.first()
        if entry is None or not is_stub(entry.message):
            return entry
        if self.loading is None:
            stubs = self.front.stubs(self.sizes.page_count, self.sizes.page_bytes)
            self.loading = stubs
            queue.storage.load_stubs(queue, stubs)
        return None

    def remove_first(self, queue: "Queue", entry: Entry) -> None:
        """Remove the first message of the front."""
        self.count -= 1
        self.body_bytes -= entry.message.body_size
        self.front.remove(entry)
        if self.granted != 0 or self.paged:
            self._shrunk(queue)

    def _shrunk(self, queue: "Queue") -> None:
        """The first message has gone, and some were beyond the window."""
        if self.granted != 0 and self._is_calm():
            self.give_back_memory()
        if self.paged and self.loading is None and self._is_low():
            self.load(queue)

    def head(self) -> Entry | None:
        """The first message as far as it is known without bringing it; for looking only."""
        entry = self.front.first()
        return self.opened[0].first() if entry is None and self.opened else entry

    def unfold(self) -> None:
        """Make entries of what was read and is octets still."""
        opened, self.opened = self.opened, []
        for page in opened:
            for entry in page.entries():
                self.front.append(entry)

    def remove_octets(self, queue: "Queue", page: OpenPage, start: int) -> None:
        """The messages of the first opened page from `start` to where it is now have gone."""
        self.count -= page.at - start
        for index in range(start, page.at):
            self.body_bytes -= page.body_size(index)
        if page.at == page.count:
            self.opened.pop(0)
        self._shrunk(queue)

    def remove(self, queue: "Queue", entry: Entry) -> None:
        """Remove a message, wherever it is in memory."""
        if is_stub(entry.message):
            self.stub_bytes -= entry.message.body_size
        if entry is self.front.first():
            self.remove_first(queue, entry)
            return
        self.count -= 1
        self.body_bytes -= entry.message.body_size
        chain = self.front
        if self.paged and entry.seq >= self.back_seq:
            assert self.back is not None
            chain = self.back
            self.back_count -= 1
            self.back_bytes -= entry.message.body_size
        chain.forget(entry, self.count)

    def remove_paged(self, queue: "Queue", seq: int) -> Entry:
        """Remove a message that is paged out; a stub of it."""
        entry = queue.storage.stub(*self.pages.remove(seq))
        self.count -= 1
        self.body_bytes -= entry.message.body_size
        return entry

    def put_back(self, entries: list[Entry]) -> None:
        """Put messages back that were taken, where they were."""
        for entry in entries:
            size = entry.message.body_size
            self.count += 1
            self.body_bytes += size
            if is_stub(entry.message):
                self.stub_bytes += size
        self.front.put_back(entries)

    def clear(self) -> tuple[list[Entry], list[Page]]:
        """Empty it; the heads of the chains, and the pages, that have to be taken apart."""
        self.unfold()
        heads = self.front.detach()
        if self.back is not None:
            heads += self.back.detach()
        pages = self.pages.take_all()
        if isinstance(self.loading, Page):
            pages.append(self.loading)
        self.count = 0
        self.body_bytes = 0
        self.stub_bytes = 0
        self.back_count = 0
        self.back_bytes = 0
        self._evictable_ready = None
        self.paged = False
        self.loading = None
        self.give_back_memory()
        return heads, pages

    # Beyond the window

    def _exceeds_window(self) -> bool:
        return self.count > self.sizes.window_count or self.body_bytes > self.sizes.window_bytes

    def _held_bytes(self) -> int:
        """About how much memory all that is not in pages takes."""
        return memory_of(self.count - self.pages.count, self.body_bytes - self.pages.body_bytes - self.stub_bytes)

    def _borrow_memory(self, queue: "Queue") -> bool:
        """Take from the shared window what is missing for what it has in memory; False if that does not lend as much."""
        held = self._held_bytes()
        if held <= self.granted:
            return True
        # Without consumers nobody is about to take it: the disk is the place for it.
        if not queue.rotation.everyone:
            return False
        self.granted += self.sizes.shared.grant(held - self.granted, self.granted)
        return held <= self.granted

    def _is_calm(self) -> bool:
        """Whether what is in memory would fit half the window."""
        if self.count - self.pages.count > self.sizes.window_count // 2:
            return False
        return self.body_bytes - self.pages.body_bytes - self.stub_bytes <= self.sizes.window_bytes // 2

    def give_back_memory(self, kept: int = 0) -> None:
        """Give back what the shared window has lent, but for so much."""
        if self.granted > kept:
            self.sizes.shared.give_back(self.granted - kept)
            self.granted = kept

    def _overflow(self, queue: "Queue", entry: Entry) -> None:
        """There is more than the window, and nothing is paged out yet."""
        if self._borrow_memory(queue):
            return
        if queue.settings.pageable():
            self.begin_paging(queue.next_seq)
        else:
            self._evict_later(queue, entry)

    def begin_paging(self, next_seq: int) -> None:
        """What comes from now on goes behind pages."""
        self.paged = True
        self.back = Chain()
        self.back_seq = next_seq

    def _add_behind(self, queue: "Queue", entry: Entry) -> None:
        assert self.back is not None
        self.back.append(entry)
        self.back_count += 1
        self.back_bytes += entry.message.body_size
        is_long = self.back_count >= 2 * self.sizes.page_count or self.back_bytes >= 2 * self.sizes.page_bytes
        if is_long and not self._borrow_memory(queue):
            queue.storage.page_out(queue)

    def _is_low(self) -> bool:
        """Whether so little is in memory in front that more should be brought back."""
        if self.count - self.pages.count - self.back_count >= self.sizes.window_count // 2:
            return False
        return self.body_bytes - self.pages.body_bytes - self.back_bytes < self.sizes.window_bytes // 2

    def load(self, queue: "Queue") -> None:
        """Bring the next page to the front; without one, the back is the front."""
        if self.pages.count != 0:
            page = self.pages.take()
            self.loading = page
            queue.storage.load(queue, page)
            return
        self.unfold()
        if self.back is not None:
            self.front.join(self.back)
        self.back_count = 0
        self.back_bytes = 0
        self.paged = False

    def loaded(self, queue: "Queue", entries: list[Entry], lost_count: int, lost_bytes: int) -> None:
        """The page that is loading is here; some of it may be lost."""
        self.loading = None
        self.count -= lost_count
        self.body_bytes -= lost_bytes
        self.unfold()
        for entry in entries:
            self.front.append(entry)
        if self.paged and self._is_low():
            self.load(queue)

    def opened_page(self, queue: "Queue", page: OpenPage) -> None:
        """The page that is loading is here, as octets."""
        self.loading = None
        self.opened.append(page)
        if self.paged and self._is_low():
            self.load(queue)

    def restore(self, queue: "Queue", pages: Pages, next_seq: int) -> None:
        """Take back what storage has kept, all of it paged out."""
        self.pages = pages
        self.count = pages.count
        self.body_bytes = pages.body_bytes
        if pages.count:
            self.begin_paging(next_seq)
            self.load(queue)

    # Stubs

    def filled(self, entries: list[Entry]) -> list[Entry]:
        """The stubs that are loading have their content; those of them that are still here."""
        self.loading = None
        found = [entry for entry in entries if entry.waiting and not is_stub(entry.message)]
        for entry in found:
            self.stub_bytes -= entry.message.body_size
        return found

    def _evict_later(self, queue: "Queue", entry: Entry) -> None:
        """A message beyond the window has come, where messages do not go in order: a page of them become stubs at a time."""
        if self._evictable_ready is None:
            self._evictable_ready = []
            self._evictable_ready_bytes = 0
        self._evictable_ready.append(entry)
        self._evictable_ready_bytes += entry.message.body_size
        if len(self._evictable_ready) > self.sizes.page_count or self._evictable_ready_bytes > self.sizes.page_bytes:
            # All but the one that has just come: its time to live and the limits are looked at after this.
            others = self._evictable_ready[: len(self._evictable_ready) - 1]
            self._evictable_ready = [entry]
            self._evictable_ready_bytes = entry.message.body_size
            self.evict(queue, others)

    def evict(self, queue: "Queue", entries: list[Entry]) -> None:
        """Leave only the places of those that are ready in memory."""
        ready = [entry for entry in entries if entry.waiting and not is_stub(entry.message)]
        for entry in ready:
            if queue.deduplication is not None:
                queue.deduplication.note(entry.seq, key_of(entry.message))
            self.stub_bytes += entry.message.body_size
        queue.storage.evict(queue, ready)
        self.give_back_memory(self._held_bytes())

    def evict_front(self, queue: "Queue") -> None:
        """All others are paged out; of the front a single small message may stay."""
        entries = self.front.entries()
        if len(entries) > 1 or (entries and entries[0].message.body_size >= LARGE_BYTES):
            self.evict(queue, entries)

    def evict_unacked(self, queue: "Queue", entry: Entry) -> None:
        """Note a message that was handed out while more than the window was unacknowledged: a page of them become stubs at a
        time."""
        if not self._can_page or not queue.settings.pageable():
            return
        if self._evictable_unacked is None:
            self._evictable_unacked = []
        self._evictable_unacked.append(entry)
        if len(self._evictable_unacked) > self.sizes.page_count:
            # All but this one, which may be here twice: it may not be stored yet, and its content is being sent.
            others = [other for other in self._evictable_unacked if other is not entry and other.queue is queue]
            self._evictable_unacked = [entry]
            queue.storage.evict(queue, others)


def memory_of(count: int, body_bytes: int) -> int:
    """About how much memory so many ready messages take, with so much in bodies."""
    return count * ENTRY_BYTES + body_bytes
