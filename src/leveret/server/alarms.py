"""When publishers are stopped: memory or disk space runs low, or storage has fallen behind.

Memory and disk are looked at by a timer, and storage after each read. Nothing is done for a message: the model is told
(`Broker.throttle`), and whoever publishes next is stopped until nothing is wrong any more.

  (1) Without traffic, and with much to spare, one look a second.
  (2) With traffic, the next look is when a limit could be reached at the earliest: no broker fills memory or disk faster
      than `FASTEST`. So the less is left, the more often, and nothing has to be known of what grows.
  (3) A turn of the loop, in which no timer runs, may bring some MiB from each of a thousand clients: there is a look too
      when a quarter of what is left has been read.
  (4) An alarm that is set is looked at once a second, and is over when a twentieth of its limit is left. Memory is looked
      at more often then: queues leave what they have to storage, and publishers wait for that.
  (5) Storage that has fallen behind stops those who gave it most to write: half as much as the first of them, or more. Only
      if what the others bring makes it half as much again all publishers are stopped.
  (6) Before memory is low it is under pressure: queues are asked to leave what they can to storage (`broker/relief.py`).
  (7) Memory that is free and only kept by the heap is given back before memory counts as low, which it does if that was not
      a twentieth of the limit: giving back is slow, and must be rare.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker
from leveret.server.process_memory import resident_bytes, usable_bytes
from leveret.store.disk import Disk

if TYPE_CHECKING:
    from leveret.server.transport import Transport

LOOK_S = 1.0
SOONEST_S = 0.002
RELIEVED_S = 0.1
# Bytes a second.
FASTEST = 2 << 30
FAR = 1 << 62
SPARE_PART = 20
READ_PART = 4
READ_MIN = 1 << 20
SEGMENTS_MIN = 3

# Publishers are stopped when so many bytes wait for the disk, until it is half of that; in little memory, fewer. They may
# become one batch, which is in one segment: files stay small, and their space comes back, only if it is a part of one.
BEHIND_BYTES = 64 << 20
BEHIND_MIN = 1 << 20
BEHIND_PART = 16
BEHIND_SEGMENT_PART = 2
# So many times as much is remembered of who gave storage something to write.
LATELY = 4

LOW_ON_DISK = "low on disk"
LOW_ON_MEMORY = "low on memory"
# Memory is under pressure when so many fifths of its limit are left, or less.
PRESSURE_FIFTHS = 2

log = logging.getLogger("leveret.alarms")


class Alarm:
    """One thing that may run low.

    `left` reads how many bytes of it are left above what must stay; `relieve` may find some more.
    """

    def __init__(self, reason: str, limit: int, left: Callable[[], int], relieve: Callable[[], None] | None = None) -> None:
        self.reason = reason
        self.limit = limit
        self.is_set = False
        self._left = left
        self._relieve = relieve

    def look(self) -> int:
        """Set or clear it; the bytes that are left."""
        spare = max(1, self.limit // SPARE_PART)
        left = self._left()
        low = left < (spare if self.is_set else 0)
        if low:
            if self._relieve is not None:
                self._relieve()
                left = self._left()
            low = left < spare
        if low != self.is_set:
            self.is_set = low
            room = f"limit {self.limit} bytes, {abs(left)} {'left' if left >= 0 else 'short'}"
            if low:
                log.warning("%s (%s): publishers are blocked", self.reason, room)
            else:
                log.warning("no longer %s (%s): publishers are unblocked", self.reason, room)
        return left


def memory_alarm(watermark: float, trim: Callable[[], None]) -> Alarm:
    """For more memory in use than a number of bytes, or than a part of what there is if it is at most 1."""
    alarm = Alarm(LOW_ON_MEMORY, memory_limit(watermark), lambda: alarm.limit - resident_bytes(), trim)
    return alarm


def memory_limit(watermark: float) -> int:
    return int(watermark * usable_bytes() if watermark <= 1 else watermark)


def behind_bytes(memory_limit: int, segment_size: int) -> int:
    """How much may wait for the disk where so much memory may be used and files are so large."""
    return min(BEHIND_BYTES, max(BEHIND_MIN, min(memory_limit // BEHIND_PART, segment_size // BEHIND_SEGMENT_PART)))


def disk_alarm(folder: Path, free_limit: int, segment_size: int) -> Alarm:
    """For less free space in this folder than the limit, or than the next segments need."""
    limit = max(free_limit, SEGMENTS_MIN * segment_size)
    alarm = Alarm(LOW_ON_DISK, limit, lambda: free_bytes(folder) - alarm.limit)
    return alarm


def free_bytes(folder: Path) -> int:
    """Free space; none if that cannot be found out, as when the folder was removed."""
    try:
        return Disk(folder).free_bytes()
    except OSError:
        return 0


class OtherAlarm(Alarm):
    """Something else for which publishers are stopped; whoever knows of it says so."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, 0, lambda: FAR)

    def look(self) -> int:
        return FAR


class Alarms:
    """What is watched, and the connections that are stopped."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, broker: Broker, alarms: list[Alarm], behind_bytes: int = BEHIND_BYTES
    ) -> None:
        self._loop = loop
        self._broker = broker
        self._alarms = alarms
        self._behind_bytes = behind_bytes
        self._blocked: dict[Transport, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        # There was traffic since the last look; there was none before it; how soon to look if there is.
        self._used = False
        self._quiet = False
        self._delay_s = LOOK_S
        self._relieved = False
        # Bytes until the next look.
        self._unread = READ_MIN
        # Whether storage is behind, what each connection gave it to write lately, all of that, and the most of one.
        self._behind = False
        self._given: dict[Transport, int] = {}
        self._given_bytes = 0
        self._most = 0
        # Called now and then while nothing much happens, and while space is short, which it is told.
        self.on_quiet: Callable[[bool], None] | None = None
        # Called while memory is under pressure, with its limit and how much may wait for the disk.
        self.on_pressure: Callable[[int, int], None] | None = None

    @property
    def watched(self) -> list[Alarm]:
        """Memory, and the disk if there is something on it."""
        return list(self._alarms)

    def watch(self, alarm: Alarm) -> None:
        """Stop publishers for this one, too."""
        self._alarms.append(alarm)

    def start(self) -> None:
        """Begin to look."""
        self._on_timer()

    def close(self) -> None:
        self._quiet = False
        if self._timer is not None:
            self._timer.cancel()

    def blocked(self, transport: "Transport") -> None:
        """This connection waits until publishers may go on, and is told of changes."""
        self._blocked[transport] = None

    def unblocked(self, transport: "Transport") -> None:
        """This connection waits no longer."""
        self._blocked.pop(transport, None)

    def gone(self, transport: "Transport") -> None:
        """This connection is no more."""
        self.unblocked(transport)
        self._given.pop(transport, None)

    def gave(self, transport: "Transport", size: int) -> None:
        """What came from this connection is so much for storage to write."""
        given = self._given.get(transport, 0) + size
        self._given[transport] = given
        self._given_bytes += size
        self._most = max(self._most, given)
        if not self._behind:
            if self._given_bytes > LATELY * self._behind_bytes:
                self._forget_given()
        elif 2 * given >= self._most:
            transport.hold_back()

    def _forget_given(self) -> None:
        self._given.clear()
        self._given_bytes = self._most = 0

    def read(self, size: int) -> None:
        """So many bytes have come and were handled."""
        self._unread -= size
        if self._unread <= 0:
            self.look()

    def end_turn(self) -> None:
        """There was traffic."""
        self._used = True
        if self._quiet:
            self._quiet = False
            self._arm(self._delay_s)
        self.look_at_storage()

    def look_at_storage(self) -> None:
        """Stop publishers if too much waits to be written, or let them go on."""
        broker = self._broker
        size = broker.storage.unsynced_size()
        if not self._behind:
            if size > self._behind_bytes:
                self._behind = True
                for transport, given in list(self._given.items()):
                    if 2 * given >= self._most:
                        transport.hold_back()
        elif size <= self._behind_bytes // 2:
            self._behind = False
            self._forget_given()
            self._throttle(broker.alarm, False)
        if size > self._behind_bytes * 3 // 2 and not broker.flow:
            self._throttle(broker.alarm, True)

    def look(self) -> None:
        """Look at memory and disk, and settle when to do so again."""
        lefts = [(self._look_at(alarm), alarm.is_set) for alarm in self._alarms]
        # One that is set can only get better, and may take its time.
        left = min([left for left, is_set in lefts if not is_set], default=FAR)
        self._delay_s = min(LOOK_S, max(SOONEST_S, left / FASTEST))
        self._relieved = any(alarm.is_set and alarm.reason == LOW_ON_MEMORY for alarm in self._alarms)
        # However slow the timer is, no more comes before the next look than a limit has room for.
        least = min((alarm.limit for alarm in self._alarms if alarm.limit), default=FAR)
        self._unread = max(min(READ_MIN, least // READ_PART), left // READ_PART)
        reason = " & ".join(alarm.reason for alarm in self._alarms if alarm.is_set)
        if reason != self._broker.alarm:
            self._throttle(reason, self._broker.flow)

    def _look_at(self, alarm: Alarm) -> int:
        left = alarm.look()
        if self.on_pressure is not None and alarm.reason == LOW_ON_MEMORY and left < alarm.limit * PRESSURE_FIFTHS // 5:
            self.on_pressure(alarm.limit, self._behind_bytes)
        return left

    def _throttle(self, alarm: str, flow: bool) -> None:
        self._broker.throttle(alarm, flow)
        for transport in list(self._blocked):
            transport.throttle_changed()

    def _on_timer(self) -> None:
        self.look()
        self._quiet = not self._used
        self._used = False
        short = any(alarm.is_set and alarm.reason == LOW_ON_DISK for alarm in self._alarms)
        if self.on_quiet is not None and (self._quiet or short):
            self.on_quiet(short)
        delay_s = LOOK_S if self._quiet else self._delay_s
        self._arm(min(delay_s, RELIEVED_S) if self._relieved and self.on_pressure is not None else delay_s)

    def _arm(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self._on_timer)
