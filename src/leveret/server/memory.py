"""The heap: kept while there is traffic, given back when there is none.

glibc returns free memory to the system at once and asks for it again a moment later, a page fault for every 4 KiB. With
64 KiB messages that was half of the broker's time.
"""

import asyncio
import ctypes

KEPT_BYTES = 1 << 30
GROWTH_BYTES = 64 << 20
MMAP_FROM_BYTES = 32 << 20
QUIET_S = 10.0

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


class Heap:
    """glibc's allocator, where there is one; elsewhere nothing happens."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._used = False
        self._trim = _function("malloc_trim")
        self._timer: asyncio.TimerHandle | None = None
        mallopt = _function("mallopt")
        if mallopt is not None:
            mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
            mallopt(M_TOP_PAD, GROWTH_BYTES)
            mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES)

    def used(self) -> None:
        """There is traffic: look again when it has been quiet for a while."""
        self._used = True
        if self._timer is None and self._trim is not None:
            self._timer = self._loop.call_later(QUIET_S, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._used:
            self._used = False
            self._timer = self._loop.call_later(QUIET_S, self._look)
        elif self._trim is not None:
            self._trim(0)


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    return getattr(ctypes.CDLL(None), name, None)
