"""A message received frame by frame."""

from dataclasses import dataclass

from leveret.errors import FrameError, UnexpectedFrame
from leveret.wire.properties import Properties, decode_properties
from leveret.wire.spec import BasicDeliver, BasicReturn

# RabbitMQ's limit.
BODY_MAX = 512 << 20
PROPERTIES_AT = 12


@dataclass(slots=True)
class Delivery:
    """A delivered message; `properties` are encoded, from the flags on."""

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes

    def decoded(self) -> Properties:
        return decode_properties(self.properties, 0, len(self.properties))


class Incoming:
    """The frames of one message so far."""

    __slots__ = ("_left", "_parts", "_properties", "method")

    def __init__(self, method: BasicDeliver | BasicReturn) -> None:
        self.method = method
        self._properties: bytes | None = None
        self._parts: list[bytes] = []
        self._left = 0

    def header(self, payload: bytes) -> bool:
        """Add the header; whether the message is complete."""
        if self._properties is not None or len(payload) < PROPERTIES_AT + 2:
            raise UnexpectedFrame("unexpected header frame")
        self._left = int.from_bytes(payload[4:PROPERTIES_AT], "big")
        if self._left > BODY_MAX:
            raise FrameError(f"message of {self._left} bytes, at most {BODY_MAX} are allowed")
        self._properties = payload[PROPERTIES_AT:]
        return not self._left

    def part(self, payload: bytes) -> bool:
        """Add a body frame; whether the message is complete."""
        if self._properties is None or len(payload) > self._left:
            raise UnexpectedFrame("unexpected body frame")
        self._parts.append(payload)
        self._left -= len(payload)
        return not self._left

    def delivery(self) -> Delivery:
        method = self.method
        assert isinstance(method, BasicDeliver)
        assert self._properties is not None
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return Delivery(method.delivery_tag, method.redelivered, method.exchange, method.routing_key, self._properties, body)
