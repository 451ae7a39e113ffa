"""Pauses in long work: whoever goes through many objects lets the loop do its other work in between."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

SLICE_S = 0.002
# So many are looked at before the clock is.
GROUP = 20
# So many are sorted at once.
RUN = 1000

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

    async def in_order(self, items: list[T], key: "Callable[[T], SupportsRichComparison]", reverse: bool = False) -> list[T]:
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
