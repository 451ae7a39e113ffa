"""Memory: how much there is, how much we have, and the heap: kept while there is traffic, given back when there is none.

glibc returns free memory to the system at once and asks for it again a moment later, a page fault for every 4 KiB. With
64 KiB messages that was half of the broker's time. Giving back takes long where many small pieces are free (a quarter of a
second for a million), so it takes at most a twentieth of the time.
"""

import asyncio
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from leveret.server.clock import now_ms

KEPT_BYTES = 1 << 30
GROWTH_BYTES = 64 << 20
MMAP_FROM_BYTES = 32 << 20
QUIET_S = 10.0
TRIM_REST = 20

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3


class Heap:
    """glibc's allocator, where there is one; elsewhere, and where it is not ours to be `tuned`, nothing happens."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tuned: bool = True) -> None:
        self._loop = loop
        self._used = False
        self._trim_at = 0
        self._trim = _function("malloc_trim") if tuned else None
        self._timer: asyncio.TimerHandle | None = None
        mallopt = _function("mallopt") if tuned else None
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
        else:
            self.trim()

    def trim(self) -> None:
        """Give back what is free; not if that was done shortly before and took long."""
        start = now_ms()
        if self._trim is not None and start >= self._trim_at:
            self._trim(0)
            end = now_ms()
            self._trim_at = end + TRIM_REST * (end - start)


class Mallinfo(ctypes.Structure):
    """What glibc's mallinfo2 says of its heap, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


class HeapUse:
    """How much of the resident heap nobody uses. To find out takes long in a large heap, so it is not done again at once."""

    def __init__(self) -> None:
        self._mallinfo = _function("mallinfo2")
        if self._mallinfo is not None:
            self._mallinfo.restype = Mallinfo
        self._free_bytes = 0
        self._look_at = 0

    def free_bytes(self) -> int:
        """Bytes that are kept for later; 0 where it cannot be told."""
        start = now_ms()
        if self._mallinfo is not None and start >= self._look_at:
            self._free_bytes = max(0, heap_resident_bytes() - int(self._mallinfo().uordblks))
            end = now_ms()
            self._look_at = end + TRIM_REST * (end - start)
        return self._free_bytes


def heap_resident_bytes(root: Path = Path("/")) -> int:
    """How much of the heap is in memory; 0 where the system does not say."""
    lines = iter(_text(root / "proc/self/smaps").splitlines())
    for line in lines:
        if line.endswith("[heap]"):
            found = next((one for one in lines if one.startswith("Rss:")), "Rss: 0 kB")
            return int(found.split()[1]) * 1024
    return 0


def mapped_bytes(root: Path = Path("/")) -> int:
    """Resident memory that is a file's: programs and libraries; 0 where the system does not say."""
    try:
        return int((root / "proc/self/statm").read_bytes().split()[2]) * PAGE_BYTES
    except OSError:
        return 0


def resident_bytes(root: Path = Path("/")) -> int:
    """Memory in use by this process; 0 where the system does not say."""
    try:
        return int((root / "proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def usable_bytes(root: Path = Path("/")) -> int:
    """Memory that this process may use: the machine's, or less if one of its control groups has less."""
    machine = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    return min([machine, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """What the process's control groups allow, and those around them; of versions 1 and 2."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            folder, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be that of the host, which is not seen: then its own group is at the top.
        for part in (PurePosixPath(group), *PurePosixPath(group).parents):
            limit = _text(folder / str(part).lstrip("/") / name).strip()
            if limit.isdigit():
                yield int(limit)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    return getattr(ctypes.CDLL(None), name, None)
