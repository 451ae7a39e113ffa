"""Pairing messages with consumers: the only place where a queue's consumers are asked whether they can take one.

What comes to a queue comes by `push`, and what is ready goes by `dispatch`. Both tell the queue what to do and the
consumer what it gets, so that the queue's own state depends on what it was told and on nothing else.

  (1) A message is offered to a consumer at once when nothing is ready before it. A queue that refuses what is too much
      looks at its length first.
  (2) Whoever may have room again is counted in by `resume`; whoever changes what is first has `dispatch` called.
"""

from leveret.broker.budget import Budget
from leveret.broker.consumer import Consumer
from leveret.broker.message import Entry, Message
from leveret.broker.open_page import OpenPage
from leveret.broker.queue import Queue
from leveret.broker.work import Task


def push(queue: Queue, message: Message, now: int) -> bool:
    """Give a message that has come at `now` (ms) to a consumer, or have the queue keep it; False if it is refused."""
    if queue.needs_checks or message.ttl_ms >= 0:
        return _push_within_limits(queue, message, now)
    consumer = _who_can_take(queue, message)
    if consumer is not None:
        # In one command: most messages go this way, and each call costs a hundredth of what a message does.
        _send(queue, queue.pass_on(message, consumer, now), consumer)
        return True
    entry = queue.accept(message, now)
    queue.keep(entry)
    if entry.waiting and queue.rotation.oversized:
        _reconsider(queue)
    return True


def push_for_later(queue: Queue, message: Message, now: int) -> bool:
    """Have the queue keep a message, which consumers get when `dispatch` follows; False if none needs to follow.

    Where there are limits or times it is a `push` all the same: a message that nobody takes at once may be one too many, or
    have no time left.
    """
    if queue.needs_checks or message.ttl_ms >= 0 or queue.rotation.oversized:
        push(queue, message, now)
        return False
    queue.keep(queue.accept(message, now))
    return True


def _push_within_limits(queue: Queue, message: Message, now: int) -> bool:
    """The same for a queue, or a message, that has limits or times: each is looked at in its turn."""
    if queue.away:
        # Its home has the messages.
        return False
    if queue.is_duplicate(message, now):
        queue.work.budget.left -= 1
        return True
    if queue.limits is not None and queue.limits.refuses(queue.backlog, message.body_size):
        queue.refuse(message, now)
        return False
    ttl_ms: int = queue.settings.ttl_ms_of(message)
    entry = queue.accept_for_a_time(message, now, ttl_ms)
    consumer = None if queue.must_sync_first(message) else _who_can_take(queue, message)
    if consumer is not None:
        queue.hand_over_new(entry, consumer)
        _send(queue, entry, consumer)
        return True
    queue.keep(entry, ttl_ms)
    if entry.waiting and queue.rotation.oversized:
        _reconsider(queue)
    queue.apply_limits(entry, ttl_ms)
    dispatch(queue)
    return True


def _who_can_take(queue: Queue, message: Message) -> Consumer | None:
    """The consumer whose turn it is, if nothing is ready before this message."""
    if queue.backlog.count != 0 or queue.rotation.active_count == 0:
        return None
    return queue.rotation.next(message.body_size)


def _reconsider(queue: Queue) -> None:
    """A message that has come may go before the one that is too large for some consumers."""
    if queue.settings.max_priority:
        queue.rotation.revive()
        dispatch(queue)


def dispatch(queue: Queue) -> None:
    """Pair ready messages with consumers that can take them."""
    while queue.backlog.count != 0 and queue.rotation.active_count != 0:
        if queue.work.budget.left <= 0:
            queue.defer_dispatch()
            return
        if queue.backlog.opened and queue.backlog.front.first() is None and queue.takes_octets():
            _pass_octets(queue)
            continue
        entry = queue.first()
        if entry is None:
            return
        consumer = queue.rotation.next(entry.message.body_size)
        if consumer is None:
            return
        queue.remove_first(entry)
        queue.hand_over(entry, consumer)
        _send(queue, entry, consumer)


def _pass_octets(queue: Queue) -> None:
    """Give consumers what was read, without making a message of each."""
    page: OpenPage = queue.backlog.opened[0]
    budget = queue.work.budget
    # Several take turns, one message each.
    is_alone = len(queue.rotation.everyone) == 1
    while page.at < page.count and budget.left > 0:
        first = page.at
        consumer = queue.rotation.next(page.body_size(first))
        if consumer is None:
            return
        end = _take_room(consumer, page, budget.left if is_alone else 1)
        budget.left -= end - first
        consumer.deliver_octets(page, first, end, queue.hand_over_octets(page, end, consumer))


def _take_room(consumer: Consumer, page: OpenPage, limit: int) -> int:
    """Take room in a consumer's windows for a run of the first messages of a page, of which one fits; where that ends."""
    end = consumer.run_end(page, limit)
    if consumer.no_ack:
        return end
    at = page.at
    size = page.body_size(at)
    fits = True
    while fits:
        consumer.window.take(size)
        consumer.channel_window.take(size)
        at += 1
        if at == end:
            break
        size = page.body_size(at)
        fits = consumer.window.fits(size) and consumer.channel_window.fits(size)
    return at


def _send(queue: Queue, entry: Entry, consumer: Consumer) -> None:
    """Send a message to the consumer that the queue has handed it over to."""
    queue.work.budget.left -= 1
    if consumer.no_ack:
        consumer.deliver(entry)
        return
    size = entry.message.body_size
    consumer.window.take(size)
    consumer.channel_window.take(size)
    consumer.deliver(entry)
    if queue.unacked_count > queue.backlog.sizes.window_count:
        queue.backlog.evict_unacked(queue, entry)


class Dispatch(Task):
    """Goes on with a queue's deliveries, which a spent budget interrupted, or for which another message is first now."""

    __slots__ = ("queue",)

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def run(self, budget: Budget) -> bool:
        self.queue.dispatch_deferred = False
        dispatch(self.queue)
        return True


# Consumers come and go


def subscribe(queue: Queue, consumer: Consumer) -> None:
    """Add a consumer. May call `deliver` before returning."""
    consumer.queue = queue
    if queue.dispatch_task is None:
        queue.dispatch_task = Dispatch(queue)
    queue.rotation.add(consumer)
    dispatch(queue)


def cancel(queue: Queue, consumer: Consumer) -> None:
    """Unsubscribe a consumer and go on. May call `deliver` of another one."""
    unsubscribe(queue, consumer)
    dispatch(queue)


def unsubscribe(queue: Queue, consumer: Consumer) -> None:
    """Remove a consumer; `dispatch` must follow, as another may be active now. What it has unacknowledged stays with it."""
    if not consumer.subscribed:
        return
    queue.rotation.remove(consumer)
    queue.renew_expiry(queue.work.budget.now)
    if not queue.rotation.everyone:
        # Queue and task refer to each other: unbroken, only the garbage collector would free a deleted queue.
        queue.dispatch_task = None
        if queue.when_unused is not None:
            queue.work.add(queue.when_unused)


def resume(queue: Queue, consumer: Consumer) -> None:
    """Count a consumer in again that may have room. May call `deliver` before returning."""
    queue.rotation.activate(consumer)
    if queue.backlog.count != 0:
        dispatch(queue)
