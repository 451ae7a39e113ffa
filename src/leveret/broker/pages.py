"""What a queue has ready beyond its window: paged out, 24 octets for each message, its content only in storage.

  record := seq u64 | location u64 | body size u32 | delivery count u16 | redelivered u16

A page holds up to 1,024 records in order of seq, and not much more than 2 MiB of bodies. The oldest page is given to
storage to be loaded, and comes back as entries. Knows nothing of files.
"""

from struct import Struct

from leveret.broker.message import Entry

PAGE_SIZE = 1024
PAGE_BYTES = 2 << 20
RECORD = Struct("<QQIHH")
COUNT_MAX = (1 << 16) - 1


class Record:
    """A message that is paged out, as it was when it went."""

    __slots__ = ("body_size", "delivery_count", "location", "redelivered", "seq")

    def __init__(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: int) -> None:
        self.seq = seq
        self.location = location
        self.body_size = body_size
        self.delivery_count = delivery_count
        self.redelivered = redelivered


class Pages:
    """The pages of one queue, the oldest first; `count` messages with `body_bytes` of bodies."""

    __slots__ = ("_last_bytes", "_pages", "body_bytes", "count")

    def __init__(self) -> None:
        self._pages: list[bytearray] = []
        self._last_bytes = 0
        self.count = 0
        self.body_bytes = 0

    def add(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> None:
        """Page out one more message, behind the others."""
        pages = self._pages
        if not pages or self._last_bytes >= PAGE_BYTES or len(pages[len(pages) - 1]) >= PAGE_SIZE * RECORD.size:
            pages.append(bytearray())
            self._last_bytes = 0
        pages[len(pages) - 1] += RECORD.pack(seq, location, body_size, min(delivery_count, COUNT_MAX), redelivered)
        self.count += 1
        self.body_bytes += body_size
        self._last_bytes += body_size

    def take(self) -> list[Record]:
        """The oldest page's messages, which are not counted here any more."""
        page = self._pages.pop(0)
        records = [Record(*fields) for fields in RECORD.iter_unpack(page)]
        self.count -= len(records)
        for record in records:
            self.body_bytes -= record.body_size
        return records

    def move(self, seq: int, location: int) -> bool:
        """Storage has moved a message; False if it is not here."""
        low, high = 0, len(self._pages)
        while low < high:
            middle = (low + high) // 2
            if RECORD.unpack_from(self._pages[middle], 0)[0] <= seq:
                low = middle + 1
            else:
                high = middle
        return low > 0 and _move_in(self._pages[low - 1], seq, location)

    def __bool__(self) -> bool:
        return self.count > 0


def _move_in(page: bytearray, seq: int, location: int) -> bool:
    low, high = 0, len(page) // RECORD.size
    while low < high:
        middle = (low + high) // 2
        found = RECORD.unpack_from(page, middle * RECORD.size)
        if found[0] == seq:
            RECORD.pack_into(page, middle * RECORD.size, seq, location, *found[2:])
            return True
        if found[0] < seq:
            low = middle + 1
        else:
            high = middle
    return False


def restored(record: Record, entry: Entry) -> Entry:
    """Give an entry what its record says."""
    entry.location = record.location
    entry.delivery_count = record.delivery_count
    entry.redelivered = record.redelivered != 0
    return entry
