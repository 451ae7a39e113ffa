"""Searching the messages of a queue and grouping its dead letters, without touching any: as peeking does, piece by piece."""

from collections.abc import AsyncIterator, Callable

from leveret.broker.message import Message
from leveret.broker.queue import Queue
from leveret.management.http.json import JsonObject, as_json
from leveret.management.http.json_names import as_text
from leveret.management.http.json_table import properties_view
from leveret.management.http.pause import Pause
from leveret.management.messages.move import Chosen, Death, last_death
from leveret.management.messages.peek import COUNT_MAX, Peeked, peek_entries
from leveret.management.messages.view import PayloadFormat
from leveret.server.node import Node
from leveret.wire.content import body_of, properties_of

# In so many messages is looked by one request.
SEARCHED_MAX = 10_000
# What clients write into a header when they give up on a message.
ERROR_HEADERS = ("error", "x-error", "x-exception-message", "x-exception", "exception", "x-failure-reason")
ERROR_CHARACTERS = 200


async def pieces(node: Node, queue: Queue, offset: int, count: int) -> AsyncIterator[list[Peeked]]:
    """Messages from a position on, until the queue or `count` is at an end."""
    pause = Pause()
    end = offset + count
    while offset < end:
        found, looked = await peek_entries(node, queue, offset, min(COUNT_MAX, end - offset))
        if not looked:
            return
        yield found
        offset += looked
        await pause.rest()


async def search(
    node: Node, queue: Queue, matches: Callable[[str], bool], place: tuple[int, int], most: int, shown: PayloadFormat
) -> JsonObject:
    """The messages that match by body, routing key or a property; `place` is where to begin, and in how many to look."""
    offset, count = place
    views: list[JsonObject] = []
    at = offset
    pause = Pause()
    async for piece in pieces(node, queue, offset, min(count, SEARCHED_MAX)):
        for one in piece:
            if len(views) >= most:
                break
            at = one.position + 1
            if matches(text_of(one.entry.message)):
                views.append(one.view(shown))
            await pause.rest()
        if len(views) >= most:
            break
    return {"messages": views, "searched": at - offset, "next": at if at < queue.ready_count else None}


def text_of(message: Message) -> str:
    """All in which one may search: routing key, properties and body."""
    properties = properties_of(message.content, message.header_size)
    body = body_of(message.content, message.header_size, message.body_size, message.frame_size)
    parts = (
        as_text(message.origin.routing_key),
        as_json(properties_view(properties)).decode(),
        body.decode("utf-8", "replace"),
    )
    return "\n".join(parts)


class Group:
    """Dead letters that died of the same in the same queue."""

    def __init__(self, death: Death) -> None:
        self.death = death
        self.count = 0
        self.last: int | None = None
        self.keys: dict[str, int] = {}
        self.error = ""

    def add(self, death: Death, message: Message) -> None:
        self.count += 1
        self.keys[death.routing_key] = self.keys.get(death.routing_key, 0) + 1
        if death.time is not None:
            self.last = death.time if self.last is None else max(self.last, death.time)
        self.error = error_in(message) or self.error

    def view(self) -> JsonObject:
        return {
            "reason": self.death.reason,
            "queue": self.death.queue,
            "exchange": self.death.exchange,
            "count": self.count,
            "last": self.last,
            "routing_keys": sorted(self.keys, key=lambda key: -self.keys[key])[:5],
            "error": self.error,
        }


def error_in(message: Message) -> str:
    """What a client says of why it has given up on a message."""
    headers = properties_of(message.content, message.header_size).headers or {}
    for name in ERROR_HEADERS:
        if isinstance(headers.get(name), str):
            return as_text(str(headers[name]))[:ERROR_CHARACTERS]
    return ""


async def deaths(node: Node, queue: Queue, count: int) -> JsonObject:
    """A queue's dead letters by reason and by the queue in which they died last, the most first."""
    groups: dict[tuple[str, str], Group] = {}
    searched = others = 0
    pause = Pause()
    async for piece in pieces(node, queue, 0, min(count, SEARCHED_MAX)):
        for one in piece:
            searched += 1
            death = last_death(one.entry.message)
            if death is None:
                others += 1
            else:
                groups.setdefault((death.reason, death.queue), Group(death)).add(death, one.entry.message)
            await pause.rest()
    found = sorted(groups.values(), key=lambda group: -group.count)
    return {"groups": [group.view() for group in found], "searched": searched, "others": others, "ready": queue.ready_count}


async def rehearse(node: Node, queue: Queue, count: int, chosen: Chosen) -> JsonObject:
    """What replaying would do, without doing it: how many messages would go, and to which queues."""
    to: dict[str, int] = {}
    moved = searched = 0
    async for piece in pieces(node, queue, 0, SEARCHED_MAX):
        for one in piece:
            if moved >= count:
                break
            searched += 1
            death = last_death(one.entry.message)
            if death is not None and chosen(death):
                moved += 1
                to[death.queue] = to.get(death.queue, 0) + 1
    return {"moved": moved, "left": queue.ready_count - moved, "to": dict(to), "searched": searched}
