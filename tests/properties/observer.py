"""Reads what a connection sends, and fails if any of it is not well-formed AMQP or comes where it must not.

(1) Frames are whole, of a known kind, within frame_max, and end in 206.
(2) Methods are ones that a broker sends, decode to their last octet, and stand on the right kind of channel.
(3) basic.deliver, get-ok and return are followed by their header and exactly the body it announces.
(4) A channel that the broker closed gets nothing but close-ok until it is opened again; a closed connection likewise.
(5) A channel is closed with a soft code, the connection with a hard one, and never with 541: that is a fault of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from leveret.wire import spec
from leveret.wire.content import HEADER_MIN_SIZE, check_properties
from leveret.wire.methods import decode_method

SOFT = {311, 312, 313, 403, 404, 405, 406}
HARD = {320, 402, 501, 502, 503, 504, 505, 506, 530, 540}

CLIENT_ONLY = (
    spec.ConnectionStartOk,
    spec.ConnectionTuneOk,
    spec.ConnectionOpen,
    spec.ChannelOpen,
    spec.QueueDeclare,
    spec.QueueBind,
    spec.QueueUnbind,
    spec.QueueDelete,
    spec.QueuePurge,
    spec.ExchangeDeclare,
    spec.ExchangeDelete,
    spec.ExchangeBind,
    spec.ExchangeUnbind,
    spec.BasicPublish,
    spec.BasicConsume,
    spec.BasicGet,
    spec.BasicReject,
    spec.BasicRecover,
    spec.BasicRecoverAsync,
    spec.BasicQos,
    spec.ConfirmSelect,
    spec.TxSelect,
    spec.TxCommit,
    spec.TxRollback,
)


@lru_cache(maxsize=1 << 14)
def decoded(payload: bytes) -> spec.Method:
    return decode_method(int.from_bytes(payload[:4], "big"), payload, 4, len(payload))


@dataclass
class Observer:
    """One connection's output so far.

    `close` is what the broker closed the connection with, `closes` what it closed channels with, as (channel, code).
    """

    frame_max: int = 131_072
    close: spec.ConnectionClose | None = None
    closes: list[tuple[int, int]] = field(default_factory=list)
    methods: list[tuple[int, spec.Method]] = field(default_factory=list)
    header_refused: bool = False
    _closed: set[int] = field(default_factory=set)
    _rest: bytes = b""
    _content: int = 0
    _wanted: int = -1

    def observe(self, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
        """Take what was sent; each piece of output must end with a whole frame."""
        data = b"".join(pieces)
        if data == b"AMQP\x00\x00\x09\x01":
            self.header_refused = True
            return
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            stop = at + 7 + size
            assert stop < len(data), "a frame was cut"
            assert data[stop] == 0xCE, "a frame does not end in 206"
            assert size <= self.frame_max - 8, "a frame is larger than frame_max"
            self._on_frame(data[at], int.from_bytes(data[at + 1 : at + 3], "big"), data, at + 7, stop)
            at = stop + 1
        assert self._wanted == -1, "a content was not finished"

    def _on_frame(self, kind: int, channel: int, data: bytes, start: int, stop: int) -> None:
        if kind == 8:
            assert (channel, stop - start) == (0, 0), "a heartbeat with something in it"
            return
        if kind == 1:
            self._on_method(channel, decoded(data[start:stop]))
            return
        assert channel == self._content, "content on another channel"
        if kind == 2:
            assert self._wanted == -2, "a header without its method"
            assert stop - start >= HEADER_MIN_SIZE
            check_properties(data[start - 7 : stop + 1], stop - start)
            self._wanted = int.from_bytes(data[start + 4 : start + 12], "big") or -1
            return
        assert kind == 3, f"a frame of kind {kind}"
        assert self._wanted >= stop - start > 0, "more body than announced"
        self._wanted = self._wanted - (stop - start) or -1

    def _on_method(self, channel: int, method: spec.Method) -> None:
        assert self._wanted == -1, f"{method.NAME} within a content"
        assert not isinstance(method, CLIENT_ONLY), f"{method.NAME} is the client's to send"
        assert (channel == 0) == method.NAME.startswith("connection."), f"{method.NAME} on channel {channel}"
        self.methods.append((channel, method))
        if self.close is not None:
            assert isinstance(method, spec.ConnectionCloseOk), f"{method.NAME} after connection.close"
        if channel in self._closed:
            assert isinstance(method, spec.ChannelCloseOk | spec.ChannelOpenOk), f"{method.NAME} after channel.close"
        if isinstance(method, spec.ChannelOpenOk):
            self._closed.discard(channel)
        elif isinstance(method, spec.ChannelClose):
            assert method.reply_code in SOFT, f"channel closed with {method.reply_code} {method.reply_text}"
            self._closed.add(channel)
            self.closes.append((channel, method.reply_code))
        elif isinstance(method, spec.ConnectionClose):
            assert method.reply_code in HARD or (method.reply_code == 403 and "Login" in method.reply_text), method
            self.close = method
        elif method.CONTENT:
            self._content, self._wanted = channel, -2
