"""What clients have sent and were promised, and what must therefore be in the queues after another start.

A message is one `Copy` in each `Family` it was routed to: a queue, and the queue of its dead letters if it has one. Of a
copy the books know what was begun (it may go, it may die) and what was promised (it is confirmed, gone, dead). A client
notes what it begins before it sends it, and a promise when it has read it; so whatever ends the broker, and when:

(1) A confirmed copy is in a queue of its family, unless it may have gone.
(2) What is gone is nowhere, what is dead is not in its first queue, and nothing is in two places.
(3) A transaction is done or not, with all its messages.
(4) Messages of one publisher are in order, and every body is whole.
(5) What was delivered from a queue before, or was there at an unclean end, says redelivered; in a queue that nobody
    reads, nothing else does.
(6) Transient messages do not outlive the broker.

The books go on from life to life of the broker, whether they were compared at the start of each or not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import shake_128

from leveret.wire.values import Table


def body_of(message_id: str) -> bytes:
    """The body that the last part but one of an id is the size of."""
    start = message_id.encode() + b" "
    size = int(message_id.split(":")[2])
    return (start + shake_128(start).digest(max(0, size - len(start))))[:size]


def number_of(message_id: str) -> tuple[str, int]:
    """Its publisher, and its number there."""
    stream, number = message_id.split(":")[:2]
    return stream, int(number)


@dataclass(slots=True, eq=False)
class Copy:
    """A message in a family of queues. Publisher and consumer, in threads of their own, each set their own flags."""

    id: str
    family: "Family"
    life: int
    transient: bool = False
    # It may end by itself, and nobody gets it then.
    expires: bool = False
    confirmed: bool = False
    may_go: bool = False
    gone: bool = False
    may_die: bool = False
    dead: bool = False
    transaction: "Transaction | None" = None
    # From where it was delivered, or where it was at an unclean end.
    delivered: set[str] = field(default_factory=set)

    @property
    def certain(self) -> bool:
        """Whether it must be somewhere."""
        return self.confirmed and not (self.may_go or self.expires or self.gone)

    @property
    def size(self) -> int:
        return int(self.id.split(":")[2])

    def places(self) -> set[str]:
        """The queues in which it may be."""
        if self.gone:
            return set()
        found = set() if self.dead else {self.family.home}
        if self.family.grave and (self.may_die or self.dead or self.family.dying):
            found.add(self.family.grave)
        return found

    def reject(self) -> None:
        """Note that it is about to become a dead letter, which is a new message where it comes to."""
        self.delivered.discard(self.family.grave)
        self.may_die = True

    def seen(self) -> None:
        """Note that it has outlived the broker in its first queue: what was begun before was not done."""
        self.confirmed, self.may_go, self.may_die = True, False, False
        if self.transaction is not None:
            self.transaction.resolve(self in self.transaction.made)

    def __str__(self) -> str:
        flags = ("transient", "expires", "confirmed", "may_go", "gone", "may_die", "dead")
        return f"{self.id} of life {self.life} ({' '.join(flag for flag in flags if getattr(self, flag))})"


@dataclass(slots=True, eq=False)
class Family:
    """A queue, its `home`, and its dead letters' queue, the `grave`, if it has one."""

    home: str
    grave: str = ""
    # Its messages may die without anybody's doing.
    dying: bool = False
    # Nobody consumes from it, so that its flags are known exactly.
    unread: bool = False
    arguments: Table = field(default_factory=dict)
    copies: dict[str, Copy] = field(default_factory=dict)
    # What is published while somebody takes messages unseen may be among them.
    emptying: bool = False
    # The last number of each publisher that was delivered for the first time.
    last: dict[str, int] = field(default_factory=dict)

    @property
    def queues(self) -> tuple[str, ...]:
        return (self.home, self.grave) if self.grave else (self.home,)

    def add(self, copy: Copy) -> None:
        self.copies[copy.id] = copy
        # Looked at after the copy is there to be found: one of both sees the other.
        if self.emptying:
            copy.may_go = True

    def begin_emptying(self) -> list[Copy]:
        """Note that messages are about to go unseen: purged, deleted, or sent to somebody who may never read them."""
        self.emptying = True
        found = [copy for copy in list(self.copies.values()) if not (copy.may_go or copy.dead)]
        for copy in found:
            copy.may_go = True
        return found

    def end_emptying(self, kept: Iterable[Copy], gone: Iterable[Copy] = ()) -> None:
        """Note which of them did not go, and which are promised to be gone."""
        for copy in gone:
            copy.gone = True
        for copy in kept:
            copy.may_go = False
        self.emptying = False

    def certain(self) -> list[Copy]:
        return [copy for copy in list(self.copies.values()) if copy.certain]

    def check(self, found: dict[str, list[Copy]]) -> None:
        """Compare with what is in its queues."""
        there: dict[Copy, str] = {}
        for queue in self.queues:
            for copy in found[queue]:
                assert copy not in there, f"twice, in {there[copy]} and in {queue}: {copy}"
                there[copy] = queue
        # Messages are rejected in any order, and die by times of their own.
        check_order(self.home, found[self.home])
        lost = [str(copy) for copy in self.certain() if copy not in there]
        assert not lost, f"{self.home}: {len(lost)} confirmed and lost: {lost[:5]}"
        for copy in list(self.copies.values()):
            if copy in there:
                copy.confirmed, copy.may_go, copy.may_die = True, False, False
                copy.dead = there[copy] == self.grave
            else:
                del self.copies[copy.id]

    def end(self, clean: bool) -> None:
        """Note that the broker has ended."""
        self.emptying = False
        self.last = {}
        for copy in list(self.copies.values()):
            if copy.transient:
                del self.copies[copy.id]
            elif not clean:
                # What dies by itself after the start is new in its grave.
                copy.delivered.update({self.home} if self.dying else self.queues)


def check_order(queue: str, copies: list[Copy]) -> None:
    last: dict[str, int] = {}
    for copy in copies:
        stream, number = number_of(copy.id)
        assert number > last.get(stream, -1), f"{queue}: {copy} comes after number {last[stream]}"
        last[stream] = number


@dataclass(slots=True, eq=False)
class Transaction:
    """Messages that leave a queue, acknowledged or rejected, and messages that are published: all of it, or nothing."""

    moved: list[Copy]
    made: list[Copy]
    rejected: bool = False
    done: bool | None = None

    def begin(self) -> None:
        for copy in (*self.moved, *self.made):
            copy.transaction = self
        for copy in self.moved:
            if self.rejected:
                copy.reject()
            else:
                copy.may_go = True

    def resolve(self, done: bool) -> None:
        """Note what has become of it."""
        self.done = done
        for copy in (*self.moved, *self.made):
            copy.transaction = None
        for copy in self.moved:
            copy.may_go = copy.may_die = False
            copy.gone = done and not self.rejected
            copy.dead = done and self.rejected
        for copy in self.made:
            copy.confirmed, copy.gone = done, not done

    def check(self, found: dict[str, list[Copy]]) -> None:
        """Compare with what is in the queues, and go by that."""
        outcomes = {str(copy): copy not in found[copy.family.home] for copy in self.moved}
        outcomes |= {str(copy): copy in found[copy.family.home] for copy in self.made}
        assert len(set(outcomes.values())) == 1, f"half of a transaction was done: {outcomes}"
        self.resolve(outcomes.popitem()[1])


class Books:
    """All families, and the transactions whose end nobody was told."""

    def __init__(self, families: Iterable[Family]) -> None:
        self.life = 0
        self.families = {family.home: family for family in families}
        self.by_queue = {queue: family for family in self.families.values() for queue in family.queues}
        self.transactions: list[Transaction] = []

    def read(self, queue: str, message_id: str, body: bytes, redelivered: bool) -> Copy:
        """Note a message that was delivered, which must be one that may be there, and whole."""
        copy = self.by_queue[queue].copies.get(message_id)
        assert copy is not None, f"{queue}: {message_id} was settled, or never published, or does not outlive the broker"
        assert queue in copy.places(), f"{queue}: settled and back: {copy}"
        assert body == body_of(message_id), f"{queue}: the body was changed: {copy}"
        self._check_flag(queue, copy, redelivered)
        copy.delivered.add(queue)
        return copy

    def _check_flag(self, queue: str, copy: Copy, redelivered: bool) -> None:
        family = copy.family
        if queue in copy.delivered:
            assert redelivered, f"{queue}: delivered again, and does not say so: {copy}"
        elif family.unread and queue == family.home:
            assert not redelivered, f"{queue}: says redelivered, and never was: {copy}"
        if not redelivered and queue == family.home:
            stream, number = number_of(copy.id)
            last = family.last.get(stream, -1)
            assert number > last, f"{queue}: {copy} is delivered after number {last}"
            family.last[stream] = number

    def take(self, queue: str, message_id: str, body: bytes, redelivered: bool) -> Copy:
        """Note a message that is delivered to somebody at work on it."""
        copy = self.read(queue, message_id, body, redelivered)
        if copy.life < self.life and queue == copy.family.home:
            copy.seen()
        return copy

    def begin(self, transaction: Transaction) -> None:
        """Note that a transaction is about to be committed."""
        self.transactions = [one for one in self.transactions if one.done is None]
        self.transactions.append(transaction)
        transaction.begin()

    def end(self, clean: bool) -> None:
        """Note that the broker has ended, in order or not."""
        self.life += 1
        for family in self.families.values():
            family.end(clean)

    def check(self, found: dict[str, list[Copy]]) -> None:
        """Compare with what is in all queues, and go on from there."""
        for transaction in self.transactions:
            if transaction.done is None:
                transaction.check(found)
        self.transactions = []
        for family in self.families.values():
            family.check(found)
