"""A queue: messages in order, ready or unacknowledged.

It is a deterministic machine. `accept`, `take`, `settle`, `reject`, `requeue`, `expire`, `purge` and `apply` are the only
ways its state changes, time comes in as an argument or with the pass, and the same commands leave the same state. Who
consumes is kept beside it, in a Rotation, and only `dispatch` and `accept` look there. Knows no client, socket, file or
clock; never calls the broker: what it drops and what that causes goes to the work list.

  (1) `seq` grows by one with each message and is never reused.
  (2) `ready_count` and `unacked_count` say where each message is: in one of them, or gone.
  (3) A message is offered to a consumer at once when nothing is ready before it; a queue that refuses what is too much
      looks at its length first.
  (4) A queue without arguments or policies pays nothing for them: `special` says that there is something to look at.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from leveret.broker.arguments import Traits
from leveret.broker.chain import Chain, chain_for
from leveret.broker.chores import Discard, Dispatch, Expire, Farewell, Trim
from leveret.broker.consumer import Consumer, Rotation
from leveret.broker.deduplication import Deduplication, key_of
from leveret.broker.expiry import Expiry, Lease
from leveret.broker.message import Entry, Message, is_stub, new_entry, renewed_entry
from leveret.broker.pages import FLOOD_BYTES, Page, Pages, Sizes
from leveret.broker.rewriting import counted
from leveret.broker.shelf import Shelf
from leveret.broker.storage import Damaged
from leveret.broker.tally import Tally
from leveret.broker.timers import Timers
from leveret.broker.work import Task, Work
from leveret.wire.content import PERSISTENT
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.policy import Policy


class Queue:
    """One queue of one virtual host.

    `owner` is the connection an exclusive queue belongs to. `unused` is done when the last consumer leaves, `expired` when
    the lease (x-expires) ends, `burial` when something was dropped that has somewhere to go; `dead` is what that is.
    `hidden` says that it is none of its vhost's queues. `ledger` and `hold` are storage's. `mark` and `is_queue` serve the
    router. `cut` says that a change has left messages less time (`Expiry.cut_first`). `touched` is when it was used last.
    """

    __slots__ = (
        "_timers",
        "arguments",
        "auto_delete",
        "back",
        "back_bytes",
        "back_count",
        "back_seq",
        "bindings",
        "burial",
        "chain",
        "created_at",
        "cut",
        "dead",
        "deduplication",
        "deferred",
        "deleted",
        "discard",
        "durable",
        "expired",
        "expiry",
        "handed",
        "hidden",
        "hold",
        "is_queue",
        "lease",
        "ledger",
        "loading",
        "mark",
        "name",
        "next_seq",
        "operator_policy",
        "owner",
        "paged",
        "pages",
        "policy",
        "ready_bytes",
        "ready_count",
        "rotation",
        "shelf",
        "shelved_bytes",
        "sizes",
        "special",
        "tally",
        "title",
        "touched",
        "traits",
        "trimming",
        "unacked_bytes",
        "unacked_count",
        "unused",
        "work",
    )

    def __init__(self, name: str, title: str, work: Work, arguments: Table, timers: Timers | None = None) -> None:
        self.name = name
        self.title = title
        self.work = work
        self.arguments = arguments
        self.durable = False
        self.auto_delete = False
        self.owner: object = None
        self.unused: Task | None = None
        self.expired: Task | None = None
        self.burial: Task | None = None
        self.bindings: dict[object, object] = {}
        self.hidden = False
        self.is_queue = True
        self.mark = 0
        self.deleted = False
        self.deferred = False
        self.rotation = Rotation()
        self.next_seq = 1
        self.created_at = work.now
        self.ready_count = self.unacked_count = 0
        self.ready_bytes = self.unacked_bytes = 0
        self.chain = Chain()
        self.special = False
        self.traits = Traits()
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        self.dead: deque[tuple[Entry, str]] = deque()
        self.lease: Lease | None = None
        self._timers = timers or Timers()
        self.ledger: Any = None
        self.hold: Any = None
        self.paged = False
        self.sizes: Sizes = work.storage.sizes
        self.pages = Pages(self.sizes)
        self.back = Chain()
        self.back_count = 0
        self.back_bytes = 0
        self.back_seq = 0
        self.loading: Page | list[Entry] | None = None
        self.handed: list[Entry] = []
        self.shelf: Shelf | None = None
        self.shelved_bytes = 0
        self.touched = work.now
        self.expiry: Expiry | None = None
        self.cut = False
        self.discard: Discard | None = None
        self.tally = Tally()
        self.trimming = False
        self.deduplication: Deduplication | None = None

    # Commands

    def accept(self, message: Message, now: int) -> bool:
        """Take a message at `now` (ms), or give it straight to a consumer; False if it is refused."""
        if self.special or message.ttl_ms >= 0:
            return self._accept_specially(message, now)
        entry = new_entry(message, self.next_seq)
        self.next_seq += 1
        self.work.left -= 1
        self.tally.publish += 1
        self.touched = now
        stored = self.ledger is not None and message.flags & PERSISTENT
        if self.ready_count == 0 and self.rotation.active_count != 0 and self._offer(entry):
            if stored:
                self._place_delivered(entry)
            return True
        if stored:
            # Before it can be paged out: what has no place in the journal then is lost with the process.
            self.work.place(message, self, entry)
        self._add(entry)
        if entry.waiting and self.rotation.oversized:
            self._reconsider()
        return True

    def take(self, no_ack: bool) -> Entry | None:
        """Take the first ready message for basic.get; unacknowledged from now on unless `no_ack`."""
        entry = self._next()
        if entry is None:
            if self.loading is None:
                self.tally.get_empty += 1
            return None
        self._remove_first(entry)
        self.rotation.revive()
        if entry.redelivered:
            self.tally.redeliver += 1
        if not no_ack:
            self.tally.get += 1
            entry.queue = self
            self.unacked_count += 1
            self.unacked_bytes += entry.message.body_size
            if self.unacked_count > self.sizes.window_count:
                self._strip(entry)
        else:
            self.tally.get_no_ack += 1
            self._left(entry)
            self._gone(entry)
        return entry

    def settle(self, entry: Entry) -> None:
        """Forget an unacknowledged message; its consumer has room for another."""
        self.tally.ack += 1
        self._forget(entry)
        if self.ledger is not None or entry.location != 0:
            self._gone(entry)

    def reject(self, entry: Entry) -> None:
        """Forget an unacknowledged message that its client does not want; it may be dead-lettered."""
        self._forget(entry)
        self._bury(entry, "rejected")

    def requeue(self, entries: list[Entry], refused: bool = False) -> None:
        """Put unacknowledged messages back where they were, marked as delivered before; `refused` if a client asks."""
        kept = []
        for entry in entries:
            self._give_back(entry)
            if self.deleted:
                self._gone(entry)
                continue
            if self._worn_out(entry):
                continue
            if refused and self.traits.requeues_behind and self._come_again(entry):
                continue
            if entry.location != 0 and self.ledger is not None:
                self.ledger.requeue(entry)
            if self.traits.counts_deliveries and not is_stub(entry.message):
                entry.message = counted(entry.message, entry.delivery_count)
            self.ready_count += 1
            self.ready_bytes += entry.message.body_size
            if is_stub(entry.message):
                self.shelved_bytes += entry.message.body_size
            kept.append(entry)
        if kept:
            self.chain.put_back(kept)
            if self.cut:
                self._expiring().cut(kept)
            self._watch(kept)
        self._trim()
        self.rotation.revive()

    def _come_again(self, old: Entry) -> bool:
        """Have a message that was given back come as if for the first time; False if it cannot be read."""
        try:
            message = self.work.storage.fetch(old)
        except Damaged:
            return False
        if self.cut:
            self._expiring().cut([old])
        entry = renewed_entry(old, message, self.next_seq)
        self.next_seq += 1
        if self.ledger is not None and message.flags & PERSISTENT:
            self.work.place(message, self, entry)
        # In the batch of its new place: both count, or none.
        self._gone(old)
        entry.message = counted(message, entry.delivery_count)
        self._add(entry)
        self._watch([entry])
        return True

    def expire(self, now: int) -> None:
        """Drop what has expired."""
        if not self.expire_some(now):
            self.work.add(Expire(self))

    def purge(self) -> int:
        """Drop all ready messages and return how many there were."""
        count = self.ready_count
        self.ready_count = 0
        self.ready_bytes = 0
        if self.deduplication is not None:
            # What is unacknowledged is still here.
            self.deduplication.purge(self.chain.entries() if self.unacked_count else None)
        teller = self._purged()
        pages = self.pages.take_all()
        if isinstance(self.loading, Page):
            pages.append(self.loading)
        discard = Discard(self.chain.detach() + self.back.detach(), teller, pages)
        self.work.add(discard)
        # Until it is done storage has not heard of all.
        self.discard = discard if teller is not None and teller is self.ledger else None
        self.back_count = 0
        self.back_bytes = 0
        self.shelf = None
        self.shelved_bytes = 0
        self.paged = False
        self.loading = None
        if self.expiry is not None:
            self.expiry.stop()
        self.rotation.revive()
        return count

    def delete(self) -> int:
        """Drop everything, tell the consumers, and return how many messages were ready."""
        self.deleted = True
        farewell = Farewell(self.rotation.empty())
        if not farewell.run(self.work):
            self.work.add(farewell)
        if self.lease is not None:
            self.lease.stop()
        return self.purge()

    def restore(self, entries: Iterable[Entry], next_seq: int) -> None:
        """Take back what storage has kept, in order."""
        for entry in entries:
            if self.traits.counts_deliveries and entry.delivery_count:
                entry.message = counted(entry.message, entry.delivery_count)
            if self.deduplication is not None:
                self.deduplication.add(key_of(entry.message))
            self._add(entry)
            self._watch([entry])
        self.next_seq = next_seq
        self._restored()
        self._trim()

    def _restored(self) -> None:
        # Storage does not hear of a policy that gives messages less time.
        if self.traits.message_ttl_ms is not None and self.ready_count:
            self._expiring().shorten(self.work.now + self.traits.message_ttl_ms)

    def apply(self, traits: Traits, now: int) -> None:
        """Follow these limits and times from now on."""
        self.traits = traits
        self.chain = chain_for(self.chain, traits)
        if traits.deduplicates and self.deduplication is None:
            self.deduplication = Deduplication(self.arguments)
        if traits.expires_ms is not None:
            if self.lease is None:
                self.lease = Lease(self, self._timers, now)
            self.lease.renew(now)
        self.rotation.single = traits.single_active_consumer
        self.rotation.in_order = traits.quorum
        limits = (traits.message_ttl_ms, traits.max_length, traits.max_bytes, traits.stay_of, self.hold)
        self.special = traits.deduplicates or any(limit is not None for limit in limits)
        if traits.message_ttl_ms is not None and (self.ready_count or self.unacked_count):
            self._expiring().shorten(now + traits.message_ttl_ms)
        self._trim()
        self.dispatch()

    # Consumers

    def subscribe(self, consumer: Consumer) -> None:
        """Add a consumer. May call `deliver` before returning."""
        consumer.queue = self
        self.rotation.add(consumer)
        self.dispatch()

    def cancel(self, consumer: Consumer) -> None:
        """Remove a consumer; what it has unacknowledged stays with it. May call `deliver` of another one."""
        self.leave(consumer)
        self.dispatch()

    def leave(self, consumer: Consumer) -> None:
        """Remove a consumer that will give back what it has; `dispatch` must follow, as another may be active now."""
        if not consumer.subscribed:
            return
        self.rotation.remove(consumer)
        self.used(self.work.now)
        if not self.rotation.everyone and self.unused is not None:
            self.work.add(self.unused)

    def used(self, now: int) -> None:
        """Somebody uses the queue: its lease begins anew."""
        if self.lease is not None:
            self.lease.renew(now)

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
            entry = self._next()
            if entry is None:
                return
            consumer = self.rotation.next(entry.message.body_size)
            if consumer is None:
                return
            self._remove_first(entry)
            if entry.location == 0 and consumer.no_ack and self.ledger is not None:
                # Storage may hear of it only now, and must hear that it is gone.
                self.work.store()
            self._hand_over(entry, consumer)

    @property
    def consumer_count(self) -> int:
        return len(self.rotation.everyone)

    def _defer(self) -> None:
        if not self.deferred:
            self.deferred = True
            self.work.add(Dispatch(self))

    def _offer(self, entry: Entry) -> bool:
        consumer = self.rotation.next(entry.message.body_size)
        if consumer is None:
            return False
        self._hand_over(entry, consumer)
        return True

    def _hand_over(self, entry: Entry, consumer: Consumer) -> None:
        self.work.left -= 1
        if entry.redelivered:
            self.tally.redeliver += 1
        if not consumer.no_ack:
            self.tally.deliver += 1
            size = entry.message.body_size
            entry.queue = self
            entry.consumer = consumer
            consumer.window.take(size)
            consumer.shared.take(size)
            self.unacked_count += 1
            self.unacked_bytes += size
        else:
            self.tally.deliver_no_ack += 1
            if self.deduplication is not None:
                self._left(entry)
            if self.ledger is not None or entry.location != 0:
                self._gone(entry)
        consumer.deliver(entry)
        if self.unacked_count > self.sizes.window_count and not consumer.no_ack:
            self._strip(entry)

    # Ready messages

    def _add(self, entry: Entry) -> None:
        if self.paged:
            self._add_behind(entry)
        else:
            self.chain.append(entry)
        self.ready_count += 1
        self.ready_bytes += entry.message.body_size
        if self.ready_bytes > self.sizes.watched_bytes or self.ready_count > self.sizes.window_count:
            self._flood(entry)

    def _next(self) -> Entry | None:
        """The first ready message that has not expired."""
        if self.cut:
            self._expiring().cut_first()
        entry = self.chain.first()
        while entry is not None and entry.expires_at != 0 and entry.expires_at <= self.work.now:
            self.drop(entry, "expired")
            if self.cut:
                self._expiring().cut_first()
            entry = self.chain.first()
        if entry is None and self.paged and self.loading is None:
            self._load()
            entry = self.chain.first()
        if entry is not None and entry.message.header_size == 0:
            if self.loading is None:
                stubs = self.chain.stubs(self.sizes.page_count, self.sizes.page_bytes)
                self.loading = stubs
                self.work.storage.load_stubs(self, stubs)
            return None
        if entry is not None and self.hold is not None and self.hold.blocks(entry.seq):
            return None
        return entry

    def _reconsider(self) -> None:
        """A message that has come may go before the one that is too large for some consumers."""
        if self.traits.max_priority:
            self.rotation.revive()
            self.dispatch()

    def _remove_first(self, entry: Entry) -> None:
        self.touched = self.work.now
        self.ready_count -= 1
        self.ready_bytes -= entry.message.body_size
        self.chain.remove(entry)
        if self.paged and self.loading is None and self._low():
            self._load()

    def _strip(self, entry: Entry) -> None:
        """Beyond the window even what is unacknowledged is only in storage."""
        if not self.work.storage.pages or not self.traits.pageable():
            return
        self.handed.append(entry)
        if len(self.handed) > self.sizes.page_count:
            # Not this one, which may be here twice: it may still have to take its place, and its content is being sent.
            handed = [other for other in self.handed if other is not entry and other.queue is self]
            self.handed = [entry]
            self.work.storage.strip(self, handed)

    def filled(self, entries: list[Entry]) -> None:
        """Storage has brought the content of stubs back."""
        if self.loading is not entries:
            return
        self.loading = None
        for entry in entries:
            if entry.waiting and not is_stub(entry.message):
                self.shelved_bytes -= entry.message.body_size
                if self.traits.counts_deliveries:
                    entry.message = counted(entry.message, entry.delivery_count)
        self.rotation.revive()
        self.dispatch()

    # Beyond the window: [front, in memory] [pages] [back, in memory until it makes a page]

    def _flood(self, entry: Entry) -> None:
        if self.ready_bytes > FLOOD_BYTES:
            self.work.flooded = self
        if self.paged or not self.work.storage.pages:
            return
        if self.ready_count > self.sizes.window_count or self.ready_bytes > self.sizes.window_bytes:
            if self.traits.pageable():
                self.paged = True
                self.back_seq = self.next_seq
            else:
                self.shelf = self.shelf or Shelf()
                self.shelf.add(self, entry)

    def _low(self) -> bool:
        """Whether so little is in memory in front that more should be brought back."""
        if self.ready_count - self.pages.count - self.back_count >= self.sizes.window_count // 2:
            return False
        return self.ready_bytes - self.pages.body_bytes - self.back_bytes < self.sizes.window_bytes // 2

    def _add_behind(self, entry: Entry) -> None:
        self.back.append(entry)
        self.back_count += 1
        self.back_bytes += entry.message.body_size
        if self.back_count >= 2 * self.sizes.page_count or self.back_bytes >= 2 * self.sizes.page_bytes:
            self.work.storage.page_out(self)

    def _load(self) -> None:
        """Bring the next page to the front; without one, the back is the front."""
        if self.pages.count != 0:
            page = self.pages.take()
            self.loading = page
            self.work.storage.load(self, page)
            return
        self.chain.join(self.back)
        self.back_count = 0
        self.back_bytes = 0
        self.paged = False

    def loaded(self, page: Page, entries: list[Entry], lost_count: int = 0, lost_bytes: int = 0) -> None:
        """Storage has brought a page back; some of it may be lost."""
        # If not, it was purged meanwhile, and storage has heard of each then.
        if self.loading is not page or self.deleted:
            return
        self.loading = None
        self.ready_count -= lost_count
        self.ready_bytes -= lost_bytes
        for entry in entries:
            if self.traits.counts_deliveries and entry.delivery_count:
                entry.message = counted(entry.message, entry.delivery_count)
            self.chain.append(entry)
        if self.cut:
            self._expiring().cut(entries)
        self._watch(entries)
        if self.paged and self._low():
            self._load()
        self._trim()
        self.rotation.revive()
        self.dispatch()

    def lose(self, entry: Entry) -> None:
        """Forget a ready message whose content cannot be had any more."""
        self._take_out(entry)
        self.work.storage.lose(self, entry.location, entry.message.body_size)
        entry.location = 0

    def restore_pages(self, pages: Pages, next_seq: int, times: list[int]) -> None:
        """Take back what storage has kept, all of it paged out; `times` are those of messages that have their own."""
        self.pages = pages
        self.ready_count = pages.count
        self.ready_bytes = pages.body_bytes
        self.next_seq = self.back_seq = next_seq
        if times:
            self._expiring().restore(times)
        self._restored()
        if pages.count:
            self.paged = True
            self._load()

    def drop(self, entry: Entry, reason: str) -> None:
        """Drop a ready message; it may be dead-lettered."""
        self.work.left -= 1
        self._take_out(entry)
        if self.rotation.oversized:
            self.rotation.revive()
        self._left(entry)
        self._bury(entry, reason)

    def _take_out(self, entry: Entry) -> None:
        """Take a ready message out, wherever it is in memory."""
        if is_stub(entry.message):
            self.shelved_bytes -= entry.message.body_size
        if entry is self.chain.first():
            self._remove_first(entry)
        else:
            self.ready_count -= 1
            self.ready_bytes -= entry.message.body_size
            # Only what is in memory expires where it is.
            chain = self.chain
            if self.paged and entry.seq >= self.back_seq:
                chain = self.back
                self.back_count -= 1
                self.back_bytes -= entry.message.body_size
            chain.forget(entry, self.ready_count)

    def _bury(self, entry: Entry, reason: str) -> None:
        if self.traits.dead_letter_exchange is None or self.burial is None or self.deleted:
            self._gone(entry)
            return
        if not self.dead:
            self.work.add(self.burial)
        self.dead.append((entry, reason))

    def buried(self, entry: Entry) -> None:
        """A message that was dropped is where it goes; storage may forget it here."""
        if self.ledger is not None:
            self.ledger.moved()
        self._gone(entry)

    # Storage

    def hold_back(self, hold: Any) -> None:
        """Deliver nothing that this blocks."""
        self.hold = hold
        self.special = True

    def _place_delivered(self, entry: Entry) -> None:
        """Have it stored, unless its consumer needs no acknowledgement: then it is gone already."""
        if entry.queue is not None:
            self.work.place(entry.message, self, entry)

    def _gone(self, entry: Entry) -> None:
        """It is here no more, nor on its way to where dead letters go."""
        if self.ledger is None or not entry.message.flags & PERSISTENT:
            if entry.location != 0:
                self.work.storage.release(entry)
            return
        if entry.location == 0:
            # Placed and gone within a moment: storage has not heard of it yet.
            self.work.store()
        if entry.location != 0:
            self.ledger.settle(entry)

    def _purged(self) -> Any:
        """Say that all is gone; the ledger if that must be said of each."""
        if self.ledger is None:
            return None
        self.work.store()
        # Of a transaction that is being committed some are settled, and that does not count yet.
        if self.unacked_count or self.dead or self.work.storage.has_open_groups():
            return self.ledger
        self.ledger.purge(self.next_seq - 1)
        return self.ledger.locations

    def _left(self, entry: Entry) -> None:
        if self.deduplication is not None:
            self.deduplication.remove(self.deduplication.key_of(entry), self.work.now)

    # Limits and times

    def _accept_specially(self, message: Message, now: int) -> bool:
        traits = self.traits
        self.work.left -= 1
        key = None
        if self.deduplication is not None:
            key = key_of(message)
            if self.deduplication.seen(key, now):
                return True
        entry = new_entry(message, self.next_seq)
        self.touched = now
        if traits.overflow != "drop-head" and self._too_much(1, message.body_size):
            if traits.overflow == "reject-publish-dlx":
                self._bury(entry, "maxlen")
            return False
        self.next_seq += 1
        self.tally.publish += 1
        if self.deduplication is not None:
            self.deduplication.add(key)
        ttl_ms = traits.ttl_ms_of(message)
        if ttl_ms >= 0:
            entry.expires_at = now + ttl_ms
        stored = self.ledger is not None and message.flags & PERSISTENT
        held = stored and self.hold is not None
        if self.ready_count == 0 and self.rotation.active_count != 0 and not held and self._offer(entry):
            if stored:
                self._place_delivered(entry)
            return True
        if stored:
            self.work.place(message, self, entry)
        if ttl_ms == 0 and self.paged:
            # Behind all the others nobody can have it now, and it must not be paged out as if somebody could.
            self._left(entry)
            self._bury(entry, "expired")
            return True
        self._add(entry)
        if held:
            self.hold.note(entry.seq)
        if self.rotation.oversized:
            self._reconsider()
            if not entry.waiting:
                return True
        if ttl_ms == 0:
            self.drop(entry, "expired")
        elif ttl_ms > 0:
            self._watch([entry])
        self._trim()
        self.dispatch()
        return True

    def _too_much(self, count: int, size: int) -> bool:
        """Whether that many messages and body bytes more are over a limit."""
        traits = self.traits
        if traits.max_length is not None and self.ready_count + count > traits.max_length:
            return True
        return traits.max_bytes is not None and self.ready_bytes + size > traits.max_bytes

    def _trim(self) -> None:
        """Drop from the front what is over a limit; after a change of the limit that may take more than one pass."""
        if not self.trim_some() and not self.trimming:
            self.trimming = True
            self.work.add(Trim(self))

    def trim_some(self) -> bool:
        """Do that as far as the budget goes; True if nothing is over a limit."""
        if self.traits.overflow == "drop-head":
            entry = self.chain.first()
            count = 0
            while entry is not None and self._too_much(0, 0):
                # One message always goes for one that comes, so that the queue does not grow meanwhile.
                if self.work.left <= 0 and count != 0:
                    return False
                count += 1
                expired = entry.expires_at != 0 and entry.expires_at <= self.work.now
                self.drop(entry, "expired" if expired else "maxlen")
                entry = self.chain.first()
        self.trimming = False
        return True

    def _watch(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.expires_at:
                self._expiring().watch(entries)
                return

    def _expiring(self) -> Expiry:
        if self.expiry is None:
            self.expiry = Expiry(self, self._timers)
        return self.expiry

    def expire_some(self, now: int) -> bool:
        """Drop what has expired as far as the budget goes; True if nothing expired is left."""
        return self.expiry is None or self.deleted or self.expiry.drop_some(now)

    def drop_paged(self, seq: int) -> None:
        """Drop a message that has expired while it was paged out."""
        self.work.left -= 1
        entry = self.work.storage.stub(*self.pages.remove(seq))
        self.ready_count -= 1
        self.ready_bytes -= entry.message.body_size
        self._bury(entry, "expired")

    def _forget(self, entry: Entry) -> None:
        self._release(entry)
        if self.deduplication is not None:
            self._left(entry)

    def _release(self, entry: Entry) -> None:
        """It is not unacknowledged any more."""
        self.work.left -= 1
        size = entry.message.body_size
        entry.queue = None  # type: ignore[assignment]
        self.unacked_count -= 1
        self.unacked_bytes -= size
        consumer = entry.consumer
        if consumer is not None:
            consumer.window.free(size)
            consumer.shared.free(size)

    def _give_back(self, entry: Entry) -> None:
        self._release(entry)
        entry.consumer = None
        entry.redelivered = True
        entry.delivery_count += 1

    def _worn_out(self, entry: Entry) -> bool:
        limit = self.traits.delivery_limit
        if limit is None or entry.delivery_count <= limit:
            return False
        self._left(entry)
        self._bury(entry, "delivery_limit")
        return True

    def remove(self) -> None:
        """The lease has ended."""
        if self.expired is not None:
            self.work.add(self.expired)
