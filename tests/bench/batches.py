"""Writes of publishes that are encoded beforehand, in which no two bodies of a run are the same.

A body begins with two numbers of 4 octets: its own among those that were encoded, and how often all of these were sent
before.  The second is set in all messages of a write at once, by one assignment to every n-th octet, so it costs the
generator next to nothing.  (A body of less than 8 octets has as much of it as it takes.)
"""

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.client import FRAME_HEAD, publish_frames

NUMBERS = struct.Struct("<II")
TURN_AT, TURN_OCTETS = 4, 4
WRITE_SIZE, WRITE_COUNT = 65536, 512


class Batches:
    """The writes of one publisher, which hold every routing key in turn.  A write is valid until the next one is made."""

    def __init__(
        self, exchange: str, keys: Sequence[str], body_size: int, properties: tuple[int, bytes], most: int = WRITE_COUNT
    ) -> None:
        head = publish_frames(exchange, keys[0], b"", *properties)
        rest = os.urandom(body_size)[NUMBERS.size :]
        self.size = len(publish_frames(exchange, keys[0], bytes(body_size), *properties))
        self.per_batch = max(1, min(WRITE_SIZE // self.size, WRITE_COUNT, most))
        self._turn_starts = [
            len(head) + FRAME_HEAD + place for place in range(TURN_AT, min(TURN_AT + TURN_OCTETS, body_size))
        ]
        count = -(-len(keys) // self.per_batch) if len(keys) > 1 else 1
        self._batches = [bytearray() for _ in range(count)]
        for number in range(count * self.per_batch):
            body = NUMBERS.pack(number, 0)[:body_size] + rest
            self._batches[number // self.per_batch] += publish_frames(exchange, keys[number % len(keys)], body, *properties)
        self._writes = self._endless()

    def next(self, count: int) -> bytearray | memoryview:
        """Return the next write, or as many messages of it as are wanted."""
        batch = next(self._writes)
        return batch if count == self.per_batch else memoryview(batch)[: self.size * count]

    def _endless(self) -> Iterator[bytearray]:
        turn = 0
        while True:
            for batch in self._batches:
                self._number(batch, turn)
                yield batch
            turn += 1

    def _number(self, batch: bytearray, turn: int) -> None:
        """Set the turn; octets above the first one that is not 0 are as they were the turn before."""
        for place, start in enumerate(self._turn_starts):
            octet = turn >> 8 * place & 0xFF
            batch[start :: self.size] = bytes((octet,)) * self.per_batch
            if octet:
                break
