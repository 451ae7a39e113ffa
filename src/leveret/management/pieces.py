"""Long answers, made and sent in pieces between which others have their turn: an exporter that asks for all stops nobody.

What is listed may change meanwhile: each object is shown as it is when its turn comes.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from leveret.management.answers import Answer, InPieces, as_json
from leveret.management.lists import columns_of, name_filter, page_of, sort_key, value_at, with_columns

SLICE_S = 0.002
# So many are looked at before the clock is.
GROUP = 20
# So many are sorted at once.
RUN = 1000
PIECE_BYTES = 64 * 1024

T = TypeVar("T")


class Pause:
    """Lets the loop do its other work whenever that is due."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = time.perf_counter() + SLICE_S

    async def rest(self) -> None:
        """Let the loop do something else, if it is time."""
        if time.perf_counter() >= self._end:
            await asyncio.sleep(0)
            self._end = time.perf_counter() + SLICE_S

    async def groups(self, items: Iterable[T]) -> AsyncIterator[list[T]]:
        """All of these, some at a time, with rests between them."""
        iterator = iter(items)
        while group := list(islice(iterator, GROUP)):
            yield group
            await self.rest()

    async def taken(self, items: list[T]) -> AsyncIterator[list[T]]:
        """The same, each group forgotten when it is done: to free a hundred thousand at once takes its time too."""
        items.reverse()
        while items:
            group = items[: -GROUP - 1 : -1]
            del items[-GROUP:]
            yield group
            await self.rest()

    async def in_order(self, items: list[T], key: Callable[[T], Any], reverse: bool = False) -> list[T]:
        """What `sorted` gives, with rests."""
        runs = []
        for start in range(0, len(items), RUN):
            runs.append(sorted(items[start : start + RUN], key=key, reverse=reverse))
            await self.rest()
        if len(runs) == 1:
            return runs[0]
        found: list[T] = []
        async for group in self.groups(merge(*runs, key=key, reverse=reverse)):
            found += group
        return found


class Body:
    """The octets of an answer, in pieces none of which takes long to make or to send."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[bytes | bytearray] = []

    def add(self, octets: bytes) -> None:
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, bytearray) and len(last) < PIECE_BYTES:
            last += octets
        else:
            self.pieces.append(bytearray(octets))


async def listed_in_pieces(
    query: Mapping[str, str],
    subjects: Iterable[T],
    view: Callable[[T], dict[str, Any]],
    key_of: Callable[[T], tuple[str, ...]],
) -> Answer:
    """As `lists.listed`. The subjects are taken one by one: what they come from must not change with the broker."""
    pause = Pause()
    page = page_of(query)
    matches = name_filter(query["name"], query.get("use_regex") == "true") if query.get("name") else None
    total = 0
    found: list[tuple[Any, T]] = []
    async for group in pause.groups(subjects):
        total += len(group)
        keyed = [(key_of(subject), subject) for subject in group]
        found += keyed if matches is None else [one for one in keyed if matches(one[0][-1])]
    filtered = len(found)
    found = await pause.in_order(found, itemgetter(0))
    found = await _sorted_as_asked(pause, query, found, view)
    columns = columns_of(query)

    def shown(subject: T) -> dict[str, Any]:
        return view(subject) if columns is None else with_columns(view(subject), columns)

    if page is None:
        return await _in_json(pause, found, shown)
    items: list[dict[str, Any]] = []
    async for some in pause.groups(page.cut(found)):
        items += [shown(subject) for _, subject in some]
    async for _ in pause.taken(found):
        pass
    return Answer(page.answer(total, filtered, items))


async def _sorted_as_asked(
    pause: Pause, query: Mapping[str, str], found: list[tuple[Any, T]], view: Callable[[T], dict[str, Any]]
) -> list[tuple[Any, T]]:
    """In another order, if one is asked for."""
    sort = query.get("sort", "")
    reverse = query.get("sort_reverse") == "true"
    if sort and sort != "name":
        valued: list[tuple[Any, T]] = []
        async for group in pause.taken(found):
            valued += [(sort_key(value_at(view(subject), sort)), subject) for _, subject in group]
        return await pause.in_order(valued, itemgetter(0), reverse)
    if sort:
        found = await pause.in_order(found, lambda one: one[0][-1])
    if reverse:
        found.reverse()
    return found


async def _in_json(pause: Pause, found: list[tuple[Any, T]], shown: Callable[[T], dict[str, Any]]) -> Answer:
    body = Body()
    before = b"["
    async for group in pause.taken(found):
        body.add(before + b",".join([as_json(shown(subject)) for _, subject in group]))
        before = b","
    body.add(b"]" if before == b"," else b"[]")
    return InPieces(body.pieces)
