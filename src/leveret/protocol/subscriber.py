"""A consumer whose messages go to a channel's client.

The frame before each message differs from the last only in its delivery tag as long as the origin stays the same, so it
is made once and copied.
"""

from collections.abc import Callable

from leveret.broker.consumer import Consumer, Window
from leveret.broker.counters import Counters
from leveret.broker.message import Entry, Message, Origin
from leveret.broker.open_page import OpenPage
from leveret.protocol.session import Session
from leveret.protocol.unacked import Unacked
from leveret.wire.content import frame_head
from leveret.wire.frames import FRAME_OVERHEAD
from leveret.wire.output import copy, is_copied
from leveret.wire.spec import BASIC_DELIVER, FRAME_METHOD
from leveret.wire.values import Table, encode_short_string

# In plain Python it takes longer to copy octets one by one than to make entries.
COMPILED = not __file__.endswith(".py")
# So much of a page is copied before it is asked again whether the client has enough.
RUN_SIZE = 64 << 10


class Subscriber(Consumer):
    """A basic.consume of one channel; `on_cancelled` is called when its queue is gone, `trace` is shown each delivery.

    Of its counters one counts for the whole channel, the other for what the channel gets from this queue.
    """

    __slots__ = (
        "_channel",
        "_channel_counters",
        "_frame",
        "_on_cancelled",
        "_origin",
        "_output",
        "_session",
        "_tag_end",
        "_unacked",
        "trace",
    )

    def __init__(  # noqa: PLR0913
        self,
        tag: str,
        channel: int,
        session: Session,
        unacked: Unacked,
        channel_counters: Counters,
        counters: Counters,
        on_cancelled: Callable[["Subscriber"], None],
        *,
        no_ack: bool,
        exclusive: bool,
        window: Window,
        channel_window: Window,
        arguments: Table,
        priority: int,
    ) -> None:
        Consumer.__init__(self, tag, no_ack, exclusive, window, channel_window, arguments, priority, counters)
        self._channel = channel
        self._session = session
        self._output = session.output
        self._unacked = unacked
        self._channel_counters = channel_counters
        self._on_cancelled = on_cancelled
        self.trace: Callable[[Message, str, bool], None] | None = None
        self._origin: Origin | None = None
        self._frame = b""
        self._tag_end = 0

    def can_take(self, size: int) -> bool:
        if self._output.full():
            return False
        return Consumer.can_take(self, size)

    def hurrying(self, now: int) -> bool:
        return self._output.hurrying(now)

    def deliver(self, entry: Entry) -> None:
        message = entry.message
        if message.origin is not self._origin:
            self._prepare(message.origin)
        if self.no_ack:
            self._channel_counters.deliver_no_ack += 1
            self.counters.deliver_no_ack += 1
            tag = self._unacked.skip()
        else:
            self._channel_counters.deliver += 1
            self.counters.deliver += 1
            tag = self._unacked.push(entry, self._session.reads)
        output = self._output
        if entry.redelivered:
            self._channel_counters.redeliver += 1
            self.counters.redeliver += 1
            output.write_numbered(self._frame, self._tag_end + 1, tag << 8 | 1)
        else:
            output.write_numbered(self._frame, self._tag_end, tag)
        output.write_content(self._channel, message.content, message.header_size, message.body_size, message.frame_size)
        output.wake()
        if self.trace is not None:
            self.trace(message, self.queue.name, entry.redelivered)

    def takes_octets(self) -> bool:
        return COMPILED and self.trace is None

    def run_end(self, page: OpenPage, limit: int) -> int:
        """Messages of one origin and small bodies are copied together; one with a large body goes alone."""
        end = page.at
        last = min(page.count, end + limit)
        origin = page.origin(end)
        size = 0
        while end < last and size < RUN_SIZE and is_copied(page.body_size(end)) and page.origin(end) is origin:
            size += len(self._frame) + page.content_size(end)
            end += 1
        return max(end, page.at + 1)

    def deliver_octets(self, page: OpenPage, first: int, end: int, entries: list[Entry]) -> None:
        origin = page.origin(first)
        if origin is not self._origin:
            self._prepare(origin)
        if self.no_ack:
            self._channel_counters.deliver_no_ack += end - first
            self.counters.deliver_no_ack += end - first
        else:
            self._channel_counters.deliver += end - first
            self.counters.deliver += end - first
        if is_copied(page.body_size(first)):
            self._copy_run(page, first, end, entries)
        else:
            self._refer(page, first, entries)
        self._output.wake()

    def _tag(self, entries: list[Entry], at: int) -> int:
        """The delivery tag of one of these, or of a message that needs no acknowledgement."""
        return self._unacked.skip() if self.no_ack else self._unacked.push(entries[at], self._session.reads)

    def _refer(self, page: OpenPage, index: int, entries: list[Entry]) -> None:
        output = self._output
        output.write_numbered(self._frame, self._tag_end, self._tag(entries, 0))
        start = page.content_at(index)
        p = page.data
        # Cut out of `p`, not of `data`: compiled, that needs no slice object.
        content = p[start : start + page.content_size(index)]
        header_size, body_size, frame_size = page.header_size(index), page.body_size(index), page.frame_size(index)
        output.write_content(self._channel, content, header_size, body_size, frame_size)

    def _copy_run(self, page: OpenPage, first: int, end: int, entries: list[Entry]) -> None:
        """Copy messages, each behind the frame that is prepared for it, all at once."""
        frame = self._frame
        size = (end - first) * len(frame)
        for index in range(first, end):
            size += page.content_size(index)
        output = self._output
        at = output.grow(size)
        r = output.buffer
        p = page.data
        f = frame
        for index in range(first, end):
            stop = at + len(frame)
            copy(r, at, f, 0, len(frame))
            number = self._tag(entries, index - first)
            last = at + self._tag_end - 1
            while number != 0:
                r[last] = number & 255
                number >>= 8
                last -= 1
            start = page.content_at(index)
            at = stop + page.content_size(index)
            copy(r, stop, p, start, at - stop)
            r[stop + 1] = self._channel >> 8
            r[stop + 2] = self._channel & 255
            if page.body_size(index) != 0:
                stop += page.header_size(index) + FRAME_OVERHEAD
                r[stop + 1] = self._channel >> 8
                r[stop + 2] = self._channel & 255

    def cancelled(self) -> None:
        self._on_cancelled(self)

    def _prepare(self, origin: Origin) -> None:
        fields = BASIC_DELIVER.to_bytes(4, "big") + encode_short_string(self.tag)
        size = len(fields) + 8 + 1 + len(origin.address) - 1
        self._frame = frame_head(FRAME_METHOD, self._channel, size) + fields + bytes(9) + origin.address
        self._tag_end = 7 + len(fields) + 8
        self._origin = origin
