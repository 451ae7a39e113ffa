"""What an operator should look at: queues that grow, consumers that are stuck, dead letters, messages that go nowhere.

All queues are looked at, some at a time; what is found is the same for all who may see the same, for some seconds.
"""

from collections.abc import Iterator

from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.management.api.queue_state import DEAD_LETTERS, STATES, dead_letter_queues
from leveret.management.api.queues import queues_of
from leveret.management.http.answer import not_found
from leveret.management.http.json import JsonObject
from leveret.management.http.pause import Pause
from leveret.management.http.request import Request
from leveret.management.http.route import USER, Route
from leveret.management.statistics.trend import grown_in, growth_of, silent_since
from leveret.server.clock import now_ms

HOUR_MS = 3_600_000
# Of each kind only those that hurt most are told; all are counted.
KIND_MAX = 20
# Who is told first: what is full soon is worse than what only grows.
SOON_S = 3_600.0
NEVER_S = 1e9


class Finding:
    """Something that needs attention, and in how many seconds it hurts."""

    __slots__ = ("hurts_in_s", "view")

    def __init__(self, hurts_in_s: float, view: JsonObject) -> None:
        self.hurts_in_s = hurts_in_s
        self.view = view


async def get_attention(request: Request) -> JsonObject:
    """What needs attention, sorted by how soon it hurts: in all vhosts that the user may see, or in one `vhost`."""
    wanted = request.query.get("vhost")
    if wanted and (wanted not in request.broker.vhosts or not request.may_enter(wanted)):
        raise not_found()
    found: list[Finding] = [*alarms(request), *unroutable(request)]
    dead = dead_letter_queues([vhost for vhost in request.vhosts() if not wanted or vhost.name == wanted])
    states = {**dict.fromkeys(STATES, 0), DEAD_LETTERS: len(dead)}
    pause = Pause()
    async for group in pause.groups(queues_of(request)):
        for vhost, queue in group:
            if not wanted or vhost.name == wanted:
                found += findings(request, vhost, queue, queue in dead)
                for state, is_so in STATES.items():
                    states[state] += is_so(request, queue)
    found.sort(key=lambda one: one.hurts_in_s)
    counts: dict[str, int] = {}
    shown: list[JsonObject] = []
    for one in found:
        kind = str(one.view["kind"])
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= KIND_MAX:
            shown.append(one.view)
    waiting = sum(queue.ready_count for queue in dead)
    return {"items": shown, "counts": counts, "states": states, "dead_letters": waiting}


def findings(request: Request, vhost: VirtualHost, queue: Queue, dead_letters: bool) -> Iterator[Finding]:
    """What is to be said of one queue: the worst of it."""
    history = request.statistics.of(queue)
    named: JsonObject = {"vhost": vhost.name, "name": queue.name, "ready": queue.ready_count}
    growth = growth_of(history)
    if dead_letters:
        grown = grown_in(history, HOUR_MS)
        if queue.ready_count and grown > 0:
            yield Finding(SOON_S, {"kind": "dead_letters", **named, "grown": grown})
    elif growth is not None:
        limit = queue.settings.max_length
        full_in = None if limit is None or not growth.rate else max(0.0, (limit - queue.ready_count) / growth.rate)
        view: JsonObject = {"kind": "growing", **named, "rate": growth.rate, "since": growth.since}
        view |= {"limit": limit, "full_in_s": full_in, "consumers": queue.consumer_count}
        yield Finding(NEVER_S if full_in is None else full_in, view)
    since = silent_since(history)
    if since is not None and queue.consumer_count and queue.unacked_count:
        about: JsonObject = {"since": since, "unacked": queue.unacked_count, "consumers": queue.consumer_count}
        yield Finding(SOON_S, {"kind": "stuck", **named, **about})


def alarms(request: Request) -> Iterator[Finding]:
    """The alarms that stop publishers."""
    for alarm in request.node.alarms:
        if alarm.is_set:
            yield Finding(0.0, {"kind": "alarm", "name": alarm.reason, "since": now_ms()})


def unroutable(request: Request) -> Iterator[Finding]:
    """Messages that match no binding, for those who may see the whole broker."""
    if request.has_tag("monitoring"):
        history = request.statistics.total
        dropped, returned = history.rate("drop_unroutable"), history.rate("return_unroutable")
        if dropped or returned:
            yield Finding(SOON_S, {"kind": "unroutable", "name": "", "dropped": dropped, "returned": returned})


ROUTES = [Route("GET", "/api/attention", USER, get_attention)]
