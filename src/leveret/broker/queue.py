"""A queue: messages in order, ready or unacknowledged.

It is a deterministic machine: its state depends on the commands it was given and on nothing else. These are

  accept, accept_for_a_time, keep,          a message comes: it gets its place in the order, is ready, is within the limits
  apply_limits
  refuse                                    it does not
  pass_on, hand_over_new                    it goes to a consumer at once
  first, remove_first, hand_over, take,     the first one goes: to a consumer, by basic.get
  hand_over_octets
  settle, reject, requeue                   it is acknowledged, not wanted, given back
  drop, drop_paged, expire, purge, delete   what is ready goes
  dead_letter_published                     what was dropped has arrived where dead letters go
  apply, renew_expiry, expire_unused        limits and times change; it is used; it was not for too long
  loaded, opened, filled, lose              storage has brought, or lost, what is beyond the window
  restore, restore_pages                    storage gives back what it kept over a restart

with the time as an argument or in the budget of the pass. Which message goes to which consumer is decided in `dispatch.py`.
Of consumers the queue knows this much: who has what is unacknowledged, whose window it frees; the `Rotation` beside it,
which it tells when what is first has changed, and asks whether all who listen take octets as they are. Knows no client,
socket, file or clock; never calls the broker: what it drops and what that causes goes to the work list. What of it is in
memory is its `Backlog`'s.

  (1) `seq` grows by one with each message that is accepted and is never reused.
  (2) `backlog.count`, `unacked_count` and `dead` say where each message is: in one of them, or gone.
  (3) A queue without arguments or policies pays nothing for them: `needs_checks` says that each message must be looked at.
  (4) A persistent message of a durable queue is placed in the log before it can be paged out: what has no place there then
      is lost with the process.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from leveret.broker.arguments import QueueSettings
from leveret.broker.backlog import Backlog
from leveret.broker.consumer import Consumer
from leveret.broker.counters import Counters
from leveret.broker.deduplication import Deduplication, key_of
from leveret.broker.expiry import MessageExpiry, QueueExpiry
from leveret.broker.limits import Limits, limits_of
from leveret.broker.message import Entry, Message, is_stub, new_entry, renewed_entry
from leveret.broker.open_page import OpenPage
from leveret.broker.pages import FLOOD_BYTES, Page, Pages
from leveret.broker.queue_tasks import Discard, Expire, Farewell
from leveret.broker.rewrite import counted
from leveret.broker.rotation import Rotation
from leveret.broker.storage import Damaged, Ledger, Settler, Storage, SyncBarrier
from leveret.broker.timers import Timers
from leveret.broker.work import Task, Work
from leveret.wire.content import PERSISTENT
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.broker.policy import Policy


class Queue:
    """One queue of one virtual host.

    `title` is what texts call it, `owner` the connection an exclusive queue belongs to. `hidden` says that it is none of
    its vhost's queues: a direct reply-to's, or one in which an exchange keeps messages (`hidden_queue.py`). `storage` is
    where its messages are stored: of a replicated queue, the log of its group. `ledger` and `barrier` are storage's, so is
    `keeps_all`: PERSISTENT if transient messages are stored too, as in a queue with replicas, else 0. `reached_in` and
    `is_queue` serve the router. `has_cutoffs` says that a change has left messages less time (`MessageExpiry.cut_first`).
    `touched` is when a message came or went last, for `Relief`; x-expires does not go by it.

    Tasks that others have left here: `when_unused` is done when the last consumer leaves, `when_expired` when it was unused
    for too long (x-expires), `dead_letter_task` when something was dropped that has somewhere to go, which is in `dead`.
    `dispatch_task` asks its consumers once more; while it is on the work list, `dispatch_deferred` is set.
    """

    __slots__ = (
        "_timers",
        "arguments",
        "auto_delete",
        "away",
        "backlog",
        "barrier",
        "bindings",
        "counters",
        "created_at",
        "dead",
        "dead_letter_task",
        "deduplication",
        "deleted",
        "discard",
        "dispatch_deferred",
        "dispatch_task",
        "durable",
        "has_cutoffs",
        "hidden",
        "home",
        "is_queue",
        "keeps_all",
        "ledger",
        "limits",
        "message_expiry",
        "name",
        "needs_checks",
        "next_seq",
        "operator_policy",
        "owner",
        "policy",
        "queue_expiry",
        "reached_in",
        "rotation",
        "settings",
        "storage",
        "title",
        "touched",
        "unacked_bytes",
        "unacked_count",
        "when_expired",
        "when_unused",
        "work",
    )

    def __init__(self, name: str, title: str, work: Work, arguments: Table, timers: Timers | None = None) -> None:
        self.name = name
        self.title = title
        self.work = work
        self.storage: Storage = work.storage
        self.arguments = arguments
        self.durable = False
        self.auto_delete = False
        self.owner: object = None
        self.when_unused: Task | None = None
        self.when_expired: Task | None = None
        self.dead_letter_task: Task | None = None
        self.dispatch_task: Task | None = None
        self.bindings: dict[object, object] = {}
        self.hidden = False
        self.is_queue = True
        self.reached_in = 0
        self.deleted = False
        self.dispatch_deferred = False
        self.rotation = Rotation()
        self.next_seq = 1
        self.created_at = self.touched = work.budget.now
        self.backlog = Backlog(work.storage.sizes, work.storage.can_page)
        self.unacked_count = 0
        self.unacked_bytes = 0
        self.needs_checks = False
        self.home = ""
        self.away = False
        self.settings = QueueSettings()
        self.limits: Limits | None = None
        self.policy: Policy | None = None
        self.operator_policy: Policy | None = None
        self.dead: deque[tuple[Entry, str]] = deque()
        self.queue_expiry: QueueExpiry | None = None
        self._timers = timers or Timers()
        self.ledger: Ledger | None = None
        self.barrier: SyncBarrier | None = None
        self.keeps_all = 0
        self.message_expiry: MessageExpiry | None = None
        self.has_cutoffs = False
        self.discard: Discard | None = None
        self.counters = Counters()
        self.deduplication: Deduplication | None = None

    @property
    def ready_count(self) -> int:
        return self.backlog.count

    @property
    def ready_bytes(self) -> int:
        """Octets in the bodies of what is ready."""
        return self.backlog.body_bytes

    @property
    def consumer_count(self) -> int:
        return len(self.rotation.everyone)

    # A message comes

    def accept(self, message: Message, now: int) -> Entry:
        """Give a message that comes at `now` (ms) its place in the order; `keep` makes it ready."""
        entry = new_entry(message, self.next_seq)
        self.next_seq += 1
        self.work.budget.left -= 1
        self.counters.publish += 1
        self.touched = now
        return entry

    def accept_for_a_time(self, message: Message, now: int, ttl_ms: int) -> Entry:
        """The same for one that may stay so long, or for ever if that is negative."""
        entry = self.accept(message, now)
        if self.deduplication is not None:
            self.deduplication.add(key_of(message))
        if ttl_ms >= 0:
            entry.expires_at = now + ttl_ms
        return entry

    def is_duplicate(self, message: Message, now: int) -> bool:
        """Whether such a message is here, or was lately."""
        return self.deduplication is not None and self.deduplication.seen(key_of(message), now)

    def refuse(self, message: Message, now: int) -> None:
        """Do not take a message that is one too many; it may be dead-lettered."""
        self.work.budget.left -= 1
        self.touched = now
        if self.settings.overflow == "reject-publish-dlx":
            self._dead_letter(new_entry(message, self.next_seq), "maxlen")

    def must_sync_first(self, message: Message) -> bool:
        """Whether nobody may have a message before it is on disk."""
        return self.barrier is not None and self.ledger is not None and bool((message.flags | self.keeps_all) & PERSISTENT)

    def keep(self, entry: Entry, ttl_ms: int = -1) -> None:
        """Make a message ready that was accepted and may stay for `ttl_ms`, or for ever if that is negative."""
        stored = self.ledger is not None and (entry.message.flags | self.keeps_all) & PERSISTENT
        if stored:
            # Before it can be paged out: what has no place in the journal then is lost with the process.
            self.storage.place(entry.message, self, entry)
        if ttl_ms == 0 and self.backlog.paged:
            # It must be delivered now or never, and others are ahead of it.
            self._forget_key(entry)
            self._dead_letter(entry, "expired")
            return
        self.backlog.add(self, entry)
        if self.backlog.body_bytes > FLOOD_BYTES:
            self.work.budget.flooded = self
        if stored and self.barrier is not None:
            self.barrier.note(entry.seq)

    def apply_limits(self, entry: Entry, ttl_ms: int) -> None:
        """Set the time of a message that was kept, and hold the queue to its lengths."""
        if not entry.waiting:
            return
        if ttl_ms == 0:
            self.drop(entry, "expired")
        elif ttl_ms > 0:
            self._watch([entry])
        if self.limits is not None:
            self.limits.trim(self)

    # The first one goes

    def first(self) -> Entry | None:
        """The first ready message that has not expired; None if there is none, it is being read, or it is not synced yet."""
        backlog = self.backlog
        if self.has_cutoffs:
            self._expiring().cut_first()
        entry = backlog.front.first()
        while entry is not None and entry.expires_at != 0 and entry.expires_at <= self.work.budget.now:
            self.drop(entry, "expired")
            if self.has_cutoffs:
                self._expiring().cut_first()
            entry = backlog.front.first()
        # `is_stub`, written out: it is asked for each message.
        if entry is None or entry.message.header_size == 0:
            entry = backlog.bring(self)
        if entry is not None and self.barrier is not None and self.barrier.blocks(entry.seq):
            return None
        return entry

    def remove_first(self, entry: Entry) -> None:
        """It is ready no more; `hand_over` says where it has gone."""
        self.touched = self.work.budget.now
        self.backlog.remove_first(self, entry)

    def pass_on(self, message: Message, consumer: Consumer, now: int) -> Entry:
        """Accept a message and hand it over at once."""
        entry = self.accept(message, now)
        self.hand_over_new(entry, consumer)
        return entry

    def hand_over_new(self, entry: Entry, consumer: Consumer) -> None:
        """Hand a message over that was accepted and never was ready."""
        self.hand_over(entry, consumer)
        # Stored only after `hand_over`: without acknowledgements it is already done with.
        if self.ledger is not None and entry.queue is not None and (entry.message.flags | self.keeps_all) & PERSISTENT:
            self.storage.place(entry.message, self, entry)

    def hand_over(self, entry: Entry, consumer: Consumer) -> None:
        """A consumer has it: unacknowledged from now on, or gone if that consumer does not acknowledge."""
        if entry.redelivered:
            self.counters.redeliver += 1
        if not consumer.no_ack:
            self.counters.deliver += 1
            entry.consumer = consumer
            self._begin_unacked(entry)
            return
        self.counters.deliver_no_ack += 1
        if self.deduplication is not None:
            self._forget_key(entry)
        if self.ledger is not None or entry.location != 0:
            self._settle_stored(entry)

    def hand_over_octets(self, page: OpenPage, end: int, consumer: Consumer) -> list[Entry]:
        """A consumer has the messages of the first opened page up to `end`.

        Unacknowledged from now on, as stubs, which are returned, or gone if that consumer does not acknowledge.
        """
        first = page.at
        entries: list[Entry] = []
        self.touched = self.work.budget.now
        if not consumer.no_ack:
            self.counters.deliver += end - first
            entries = page.stubs(end)
            for entry in entries:
                entry.consumer = consumer
                self._begin_unacked(entry)
        page.at = end
        if consumer.no_ack:
            self.counters.deliver_no_ack += end - first
            self._settle_octets(page, first)
        self.backlog.remove_octets(self, page, first)
        return entries

    def _settle_octets(self, page: OpenPage, first: int) -> None:
        """The messages of a page from `first` to where it is now are here no more; all are in the same log."""
        if self.ledger is None or not (page.flags(first) | self.keeps_all) & PERSISTENT:
            self.storage.release_octets(page, first)
        else:
            self.ledger.settle_octets(page, first)

    def take(self, no_ack: bool) -> Entry | None:
        """Take the first ready message for basic.get; unacknowledged from now on unless `no_ack`."""
        entry = self.first()
        if entry is None:
            # While something is read it is not empty, and who asked is answered when that is here.
            if self.backlog.loading is None:
                self.counters.get_empty += 1
            return None
        self.remove_first(entry)
        self.rotation.revive()
        if entry.redelivered:
            self.counters.redeliver += 1
        if not no_ack:
            self.counters.get += 1
            self._begin_unacked(entry)
            if self.unacked_count > self.backlog.sizes.window_count:
                self.backlog.evict_unacked(self, entry)
            return entry
        self.counters.get_no_ack += 1
        self._forget_key(entry)
        self._settle_stored(entry)
        return entry

    def _begin_unacked(self, entry: Entry) -> None:
        entry.queue = self
        self.unacked_count += 1
        self.unacked_bytes += entry.message.body_size

    # What is unacknowledged is done with, or comes back

    def settle(self, entry: Entry) -> None:
        """Forget an unacknowledged message; its consumer has room for another."""
        self.counters.ack += 1
        self._forget_unacked(entry)
        if self.ledger is not None or entry.location != 0:
            self._settle_stored(entry)

    def reject(self, entry: Entry) -> None:
        """Forget an unacknowledged message that its client does not want; it may be dead-lettered."""
        self._forget_unacked(entry)
        self._dead_letter(entry, "rejected")

    def requeue(self, entries: list[Entry], by_client: bool = False) -> None:
        """Put unacknowledged messages back where they were, marked as delivered before.

        `by_client` says that the client gave them back; if not, its channel or connection has ended.
        """
        kept = []
        for entry in entries:
            self._return_unacked(entry)
            if self.deleted:
                self._settle_stored(entry)
                continue
            if self._over_delivery_limit(entry):
                continue
            if by_client and self.settings.requeues_behind and self._requeue_behind(entry):
                continue
            if entry.location != 0 and self.ledger is not None and (entry.message.flags | self.keeps_all) & PERSISTENT:
                self.ledger.requeue(entry)
            # Stubs are counted when they have their content again (`filled`).
            if self.settings.counts_deliveries and not is_stub(entry.message):
                entry.message = counted(entry.message, entry.delivery_count)
            kept.append(entry)
        if kept:
            self.backlog.put_back(kept)
            if self.has_cutoffs:
                self._expiring().apply_cutoffs(kept)
            self._watch(kept)
        self._trim()
        self.rotation.revive()

    def _requeue_behind(self, old: Entry) -> bool:
        """Have a message that was given back come as if for the first time; False if it cannot be read."""
        # RabbitMQ: a quorum queue without a delivery limit writes it anew, behind all others.
        try:
            message = self.storage.fetch(old)
        except Damaged:
            return False
        if self.has_cutoffs:
            self._expiring().apply_cutoffs([old])
        entry = renewed_entry(old, message, self.next_seq)
        self.next_seq += 1
        if self.ledger is not None and (message.flags | self.keeps_all) & PERSISTENT:
            self.storage.place(message, self, entry)
        # In the batch of its new place: both count, or none.
        self._settle_stored(old)
        entry.message = counted(message, entry.delivery_count)
        self.backlog.add(self, entry)
        self._watch([entry])
        return True

    def _over_delivery_limit(self, entry: Entry) -> bool:
        limit = self.settings.delivery_limit
        if limit is None or entry.delivery_count <= limit:
            return False
        self._forget_key(entry)
        self._dead_letter(entry, "delivery_limit")
        return True

    def _forget_unacked(self, entry: Entry) -> None:
        """It does not come back."""
        self._end_unacked(entry)
        if self.deduplication is not None:
            self._forget_key(entry)

    def _return_unacked(self, entry: Entry) -> None:
        """It comes back, delivered before."""
        self._end_unacked(entry)
        entry.consumer = None
        entry.redelivered = True
        entry.delivery_count += 1

    def _end_unacked(self, entry: Entry) -> None:
        """It is not unacknowledged any more."""
        self.work.budget.left -= 1
        size = entry.message.body_size
        entry.queue = None  # type: ignore[assignment]
        self.unacked_count -= 1
        self.unacked_bytes -= size
        consumer = entry.consumer
        if consumer is not None:
            consumer.window.free(size)
            consumer.channel_window.free(size)

    # What is ready goes otherwise

    def drop(self, entry: Entry, reason: str) -> None:
        """Drop a ready message; it may be dead-lettered."""
        self.work.budget.left -= 1
        if entry is self.backlog.front.first():
            self.touched = self.work.budget.now
        self.backlog.remove(self, entry)
        if self.rotation.oversized:
            self.rotation.revive()
        self._forget_key(entry)
        self._dead_letter(entry, reason)

    def drop_paged(self, seq: int) -> None:
        """Drop a message that has expired while it was paged out."""
        self.work.budget.left -= 1
        self._dead_letter(self.backlog.remove_paged(self, seq), "expired")

    def expire(self, now: int) -> None:
        """Drop what has expired."""
        if not self.expire_some(now):
            self.work.add(Expire(self))

    def expire_some(self, now: int) -> bool:
        """Drop what has expired as far as the budget goes; True if nothing expired is left."""
        if self.message_expiry is not None and not self.deleted:
            if not self.message_expiry.drop_some(now):
                return False
            self.defer_dispatch()
        return True

    def purge(self) -> int:
        """Drop all ready messages and return how many there were."""
        count = self.backlog.count
        if self.deduplication is not None:
            # What is unacknowledged is still here.
            self.deduplication.purge(self.backlog.front.entries() if self.unacked_count else None)
        teller = self._tell_purge()
        discard = Discard(self.storage, *self.backlog.clear(), teller)
        self.work.add(discard)
        # Until it is done storage has not heard of all.
        self.discard = discard if teller is not None and teller is self.ledger else None
        if self.message_expiry is not None:
            self.message_expiry.stop()
        self.rotation.revive()
        return count

    def delete(self) -> int:
        """Drop everything, tell the consumers, and return how many messages were ready."""
        self.deleted = True
        self.dispatch_task = None
        farewell = Farewell(self.rotation.empty())
        if not farewell.run(self.work.budget):
            self.work.add(farewell)
        if self.queue_expiry is not None:
            self.queue_expiry.stop()
        return self.purge()

    def _dead_letter(self, entry: Entry, reason: str) -> None:
        """It was dropped: it goes where dead letters go, or nowhere."""
        if self.settings.dead_letter_exchange is None or self.dead_letter_task is None or self.deleted:
            self._settle_stored(entry)
            return
        if not self.dead:
            self.work.add(self.dead_letter_task)
        self.dead.append((entry, reason))

    def dead_letter_published(self, entry: Entry) -> None:
        """A message that was dropped is where it goes; storage may forget it here."""
        if self.ledger is not None:
            self.ledger.moved()
        self._settle_stored(entry)

    # Limits and times

    def apply(self, settings: QueueSettings, now: int) -> None:
        """Follow these limits and times from now on."""
        self.backlog.unfold()
        self.settings = settings
        self.limits = limits_of(settings)
        self.backlog.suit(settings)
        if settings.deduplicates and self.deduplication is None:
            self.deduplication = Deduplication(self.arguments)
        if settings.expires_ms is not None:
            if self.queue_expiry is None:
                self.queue_expiry = QueueExpiry(self, self._timers, now)
            self.queue_expiry.renew(now)
        self.rotation.single = settings.single_active_consumer
        self.rotation.in_order = settings.quorum
        limiting = (self.limits, settings.message_ttl_ms, settings.stay_of, self.barrier)
        self.needs_checks = self.away or settings.deduplicates or any(one is not None for one in limiting)
        if settings.message_ttl_ms is not None and (self.backlog.count or self.unacked_count):
            self._expiring().shorten(now + settings.message_ttl_ms)
        self._trim()
        self.defer_dispatch()

    def renew_expiry(self, now: int) -> None:
        """Somebody uses the queue: the time after which it expires (x-expires) begins anew."""
        if self.queue_expiry is not None:
            self.queue_expiry.renew(now)

    def expire_unused(self) -> None:
        """It has been unused for too long."""
        if self.when_expired is not None:
            self.work.add(self.when_expired)

    def defer_dispatch(self) -> None:
        """Have consumers asked later whether they can take what is first."""
        if self.dispatch_task is not None and not self.dispatch_deferred:
            self.dispatch_deferred = True
            self.work.add(self.dispatch_task)

    def _trim(self) -> None:
        if self.limits is not None:
            self.limits.trim(self)

    def _watch(self, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.expires_at:
                self._expiring().watch(entries)
                return

    def _expiring(self) -> MessageExpiry:
        if self.message_expiry is None:
            self.message_expiry = MessageExpiry(self, self._timers)
        return self.message_expiry

    # Storage brings what is beyond the window, or what it kept over a restart

    def loaded(self, page: Page, entries: list[Entry], lost_count: int = 0, lost_bytes: int = 0) -> None:
        """Storage has brought a page back; some of it may be lost."""
        # If not, it was purged meanwhile, and `Discard` tells storage of each of its messages.
        if self.backlog.loading is not page or self.deleted:
            return
        if self.settings.counts_deliveries:
            for entry in entries:
                if entry.delivery_count:
                    entry.message = counted(entry.message, entry.delivery_count)
        if self.has_cutoffs:
            self._expiring().apply_cutoffs(entries)
        self.backlog.loaded(self, entries, lost_count, lost_bytes)
        self._watch(entries)
        self._trim()
        self.rotation.revive()
        self.defer_dispatch()

    def takes_octets(self) -> bool:
        """Whether a page may stay octets: nothing is looked at in a message, and all who listen take it as it is."""
        if self.needs_checks or self.has_cutoffs or self.settings.counts_deliveries:
            return False
        return self.rotation.takes_octets()

    def opened(self, page: Page, octets: OpenPage) -> None:
        """Storage has brought a page back, as octets."""
        if self.backlog.loading is page and not self.deleted:
            self.backlog.opened_page(self, octets)
            self.rotation.revive()
            self.defer_dispatch()

    def filled(self, entries: list[Entry]) -> None:
        """Storage has brought the content of stubs back."""
        if self.backlog.loading is not entries:
            return
        for entry in self.backlog.filled(entries):
            if self.settings.counts_deliveries:
                entry.message = counted(entry.message, entry.delivery_count)
        self.rotation.revive()
        self.defer_dispatch()

    def lose(self, entry: Entry) -> None:
        """Forget a ready message whose content cannot be had any more."""
        self.backlog.remove(self, entry)
        self.storage.lose(self, entry.location, entry.message.body_size)
        entry.location = 0

    def restore(self, entries: Iterable[Entry], next_seq: int) -> None:
        """Take back what storage has kept, in order."""
        for entry in entries:
            if self.settings.counts_deliveries and entry.delivery_count:
                entry.message = counted(entry.message, entry.delivery_count)
            if self.deduplication is not None:
                self.deduplication.add(key_of(entry.message))
            self.backlog.add(self, entry)
            self._watch([entry])
        self.next_seq = next_seq
        self._restored()
        self._trim()

    def restore_pages(self, pages: Pages, next_seq: int, times: list[int]) -> None:
        """Take back what storage has kept, all of it paged out; `times` are those of messages that have their own."""
        self.next_seq = next_seq
        self.backlog.restore(self, pages, next_seq)
        if times:
            self._expiring().restore(times)
        self._restored()

    def _restored(self) -> None:
        # Storage does not hear of a policy that gives messages less time.
        if self.settings.message_ttl_ms is not None and self.backlog.count:
            self._expiring().shorten(self.work.budget.now + self.settings.message_ttl_ms)

    # Storage is told

    def set_barrier(self, barrier: SyncBarrier) -> None:
        """Deliver nothing that this blocks."""
        self.barrier = barrier
        self.needs_checks = True

    def _settle_stored(self, entry: Entry) -> None:
        """It is here no more, nor on its way to where dead letters go."""
        if self.ledger is None or not (entry.message.flags | self.keeps_all) & PERSISTENT:
            if entry.location != 0:
                self.storage.release(entry)
            return
        if entry.location == 0:
            # Placed and gone within a moment: storage has not heard of it yet.
            self.storage.write_places()
        if entry.location != 0:
            self.ledger.settle(entry)

    def _tell_purge(self) -> Settler | None:
        """Say that all is gone; the ledger if that must be said of each."""
        if self.ledger is None:
            return None
        self.storage.write_places()
        # One PURGE record is not enough while a transaction is open (its settlements may not count), or an earlier purge is
        # still settling one by one.
        is_discarding = self.discard is not None and not self.discard.done
        if self.unacked_count or self.dead or is_discarding or self.storage.has_open_groups():
            return self.ledger
        self.ledger.purge(self.next_seq - 1)
        return self.ledger.locations

    def _forget_key(self, entry: Entry) -> None:
        """It is here no more: another one with its key is no duplicate (x-message-deduplication)."""
        if self.deduplication is not None:
            self.deduplication.remove(self.deduplication.key_of(entry), self.work.budget.now)
