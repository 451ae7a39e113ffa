"""What a channel's client does to exchanges, queues and bindings: on_exchange_… and on_queue_….

Each handler checks, calls the vhost, and answers unless the client asked for no answer. What is durable is answered when it
is on disk; these methods go on meanwhile, and their answers come in order.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from leveret.broker.command import Command, DeclareQueue, Proposal, Proposed
from leveret.broker.declaration import check_home, check_may_bind
from leveret.broker.name import stripped
from leveret.broker.queue import Queue
from leveret.protocol.pending import AfterAnswers, AfterChange, AfterRemoval, AfterSync, AfterTask
from leveret.protocol.reply_to import NAME as REPLY_TO
from leveret.protocol.reply_to import check_reply_to
from leveret.protocol.settlement import nothing
from leveret.wire.spec import (
    AccessRequest,
    AccessRequestOk,
    BasicCancel,
    BasicCancelOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from leveret.protocol.channel import Channel


def reply(channel: "Channel", no_wait: bool, method: Method) -> None:
    """Answer, after all that waits for storage."""
    if not no_wait:
        channel.session.answer(channel.number, method, False)


def when_stored(channel: "Channel", method: Method, then: Callable[[], None] | None = None) -> None:
    """Answer when all that was said up to now is on disk, and then go on with this; no other frame goes on meanwhile."""

    def answer() -> None:
        channel.output.write_method(channel.number, method)
        channel.output.wake()
        if then is not None:
            then()

    channel.session.do(AfterSync(channel.broker.storage, answer))


def reply_stored(channel: "Channel", no_wait: bool, method: Method, durable: bool = True) -> None:
    """Answer a definition: when it is on disk, if it is a durable one."""
    if not no_wait:
        channel.session.answer(channel.number, method, durable)


def when_unbound(channel: "Channel", answer: Callable[[], None]) -> None:
    """Answer when what was removed has lost all its bindings, which may take long if there are many."""
    task = channel.vhost.unbinding()
    if task is None:
        answer()
    else:
        channel.session.do(AfterTask(task, answer))


def when_changed(channel: "Channel", method: Method, command: Command) -> None:
    """Have all nodes of the cluster make a change that a method asks for, and go on with the method then."""
    propose = channel.broker.propose
    assert propose is not None
    proposal = propose(command, channel.session)
    channel.session.do(AfterChange(channel.session, proposal, partial(_go_on, channel, method)))


def _go_on(channel: "Channel", method: Method, proposal: Proposal) -> None:
    """The change is made: answer it, or ask again, as what is there and the same is answered at once."""
    command = proposal.command
    try:
        if isinstance(method, QueueDelete):
            count = proposal.result if isinstance(proposal.result, int) else 0
            channel.consumers.answer_before_cancels(None if method.no_wait else QueueDeleteOk(count))
        elif isinstance(method, QueueDeclare) and not method.queue and isinstance(command, DeclareQueue):
            _declared(channel, method, channel.vhost.queue(command.name, channel.session))
        elif isinstance(method, BasicCancel):
            reply(channel, method.no_wait, BasicCancelOk(method.consumer_tag))
        else:
            AGAIN[type(method)](channel, method)
    except Proposed as proposed:
        # Something else was before us.
        when_changed(channel, method, proposed.command)


def on_access_request(channel: "Channel", m: AccessRequest) -> None:
    reply(channel, False, AccessRequestOk(ticket=1))


def on_exchange_declare(channel: "Channel", m: ExchangeDeclare) -> None:
    rights = channel.session.rights
    if m.passive:
        rights.check_any("exchange", channel.vhost.find_exchange(m.exchange).name)
    else:
        channel.vhost.declare_exchange(
            m.exchange,
            m.type,
            durable=m.durable,
            auto_delete=m.auto_delete,
            internal=m.internal,
            arguments=m.arguments,
            rights=rights,
        )
    reply_stored(channel, m.no_wait, ExchangeDeclareOk(), m.durable and not m.passive)


def on_exchange_delete(channel: "Channel", m: ExchangeDelete) -> None:
    channel.vhost.delete_exchange(m.exchange, m.if_unused, channel.session.rights)
    when_unbound(channel, lambda: reply_stored(channel, m.no_wait, ExchangeDeleteOk()))


def on_exchange_bind(channel: "Channel", m: ExchangeBind) -> None:
    source, destination = _exchanges(channel, m)
    channel.vhost.exchange(source)
    found = channel.vhost.exchange(destination)
    channel.vhost.bind(source, found, m.routing_key, m.arguments, by=channel.session.rights.user_name)
    reply_stored(channel, m.no_wait, ExchangeBindOk())


def on_exchange_unbind(channel: "Channel", m: ExchangeUnbind) -> None:
    source, destination = _exchanges(channel, m)
    exchange = channel.vhost.exchanges.get(destination)
    if exchange is not None:
        session = channel.session
        channel.vhost.unbind(source, exchange, m.routing_key, m.arguments, session, by=session.rights.user_name)
    when_unbound(channel, lambda: reply_stored(channel, m.no_wait, ExchangeUnbindOk()))


def on_queue_declare(channel: "Channel", m: QueueDeclare) -> None:
    session = channel.session
    if m.queue.startswith(REPLY_TO):
        channel.last_queue_name = stripped(m.queue)
        check_reply_to(channel.broker, channel.vhost, channel.last_queue_name)
        reply(channel, m.no_wait, QueueDeclareOk(channel.last_queue_name, 0, 1))
        return
    if m.passive:
        queue = channel.vhost.queue(stripped(m.queue), session)
        session.rights.check_any("queue", queue.name)
        queue.renew_expiry(session.now)
    else:
        owner = session if m.exclusive else None
        count = len(channel.vhost.queues)
        queue = channel.vhost.declare_queue(
            m.queue,
            durable=m.durable,
            auto_delete=m.auto_delete,
            owner=owner,
            arguments=m.arguments,
            rights=session.rights,
        )
        if m.exclusive and len(channel.vhost.queues) > count:
            session.own(queue)
    _declared(channel, m, queue)


def _declared(channel: "Channel", m: QueueDeclare, queue: Queue) -> None:
    channel.last_queue_name = queue.name
    answer = QueueDeclareOk(queue.name, queue.ready_count, queue.consumer_count)
    reply_stored(channel, m.no_wait, answer, queue.durable and not m.passive)


def on_queue_delete(channel: "Channel", m: QueueDelete) -> None:
    name, rights = channel.queue_name(m.queue), channel.session.rights
    rights.check_queue("configure", stripped(name))
    queue = channel.vhost.deletable_queue(name, channel.session, if_unused=m.if_unused, if_empty=m.if_empty)
    if queue is not None and channel.broker.clustered:
        if m.if_unused or m.if_empty:
            check_home(queue)
        channel.consumers.held_cancels = []
        channel.vhost.remove_queue(queue, by=rights.user_name)
    if queue is not None and queue.consumer_count and channel.session.answers:
        # What they hear comes after the answer, and that after those before it.
        channel.session.do(AfterAnswers(channel.session, partial(on_queue_delete, channel, m)))
        return
    answer = QueueDeleteOk(0 if queue is None else queue.ready_count)
    # RabbitMQ: the answer goes before what the queue's consumers on this channel hear.
    if queue is None or m.no_wait or not queue.durable:
        reply(channel, m.no_wait, answer)
        if queue is not None:
            channel.vhost.remove_queue(queue, by=rights.user_name)
            when_unbound(channel, nothing)
        return
    if not queue.consumer_count:
        channel.vhost.remove_queue(queue, by=rights.user_name)
        channel.session.do(AfterRemoval(queue, partial(reply_stored, channel, False, answer)))
        return
    channel.consumers.held_cancels = []
    channel.vhost.remove_queue(queue, by=rights.user_name)

    def removed() -> None:
        channel.session.do(AfterSync(channel.broker.storage, lambda: channel.consumers.answer_before_cancels(answer)))

    channel.session.do(AfterRemoval(queue, removed))


def on_queue_purge(channel: "Channel", m: QueuePurge) -> None:
    name = channel.queue_name(m.queue)
    channel.session.rights.check_queue("read", name)
    queue = channel.vhost.queue(name, channel.session)
    check_home(queue)
    answer = QueuePurgeOk(queue.purge())
    if queue.discard is not None and not m.no_wait:
        channel.session.do(AfterTask(queue.discard, partial(reply_stored, channel, False, answer)))
    else:
        reply_stored(channel, m.no_wait, answer, queue.durable)


def on_queue_bind(channel: "Channel", m: QueueBind) -> None:
    name, key = _queue_and_key(channel, m)
    source = stripped(m.exchange)
    check_may_bind(channel.vhost, channel.session.rights, True, name, source, key)
    channel.vhost.exchange(source)
    queue = channel.vhost.queue(name, channel.session)
    channel.vhost.bind(source, queue, key, m.arguments, by=channel.session.rights.user_name)
    reply_stored(channel, m.no_wait, QueueBindOk(), queue.durable)


def on_queue_unbind(channel: "Channel", m: QueueUnbind) -> None:
    name, key = _queue_and_key(channel, m)
    source = stripped(m.exchange)
    check_may_bind(channel.vhost, channel.session.rights, True, name, source, key)
    queue = channel.vhost.queues.get(name)
    if queue is not None:
        session = channel.session
        channel.vhost.unbind(source, queue, key, m.arguments, session, by=session.rights.user_name)
    when_unbound(channel, lambda: reply_stored(channel, False, QueueUnbindOk()))


def _queue_and_key(channel: "Channel", m: QueueBind | QueueUnbind) -> tuple[str, str]:
    # RabbitMQ: no queue and no routing key means the last declared queue for both.
    name = channel.queue_name(m.queue)
    key = name if not m.queue and not m.routing_key else m.routing_key
    return stripped(name), key


def _exchanges(channel: "Channel", m: ExchangeBind | ExchangeUnbind) -> tuple[str, str]:
    source, destination = stripped(m.source), stripped(m.destination)
    check_may_bind(channel.vhost, channel.session.rights, False, destination, source, m.routing_key)
    return source, destination


AGAIN: dict[type[Method], Callable[..., None]] = {
    ExchangeDeclare: on_exchange_declare,
    ExchangeDelete: on_exchange_delete,
    ExchangeBind: on_exchange_bind,
    ExchangeUnbind: on_exchange_unbind,
    QueueDeclare: on_queue_declare,
    QueueBind: on_queue_bind,
    QueueUnbind: on_queue_unbind,
}
