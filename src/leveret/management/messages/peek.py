"""Looking into a queue without touching it: what is in memory, and what is paged out, which is read from storage."""

import asyncio
from typing import NamedTuple

from leveret.broker.message import Entry, is_stub
from leveret.broker.pages import Page
from leveret.broker.queue import Queue
from leveret.management.http.answer import Refused
from leveret.management.http.json import JsonObject
from leveret.management.messages.view import PayloadFormat, message_view
from leveret.server.node import Node

# As many records as fit a page, and bodies that are no burden to read.
COUNT_MAX = 1000
BODY_BYTES = 16 << 20

TRIES = 5
PATIENCE_S = 30.0


class Plan:
    """Which messages are looked at: those in memory, and a copy of the records of those that are not.

    A queue holds [front, in memory] [pages] [back, in memory]; `found` has None where one must be read.
    """

    __slots__ = ("_bytes", "found", "page", "ready_count")

    def __init__(self, queue: Queue, offset: int, count: int) -> None:
        self.found: list[Entry | None] = []
        self.page = Page(count)
        self.ready_count = queue.ready_count
        self._bytes = 0
        backlog = queue.backlog
        backlog.unfold()
        front = backlog.count - backlog.pages.count - backlog.back_count
        for entry in backlog.front.span(offset, count):
            self._add(entry)
        for record in backlog.pages.span(max(0, offset - front), count - len(self.found)):
            self._add_record(*record)
        skipped = max(0, offset - front - backlog.pages.count)
        for entry in (
            backlog.back.span(skipped, count - len(self.found)) if backlog.back is not None and backlog.paged else []
        ):
            self._add(entry)

    def entries(self, read: list[Entry]) -> list[Entry | None]:
        """Those in memory and those that were read, in order; None is one that is damaged."""
        by_seq = {entry.seq: entry for entry in read}
        seqs = iter(range(self.page.count))
        return [by_seq.get(self.page.seq(next(seqs))) if entry is None else entry for entry in self.found]

    def _add(self, entry: Entry) -> None:
        if is_stub(entry.message):
            self._add_record(entry.seq, entry.location, entry.message.body_size, entry.delivery_count, entry.redelivered)
        elif self._fits(entry.message.body_size):
            self.found.append(entry)

    def _add_record(self, seq: int, location: int, body_size: int, delivery_count: int, redelivered: bool) -> None:
        if self._fits(body_size):
            self.page.add(seq, location, body_size, delivery_count, redelivered)
            self.found.append(None)

    def _fits(self, body_size: int) -> bool:
        """Whether one more may be looked at; after one that is too much there is none."""
        fits = not self.found or self._bytes + body_size <= BODY_BYTES
        self._bytes += body_size if fits else BODY_BYTES
        return fits


class Peeked(NamedTuple):
    """A message that was looked at, where in the queue it stands, and how many are behind it."""

    entry: Entry
    position: int
    behind: int

    def view(self, payload_format: PayloadFormat) -> JsonObject:
        return {**message_view(self.entry, self.behind, payload_format), "position": self.position}


async def peek(node: Node, queue: Queue, offset: int, count: int, payload_format: PayloadFormat) -> list[JsonObject]:
    """Show messages of a queue, which are not changed by it."""
    found, _ = await peek_entries(node, queue, offset, count)
    return [one.view(payload_format) for one in found]


async def peek_entries(node: Node, queue: Queue, offset: int, count: int) -> tuple[list[Peeked], int]:
    """Messages of a queue, which are not changed by it, without those that are damaged; and how many were looked at."""
    for _ in range(TRIES):
        plan = await planned(node, queue, offset, min(count, COUNT_MAX))
        read = await asyncio.wait_for(read_page(node, queue, plan.page), PATIENCE_S)
        if read is not None:
            found = [
                Peeked(entry, at, plan.ready_count - at - 1)
                for at, entry in enumerate(plan.entries(read), offset)
                if entry is not None
            ]
            return found, len(plan.found)
    raise Refused(503, f"{queue.title}: its messages leave faster than they can be read; try again")


async def planned(node: Node, queue: Queue, offset: int, count: int) -> Plan:
    """The plan, made at a moment when no page is on its way."""
    plans: list[Plan] = []

    def make() -> bool:
        if not isinstance(queue.backlog.loading, Page):
            plans.append(Plan(queue, offset, count))
        return bool(plans)

    await node.until(make)
    return plans[0]


async def read_page(node: Node, queue: Queue, page: Page) -> list[Entry] | None:
    """Read those records; None if they have gone meanwhile."""
    if not page.count:
        return []
    done: asyncio.Future[list[Entry] | None] = asyncio.get_running_loop().create_future()

    def tell(entries: list[Entry] | None) -> None:
        if not done.done():
            done.set_result(entries)

    node.do(lambda: node.broker.storage.peek(queue, page, tell))
    return await done
