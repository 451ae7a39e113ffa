"""A stream of server-sent events: the counters each second, and what was created and deleted.

  counters        sums over what the user may see, as in /api/overview; the node's memory and disk for those who may
  queue.created   and the like, with vhost and name; `broker/events.py` says which. Only from vhosts the user may see
  missed          more happened than is remembered: look anew

An event's id goes on where a client has left off (Last-Event-ID). A user who is changed or deleted is no longer served.
"""

import asyncio
from collections.abc import AsyncIterator

from leveret.broker.events import Event
from leveret.management.api.overview import object_totals
from leveret.management.http.answer import StreamAnswer, bad_request
from leveret.management.http.json import JsonObject, as_json
from leveret.management.http.request import Request, parse_int
from leveret.management.http.route import USER, Result, Route
from leveret.management.statistics.total import broker_counters, message_counts, queue_sums, vhosts_counters
from leveret.server.clock import now_ms

INTERVAL_MAX_S = 60
# Whoever cannot read so many counters is no longer asking for them; 0 is for ever.
COUNT_MAX = 1_000_000
# Who may not listen any more hears nothing more after so long.
LOOK_S = 0.5


def get_stream(request: Request) -> Result:
    """A stream of counters and changes, as server-sent events."""
    interval = parse_int(request.query.get("interval", "1"), "interval")
    count = parse_int(request.query.get("count", "0"), "count")
    if not 1 <= interval <= INTERVAL_MAX_S:
        raise bad_request(f"[interval] must be between 1 and {INTERVAL_MAX_S} seconds")
    if not 0 <= count <= COUNT_MAX:
        raise bad_request(f"[count] must be between 0 and {COUNT_MAX}")
    return StreamAnswer(event_stream(request, interval, count))


async def event_stream(request: Request, interval: int, count: int) -> AsyncIterator[bytes]:
    """The events for one client."""
    events = request.broker.events
    last = left_off(request)
    was = account(request)
    sent = 0
    while True:
        found = events.since(last)
        last = events.count
        if found is None:
            yield event_octets("missed", {}, event_id(request, last))
        for event in found or ():
            if may_see(request, event):
                yield event_octets(event.kind, {"vhost": event.vhost, "name": event.name}, event_id(request, event.number))
        yield event_octets(
            "counters",
            request.statistics.recent_counters.get(visibility(request), lambda: counters(request)),
            event_id(request, last),
        )
        sent += 1
        if sent == count:
            return
        left = float(interval)
        while left > 0:
            await asyncio.sleep(min(left, LOOK_S))
            left -= LOOK_S
            if account(request) != was:
                return


def left_off(request: Request) -> int:
    """The number of the last event that the client has had; of the last there is, if it says none of ours."""
    start, _, number = request.headers.get("Last-Event-ID", "").partition("-")
    if start == str(request.node.started_at) and number.isdecimal() and len(number) < 20:
        return min(int(number), request.broker.events.count)
    # It has come from before a restart, and has missed whatever there was.
    return -1 if start else request.broker.events.count


def event_id(request: Request, number: int) -> str:
    return f"{request.node.started_at}-{number}"


def account(request: Request) -> tuple[object, ...]:
    """What the login was good for: who, with which password and tags."""
    known = request.broker.users.get(request.user.name)
    good = request.user.is_good(now_ms())
    return (known, None if known is None else (known.password_hash, known.tags), good)


def may_see(request: Request, event: Event) -> bool:
    if event.vhost is None:
        return request.has_tag("administrator")
    return request.has_tag("monitoring") or (event.vhost in request.broker.vhosts and request.may_enter(event.vhost))


def visibility(request: Request) -> tuple[object, ...]:
    """What makes one user's counters another's: many pages may be open."""
    if request.has_tag("monitoring"):
        return ()
    return (request.user.name, *(vhost.name for vhost in request.vhosts(visible=True)))


def counters(request: Request) -> JsonObject:
    """Sums over what the user may see."""
    sees_all = request.has_tag("monitoring")
    vhosts = request.vhosts(visible=True)
    counters = broker_counters(request.broker) if sees_all else vhosts_counters(vhosts)
    sums = queue_sums(vhosts)
    found: JsonObject = {
        "time": now_ms(),
        "message_stats": counters.counts(),
        "queue_totals": message_counts(sums),
        "object_totals": object_totals(request, vhosts, sums),
    }
    if sees_all:
        found["node"] = request.statistics.node_counts
        found["alarms"] = [alarm.reason for alarm in request.node.alarms if alarm.is_set]
    return found


def event_octets(kind: str, value: JsonObject, number: str) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (number.encode(), kind.encode(), as_json(value))


ROUTES = [Route("GET", "/api/stream", USER, get_stream)]
