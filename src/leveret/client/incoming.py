"""A message on its way in, frame by frame."""

from dataclasses import dataclass

from leveret.errors import FrameError, UnexpectedFrame
from leveret.wire.properties import Properties, decode_properties
from leveret.wire.spec import BasicDeliver, BasicReturn

# Brokers allow no more; RabbitMQ's own limit.
BODY_MAX = 512 << 20
PROPERTIES_AT = 12


@dataclass(slots=True)
class Delivery:
    """A message as it came: its properties are the octets of the header, from the flags on."""

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes

    def decoded(self) -> Properties:
        return decode_properties(self.properties, 0, len(self.properties))


class Incoming:
    """The parts of one message so far."""

    __slots__ = ("_left", "_parts", "_properties", "method")

    def __init__(self, method: BasicDeliver | BasicReturn) -> None:
        self.method = method
        self._properties: bytes | None = None
        self._parts: list[bytes] = []
        self._left = 0

    def header(self, payload: bytes) -> bool:
        """Take the header; whether the message is whole."""
        if self._properties is not None or len(payload) < PROPERTIES_AT + 2:
            raise UnexpectedFrame("a header where none belongs")
        self._left = int.from_bytes(payload[4:PROPERTIES_AT], "big")
        if self._left > BODY_MAX:
            raise FrameError(f"a message of {self._left} bytes, {BODY_MAX} are possible")
        self._properties = payload[PROPERTIES_AT:]
        return not self._left

    def part(self, payload: bytes) -> bool:
        """Take a piece of the body; whether the message is whole."""
        if self._properties is None or len(payload) > self._left:
            raise UnexpectedFrame("a body where none belongs")
        self._parts.append(payload)
        self._left -= len(payload)
        return not self._left

    def delivery(self) -> Delivery:
        method = self.method
        assert isinstance(method, BasicDeliver)
        assert self._properties is not None
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return Delivery(method.delivery_tag, method.redelivered, method.exchange, method.routing_key, self._properties, body)
