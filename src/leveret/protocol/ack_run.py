"""Acknowledgements that come one by one, settled together: those in one read that follow each other.

Most clients acknowledge each message by itself, and send many of these frames at once. Settling one costs little; what costs
is to ask its consumer each time whether it takes another message. So a run is settled first and the consumer asked after it.

  (1) A run is what belongs to one consumer, on one channel, frame behind frame. Nobody can tell it from acknowledgements
      that are handled one after the other: the consumer is given as many messages as then, and in the same order.
  (2) It ends before a frame that is anything else, or whose tag is not outstanding: that one is handled by itself, and so
      are its faults.
  (3) It spends half of what is left of the pass, and leaves the other half for the messages that there is room for then.
"""

from leveret.broker.budget import Budget
from leveret.broker.consumer import Consumer
from leveret.broker.queue import Queue
from leveret.protocol.unacked import Unacked
from leveret.wire.frames import FrameReader
from leveret.wire.spec import FRAME_END, FRAME_METHOD

# As an acknowledgement has them: the size of the payload, class and method.
ACK_SIZE, BASIC_CLASS, ACK_METHOD = 13, 60, 80
ACK_FRAME_SIZE = 21


def settle_run(reader: FrameReader, number: int, unacked: Unacked, queue: Queue, consumer: Consumer, budget: Budget) -> int:
    """Settle what the frames behind the reader's current one acknowledge of this consumer's messages; return how many."""
    floor = budget.left >> 1
    count = 0
    while budget.left > floor:
        tag = next_ack(reader, number)
        if tag == 0:
            break
        entry = unacked.take_of(consumer, tag)
        if entry is None:
            break
        reader.at += ACK_FRAME_SIZE
        queue.settle(entry)
        count += 1
    return count


def next_ack(reader: FrameReader, number: int) -> int:
    """The delivery tag that the next frame acknowledges on this channel; 0 if it is another frame, or not whole."""
    p = reader.data
    at = reader.at
    if (
        reader.size - at < ACK_FRAME_SIZE
        or p[at] != FRAME_METHOD
        or (p[at + 1] << 8 | p[at + 2]) != number
        or p[at + 3] | p[at + 4] | p[at + 5] != 0
        or p[at + 6] != ACK_SIZE
        or p[at + 7] | p[at + 9] != 0
        or p[at + 8] != BASIC_CLASS
        or p[at + 10] != ACK_METHOD
        # Tags that no channel lives to see, and those for all up to them.
        or p[at + 11] | p[at + 12] | p[at + 13] | p[at + 14] != 0
        or p[at + 19] & 1 != 0
        or p[at + 20] != FRAME_END
    ):
        return 0
    # First into its variable: compiled, an octet shifted by 24 is an int and may come out negative.
    tag = p[at + 15]
    return tag << 24 | p[at + 16] << 16 | p[at + 17] << 8 | p[at + 18]  # type: ignore[no-any-return]
