"""Getting messages from a queue for a request, as basic.get would: they are taken, shown, and settled later."""

from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.management.api_channel import ApiChannel
from leveret.management.http.json import JsonObject
from leveret.management.messages.take import PIECE
from leveret.management.messages.view import PayloadFormat, message_view
from leveret.protocol.settlement import ACKED
from leveret.protocol.trace import trace_delivery

# No answer shows more of bodies than that; the rest is for another request.
ANSWER_BYTES = 64 << 20


class Get:
    """The messages of one request: their views, and those still to be settled."""

    def __init__(self, client: ApiChannel, queue: Queue, how: int, count: int, payload_format: PayloadFormat) -> None:
        self._client = client
        self._queue = queue
        self._no_ack = how == ACKED
        self._count = count
        self._format = payload_format
        self._bytes = 0
        self.views: list[JsonObject] = []
        self.entries: list[Entry] = []

    def take_some(self) -> bool:
        """Take the next ones; True when there are enough."""
        for _ in range(PIECE):
            if len(self.views) >= self._count or self._bytes > ANSWER_BYTES:
                return True
            entry = self._queue.take(self._no_ack)
            if entry is None:
                return False
            if not self._no_ack:
                self.entries.append(entry)
            self._show(entry)
        return False

    def _show(self, entry: Entry) -> None:
        channel = self._client.channel
        channel.counters.get_no_ack += self._no_ack
        channel.counters.get += not self._no_ack
        channel.counters.redeliver += entry.redelivered
        self._bytes += self._format.size(entry.message.body_size)
        self.views.append(message_view(entry, self._queue.ready_count, self._format))
        if channel.vhost.tracing:
            trace_delivery(channel, entry.message, self._queue.name, entry.redelivered)
