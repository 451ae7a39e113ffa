"""How far a stream was seen to reach, in a file of this node's own: one that ends before that is not the log.

A lower bound, written now and then, so that losing the newest of it costs nothing but some of that guard.
"""

import os
from contextlib import suppress
from pathlib import Path

from leveret.store.disk import make_folder, sync_folder
from leveret.store.modes import FOLDER_MODE, private

# Written again once it is so many messages more.
EVERY = 256


class Seen:
    """The last sequence known, and the one in the file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.seq = 0
        # An empty or broken file says nothing: the stream is looked at all the same.
        with suppress(FileNotFoundError, ValueError):
            self.seq = int(file.read_text())

    def note(self, seq: int) -> None:
        """It has reached this one; written if that is much more."""
        if seq >= self.seq + EVERY:
            self.write(seq)

    def write(self, seq: int) -> None:
        """Have it on disk that it has reached this one."""
        if seq <= self.seq:
            return
        make_folder(self._file.parent.absolute(), FOLDER_MODE)
        new = self._file.with_suffix(".new")
        with open(new, "w", opener=private) as file:
            file.write(f"{seq}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._file)
        sync_folder(self._file.parent)
        self.seq = seq
