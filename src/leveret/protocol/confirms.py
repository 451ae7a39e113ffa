"""Publisher confirms of one channel.

Each message published in confirm mode has a number; everything settled since the last time is told in one basic.ack
with `multiple`; what a queue refused has a basic.nack in between. A basic.return goes out before the acknowledgement of
its message, since it is written at once. A persistent message is acknowledged when the storage of each queue that it went
to has it, and with it wait those after it: a `multiple` tells of all before.
"""

from leveret.broker.counters import Counters
from leveret.broker.storage import Storage
from leveret.wire.content import END, frame_head
from leveret.wire.output import Output
from leveret.wire.spec import BASIC_ACK, BASIC_NACK, FRAME_METHOD

ACK_FIELDS = 9
NUMBER_END = 7 + 4 + 8


class Confirms:
    """The numbers of the last message `published` and the last one `told`; `refused` are those that some queue did not take.

    `storage` is where persistent messages went last, those from number `_first` on; None if none did since `_wait` was
    called. `_waiting` are those before: a storage, the position that it must have synced, and the first number that waits
    for it. A broker has one storage today; queues that are replicated will each have a log of their own.
    """

    __slots__ = ("_counters", "_first", "_frames", "_nack", "_waiting", "published", "refused", "storage", "told")

    def __init__(self, channel: int, counters: Counters) -> None:
        self._counters = counters
        self.published = 0
        self.told = 0
        self.refused: list[int] = []
        self.storage: Storage | None = None
        self._first = 0
        self._waiting: list[tuple[Storage, int, int]] = []
        head = frame_head(FRAME_METHOD, channel, 4 + ACK_FIELDS)
        ack = head + BASIC_ACK.to_bytes(4, "big") + bytes(8)
        self._frames = (ack + b"\x00" + END, ack + b"\x01" + END)
        self._nack = head + BASIC_NACK.to_bytes(4, "big") + bytes(9) + END

    def refuse(self) -> None:
        """The last message published was not taken by a queue, or by one more."""
        if not self.refused or self.refused[len(self.refused) - 1] != self.published:
            self.refused.append(self.published)

    def wait_for(self, storage: Storage) -> None:
        """The last message published must be in this storage, too."""
        self._wait()
        self.storage = storage
        self._first = self.published

    def _wait(self) -> None:
        """Note up to where the storage of the last ones must be synced."""
        if self.storage is not None:
            self._waiting.append((self.storage, self.storage.position(), self._first))
            self.storage = None

    def tell(self, output: Output) -> None:
        """Acknowledge what has been settled and not been told."""
        limit = self.published
        if self.storage is not None or self._waiting:
            limit = self._stored()
        if self.refused:
            self._tell_refused(output, limit)
        self._tell_up_to(limit, output)

    def lose(self, output: Output) -> None:
        """Storage has failed: refuse all that wait for it."""
        for number in range(self.told + 1, self.published + 1):
            output.write_numbered(self._nack, NUMBER_END, number)
        self.told = self.published
        self.refused = []
        self._waiting = []

    def _stored(self) -> int:
        """Up to which number everything is where it must be."""
        self._wait()
        while self._waiting:
            storage, position, first = self._waiting[0]
            if position > storage.synced:
                return first - 1
            del self._waiting[0]
        return self.published

    def _tell_refused(self, output: Output, limit: int) -> None:
        refused = self.refused
        self.refused = []
        for number in refused:
            if number > limit:
                self.refused.append(number)
                continue
            self._tell_up_to(number - 1, output)
            output.write_numbered(self._nack, NUMBER_END, number)
            self.told = number

    def _tell_up_to(self, number: int, output: Output) -> None:
        count = number - self.told
        if count > 0:
            self.told = number
            self._counters.confirm += count
            output.write_numbered(self._frames[count > 1], NUMBER_END, number)
