"""What a channel's client does now and then: consuming, getting, prefetch, recovering, confirms, transactions, closing."""

import secrets
from functools import partial
from typing import TYPE_CHECKING

from leveret.broker.arguments import check_consumer_arguments, queue_type
from leveret.broker.consumer import Window
from leveret.broker.declaration import check_home
from leveret.broker.dispatch import cancel, dispatch, subscribe
from leveret.broker.node_limit import check_consumer_count
from leveret.broker.queue import Queue
from leveret.errors import ChannelError, NotAllowed, NotImplementedFault, PreconditionFailed, ResourceLocked
from leveret.protocol.confirms import Confirms
from leveret.protocol.consumers import tracer
from leveret.protocol.pending import AfterPage
from leveret.protocol.reply_to import NAME as REPLY_TO
from leveret.protocol.reply_to import check_reply_consumer, close_reply_to, open_reply_to
from leveret.protocol.settlement import Requeue
from leveret.protocol.subscriber import Subscriber
from leveret.protocol.topology import reply, when_stored, when_unbound
from leveret.protocol.trace import trace_delivery
from leveret.protocol.transaction import Commit, Transaction
from leveret.wire.spec import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.values import Table

if TYPE_CHECKING:
    from leveret.protocol.channel import Channel


GET_UNIT = 4096


def on_channel_open(channel: "Channel", m: ChannelOpen) -> None:
    raise ChannelError("second 'channel.open' seen")


def on_channel_close(channel: "Channel", m: ChannelClose) -> None:
    channel.close()


def on_channel_flow(channel: "Channel", m: ChannelFlow) -> None:
    if not m.active:
        raise NotImplementedFault("active=false")
    reply(channel, False, ChannelFlowOk(active=True))


def on_basic_qos(channel: "Channel", m: BasicQos) -> None:
    if m.prefetch_size and channel.broker.settings.refuse_prefetch_size:
        raise NotImplementedFault(f"prefetch_size!=0 ({m.prefetch_size})")
    # RabbitMQ: without `global` the limit is for each consumer started from now on, and the channel's own is lifted; with
    # it, for the channel. The answer goes before what there is room for now.
    if not m.global_:
        channel.consumers.prefetch = Window(m.prefetch_count, m.prefetch_size)
    channel.channel_window.count_limit = m.prefetch_count if m.global_ else 0
    channel.channel_window.size_limit = m.prefetch_size if m.global_ else 0
    reply(channel, False, BasicQosOk())
    channel.consumers.resume()


def on_basic_consume(channel: "Channel", m: BasicConsume) -> None:
    name = channel.queue_name(m.queue)
    if m.consumer_tag in channel.consumers.by_tag:
        raise NotAllowed(f"attempt to reuse consumer tag '{m.consumer_tag}'")
    check_consumer_count(channel.broker.settings.limits, len(channel.consumers))
    if name == REPLY_TO:
        check_reply_consumer(channel, m.no_ack)
        consumer = channel.consumers.for_replies = _subscriber(channel, m, open_reply_to(channel), Window())
    else:
        channel.session.rights.check_queue("read", name)
        queue = channel.vhost.queue(name, channel.session)
        check_home(queue)
        check_consumer_arguments(m.arguments, queue.arguments, queue.title)
        if channel.channel_window.limited() and queue_type(queue.arguments) == "quorum":
            raise NotImplementedFault(f"{queue.title} does not support global qos")
        consumer = _subscriber(channel, m, queue, channel.channel_window)
        # RabbitMQ: quorum queues know no exclusive consumers.
        if queue_type(queue.arguments) != "quorum":
            queue.rotation.check_new(consumer, queue.title)
        channel.consumers.by_tag[consumer.tag] = consumer
    # The answer goes before the first message.
    reply(channel, m.no_wait, BasicConsumeOk(consumer.tag))
    subscribe(consumer.queue, consumer)


def _subscriber(channel: "Channel", m: BasicConsume, queue: Queue, channel_window: Window) -> Subscriber:
    consumer = Subscriber(
        m.consumer_tag or f"amq.ctag-{secrets.token_urlsafe(16)}",
        channel.number,
        channel.session,
        channel.unacked,
        channel.counters,
        channel.counters.breakdown_for(queue.counters),
        channel.consumers.on_cancelled,
        no_ack=m.no_ack,
        exclusive=m.exclusive,
        window=Window(channel.consumers.prefetch.count_limit, channel.consumers.prefetch.size_limit),
        channel_window=channel_window,
        arguments=m.arguments,
        priority=priority_of(m.arguments),
    )
    consumer.queue = queue
    consumer.trace = tracer(channel)
    return consumer


def on_basic_cancel(channel: "Channel", m: BasicCancel) -> None:
    if channel.consumers.for_replies is not None and channel.consumers.for_replies.tag == m.consumer_tag:
        close_reply_to(channel)
    elif m.consumer_tag in channel.consumers.by_tag:
        consumer = channel.consumers.by_tag.pop(m.consumer_tag)
        queue: Queue = consumer.queue
        cancel(queue, consumer)
        # RabbitMQ: an auto-delete queue is gone before its last consumer hears cancel-ok, and so for the next method.
        if queue.auto_delete and not queue.deleted and not queue.consumer_count:
            channel.vhost.remove_queue(queue)
            when_unbound(channel, partial(reply, channel, m.no_wait, BasicCancelOk(m.consumer_tag)))
            return
    reply(channel, m.no_wait, BasicCancelOk(m.consumer_tag))


def on_basic_get(channel: "Channel", m: BasicGet) -> None:
    queue = queue_to_get_from(channel, channel.queue_name(m.queue))
    queue.renew_expiry(channel.session.now)
    _get(channel, m, queue)


def queue_to_get_from(channel: "Channel", name: str) -> Queue:
    """The queue of that name, if the client may take messages from it one by one."""
    channel.session.rights.check_queue("read", name)
    queue = channel.vhost.queue(name, channel.session)
    check_home(queue)
    if queue.settings.single_active_consumer and queue_type(queue.arguments) == "quorum":
        raise ResourceLocked(
            f"cannot obtain access to locked {queue.title}. basic.get operations are not supported by quorum queues "
            "with single active consumer"
        )
    return queue


def _get(channel: "Channel", m: BasicGet, queue: Queue) -> None:
    entry = queue.take(m.no_ack)
    if entry is None and queue.backlog.loading is not None:
        channel.session.do(AfterPage(queue, partial(_get, channel, m, queue)))
        return
    part = channel.counters.breakdown_for(queue.counters)
    if entry is None:
        channel.counters.get_empty += 1
        part.get_empty += 1
        reply(channel, False, BasicGetEmpty())
        return
    # So small a request may have a large answer: what one pass sends must be bounded too.
    channel.broker.work.budget.left -= 1 + entry.message.body_size // GET_UNIT
    if m.no_ack:
        channel.counters.get_no_ack += 1
        part.get_no_ack += 1
        tag = channel.unacked.skip()
    else:
        channel.counters.get += 1
        part.get += 1
        tag = channel.unacked.record(entry)
    if entry.redelivered:
        channel.counters.redeliver += 1
        part.redeliver += 1
    origin = entry.message.origin
    answer = BasicGetOk(tag, entry.redelivered, origin.exchange, origin.routing_key, queue.ready_count)
    reply(channel, False, answer)
    channel.write_content(entry.message)
    if channel.vhost.tracing:
        trace_delivery(channel, entry.message, queue.name, entry.redelivered)
    # It may have been too large for a consumer that has room for those behind it.
    dispatch(queue)


def on_basic_recover(channel: "Channel", m: BasicRecover) -> None:
    _check_requeue(m.requeue)
    # RabbitMQ: the answer goes before what is delivered again.
    reply(channel, False, BasicRecoverOk())
    _recover(channel)


def on_basic_recover_async(channel: "Channel", m: BasicRecoverAsync) -> None:
    _check_requeue(m.requeue)
    _recover(channel)


def _check_requeue(requeue: bool) -> None:
    if not requeue:
        raise NotImplementedFault("requeue=false")


def _recover(channel: "Channel") -> None:
    channel.session.do(Requeue(channel.unacked.take_all(), channel.after_settling, by_client=True))


def on_confirm_select(channel: "Channel", m: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms(channel.number, channel.counters)
    reply(channel, m.no_wait, ConfirmSelectOk())


def on_tx_select(channel: "Channel", m: TxSelect) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    reply(channel, False, TxSelectOk())


def on_tx_commit(channel: "Channel", m: TxCommit) -> None:
    transaction = _transaction(channel)
    channel.transaction = Transaction()
    for how, entries in transaction.settlements:
        channel.count_acks(entries, how)

    def done() -> None:
        channel.queues_waiting += commit.later
        # RabbitMQ: only without messages, which it would wait for, the answer comes before what others get for it.
        at_once = commit.fills_queues or channel.stopped
        if at_once:
            channel.after_commit()
        if not channel.stopped:
            when_stored(channel, TxCommitOk(), None if at_once else channel.after_commit)

    commit = Commit(transaction, channel.broker.storage, channel.session.now, channel.return_message, done)
    channel.session.do(commit)


def on_tx_rollback(channel: "Channel", m: TxRollback) -> None:
    # RabbitMQ: the acknowledgements are undone, the messages stay with the client.
    channel.unacked.restore(_transaction(channel).entries())
    channel.transaction = Transaction()
    reply(channel, False, TxRollbackOk())


def _transaction(channel: "Channel") -> Transaction:
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.transaction


def priority_of(arguments: Table) -> int:
    """A consumer's priority, from its argument x-priority."""
    priority = arguments.get("x-priority", 0)
    return priority if isinstance(priority, int) else 0
