"""What a queue has ready beyond its window: paged out, 24 octets for each message, its content only in storage.

  record := seq u64 | location u64 | body size u32 | delivery count u16 | redelivered u16

What is removed from the middle leaves a record with location 0.

A page holds up to `Sizes.page_count` records in order of seq, and not much more than `Sizes.page_bytes` of bodies. The
oldest page is given to storage to be loaded, and comes back as entries. Knows nothing of files.
"""

from leveret.octets import put_u16, put_u32, put_u64, u16_at, u32_at, u64_at

RECORD_SIZE = 24
ROOM_MIN = 16
# A queue with so much in bodies is a flood: its publisher may be heard a little later.
FLOOD_BYTES = 1 << 20
COUNT_MAX = (1 << 16) - 1
# The shared window is lent in pieces of an eighth, or of 1 MiB where it is large.
PIECE_MAX = 1 << 20
PIECE_PART = 8


class Sizes:
    """How much of a queue is in memory, and how much goes out or comes back at a time.

    What is ready beyond `window_count` messages or `window_bytes` of bodies is paged out, `page_count` messages or
    `page_bytes` of bodies at a time; a page comes back when less than half a window is left in front. Beyond the window
    even the content of what is unacknowledged is only in storage. What all queues together may have beyond their windows
    while consumers take from them is in `shared`.
    """

    __slots__ = ("page_bytes", "page_count", "shared", "window_bytes", "window_count")

    def __init__(
        self,
        window_count: int = 16_384,
        window_bytes: int = 16 << 20,
        page_count: int = 2048,
        page_bytes: int = 2 << 20,
        shared_bytes: int = 0,
    ) -> None:
        self.window_count = window_count
        self.window_bytes = window_bytes
        self.page_count = page_count
        self.page_bytes = page_bytes
        self.shared = SharedWindow(shared_bytes)


class SharedWindow:
    """Memory for what queues with consumers have beyond their own windows: `limit` octets for all of them together.

    A consumer that falls behind for a moment must not make every message take the way through the disk.
    """

    __slots__ = ("limit", "piece", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.piece = min(PIECE_MAX, limit // PIECE_PART)
        self.used = 0

    def grant(self, size: int, granted: int) -> int:
        """Lend so much to whoever has `granted`, or a piece, so that nobody asks for each message; 0 if it is too much.

        Nobody has more than what is left then: whoever keeps what it has leaves something for others.
        """
        most = (self.limit - self.used - granted) // 2
        size = 0 if size > most else min(most, max(size, self.piece))
        self.used += size
        return size

    def give_back(self, size: int) -> None:
        self.used -= size


class Page:
    """Messages as they were when they went: `count` records, of which `live_count` are not removed, with `body_bytes`."""

    __slots__ = ("_records", "body_bytes", "count", "live_count")

    def __init__(self, room: int) -> None:
        self._records = bytearray(min(room, ROOM_MIN) * RECORD_SIZE)
        self.count = 0
        self.live_count = 0
        self.body_bytes = 0

    def add(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> None:
        at = self.count * RECORD_SIZE
        if at == len(self._records):
            # Of many queues each may have a few.
            self._records.extend(bytes(max(at, ROOM_MIN * RECORD_SIZE)))
        p = self._records
        put_u64(p, at, seq)
        put_u64(p, at + 8, location)
        put_u32(p, at + 16, body_size)
        put_u16(p, at + 20, min(delivery_count, COUNT_MAX))
        put_u16(p, at + 22, redelivered)
        self.count += 1
        self.live_count += 1
        self.body_bytes += body_size

    def close(self) -> None:
        """Nothing will be added: keep no room for it."""
        del self._records[self.count * RECORD_SIZE :]

    def seq(self, index: int) -> int:
        p = self._records
        return u64_at(p, index * RECORD_SIZE)

    def location(self, index: int) -> int:
        p = self._records
        return u64_at(p, index * RECORD_SIZE + 8)

    def body_size(self, index: int) -> int:
        p = self._records
        return u32_at(p, index * RECORD_SIZE + 16)

    def delivery_count(self, index: int) -> int:
        p = self._records
        return u16_at(p, index * RECORD_SIZE + 20)

    def redelivered(self, index: int) -> bool:
        p = self._records
        return u16_at(p, index * RECORD_SIZE + 22) != 0

    def find(self, seq: int) -> int:
        """Where a message is; -1 if it is not here."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            found = self.seq(middle)
            if found == seq:
                return middle if self.location(middle) != 0 else -1
            if found < seq:
                low = middle + 1
            else:
                high = middle
        return -1

    def move(self, index: int, location: int) -> None:
        p = self._records
        put_u64(p, index * RECORD_SIZE + 8, location)

    def record(self, index: int) -> tuple[int, int, int, int, bool]:
        """One message, as `add` takes it."""
        body_size, count, redelivered = self.body_size(index), self.delivery_count(index), self.redelivered(index)
        return self.seq(index), self.location(index), body_size, count, redelivered

    def remove(self, index: int) -> None:
        self.live_count -= 1
        self.body_bytes -= self.body_size(index)
        self.move(index, 0)


class Pages:
    """The pages of one queue, the oldest first; `count` messages with `body_bytes` of bodies.

    `read_count` says how many messages were read from files for the queue, `spilled_count` how many were only written there
    to be out of memory.
    """

    __slots__ = ("_last", "_pages", "_sizes", "body_bytes", "count", "read_count", "spilled_count")

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._pages: list[Page] = []
        self._last: Page | None = None
        self.count = 0
        self.body_bytes = 0
        self.read_count = 0
        self.spilled_count = 0

    def add(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> None:
        """Page out one more message, behind the others."""
        last = self._last
        if last is None or last.count >= self._sizes.page_count or last.body_bytes >= self._sizes.page_bytes:
            if last is not None:
                last.close()
            last = self._last = Page(self._sizes.page_count)
            self._pages.append(last)
        last.add(seq, location, body_size, delivery_count, redelivered)
        self.count += 1
        self.body_bytes += body_size

    def first_seq(self) -> int:
        """The seq of the oldest page's first record; 0 if there is none."""
        return self._pages[0].seq(0) if self._pages else 0

    def span(self, offset: int, count: int) -> list[tuple[int, int, int, int, bool]]:
        """Up to `count` records in order, without the first `offset`; each as `add` takes it."""
        found: list[tuple[int, int, int, int, bool]] = []
        for page in self._pages:
            if offset >= page.live_count:
                offset -= page.live_count
                continue
            at = 0
            while at < page.count and len(found) < count:
                if page.location(at) != 0:
                    if offset == 0:
                        found.append(page.record(at))
                    else:
                        offset -= 1
                at += 1
        return found

    def put_before(self, others: "Pages") -> None:
        """Put pages, which are of no other use then, before all that are here."""
        if self._last is None:
            self._last = others._last
        elif others._last is not None:
            others._last.close()
        self._pages[:0] = others._pages
        self.count += others.count
        self.body_bytes += others.body_bytes

    def take_all(self) -> list[Page]:
        """All pages."""
        taken, self._pages = self._pages, []
        self._last = None
        self.count = 0
        self.body_bytes = 0
        return taken

    def take(self) -> Page:
        """The oldest page, whose messages are not counted here any more."""
        page = self._pages.pop(0)
        if page is self._last:
            self._last = None
        self.count -= page.live_count
        self.body_bytes -= page.body_bytes
        return page

    def move(self, seq: int, location: int) -> bool:
        """Storage has moved a message; False if it is not here."""
        page = self._page_of(seq)
        index = -1 if page is None else page.find(seq)
        if page is None or index < 0:
            return False
        page.move(index, location)
        return True

    def has(self, seq: int) -> bool:
        """Whether a message is here."""
        page = self._page_of(seq)
        return page is not None and page.find(seq) >= 0

    def remove(self, seq: int) -> tuple[int, int, int, int, bool]:
        """Take a message out that is here; what `add` was told of it."""
        page = self._page_of(seq)
        assert page is not None
        index = page.find(seq)
        record = page.record(index)
        page.remove(index)
        self.count -= 1
        self.body_bytes -= record[2]
        if self.count == 0:
            self._pages = []
            self._last = None
        return record

    def _page_of(self, seq: int) -> Page | None:
        low, high = 0, len(self._pages)
        while low < high:
            middle = (low + high) // 2
            if self._pages[middle].seq(0) <= seq:
                low = middle + 1
            else:
                high = middle
        return self._pages[low - 1] if low > 0 else None

    def __bool__(self) -> bool:
        return self.count > 0
