"""Publisher confirms of one channel.

Each message published in confirm mode has a number; everything settled since the last time is told in one basic.ack
with `multiple`; what a queue refused has a basic.nack in between. A basic.return goes out before the acknowledgement of
its message, since it is written at once. A persistent message is acknowledged when storage has it, and with it wait
those after it.
"""

from leveret.broker.storage import Storage
from leveret.broker.tally import Tally
from leveret.wire.content import END, frame_head
from leveret.wire.output import Output
from leveret.wire.spec import BASIC_ACK, BASIC_NACK, FRAME_METHOD

ACK_FIELDS = 9
NUMBER_END = 7 + 4 + 8


class Confirms:
    """Numbers published, settled and told; `refused` are those that some queue did not take.

    `persistent` says that there is one among those published since the last time.
    """

    __slots__ = ("_frames", "_nack", "_tally", "_waiting", "persistent", "published", "refused", "told")

    def __init__(self, channel: int, tally: Tally) -> None:
        self._tally = tally
        self.published = 0
        self.told = 0
        self.refused: list[int] = []
        self.persistent = False
        self._waiting: list[tuple[int, int]] = []
        head = frame_head(FRAME_METHOD, channel, 4 + ACK_FIELDS)
        ack = head + BASIC_ACK.to_bytes(4, "big") + bytes(8)
        self._frames = (ack + b"\x00" + END, ack + b"\x01" + END)
        self._nack = head + BASIC_NACK.to_bytes(4, "big") + bytes(9) + END

    def refuse(self) -> None:
        """The last message published was not taken by a queue, or by one more."""
        if not self.refused or self.refused[len(self.refused) - 1] != self.published:
            self.refused.append(self.published)

    def tell(self, output: Output, storage: Storage) -> None:
        """Acknowledge what has been settled and not been told."""
        limit = self.published
        if self.persistent or self._waiting:
            limit = self._stored(storage)
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

    def _stored(self, storage: Storage) -> int:
        """Up to which number storage has what it must have."""
        if self.persistent:
            self.persistent = False
            self._waiting.append((storage.position(), self.published))
        limit = self.told
        while self._waiting and self._waiting[0][0] <= storage.synced:
            limit = self._waiting.pop(0)[1]
        return limit if self._waiting else self.published

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
            self._tally.confirm += count
            output.write_numbered(self._frames[count > 1], NUMBER_END, number)
