"""The messages in a queue: getting them, as RabbitMQ's API does, and what no RabbitMQ does.

Beyond RabbitMQ: looking at them without side effects, moving them, putting dead letters back, and pausing consumers.
"""

from collections.abc import Mapping

from leveret.broker.declaration import check_access, check_home
from leveret.broker.dispatch import dispatch
from leveret.broker.queue import Queue
from leveret.management.api.queues import find_queue
from leveret.management.api_channel import client_of
from leveret.management.http.answer import Answer, bad_request, done
from leveret.management.http.json import Json, JsonObject
from leveret.management.http.json_table import parse_key
from leveret.management.http.list_query import name_filter
from leveret.management.http.request import Request, parse_bool, parse_int
from leveret.management.http.route import VHOST, Route
from leveret.management.messages.get import Get
from leveret.management.messages.move import Chosen, Death, Move, to_exchange, to_queue, to_where_they_died
from leveret.management.messages.peek import COUNT_MAX, peek
from leveret.management.messages.search import SEARCHED_MAX, deaths, rehearse, search
from leveret.management.messages.take import settle_all, take_all
from leveret.management.messages.view import PayloadFormat
from leveret.protocol.basic import queue_to_get_from
from leveret.protocol.settlement import ACKED, REJECTED, REQUEUED

ACK_MODES = {
    "ack_requeue_true": REQUEUED,
    "ack_requeue_false": ACKED,
    "reject_requeue_true": REQUEUED,
    "reject_requeue_false": REJECTED,
}
PEEK_COUNT = 10
DEFAULT_EXCHANGE = "amq.default"


def parse_format(values: Mapping[str, Json]) -> PayloadFormat:
    """How bodies are to be shown."""
    encoding = values.get("encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = values.get("truncate")
    return PayloadFormat(encoding, None if truncate in (None, "") else parse_count(truncate, "truncate"))


def parse_count(value: Json, name: str) -> int:
    count = parse_int(value, name)
    if count < 0:
        raise bad_request(f"[{name}] must not be negative: {value}")
    return count


def parse_ack_mode(body: JsonObject) -> int:
    """What becomes of the messages; old clients only say whether they go back."""
    mode = body.get("ackmode")
    if mode is None and "requeue" in body:
        mode = "ack_requeue_true" if parse_bool(body["requeue"], "requeue") else "ack_requeue_false"
    if mode is None:
        raise bad_request("[{key_missing,ackmode}]")
    if not isinstance(mode, str) or mode not in ACK_MODES:
        raise bad_request(f"[ackmode] must be one of {', '.join(ACK_MODES)}, not {mode}")
    return ACK_MODES[mode]


async def get_messages(request: Request) -> list[JsonObject]:
    """Get messages from a queue, and requeue, acknowledge or reject them as `ackmode` says; they count as delivered."""
    name = find_queue(request).name
    count, _ = request.need("count", "encoding")
    how = parse_ack_mode(request.body)
    client = client_of(request)
    queue = queue_to_get_from(client.channel, name)
    getting = Get(client, queue, how, parse_count(count, "count"), parse_format(request.body))
    request.node.do(lambda: queue.renew_expiry(request.broker.now))
    try:
        await take_all(request.node, queue, getting.take_some)
    finally:
        client.close()
        await settle_all(request.node, getting.entries, how)
        request.node.do(lambda: dispatch(queue))
    return getting.views


async def peek_messages(request: Request) -> list[JsonObject]:
    """Look at messages without taking them: `count` (10) from `offset` (0), payloads cut to `truncate`."""
    queue = usable(request, "read")
    offset = parse_count(request.query.get("offset", 0), "offset")
    count = parse_count(request.query.get("count", PEEK_COUNT), "count")
    return await peek(request.node, queue, offset, count, parse_format(request.query))


async def move_messages(request: Request) -> dict[str, int]:
    """Move messages to a `queue`, or to an `exchange` with a new `routing_key` or their own; all, or `count` of them."""
    queue = movable(request)
    vhost, rights, body = request.vhost, request.rights, request.body
    if ("queue" in body) == ("exchange" in body):
        raise bad_request("exactly one of queue and exchange must be given")
    if "queue" in body:
        rights.check_exchange("write", "")
        place = to_queue(vhost.queue(str(body["queue"]), None))
    else:
        name, key = str(body["exchange"]), body.get("routing_key")
        exchange = vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
        rights.check_exchange("write", exchange.name)
        exchange.check_publishable()
        place = to_exchange(vhost, rights, exchange, None if key is None else parse_key(key))
    return await Move(request.node, queue, wanted_count(request, queue), place).run()


async def replay_messages(request: Request) -> JsonObject:
    """Return dead letters to the queues they came from: all, `count`, of one `queue`, or of `groups`; or a `dry_run`."""
    queue = movable(request)
    request.rights.check_exchange("write", "")
    chosen, count = chosen_deaths(request.body), wanted_count(request, queue)
    if parse_bool(request.body.get("dry_run", False), "dry_run"):
        there = request.vhost.queues
        return await rehearse(request.node, queue, count, lambda death: chosen(death) and death.queue in there)
    place = to_where_they_died(request.vhost, chosen)
    if "groups" in request.body:
        # Of what is chosen so many, wherever it stands.
        return {**await Move(request.node, queue, queue.ready_count, place, count).run()}
    return {**await Move(request.node, queue, count, place).run()}


def chosen_deaths(body: JsonObject) -> Chosen:
    """Which dead letters a body means: those of one queue, or of groups of a `reason`, a `queue` or both."""
    only, groups = body.get("queue"), body.get("groups")
    if groups is None:
        return lambda death: only is None or death.queue == str(only)
    if not isinstance(groups, list) or not all(isinstance(group, dict) and group for group in groups):
        raise bad_request("groups must be a list of objects with reason, queue or both")
    wanted = [(group.get("reason"), group.get("queue")) for group in groups if isinstance(group, dict)]

    def chosen(death: Death) -> bool:
        return any(reason in (None, death.reason) and queue in (None, death.queue) for reason, queue in wanted)

    return chosen


async def get_deaths(request: Request) -> JsonObject:
    """A queue's dead letters, of which `count` (10,000) are looked at, by reason and by the queue in which they died."""
    queue = usable(request, "read")
    return await deaths(request.node, queue, parse_count(request.query.get("count", SEARCHED_MAX), "count"))


async def search_messages(request: Request) -> JsonObject:
    """Messages with `text` in body, key or properties (`use_regex`): in `count` (1,000) from `offset`, at `most` 100."""
    queue = usable(request, "read")
    matches = name_filter(request.query.get("text", ""), request.query.get("use_regex") == "true")
    offset = parse_count(request.query.get("offset", 0), "offset")
    count = parse_count(request.query.get("count", COUNT_MAX), "count")
    most = min(COUNT_MAX, parse_count(request.query.get("most", 100), "most"))
    return await search(request.node, queue, matches, (offset, count), most, parse_format(request.query))


def usable(request: Request, right: str) -> Queue:
    """The path's queue, if the user has this right to it and no connection has it for itself."""
    queue = find_queue(request)
    request.rights.check_queue(right, queue.name)
    check_access(queue, None)
    check_home(queue)
    return queue


def movable(request: Request) -> Queue:
    """The path's queue, if the user may take messages from it."""
    return queue_to_get_from(client_of(request).channel, find_queue(request).name)


def wanted_count(request: Request, queue: Queue) -> int:
    return parse_count(request.body.get("count", queue.ready_count), "count")


async def pause_consumers(request: Request) -> Answer:
    """Pause a queue's consumers until they are resumed or the broker restarts."""
    queue = usable(request, "configure")
    request.node.do(queue.rotation.pause)
    return done()


async def resume_consumers(request: Request) -> Answer:
    """Resume a queue's consumers."""
    queue = usable(request, "configure")

    def resume() -> None:
        queue.rotation.unpause()
        dispatch(queue)

    request.node.do(resume)
    return done()


ROUTES = [
    Route("POST", "/api/queues/{vhost}/{queue}/get", VHOST, get_messages),
    Route("GET", "/api/queues/{vhost}/{queue}/messages", VHOST, peek_messages),
    Route("GET", "/api/queues/{vhost}/{queue}/search", VHOST, search_messages),
    Route("GET", "/api/queues/{vhost}/{queue}/deaths", VHOST, get_deaths),
    Route("POST", "/api/queues/{vhost}/{queue}/move", VHOST, move_messages),
    Route("POST", "/api/queues/{vhost}/{queue}/replay", VHOST, replay_messages),
    Route("POST", "/api/queues/{vhost}/{queue}/pause", VHOST, pause_consumers),
    Route("POST", "/api/queues/{vhost}/{queue}/resume", VHOST, resume_consumers),
]
