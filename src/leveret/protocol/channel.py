"""A channel: the hot path of publishing and acknowledging, and the state the other methods work on.

Everything a client does often is here, walked in place in the received bytes: basic.publish with its content, basic.ack,
basic.nack, basic.reject. The other methods are decoded and handled by `topology.py` and `basic.py`.

  (1) Frames come in order: a method, and after a basic.publish its header and then its body.
  (2) A channel that was closed for an error ignores everything but channel.close and channel.close-ok, and cannot be opened.
"""

from typing import NoReturn

from leveret.broker.broker import Broker
from leveret.broker.budget import OCTETS_A_UNIT
from leveret.broker.command import Proposed
from leveret.broker.consumer import Consumer, Window
from leveret.broker.counters import Counters
from leveret.broker.dispatch import dispatch, push, resume
from leveret.broker.message import Entry, Message, new_message
from leveret.broker.queue import Queue
from leveret.broker.vhost import VirtualHost
from leveret.errors import (
    AMQPError,
    ChannelError,
    CommandInvalid,
    FrameError,
    NotFound,
    PreconditionFailed,
    SyntaxFault,
    UnexpectedFrame,
)
from leveret.protocol.ack_run import settle_run
from leveret.protocol.confirms import Confirms
from leveret.protocol.consumers import Consumers
from leveret.protocol.deadlines import Deadlines
from leveret.protocol.departure import Departure
from leveret.protocol.expiration import PAST, parse_expiration, ttl_until
from leveret.protocol.fanout_task import FanoutTask
from leveret.protocol.handlers import HANDLERS
from leveret.protocol.incoming import Incoming
from leveret.protocol.reply_to import close_reply_to, with_reply_to
from leveret.protocol.route import Route, Routes
from leveret.protocol.session import Session
from leveret.protocol.settlement import ACKED, REJECTED, REQUEUED, nothing, settlement
from leveret.protocol.states import CHANNEL_CLOSING, CHANNEL_OPEN, CHANNEL_STARTING
from leveret.protocol.subscriber import Subscriber
from leveret.protocol.topology import when_changed
from leveret.protocol.trace import trace_publish
from leveret.protocol.transaction import Transaction
from leveret.protocol.unacked import Unacked
from leveret.wire.content import (
    COPIED,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_REPLY_TO,
    FLAG_USER_ID,
    HEADER_MIN_SIZE,
    PERSISTENT,
    check_properties,
)
from leveret.wire.frames import FRAME_OVERHEAD, FrameReader
from leveret.wire.methods import decode_method
from leveret.wire.output import Output
from leveret.wire.spec import (
    BASIC_ACK,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_REJECT,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    BasicNack,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
)

BASIC_CLASS = 60
# A message for more queues than this is given to them in pieces (`FanoutTask`).
FANOUT_TASK_FROM = 1000
# What methods cost in the budget of a pass.
METHOD_COST = 4
TOPOLOGY_COST = 20
TOPOLOGY_CLASSES = (40, 50)


class Channel:
    """One channel of one connection."""

    __slots__ = (
        "_body_max",
        "broker",
        "channel_window",
        "confirms",
        "consumers",
        "counters",
        "deadlines",
        "incoming",
        "last_queue_name",
        "number",
        "output",
        "queues_waiting",
        "routes",
        "session",
        "state",
        "stopped",
        "transaction",
        "unacked",
        "vhost",
    )

    def __init__(self, number: int, session: Session) -> None:
        self.number = number
        self.session = session
        self.broker: Broker = session.broker
        self.vhost: VirtualHost = session.vhost
        self.output: Output = session.output
        self.state = CHANNEL_STARTING
        self.stopped = False
        self.incoming: Incoming | None = None
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.unacked = Unacked()
        self.deadlines = Deadlines()
        self.consumers = Consumers(number, session)
        # The same object as its consumers have: each acknowledgement looks at it.
        self.channel_window: Window = self.consumers.channel_window
        self.last_queue_name = ""
        # Queues that go on when the commit in hand is answered.
        self.queues_waiting: list[Queue] = []
        self.counters = Counters()
        self.routes = Routes(session, self.counters)
        self._body_max = min(self.output.frame_max, self.broker.settings.max_message_size)

    # Frames

    def on_frame(self, reader: FrameReader) -> None:
        """Handle the reader's current frame."""
        kind = reader.kind
        if kind != FRAME_METHOD:
            self._on_other_frame(kind, reader)
            return
        p = reader.data
        start = reader.start
        if reader.stop - start < 4:
            raise FrameError(f"{reader.describe()}: unknown_frame")
        # First into its variable: compiled, an octet shifted by 24 is an int and may come out negative.
        index = p[start]
        index = index << 24 | p[start + 1] << 16 | p[start + 2] << 8 | p[start + 3]
        if self.incoming is not None:
            self._fail_out_of_order(reader)
        self.session.method_index = index
        if self.state != CHANNEL_OPEN:
            self._on_method_unless_open(index, reader)
        elif index == BASIC_PUBLISH:
            self._on_basic_publish(reader)
        elif index == BASIC_ACK:
            self._on_basic_ack(reader)
        elif index == BASIC_NACK or index == BASIC_REJECT:  # noqa: PLR1714, SIM109 - compiled, two comparisons of integers
            self._on_basic_nack(index, reader)
        else:
            self.broker.work.budget.left -= method_cost(index, reader.stop - start)
            self._on_cold_method(decode_method(index, reader.payload(), 4, reader.stop - start))

    def _on_other_frame(self, kind: int, reader: FrameReader) -> None:
        if kind != FRAME_HEADER and kind != FRAME_BODY:  # noqa: PLR1714 - compiled, two comparisons of integers
            self._on_odd_frame(reader)
        elif self.state == CHANNEL_CLOSING:
            return
        elif kind == FRAME_HEADER:
            self._on_header(reader)
        else:
            self._on_body(reader)

    def _on_cold_method(self, method: Method) -> None:
        handler = HANDLERS.get(method.INDEX)
        if handler is None:
            raise CommandInvalid("unimplemented method")
        try:
            handler(self, method)
        except Proposed as proposed:
            when_changed(self, method, proposed.command)
        # RabbitMQ: an auto-delete queue is gone before its last consumer hears cancel-ok, and so for the next method.
        if self.broker.work:
            self.broker.work.drain()

    def _on_method_unless_open(self, index: int, reader: FrameReader) -> None:
        method: Method = decode_method(index, reader.payload(), 4, reader.stop - reader.start)
        if self.state == CHANNEL_CLOSING:
            if isinstance(method, ChannelCloseOk):
                del self.session.channels[self.number]
            elif isinstance(method, ChannelClose):
                self.output.write_method(self.number, ChannelCloseOk())
            elif isinstance(method, ChannelOpen):
                raise ChannelError("second 'channel.open' seen")
            return
        if not isinstance(method, ChannelOpen):
            raise ChannelError("expected 'channel.open'")
        self.state = CHANNEL_OPEN
        self.output.write_method(self.number, ChannelOpenOk())

    def _on_odd_frame(self, reader: FrameReader) -> None:
        if reader.kind == FRAME_HEARTBEAT and reader.start == reader.stop:
            raise UnexpectedFrame(reader.describe())
        raise FrameError(f"{reader.describe()}: unknown_frame")

    def _fail_out_of_order(self, reader: FrameReader) -> NoReturn:
        """A frame came that is not the one the message in hand needs."""
        if self.incoming is None:
            self.session.method_index = 0
            raise UnexpectedFrame("expected method frame, got non method frame instead")
        self.session.method_index = BASIC_PUBLISH
        if self.incoming.header is None:
            raise UnexpectedFrame(f"expected content header for class {BASIC_CLASS}, got non content header frame instead")
        raise UnexpectedFrame("expected content body, got non content body frame instead")

    # Publishing

    def _on_basic_publish(self, reader: FrameReader) -> None:
        """A message: taken whole if its frames are all there, else begun."""
        p = reader.data
        start = reader.start
        stop = reader.stop
        method = p[start:stop]
        number = self.number
        at = stop + 1
        header_end = at + 7 + HEADER_MIN_SIZE
        if header_end >= reader.size or p[at] != FRAME_HEADER or (p[at + 1] << 8 | p[at + 2]) != number:
            self._begin(method)
            return
        header_size = p[at + 3]
        header_size = header_size << 24 | p[at + 4] << 16 | p[at + 5] << 8 | p[at + 6]
        body_size = p[at + 15]
        body_size = body_size << 24 | p[at + 16] << 16 | p[at + 17] << 8 | p[at + 18]
        header_end = at + 7 + header_size
        end = header_end + 1
        if body_size != 0:
            end += body_size + FRAME_OVERHEAD
        # Class 60, weight 0, and the upper half of the body's size 0.
        if (
            p[at + 8] != BASIC_CLASS
            or p[at + 7] | p[at + 9] | p[at + 10] | p[at + 11] | p[at + 12] | p[at + 13] | p[at + 14] != 0
            or end > reader.size
            or header_size < HEADER_MIN_SIZE
            or header_size > reader.frame_max
            or body_size > self._body_max
            or p[header_end] != FRAME_END
        ):
            self._begin(method)
            return
        if body_size != 0:
            body = header_end + 1
            if (
                p[body] != FRAME_BODY
                or (p[body + 1] << 8 | p[body + 2]) != number
                or (p[body + 3] << 24 | p[body + 4] << 16 | p[body + 5] << 8 | p[body + 6]) != body_size
                or p[end - 1] != FRAME_END
            ):
                self._begin(method)
                return
        reader.at = end
        self._publish(method, p[at:end], header_size, body_size, body_size)

    def _begin(self, method: bytes) -> None:
        self.incoming = Incoming(method, self.number, self.session)
        if self.routes.epoch != self.broker.epoch:
            # Before its body comes, which may be large.
            self.session.check_throttle()

    def _on_header(self, reader: FrameReader) -> None:
        incoming = self.incoming
        payload = reader.payload()
        if len(payload) < 12:
            raise FrameError(f"{reader.describe()}: unknown_frame")
        if incoming is None or incoming.header is not None:
            self._fail_out_of_order(reader)
        self.session.method_index = BASIC_PUBLISH
        class_id = int.from_bytes(payload[:2], "big")
        if payload[2] or payload[3]:
            self._fail_out_of_order(reader)
        if class_id != BASIC_CLASS:
            raise UnexpectedFrame(f"expected content header for class {BASIC_CLASS}, got one for class {class_id} instead")
        if len(payload) < HEADER_MIN_SIZE:
            raise SyntaxFault("properties are cut short")
        size = int.from_bytes(payload[4:12], "big")
        self._check_message_size(size)
        incoming.begin(payload, size)
        if not size:
            self.finish(incoming)

    def _on_body(self, reader: FrameReader) -> None:
        incoming = self.incoming
        if incoming is None or incoming.header is None:
            self._fail_out_of_order(reader)
        self.session.method_index = BASIC_PUBLISH
        incoming.add(reader)
        if incoming.whole():
            self.finish(incoming)

    def _check_message_size(self, size: int) -> None:
        limit = self.broker.settings.max_message_size
        if size > limit:
            self.incoming = None
            raise PreconditionFailed(f"message size {size} is larger than configured max size {limit}")

    def finish(self, incoming: Incoming) -> None:
        """The message that was on its way in is whole."""
        self.incoming = None
        header = incoming.header
        assert header is not None
        content = incoming.content(self.output.frame_max - FRAME_OVERHEAD)
        self._publish(incoming.method, content, len(header), incoming.size, incoming.frame_size)

    def _publish(self, method: bytes, content: bytes, header_size: int, body_size: int, frame_size: int) -> None:
        routes = self.routes
        route = routes.last
        if route is None or routes.epoch != self.broker.epoch or method != routes.last_method:
            route = routes.find(method)
        flags = check_properties(content, header_size)
        queues = route.queues
        message = new_message(route.origin, content, header_size, body_size, frame_size, flags)
        if route.varies or flags & (FLAG_HEADERS | FLAG_EXPIRATION | FLAG_USER_ID | FLAG_REPLY_TO):
            if flags & (FLAG_EXPIRATION | FLAG_USER_ID):
                self._check_properties(message)
            if flags & FLAG_REPLY_TO:
                message = with_reply_to(self, message)
            if flags & COPIED:
                message, queues = self.routes.copied(route, message)
            elif route.varies:
                queues = self.routes.again(route, message)
            if message.ttl_ms == PAST:
                # It has expired before it came: it goes nowhere, and so is returned if it is mandatory.
                queues = []
            if queues is not route.queues:
                self.routes.count_elsewhere(route, queues)
        self.counters.publish += 1
        route.count += 1
        route.counters.publish_in += 1
        route.counters.publish_out += len(queues)
        if route.traced:
            trace_publish(self, message, queues)
        if self.transaction is not None:
            self.transaction.publish(message, queues, route.mandatory)
            return
        if self.confirms is not None:
            self._count_confirm()
            self._await_storage(queues, flags)
        if not queues:
            self._go_nowhere(route, message)
            return
        now = self.session.now
        if len(queues) == 1:
            queue = queues[0]
            if not push(queue, message, now):
                self.refuse()
        else:
            self._fan_out(message, queues, now)

    def _go_nowhere(self, route: Route, message: Message) -> None:
        route.lost += 1
        if route.mandatory:
            self.return_message(message)
        else:
            self.counters.drop_unroutable += 1

    def refuse(self) -> None:
        """A queue did not take the last message."""
        if self.confirms is not None:
            self.confirms.refuse()

    def _await_storage(self, queues: list[Queue], flags: int) -> None:
        """The confirm of the message in hand waits for the storage of all queues that store it; mostly that is one."""
        confirms = self.confirms
        assert confirms is not None
        for queue in queues:
            if (flags | queue.keeps_all) & PERSISTENT and queue.storage is not confirms.storage:
                confirms.wait_for(queue.storage)

    def _count_confirm(self) -> None:
        confirms = self.confirms
        assert confirms is not None
        if confirms.published == confirms.told:
            # Confirms go out with the output only: there must be some, or nobody asks for them.
            self.session.confirming.append(self)
            self.output.wake()
        confirms.published += 1

    def _fan_out(self, message: Message, queues: list[Queue], now: int) -> None:
        if len(queues) > FANOUT_TASK_FROM:
            self.session.do(FanoutTask(message, queues, now, self.refuse))
            return
        for queue in queues:
            if not push(queue, message, now):
                self.refuse()

    def _check_properties(self, message: Message) -> None:
        properties = self.routes.properties(message)
        user = self.session.user
        if properties.user_id not in (None, user.name) and "impersonator" not in user.tags:
            raise PreconditionFailed(
                f"user_id property set to '{properties.user_id}' but authenticated user was '{user.name}'"
            )
        if properties.expiration is None:
            return
        if self.broker.settings.epoch_expiration:
            message.ttl_ms = ttl_until(properties.expiration, self.session.now)
        else:
            message.ttl_ms = parse_expiration(properties.expiration)

    def return_message(self, message: Message) -> None:
        origin = message.origin
        self.counters.return_unroutable += 1
        self.output.write_method(self.number, BasicReturn(312, "NO_ROUTE", origin.exchange, origin.routing_key))
        self.write_content(message)

    def write_content(self, message: Message) -> None:
        self.output.write_content(self.number, message.content, message.header_size, message.body_size, message.frame_size)
        self.output.wake()

    # Acknowledging

    def _on_basic_ack(self, reader: FrameReader) -> None:
        p = reader.data
        start = reader.start + 4
        if reader.stop - start != 9:
            decode_method(BASIC_ACK, reader.payload(), 4, reader.stop - reader.start)
        tag = p[start + 4]
        tag = tag << 24 | p[start + 5] << 16 | p[start + 6] << 8 | p[start + 7]
        if p[start] or p[start + 1] or p[start + 2] or p[start + 3]:
            tag = int.from_bytes(reader.payload()[4:12], "big")
        if p[start + 8] & 1:
            self._settle_up_to(tag)
        else:
            self._settle_one(tag, reader)

    def _settle_one(self, tag: int, reader: FrameReader) -> None:
        """Settle one message, and with it those of the same consumer whose acknowledgements follow."""
        entry = self.unacked.take(tag)
        if entry is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        if self.transaction is not None:
            self.transaction.settle([entry], ACKED)
            return
        queue = entry.queue
        queue.settle(entry)
        consumer = entry.consumer
        if consumer is None:
            count = 1
            part = self.counters.breakdown_for(queue.counters)
        else:
            count = 1 + self._settle_run(reader, queue, consumer)
            part = consumer.counters
        self.counters.ack += count
        part.ack += count
        if self.channel_window.limited():
            self.consumers.resume()
        elif consumer is not None and not consumer.active:
            resume(queue, consumer)

    def _settle_run(self, reader: FrameReader, queue: Queue, consumer: Consumer) -> int:
        if self.channel_window.limited() and (len(self.consumers) != 1 or self.consumers.for_replies is not None):
            # After each acknowledgement it may be another consumer's turn: they are not settled together.
            return 0
        return settle_run(reader, self.number, self.unacked, queue, consumer, self.broker.work.budget)

    def _settle_up_to(self, tag: int) -> None:
        entries = self.unacked.take_up_to(tag, self.session.reads)
        if entries is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        self.settle(entries, ACKED)

    def settle(self, entries: list[Entry], how: int) -> None:
        """Settle these entries, at once or with the transaction."""
        if self.transaction is not None:
            self.transaction.settle(entries, how)
        else:
            self.count_acks(entries, how)
            self.session.do(settlement(how, entries, self.after_settling))

    def count_acks(self, entries: list[Entry], how: int) -> None:
        """Count what was acknowledged; each consumer counts its own when that is done."""
        if how != ACKED:
            return
        self.counters.ack += len(entries)
        # What was taken by basic.get is no consumer's, and counted here by queue.
        if self.counters.get:
            for entry in entries:
                if entry.consumer is None:
                    part = self.counters.breakdown_for(entry.queue.counters)
                    part.ack += 1

    def _on_basic_nack(self, index: int, reader: FrameReader) -> None:
        method = decode_method(index, reader.payload(), 4, reader.stop - reader.start)
        assert isinstance(method, BasicNack | BasicReject)
        tag = method.delivery_tag
        entry = None
        entries: list[Entry] | None
        if isinstance(method, BasicNack) and method.multiple:
            entries = self.unacked.take_up_to(tag, self.session.reads)
        else:
            entry = self.unacked.take(tag)
            entries = None if entry is None else [entry]
        if entries is None:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        self.settle(entries, REQUEUED if method.requeue else REJECTED)

    # State

    def queue_name(self, name: str) -> str:
        """A queue's name as a method gives it; none is the last one declared."""
        if name:
            return name
        if not self.last_queue_name:
            raise NotFound("no previously declared queue")
        return self.last_queue_name

    def after_settling(self) -> None:
        """Let all consumers go on if they share a window in which there is room now."""
        if self.channel_window.limited():
            self.consumers.resume()

    def after_commit(self) -> None:
        """The commit is answered: let those go on for whom it has made room."""
        queues, self.queues_waiting = self.queues_waiting, []
        self.after_settling()
        for queue in queues:
            dispatch(queue)

    def close(self) -> None:
        """Close as the client asked: give everything back, then say so."""
        if self.confirms is not None:
            self.confirms.tell(self.output)
        self.state = CHANNEL_CLOSING
        self.session.do(Departure(self.vhost, [self], [], self._closed))

    def _closed(self) -> None:
        # The connection may have closed while this went on in pieces, and knows its channels no more.
        if self.session.channels.pop(self.number, None) is not None:
            self.output.write_method(self.number, ChannelCloseOk())

    def fail(self, error: AMQPError, index: int) -> None:
        """Close for an error in the method `index`."""
        if self.confirms is not None:
            self.confirms.tell(self.output)
        self.state = CHANNEL_CLOSING
        close = ChannelClose(error.code, error.reply_text, index >> 16, index & 0xFFFF)
        self.output.write_method(self.number, close)
        self.session.do(Departure(self.vhost, [self], [], nothing))

    def stop(self) -> list[Subscriber]:
        """Stop publishing and consuming, for good; return the consumers, which must be unsubscribed.

        What it has counted is added to what its vhost has.
        """
        self.stopped = True
        # Nothing more is confirmed: when storage has it, another channel may have this one's number.
        self.confirms = None
        self.routes.forget()
        self.vhost.counters.add(self.counters)
        self.counters = self.routes.counters = Counters()
        consumers = self.consumers.take_all()
        # The answer they waited for never comes.
        for queue in self.queues_waiting:
            queue.defer_dispatch()
        self.queues_waiting = []
        close_reply_to(self)
        if self.incoming is not None:
            self.incoming.abandon()
            self.incoming = None
        if self.transaction is not None:
            self.unacked.restore(self.transaction.entries())
            self.transaction = None
        return consumers


def method_cost(index: int, size: int) -> int:
    """What a method of so many octets costs in the budget of a pass; those that make and remove things most."""
    cost = TOPOLOGY_COST if index >> 16 in TOPOLOGY_CLASSES else METHOD_COST
    return cost + size // OCTETS_A_UNIT
