"""A page that was read and is octets still: messages that consumers get as they are.

  index := seq u64 | location u64 | content at u64 | content size u32 | header size u32 | body size u32 | frame size u32
           | flags u32 | which origin u32

Whoever wants more than that has `entries` made of what is left. Only what has no time to live and was never given back is
in such a page. Knows nothing of files, queues or consumers.
"""

from leveret.broker.message import Entry, Message, Origin, new_entry, new_message, stub_of
from leveret.octets import put_u32, put_u64, u32_at, u64_at

INDEX_SIZE = 48


class OpenPage:
    """`count` messages in `data`, of which those before `at` have gone."""

    __slots__ = ("_address_at", "_address_size", "_index", "_origins", "at", "count", "data")

    def __init__(self, data: bytes, room: int) -> None:
        self.data = data
        self.at = 0
        self.count = 0
        self._index = bytearray(room * INDEX_SIZE)
        self._origins: list[Origin] = []
        # Where the octets of the last one are.
        self._address_at = 0
        self._address_size = 0

    def has_address(self, start: int, size: int) -> bool:
        """Whether the octets at `start` are those of the last origin."""
        if size != self._address_size:
            return False
        p = self.data
        last = self._address_at
        same = 0
        while same < size and p[start + same] == p[last + same]:
            same += 1
        return same == size

    def add_origin(self, origin: Origin, start: int, size: int) -> None:
        """The messages that follow have this one, whose octets are at `start`."""
        self._origins.append(origin)
        self._address_at = start
        self._address_size = size

    def add(self, seq: int, location: int, content_at: int, content_size: int, flags: int) -> None:
        """Add a message of the last origin, of which `add_sizes` must follow; there must be room."""
        p = self._index
        at = self.count * INDEX_SIZE
        put_u64(p, at, seq)
        put_u64(p, at + 8, location)
        put_u64(p, at + 16, content_at)
        put_u32(p, at + 24, content_size)
        put_u32(p, at + 40, flags)
        put_u32(p, at + 44, len(self._origins) - 1)

    def add_sizes(self, header_size: int, body_size: int, frame_size: int) -> None:
        p = self._index
        at = self.count * INDEX_SIZE
        put_u32(p, at + 28, header_size)
        put_u32(p, at + 32, body_size)
        put_u32(p, at + 36, frame_size)
        self.count += 1

    def seq(self, index: int) -> int:
        p = self._index
        return u64_at(p, index * INDEX_SIZE)

    def location(self, index: int) -> int:
        p = self._index
        return u64_at(p, index * INDEX_SIZE + 8)

    def content_at(self, index: int) -> int:
        p = self._index
        return u64_at(p, index * INDEX_SIZE + 16)

    def content_size(self, index: int) -> int:
        p = self._index
        return u32_at(p, index * INDEX_SIZE + 24)

    def header_size(self, index: int) -> int:
        p = self._index
        return u32_at(p, index * INDEX_SIZE + 28)

    def body_size(self, index: int) -> int:
        p = self._index
        return u32_at(p, index * INDEX_SIZE + 32)

    def frame_size(self, index: int) -> int:
        p = self._index
        return u32_at(p, index * INDEX_SIZE + 36)

    def flags(self, index: int) -> int:
        p = self._index
        return u32_at(p, index * INDEX_SIZE + 40)

    def origin(self, index: int) -> Origin:
        p = self._index
        return self._origins[u32_at(p, index * INDEX_SIZE + 44)]

    def first(self) -> Entry:
        """The first message that is left, which stays here."""
        return self._entry(self.at)

    def entries(self) -> list[Entry]:
        """What is left, as entries; nothing is left then."""
        found = []
        while self.at < self.count:
            found.append(self._entry(self.at))
            self.at += 1
        return found

    def stubs(self, end: int) -> list[Entry]:
        """Entries of the first messages up to `end`, without their content, which is to be read again if it is asked for."""
        found = []
        message = stub_of(self.flags(self.at), self.body_size(self.at))
        for index in range(self.at, end):
            flags, body_size = self.flags(index), self.body_size(index)
            # Neighbours are mostly alike.
            if message.body_size != body_size or message.flags != flags:
                message = stub_of(flags, body_size)
            entry = new_entry(message, self.seq(index))
            entry.location = self.location(index)
            found.append(entry)
        return found

    def _entry(self, index: int) -> Entry:
        entry = new_entry(self._message(index), self.seq(index))
        entry.location = self.location(index)
        return entry

    def _message(self, index: int) -> Message:
        p = self.data
        at = self.content_at(index)
        # Cut out of `p`, not of `data`: compiled, that needs no slice object.
        content = p[at : at + self.content_size(index)]
        header_size, body_size, frame_size = self.header_size(index), self.body_size(index), self.frame_size(index)
        return new_message(self.origin(index), content, header_size, body_size, frame_size, self.flags(index))
