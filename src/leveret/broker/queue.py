"""A queue: messages in order, ready or unacknowledged.

It is a deterministic machine. `accept`, `take`, `settle`, `requeue` and `purge` are the only ways its messages change, time
comes in as an argument, and the same commands leave the same state. Who consumes is kept beside it, in a Rotation, and
only `dispatch` and `accept` look there. Knows no client, socket, file or clock; never calls the broker.

  (1) `seq` grows by one with each message and is never reused.
  (2) What was given back stands, in order of seq, before everything that was never taken: whatever was taken came from
      the front, so every seq in `_requeued` is below every seq in the chain (4).
  (3) `ready_count` and `unacked_count` say where each message is: in one of them, or gone.
  (4) What was never taken is a chain from `_head` to `_tail`. Not a list: a long one would have to be copied to grow, and
      the garbage collector would look through it.
  (5) A message is offered to a consumer at once when nothing is ready before it.
"""

from bisect import insort

from leveret.broker.consumer import Consumer, Rotation
from leveret.broker.message import Entry, Message, new_entry
from leveret.broker.work import Task, Work
from leveret.errors import AccessRefused
from leveret.wire.values import Table

DISCARD_PIECE = 4096

# From here on a publisher waits a moment for consumers that are busy reading.
FLOOD_BYTES = 4 << 20
HURRYING_LOOKS = 8


class Dispatch(Task):
    """Goes on with a queue's deliveries that a spent budget interrupted."""

    __slots__ = ("queue",)

    def __init__(self, queue: "Queue") -> None:
        self.queue = queue

    def run(self, work: Work) -> bool:
        self.queue.deferred = False
        self.queue.dispatch()
        return True


class Discard(Task):
    """Frees a chain of entries a piece at a time: a million at once would stop the loop, or overflow the stack."""

    __slots__ = ("_first",)

    def __init__(self, first: Entry | None) -> None:
        self._first = first

    def run(self, work: Work) -> bool:
        for _ in range(DISCARD_PIECE):
            if self._first is None:
                return True
            entry = self._first
            self._first = entry.next
            entry.next = None
        work.left -= DISCARD_PIECE // 8
        return False

    def __del__(self) -> None:
        unchain(self._first)


class Queue:
    """One queue of one virtual host.

    `owner` is the connection an exclusive queue belongs to; `unused` is done when the last consumer leaves;
    `mark` and `is_queue` serve the router.
    """

    __slots__ = (
        "_head",
        "_requeued",
        "_tail",
        "arguments",
        "auto_delete",
        "bindings",
        "deferred",
        "deleted",
        "durable",
        "is_queue",
        "mark",
        "name",
        "next_seq",
        "owner",
        "ready_bytes",
        "ready_count",
        "rotation",
        "title",
        "unacked_bytes",
        "unacked_count",
        "unused",
        "work",
    )

    def __init__(self, name: str, title: str, work: Work, arguments: Table) -> None:
        self.name = name
        self.title = title
        self.work = work
        self.arguments = arguments
        self.durable = False
        self.auto_delete = False
        self.owner: object = None
        self.unused: Task | None = None
        self.bindings: dict[object, object] = {}
        self.is_queue = True
        self.mark = 0
        self.deleted = False
        self.deferred = False
        self.rotation = Rotation()
        self.next_seq = 1
        self.ready_count = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.unacked_bytes = 0
        self._head: Entry | None = None
        self._tail: Entry | None = None
        self._requeued: list[Entry] = []

    # Commands

    def accept(self, message: Message, now: int) -> bool:
        """Take a message at `now` (ms), or give it straight to a consumer; False if it is refused."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self.work.left -= 1
        entry = new_entry(message, seq)
        if self.ready_count == 0 and self.rotation.active_count != 0:
            consumer = self.rotation.next(message.body_size)
            if consumer is not None:
                self._hand_over(entry, consumer)
                return True
        self._append(entry)
        self.ready_count += 1
        self.ready_bytes += message.body_size
        if self.ready_bytes > FLOOD_BYTES:
            self.work.flooded = self
        return True

    def take(self, no_ack: bool) -> Entry | None:
        """Take the first ready message for basic.get; unacknowledged from now on unless `no_ack`."""
        if self.ready_count == 0:
            return None
        entry = self._first()
        self._remove_first(entry)
        self.rotation.revive()
        if not no_ack:
            entry.queue = self
            self.unacked_count += 1
            self.unacked_bytes += entry.message.body_size
        return entry

    def settle(self, entry: Entry) -> None:
        """Forget an unacknowledged message; its consumer has room for another."""
        self.work.left -= 1
        size = entry.message.body_size
        self.unacked_count -= 1
        self.unacked_bytes -= size
        consumer = entry.consumer
        if consumer is not None:
            consumer.window.free(size)
            consumer.shared.free(size)

    def requeue(self, entries: list[Entry]) -> None:
        """Put unacknowledged messages back where they were, marked as delivered before."""
        for entry in entries:
            self.settle(entry)
            entry.queue = None  # type: ignore[assignment]
            entry.consumer = None
            entry.redelivered = True
            if not self.deleted:
                self.ready_count += 1
                self.ready_bytes += entry.message.body_size
        if self.deleted:
            return
        if len(entries) == 1:
            insort(self._requeued, entries[0], key=_backwards)
        elif entries:
            self._put_back(sorted(entries, key=_backwards))
        self.rotation.revive()

    def purge(self) -> int:
        """Drop all ready messages and return how many there were."""
        count = self.ready_count
        self.ready_count = 0
        self.ready_bytes = 0
        self.work.add(Discard(self._head))
        self._head = None
        self._tail = None
        self._requeued = []
        self.rotation.revive()
        return count

    def delete(self) -> int:
        """Drop everything, tell the consumers, and return how many messages were ready."""
        self.deleted = True
        for consumer in list(self.rotation.everyone):
            self.rotation.remove(consumer)
            consumer.cancelled()
        return self.purge()

    # Consumers

    def check_subscribable(self, consumer: Consumer) -> None:
        """Refuse a consumer that wants the queue for itself, or that another has for itself."""
        everyone = self.rotation.everyone
        if everyone and (consumer.exclusive or everyone[0].exclusive):
            raise AccessRefused(f"{self.title} in exclusive use")

    def subscribe(self, consumer: Consumer) -> None:
        """Add a consumer. May call `deliver` before returning."""
        consumer.queue = self
        self.rotation.add(consumer)
        self.dispatch()

    def cancel(self, consumer: Consumer) -> None:
        """Remove a consumer; what it has unacknowledged stays with it."""
        if not consumer.subscribed:
            return
        self.rotation.remove(consumer)
        if self.unused is not None and not self.rotation.everyone:
            self.work.add(self.unused)

    def resume(self, consumer: Consumer) -> None:
        """Count a consumer in again that may have room. May call `deliver` before returning."""
        self.rotation.activate(consumer)
        if self.ready_count != 0:
            self.dispatch()

    def dispatch(self) -> None:
        """Pair ready messages with consumers that can take them."""
        while self.ready_count != 0 and self.rotation.active_count != 0:
            if self.work.left <= 0:
                self._defer()
                return
            entry = self._first()
            consumer = self.rotation.next(entry.message.body_size)
            if consumer is None:
                return
            self._remove_first(entry)
            self._hand_over(entry, consumer)

    def hurrying(self, now: int) -> bool:
        """Whether a consumer is taking messages as fast as its client can read."""
        return any(consumer.hurrying(now) for consumer in self.rotation.everyone[:HURRYING_LOOKS])

    @property
    def consumer_count(self) -> int:
        return len(self.rotation.everyone)

    def _defer(self) -> None:
        if not self.deferred:
            self.deferred = True
            self.work.add(Dispatch(self))

    def _hand_over(self, entry: Entry, consumer: Consumer) -> None:
        self.work.left -= 1
        if not consumer.no_ack:
            size = entry.message.body_size
            entry.queue = self
            entry.consumer = consumer
            consumer.window.take(size)
            consumer.shared.take(size)
            self.unacked_count += 1
            self.unacked_bytes += size
        consumer.deliver(entry)

    # The order

    def _put_back(self, entries: list[Entry]) -> None:
        """Add entries in order, the next one to go last."""
        requeued = self._requeued
        oldest = entries[len(entries) - 1]
        # Much comes back in pieces, oldest first; sorting everything for each would take longer with every piece.
        if not requeued or oldest.seq > requeued[0].seq:
            requeued[:0] = entries
        else:
            requeued.extend(entries)
            requeued.sort(key=_backwards)

    def _append(self, entry: Entry) -> None:
        if self._tail is None:
            self._head = entry
        else:
            self._tail.next = entry
        self._tail = entry

    def _first(self) -> Entry:
        if self._requeued:
            return self._requeued[len(self._requeued) - 1]
        assert self._head is not None
        return self._head

    def _remove_first(self, entry: Entry) -> None:
        self.ready_count -= 1
        self.ready_bytes -= entry.message.body_size
        if self._requeued:
            self._requeued.pop()
            return
        self._head = entry.next
        entry.next = None
        if self._head is None:
            self._tail = None

    def __del__(self) -> None:
        unchain(self._head)


def unchain(entry: Entry | None) -> None:
    """Take a chain apart from its front: freed as a whole it would recurse as deep as it is long."""
    while entry is not None:
        following = entry.next
        entry.next = None
        entry = following


def _backwards(entry: Entry) -> int:
    # The next one to go stands last, where it is cheap to remove.
    return -entry.seq
