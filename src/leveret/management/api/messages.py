"""The messages in a queue: getting them, as RabbitMQ's API does, and what no RabbitMQ does.

Beyond RabbitMQ: looking at them without side effects, moving them, putting dead letters back, and pausing consumers.
"""

from typing import Any

from leveret.broker.declaration import check_access
from leveret.broker.dispatch import dispatch
from leveret.broker.message import Entry
from leveret.broker.queue import Queue
from leveret.management.answers import Answer, bad_request, done
from leveret.management.api.queues import find_queue
from leveret.management.asking import Ask, parse_bool, parse_int
from leveret.management.direct import Direct, client_of
from leveret.management.message_view import Shape, message_view
from leveret.management.moving import Moving, to_exchange, to_queue, to_where_they_died
from leveret.management.peeking import peek
from leveret.management.routes import VHOST, Route
from leveret.management.taking import PIECE, settle_all, take_all
from leveret.management.values import parse_key
from leveret.protocol.basic import queue_to_get_from
from leveret.protocol.settlement import ACKED, REJECTED, REQUEUED
from leveret.protocol.trace import trace_delivery

ACK_MODES = {
    "ack_requeue_true": REQUEUED,
    "ack_requeue_false": ACKED,
    "reject_requeue_true": REQUEUED,
    "reject_requeue_false": REJECTED,
}
# No answer shows more of bodies than that; the rest is for another request.
ANSWER_BYTES = 64 << 20
PEEK_COUNT = 10
DEFAULT_EXCHANGE = "amq.default"


def parse_shape(values: Any) -> Shape:
    """How bodies are to be shown."""
    encoding = values.get("encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = values.get("truncate")
    return Shape(encoding, None if truncate in (None, "") else parse_count(truncate, "truncate"))


def parse_count(value: Any, name: str) -> int:
    count = parse_int(value, name)
    if count < 0:
        raise bad_request(f"[{name}] is negative: {value}")
    return count


def parse_ack_mode(body: dict[str, Any]) -> int:
    """What becomes of the messages; old clients only say whether they go back."""
    mode = body.get("ackmode")
    if mode is None and "requeue" in body:
        mode = "ack_requeue_true" if parse_bool(body["requeue"], "requeue") else "ack_requeue_false"
    if mode is None:
        raise bad_request("[{key_missing,ackmode}]")
    if mode not in ACK_MODES:
        raise bad_request(f"[ackmode] unknown: {mode}")
    return ACK_MODES[mode]


class Getting:
    """Messages being got for one request: their views, and those that are still to be settled."""

    def __init__(self, client: Direct, queue: Queue, how: int, count: int, shape: Shape) -> None:
        self._client = client
        self._queue = queue
        self._no_ack = how == ACKED
        self._count = count
        self._shape = shape
        self._bytes = 0
        self.views: list[dict[str, Any]] = []
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
        channel.tally.get_no_ack += self._no_ack
        channel.tally.get += not self._no_ack
        channel.tally.redeliver += entry.redelivered
        self._bytes += self._shape.size(entry.message.body_size)
        self.views.append(message_view(entry, self._queue.ready_count, self._shape))
        if channel.vhost.tracing:
            trace_delivery(channel, entry.message, self._queue.name, entry.redelivered)


async def get_messages(ask: Ask) -> list[dict[str, Any]]:
    """Take messages from a queue, and give them back or not; this is no peek, they count as delivered."""
    name = find_queue(ask).name
    count, _ = ask.need("count", "encoding")
    how = parse_ack_mode(ask.body)
    client = client_of(ask)
    queue = queue_to_get_from(client.channel, name)
    getting = Getting(client, queue, how, parse_count(count, "count"), parse_shape(ask.body))
    ask.node.do(lambda: queue.used(ask.broker.work.now))
    try:
        await take_all(ask.node, queue, getting.take_some)
    finally:
        client.close()
        await settle_all(ask.node, getting.entries, how)
        ask.node.do(lambda: dispatch(queue))
    return getting.views


async def peek_messages(ask: Ask) -> list[dict[str, Any]]:
    """Look at messages: `count` (10) from `offset` (0) on, bodies cut to `truncate`. Nothing happens to them."""
    queue = usable(ask, "read")
    offset = parse_count(ask.query.get("offset", 0), "offset")
    count = parse_count(ask.query.get("count", PEEK_COUNT), "count")
    return await peek(ask.node, queue, offset, count, parse_shape(ask.query))


async def move_messages(ask: Ask) -> dict[str, int]:
    """Move messages to a `queue`, or to an `exchange` with a `routing_key` or their own; `count` of them, or all."""
    queue = movable(ask)
    vhost, rights, body = ask.vhost, ask.rights, ask.body
    if ("queue" in body) == ("exchange" in body):
        raise bad_request("either queue or exchange must be given")
    if "queue" in body:
        rights.check_exchange("write", "")
        place = to_queue(vhost.queue(str(body["queue"]), None))
    else:
        name, key = str(body["exchange"]), body.get("routing_key")
        exchange = vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
        rights.check_exchange("write", exchange.name)
        exchange.check_publishable()
        place = to_exchange(vhost, rights, exchange, None if key is None else parse_key(key))
    return await Moving(ask.node, queue, wanted_count(ask, queue), place).run()


async def replay_messages(ask: Ask) -> dict[str, int]:
    """Put dead letters back into the queues in which they died; `count` of them, or all; only those of one `queue`."""
    queue = movable(ask)
    ask.rights.check_exchange("write", "")
    only = ask.body.get("queue")
    place = to_where_they_died(ask.vhost, None if only is None else str(only))
    return await Moving(ask.node, queue, wanted_count(ask, queue), place).run()


def usable(ask: Ask, right: str) -> Queue:
    """The path's queue, if the user has this right to it and no connection has it for itself."""
    queue = find_queue(ask)
    ask.rights.check_queue(right, queue.name)
    check_access(queue, None)
    return queue


def movable(ask: Ask) -> Queue:
    """The path's queue, if the user may take messages from it."""
    return queue_to_get_from(client_of(ask).channel, find_queue(ask).name)


def wanted_count(ask: Ask, queue: Queue) -> int:
    return parse_count(ask.body.get("count", queue.ready_count), "count")


async def pause_consumers(ask: Ask) -> Answer:
    """Deliver nothing to a queue's consumers until they are resumed, or the broker starts anew."""
    queue = usable(ask, "configure")
    ask.node.do(queue.rotation.pause)
    return done()


async def resume_consumers(ask: Ask) -> Answer:
    """Deliver to a queue's consumers again."""
    queue = usable(ask, "configure")

    def resume() -> None:
        queue.rotation.unpause()
        dispatch(queue)

    ask.node.do(resume)
    return done()


ROUTES = [
    Route("POST", "/api/queues/{vhost}/{queue}/get", VHOST, get_messages),
    Route("GET", "/api/queues/{vhost}/{queue}/messages", VHOST, peek_messages),
    Route("POST", "/api/queues/{vhost}/{queue}/move", VHOST, move_messages),
    Route("POST", "/api/queues/{vhost}/{queue}/replay", VHOST, replay_messages),
    Route("POST", "/api/queues/{vhost}/{queue}/pause", VHOST, pause_consumers),
    Route("POST", "/api/queues/{vhost}/{queue}/resume", VHOST, resume_consumers),
]
