"""Taking a log over: read to its end, made ours by an EPOCH behind that, and recovered.

(1) EPOCH is appended behind the last message that was read, or refused: then the log has gone on, and is read on. A leader
    that never pauses is taken over too: its next append is as likely to be the late one.
(2) Only then is anything changed: a torn end is cut, and a new segment begun.
(3) What the one before removes while it is read is missing, and all is read again.
"""

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leveret.cluster.nats import Address
from leveret.cluster.seen import Seen
from leveret.cluster.stream import LAG_S, PATIENCE_S, Missing, Stream
from leveret.cluster.stream_disk import StreamDisk
from leveret.store.disk import Disk, make_folder
from leveret.store.found import Found
from leveret.store.journal import Journal
from leveret.store.modes import FOLDER_MODE
from leveret.store.opened import empty_spill
from leveret.store.recovery import Recovery

SEGMENT_SIZE = 8 << 20
# How often the files are read.
READINGS_MAX = 10

log = logging.getLogger("leveret.cluster")


class Abandoned(Exception):
    """Somebody does not want the log any more."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a group's log is: a stream on nats-server, and a folder for what this node knows of it. `node` is who leads."""

    address: Address
    name: str
    folder: Path
    node: str
    segment_size: int = SEGMENT_SIZE
    patience_s: float = PATIENCE_S
    lag_s: float = LAG_S


class Takeover:
    """Of one log, whose queues have these ids. `run` is for a thread of its own; the rest is there when it has returned."""

    disk: StreamDisk
    journal: Journal
    spill: Journal
    recovery: Recovery
    found: dict[int, Found]

    def __init__(self, place: LogPlace, queue_ids: Iterable[int]) -> None:
        self.place = place
        self.stream: Stream | None = None
        # How often EPOCH was tried.
        self.tries = 0
        self._queue_ids = list(queue_ids)
        self._abandoned = threading.Event()

    def run(self) -> None:
        """Lead the log; an OSError or Abandoned says why that cannot be."""
        place = self.place
        seen = Seen(place.folder / "seen")
        stream = self.stream = Stream(place.address, place.name, seen, place.patience_s, place.lag_s)
        self.disk = StreamDisk(stream, place.folder)
        try:
            self._win(stream)
            self._recover_what_stays()
            make_folder(place.folder.absolute(), FOLDER_MODE)
            self.spill = empty_spill(Disk(place.folder), place.segment_size)
        except OSError as error:
            self.close()
            if self._abandoned.is_set():
                raise Abandoned(f"{place.name} is not wanted any more") from error
            raise
        except BaseException:
            self.close()
            raise

    def abandon(self) -> None:
        """Have `run` end soon, and whatever waits for the stream."""
        self._abandoned.set()
        if self.stream is not None:
            self.stream.give_up()

    def close(self) -> None:
        """Let the stream go."""
        if self.stream is not None:
            self.stream.close()

    def _win(self, stream: Stream) -> None:
        while not self._abandoned.is_set():
            self.disk.replay()
            self.tries += 1
            if stream.begin_epoch(self.place.node):
                log.info("%s leads %s, epoch %d, by try %d", self.place.node, stream.name, stream.epoch, self.tries)
                return
        raise Abandoned(f"{self.place.name} is not wanted any more")

    def _recover_what_stays(self) -> None:
        for reading in range(1, READINGS_MAX + 1):
            try:
                self._recover()
                return
            except Missing:
                if not self.disk.forget_purged() or reading == READINGS_MAX:
                    raise

    def _recover(self) -> None:
        self.journal = Journal(self.disk, self.place.segment_size)
        self.recovery = Recovery(self.disk, self.journal)
        self.recovery.read()
        self.recovery.begin(False)
        self.found = self.recovery.find(self._queue_ids)
